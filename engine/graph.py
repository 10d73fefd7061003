"""Answer which node of a pipeline reads from which, by one networkx graph.

- ``PipelineGraph``  order, upstream, downstream, cycles and paths of a pipeline's nodes
- ``model_behind``, ``models_behind``  the node whose model made the predictions that another node
  evaluates; the same for all nodes
- ``trained_model_behind``  the node that trained this model
- ``takes_one_model``  whether nodes of a type take one model
- ``output_type``    the type of an output port

networkx takes longer to import than the rest of this package, so it is imported on first use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

    from engine.node_types import NodeType, NodeTypes
    from engine.pipeline import Pipeline, PortRef


class PipelineGraph:
    """The nodes of a pipeline and what leads from one to another.

    Edges of unknown nodes and edges from a node to itself are left out: these are problems of their
    own, which ``engine.validation`` reports. A name that is not in the pipeline has nothing around
    it.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        import networkx as nx

        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(pipeline.nodes)
        for edge in pipeline.edges:
            source, target = edge.source.node, edge.target.node
            if source != target and source in pipeline.nodes and target in pipeline.nodes:
                self.graph.add_edge(source, target)

    def order(self) -> list[str]:
        """Return every node after those it reads from; nodes on or behind a cycle are left out."""
        import networkx as nx

        nodes: list[str] = []
        with contextlib.suppress(nx.NetworkXUnfeasible):  # raised for a cycle, at the end
            for generation in nx.topological_generations(self.graph):
                nodes += generation
        return nodes

    def upstream(self, nodes: Iterable[str]) -> set[str]:
        """Return these nodes and all that they depend on."""
        return set(chain.from_iterable(self.layers_above(nodes)))

    def layers_above(self, nodes: Iterable[str]) -> Iterator[list[str]]:
        """Yield these nodes, then the nodes they read from, then those before them, and so on."""
        import networkx as nx

        return nx.bfs_layers(self.graph.reverse(copy=False), self._present(nodes))

    def downstream(self, nodes: Iterable[str]) -> set[str]:
        """Return these nodes and all that depend on them."""
        import networkx as nx

        return set(chain.from_iterable(nx.bfs_layers(self.graph, self._present(nodes))))

    def _present(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes that exist: networkx raises for others."""
        return [node for node in nodes if node in self.graph]

    def path(self, source: str, target: str) -> list[str] | None:
        """Return the shortest path from one node to another, or ``None``."""
        import networkx as nx

        try:
            return nx.shortest_path(self.graph, source, target)
        except nx.NetworkXNoPath:
            return None

    def cycles(self) -> list[list[str]]:
        """Return one cycle for each group of nodes that wait for each other.

        A cycle begins at the node that is first in the pipeline; so does the list of cycles.
        """
        import networkx as nx

        position = {name: index for index, name in enumerate(self.graph)}
        cycles = []
        for group in nx.strongly_connected_components(self.graph):
            # A group of one node is not a cycle: edges from a node to itself are left out.
            if len(group) > 1:
                first = min(group, key=position.__getitem__)
                cycle = [source for source, _ in nx.find_cycle(self.graph.subgraph(group), first)]
                start = cycle.index(min(cycle, key=position.__getitem__))
                cycles.append((position[first], [*cycle[start:], *cycle[:start]]))
        return [cycle for _, cycle in sorted(cycles)]


def model_behind(pipeline: Pipeline, catalog: NodeTypes, node: str) -> str | None:
    """Return the node whose model made the predictions that ``node`` evaluates."""
    return models_behind(pipeline, catalog).get(node)


def models_behind(pipeline: Pipeline, catalog: NodeTypes) -> dict[str, str]:
    """Return for each node the one whose model it uses, directly or by predictions."""
    import networkx as nx

    # Against the edges, from an evaluation to the predictions and from these to the model.
    upward: nx.DiGraph[str] = nx.DiGraph()
    for edge in pipeline.edges:
        port_type = output_type(pipeline, catalog, edge.source)
        if port_type in ("model", "predictions"):
            upward.add_edge(edge.target.node, edge.source.node, type=port_type)
    behind = {}
    for node in upward:
        for target, source in nx.bfs_edges(upward, node):
            if upward.edges[target, source]["type"] == "model":
                behind[node] = source
                break
    return behind


def trained_model_behind(pipeline: Pipeline, catalog: NodeTypes, node: str) -> str | None:
    """Return the node that trained the model that ``node`` evaluates.

    Nodes such as Choose threshold, which take one model and pass it on, are skipped.
    """
    behind = models_behind(pipeline, catalog)
    model = behind.get(node)
    while model in behind and takes_one_model(catalog.get(pipeline.nodes[model].type)):
        model = behind[model]
    return model


def takes_one_model(node_type: NodeType | None) -> bool:
    """Return whether nodes of this type have a single input for models, and for one model."""
    inputs = node_type.inputs if node_type else ()
    return [port.many for port in inputs if port.type == "model"] == [False]


def output_type(pipeline: Pipeline, catalog: NodeTypes, output: PortRef) -> str | None:
    """Return the type of an output port; None if node, type or port is unknown."""
    node = pipeline.nodes.get(output.node)
    node_type = catalog.get(node.type) if node else None
    port = node_type.output(output.port) if node_type else None
    return port.type if port else None
