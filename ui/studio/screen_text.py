"""Prepare text for the screen, and the colours of states.

- ``plain``        escapes text from users where Streamlit reads Markdown
- ``time_of_day``  formats a time, as short as possible
- ``node_title``   what a node is called on screen
- ``shortened``    text cut to a length
- ``state_label``  the state of a run or a node with its mark
- ``tone``         the colours of a state; they are readable in both themes
"""

from __future__ import annotations

import re
import time
from typing import Literal, NamedTuple

from engine.errors import Problem
from engine.node_types import NodeTypes
from engine.pipeline import Node, Pipeline
from engine.text import readable
from nodes.data import samples
from ui.cli.progress import MARKS

# Empty small text. It separates characters that Markdown would read as a link, emoji or arrow.
_SEPARATOR = ":small[]"
# Characters that change the direction of text: a name must not reverse the sentence around it.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SPECIAL = re.compile(r"([\\`*\[\]<>$~|&^])")
_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_OPENING_COLON = re.compile(r":(?=//|[\w+/\\-]+:)")
_COLON = re.compile(r":(?=\S)")
_LINK = re.compile(r"(?i)(www)(?=\.)|(?=@)")
_ARROW = re.compile(r"(?<!\S)(?:\\?[<>~=-]){2,}(?!\S)")
_FIRST_SPECIAL = re.compile(r"^([#+=-])")
_FIRST_NUMBER = re.compile(r"^(\d+)([.)])")


def plain(text: str) -> str:
    """Return the text as Markdown that shows every character, in one line.

    Text without special characters stays as it is.
    """
    text = _SPECIAL.sub(r"\\\1", " ".join(_DIRECTION.sub("", text).split()))
    for pattern, replacement in (
        (_LOOSE_UNDERSCORE, r"\\_"),
        (_COLON, r"\\:"),
        (_OPENING_COLON, f":{_SEPARATOR}"),
        (_LINK, rf"\1{_SEPARATOR}"),
        (_FIRST_SPECIAL, r"\\\1"),
        (_FIRST_NUMBER, r"\1\\\2"),
    ):
        text = pattern.sub(replacement, text)
    return _ARROW.sub(lambda arrow: _SEPARATOR.join(re.findall(r"\\?.", arrow[0])), text)


def time_of_day(moment: float) -> str:
    """Return the local time, with the day if it is not today."""
    local = time.localtime(moment)
    is_today = local[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%d %b %H:%M", local)


def node_title(node: Node, catalog: NodeTypes) -> str:
    """Return the title of a node: its label, else the title of its type.

    The type may not be installed; then its name is all that is known.
    """
    node_type = catalog.get(node.type)
    return node.label or (node_type.title if node_type else node.type)


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters; the end of a longer one becomes ``…``."""
    text = readable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# States

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


def problem_text(problem: Problem, pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return a problem in the words of the screen: the title of its node, and what is wrong."""
    node = pipeline.nodes.get(problem.node or "")
    if node is None:
        return str(problem)
    return f"{node_title(node, catalog)}: {problem.message}"


def source_title(source: str) -> str:
    """Return the name of a file or of a sample, as a person would write it."""
    title = samples.source_title(source)
    return title.rpartition("/")[2] if title == source else title
