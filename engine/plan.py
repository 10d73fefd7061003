"""Which nodes a run wants, frozen when it starts.

- ``RunOptions``  what the user asked for: up to a node, from a node, limits
- ``PlannedNode``     one node, ready to be run: its type, checked parameters and where its inputs come from
- ``Plan``     the steps and their order
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.graph import PipelineGraph
from engine.node_types import Branch, NodeParams, NodeType, NodeTypes
from engine.pipeline import NodeSettings, Pipeline, PortRef
from engine.sweeps import ExpandedPipeline, expand
from engine.validation import params_of

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class RunOptions:
    """What a run was asked to do, besides its document."""

    to: tuple[str, ...] = ()
    """Only these nodes and what they need."""
    force_from: tuple[str, ...] = ()
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
        if "start" in values:  # runs of before
            values["force_from"] = values.pop("start")
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
    force: bool = False
    """Only a result made by this very run counts."""
    branch: Branch | None = None
    """The branch of a sweep the node is in, if it evaluates one."""
    branches: dict[str, list[Branch | None]] = field(default_factory=dict)
    """For each input that compares evaluations, the branches it is fed by."""


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
        """Return what is left to do: nodes that are not finished, and finished ones they need whose output is gone."""
        todo = set(self.steps) - set(finished)
        # Backwards, since a node that has to run again may need the output of the nodes before it.
        for node in reversed(self.steps):
            if node not in todo and not todo.isdisjoint(self.children(node)) and not intact(node):
                todo.add(node)
        return todo


def make_plan(document: Pipeline, catalogue: NodeTypes, request: RunOptions) -> Plan:
    """Return the plan for a valid document, its sweeps expanded; a swept node stands for all its branches."""
    import networkx as nx

    expanded = expand(document, catalogue)
    graph, wanted, force = _select(expanded, request)
    document = expanded.pipeline
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
            force=node in force or not node_type.cacheable,
            branch=expanded.branches.get(node) if node_type.evaluation_output else None,
            branches=_branches(node_type, inputs.get(node, {}), expanded.branches),
        )
    return Plan(graph.subgraph(wanted).copy(), steps)


def _branches(
    node_type: NodeType, inputs: Mapping[str, list[PortRef]], branches: Mapping[str, Branch]
) -> dict[str, list[Branch | None]]:
    """Return the branches behind the inputs that compare evaluations; nothing if there are none."""
    behind = {
        port.name: [branches.get(ref.node) for ref in inputs.get(port.name, ())]
        for port in node_type.inputs
        if port.role == "evaluation"
    }
    return {port: each for port, each in behind.items() if any(each)}


def cache_key(
    node_type: NodeType,
    params: NodeParams,
    inputs: Mapping[str, Sequence[str]],
    sources: Mapping[str, Sequence[str]],
    fingerprint: str = "",
    branches: Sequence[Branch | None] = (),
) -> str:
    """Hash of what the result depends on. ``inputs`` are content digests, ``sources`` the nodes they come from."""
    many = {port.name for port in node_type.inputs if port.many}
    about: dict[str, Any] = {
        "type": node_type.name,
        "version": node_type.version,
        "params": params.model_dump(mode="json"),
        "inputs": {port: list(digests) for port, digests in inputs.items()},
        # A node that gathers many inputs may tell them apart by where they come from.
        "sources": {port: list(nodes) for port, nodes in sources.items() if port in many},
        "outside": fingerprint,
    }
    # Only where there are branches: a node outside a sweep keeps the key that it has always had.
    if any(branches):
        about["branches"] = [branch and asdict(branch) for branch in branches]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def check_requested_nodes(document: Pipeline, catalogue: NodeTypes, request: RunOptions) -> None:
    """Raise ``BadInput`` if a valid document lacks a node that the request names."""
    if request.to or request.force_from:
        _select(expand(document, catalogue), request)


def _select(expanded: ExpandedPipeline, request: RunOptions) -> tuple[nx.DiGraph[str], set[str], set[str]]:
    """Return the graph of all nodes, the nodes to run, and those of them to run whatever is stored."""
    to, start = expanded.up_to(request.to), expanded.copies_of(request.force_from)
    nodes = PipelineGraph(expanded.pipeline)
    _must_exist(nodes.graph, to, "--to")
    _must_exist(nodes.graph, start, "--from")
    force = nodes.downstream(start)
    wanted = nodes.upstream(to or force or nodes.graph)
    if unreached := set(start) - wanted:
        raise BadInput(f"--from {', '.join(sorted(unreached))}: --to {', '.join(request.to)} does not depend on it.")
    return nodes.graph, wanted, force


def _must_exist(graph: nx.DiGraph[str], nodes: Collection[str], option: str) -> None:
    for node in nodes:
        if node not in graph:
            raise BadInput(f"{option}: there is no node '{node}'; the pipeline has {', '.join(graph)}.")


def _inputs(document: Pipeline) -> dict[str, dict[str, list[PortRef]]]:
    found: dict[str, dict[str, list[PortRef]]] = {}
    for edge in document.edges:
        found.setdefault(edge.target.node, {}).setdefault(edge.target.port, []).append(edge.source)
    return found
