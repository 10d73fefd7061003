"""Which nodes a run wants, frozen when it starts.

- ``RunOptions``  what the user asked for: up to a node, from a node, limits
- ``PlannedNode``     one node, ready to be run: its type, checked parameters and where its inputs come from
- ``Plan``     the steps and their order
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.node_types import NodeParams, NodeType
from engine.params import Types, params_of
from engine.pipeline import NodeSettings, Pipeline, PortRef
from engine.sweeps import expansion

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class RunOptions:
    """What a run was asked to do, besides its document."""

    to: tuple[str, ...] = ()
    """Only these nodes and what they need."""
    start: tuple[str, ...] = ()
    """Run these and all below them afresh, whatever is stored."""
    workers: int | None = None
    retries: int = 0
    timeout: float | None = None
    memory_limit: int | None = None
    """Megabytes a node may use."""
    store_limit: int | None = None
    """Bytes the store may hold."""
    allow_absolute: bool = False
    """Whether the document may name files outside the workspace."""
    executor: str | None = None
    """Address of a Dask scheduler whose workers run the nodes; ``None``: this machine."""
    pipeline: str | None = None
    """The pipeline of the workspace that was run, if it was one."""
    settings: tuple[str, ...] = ()
    """The parameters changed for this run, as they were given; the document holds them already."""

    def __post_init__(self) -> None:
        if self.executor is not None and not re.fullmatch(r"(tcp|tls)://\S+:\d+", self.executor):
            raise BadInput(f"--executor {self.executor}: write the address of a Dask scheduler as tcp://HOST:PORT.")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> RunOptions:
        """From plain JSON."""
        values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in about.items()}
        return cls(**values)


@dataclass(frozen=True)
class PlannedNode:
    """One node of a plan."""

    id: str
    type: NodeType
    params: NodeParams
    settings: NodeSettings
    inputs: dict[str, list[PortRef]] = field(default_factory=dict)
    """Where each input port is fed from."""
    fresh: bool = False
    """Only a result made by this very run counts."""


@dataclass(frozen=True)
class Plan:
    """The steps of a run and their order."""

    graph: nx.DiGraph[str]
    steps: dict[str, PlannedNode]

    def parents(self, node: str) -> set[str]:
        """The nodes this one reads from."""
        return set(self.graph.predecessors(node))

    def children(self, node: str) -> list[str]:
        """The nodes that read from this one, in the order of their edges."""
        return list(self.graph.successors(node))

    def descendants(self, node: str) -> list[str]:
        """All that cannot run without this one, in the order of the plan."""
        import networkx as nx

        below = nx.descendants(self.graph, node)
        return [step for step in self.steps if step in below]

    def unfinished(self, finished: Collection[str], intact: Callable[[str], bool]) -> set[str]:
        """What is left to do: nodes not finished, and finished ones they need whose output is gone."""
        todo = set(self.steps) - set(finished)
        open_questions = list(todo)
        while open_questions:
            for parent in self.parents(open_questions.pop()) - todo:
                if not intact(parent):
                    todo.add(parent)
                    open_questions.append(parent)
        return todo


def make_plan(document: Pipeline, catalogue: Types, request: RunOptions) -> Plan:
    """The plan for a valid document, its sweeps written out; a node that is swept means all its branches."""
    import networkx as nx

    whole = expansion(document, catalogue)
    document, to, start = whole.document, whole.up_to(request.to), whole.of(request.start)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(document.nodes)
    graph.add_edges_from((edge.source.node, edge.target.node) for edge in document.edges)
    _must_exist(graph, to, "--to")
    _must_exist(graph, start, "--from")
    fresh = _reached(start, graph.successors)
    wanted = _reached(to or fresh or graph, graph.predecessors)
    if unreached := set(start) - wanted:
        raise BadInput(f"--from {', '.join(sorted(unreached))}: --to {', '.join(request.to)} does not depend on it.")
    inputs = _inputs(document)
    position = {node: index for index, node in enumerate(document.nodes)}
    steps = {}
    for node in nx.lexicographical_topological_sort(graph.subgraph(wanted), key=position.__getitem__):
        node_type = catalogue[document.nodes[node].type]
        steps[node] = PlannedNode(
            node,
            node_type,
            params_of(document, catalogue, node),
            document.nodes[node].settings,
            inputs.get(node, {}),
            fresh=node in fresh or not node_type.cacheable,
        )
    return Plan(graph.subgraph(wanted).copy(), steps)


def _reached(nodes: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    """The nodes, and all that can be reached from them."""
    found = set(nodes)
    pending = list(found)
    while pending:
        new = set(neighbours(pending.pop())) - found
        found |= new
        pending += new
    return found


def _must_exist(graph: nx.DiGraph[str], nodes: Collection[str], option: str) -> None:
    for node in nodes:
        if node not in graph:
            raise BadInput(f"{option}: there is no node '{node}'; the pipeline has {', '.join(graph)}.")


def _inputs(document: Pipeline) -> dict[str, dict[str, list[PortRef]]]:
    found: dict[str, dict[str, list[PortRef]]] = {}
    for edge in document.edges:
        found.setdefault(edge.target.node, {}).setdefault(edge.target.port, []).append(edge.source)
    return found
