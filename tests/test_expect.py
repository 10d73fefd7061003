"""The helpers for assertions are themselves strict."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import BadInput, BadParam, MissingInput, Problem, SylvaError, UnknownParam
from tests.expect import problems, refused

EMPTY = BadInput("the file 'sales.csv' has 0 rows", field="source")


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"field": "source"},
        {"naming": ["sales.csv", 0]},
        {"naming": "sales.csv"},
        {"error": SylvaError, "field": "source"},
    ],
)
def test_the_expected_error_passes(expected: dict[str, Any]) -> None:
    with refused(**expected) as caught:
        raise EMPTY
    assert caught.value is EMPTY


@pytest.mark.parametrize(
    "expected", [{"field": "target"}, {"field": None}, {"naming": ["sales.csv", 1]}]
)
def test_another_field_or_a_value_that_is_not_named_fails(expected: dict[str, Any]) -> None:
    with pytest.raises(AssertionError), refused(**expected):
        raise EMPTY


def test_another_class_is_not_caught() -> None:
    with pytest.raises(KeyError), refused():
        raise KeyError("source")


def test_a_block_that_raises_nothing_fails() -> None:
    with pytest.raises(pytest.fail.Exception), refused():
        pass


FOUND = [
    BadParam("too small", node="split", field="seed"),
    MissingInput("not connected", node="mart", field="table"),
]


def test_problems_are_compared_by_class_node_and_field() -> None:
    problems(FOUND, (BadParam, "split", "seed"), (MissingInput, "mart", "table"))
    problems(iter(FOUND), (BadParam, "split", "seed"), (MissingInput, "mart", "table"))


@pytest.mark.parametrize(
    "first",
    [
        (UnknownParam, "split", "seed"),
        (Problem, "split", "seed"),
        (BadParam, "mart", "seed"),
        (BadParam, "split", None),
    ],
)
def test_another_class_node_or_field_fails(first: tuple[type[Problem], str, str | None]) -> None:
    with pytest.raises(AssertionError):
        problems(FOUND, first, (MissingInput, "mart", "table"))


def test_a_problem_too_many_or_too_few_fails() -> None:
    for expected in ([], [(BadParam, "split", "seed")]):
        with pytest.raises(AssertionError):
            problems(FOUND, *expected)
