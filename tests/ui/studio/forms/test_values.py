from __future__ import annotations

from typing import Any

import pytest

from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    as_text,
    fits,
    from_text,
    value_at,
    with_value,
)
from ui.studio.screen_text import plain

CARDS = {"learners": [{"kind": "mart", "trees": 5}, {"kind": "oak"}], "seed": 1}


@pytest.mark.parametrize(
    ("path", "value", "after"),
    [
        (("seed",), 2, {**CARDS, "seed": 2}),
        (("seed",), MISSING, {"learners": CARDS["learners"]}),
        (
            ("learners", 0, "trees"),
            MISSING,
            {"learners": [{"kind": "mart"}, {"kind": "oak"}], "seed": 1},
        ),
        (("learners", 1), MISSING, {"learners": [{"kind": "mart", "trees": 5}], "seed": 1}),
        (
            ("learners", 1, "kind"),
            "mart",
            {"learners": [CARDS["learners"][0], {"kind": "mart"}], "seed": 1},
        ),
        (("roles", "age"), "id", {**CARDS, "roles": {"age": "id"}}),
        (("seed", "inner"), 1, {**CARDS, "seed": {"inner": 1}}),
        (("none",), MISSING, CARDS),
    ],
)
def test_one_place_is_changed_and_nothing_else(path: Any, value: Any, after: Any):
    before = repr(CARDS)
    assert with_value(CARDS, path, value) == after
    assert repr(CARDS) == before
    if value is not MISSING:
        assert value_at(with_value(CARDS, path, value), path) == value


def test_a_place_that_is_not_there_is_missing():
    assert value_at(CARDS, ("learners", 5)) is MISSING
    assert value_at(CARDS, ("seed", "x")) is MISSING
    assert value_at(CARDS, ("learners", 0, "trees")) == 5


def spec(kind: Any, **settings: Any) -> FieldSpec:
    return FieldSpec("f", "F", kind, **settings)


INTEGER = spec("integer", integer=True, minimum=1, maximum=10)


@pytest.mark.parametrize(
    ("field", "value", "can_show"),
    [
        (INTEGER, 5, True),
        (INTEGER, 0, True),  # beyond a limit, which is a problem but can be shown
        (INTEGER, 5.0, False),
        (INTEGER, True, False),
        (INTEGER, "5", False),
        (spec("integer"), 2**60, False),
        (spec("number"), 2, True),
        (spec("switch"), 1, False),
        (spec("switch"), False, True),
        (spec("choice", choices=("a", "b")), "c", False),
        (spec("choice", choices=(1, 2)), True, False),
        (spec("choices", choices=("a",)), ["a", []], False),
        (spec("text"), 5, False),
        (spec("texts"), ["a", 5], False),
        (spec("numbers"), [1, "a"], False),
        (spec("mixed", choices=("sqrt",)), "sqrt", True),
        (spec("mixed", choices=("sqrt",)), 7.5, True),
        (spec("mixed", choices=("sqrt",)), "zz", False),
        (spec("table"), {"a": object}, True),
        (spec("table"), [], False),
        (spec("cards"), {}, False),
    ],
)
def test_what_a_widget_cannot_show_is_known(field: FieldSpec, value: Any, can_show: bool):
    assert fits(field, value) is can_show


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (INTEGER, " 12 ", 12),
        (INTEGER, "5.0", 5),
        (INTEGER, "5.5", 5.5),
        (INTEGER, "five", "five"),
        (INTEGER, "1_000", "1_000"),
        (INTEGER, "nan", "nan"),
        (INTEGER, "9" * 400, "9" * 400),
        (INTEGER, "", MISSING),
        (spec("number"), "1e-3", 0.001),
        (spec("number"), "1e999", "1e999"),
        (spec("number"), "0,5", "0,5"),
        (spec("mixed", choices=("sqrt",)), "sqrt", "sqrt"),
        (spec("mixed", choices=("sqrt",)), "0.3", 0.3),
        (spec("mixed", choices=("sqrt",)), "sqr", "sqr"),
        (spec("text", default="x"), "", MISSING),
        (spec("text", default=""), "", ""),
        (spec("text"), "5", "5"),
        (spec("text"), " a ", " a "),
        (spec("choice", choices=(1, 2)), "2", 2),
        (spec("switch"), "no", False),
        (spec("numbers", integer=True), "100, 50", [100, 50]),
        (spec("numbers", integer=True), "100, a", [100, "a"]),
        (spec("texts"), '["a"]', ["a"]),
        (spec("json"), '{"a": [1]}', {"a": [1]}),
        (spec("json"), '{"a": ', '{"a":'),
        (spec("json"), "[NaN, 1e999]", "[NaN, 1e999]"),
    ],
)
def test_what_is_typed_becomes_a_value_or_stays_text(field: FieldSpec, text: str, value: Any):
    assert from_text(field, text) == value
    assert type(from_text(field, text)) is type(value)


def test_values_are_shown_as_one_types_them():
    assert [as_text(value) for value in (MISSING, None, "a", 5, 0.1, [1, "é"])] == [
        "",
        "",
        "a",
        "5",
        "0.1",
        '[1, "é"]',
    ]


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Target margin γ", "Target margin γ"),
        ("mean_radius", "mean_radius"),
        ("_a_ *b* `c`", r"\_a\_ \*b\* \`c\`"),
        ("# one", r"\# one"),
        ("1. one", r"1\. one"),
        ("[a](b) <i>", r"\[a\](b) \<i\>"),
        ("two\nlines", "two lines"),
        (":red[x] 9: ok", "\\:red\\[x\\] 9: ok"),
        ("www.a.b x@y.z", "www:small[].a.b x:small[]@y.z"),
    ],
)
def test_text_of_others_is_shown_letter_for_letter(text: str, markdown: str):
    assert plain(text) == markdown
