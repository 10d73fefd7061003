"""A pipeline that stands for many: nodes that sweep over values of their parameters.

``expand`` writes such a pipeline out as an ordinary one, and whoever plans a run works on that. So a branch is a node
like any other: it runs beside its siblings, fails alone, is retried alone, and has the key of a node that was given the
same parameters by hand.

A node that sweeps opens an *axis*; the points of the axis are its combinations of values. A node lies on an axis if it
opens it, or if one of its inputs that take a single edge comes from a node that lies on it. It is copied once for each
point of the product of its axes. An input that takes any number of edges ends an axis: there the branches meet. Copies
are connected where they agree about the axes that both lie on.

- ``expand``, ``expansion``  the pipeline written out, and which nodes stand for which
- ``as_run``                 the same for a pipeline of the past, which may no longer be understood
- ``axes_of``, ``is_judged``  the axes that each node lies on, and whether a branch is judged
- ``document_sweep_problems``  what is wrong with all sweeps together

``branches`` knows what the combinations of one node are.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from pydantic import JsonValue

from engine.branches import Values, brief, combinations, distinct_words, param_title, times, with_values
from engine.node_types import NodeType
from engine.params import Types
from engine.pipeline import (
    MAX_BRANCHES,
    MAX_EDGES,
    MAX_NODES,
    Edge,
    Node,
    Pipeline,
    PortRef,
    changed,
    dependencies,
    in_order,
)
from engine.problems import BadSweep, InvalidPipeline, Problem

LEADERBOARD = "leaderboard"
NAME = "name"
"""A node that gives a report and has a parameter of this name judges something; in a branch it is told what."""
DETAILS = "details"
"""A node that gathers reports and has a parameter of this name is told the values of each: ``NODE.COLUMN=VALUE``.

With ``*`` for the node, the value is what people call the column.
"""

LONGEST_TEXT = 200

Axes = Mapping[str, tuple[str, ...]]
"""For each node the axes it lies on, by the nodes that open them."""
Point = tuple[int, ...]
"""A place on the axes of a node: the number of a combination on each."""


# The whole pipeline


@dataclass(frozen=True)
class ExpandedPipeline:
    """A pipeline written out, and how it came about."""

    document: Pipeline
    """An ordinary pipeline, without sweeps."""
    copies: Mapping[str, tuple[str, ...]]
    """The nodes that stand for each node of the pipeline as it was; for most of them, the node itself."""
    values: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """For each node that lies in a branch, the values there of each node that sweeps."""
    leaderboard: str | None = None
    """The node that was added so that the branches are compared."""

    @cached_property
    def origins(self) -> dict[str, str]:
        """The node of the pipeline as it was that each node stands for; an added one stands for itself."""
        return {copy: name for name, copies in self.copies.items() for copy in copies}

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The nodes that stand for these; a name may also be that of a single branch."""
        return tuple(copy for name in names for copy in self.copies.get(name, (name,)))

    def up_to(self, names: Iterable[str]) -> tuple[str, ...]:
        """The same, with the added leaderboard if all that it compares is among them."""
        wanted = self.of(names)
        compared = {edge.source.node for edge in self.document.edges if edge.target.node == self.leaderboard}
        return (*wanted, self.leaderboard) if self.leaderboard and compared <= set(wanted) else wanted


def expand(document: Pipeline, catalogue: Types) -> Pipeline:
    """A valid pipeline without sweeps: every branch written out, and a leaderboard behind them."""
    return expansion(document, catalogue).document


def expansion(document: Pipeline, catalogue: Types) -> ExpandedPipeline:
    """The same, with what came of each node; ``InvalidPipeline`` if a sweep cannot be carried out."""
    if not has_sweep(document):
        return ExpandedPipeline(document, {name: (name,) for name in document.nodes})
    axes = axes_of(document, catalogue)
    judged = _with_leaderboard(document, catalogue, axes)
    added = next((name for name in judged.nodes if name not in document.nodes), None)
    return _Writer(judged, catalogue, {name: axes.get(name, ()) for name in judged.nodes}).written(added)


def has_sweep(document: Pipeline) -> bool:
    """Whether any node of it sweeps."""
    return any(node.sweep is not None for node in document.nodes.values())


