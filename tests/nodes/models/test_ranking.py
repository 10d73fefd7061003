"""Sweeps that are ranked on test rows: found, and rewritten so that validation rows choose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import BadSweep, DataHint, RankedOnTestRows
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline, Sweep
from engine.pipeline_file import dumps, parse, read
from engine.sweeps import expand, has_evaluation
from engine.validation import find_problems
from nodes.models.ranking import RowParts, chosen_on_validation_rows, ranking_hints, rows_text
from tests.command_line import ROOT, Sylva
from tests.expect import problems

CATALOG = load_catalog()
CHAIN = """load.table split.table
split.train mart.table
mart.model predict.model
split.test predict.table
predict.predictions evaluate.predictions"""
TYPES = {
    "load": "load-data",
    "split": "split",
    "mart": "mart",
    "predict": "predict",
    "evaluate": "evaluate",
}
TREES = {"trees": [5, 10, 20]}


def pipeline(
    more: str = "",
    *,
    without: str = "",
    sweeps: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    **others: str,
) -> Pipeline:
    """Load, split, train, predict, evaluate; with more edges and nodes, and without some edges."""
    nodes = {}
    for name, node_type in {**TYPES, **others}.items():
        sweep = (sweeps or {}).get(name)
        nodes[name] = Node(
            type=node_type,
            params=(params or {}).get(name, {}),
            sweep=Sweep(grid=sweep) if sweep else None,
        )
    edges = [line for line in (*CHAIN.splitlines(), *more.splitlines()) if line.strip()]
    left = [line.split() for line in edges if line not in without.splitlines()]
    return Pipeline(name="x", nodes=nodes, edges=tuple(Edge.between(*edge) for edge in left))


def lines(document: Pipeline) -> set[str]:
    return {f"{edge.source} {edge.target}" for edge in document.edges}


def fixed(document: Pipeline, node: str = "mart") -> Pipeline:
    """The pipeline after the fix: valid, without the hint, and as a file has it."""
    result = chosen_on_validation_rows(document, CATALOG, node)
    assert result is not None
    assert find_problems(result, CATALOG) == []
    assert ranking_hints(result, CATALOG) == []
    assert parse(dumps(result)) == result
    return result


# Which rows they are


def test_rows_are_followed_from_the_split_to_where_they_are_evaluated():
    document = pipeline(
        """split.train fill.train
        split.test fill.test
        fill.test some.table
        some.table other.table
        mart.model other.model
        other.predictions second.predictions
        evaluate.report all.reports
        second.report all.reports
        mart.model folds.model
        split.train folds.table""".replace("        ", ""),
        fill="fill-missing",
        some="sample",
        other="predict",
        second="evaluate",
        all="compare",
        folds="cross-validate",
    )
    rows = RowParts(document, CATALOG)
    parts = {name: rows.evaluated(name) for name in document.nodes}
    assert parts["evaluate"] == parts["second"] == parts["all"] == {"test"}
    assert parts["folds"] == parts["mart"] == {"train"}
    assert parts["split"] == parts["load"] == set()
    assert [rows_text(parts[name]) for name in ("all", "folds", "split")] == [
        "test rows",
        "training rows",
        "rows",
    ]
    assert rows_text({"test", "train"}) == "rows"


def test_what_a_second_split_holds_out_of_training_rows_are_validation_rows():
    document = pipeline(
        "split.train inner.table\ninner.train mart.table\ninner.test predict.table",
        without="split.train mart.table\nsplit.test predict.table",
        inner="split",
        sweeps={"mart": TREES},
    )
    assert RowParts(document, CATALOG).evaluated("evaluate") == {"validation"}
    assert ranking_hints(document, CATALOG) == []


def test_a_cycle_or_an_unknown_type_hangs_nothing():
    document = pipeline("a.report b.reports\nb.report a.reports\nx.model predict.model",
                        a="compare", b="compare", x="no-such-type")  # fmt: skip
    assert RowParts(document, CATALOG).evaluated("a") == set()
    assert ranking_hints(document, CATALOG) == []


# Hints


@pytest.mark.parametrize(
    ("document", "nodes"),
    [
        (pipeline(), []),
        (pipeline(sweeps={"mart": TREES}), ["mart"]),
        (pipeline(sweeps={"split": {"seed": [1, 2]}}), ["split"]),
        (pipeline(sweeps={"evaluate": {"threshold": [0.1, 0.5]}}), ["evaluate"]),
        (pipeline(sweeps={"split": {"seed": [1, 2]}, "mart": TREES}), ["split", "mart"]),
        (
            pipeline(
                "split.validation predict.table",
                without="split.test predict.table",
                sweeps={"mart": TREES},
                params={"split": {"validation_share": 0.2}},
            ),
            [],
        ),
        (
            pipeline(
                "mart.model folds.model\nsplit.train folds.table",
                sweeps={"mart": TREES},
                folds="cross-validate",
            ),
            ["mart"],
        ),
    ],
)
def test_a_sweep_that_is_ranked_on_test_rows_is_named(document: Pipeline, nodes: list[str]):
    found = ranking_hints(document, CATALOG)
    problems(found, *((RankedOnTestRows, name, "sweep") for name in nodes))
    assert all(hint.severity == "warning" for hint in found)
    assert find_problems(document, CATALOG) == [], "it can run all the same"


def test_a_choice_on_test_rows_is_named_and_validation_rows_that_are_missing():
    edges = "mart.model best.models\nbest.model predict.model\n"
    without = "mart.model predict.model"
    wrong = pipeline(
        edges + "split.test best.table", without=without, sweeps={"mart": TREES}, best="choose-best"
    )
    problems(ranking_hints(wrong, CATALOG), (RankedOnTestRows, "best", None))
    right = fixed(wrong, "best")
    assert "split.validation best.table" in lines(right)
    assert "split.test best.table" not in lines(right)
    assert right.nodes["split"].params == {"validation_share": 0.2}
    empty = pipeline(
        edges + "split.validation best.table",
        without=without,
        sweeps={"mart": TREES},
        best="choose-best",
    )
    problems(ranking_hints(empty, CATALOG), (DataHint, "split", "validation_share"))
    assert has_evaluation(empty, CATALOG, "mart"), "the choice compares the branches"
    assert list(expand(empty, CATALOG).copies["predict"]) == ["predict"]
    assert list(expand(empty, CATALOG).copies["evaluate"]) == ["evaluate"]


# The fix


def test_the_winner_of_a_swept_learner_is_chosen_on_validation_rows():
    document = pipeline(
        "mart.model layers.model\nsplit.test layers.table\nevaluate.report all.reports\n"
        "mart.model keep.model",
        sweeps={"mart": TREES},
        params={
            "all": {"metric": "ks"},
            "evaluate": {"positive": "yes"},
            "keep": {"name": "mine"},
        },
        layers="inspect-layers",
        all="compare",
        keep="save-model",
    )
    problems(find_problems(document, CATALOG), (BadSweep, "keep", None))
    result = fixed(document)
    assert result.nodes["best"].type == "choose-best"
    assert result.nodes["best"].params == {"metric": "ks", "positive": "yes"}
    assert result.nodes["best"].label == "Best MART"
    assert result.nodes["split"].params == {"validation_share": 0.2}
    assert result.nodes["mart"] == document.nodes["mart"], "the sweep stays"
    assert lines(result) - lines(document) == {
        "mart.model best.models",
        "split.validation best.table",
        "best.model predict.model",
        "best.model layers.model",
        "best.model keep.model",
    }
    assert lines(document) - lines(result) == {
        "mart.model predict.model",
        "mart.model layers.model",
        "mart.model keep.model",
    }
    expanded = expand(result, CATALOG)
    assert [len(expanded.copies[name]) for name in ("mart", "best", "predict", "evaluate")] == [
        3, 1, 1, 1,
    ]  # fmt: skip


def test_behind_a_node_before_two_learners_each_of_them_has_its_winner():
    document = pipeline(
        """split.train fewer.table
        fewer.table mart.table
        fewer.table forest.table
        forest.model second.model
        split.test second.table
        second.predictions judged.predictions
        evaluate.report all.reports
        judged.report all.reports""".replace("        ", ""),
        without="split.train mart.table",
        sweeps={"fewer": {"columns": [5, 10]}},
        fewer="feature-selection",
        forest="random-forest",
        second="predict",
        judged="evaluate",
        all="compare",
    )
    result = fixed(document, "fewer")
    added = lines(result) - lines(document)
    assert added == {
        "mart.model best.models",
        "split.validation best.table",
        "best.model predict.model",
        "forest.model best_2.models",
        "split.validation best_2.table",
        "best_2.model second.model",
    }
    expanded = expand(result, CATALOG)
    assert len(expanded.copies["mart"]) == len(expanded.copies["forest"]) == 2
    assert expanded.copies["judged"] == ("judged",)


def test_two_sweeps_above_one_model_are_fixed_at_once():
    document = pipeline(
        "split.train fewer.table\nfewer.table mart.table",
        without="split.train mart.table",
        sweeps={"fewer": {"columns": [5, 10]}, "mart": TREES},
        fewer="feature-selection",
    )
    assert len(ranking_hints(document, CATALOG)) == 2
    assert fixed(document, "mart") == fixed(document, "fewer")


def test_rows_that_are_treated_on_the_way_are_treated_in_the_same_way():
    document = pipeline(
        "split.train fill.train\nsplit.test fill.test\n"
        "fill.train mart.table\nfill.test predict.table",
        without="split.train mart.table\nsplit.test predict.table",
        sweeps={"mart": TREES},
        fill="fill-missing",
    )
    result = fixed(document)
    assert {"split.validation fill.validation", "fill.validation best.table"} <= lines(result)
    assert result.nodes["split"].params == {"validation_share": 0.2}


def test_a_split_keeps_its_validation_rows_and_a_model_its_choice():
    document = pipeline(
        "mart.model best.models\nsplit.validation best.table",
        sweeps={"mart": TREES},
        params={"split": {"validation_rows": 50}},
        best="choose-best",
    )
    problems(ranking_hints(document, CATALOG), (RankedOnTestRows, "mart", "sweep"))
    result = fixed(document)
    assert result.nodes == document.nodes
    assert "best.model predict.model" in lines(result)


@pytest.mark.parametrize(("test_share", "share"), [(0.3, 0.2), (0.8, 0.1)])
def test_training_rows_are_left(test_share: float, share: float):
    document = pipeline(sweeps={"mart": TREES}, params={"split": {"test_share": test_share}})
    assert fixed(document).nodes["split"].params["validation_share"] == share


def test_predictions_of_validation_rows_and_cross_validation_keep_their_branches():
    document = pipeline(
        "mart.model own.model\nsplit.validation own.table\nmart.model folds.model\n"
        "split.train folds.table",
        sweeps={"mart": TREES},
        params={"split": {"validation_share": 0.2}},
        own="predict",
        folds="cross-validate",
    )
    assert {"mart.model own.model", "mart.model folds.model"} <= lines(fixed(document))


def test_new_nodes_have_a_column_of_their_own():
    sample = read(ROOT / "sample_pipelines" / "model_comparison.json")
    about = json.loads(dumps(sample))
    about["nodes"]["mart"]["sweep"] = {"grid": TREES}
    document = parse(json.dumps(about))
    result = fixed(document)
    assert result.layout["best"] == document.layout["predict_mart"]
    assert result.layout["mart"] == document.layout["mart"]
    places = list(result.layout.values())
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("document", "node"),
    [
        # The rows themselves differ between the branches.
        (pipeline(sweeps={"split": {"seed": [1, 2]}}), "split"),
        (pipeline(sweeps={"load": {"source": ["sample:iris", "sample:wine"]}}), "load"),
        # There is one model, and several evaluations of it.
        (pipeline(sweeps={"evaluate": {"threshold": [0.1, 0.5]}}), "evaluate"),
        # The test rows are treated by a node of their own.
        (
            pipeline(
                "split.test half.table\nhalf.table predict.table",
                without="split.test predict.table",
                sweeps={"mart": TREES},
                half="sample",
            ),
            "mart",
        ),
    ],
)
def test_where_a_fix_is_not_possible_the_hint_says_what_to_do(document: Pipeline, node: str):
    assert chosen_on_validation_rows(document, CATALOG, node) is None
    (hint,) = ranking_hints(document, CATALOG)
    assert hint.node == node
    assert "Cross-validate" in hint.message
    assert chosen_on_validation_rows(document, CATALOG, "no-such-node") is None


def test_the_command_prints_the_hint_and_calls_the_pipeline_valid(tmp_path):
    file = tmp_path / "pipeline.json"
    file.write_text(dumps(pipeline(sweeps={"mart": TREES})))
    sylva = Sylva(tmp_path / "workspace")
    assert "Hint: Node 'mart', field 'sweep'" in sylva("validate", file)
    facts = sylva.json("validate", file)
    assert facts["valid"]
    codes = {hint["code"]: hint["severity"] for hint in facts["hints"]}
    assert codes["ranked-on-test-rows"] == "warning"
