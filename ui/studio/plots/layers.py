"""Plot the inside of a deep forest: growth, margins, learners, one row, rows that leave early.

``records`` are what training measured on held-out rows, for every layer that was grown. ``stages``
are what an inspected table showed, for every layer that was kept. Both number layers from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from deepforest.records import SCORED_ON
from ui.studio.plots.style import (
    BLUE,
    CLEAR_TO_BLUE,
    COLOURS,
    FAINT,
    GREY,
    apply_layout,
    cell_texts,
    hover_name,
    line,
    named_ticks,
    number,
    shortened,
)

Layer = Mapping[str, Any]
Cells = Sequence[Sequence[float | None]]

AMBER, GREEN, ORANGE = COLOURS[1], COLOURS[2], COLOURS[5]
HELD_OUT, TABLE = "Held-out training rows", "Inspected table"
MAX_CELLS_WITH_NUMBERS = 200
"""With more cells the numbers in a heat map are too small to read."""
MAX_FEATURES = 20
STAYS = "rgba(128, 128, 128, 0.35)"
CORRECT, WRONG = "rgba(0, 158, 115, 0.55)", "rgba(213, 94, 0, 0.65)"
GONE_CORRECT, GONE_WRONG, GONE = "gone, correct", "gone, wrong", "gone"
NEXT_LAYER = "next layer"
ZERO_LINE = {"color": FAINT, "dash": "dot", "width": 1}


# Growth


def growth(
    records: Sequence[Layer], measure: str, title: str, stages: Sequence[Layer] = ()
) -> go.Figure:
    """Plot the score that decides about growth by layer, with small marks for single learners.

    Filled marks are kept layers, empty ones dropped layers; their bars are one standard error. The
    other scores that training has are dotted lines.
    """
    numbers = [record["number"] for record in records]
    x, y, names = [], [], []
    for record in records:
        for learner in record["learners"]:
            x.append(record["number"])
            y.append(learner["scores"].get(measure))
            names.append(hover_name(learner["name"]))
    figure = go.Figure(
        [
            go.Scatter(
                name="One learner", mode="markers", x=x, y=y, customdata=names,
                marker={"color": AMBER, "size": 7, "symbol": "diamond-open"},
                hovertemplate="layer %{x}, %{customdata}<br>%{y:.4f}<extra></extra>",
            ),
            *_other_scores(records, measure),
            *_deciding_scores(records),
            *_table_scores(stages, measure),
            *_layer_marks(records),
        ]
    )  # fmt: skip
    apply_layout(figure, f"{hover_name(title)} by layer", 340, legend=True)
    _layer_axis(figure, numbers)
    axis_title = hover_name(title)
    figure.update_yaxes(title=axis_title if stages else f"{axis_title}, held-out rows")
    return figure


def scored_on(record: Layer) -> str:
    """Return on which rows the score of a record was made: a key of ``SCORED_ON``."""
    # Records of earlier versions do not say it, and have no score on blind rows.
    default = "validation" if record.get("validation") else "out_of_fold"
    return str(record.get("scored_on") or default)


def _deciding_scores(records: Sequence[Layer]) -> list[go.Scatter]:
    """Return the line of the score that decides: solid up to the last kept layer, then dotted."""
    name = _legend_name(scored_on(records[0])) if records else ""
    last = max((at for at, record in enumerate(records) if record["kept"]), default=0)
    parts = [("solid", records[: last + 1], True)]
    if last + 1 < len(records):
        parts.append(("dot", records[last:], False))
    lines = []
    for dash, part, in_legend in parts:
        line_of_part = go.Scatter(
            name=name, mode="lines", x=[record["number"] for record in part],
            y=[record["score"] for record in part], line={"color": BLUE, "width": 2, "dash": dash},
            hoverinfo="skip", showlegend=in_legend,
        )  # fmt: skip
        lines.append(line_of_part)
    return lines


def _other_scores(records: Sequence[Layer], measure: str) -> list[go.Scatter]:
    """Return the lines of scores that did not decide: on blind rows and out-of-fold."""
    numbers = [record["number"] for record in records]
    lines = []
    for kind, key, name, colour in (
        ("blind", "blind", _legend_name("blind"), ORANGE),
        # Inside a cascade that is blind to other rows; not the score of the papers.
        ("out_of_fold", "scores", "Out-of-fold", GREY),
    ):
        values = [(record.get(key) or {}).get(measure) for record in records]
        if any(value is not None for value in values) and scored_on(records[0]) != kind:
            lines.append(_line_of(name, numbers, values, colour, "dot", "cross-thin-open", "y"))
    return lines


def _legend_name(kind: str) -> str:
    """Return which rows a line is about, broken into lines that fit below half a page."""
    words = SCORED_ON[kind]
    return f"{words[:1].upper()}{words[1:]}".replace("; ", ";<br>")


def margin_growth(records: Sequence[Layer], stages: Sequence[Layer] = ()) -> go.Figure:
    """Plot the mean margin of each layer, with its standard deviation as a bar.

    In a good forest the mean rises and the bar gets shorter.
    """
    figure = go.Figure()
    # The two series are shifted a little, so that their bars do not cover each other.
    for name, layers, colour, dash, shift in (
        (HELD_OUT, records, BLUE, "solid", -0.04 if stages else 0),
        (TABLE, stages, GREEN, "dash", 0.04),
    ):
        measured = [layer for layer in layers if layer.get("margins")]
        if measured:
            figure.add_trace(_mean_and_spread(name, measured, colour, dash, shift))
    apply_layout(figure, "Margin by layer: mean ± standard deviation", 340, legend=True)
    _layer_axis(figure, [record["number"] for record in records])
    figure.update_yaxes(title="Margin")
    figure.add_hline(0, line=ZERO_LINE)
    return figure


def ratio_and_score(
    layers: Sequence[Layer], scores: Sequence[float | None], title: str, where: str
) -> go.Figure:
    """Plot the margin ratio and the score of each layer, as in figure 2a of the mdDF paper."""
    numbers = [layer["number"] for layer in layers]
    # Margin ratio = standard deviation ÷ mean of the margins.
    ratios = [(layer.get("margins") or {}).get("ratio") for layer in layers]
    score_name = shortened(title, 28)
    figure = go.Figure(
        [
            _line_of("Margin ratio", numbers, ratios, AMBER, "dash", "square", "y2"),
            _line_of(score_name, numbers, list(scores), BLUE, "solid", "circle", "y"),
        ]
    )
    where = where.lower()
    apply_layout(figure, f"Margin ratio and {hover_name(title)}: {where}", 340, legend=True)
    _layer_axis(figure, numbers)
    figure.update_layout(
        yaxis={"title": f"● {hover_name(title)}", "range": _padded(scores, 0.15, 0.45)},
        yaxis2={
            "title": "■ Margin ratio: spread ÷ mean", "range": _padded(ratios, 0.45, 0.15),
            "overlaying": "y", "side": "right", "showgrid": False, "automargin": True,
            "zeroline": False, "tickmode": "auto", "nticks": 6,
        },
    )  # fmt: skip
    return figure


def _padded(values: Sequence[float | None], below: float, above: float) -> list[float] | None:
    """Return the range of the values, with padding in shares of the range.

    Two axes with different padding keep similar lines apart.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    # One layer, or equal values: any span will do, but not 0.
    low, high = min(known), max(known)
    span = (high - low) or abs(high) or 1.0
    return [low - below * span, high + above * span]


