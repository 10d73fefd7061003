"""Tables become matrices the same way in training and ever after."""

from __future__ import annotations

import datetime
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest

from engine.values import Table
from nodes.models.encoder import (
    ONEHOT_CATEGORIES,
    TableEncoder,
    category_codes,
    category_counts,
    class_codes,
    class_names,
)
from tests.expect import refused

NAN = float("nan")


def table(**columns):
    return Table(pa.table(columns))


def encoded(form, train, data=None):
    return TableEncoder.fit(train, form).transform((data or train).data)


def category(values):
    return pa.array(values).dictionary_encode()


CODES = [
    ("whole numbers", pa.array([3, 1, None]), [3, 1, NAN]),
    ("floats", pa.array([0.5, None, 2.0]), [0.5, NAN, 2.0]),
    ("NaN is missing", pa.array([0.5, NAN, 2.0]), [0.5, NAN, 2.0]),
    ("infinite is missing", pa.array([0.5, np.inf, -np.inf]), [0.5, NAN, NAN]),
    ("half floats", pa.array(np.array([0.5, 2.0, 1.0], np.float16)), [0.5, 2.0, 1.0]),
    (
        "decimals",
        pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("2.50")]),
        [1.25, NAN, 2.5],
    ),
    ("bools", pa.array([True, False, None]), [1, 0, NAN]),
    ("large unsigned numbers", pa.array([2**63, 1, 2], pa.uint64()), [2.0**63, 1, 2]),
    (
        "times",
        pa.array([datetime.datetime(1970, 1, 2), None, datetime.datetime(1970, 1, 1, 0, 0, 1)]),
        [86400, NAN, 1],
    ),
    ("times in ms", pa.array([1500, 0, None], pa.timestamp("ms", "Europe/Berlin")), [1.5, 0, NAN]),
    (
        "dates",
        pa.array([datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31)]),
        [172800, NAN, -86400],
    ),
    ("times of day", pa.array([datetime.time(0, 1), None, datetime.time(1)]), [60, NAN, 3600]),
    (
        "durations",
        pa.array([datetime.timedelta(minutes=1), None, datetime.timedelta(0)]),
        [60, NAN, 0],
    ),
    ("categories, most frequent first", category(["b", "b", "a"]), [0, 0, 1]),
    ("categories as frequent by name", category(["b", None, "a"]), [1, NAN, 0]),
    ("categories of numbers", category([7, 7, 3]), [0, 0, 1]),
]


@pytest.mark.parametrize(
    ("column", "expected"), [case[1:] for case in CODES], ids=[case[0] for case in CODES]
)
def test_codes_of_each_kind_of_column(column, expected):
    matrix = encoded("codes", table(x=column))
    np.testing.assert_array_equal(matrix[:, 0], expected)


def test_chunks_with_their_own_dictionaries_are_one_column():
    column = pa.chunked_array(
        [category(["a", "b"]), category(["b", "c", "b"]), category(["c", None])]
    )
    np.testing.assert_array_equal(encoded("codes", table(x=column))[:, 0], [2, 0, 0, 1, 0, 1, NAN])


def test_dictionary_with_repeated_or_missing_entries():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array(["a", "a", None, "b"]))
    np.testing.assert_array_equal(encoded("codes", table(x=column))[:, 0], [0, 0, NAN, 1])


def test_unused_dictionary_entries_are_no_levels():
    column = category(["a", "b", "c"]).filter(pa.array([True, False, True]))
    assert TableEncoder.fit(table(x=column), "codes").columns[0].categories == ("a", "c")


def test_unknown_level_is_missing_in_codes_and_zeros_in_onehot():
    train, later = table(x=category(["a", "b"])), table(x=category(["z", "b"]))
    np.testing.assert_array_equal(encoded("codes", train, later)[:, 0], [NAN, 1])
    np.testing.assert_array_equal(encoded("onehot", train, later), [[0, 0], [0, 1]])


def test_missing_number_takes_the_median_only_where_training_knew_none():
    later = table(x=pa.array([None, 5.0]))
    np.testing.assert_array_equal(
        encoded("codes", table(x=pa.array([1.0, 2.0, 9.0])), later)[:, 0], [2, 5]
    )
    np.testing.assert_array_equal(
        encoded("codes", table(x=pa.array([1.0, None, 9.0])), later)[:, 0], [NAN, 5]
    )


