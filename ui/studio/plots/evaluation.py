"""How good predictions are: curves, confusion, scores by class and by model, probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from ui.studio.plots.style import (
    BLUE,
    CLEAR_TO_BLUE,
    COLOURS,
    FAINT,
    LONGEST_NAME,
    cell_texts,
    in_full,
    lay_out,
    line,
    named_ticks,
    number,
    shortened,
)

LONGEST_TITLE = 60
HATCHES = ("", "/", "x")
"""Tell bars apart once the colours are used up."""
MOST_NUMBERED_CLASSES = 15
"""Above it the cells of a confusion matrix are too small for their counts."""

Points = Mapping[str, Sequence[float | None]]


def roc_curves(curves: Sequence[Mapping[str, Any]]) -> go.Figure:
    """One curve a class, as an evaluation holds them; classes without one are left out."""
    named = [(str(curve["class"]), curve.get("roc")) for curve in curves]
    return _curves(named, "false_positive_rate", "true_positive_rate", "ROC curve")


def precision_recall_curves(curves: Sequence[Mapping[str, Any]]) -> go.Figure:
    """One curve a class; with a single class, a line shows what guessing would reach."""
    named = [(str(curve["class"]), curve.get("precision_recall")) for curve in curves]
    figure = _curves(named, "recall", "precision", "Precision and recall")
    if len(curves) == 1 and curves[0].get("share") is not None:
        figure.add_hline(curves[0]["share"], line={"color": FAINT, "dash": "dot", "width": 1})
    return figure


def overlaid_curves(models: Sequence[Mapping[str, Any]], which: str, label: str | None = None) -> go.Figure:
    """The curves of one class (else the first) of every model of a comparison; ``which``: roc or precision_recall."""
    named = [(str(model["name"]), _curve_of(model.get("curves") or [], which, label)) for model in models]
    if which == "roc":
        return _curves(named, "false_positive_rate", "true_positive_rate", "ROC curves")
    return _curves(named, "recall", "precision", "Precision and recall")


def confusion_matrix(
    labels: Sequence[str], counts: Sequence[Sequence[int]], title: str = "Confusion matrix"
) -> go.Figure:
    """Actual classes down, given ones across; the colour is the share of the actual class."""
    shares = [[count / (sum(row) or 1) for count in row] for row in counts]
    places = list(range(len(labels)))
    about = [
        [[in_full(labels[row]), in_full(labels[column]), f"{counts[row][column]:,}"] for column in places]
        for row in places
    ]
    figure = go.Figure(
        go.Heatmap(
            z=shares, x=places, y=places, customdata=about, zmin=0, zmax=1, colorscale=CLEAR_TO_BLUE, xgap=1, ygap=1,
            colorbar={"title": {"text": "Share of<br>actual class"}, "tickformat": ".0%", "thickness": 12},
            hovertemplate="actual %{customdata[0]}<br>given %{customdata[1]}<br>%{customdata[2]} rows, "
            "%{z:.1%} of the actual class<extra></extra>",
        )
    )  # fmt: skip
    if len(labels) <= MOST_NUMBERED_CLASSES:
        figure.add_trace(
            cell_texts(
                [(column, row, about[row][column][2]) for row in places for column in places if counts[row][column]]
            )
        )
    height = min(max(320, 150 + 34 * len(labels)), 820)
    lay_out(figure, shortened(title, LONGEST_TITLE), height)
    every = -(-len(labels) // 40)
    figure.update_xaxes(
        title="Given class", side="bottom", showgrid=False, **named_ticks(labels, every), tickangle=_angle(labels)
    )
    figure.update_yaxes(title="Actual class", autorange="reversed", showgrid=False, **named_ticks(labels, every))
    return figure


def class_scores(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Precision, recall and F1 of each class."""
    labels = [str(row["class"]) for row in rows]
    figure = go.Figure(
        [
            go.Bar(
                name=title, x=[row.get(name) for row in rows], y=list(range(len(rows))), orientation="h",
                marker={"color": colour}, customdata=[in_full(label) for label in labels],
                hovertemplate="%{customdata}<br>%{fullData.name} %{x:.1%}<extra></extra>",
            )
            for (name, title), colour in zip(
                (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1")), COLOURS, strict=False
            )
        ]
    )  # fmt: skip
    lay_out(figure, "Scores by class", 130 + 36 * max(len(rows), 2), legend=True)
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(labels))
    return figure


def leaderboard(
    rows: Sequence[Mapping[str, Any]], measure: str, title: str, *, greater_is_better: bool = True
) -> go.Figure:
    """One bar a model, in the order given; models without a value have an empty one."""
    names = [str(row["name"]) for row in rows]
    values = [number(row.get(measure)) for row in rows]
    figure = go.Figure(
        go.Bar(
            x=values, y=list(range(len(rows))), orientation="h", marker={"color": BLUE},
            text=["no value" if value is None else f"{value:.4f}" for value in values],
            textposition="auto", cliponaxis=False, customdata=[in_full(name) for name in names],
            hovertemplate="%{customdata}<br>%{x:.4f}<extra></extra>",
        )
    )  # fmt: skip
    lay_out(figure, f"{in_full(title)} by model", 120 + 36 * max(len(rows), 2))
    better = "higher is better" if greater_is_better else "lower is better"
    known = [value for value in values if value is not None]
    figure.update_xaxes(title=f"{in_full(title)}, {better}", rangemode="tozero", range=_bar_range(known))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=28))
    return figure


