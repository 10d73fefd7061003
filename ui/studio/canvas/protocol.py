"""What Python and the canvas tell each other.

- ``payload``       everything the canvas is given with a rerun
- ``take``          the document after an edit the canvas sent, checked like any other input
- ``CanvasResult``, ``NodeView``, ``Reveal``, ``RunRequest``  the values in between

An edit is ``{instance, pipeline, revision, epoch, document}``. ``instance`` names one life of the canvas in one
browser tab, ``revision`` counts its edits. Streamlit keeps the last edit and gives it again with every rerun, so taking
it twice must change nothing: what the canvas owns is simply set, and a node's parameters are set only by a revision
that is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from engine.node_types import Category
from engine.pipeline import Node, Pipeline, PortRef, changed
from engine.problems import BadStructure, Problem
from engine.text import shown
from engine.validation import Types, connection_rules

State = Literal["idle", "queued", "running", "done", "cached", "failed", "skipped"]
STATES: frozenset[str] = frozenset(get_args(State))
OWNED_BY_PYTHON = ("params", "label", "settings")
SWEEP = "sweep"


class NodeView(TypedDict, total=False):
    """A node's run state: ``progress`` from 0 to 1, ``text`` what it does now or why, ``seconds`` how long it took."""

    state: State
    progress: float | None
    text: str
    seconds: float | None


class Reveal(NamedTuple):
    """Select ``node`` and bring it into view, once for each new ``token``."""

    node: str
    token: int


class RunRequest(NamedTuple):
    """The user chose to run up to a node, from it on, or everything; for everything there is no node (``""``)."""

    node: str
    direction: Literal["to", "from", "all"]


class Revision(NamedTuple):
    """The last edit that Python has in its document."""

    instance: str = ""
    revision: int = 0


@dataclass(frozen=True)
class CanvasResult:
    """What came back from the canvas."""

    document: Pipeline
    """The document with the user's edits; the very one that was given if there are none."""
    selection: tuple[str, ...] = ()
    """The selected nodes that are in the document."""
    port: PortRef | None = None
    """The output that was clicked just now, to look at what it gave."""
    run: RunRequest | None = None
    """Run to here, from here or everything, asked for just now."""
    revision: int = 0
    restored: frozenset[str] = frozenset()
    """Nodes whose parameters the canvas has just set (by undo, redo or paste): a form has to show them anew."""
    refused: Problem | None = None
    """What was wrong with what the browser sent; the document is then the one that was given."""

    def edited(self, document: Pipeline) -> bool:
        """Whether the user's edits make it another document than this one."""
        return self.document != document


# To the canvas


def payload(
    document: Pipeline,
    catalogue: Types,
    *,
    pipeline: str,
    epoch: int,
    taken: Revision,
    problems: Iterable[Problem],
    states: Mapping[str, NodeView],
    reveal: Reveal | None,
    height: int | str,
    refused: Problem | None = None,
) -> dict[str, Any]:
    """Everything the canvas is given with a rerun, as plain data."""
    return {
        "pipeline": pipeline,
        "epoch": epoch,
        "taken": taken._asdict(),
        "document": _document_data(document),
        "rules": connection_rules(catalogue),
        "types": {
            name: {"title": found.title, "category": found.category, "summary": found.summary}
            for name, found in catalogue.items()
        },
        "categories": list(get_args(Category)),
        "problems": [_problem_data(problem) for problem in problems],
        "states": {node: _state_data(view) for node, view in states.items() if node in document.nodes},
        "reveal": reveal._asdict() if reveal else None,
        "height": height,
        "refused": str(refused) if refused else None,
    }


def _document_data(document: Pipeline) -> dict[str, Any]:
    parts = document.model_dump(mode="json", by_alias=True, include={"edges", "layout", "notes"})
    return {**parts, "nodes": {name: _node_data(node) for name, node in document.nodes.items()}}


def _node_data(node: Node) -> dict[str, Any]:
    """A node for the canvas. Its sweep travels among the settings, which the canvas keeps and never looks into."""
    data = node.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if node.sweep is not None:
        data["settings"] = {**data.get("settings", {}), SWEEP: data.pop("sweep")}
    return data


