"""Text of others on screen, and problems in the words of the screen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.bypass import bypass_problems
from engine.errors import (
    BadColumns,
    BadParam,
    BadSource,
    Bypassed,
    Problem,
    TypeMismatch,
    UnknownNode,
)
from engine.node_types import load_catalog
from engine.pipeline import Edge, Group, Node, Pipeline, Sweep
from engine.validation import check_connect, find_problems
from ui.studio.screen_text import (
    field_title,
    plain,
    problem_in_form,
    problem_text,
    source_title,
)

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("two words", "two words"),
        ("two\n\nlines", "two lines"),
        ("**b** $x$ <i>", r"\*\*b\*\* \$x\$ \<i\>"),
        ("sample:digits at 12:03", r"sample\:digits at 12\:03"),
        (":material/delete: :red[x]", r"\::small[]material/delete: \:red\[x\]"),
        ("a:b:c :+1: 9: ok", r"a\::small[]b\:c \::small[]+1: 9: ok"),
        (":_x_: a::b", r"\::small[]\_x\_: a\::small[]\:b"),
        (
            "https://a.b www.a.b x_WWW.a x@y.z",
            r"https\::small[]//a.b www:small[].a.b x_WWW:small[].a x:small[]@y.z",
        ),
        (
            "a -> b <-> c -- d >= e->f",
            r"a -:small[]\> b \<:small[]-:small[]\> c -:small[]- d \>:small[]= e-\>f",
        ),
        ("# no heading", r"\# no heading"),
        ("--", r"\-:small[]-"),
        ("1. no list", r"1\. no list"),
        ("snake_case _loose_", r"snake_case \_loose\_"),
        ("class \u202eevil\u2066 name", "class evil name"),
    ],
)
def test_nothing_of_it_is_markdown_and_nothing_turns_the_line_around(given: str, shown: str):
    assert plain(given) == shown
    assert shown.isascii() or not given.isascii(), "nothing foreign that a copy would carry"


# Problems

FOREST = CATALOG["deep-forest"]
TITLES = {name: FOREST.params.model_fields[name].title for name in FOREST.params.model_fields}
LEARNERS = TITLES["learners"]


def document(*edges: str, **nodes: Any) -> Pipeline:
    """A pipeline whose ids and ports are no words of the screen."""
    loader = Node(type="load-data", params={"source": "sample:digits"}, label="My digits")
    given = {"n1": loader, "n2": Node(type="split"), "n3": Node(type="deep-forest"), **nodes}
    drawn = tuple(Edge.between(*edge.split(" > ")) for edge in edges)
    return Pipeline(name="x", nodes=given, edges=drawn)


def texts(pipeline: Pipeline) -> list[str]:
    problems = find_problems(pipeline, CATALOG)
    return [problem_text(problem, pipeline, CATALOG) for problem in problems]


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ("learners", LEARNERS),
        ("learners.1.trees", f"{LEARNERS} 2: Trees"),
        ("sweep", "Sweep"),
        ("sweep.grid.gamma", f"Sweep: {TITLES['gamma']}"),
        ("sweep.random.learners.0.trees", f"Sweep: {LEARNERS} 1: Trees"),
        ("settings.memory_limit", "Memory limit"),
        ("unknown", "“unknown”"),
    ],
)
def test_a_field_is_called_as_in_its_form(field: str, title: str):
    assert field_title(field, FOREST) == title


def test_a_field_of_a_type_that_is_not_installed_keeps_its_name():
    assert field_title("trees", None) == "“trees”"


@pytest.mark.parametrize(
    ("source", "title"),
    [("sample:digits", "Digits (sample)"), ("sales.csv", "sales.csv")],
)
def test_a_source_is_shown_in_words(source: str, title: str):
    assert source_title(source) == title


def test_an_input_is_called_by_its_title_and_its_node_by_its_label():
    named = Node(type="deep-forest", label="Best forest")
    pipeline = document("n1.table > n2.table", "n2.train > n4.table", n4=named)
    assert texts(pipeline) == [
        "Deep forest, Training rows: it is not connected; connect an output of type table."
    ]
    pipeline = document("n1.table > n2.table", "n2.train > n3.table", n4=named)
    [text] = texts(pipeline)
    assert text.startswith("Best forest, Training rows: ")
    [problem] = find_problems(pipeline, CATALOG)
    text = problem_text(problem, pipeline, CATALOG, with_node=False)
    assert text.startswith("Training rows: it is not connected")


def mismatch() -> tuple[Pipeline, Problem]:
    pipeline = document(n4=Node(type="predict"))
    with pytest.raises(TypeMismatch) as caught:
        check_connect(pipeline, CATALOG, Edge.between("n1.table", "n4.model"))
    return pipeline, caught.value


def test_an_edge_is_called_by_the_titles_of_its_ends():
    pipeline, problem = mismatch()
    assert problem_text(problem, pipeline, CATALOG).startswith(
        "My digits: Table → Predict: Model: "
    )
    assert str(problem).startswith("Edge n1.table → n4.model: n1.table is of type table")


PIPELINES = {
    "cycle": document(
        "n2.train > n4.table", "n4.table > n2.table", n4=Node(type="sample", label="Some rows")
    ),
    "self": document("n2.train > n2.table"),
    "taken": document("n1.table > n2.table", "n1.table > n3.table", "n2.train > n3.table"),
    "unknown port": document("n2.trian > n3.table"),
    "other side": document("n3.table > n2.table"),
    "unknown field": document(n4=Node(type="sample", params={"row": 3})),
    "sweep": document(
        "n1.table > n3.table",
        "n3.model > n4.model",
        n3=Node(type="deep-forest", sweep=Sweep(grid={"gamma": [0.5, 0.6]})),
        n4=Node(type="save-model"),
    ),
    "bypass": document("n3.model > n4.model", "n1.table > n4.table").model_copy(
        update={
            "nodes": {
                "n1": Node(type="load-data", params={"source": "sample:digits"}),
                "n3": Node(type="deep-forest", bypass=True),
                "n4": Node(type="predict"),
            }
        }
    ),
}


@pytest.mark.parametrize("case", PIPELINES)
def test_no_text_on_screen_has_ids_or_names_of_ports(case: str):
    pipeline = PIPELINES[case]
    found = find_problems(pipeline, CATALOG)
    assert found
    names = re.compile(r"\bn\d\b|'|\btrain\b|\bn\d\.")
    for problem in found:
        in_form = problem_in_form(problem, pipeline, CATALOG)
        for text in (problem_text(problem, pipeline, CATALOG), in_form.message):
            assert not names.search(text), text


@pytest.mark.parametrize("case", PIPELINES)
def test_the_command_line_keeps_the_names_of_the_document(case: str):
    for problem in find_problems(PIPELINES[case], CATALOG):
        assert re.search(r"\bn\d\b", str(problem))


def test_a_cycle_has_the_titles_of_its_nodes():
    [cycle] = [text for text in texts(PIPELINES["cycle"]) if "cycle" in text]
    assert "“Split” → “Some rows” → “Split”" in cycle


def test_a_bypass_that_is_not_possible_names_the_output():
    pipeline = PIPELINES["bypass"]
    [problem] = bypass_problems(pipeline, CATALOG)
    assert problem_text(problem, pipeline, CATALOG).startswith(
        "Deep forest, Model: the node cannot"
    )
    refused = Bypassed("it is bypassed", node="n3")
    assert problem_text(refused, pipeline, CATALOG) == "Deep forest: it is bypassed."


def test_a_group_is_called_by_its_title():
    group = Group(title="Models", nodes=("n1", "gone"))
    pipeline = document("n1.table > n2.table", "n2.train > n3.table")
    pipeline = pipeline.model_copy(update={"groups": (group,)})
    [text] = texts(pipeline)
    assert text.startswith("Group “Models”: ")


@pytest.mark.parametrize("kind", [BadParam, BadSource, BadColumns])
def test_a_problem_of_a_field_keeps_its_field_in_the_form(kind: type[Problem]):
    pipeline = document()
    problem = kind("give another {file}", node="n1", field="source")
    assert problem_text(problem, pipeline, CATALOG) == "My digits, Source: give another {file}."
    in_form = problem_in_form(problem, pipeline, CATALOG)
    assert (type(in_form), in_form.field, in_form.message) == (
        kind,
        "source",
        "give another {file}",
    )


def test_what_is_not_in_the_pipeline_keeps_its_name():
    problem = UnknownNode("it does not exist", node="gone", edge=("gone.x", "n2.table"))
    text = problem_text(problem, document(), CATALOG)
    assert text == "“gone”: “x” → Split: Table: it does not exist."
    unknown = Problem("it is wrong", node="n4", field="trees")
    pipeline = document(n4=Node(type="of-a-package"))
    assert problem_text(unknown, pipeline, CATALOG) == "of-a-package, “trees”: it is wrong."
