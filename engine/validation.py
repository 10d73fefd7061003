"""Whether a document's types, parameters and edges fit together: one set of rules for canvas, forms and command line.

- ``find_problems``         everything that is wrong with a document, at once
- ``find_source_problems``  what is wrong outside of it: files that are not there, columns that nodes below them lack
- ``params_of``             a node's parameters as its type's model (from ``params``)
- ``check_connect``, ``can_connect``  whether one more edge may be drawn
- ``connection_rules``      the rules for edges as plain data, for a canvas
- ``columns_at``            the columns each output will have, as far as they are known before a run
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.errors import BadInput
from engine.files import Files
from engine.graph import PipelineGraph
from engine.node_types import OUTSIDE, Column, Columns, NodeParams, NodeType, Port
from engine.params import Types, load_params, node_problems, params_of, type_problem, unknown_node
from engine.pipeline import Edge, Node, Pipeline, PortRef, changed
from engine.problems import (
    BadColumns,
    BadSource,
    Cycle,
    DuplicateEdge,
    InvalidPipeline,
    MissingInput,
    PortTaken,
    Problem,
    SelfEdge,
    TypeMismatch,
    UnknownPort,
)
from engine.sweeps import combinations, node_sweep_problems, sweep_problems, with_param_values
from engine.text import listed, suggest

__all__ = [
    "Types",
    "can_connect",
    "check_connect",
    "columns_at",
    "connection_rules",
    "find_problems",
    "find_source_problems",
    "params_of",
    "unknown_node",
]


def find_problems(document: Pipeline, catalogue: Types) -> list[Problem]:
    """Everything that is wrong with the document itself; an empty list means that it can run."""
    problems = [problem for name, node in document.nodes.items() for problem in _node_problems(name, node, catalogue)]
    wiring = _Wiring(document, catalogue)
    for edge in document.edges:
        problems += wiring.faults(edge)
        wiring.add(edge)
    return [
        *problems,
        *_missing_inputs(document, catalogue),
        *_cycles(document),
        *sweep_problems(document, catalogue),
    ]


def _node_problems(name: str, node: Node, catalogue: Types) -> Iterator[Problem]:
    """What is wrong with a node by itself; one with a sweep is judged by each of its branches."""
    return node_sweep_problems(name, node, catalogue) if node.sweep else node_problems(name, node, catalogue)


AnyParams = Callable[[NodeType, NodeParams], bool]


def _none(node_type: NodeType, params: NodeParams) -> bool:
    return False


def find_source_problems(document: Pipeline, catalogue: Types, files: Files, skip: AnyParams = _none) -> list[Problem]:
    """What is wrong with the things that nodes read from outside, and with the columns that come of them.

    Each branch of a sweep is looked at. Nodes with other problems are passed over; of those of which ``skip``
    says that they need not be looked at, nothing is learned.
    """
    flow = _Flow(document, catalogue, files, skip, every_branch=True)
    problems = [*_outside_problems(document, catalogue, files, skip), *flow.problems]
    return list({(one.node, one.field, one.message): one for one in problems}.values())


def _outside_problems(document: Pipeline, catalogue: Types, files: Files, skip: AnyParams) -> Iterator[Problem]:
    for name, node in document.nodes.items():
        if node.type not in catalogue or catalogue[node.type].check is None:
            continue
        for params in _all_params(name, node, catalogue):
            if not skip(catalogue[node.type], params):
                for fault in _source_faults(catalogue[node.type], params, files):
                    yield BadSource(fault.message, node=name, field=fault.field)


def _all_params(name: str, node: Node, catalogue: Types) -> list[NodeParams]:
    """The node's parameters in each of its branches; none if they cannot be used."""
    try:
        if node.sweep is None:
            return [load_params(name, node, catalogue)]
        values = combinations(name, node, catalogue)
        params = [with_param_values(node.params, each) for each in values]
        return [load_params(name, changed(node, params=each, sweep=None), catalogue) for each in params]
    except InvalidPipeline:
        return []


def _source_faults(node_type: NodeType, params: NodeParams, files: Files) -> list[BadInput]:
    try:
        return list(node_type.check(params, files)) if node_type.check else []
    except BadInput as error:
        return [error]
    except Exception as error:  # a check is a package's own code; its failure is a finding like any other
        return [BadInput(f"its source could not be looked at ({type(error).__name__}: {error}); check it")]


# Edges


