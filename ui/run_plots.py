"""Figures of a run: pure functions from what is known of it.

- ``gantt``        when each node was at work
- ``settled``      the jobs inside a node, those that were cut off marked
- ``job_grid``     the jobs inside a node, a row for each layer
- ``layer_lines``  how far each layer is, in words
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import plotly.graph_objects as go

from engine.cli.text import clock, duration
from engine.state import JobState
from ui.run_text import shortened, tone
from ui.run_watch import Span

Jobs = Mapping[tuple[str, ...], JobState]

NAME_LENGTH = 28
ROOM_FOR_TEXT = 44
"""Columns beyond which a job's seconds no longer fit into its cell."""
JOB_STATES = ("waiting", "running", "done", "kept", "failed", "interrupted")
JOB_WORDS = {"kept": "kept from before", "running": "at work", "failed": "failed", "interrupted": "cut off"}
TIME_STEPS = [
    {"dtickrange": [None, 999], "value": "%H:%M:%S.%2f"},
    {"dtickrange": [1000, 86_399_999], "value": "%H:%M:%S"},
    {"dtickrange": [86_400_000, None], "value": "%d %b %H:%M"},
]
"""How finely a moment is written, by the milliseconds from one tick to the next."""
FAINT = "rgba(128,128,128,0.18)"


# When each node was at work