def margin_distribution(
    series: Sequence[tuple[str, Mapping[str, Any]]], title: str, *, cumulative: bool = False
) -> go.Figure:
    """Plot the margins of each series (name and margin record).

    The plot shows the share of rows in each interval, or with ``cumulative`` the share of rows
    with at most each margin.
    """
    figure = go.Figure()
    for index, (name, margins) in enumerate(series):
        figure.add_trace(_distribution(name, margins, index, cumulative=cumulative))
    apply_layout(figure, hover_name(title), 400, legend=True)
    figure.update_xaxes(title="Margin (below 0: wrong)", range=[-1.02, 1.02])
    axis_title = "Rows with at most this margin" if cumulative else "Share of rows"
    figure.update_yaxes(title=axis_title, tickformat=".0%", rangemode="tozero")
    figure.add_vline(0, line=ZERO_LINE)
    return figure


# Learners


def learner_quality(
    learners: Sequence[str],
    numbers: Sequence[int],
    scores: Sequence[Sequence[float | None]],
    title: str,
    where: str,
) -> go.Figure:
    """Plot one line per learner over the layers; ``scores`` are layers × learners."""
    figure = go.Figure()
    for index, name in enumerate(learners):
        figure.add_scatter(
            name=shortened(name, 28), x=list(numbers), y=[layer[index] for layer in scores],
            mode="lines+markers", line=line(index), marker={"size": 7},
            customdata=[hover_name(name)] * len(numbers),
            hovertemplate="%{customdata}<br>layer %{x}<br>%{y:.4f}<extra></extra>",
        )  # fmt: skip
    heading = f"{hover_name(title)} of each learner: {where.lower()}"
    apply_layout(figure, heading, 360, legend=True)
    _layer_axis(figure, list(numbers))
    figure.update_yaxes(title=hover_name(title))
    return figure


