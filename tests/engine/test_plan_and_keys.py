"""What a run wants, and the names of the results it would have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import BadInput
from engine.plan import RunOptions, cache_key
from tests.engine.lab import PROBE, pipeline, plan_of
from tests.expect import refused

PARAMS = PROBE.params(value=3)
KEY = cache_key(PROBE, PARAMS, {"reports": ["d1", "d2"]}, {"reports": ["a", "b"]}, "outside")


@pytest.mark.parametrize(
    "other",
    [
        cache_key(
            replace(PROBE, name="other"),
            PARAMS,
            {"reports": ["d1", "d2"]},
            {"reports": ["a", "b"]},
            "outside",
        ),
        cache_key(
            replace(PROBE, version=2),
            PARAMS,
            {"reports": ["d1", "d2"]},
            {"reports": ["a", "b"]},
            "outside",
        ),
        cache_key(
            PROBE,
            PROBE.params(value=4),
            {"reports": ["d1", "d2"]},
            {"reports": ["a", "b"]},
            "outside",
        ),
        cache_key(PROBE, PARAMS, {"reports": ["d2", "d1"]}, {"reports": ["a", "b"]}, "outside"),
        cache_key(PROBE, PARAMS, {"reports": ["d1", "d2"]}, {"reports": ["a", "c"]}, "outside"),
        cache_key(PROBE, PARAMS, {"reports": ["d1", "d2"]}, {"reports": ["a", "b"]}, "changed"),
    ],
    ids=["type", "version", "params", "order of inputs", "sources of a many port", "outside"],
)
def test_whatever_the_result_depends_on_changes_the_key(other: str) -> None:
    assert other != KEY


def test_a_default_spelled_out_changes_no_key() -> None:
    assert cache_key(PROBE, PROBE.params(), {}, {}) == cache_key(
        PROBE, PROBE.params(value=0, action="none"), {}, {}
    )


def test_where_a_single_input_comes_from_changes_no_key() -> None:
    single = replace(PROBE, inputs=(replace(PROBE.inputs[0], many=False),))
    assert cache_key(single, PARAMS, {"reports": ["d"]}, {"reports": ["a"]}) == cache_key(
        single, PARAMS, {"reports": ["d"]}, {"reports": ["renamed"]}
    )


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({}, "abcdef"),
        ({"to": ("d",)}, "abd"),
        ({"to": ("d", "f")}, "abdef"),
        ({"force_from": ("b",)}, "abcd"),
        ({"force_from": ("b",), "to": ("d",)}, "abd"),
        ({"force_from": ("f",)}, "ef"),
    ],
)
def test_a_plan_holds_what_was_asked_for_and_what_that_needs(request_: dict, wanted: str) -> None:
    assert sorted(plan_of(pipeline("a b c", "b d", "e f"), **request_).steps) == sorted(wanted)


def test_steps_come_after_what_they_need_else_in_the_order_of_the_document() -> None:
    assert list(plan_of(pipeline("d", "c", "z a", "b a")).steps) == ["d", "c", "z", "b", "a"]


@pytest.mark.parametrize("option", ["to", "force_from"])
def test_an_unknown_node_is_named_together_with_those_there_are(option: str) -> None:
    with refused(BadInput, naming=["'x'", "a, b"]):
        plan_of(pipeline("a b"), **{option: ("x",)})


@pytest.mark.parametrize(
    ("finished", "gone", "todo"),
    [
        ("", "", "abcd"),
        ("ab", "", "cd"),
        ("ab", "b", "bcd"),
        ("ab", "a", "cd"),
        ("ab", "ab", "abcd"),
        ("abcd", "abcd", ""),
    ],
)
def test_left_to_do_is_what_is_unfinished_and_what_that_needs(
    finished: str, gone: str, todo: str
) -> None:
    plan = plan_of(pipeline("a b c d"))
    assert plan.unfinished(set(finished), lambda node: node not in gone) == set(todo)


def test_a_request_survives_json() -> None:
    options = RunOptions(
        to=("a",), force_from=("b",), workers=3, retries=1, timeout=2.5, allow_absolute=True
    )
    assert RunOptions.from_dict(options.to_dict()) == options
