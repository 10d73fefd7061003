"""Expanded sweeps: which nodes there are, their edges and names, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import Field

from engine.edits import apply_branch, revise_sweep, set_sweep
from engine.errors import BadParam, BadSweep, InvalidPipeline, Problem, UnknownParam, UnknownType
from engine.node_types import Branch, NodeCatalog, NodeParams, NodeType, Port
from engine.pipeline import Node, Pipeline, Sweep
from engine.pipeline_file import dumps, parse
from engine.plan import RunOptions, cache_key, make_plan
from engine.sweeps import (
    axes_of,
    branch_count,
    branch_label,
    combinations,
    expand,
    expand_past,
    has_evaluation,
    param_label,
    param_title,
    with_choices,
)
from engine.validation import find_problems
from tests.engine.fakes import LEARN, READ, SCORE, SPLIT, edge_of, node_of
from tests.expect import problems, refused
from ui.cli.commands import _with_overrides, _with_sweeps


class JudgeParams(NodeParams):
    name: str = Field("", max_length=200)
    threshold: float | None = None


class RankParams(NodeParams):
    metric: str = "auc"


def _no_run(*_: Any) -> dict[str, Any]:
    raise AssertionError("these tests run no node")


JUDGE = NodeType(
    "judge", "Judge", "Evaluate", "Judges.", 1, JudgeParams, _no_run,
    inputs=(Port("predictions", "predictions"),),
    outputs=(Port("report", "report", role="evaluation"),),
)  # fmt: skip
RANK = NodeType(
    "rank", "Rank", "Evaluate", "Ranks.", 1, RankParams, _no_run,
    inputs=(Port("reports", "report", many=True, role="evaluation"),),
    outputs=(Port("report", "report"),),
)  # fmt: skip
PICK = NodeType(
    "pick", "Pick", "Evaluate", "Picks.", 1, RankParams, _no_run,
    inputs=(Port("models", "model", many=True, role="evaluation"), Port("table", "table")),
    outputs=(Port("model", "model"), Port("report", "report")),
)  # fmt: skip
KEEP = NodeType(
    "keep", "Keep", "Save", "Keeps.", 1, JudgeParams, _no_run, inputs=(Port("model", "model"),),
    cacheable=False,
    outputs=(Port("report", "report"),),
)  # fmt: skip
CATALOG = NodeCatalog([READ, SPLIT, LEARN, SCORE, JUDGE, PICK, RANK, KEEP])

CHAIN = (
    "load.table > split.table",
    "split.train > forest.table",
    "forest.model > apply.model",
    "split.test > apply.table",
    "apply.predictions > judge.predictions",
)


def pipeline(*more: str, sweeps: dict[str, Any] | None = None, **others: str | Node) -> Pipeline:
    """Load, split, forest, apply, judge, and others; ``sweeps`` gives nodes their sweeps."""
    kinds: dict[str, str | Node] = {
        "load": "read",
        "split": "split",
        "forest": "learn",
        "apply": "score",
    }
    nodes = {
        name: kind if isinstance(kind, Node) else node_of(kind)
        for name, kind in {**kinds, "judge": "judge", **others}.items()
    }
    for name, sweep in (sweeps or {}).items():
        nodes[name] = nodes[name].model_copy(update={"sweep": sweep_of(sweep)})
    return Pipeline(
        name="Test", nodes=nodes, edges=tuple(edge_of(edge) for edge in (*CHAIN, *more))
    )


def written(pipeline: Pipeline, catalog: NodeCatalog) -> Pipeline:
    return expand(pipeline, catalog).pipeline


def sweep_of(data: dict[str, Any]) -> Sweep:
    return Sweep.model_validate(data if {"grid", "random"} & set(data) else {"grid": data})


def edges(pipeline: Pipeline) -> set[str]:
    return {f"{edge.source} > {edge.target}" for edge in pipeline.edges}


def said(problems: Iterable[Any]) -> list[tuple[str | None, str | None]]:
    return [(problem.node, problem.field) for problem in problems]


TREES = {"trees": [5, 10]}
BOTH = {"trees": [5, 10], "loss": ["log", "hinge"]}


# What the command line sets


SETTABLE: list[tuple[dict[str, Any], list[str], dict[str, Any] | None, dict[str, Any]]] = [
    (TREES, ["forest.trees=7"], None, {"trees": 7}),
    (BOTH, ["forest.trees=7"], {"grid": {"loss": ["log", "hinge"]}}, {"trees": 7}),
    (BOTH, ["forest.trees=7", "forest.loss=log"], None, {"trees": 7, "loss": "log"}),
    (BOTH, ["forest.seed=7"], {"grid": BOTH}, {"seed": 7}),
    ({"trees": [5], "trees.0": [1], "treesize": [2]}, ["forest.trees=7"],
     {"grid": {"treesize": [2]}}, {"trees": 7}),
    ({"random": {"trees": [5, 6], "loss": ["log"]}, "trials": 3}, ["forest.loss=log"],
     {"random": {"trees": [5, 6]}, "trials": 3}, {"loss": "log"}),
]  # fmt: skip


@pytest.mark.parametrize(("sweep", "settings", "left", "params"), SETTABLE)
def test_what_is_set_is_not_swept(sweep, settings, left, params):
    forest = _with_overrides(pipeline(sweeps={"forest": sweep}), settings).nodes["forest"]
    assert forest.sweep == (None if left is None else Sweep.model_validate(left))
    assert forest.params == params


def test_what_is_set_and_then_swept_is_swept_by_the_new_values_alone():
    document = _with_overrides(pipeline(sweeps={"forest": BOTH}), ["forest.trees=7"])
    assert _with_sweeps(document, ["forest.trees=8,9"]).nodes["forest"].sweep == sweep_of(
        {"loss": ["log", "hinge"], "trees": [8, 9]}
    )


# What it is written out as


def test_a_pipeline_without_sweeps_is_written_out_as_it_is():
    document = pipeline()
    assert written(document, CATALOG) is document
    assert expand(document, CATALOG).copies["forest"] == ("forest",)


@pytest.mark.parametrize(
    ("document", "nodes"),
    [
        (
            pipeline(sweeps={"forest": TREES}),
            "load split forest-1 forest-2 apply-1 apply-2 judge-1 judge-2 leaderboard",
        ),
        (
            pipeline("judge.report > rank.reports", rank="rank", sweeps={"forest": TREES}),
            "load split forest-1 forest-2 apply-1 apply-2 judge-1 judge-2 rank",
        ),
        (
            pipeline(sweeps={"judge": {"threshold": [0.1, 0.5]}}),
            "load split forest apply judge-1 judge-2 leaderboard",
        ),
        (  # a sweep below a sweep: the product
            pipeline(sweeps={"split": {"seed": [1, 2]}, "forest": TREES}),
            "load split-1 split-2 forest-1-1 forest-1-2 forest-2-1 forest-2-2 "
            "apply-1-1 apply-1-2 apply-2-1 apply-2-2 judge-1-1 judge-1-2 judge-2-1 judge-2-2 "
            "leaderboard",
        ),
        (  # names that are there already stay what they are
            pipeline(sweeps={"forest": TREES}, leaderboard="rank", **{"forest-1": "learn"}),
            "load split forest-1_2 forest-2 apply-1 apply-2 judge-1 judge-2 leaderboard forest-1 "
            "leaderboard_2",
        ),
        (pipeline(sweeps={"load": {"source": ["there"]}}),
         "load-1 split-1 forest-1 apply-1 judge-1 leaderboard"),
    ],
)  # fmt: skip
def test_the_node_and_all_below_it_are_copied_up_to_where_the_branches_meet(
    document: Pipeline, nodes: str
):
    assert list(written(document, CATALOG).nodes) == nodes.split()


def test_copies_are_connected_with_their_own_branch_and_with_what_all_share():
    document_after = written(
        pipeline("judge.report > rank.reports", rank="rank", sweeps={"forest": TREES}), CATALOG
    )
    assert edges(document_after) == {
        "load.table > split.table",
        "split.train > forest-1.table", "split.train > forest-2.table",
        "forest-1.model > apply-1.model", "forest-2.model > apply-2.model",
        "split.test > apply-1.table", "split.test > apply-2.table",
        "apply-1.predictions > judge-1.predictions", "apply-2.predictions > judge-2.predictions",
        "judge-1.report > rank.reports", "judge-2.report > rank.reports",
    }  # fmt: skip
    assert find_problems(document_after, CATALOG) == []


def test_where_two_sweeps_cross_each_copy_reads_the_points_it_stands_for():
    document_after = written(pipeline(sweeps={"split": {"seed": [1, 2]}, "forest": TREES}), CATALOG)
    assert {"split-2.train > forest-2-1.table", "split-2.test > apply-2-1.table"} <= edges(
        document_after
    )
    assert "split-1.test > apply-2-1.table" not in edges(document_after)
    assert document_after.nodes["forest-2-1"].params == {"trees": 5}
    assert document_after.nodes["split-2"].params == {"seed": 2}
    assert find_problems(document_after, CATALOG) == []


def test_independent_sweeps_meet_in_one_leaderboard():
    wires = ("load.table > other.table", "other.model > try.model", "split.test > try.table",
             "try.predictions > verdict.predictions")  # fmt: skip
    sweeps = {"forest": TREES, "other": {"trees": [1, 2, 3]}}
    document_after = written(
        pipeline(*wires, other="learn", **{"try": "score"}, verdict="judge", sweeps=sweeps),
        CATALOG,
    )
    gathered = [
        edge.source.node for edge in document_after.edges if edge.target.node == "leaderboard"
    ]
    assert gathered == ["judge-1", "judge-2", "verdict-1", "verdict-2", "verdict-3"]


def test_a_node_where_branches_meet_can_itself_be_swept():
    document = pipeline(
        "judge.report > rank.reports",
        rank="rank",
        sweeps={"forest": TREES, "rank": {"metric": ["auc", "ks"]}},
    )
    document_after = written(document, CATALOG)
    assert [str(edge.target) for edge in document_after.edges if edge.source.node == "judge-2"] == [
        "rank-1.reports", "rank-2.reports",
    ]  # fmt: skip


def test_a_plain_evaluation_is_not_drawn_into_the_leaderboard_of_a_sweep():
    wires = ("load.table > other.table", "other.model > try.model", "split.test > try.table",
             "try.predictions > verdict.predictions")  # fmt: skip
    document = pipeline(
        *wires, other="learn", **{"try": "score"}, verdict="judge", sweeps={"forest": TREES}
    )
    assert not any(edge.source.node == "verdict" for edge in written(document, CATALOG).edges)


def test_without_an_evaluation_below_there_is_no_leaderboard():
    document = Pipeline(
        name="x",
        nodes={"load": node_of("read"), "forest": Node(type="learn", sweep=sweep_of(TREES))},
        edges=(edge_of("load.table > forest.table"),),
    )
    assert list(written(document, CATALOG).nodes) == ["load", "forest-1", "forest-2"]
    assert not has_evaluation(document, CATALOG, "forest")
    assert has_evaluation(pipeline(sweeps={"forest": TREES}), CATALOG, "forest")


def test_branches_meet_where_one_of_their_models_is_picked_and_what_follows_runs_once():
    document = Pipeline(
        name="x",
        nodes={
            "load": node_of("read"),
            "split": node_of("split", seed=1),
            "forest": Node(type="learn", sweep=sweep_of(TREES)),
            "pick": node_of("pick"),
            "apply": node_of("score"),
            "judge": node_of("judge"),
            "keep": node_of("keep"),
        },
        edges=tuple(
            edge_of(edge)
            for edge in (
                "load.table > split.table",
                "split.train > forest.table",
                "forest.model > pick.models",
                "split.test > pick.table",
                "pick.model > apply.model",
                "split.test > apply.table",
                "apply.predictions > judge.predictions",
                "pick.model > keep.model",
            )
        ),
    )
    assert find_problems(document, CATALOG) == [], "a model that is picked can be kept"
    assert has_evaluation(document, CATALOG, "forest")
    plan = make_plan(document, CATALOG, RunOptions())
    assert " ".join(plan.steps) == "load split forest-1 forest-2 pick apply judge keep"
    assert [branch and branch.title() for branch in plan.steps["pick"].branches["models"]] == [
        "Learn trees=5",
        "Learn trees=10",
    ]
    assert plan.steps["judge"].branch is None


# What the copies say


def test_labels_and_names_say_which_branch_it_is():
    document_after = written(pipeline(sweeps={"forest": BOTH}), CATALOG)
    assert document_after.nodes["forest-2"].label == "Learn trees=5 loss=hinge"
    assert document_after.nodes["apply-3"].label == "Score trees=10 loss=log"
    branches = expand(pipeline(sweeps={"forest": BOTH}), CATALOG).branches
    assert branches["judge-4"].title() == "Learn trees=10 loss=hinge"
    assert branches["judge-2"].values == {"trees": 5, "loss": "hinge"}
    assert (
        document_after.nodes["judge-2"].params == document_after.nodes["leaderboard"].params == {}
    )


def test_a_name_of_ones_own_stays_in_front():
    assert Branch("Learn", "seed=7", {}, {}).title("Mine") == "Mine seed=7"
    assert len(Branch("Learn", "x" * 300, {}, {}).title("Mine")) == 200


def test_two_sweeps_of_the_same_setting_are_told_apart_by_their_nodes():
    more = pipeline("forest.model > again.start", "load.table > again.table", again="learn",
                    sweeps={"forest": TREES, "again": {"trees": [1]}})  # fmt: skip
    written = expand(more, CATALOG)
    assert written.values["again-2-1"] == {"forest": {"trees": 10}, "again": {"trees": 1}}
    assert written.pipeline.nodes["again-2-1"].label == "Learn trees=10 trees=1"


class Leaf(NodeParams):
    min_rows: int = Field(1, title="Rows a leaf")
    gamma: float = 1.0


class Titled(NodeParams):
    gamma: float = Field(0.5, title="Target margin γ")
    alpha: float = Field(0.1, title="Penalty")
    c: float = Field(1.0, title="C")
    max_depth: int | None = Field(None, title="Depth")
    plain: int = 1
    leaves: list[Leaf | JudgeParams] = Field(default_factory=list, title="Leaves")


TITLED = [
    ("gamma", "Target margin γ", "γ"),
    ("alpha", "Penalty", "penalty"),
    ("c", "C", "C"),
    ("max_depth", "Depth", "depth"),
    ("plain", "", "plain"),
    ("leaves.0.min_rows", "Rows a leaf", "rows a leaf"),
    ("leaves.0.gamma", "", "γ"),
    ("unknown.0.trees", "", "trees"),
]


@pytest.mark.parametrize(("param", "title", "words"), TITLED)
def test_a_setting_is_called_as_the_form_calls_it(param: str, title: str, words: str):
    node_type = replace(LEARN, params=Titled)
    assert (param_title(param, node_type), param_label(param, node_type)) == (title, words)
    assert branch_label({param: 2}, node_type) == f"{words}=2"


@pytest.mark.parametrize(
    ("sweeps", "titles"),
    [
        ({"forest": {"gamma": [1.0], "plain": [1]}}, {"gamma": "Target margin γ"}),
        (
            {"forest": {"gamma": [1.0]}, "again": {"gamma": [2.0]}},
            {"forest.gamma": "Target margin γ (forest)", "again.gamma": "Target margin γ (again)"},
        ),
        (
            {"forest": {"leaves.0.min_rows": [1], "leaves.1.min_rows": [2]}},
            {},
        ),  # their paths differ
    ],
)
def test_a_branch_has_the_titles_of_its_columns(sweeps: dict[str, Any], titles: dict[str, str]):
    catalog = NodeCatalog([READ, SPLIT, replace(LEARN, params=Titled), SCORE, JUDGE, RANK])
    leaves: Any = {"leaves": [{}, {}]}
    document = pipeline(
        "forest.model > again.start", "load.table > again.table", "again.model > late.model",
        "split.test > late.table", "late.predictions > verdict.predictions",
        forest=Node(type="learn", params=leaves), again=Node(type="learn", params=leaves),
        late="score",
        verdict="judge", sweeps=sweeps,
    )  # fmt: skip
    plan = make_plan(document, catalog, RunOptions())
    [branch] = plan.steps["leaderboard"].branches["reports"][:1]
    assert (
        branch is not None
        and plan.steps["verdict-" + "-".join("1" * len(sweeps))].branch is not None
    )
    verdict = plan.steps["leaderboard"].branches["reports"][-1]
    assert verdict is not None and verdict.titles == titles


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gamma": 0.6, "mu": 0.1}, "γ=0.6 μ=0.1"),
        ({"learners.0.trees": 50}, "trees=50"),
        ({"depth": None, "on": True, "name": ""}, "depth=none on=yes name=(empty)"),
        ({"learners": [{"kind": "mart"}, {"kind": "forest", "trees": 5}]}, "learners=mart+forest"),
        ({"layers": [100, 50]}, "layers=[100, 50]"),
        ({"note": "x" * 60}, f"note={'x' * 27}…"),
        ({"rate": 0.1 + 0.2}, "rate=0.3"),
    ],
)
def test_a_branch_in_a_few_words(values: dict[str, Any], words: str):
    assert branch_label(values) == words


def test_branches_that_would_be_called_the_same_are_numbered_and_lines_stay_one():
    columns = [["a" * 40, "b"], ["a" * 40, "c"]]
    document_after = written(pipeline(sweeps={"forest": {"columns": columns}}), CATALOG)
    assert [document_after.nodes[f"forest-{n}"].label[-2:] for n in (1, 2)] == ["#1", "#2"]
    text = written(pipeline(sweeps={"load": {"source": ["there\nor not"]}}), CATALOG)
    assert text.nodes["load-1"].label == "Read source=there or not"


# Combinations


def drawn(**sweep: Any) -> list[dict[str, Any]]:
    return combinations("forest", Node(type="learn", sweep=Sweep.model_validate(sweep)), CATALOG)


def test_a_grid_has_every_combination_the_last_setting_changing_fastest():
    assert drawn(grid=BOTH) == [
        {"trees": 5, "loss": "log"}, {"trees": 5, "loss": "hinge"},
        {"trees": 10, "loss": "log"}, {"trees": 10, "loss": "hinge"},
    ]  # fmt: skip


def test_random_draws_are_different_within_limits_and_the_same_each_time():
    sweep: dict[str, Any] = {
        "random": {"trees": {"from": 1, "to": 9}, "loss": ["log", "hinge"]},
        "trials": 6,
    }
    first = drawn(**sweep)
    assert len(first) == 6 == len({json.dumps(values) for values in first})
    assert all(isinstance(values["trees"], int) and 1 <= values["trees"] <= 9 for values in first)
    assert drawn(**sweep) == first
    assert drawn(**sweep, seed=1) != first
    assert len(drawn(random={"trees": {"from": 3, "to": 5}}, trials=50)) == 3  # there are no more
    assert len(drawn(random={"loss": ["log", "hinge"]}, trials=50)) == 2


def test_a_setting_that_takes_fractions_gets_fractions_though_its_ends_are_whole():
    node = Node(
        type="split", sweep=Sweep.model_validate({"random": {"test_share": {"from": 0, "to": 1}}})
    )
    shares = [values["test_share"] for values in combinations("split", node, CATALOG)]
    assert len(shares) == 10
    assert all(0 <= share <= 1 and share != int(share) for share in shares)


def test_a_logarithmic_range_has_as_many_small_values_as_large():
    values = [
        each["trees"]
        for each in drawn(random={"trees": {"from": 1, "to": 10**9, "log": True}}, trials=100)
    ]
    assert 0.35 < sum(value <= 31_623 for value in values) / len(values) < 0.65


def test_a_setting_inside_another_is_reached_by_its_place():
    node = Node(
        type="learn",
        params={"grid": {"low": 0.1}},
        sweep=sweep_of({"grid": {"grid.low": [0.2, 0.3]}}),
    )
    document_after = written(pipeline(forest=node), CATALOG)
    assert document_after.nodes["forest-2"].params == {"grid": {"low": 0.3}}


@pytest.mark.parametrize(
    ("sweep", "count"),
    [
        (BOTH, 4),
        ({"random": {"loss": ["log", "hinge"]}}, 2),
        ({"random": {"trees": {"from": 1, "to": 9}}}, 10),
    ],
)
def test_how_many_there_will_be_is_known_beforehand(sweep: dict[str, Any], count: int):
    assert branch_count(sweep_of(sweep)) == count


# What is refused


@pytest.mark.parametrize(
    ("sweep", "kind", "field", "naming"),
    [
        ({"grid": {}}, BadSweep, "sweep", ""),
        ({"grid": {"trees": [1]}, "random": {"loss": ["log"]}}, BadSweep, "sweep", ""),
        ({"trees": []}, BadSweep, "sweep.grid.trees", ""),
        ({"trees": [5, 5.0]}, BadSweep, "sweep.grid.trees", "5"),
        ({"trees": [5, 0]}, BadParam, "sweep.grid.trees", "0"),
        ({"trees": [5, "many"]}, BadParam, "sweep.grid.trees", "'many'"),
        ({"loss": ["log", "lgo"]}, BadParam, "sweep.grid.loss", "'lgo'"),
        ({"tree": [1, 2]}, UnknownParam, "sweep.grid.tree", "'trees'?"),
        ({"columns.0": ["a", "b"]}, BadSweep, "sweep.grid.columns.0", "'columns'"),
        ({"grid": {"grid": [None], "grid.low": [1]}}, BadSweep, "sweep.grid.grid.low", "'grid'"),
        ({"random": {"trees": {"from": 9, "to": 1}}}, BadSweep, "sweep.random.trees", "9"),
        (
            {"random": {"trees": {"from": 0, "to": 1, "log": True}}},
            BadSweep,
            "sweep.random.trees",
            "'log'",
        ),
        (
            {"trees": list(range(1, 21)), "depth": list(range(1, 21))},
            BadSweep,
            "sweep",
            "20 × 20 = 400",
        ),
    ],
)
def test_what_is_wrong_with_a_sweep_is_said_of_node_and_field(
    sweep: dict[str, Any], kind: type[Problem], field: str, naming: str
):
    (problem,) = found = find_problems(pipeline(sweeps={"forest": sweep}), CATALOG)
    problems(found, (kind, "forest", field))
    assert naming in str(problem)


def test_all_problems_of_all_branches_come_at_once_each_once():
    problems = find_problems(
        pipeline(
            sweeps={"forest": {"trees": [0, 5, "x"], "loss": ["log", "no"]}, "split": {"sed": [1]}}
        ),
        CATALOG,
    )
    assert said(problems) == [
        ("split", "sweep.grid.sed"),
        ("forest", "sweep.grid.trees"), ("forest", "sweep.grid.loss"),
        ("forest", "sweep.grid.trees"),
    ]  # fmt: skip
    assert isinstance(problems[0], UnknownParam)


def test_a_setting_that_must_be_given_may_be_given_by_the_sweep_alone():
    node = Node(type="read", sweep=sweep_of({"source": ["there", "here"]}))
    assert find_problems(pipeline(load=node), CATALOG) == []
    wrong = Node(
        type="read",
        params={"source": "x", "rows": 0},
        sweep=sweep_of({"source": ["there", "here"]}),
    )
    assert said(find_problems(pipeline(load=wrong), CATALOG)) == [("load", "rows")]


def test_a_node_run_for_its_effect_is_refused_in_a_branch_and_welcome_elsewhere():
    swept = pipeline("forest.model > keep.model", keep="keep", sweeps={"forest": TREES})
    (problem,) = find_problems(swept, CATALOG)
    assert isinstance(problem, BadSweep)
    assert problem.node == "keep"
    assert "'forest'" in problem.message
    beside = pipeline(
        "other.model > keep.model", "load.table > other.table",
        keep="keep", other="learn", sweeps={"forest": TREES},
    )  # fmt: skip
    assert find_problems(beside, CATALOG) == []


def test_sweeps_that_multiply_beyond_measure_are_refused_where_they_meet():
    many = list(range(1, 21))
    (problem,) = find_problems(
        pipeline(sweeps={"split": {"seed": many}, "forest": {"trees": many}}), CATALOG
    )
    assert problem.node == "forest"
    assert all(each in problem.message for each in ("'split' and 'forest'", "20 × 20 = 400"))


def test_a_sweep_of_an_unknown_type_says_just_that():
    (problem,) = [
        one
        for one in find_problems(pipeline(odd=Node(type="odd", sweep=sweep_of(TREES))), CATALOG)
        if one.node == "odd"
    ]
    assert isinstance(problem, UnknownType)


def test_a_cycle_below_a_sweep_is_told_and_nothing_hangs():
    document = pipeline(
        "forest.model > other.start", "other.model > forest.start", "split.train > other.table",
        other="learn", sweeps={"forest": TREES},
    )  # fmt: skip
    assert [problem.code for problem in find_problems(document, CATALOG)] == ["cycle"]


def test_a_run_of_the_past_that_cannot_be_told_any_more_is_shown_as_it_was():
    document = pipeline(odd=Node(type="odd", sweep=sweep_of(TREES)))
    assert expand_past(document, CATALOG).pipeline is document
    with pytest.raises(InvalidPipeline):
        written(document, CATALOG)


# In a file, and edited


@pytest.mark.parametrize(
    "sweep",
    [
        {"grid": {"trees": [5, 10], "depth": ["auto", 3]}},
        {"random": {"trees": {"from": 3, "to": 12}, "loss": ["log"]}, "trials": 6, "seed": 3},
        {"random": {"trees": {"from": 0.5, "to": 12.5, "log": True}}},
    ],
)
def test_a_sweep_is_written_as_it_was_read(sweep: dict[str, Any]):
    text = dumps(pipeline(sweeps={"forest": sweep}))
    assert json.loads(text)["nodes"]["forest"]["sweep"] == sweep
    assert dumps(parse(text)) == text


@pytest.mark.parametrize(
    ("sweep", "field"),
    [
        ({"grid": {"trees": 5}}, "sweep.grid.trees"),
        ({"random": {"trees": 5}}, "sweep.random.trees"),
        ({"random": {"trees": {"from": 1}}}, "sweep.random.trees.to"),
        ({"random": {"trees": {"from": 1, "to": 2, "by": 1}}}, "sweep.random.trees.by"),
        ({"random": {"trees": [1]}, "trials": 0}, "sweep.trials"),
        ({"random": {"trees": [1]}, "trials": 1_000}, "sweep.trials"),
        ({"gird": {"trees": [1]}}, "sweep.gird"),
        ([], "sweep"),
    ],
)
def test_a_sweep_of_the_wrong_shape_is_refused_when_it_is_read(sweep: Any, field: str):
    data = json.loads(dumps(pipeline()))
    data["nodes"]["forest"]["sweep"] = sweep
    with pytest.raises(InvalidPipeline) as caught:
        parse(json.dumps(data))
    assert said(caught.value.problems) == [("forest", field)]


def test_a_sweep_is_edited():
    swept = set_sweep(pipeline(), "forest", sweep_of(TREES))
    more = revise_sweep(swept, "forest", lambda sweep: with_choices(sweep, "loss", ["log"]))
    assert more.nodes["forest"].sweep == sweep_of({**TREES, "loss": ["log"]})
    assert swept.nodes["forest"].sweep == sweep_of(TREES)
    assert set_sweep(more, "forest", None) == pipeline()


def test_the_values_of_a_branch_are_kept_and_the_sweep_ends():
    swept = pipeline(
        sweeps={"split": {"seed": [1, 2]}, "forest": {"trees": [50, 7], "loss": ["hinge"]}}
    )
    after = apply_branch(swept, CATALOG, expand(swept, CATALOG).values["judge-2-1"])
    assert after.nodes["forest"] == Node(
        type="learn", params={"loss": "hinge"}
    )  # 50 is the default
    assert after.nodes["split"] == Node(type="split", params={"seed": 2})
    gone = Node(type="learn", sweep=sweep_of(TREES))
    with refused(BadSweep):
        apply_branch(pipeline(forest=gone), CATALOG, {"forest": {"grid.low": 1}})


# The plan


def planned(pipeline: Pipeline, **options: Any) -> list[str]:
    return list(make_plan(pipeline, CATALOG, RunOptions(**options)).steps)


@pytest.mark.parametrize(
    ("request_", "steps"),
    [
        ({}, "load split forest-1 forest-2 apply-1 apply-2 judge-1 judge-2 leaderboard"),
        ({"to": ("forest",)}, "load split forest-1 forest-2"),
        ({"to": ("forest-2",)}, "load split forest-2"),
        (
            {"to": ("judge",)},
            "load split forest-1 forest-2 apply-1 apply-2 judge-1 judge-2 leaderboard",
        ),
        ({"to": ("judge-1",)}, "load split forest-1 apply-1 judge-1"),
    ],
)
def test_a_plan_has_all_branches_of_what_is_wanted(request_: dict[str, Any], steps: str):
    assert planned(pipeline(sweeps={"forest": TREES}), **request_) == steps.split()


def test_from_a_swept_node_all_its_branches_run_afresh():
    plan = make_plan(
        pipeline(sweeps={"forest": TREES}), CATALOG, RunOptions(force_from=("forest",))
    )
    force = {name for name, step in plan.steps.items() if step.force}
    assert force == set(plan.steps) - {"load", "split"}


def test_a_branch_has_the_key_of_a_node_that_was_given_the_same_by_hand():
    swept = make_plan(pipeline(sweeps={"forest": {"trees": [7, 50]}}), CATALOG, RunOptions()).steps
    for branch, trees in (("forest-1", {"trees": 7}), ("forest-2", {})):  # 50 is the default
        by_hand = make_plan(pipeline(forest=node_of("learn", **trees)), CATALOG, RunOptions()).steps
        keys = {
            cache_key(step.type, step.params, {"table": ["digest"]}, {"table": [source]})
            for step, source in ((swept[branch], "split"), (by_hand["forest"], "other"))
        }
        assert len(keys) == 1


def test_nodes_on_no_axis_are_left_as_they_are():
    document = pipeline(sweeps={"forest": TREES})
    assert axes_of(document, CATALOG) == {
        "load": (), "split": (), "forest": ("forest",), "apply": ("forest",), "judge": ("forest",),
    }  # fmt: skip
    assert written(document, CATALOG).nodes["split"] == document.nodes["split"]
