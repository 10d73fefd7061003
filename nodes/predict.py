"""Apply a model to a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.contract import Context, NodeType, NoParams, Port
from engine.script import Code, Names, statement
from engine.values import Predictions, Table
from nodes._levels import MISSING, class_codes
from nodes._model import FittedModel, load_model

if TYPE_CHECKING:
    import pyarrow as pa


def run(ctx: Context, inputs: dict[str, Any], params: NoParams) -> dict[str, Any]:
    """Class probabilities of every row, beside the truth and the columns that say which row it is."""
    return {"predictions": scored(load_model(inputs["model"].path), inputs["table"], ctx.threads, ctx.progress)}


def scored(
    model: FittedModel,
    table: Table,
    threads: int = 1,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
) -> Predictions:
    """What the model says of the rows."""
    truth = None if table.target is None else _truth(table, model.classes)
    probabilities = model.predict_proba(table, threads, progress)
    return Predictions(probabilities, model.classes, model.title, truth, _carried(table))


def python(params: NoParams, names: Names) -> Code:
    """How the node reads in a script."""
    inputs = names.inputs
    lines = statement(names.outputs["predictions"], "steps.predict", inputs["model"], inputs["table"])
    return Code(lines, ["from nodes import steps"])


def _truth(table: Table, classes: list[str]) -> pa.Array:
    """The target by the model's names for the classes; missing where the table has no value."""
    import pyarrow as pa

    codes = class_codes(table.labels(), classes)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == MISSING), pa.array(classes, pa.string()))


def _carried(table: Table) -> pa.Table | None:
    names = [column.name for column in table.columns if column.role in ("id", "time")]
    return table.data.select(names) if names else None


NODE = NodeType(
    name="predict",
    title="Predict",
    category="Apply",
    summary="Applies a model to a table: the probability of each class for every row.",
    version=1,
    params=NoParams,
    run=run,
    python=python,
    inputs=(Port("model", "model", "Model"), Port("table", "table", "Rows to score")),
    outputs=(Port("predictions", "predictions", "Predictions"),),
    imports=("numpy", "pyarrow.compute", "lightgbm", "sklearn.tree"),
)
