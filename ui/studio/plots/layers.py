"""Inside a deep forest: how it grew, its margins, its learners, one row's way, the rows that leave early.

``records`` are what training knew of each layer that was grown, of rows held out; ``stages`` what an inspected table
showed of each layer that was kept. Both count layers from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import plotly.graph_objects as go

from ui.studio.plots.style import (
    BLUE,
    CLEAR_TO_BLUE,
    COLOURS,
    FAINT,
    GREY,
    cell_texts,
    in_full,
    lay_out,
    line,
    named_ticks,
    number,
    shortened,
)

Layer = Mapping[str, Any]

AMBER, GREEN, ORANGE = COLOURS[1], COLOURS[2], COLOURS[5]
HELD_OUT, TABLE = "Held-out training rows", "Inspected table"
MOST_WRITTEN = 200
"""Cells of a heat map beyond which numbers in them could not be read."""
MOST_FEATURES = 20
STAYS, RIGHT, WRONG = "rgba(128, 128, 128, 0.35)", "rgba(0, 158, 115, 0.55)", "rgba(213, 94, 0, 0.65)"
GONE_CORRECT, GONE_WRONG, GONE = "gone, correct", "gone, wrong", "gone"


# How it grew


def growth(records: Sequence[Layer], measure: str, title: str, stages: Sequence[Layer] = ()) -> go.Figure:
    """The score that steered the growth, layer by layer: full marks for kept layers, small ones for their learners."""
    numbers = [record["number"] for record in records]
    learners = [
        (record["number"], learner["name"], learner["scores"].get(measure))
        for record in records
        for learner in record["learners"]
    ]
    figure = go.Figure(
        [
            go.Scatter(
                name="One learner", mode="markers", x=[number for number, _, _ in learners],
                y=[score for _, _, score in learners], customdata=[in_full(name) for _, name, _ in learners],
                marker={"color": AMBER, "size": 7, "symbol": "diamond-open"},
                hovertemplate="layer %{x}, %{customdata}<br>%{y:.4f}<extra></extra>",
            ),
            go.Scatter(
                name="Cascade", mode="lines", x=numbers, y=[record["score"] for record in records],
                line={"color": BLUE, "width": 2}, hoverinfo="skip", showlegend=False,
            ),
            *_table_scores(stages, measure),
            *(_layer_marks(records, kept=kept) for kept in (True, False)),
        ]
    )  # fmt: skip
    lay_out(figure, f"{in_full(title)} by layer", 340, legend=True)
    _layer_axis(figure, numbers)
    figure.update_yaxes(title=in_full(title) if stages else f"{in_full(title)}, rows not learned from")
    return figure


def margin_growth(records: Sequence[Layer], stages: Sequence[Layer] = ()) -> go.Figure:
    """Mean margin of each layer, with its standard deviation as a bar: it should rise, and the bar get shorter."""
    figure = go.Figure()
    for name, layers, colour, dash, shift in (
        (HELD_OUT, records, BLUE, "solid", -0.04 if stages else 0),
        (TABLE, stages, GREEN, "dash", 0.04),
    ):
        measured = [layer for layer in layers if layer.get("margins")]
        if measured:
            figure.add_trace(_mean_and_spread(name, measured, colour, dash, shift))
    lay_out(figure, "Margin by layer: mean ± standard deviation", 340, legend=True)
    _layer_axis(figure, [record["number"] for record in records])
    figure.update_yaxes(title="Margin")
    figure.add_hline(0, line={"color": FAINT, "dash": "dot", "width": 1})
    return figure


def ratio_and_score(layers: Sequence[Layer], scores: Sequence[float | None], title: str, where: str) -> go.Figure:
    """Margin ratio and score of each layer against each other, after figure 2a of the mdDF paper."""
    numbers = [layer["number"] for layer in layers]
    ratios = [(layer.get("margins") or {}).get("ratio") for layer in layers]
    figure = go.Figure(
        [
            _line_of("Margin ratio", numbers, ratios, AMBER, "dash", "square", "y2"),
            _line_of(shortened(title, 28), numbers, list(scores), BLUE, "solid", "circle", "y"),
        ]
    )
    lay_out(figure, f"Margin ratio and {in_full(title)}: {where.lower()}", 340, legend=True)
    _layer_axis(figure, numbers)
    figure.update_layout(
        yaxis={"title": f"● {in_full(title)}", "range": _room(scores, below=0.15, above=0.45)},
        yaxis2={
            "title": "■ Margin ratio: spread ÷ mean", "range": _room(ratios, below=0.45, above=0.15),
            "overlaying": "y", "side": "right", "showgrid": False, "automargin": True, "zeroline": False,
            "tickmode": "auto", "nticks": 6,
        },
    )  # fmt: skip
    return figure


def _room(values: Sequence[float | None], below: float, above: float) -> list[float] | None:
    """A range with room at both ends; two axes with different room keep lines that run alike apart."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    span = (high - low) or abs(high) or 1.0
    return [low - below * span, high + above * span]


