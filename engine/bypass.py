"""Leave bypassed nodes out of a pipeline, and connect what reads them with what they read.

A run does not have the nodes with ``bypass``. An output of such a node that something reads is
replaced by what arrives at an input of the node: the first input, in the order of the node type,
that has one edge, brings the type of the output, and does not already replace another output. The
last condition matters: otherwise the training rows and the test rows of a bypassed Split would be
the same rows.

- ``active_pipeline``   the pipeline that a run has; plans, checks, sweeps and exports begin here
- ``bypass_problems``   the bypassed nodes whose outputs nothing can replace
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import CannotBypass, Problem
from engine.graph import PipelineGraph, output_type
from engine.node_types import NodeType, NodeTypes, Port
from engine.pipeline import Edge, Pipeline, PortRef
from engine.pipeline_file import with_values


def has_bypass(pipeline: Pipeline) -> bool:
    """Return whether any node is bypassed."""
    return any(node.bypass for node in pipeline.nodes.values())


def active_pipeline(pipeline: Pipeline, catalog: NodeTypes) -> Pipeline:
    """Return the pipeline without its bypassed nodes, and with edges that lead past them.

    An edge is left out if nothing can replace its source: ``bypass_problems`` reports that. The
    pipeline itself is returned if no node is bypassed.
    """
    if not has_bypass(pipeline):
        return pipeline
    outputs = _BypassedOutputs(pipeline, catalog)
    nodes = {name: node for name, node in pipeline.nodes.items() if not node.bypass}
    edges: dict[Edge, None] = {}
    for edge in pipeline.edges:
        source = outputs.resolve(edge.source)
        # Two edges into one input may become the same: one that leads past a node, and one that
        # was there before.
        if source is not None and edge.target.node not in outputs.bypassed:
            edges[Edge(source=source, target=edge.target)] = None
    return with_values(pipeline, nodes=nodes, edges=tuple(edges), groups=())


def bypass_problems(pipeline: Pipeline, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield a problem for each output of a bypassed node that is read and cannot be replaced."""
    if not has_bypass(pipeline):
        return
    for (node, port), port_type in _BypassedOutputs(pipeline, catalog).irreplaceable.items():
        reason = "the node type is not installed"
        if port_type is not None:
            reason = f"no input of type {port_type} is left that could replace the output"
        message = (
            f"the node cannot be bypassed: {reason}; remove the bypass, or disconnect the output"
        )
        yield CannotBypass(message, node=node, field=port)


class _BypassedOutputs:
    """What replaces each output of a bypassed node that a run needs.

    ``irreplaceable`` has the outputs that are needed and cannot be replaced, with their types.
    """

    def __init__(self, pipeline: Pipeline, catalog: NodeTypes) -> None:
        self.pipeline, self.catalog = pipeline, catalog
        self.bypassed = {name for name, node in pipeline.nodes.items() if node.bypass}
        self.irreplaceable: dict[PortRef, str | None] = {}
        self._sources: dict[PortRef, list[PortRef]] = {}
        for edge in pipeline.edges:
            self._sources.setdefault(edge.target, []).append(edge.source)
        self._replacements: dict[PortRef, PortRef] = {}
        self._needed = {
            edge.source for edge in pipeline.edges if edge.target.node not in self.bypassed
        }
        # Against the edges: whether an output is needed is known when its readers are done.
        for name in reversed(PipelineGraph(pipeline).order()):
            if name in self.bypassed:
                self._replace_outputs(name, catalog.get(pipeline.nodes[name].type))

    def resolve(self, output: PortRef) -> PortRef | None:
        """Return the output of a node that runs, past all bypassed nodes, or None."""
        replaced: PortRef | None = output
        while replaced is not None and replaced.node in self.bypassed:
            replaced = self._replacements.get(replaced)
        return replaced

    def _replace_outputs(self, name: str, node_type: NodeType | None) -> None:
        """Find for each needed output of a node what arrives and can replace it."""
        if node_type is None:
            needed = sorted(output for output in self._needed if output.node == name)
            self.irreplaceable |= dict.fromkeys(needed)
            return
        free = list(node_type.inputs)
        for output in node_type.outputs:
            if PortRef(name, output.name) not in self._needed:
                continue
            fitting = [entry for entry in free if self._arriving_type(name, entry) == output.type]
            if not fitting:
                self.irreplaceable[PortRef(name, output.name)] = output.type
                continue
            [source] = self._sources[PortRef(name, fitting[0].name)]
            self._replacements[PortRef(name, output.name)] = source
            self._needed.add(source)
            free.remove(fitting[0])

    def _arriving_type(self, name: str, entry: Port) -> str | None:
        """Return the type of what arrives at an input; None without an edge, or with several."""
        sources = self._sources.get(PortRef(name, entry.name), [])
        if len(sources) != 1:
            return None
        # The source may be of an unknown type; that is a problem of its own.
        return output_type(self.pipeline, self.catalog, sources[0]) or entry.type