def _problem_data(problem: Problem) -> dict[str, Any]:
    """A problem for the badge of its node, which need not be named again."""
    data = problem.to_dict()
    text = problem.message[:1].upper() + problem.message[1:]
    if problem.field and not problem.edge:
        text = f"{problem.field_word.capitalize()} {shown(problem.field)}: {problem.message}"
    return {"node": data["node"], "edge": data["edge"], "text": text}


def _state_data(view: NodeView) -> dict[str, Any]:
    state = view.get("state", "idle")
    progress = view.get("progress")
    return {
        "state": state if state in STATES else "idle",
        "progress": None if progress is None else min(max(float(progress), 0.0), 1.0),
        "text": view.get("text", ""),
        "seconds": view.get("seconds"),
    }


# From the canvas


class Edited(NamedTuple):
    """A document after an edit, the edit it has now, and the nodes whose parameters the edit set."""

    document: Pipeline
    taken: Revision
    restored: frozenset[str] = frozenset()


def take(document: Pipeline, edit: object, *, pipeline: str, epoch: int, taken: Revision) -> Edited:
    """The document after ``edit``; raises the ``Problem`` if it is none.

    An edit of another pipeline or epoch is left: the canvas makes it again upon the document it gets with this rerun.
    """
    if edit is None:
        return Edited(document, taken)
    if not isinstance(edit, dict) or not isinstance(edit.get("document"), dict):
        raise BadStructure("the canvas sent something that is not an edit; reload the page")
    if (edit.get("pipeline"), edit.get("epoch")) != (pipeline, epoch):
        return Edited(document, taken)
    now = Revision(str(edit.get("instance", "")), _whole_number(edit.get("revision")))
    since = taken.revision if taken.instance == now.instance else 0
    sent = edit["document"]
    nodes, restored = _nodes(document, sent.get("nodes"), since)
    parts = {name: sent.get(name) for name in ("edges", "layout", "notes")}
    after = changed(document, nodes=nodes, **parts)
    return Edited(document if after == document else after, now, restored)


def _nodes(document: Pipeline, sent: object, since: int) -> tuple[dict[str, Any], frozenset[str]]:
    """The nodes the canvas sent: what Python has of them stays, unless the edit sets it and is new."""
    if not isinstance(sent, dict) or not all(isinstance(node, dict) for node in sent.values()):
        raise BadStructure("the nodes that the canvas sent cannot be read; reload the page", field="nodes")
    nodes: dict[str, Any] = {}
    restored = []
    for name, node in sent.items():
        own = document.nodes.get(name)
        given = {field: node[field] for field in OWNED_BY_PYTHON if field in node}
        is_new = own is None or own.type != node.get("type")
        if is_new or ("since" in node and _whole_number(node["since"]) > since):
            nodes[name] = {"type": node.get("type"), **_content(given)}
            restored.append(name)
        else:
            nodes[name] = own
    return nodes, frozenset(restored)


def _content(given: dict[str, Any]) -> dict[str, Any]:
    """What Python owns of a node as it has it: the sweep beside the settings."""
    settings = given.get("settings")
    if not isinstance(settings, dict) or SWEEP not in settings:
        return given
    own = {name: value for name, value in settings.items() if name != SWEEP}
    return {**given, "settings": own, "sweep": settings[SWEEP]}


def _whole_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise BadStructure("the canvas sent an edit without a revision; reload the page")
    return int(value)


def selection_in(document: Pipeline, sent: object) -> tuple[str, ...]:
    """The nodes sent as selected that are in the document."""
    names = sent if isinstance(sent, list) else []
    return tuple(name for name in names if isinstance(name, str) and name in document.nodes)


def port_in(document: Pipeline, sent: object) -> PortRef | None:
    """The output sent as clicked, if its node is in the document."""
    match sent:
        case {"node": str() as node, "port": str() as port} if node in document.nodes:
            return PortRef(node, port)
    return None


def run_in(document: Pipeline, sent: object) -> RunRequest | None:
    """The run asked for, if it is of everything or its node is in the document."""
    match sent:
        case {"node": "", "direction": "all"}:
            return RunRequest("", "all")
        case {"node": str() as node, "direction": "to" | "from" as direction} if node in document.nodes:
            return RunRequest(node, direction)
    return None