def margin_distribution(
    series: Sequence[tuple[str, Mapping[str, Any]]], title: str, *, cumulative: bool = False
) -> go.Figure:
    """Margins of each series (name and margin record): the share of rows in each interval, or below each margin."""
    figure = go.Figure(
        [_distribution(name, margins, index, cumulative=cumulative) for index, (name, margins) in enumerate(series)]
    )
    lay_out(figure, in_full(title), 400, legend=True)
    figure.update_xaxes(title="Margin (below 0: wrong)", range=[-1.02, 1.02])
    figure.update_yaxes(
        title="Rows with at most this margin" if cumulative else "Share of rows", tickformat=".0%", rangemode="tozero"
    )
    figure.add_vline(0, line={"color": FAINT, "dash": "dot", "width": 1})
    return figure


# Its learners


def learner_quality(
    learners: Sequence[str], numbers: Sequence[int], scores: Sequence[Sequence[float | None]], title: str, where: str
) -> go.Figure:
    """One line a learner over the layers; ``scores`` are layers × learners."""
    figure = go.Figure(
        [
            go.Scatter(
                name=shortened(name, 28), x=list(numbers), y=[layer[index] for layer in scores], mode="lines+markers",
                line=line(index), marker={"size": 7}, customdata=[in_full(name)] * len(numbers),
                hovertemplate="%{customdata}<br>layer %{x}<br>%{y:.4f}<extra></extra>",
            )
            for index, name in enumerate(learners)
        ]
    )  # fmt: skip
    lay_out(figure, f"{in_full(title)} of each learner: {where.lower()}", 360, legend=True)
    _layer_axis(figure, list(numbers))
    figure.update_yaxes(title=in_full(title))
    return figure


def agreement(learners: Sequence[str], shares: Sequence[Sequence[float]], layer: int) -> go.Figure:
    """How often two learners of a layer name the same class."""
    apart = [share for row, part in enumerate(shares) for column, share in enumerate(part) if row != column]
    lowest = min(apart, default=0.0)
    figure = _heat_map(shares, lowest, "%{customdata[0]}<br>%{customdata[1]}<br>agree on %{z:.1%}<extra></extra>")
    figure.data[0].customdata = [[[in_full(row), in_full(column)] for column in learners] for row in learners]
    _write_cells(figure, shares, "{:.0%}")
    lay_out(figure, f"Layer {layer}: rows on which two learners agree", 150 + max(46 * len(learners), 160))
    figure.update_xaxes(side="bottom", showgrid=False, tickangle=-30, **named_ticks(learners, longest=24))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(learners, longest=24))
    return figure


