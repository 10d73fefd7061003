from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import NodeContext, load_catalog
from engine.store import Artifact, CacheEntry, Store
from engine.values import Costs, Folder, Predictions, Report, Table, ThresholdDecision
from engine.workspace import Files, Workspace
from nodes import NODE_TYPES, evaluate
from nodes.compare import NODE, CompareParams
from nodes.models.decision import ThresholdCounts
from tests.nodes.conftest import make_context
from ui.studio import plots
from ui.studio.previews import headline, reports
from ui.studio.previews.models import forest_record, settings
from ui.studio.previews.reports import result_of, title_in
from ui.studio.previews.tables import summarize
from ui.studio.previews.thresholds import threshold_texts
from ui.studio.widgets import as_arrow, as_csv, in_theme

ROOT = Path(__file__).parents[4]
APP = str(Path(__file__).parent / "app.py")
HOSTILE = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) **b** :red[c]"

LEARNERS = [{"kind": "random_forest", "trees": 5}, {"kind": "extra_trees", "trees": 5}]
PIPELINE = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "Every kind of output",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "sample:breast-cancer"}},
        "select": {"type": "feature-selection", "params": {"columns": 5, "trees": 10}},
        "forest": {
            "type": "deep-forest",
            "params": {"learners": LEARNERS, "folds": 2, "max_layers": 2},
        },
        "mart": {"type": "mart", "params": {"trees": 5}},
        "predict_forest": {"type": "predict"},
        "predict_mart": {"type": "predict"},
        "evaluate_forest": {"type": "evaluate"},
        "evaluate_mart": {"type": "evaluate"},
        "compare": {"type": "compare"},
        "save_model": {"type": "save-model", "params": {"name": "kept"}},
        "save_table": {"type": "save-table", "params": {"name": "kept"}},
    },
    "edges": [
        {"from": "load.table", "to": "select.table"},
        {"from": "select.table", "to": "forest.table"},
        {"from": "select.table", "to": "mart.table"},
        *({"from": "select.table", "to": f"predict_{name}.table"} for name in ("forest", "mart")),
        *({"from": f"{name}.model", "to": f"predict_{name}.model"} for name in ("forest", "mart")),
        *(
            {"from": f"predict_{name}.predictions", "to": f"evaluate_{name}.predictions"}
            for name in ("forest", "mart")
        ),
        *(
            {"from": f"evaluate_{name}.report", "to": "compare.reports"}
            for name in ("forest", "mart")
        ),
        {"from": "mart.model", "to": "save_model.model"},
        {"from": "load.table", "to": "save_table.table"},
    ],
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Workspace:
    """A workspace in which the pipeline has run."""
    root = tmp_path_factory.mktemp("previews")
    document = root / "every-kind.json"
    document.write_text(json.dumps(PIPELINE))
    command = [sys.executable, "-c", "from ui.cli import main; main()", "run", str(document)]
    environment = os.environ | {"SYLVA_WORKSPACE": str(root / "workspace")}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Workspace(root / "workspace")


@pytest.fixture(scope="module")
def outputs(workspace) -> dict[str, Artifact]:
    results = [
        CacheEntry.from_dict(json.loads(path.read_text())) for path in workspace.results.iterdir()
    ]
    return {
        f"{each.node}.{port}": output for each in results for port, output in each.outputs.items()
    }


def keep(workspace: Workspace, name: str, port_type: str, value) -> Artifact:
    """Put a value into the store as if a node had made it."""
    workspace.create()
    store = Store(workspace)
    output = store.put(port_type, value)
    store.record(CacheEntry(name, "run", name, 0.0, 0.0, {"out": output}))
    return output


def preview(monkeypatch, workspace: Workspace, name: str, tab: str | None = None) -> AppTest:
    monkeypatch.setenv("SYLVA_WORKSPACE", str(workspace.root))
    monkeypatch.setenv("PREVIEWED", name)
    test = AppTest.from_file(APP, default_timeout=30)
    if tab:
        test.session_state["preview-tabs"] = tab
    test.run()
    assert not test.exception
    return test


def plotted(test: AppTest) -> list[str]:
    """Titles of the plots on the page."""
    charts = test.get("plotly_chart")
    return [json.loads(chart.proto.spec)["layout"]["title"]["text"] for chart in charts]


def words(test: AppTest) -> str:
    return " ".join(caption.value for caption in test.caption)


