"""Plot how good predictions are: curves, confusion, scores by class and model, probabilities."""

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
    apply_layout,
    cell_texts,
    hover_name,
    legend_name,
    line,
    named_ticks,
    number,
    shortened,
)

LONGEST_TITLE = 60
HATCHES = ("", "/", "x")
"""Distinguish bars when the colours repeat."""
MAX_CLASSES_WITH_COUNTS = 15
"""With more classes the cells of a confusion matrix are too small for their counts."""
MAX_CLASS_NAMES = 40
"""With more classes only some of their names are written at the axes."""

Points = Mapping[str, Sequence[float | None]]
"""The coordinates of a curve by name, and its thresholds."""


def roc_curves(curves: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Plot one curve per class, as an evaluation holds them; classes without one are left out."""
    named = [(str(curve["class"]), curve.get("roc")) for curve in curves]
    return _curves(named, "false_positive_rate", "true_positive_rate", "ROC curve")


def precision_recall_curves(curves: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Plot one curve per class; with a single class, a line shows the precision of guessing."""
    named = [(str(curve["class"]), curve.get("precision_recall")) for curve in curves]
    figure = _curves(named, "recall", "precision", "Precision and recall")
    if len(curves) == 1 and curves[0].get("share") is not None:
        figure.add_hline(curves[0]["share"], line={"color": FAINT, "dash": "dot", "width": 1})
    return figure


def overlaid_curves(
    models: Sequence[Mapping[str, Any]], which: str, label: str | None = None
) -> go.Figure:
    """Plot the curve of one class for every model of a comparison.

    ``which`` is ``roc`` or ``precision_recall``. Without ``label`` it is the first class.
    """
    named = []
    for model in models:
        curve = _curve_of(model.get("curves") or [], which, label)
        named.append((str(model["name"]), curve))
    if which == "roc":
        return _curves(named, "false_positive_rate", "true_positive_rate", "ROC curves")
    return _curves(named, "recall", "precision", "Precision and recall")


def confusion_matrix(
    labels: Sequence[str], counts: Sequence[Sequence[int]], title: str = "Confusion matrix"
) -> go.Figure:
    """Plot actual classes down and predicted ones across.

    The colour of a cell is its share of the actual class.
    """
    positions = list(range(len(labels)))
    names = [hover_name(label) for label in labels]
    shares, hover, texts = [], [], []
    for row, row_counts in enumerate(counts):
        total = sum(row_counts) or 1
        shares.append([count / total for count in row_counts])
        cells = zip(names, row_counts, strict=True)
        hover.append([[names[row], name, f"{count:,}"] for name, count in cells])
        texts += [(column, row, f"{count:,}") for column, count in enumerate(row_counts) if count]
    figure = go.Figure(
        go.Heatmap(
            z=shares, x=positions, y=positions, customdata=hover, zmin=0, zmax=1,
            colorscale=CLEAR_TO_BLUE, xgap=1, ygap=1,
            colorbar={
                "title": {"text": "Share of<br>actual class"}, "tickformat": ".0%", "thickness": 12,
            },
            hovertemplate="actual %{customdata[0]}<br>predicted %{customdata[1]}<br>"
            "%{customdata[2]} rows, %{z:.1%} of the actual class<extra></extra>",
        )
    )  # fmt: skip
    if len(labels) <= MAX_CLASSES_WITH_COUNTS:
        figure.add_trace(cell_texts(texts))
    height = min(max(320, 150 + 34 * len(labels)), 820)
    apply_layout(figure, shortened(title, LONGEST_TITLE), height)
    # Rounded up: with 41 classes, every second name is written.
    ticks = named_ticks(labels, every=-(-len(labels) // MAX_CLASS_NAMES))
    figure.update_xaxes(
        title="Predicted class", side="bottom", showgrid=False, **ticks, tickangle=_angle(labels)
    )
    figure.update_yaxes(title="Actual class", autorange="reversed", showgrid=False, **ticks)
    return figure


def class_scores(rows: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Plot precision, recall and F1 of each class."""
    labels = [str(row["class"]) for row in rows]
    names = [hover_name(label) for label in labels]
    figure = go.Figure()
    scores = (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1"))
    for (name, title), colour in zip(scores, COLOURS, strict=False):
        figure.add_bar(
            name=title, x=[row.get(name) for row in rows], y=list(range(len(rows))),
            orientation="h", marker={"color": colour}, customdata=names,
            hovertemplate="%{customdata}<br>%{fullData.name} %{x:.1%}<extra></extra>",
        )  # fmt: skip
    apply_layout(figure, "Scores by class", 130 + 36 * max(len(rows), 2), legend=True)
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(labels))
    return figure


def leaderboard(
    rows: Sequence[Mapping[str, Any]], measure: str, title: str, *, greater_is_better: bool = True
) -> go.Figure:
    """Plot one bar per model, in the given order; a model without a value has an empty bar."""
    names = [str(row["name"]) for row in rows]
    values = [number(row.get(measure)) for row in rows]
    figure = go.Figure(
        go.Bar(
            x=values, y=list(range(len(rows))), orientation="h", marker={"color": BLUE},
            text=["no value" if value is None else f"{value:.4f}" for value in values],
            textposition="auto", cliponaxis=False, customdata=[hover_name(name) for name in names],
            hovertemplate="%{customdata}<br>%{x:.4f}<extra></extra>",
        )
    )  # fmt: skip
    apply_layout(figure, f"{hover_name(title)} by model", 120 + 36 * max(len(rows), 2))
    better = "higher is better" if greater_is_better else "lower is better"
    known = [value for value in values if value is not None]
    figure.update_xaxes(
        title=f"{hover_name(title)}, {better}", rangemode="tozero", range=_bar_range(known)
    )
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=28))
    return figure


def recall_at_rates(
    rows: Sequence[Mapping[str, Any]], rates: Sequence[tuple[str, str]]
) -> go.Figure:
    """Plot the recall at each rate (its key in the rows and its title), models side by side."""
    titles = [title for _, title in rates]
    figure = go.Figure()
    greatest = 0.0
    for index, row in enumerate(rows):
        name = str(row["name"])
        recalls = [number(row.get(key)) for key, _ in rates]
        greatest = max([greatest, *filter(None, recalls)])
        hatch = HATCHES[index // len(COLOURS) % len(HATCHES)]
        figure.add_bar(
            name=legend_name(name), x=list(range(len(rates))), y=recalls,
            marker={"color": line(index)["color"], "pattern": {"shape": hatch}},
            text=["" if recall is None else f"{recall:.1%}" for recall in recalls],
            textposition="outside", cliponaxis=False,
            customdata=[[hover_name(name), hover_name(title)] for title in titles],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}: %{y:.2%}<extra></extra>",
        )  # fmt: skip
    # The axis ends 10 % above the highest bar, for its text, but not above 100 %.
    apply_layout(figure, "Recall at interrupt rates", 400, legend=True)
    figure.update_layout(barmode="group", bargap=0.2)
    figure.update_xaxes(showgrid=False, **named_ticks(titles, longest=28))
    top = min((greatest or 1.0) * 1.1, 1.0)
    figure.update_yaxes(title="Share of the class found", range=[0, top], tickformat=".2~%")
    return figure


def probability_histogram(edges: Sequence[float], counts: Mapping[str, Sequence[int]]) -> go.Figure:
    """Plot rows by their predicted probability, one line per class.

    The scale is logarithmic, so that rare classes are visible.
    """
    intervals = list(pairwise(edges))
    middles = [(low + high) / 2 for low, high in intervals]
    texts = [f"{low:.0%} to {high:.0%}" for low, high in intervals]
    figure = go.Figure()
    for index, (label, part) in enumerate(counts.items()):
        figure.add_scatter(
            name=legend_name(label), x=middles, y=[count or None for count in part],
            mode="lines+markers", line=line(index), marker={"size": 5},
            customdata=[[text, hover_name(label)] for text in texts],
            hovertemplate="%{customdata[1]}<br>probability %{customdata[0]}<br>"
            "%{y:,} rows<extra></extra>",
        )  # fmt: skip
    # A logarithmic axis has no 0: such points were left out as None above.
    apply_layout(figure, "Predicted probability of each class", 380, legend=True)
    figure.update_xaxes(title="Probability of the class", range=[0, 1], tickformat=".0%")
    figure.update_yaxes(title="Rows (logarithmic)", type="log", dtick=1)
    return figure


def _curves(named: Sequence[tuple[str, Points | None]], x: str, y: str, title: str) -> go.Figure:
    """Plot named curves; ``x`` and ``y`` are the names of their coordinates."""
    figure = go.Figure()
    if x == "false_positive_rate":
        # A ROC curve on the diagonal is no better than guessing.
        diagonal = {"color": FAINT, "dash": "dot", "width": 1}
        figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line=diagonal)
    for index, (name, points) in enumerate(named):
        if points:
            figure.add_trace(_curve(name, points, x, y, index))
    if not figure.data:
        figure.add_annotation(text="No curve: a class is absent.", showarrow=False, x=0.5, y=0.5)
    apply_layout(figure, title, 400, legend=True)
    figure.update_xaxes(
        title=_axis_title(x), range=[-0.01, 1.01], tickformat=".0%", constrain="domain"
    )
    figure.update_yaxes(title=_axis_title(y), range=[-0.01, 1.02], tickformat=".0%")
    return figure


def _curve(name: str, points: Points, x: str, y: str, index: int) -> go.Scatter:
    """Return the line of one curve, with the threshold of each point as hover text."""
    thresholds = ["all" if each is None else f"{each:.4g}" for each in points.get("threshold", [])]
    if not thresholds:
        thresholds = ["–"] * len(points[x])
    return go.Scatter(
        name=legend_name(name), x=list(points[x]), y=list(points[y]),
        mode="lines", line=line(index),
        customdata=[[hover_name(name), threshold] for threshold in thresholds],
        hovertemplate=f"%{{customdata[0]}}<br>{_axis_title(x).lower()} %{{x:.2%}}<br>"
        f"{_axis_title(y).lower()} %{{y:.2%}}<br>threshold %{{customdata[1]}}<extra></extra>",
    )  # fmt: skip


def _curve_of(curves: Sequence[Mapping[str, Any]], which: str, label: str | None) -> Points | None:
    """Return the curve of a class; ``None`` if it has none."""
    for curve in curves:
        if label is None or curve["class"] == label:
            return curve.get(which)
    return None


def _axis_title(name: str) -> str:
    """Return the title of an axis from the name of a coordinate."""
    return name.replace("_", " ").capitalize()


def _bar_range(values: Sequence[float]) -> list[float] | None:
    """Return 0 to 1 for measures that end at 1, ``None`` to leave the range to plotly.

    On a shorter axis a small gain would look like a large one.
    """
    if values and min(values) >= 0 and 0.3 < max(values) <= 1:
        return [0, 1]
    return None


def _angle(labels: Sequence[str]) -> int:
    """Return the angle of the names below a matrix: slanted when they would overlap."""
    widest = max((min(len(label), LONGEST_NAME) for label in labels), default=0)
    return -60 if len(labels) * widest > 60 else 0
