"""Find the deep forests of a run, and what is known of each by now.

- ``ForestChoice``, ``choices``    the deep forests of a run, those that were inspected first
- ``ForestView``, ``forest_view``  one of them: records of its layers, and its inspection if any
- ``growth_text``  in a sentence: how many layers are kept, and why growth stopped
- ``depth_text``   in a sentence: whether layers after the first one paid
- ``screened``     whether rows left before the last layer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepforest.records import LayerRecord, depth_sentence
from engine.pipeline import Pipeline
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from nodes.inspection.layers import Layers

FOREST, INSPECTION = "deep-forest", "inspect-layers"
TITLES = {FOREST: "Deep forest", INSPECTION: "Inspect layers"}
FINISHED = ("done", "cached")

ReadForest = Callable[[Artifact], Mapping[str, Any]]
"""Returns layers and growth metric of a stored forest, like ``previews.models.forest_record``."""
ReadLayers = Callable[[Artifact], Layers]


@dataclass(frozen=True)
class ForestChoice:
    """A node that the Inspect page can show: a deep forest, or an inspection of one."""

    node: str
    label: str
    type: str
    state: str
    forest: str | None
    """The node that grew the forest: itself, or the one that it inspects; None if unknown."""
    metric: object = None
    """The growth metric in the settings of the forest, if it is set."""


@dataclass(frozen=True)
class ForestView:
    """What is known of a deep forest at one moment.

    Records of layers come from training, stages from an inspection. A forest that is still growing
    has only the records of the layers that are finished.
    """

    choice: ForestChoice
    records: Sequence[Mapping[str, Any]] = ()
    metric: str = "score"
    layers: Layers | None = None
    digest: str = ""
    """Identifies the inspection."""
    unfinished: NodeState | None = None
    """The node while it is queued or running, for its progress."""
    error: str = ""
    """Why the node failed."""

    @property
    def stages(self) -> Sequence[Mapping[str, Any]]:
        """Return the statistics of each layer on the inspected table.

        They are empty without an inspection.
        """
        return self.layers.stages if self.layers else ()

    @property
    def kept(self) -> list[Mapping[str, Any]]:
        """Return the records of the layers that are kept."""
        return [record for record in self.records if record["kept"]]


def choices(pipeline: Pipeline, state: RunState) -> list[ForestChoice]:
    """Return the deep forests of a run: inspections first, and among them those that are finished.

    A node that this run leaves out is not listed.
    """
    forests = [
        _choice(pipeline, name, state)
        for name, node in pipeline.nodes.items()
        if node.type in TITLES
    ]
    # A run that is just starting has not reported yet which nodes it will run.
    if state.nodes or not state.live:
        forests = [choice for choice in forests if choice.node in state.nodes]
    return sorted(
        # Python sorts False before True.
        forests,
        key=lambda choice: (choice.type != INSPECTION, choice.state not in FINISHED),
    )


def _choice(pipeline: Pipeline, name: str, state: RunState) -> ForestChoice:
    """Return the choice for one node, with the forest whose layers it shows."""
    node = pipeline.nodes[name]
    forest = name if node.type == FOREST else forest_of(pipeline, name)
    metric = pipeline.nodes[forest].params.get("metric") if forest else None
    label = node.label or TITLES[node.type]
    return ForestChoice(name, label, node.type, node_of(state, name).state, forest, metric)


def node_of(state: RunState, name: str) -> NodeState:
    """Return the state of a node; it is queued if the run has not reported it yet."""
    return state.nodes.get(name, NodeState())


def listed(forests: Sequence[ForestChoice]) -> list[ForestChoice]:
    """Return the choices for a list of many runs.

    A forest is left out if an inspection of it is in the list: that shows more.
    """
    inspected = {choice.forest for choice in forests if choice.type == INSPECTION}
    return [
        choice for choice in forests if choice.type == INSPECTION or choice.node not in inspected
    ]


def forest_of(pipeline: Pipeline, inspection: str) -> str | None:
    """Return the deep-forest node whose model an inspection reads.

    It is None if the model comes from another node, such as Load model.
    """
    sources = [
        edge.source.node
        for edge in pipeline.edges
        if edge.target.node == inspection and edge.target.port == "model"
    ]  # fmt: skip
    return next((name for name in sources if pipeline.nodes[name].type == FOREST), None)


def forest_view(
    choice: ForestChoice, state: RunState, read_forest: ReadForest, read_layers: ReadLayers
) -> ForestView:
    """Return what is known of a forest now.

    A finished inspection has everything. Otherwise the records come from the stored model, or from
    what the node has published so far. The readers raise ``CorruptObject`` if the store lost an
    output.
    """
    node = node_of(state, choice.node)
    # An inspection has the records of its forest too.
    output = _output(node, "layers")
    if output is not None:
        layers = read_layers(output)
        return ForestView(choice, layers.records, layers.metric, layers, output.digest)
    unfinished = node if node.state in ("running", "queued") else None
    error = str((node.error or {}).get("message", "")) if node.state == "failed" else ""
    records, metric = _of_forest(state.nodes.get(choice.forest or ""), choice.metric, read_forest)
    return ForestView(choice, records, metric, unfinished=unfinished, error=error)


def _of_forest(
    node: NodeState | None, metric: object, read_forest: ReadForest
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return the layer records and the growth metric of a forest.

    ``metric`` is what the settings of the node ask for. A stored model knows its own.
    """
    if node is None:
        return (), "score"
    output = _output(node, "model")
    if output is not None:
        forest = read_forest(output)
        return forest["layers"], forest["metric"]
    # Imported late: the library takes seconds to load, and only a growing forest needs it.
    from deepforest.inspection import steering_measure

    records = reported_layers(node.partial_results)
    return records, steering_measure(records, metric)