CASES = [
    ("load.table", "Rows", "569 rows × 31 columns · target diagnosis", 1, []),
    ("load.table", "Columns", "569 rows × 31 columns", 1, []),
    ("load.table", "Plots", "569 rows × 31 columns", 0, ["diagnosis"]),
    ("predict_forest.predictions", "Rows", "569 rows · 2 classes · by Deep forest", 1, []),
    (
        "predict_forest.predictions",
        "Probabilities",
        "569 rows",
        0,
        ["Predicted probability of each class"],
    ),
    (
        "evaluate_forest.report",
        "Curves",
        "evaluated on 569 rows · 2 classes",
        0,
        ["ROC curve", "Precision and recall"],
    ),
    ("evaluate_forest.report", "Confusion", "most probable one", 0, ["Confusion matrix"]),
    ("evaluate_forest.report", "Classes", "evaluated on 569 rows", 1, ["Scores by class"]),
    ("compare.report", "Leaderboard", "2 models · ranked by AUC", 1, []),
    ("compare.report", "Bars", "2 models", 0, ["AUC by model"]),
    ("compare.report", "Curves", "2 models", 0, ["ROC curves", "Precision and recall"]),
    ("select.report", None, "5 of 30 columns kept", 1, ["Importance"]),
    ("save_model.report", None, "Saved 'kept'", 2, []),
    ("save_table.report", None, "Saved kept.csv", 1, []),
    (
        "forest.model",
        "Layers",
        "Deep forest · 2 classes · 5 features · trained on 569 rows",
        2,
        ["Log loss by layer"],
    ),
    ("forest.model", "Features", "Deep forest", 1, []),
    ("forest.model", "Classes", "Deep forest", 1, []),
    ("mart.model", "Settings", "MART · 2 classes", 2, []),
]


@pytest.mark.parametrize(
    ("name", "tab", "fact", "tables", "charts"), CASES, ids=lambda value: str(value)[:24]
)
def test_every_kind_of_output_of_a_real_run_is_drawn(
    monkeypatch, workspace, outputs, name, tab, fact, tables, charts
):
    test = preview(monkeypatch, workspace, name, tab)
    assert (
        not test.warning
        and test.subheader[0].value.replace("\\", "").replace(":small[]", "") == name
    )
    assert fact in words(test).replace("\\", "").replace(":small[]", "")
    assert len(test.dataframe) == tables
    assert plotted(test) == charts


def test_rows_have_the_target_first(monkeypatch, workspace, outputs):
    frame = preview(monkeypatch, workspace, "load.table").dataframe[0].value
    assert frame.shape == (200, 31) and frame.columns[0] == "diagnosis"


def test_columns_tell_missing_and_figures(monkeypatch, workspace, outputs):
    frame = (
        preview(monkeypatch, workspace, "load.table", "Columns")
        .dataframe[0]
        .value.set_index("Column")
    )
    table = Store(workspace).open(outputs["load.table"]).data.to_pandas()
    assert frame.loc["mean radius", "Largest"] == table["mean radius"].max()
    assert frame.loc["mean radius", "Median"] == table["mean radius"].median()
    assert frame.loc["diagnosis", "Values"].startswith("benign 63 %, malignant 37 %")
    assert sum(frame.loc["mean radius", "Distribution"]) == 569 and frame["Missing"].max() == 0


def test_a_column_is_chosen_and_split_by_the_target(monkeypatch, workspace, outputs):
    test = preview(monkeypatch, workspace, "load.table", "Plots")
    test.selectbox[0].select("mean radius").run()
    test.toggle[0].set_value(True).run()
    (chart,) = test.get("plotly_chart")
    assert [trace["name"] for trace in json.loads(chart.proto.spec)["data"]] == [
        "benign",
        "malignant",
    ]
    test.toggle[1].set_value(True).run()
    (chart,) = test.get("plotly_chart")
    assert json.loads(chart.proto.spec)["layout"]["yaxis"]["title"]["text"] == "Share of the class"


def test_measures_of_an_evaluation_have_names_and_explanations_and_the_best_comes_first(
    monkeypatch, workspace, outputs
):
    test = preview(monkeypatch, workspace, "evaluate_forest.report")
    report = Store(workspace).open(outputs["evaluate_forest.report"])
    assert test.metric[0].label == "AUC"
    assert (
        test.metric[0].value.replace("\\", "").replace(":small[]", "")
        == f"{report.headline['auc']:.3f}"
    )
    assert all(metric.help for metric in test.metric)
    names = [metric.label.replace("\\", "").replace(":small[]", "") for metric in test.metric]
    assert report.headline["recall_at_1_in_10000"] is None and "Recall at 1/10,000" not in names
    assert names.index("Log loss") < names.index("Threshold") < names.index("F1")


