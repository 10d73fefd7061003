"""Choose the best model: on validation rows, by cross-validation, in a sweep, with bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.node_types import Branch, NodeContext
from engine.testing import check_node
from engine.values import Folder, Report, Table
from nodes import mart
from nodes.choose_best import FOLDS, NODE
from tests.command_line import Sylva
from tests.expect import refused
from tests.nodes.conftest import MODELS, make_context
from tests.test_export_python import assert_same_figures, reports_of_last_run, run_script, told

NODES: dict[str, Any] = {
    "load": {"type": "load-data", "params": {"source": "sample:breast-cancer"}},
    "split": {"type": "split", "params": {"validation_share": 0.3}},
    "mart": {
        "type": "mart",
        "params": {"min_rows": 5},
        "sweep": {"grid": {"trees": [1, 40], "leaves": [2, 8]}},
    },
    "plain": {"type": "random-forest", "params": {"trees": 5}},
    "best": {"type": "choose-best", "params": {"metric": "log_loss"}},
    "predict": {"type": "predict"},
    "evaluate": {"type": "evaluate"},
}
EDGES = [
    "load.table split.table",
    "split.train mart.table",
    "split.train plain.table",
    "mart.model best.models",
    "plain.model best.models",
    "split.validation best.table",
    "best.model predict.model",
    "split.test predict.table",
    "predict.predictions evaluate.predictions",
]


def document(**nodes: Any) -> dict[str, Any]:
    pairs = [edge.split() for edge in EDGES]
    return {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "Chosen",
        "nodes": NODES | nodes,
        "edges": [{"from": source, "to": target} for source, target in pairs],
    }


@pytest.fixture(scope="module")
def cancer(tmp_path_factory: pytest.TempPathFactory) -> Table:
    from tests.nodes.conftest import load_sample

    return load_sample(make_context(tmp_path_factory.mktemp("cancer")), "breast-cancer")


def part(table: Table, start: int, rows: int) -> Table:
    return table.with_data(table.data.slice(start, rows))


def saved(folder: Path, table: Table, kind: str = "mart", **params: Any) -> Folder:
    node, small = MODELS[kind]
    folder.mkdir()
    ctx = make_context(folder.parent)
    node.run(ctx, {"table": table}, node.params(**small | params))["model"].save(folder)
    return Folder(folder)


@pytest.fixture(scope="module")
def models(cancer: Table, tmp_path_factory: pytest.TempPathFactory) -> list[Folder]:
    """Trees that learn next to nothing, some that learn, and another kind of model."""
    at, train = tmp_path_factory.mktemp("models"), part(cancer, 0, 300)
    return [
        saved(at / "weak", train, trees=1, learning_rate=0.01),
        saved(at / "good", train, trees=40),
        saved(at / "other", train, "random-forest", trees=1, max_depth=1),
    ]


def chosen(
    ctx: NodeContext, models: list[Folder], table: Table, **params: Any
) -> tuple[Folder, Report]:
    outputs = NODE.run(ctx, {"models": models, "table": table}, NODE.params(**params))
    return outputs["model"], outputs["report"]


def test_the_node_keeps_its_promises(tmp_path, models, cancer):
    check_node(NODE, tmp_path, {"models": models, "table": part(cancer, 300, 150)})


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "auc"])
@pytest.mark.parametrize("threads", [1, 4])
def test_the_model_with_the_best_figure_on_the_rows_is_chosen(
    tmp_path, models, cancer, metric, threads
):
    rows = part(cancer, 300, 150)
    done: list[float] = []
    ctx = make_context(
        tmp_path,
        threads=threads,
        sources={"models": ["weak", "good", "other"]},
        on_progress=lambda fraction, text: done.append(fraction),
    )
    best, report = chosen(ctx, models, rows, metric=metric)
    assert best == models[1]
    assert report.kind == "comparison"
    assert report.data["nodes"][0] == "good"
    assert report.data["chosen_on"] == {"how": "validation rows", "rows": 150, "folds": None}
    assert report.headline["metric"] == metric
    assert [row["rank"] for row in report.rows] == [1, 2, 3]
    assert all(row["rows"] == 150 for row in report.rows)
    assert done[-1] == 1


def test_cross_validation_uses_the_settings_and_not_the_models(tmp_path, cancer):
    # Trained on wrong classes, the model with good settings predicts badly.
    labels = cancer.labels().to_pylist()
    flipped = np.roll(labels, 150)
    wrong = cancer.with_data(
        cancer.data.set_column(
            cancer.data.column_names.index(str(cancer.target)),
            str(cancer.target),
            pa.array(flipped).dictionary_encode(),
        )
    )
    models = [
        saved(tmp_path / "weak", cancer, trees=1, learning_rate=0.01),
        saved(tmp_path / "good", wrong, trees=40),
    ]
    table = part(cancer, 0, 300)
    ctx = make_context(tmp_path)
    best, _ = chosen(ctx, models, table, metric="log_loss")
    assert best == models[0]
    paths: list[tuple[str, ...]] = []
    ctx = replace(ctx, on_subtask=lambda path, state, seconds, worker: paths.append(path))
    best, report = chosen(ctx, models, table, metric="log_loss", how=FOLDS, folds=3)
    assert best == models[1]
    assert report.data["chosen_on"] == {"how": FOLDS, "rows": 300, "folds": 3}
    assert len(set(paths)) == 2 * 3, "each fold of each model is a subtask of its own"


def test_models_that_were_cross_validated_before_a_crash_are_not_trained_again(
    tmp_path, models, cancer, monkeypatch
):
    ctx, table = make_context(tmp_path), part(cancer, 0, 200)
    fits: list[int] = []
    fit = mart.NODE.run

    def counted(*arguments: Any) -> Any:
        fits.append(1)
        if len(fits) == 4:
            raise MemoryError
        return fit(*arguments)

    monkeypatch.setattr(mart, "NODE", replace(mart.NODE, run=counted))
    with pytest.raises(MemoryError):
        chosen(ctx, models[:2], table, how=FOLDS, folds=2)
    _, report = chosen(ctx, models[:2], table, how=FOLDS, folds=2)
    assert len(fits) == 5, "three folds were finished"
    assert len(report.rows) == 2


def test_the_values_of_a_sweep_are_columns_of_the_leaderboard(tmp_path, models, cancer):
    branches: list[Branch | None] = [
        Branch("MART", f"trees={trees}", {"trees": trees}, {"trees": "Trees"}) for trees in (1, 40)
    ]
    ctx = make_context(
        tmp_path, sources={"models": ["mart-1", "mart-2"]}, branches={"models": branches}
    )
    _, report = chosen(ctx, models[:2], part(cancer, 300, 150))
    assert [(row["name"], row["trees"]) for row in report.rows] == [
        ("MART trees=40", 40),
        ("MART trees=1", 1),
    ]
    assert report.data["titles"] == {"trees": "Trees"}
    assert report.data["details"] == ["trees"]


def test_one_model_is_chosen_from_one(ctx, models, cancer):
    best, report = chosen(ctx, models[2:], part(cancer, 300, 100))
    assert best == models[2]
    assert len(report.rows) == 1


# Bad input


def test_bad_input_is_refused_with_what_to_do(ctx, tmp_path, models, cancer, digits):
    rows = part(cancer, 300, 150)
    with refused(naming=["no model"]):
        chosen(ctx, [], rows)
    with refused(naming=["Share of validation rows", "Split"]):
        chosen(ctx, models, part(cancer, 0, 0))
    with refused(naming=["no target"]):
        chosen(ctx, models, replace(rows, target=None))
    with refused(naming=["different classes", "0", "benign"]):
        chosen(ctx, [*models, saved(tmp_path / "digits", part(digits, 0, 200))], rows)
    labels = np.array(rows.labels().to_pylist())
    benign = rows.with_data(rows.data.filter(pa.array(labels == "benign")))
    with refused(naming=["benign", "two classes"]):
        chosen(ctx, models, benign)
    with refused(field="positive", naming=["other"]):
        chosen(ctx, models, rows, positive="other")
    without = rows.with_data(rows.data.drop_columns([rows.features[0]]))
    with refused(naming=[rows.features[0], "MART"]):
        chosen(ctx, models, without)
    with refused(field="folds", naming=["20"]):
        chosen(ctx, models, part(cancer, 300, 15), how=FOLDS, folds=20)


def test_columns_that_cannot_be_used_are_a_problem_before_the_run(cancer):
    with refused(naming=["no target"]):
        assert NODE.output_columns is not None
        NODE.output_columns({"table": replace(cancer, target=None).columns}, NODE.params())
    with refused(field="folds_by", naming=["group"]):
        params = NODE.params(how=FOLDS, folds_by="group")
        NODE.output_columns({"table": cancer.columns}, params)


# In a run and as a script


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sylva, Path, dict[str, Any]]:
    """A finished run of the sweep, where validation rows and also folds choose; its file."""
    folder = tmp_path_factory.mktemp("finished")
    by_folds = {"type": "choose-best", "params": {"metric": "log_loss", "how": FOLDS, "folds": 2}}
    whole = document(by_folds=by_folds)
    for edge in [each for each in whole["edges"] if each["to"].startswith("best.")]:
        whole["edges"].append({**edge, "to": edge["to"].replace("best.", "by_folds.")})
    file = folder / "pipeline.json"
    file.write_text(json.dumps(whole))
    sylva = Sylva(folder / "workspace")
    state: dict[str, Any] = sylva.json("run", file)
    assert state["state"] == "done"
    return sylva, file, state["nodes"]


def test_a_sweep_that_ends_in_a_choice_predicts_and_evaluates_the_test_rows_once(finished):
    sylva, _, nodes = finished
    branches = [f"mart-{number}" for number in (1, 2, 3, 4)]
    others = ["load", "split", "plain", "best", "by_folds", "predict", "evaluate"]
    assert sorted(nodes) == sorted(others + branches)
    reports = reports_of_last_run(sylva.workspace)
    assert len(reports["best"].rows) == 5
    assert [name for name, each in reports.items() if each.kind == "evaluation"] == ["evaluate"]
    digests = {name: nodes[name]["outputs"]["model"] for name in (*branches, "plain")}
    best = reports["best"].data["nodes"][0]
    assert nodes["best"]["outputs"]["model"] == digests[best], "it is passed on as it is"
    assert best in branches


def test_a_script_chooses_the_models_that_a_run_chooses(finished, tmp_path):
    sylva, file, _ = finished
    script = sylva("export", file)
    assert script.count("steps.evaluate(") == 1
    printed = told(run_script(script, tmp_path / "elsewhere", tmp_path))
    reports = reports_of_last_run(sylva.workspace)
    how = [reports[name].data["chosen_on"]["how"] for name in ("best", "by_folds")]
    assert how == ["validation rows", FOLDS]
    assert_same_figures(printed, reports)