def reported_layers(parts: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the layer records that a running forest has published, in the order of the layers.

    Partial results have names such as ``layer-3``; other names are ignored.
    """
    numbered = [(re.fullmatch(r"layer-(\d+)", name), part) for name, part in parts.items()]
    records = {int(match[1]): part for match, part in numbered if match}
    return [records[number] for number in sorted(records)]


def _output(node: NodeState, port_type: str) -> Artifact | None:
    """Return the output of this type, if the node is finished and has one."""
    if node.state not in FINISHED:
        return None
    outputs = [
        Artifact.from_dict(data) for data in node.outputs.values() if data["type"] == port_type
    ]
    return outputs[0] if outputs else None


def growth_text(records: Sequence[Mapping[str, Any]], *, growing: bool = False) -> str:
    """Return how far a forest has grown, as text for the page.

    For example: ``3 of 5 layers are kept. Growth stopped: the last 2 layers in a row brought no
    gain above 0.``
    """
    if not records:
        return "No layer is finished yet."
    if growing:
        count = len(records)
        layers = "layer is" if count == 1 else "layers are"
        return f"{count} {layers} finished; the forest is still growing."
    kept, grown = sum(bool(record["kept"]) for record in records), len(records)
    layers = "layer is" if grown == 1 else "layers are"
    if kept < grown:
        text = f"{kept} of {grown} {layers} kept."
    elif grown == 1:
        text = f"1 {layers} kept."
    else:
        text = f"All {grown} {layers} kept."
    # The reason of the last layer ends with why growth stopped, unless it was the last allowed.
    stopped = re.search(r"growth stopped: (.+)$", str(records[-1].get("reason", "")))
    return f"{text} Growth stopped: {stopped[1]}." if stopped else text


def depth_text(records: Sequence[Mapping[str, Any]], *, growing: bool = False) -> str:
    """Return whether depth paid, as a sentence; empty while the forest grows."""
    if growing:
        return ""
    sentence = depth_sentence([LayerRecord.from_dict(record) for record in records])
    return f"{sentence}." if sentence else ""


def screened(layers: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows left before the last layer.

    All rows leave at the last layer, so that one does not count.
    """
    return any(layer["rows_out"] for layer in layers[:-1])
