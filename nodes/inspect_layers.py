"""Inspect a deep forest: what each of its layers and learners predicts for the rows of a table.

The table passes through the layers once. Scores and margins are of all rows; t-SNE, the input and
single predictions are of a sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.columns import task_of
from nodes.models.model import FittedModel, describe_model, load_model

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from deepforest.metrics import Metric
    from nodes.inspection.layer_statistics import LayerStatistics

PASS_SHARE = 0.4
"""Share of the work that the pass through the layers takes; the rest is t-SNE."""
MAX_FEATURES = 50
MAX_VECTORS = 100_000_000
"""Most values in the class vectors of the sample."""
INPUT_COLUMNS = 50
"""Most columns of the input that are stored; of more columns, the principal components are."""
INPUT_LIMIT = 3.0
"""Standard deviations at which values of the input are cut."""


NUMBERS = (
    "the deep forest predicts a number, and this view follows classes from layer to layer; open "
    "the result of the Deep forest node to see its RMSE by layer"
)


class InspectLayersParams(NodeParams):
    """Choose which rows are inspected one by one, and how t-SNE arranges them."""

    rows: int = Field(
        2_000,
        ge=10,
        le=20_000,
        title="Rows to inspect",
        description="Number of rows, some of every class, that t-SNE shows and that can be "
        "followed one by one. Scores use all rows of the table.",
    )
    follow: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list,
        max_length=1_000,
        title="Rows to follow",
        description="Row numbers, counted from 0, that must be among the inspected rows.",
        json_schema_extra=form_hint(folded=True),
    )
    perplexity: float = Field(
        30.0,
        ge=2,
        le=500,
        title="Perplexity",
        description="t-SNE: about how many neighbours each row has. A low value shows small "
        "groups, a high value the overall structure.",
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**31,
        title="Seed",
        description="The same seed gives the same rows and the same maps.",
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: InspectLayersParams) -> dict[str, Any]:
    """Pass the table through the layers, and embed the sampled rows for each layer.

    Raise ``BadInput`` if the model is not a deep forest, or if the table does not fit it.
    """
    from deepforest.inspection import scatter_ratio
    from nodes.inspection.layer_statistics import choose_rows, compute_statistics
    from nodes.inspection.layers import Layers
    from nodes.inspection.windows import describe_scans

    table: Table = inputs["table"]
    model = _deep_forest(inputs["model"].path)
    truth = _truth(table, model)
    size, followed = _sample_size(ctx, model, params), _followed(params, len(truth))
    rows = choose_rows(truth, size, followed, params.seed)
    ctx.log(f"{len(rows):,} of {len(truth):,} rows are inspected one by one.")
    metric_name, metric = _growth_metric(model)
    statistics = compute_statistics(ctx, model, table, truth, rows, metric, PASS_SHARE)
    # One dictionary for all chunks, and no metadata: the same rows give the same bytes.
    sample = table.data.take(rows).unify_dictionaries().combine_chunks()
    scaled = _scaled_input(model, sample)
    points = _few_columns(scaled, params.seed)
    panels = _panels(ctx, statistics, points, params)
    ctx.progress(1.0, "collecting the result")
    cascade = model.estimator
    names = cascade.layer_feature_names(model.encoder.names)
    layers = Layers(
        title=model.title,
        kind=str(model.params.get("preset") or model.kind.name),
        metric=metric_name,
        classes=model.classes,
        features=model.encoder.names,
        learners=[learner.name for learner in cascade.layer_records_[0].learners],
        records=[record.as_dict() for record in cascade.layer_records_],
        table_rows=len(truth),
        stages=[
            _stage(layer, statistics, panels[layer + 1], cascade, names[layer], metric)
            for layer in range(len(names))
        ],
        rows=rows,
        left_at=statistics.left_at[rows],
        truth=truth[rows],
        embedding=panels[1:],
        vectors=statistics.vectors,
        outputs=statistics.outputs,
        sample=sample.replace_schema_metadata(None),
        input={
            "columns": scaled.shape[1],
            "separation": scatter_ratio(panels[0], truth[rows]),
            "separation_vectors": scatter_ratio(scaled, truth[rows]),
        },
        scans=describe_scans(cascade),
        inputs=points,
        input_embedding=panels[0],
    )
    return {"layers": layers}


# Input


def _deep_forest(folder: Path) -> FittedModel:
    """Load the model; raise ``BadInput`` if it is not a deep forest."""
    data = describe_model(folder)
    if data["kind"] != "deep-forest":
        raise BadInput(
            f"the model is a {data['title']}, which has no layers; connect the model of a Deep "
            "forest node, and use Evaluate for other models"
        )
    if not data["classes"]:
        raise BadInput(NUMBERS)
    return load_model(folder)


def _truth(table: Table, model: FittedModel) -> np.ndarray:
    """Return the class number of each row, ``MISSING`` where it has none.

    Raise ``BadInput`` if the table lacks columns, has no rows, or holds other classes than the
    model.
    """
    import numpy as np

    from nodes.models.encoder import MISSING, class_codes

    model.encoder.check(table.data)
    if not table.data.num_rows:
        raise BadInput("the table has no rows to inspect; connect a table with rows")
    if table.target is None:
        return np.full(table.data.num_rows, MISSING)
    return class_codes(table.labels(), model.classes).astype(np.int64)


def _sample_size(ctx: NodeContext, model: FittedModel, params: InspectLayersParams) -> int:
    """Return the size of the sample: as requested, unless its class vectors would be too large."""
    cascade = model.estimator
    most: int = MAX_VECTORS // (cascade.n_layers_ * cascade.n_learners_ * len(model.classes))
    if most < params.rows:
        ctx.log(
            f"Only {most:,} rows are inspected: the class vectors of more rows would be too large "
            "to store."
        )
    return max(1, min(params.rows, most))


def _followed(params: InspectLayersParams, n_rows: int) -> list[int]:
    """Return the rows to follow; raise ``BadInput`` if one of them does not exist."""
    beyond = [row for row in params.follow if row >= n_rows]
    if beyond:
        raise BadInput(
            f"row {beyond[0]:,} does not exist; rows are counted from 0, and the last one is "
            f"{n_rows - 1:,}",
            field="follow",
        )
    return params.follow


def _growth_metric(model: FittedModel) -> tuple[str, Metric | None]:
    """Return the name of the metric that decided about growth, and the metric if it is known."""
    from deepforest.inspection import steering_measure
    from deepforest.metrics import metric

    cascade = model.estimator
    name = steering_measure(
        [record.as_dict() for record in cascade.layer_records_], cascade.scoring
    )
    try:
        return name, metric(name)
    # A script may grow a cascade by a function of its own, which has no known name.
    except ValueError:
        return name, None


# Results


def _scaled_input(model: FittedModel, sample: pa.Table) -> np.ndarray:
    """Return the columns that the forest reads as numbers on one scale, rows × columns.

    Trees do not need a scale, distances do: numbers are standardised as in training, categories
    have a column each.
    """
    import numpy as np

    from nodes.models.encoder import TableEncoder

    matrix = TableEncoder("onehot", model.encoder.columns).transform(sample, "float32")
    # A pixel that is almost always empty would otherwise count more than all others together.
    return np.asarray(np.clip(matrix, -INPUT_LIMIT, INPUT_LIMIT))


def _few_columns(matrix: np.ndarray, seed: int) -> np.ndarray:
    """Return the matrix, or its first principal components if it has many columns."""
    import numpy as np

    # A single row has no principal components.
    if matrix.shape[1] <= INPUT_COLUMNS or len(matrix) == 1:
        return matrix
    from sklearn.decomposition import PCA

    from nodes.models.training import one_blas_thread

    components = min(INPUT_COLUMNS, len(matrix))
    with one_blas_thread():
        reduced = PCA(components, random_state=seed).fit_transform(matrix)
    return np.asarray(reduced, np.float32)


def _panels(
    ctx: NodeContext,
    statistics: LayerStatistics,
    inputs: np.ndarray,
    params: InspectLayersParams,
) -> np.ndarray:
    """Return where t-SNE puts the sampled rows: of the input, then after each layer.

    The result is (1 + layers) × rows × 2. Each panel starts from the one before, so that a reader
    can follow a point from panel to panel.
    """
    import numpy as np

    from nodes.inspection.layers import vectors_side_by_side
    from nodes.inspection.tsne import embed, fitting_perplexity

    depth, n = len(statistics.layer_sums), len(statistics.rows)
    perplexity = fitting_perplexity(params.perplexity, n)
    if perplexity < params.perplexity:
        ctx.log(f"The perplexity is lowered to {perplexity:.3g}, the most that {n:,} rows allow.")
    panels = np.zeros((1 + depth, n, 2), np.float32)
    left_at = statistics.left_at[statistics.rows]
    for number in range(1 + depth):
        what = f"layer {number} of {depth}" if number else "the input"

        # The defaults bind the panel of this turn of the loop.
        def progress(fraction: float, number: int = number, what: str = what) -> None:
            done = (number + fraction) / (1 + depth)
            ctx.progress(PASS_SHARE + (1 - PASS_SHARE) * done, f"t-SNE of {what}")

        progress(0.0)
        if number:
            before = panels[number - 1]
            points = vectors_side_by_side(statistics.vectors, left_at, number)
        else:
            before, points = None, inputs
        panels[number] = embed(points, before, perplexity, params.seed, ctx.threads, progress)
    return panels


def _stage(
    layer: int,
    statistics: LayerStatistics,
    panel: np.ndarray,
    cascade: Any,
    names: list[str],
    metric: Metric | None,
) -> dict[str, Any]:
    """Return the figures of one layer as plain data, as ``Layers.stages`` describes them."""
    from deepforest.inspection import name_importances, scatter_ratio
    from nodes.inspection.layers import vectors_side_by_side

    sums, fitted = statistics.layer_sums[layer], cascade.cascades_[0].layers[layer]
    truth, left_at = statistics.truth[statistics.rows], statistics.left_at[statistics.rows]
    vectors = vectors_side_by_side(statistics.vectors, left_at, layer + 1)
    scores = _scores(layer, statistics, metric)
    last = layer + 1 == len(statistics.layer_sums)
    named = name_importances(
        cascade.layer_importances()[layer], fitted.coefficients, names, MAX_FEATURES
    )
    return {
        "number": layer + 1,
        "scores": scores[0] if sums.margins.n else None,
        "margins": sums.margins.record(),
        "learner_scores": scores[1:],
        "agreement": (sums.agreements / max(sums.rows, 1)).tolist(),
        "separation": scatter_ratio(panel, truth),
        "separation_vectors": scatter_ratio(vectors, truth),
        **_flow(layer, statistics),
        "threshold": None if last else fitted.threshold,
        "importances": [entry._asdict() for entry in named],
    }


def _scores(
    layer: int, statistics: LayerStatistics, metric: Metric | None
) -> list[dict[str, float | None]]:
    """Return the scores of the cascade after a layer, then of its learners on rows that reached it.

    Each is a value by metric name, None if no row has a known class. The growth metric is added if
    it is not one of the usual ones.
    """
    from deepforest.inspection import USUAL

    sums = statistics.layer_sums[layer]
    names = [each.name for each in USUAL]
    scores: list[dict[str, float | None]] = []
    for totals, rows in zip(sums.sums.T, sums.n_scored, strict=True):
        means = (totals / rows).tolist() if rows else [None] * len(names)
        scores.append(dict(zip(names, means, strict=True)))
    if metric is not None and metric not in USUAL:
        for score_of, score in zip(scores, _ranked(layer, statistics, metric), strict=True):
            score_of[metric.name] = score
    return scores


def _ranked(layer: int, statistics: LayerStatistics, metric: Metric) -> Iterator[float | None]:
    """Yield the growth metric of the cascade and of each learner, for a metric that ranks rows.

    Such a metric needs the scores of all rows together. Yield None where they did not fit into
    memory.
    """
    known = statistics.truth >= 0
    through = known & (statistics.left_at > layer)
    own, learners = statistics.own_scores, statistics.learner_scores
    yield None if own is None else metric(statistics.truth[known], own[layer, known])
    for learner in range(statistics.vectors.shape[1]):
        if learners is None:
            yield None
        else:
            yield metric(statistics.truth[through], learners[layer, learner, through])


def _flow(layer: int, statistics: LayerStatistics) -> Mapping[str, Any]:
    """Return how many rows reached a layer and left after it, and the error of those that left."""
    leaves = statistics.left_at == layer + 1
    wrong = statistics.wrong[leaves & (statistics.truth >= 0)]
    return {
        "rows_in": statistics.layer_sums[layer].rows,
        "rows_out": int(leaves.sum()),
        "error_out": float(wrong.mean()) if len(wrong) else None,
    }


def columns(
    inputs: Mapping[str, Columns | None], params: InspectLayersParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the target is a number; return no columns."""
    table = inputs.get("table")
    if table is not None and task_of(table) == "regression":
        raise BadInput(NUMBERS)
    return {}


NODE = NodeType(
    name="inspect-layers",
    title="Inspect layers",
    category="Evaluate",
    summary="Shows the inside of a deep forest: scores, margins, t-SNE, agreement and importances "
    "of each layer.",
    version=2,
    params=InspectLayersParams,
    run=run,
    python=step_call("nodes.steps.inspect_layers"),
    inputs=(Port("model", "model", "Deep forest"), Port("table", "table", "Rows to inspect")),
    outputs=(Port("layers", "layers", "Layers"),),
    output_columns=columns,
    imports=(
        "numpy",
        "nodes.inspection.layers",
        "lightgbm",
        "deepforest.presets",
        "openTSNE",
        "sklearn.decomposition",
    ),
)