def test_accuracy_of_predictions_is_that_of_the_evaluation(monkeypatch, workspace, outputs):
    report = Store(workspace).open(outputs["evaluate_forest.report"])
    test = preview(monkeypatch, workspace, "predict_forest.predictions")
    assert test.metric[0].value.replace("\\", "") == f"{report.headline['accuracy'] * 100:.1f} %"


def test_another_measure_orders_the_bars_anew(monkeypatch, workspace, outputs):
    test = preview(monkeypatch, workspace, "compare.report", "Bars")
    test.selectbox[0].select("log_loss").run()
    (chart,) = test.get("plotly_chart")
    values = json.loads(chart.proto.spec)["data"][0]["x"]
    assert plotted(test) == ["Log loss by model"] and values == sorted(values)


def test_models_have_the_labels_of_now(monkeypatch, workspace, outputs):
    names = {"evaluate_forest": "Cascade of mine", "evaluate_mart": "Boosted"}
    monkeypatch.setenv("NAMES", json.dumps({**names, "predict_mart": "Boosted"}))
    board = preview(monkeypatch, workspace, "compare.report", "Leaderboard")
    assert set(board.dataframe[0].value["name"]) == set(names.values())
    best = Store(workspace).open(outputs["compare.report"]).data["nodes"][0]
    assert f"Best: **{names[best]}**" in board.markdown[0].value
    assert "Cascade of mine" in words(preview(monkeypatch, workspace, "evaluate_forest.report"))
    assert "by Boosted" in words(preview(monkeypatch, workspace, "predict_mart.predictions"))


def test_layers_of_a_deep_forest_are_told_with_their_learners(monkeypatch, workspace, outputs):
    test = preview(monkeypatch, workspace, "forest.model", "Layers")
    layers, learners = (each.value for each in test.dataframe)
    assert layers["Layer"].tolist() == list(range(1, len(layers) + 1)) and layers["Kept"].any()
    assert len(learners) == 2 * len(layers) and learners["Accuracy"].between(0.5, 1).all()


def test_settings_that_were_changed_are_told_first(monkeypatch, workspace, outputs):
    changed = preview(monkeypatch, workspace, "mart.model", "Settings").dataframe[0].value
    assert changed.values.tolist() == [["Trees", "5"]]


def test_a_deep_forest_is_read_without_its_trees(monkeypatch, workspace, outputs, tmp_path):
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(workspace.root, copy.root)
    output = outputs["forest.model"]
    monkeypatch.setattr("numpy.load", lambda *_, **__: pytest.fail("the trees were loaded"))
    assert len(preview(monkeypatch, copy, "forest.model", "Layers").dataframe) == 2
    assert any(name.endswith(".npz") for name in output.files)


@pytest.mark.parametrize(
    "name", ["load.table", "predict_mart.predictions", "compare.report", "mart.model"]
)
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_an_output_that_is_gone_or_damaged_is_told_plainly(
    monkeypatch, workspace, outputs, tmp_path, name, damage
):
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(workspace.root, copy.root)
    folder = copy.objects / outputs[name].digest
    if damage == "gone":
        shutil.rmtree(folder)
    else:
        file = next(folder.iterdir())
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    test = preview(monkeypatch, copy, name)
    assert len(test.warning) == 1 and not test.exception
    assert not test.dataframe and not test.get("plotly_chart")


@pytest.mark.parametrize(
    ("port_type", "value", "said"),
    [
        ("table", Table(pa.table({})), "0 rows × 0 columns"),
        ("table", Table(pa.table({"x": pa.array([], pa.float64())}), "x"), "0 rows × 1 column"),
        ("predictions", Predictions(np.empty((0, 2)), ["a", "b"], ""), "0 rows · 2 classes"),
        (
            "report",
            Report(
                "of a plugin", HOSTILE, {"a": None, "b": HOSTILE, "c": 1.5}, [{"x": 1}, {"x": "y"}]
            ),
            HOSTILE,
        ),
        ("report", Report("evaluation", "Bare", {}), "read"),
        ("report", Report("comparison", "Bare", {"best": None, "value": None}), "0 models"),
        ("table", Table(pa.table({HOSTILE: [HOSTILE, "b"]}), HOSTILE), f"target {HOSTILE}"),
        ("table", Table(pa.table({"t": ["x" * 5000]})), "1 row × 1 column"),
    ],
    ids=[
        "no columns",
        "no rows",
        "no predictions",
        "unknown report",
        "broken",
        "empty comparison",
        "hostile",
        "long",
    ],
)
def test_odd_outputs_are_drawn_without_a_traceback(monkeypatch, tmp_path, port_type, value, said):
    workspace = Workspace(tmp_path / "odd")
    keep(workspace, "odd", port_type, value)
    for tab in ("Rows", "Columns", "Plots", "Probabilities") if port_type != "report" else (None,):
        if (tab == "Probabilities") == (port_type == "predictions") or tab in ("Rows", None):
            test = preview(monkeypatch, workspace, "odd.out", tab)
            shown = " ".join([words(test), *(warning.value for warning in test.warning)])
            assert said in shown.replace("\\", "").replace(":small[]", "")
            assert HOSTILE not in shown


