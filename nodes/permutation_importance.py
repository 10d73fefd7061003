"""Measure which columns a model needs: shuffle each in turn, and see how much worse it predicts.

Rows that the model was trained on would make columns look important that it has only memorised:
connect test rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Report, Table
from nodes.data.columns import HOW_TO_TARGET
from nodes.models.metric_titles import METRIC_TITLES
from nodes.models.model import FittedModel, load_model

if TYPE_CHECKING:
    from deepforest.importance import PermutationImportance


Score = Literal[
    "auto",
    "log_loss",
    "auc",
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "rmse",
    "mae",
    "r2",
]


class PermutationImportanceParams(NodeParams):
    """Choose the metric, and how often each column is shuffled."""

    metric: Score = Field(
        "auto",
        title="Metric",
        description="What is measured with and without a shuffled column; auto: log loss, for "
        "predicted numbers RMSE. AUC and average precision are those of the last of two classes, "
        "and means over the classes if there are more.",
        json_schema_extra=form_hint(
            words={name: METRIC_TITLES.get(name, name) for name in get_args(Score)}
        ),
    )
    repeats: int = Field(
        5,
        ge=2,
        le=100,
        title="Repeats",
        description="How often each column is shuffled; more repeats make the intervals narrower.",
    )
    rows: int = Field(
        20_000,
        ge=2,
        title="Most rows",
        description="Of a larger table, this many rows drawn at random are used.",
        json_schema_extra=form_hint(folded=True),
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**31,
        title="Seed",
        description="Another seed shuffles in another way.",
        json_schema_extra=form_hint(folded=True),
    )


def run(
    ctx: NodeContext, inputs: dict[str, Any], params: PermutationImportanceParams
) -> dict[str, Any]:
    """Shuffle each column of the model in the rows, and report how much the metric drops.

    Raise ``BadInput`` if the table has no target or does not fit the model, or if the metric has no
    value for its rows.
    """
    from nodes.models.explanations import column_importance

    model = load_model(inputs["model"].path)
    table = _some_rows(ctx, inputs["table"], params)
    names = model.encoder.names

    def progress(columns: int) -> None:
        """Report the column that is shuffled now."""
        ctx.progress(columns / len(names), f"column {columns + 1:,} of {len(names):,}")

    found = column_importance(
        model,
        table,
        scoring=None if params.metric == "auto" else params.metric,
        n_repeats=params.repeats,
        threads=ctx.threads,
        random_state=params.seed,
        progress=progress,
    )
    ctx.progress(1.0, f"{len(names):,} columns")
    return {"report": report(model, found, table.data.num_rows)}


def columns(
    inputs: Mapping[str, Columns | None], params: PermutationImportanceParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the rows will have no target."""
    table = inputs.get("table")
    if table is not None and not any(column.role == "target" for column in table):
        raise BadInput(f"the table has no target to measure the predictions by; {HOW_TO_TARGET}")
    return {}


def _some_rows(ctx: NodeContext, table: Table, params: PermutationImportanceParams) -> Table:
    """Return the table, or rows of it drawn at random if it has too many."""
    import numpy as np

    count = table.data.num_rows
    if not count:
        raise BadInput("the table has no rows; connect test rows")
    if count <= params.rows:
        return table
    ctx.log(f"{params.rows:,} of {count:,} rows are used, drawn at random.")
    chosen = np.random.default_rng(params.seed).choice(count, params.rows, replace=False)
    return table.with_data(table.data.take(np.sort(chosen)))


def report(model: FittedModel, found: PermutationImportance, rows: int) -> Report:
    """Return a report of the columns by the mean drop of the metric, the largest first.

    ``low`` and ``high`` are the limits of a 95 % interval over the repeats.
    """
    columns: list[dict[str, Any]] = []
    measured = zip(model.encoder.names, found.mean, found.interval(), strict=True)
    for name, drop, (low, high) in measured:
        columns.append(
            {"column": name, "drop": float(drop), "low": float(low), "high": float(high)}
        )
    columns.sort(key=lambda row: -row["drop"])
    needed = sum(row["low"] > 0 for row in columns)
    headline: dict[str, float | int | str | None] = {
        "columns": len(columns),
        "needed": needed,
        "metric": found.metric,
        "value": found.score,
        "rows": rows,
    }
    data = {"model": model.title, "repeats": found.drops.shape[1]}
    return Report("permutation-importance", "Permutation importance", headline, columns, data)


def python(params: PermutationImportanceParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that measure and print the columns."""
    found, inputs = names.outputs["report"], (names.inputs["model"], names.inputs["table"])
    return Snippet(
        [
            *statement(found, "steps.permutation_importance", *inputs, **changed_params(params)),
            *statement("", "steps.tell", str(found), found),
        ],
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="permutation-importance",
    title="Permutation importance",
    category="Evaluate",
    summary="Shuffles each column of test rows and measures how much worse the model predicts.",
    version=1,
    params=PermutationImportanceParams,
    run=run,
    python=python,
    inputs=(Port("model", "model", "Model"), Port("table", "table", "Test rows")),
    outputs=(Port("report", "report", "Importances"),),
    output_columns=columns,
    imports=("numpy", "nodes.models.encoder", "nodes.models.explanations", "lightgbm"),
)