def importances_by_layer(stages: Sequence[Layer], most: int = MOST_FEATURES) -> go.Figure:
    """The features that matter most in any layer: their share of each layer's importance."""
    shares = [{row["feature"]: row["importance"] for row in stage["importances"]} for stage in stages]
    names = top_features(stages, most)
    cells = [[layer.get(name) for layer in shares] for name in names]
    figure = _heat_map(cells, 0.0, "%{customdata}<br>layer %{x}<br>%{z:.2%}<extra></extra>")
    figure.data[0].x = [stage["number"] for stage in stages]
    figure.data[0].customdata = [[in_full(name)] * len(stages) for name in names]
    _write_cells(figure, cells, "{:.1%}", [stage["number"] for stage in stages])
    lay_out(figure, "Importance by layer", 120 + 24 * max(len(names), 4))
    _layer_axis(figure, [stage["number"] for stage in stages])
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=32))
    return figure


def top_features(stages: Sequence[Layer], most: int) -> list[str]:
    """The features with the greatest importance in any layer, the greatest first."""
    best: dict[str, float] = {}
    for stage in stages:
        for row in stage["importances"]:
            best[row["feature"]] = max(best.get(row["feature"], 0.0), row["importance"])
    return sorted(best, key=lambda name: -best[name])[:most]


# One row's way


def class_vectors(
    vectors: Sequence[Sequence[Sequence[float | None]]],
    said: Sequence[Sequence[float | None]],
    learners: Sequence[str],
    classes: Sequence[str],
    truth: int | None,
) -> go.Figure:
    """What each learner of each layer said of one row (layers × learners × classes), and the cascade after it."""
    rows: list[tuple[str, str, Sequence[float | None]]] = []
    for layer, (parts, after) in enumerate(zip(vectors, said, strict=True), start=1):
        rows += [
            (f"{layer} · {name}", f"layer {layer}, {name}", part) for name, part in zip(learners, parts, strict=True)
        ]
        rows.append((f"{layer} · cascade", f"layer {layer}, what the cascade said after it", after))
    cells = [part for _, _, part in rows]
    figure = _heat_map(cells, 0.0, "%{customdata[0]}<br>%{customdata[1]}<br>%{z:.1%}<extra></extra>", highest=1.0)
    figure.data[0].customdata = [[[in_full(full), in_full(name)] for name in classes] for _, full, _ in rows]
    _write_cells(figure, cells, "{:.0%}")
    lay_out(figure, "What each learner said (dotted frame: the true class)" if truth is not None else
            "What each learner said", 160 + 24 * len(rows))  # fmt: skip
    for level in range(1, len(vectors)):
        figure.add_hline(level * (len(learners) + 1) - 0.5, line={"color": FAINT, "width": 2})
    if truth is not None:
        figure.add_vrect(truth - 0.48, truth + 0.48, line={"color": AMBER, "width": 2, "dash": "dot"})
    crowded = len(classes) * max((min(len(name), 18) for name in classes), default=0) > 90
    figure.update_xaxes(side="top", showgrid=False, tickangle=-45 if crowded else 0, **named_ticks(classes))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks([name for name, _, _ in rows], longest=30))
    figure.update_layout(margin={"t": 80}, title={"y": 1, "yanchor": "top", "pad": {"t": 14}})
    return figure


def row_margin(margins: Sequence[float | None], said: Sequence[str], left_at: int) -> go.Figure:
    """The margin of one row after each layer up to the one at which it left; ``said``: the class it was given."""
    numbers = list(range(1, len(margins) + 1))
    colours = [GREY if value is None else GREEN if value > 0 else ORANGE for value in margins]
    figure = go.Figure(
        go.Scatter(
            x=numbers[:left_at], y=list(margins)[:left_at], mode="lines+markers",
            line={"color": GREY, "width": 2}, marker={"size": 12, "color": colours[:left_at]},
            customdata=[in_full(name) for name in said[:left_at]],
            hovertemplate="layer %{x}: said %{customdata}<br>margin %{y:.3f}<extra></extra>",
        )
    )  # fmt: skip
    lay_out(figure, "Margin of the row (green: right, orange: wrong)", 300)
    _layer_axis(figure, numbers)
    figure.update_yaxes(title="Margin", range=[-1.05, 1.05])
    figure.add_hline(0, line={"color": FAINT, "dash": "dot", "width": 1})
    if left_at < len(margins):
        figure.add_annotation(
            x=left_at, y=1, text=f"left here, sure enough after layer {left_at}", showarrow=False, yanchor="bottom"
        )
    return figure


