"""Find where a saved model comes from: its run, pipeline and data, and how it was evaluated.

The run and the node that saved a model are written beside it. The rest of the card is found in the
log and the stored reports of that run. When the run is done, the card is saved beside the model, so
that it outlives the run.

- ``Card``, ``Source``, ``EvaluationSummary``  what is known
- ``read_card``, ``saved_at``  the card of a model's folder, and when the model was saved
- ``Origin``, ``find_origin``  run, pipeline and layers that can still be opened
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import SylvaError
from engine.graph import PipelineGraph
from engine.workspace import Workspace
from nodes.load_data import NODE as LOAD
from nodes.models.model import FILE
from nodes.models.versions import card_data, save_card_data

if TYPE_CHECKING:
    from engine.pipeline import Pipeline, PortRef
    from engine.run_state import RunState

FOREST, INSPECTION = "deep-forest", "inspect-layers"


@dataclass(frozen=True)
class Source:
    """Name a table that the model was made from: a file or sample, and its rows if known."""

    name: str
    rows: int | None = None


@dataclass(frozen=True)
class EvaluationSummary:
    """Hold an evaluation of the model in the run that saved it."""

    node: str
    title: str
    table: str
    """The output that was scored, as ``node.port``."""
    metrics: Mapping[str, float | int | str | None]


@dataclass(frozen=True)
class Card:
    """Say where a model comes from; all of it may be unknown."""

    run: str | None = None
    run_exists: bool = False
    """Whether the run can still be opened."""
    node: str | None = None
    """The node that saved it."""
    pipeline: str = ""
    """Name of the pipeline."""
    pipeline_id: str | None = None
    """Its id in the workspace, if it was run from there."""
    data: tuple[Source, ...] = ()
    evaluations: tuple[EvaluationSummary, ...] = ()
    script: bool = False
    """Whether a script saved it, outside of any run."""
    imported: str = ""
    """The file that it was imported from; its run is not in this workspace then."""

    @property
    def metrics(self) -> Mapping[str, float | int | str | None]:
        """Return the figures of the first evaluation; empty without one."""
        return self.evaluations[0].metrics if self.evaluations else {}

    @property
    def headline(self) -> str:
        """Return the most important figure, as a list of models shows it: ``AUC 0.925``."""
        from deepforest.metrics import format_metric, headline_metric, metric_title

        name = headline_metric(self.metrics)
        return f"{metric_title(name)} {format_metric(name, self.metrics[name])}" if name else ""


def saved_at(folder: Path) -> float:
    """Return when a model was saved, in seconds since 1970.

    Without a card, it is when ``model.json`` was changed last; 0 without both.
    """
    seconds = card_data(folder).get("saved")
    if isinstance(seconds, int | float):
        return float(seconds)
    with suppress(OSError):
        return (folder / FILE).stat().st_mtime
    return 0.0


def read_card(workspace: Workspace, folder: Path) -> Card:
    """Return the card of a model, as far as it is known.

    A card that is complete is read from the model's folder. Otherwise it is made from the log of
    the run, and saved if the run is done.
    """
    data = card_data(folder)
    imported = data.get("imported")
    if isinstance(imported, str) and imported:
        card = _saved_card(data, "", "") or Card()
        return replace(card, run=None, node=None, pipeline_id=None, imported=imported)
    match data:
        case {"run": str() as run, "node": str() as node}:
            saved = _saved_card(data, run, node)
            known = saved or Card(run, node=node)
            with suppress(SylvaError, OSError):
                return _card_of_run(workspace, folder, data, known, is_complete=saved is not None)
            return known
    return Card(script=data.get("script") is True)


# Cards that were saved. The key "judged" is that of the file.


def _saved_card(data: dict[str, Any], run: str, node: str) -> Card | None:
    """Return the card that was saved beside a model; None if it is missing or incomplete."""
    match data.get("card"):
        case {
            "pipeline": str() as pipeline,
            "pipeline_id": pipeline_id,
            "data": list() as sources,
            "judged": list() as evaluations,
        }:
            return Card(
                run=run,
                node=node,
                pipeline=pipeline,
                pipeline_id=pipeline_id if isinstance(pipeline_id, str) else None,
                data=tuple(filter(None, map(_source, sources))),
                evaluations=tuple(filter(None, map(_evaluation, evaluations))),
            )
    return None


def _source(data: object) -> Source | None:
    """Return a source from a saved card; None if it has other fields."""
    match data:
        case {"name": str() as name, "rows": int() | None as rows}:
            return Source(name, rows)
    return None


def _evaluation(data: object) -> EvaluationSummary | None:
    """Return an evaluation from a saved card; None if it has other fields."""
    match data:
        case {
            "node": str() as node,
            "title": str() as title,
            "table": str() as table,
            "metrics": dict() as metrics,
        }:
            # The file may come from elsewhere: only values that a page can show are used.
            plain = (int, float, str, type(None))
            shown = {name: value for name, value in metrics.items() if isinstance(value, plain)}
            return EvaluationSummary(node, title, table, shown)
    return None


def _save_card(folder: Path, data: dict[str, Any], card: Card) -> None:
    """Write the card beside the model, because the run may be deleted one day.

    If that is not possible, the card is made from the run the next time.
    """
    content = asdict(card)
    content["judged"] = content.pop("evaluations")
    with suppress(OSError, ValueError):
        save_card_data(folder, {**data, "card": content})


# Cards made from a run


def _card_of_run(
    workspace: Workspace, folder: Path, data: dict[str, Any], known: Card, *, is_complete: bool
) -> Card:
    """Return the card with what the log of the run says; ``known`` is what is already saved.

    Raise ``SylvaError`` or ``OSError`` if the run cannot be read.
    """
    from engine.bypass import active_pipeline
    from engine.events import EventLog
    from engine.node_types import load_catalog
    from engine.pipeline_file import parse
    from engine.run_state import run_state

    run, node = str(known.run), str(known.node)
    # Opening the log would create an empty one.
    if not workspace.database.is_file():
        return known
    with EventLog(workspace) as log:
        row = log.run(run)
        # The log also finds runs by the beginning of an id.
        if row.id != run:
            return known
        # The log only has to confirm that the run still exists.
        if is_complete:
            return replace(known, run_exists=True)
        state = run_state(log, row)
    pipeline = active_pipeline(parse(row.document), load_catalog())
    card = Card(
        run=run,
        run_exists=True,
        node=node,
        pipeline=row.name,
        pipeline_id=row.pipeline_id,
        data=tuple(_sources(workspace, pipeline, state, node)),
        evaluations=tuple(_evaluations(workspace, pipeline, state, node)),
    )
    # A run that is resumed may still add evaluations.
    if state.state == "done":
        _save_card(folder, data, card)
    return card


def _sources(
    workspace: Workspace, pipeline: Pipeline, state: RunState, node: str
) -> Iterator[Source]:
    """Yield the tables that the pipeline loaded on the way to the model."""
    upstream = PipelineGraph(pipeline).upstream([node])
    for name, each in pipeline.nodes.items():
        if name in upstream and each.type == LOAD.name:
            source = each.params.get("source", LOAD.params.model_fields["source"].default)
            yield Source(str(source), _stored_rows(workspace, state, name))


def _stored_rows(workspace: Workspace, state: RunState, node: str) -> int | None:
    """Return the number of rows of a stored table, as its file says; None if it is deleted."""
    import pyarrow as pa

    from engine.values import Table

    with suppress(KeyError, OSError, pa.ArrowException):
        digest = state.nodes[node].outputs["table"]["digest"]
        with pa.memory_map(str(workspace.objects / digest / Table.FILE)) as source:
            return int(pa.ipc.open_file(source).read_all().num_rows)
    return None


def _evaluations(
    workspace: Workspace, pipeline: Pipeline, state: RunState, node: str
) -> Iterator[EvaluationSummary]:
    """Yield the evaluations of this model's predictions.

    Those on other rows than the training rows come first: they say how good the model is.
    """
    model = _model_saved_by(pipeline, node)
    if model is None:
        return
    # A score on training rows says little about new data, so these come last. So do rows on which
    # its threshold was chosen.
    makers = {each.node for each in _model_and_sources(pipeline, model)}
    training = {edge.source for edge in pipeline.edges if edge.target.node in makers}
    on_other_rows: list[EvaluationSummary] = []
    on_training_rows: list[EvaluationSummary] = []
    for predict in _targets_of(pipeline, model):
        inputs = [edge.source for edge in pipeline.edges if edge.target.node == predict]
        table = next((source for source in inputs if source != model), None)
        reached = on_training_rows if table in training else on_other_rows
        for name in [edge.target.node for edge in pipeline.edges if edge.source.node == predict]:
            report = _report_of(workspace, state, name)
            if report is not None and report.kind == "evaluation":
                metrics = dict(report.headline)
                reached.append(EvaluationSummary(name, report.title, str(table), metrics))
    yield from on_other_rows
    yield from on_training_rows


def _model_saved_by(pipeline: Pipeline, node: str) -> PortRef | None:
    """Return the output that a save-model node saves; None if nothing is connected."""
    return next((edge.source for edge in pipeline.edges if edge.target.node == node), None)


def _model_and_sources(pipeline: Pipeline, model: PortRef) -> Iterator[PortRef]:
    """Yield the model and those that it was made from, as by a node that chooses a threshold."""
    yield model
    for edge in pipeline.edges:
        if edge.target.node == model.node and edge.target.port == "model":
            yield from _model_and_sources(pipeline, edge.source)


def _targets_of(pipeline: Pipeline, output: PortRef) -> list[str]:
    """Return the nodes that an output is connected with, each once."""
    return list(dict.fromkeys(edge.target.node for edge in pipeline.edges if edge.source == output))


def _report_of(workspace: Workspace, state: RunState, node: str) -> Any:
    """Return the stored report of a node; None if it has none, or it is deleted."""
    from engine.store import Artifact, Store

    outputs = state.nodes[node].outputs.values() if node in state.nodes else []
    for data in outputs:
        if data["type"] == "report":
            with suppress(SylvaError, OSError, KeyError, TypeError, ValueError):
                return Store(workspace).open(Artifact.from_dict(data))
    return None


# What can still be opened


@dataclass(frozen=True)
class Origin:
    """Say which parts of a model's origin still exist."""

    run: str | None = None
    layers: str | None = None
    """A node of the run that the Inspect page can show."""
    pipeline: str | None = None