def check_connect(document: Pipeline, catalogue: Types, edge: Edge) -> None:
    """Raise the ``Problem`` that speaks against adding ``edge``, if there is one."""
    for end in (edge.source, edge.target):
        node = document.nodes.get(end.node)
        unknown_type = type_problem(end.node, node, catalogue) if node else None
        if unknown_type:
            raise unknown_type
    wiring = _Wiring(document, catalogue)
    for present in document.edges:
        wiring.add(present)
    for problem in wiring.faults(edge):
        raise problem
    _check_stays_acyclic(document, edge)


def can_connect(document: Pipeline, catalogue: Types, edge: Edge) -> bool:
    """Whether ``edge`` may be added."""
    try:
        check_connect(document, catalogue, edge)
    except Problem:
        return False
    return True


def connection_rules(catalogue: Types) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """For each node type its ports: an output may be plugged into an input that ``accepts`` its type."""
    return {
        node_type.name: {
            "inputs": [
                {
                    "name": port.name,
                    "title": port.title or port.name,
                    "type": port.type,
                    "accepts": [port.type, *port.accepts],
                    "many": port.many,
                    "required": port.required,
                }
                for port in node_type.inputs
            ],
            "outputs": [
                {"name": port.name, "title": port.title or port.name, "type": port.type} for port in node_type.outputs
            ],
        }
        for node_type in catalogue.values()
    }


class _Wiring:
    """A document's edges taken up one by one, and the rules for the next."""

    def __init__(self, document: Pipeline, catalogue: Types) -> None:
        self.document = document
        self.types = {name: catalogue.get(node.type) for name, node in document.nodes.items()}
        self.sources: dict[PortRef, list[PortRef]] = {}

    def add(self, edge: Edge) -> None:
        """Take the edge up, whether or not it fits."""
        self.sources.setdefault(edge.target, []).append(edge.source)

    def faults(self, edge: Edge) -> Iterator[Problem]:
        """What speaks against the edge, given those taken up before it."""
        strangers = [end.node for end in (edge.source, edge.target) if end.node not in self.document.nodes]
        for name in dict.fromkeys(strangers):
            yield unknown_node(name, self.document, edge.names)
        if strangers:
            return
        if edge.source.node == edge.target.node:
            message = f"it leads from node '{edge.source.node}' to itself; connect two different nodes"
            yield SelfEdge(message, node=edge.source.node, edge=edge.names)
            return
        yield from self._port_faults(edge)
        yield from self._occupied(edge)

    def _port_faults(self, edge: Edge) -> Iterator[Problem]:
        source_type, target_type = self.types[edge.source.node], self.types[edge.target.node]
        output = source_type.output(edge.source.port) if source_type else None
        entry = target_type.input(edge.target.port) if target_type else None
        if source_type and not output:
            yield _unknown_port(edge, edge.source, "output", source_type.outputs, source_type.inputs)
        if target_type and not entry:
            yield _unknown_port(edge, edge.target, "input", target_type.inputs, target_type.outputs)
        if target_type and output and entry and not entry.takes(output.type):
            yield _mismatch(edge, output, entry, target_type)

    def _occupied(self, edge: Edge) -> Iterator[Problem]:
        present = self.sources.get(edge.target, [])
        target_type = self.types[edge.target.node]
        entry = target_type.input(edge.target.port) if target_type else None
        node, field = edge.target
        if edge.source in present:
            yield DuplicateEdge("it is there already; remove one of the two", node=node, field=field, edge=edge.names)
        elif present and entry and not entry.many:
            message = (
                f"the input '{field}' of '{node}' takes one edge and has {present[0]} already; remove that one first"
            )
            yield PortTaken(message, node=node, field=field, edge=edge.names)


def _unknown_port(edge: Edge, end: PortRef, side: str, ports: Iterable[Port], others: Iterable[Port]) -> Problem:
    names = [port.name for port in ports]
    choice = f"its {side}s are {listed(names, most=12)}" if names else f"it has no {side}s at all"
    if end.port in (port.name for port in others):
        other = "input" if side == "output" else "output"
        message = f"'{end.port}' is an {other} of '{end.node}', and an {side} is needed here; {choice}"
    else:
        message = f"node '{end.node}' has no {side} '{end.port}'; {suggest(end.port, names, choice)}"
    return UnknownPort(message, node=end.node, field=end.port, edge=edge.names)


def _mismatch(edge: Edge, output: Port, entry: Port, target_type: NodeType) -> Problem:
    fitting = [port.name for port in target_type.inputs if port.takes(output.type)]
    taken = " or ".join((entry.type, *entry.accepts))
    how = f"use its input {' or '.join(fitting)}" if fitting else f"connect an output of type {taken}"
    message = f"{edge.source} is of type {output.type}, but {edge.target} takes {taken}; {how}"
    return TypeMismatch(message, node=edge.target.node, field=edge.target.port, edge=edge.names)