def test_long_texts_do_not_go_to_the_browser_whole(monkeypatch, tmp_path):
    workspace = Workspace(tmp_path / "long")
    keep(workspace, "long", "table", Table(pa.table({"t": ["x" * 5000]})))
    assert preview(monkeypatch, workspace, "long.out").dataframe[0].value[
        "t"
    ].str.len().tolist() == [200]


def test_a_foreign_model_and_layers_are_told_plainly(monkeypatch, tmp_path):
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "notes.txt").write_text("no model")
    workspace = Workspace(tmp_path / "workspace")
    keep(workspace, "foreign", "model", Folder(folder))
    test = preview(monkeypatch, workspace, "foreign.out")
    assert not test.exception and len(test.warning) == 1
    keep(workspace, "layers", "layers", Folder(folder))
    assert preview(monkeypatch, workspace, "layers.out").dataframe[0].value["File"].tolist() == [
        "notes.txt"
    ]


OPTIMISTIC_F1 = {"f1": 0.9, "threshold": 0.3, "threshold_rule": evaluate.OPTIMISTIC}
EVALUATION = {"accuracy": 0.9721, "auc": 0.97345, "positive": None}


@pytest.mark.parametrize(
    ("report", "figure"),
    [
        (Report("evaluation", "", EVALUATION | {"positive": "yes"}), ("AUC", "0.973")),
        (Report("evaluation", "", EVALUATION), ("Accuracy", "97.2 %")),
        (
            Report("evaluation", "", EVALUATION | {"positive": "yes", "auc": None}),
            ("Accuracy", "97.2 %"),
        ),
        (Report("evaluation", "", {}), ("", "")),
        (
            Report("comparison", "", {"best": "MART", "metric": "auc", "value": 0.9}),
            ("MART", "AUC 0.900"),
        ),
        (
            Report("comparison", "", {"best": "A", "metric": "auc", "value": 0.5, "tied": 2}),
            ("Tie of 3", "AUC 0.500"),
        ),
        (
            Report("comparison", "", {"best": "A", "metric": "accuracy", "value": 0.5}),
            ("A", "Accuracy 50.0 %"),
        ),
        (Report("comparison", "", {"best": "A", "metric": "auc", "value": None}), ("", "")),
        (Report("saved-model", "", {"name": "x"}), ("", "")),
    ],
)
def test_the_headline_of_a_report(report, figure):
    assert headline(report) == figure


def test_predictions_without_truth_or_with_unknown_classes_have_no_accuracy():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    assert summarize(Predictions(probabilities, ["a", "b"], "m")).known == 0
    judged = summarize(
        Predictions(probabilities, ["a", "b"], "m", pa.array(["a", "a", "never seen"]))
    )
    assert (judged.known, judged.right) == (2, 1)
    assert sum(judged.counts["a"]) == 3 and judged.counts["a"][-3:] == [0, 1, 0]


def test_settings_tell_what_was_changed_apart_and_leave_out_what_is_empty():
    mart = next(each for each in NODE_TYPES if each.name == "mart")
    changed, rest = settings({"trees": 7, "learning_rate": 0.1, "seed": None}, mart)
    assert changed == [{"Setting": "Trees", "Value": "7"}]
    assert rest == [{"Setting": "Learning rate", "Value": "0.1"}]
    of_plugin, _ = settings({"some_size": [{"kind": "a_b", "count": 2}], "on": True}, None)
    assert [row["Value"] for row in of_plugin] == ["a b, count 2", "yes"]


def test_rows_as_csv_and_as_columns():
    rows = [{"a": 1, "b": 'x,"y"'}, {"a": None, "b": None}]
    assert as_csv(rows) == 'a,b\n1,"x,""y"""\n,\n'
    mixed = as_arrow([{"x": 1}, {"x": "y"}, {"x": 10**30}])
    assert mixed.to_pydict() == {"x": ["1", "y", str(10**30)]}


