"""Rules for the whole suite: which tests run where, how thoroughly, and in which process.

- Tests marked ``slow`` are left out of `make test`. `make faults` runs them, everything in
  ``tests/faults`` and every property test.
- Property tests (hypothesis) take their settings from a profile. ``ci``, the default, tries few
  examples, always the same ones; ``thorough``, which `make faults` uses, tries many new ones. So
  write ``@given(...)`` alone, without ``@settings``.
- ``pytest tests/test_messages.py --update-messages`` writes ``tests/messages.txt`` again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
# The packages are installed without bytecode. If none could be saved, each of the hundreds of
# processes that tests start would compile scikit-learn again, which takes seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes depends on the load of the machine, so time never decides about a test.
UNTIMED: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("ci", max_examples=25, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=300, **UNTIMED)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption(
        "--update-messages", action="store_true", help="write tests/messages.txt again"
    )


BROWSER = "tests/e2e/"
LONG = (
    BROWSER,
    "tests/test_export_python.py",
    "tests/test_command_line.py",
    "tests/compatibility/",
    "tests/faults/",
    "tests/ui/studio/builder/",
    "tests/ui/studio/previews/",
    "tests/ui/rest/",
    "tests/nodes/",
    "tests/deepforest/",
)
"""What takes long comes first, so that all workers end at about the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of tests/faults for `make faults`, and put those of ``LONG`` first."""
    for item in items:
        if item.path.is_relative_to(TESTS / "faults"):
            item.add_marker("faults")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    turns = (turn for turn, start in enumerate(LONG) if item.nodeid.startswith(start))
    return next(turns, len(LONG))


@pytest.hookimpl(optionalhook=True)  # without xdist there is no such hook
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Give each worker whole files, in the order of the collection, and one worker the browser.

    The tests of a file share fixtures that take seconds to make. A second browser would only slow
    down the first.
    """
    from xdist.scheduler import LoadScopeScheduling

    class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return BROWSER if nodeid.startswith(BROWSER) else nodeid.partition("::")[0]

    # Otherwise the scopes with most tests would come first, and these are not the longest.
    config.option.loadscopereorder = False
    return WholeFiles(config, log)