def agreement(learners: Sequence[str], shares: Sequence[Sequence[float]], layer: int) -> go.Figure:
    """Plot how often two learners of a layer predict the same class."""
    off_diagonal: list[float] = []
    for row, row_shares in enumerate(shares):
        off_diagonal += [share for column, share in enumerate(row_shares) if column != row]
    hover = "%{customdata[0]}<br>%{customdata[1]}<br>agree on %{z:.1%}<extra></extra>"
    figure = _heat_map(shares, min(off_diagonal, default=0.0), hover)
    figure.data[0].customdata = _name_pairs(learners, learners)
    _write_cells(figure, shares, "{:.0%}")
    height = 150 + max(46 * len(learners), 160)
    apply_layout(figure, f"Layer {layer}: rows on which two learners agree", height)
    ticks = named_ticks(learners, longest=24)
    figure.update_xaxes(side="bottom", showgrid=False, tickangle=-30, **ticks)
    figure.update_yaxes(autorange="reversed", showgrid=False, **ticks)
    return figure


def importances_by_layer(stages: Sequence[Layer]) -> go.Figure:
    """Plot the most important features: their share of each layer's importance."""
    numbers = [stage["number"] for stage in stages]
    names = top_features(stages, MAX_FEATURES)
    layers = [_importances(stage) for stage in stages]
    cells = []
    for name in names:
        cells.append([layer.get(name) for layer in layers])
    figure = _heat_map(cells, 0.0, "%{customdata}<br>layer %{x}<br>%{z:.2%}<extra></extra>")
    figure.data[0].x = numbers
    figure.data[0].customdata = [[hover_name(name)] * len(stages) for name in names]
    _write_cells(figure, cells, "{:.1%}", numbers)
    apply_layout(figure, "Importance by layer", 120 + 24 * max(len(names), 4))
    _layer_axis(figure, numbers)
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=32))
    return figure


def _importances(stage: Layer) -> dict[str, float]:
    """Return the importance of each feature in a layer."""
    return {row["feature"]: row["importance"] for row in stage["importances"]}


def top_features(stages: Sequence[Layer], max_features: int) -> list[str]:
    """Return the features with the greatest importance in any layer, the greatest first."""
    best: dict[str, float] = {}
    for stage in stages:
        for name, importance in _importances(stage).items():
            best[name] = max(best.get(name, 0.0), importance)
    return sorted(best, key=lambda name: -best[name])[:max_features]


# One row


def class_vectors(
    vectors: Sequence[Cells],
    cascade: Cells,
    learners: Sequence[str],
    classes: Sequence[str],
    truth: int | None,
) -> go.Figure:
    """Plot the predictions for one row: of each learner, and of the cascade after each layer.

    ``vectors`` are layers × learners × classes, ``cascade`` layers × classes. ``truth`` is the
    index of the true class, if it is known.
    """
    names: list[str] = []
    full_names: list[str] = []
    cells: list[Sequence[float | None]] = []
    for layer, (parts, after) in enumerate(zip(vectors, cascade, strict=True), start=1):
        for learner, part in zip(learners, parts, strict=True):
            names.append(f"{layer} · {learner}")
            full_names.append(f"layer {layer}, {learner}")
            cells.append(part)
        names.append(f"{layer} · cascade")
        full_names.append(f"layer {layer}, the cascade after it")
        cells.append(after)
    hover = "%{customdata[0]}<br>%{customdata[1]}<br>%{z:.1%}<extra></extra>"
    figure = _heat_map(cells, 0.0, hover, highest=1.0)
    figure.data[0].customdata = _name_pairs(full_names, classes)
    _write_cells(figure, cells, "{:.0%}")
    title = "Predictions of each learner"
    if truth is not None:
        title += " (dotted frame: the true class)"
    apply_layout(figure, title, 160 + 24 * len(cells))
    for level in range(1, len(vectors)):
        between = level * (len(learners) + 1) - 0.5
        figure.add_hline(between, line={"color": FAINT, "width": 2})
    if truth is not None:
        frame = {"color": AMBER, "width": 2, "dash": "dot"}
        figure.add_vrect(truth - 0.48, truth + 0.48, line=frame)
    widest = max((min(len(name), 18) for name in classes), default=0)
    angle = -45 if len(classes) * widest > 90 else 0
    figure.update_xaxes(side="top", showgrid=False, tickangle=angle, **named_ticks(classes))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=30))
    figure.update_layout(margin={"t": 80}, title={"y": 1, "yanchor": "top", "pad": {"t": 14}})
    return figure


