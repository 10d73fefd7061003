"""Words and colours of the Runs page.

- ``state_label``  a state with its mark
- ``shortened``    text cut to a length
- ``result_text``  the result of a run
- ``TONES``        the colours of each state; they are readable in both themes
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.run_summaries import RunSummary
from engine.text import readable
from ui.cli.progress import MARKS
from ui.studio.previews.reports import headline

Badge = Literal["red", "orange", "blue", "green", "violet", "gray"]


class Tone(NamedTuple):
    """The colours of a state: for bars and borders, behind dark text, and of Streamlit's badge."""

    strong: str
    ground: str
    badge: Badge


TONES = {
    "starting": Tone("#64748b", "#e2e8f0", "gray"),
    "queued": Tone("#64748b", "#e2e8f0", "gray"),
    "running": Tone("#b45309", "#fef3c7", "orange"),
    "done": Tone("#15803d", "#dcfce7", "green"),
    "cached": Tone("#0e7490", "#cffafe", "blue"),
    "reused": Tone("#0e7490", "#cffafe", "blue"),
    "failed": Tone("#c53030", "#fee2e2", "red"),
    "skipped": Tone("#a16207", "#f5f5f4", "gray"),
    "cancelled": Tone("#7c3aed", "#ede9fe", "violet"),
    "interrupted": Tone("#7c3aed", "#ede9fe", "violet"),
}
OTHER_TONE = Tone("#94a3b8", "#f1f5f9", "gray")
INK = "#1f2937"
"""Text on the ground of a tone."""


def tone(state: str) -> Tone:
    """Return the colours of a state, also of one that only a newer version knows."""
    return TONES.get(state, OTHER_TONE)


def state_label(state: str) -> str:
    """Return a state with its mark: ``✓ done``."""
    return f"{MARKS.get(state, '·')} {state}"


def result_text(run: RunSummary) -> str:
    """Return the result of a run, such as ``Accuracy: 97.3%``; empty while it is live."""
    what, figure = headline(run.report) if run.report else ("", "")
    return ": ".join(part for part in (what, figure) if part)


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters; the end of a longer one becomes ``…``."""
    text = readable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
