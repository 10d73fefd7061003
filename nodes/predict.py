"""Apply a model to a table: the prediction of every row.

For classes it is the probability of each class, and the most probable class, or that of the
threshold which *Choose threshold* saved with the model. For numbers it is the predicted value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.export_python import step_call
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Predictions, Table
from nodes.data.columns import require_column
from nodes.data.row_identity import column_digests
from nodes.models.model import FittedModel, load_model

if TYPE_CHECKING:
    import pyarrow as pa

CARRIED_ROLES = ("id", "group", "time")


class PredictParams(NodeParams):
    """Choose the columns that are written beside the predictions."""

    keep: list[str] = Field(
        default_factory=list,
        title="Columns to keep",
        description="Columns of the table to copy in front of the predictions, to identify the "
        "rows. Columns with the role id, group or time are always copied, and the amounts by "
        "which the threshold of the model was chosen. If a prediction has the same name, "
        "“(input)” is added.",
        max_length=10_000,
        json_schema_extra=form_hint(choose="columns"),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: PredictParams) -> dict[str, Any]:
    """Compute class probabilities of every row, with the truth and the columns to keep."""
    model, table = load_model(inputs["model"].path), inputs["table"]
    return {"predictions": scored(model, table, ctx.threads, ctx.progress, keep=params.keep)}


def scored(
    model: FittedModel,
    table: Table,
    threads: int = 1,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
    *,
    keep: Sequence[str] = (),
) -> Predictions:
    """Return the model's predictions for a table.

    ``keep`` names columns to write beside them; columns with the role id, group or time, and the
    amounts by which the model's threshold was chosen, are always written. If the table has a
    target, the predictions hold it as the truth. Raise ``BadInput`` if the table does not fit the
    model, or if its target holds a class that the model does not have.
    """
    carried = _carried(table, [*keep, *_amounts(model, table)])
    truth = None if table.target is None else _truth(table, model)
    probabilities = model.predict_proba(table, threads, progress)
    columns = {} if truth is None else column_digests(table.data)
    group = next((column.name for column in table.columns if column.role == "group"), None)
    return Predictions(
        probabilities, model.classes, model.title, truth, carried, columns, model.decision, group
    )


def _amounts(model: FittedModel, table: Table) -> list[str]:
    """Return the column of amounts that the model's threshold was chosen by, if the table has it.

    An evaluation needs it to say how much money the threshold saves.
    """
    costs = model.decision.costs if model.decision else None
    if costs is None or costs.amounts is None or costs.amounts not in table.data.column_names:
        return []
    return [costs.amounts]


def columns(
    inputs: Mapping[str, Columns | None], params: PredictParams
) -> dict[str, Columns | None]:
    """Return the columns of the scored rows; raise ``BadInput`` if one to keep does not exist."""
    table = inputs.get("table")
    if table is not None:
        _check_kept(params.keep, [column.name for column in table])
    return {"predictions": table}


def _check_kept(keep: Sequence[str], names: Sequence[str]) -> None:
    """Raise ``BadInput`` if a column to keep does not exist."""
    for name in keep:
        require_column(name, names, field="keep")


def _truth(table: Table, model: FittedModel) -> pa.Array:
    """Return the target with the model's class names, or as numbers; missing where it is missing.

    Raise ``BadInput`` if the model predicts a number and the target is a class.
    """
    import pyarrow as pa

    from nodes.models.encoder import MISSING, class_codes
    from nodes.models.regression import true_numbers

    classes = model.classes
    if model.task == "regression":
        return true_numbers(table)
    codes = class_codes(table.labels(), classes)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes == MISSING), pa.array(classes, pa.string())
    )


def _carried(table: Table, keep: Sequence[str]) -> pa.Table | None:
    """Return the columns that identify the rows and those to keep; None without any."""
    _check_kept(keep, table.data.column_names)
    names = [column.name for column in table.columns if column.role in CARRIED_ROLES]
    # A column may be an id and be named in keep.
    names = list(dict.fromkeys([*names, *keep]))
    return table.data.select(names) if names else None


NODE = NodeType(
    name="predict",
    title="Predict",
    category="Predict",
    summary="Applies a model to a table: for every row the probability of each class, or the "
    "predicted number.",
    version=1,
    params=PredictParams,
    run=run,
    python=step_call("nodes.steps.predict"),
    inputs=(Port("model", "model", "Model"), Port("table", "table", "Rows to score")),
    outputs=(Port("predictions", "predictions", "Predictions"),),
    output_columns=columns,
    imports=("numpy", "nodes.models.encoder", "lightgbm"),
)
