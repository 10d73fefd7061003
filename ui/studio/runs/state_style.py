"""Words and colours of the Runs page.

- ``marked``   a state with its mark
- ``shortened``  text cut where it would not fit
- ``TONES``    the colours of each state; every node brings its own ground, so they read in both themes
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.text import readable
from ui.cli.progress import MARKS

Badge = Literal["red", "orange", "blue", "green", "violet", "gray"]


class Tone(NamedTuple):
    """How a state looks: strong for bars and borders, ground under dark text, badge in Streamlit's words."""

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
    """The colours of a state, also of one that a newer version may know."""
    return TONES.get(state, OTHER_TONE)


def marked(state: str) -> str:
    """A state with its mark: ``✓ done``."""
    return f"{MARKS.get(state, '·')} {state}"


def shortened(text: str, most: int) -> str:
    """``text`` cut where it would not fit."""
    text = readable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
