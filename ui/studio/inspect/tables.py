"""Return what the plots of the Inspect page show, as rows: for tables on the page and CSV files.

- ``growth_rows``, ``margin_rows``      layers; their margins in intervals
- ``metrics_of``, ``scored_by``         layers by another metric than the one that decided
- ``marked_rows``                       rows of the sample, with the prediction after each layer
- ``mistakes``, ``changed``             rows to inspect, as positions in the sample
- ``row_titles``                        rows with their class, and whether it is predicted
- ``vector_rows``, ``row_story``        one row on its way through the layers
- ``quality_rows``, ``agreement_rows``, ``importance_rows``  learners
- ``flows_of``, ``flow_rows``, ``flow_words``  rows that leave early

A *record* is what training knows of a layer. A *stage* is what an inspection adds for a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.inspection.layers import UNKNOWN, Layers
from ui.studio.plots.layers import (
    DROPPED,
    HELD_OUT,
    TABLE,
    MarginSeries,
    dropped_numbers,
    scored_on,
)
from ui.studio.screen_text import shortened

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_CLASS = 16
Layer = Mapping[str, Any]
Row = dict[str, Any]


# Growth and margins


def growth_rows(records: Sequence[Layer], stages: Sequence[Layer], metric: str) -> list[Row]:
    """Return one row for each layer, with the figures of training.

    With an inspection, the figures of the inspected table are in the columns ``table …``.
    """
    stage_of = {stage["number"]: stage for stage in stages}
    rows = []
    for record in records:
        held_out, stage = record["margins"] or {}, stage_of.get(record["number"], {})
        row: Row = {
            "layer": record["number"],
            "kept": record["kept"],
            "score": record["score"],
            "± score": record.get("score_se"),
            "gain": record["gain"],
            "± gain": record.get("gain_se"),
        }
        if scored_on(record) != "out_of_fold":
            row["out-of-fold"] = record["scores"].get(metric)
        row |= {f"margin {name}": held_out.get(name) for name in ("mean", "std", "ratio")}
        if stages:
            table = stage.get("margins") or {}
            row["table score"] = (stage.get("scores") or {}).get(metric)
            row |= {f"table margin {name}": table.get(name) for name in ("mean", "std", "ratio")}
            row["S_A/S_E of the map"] = stage.get("separation")
            row["S_A/S_E"] = stage.get("separation_vectors")
        row |= layer_settings(record)
        rows.append(row | {"why": record["reason"]})
    return rows


def metrics_of(records: Sequence[Layer], own: str) -> list[str]:
    """Return the metrics of the rows that decided about growth; ``own`` is the one that did."""
    return list(dict.fromkeys([own, *_deciding(records[0])]))


def scored_by(records: Sequence[Layer], own: str, metric: str) -> Sequence[Layer]:
    """Return the records with their score by another metric, of the same rows.

    The standard error is known only for ``own``, the metric that decided about growth.
    """
    if metric == own:
        return records
    return [
        {**record, "score": _deciding(record).get(metric), "score_se": None} for record in records
    ]


def _deciding(record: Layer) -> Mapping[str, Any]:
    """Return the scores of the rows that decided about growth, by metric."""
    names = {"blind": "blind", "validation": "validation", "out_of_fold": "scores"}
    return record.get(names[scored_on(record)]) or {}


def layer_settings(record: Layer) -> Row:
    """Return what is special to the layers of mdDF: the weights of the layers, and its settings.

    Records of other forests, and of earlier versions, have none.
    """
    row: Row = {}
    if record.get("alphas"):
        row["α of layers"] = ", ".join(f"{alpha:.2f}" for alpha in record["alphas"])
    names = {"gamma": "γ", "mu": "μ", "depth_step": "depth step"}
    for name, value in (record.get("settings") or {}).items():
        row[names.get(name, name)] = value
    return row


def margin_series(
    records: Sequence[Layer],
    stages: Sequence[Layer],
    row_sets: Sequence[str],
    numbers: Sequence[int],
) -> list[MarginSeries]:
    """Return the margins of the chosen layers on the chosen sets of rows.

    Layers without margins are left out. The set is part of the name if there are two, and so is
    that a layer is dropped.
    """
    both, gone = len(row_sets) > 1, dropped_numbers(records)
    series = []
    for row_set, layers, dash in ((HELD_OUT, records, "solid"), (TABLE, stages, "dash")):
        if row_set not in row_sets:
            continue
        for layer in layers:
            number = layer["number"]
            if number not in numbers or not layer["margins"]:
                continue
            parts = [f"Layer {number}"]
            parts += [DROPPED] if number in gone else []
            parts += [row_set.lower()] if both else []
            series.append(
                MarginSeries(
                    ", ".join(parts),
                    layer["margins"],
                    number,
                    len(records),
                    number in gone,
                    dash if both else "solid",
                )
            )
    return series


def margin_rows(series: Sequence[MarginSeries]) -> list[Row]:
    """Return one row for each interval of each series.

    A row has the number of table rows in the interval, and their share.
    """
    rows = []
    for name, margins, *_ in series:
        total = sum(margins["counts"]) or 1
        for (low, high), count in zip(pairwise(margins["edges"]), margins["counts"], strict=True):
            rows.append(
                {"margins of": name, "from": low, "to": high, "rows": count, "share": count / total}
            )
    return rows


# Rows of the sample


def marked_rows(layers: Layers, positions: Sequence[int]) -> pa.Table:
    """Return rows of the sample as a table.

    It has the number of the row, its class, prediction and margin after each layer, and then the
    columns of the row itself.
    """
    import pyarrow as pa

    at = np.asarray(positions, dtype=np.int64)
    names = np.asarray([*layers.classes, None], dtype=object)  # UNKNOWN is -1: the last
    columns: dict[str, Any] = {
        "row": layers.rows[at],
        "truth": pa.array(names[layers.truth[at]], pa.string()),
    }
    for number in range(1, len(layers.stages) + 1):
        columns[f"predicted after layer {number}"] = pa.array(
            names[layers.predicted(number)[at]], pa.string()
        )
    if (layers.truth != UNKNOWN).any():
        for number in range(1, len(layers.stages) + 1):
            columns[f"margin {number}"] = pa.array(layers.margin(number)[at], from_pandas=True)
    # Without screening, all rows leave at the last layer: the column would say nothing.
    if (layers.left_at < len(layers.stages)).any():
        columns["left at layer"] = layers.left_at[at]
    own = layers.sample.take(pa.array(at))
    for name, column in zip(own.column_names, own.columns, strict=True):
        columns[_apart(name, columns)] = column
    return pa.table(columns)


def _apart(name: str, taken: Mapping[str, Any]) -> str:
    """Return the name of a column, changed until it differs from all in ``taken``."""
    while name in taken:
        name += " (own)"
    return name


def mistakes(layers: Layers, most: int) -> list[int]:
    """Return the positions of the rows with a wrong final prediction.

    The most confident errors come first; ``most`` limits how many.
    """
    margin = layers.margin(len(layers.stages))
    wrong = np.flatnonzero(
        (layers.truth != UNKNOWN) & (layers.predicted(len(layers.stages)) != layers.truth)
    )
    # The margin of an error is negative: the lowest is the most confident error.
    return [int(at) for at in wrong[np.argsort(margin[wrong], kind="stable")][:most]]


def changed(layers: Layers, most: int) -> list[int]:
    """Return the positions of the rows whose prediction changed between layers.

    Rows with the most changes come first; ``most`` limits how many.
    """
    predicted = np.stack([layers.predicted(number) for number in range(1, len(layers.stages) + 1)])
    times = (predicted[1:] != predicted[:-1]).sum(axis=0)
    # A stable sort keeps rows with equally many changes in the order of the table.
    order = np.argsort(-times, kind="stable")
    return [int(at) for at in order[:most] if times[at]]


# One row


def vector_rows(layers: Layers, at: int) -> list[Row]:
    """Return the class probabilities of one row: for each layer, learner and class.

    The learner ``cascade`` is the result of the whole layer. Layers after the one where the row
    left are missing.
    """
    rows = []
    for layer in range(int(layers.left_at[at])):
        vectors = dict(zip(layers.learners, layers.vectors[layer, :, at], strict=True))
        for name, vector in [*vectors.items(), ("cascade", layers.outputs[layer, at])]:
            rows += [
                {
                    "row": int(layers.rows[at]),
                    "layer": layer + 1,
                    "learner": name,
                    "class": label,
                    "probability": float(value),
                }
                for label, value in zip(layers.classes, vector, strict=True)
            ]
    return rows


def row_titles(layers: Layers) -> dict[int, str]:
    """Return number, class and final prediction of each row of the sample, by its number.

    For example: ``Row 5 · class cat · wrong: dog``.
    """
    predicted = layers.predicted(len(layers.stages))
    titles = {}
    for number, truth, final in zip(layers.rows, layers.truth, predicted, strict=True):
        name = shortened(layers.classes[final], LONGEST_CLASS)
        if truth == UNKNOWN:
            words = f"predicted {name}"
        elif truth == final:
            words = f"class {name} · right"
        else:
            known = shortened(layers.classes[truth], LONGEST_CLASS)
            words = f"class {known} · wrong: {name}"
        titles[int(number)] = f"Row {number} · {words}"
    return titles


def row_story(layers: Layers, at: int) -> list[str]:
    """Return the way of one row in short sentences.

    They name its class, the first prediction, each change, and where the row left.
    """
    depth, left = len(layers.stages), int(layers.left_at[at])
    predicted = [int(layers.predicted(number)[at]) for number in range(1, left + 1)]
    truth = int(layers.truth[at])
    words = [
        "Its class is not known." if truth == UNKNOWN else f"Its class is {layers.classes[truth]}."
    ]
    words.append(f"Layer 1 predicted {layers.classes[predicted[0]]}.")
    turns = [
        (number, before, after)
        for number, (before, after) in enumerate(pairwise(predicted), 2)
        if before != after
    ]
    words += [
        f"Layer {number} changed it from {layers.classes[before]} to {layers.classes[after]}."
        for number, before, after in turns
    ]
    if not turns and left > 1:
        words.append("No later layer changed this.")
    if left < depth:
        words.append(f"It left after layer {left}: the cascade was confident enough.")
    if truth != UNKNOWN:
        words.append(
            "The final prediction is right."
            if predicted[-1] == truth
            else "The final prediction is wrong."
        )
    return words


def known(values: Any) -> Any:
    """Return nested lists of numbers with None for those that are not known.

    JSON has no NaN, and plotly draws None as a gap.
    """
    if isinstance(values, np.ndarray):
        return known(values.tolist())
    if isinstance(values, list):
        return [known(value) for value in values]
    return None if isinstance(values, float) and np.isnan(values) else values


# Learners


def quality(layers: Sequence[Layer], measure: str) -> list[list[float | None]]:
    """Return the scores of the learners by one metric, as a list of scores for each layer.

    The layers may be records or stages.
    """
    table = []
    for layer in layers:
        table.append([scores.get(measure) for scores in learner_scores(layer)])
    return table


def learner_scores(layer: Layer) -> Sequence[Mapping[str, Any]]:
    """Return the scores of each learner of a layer, which is a record or a stage."""
    if "learner_scores" in layer:
        return layer["learner_scores"] or []
    return [learner["scores"] for learner in layer["learners"]]


def quality_rows(
    learners: Sequence[str], layers: Sequence[Layer], measures: Sequence[str], where: str
) -> list[Row]:
    """Return one row for each learner of each layer; ``where`` names the rows that were scored."""
    by_measure = {measure: quality(layers, measure) for measure in measures}
    rows = []
    for level, layer in enumerate(layers):
        for at, name in enumerate(learners):
            row: Row = {"rows": where, "layer": layer["number"], "learner": name}
            rows.append(
                row | {measure: scores[level][at] for measure, scores in by_measure.items()}
            )
    return rows


def agreement_rows(learners: Sequence[str], stages: Sequence[Layer]) -> list[Row]:
    """Return how often two learners agree: one row for each layer and pair of learners."""
    return [
        {
            "layer": stage["number"],
            "learner": one,
            "other": other,
            "agree": stage["agreement"][first][second],
        }
        for stage in stages
        for first, one in enumerate(learners)
        for second, other in enumerate(learners)
        if first < second
    ]


def importance_rows(learners: Sequence[str], stages: Sequence[Layer]) -> list[Row]:
    """Return one row for each layer and feature, with the importance for each learner."""
    return [
        {"layer": stage["number"], "feature": row["feature"], "importance": row["importance"]}
        | dict(zip(learners, row["learners"], strict=True))
        for stage in stages
        for row in stage["importances"]
    ]


# Rows that leave early


def flows_of(layers: Sequence[Layer]) -> list[Row]:
    """Return how many rows left at each layer.

    The layers may be records or stages. All rows that are left leave at the last layer. They did
    not have to be confident, so their error rate is not known.
    """
    flows = [
        {"layer": layer["number"], "rows_in": layer["rows_in"], "rows_out": layer["rows_out"],
         "error_out": layer["error_out"], "threshold": layer["threshold"]}
        for layer in layers
    ]  # fmt: skip
    if flows and flows[-1]["rows_out"] < flows[-1]["rows_in"]:
        flows[-1] |= {"rows_out": flows[-1]["rows_in"], "error_out": None}
    return flows


def flow_rows(flows: Sequence[Layer], what: str) -> list[Row]:
    """Return one row for each layer; ``what`` says which rows flow.

    Names have spaces, as in the other files that can be downloaded.
    """
    names = ("layer", "rows_in", "rows_out", "error_out", "threshold")
    rows = []
    for flow in flows:
        rows.append({"flow": what} | {name.replace("_", " "): flow[name] for name in names})
    return rows


def flow_words(flows: Sequence[Layer]) -> str:
    """Return in words how many rows leave early, and how many of all rows are right in the end.

    The last sentence is about time: a layer is faster if it sees fewer rows.
    """
    total = flows[0]["rows_in"] if flows else 0
    early = sum(flow["rows_out"] for flow in flows[:-1])
    if not early:
        return "No row leaves before the last layer."
    errors = [
        flow["error_out"] * flow["rows_out"] for flow in flows[:-1] if flow["error_out"] is not None
    ]
    words = (
        f"{early / total:.0%} of the rows leave before the last layer, "
        f"{sum(errors) / early:.1%} of them with a wrong prediction."
    )
    if all(flow["error_out"] is not None or not flow["rows_out"] for flow in flows):
        # Wrong rows of a layer = its error rate × the rows that left there.
        wrong = sum((flow["error_out"] or 0) * flow["rows_out"] for flow in flows)
        words += f" In total, {1 - wrong / total:.1%} of the predictions are right."
    # Without screening, every layer would process all rows.
    work = sum(flow["rows_in"] for flow in flows) / (total * len(flows))
    return (
        f"{words} All layers together process {work:.0%} of the rows "
        "that they would without screening."
    )