def as_run(document: Pipeline, catalogue: Types) -> ExpandedPipeline:
    """What a run of the document planned; the document itself where this program can no longer tell."""
    try:
        return expansion(document, catalogue)
    except (InvalidPipeline, Problem):
        return ExpandedPipeline(document, {name: (name,) for name in document.nodes})


def axes_of(document: Pipeline, catalogue: Types) -> dict[str, tuple[str, ...]]:
    """For each node the sweeps that it is copied for, the first ones first; nodes on a cycle are left out."""
    order = list(in_order(document))
    position = {name: at for at, name in enumerate(order)}
    single: dict[str, set[str]] = {}
    for edge in document.edges:
        if not _joins(document, catalogue, edge.target):
            single.setdefault(edge.target.node, set()).add(edge.source.node)
    axes: dict[str, tuple[str, ...]] = {}
    for name in order:
        inherited = {axis for source in single.get(name, ()) for axis in axes.get(source, ())}
        own = {name} if document.nodes[name].sweep else set()
        axes[name] = tuple(sorted(inherited | own, key=position.__getitem__))
    return axes


def is_judged(document: Pipeline, catalogue: Types, name: str) -> bool:
    """Whether something below the node says how good its branches are, so that they can be compared."""
    axes = axes_of(document, catalogue)
    return any(name in axes.get(end.node, ()) for end in _judgements(document, catalogue))


def _joins(document: Pipeline, catalogue: Types, end: PortRef) -> bool:
    """Whether the input takes any number of edges, so that branches meet there."""
    node_type = catalogue.get(document.nodes[end.node].type) if end.node in document.nodes else None
    port = node_type.input(end.port) if node_type else None
    return port is not None and port.many


# The leaderboard


def _with_leaderboard(document: Pipeline, catalogue: Types, axes: Axes) -> Pipeline:
    """The pipeline with a node that compares those judgements of branches that meet nowhere."""
    met = {edge.source for edge in document.edges if _joins(document, catalogue, edge.target)}
    loose = [end for end in _judgements(document, catalogue) if axes.get(end.node) and end not in met]
    gatherer = _gatherer(catalogue)
    if not loose or gatherer is None:
        return document
    node_type, port = gatherer
    name = _free(LEADERBOARD, set(document.nodes))
    edges = [Edge(source=end, target=PortRef(name, port)) for end in loose]
    node = Node(type=node_type, label="Leaderboard")
    return changed(document, nodes={**document.nodes, name: node}, edges=[*document.edges, *edges])


def _judgements(document: Pipeline, catalogue: Types) -> Iterator[PortRef]:
    for name, node in document.nodes.items():
        port = _judges(catalogue.get(node.type))
        if port:
            yield PortRef(name, port)


def _judges(node_type: NodeType | None) -> str | None:
    """The port at which a node of the type says how good something is, if it does."""
    if node_type is None or not node_type.cacheable or NAME not in node_type.params.model_fields:
        return None
    return next((port.name for port in node_type.outputs if port.type == "report"), None)


def _gatherer(catalogue: Types) -> tuple[str, str] | None:
    """A node type that makes one report of any number, and its input for them."""
    for node_type in catalogue.values():
        ports = [port for port in node_type.inputs if port.many and port.takes("report")]
        if len(node_type.inputs) == 1 and ports and any(port.type == "report" for port in node_type.outputs):
            return node_type.name, ports[0].name
    return None


# Writing it out