def gantt(spans: Sequence[Span], titles: Mapping[str, str]) -> go.Figure:
    """A bar for each time a node was at work, a diamond where a result was found ready; a row for each title."""
    figure = go.Figure()
    rows = {node: number for number, node in enumerate(titles)}
    for state in dict.fromkeys(span.state for span in spans):
        shown = [span for span in spans if span.state == state and span.node in rows]
        figure.add_trace(_points(shown, rows) if state == "cached" else _bars(shown, rows, state))
    figure.update_layout(
        barmode="overlay",
        showlegend=True,
        height=90 + 26 * len(titles),
        margin={"l": 0, "r": 8, "t": 30, "b": 0},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        uirevision="keep",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    names = [html.escape(shortened(title, NAME_LENGTH)) for title in titles.values()]
    figure.update_yaxes(
        range=[len(names) - 0.5, -0.5], tickmode="array", tickvals=list(rows.values()), ticktext=names,
        automargin=True, showgrid=False, zeroline=False,
    )  # fmt: skip
    figure.update_xaxes(type="date", tickformatstops=TIME_STEPS, nticks=8, showgrid=True)
    return figure


def _bars(spans: Sequence[Span], rows: Mapping[str, int], state: str) -> go.Bar:
    colour = tone(state).strong
    return go.Bar(
        name=state,
        orientation="h",
        width=0.62,
        y=[rows[span.node] for span in spans],
        base=[_moment(span.start) for span in spans],
        x=[1000 * (_end(span) - span.start) for span in spans],
        marker={"color": colour, "line": {"color": colour, "width": 2}},  # the line keeps the shortest visible
        customdata=[_hover(span) for span in spans],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _points(spans: Sequence[Span], rows: Mapping[str, int]) -> go.Scatter:
    return go.Scatter(
        name="cached",
        mode="markers",
        y=[rows[span.node] for span in spans],
        x=[_moment(span.start) for span in spans],
        marker={"symbol": "diamond", "size": 10, "color": tone("cached").strong},
        customdata=[_hover(span) for span in spans],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _hover(span: Span) -> str:
    took = "" if span.state == "cached" else f" for {duration(_end(span) - span.start)}"
    attempt = f", attempt {span.attempt}" if span.attempt > 1 else ""
    return f"{html.escape(span.node)}<br>{span.state}{took}{attempt}<br>from {clock(span.start)}"


def _end(span: Span) -> float:
    return span.start if span.end is None else span.end


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds)


# The jobs inside a node


@dataclass(frozen=True)
class Grid:
    """The places of jobs: layers down, learners with their folds across."""

    layers: tuple[str, ...]
    learners: Mapping[str, tuple[str, ...]]

    @property
    def columns(self) -> dict[tuple[str, str], int]:
        """Where each learner and fold stands; between learners one column stays free."""
        places: dict[tuple[str, str], int] = {}
        position = 0
        for learner, folds in self.learners.items():
            for fold in folds:
                places[learner, fold] = position
                position += 1
            position += 1
        return places


def grid_of(jobs: Jobs) -> Grid:
    """Layers and folds by their numbers, learners as they came."""
    learners: dict[str, set[str]] = {}
    for place in jobs:
        _, learner, fold = three_parts(place)
        learners.setdefault(learner, set()).add(fold)
    layers = sorted({three_parts(place)[0] for place in jobs}, key=_natural)
    return Grid(tuple(layers), {name: tuple(sorted(folds, key=_natural)) for name, folds in learners.items()})


def three_parts(place: tuple[str, ...]) -> tuple[str, str, str]:
    """Layer, learner and fold; a place may have fewer or more parts."""
    first, *rest = place or ("",)
    return first, " · ".join(rest[:-1]) or "".join(rest[:1]), rest[-1] if len(rest) > 1 else ""


def _natural(text: str) -> list[tuple[int, int, str]]:
    """A key by which ``Fold 10`` comes after ``Fold 9``."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def settled(jobs: Jobs, node_state: str) -> Jobs:
    """The jobs of a node; those under way when it ended were cut off."""
    if node_state == "running":
        return jobs
    return {place: replace(job, state="interrupted") if job.state == "running" else job for place, job in jobs.items()}


def job_grid(jobs: Jobs) -> go.Figure:
    """A cell for each job, coloured by its state, its seconds written in it where they fit."""
    grid = grid_of(jobs)
    columns = grid.columns
    width = max(columns.values(), default=0) + 1
    states: list[list[int | None]] = [[None] * width for _ in grid.layers]
    texts = [[""] * width for _ in grid.layers]
    hovers = [[""] * width for _ in grid.layers]
    rows = {layer: number for number, layer in enumerate(grid.layers)}
    for place, job in jobs.items():
        layer, learner, fold = three_parts(place)
        row, column = rows[layer], columns[learner, fold]
        states[row][column] = JOB_STATES.index(job.state) if job.state in JOB_STATES else 0
        texts[row][column] = _brief(job) if width <= ROOM_FOR_TEXT else ""
        hovers[row][column] = _job_hover(place, job)
    figure = go.Figure(_cells(states, texts, hovers))
    for state in dict.fromkeys(job.state for job in jobs.values() if job.state in JOB_STATES):
        figure.add_trace(_legend_entry(state))
    _frame(figure, grid, width)
    return figure


def _cells(states: list[list[int | None]], texts: list[list[str]], hovers: list[list[str]]) -> go.Heatmap:
    steps = len(JOB_STATES)
    scale = []
    for number, state in enumerate(JOB_STATES):
        colour = job_colour(state)
        scale += [[number / steps, colour], [(number + 1) / steps, colour]]
    return go.Heatmap(
        z=states, zmin=-0.5, zmax=steps - 0.5, colorscale=scale, showscale=False, xgap=1, ygap=3,
        text=texts, texttemplate="%{text}", textfont={"color": "#ffffff", "size": 11},
        customdata=hovers, hovertemplate="%{customdata}<extra></extra>", hoverongaps=False,
    )  # fmt: skip


def job_colour(state: str) -> str:
    """Strong enough for white text on it; a job that waits is but a shade."""
    return FAINT if state == "waiting" else tone(state).strong


def _legend_entry(state: str) -> go.Scatter:
    """A heat map has no legend of its own."""
    marker = {"symbol": "square", "size": 11, "color": job_colour(state)}
    return go.Scatter(x=[None], y=[None], mode="markers", name=state, marker=marker, hoverinfo="skip")


def _frame(figure: go.Figure, grid: Grid, width: int) -> None:
    columns = grid.columns
    middles = [(columns[name, folds[0]] + columns[name, folds[-1]]) / 2 for name, folds in grid.learners.items()]
    room = max(6, 110 // max(1, len(middles)))
    crowded = len(middles) > 8
    names = [html.escape(shortened(name, NAME_LENGTH if crowded else room)) for name in grid.learners]
    row_height = 26 if len(grid.layers) <= 12 else 17
    figure.update_layout(
        showlegend=True,
        height=(190 if crowded else 80) + row_height * len(grid.layers),
        margin={"l": 0, "r": 8, "t": 30, "b": 0},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        uirevision="keep",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    plain_axis = {"showgrid": False, "zeroline": False, "automargin": True, "tickmode": "array"}
    figure.update_xaxes(
        **plain_axis, tickvals=middles, ticktext=names, tickangle=-40 if crowded else 0, range=[-0.6, width - 0.4]
    )
    labels = [html.escape(shortened(layer, NAME_LENGTH)) for layer in grid.layers]
    figure.update_yaxes(
        **plain_axis, tickvals=list(range(len(labels))), ticktext=labels, range=[len(labels) - 0.5, -0.5]
    )


def _brief(job: JobState) -> str:
    """Seconds in three characters or so."""
    if job.seconds is None:
        return ""
    return f"{job.seconds:.1f}" if job.seconds < 9.95 else f"{job.seconds:.0f}"


def _job_hover(place: tuple[str, ...], job: JobState) -> str:
    took = f" in {duration(job.seconds)}" if job.seconds is not None else ""
    words = JOB_WORDS.get(job.state, job.state)
    return f"{html.escape(' · '.join(place))}<br>{html.escape(words)}{took}<br>attempt {job.attempt}"


def layer_lines(jobs: Jobs) -> dict[str, str]:
    """For each layer a line such as ``12 of 20 fits done, 4 kept from before``."""
    layers: dict[str, list[str]] = {}
    for place, job in jobs.items():
        layers.setdefault(three_parts(place)[0], []).append(job.state)
    return {layer: _tally(layers[layer]) for layer in sorted(layers, key=_natural)}


def _tally(states: Sequence[str]) -> str:
    count = Counter(states)
    parts = [f"{count['done'] + count['kept']} of {len(states)} fits done"]
    return ", ".join(parts + [f"{count[state]} {words}" for state, words in JOB_WORDS.items() if count[state]])
