from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from engine.values import Table
from nodes.data import column_statistics as statistics
from nodes.data.column_statistics import (
    Bars,
    bars_by_class,
    column_bars,
    column_statistics,
    spread_rows,
    table_statistics,
)


def column(values, arrow_type=None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, arrow_type)])


def test_numbers_leave_out_what_is_missing_or_infinite():
    found = column_statistics("x", column([1.0, None, math.nan, 3.0, math.inf, -math.inf, 2.0]))
    assert (found.rows, found.missing, found.infinite, found.counted) == (7, 2, 2, 3)
    assert (found.minimum, found.median, found.maximum, found.mean) == (1.0, 2.0, 3.0, 2.0)
    assert found.missing_share == pytest.approx(2 / 7)
    assert found.bars is not None and sum(found.bars.counts) == 3
    assert not found.sampled


@pytest.mark.parametrize(
    ("values", "arrow_type", "bars"),
    [
        ([3, 1, 3, None, 100], pa.int64(), Bars("values", [1, 2, 1], labels=["1", "3", "100"])),
        ([5.0, 5.0], pa.float64(), Bars("number", [2], [4.5, 5.5])),
        ([1000.0, 1000.0], pa.float64(), Bars("number", [2], [990.0, 1010.0])),
        ([None, None], pa.float64(), Bars("number", [])),
        ([], pa.float64(), Bars("number", [])),
        ([], pa.string(), Bars("values", [])),
        ([None], pa.string(), Bars("values", [])),
        (["b", "a", None, "b"], pa.string(), Bars("values", [2, 1], labels=["b", "a"])),
        ([True, False, True, None], pa.bool_(), Bars("values", [2, 1], labels=["true", "false"])),
        ([-1.7e308, 1.7e308], pa.float64(), Bars("number", [2], [-1.7e308, 1.7e308])),
        ([[1], [2]], pa.list_(pa.int64()), Bars("values", [])),
    ],
)
def test_bars_of_odd_columns(values, arrow_type, bars):
    found = column_bars(column(values, arrow_type))
    assert (found.scale, found.counts, found.edges, found.labels) == (
        bars.scale,
        bars.counts,
        bars.edges,
        bars.labels,
    )
    assert column_statistics("x", column(values, arrow_type)).rows == len(values)


def test_many_different_numbers_share_thirty_bars_from_end_to_end():
    found = column_bars(column(list(range(1000))))
    assert len(found.counts) == 30 and sum(found.counts) == 1000
    assert (found.edges[0], found.edges[-1]) == (0.0, 1020.0)


@pytest.mark.parametrize(("low", "high"), [(18, 95), (0, 30), (-7, 999), (10**12, 10**12 + 77)])
def test_bars_of_whole_numbers_hold_as_many_numbers_each(low, high):
    found = column_bars(column(list(range(low, high + 1))))
    assert len(found.counts) <= 30 and sum(found.counts) == high - low + 1
    assert len(set(found.counts[:-1])) == 1 and 0 < found.counts[-1] <= found.counts[0]
    assert all(edge == int(edge) for edge in found.edges)


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        ([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), None], pa.timestamp("us")),
        ([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3), None], pa.timestamp("ns", tz="UTC")),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 3), None], pa.date32()),
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 3), None], pa.date64()),
    ],
)
def test_times_are_seconds_since_1970(values, arrow_type):
    found = column_statistics("t", column(values, arrow_type))
    assert (found.kind, found.missing) == ("time", 1)
    assert found.minimum is not None and statistics.moment(found.minimum) == "2024-01-01 00:00:00"
    assert (
        found.maximum is not None
        and statistics.moment(found.maximum, with_clock=False) == "2024-01-03"
    )
    assert found.bars is not None and found.bars.scale == "time" and sum(found.bars.counts) == 2


def test_a_time_span_is_a_number_of_seconds():
    found = column_bars(
        column([dt.timedelta(minutes=1), dt.timedelta(minutes=3)], pa.duration("ms"))
    )
    assert found.scale == "number" and (found.edges[0], found.edges[-1]) == (60.0, 180.0)


def test_a_time_no_calendar_has_is_told_in_seconds():
    assert statistics.moment(1e18) == "1e+18 s"


def test_categories_of_chunks_with_other_dictionaries_are_counted_together():
    chunks = [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["b", "c", None]).dictionary_encode(),
    ]
    found = column_statistics("c", pa.chunked_array(chunks))
    assert found.kind == "category" and found.distinct == 3 and found.missing == 1
    assert found.frequent[0] == ("b", 2) and sorted(found.frequent[1:]) == [("a", 1), ("c", 1)]


