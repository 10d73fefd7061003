"""The saved models with which the commands are tested."""

from tests.nodes.models.conftest import *  # noqa: F403
