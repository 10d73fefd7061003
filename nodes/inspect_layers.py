"""Look inside a deep forest: what each of its layers and learners makes of the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Code, Names, settings, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.inspection.layer_statistics import LayerStatistics, cascade_of, choose_rows, survey
from nodes.inspection.layers import UNKNOWN, Layers
from nodes.inspection.tsne import fitting_perplexity, lay_out
from nodes.models.encoder import class_codes
from nodes.models.model import FittedModel, describe_model, load_model

if TYPE_CHECKING:
    import numpy as np

    from deepforest.metrics import Metric

PASSING = 0.4
"""Part of the work that the pass through the layers is; the rest is t-SNE."""
MOST_FEATURES = 50
MOST_VECTORS = 100_000_000
"""Most numbers that the class vectors of the sample may be."""


class Params(NodeParams):
    """Which rows are looked at one by one, and how they are laid out."""

    rows: int = Field(
        2_000,
        ge=10,
        le=20_000,
        title="Rows to look at",
        description="So many rows are drawn for t-SNE and to be followed one by one, some of every class. Scores are "
        "of all rows of the table.",
    )
    follow: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list,
        max_length=1_000,
        title="Rows to follow",
        description="Numbers of rows, counted from 0, that have to be among them.",
        json_schema_extra=form_hint(folded=True),
    )
    perplexity: float = Field(
        30.0,
        ge=2,
        le=500,
        title="Perplexity",
        description="t-SNE: about how many neighbours count for each row; less shows small groups, more the whole.",
    )
    seed: int = Field(
        0, ge=0, lt=2**31, title="Seed", description="The same seed gives the same rows in the same places."
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Take the table through the layers once, lay the sampled rows out for each layer, and put it all together."""
    table: Table = inputs["table"]
    model = _deep_forest(inputs["model"].path)
    truth = _truth(table, model)
    rows = choose_rows(truth, _room(ctx, model, params), _followed(params, len(truth)), params.seed)
    ctx.log(f"{len(rows):,} of {len(truth):,} rows are looked at one by one.")
    metric, measure = _steering(model)
    seen = survey(ctx, model, table, truth, rows, measure, PASSING)
    panels = _panels(ctx, seen, params)
    ctx.progress(1.0, "putting it together")
    cascade = cascade_of(model)
    names = cascade.layer_feature_names(model.encoder.names)
    layers = Layers(
        title=model.title,
        kind=str(model.params.get("preset") or model.kind.name),
        metric=metric,
        classes=model.classes,
        features=names[0],
        learners=[learner.name for learner in cascade.layers_[0].learners],
        records=[record.as_dict() for record in cascade.layers_],
        table_rows=len(truth),
        stages=[_stage(layer, seen, panels[layer], cascade, names[layer], measure) for layer in range(len(names))],
        rows=rows,
        left_at=seen.left_at[rows],
        truth=truth[rows],
        embedding=panels,
        vectors=seen.vectors,
        outputs=seen.outputs,
        sample=table.data.take(rows).unify_dictionaries().combine_chunks().replace_schema_metadata(None),
    )
    return {"layers": layers}


# What there is to look at


def _deep_forest(folder: Path) -> FittedModel:
    about = describe_model(folder)
    if about["kind"] != "deep-forest":
        raise BadInput(
            f"the model is a {about['title']} and has no layers to look into; connect one of the Deep forest node, "
            "and use Evaluate for the others"
        )
    return load_model(folder)


def _truth(table: Table, model: FittedModel) -> np.ndarray:
    """Class number of each row, ``UNKNOWN`` where there is none; ``BadInput`` if the table does not fit the model."""
    import numpy as np

    model.encoder.check(table.data)
    if not table.data.num_rows:
        raise BadInput("the table has no rows to look at")
    if table.target is None:
        return np.full(table.data.num_rows, UNKNOWN)
    return class_codes(table.labels(), model.classes).astype(np.int64)


def _room(ctx: NodeContext, model: FittedModel, params: Params) -> int:
    """How many rows may be looked at: as many as wanted, unless their class vectors would be too much to keep."""
    cascade = cascade_of(model)
    most: int = MOST_VECTORS // (len(cascade.estimators_) * cascade.n_learners_ * len(model.classes))
    if most < params.rows:
        ctx.log(f"Only {most:,} rows are looked at: the forest says too much about each of them to keep it of more.")
    return max(1, min(params.rows, most))


def _followed(params: Params, n_rows: int) -> list[int]:
    beyond = [row for row in params.follow if row >= n_rows]
    if beyond:
        raise BadInput(f"there is no row {beyond[0]:,}; the last one is {n_rows - 1:,}", field="follow")
    return params.follow


def _steering(model: FittedModel) -> tuple[str, Metric | None]:
    """The measure that steered the growth, by name, and itself if it is a known one."""
    from deepforest.inspection import steering_measure
    from deepforest.metrics import metric

    cascade = cascade_of(model)
    name = steering_measure([record.as_dict() for record in cascade.layers_], cascade.metric)
    try:
        return name, metric(name)
    except ValueError:
        return name, None


