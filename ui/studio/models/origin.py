"""Where a model comes from, as far as one can still go there.

- ``Origin``    the run, the node whose layers can be looked into, the pipeline; what is gone is none
- ``origin_of`` finds them by the card
- ``headline``  the one figure that a list of models shows
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import SylvaError
from engine.pipeline import Pipeline
from engine.pipeline_library import Library
from engine.runs import Runs
from engine.workspace import Workspace
from nodes.models.registry import Card, ModelEntry
from ui.studio.previews.measures import shown, title_of

FOREST, INSPECTION = "deep-forest", "inspect-layers"


@dataclass(frozen=True)
class Origin:
    """Places to go to."""

    run: str | None = None
    layers: str | None = None
    """A node of the run that the Inspect page can show."""
    pipeline: str | None = None


def origin_of(card: Card, workspace: Workspace) -> Origin:
    """What of a model's origin is still there."""
    if card.run is None or not card.run_exists:
        return Origin()
    pipeline = card.pipeline_id
    try:
        if pipeline and Library(workspace).version(pipeline) is None:
            pipeline = None
        document = Runs(workspace).pipeline(card.run)
    except SylvaError:
        return Origin()
    return Origin(card.run, layers_node(document, card.node) if document and card.node else None, pipeline)


def layers_node(document: Pipeline, save_node: str) -> str | None:
    """The node that shows the layers of the model that a node saved: an inspection of it, else the forest itself."""
    model = next((edge.source for edge in document.edges if edge.target.node == save_node), None)
    if model is None or model.node not in document.nodes or document.nodes[model.node].type != FOREST:
        return None
    fed = [edge.target.node for edge in document.edges if edge.source == model]
    inspecting = [name for name in fed if name in document.nodes and document.nodes[name].type == INSPECTION]
    return inspecting[0] if inspecting else model.node


def headline(entry: ModelEntry) -> str:
    """The measure that tells most, as a run's list shows it."""
    found = entry.card.metrics
    order = ("auc", "accuracy") if found.get("positive") is not None else ("accuracy", "auc")
    measure = next((name for name in order if found.get(name) is not None), None)
    return f"{title_of(measure)} {shown(measure, found[measure])}" if measure else ""
