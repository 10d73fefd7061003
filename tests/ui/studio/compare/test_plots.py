"""Plots of several evaluations side by side."""

from __future__ import annotations

import pytest

from ui.studio import plots
from ui.studio.plots.style import COLOURS

RATES = [("a", "One in ten"), ("b", "One in two")]
HOSTILE = "<img src=x onerror=alert(1)>"


def test_recalls_stand_side_by_side_and_a_missing_one_has_no_bar() -> None:
    figure = plots.recall_at_rates(
        [{"name": "MART", "a": 0.25, "b": 1.0}, {"name": "MLP", "b": 0.5}], RATES
    )
    assert [bar.name for bar in figure.data] == ["MART", "MLP"]
    assert [list(bar.y) for bar in figure.data] == [[0.25, 1.0], [None, 0.5]]
    assert [list(bar.text) for bar in figure.data] == [["25.0%", "100.0%"], ["", "50.0%"]]
    assert list(figure.layout.xaxis.ticktext) == ["One in ten", "One in two"]


@pytest.mark.parametrize(
    ("values", "top"), [((0.009, 0.07), 0.077), ((0.25, 1.0), 1.0), ((None, None), 1.0)]
)
def test_the_axis_of_recalls_ends_just_above_the_greatest_and_not_above_one(
    values: tuple[float | None, ...], top: float
) -> None:
    figure = plots.recall_at_rates([dict(zip(("a", "b"), values, strict=True), name="MART")], RATES)
    assert figure.layout.yaxis.range == pytest.approx((0, top))


def test_more_models_than_colours_are_told_apart_by_hatches() -> None:
    count = len(COLOURS) + 1
    figure = plots.recall_at_rates([{"name": str(each), "a": 0.5} for each in range(count)], RATES)
    first, last = figure.data[0].marker, figure.data[-1].marker
    assert first.color == last.color and first.pattern.shape != last.pattern.shape


def test_names_cannot_be_taken_for_markup() -> None:
    recalls = plots.recall_at_rates([{"name": HOSTILE, "a": 0.5}], RATES)
    confusion = plots.confusion_matrix(["no", "yes"], [[1, 0], [0, 1]], title=HOSTILE)
    assert "<img" not in recalls.to_json().replace("\\u003c", "<")
    assert "<img" not in confusion.to_json().replace("\\u003c", "<")
    assert confusion.layout.title.text.startswith("&lt;img")