def row_margin(
    margins: Sequence[float | None], predicted: Sequence[str], left_at: int
) -> go.Figure:
    """Plot the margin of one row after each layer, up to the layer at which it left.

    ``predicted`` are the classes after each layer.
    """
    numbers = list(range(1, len(margins) + 1))
    figure = go.Figure(
        go.Scatter(
            x=numbers[:left_at], y=list(margins)[:left_at], mode="lines+markers",
            line={"color": GREY, "width": 2},
            marker={"size": 12, "color": [_margin_colour(each) for each in margins[:left_at]]},
            customdata=[hover_name(name) for name in predicted[:left_at]],
            hovertemplate="layer %{x}: predicted %{customdata}<br>margin %{y:.3f}<extra></extra>",
        )
    )  # fmt: skip
    apply_layout(figure, "Margin of the row (green: correct, orange: wrong)", 300)
    _layer_axis(figure, numbers)
    figure.update_yaxes(title="Margin", range=[-1.05, 1.05])
    figure.add_hline(0, line=ZERO_LINE)
    if left_at < len(margins):
        text = f"left after layer {left_at}: confident enough"
        figure.add_annotation(x=left_at, y=1, text=text, showarrow=False, yanchor="bottom")
    return figure


def _margin_colour(margin: float | None) -> str:
    """Return the colour of a margin: green if the prediction is right, orange if it is wrong."""
    if margin is None:
        return GREY
    return GREEN if margin > 0 else ORANGE


# Rows that leave early


class _Link(NamedTuple):
    """A flow of rows between two nodes of the diagram, by their index."""

    source: int
    target: int
    rows: int
    colour: str


def screening(flows: Sequence[Mapping[str, Any]], title: str) -> go.Figure:
    """Plot how many rows pass from layer to layer, and how many leave, correct or wrong.

    A flow has ``layer``, ``rows_in``, ``rows_out`` and ``error_out``: the share of the leaving rows
    that are predicted wrongly. Where it is not known, they leave in grey.
    """
    depth = len(flows)
    names = [f"Layer {flow['layer']}" for flow in flows] + [GONE_CORRECT, GONE_WRONG, GONE]
    links = _links(flows)
    figure = go.Figure(
        go.Sankey(
            arrangement="snap",
            node={
                "customdata": names, "color": [BLUE] * depth + [GREEN, ORANGE, GREY], "pad": 24,
                "thickness": 16, "line": {"width": 0},
                "hovertemplate": "%{customdata}<br>%{value:,} rows<extra></extra>",
            },
            link={
                "source": [link.source for link in links],
                "target": [link.target for link in links],
                "value": [link.rows for link in links],
                "color": [link.colour for link in links],
                "customdata": [f"{names[link.source]} → {names[link.target]}" for link in links],
                "hovertemplate": "%{customdata}<br>%{value:,} rows<extra></extra>",
            },
            valueformat=",",
        )
    )  # fmt: skip
    apply_layout(figure, hover_name(title), 380)
    figure.update_layout(margin={"l": 10, "r": 10, "t": 80, "b": 40})
    if any(flow["error_out"] is not None for flow in flows):
        colours = [(GREEN, GONE_CORRECT), (ORANGE, GONE_WRONG), (GREY, NEXT_LAYER)]
    else:
        colours = [(GREY, f"{NEXT_LAYER} or gone")]
    reached = [name for name, flow in zip(names, flows, strict=False) if flow["rows_in"] > 0]
    _name_flows(figure, reached, colours)
    return figure


