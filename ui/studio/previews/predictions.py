"""Preview predictions: the first rows, their probabilities, and how many are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from deepforest.metrics import METRIC_INFO, format_metric
from engine.store import Artifact, Store
from engine.text import counted, size
from engine.values import Predictions
from nodes.models.encoder import MISSING, category_codes
from ui.studio import plots
from ui.studio.widgets import chart, check_intact, facts, grid, opened, short_texts, tabs, tiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

FIRST_ROWS = 200
BINS = 20
MOST_LINES = 8


@dataclass(frozen=True)
class PredictionSummary:
    """All that the preview draws; it is small, however many rows there are."""

    model: str
    rows: int
    edges: list[float]
    counts: dict[str, list[int]]
    """For each class, rows by its probability; the most frequently predicted class first."""
    known: int
    """Rows whose truth is known."""
    right: int
    first: pa.Table


def show_predictions(output: Artifact, store: Store, key: str) -> None:
    """Draw the facts, the accuracy if the truth is known, and tabs."""
    check_intact(output, store)
    summary = _summary(output.digest, output, store)
    by = f"by {summary.model}" if summary.model else ""
    facts(
        [
            counted(summary.rows, "row"),
            counted(len(summary.counts), "class", "classes"),
            by,
            size(output.size),
        ]
    )
    if summary.known:
        accuracy = METRIC_INFO["accuracy"]
        tiles(
            [
                (
                    accuracy.title,
                    format_metric("accuracy", summary.right / summary.known),
                    accuracy.explanation,
                )
            ]
        )
        if summary.known < summary.rows:
            st.caption(
                f"Evaluated on the {counted(summary.known, 'row')} whose true class is known."
            )
    by_rows, by_plot = tabs(["Rows", "Probabilities"], key)
    if by_rows.open:
        with by_rows:
            _show_rows(summary, key)
    elif by_plot.open:
        with by_plot:
            _show_probabilities(summary, key)


def _show_rows(summary: PredictionSummary, key: str) -> None:
    """Draw the first rows."""
    probability = st.column_config.NumberColumn(format="%.4f")
    config = {name: probability for name in summary.first.column_names if name.startswith("p(")}
    grid(summary.first, f"{key}-rows", column_config=config)
    if summary.rows > FIRST_ROWS:
        st.caption(f"These are the first {FIRST_ROWS} of {summary.rows:,} rows.")


def _show_probabilities(summary: PredictionSummary, key: str) -> None:
    """Draw how the probabilities are distributed, for the most frequent classes at first."""
    if not summary.rows:
        st.caption("The table is empty: it has no rows to plot.")
        return
    classes = list(summary.counts)
    # More lines cannot be distinguished.
    if len(classes) > MOST_LINES:
        classes = st.multiselect("Classes", classes, classes[:MOST_LINES], key=f"{key}-classes")
    counts = {name: summary.counts[name] for name in classes}
    chart(plots.probability_histogram(summary.edges, counts), f"{key}-plot")


@st.cache_data(max_entries=16, show_spinner="Counting …")
def _summary(digest: str, _output: Artifact, _store: Store) -> PredictionSummary:
    """Return the summary of stored predictions from the cache; ``digest`` is the cache key."""
    return summarize(opened(_output, _store))


def summarize(predictions: Predictions) -> PredictionSummary:
    """Return what the preview draws of predictions."""
    import numpy as np

    # argmax fails without columns: a table without rows may have no classes.
    predicted = (
        predictions.probabilities.argmax(axis=1) if predictions.classes else np.empty(0, np.intp)
    )
    known, right = _right(predictions, predicted)
    frequency = np.bincount(predicted, minlength=len(predictions.classes))
    edges = np.linspace(0, 1, BINS + 1)
    return PredictionSummary(
        predictions.model,
        len(predictions.probabilities),
        edges.tolist(),
        {
            predictions.classes[code]: np.histogram(predictions.probabilities[:, code], edges)[
                0
            ].tolist()
            for code in np.argsort(-frequency, kind="stable")
        },
        known,
        right,
        short_texts(_first_rows(predictions)),
    )


def _right(predictions: Predictions, predicted: np.ndarray) -> tuple[int, int]:
    """Return how many rows have a known truth, and how many of these are predicted right."""
    import pyarrow as pa

    if predictions.truth is None:
        return 0, 0
    truth = category_codes(pa.chunked_array([predictions.truth]), predictions.classes)
    known = truth != MISSING
    return int(known.sum()), int((known & (truth == predicted)).sum())


def _first_rows(predictions: Predictions) -> pa.Table:
    """Return the first rows as a table."""
    few = Predictions(
        predictions.probabilities[:FIRST_ROWS],
        predictions.classes,
        predictions.model,
        None if predictions.truth is None else predictions.truth[:FIRST_ROWS],
        None if predictions.carried is None else predictions.carried.slice(0, FIRST_ROWS),
    )
    return few.to_arrow()
