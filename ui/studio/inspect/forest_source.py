"""Find the deep forests of a run, and what is known of each by now.

- ``ForestChoice``, ``choices``    the deep forests of a run, those that were inspected first
- ``ForestView``, ``forest_view``  one of them: records of its layers, and its inspection if any
- ``forest_records``  the layers of a forest and the metric by which it grew
- ``choice_titles``  a different name for each forest of a run
- ``evaluations_of``  the evaluations of exactly this forest in its run
- ``score_text``   in a few words: the score of the cascade itself, and of which rows it is
- ``growth_text``  in a sentence: how many layers are kept, and why growth stopped
- ``depth_text``   in a sentence: whether layers after the first one paid
- ``screened``     whether rows left before the last layer
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepforest.metrics import REGRESSION_METRICS, format_metric, metric_title
from deepforest.records import SCORED_ON, LayerRecord, depth_sentence
from engine.graph import model_behind
from engine.node_types import NodeTypes
from engine.pipeline import Pipeline
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.text import readable
from nodes.inspection.layers import Layers
from ui.studio.plots.layers import scored_on
from ui.studio.screen_text import node_title

FOREST, INSPECTION = "deep-forest", "inspect-layers"
SOME_PARTS, ALL_PARTS = "growth, margins, learners", "all parts"
"""What the page shows of a forest without and with a finished inspection."""
FINISHED = ("done", "cached")

ReadForest = Callable[[Artifact], Mapping[str, Any]]
"""Returns layers and growth metric of a stored forest, like ``previews.models.forest_record``."""
ReadLayers = Callable[[Artifact], Layers]


@dataclass(frozen=True)
class ForestChoice:
    """A node that the Inspect page can show: a deep forest, or an inspection of one."""

    node: str
    label: str
    """The name of the forest on screen: the label of its node, else the title of the type."""
    title: str
    """The name of the node itself, which is another one for an inspection."""
    type: str
    state: str
    forest: str | None
    """The node that grew the forest: itself, or the one that it inspects; None if unknown."""
    model: str | None = None
    """The node that the model comes from: the same, or another one such as Load model."""
    metric: object = None
    """The growth metric in the settings of the forest, if it is set."""

    @property
    def shows(self) -> str:
        """Return which parts the page has for it."""
        is_inspected = self.type == INSPECTION and self.state in FINISHED
        return ALL_PARTS if is_inspected else SOME_PARTS


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
    model: Artifact | None = None
    """The stored model that was inspected; None if the run does not know it."""
    unfinished: NodeState | None = None
    """The node while it is queued or running, for its progress."""
    error: str = ""
    """Which node failed, and why."""
    title: str = ""
    """The name of the forest on screen; two forests side by side have different names."""
    is_second: bool = False
    """Whether it is shown beside another one."""

    @property
    def predicts_numbers(self) -> bool:
        """Return whether it predicts a number; its rows have neither classes nor margins."""
        return self.metric in REGRESSION_METRICS

    @property
    def key(self) -> str:
        """Return what distinguishes its widgets from those of the other forest."""
        return "second" if self.is_second else "first"

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


def choices(pipeline: Pipeline, state: RunState, catalog: NodeTypes) -> list[ForestChoice]:
    """Return the deep forests of a run: inspections first, and among them those that are finished.

    A node that this run leaves out is not listed.
    """
    forests = [
        _choice(pipeline, name, state, catalog)
        for name, node in pipeline.nodes.items()
        if node.type in (FOREST, INSPECTION)
    ]
    # A run that is just starting has not reported yet which nodes it will run.
    if state.nodes or not state.live:
        forests = [choice for choice in forests if choice.node in state.nodes]
    return sorted(
        # Python sorts False before True.
        forests,
        key=lambda choice: (choice.type != INSPECTION, choice.state not in FINISHED),
    )


def _choice(pipeline: Pipeline, name: str, state: RunState, catalog: NodeTypes) -> ForestChoice:
    """Return the choice for one node, with the forest whose layers it shows."""
    node = pipeline.nodes[name]
    model = name if node.type == FOREST else _model_source(pipeline, name)
    forest = model if model and pipeline.nodes[model].type == FOREST else None
    metric = pipeline.nodes[forest].params.get("metric") if forest else None
    title = node_title(node, catalog)
    label = node_title(pipeline.nodes[model], catalog) if model else title
    # One forest may have several inspections, which their labels distinguish.
    if node.type == INSPECTION and node.label and node.label != label:
        label = f"{label} · {node.label}"
    state_of_node = node_of(state, name).state
    return ForestChoice(name, label, title, node.type, state_of_node, forest, model, metric)


def _model_source(pipeline: Pipeline, inspection: str) -> str | None:
    """Return the node whose model an inspection reads; None if nothing is connected."""
    for edge in pipeline.edges:
        if edge.target.node == inspection and edge.target.port == "model":
            return edge.source.node
    return None


def choice_titles(forests: Sequence[ForestChoice]) -> dict[str, str]:
    """Return a name for each forest, by node; names that are equal are numbered.

    A name says what the page shows, or the state of an inspection that is not finished.
    """
    titles: dict[str, str] = {}
    for choice in forests:
        what = choice.shows
        if choice.type == INSPECTION and what != ALL_PARTS:
            what = f"inspection {choice.state}"
        title = f"{readable(choice.label)} ({what})"
        number = 2
        while title in titles.values():
            title = f"{readable(choice.label)} {number} ({what})"
            number += 1
        titles[choice.node] = title
    return titles


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


def evaluations_of(
    pipeline: Pipeline, state: RunState, catalog: NodeTypes, choice: ForestChoice
) -> list[tuple[str, Artifact]]:
    """Return the reports about predictions of this very model, each with the title of its node.

    The way is that of the run: from the model to its predictions and to what evaluates these.
    """
    found = []
    for name, node in pipeline.nodes.items():
        node_type = catalog.get(node.type)
        # Other reports, such as that of a chosen threshold, do not say how good the model is.
        if node_type is None or node_type.evaluation_output is None:
            continue
        report = _output(node_of(state, name), "report")
        if report and choice.model and model_behind(pipeline, catalog, name) == choice.model:
            found.append((node_title(node, catalog), report))
    return found


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
        model = _output(node_of(state, choice.model), "model") if choice.model else None
        return ForestView(
            choice, layers.records, layers.metric, layers, output.digest, model, title=choice.label
        )
    unfinished = node if node.state in ("running", "queued") else None
    error = ""
    if node.state == "failed" and node.error:
        error = f"{choice.title} failed: {node.error['message']}"
    records, metric = forest_records(choice, state, read_forest)
    return ForestView(
        choice, records, metric, unfinished=unfinished, error=error, title=choice.label
    )


def forest_records(
    choice: ForestChoice, state: RunState, read_forest: ReadForest
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return the layer records and the growth metric of a forest, as far as it has grown.

    A stored model has both. A growing one has published its layers, and the settings of its node
    name the metric.
    """
    node = state.nodes.get(choice.forest or "")
    if node is None:
        return (), "score"
    output = _output(node, "model")
    if output is not None:
        forest = read_forest(output)
        return forest["layers"], forest["metric"]
    # Imported late: the library takes seconds to load, and only a growing forest needs it.
    from deepforest.inspection import steering_measure

    records = reported_layers(node.partial_results)
    return records, steering_measure(records, choice.metric)


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


def score_text(records: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return the score of the last kept layer: metric, value, error and rows; empty without one.

    For example: ``Accuracy 97.1 % ± 0.4 % on rows that no layer has seen``.
    """
    kept = [record for record in records if record["kept"]]
    if not kept:
        return ""
    last = kept[-1]
    text = f"{metric_title(metric)} {format_metric(metric, last['score'])}"
    if last.get("score_se"):
        text += f" ± {format_metric(metric, last['score_se'])}"
    return f"{text} on {SCORED_ON[scored_on(last)]}".replace(" on out-of-fold", ", out-of-fold")


def depth_text(records: Sequence[Mapping[str, Any]], *, growing: bool = False) -> str:
    """Return whether depth paid, as a sentence; empty while the forest grows."""
    if growing or not records:
        return ""
    if len(records) == 1:
        return "A single layer was grown: it is not known whether a second one would pay."
    sentence = depth_sentence([LayerRecord.from_dict(record) for record in records])
    return f"{sentence}." if sentence else ""


def screened(layers: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows left before the last layer.

    All rows leave at the last layer, so that one does not count.
    """
    return any(layer["rows_out"] for layer in layers[:-1])
