"""Predictions, their evaluation, the comparison of evaluations, and models kept under a name."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
import sklearn.metrics as reference

from deepforest import bootstrap
from engine.errors import BadInput, Cancelled
from engine.testing import check_node
from engine.values import Folder, Predictions, Report, Table
from nodes import compare, evaluate, mart, predict, save_model
from nodes.models.model import load_model
from tests.expect import refused

from .conftest import make_context


def simple(rows=120, classes=("bad", "good"), seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(classes), rows)
    x = y + rng.normal(scale=0.8, size=rows)
    return Table(
        pa.table({"x": x, "z": rng.normal(size=rows), "y": [classes[code] for code in y]}), "y"
    )


def run(node, ctx, inputs, **params):
    return node.run(ctx, inputs, node.params(**params))


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    """Nothing here depends on how exactly the intervals are known."""
    monkeypatch.setattr(bootstrap, "MOST", bootstrap.FEWEST)


@pytest.fixture
def model(ctx, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    run(mart.NODE, ctx, {"table": simple()}, trees=5)["model"].save(folder)
    return Folder(folder)


def reloaded(value, folder):
    """The value as the next node gets it."""
    folder.mkdir(exist_ok=True)
    value.save(folder)
    return type(value).load(folder)


def test_nodes_satisfy_the_contract(tmp_path, model):
    check_node(predict.NODE, tmp_path / "p", {"model": model, "table": simple()})
    check_node(evaluate.NODE, tmp_path / "e", {"predictions": drawn(3)[2]})
    check_node(
        compare.NODE,
        tmp_path / "c",
        {"reports": [evaluation("a", auc=0.5), evaluation("b", auc=0.6)]},
    )
    check_node(save_model.NODE, tmp_path / "s", {"model": model}, save_model.NODE.params(name="m"))


class TestPredict:
    def score(self, ctx, model, table, **params):
        return run(predict.NODE, ctx, {"model": model, "table": table}, **params)["predictions"]

    def test_gives_the_models_probabilities_and_the_truth(self, ctx, model):
        table = simple(seed=1)
        predictions = self.score(ctx, model, table)
        np.testing.assert_array_equal(
            predictions.probabilities, load_model(model.path).predict_proba(table)
        )
        assert predictions.classes == ["bad", "good"] and predictions.model == "MART"
        assert predictions.truth.to_pylist() == table.labels().to_pylist()

    def test_table_without_target_has_no_truth(self, ctx, model, tmp_path):
        scored = self.score(ctx, model, Table(simple().data.drop_columns(["y"])))
        assert scored.truth is None and reloaded(scored, tmp_path / "p").truth is None

    def test_missing_truth_stays_missing(self, ctx, model):
        table = simple(4)
        labels = pa.array(["bad", None, "good", None])
        predictions = self.score(ctx, model, table.with_data(table.data.set_column(2, "y", labels)))
        assert predictions.truth.to_pylist() == ["bad", None, "good", None]

    def test_label_the_model_does_not_know_is_named(self, ctx, model):
        with refused(naming="'ugly'"):
            self.score(ctx, model, simple(classes=("bad", "good", "ugly")))

    def test_carries_id_group_and_time_columns(self, ctx, model, tmp_path):
        table = simple(3)
        data = table.data.append_column("id", pa.array([7, 8, 9])).append_column(
            "at", pa.array([1, 2, 3], pa.timestamp("s"))
        )
        data = data.append_column("customer", pa.array(["007", "7", "7"]))
        roles = {"id": "id", "at": "time", "customer": "group", "z": "feature"}
        scored = self.score(ctx, model, Table(data, "y", roles))
        again = reloaded(scored, tmp_path / "p")
        assert again.carried.column_names == ["id", "at", "customer"]
        np.testing.assert_array_equal(again.probabilities, scored.probabilities)
        assert again.truth.to_pylist() == table.labels().to_pylist()

    def test_keeps_the_columns_that_are_named_once_and_behind_those_with_a_role(
        self, ctx, model, tmp_path
    ):
        table = simple(3)
        colours = pa.array(["red", "blue", None]).dictionary_encode()
        data = table.data.append_column("colour", colours).append_column("id", pa.array([7, 8, 9]))
        scored = self.score(
            ctx, model, Table(data, "y", {"id": "id"}), keep=["colour", "y", "id", "colour"]
        )
        again = reloaded(scored, tmp_path / "p")
        assert again.to_arrow().column_names == [
            "id",
            "colour",
            "y",
            "prediction",
            "p(bad)",
            "p(good)",
            "truth",
        ]
        assert again.carried.column("colour").to_pylist() == ["red", "blue", None]
        assert (
            again.truth.to_pylist()
            == again.carried.column("y").to_pylist()
            == table.labels().to_pylist()
        )

    def test_a_column_with_the_name_of_a_prediction_is_kept_beside_it(self, ctx, model):
        data = (
            simple(2)
            .data.append_column("prediction", pa.array([1, 2]))
            .append_column("truth", pa.array([3, 4]))
        )
        scored = self.score(ctx, model, Table(data, "y"), keep=["prediction", "truth"]).to_arrow()
        assert scored.column_names[:3] == ["prediction (input)", "truth (input)", "prediction"]
        assert scored.column("truth (input)").to_pylist() == [3, 4]

    def test_a_column_to_keep_that_is_not_there_is_named_before_and_in_the_run(self, ctx, model):
        table, params = simple(3), predict.NODE.params(keep=["zz"])
        for use in (
            lambda: predict.NODE.output_columns({"table": table.columns}, params),
            lambda: self.score(ctx, model, table, keep=["zz"]),
        ):
            with refused(field="keep", naming="'zz'"):
                use()
        assert predict.NODE.output_columns({"table": None}, params) == {"predictions": None}

    def test_no_rows_give_no_predictions(self, ctx, model):
        table = simple()
        assert self.score(
            ctx, model, table.with_data(table.data.slice(0, 0))
        ).probabilities.shape == (0, 2)

    def test_many_rows_are_scored_in_blocks_with_progress(self, tmp_path, model):
        seen = []
        ctx = make_context(tmp_path, on_progress=lambda fraction, text: seen.append(fraction))
        table = simple(150_000)
        predictions = self.score(ctx, model, table)
        assert len(seen) > 2 and seen == sorted(seen) and seen[-1] == 1.0
        np.testing.assert_array_equal(
            predictions.probabilities[70_000:70_100],
            load_model(model.path).predict_proba(table.with_data(table.data.slice(70_000, 100))),
        )

    def test_cancelled(self, ctx, model):
        ctx.cancelled.set()
        with pytest.raises(Cancelled):
            self.score(ctx, model, simple())

    def test_missing_columns_are_named(self, ctx, model):
        with refused(naming="'x'"):
            self.score(ctx, model, Table(simple().data.drop_columns(["x"])))


def made(truth, probabilities, classes, title="A model"):
    return Predictions(
        np.asarray(probabilities, float), list(classes), title, pa.array(truth, pa.string())
    )


def drawn(classes, rows=300, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"c{code}" for code in range(classes)]
    y = rng.integers(0, classes, rows)
    p = rng.random((rows, classes)) + 0.5 * np.eye(classes)[y]
    p /= p.sum(axis=1, keepdims=True)
    return y, p, made([names[code] for code in y], p, names)


class TestEvaluate:
    def judge(self, ctx, predictions, tmp_path, **params):
        report = run(evaluate.NODE, ctx, {"predictions": predictions}, **params)["report"]
        return reloaded(report, tmp_path / "r")

    def test_two_classes_have_every_measure(self, ctx, tmp_path):
        y, p, predictions = drawn(2)
        report = self.judge(ctx, predictions, tmp_path)
        best = max((reference.f1_score(y, p[:, 1] >= t), t) for t in np.unique(p[:, 1]))
        expected = {
            "accuracy": reference.accuracy_score(y, p.argmax(1)),
            "balanced_accuracy": reference.balanced_accuracy_score(y, p.argmax(1)),
            "auc": reference.roc_auc_score(y, p[:, 1]),
            "log_loss": reference.log_loss(y, p),
            "average_precision": reference.average_precision_score(y, p[:, 1]),
            "f1": best[0],
            "threshold": best[1],
            "rows": 300,
        }
        assert {name: report.headline[name] for name in expected} == pytest.approx(expected)
        assert report.kind == "evaluation" and report.title == "A model"
        assert (
            report.headline["recall_at_1_in_1000"] is None
            and report.headline["recall_at_1_in_100"] > 0
        )
        assert report.data["positive"] == "c1" and report.data["threshold_rule"] == "best F1"

    def test_confusion_is_counted_at_the_threshold(self, ctx, tmp_path):
        y, p, predictions = drawn(2)
        report = self.judge(ctx, predictions, tmp_path, threshold=0.7)
        expected = reference.confusion_matrix(y, p[:, 1] >= 0.7)
        assert report.data["confusion"]["counts"] == expected.tolist()
        assert report.headline["threshold"] == 0.7
        assert report.headline["f1"] == pytest.approx(reference.f1_score(y, p[:, 1] >= 0.7))
        assert report.rows[1]["precision"] == pytest.approx(
            reference.precision_score(y, p[:, 1] >= 0.7)
        )

    def test_all_decisions_go_by_the_same_rule(self, ctx, tmp_path):
        y, p, predictions = drawn(2)
        for threshold, given in [(None, p.argmax(1)), (0.7, p[:, 1] >= 0.7)]:
            report = run(evaluate.NODE, ctx, {"predictions": predictions}, threshold=threshold)[
                "report"
            ]
            assert (
                report.data["confusion"]["counts"] == reference.confusion_matrix(y, given).tolist()
            )
            assert report.headline["accuracy"] == pytest.approx(reference.accuracy_score(y, given))
            assert report.headline["balanced_accuracy"] == pytest.approx(
                reference.balanced_accuracy_score(y, given)
            )
            assert report.rows[1]["recall"] == pytest.approx(reference.recall_score(y, given))

    def test_positive_class_can_be_the_first(self, ctx, tmp_path):
        y, p, predictions = drawn(2)
        report = self.judge(ctx, predictions, tmp_path, positive="c0", name="Mine")
        assert report.title == "Mine" and report.data["confusion"]["labels"] == ["c1", "c0"]
        assert report.headline["average_precision"] == pytest.approx(
            reference.average_precision_score(y == 0, p[:, 0])
        )

    def test_many_classes_are_averaged(self, ctx, tmp_path):
        y, p, predictions = drawn(4)
        report = self.judge(ctx, predictions, tmp_path)
        assert report.headline["auc"] == pytest.approx(
            reference.roc_auc_score(y, p, multi_class="ovr")
        )
        assert report.headline["f1"] == pytest.approx(
            reference.f1_score(y, p.argmax(1), average="macro")
        )
        assert report.headline["threshold"] is None and report.data["positive"] is None
        assert (
            report.data["confusion"]["counts"]
            == reference.confusion_matrix(y, p.argmax(1)).tolist()
        )
        assert [row["class"] for row in report.rows] == ["c0", "c1", "c2", "c3"]
        assert [curve["class"] for curve in report.data["curves"]] == ["c0", "c1", "c2", "c3"]

    def test_one_of_many_classes_against_the_rest(self, ctx, tmp_path):
        y, p, predictions = drawn(3)
        report = self.judge(ctx, predictions, tmp_path, positive="c1")
        assert report.headline["auc"] == pytest.approx(reference.roc_auc_score(y == 1, p[:, 1]))
        assert report.headline["accuracy"] == pytest.approx(
            reference.accuracy_score(y, p.argmax(1))
        )
        assert report.data["confusion"]["labels"] == ["all others", "c1"]

    def test_curves_are_drawn_with_few_points(self, ctx, tmp_path):
        report = self.judge(ctx, drawn(2, rows=50_000)[2], tmp_path)
        curve = report.data["curves"][0]
        for points in (curve["roc"], curve["precision_recall"]):
            assert all(100 < len(values) <= 300 for values in points.values())
        assert curve["roc"]["false_positive_rate"][-1] == 1 and curve["roc"]["threshold"][0] is None

    def test_two_hundred_classes_draw_only_some_curves(self, ctx, tmp_path):
        report = self.judge(ctx, drawn(200, rows=2000)[2], tmp_path)
        assert len(report.data["curves"]) == evaluate.MAX_CURVES
        assert len(json.dumps(report.data)) < 1_000_000

    @pytest.mark.parametrize("only", ["c0", "c1"])
    def test_one_class_in_the_truth_leaves_out_what_has_no_value(self, ctx, tmp_path, only):
        predictions = made([only] * 100, drawn(2, rows=100)[1], ["c0", "c1"])
        report = self.judge(ctx, predictions, tmp_path)
        assert report.headline["auc"] is None and report.headline["ks"] is None
        assert report.headline["accuracy"] is not None and report.headline["log_loss"] is not None
        assert report.data["curves"][0]["roc"] is None

    def test_class_that_does_not_occur(self, ctx, tmp_path):
        y, p, _ = drawn(3)
        kept = y != 2
        predictions = made([f"c{code}" for code in y[kept]], p[kept], ["c0", "c1", "c2"])
        report = self.judge(ctx, predictions, tmp_path)
        assert report.headline["auc"] is not None and report.rows[2]["recall"] is None
        assert [curve["class"] for curve in report.data["curves"]] == ["c0", "c1"]

    def test_rows_without_truth_are_not_judged(self, ctx, tmp_path):
        predictions = made(["c0", None, "c1"], [[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]], ["c0", "c1"])
        report = self.judge(ctx, predictions, tmp_path)
        assert report.headline["rows"] == 2 and report.headline["accuracy"] == 1

    @pytest.mark.parametrize(
        ("predictions", "params", "naming", "field"),
        [
            (Predictions(np.ones((1, 2)) / 2, ["a", "b"], "m"), {}, "no target", None),
            (made([], np.zeros((0, 2)), ["a", "b"]), {}, "nothing", None),
            (made([None], [[0.5, 0.5]], ["a", "b"]), {}, "nothing", None),
            (made(["a"], [[0.5, 0.5]], ["a", "b"]), {"positive": "c"}, "'c'", "positive"),
            (
                made(["a"], [[0.5, 0.3, 0.2]], ["a", "b", "c"]),
                {"threshold": 0.5},
                "positive class",
                "threshold",
            ),
        ],
    )
    def test_what_cannot_be_judged_is_refused(
        self, ctx, tmp_path, predictions, params, naming, field
    ):
        with refused(field=field, naming=naming):
            self.judge(ctx, predictions, tmp_path, **params)

    def test_fraud_from_table_to_report(self, ctx, tmp_path, fraud):
        model = run(mart.NODE, ctx, {"table": fraud}, trees=20, class_weights="balanced")["model"]
        (tmp_path / "fm").mkdir()
        model.save(tmp_path / "fm")
        inputs = {"model": Folder(tmp_path / "fm"), "table": fraud}
        report = self.judge(ctx, run(predict.NODE, ctx, inputs)["predictions"], tmp_path)
        assert report.headline["auc"] > 0.9 and report.headline["recall_at_1_in_1000"] > 0


def evaluation(title, **headline):
    return Report("evaluation", title, headline, data={"curves": [{"class": title}]})


class TestCompare:
    def board(self, tmp_path, reports, sources=None, **params):
        ctx = make_context(
            tmp_path, sources={"reports": sources or [f"n{i}" for i in range(len(reports))]}
        )
        return run(compare.NODE, ctx, {"reports": reports}, **params)["report"]

    @pytest.mark.parametrize(
        ("metric", "order"),
        [("auc", ["b", "c", "a"]), ("accuracy", ["a", "b", "c"]), ("log_loss", ["c", "b", "a"])],
    )
    def test_best_comes_first(self, tmp_path, metric, order):
        reports = [
            evaluation("a", auc=0.7, accuracy=0.9, log_loss=0.5),
            evaluation("b", auc=0.9, accuracy=0.8, log_loss=0.4),
            evaluation("c", auc=0.8, accuracy=0.7, log_loss=0.3),
        ]
        report = self.board(tmp_path, reports, metric=metric)
        assert [row["name"] for row in report.rows] == order and [
            row["rank"] for row in report.rows
        ] == [1, 2, 3]
        assert report.kind == "comparison" and report.headline["best"] == order[0]
        assert [curve["name"] for curve in report.data["curves"]] == order

    def test_no_value_comes_last(self, tmp_path):
        report = self.board(
            tmp_path, [evaluation("a", auc=None), evaluation("b", auc=0.5), evaluation("c")]
        )
        assert [row["name"] for row in report.rows] == ["b", "a", "c"]
        assert all(row.keys() == report.rows[0].keys() for row in report.rows)

    def test_details_are_columns_named_as_they_are_and_may_have_titles_for_the_screen(
        self, tmp_path
    ):
        details = ["n0.max_depth=3", "n1.max_depth=null", '*.max_depth="Depth"']
        report = self.board(
            tmp_path, [evaluation("a", auc=0.6), evaluation("b", auc=0.5)], details=details
        )
        assert [row["max_depth"] for row in report.rows] == [3, None]
        assert (report.data["details"], report.data["titles"]) == (
            ["max_depth"],
            {"max_depth": "Depth"},
        )
        assert (
            "titles"
            not in self.board(tmp_path, [evaluation("a", auc=0.6)], details=["n0.x=1"]).data
        )

    def test_another_measure_decides_when_none_has_a_value(self, tmp_path):
        reports = [evaluation("a", auc=None, accuracy=0.5), evaluation("b", auc=None, accuracy=0.6)]
        report = self.board(tmp_path, reports, metric="auc")
        assert report.headline["metric"] == "accuracy" and report.rows[0]["name"] == "b"

    @pytest.mark.parametrize(
        ("titles", "sources", "names"),
        [
            (["a", "b"], ["n1", "n2"], ["a", "b"]),
            (["MART", "MART", "LR"], ["n1", "n2", "n3"], ["MART 1", "MART 2", "LR"]),
            (["a", "a"], ["n", "n"], ["a 1", "a 2"]),
            (["a 1", "a", "a"], ["m", "n", "o"], ["a 1", "a 2", "a 3"]),
        ],
    )
    def test_names_are_unique(self, tmp_path, titles, sources, names):
        report = self.board(tmp_path, [evaluation(title, auc=0.5) for title in titles], sources)
        assert [row["name"] for row in report.rows] == names
        assert report.data["nodes"] == sources

    def test_other_reports_are_refused(self, tmp_path):
        with refused(naming=["'Saved'", "saved-model"]):
            self.board(tmp_path, [evaluation("a", auc=1.0), Report("saved-model", "Saved", {})])

    def test_nothing_to_compare(self, tmp_path):
        with refused(naming="no evaluation"):
            self.board(tmp_path, [])


class TestSaveModel:
    def save(self, ctx, model, **params):
        return run(save_model.NODE, ctx, {"model": model}, **params)["report"]

    def test_saved_model_predicts_the_same(self, ctx, model):
        report = self.save(ctx, model, name="fraud-1.2")
        kept = load_model(ctx.files.models / "fraud-1.2")
        np.testing.assert_array_equal(
            kept.predict_proba(simple()), load_model(model.path).predict_proba(simple())
        )
        assert report.headline["folder"] == "models/fraud-1.2" and report.headline["kind"] == "mart"

    def test_replaces_and_leaves_nothing_else_behind(self, ctx, model):
        self.save(ctx, model, name="m")
        (ctx.files.models / "m" / "stale").touch()
        self.save(ctx, model, name="m")
        assert self.names(ctx) == ["m"]
        assert {path.name for path in (ctx.files.models / "m").iterdir()} == {
            "model.json",
            "mart.txt",
            "training.json",
        }

    def test_existing_name_can_be_an_error(self, ctx, model):
        self.save(ctx, model, name="m", if_exists="error")
        with refused(field="name", naming="'m'"):
            self.save(ctx, model, name="m", if_exists="error")

    def test_failed_copy_leaves_the_old_model(self, ctx, model, monkeypatch):
        self.save(ctx, model, name="m")
        before = (ctx.files.models / "m" / "mart.txt").read_bytes()

        def full_disk(path):
            raise OSError("No space left on device")

        monkeypatch.setattr("engine.atomic.sync", full_disk)
        with pytest.raises(OSError, match="No space"):
            self.save(ctx, model, name="m")
        assert self.names(ctx) == ["m"]
        assert (ctx.files.models / "m" / "mart.txt").read_bytes() == before

    def names(self, ctx):
        """What lies in the models folder, but for the lock, which stays."""
        return [path.name for path in ctx.files.models.iterdir() if path.suffix != ".lock"]

    def test_saves_under_one_name_wait_for_each_other(self, ctx, model):
        with ThreadPoolExecutor(
            4
        ) as pool:  # a lock is the open file's, so that threads compete as processes do
            reports = list(pool.map(lambda _: self.save(ctx, model, name="m"), range(12)))
        assert len(reports) == 12 and self.names(ctx) == ["m"]
        load_model(ctx.files.models / "m")

    def test_only_one_of_several_saves_finds_the_name_free(self, ctx, model):
        def save(_):
            try:
                return self.save(ctx, model, name="m", if_exists="error")
            except BadInput:
                return None

        with ThreadPoolExecutor(4) as pool:
            assert sum(report is not None for report in pool.map(save, range(8))) == 1

    @pytest.mark.parametrize("swapped", [False, True])
    def test_what_a_killed_save_left_is_removed(self, ctx, model, swapped):
        self.save(ctx, model, name="m")
        self.save(ctx, model, name="m.x")
        left = ctx.files.models / ".m.unfinished"
        (left / "new").mkdir(parents=True)
        if swapped:
            (ctx.files.models / "m").rename(left / "old")
            with refused(field="name", naming="'m'"):  # it is back in its place
                self.save(ctx, model, name="m", if_exists="error")
        self.save(ctx, model, name="m")
        assert sorted(self.names(ctx)) == ["m", "m.x"]

    def test_folder_without_a_model_is_refused(self, ctx, tmp_path):
        with refused(naming=["model.json", tmp_path.name]):
            self.save(ctx, Folder(tmp_path), name="m")

    @pytest.mark.parametrize(
        "name", ["", "..", ".hidden", "a/b", "a\\b", "a b", "x" * 65, "a\n", "ä"]
    )
    def test_unsafe_names_are_no_parameters(self, name):
        with pytest.raises(ValueError):
            save_model.NODE.params(name=name)