def test_onehot_scales_and_marks_what_was_missing():
    matrix = encoded("onehot", table(x=pa.array([1.0, 3.0, None])))
    np.testing.assert_allclose(matrix[:, 0], [-np.sqrt(1.5), np.sqrt(1.5), 0], atol=1e-12)
    np.testing.assert_array_equal(matrix[:, 1], [0, 0, 1])


def test_onehot_has_no_mark_without_missing_in_training():
    train = table(x=pa.array([1.0, 3.0]))
    np.testing.assert_array_equal(
        encoded("onehot", train, table(x=pa.array([None, 2.0]))), [[0], [0]]
    )


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0, -1e30])
def test_constant_number_is_about_zero_in_onehot(value):
    matrix = encoded("onehot", table(x=pa.array([value] * 3)))
    np.testing.assert_allclose(matrix, 0, atol=1e-12)


def test_onehot_keeps_the_most_frequent_levels():
    levels = [f"l{i:03}" for i in range(ONEHOT_CATEGORIES + 20)]
    train = table(x=category(levels + levels[20:]))
    encoder = TableEncoder.fit(train, "onehot")
    assert encoder.width == ONEHOT_CATEGORIES
    rare = encoder.transform(table(x=category([levels[0]])).data)
    common = encoder.transform(table(x=category([levels[-1]])).data)
    assert rare.sum() == 0 and common.sum() == 1


def test_text_that_repeats_is_a_category_and_other_text_is_left_out_with_a_reason():
    lines = []
    data = table(few=["a", "b"] * 3, many=[f"t{i}" for i in range(6)], x=range(6))
    encoder = TableEncoder.fit(data, "codes", lines.append)
    assert encoder.names == ["few", "x"] and encoder.categorical == [0]
    assert len(lines) == 1 and "'many'" in lines[0] and "6 different texts" in lines[0]


LEFT_OUT = [
    pa.nulls(4),
    pa.nulls(4, pa.float64()),
    pa.array([NAN] * 4),
    pa.array([np.inf] * 4),
    pa.nulls(4, pa.string()),
    category(pa.nulls(4, pa.string())),
    pa.array([[1], [2], [3], [4]]),
    pa.array([{"a": 1}] * 4),
    pa.array([b"\xff", b"\xff", b"a", b"a"]),
]


@pytest.mark.parametrize("column", LEFT_OUT, ids=lambda column: str(column.type))
def test_column_without_usable_values_is_left_out_with_a_reason(column):
    lines = []
    assert TableEncoder.fit(table(x=range(4), odd=column), "codes", lines.append).names == ["x"]
    assert len(lines) == 1 and "'odd'" in lines[0]


def test_table_without_a_usable_column_is_refused():
    with refused(naming="no feature"):
        TableEncoder.fit(table(x=pa.nulls(3)), "codes")


def test_only_features_are_encoded():
    data = pa.table({"id": [1, 2], "y": ["a", "b"], "x": [1.0, 2.0], "w": [1, 1]})
    for name in ("skip", "when", "customer"):
        data = data.append_column(name, pa.array([1, 2]))
    roles = {"id": "id", "w": "weight", "skip": "ignore", "when": "time", "customer": "group"}
    assert TableEncoder.fit(Table(data, "y", roles), "codes").names == ["x"]


def test_more_columns_in_any_order_do_no_harm():
    train = table(a=[1.0, 2.0], b=[3.0, 4.0])
    later = table(extra=["x", "y"], b=[3.0, 4.0], a=[1.0, 2.0])
    np.testing.assert_array_equal(encoded("codes", train, later), [[1, 3], [2, 4]])


def test_missing_columns_are_named():
    encoder = TableEncoder.fit(table(a=[1.0], b=[2.0], c=[3.0]), "codes")
    with refused(naming="'a', 'c'"):
        encoder.transform(table(b=[1.0]).data)
    with refused(naming=["'a', 'c'", "it has 'A'"]):
        encoder.transform(table(A=[1.0], b=[1.0], d=[1.0]).data)


WRONG = [
    (pa.array([1.0]), pa.array(["x"]), ["a text", "a number"]),
    (category(["a"]), pa.array([1.0]), ["a number", "a category"]),
    (pa.array([datetime.date(2024, 1, 1)]), pa.array([1.0]), ["a number", "a time"]),
    (pa.array([True]), category(["a"]), ["a category", "a bool"]),
]