class _Writer:
    """Copies the nodes of a pipeline along their axes, and connects the copies."""

    def __init__(self, document: Pipeline, catalogue: Types, axes: Axes) -> None:
        self.document, self.catalogue, self.axes = document, catalogue, axes
        opened = [name for name, node in document.nodes.items() if node.sweep]
        self.values = {name: combinations(name, document.nodes[name], catalogue) for name in opened}
        types = {name: catalogue[document.nodes[name].type] for name in opened}
        self.words = {name: distinct_words(values, types[name]) for name, values in self.values.items()}
        self.columns = _columns(self.values)
        self.titles = _titles(self.columns, types)
        self.ids = self._named_copies()
        self.judged = {name: self._judged(name) for name in document.nodes if axes[name]}

    def written(self, added: str | None) -> ExpandedPipeline:
        """The pipeline with all copies; ``added`` is its node that was not there before."""
        edges = list(self._edges())
        nodes = {
            self.ids[name][point]: self._node(name, point) for name in self.document.nodes for point in self.ids[name]
        }
        self._tell_gatherers(nodes, edges)
        return ExpandedPipeline(
            changed(self.document, nodes=nodes, edges=edges, layout={}, notes=()),
            {name: tuple(self.ids[name].values()) for name in self.document.nodes},
            {
                copy: {axis: self.values[axis][number] for axis, number in zip(self.axes[name], point, strict=True)}
                for name, ids in self.ids.items()
                for point, copy in ids.items()
                if point
            },
            added,
        )

    def _named_copies(self) -> dict[str, dict[Point, str]]:
        """An id for each copy: ``forest-2``; with two axes ``predict-2-1``."""
        taken = set(self.document.nodes)
        ids: dict[str, dict[Point, str]] = {}
        for name, own in self.axes.items():
            if not own:
                ids[name] = {(): name}
                continue
            ids[name] = {}
            for point in product(*(range(len(self.values[axis])) for axis in own)):
                ids[name][point] = _free("-".join([name[:48], *(str(number + 1) for number in point)]), taken)
                taken.add(ids[name][point])
        return ids

    def _node(self, name: str, point: Point) -> Node:
        node, own = self.document.nodes[name], self.axes[name]
        if not own:
            return node
        at, params = dict(zip(own, point, strict=True)), dict(node.params)
        if name in at:
            params = with_values(params, self.values[name][at[name]])
        words = " ".join(self.words[axis][number] for axis, number in at.items())
        if _judges(self.catalogue.get(node.type)):
            params[NAME] = _line(f"{params.get(NAME) or self.judged[name]} {words}")
        label = _line(f"{_title(node, self.catalogue)} {words}")
        return changed(node, ("nodes", name), params=params, label=label, sweep=None)

    def _judged(self, name: str) -> str:
        """What is judged there: the nearest model above, else the last node that sweeps."""
        above: dict[str, list[str]] = {}
        for source, target in dependencies(self.document):
            above.setdefault(target, []).append(source)
        found = pending = [name]
        while pending:
            pending = [source for each in pending for source in above.get(each, ()) if source not in found]
            makers = [each for each in pending if self._makes_model(each)]
            if makers:
                return _title(self.document.nodes[makers[0]], self.catalogue)
            found = [*found, *pending]
        return _title(self.document.nodes[self.axes[name][-1]], self.catalogue)

    def _makes_model(self, name: str) -> bool:
        node_type = self.catalogue.get(self.document.nodes[name].type)
        return node_type is not None and any(port.type == "model" for port in node_type.outputs)

    def _edges(self) -> Iterator[Edge]:
        """Each edge between all copies of its ends that agree about the axes they share."""
        for edge in self.document.edges:
            (source, output), (target, entry) = edge.source, edge.target
            shared = [axis for axis in self.axes[source] if axis in self.axes[target]]
            agreeing: dict[Point, list[str]] = {}
            for point, copy in self.ids[source].items():
                agreeing.setdefault(self._part(source, point, shared), []).append(copy)
            for point, copy in self.ids[target].items():
                for feed in agreeing[self._part(target, point, shared)]:
                    yield Edge(source=PortRef(feed, output), target=PortRef(copy, entry))

    def _part(self, name: str, point: Point, axes: Sequence[str]) -> Point:
        at = dict(zip(self.axes[name], point, strict=True))
        return tuple(at[axis] for axis in axes)

    def _cells(self, name: str, point: Point) -> Values:
        """The values of a branch, by the columns of a table."""
        return {
            self.columns[axis, param]: value
            for axis, number in zip(self.axes[name], point, strict=True)
            for param, value in self.values[axis][number].items()
        }

    def _tell_gatherers(self, nodes: dict[str, Node], edges: Iterable[Edge]) -> None:
        """Give nodes where branches meet the values of each, for those that can show them."""
        at = {copy: (name, point) for name, ids in self.ids.items() for point, copy in ids.items()}
        told: dict[str, list[JsonValue]] = {}
        for edge in edges:
            name, point = at[edge.source.node]
            target = self.catalogue.get(nodes[edge.target.node].type)
            if point and target and DETAILS in target.params.model_fields:
                cells = self._cells(name, point).items()
                lines = [f"{edge.source.node}.{_key(column)}={_cell(value)}" for column, value in cells]
                told.setdefault(edge.target.node, []).extend(lines)
        titles = [f"*.{_key(column)}={_cell(title)}" for column, title in self.titles.items()]
        for name, details in told.items():
            own = nodes[name].params.get(DETAILS)
            params = {**nodes[name].params, DETAILS: [*details, *titles, *(own if isinstance(own, list) else [])]}
            nodes[name] = changed(nodes[name], ("nodes", name), params=params)


