from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from pydantic import model_validator

from engine.errors import (
    BadColumns,
    BadInput,
    BadParam,
    BadSource,
    Cycle,
    DuplicateEdge,
    GroupOverlap,
    InvalidPipeline,
    MissingInput,
    MissingParam,
    PortTaken,
    Problem,
    SelfEdge,
    TypeMismatch,
    UnknownNode,
    UnknownParam,
    UnknownPort,
    UnknownType,
)
from engine.node_types import SOURCE_COLUMNS, Column, NodeParams
from engine.pipeline import Group, Node, Pipeline, Sweep
from engine.validation import (
    can_connect,
    check_connect,
    columns_at,
    connection_rules,
    find_problems,
    find_source_problems,
    params_of,
)
from engine.workspace import Files
from tests.engine import fakes
from tests.engine.fakes import CATALOG, edge_of, make, node_of, whole
from tests.expect import problems, refused


def found(pipeline: Pipeline) -> list[tuple[type, str | None, str | None]]:
    problems = find_problems(pipeline, CATALOG)
    json.dumps([problem.to_dict() for problem in problems])
    return [(type(problem), problem.node, problem.field) for problem in problems]


def test_a_good_document_has_no_problems():
    assert found(whole()) == []
    assert found(make({})) == []


# Nodes


@pytest.mark.parametrize(
    ("node", "problem", "field", "naming"),
    [
        (node_of("reed"), UnknownType, "type", ["'reed'", "'read'?"]),
        (node_of("zzz"), UnknownType, "type", ["'zzz'"]),
        (node_of("read", row=3), UnknownParam, "row", ["'read'", "'rows'?"]),
        (node_of("read", x=3), UnknownParam, "x", ["'read'", "'source', 'rows'"]),
        (Node(type="read"), MissingParam, "source", []),
        (node_of("read", rows=0), BadParam, "rows", ["0", "1"]),
        (node_of("read", rows=1001), BadParam, "rows", ["1001", "1000"]),
        (node_of("read", rows=1.5), BadParam, "rows", ["1.5"]),
        (node_of("read", rows="5"), BadParam, "rows", ["'5'"]),
        (node_of("read", rows=True), BadParam, "rows", ["true"]),
        (node_of("read", rows=None), BadParam, "rows", ["null"]),
        (node_of("read", source=5), BadParam, "source", ["5"]),
        (node_of("read", source=[]), BadParam, "source", ["a list"]),
        (node_of("learn", loss="lag"), BadParam, "loss", ["'lag'", "'log' or 'hinge'"]),
        (node_of("learn", depth="deep"), BadParam, "depth", ["'deep'", "'auto'"]),
        (node_of("learn", columns="a"), BadParam, "columns", ["'a'"]),
        (node_of("learn", columns=["a", 2]), BadParam, "columns.1", ["2"]),
        (node_of("learn", grid=3), BadParam, "grid", ["3"]),
        (node_of("learn", grid={}), MissingParam, "grid.low", []),
        (node_of("learn", grid={"low": 0, "mid": 1}), UnknownParam, "grid.mid", ["'learn'"]),
        (node_of("learn", grid={"low": 2}), BadParam, "grid", ["low", "high"]),
    ],
)
def test_a_wrong_type_or_parameter_is_named(node, problem, field, naming):
    pipeline = make(
        {"data": "read", "x": node}, *(["data.table > x.table"] if node.type == "learn" else [])
    )
    found = find_problems(pipeline, CATALOG)
    problems(found, (problem, "x", field))
    assert [value for value in naming if value not in found[0].message] == []


class Period(NodeParams):
    first: int = 0
    last: int = 9

    @model_validator(mode="after")
    def in_order(self) -> Period:
        if self.first > self.last:
            raise BadInput("last is before first; give a later one", field="last")
        return self


def test_a_check_of_several_fields_names_the_one_to_change():
    catalog = {**CATALOG, "read": replace(fakes.READ, params=Period, check=None)}
    found = find_problems(make({"x": Node(type="read", params={"first": 20})}), catalog)
    problems(found, (BadParam, "x", "last"))
    assert found[0].message == "last is before first; give a later one"


