"""Rules for the whole suite: which tests run where, how thoroughly, and in which process.

- Tests marked ``slow`` are left out of `make test`. `make faults` runs them, everything in
  ``tests/faults`` and every property test.
- Property tests (hypothesis) take their settings from a profile. ``ci``, the default, tries few
  examples, always the same ones; ``thorough``, which `make faults` uses, tries many new ones. So write
  ``@given(...)`` alone, without ``@settings``.
- ``pytest tests/test_messages.py --update-messages`` writes ``tests/messages.txt`` anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
# How long an example takes depends on the load of the machine, so time never decides about a test.
UNTIMED: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("ci", max_examples=25, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=300, **UNTIMED)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--update-messages", action="store_true", help="write tests/messages.txt anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in tests/faults, so that `make faults` can choose it beside what is slow elsewhere."""
    for item in items:
        if item.path.is_relative_to(TESTS / "faults"):
            item.add_marker("faults")


TOGETHER = (
    "tests/ui/studio/previews/test_previews.py",
    "tests/ui/rest/test_service.py",
    "tests/nodes/models/test_registry.py",
)
"""Files whose tests share something that takes seconds to make: two workers would make it twice."""


@pytest.hookimpl(optionalhook=True)  # without xdist there is no such hook
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Give all browser tests to one worker, one after the other: a second browser would only slow down the first."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if "tests/e2e/" in nodeid:
                return "browser"
            file = nodeid.partition("::")[0]
            return file if file in TOGETHER else nodeid

    return OneBrowser(config, log)
