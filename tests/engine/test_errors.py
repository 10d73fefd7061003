"""Every problem of a pipeline is a sentence, a class and plain data."""

from __future__ import annotations

import pickle

import pytest

from engine import errors
from engine.errors import (
    BadParam,
    BadStructure,
    InvalidPipeline,
    MissingInput,
    Problem,
    SelfEdge,
    SylvaError,
)

REASONS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Problem)
]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            BadParam("1.4 is too large; give a number below 1", node="split", field="test_share"),
            "Node 'split', field 'test_share': 1.4 is too large; give a number below 1.",
        ),
        (
            BadStructure("it is missing; add it", node="split"),
            "Node 'split': it is missing; add it.",
        ),
        (
            BadStructure("it is missing; add it", field="name"),
            "Field 'name': it is missing; add it.",
        ),
        (
            MissingInput("nothing is connected", node="a", field="table"),
            "Node 'a', input 'table': nothing is connected.",
        ),
        (
            SelfEdge("it leads to itself", node="a", edge=("a.x", "a.y")),
            "Edge a.x → a.y: it leads to itself.",
        ),
        (BadStructure("did you mean 'name'?"), "Did you mean 'name'?"),
    ],
)
def test_a_problem_reads_as_a_sentence_that_names_its_place(problem, text):
    assert str(problem) == text


def test_every_reason_has_a_class_with_a_code_of_its_own():
    codes = [kind.code for kind in REASONS]
    assert len(codes) == len(set(codes))
    assert all(code.replace("-", "").islower() and code.isascii() for code in codes)


def test_problems_become_plain_data():
    assert BadParam("too large", node="a", field="b").to_dict() == {
        "code": "bad-param",
        "severity": "error",
        "node": "a",
        "field": "b",
        "edge": None,
        "message": "too large",
        "text": "Node 'a', field 'b': too large.",
    }
    assert SelfEdge("no", edge=("a.x", "a.y")).to_dict()["edge"] == {"from": "a.x", "to": "a.y"}


def test_an_invalid_pipeline_shows_one_problem_a_line_and_exits_with_2():
    error = InvalidPipeline([BadParam("one", node="a"), BadParam("two", node="b")])
    assert str(error) == "Node 'a': one.\nNode 'b': two."
    assert isinstance(error, SylvaError)
    assert error.exit_code == 2


def test_problems_travel_between_processes():
    error = InvalidPipeline([BadParam("one", node="a", field="b")])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