def test_a_report_is_told_in_a_line_that_is_read_once(workspace, outputs, monkeypatch):
    store = Store(workspace)
    evaluation, comparison = (outputs[f"{name}.report"] for name in ("evaluate_mart", "compare"))
    auc, about = store.open(evaluation).headline["auc"], store.open(comparison).headline
    assert result_of(evaluation, store) == (f"{auc:.3f}", "AUC", "", "", 0)
    compared = result_of(comparison, store)
    best = "evaluate_forest" if about["best"] == "Deep forest" else "evaluate_mart"
    assert compared == (f"{about['value']:.3f}", "AUC", about["best"], best, about["tied"])
    first = f"tie of {1 + about['tied']}" if about["tied"] else about["best"]
    assert compared.line == f"AUC {about['value']:.3f}: {first}"
    assert result_of(outputs["select.report"], store) == ("", "", "", "", 0)
    monkeypatch.setattr(Store, "open", lambda *_: pytest.fail("read again"))
    assert result_of(evaluation, store).line == f"AUC {auc:.3f}"


def test_a_report_that_is_gone_says_nothing(tmp_path):
    gone = result_of(Artifact("report", "0" * 64, {}), Store(Workspace(tmp_path).create()))
    assert gone == ("", "", "", "", 0) and gone.line == ""


@pytest.mark.parametrize(
    ("report", "title"),
    [
        (
            Report(
                "evaluation", "", {"f1": 0.9, "threshold": 0.3}, rows=[{"class": "a", "f1": 0.8}]
            ),
            "F1 at threshold",
        ),
        (Report("evaluation", "", {"f1": 0.9, "threshold": None}), "Mean F1"),  # of several classes
        (Report("evaluation", "", OPTIMISTIC_F1), "Best F1 (optimistic)"),
        (Report("comparison", "", {}, rows=[OPTIMISTIC_F1, {"f1": None}]), "Best F1 (optimistic)"),
        (
            Report("comparison", "", {}, rows=[OPTIMISTIC_F1, {"f1": 0.9, "threshold": 0.3}]),
            "F1 (partly optimistic)",
        ),
        (
            Report("comparison", "", {}, rows=[{"f1": 0.9, "threshold": 0.3}, {"f1": None}]),
            "F1 at threshold",
        ),
        (Report("comparison", "", {}, rows=[{"f1": 0.9}]), "Mean F1"),
        (Report("comparison", "", {}, rows=[{"f1": 0.9, "threshold": 0.3}, {"f1": 0.9}]), "F1"),
    ],
)
def test_f1_is_named_by_what_it_goes_by(report, title):
    assert title_in(report, "f1") == title


@pytest.mark.parametrize(
    ("theme", "ink"), [("light", "#1f2937"), (None, "#1f2937"), ("dark", "white")]
)
def test_texts_in_cells_are_written_for_the_theme_that_is_seen(monkeypatch, theme, ink):
    monkeypatch.setattr("streamlit.context", SimpleNamespace(theme=SimpleNamespace(type=theme)))
    assert in_theme(plots.confusion_matrix(["a"], [[1]])).data[1].textfont.color == ink


def test_swept_settings_stand_on_the_leaderboard_under_their_titles(monkeypatch):
    rows = [
        {"rank": 1, "name": "a", "max_depth": 3, "odd": 1, "auc": 0.9, "positive": None, "rows": 5}
    ]
    data = {"details": ["max_depth", "odd"], "titles": {"max_depth": "Depth", "gone": "Gone"}}
    drawn = {}
    monkeypatch.setattr(
        reports, "grid", lambda rows, key, column_config: drawn.update(column_config)
    )
    reports._leaderboard(Report("comparison", "", {}, rows=rows, data=data), "k")
    assert drawn["max_depth"] == "Depth" and "odd" not in drawn and "gone" not in drawn


@pytest.mark.parametrize("kind", ["random-forest", "extra-trees"])
def test_a_single_forest_is_not_taken_for_a_deep_one(tmp_path: Path, kind: str) -> None:
    rows = Table(pa.table({"x": [1.0, 2.0] * 10, "y": ["a", "b"] * 10}), target="y")
    node_type = load_catalog()[kind]
    ctx = NodeContext("m", "0" * 64, Files(tmp_path), tmp_path)
    model = node_type.run(ctx, {"table": rows}, node_type.params(trees=2))["model"]
    model.save(tmp_path / "model")
    assert forest_record(tmp_path / "model") is None