# Rows that leave early


def screening(flows: Sequence[Mapping[str, Any]], title: str) -> go.Figure:
    """Rows from layer to layer, and those that are gone: correct or wrong.

    A flow has ``layer``, ``rows_in``, ``rows_out`` and ``error_out``, the share of those that left wrongly; where that
    is not known, they leave in grey.
    """
    depth = len(flows)
    names = [f"Layer {flow['layer']}" for flow in flows] + [GONE_CORRECT, GONE_WRONG, GONE]
    links: list[tuple[int, int, int, str]] = []
    for at, flow in enumerate(flows):
        out, error = flow["rows_out"], number(flow["error_out"])
        wrong = round(out * error) if error is not None else 0
        if at + 1 < depth:
            links.append((at, at + 1, flow["rows_in"] - out, STAYS))
        if error is None:
            links.append((at, depth + 2, out, STAYS))
        else:
            links += [(at, depth, out - wrong, RIGHT), (at, depth + 1, wrong, WRONG)]
    links = [link for link in links if link[2] > 0]
    figure = go.Figure(
        go.Sankey(
            arrangement="snap",
            node={
                "customdata": names, "color": [BLUE] * depth + [GREEN, ORANGE, GREY], "pad": 24, "thickness": 16,
                "line": {"width": 0}, "hovertemplate": "%{customdata}<br>%{value:,} rows<extra></extra>",
            },
            link={
                "source": [link[0] for link in links], "target": [link[1] for link in links],
                "value": [link[2] for link in links], "color": [link[3] for link in links],
                "customdata": [f"{names[link[0]]} → {names[link[1]]}" for link in links],
                "hovertemplate": "%{customdata}<br>%{value:,} rows<extra></extra>",
            },
            valueformat=",",
        )
    )  # fmt: skip
    lay_out(figure, in_full(title), 380)
    figure.update_layout(margin={"l": 10, "r": 10, "t": 80, "b": 40})
    judged = any(flow["error_out"] is not None for flow in flows)
    ends = [(GREEN, GONE_CORRECT), (ORANGE, GONE_WRONG), (GREY, "goes on")] if judged else [(GREY, "goes on or gone")]
    _name_flows(figure, [names[at] for at in range(depth) if flows[at]["rows_in"] > 0], ends)
    return figure


def _name_flows(figure: go.Figure, layers: Sequence[str], colours: Sequence[tuple[str, str]]) -> None:
    """Layers are named above and colours below: plotly would write the names onto the flows."""
    for at, name in enumerate(layers):
        figure.add_annotation(
            text=name, x=at / len(layers), y=1, xanchor="left", yanchor="bottom", showarrow=False, xref="paper",
            yref="paper", yshift=4,
        )  # fmt: skip
    legend = "   ".join(f"<span style='color:{colour}'>■</span> {name}" for colour, name in colours)
    figure.add_annotation(
        text=legend, x=0, y=0, xanchor="left", yanchor="top", showarrow=False, xref="paper", yref="paper", yshift=-8
    )


# What they are made of


def _layer_axis(figure: go.Figure, numbers: Sequence[int]) -> None:
    low, high = min(numbers, default=1), max(numbers, default=1)
    figure.update_xaxes(title="Layer", tickvals=list(numbers), range=[low - 0.5, high + 0.5], showgrid=False)


def _table_scores(stages: Sequence[Layer], measure: str) -> list[go.Scatter]:
    seen = [(stage["number"], stage["scores"].get(measure)) for stage in stages if stage.get("scores")]
    known = [(at, score) for at, score in seen if score is not None]
    if not known:
        return []
    return [_line_of(TABLE, [at for at, _ in known], [score for _, score in known], GREEN, "dash", "square", "y")]


