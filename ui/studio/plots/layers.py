"""Plot the inside of a deep forest: growth, margins, learners, one row, rows that leave early.

``records`` are what training measured on held-out rows, for every layer that was grown. ``stages``
are what an inspected table showed, for every layer that was kept. Both number layers from 1.

Layers have an order, and so have their colours (``layer_colour``). A dropped layer is faded, dotted
and named as dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    legend_name,
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
LAYER_COLOURS = ("#4A50DA", "#B247B0", "#DE5160", "#D08400")
"""From the first layer to the last. Each is brighter than the one before, differs from it for
colour-blind people, and has a contrast of at least 3 to the ground of both themes."""
FADED = 0.45
"""Opacity of what belongs to a dropped layer."""
DROPPED = "dropped"


class MarginSeries(NamedTuple):
    """The margins of some rows after a layer."""

    name: str
    margins: Mapping[str, Any]
    """A margin record: edges and counts of intervals."""
    layer: int = 1
    depth: int = 1
    """How many layers were grown."""
    dropped: bool = False
    dash: str = "solid"


def layer_colour(number: int, depth: int) -> str:
    """Return the colour of a layer, of ``depth`` layers that were grown; 0 is the input."""
    if number < 1:
        return GREY
    last = len(LAYER_COLOURS) - 1
    at = last * min(number - 1, depth - 1) / max(depth - 1, 1)
    low = min(int(at), last - 1)
    channels = []
    for start in (1, 3, 5):
        first, then = (int(each[start : start + 2], 16) for each in LAYER_COLOURS[low : low + 2])
        channels.append(round(first + (then - first) * (at - low)))
    return "#{:02X}{:02X}{:02X}".format(*channels)


def dropped_numbers(records: Sequence[Layer]) -> list[int]:
    """Return the numbers of the layers that are not part of the forest."""
    return [record["number"] for record in records if record.get("kept") is False]


def share_axes(figures: Sequence[go.Figure]) -> None:
    """Give figures the same vertical axis, so that they can be compared by eye."""
    lows, highs = [], []
    for figure in figures:
        for trace in figure.data:
            errors = getattr(trace.error_y, "array", None) if hasattr(trace, "error_y") else None
            for at, value in enumerate(getattr(trace, "y", None) or ()):
                if value is not None:
                    error = errors[at] if errors is not None else 0.0
                    lows.append(value - error)
                    highs.append(value + error)
    if lows:
        pad = 0.05 * ((max(highs) - min(lows)) or 1.0)
        for figure in figures:
            figure.update_yaxes(range=[min(lows) - pad, max(highs) + pad])


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
    _layer_axis(figure, numbers, dropped_numbers(records))
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
        kept, tail = _split_dropped(measured)
        if kept:
            figure.add_trace(_mean_and_spread(name, kept, colour, dash, shift))
        if tail:
            trace = _mean_and_spread(f"{name}, {DROPPED}", tail, colour, "dot", shift)
            figure.add_trace(_faded(trace, joined=bool(kept)))
    apply_layout(figure, "Margin by layer: mean ± standard deviation", 340, legend=True)
    _layer_axis(figure, [record["number"] for record in records], dropped_numbers(records))
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
    dropped = dropped_numbers(layers)
    figure = go.Figure()
    for name, values, colour, dash, symbol, axis in (
        ("Margin ratio", ratios, AMBER, "dash", "square", "y2"),
        (score_name, list(scores), BLUE, "solid", "circle", "y"),
    ):
        for part, ats, is_tail in _parts(numbers, dropped):
            chosen = [values[at] for at in ats]
            label = f"{name}, {DROPPED}" if is_tail else name
            trace = _line_of(label, part, chosen, colour, dash, symbol, axis)
            figure.add_trace(_faded(trace, joined=True) if is_tail else trace)
    where = where.lower()
    apply_layout(figure, f"Margin ratio and {hover_name(title)}: {where}", 340, legend=True)
    _layer_axis(figure, numbers, dropped)
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
    low, high = min(known), max(known)
    # One layer, or equal values: any small span will do, but not 0.
    span = (high - low) or 0.1 * abs(high) or 0.1
    top = high + above * span
    # No axis of a share, such as accuracy, goes far beyond 1.
    return [low - below * span, min(top, 1 + 0.1 * span) if high <= 1 else top]


def margin_distribution(
    series: Sequence[MarginSeries], title: str, *, cumulative: bool = False
) -> go.Figure:
    """Plot the margins of each series in the colour of its layer.

    The plot shows the share of rows in each interval, or with ``cumulative`` the share of rows
    with at most each margin.
    """
    figure = go.Figure()
    for each in series:
        figure.add_trace(_distribution(each, cumulative=cumulative))
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
    dropped: Collection[int] = (),
) -> go.Figure:
    """Plot one line per learner over the layers; ``scores`` are layers × learners.

    ``dropped`` are the numbers of layers that are not part of the forest.
    """
    figure = go.Figure()
    for index, name in enumerate(learners):
        for part, ats, is_tail in _parts(numbers, dropped):
            trace = go.Scatter(
                name=legend_name(name), x=part, y=[scores[at][index] for at in ats],
                mode="lines+markers", line=line(index), marker={"size": 7},
                customdata=[hover_name(name)] * len(part),
                hovertemplate="%{customdata}<br>layer %{x}<br>%{y:.4f}<extra></extra>",
            )  # fmt: skip
            figure.add_trace(_faded(trace, joined=True) if is_tail else trace)
    heading = f"{hover_name(title)} of each learner: {where.lower()}"
    apply_layout(figure, heading, 360, legend=True)
    _layer_axis(figure, list(numbers), dropped)
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


def window_map(
    cells: Cells,
    rows: Sequence[float],
    columns: Sequence[float],
    shape: Sequence[int],
    title: str,
) -> go.Figure:
    """Plot a value of each window over an image of this height and width.

    ``rows`` and ``columns`` are the centres of the windows.
    """
    hover = "row %{y}, column %{x}<br>%{z:.1%}<extra></extra>"
    figure = _heat_map(cells, min(_known_values(cells), default=0.0), hover)
    figure.data[0].x, figure.data[0].y = list(columns), list(rows)
    # A sequence has a single line.
    is_image = shape[0] > 1
    apply_layout(figure, title, 340 if is_image else 180)
    plain_axis = {"showgrid": False, "zeroline": False, "constrain": "domain"}
    figure.update_xaxes(title="column", range=[-0.5, shape[1] - 0.5], **plain_axis)
    figure.update_yaxes(title="row", range=[shape[0] - 0.5, -0.5], **plain_axis)
    if is_image:
        figure.update_yaxes(scaleanchor="x", scaleratio=1)
    else:
        figure.update_yaxes(title="", showticklabels=False)
    return figure


def importances_by_layer(stages: Sequence[Layer], dropped: Collection[int] = ()) -> go.Figure:
    """Plot the most important features: their share of each layer's importance.

    Dropped layers have an empty column: their learners were not stored.
    """
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
    _layer_axis(figure, [*numbers, *dropped], dropped)
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
    dropped: Collection[int] = (),
) -> go.Figure:
    """Plot the predictions for one row: of each learner, and of the cascade after each layer.

    ``vectors`` are layers × learners × classes, ``cascade`` layers × classes. ``truth`` is the
    index of the true class, if it is known. Each of the ``dropped`` layers has an empty line.
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
    for layer in dropped:
        names.append(f"{layer} · {DROPPED}")
        full_names.append(f"layer {layer}, {DROPPED}")
        cells.append([None] * len(classes))
    hover = "%{customdata[0]}<br>%{customdata[1]}<br>%{z:.1%}<extra></extra>"
    figure = _heat_map(cells, 0.0, hover, highest=1.0)
    figure.data[0].customdata = _name_pairs(full_names, classes)
    _write_cells(figure, cells, "{:.0%}")
    title = "Predictions of each learner"
    if truth is not None:
        title += " (dotted frame: the true class)"
    apply_layout(figure, title, 160 + 24 * len(cells))
    for level in range(1, len(vectors) + bool(dropped)):
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
    margins: Sequence[float | None],
    predicted: Sequence[str],
    left_at: int,
    dropped: Collection[int] = (),
) -> go.Figure:
    """Plot the margin of one row after each layer, up to the layer at which it left.

    ``predicted`` are the classes after each layer. Dropped layers did not predict the row.
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
    _layer_axis(figure, [*numbers, *dropped], dropped)
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
    layer_colours = [layer_colour(flow["layer"], depth) for flow in flows]
    figure = go.Figure(
        go.Sankey(
            arrangement="snap",
            node={
                "customdata": names, "color": [*layer_colours, GREEN, ORANGE, GREY], "pad": 24,
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


def _layer_axis(figure: go.Figure, numbers: Sequence[int], dropped: Collection[int] = ()) -> None:
    """Label the horizontal axis with the numbers of the layers, and those that are dropped."""
    low, high = min(numbers, default=1), max(numbers, default=1)
    limits = [low - 0.5, high + 0.5]
    texts = [f"{each}<br>{DROPPED}" if each in dropped else str(each) for each in numbers]
    figure.update_xaxes(
        title="Layer", tickvals=list(numbers), ticktext=texts, range=limits, showgrid=False
    )


def _split_dropped(layers: Sequence[Layer]) -> tuple[list[Layer], list[Layer]]:
    """Return the layers up to the last one that is kept, and the dropped ones after it.

    The second list begins with the last kept layer, where its line begins.
    """
    kept = [at for at, layer in enumerate(layers) if layer.get("kept") is not False]
    end = kept[-1] + 1 if kept else 0
    tail = layers[max(end - 1, 0) :] if end < len(layers) else []
    return list(layers[:end]), list(tail)


def _parts(
    numbers: Sequence[int], dropped: Collection[int]
) -> list[tuple[list[int], list[int], bool]]:
    """Return the parts of a line: numbers of layers, their positions, whether they are dropped."""
    layers = [{"number": each, "kept": each not in dropped} for each in numbers]
    kept, tail = _split_dropped(layers)
    parts = []
    for part, is_tail in ((kept, False), (tail, True)):
        if part:
            chosen = [layer["number"] for layer in part]
            parts.append((chosen, [list(numbers).index(each) for each in chosen], is_tail))
    return parts


def _faded(trace: go.Scatter, *, joined: bool) -> go.Scatter:
    """Return the line as that of dropped layers: dotted, faded, with hollow marks.

    A ``joined`` line begins at the last kept layer, whose mark another line draws.
    """
    count = len(trace.x)
    size = trace.marker.size
    symbol = f"{trace.marker.symbol or 'circle'}-open".replace("-open-open", "-open")
    trace.update(
        opacity=FADED,
        line={"dash": "dot"},
        marker={
            "symbol": symbol,
            "size": [0 if joined and not at else size for at in range(count)],
        },
        showlegend=False,
    )
    if joined and trace.error_y.array is not None:
        trace.error_y.array = [0.0, *trace.error_y.array[1:]]
    return trace


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
    depth = len(records)
    marks = [_marks("Kept layer", kept, depth, "circle")]
    marks.append(_marks("Dropped layer", dropped, depth, "circle-open"))
    if probes:
        marks.append(_marks("Dropped after a probe", probes, depth, "diamond-open"))
    return marks


def _marks(name: str, layers: Sequence[Layer], depth: int, symbol: str) -> go.Scatter:
    """Return the marks of some of ``depth`` layers, each in the colour of its layer."""
    colours = [layer_colour(layer["number"], depth) for layer in layers]
    errors = [layer.get("score_se") for layer in layers]
    noise = ["" if error is None else f" ± {error:.4f}" for error in errors]
    reasons = [hover_name(str(layer.get("reason", ""))) for layer in layers]
    return go.Scatter(
        name=name, mode="markers",
        x=[layer["number"] for layer in layers], y=[layer["score"] for layer in layers],
        error_y={"type": "data", "array": [error or 0.0 for error in errors],
                 "visible": any(errors), "color": GREY, "thickness": 1.5, "width": 6},
        customdata=[list(pair) for pair in zip(noise, reasons, strict=True)],
        marker={"color": colours, "size": 12, "symbol": symbol,
                "line": {"color": colours, "width": 2}},
        opacity=FADED if symbol.endswith("open") else 1,
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


def _distribution(series: MarginSeries, *, cumulative: bool) -> go.Scatter:
    """Return the line of one series, from the counts of its rows in intervals of the margin."""
    counts, edges = series.margins["counts"], series.margins["edges"]
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
        name=legend_name(series.name), x=x, y=y, mode="lines",
        opacity=FADED if series.dropped else 1,
        line={"color": layer_colour(series.layer, series.depth), "width": 2, "shape": shape,
              "dash": "dot" if series.dropped else series.dash},
        customdata=[hover_name(series.name)] * len(x),
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