def _missing_inputs(document: Pipeline, catalogue: Types) -> Iterator[Problem]:
    connected = {edge.target for edge in document.edges}
    for name, node in document.nodes.items():
        for port in catalogue[node.type].inputs if node.type in catalogue else ():
            if port.required and (name, port.name) not in connected:
                message = (
                    f"nothing is connected to it; connect an output of type {' or '.join((port.type, *port.accepts))}"
                )
                yield MissingInput(message, node=name, field=port.name)


# Cycles


def _cycles(document: Pipeline) -> Iterator[Problem]:
    """Yield one problem for each group of nodes that wait for each other."""
    for cycle in PipelineGraph(document).cycles():
        yield Cycle(f"{_around(cycle)} is a circle; remove one of these edges", node=cycle[0])


def _check_stays_acyclic(document: Pipeline, edge: Edge) -> None:
    back = PipelineGraph(document).path(edge.target.node, edge.source.node)
    if back is not None:
        message = f"it would close the circle {_around(back)}; data can flow one way only"
        raise Cycle(message, node=edge.target.node, edge=edge.names)


def _around(names: list[str]) -> str:
    shortened = names if len(names) <= 12 else [*names[:11], "…"]
    return " → ".join([*shortened, names[0]])


# Columns


def columns_at(
    document: Pipeline, catalogue: Types, files: Files | None = None
) -> dict[str, dict[str, Columns | None]]:
    """For each node and output the columns it will have; ``None`` where they cannot be known before a run.

    With ``files``, nodes that read from outside are asked what is there; never raises.
    """
    return _Flow(document, catalogue, files).columns


class _Flow:
    """The columns along the edges, and what nodes have against those that will arrive at them.

    Of a node with a sweep it goes by the parameters without it, to know something; with ``every_branch`` by all its
    branches, to know it for certain.
    """

    def __init__(
        self,
        document: Pipeline,
        catalogue: Types,
        files: Files | None,
        skip: AnyParams = _none,
        *,
        every_branch: bool = False,
    ) -> None:
        self.document, self.catalogue, self.files = document, catalogue, files
        self.skip, self.every_branch = skip, every_branch
        self.feeds: dict[PortRef, list[PortRef]] = {}
        for edge in document.edges:
            self.feeds.setdefault(edge.target, []).append(edge.source)
        self.problems: list[Problem] = []
        self.columns = {name: _unknown(catalogue.get(node.type)) for name, node in document.nodes.items()}
        for name in PipelineGraph(document).order():
            node_type = catalogue.get(document.nodes[name].type)
            if node_type and node_type.columns:
                self.columns[name] = self._columns_out(name, node_type)

    def _columns_out(self, name: str, node_type: NodeType) -> dict[str, Columns | None]:
        inputs = {port.name: self._arriving(name, port) for port in node_type.inputs}
        told = [self._told(name, node_type, inputs, params) for params in self._params(name)]
        return told[0] if told and all(one == told[0] for one in told) else _unknown(node_type)

    def _arriving(self, name: str, port: Port) -> Columns | None:
        sources = self.feeds.get(PortRef(name, port.name), [])
        if port.many or len(sources) != 1:
            return None
        return self.columns.get(sources[0].node, {}).get(sources[0].port)

    def _params(self, name: str) -> list[NodeParams]:
        if self.every_branch:
            return _all_params(name, self.document.nodes[name], self.catalogue)
        try:
            return [params_of(self.document, self.catalogue, name)]
        except InvalidPipeline:
            return []

    def _told(
        self, name: str, node_type: NodeType, inputs: Mapping[str, Columns | None], params: NodeParams
    ) -> dict[str, Columns | None]:
        assert node_type.columns is not None
        try:
            told = node_type.columns({**inputs, **self._outside(node_type, params)}, params)
            return {port.name: _as_columns(told.get(port.name)) for port in node_type.outputs}
        except BadInput as fault:
            self.problems.append(BadColumns(fault.message, node=name, field=fault.field))
        except Exception:  # a rule is a package's own code; the run will say what it stumbles over
            pass
        return _unknown(node_type)

    def _outside(self, node_type: NodeType, params: NodeParams) -> dict[str, Columns | None]:
        if node_type.source is None or self.files is None or self.skip(node_type, params):
            return {}
        try:
            return {OUTSIDE: node_type.source(params, self.files)}
        except Exception:  # the node's own check says what is wrong with it
            return {}


def _as_columns(told: Iterable[Column] | None) -> Columns | None:
    return None if told is None else tuple(told)


def _unknown(node_type: NodeType | None) -> dict[str, Columns | None]:
    return {port.name: None for port in node_type.outputs} if node_type else {}