def _links(flows: Sequence[Mapping[str, Any]]) -> list[_Link]:
    """Return the flows that have rows; the three ends follow the layers as nodes."""
    depth = len(flows)
    gone_correct, gone_wrong, gone = depth, depth + 1, depth + 2
    links = []
    for layer, flow in enumerate(flows):
        leaving, error = flow["rows_out"], number(flow["error_out"])
        if layer + 1 < depth:
            links.append(_Link(layer, layer + 1, flow["rows_in"] - leaving, STAYS))
        if error is None:
            links.append(_Link(layer, gone, leaving, STAYS))
        else:
            # The error is a share of the leaving rows; the diagram needs whole rows.
            wrong = round(leaving * error)
            links.append(_Link(layer, gone_correct, leaving - wrong, CORRECT))
            links.append(_Link(layer, gone_wrong, wrong, WRONG))
    return [link for link in links if link.rows > 0]


def _name_flows(
    figure: go.Figure, layers: Sequence[str], colours: Sequence[tuple[str, str]]
) -> None:
    """Write the layers above and a legend below: plotly would write names onto the flows."""
    for position, name in enumerate(layers):
        figure.add_annotation(
            text=name, x=position / len(layers), y=1, xanchor="left", yanchor="bottom",
            showarrow=False, xref="paper", yref="paper", yshift=4,
        )  # fmt: skip
    entries = [f"<span style='color:{colour}'>■</span> {name}" for colour, name in colours]
    figure.add_annotation(
        text="   ".join(entries), x=0, y=0, xanchor="left", yanchor="top",
        showarrow=False, xref="paper", yref="paper", yshift=-8,
    )  # fmt: skip


# Parts of the plots


def _layer_axis(figure: go.Figure, numbers: Sequence[int]) -> None:
    """Label the horizontal axis with the numbers of the layers."""
    low, high = min(numbers, default=1), max(numbers, default=1)
    limits = [low - 0.5, high + 0.5]
    figure.update_xaxes(title="Layer", tickvals=list(numbers), range=limits, showgrid=False)


def _table_scores(stages: Sequence[Layer], measure: str) -> list[go.Scatter]:
    """Return a line with the scores on the inspected table; no line if it has none."""
    numbers, scores = [], []
    for stage in stages:
        score = (stage.get("scores") or {}).get(measure)
        if score is not None:
            numbers.append(stage["number"])
            scores.append(score)
    if not numbers:
        return []
    return [_line_of(TABLE, numbers, scores, GREEN, "dash", "square", "y")]


def _layer_marks(records: Sequence[Layer]) -> list[go.Scatter]:
    """Return the marks of layers that are kept, that are dropped, and of which a probe was enough.

    Their bars are one standard error; the hover text has the reason.
    """
    kept = [record for record in records if record["kept"]]
    probes = [record for record in records if record.get("probe")]
    dropped = [record for record in records if not record["kept"] and not record.get("probe")]
    marks = [_marks("Kept layer", kept, BLUE, "circle")]
    marks.append(_marks("Dropped layer", dropped, GREY, "circle-open"))
    if probes:
        marks.append(_marks("Dropped after a probe", probes, GREY, "diamond-open"))
    return marks


