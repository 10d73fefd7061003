"""Show the surest mistakes or the largest errors of an evaluation, and why the model made them.

- ``EvaluatedRows``, ``evaluated_rows``  predictions, rows and model behind an evaluation
- ``surest_mistakes``  the rows that are predicted wrongly, those with the surest prediction first
- ``largest_errors``   of predicted numbers, the rows that are furthest from their true number
- ``draw_errors``      the list; a click on a row shows the contributions of its columns
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from engine.errors import BadInput, SylvaError
from engine.pipeline import Pipeline
from engine.run_state import RunState
from engine.store import Artifact, Store
from engine.text import counted, readable
from engine.values import Predictions, Report, Table
from ui.studio.explained_rows import (
    StoredRow,
    draw_contributions,
    explained_class,
    explanation,
    value_texts,
)
from ui.studio.screen_text import plain
from ui.studio.widgets import as_arrow, opened, short_texts

if TYPE_CHECKING:
    import numpy as np

MOST = 50
ALL = "all classes"
ROWS_GONE = "The evaluated rows are not stored any more. Run the pipeline again to see the errors."
WITHOUT_MODEL = (
    "Rows cannot be explained: the run does not have the model or the rows that Predict has read. "
    "Run the pipeline again."
)


class EvaluatedRows(NamedTuple):
    """The stored outputs that an evaluation was made from; None where the run has none."""

    predictions: Artifact | None
    table: Artifact | None
    model: Artifact | None


class Mistakes(NamedTuple):
    """Rows that are predicted wrongly."""

    total: int
    rows: list[dict[str, Any]]
    """The surest of them: row, true and predicted class, probabilities of both, or the numbers."""


def evaluated_rows(pipeline: Pipeline, state: RunState, node: str) -> EvaluatedRows | None:
    """Return what a node has evaluated; None if it does not read predictions."""
    predict = next(
        (
            edge.source
            for edge in pipeline.edges
            if edge.target.node == node and edge.target.port == "predictions"
        ),
        None,
    )
    if predict is None:
        return None
    read: dict[str, Artifact | None] = {}
    for edge in pipeline.edges:
        if edge.target.node == predict.node:
            read[edge.target.port] = _output(state, edge.source.node, edge.source.port)
    predictions = _output(state, predict.node, predict.port)
    return EvaluatedRows(predictions, read.get("table"), read.get("model"))


def _output(state: RunState, node: str, port: str) -> Artifact | None:
    """Return an output of a run, if the node is finished."""
    found = state.nodes[node].outputs.get(port) if node in state.nodes else None
    return Artifact.from_dict(found) if found else None


def draw_errors(report: Report, evaluated: EvaluatedRows, store: Store, key: str) -> None:
    """Draw a switch, and with it the surest mistakes; a click on one of them explains it.

    Of predicted numbers, it shows the largest errors.
    """
    if report.data.get("task") == "regression":
        _draw_largest(evaluated, store, key)
        return
    if "confusion" not in report.data:
        return
    if not st.toggle(
        "Show the surest mistakes",
        key=f"{key}-errors",
        help="Rows that are predicted wrongly with the highest probability, and why.",
    ):
        return
    if evaluated.predictions is None:
        st.info(ROWS_GONE)
        return
    classes = [str(name) for name in report.data["classes"]]
    chosen = st.selectbox(
        "True class",
        [ALL, *classes],
        format_func=readable,
        key=f"{key}-errors-class",
        width=300,
    )
    wanted = None if chosen == ALL else str(chosen)
    threshold = report.data["confusion"].get("threshold")
    positive = report.data.get("positive")
    try:
        found = _mistakes(
            evaluated.predictions.digest,
            wanted,
            None if threshold is None else (str(positive), float(threshold)),
            evaluated.predictions,
            store,
        )
    except SylvaError:
        st.info(ROWS_GONE)
        return
    if not found.rows:
        st.caption("No row of this kind is predicted wrongly.")
        return
    decided = "by the most probable class"
    if threshold is not None:
        decided = f"at a threshold of {threshold:.4g}"
    words = f"{counted(found.total, 'row')} predicted wrongly {decided}, the surest first."
    if found.total > len(found.rows):
        words += f" The first {len(found.rows)} are listed."
    if report.data.get("thresholds"):
        words += " The slider does not change this list."
    st.caption(f"{words} Click a row to see why.")
    row = _clicked_row(found, f"{key}-errors-{wanted}")
    if row is not None:
        _draw_why(evaluated, row, store, f"{key}-why")


def _draw_largest(evaluated: EvaluatedRows, store: Store, key: str) -> None:
    """Draw a switch, and with it the largest errors of predicted numbers."""
    words = "Rows whose predicted number is furthest from the true one, and why."
    if not st.toggle("Show the largest errors", key=f"{key}-errors", help=words):
        return
    try:
        if evaluated.predictions is None:
            raise BadInput(ROWS_GONE)
        predictions: Predictions = opened(evaluated.predictions, store)
    except SylvaError:
        st.info(ROWS_GONE)
        return
    found = largest_errors(predictions)
    st.caption(
        f"The {counted(len(found.rows), 'row')} of {found.total:,} with the largest errors. Above "
        "zero: the prediction is too high. Click a row to see why."
    )
    row = _clicked_row(found, f"{key}-errors-None")
    if row is not None:
        _draw_why(evaluated, row, store, f"{key}-why")


def _clicked_row(found: Mistakes, key: str) -> int | None:
    """Draw the list of mistakes; return the number of the row that is clicked."""
    percent = st.column_config.NumberColumn(format="percent")
    number = st.column_config.NumberColumn(format="%.6g")
    picked = st.dataframe(
        short_texts(as_arrow(found.rows)),
        hide_index=True,
        placeholder="–",
        key=key,
        height=min(38 + 35 * len(found.rows), 320),
        column_config={"p (predicted)": percent, "p (true)": percent}
        | dict.fromkeys(("true value", "predicted value", "error"), number),
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
    )["selection"]
    rows = [*picked["rows"], *(cell[0] for cell in picked["cells"])]
    if not rows or rows[0] >= len(found.rows):
        return None
    return int(found.rows[rows[0]]["row"])


def _draw_why(evaluated: EvaluatedRows, row: int, store: Store, key: str) -> None:
    """Draw the contributions of the columns to the prediction of a row."""
    st.markdown(f"**Why row {row} got its prediction**")
    if evaluated.model is None or evaluated.table is None:
        st.info(WITHOUT_MODEL)
        return
    try:
        table: Table = opened(evaluated.table, store)
    except SylvaError:
        st.info(ROWS_GONE)
        return
    values = table.data.slice(row, 1)
    name = f"{evaluated.table.digest}/{row}"
    try:
        if not values.num_rows:
            raise BadInput(ROWS_GONE)
        found = explanation(StoredRow(evaluated.model, name, values), store)
    except BadInput as error:
        st.info(plain(readable(str(error))))
        return
    code = explained_class(found, f"{key}-class-{row}")
    draw_contributions(found, value_texts(values), code, key)


@st.cache_data(max_entries=64, show_spinner="Looking for the mistakes…")
def _mistakes(
    digest: str,
    wanted: str | None,
    rule: tuple[str, float] | None,
    _output: Artifact,
    _store: Store,
) -> Mistakes:
    """Return the surest mistakes of stored predictions from the cache."""
    return surest_mistakes(opened(_output, _store), wanted, rule)


def surest_mistakes(
    predictions: Predictions, wanted: str | None = None, rule: tuple[str, float] | None = None
) -> Mistakes:
    """Return the rows that are predicted wrongly; the less probable their true class, the earlier.

    ``wanted`` is the true class of the rows; without it all count. ``rule`` is a positive class and
    the probability from which it is predicted; without it the predictions decide.
    """
    import numpy as np
    import pyarrow as pa

    from nodes.models.encoder import MISSING, class_codes

    if predictions.truth is None:
        return Mistakes(0, [])
    classes, probabilities = predictions.classes, predictions.probabilities
    truth = class_codes(pa.chunked_array([predictions.truth]), classes)
    predicted = _predicted(predictions, rule)
    is_wrong = (truth != MISSING) & (truth != predicted)
    if wanted is not None:
        is_wrong &= truth == classes.index(wanted)
    wrong = np.flatnonzero(is_wrong)
    own = probabilities[wrong, truth[wrong]]
    rows = []
    for at in wrong[np.argsort(own, kind="stable")[:MOST]]:
        row = {
            "row": int(at),
            "true class": classes[truth[at]],
            "predicted": classes[predicted[at]],
            "p (predicted)": float(probabilities[at, predicted[at]]),
            "p (true)": float(probabilities[at, truth[at]]),
        }
        rows.append(row | _carried(predictions, int(at), row))
    return Mistakes(len(wrong), rows)


def largest_errors(predictions: Predictions) -> Mistakes:
    """Return the rows whose predicted number is furthest from the true one, the furthest first."""
    import numpy as np

    if predictions.truth is None or predictions.values is None:
        return Mistakes(0, [])
    truth = predictions.truth.to_numpy(zero_copy_only=False).astype(float)
    errors = predictions.values - truth
    known = np.flatnonzero(~np.isnan(errors))
    rows = []
    for at in known[np.argsort(-abs(errors[known]), kind="stable")[:MOST]]:
        row = {
            "row": int(at),
            "true value": float(truth[at]),
            "predicted value": float(predictions.values[at]),
            "error": float(errors[at]),
        }
        rows.append(row | _carried(predictions, int(at), row))
    return Mistakes(len(known), rows)


def _predicted(predictions: Predictions, rule: tuple[str, float] | None) -> np.ndarray:
    """Return the number of the predicted class of each row."""
    import numpy as np

    classes = predictions.classes
    if rule is None or len(classes) != 2 or rule[0] not in classes:
        return predictions.predicted
    positive = classes.index(rule[0])
    is_positive = predictions.probabilities[:, positive] >= rule[1]
    return np.where(is_positive, positive, 1 - positive)


def _carried(predictions: Predictions, at: int, taken: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that stand beside the predictions, such as an id, as texts."""
    if predictions.carried is None:
        return {}
    values = predictions.carried.slice(at, 1).to_pylist()[0]
    return {name: str(value) for name, value in values.items() if name not in taken}