@pytest.mark.parametrize(
    "params",
    [
        {"depth": 3},
        {"depth": "auto"},
        {"columns": ["a", "b"]},
        {"grid": None},
        {"grid": {"low": 0, "high": 2.5}},
    ],
)
def test_right_parameters_are_no_problem(params):
    assert found(make({"a": "read", "b": node_of("learn", **params)}, "a.table > b.table")) == []


def test_a_message_says_where_what_and_how():
    pipeline = make(
        {"a": "read", "split": node_of("split", test_share=1.4)}, "a.table > split.table"
    )
    (problem,) = find_problems(pipeline, CATALOG)
    where, what, how = re.fullmatch(r"(.*): (.*); (.*)\.", str(problem)).groups()
    assert (where, "1.4" in what, "1" in how) == ("Node 'split', field 'test_share'", True, True)


def test_parameters_come_with_their_defaults():
    pipeline = make({"a": node_of("learn", columns=["x"])})
    assert params_of(pipeline, CATALOG, "a") == fakes.LearnParams(columns=("x",))


@pytest.mark.parametrize(
    ("node_id", "problem"), [("b", UnknownNode), ("unknown", UnknownType), ("wrong", BadParam)]
)
def test_parameters_that_are_not_to_be_had_are_a_problem(node_id, problem):
    pipeline = make({"unknown": "zzz", "wrong": node_of("read", rows=0)})
    with pytest.raises(InvalidPipeline) as caught:
        params_of(pipeline, CATALOG, node_id)
    assert [type(one) for one in caught.value.problems] == [problem]


# Edges

EDGES = [
    ("load.table > nowhere.table", (UnknownNode, "nowhere", None), ["'nowhere'"]),
    ("laod.table > forest2.table", (UnknownNode, "laod", None), ["'laod'", "'load'?"]),
    ("forest.model > forest.start", (SelfEdge, "forest", None), ["'forest'"]),
    (
        "load.tabel > forest2.table",
        (UnknownPort, "load", "tabel"),
        ["'load'", "'tabel'", "'table'?"],
    ),
    ("split.zzz > forest2.table", (UnknownPort, "split", "zzz"), ["'zzz'", "'train', 'test'"]),
    (
        "load.table > forest2.zzz",
        (UnknownPort, "forest2", "zzz"),
        ["'forest2'", "'zzz'", "'table', 'start'"],
    ),
    ("load.table > load2.table", (UnknownPort, "load2", "table"), ["'table'", "'load2'"]),
    (
        "load.table > forest2.start",
        (TypeMismatch, "forest2", "start"),
        ["load.table", "forest2.start", "model"],
    ),
    ("load.table > judge.results", (TypeMismatch, "judge", "results"), ["predictions or report"]),
    ("split.train > forest.table", (DuplicateEdge, "forest", "table"), []),
    ("split.test > forest.table", (PortTaken, "forest", "table"), ["'forest'", "split.train"]),
]
"""An edge, the problem it is (class, node, field), and what the message names."""


def several() -> Pipeline:
    more = {"load2": "read", "forest2": "learn"}
    good = whole()
    return good.model_copy(
        update={"nodes": good.nodes | {name: node_of(kind) for name, kind in more.items()}}
    )


@pytest.mark.parametrize(("edge", "expected", "naming"), EDGES)
def test_an_edge_that_does_not_fit_is_refused_with_both_ends_named(edge, expected, naming):
    with refused(Problem, naming=naming) as caught:
        check_connect(several(), CATALOG, edge_of(edge))
    problems([caught.value], expected)
    assert str(caught.value).startswith("Edge " + edge.replace(">", "→"))
    assert not can_connect(several(), CATALOG, edge_of(edge))