def _marks(name: str, layers: Sequence[Layer], colour: str, symbol: str) -> go.Scatter:
    """Return the marks of some layers."""
    errors = [layer.get("score_se") for layer in layers]
    noise = ["" if error is None else f" ± {error:.4f}" for error in errors]
    reasons = [hover_name(str(layer.get("reason", ""))) for layer in layers]
    return go.Scatter(
        name=name, mode="markers",
        x=[layer["number"] for layer in layers], y=[layer["score"] for layer in layers],
        error_y={"type": "data", "array": [error or 0.0 for error in errors],
                 "visible": any(errors), "color": colour, "thickness": 1.5, "width": 6},
        customdata=[list(pair) for pair in zip(noise, reasons, strict=True)],
        marker={"color": colour, "size": 12, "symbol": symbol,
                "line": {"color": colour, "width": 2}},
        hovertemplate="layer %{x}<br>%{y:.4f}%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )  # fmt: skip


def _line_of(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    colour: str,
    dash: str,
    symbol: str,
    axis: str,
) -> go.Scatter:
    """Return a line with marks over the layers; ``axis`` is ``y`` or ``y2``."""
    return go.Scatter(
        name=name, x=list(x), y=list(y), mode="lines+markers", yaxis=axis,
        line={"color": colour, "width": 2, "dash": dash}, marker={"size": 9, "symbol": symbol},
        hovertemplate=f"{name}<br>layer %{{x}}<br>%{{y:.4f}}<extra></extra>",
    )  # fmt: skip


def _mean_and_spread(
    name: str, layers: Sequence[Layer], colour: str, dash: str, shift: float
) -> go.Scatter:
    """Return the mean margins as a line, with the standard deviations as error bars."""
    numbers = [layer["number"] for layer in layers]
    means = [layer["margins"]["mean"] for layer in layers]
    deviations = [layer["margins"]["std"] for layer in layers]
    return go.Scatter(
        name=name, x=[number + shift for number in numbers], y=means,
        error_y={"type": "data", "array": deviations, "thickness": 1.5, "width": 5},
        mode="lines+markers", line={"color": colour, "width": 2, "dash": dash}, marker={"size": 9},
        customdata=[list(pair) for pair in zip(numbers, deviations, strict=True)],
        hovertemplate=f"{name}<br>layer %{{customdata[0]}}<br>"
        "mean %{y:.4f} ± %{customdata[1]:.4f}<extra></extra>",
    )  # fmt: skip


def _distribution(
    name: str, margins: Mapping[str, Any], index: int, *, cumulative: bool
) -> go.Scatter:
    """Return the line of one series, from the counts of its rows in intervals of the margin."""
    counts, edges = margins["counts"], margins["edges"]
    total = sum(counts) or 1
    if cumulative:
        x, y = list(edges), [0.0, *(count / total for count in accumulate(counts))]
        hover, shape = "at most %{x:.2f}: %{y:.1%} of the rows", "linear"
    else:
        x = [(low + high) / 2 for low, high in pairwise(edges)]
        y = [count / total for count in counts]
        # Steps: a share belongs to the whole interval.
        hover, shape = "around %{x:.2f}: %{y:.1%} of the rows", "hvh"
    return go.Scatter(
        name=shortened(name, 28), x=x, y=y, mode="lines", line=line(index) | {"shape": shape},
        customdata=[hover_name(name)] * len(x),
        hovertemplate=f"%{{customdata}}<br>{hover}<extra></extra>",
    )  # fmt: skip


def _heat_map(
    cells: Cells, lowest: float, hover: str, *, highest: float | None = None
) -> go.Figure:
    """Return a heat map whose colours go from ``lowest`` to ``highest``, or to the largest cell."""
    if highest is None:
        highest = max(_known_values(cells), default=0.0) or 1.0
    return go.Figure(
        go.Heatmap(
            z=[list(row) for row in cells], zmin=lowest, zmax=highest, colorscale=CLEAR_TO_BLUE,
            showscale=False, xgap=1, ygap=1, hoverongaps=False, hovertemplate=hover,
        )
    )  # fmt: skip


def _known_values(cells: Cells) -> list[float]:
    """Return the values of all cells that have one."""
    return [value for row in cells for value in row if value is not None]


def _name_pairs(rows: Sequence[str], columns: Sequence[str]) -> list[list[list[str]]]:
    """Return for each cell the names of its row and column, for the hover text."""
    column_names = [hover_name(name) for name in columns]
    pairs = []
    for row in rows:
        row_name = hover_name(row)
        pairs.append([[row_name, name] for name in column_names])
    return pairs


def _write_cells(
    figure: go.Figure, cells: Cells, number_format: str, columns: Sequence[int] | None = None
) -> None:
    """Write numbers into the cells, unless there are too many; ``columns`` are their positions."""
    if sum(map(len, cells)) > MAX_CELLS_WITH_NUMBERS:
        return
    texts = []
    for level, row in enumerate(cells):
        for column, value in zip(columns or range(len(row)), row, strict=True):
            if value is not None:
                texts.append((column, level, number_format.format(value)))
    figure.add_trace(cell_texts(texts))
