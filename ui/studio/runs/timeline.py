"""Make the figures of a run, as pure functions of what is known of it.

- ``gantt``, ``live_timeline``  when each node was running: of an ended and of a live run
- ``settled``       the subtasks inside a node, those that did not end marked as interrupted
- ``subtask_grid``  the subtasks inside a node, a row for each layer
- ``layer_lines``   how far each layer is, in words

A subtask is a fit inside a node. Its path is the layer, the learner and the fold.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import plotly.graph_objects as go

from engine.run_state import Subtask
from engine.runs import Span
from engine.text import clock, duration
from ui.studio.plots.style import TOOLS
from ui.studio.screen_text import shortened, tone

Subtasks = Mapping[tuple[str, ...], Subtask]

NAME_LENGTH = 28
ROOM_FOR_TEXT = 44
"""Columns beyond which a subtask's seconds no longer fit into its cell."""
SECONDS = "<span>numbers: seconds</span>"
SUBTASK_STATES = ("waiting", "running", "done", "reused", "failed", "interrupted")
TIME_STEPS = [
    {"dtickrange": [None, 999], "value": "%H:%M:%S.%2f"},
    {"dtickrange": [1000, 86_399_999], "value": "%H:%M:%S"},
    {"dtickrange": [86_400_000, None], "value": "%d %b %H:%M"},
]
"""The format of a time, by the milliseconds from one tick to the next."""
FAINT = "rgba(128,128,128,0.18)"


# When each node was running


def gantt(spans: Sequence[Span], titles: Mapping[str, str]) -> go.Figure:
    """Return a figure with a row for each node: a bar for each span, a diamond for a cached result.

    ``titles`` are the titles of the nodes by id, in the order of the rows.
    """
    figure = go.Figure()
    rows = {node: number for number, node in enumerate(titles)}
    # One trace for each state: the legend then shows each state once.
    for state in dict.fromkeys(span.state for span in spans):
        shown = [span for span in spans if span.state == state and span.node in rows]
        figure.add_trace(_trace(shown, rows, titles, state))
    figure.update_layout(
        barmode="overlay",
        showlegend=True,
        height=90 + 26 * len(titles),
        margin={"l": 0, "r": 8, "t": 30, "b": 0},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        uirevision="keep",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        modebar=TOOLS,
    )
    # Plotly would show the entity of a quote as it is written.
    names = [html.escape(shortened(title, NAME_LENGTH), quote=False) for title in titles.values()]
    # Not ``named_ticks``: rows go down, and names are cut to this page's length.
    ticks = {"tickmode": "array", "tickvals": list(rows.values()), "ticktext": names}
    limits = [len(names) - 0.5, -0.5]
    figure.update_yaxes(range=limits, automargin=True, showgrid=False, zeroline=False, **ticks)
    figure.update_xaxes(type="date", tickformatstops=TIME_STEPS, nticks=8, showgrid=True)
    return figure


def _trace(
    spans: Sequence[Span], rows: Mapping[str, int], titles: Mapping[str, str], state: str
) -> go.Bar | go.Scatter:
    """Return all spans in one state, with what the mouse shows of each."""
    trace = _points(spans, rows) if state == "cached" else _bars(spans, rows, state)
    escaped = [html.escape(titles[span.node], quote=False) for span in spans]
    trace.customdata = [_hover(*each) for each in zip(spans, escaped, strict=True)]
    trace.hovertemplate = "%{customdata}<extra></extra>"
    return trace


def _bars(spans: Sequence[Span], rows: Mapping[str, int], state: str) -> go.Bar:
    """Return the bars of all spans in one state."""
    colour = tone(state).strong
    return go.Bar(
        name=state,
        orientation="h",
        width=0.62,
        y=[rows[span.node] for span in spans],
        base=[_moment(span.start) for span in spans],
        x=[1000 * (_end(span) - span.start) for span in spans],
        # The line makes the shortest bar visible.
        marker={"color": colour, "line": {"color": colour, "width": 2}},
    )


def _points(spans: Sequence[Span], rows: Mapping[str, int]) -> go.Scatter:
    """Return the diamonds of cached results, which took no time."""
    return go.Scatter(
        name="cached",
        mode="markers",
        y=[rows[span.node] for span in spans],
        x=[_moment(span.start) for span in spans],
        marker={"symbol": "diamond", "size": 10, "color": tone("cached").strong},
    )


def _hover(span: Span, title: str) -> str:
    """Return what the mouse shows of a span; the title of its node is escaped already."""
    took = "" if span.state == "cached" else f" for {duration(_end(span) - span.start)}"
    attempt = f", attempt {span.attempt}" if span.attempt > 1 else ""
    return f"{title}<br>{span.state}{took}{attempt}<br>from {clock(span.start)}"


def _end(span: Span) -> float:
    """Return the end of a span; one that has not ended is as long as it is known."""
    return span.start if span.end is None else span.end