# What is seen


def _panels(ctx: NodeContext, seen: LayerStatistics, params: Params) -> np.ndarray:
    """The sampled rows in the plane after each layer, each panel begun where the one before ended."""
    import numpy as np

    depth, n = len(seen.tallies), len(seen.rows)
    perplexity = fitting_perplexity(params.perplexity, n)
    if perplexity < params.perplexity:
        ctx.log(f"The perplexity is lowered to {perplexity:.3g}: {n:,} rows allow no more.")
    panels = np.zeros((depth, n, 2), np.float32)
    for layer in range(depth):

        def progress(fraction: float, layer: int = layer) -> None:
            ctx.progress(PASSING + (1 - PASSING) * (layer + fraction) / depth, f"t-SNE of layer {layer + 1} of {depth}")

        progress(0.0)
        before = panels[layer - 1] if layer else None
        panels[layer] = lay_out(_representation(seen, layer), before, perplexity, params.seed, ctx.threads, progress)
    return panels


def _representation(seen: LayerStatistics, layer: int) -> np.ndarray:
    """The learners' class vectors side by side; a row that left before has those of the layer it left at."""
    import numpy as np

    last = np.minimum(seen.left_at[seen.rows], layer + 1) - 1
    vectors = seen.vectors[last, :, np.arange(len(last))]  # rows × learners × classes
    return vectors.reshape(len(last), -1)


def _stage(
    layer: int, seen: LayerStatistics, panel: np.ndarray, cascade: Any, names: list[str], measure: Metric | None
) -> dict[str, Any]:
    """What is known of one layer, as plain data."""
    from deepforest.inspection import name_importances, scatter_ratio

    tally, fitted, truth = seen.tallies[layer], cascade.estimators_[layer], seen.truth[seen.rows]
    scores = _scores(layer, seen, measure)
    last = layer + 1 == len(seen.tallies)
    named = name_importances(fitted.importances(), fitted.coefficients, names, MOST_FEATURES)
    return {
        "number": layer + 1,
        "scores": scores[0] if tally.margins.n else None,
        "margins": tally.margins.record(),
        "learner_scores": scores[1:],
        "agreement": (tally.agreements / max(tally.rows, 1)).tolist(),
        "separation": scatter_ratio(panel, truth),
        "separation_vectors": scatter_ratio(_representation(seen, layer), truth),
        **_flow(layer, seen),
        "threshold": None if last else fitted.threshold,
        "importances": [entry._asdict() for entry in named],
    }


def _scores(layer: int, seen: LayerStatistics, measure: Metric | None) -> list[dict[str, float | None]]:
    """Scores of the cascade after a layer, then of each of its learners on the rows that came to it."""
    from deepforest.inspection import USUAL

    tally = seen.tallies[layer]
    scores: list[dict[str, float | None]] = [
        {each.name: float(total / rows) if rows else None for each, total in zip(USUAL, totals, strict=True)}
        for totals, rows in zip(tally.sums.T, tally.judged, strict=True)
    ]
    if measure is not None and measure not in USUAL:
        for about, score in zip(scores, _ranked(layer, seen, measure), strict=True):
            about[measure.name] = score
    return scores


def _ranked(layer: int, seen: LayerStatistics, measure: Metric) -> Iterator[float | None]:
    """The same by a measure that needs the scores of all rows together; none where they were too many to keep."""
    known = seen.truth >= 0
    through = known & (seen.left_at > layer)
    own, learners = seen.own_scores, seen.learner_scores
    yield None if own is None else measure(seen.truth[known], own[layer, known])
    for learner in range(seen.vectors.shape[1]):
        yield None if learners is None else measure(seen.truth[through], learners[layer, learner, through])


def _flow(layer: int, seen: LayerStatistics) -> Mapping[str, Any]:
    """Rows that came into a layer and those that went no further, with the share of these that is wrong."""
    leaves = seen.left_at == layer + 1
    wrong = seen.wrong[leaves & (seen.truth >= 0)]
    return {
        "rows_in": seen.tallies[layer].rows,
        "rows_out": int(leaves.sum()),
        "error_out": float(wrong.mean()) if len(wrong) else None,
    }


def python(params: Params, names: Names) -> Code:
    """How the node reads in a script."""
    inputs = names.inputs
    lines = statement(
        names.outputs["layers"], "steps.inspect_layers", inputs["model"], inputs["table"], **settings(params)
    )
    return Code(lines, ["from nodes import steps"])


NODE = NodeType(
    name="inspect-layers",
    title="Inspect layers",
    category="Judge",
    summary="Looks inside a deep forest: scores, margins, t-SNE, agreement and importances of each layer.",
    version=1,
    params=Params,
    run=run,
    python=python,
    inputs=(Port("model", "model", "Deep forest"), Port("table", "table", "Rows to look at")),
    outputs=(Port("layers", "layers", "Layers"),),
    imports=("numpy", "pyarrow.compute", "lightgbm", "deepforest.presets", "openTSNE"),
)
