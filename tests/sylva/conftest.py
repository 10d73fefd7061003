"""The saved models that are loaded from Python."""

from tests.nodes.models.conftest import *  # noqa: F403