@pytest.fixture(scope="module")
def decided(tmp_path_factory) -> Workspace:
    """A workspace with an evaluation at the threshold of a model, and one without a threshold."""
    rng = np.random.default_rng(0)
    truth = (rng.random(4_000) < 0.05).astype(np.intp)
    score = np.clip(0.2 * truth + 0.7 * rng.random(4_000), 0, 1)
    amounts = rng.integers(1, 100, 4_000).astype(float)
    decision = ThresholdDecision("yes", 0.6, "highest F1", 900, Costs(2.0, 0.0, -2.0, "amount"))
    workspace = Workspace(tmp_path_factory.mktemp("decided"))
    for name, given in (("model", decision), ("plain", None)):
        probabilities, params = np.column_stack([1 - score, score]), evaluate.EvaluateParams()
        report = evaluate.evaluation(
            "MART", truth, probabilities, ["no", "yes"], params, decision=given, amounts=amounts
        )
        certain = {"resampled": "rows", "intervals": {"f1": [0.1, 0.2], "money_saved": [3.0, 4.0]}}
        keep(workspace, name, "report", replace(report, data={**report.data, **certain}))
    return workspace


def figures(test: AppTest) -> dict[str, str]:
    return {metric.label: metric.value.replace("\\", "") for metric in test.metric}


def marks(test: AppTest) -> list[tuple[float, float]]:
    """Return the coordinates of the mark in each plot."""
    found = []
    for chart in test.get("plotly_chart"):
        for trace in json.loads(chart.proto.spec)["data"]:
            if trace.get("mode") == "markers":
                found.append((trace["x"][0], trace["y"][0]))
    return found


