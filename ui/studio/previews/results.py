"""What a report says in a line; each is read once, however often the line is drawn.

- ``result_of``  the line of a stored report, and the name of the best where it compares several
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from engine.errors import SylvaError
from engine.store import Artifact, Store
from engine.values import Report
from ui.studio.previews.measures import headline
from ui.studio.previews.parts import opened


class ReportLine(NamedTuple):
    """What a report says, in brief."""

    line: str = ""
    """``AUC 0.925``; nothing for a report that has no such figure."""
    best: str = ""
    """Of a comparison, the one that came first."""


def result_of(output: Artifact, store: Store) -> ReportLine:
    """What the report says; nothing if it was cleaned away or is damaged."""
    try:
        return _read(output.digest, output, store)
    except (SylvaError, OSError, ValueError, TypeError, KeyError):
        return ReportLine()


@st.cache_data(max_entries=2000, show_spinner=False)
def _read(digest: str, _output: Artifact, _store: Store) -> ReportLine:
    report: Report = opened(_output, _store)
    what, figure = headline(report)
    if report.kind != "comparison":
        return ReportLine(f"{what} {figure}".strip())
    return ReportLine(f"{figure}: {what}" if figure else "", what)  # the figure first: a narrow node cuts the end
