"""What all tests of the studio's pages share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

import pytest

MAIN = sys.modules["__main__"]


@pytest.fixture(scope="session", autouse=True)
def one_search_for_components() -> Iterator[None]:
    """Streamlit searches all packages for components when an ``AppTest`` starts; once is enough."""
    scanner = pytest.importorskip(
        "streamlit.components.v2.manifest_scanner", reason="streamlit is not installed"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "scan_component_manifests", cache(scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def main_module() -> Iterator[None]:
    """Put the main module back: a page under test replaces it, and new processes would run it."""
    yield
    sys.modules["__main__"] = MAIN
