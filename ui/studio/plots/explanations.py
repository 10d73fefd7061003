"""Plot why: the contributions of columns to one prediction, and what shuffled columns cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ui.studio.plots.style import (
    BLUE,
    COLOURS,
    FAINT,
    GREY,
    apply_layout,
    hover_name,
    named_ticks,
)

AGAINST = COLOURS[5]
MAX_BARS = 15
MAX_COLUMNS = 40
LEAST_DECIMALS, MOST_DECIMALS = 3, 9
ZERO_LINE = {"color": FAINT, "width": 1}


class Contribution(NamedTuple):
    """How much a column adds to the probability of a class, or to a predicted number."""

    column: str
    value: str
    """What the row has there, as text; empty for several columns together."""
    amount: float
    before: float | None = None
    """The contribution before a value of the row was changed."""

    @property
    def label(self) -> str:
        """Return the column with its value."""
        return f"{self.column} = {self.value}" if self.value else self.column


def largest(parts: Sequence[Contribution], most: int = MAX_BARS) -> list[Contribution]:
    """Return the largest contributions, the largest first; the last sums up all others."""
    ranked = sorted(parts, key=lambda part: -max(abs(part.amount), abs(part.before or 0.0)))
    if len(ranked) <= most:
        return ranked
    rest = ranked[most - 1 :]
    before = None
    if rest[0].before is not None:
        before = sum(part.before or 0.0 for part in rest)
    others = Contribution(
        f"{len(rest):,} other columns", "", sum(part.amount for part in rest), before
    )
    return [*ranked[: most - 1], others]


def decimals_for(amounts: Iterable[float]) -> int:
    """Return how many decimals show two digits of the largest amount: at least three.

    The probability of a rare class may be 0.001, and all that columns add to it is smaller.
    """
    greatest = max((abs(amount) for amount in amounts), default=0.0)
    if greatest == 0.0:
        return LEAST_DECIMALS
    return min(max(1 - math.floor(math.log10(greatest)), LEAST_DECIMALS), MOST_DECIMALS)


def contributions(parts: Sequence[Contribution], name: str | None) -> go.Figure:
    """Plot the contributions to the probability of a class as bars, the largest first.

    Without the name of a class, they are contributions to a predicted number.

    Contributions before a change are grey bars beside them.
    """
    shown = largest(parts)
    changed = any(part.before is not None for part in shown)
    places = list(range(len(shown)))
    hover = [hover_name(part.label) for part in shown]
    figure = go.Figure()
    if changed:
        before = [part.before for part in shown]
        figure.add_trace(_bars(before, places, hover, "Before", [GREY] * len(shown)))
    amounts = [part.amount for part in shown]
    colours = [BLUE if amount >= 0 else AGAINST for amount in amounts]
    figure.add_trace(_bars(amounts, places, hover, "After", colours))
    what = "predicted value" if name is None else "probability"
    title = f"Contributions to the {what}"
    if name is not None:
        title += f" of {hover_name(name)}"
    if changed:
        title += " (grey: before the change)"
    apply_layout(figure, title, 110 + (38 if changed else 26) * max(len(shown), 3))
    figure.update_layout(bargap=0.25, barmode="group")
    # Room for the figures beside the bars.
    ends = [0.0, *amounts, *(part.before or 0.0 for part in shown)]
    room = 0.3 * (max(ends) - min(ends) or 1.0)
    span = [min(ends) - (room if min(ends) < 0 else 0), max(ends) + room]
    figure.update_xaxes(title=f"Added to the {what}", tickformat="+.2~g", range=span)
    labels = [part.label for part in shown]
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(labels, longest=36))
    figure.add_vline(0, line=ZERO_LINE)
    return figure


def _bars(
    amounts: Sequence[float | None],
    places: Sequence[int],
    hover: Sequence[str],
    name: str,
    colours: Sequence[str],
) -> go.Bar:
    """Return horizontal bars with their figures beside them."""
    decimals = decimals_for([amount or 0.0 for amount in amounts])
    texts = [f"{amount or 0.0:+.{decimals}f}" for amount in amounts]
    return go.Bar(
        x=amounts, y=places, orientation="h", name=name, marker={"color": colours}, text=texts,
        textposition="outside", cliponaxis=False, customdata=hover,
        hovertemplate=f"%{{customdata}}<br>%{{x:+.{decimals + 1}f}}<extra></extra>",
    )  # fmt: skip


def permutation_importances(rows: Sequence[Mapping[str, Any]], loss: str) -> go.Figure:
    """Plot the mean drop of a metric when a column is shuffled, with an interval.

    A row has ``column``, ``drop``, ``low`` and ``high``; the largest drop comes first. ``loss``
    names the axis, such as “Drop of AUC”.
    """
    shown = rows[:MAX_COLUMNS]
    names = [str(row["column"]) for row in shown]
    drops = [row["drop"] for row in shown]
    # A column whose interval holds 0 may as well add nothing.
    colours = [BLUE if row["low"] > 0 else GREY for row in shown]
    hover = [
        [hover_name(name), row["low"], row["high"]] for name, row in zip(names, shown, strict=True)
    ]
    figure = go.Figure(
        go.Bar(
            x=drops, y=list(range(len(shown))), orientation="h", marker={"color": colours},
            error_x={
                "type": "data", "symmetric": False, "color": COLOURS[1], "thickness": 2, "width": 4,
                "array": [row["high"] - row["drop"] for row in shown],
                "arrayminus": [row["drop"] - row["low"] for row in shown],
            },
            customdata=hover,
            hovertemplate="%{customdata[0]}<br>%{x:+.4f} (%{customdata[1]:+.4f} to "
            "%{customdata[2]:+.4f})<extra></extra>",
        )
    )  # fmt: skip
    title = "Permutation importance"
    if len(rows) > MAX_COLUMNS:
        title += f", the first {MAX_COLUMNS} of {len(rows):,} columns"
    apply_layout(figure, title, 130 + 24 * max(len(shown), 3))
    figure.update_xaxes(title=f"{loss} when the column is shuffled")
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=28))
    figure.add_vline(0, line=ZERO_LINE)
    return figure