def find_origin(card: Card, workspace: Workspace) -> Origin:
    """Return which parts of a model's origin still exist, as links for a page."""
    from engine.pipeline_library import Library
    from engine.runs import Runs

    if card.run is None or not card.run_exists:
        return Origin()
    pipeline_id = card.pipeline_id
    try:
        # The pipeline may be deleted while its run is still there.
        if pipeline_id and Library(workspace).version(pipeline_id) is None:
            pipeline_id = None
        pipeline = Runs(workspace).pipeline(card.run)
    except SylvaError:
        return Origin()
    layers = layers_node(pipeline, card.node) if pipeline and card.node else None
    return Origin(card.run, layers, pipeline_id)


def layers_node(pipeline: Pipeline, save_node: str) -> str | None:
    """Return the node that shows the layers of a saved model.

    This is a node that inspects the model, or else the deep forest itself; None for other models.
    """
    model = _model_saved_by(pipeline, save_node)
    types = {name: node.type for name, node in pipeline.nodes.items()}
    if model is None:
        return None
    sources = list(_model_and_sources(pipeline, model))
    # The forest is the first of them: others only add to it.
    if types.get(sources[-1].node) != FOREST:
        return None
    for source in sources:
        for name in _targets_of(pipeline, source):
            if types.get(name) == INSPECTION:
                return name
    return sources[-1].node
