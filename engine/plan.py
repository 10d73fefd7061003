"""Which nodes a run executes, in which order and under which cache keys.

- ``RunOptions``   what the user asked for: up to a node, from a node, limits
- ``PlannedNode``  one node: its type, checked parameters and the sources of its inputs
- ``Plan``         the nodes of a run and their order, fixed when it starts
- ``cache_key``    the name of the result a node would have
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engine.environment import environment_digest
from engine.errors import BadInput, Bypassed
from engine.graph import PipelineGraph
from engine.node_types import Branch, NodeParams, NodeType, NodeTypes
from engine.pipeline import NodeSettings, Pipeline, PortRef
from engine.settings import check_cluster_address, check_storage_address
from engine.sweeps import ExpandedPipeline, expand
from engine.validation import params_of

if TYPE_CHECKING:
    import networkx as nx


STORED_NAMES = {"pipeline_id": "pipeline", "overrides": "settings"}
"""Options that the run log has under another name."""
READ_NAMES = {stored: name for name, stored in STORED_NAMES.items()} | {"start": "force_from"}
"""The same the other way round, with names that only older runs stored."""


@dataclass(frozen=True)
class RunOptions:
    """What a run is asked to do, besides its pipeline."""

    to: tuple[str, ...] = ()
    """Only these nodes and what they need."""
    force_from: tuple[str, ...] = ()
    """Run these nodes and all below them again, even if their results are stored.

    Without ``to``, only they run and what they need: unrelated branches are left out.
    """
    workers: int | None = None
    retries: int = 0
    """How often a failed node is tried again, if its own settings do not say it."""
    timeout: float | None = None
    memory_limit: int | None = None
    """Megabytes a node may use."""
    store_limit: int | None = None
    """Bytes the store may hold."""
    allow_absolute: bool = False
    """Whether the pipeline may name files outside the workspace."""
    executor: str | None = None
    """Address of a Dask scheduler whose workers run the nodes; ``None``: this machine."""
    storage: str | None = None
    """Where the workers find the data, such as ``s3://bucket/folder``; ``None``: the workspace."""
    pipeline_id: str | None = None
    """The id of the pipeline in the workspace, if it is one of the workspace."""
    overrides: tuple[str, ...] = ()
    """The texts of ``--set`` and ``--sweep``; the pipeline has these values already."""

    def __post_init__(self) -> None:
        if self.executor is not None:
            check_cluster_address(self.executor, "--executor")
        if self.storage is not None:
            check_storage_address(self.storage, "--storage")
            if self.executor is None:
                raise BadInput(
                    "--storage is for runs on a cluster; add --executor tcp://HOST:PORT."
                )

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain JSON, with the names that the run log has."""
        return {STORED_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunOptions:
        """Return the options that ``to_dict`` wrote, in this version or an older one."""
        values: dict[str, Any] = {}
        for name, value in data.items():
            values[READ_NAMES.get(name, name)] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


@dataclass(frozen=True)
class PlannedNode:
    """One node of a plan."""

    id: str
    type: NodeType
    params: NodeParams
    settings: NodeSettings
    inputs: dict[str, list[PortRef]] = field(default_factory=dict)
    """The output ports that feed each input port."""
    force: bool = False
    """Whether only a result that this run made counts."""
    branch: Branch | None = None
    """The branch of a sweep the node is in, if it evaluates one."""
    branches: dict[str, list[Branch | None]] = field(default_factory=dict)
    """For each input that compares evaluations, the branches it is fed by."""


@dataclass(frozen=True)
class Plan:
    """The nodes of a run, in the order in which they may run."""

    expanded: ExpandedPipeline
    graph: nx.DiGraph[str]
    steps: dict[str, PlannedNode]

    def parents(self, node: str) -> set[str]:
        """Return the nodes that this one reads from."""
        return set(self.graph.predecessors(node))

    def children(self, node: str) -> list[str]:
        """Return the nodes that read from this one, in the order of their edges."""
        return list(self.graph.successors(node))

    def descendants(self, node: str) -> list[str]:
        """Return all nodes that cannot run without this one, in the order of the plan."""
        import networkx as nx

        below = nx.descendants(self.graph, node)
        return [step for step in self.steps if step in below]

    def unfinished(self, finished: Collection[str], intact: Callable[[str], bool]) -> set[str]:
        """Return the unfinished nodes, and finished ones they need whose output is gone."""
        todo = set(self.steps) - set(finished)
        # Backwards, since a node that has to run again may need the output of the nodes before it.
        for node in reversed(self.steps):
            if node not in todo and not todo.isdisjoint(self.children(node)) and not intact(node):
                todo.add(node)
        return todo


def make_plan(pipeline: Pipeline, catalog: NodeTypes, options: RunOptions) -> Plan:
    """Return the plan for a valid pipeline, its sweeps expanded, without its bypassed nodes.

    In the options, a node with a sweep stands for all its branches. Raise ``BadInput`` if they
    name a node that does not exist, or one to start from that ``to`` does not depend on; raise
    ``Bypassed`` if they name a bypassed node.
    """
    import networkx as nx

    _must_run(pipeline, options)
    expanded = expand(pipeline, catalog)
    graph, wanted, force = _select(expanded, options)
    pipeline = expanded.pipeline
    inputs = _inputs(pipeline)
    position = {node: index for index, node in enumerate(pipeline.nodes)}
    planned = graph.subgraph(wanted)
    steps = {}
    # Among nodes that could be next, the order of the file: equal pipelines have equal plans.
    for node in nx.lexicographical_topological_sort(planned, key=position.__getitem__):
        node_type = catalog[pipeline.nodes[node].type]
        steps[node] = PlannedNode(
            node,
            node_type,
            params_of(pipeline, catalog, node),
            pipeline.nodes[node].settings,
            inputs.get(node, {}),
            force=node in force or not node_type.cacheable,
            branch=expanded.branches.get(node) if node_type.evaluation_output else None,
            branches=_branches(node_type, inputs.get(node, {}), expanded.branches),
        )
    return Plan(expanded, planned.copy(), steps)


def _branches(
    node_type: NodeType, inputs: Mapping[str, list[PortRef]], branches: Mapping[str, Branch]
) -> dict[str, list[Branch | None]]:
    """Return the branches behind the inputs that compare evaluations, by port."""
    behind = {}
    for port in node_type.inputs:
        sources = [branches.get(ref.node) for ref in inputs.get(port.name, ())]
        if port.role == "evaluation" and any(sources):
            behind[port.name] = sources
    return behind


def cache_key(
    node_type: NodeType,
    params: NodeParams,
    inputs: Mapping[str, Sequence[str]],
    sources: Mapping[str, Sequence[str]],
    fingerprint: str = "",
    branches: Sequence[Branch | None] = (),
) -> str:
    """Return a hash of everything the result of a node depends on, and of nothing else.

    ``inputs`` are content digests, ``sources`` the nodes they come from, ``fingerprint`` identifies
    what the node reads from outside, ``branches`` are those of a sweep that it evaluates. Content
    counts, not history: a node above that ran again with the same outcome changes no key below it.
    Source code and libraries count too: another version may compute something else.
    """
    many = {port.name for port in node_type.inputs if port.many}
    content: dict[str, Any] = {
        "type": node_type.name,
        "version": node_type.version,
        "params": params.model_dump(mode="json"),
        "inputs": {port: list(digests) for port, digests in inputs.items()},
        # A node with many inputs on one port may distinguish them by where they come from.
        "sources": {port: list(nodes) for port, nodes in sources.items() if port in many},
        "outside": fingerprint,
        "environment": environment_digest(),
    }
    # Only where there are branches: a node outside a sweep keeps the key that it has always had.
    if any(branches):
        content["branches"] = [branch and asdict(branch) for branch in branches]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_requested_nodes(pipeline: Pipeline, catalog: NodeTypes, options: RunOptions) -> None:
    """Raise an error if a valid pipeline lacks or bypasses a node that the options name."""
    _must_run(pipeline, options)
    if options.to or options.force_from:
        _select(expand(pipeline, catalog), options)


def _select(
    expanded: ExpandedPipeline, options: RunOptions
) -> tuple[nx.DiGraph[str], set[str], set[str]]:
    """Return the graph of all nodes, the nodes to run, and those of them that are not cached."""
    to, start = expanded.up_to(options.to), expanded.copies_of(options.force_from)
    nodes = PipelineGraph(expanded.pipeline)
    _must_exist(nodes.graph, to, "--to")
    _must_exist(nodes.graph, start, "--from")
    force = nodes.downstream(start)
    # Without --to, --from alone also says what to run: the nodes below it, and what these need.
    wanted = nodes.upstream(to or force or nodes.graph)
    if unreached := set(start) - wanted:
        names = ", ".join(sorted(unreached))
        raise BadInput(f"--from {names}: --to {', '.join(options.to)} does not depend on it.")
    return nodes.graph, wanted, force


def _must_run(pipeline: Pipeline, options: RunOptions) -> None:
    """Raise ``Bypassed`` for the first node of the options that is bypassed."""
    for name in (*options.to, *options.force_from):
        if name in pipeline.nodes and pipeline.nodes[name].bypass:
            message = "it is bypassed, so it does not run; remove the bypass, or name another node"
            raise Bypassed(message, node=name)


def _must_exist(graph: nx.DiGraph[str], nodes: Collection[str], option: str) -> None:
    """Raise ``BadInput`` for the first node that the pipeline does not have."""
    for node in nodes:
        if node not in graph:
            names = ", ".join(graph)
            raise BadInput(f"{option}: the node '{node}' does not exist; the pipeline has {names}.")


def _inputs(pipeline: Pipeline) -> dict[str, dict[str, list[PortRef]]]:
    """Return the output ports that feed each input port, by node and port."""
    inputs: dict[str, dict[str, list[PortRef]]] = {}
    for edge in pipeline.edges:
        inputs.setdefault(edge.target.node, {}).setdefault(edge.target.port, []).append(edge.source)
    return inputs