def test_values_beyond_the_bars_are_counted_as_others():
    found = column_bars(column([f"v{index}" for index in range(100)]))
    assert len(found.counts) == 30 and found.others == 70


def test_long_texts_are_cut():
    assert (
        len(column_statistics("s", column(["x" * 10_000])).frequent[0][0])
        == statistics.LONGEST_VALUE + 1
    )


def test_figures_are_those_of_pandas():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(5000) < 0.1, np.nan, rng.normal(5, 3, 5000)),
            "n": rng.integers(-1000, 1000, 5000),
            "c": pd.Categorical(rng.choice(["p", "q", "r"], 5000, p=[0.5, 0.3, 0.2])),
            "b": rng.random(5000) < 0.3,
        }
    )
    table = Table(pa.Table.from_pandas(frame), "c", {"n": "id"})
    found = {each.name: each for each in table_statistics(table)}
    for name in ("x", "n"):
        expected = frame[name].describe()
        figures = found[name]
        assert figures.counted == expected["count"] and figures.missing == frame[name].isna().sum()
        quartiles = (figures.lower_quartile, figures.median, figures.upper_quartile)
        ours = (figures.mean, figures.minimum, *quartiles, figures.maximum)
        assert ours == pytest.approx(
            [expected[key] for key in ("mean", "min", "25%", "50%", "75%", "max")]
        )
        assert figures.std == pytest.approx(frame[name].std(ddof=0))
        assert figures.bars is not None
        assert (
            figures.bars.counts
            == np.histogram(frame[name].dropna(), figures.bars.edges)[0].tolist()
        )
    for name in ("c", "b"):
        counts = frame[name].value_counts()
        assert [count for _, count in found[name].frequent] == counts.tolist()
        assert found[name].distinct == len(counts)
    assert [found[name].role for name in "xncb"] == ["feature", "id", "target", "feature"]


def test_a_large_column_is_sampled_where_sorting_were_needed_and_says_so(monkeypatch):
    monkeypatch.setattr(statistics, "SAMPLE_ROWS", 100)
    found = column_statistics("x", column(np.arange(1000.0)))
    assert (
        found.sampled
        and found.bars is not None
        and found.bars.sampled
        and sum(found.bars.counts) == 100
    )
    assert (found.minimum, found.maximum, found.mean) == (0.0, 999.0, 499.5)
    assert found.median == pytest.approx(499.5, abs=5)
    texts = column_statistics("s", column([None, "a", "b", "b"] * 250))
    assert texts.sampled and texts.missing == 250 and texts.counted < 100
    exact = column_statistics("c", column(["a", "b"] * 500).dictionary_encode())
    assert not exact.sampled and exact.frequent == [("a", 500), ("b", 500)]


def test_a_sample_goes_evenly_from_the_first_row_to_the_last():
    rows, sampled = spread_rows(column(list(range(101))), 11)
    assert sampled and rows.to_pylist() == list(range(0, 101, 10))


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, 2.0, 3.0, None, math.nan, math.inf, 3.0],
        [1, 2, 2, 3, None, 1, 1, 1],
        ["a", "b", None, "a", "a", "b", "c", "d"],
        [True, False, None, True, True, True, False, True],
        [dt.date(2024, 1, day) for day in range(1, 9)],
    ],
)
def test_a_split_by_class_adds_up_to_the_bars_of_the_rows_that_have_a_class(values):
    classes = column(["no", "yes", "no", "no", "no", "yes", "no", "no"])
    bars, by_class = bars_by_class(column(values), classes)
    assert list(by_class) == ["no", "yes"]
    assert [sum(parts) for parts in zip(*by_class.values(), strict=True)] == bars.counts


def test_a_split_leaves_out_rows_without_a_class_and_puts_rare_classes_together():
    classes = column([None, *(f"c{index:02}" for index in range(12)), "c00"])
    bars, by_class = bars_by_class(column([1] * 14), classes)
    assert bars.counts == [14]
    assert next(iter(by_class)) == "c00" and list(by_class)[-1] == "6 others" and len(by_class) == 7
    assert sum(map(sum, by_class.values())) == 13 and by_class["6 others"] == [6]


def test_a_split_of_nothing_is_empty():
    bars, by_class = bars_by_class(column([], pa.float64()), column([], pa.string()))
    assert bars.counts == [] and by_class == {}
