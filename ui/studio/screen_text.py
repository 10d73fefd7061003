"""Prepare text for the screen, and the colours of states.

- ``plain``        escapes text from users where Streamlit reads Markdown
- ``time_of_day``  formats a time, as short as possible
- ``node_title``, ``field_title``, ``source_title``  what nodes, fields and sources are called
- ``problem_text``, ``problem_in_form``  a problem of a pipeline in the words of the screen
- ``shortened``    text cut to a length
- ``state_label``  the state of a run or a node with its mark
- ``tone``         the colours of a state; they are readable in both themes
"""

from __future__ import annotations

import re
import time
from collections.abc import Sized
from typing import Literal, NamedTuple

from engine.errors import FieldName, Message, Name, NodeName, PortName, Problem, Side, TypeName
from engine.node_types import NodeType, NodeTypes
from engine.pipeline import Node, Pipeline, PortRef
from engine.sweeps import param_title
from engine.text import counted, readable
from nodes.data.samples import source_title as source_title
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


def field_title(field: str, node_type: NodeType | None) -> str:
    """Return the title of a parameter in the form: ``Learners 1: Trees`` for ``learners.0.trees``.

    A setting of the engine and a sweep have titles too. A name that no form has stays as it is.
    """
    steps = field.split(".")
    match steps:
        case ["settings", name]:
            return name.replace("_", " ").capitalize()
        case ["sweep"]:
            return "Sweep"
        case ["sweep", "grid" | "random", *param] if param:
            return f"Sweep: {field_title('.'.join(param), node_type)}"
    # Each number belongs to the title before it: the second learner is "Learners 2".
    titles: list[str] = []
    for index, step in enumerate(steps):
        if step.isdecimal() and titles:
            titles[-1] += f" {int(step) + 1}"
        else:
            path = ".".join(steps[: index + 1])
            titles.append((node_type and param_title(path, node_type)) or _quoted(step))
    return ": ".join(titles)


def shortened(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters; the end of a longer one becomes ``…``."""
    text = readable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# Problems


def problem_text(
    problem: Problem, pipeline: Pipeline, catalog: NodeTypes, *, with_node: bool = True
) -> str:
    """Return a problem as a sentence: ``Deep forest, Training rows: it is not connected; …``.

    It has the labels of nodes and the titles of ports and fields, where the command line has the
    names of the document. Beside its node or edge, the text need not name it: ``with_node=False``.
    """
    part = _part_title(problem, pipeline, catalog)
    place = _place(problem, part, pipeline, catalog) if with_node else part
    message = _message(problem, pipeline, catalog)
    # A label stays as the user has written it.
    text = f"{place}: {message}" if place else message[:1].upper() + message[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def problem_in_form(problem: Problem, pipeline: Pipeline, catalog: NodeTypes) -> Problem:
    """Return a problem for the form of its node, with its message in the words of the screen.

    A port is not a field of the form: its title becomes a part of the message.
    """
    message, field = _message(problem, pipeline, catalog), problem.field
    if problem.edge or problem.field_word != "field":
        message = problem_text(problem, pipeline, catalog, with_node=problem.edge is not None)
        field = None
    return type(problem)(message, node=problem.node, field=field, edge=problem.edge)


def _message(problem: Problem, pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return what is wrong and how to fix it, with titles where the message has names."""
    if isinstance(problem.message, Message):
        return problem.message.written(
            lambda name: _quoted(_title(name, pipeline, catalog)),
        )
    return problem.message


def _place(problem: Problem, part: str, pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return where a problem is: an edge, or a node and a part of it."""
    if problem.edge is not None:
        source, target = map(PortRef.parse, problem.edge)
        ends = PortName(*source, "output", full=True), PortName(*target, "input", full=True)
        return " → ".join(_title(end, pipeline, catalog) for end in ends)
    node = _title(NodeName(problem.node), pipeline, catalog) if problem.node else ""
    return ", ".join(each for each in (node, part) if each)


def _part_title(problem: Problem, pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return the title of the field or port of a problem; empty if it is the whole node."""
    node, field = pipeline.nodes.get(problem.node or ""), problem.field
    # A type that is not installed and a position are problems of the whole node.
    if field is None or problem.edge or field in ("type", "layout"):
        return ""
    node_type = catalog.get(node.type) if node else None
    match problem.field_word:
        case "input" | "output" as side:
            return _port_title(field, side, node_type)
    if node:
        return field_title(field, node_type)
    return _group_title(field, pipeline) or _quoted(field)


def _quoted(title: str) -> str:
    """Return a title in quotes, once."""
    return title if title.startswith("“") else f"“{title}”"


def _title(name: Name, pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return the title of what a message names; what has none keeps its name, in quotes."""
    if isinstance(name, TypeName):
        return catalog[name.type].title if name.type in catalog else _quoted(name.type)
    node = pipeline.nodes.get(name.node)
    node_type = catalog.get(node.type) if node else None
    match name:
        case FieldName(_, field):
            return field_title(field, node_type)
        case PortName(_, port, side, full=False):
            return _port_title(port, side, node_type)
    title = node_title(node, catalog) if node else _quoted(name.node)
    if isinstance(name, PortName):
        return f"{title}: {_port_title(name.port, name.side, node_type)}"
    return title


def _port_title(name: str, side: Side, node_type: NodeType | None) -> str:
    """Return the title of a port; one that has none, or does not exist, keeps its name."""
    port = None
    if node_type:
        port = node_type.input(name) if side == "input" else node_type.output(name)
    return port.title if port and port.title else _quoted(name)


def _group_title(field: str, pipeline: Pipeline) -> str:
    """Return the title of a group that a field such as ``groups.0.nodes`` belongs to."""
    match field.split("."):
        case ["groups", index, *_] if index.isdecimal() and int(index) < len(pipeline.groups):
            return f"Group “{pipeline.groups[int(index)].title}”"
    return ""


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


def task_words(classes: Sized) -> str:
    """Return what a model predicts, by its classes: ``3 classes``, or ``predicts a number``."""
    return counted(len(classes), "class", "classes") if classes else "predicts a number"