@pytest.mark.parametrize(("edge", "expected", "naming"), EDGES)
def test_the_same_edge_in_a_document_is_the_same_problem(edge, expected, naming):
    pipeline = several().model_copy(update={"edges": (*several().edges, edge_of(edge))})
    found = [one for one in find_problems(pipeline, CATALOG) if not isinstance(one, MissingInput)]
    problems(found, expected)
    assert [value for value in naming if value not in found[0].message] == []
    assert found[0].edge == edge_of(edge).names


@pytest.mark.parametrize(
    "edge",
    ["load2.table > forest2.table", "forest.model > forest2.start", "split.train > forest2.table"],
)
def test_an_edge_that_fits_may_be_drawn(edge):
    check_connect(several(), CATALOG, edge_of(edge))
    assert can_connect(several(), CATALOG, edge_of(edge))


def test_an_input_for_many_takes_many_and_other_types_it_accepts():
    pipeline = make(
        {**dict(whole().nodes), "again": "score", "last": "compare"},
        *(" > ".join(edge.names) for edge in whole().edges),
        "forest.model > again.model",
        "split.train > again.table",
        "again.predictions > judge.results",
        "judge.report > last.results",
    )
    assert found(pipeline) == []


def test_no_edge_may_be_drawn_to_a_node_of_unknown_type():
    with pytest.raises(UnknownType):
        check_connect(make({"a": "read", "b": "zzz"}), CATALOG, edge_of("a.table > b.table"))


def test_ports_of_an_unknown_type_are_not_a_second_problem():
    assert found(
        make({"a": "read", "b": "zzz", "c": "learn"}, "a.table > b.x", "b.y > c.table")
    ) == [(UnknownType, "b", "type")]


def test_a_required_input_without_an_edge_is_a_problem():
    assert found(make({"a": "read", "b": "learn", "c": "score"}, "a.table > b.table")) == [
        (MissingInput, "c", "model"),
        (MissingInput, "c", "table"),
    ]


def test_an_edge_that_does_not_fit_is_one_problem_and_not_also_a_missing_input():
    assert found(make({"b": "learn"}, "nowhere.table > b.table")) == [
        (UnknownNode, "nowhere", None)
    ]


# Cycles


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        (["a.model > b.start", "b.model > a.start"], "a → b → a"),
        (["c.model > b.start", "b.model > a.start", "a.model > c.start"], "a → c → b → a"),
        (
            ["d.model > a.start", "a.model > b.start", "b.model > c.start", "c.model > b.start"],
            "b → c → b",
        ),
    ],
)
def test_a_cycle_is_named_by_its_nodes(edges, circle):
    nodes = dict.fromkeys("abcd", "learn")
    (cycle,) = [
        one for one in find_problems(make(nodes, *edges), CATALOG) if isinstance(one, Cycle)
    ]
    assert circle in cycle.message.replace("'", "")
    assert cycle.node == circle[0]


def test_two_cycles_are_two_problems():
    edges = ["a.model > b.start", "b.model > a.start", "c.model > d.start", "d.model > c.start"]
    problems = find_problems(make(dict.fromkeys("abcd", "learn"), *edges), CATALOG)
    assert [one.node for one in problems if isinstance(one, Cycle)] == ["a", "c"]


def test_an_edge_that_would_close_a_cycle_is_refused():
    pipeline = make(dict.fromkeys("abc", "learn"), "a.model > b.start", "b.model > c.start")
    with refused(Cycle, naming=["'a' → 'b' → 'c' → 'a'"]):
        check_connect(pipeline, CATALOG, edge_of("c.model > a.start"))


def test_a_long_cycle_is_named_in_short():
    names = [f"n{i}" for i in range(3000)]
    edges = [f"{a}.model > {b}.start" for a, b in pairwise([*names, names[0]])]
    problems = find_problems(make(dict.fromkeys(names, "learn"), *edges), CATALOG)
    cycles = [one for one in problems if isinstance(one, Cycle)]
    assert len(cycles) == 1
    assert len(str(cycles[0])) < 200


# Groups


