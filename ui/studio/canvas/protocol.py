"""The data that Python and the canvas in the browser exchange.

- ``payload``     everything that Python sends to the canvas with a rerun
- ``apply_edit``  the pipeline after an edit that the canvas sent, checked like any other input
- ``NodeView``, ``Reveal``, ``RunRequest``  the values in between

An edit is ``{instance, pipeline, revision, epoch, document}``. ``instance`` identifies one canvas
in one browser tab, ``revision`` counts its edits, ``epoch`` the changes that Python made to what
the canvas owns. Streamlit sends the last edit again with every rerun, so applying it twice must
change nothing: nodes, edges, layout, notes and groups are set as they are, the contents of a node
(parameters, label, settings, bypass) only by a new revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from engine.errors import BadStructure, Problem
from engine.node_types import Category, NodeType, NodeTypes
from engine.pipeline import Node, Pipeline, PortRef
from engine.pipeline_file import with_values
from engine.validation import connection_rules
from ui.studio.screen_text import problem_text

State = Literal["idle", "queued", "running", "done", "cached", "failed", "skipped"]
STATES: frozenset[str] = frozenset(get_args(State))
CONTENTS = ("params", "label", "settings", "bypass")
"""What a node has besides its type: Python sets it, and so do undo, paste and rename."""

PARTS = ("edges", "layout", "notes", "groups")
"""What the canvas sets of a pipeline besides its nodes."""

SWEEP = "sweep"
MAX_IMPORT = 5_000_000
"""Characters of a dropped file; the canvas refuses larger files with a notice."""


class NodeView(TypedDict, total=False):
    """The run state of a node, as the canvas shows it.

    ``progress`` is from 0 to 1, ``text`` is what the node does, why it failed, or what is set
    while it has no state; ``seconds`` is how long it ran. A finished node shows its ``result``, and
    ``headline`` in large figures if its type has room for one (see ``has_headline``).
    """

    state: State
    progress: float | None
    text: str
    seconds: float | None
    result: str
    headline: str


class Reveal(NamedTuple):
    """A request to select ``node`` and scroll to it, once for each new ``token``."""

    node: str
    token: int


class RunRequest(NamedTuple):
    """The user asked to run up to a node, from a node on, or all nodes (``node`` is then empty)."""

    node: str
    direction: Literal["to", "from", "all"]


class Revision(NamedTuple):
    """The last edit that Python has applied."""

    instance: str = ""
    revision: int = 0


# To the canvas


def payload(
    pipeline: Pipeline,
    catalog: NodeTypes,
    *,
    pipeline_id: str,
    epoch: int,
    taken: Revision,
    problems: Iterable[Problem],
    states: Mapping[str, NodeView],
    reveal: Reveal | None,
    height: str,
    refused: Problem | None = None,
    show_panel: int | None = None,
    read_only: bool = False,
    selected: str | None = None,
) -> dict[str, Any]:
    """Return everything that the canvas gets with a rerun, as plain data.

    Parameters
    ----------
    pipeline_id, epoch : what an edit must name to be applied
    taken : the last edit that was applied; the canvas drops it from its queue
    reveal : a node to select and scroll to
    refused : what was wrong with the last edit
    show_panel : a token; the canvas opens the node panel once for each new one
    read_only : draw the pipeline without a palette, and allow no edits
    selected : the node to select on a read-only canvas, whenever it is another one
    """
    return {
        "pipeline": pipeline_id,
        "epoch": epoch,
        "taken": taken._asdict(),
        "document": _pipeline_data(pipeline),
        # The browser checks a connection by the same rules while the user draws it.
        "rules": connection_rules(catalog),
        "types": {
            name: {
                "title": node_type.title,
                "category": node_type.category,
                "summary": node_type.summary,
                "headline": has_headline(node_type),
            }
            for name, node_type in catalog.items()
        },
        "categories": list(get_args(Category)),
        "problems": [_problem_data(problem, pipeline, catalog) for problem in problems],
        "states": {
            node: _state_data(view) for node, view in states.items() if node in pipeline.nodes
        },
        "reveal": reveal._asdict() if reveal else None,
        "height": height,
        "refused": problem_text(refused, pipeline, catalog) if refused else None,
        "show_panel": show_panel,
        "read_only": read_only,
        "selected": selected,
    }


def has_headline(node_type: NodeType) -> bool:
    """Return whether nodes of this type have room for a figure: those that evaluate."""
    is_report = any(port.type == "report" for port in node_type.outputs)
    return node_type.category == "Evaluate" and is_report


def _pipeline_data(pipeline: Pipeline) -> dict[str, Any]:
    """Return the part of a pipeline that the canvas draws and edits."""
    parts = pipeline.model_dump(mode="json", by_alias=True, include={*PARTS})
    return {**parts, "nodes": {name: _node_data(node) for name, node in pipeline.nodes.items()}}


def _node_data(node: Node) -> dict[str, Any]:
    """Return a node for the canvas.

    Its sweep is sent inside the settings: the canvas does not read them, but copies them with the
    node.
    """
    data = node.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # The canvas must return the sweep when it pastes or restores the node.
    if node.sweep is not None:
        data["settings"] = {**data.get("settings", {}), SWEEP: data.pop("sweep")}
    return data


def _problem_data(problem: Problem, pipeline: Pipeline, catalog: NodeTypes) -> dict[str, Any]:
    """Return a problem for the badge of its node; the text does not repeat the node."""
    data = problem.to_dict()
    text = problem_text(problem, pipeline, catalog, with_node=False)
    return {"node": data["node"], "edge": data["edge"], "text": text}


def _state_data(view: NodeView) -> dict[str, Any]:
    """Return the state of a node as plain data; an unknown state becomes idle."""
    state = view.get("state", "idle")
    # A plug-in may report any number as its progress.
    progress = view.get("progress")
    return {
        "state": state if state in STATES else "idle",
        "progress": None if progress is None else min(max(float(progress), 0.0), 1.0),
        "text": view.get("text", ""),
        "seconds": view.get("seconds"),
        "result": view.get("result", ""),
        "headline": view.get("headline", ""),
    }


# From the canvas


class Edited(NamedTuple):
    """A pipeline after an edit.

    ``taken`` is the edit that was applied, ``restored`` the nodes whose contents it has set,
    ``refused`` why the last edit was not applied.
    """

    pipeline: Pipeline
    taken: Revision
    restored: frozenset[str] = frozenset()
    refused: Problem | None = None


def apply_edit(
    pipeline: Pipeline, edit: object, *, pipeline_id: str, epoch: int, taken: Revision
) -> Edited:
    """Return the pipeline after ``edit``.

    Raise a ``Problem`` if it is not a valid edit. An edit of another pipeline or epoch is ignored:
    the canvas makes it again on what it gets with this rerun.
    """
    if edit is None:
        return Edited(pipeline, taken)
    if not isinstance(edit, dict) or not isinstance(edit.get("document"), dict):
        raise BadStructure("the canvas sent something that is not an edit; reload the page")
    # It was made on a version that this tab no longer shows.
    if (edit.get("pipeline"), edit.get("epoch")) != (pipeline_id, epoch):
        return Edited(pipeline, taken)
    revision = Revision(str(edit.get("instance", "")), _whole_number(edit.get("revision")))
    # Another canvas counts its own revisions, from 1.
    since = taken.revision if taken.instance == revision.instance else 0
    sent = edit["document"]
    nodes, restored = _nodes(pipeline, sent.get("nodes"), since)
    parts = {name: sent.get(name) for name in PARTS}
    # This validates everything that the browser sent.
    after = with_values(pipeline, nodes=nodes, **parts)
    # The same object tells the caller that nothing has changed.
    return Edited(pipeline if after == pipeline else after, revision, restored)


def _nodes(pipeline: Pipeline, sent: object, since: int) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the nodes that the canvas sent, and those whose contents it has set.

    The canvas sends only those contents that it has changed. The others stay as they are, and so
    do all unless the node is new or the edit was made after ``since``.
    """
    if not isinstance(sent, dict) or not all(isinstance(node, dict) for node in sent.values()):
        raise BadStructure(
            "the nodes that the canvas sent cannot be read; reload the page", field="nodes"
        )
    nodes: dict[str, Any] = {}
    restored = []
    for name, node in sent.items():
        own = pipeline.nodes.get(name)
        values = {field: node[field] for field in CONTENTS if field in node}
        if own is None or own.type != node.get("type"):
            nodes[name] = {"type": node.get("type"), **_with_sweep(values)}
        elif "since" in node and _whole_number(node["since"]) > since:
            nodes[name] = _with_sweep({**_node_data(own), **values})
        else:
            nodes[name] = own
            continue
        restored.append(name)
    return nodes, frozenset(restored)


