"""Say why a row got its prediction: the contribution of each column to the probability of a class.

One class of each row is explained: of two classes the positive one, so that rows can be compared;
of more classes the predicted one. The positive class is that of the model's threshold, else the
second one.

- ``explain_rows``  explains encoded rows, in bounded memory
- ``Explanations``  the class, the base value and the contributions of each row
- ``explain_row``   explains one row of a table, whose values may be changed, for all classes
- ``RowExplanation``  its probabilities, contributions, and the way through the layers
- ``column_importance``  how much the score of test rows drops when a column is shuffled
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from engine.errors import BadInput
from engine.text import shown
from engine.values import Table
from nodes.models.encoder import MISSING, class_codes
from nodes.models.model import FittedModel, with_threads
from nodes.models.regression import true_numbers

if TYPE_CHECKING:
    from deepforest.importance import PermutationImportance

VALUES_AT_ONCE = 8_000_000
MOST_ROWS = 512
"""Limits of a block that is explained at once: values of all classes, and rows."""
CLASS, BASE = "explained class", "base value"


@dataclass(frozen=True)
class Explanations:
    """Hold the explained class of each row, its base value and the contributions of the columns.

    Base value and contributions (rows × columns) add up to the probability of the class. Without
    ``classes`` they add up to the predicted number.
    """

    columns: list[str]
    classes: list[str]
    explained: np.ndarray
    """Positions in ``classes``."""
    base: np.ndarray
    contributions: np.ndarray

    def to_json(self) -> list[dict[str, Any]]:
        """Return an object for each row: class, base and contributions by column."""
        rows = zip(
            self.explained.tolist(), self.base.tolist(), self.contributions.tolist(), strict=True
        )
        found: list[dict[str, Any]] = []
        for index, base, values in rows:
            contributions = dict(zip(self.columns, values, strict=True))
            found.append({"base": base, "contributions": contributions})
            if self.classes:
                found[-1] = {"class": self.classes[index], **found[-1]}
        return found

    def beside(self, table: pa.Table) -> pa.Table:
        """Return a table with the explanations as further columns, which get names of their own."""
        added: dict[str, Any] = {}
        if self.classes:
            added[CLASS] = pa.DictionaryArray.from_arrays(
                pa.array(self.explained, pa.int32()), pa.array(self.classes, pa.string())
            )
        added[BASE] = pa.array(self.base)
        for name, values in zip(self.columns, self.contributions.T, strict=True):
            added[f"contribution of {name}"] = pa.array(np.ascontiguousarray(values))
        for name, column in added.items():
            while name in table.column_names:
                name = f"{name} (explanation)"
            table = table.append_column(name, column)
        return table


def rows_to_explain(model: FittedModel) -> int:
    """Return how many rows are explained at once, so that memory and waiting stay bounded."""
    per_row = (model.encoder.width + 1) * model.n_outputs
    return max(1, min(MOST_ROWS, VALUES_AT_ONCE // per_row))


def positive_code(model: FittedModel) -> int:
    """Return the number of the positive class: that of the threshold, else the second one."""
    return 1 if model.decision is None else model.classes.index(model.decision.positive)


def explain_rows(
    model: FittedModel, matrix: np.ndarray, probabilities: np.ndarray, threads: int = 1
) -> Explanations:
    """Return the explanations of encoded rows with their predicted probabilities.

    Raise ``BadInput`` if the contributions are not known for this kind of model.
    """
    names, classes = model.encoder.names, model.classes
    explained = probabilities.argmax(axis=1)
    if len(classes) == 2:
        explained = np.full(len(matrix), positive_code(model))
    found = np.empty((len(matrix), len(names) + 1))
    step = rows_to_explain(model)
    for start in range(0, len(matrix), step):
        block = slice(start, start + step)
        parts = model.explain_matrix(matrix[block], threads)
        found[block] = parts[np.arange(len(parts)), :, explained[block]]
    return Explanations(names, classes, explained, found[:, -1], found[:, :-1])


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """Hold why one row got its prediction, for every class.

    Base value and contributions add up to the probabilities.
    """

    columns: list[str]
    classes: list[str]
    probabilities: np.ndarray
    base: np.ndarray
    """Of each class; NaN where the contributions are not known."""
    contributions: np.ndarray
    """Columns × classes; NaN likewise."""
    reason: str
    """Why the contributions are not known; empty if they are."""
    learners: list[str]
    vectors: np.ndarray
    """Of a deep forest, layers × learners × classes, up to the layer at which the row left."""
    outputs: np.ndarray
    """Probabilities of the cascade after each of these layers, layers × classes."""
    positive: int = 1
    """The number of the positive class, if there are two."""


def explain_row(
    model: FittedModel,
    row: pa.Table,
    changes: Mapping[str, Any] | None = None,
    progress: Callable[[float, str], None] = lambda fraction, text: None,
) -> RowExplanation:
    """Return why a table of one row gets its prediction, with other values in some columns.

    ``changes`` are JSON values by column of the model. Raise ``BadInput`` if the table lacks a
    column, or if a value is not one that the column may hold.
    """
    matrix = _changed_row(model, row, changes or {})
    progress(0.0, "Predicting the row…")
    probabilities = model.predict_matrix(matrix)[0]
    learners, vectors, outputs = _way_through_layers(model, matrix)
    progress(0.3, "Computing the contributions of the columns…")
    parts, reason = np.full((len(model.encoder.names) + 1, model.n_outputs), np.nan), ""
    try:
        parts = model.explain_matrix(matrix)[0]
    except BadInput as error:
        reason = str(error)
    return RowExplanation(
        columns=model.encoder.names,
        classes=model.classes,
        probabilities=probabilities,
        base=parts[-1],
        contributions=parts[:-1],
        reason=reason,
        learners=learners,
        vectors=vectors,
        outputs=outputs,
        positive=positive_code(model),
    )


def _changed_row(model: FittedModel, row: pa.Table, changes: Mapping[str, Any]) -> np.ndarray:
    """Return the matrix of one row with other values in some columns."""
    encoder = model.encoder
    unknown = changes.keys() - set(encoder.names)
    if unknown:
        raise BadInput(f"the model does not have the column '{min(unknown)}'")
    matrix = encoder.transform(row, model.precision)
    for column, part in encoder.parts(matrix):
        if column.name not in changes:
            continue
        value = changes[column.name]
        try:
            column.write(np.array([column.read_value(value)]), part, encoder.form)
        except ValueError as error:
            raise BadInput(f"'{column.name}' is {shown(value)}, {error}") from error
    return matrix


def _way_through_layers(
    model: FittedModel, matrix: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the learners of a deep forest, and what they and the cascade predict in each layer.

    All are empty for a model without layers.
    """
    estimator = with_threads(model.estimator, 1)
    if not hasattr(estimator, "trace"):
        return [], np.empty((0, 0, len(model.classes))), np.empty((0, len(model.classes)))
    trace, names = estimator.trace(matrix), estimator.layer_records_[0].learners
    reached = int(trace.left_at[0])
    vectors, outputs = trace.vectors[:reached, :, 0], trace.outputs[:reached, 0]
    return [learner.name for learner in names], vectors, outputs