def recall_at_rates(rows: Sequence[Mapping[str, Any]], rates: Sequence[tuple[str, str]]) -> go.Figure:
    """The share found at each rate (its key in the rows and its title), the models side by side."""
    places = list(range(len(rates)))
    figure = go.Figure(
        [
            go.Bar(
                name=shortened(str(row["name"]), 32), x=places, y=[number(row.get(key)) for key, _ in rates],
                marker={"color": line(index)["color"], "pattern": {"shape": HATCHES[index // len(COLOURS) % 3]}},
                text=["" if (value := number(row.get(key))) is None else f"{value:.1%}" for key, _ in rates],
                textposition="outside", cliponaxis=False,
                customdata=[[in_full(str(row["name"])), in_full(title)] for _, title in rates],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{y:.2%}<extra></extra>",
            )
            for index, row in enumerate(rows)
        ]
    )  # fmt: skip
    lay_out(figure, "Recall at interrupt rates", 400, legend=True)
    figure.update_layout(barmode="group", bargap=0.2)
    figure.update_xaxes(showgrid=False, **named_ticks([title for _, title in rates], longest=28))
    greatest = max((value for row in rows for key, _ in rates if (value := number(row.get(key)))), default=1.0)
    figure.update_yaxes(title="Share of the class found", range=[0, greatest * 1.1], tickformat=".2~%")
    return figure


def probability_histogram(edges: Sequence[float], counts: Mapping[str, Sequence[int]]) -> go.Figure:
    """Rows by the probability each class was given; a line a class, on a logarithmic scale to show rare ones."""
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    spans = [f"{low:.0%} to {high:.0%}" for low, high in pairwise(edges)]
    figure = go.Figure(
        [
            go.Scatter(
                name=shortened(label), x=middles, y=[count or None for count in part], mode="lines+markers",
                line=line(index), marker={"size": 5}, customdata=[[span, in_full(label)] for span in spans],
                hovertemplate="%{customdata[1]}<br>probability %{customdata[0]}<br>%{y:,} rows<extra></extra>",
            )
            for index, (label, part) in enumerate(counts.items())
        ]
    )  # fmt: skip
    lay_out(figure, "Probabilities given to each class", 380, legend=True)
    figure.update_xaxes(title="Probability of the class", range=[0, 1], tickformat=".0%")
    figure.update_yaxes(title="Rows (logarithmic)", type="log", dtick=1)
    return figure


def _curves(named: Sequence[tuple[str, Points | None]], x: str, y: str, title: str) -> go.Figure:
    figure = go.Figure()
    if x == "false_positive_rate":
        figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line={"color": FAINT, "dash": "dot", "width": 1})
    for index, (name, points) in enumerate(named):
        if points:
            figure.add_trace(_curve(name, points, x, y, index))
    if not figure.data:
        figure.add_annotation(text="No curve: a class is absent.", showarrow=False, x=0.5, y=0.5)
    lay_out(figure, title, 400, legend=True)
    figure.update_xaxes(title=_in_words(x), range=[-0.01, 1.01], tickformat=".0%", constrain="domain")
    figure.update_yaxes(title=_in_words(y), range=[-0.01, 1.02], tickformat=".0%")
    return figure


def _curve(name: str, points: Points, x: str, y: str, index: int) -> go.Scatter:
    threshold = ["all" if value is None else f"{value:.4g}" for value in points.get("threshold", [])]
    return go.Scatter(
        name=shortened(name), x=list(points[x]), y=list(points[y]), mode="lines", line=line(index),
        customdata=[[in_full(name), at] for at in threshold] or [[in_full(name), "–"]] * len(points[x]),
        hovertemplate=f"%{{customdata[0]}}<br>{_in_words(x).lower()} %{{x:.2%}}<br>"
        f"{_in_words(y).lower()} %{{y:.2%}}<br>threshold %{{customdata[1]}}<extra></extra>",
    )  # fmt: skip


def _curve_of(curves: Sequence[Mapping[str, Any]], which: str, label: str | None) -> Points | None:
    wanted = [curve for curve in curves if label is None or curve["class"] == label]
    return wanted[0].get(which) if wanted else None


def _in_words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _bar_range(values: Sequence[float]) -> list[float] | None:
    """Measures that end at 1 are shown from 0 to 1, so that a small gain does not look like a great one."""
    return [0, 1] if values and min(values) >= 0 and 0.3 < max(values) <= 1 else None


def _angle(labels: Sequence[str]) -> int:
    crowded = len(labels) * max((min(len(label), LONGEST_NAME) for label in labels), default=0) > 60
    return -60 if crowded else 0