@pytest.mark.parametrize(("trained", "given", "kinds"), WRONG)
def test_column_of_another_kind_is_named(trained, given, kinds):
    with refused(naming=["'x'", *kinds]):
        encoded("codes", table(x=trained), table(x=given))


ALIKE = [
    (category(["a", "b"]), pa.array(["b", "a"]), [1, 0]),
    (category(["a", "b"]), pa.array(["b", "a"], pa.large_string()), [1, 0]),
    (pa.array([True, False]), pa.array([1, 0]), [1, 0]),
    (pa.array([1, 2]), pa.array([2.0, None]), [2, 1.5]),
    (pa.array([1, 2]), pa.nulls(2), [1.5, 1.5]),
    (category(["a", "b"]), pa.nulls(2), [NAN, NAN]),
]


@pytest.mark.parametrize(("trained", "given", "expected"), ALIKE)
def test_kinds_that_can_stand_for_one_another(trained, given, expected):
    np.testing.assert_array_equal(
        encoded("codes", table(x=trained), table(x=given))[:, 0], expected
    )


@pytest.mark.parametrize("form", ["codes", "onehot"])
def test_json_round_trip_gives_the_same_matrix(form):
    data = table(
        n=[1.5, None, 0.1],
        c=category(["é", "b", "b"]),
        t=pa.array([1, 2, 3], pa.timestamp("us")),
        b=[True, False, None],
    )
    encoder = TableEncoder.fit(data, form)
    restored = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    assert restored == encoder
    np.testing.assert_array_equal(restored.transform(data.data), encoder.transform(data.data))


@pytest.mark.parametrize(
    "about", [{}, {"version": 2, "form": "codes"}, {"version": 1, "form": "x", "columns": []}]
)
def test_json_of_something_else_is_refused(about):
    with pytest.raises((KeyError, ValueError)):
        TableEncoder.from_json(about)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_matrix_is_as_asked_for(order, precision):
    data = table(a=[1.0, 1e300], b=category(["x", None]))
    matrix = TableEncoder.fit(data, "codes").transform(data.data, precision, order)
    assert matrix.dtype == precision and matrix.flags[f"{order}_CONTIGUOUS"]
    assert np.isfinite(matrix[:, 0]).all()


@pytest.mark.parametrize(
    ("values", "fits"),
    [([1.5, None], True), ([0.1], False), ([2**24 + 1], False), ([1e300], False)],
)
def test_knows_whether_short_floats_lose_anything(values, fits):
    assert TableEncoder.fit(table(x=pa.array(values)), "codes").fits_float32 is fits


def test_no_rows_give_an_empty_matrix():
    data = table(n=[1.5, None], c=category(["a", "b"]))
    assert TableEncoder.fit(data, "onehot").transform(data.data.slice(0, 0)).shape == (0, 4)


class TestLevels:
    def test_counts_leave_missing_values_out(self):
        column = pa.chunked_array([["a", None, "b"], ["a"]])
        assert category_counts(column) == {"a": 2, "b": 1}

    def test_codes_of_missing_and_unknown(self):
        assert category_codes(pa.chunked_array([["a", None], ["c"]]), ["a", "b"]).tolist() == [
            0,
            -1,
            -1,
        ]

    @pytest.mark.parametrize(
        ("values", "names"),
        [
            ([10, 9, 10], ["9", "10"]),
            ([0.0, 1.0, NAN], ["0", "1"]),
            ([True, False], ["false", "true"]),
            (["b", "a", None], ["a", "b"]),
            (["10", "9"], ["9", "10"]),
        ],
    )
    def test_class_names_are_texts_in_natural_order(self, values, names):
        assert class_names(pa.chunked_array([values]), "y") == names

    def test_whole_floats_are_the_classes_that_integers_were(self):
        classes = class_names(pa.chunked_array([[0, 1]]), "y")
        assert class_codes(pa.chunked_array([[1.0, None, 0.0]]), classes).tolist() == [1, -1, 0]

    def test_unknown_classes_are_named(self):
        with refused(naming=["'x', 'z'", "'a', 'b'"]):
            class_codes(pa.chunked_array([["a", "x", "z"]]), ["a", "b"])

    @pytest.mark.parametrize(
        "target",
        [np.linspace(0, 1, 150), pa.array([1, 2], pa.timestamp("s"))],
        ids=["quantity", "time"],
    )
    def test_target_that_has_no_classes_is_refused(self, target):
        with refused(naming=["'y'", "classes"]):
            class_names(pa.chunked_array([pa.array(target)]), "y")