def _moment(seconds: float) -> datetime:
    """Return a time in the time zone of this machine, as plotly shows it."""
    return datetime.fromtimestamp(seconds)


# The subtasks inside a node


@dataclass(frozen=True)
class Grid:
    """A row of subtasks for each layer, with columns for the fits of each learner.

    ``fits`` are the folds by layer and learner, ``learners`` how many columns each learner has: the
    layers of a cascade may have other folds, and more or fewer of them.
    """

    layers: tuple[str, ...]
    learners: Mapping[str, int]
    fits: Mapping[tuple[str, str], tuple[str, ...]]


def grid_of(subtasks: Subtasks) -> Grid:
    """Return the grid: layers and folds in the order of their numbers, learners as they came."""
    folds: dict[tuple[str, str], set[str]] = {}
    for path in subtasks:
        layer, learner, fold = three_parts(path)
        folds.setdefault((layer, learner), set()).add(fold)
    fits = {where: tuple(sorted(each, key=_natural)) for where, each in folds.items()}
    learners: dict[str, int] = {}
    for (_, learner), each in fits.items():
        learners[learner] = max(learners.get(learner, 0), len(each))
    layers = sorted({layer for layer, _ in fits}, key=_natural)
    return Grid(tuple(layers), learners, fits)


def three_parts(path: tuple[str, ...]) -> tuple[str, str, str]:
    """Return layer, learner and fold of a subtask, from its path inside the node.

    A path may have fewer parts, which are then empty, or more, which are then part of the learner.
    """
    layer, *rest = path or ("",)
    if len(rest) > 1:
        return layer, " · ".join(rest[:-1]), rest[-1]
    return layer, "".join(rest), ""


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which ``Fold 10`` comes after ``Fold 9``."""
    parts = [part for part in re.split(r"(\d+)", text) if part]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def settled(subtasks: Subtasks, node_state: str) -> Subtasks:
    """Return the subtasks of a node, with those that were running when it ended as interrupted.

    A node that is killed cannot report the end of its subtasks.
    """
    if node_state == "running":
        return subtasks
    ended = {}
    for path, subtask in subtasks.items():
        was_running = subtask.state == "running"
        ended[path] = replace(subtask, state="interrupted") if was_running else subtask
    return ended


def subtask_grid(subtasks: Subtasks) -> str:
    """Return HTML with a cell for each subtask, in the colour of its state, with its seconds.

    It is not a plotly figure: a live figure is built again at each refresh, and blinks. All text is
    escaped.
    """
    grid = grid_of(subtasks)
    width = sum(grid.learners.values())
    written = width <= ROOM_FOR_TEXT
    cells = {
        three_parts(path): _cell(path, subtask, written=written)
        for path, subtask in subtasks.items()
    }
    rows = "".join(_grid_row(layer, grid, cells) for layer in grid.layers)
    heads = "".join(
        f"<th colspan={columns + 1}>{_named(name)}</th>" for name, columns in grid.learners.items()
    )
    # Lower rows if there are many layers, so that the grid fits the page.
    height = 24 if len(grid.layers) <= 12 else 15
    states = dict.fromkeys(
        subtask.state for subtask in subtasks.values() if subtask.state in SUBTASK_STATES
    )
    legend = "".join(map(_legend_entry, states)) + (SECONDS if written else "")
    return (
        f"<style>{GRID_STYLE} .run-subtasks td {{height: {height}px}}</style>"
        f"<div class='run-legend'>{legend}</div>"
        f"<table class='run-subtasks'>{rows}<tr><th></th>{heads}</tr></table>"
    )


def _grid_row(layer: str, grid: Grid, cells: Mapping[tuple[str, str, str], str]) -> str:
    """Return the table row of a layer, with a gap after each learner."""
    row = ""
    for learner, columns in grid.learners.items():
        folds = grid.fits.get((layer, learner), ())
        row += "".join(cells[layer, learner, fold] for fold in folds)
        row += "<td></td>" * (columns - len(folds)) + "<td class=gap></td>"
    return f"<tr><th>{_named(layer)}</th>{row}</tr>"


def _cell(path: tuple[str, ...], subtask: Subtask, *, written: bool) -> str:
    """Return the cell of a subtask; ``written`` is whether its seconds fit into it."""
    state = subtask.state if subtask.state in SUBTASK_STATES else "waiting"
    text = _brief(subtask) if written else ""
    return f"<td class='{state}' title='{_subtask_hover(path, subtask)}'>{text}</td>"


def _named(name: str) -> str:
    """Return a name, cut to fit; the mouse shows it in full."""
    return f"<span title='{html.escape(name)}'>{html.escape(shortened(name, NAME_LENGTH))}</span>"


def _legend_entry(state: str) -> str:
    """Return one entry of the legend."""
    return f"<span><i class='{state}'></i> {state}</span>"


def subtask_colour(state: str) -> str:
    """Return the colour behind white text; that of a subtask that waits is pale."""
    return FAINT if state == "waiting" else tone(state).strong


def _brief(subtask: Subtask) -> str:
    """Return the seconds in about three characters."""
    if subtask.seconds is None:
        return ""
    return f"{subtask.seconds:.1f}" if subtask.seconds < 9.95 else f"{subtask.seconds:.0f}"


def _subtask_hover(path: tuple[str, ...], subtask: Subtask) -> str:
    """Return what the mouse shows of a subtask, escaped."""
    took = f" in {duration(subtask.seconds)}" if subtask.seconds is not None else ""
    where = f" on {html.escape(subtask.worker)}" if subtask.worker else ""
    facts = f"{html.escape(subtask.state)}{took}{where}, execution {subtask.execution}"
    return f"{html.escape(' · '.join(path))}: {facts}"


def layer_lines(subtasks: Subtasks) -> dict[str, str]:
    """Return how far each layer is, by layer.

    For example: ``12 of 20 fits done, 4 reused``.
    """
    layers: dict[str, list[str]] = {}
    for path, subtask in subtasks.items():
        layers.setdefault(three_parts(path)[0], []).append(subtask.state)
    return {layer: _tally(layers[layer]) for layer in sorted(layers, key=_natural)}


def _tally(states: Sequence[str]) -> str:
    """Return how many subtasks are in which state, in words."""
    count = Counter(states)
    parts = [f"{count['done'] + count['reused']} of {len(states)} fits done"]
    others = ("reused", "running", "failed", "interrupted")
    return ", ".join(parts + [f"{count[state]} {state}" for state in others if count[state]])


GRID_STYLE = (
    ".run-subtasks {width: 100%; table-layout: fixed; border-collapse: separate;"
    " border-spacing: 1px 2px; border: 0}"
    ".run-subtasks td, .run-subtasks th {border: 0; padding: 0; text-align: center;"
    " font-size: 11px;"
    " overflow: hidden; font-weight: normal; white-space: nowrap; text-overflow: ellipsis}"
    ".run-subtasks th:first-child {width: 76px; text-align: left}"
    ".run-subtasks td {color: #ffffff; border-radius: 2px} .run-subtasks td.gap {width: 10px}"
    ".run-legend span {margin-right: 14px; font-size: 12px}"
    ".run-legend i {display: inline-block; width: 11px; height: 11px}"
    + "".join(
        f".run-subtasks td.{state}, .run-legend i.{state} {{background: {subtask_colour(state)}}}"
        for state in SUBTASK_STATES
    )
)


# When each node was running, for a live run


def live_timeline(spans: Sequence[Span], titles: Mapping[str, str]) -> str:
    """Return the timeline of a live run as HTML.

    It shows the same as ``gantt``. A figure would blink at each refresh.
    """
    start = min(span.start for span in spans)
    # At least a second, so that a run that has just begun does not divide by zero.
    whole = max(max(_end(span) for span in spans) - start, 1.0)
    rows = []
    for node, title in titles.items():
        bars = "".join(_live_bar(span, title, start, whole) for span in spans if span.node == node)
        rows.append(f"<tr><th>{_named(title)}</th><td>{bars}</td></tr>")
    # The last eight characters are the time without the date.
    ticks = "".join(f"<span>{clock(start + whole * part / 4)[-8:]}</span>" for part in range(5))
    rows.append(f"<tr><th></th><td class='axis'>{ticks}</td></tr>")
    return f"<style>{TIMELINE_STYLE}</style><table class='run-times'>{''.join(rows)}</table>"


def _live_bar(span: Span, title: str, start: float, whole: float) -> str:
    """Return the bar of a span: a part of the ``whole`` seconds since ``start``."""
    # In percent of the time from the first start to now.
    left, width = 100 * (span.start - start) / whole, 100 * (_end(span) - span.start) / whole
    style = (
        f"left: {left:.2f}%; width: max(4px, {width:.2f}%); background: {tone(span.state).strong}"
    )
    text = _hover(span, html.escape(title)).replace("<br>", ", ")
    return f"<i title='{text}' style='{style}'></i>"


TIMELINE_STYLE = (
    ".run-times {width: 100%; table-layout: fixed; border-collapse: collapse; border: 0}"
    ".run-times th, .run-times td {border: 0; padding: 2px 0; font-size: 12px; overflow: hidden;"
    " font-weight: normal; text-align: left; white-space: nowrap; text-overflow: ellipsis}"
    ".run-times th {width: 150px} .run-times td {position: relative; height: 22px}"
    ".run-times i {position: absolute; top: 4px; height: 14px; border-radius: 2px}"
    ".run-times td.axis {display: flex; justify-content: space-between; opacity: 0.7}"
)