@pytest.mark.parametrize(
    ("groups", "expected", "naming"),
    [
        ([("G", "a"), ("H", "b")], [], []),
        ([("G", "a", "gone")], [(UnknownNode, None, "groups.0.nodes")], ["gone"]),
        ([("G", "a"), ("H", "b", "a")], [(GroupOverlap, "a", None)], ["'G'", "'H'"]),
        ([("G", "a", "a")], [(GroupOverlap, "a", None)], ["'G'"]),
    ],
)
def test_a_node_of_a_group_exists_and_is_in_no_other_group(groups, expected, naming):
    members = tuple(Group(title=title, nodes=tuple(nodes)) for title, *nodes in groups)
    pipeline = make({"a": "read", "b": "read"}, groups=members)
    assert found(pipeline) == expected
    text = "\n".join(map(str, find_problems(pipeline, CATALOG)))
    assert all(word in text for word in naming)


# All at once


def test_all_problems_are_found_at_once():
    pipeline = make(
        {
            "a": node_of("read", rows=0, x=1),
            "b": "splitt",
            "c": "learn",
            "d": "learn",
            "e": "score",
        },
        "a.table > c.table",
        "a.table > c.table",
        "c.model > d.start",
        "d.model > c.start",
        "c.model > e.table",
        "zzz.model > e.model",
    )
    assert [kind.__name__ for kind, _, _ in found(pipeline)] == [
        "BadParam",
        "UnknownParam",
        "UnknownType",
        "DuplicateEdge",
        "TypeMismatch",
        "UnknownNode",
        "MissingInput",
        "Cycle",
    ]


def test_a_thousand_nodes_are_checked_in_no_time():
    splits = {f"n{i}": node_of("split", test_share=0.5) for i in range(1000)}
    edges = [f"{a}.train > {b}.table" for a, b in pairwise(splits)]
    pipeline = make({"load": "read", **splits}, "load.table > n0.table", *edges)
    find_problems(make({}), CATALOG)  # networkx is loaded once
    start = time.process_time()
    assert find_problems(pipeline, CATALOG) == []
    assert time.process_time() - start < 0.5
    assert columns_at(pipeline, CATALOG)["n999"]["test"] is not None


# Sources


def test_what_is_wrong_outside_is_found_by_the_nodes_own_check(tmp_path):
    pipeline = make(
        {
            "good": "read",
            "gone": node_of("read", source="gone.csv"),
            "broken": node_of("read", source="broken"),
            "other": node_of("read", source="gone.csv", rows=0),
            "unknown": "zzz",
            "split": "split",
        }
    )
    found = find_source_problems(pipeline, CATALOG, Files(tmp_path))
    problems(found, (BadSource, "gone", "source"), (BadSource, "broken", None))
    assert "'gone.csv'" in found[0].message


def picky(needed: str):
    """A split that wants a certain column to arrive, unless it is not shuffled."""

    def rule(inputs, params):
        names = [column.name for column in inputs["table"] or ()]
        if inputs["table"] is not None and params.shuffle and needed not in names:
            raise BadInput(f"there is no column '{needed}'", field="seed")
        return {"train": inputs["table"], "test": inputs["table"]}

    return {**CATALOG, "split": replace(fakes.SPLIT, output_columns=rule)}


@pytest.mark.parametrize(
    ("needed", "edges", "named"),
    [
        ("age", ["load.table > a.table", "a.train > b.table"], []),
        (
            "height",
            ["load.table > a.table", "a.train > b.table"],
            ["a"],
        ),  # below it nothing is known any more
        ("height", ["load.table > a.table", "load.table > b.table"], ["a", "b"]),
        ("height", [], []),
    ],
)
def test_columns_that_do_not_suit_a_node_are_a_problem_of_it(tmp_path, needed, edges, named):
    pipeline = make({"load": "read", "a": "split", "b": "split"}, *edges)
    problems = find_source_problems(pipeline, picky(needed), Files(tmp_path))
    assert [(type(one), one.node, one.field) for one in problems] == [
        (BadColumns, name, "seed") for name in named
    ]


