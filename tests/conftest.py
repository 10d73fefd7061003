"""How tests are shared out among worker processes."""

from __future__ import annotations

from typing import Any


def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """All browser tests go to one worker, one after the other: a second browser would only slow down the first."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if "tests/e2e/" in nodeid else nodeid

    return OneBrowser(config, log)