def column_importance(
    model: FittedModel,
    table: Table,
    *,
    scoring: str | None = None,
    n_repeats: int = 5,
    threads: int = 1,
    random_state: int = 0,
    progress: Callable[[int], None] = lambda columns: None,
) -> PermutationImportance:
    """Return how much the score of test rows drops when each column of the model is shuffled.

    The columns are those of ``model.encoder.names``; rows without a target do not count. The metric
    is ``log_loss``, or ``rmse`` for predicted numbers, unless ``scoring`` names another. It needs
    predictions only, so that every kind of model has it. ``progress`` gets the number of finished
    columns before each of them. Raise ``BadInput`` if the table has no target, does not fit the
    model, or if the metric is unknown or has no value for these rows.
    """
    from deepforest.importance import shuffled_importance
    from deepforest.metrics import resolve_metric

    if table.target is None:
        raise BadInput("the table has no target; choose the column with the true classes")
    matrix = model.encoder.transform(table.data, model.precision)
    if model.task == "regression":
        truth = true_numbers(table).to_numpy(zero_copy_only=False).astype(float)
        known, classes = ~np.isnan(truth), None
    else:
        truth = class_codes(table.labels(), model.classes)
        known, classes = truth != MISSING, np.array(model.classes)
    usual = "log_loss" if model.classes else "rmse"
    groups, start = [], 0
    for column in model.encoder.columns:
        stop = start + column.width(model.encoder.form)
        groups.append(range(start, stop))
        start = stop
    try:
        return shuffled_importance(
            lambda rows: model.predict_matrix(rows, threads),
            matrix[known],
            truth[known],
            resolve_metric(scoring or usual, classes),
            groups=groups,
            n_repeats=n_repeats,
            random_state=random_state,
            progress=progress,
        )
    except ValueError as error:
        raise BadInput(str(error)) from error