def _layer_marks(records: Sequence[Layer], *, kept: bool) -> go.Scatter:
    chosen = [record for record in records if bool(record["kept"]) == kept]
    return go.Scatter(
        name="Kept layer" if kept else "Dropped layer", mode="markers", x=[layer["number"] for layer in chosen],
        y=[layer["score"] for layer in chosen], customdata=[in_full(str(layer.get("reason", ""))) for layer in chosen],
        marker={"color": BLUE, "size": 12, "symbol": "circle" if kept else "circle-open",
                "line": {"color": BLUE, "width": 2}},
        hovertemplate="layer %{x}<br>%{y:.4f}<br>%{customdata}<extra></extra>",
    )  # fmt: skip


def _line_of(
    name: str, x: Sequence[float], y: Sequence[float | None], colour: str, dash: str, symbol: str, axis: str
) -> go.Scatter:
    return go.Scatter(
        name=name, x=list(x), y=list(y), mode="lines+markers", yaxis=axis,
        line={"color": colour, "width": 2, "dash": dash}, marker={"size": 9, "symbol": symbol},
        hovertemplate=f"{name}<br>layer %{{x}}<br>%{{y:.4f}}<extra></extra>",
    )  # fmt: skip


def _mean_and_spread(name: str, layers: Sequence[Layer], colour: str, dash: str, shift: float) -> go.Scatter:
    margins = [layer["margins"] for layer in layers]
    return go.Scatter(
        name=name, x=[layer["number"] + shift for layer in layers], y=[margin["mean"] for margin in margins],
        error_y={"type": "data", "array": [margin["std"] for margin in margins], "thickness": 1.5, "width": 5},
        mode="lines+markers", line={"color": colour, "width": 2, "dash": dash}, marker={"size": 9},
        customdata=[[layer["number"], margin["std"]] for layer, margin in zip(layers, margins, strict=True)],
        hovertemplate=f"{name}<br>layer %{{customdata[0]}}<br>mean %{{y:.4f}} ± %{{customdata[1]:.4f}}<extra></extra>",
    )  # fmt: skip


def _distribution(name: str, margins: Mapping[str, Any], index: int, *, cumulative: bool) -> go.Scatter:
    counts, edges = margins["counts"], margins["edges"]
    total = sum(counts) or 1
    if cumulative:
        x, y = list(edges), [0.0, *(count / total for count in accumulate(counts))]
        hover = "at most %{x:.2f}: %{y:.1%} of the rows"
    else:
        x, y = [(low + high) / 2 for low, high in pairwise(edges)], [count / total for count in counts]
        hover = "around %{x:.2f}: %{y:.1%} of the rows"
    shape = "linear" if cumulative else "hvh"
    return go.Scatter(
        name=shortened(name, 28), x=x, y=y, mode="lines", line=line(index) | {"shape": shape},
        customdata=[in_full(name)] * len(x), hovertemplate=f"%{{customdata}}<br>{hover}<extra></extra>",
    )  # fmt: skip


def _heat_map(
    cells: Sequence[Sequence[float | None]], lowest: float, hover: str, *, highest: float | None = None
) -> go.Figure:
    return go.Figure(
        go.Heatmap(
            z=[list(row) for row in cells], zmin=lowest, zmax=highest or _greatest(cells),
            colorscale=CLEAR_TO_BLUE, showscale=False, xgap=1, ygap=1, hoverongaps=False,
            hovertemplate=hover,
        )
    )  # fmt: skip


def _greatest(cells: Sequence[Sequence[float | None]]) -> float:
    return max((value for row in cells for value in row if value is not None), default=1.0) or 1.0


def _write_cells(
    figure: go.Figure, cells: Sequence[Sequence[float | None]], form: str, columns: Sequence[int] | None = None
) -> None:
    """Numbers in the cells, unless there are too many."""
    if sum(map(len, cells)) > MOST_WRITTEN:
        return
    known = [
        ((columns or range(len(row)))[at], level, form.format(value))
        for level, row in enumerate(cells)
        for at, value in enumerate(row)
        if value is not None
    ]
    figure.add_trace(cell_texts(known))