def test_one_slider_drives_all_figures_of_an_evaluation(monkeypatch, decided):
    test = preview(monkeypatch, decided, "model.out", "Confusion")
    assert "900 validation rows" in words(test) and "Optimistic" not in words(test)
    assert figures(test)["Threshold"] == "0.6"
    (slider,) = test.select_slider
    assert len(slider.options) <= 500
    (path,) = [path for path in decided.results.iterdir() if "model" in path.name]
    stored = CacheEntry.from_dict(json.loads(path.read_text())).outputs["out"]
    report = Store(decided).open(stored)
    counts = ThresholdCounts.from_json(report.data["thresholds"])
    for position in (3, len(counts.threshold) // 2, len(counts.threshold) - 1):
        test.select_slider[0].set_value(position).run()
        assert not test.exception and "Optimistic" in words(test)
        hits, alarms = counts.true_positives[position], counts.false_positives[position]
        shown = figures(test)
        assert shown["Threshold"] == f"{counts.threshold[position]:.4g}"
        assert shown["Precision"] == f"{100 * hits / (hits + alarms):.1f} %"
        assert shown["Recall"] == f"{100 * hits / counts.positives:.1f} %"
        assert shown["F1"] == f"{2 * hits / (hits + alarms + counts.positives):.3f}"
        money = counts.amount_found[position] - 2 * (hits + alarms)
        assert float(shown["Money saved"].replace(",", "")) == pytest.approx(money, abs=0.51)
        (chart,) = test.get("plotly_chart")
        texts = json.loads(chart.proto.spec)["data"][1]["text"]
        assert f"{hits:,}" in texts and (not alarms or f"{alarms:,}" in texts)


def test_figures_at_a_threshold_have_intervals(monkeypatch, decided):
    test = preview(monkeypatch, decided, "model.out", "Confusion")

    def intervals() -> dict[str, str]:
        return {metric.label: metric.delta for metric in test.metric if metric.delta}

    shown, low_f1 = figures(test), "0.100–0.200"
    for title in ("Precision", "Recall"):
        low, high = (float(limit) for limit in intervals()[title].removesuffix(" %").split("–"))
        assert low < float(shown[title].removesuffix(" %")) < high
    assert (intervals()["F1"], intervals()["Money saved"]) == (low_f1, "3.00–4.00")
    # Those that the node computed belong to its threshold and its costs.
    test.number_input[0].set_value(7.0).run()
    assert "Money saved" not in intervals() and intervals()["F1"] == low_f1
    test.select_slider[0].set_value(5).run()
    assert set(intervals()) >= {"Recall"} and "F1" not in intervals()


def test_the_interval_of_the_best_f1_stands_at_its_threshold(monkeypatch, decided):
    test = preview(monkeypatch, decided, "plain.out", "Confusion")

    def f1_has_interval() -> bool:
        return any(metric.label == "F1" and metric.delta for metric in test.metric)

    assert not f1_has_interval()
    next(button for button in test.button if "Highest F1" in button.label).click().run()
    assert f1_has_interval()


def test_the_mark_on_the_curves_follows_the_slider(monkeypatch, decided):
    test = preview(monkeypatch, decided, "model.out", "Curves")
    before = marks(test)
    test.select_slider[0].set_value(5).run()
    after = marks(test)
    assert len(before) == len(after) == 2 and before != after
    # Recall is the height of the ROC curve and the place on the other one.
    assert after[0][1] == after[1][0]


def test_shortcuts_move_the_slider(monkeypatch, decided):
    test = preview(monkeypatch, decided, "plain.out", "Gain and lift")
    assert figures(test)["Threshold"] == "0.5" and "most probable" in words(test)
    assert plotted(test) == ["Gain curve", "Lift curve"] and len(marks(test)) == 2
    (rate,) = [button for button in test.button if button.label == "1/100 interrupted"]
    rate.click().run()
    assert figures(test)["Interrupted"] == "1.0 %"
    (best,) = [button for button in test.button if button.label.startswith("Highest F1")]
    best.click().run()
    assert "Optimistic" in words(test)
    (start,) = [button for button in test.button if button.label == "As predicted"]
    start.click().run()
    assert figures(test)["Threshold"] == "0.5"


def test_costs_can_be_tried_without_a_run(monkeypatch, decided):
    test = preview(monkeypatch, decided, "plain.out", "Money")
    assert not plotted(test) and "Nothing is known about costs" in words(test)
    alarm, missed = (
        next(each for each in test.number_input if each.label == label)
        for label in ("Cost per false alarm", "Cost per missed positive")
    )
    missed.set_value(7.0)
    alarm.set_value(1.0).run()
    assert plotted(test) == ["Cost by interrupt rate", "Cost by threshold"]
    assert float(figures(test)["Cost"].replace(",", "")) > 0


def test_evaluations_of_an_earlier_version_are_drawn_without_a_slider(monkeypatch, tmp_path):
    truth, score = np.array([0, 1] * 20), np.linspace(0, 1, 40)
    probabilities = np.column_stack([1 - score, score])
    report = evaluate.evaluation(
        "MART", truth, probabilities, ["no", "yes"], evaluate.EvaluateParams()
    )
    data = {name: value for name, value in report.data.items() if name != "thresholds"}
    workspace = Workspace(tmp_path / "earlier")
    keep(workspace, "earlier", "report", replace(report, data=data))
    test = preview(monkeypatch, workspace, "earlier.out", "Curves")
    assert not test.select_slider and "Threshold" in figures(test)
    assert plotted(test) == ["ROC curve", "Precision and recall"]


def test_labels_of_thresholds_differ():
    close = np.array([np.inf, 0.9, 0.8000001, 0.8, 0.8 - 1e-15, 0.1])
    texts = threshold_texts(close)
    assert len(set(texts)) == len(texts) and texts[1] == "0.9" and texts[-1] == "0.1"


@pytest.mark.parametrize("calibration", ["none", "isotonic"])
@pytest.mark.parametrize("rule", ["f1", "costs"])
def test_the_choice_of_a_threshold_is_drawn(monkeypatch, tmp_path, rule, calibration):
    rng = np.random.default_rng(0)
    truth = rng.random(600) < 0.3
    table = Table(
        pa.table({"x": truth + rng.normal(size=600), "y": np.where(truth, "yes", "no")}), "y"
    )
    ctx = NodeContext("m", "0" * 64, Files(tmp_path), tmp_path)
    catalog = load_catalog()
    mart, chooser = catalog["mart"], catalog["choose-threshold"]
    (tmp_path / "model").mkdir()
    mart.run(ctx, {"table": table}, mart.params(trees=5))["model"].save(tmp_path / "model")
    inputs = {"model": Folder(tmp_path / "model"), "table": table}
    outputs = chooser.run(ctx, inputs, chooser.params(rule=rule, calibration=calibration))
    workspace = Workspace(tmp_path / "chosen")
    keep(workspace, "choice", "report", outputs["report"])
    keep(workspace, "model", "model", outputs["model"])
    drawn = {"f1": "F1", "costs": "Cost"}[rule]
    test = preview(monkeypatch, workspace, "choice.out")
    assert plotted(test) == [f"{drawn} by interrupt rate", f"{drawn} by threshold"]
    assert len(marks(test)) == 2 and "Optimistic" in words(test)
    assert result_of(keep(workspace, "again", "report", outputs["report"]), Store(workspace)).metric
    others = preview(monkeypatch, workspace, "choice.out", "Other thresholds").dataframe[0].value
    assert others["name"].tolist() == ["Chosen", "Most probable class", "Highest F1"]
    if calibration != "none":
        test = preview(monkeypatch, workspace, "choice.out", "Calibration")
        assert plotted(test) == ["Reliability"] and "5 parts" in words(test)
    sentences = words(preview(monkeypatch, workspace, "model.out")).replace("\\", "")
    assert "yes is predicted from a probability of" in sentences
    assert ("isotonic" in sentences) == (calibration == "isotonic")


def test_an_evaluation_has_the_intervals_below_its_figures(workspace, outputs, monkeypatch):
    report = Store(workspace).open(outputs["evaluate_mart.report"])
    test = preview(monkeypatch, workspace, "evaluate_mart.report")
    low, high = report.data["intervals"]["auc"]
    assert test.metric[0].label == "AUC" and test.metric[0].delta == f"{low:.3f}–{high:.3f}"
    assert "95 % interval" in words(test)


def test_a_comparison_names_a_tie_and_what_decides_it(tmp_path, monkeypatch):
    rows = [
        {"rank": 1, "name": "A", "auc": 0.91, "gain": None, "gain_high": None, "tie": None},
        {"rank": 2, "name": "B*", "auc": 0.9, "gain": -0.01, "gain_high": 0.01, "tie": True},
        {"rank": 3, "name": "C", "auc": 0.8, "gain": -0.11, "gain_high": -0.07, "tie": False},
    ]
    headline = {"best": "A", "metric": "auc", "value": 0.91, "models": 3, "tied": 1}
    data = {"metric": "auc", "decides": "About 3,000 more rows would decide."}
    report = Report("comparison", "", headline, rows=rows, data=data)
    keep(Workspace(tmp_path), "tied", "report", report)
    test = preview(monkeypatch, Workspace(tmp_path), "tied.out")
    assert any(text.value.startswith("Tie: **A**, **B\\*") for text in test.markdown)
    assert "3,000 more rows" in words(test)
    shown = test.dataframe[0].value["against the best"].tolist()
    assert shown == ["–", "tie", "0.110 ± 0.040 worse"]


def test_a_cross_validation_shows_the_figures_of_each_fold(
    monkeypatch, tmp_path, workspace, outputs
):
    report = Store(workspace).open(outputs["evaluate_mart.report"])
    folds = [{"repeat": 1, "fold": at, "rows": 9, "auc": 0.9, "ks": None} for at in (1, 2)]
    report = replace(report, data={**report.data, "folds": folds})
    keep(Workspace(tmp_path), "folds", "report", report)
    test = preview(monkeypatch, Workspace(tmp_path), "folds.out", "Folds")
    shown = test.dataframe[0].value
    assert list(shown.columns) == ["repeat", "fold", "rows", "auc"]
    assert shown["auc"].tolist() == [0.9, 0.9]
    ranked = NODE.run(make_context(tmp_path), {"reports": [report]}, CompareParams())["report"]
    keep(Workspace(tmp_path), "ranked", "report", ranked)
    test = preview(monkeypatch, Workspace(tmp_path), "ranked.out")
    assert "ranked by AUC in cross-validation" in words(test)


def test_a_comparison_shows_the_metric_that_ranks_first_and_says_if_it_is_another(
    monkeypatch, tmp_path
):
    ctx = make_context(tmp_path)
    figures = {"accuracy": 0.9, "log_loss": 0.3, "average_precision": 0.7, "rows": 10}
    evaluated = Report("evaluation", "A", figures, data={"curves": []})
    for metric, columns in (
        ("average_precision", ["average_precision", "accuracy", "log_loss"]),
        ("ks", ["accuracy", "average_precision", "log_loss"]),
    ):
        report = NODE.run(ctx, {"reports": [evaluated]}, CompareParams(metric=metric))["report"]
        keep(Workspace(tmp_path), metric, "report", report)
        test = preview(monkeypatch, Workspace(tmp_path), f"{metric}.out")
        shown = [name for name in test.dataframe[0].value.columns if name in figures]
        assert shown[: len(columns)] == columns
        notes = [note.value for note in test.info]
        assert any("KS" in note and "ranked by Accuracy" in note for note in notes) == (
            metric == "ks"
        )
