"""The saved models with which the service is tested."""

from tests.nodes.models.conftest import *  # noqa: F403