def _with_sweep(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a node with the sweep moved out of the settings again."""
    settings = values.get("settings")
    if not isinstance(settings, dict) or SWEEP not in settings:
        return values
    others = {name: value for name, value in settings.items() if name != SWEEP}
    return {**values, "settings": others, "sweep": settings[SWEEP]}


def _whole_number(value: object) -> int:
    """Return a whole number; JavaScript may send it as a float. Raise if it is not one."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not float(value).is_integer()
    ):
        raise BadStructure("the canvas sent an edit without a revision; reload the page")
    return int(value)


def selection_in(pipeline: Pipeline, sent: object) -> tuple[str, ...]:
    """Return the nodes that were sent as selected and exist."""
    names = sent if isinstance(sent, list) else []
    return tuple(name for name in names if isinstance(name, str) and name in pipeline.nodes)


def port_in(pipeline: Pipeline, sent: object) -> PortRef | None:
    """Return the output that was sent as clicked, if its node exists."""
    match sent:
        case {"node": str() as node, "port": str() as port} if node in pipeline.nodes:
            return PortRef(node, port)
    return None


def run_in(pipeline: Pipeline, sent: object) -> RunRequest | None:
    """Return the run that was requested, if it is for all nodes or its node exists."""
    match sent:
        case {"node": "", "direction": "all"}:
            return RunRequest("", "all")
        case {"node": str() as node, "direction": "to" | "from" as direction} if (
            node in pipeline.nodes
        ):
            return RunRequest(node, direction)
    return None


def import_in(sent: object) -> tuple[str, str] | None:
    """Return the name and the text of the file that was dropped, if it is not too large."""
    match sent:
        case {"name": str() as name, "text": str() as text} if len(text) <= MAX_IMPORT:
            return name, text
    return None