def _free(stem: str, taken: set[str]) -> str:
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


# Words


def _title(node: Node, catalogue: Types) -> str:
    return node.label or (catalogue[node.type].title if node.type in catalogue else node.type)


def _line(text: str) -> str:
    """The text as a label may have it."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _columns(values: Mapping[str, Sequence[Values]]) -> dict[tuple[str, str], str]:
    """What each swept parameter is called in a table: its name, with that of the node where two have it."""
    pairs = [(axis, param) for axis, points in values.items() for param in points[0]]
    named = Counter(param for _, param in pairs)
    return {(axis, param): param if named[param] == 1 else f"{axis}.{param}" for axis, param in pairs}


def _titles(columns: Mapping[tuple[str, str], str], types: Mapping[str, NodeType]) -> dict[str, str]:
    """What people call the columns: by the titles of the form, with the node where two have one."""
    titles = {(axis, param): param_title(param, types[axis]) for axis, param in columns}
    often = Counter(titles.values())
    in_node = Counter((axis, title) for (axis, _), title in titles.items())
    return {
        columns[axis, param]: title if often[title] == 1 else f"{title} ({axis})"
        for (axis, param), title in titles.items()
        if title and in_node[axis, title] == 1
    }


def _key(column: str) -> str:
    return column.replace("=", " ")


def _cell(value: JsonValue) -> str:
    """A value as JSON that a cell of a table can hold."""
    return json.dumps(brief(value) if isinstance(value, str | list | dict) else value, ensure_ascii=False)


# What can be wrong with it


def document_sweep_problems(document: Pipeline, catalogue: Types) -> Iterator[Problem]:
    """What is wrong with all sweeps together: too much of it, or nodes that must not run once a branch."""
    if not has_sweep(document):
        return
    try:
        sizes = {name: len(combinations(name, node, catalogue)) for name, node in document.nodes.items() if node.sweep}
    except InvalidPipeline:  # told of with the node
        return
    axes = axes_of(document, catalogue)
    yield from _effect_problems(document, catalogue, axes)
    yield from _size_problems(document, axes, sizes)


def _effect_problems(document: Pipeline, catalogue: Types, axes: Axes) -> Iterator[Problem]:
    """A node that runs for its effect would do it again in each branch, each over the other."""
    for name, own in axes.items():
        node_type = catalogue.get(document.nodes[name].type)
        if own and node_type and not node_type.cacheable:
            yield BadSweep(
                f"it would run once for each branch of '{own[-1]}', each writing over the other; remove it here, and "
                "add it again once the best values are found and the sweep is removed",
                node=name,
            )


def _size_problems(document: Pipeline, axes: Axes, sizes: Mapping[str, int]) -> Iterator[Problem]:
    """Too many branches for one node, else too much of everything."""

    def copies(own: Iterable[str]) -> int:
        return math.prod(sizes[axis] for axis in own)

    for name, own in axes.items():
        if copies(own) > MAX_BRANCHES:
            opened, product_of = " and ".join(f"'{axis}'" for axis in own), times(sizes[axis] for axis in own)
            message = f"the sweeps of {opened} meet here in {product_of} branches, and there may be {MAX_BRANCHES}"
            yield BadSweep(f"{message}; give fewer values", node=name)
            return  # all below it would say the same
    nodes = 1 + sum(map(copies, axes.values()))
    edges = sum(copies({*axes.get(edge.source.node, ()), *axes.get(edge.target.node, ())}) for edge in document.edges)
    for what, amount, most in (("nodes", nodes, MAX_NODES), ("edges", edges, MAX_EDGES)):
        if amount > most:
            message = f"with all branches there would be {amount:,} {what}, and there may be {most:,}"
            yield BadSweep(f"{message}; give fewer values", node=next(iter(sizes)), field="sweep")