@pytest.mark.parametrize(("shuffle", "problems"), [([True, False], 1), ([False], 0)])
def test_each_branch_of_a_sweep_must_suit_the_columns_that_arrive(tmp_path, shuffle, problems):
    split = Node(type="split", sweep=Sweep(grid={"shuffle": shuffle, "seed": [1, 2]}))
    pipeline = make({"load": "read", "split": split}, "load.table > split.table")
    assert len(find_source_problems(pipeline, picky("height"), Files(tmp_path))) == problems


def test_columns_that_differ_between_branches_are_not_known_for_certain(tmp_path):
    def rule(inputs, params):
        return {"table": (Column("age" if params.rows == 1 else "height", "number"),)}

    catalog = {**picky("height"), "read": replace(fakes.READ, output_columns=rule)}
    for rows, count in (([1, 2], 0), ([1], 1)):
        load = Node(type="read", params={"source": "there"}, sweep=Sweep(grid={"rows": rows}))
        pipeline = make({"load": load, "split": "split"}, "load.table > split.table")
        assert len(find_source_problems(pipeline, catalog, Files(tmp_path))) == count


def test_a_source_that_need_not_be_looked_at_is_not_asked_for_columns(tmp_path):
    def source(params, files):
        raise AssertionError("it was looked at")

    def rule(inputs, params):
        return {"table": inputs.get(SOURCE_COLUMNS)}

    catalog = {
        **picky("height"),
        "read": replace(fakes.READ, source_columns=source, output_columns=rule),
    }
    pipeline = make({"load": "read", "split": "split"}, "load.table > split.table")
    assert find_source_problems(pipeline, catalog, Files(tmp_path), lambda *_: {}) == []


# For the canvas and for forms


def test_the_rules_for_edges_are_plain_data():
    rules = connection_rules(CATALOG)
    assert json.loads(json.dumps(rules)) == rules
    assert rules["compare"]["inputs"] == [
        {
            "name": "results",
            "title": "results",
            "type": "predictions",
            "accepts": ["predictions", "report"],
            "many": True,
            "required": True,
        }
    ]
    assert rules["split"]["outputs"][0] == {"name": "train", "title": "train", "type": "table"}


def test_columns_are_known_along_the_edges_as_far_as_rules_tell():
    columns = columns_at(whole(), CATALOG)
    table = (Column("age", "number"), Column("income", "category", "target"))
    assert columns == {
        "load": {"table": table},
        "split": {"train": table, "test": table},
        "forest": {"model": None},
        "apply": {"predictions": None},
        "judge": {"report": None},
    }


def test_columns_are_unknown_behind_a_problem():
    pipeline = make(
        {
            "bad": node_of("read", rows=0),
            "a": "split",
            "b": "split",
            "c": "split",
            "d": "zzz",
            "e": "split",
        },
        "bad.table > a.table",
        "b.train > c.table",
        "c.train > b.table",
        "d.x > e.table",
    )
    assert columns_at(pipeline, CATALOG) == {
        "bad": {"table": None},
        "a": {"train": None, "test": None},
        "b": {"train": None, "test": None},
        "c": {"train": None, "test": None},
        "d": {},
        "e": {"train": None, "test": None},
    }


def test_what_is_outside_reaches_the_rule_of_its_node_and_flows_on(tmp_path):
    def source(params, files):
        if params.source == "broken":
            raise RuntimeError("the source itself fails")
        return (Column(f"{params.source} in {files.workspace.name}", "number"),)

    def rule(inputs, params):
        return {"table": inputs.get(SOURCE_COLUMNS)}

    catalog = {**CATALOG, "read": replace(fakes.READ, source_columns=source, output_columns=rule)}
    pipeline = make(
        {
            "load": node_of("read", source="x"),
            "split": "split",
            "bad": node_of("read", source="broken"),
        },
        "load.table > split.table",
    )
    table = (Column(f"x in {tmp_path.name}", "number"),)
    assert columns_at(pipeline, catalog, Files(tmp_path)) == {
        "load": {"table": table},
        "split": {"train": table, "test": table},
        "bad": {"table": None},
    }
    assert columns_at(pipeline, catalog)["load"] == {"table": None}
