"""What there is to look into: which nodes of a run hold a deep forest, and what is known of it by now.

- ``Choice``, ``choices``   the deep forests of a run, those that were inspected first
- ``Subject``, ``subject``  one of them: the records of its layers, and its inspection once there is one
- ``growth_words``          in a sentence: how many layers were kept, and why growth stopped
- ``screened``              whether rows left before the last layer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.pipeline import Pipeline
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from nodes.inspection.layers import Layers

FOREST, INSPECTION = "deep-forest", "inspect-layers"
TITLES = {FOREST: "Deep forest", INSPECTION: "Inspect layers"}
FINISHED = ("done", "cached")

ReadForest = Callable[[Artifact], Mapping[str, Any]]
"""Records and steering measure of a stored forest, as ``ui.studio.previews.models.forest_record`` gives them."""
ReadLayers = Callable[[Artifact], Layers]


@dataclass(frozen=True)
class Choice:
    """A node that can be looked into."""

    node: str
    label: str
    type: str
    state: str
    forest: str | None
    """The node that grew the forest: itself, or the one whose model it inspects; none if that came from elsewhere."""
    measure: object = None
    """What the forest was told to grow by, if it was told."""


@dataclass(frozen=True)
class Subject:
    """A deep forest as far as it is known."""

    choice: Choice
    records: Sequence[Mapping[str, Any]] = ()
    metric: str = "score"
    layers: Layers | None = None
    digest: str = ""
    """Of what was inspected: tells one inspection from another."""
    at_work: NodeState | None = None
    """The node that has yet to finish, for its words and its share of the work done."""
    error: str = ""
    """Why the node failed."""

    @property
    def stages(self) -> Sequence[Mapping[str, Any]]:
        """What the inspected table showed of each layer."""
        return self.layers.stages if self.layers else ()

    @property
    def kept(self) -> list[Mapping[str, Any]]:
        """The records of the layers that are kept."""
        return [record for record in self.records if record["kept"]]


def choices(document: Pipeline, state: RunState) -> list[Choice]:
    """The deep forests of a run; inspections first, and among them those that are finished."""
    found = [_choice(document, name, state) for name, node in document.nodes.items() if node.type in TITLES]
    if state.nodes or not state.live:  # a run that is just starting has yet to say what it will do
        found = [choice for choice in found if choice.node in state.nodes]
    return sorted(found, key=lambda choice: (choice.type != INSPECTION, choice.state not in FINISHED))


def _choice(document: Pipeline, name: str, state: RunState) -> Choice:
    node = document.nodes[name]
    forest = name if node.type == FOREST else forest_of(document, name)
    measure = document.nodes[forest].params.get("metric") if forest else None
    label = node.label or TITLES[node.type]
    return Choice(name, label, node.type, node_of(state, name).state, forest, measure)


def node_of(state: RunState, name: str) -> NodeState:
    """A node of a run, queued if the run has not come to say so."""
    return state.nodes.get(name, NodeState())


def listed(found: Sequence[Choice]) -> list[Choice]:
    """Choices for a list of runs: a forest that one of the inspections is about need not be listed beside it."""
    inspected = {choice.forest for choice in found if choice.type == INSPECTION}
    return [choice for choice in found if choice.type == INSPECTION or choice.node not in inspected]


def forest_of(document: Pipeline, inspection: str) -> str | None:
    """The deep-forest node whose model arrives at an inspection."""
    sources = [
        edge.source.node
        for edge in document.edges
        if edge.target.node == inspection and edge.target.port == "model"
    ]  # fmt: skip
    return next((name for name in sources if document.nodes[name].type == FOREST), None)


def subject(choice: Choice, state: RunState, read_forest: ReadForest, read_layers: ReadLayers) -> Subject:
    """What is known of the forest at this moment. What the store no longer holds is asked for by the readers."""
    node = node_of(state, choice.node)
    output = _output(node, "layers")
    if output is not None:
        layers = read_layers(output)
        return Subject(choice, layers.records, layers.metric, layers, output.digest)
    at_work = node if node.state in ("running", "queued") else None
    error = str((node.error or {}).get("message", "")) if node.state == "failed" else ""
    records, metric = _of_forest(state.nodes.get(choice.forest or ""), choice.measure, read_forest)
    return Subject(choice, records, metric, at_work=at_work, error=error)


def _of_forest(
    node: NodeState | None, wanted: object, read_forest: ReadForest
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Records and steering measure: of the stored model, else what the node told of the layers finished so far."""
    if node is None:
        return (), "score"
    output = _output(node, "model")
    if output is not None:
        forest = read_forest(output)
        return forest["layers"], forest["metric"]
    from deepforest.inspection import steering_measure

    records = told_layers(node.partial_results)
    return records, steering_measure(records, wanted)


def told_layers(parts: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The layers that a running forest told of, in their order."""
    numbered = [(re.fullmatch(r"layer-(\d+)", name), part) for name, part in parts.items()]
    found = {int(match[1]): part for match, part in numbered if match}
    return [found[number] for number in sorted(found)]


def _output(node: NodeState, port_type: str) -> Artifact | None:
    if node.state not in FINISHED:
        return None
    found = [Artifact.from_dict(about) for about in node.outputs.values() if about["type"] == port_type]
    return found[0] if found else None


def growth_words(records: Sequence[Mapping[str, Any]], *, growing: bool = False) -> str:
    """``3 of 5 layers are kept. Growth stopped: the last 2 layers in a row brought no gain above 0.``"""
    if not records:
        return "No layer is finished yet."
    if growing:
        count = len(records)
        return f"{count} {'layer is' if count == 1 else 'layers are'} finished; the forest is still growing."
    kept, grown = sum(bool(record["kept"]) for record in records), len(records)
    layers = "layer is" if grown == 1 else "layers are"
    said = f"{'All ' if kept == grown > 1 else ''}{kept if kept == grown else f'{kept} of {grown}'} {layers} kept."
    stopped = re.search(r"growth stopped: (.+)$", str(records[-1].get("reason", "")))
    return f"{said} Growth stopped: {stopped[1]}." if stopped else said


def screened(layers: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows left before the last layer."""
    return any(layer["rows_out"] for layer in layers[:-1])
