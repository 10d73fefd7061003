"""A threshold that is chosen on validation rows, saved with the model and used everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.errors import BadInput
from engine.node_types import Column
from engine.testing import check_node
from engine.values import Costs, Folder, Predictions, Table, ThresholdDecision
from nodes import choose_threshold, evaluate, logistic_regression, mart, predict
from nodes.choose_threshold import NODE, ChooseThresholdParams, chosen_position
from nodes.models.decision import Calibration, ThresholdCounts
from nodes.models.model import FILE, decision_texts, describe_model, load_model
from tests.expect import assert_same_bits, refused

from .conftest import make_context


def payments(rows: int = 1_500, seed: int = 0) -> Table:
    """Payments of which about one in ten is fraud, with the amount at stake."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.1
    columns = {
        "x": fraud * 1.5 + rng.normal(size=rows),
        "z": fraud * 1.0 + rng.normal(size=rows),
        "amount": rng.lognormal(3, 1, rows).round(2),
        "y": np.where(fraud, "fraud", "good"),
    }
    return Table(pa.table(columns), "y", {"amount": "ignore"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A small model of payments; its classes are fraud and good, so fraud must be named."""
    place = tmp_path_factory.mktemp("model")
    made = mart.NODE.run(
        make_context(place), {"table": payments(seed=1)}, mart.NODE.params(trees=15, leaves=6)
    )
    (place / "saved").mkdir()
    made["model"].save(place / "saved")
    return Folder(place / "saved")


@pytest.fixture(scope="module")
def validation() -> Table:
    return payments(seed=2)


@pytest.fixture(scope="module")
def test_rows() -> Table:
    return payments(seed=3)


def choose(ctx, folder, table, **params):
    outputs = NODE.run(
        ctx, {"model": folder, "table": table}, NODE.params(**{"positive": "fraud", **params})
    )
    return outputs["model"], outputs["report"]


def saved(model, place: Path) -> Folder:
    place.mkdir(parents=True)
    model.save(place)
    return Folder(place)


def fraud_and_scores(model, table):
    scores = model.predict_proba(table)[:, model.classes.index("fraud")]
    return np.array(table.data.column("y").to_pylist()) == "fraud", scores


RULES = {
    "f1": {},
    "rate": {"rate": "1/100"},
    "precision": {"precision": 0.5},
    "recall": {"recall": 0.7},
    "costs": {"false_alarm_cost": 2.0, "missed_cost": 15.0, "gain": 1.0},
    "amounts": {"amounts": "amount", "interruption_cost": 3.0},
}


class TestRules:
    @pytest.mark.parametrize("rule", RULES)
    def test_no_other_threshold_is_better(self, ctx, folder, validation, rule):
        """Compare the choice with every threshold, counted row by row."""
        model, report = choose(ctx, folder, validation, rule=rule, **RULES[rule])
        fraud, scores = fraud_and_scores(model, validation)
        amounts = validation.data.column("amount").to_numpy()
        rows = []
        for threshold in np.unique(scores):
            shown = scores >= threshold
            hits, alarms = int((shown & fraud).sum()), int((shown & ~fraud).sum())
            missed = int(fraud.sum()) - hits
            rows.append(
                {
                    "threshold": threshold,
                    "rate": shown.mean(),
                    "precision": hits / (hits + alarms),
                    "recall": hits / fraud.sum(),
                    "f1": 2 * hits / (2 * hits + alarms + missed),
                    "costs": hits - 2 * alarms - 15 * missed,
                    "amounts": amounts[shown & fraud].sum() - 3 * shown.sum(),
                }
            )
        allowed = {
            "rate": [row for row in rows if row["rate"] <= 0.01],
            "precision": [row for row in rows if row["precision"] >= 0.5],
            "recall": [row for row in rows if row["recall"] >= 0.7],
        }.get(rule, rows)
        quantity = {"rate": "recall", "precision": "recall", "recall": "precision"}.get(rule, rule)
        mine = next(row for row in rows if row["threshold"] == model.decision.threshold)
        assert mine in allowed
        assert mine[quantity] == pytest.approx(max(row[quantity] for row in allowed))
        for name in ("precision", "recall", "f1", "interrupt_rate"):
            assert report.headline[name] == pytest.approx(mine[name.replace("interrupt_", "")])
        money = {"costs": "net_gain", "amounts": "money_saved"}
        if rule in money:
            assert report.headline[money[rule]] == pytest.approx(mine[rule])

    def test_a_cost_without_gain_is_shown_as_a_cost(self, ctx, folder, validation):
        model, report = choose(ctx, folder, validation, rule="costs")
        fraud, scores = fraud_and_scores(model, validation)
        shown = scores >= model.decision.threshold
        cost = (shown & ~fraud).sum() + 10 * (fraud & ~shown).sum()
        assert report.headline["cost"] == cost > 0

    def test_another_share_can_be_named(self, ctx, folder, validation):
        model, report = choose(ctx, folder, validation, rule="rate", rate="other", other_rate=0.03)
        assert 0.02 < report.headline["interrupt_rate"] <= 0.03
        assert "3 %" in model.decision.rule

    def test_the_positive_class_is_the_last_one_by_default(self, ctx, folder, validation):
        model, _ = choose(ctx, folder, validation, positive=None)
        assert model.decision.positive == "good" == model.classes[1]

    def test_the_node_keeps_its_contract(self, tmp_path, folder, validation):
        params = ChooseThresholdParams(
            rule="amounts", amounts="amount", positive="fraud", calibration="isotonic"
        )
        check_node(NODE, tmp_path, {"model": folder, "table": validation}, params)

    def test_rows_without_a_class_are_left_out(self, ctx, folder, validation):
        labels = validation.data.column("y").to_pylist()
        labels[:100] = [None] * 100
        data = validation.data.drop_columns("y").append_column("y", pa.array(labels))
        model, _ = choose(ctx, folder, Table(data, "y"))
        kept, _ = choose(ctx, folder, validation.with_data(validation.data.slice(100)))
        assert model.decision == kept.decision and model.decision.rows == 1_400


class TestRefusals:
    def test_a_model_with_three_classes(self, ctx, tmp_path):
        table = Table(pa.table({"x": np.arange(90.0), "y": ["a", "b", "c"] * 30}), "y")
        made = mart.NODE.run(ctx, {"table": table}, mart.NODE.params(trees=2))["model"]
        with refused(naming=["3 classes", "a", "b", "c"]):
            choose(ctx, saved(made, tmp_path / "three"), table, positive=None)

    def test_one_class_only(self, ctx, folder, validation):
        good = validation.data.filter(pa.compute.equal(validation.data.column("y"), "good"))
        with refused(naming="good"):
            choose(ctx, folder, validation.with_data(good))

    def test_no_target(self, ctx, folder, validation):
        with refused(naming="target"):
            choose(ctx, folder, Table(validation.data.drop_columns("y")))
        known = tuple(column for column in validation.columns if column.role != "target")
        with refused(naming="target"):
            NODE.output_columns({"table": known}, ChooseThresholdParams())

    def test_no_rows(self, ctx, folder, validation):
        with refused(naming="Split"):
            choose(ctx, folder, validation.with_data(validation.data.slice(0, 0)))
        labels = pa.array([None] * 9, pa.string())
        unknown = validation.data.slice(0, 9).drop_columns("y").append_column("y", labels)
        with refused(naming="missing"):
            choose(ctx, folder, Table(unknown, "y"))

    @pytest.mark.parametrize(
        ("value", "words"), [(None, "missing"), (-1.0, "below zero"), (np.inf, "finite")]
    )
    def test_amounts_that_are_wrong(self, ctx, folder, validation, value, words):
        amounts = validation.data.column("amount").to_pylist()
        amounts[7] = value
        data = validation.data.drop_columns("amount").append_column("amount", pa.array(amounts))
        with refused(field="amounts", naming=["amount", words, "1 of 1,500"]):
            choose(ctx, folder, Table(data, "y"), rule="amounts", amounts="amount")

    def test_sums_that_no_number_can_hold(self, ctx, folder, validation):
        data = validation.data.drop_columns("amount")
        data = data.append_column("amount", pa.array([1e308] * data.num_rows))
        with refused(field="amounts", naming=["amount", "larger unit"]):
            choose(ctx, folder, Table(data, "y"), rule="amounts", amounts="amount")
        with pytest.raises(ValidationError, match="less than or equal"):
            ChooseThresholdParams(rule="costs", missed_cost=1e300)

    @pytest.mark.parametrize("column", [None, "amuont", "y"])
    def test_a_column_that_has_no_amounts_is_refused_before_the_run(self, validation, column):
        params = ChooseThresholdParams(rule="amounts", amounts=column)
        with refused(field="amounts", naming=[column or ""]):
            NODE.output_columns({"table": validation.columns}, params)
        # Another rule does not ask for it.
        NODE.output_columns({"table": validation.columns}, replace_rule(params))

    def test_a_precision_that_is_not_reached(self, ctx, folder, validation):
        noise = np.random.default_rng(0).normal(size=(2, 1_500))
        data = pa.table({"x": noise[0], "z": noise[1], "y": validation.data.column("y")})
        with refused(field="precision", naming=["99 %"]):
            choose(ctx, folder, Table(data, "y"), rule="precision", precision=0.99)

    def test_a_rate_of_less_than_one_row(self, ctx, folder, validation):
        with refused(field="rate", naming=["1 row in 10,000", "1,500"]):
            choose(ctx, folder, validation, rule="rate", rate="1/10000")

    def test_a_rate_that_equal_scores_exceed(self):
        counts = ThresholdCounts.of(np.array([True] * 5 + [False] * 95), (np.arange(100) < 5) * 0.5)
        params = ChooseThresholdParams(rule="rate", rate="1/100")
        with refused(field="rate", naming=["5"]):
            chosen_position(counts, params)

    def test_costs_with_which_nothing_is_worth_an_interruption(self, ctx, folder, validation):
        with refused(field="false_alarm_cost"):
            choose(ctx, folder, validation, rule="costs", false_alarm_cost=1e6, missed_cost=0)
        with refused(field="interruption_cost"):
            choose(ctx, folder, validation, rule="amounts", amounts="amount", interruption_cost=1e6)

    def test_constant_scores(self, ctx, folder):
        same = Table(pa.table({"x": [1.0] * 20, "z": [1.0] * 20, "y": ["fraud", "good"] * 10}), "y")
        with refused(naming=["20", "same probability"]):
            choose(ctx, folder, same)

    def test_a_positive_class_that_does_not_exist(self, ctx, folder, validation):
        with refused(field="positive", naming="fraudd"):
            choose(ctx, folder, validation, positive="fraudd")

    @pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
    def test_too_few_rows_to_calibrate(self, ctx, folder, validation, method):
        labels = ["fraud"] * 3 + ["good"] * 97
        data = validation.data.slice(0, 100).drop_columns("y").append_column("y", pa.array(labels))
        with refused(field="calibration"):
            choose(ctx, folder, Table(data, "y"), calibration=method)

    def test_a_sigmoid_that_would_turn_the_order_round(self, ctx, folder, validation):
        turned = {"fraud": "good", "good": "fraud"}
        labels = [turned[label] for label in validation.data.column("y").to_pylist()]
        data = validation.data.drop_columns("y").append_column("y", pa.array(labels))
        with refused(field="calibration"):
            choose(ctx, folder, Table(data, "y"), calibration="sigmoid")


def replace_rule(params):
    return params.model_copy(update={"rule": "f1"})


class TestCalibration:
    @pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
    def test_the_same_rows_are_interrupted(self, ctx, folder, validation, test_rows, method):
        plain, _ = choose(ctx, folder, validation, rule="recall", recall=0.6)
        calibrated, _ = choose(
            ctx, folder, validation, rule="recall", recall=0.6, calibration=method
        )
        for table in (validation, test_rows):
            decided = [
                model.predicted_codes(model.predict_proba(table)) for model in (plain, calibrated)
            ]
            assert (decided[0] == decided[1]).all()
        before, after = (fraud_and_scores(each, test_rows)[1] for each in (plain, calibrated))
        assert (np.argsort(before, kind="stable") == np.argsort(after, kind="stable")).all()

    @pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
    def test_probabilities_fit_better_on_rows_that_neither_trained_nor_calibrated(
        self, ctx, tmp_path, method
    ):
        """Class weights distort the probabilities; a calibration corrects that."""
        skewed = mart.NODE.run(
            ctx, {"table": payments(seed=1)}, mart.NODE.params(trees=15, class_weights="balanced")
        )["model"]
        folder = saved(skewed, tmp_path / "skewed")
        model, report = choose(ctx, folder, payments(3_000, seed=2), calibration=method)
        later = payments(3_000, seed=9)
        briers = []
        for each in (skewed, model):
            fraud, scores = fraud_and_scores(each, later)
            briers.append(np.mean((scores - fraud) ** 2))
        assert briers[1] < 0.8 * briers[0]
        assert report.headline["brier_after"] < 0.8 * report.headline["brier_before"]
        # What the folds promise is about what other rows show.
        assert report.headline["brier_after"] == pytest.approx(briers[1], rel=0.15)

    def test_equal_calibrated_probabilities_count_as_one_threshold(self, ctx, tmp_path):
        """Of classes that can be separated, a sigmoid is so steep that it reaches exactly 1."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=2_000)
        columns = {"x": x, "y": np.where(x > 1, "fraud", "good")}
        table = Table(pa.table(columns), "y", {})
        separated = logistic_regression.NODE.run(
            ctx, {"table": table}, logistic_regression.NODE.params()
        )["model"]
        folder = saved(separated, tmp_path / "separated")
        rate = {"rule": "rate", "rate": "1/100"}
        with refused(field="rate", naming="have the same one"):
            choose(ctx, folder, table, calibration="sigmoid", **rate)
        model, report = choose(ctx, folder, table, calibration="sigmoid")
        codes = model.predicted_codes(model.predict_proba(table))
        assert report.headline["interrupted"] == (codes == model.classes.index("fraud")).sum()
        model, _ = choose(ctx, folder, table, calibration="isotonic", **rate)
        codes = model.predicted_codes(model.predict_proba(table))
        assert (codes == model.classes.index("fraud")).sum() == 20

    def test_the_reliability_is_measured_by_folds(self, ctx, folder, validation):
        model, report = choose(ctx, folder, validation, calibration="isotonic")
        fraud, scores = fraud_and_scores(model, validation)
        on_own_rows = np.mean((scores - fraud) ** 2)
        assert report.headline["brier_after"] > on_own_rows
        assert sum(report.data["calibration"]["after"]["rows"]) == 1_500

    @pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
    def test_contributions_add_up_to_the_calibrated_probability(
        self, ctx, folder, validation, test_rows, method
    ):
        model, _ = choose(ctx, folder, validation, calibration=method)
        few = test_rows.with_data(test_rows.data.slice(0, 40))
        sums = model.contributions(few).sum(axis=1)
        np.testing.assert_allclose(sums, model.predict_proba(few), atol=1e-9)

    @pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
    def test_a_row_alone_has_the_bits_of_the_row_among_others(
        self, ctx, folder, validation, test_rows, method
    ):
        model, _ = choose(ctx, folder, validation, calibration=method)
        together = model.predict_proba(test_rows)
        for row in (0, 7, 801):
            alone = model.predict_proba(test_rows.with_data(test_rows.data.slice(row, 1)))
            assert_same_bits(alone, together[row : row + 1])


class TestSavedModels:
    def test_a_decision_survives_saving_with_the_same_bits(
        self, ctx, folder, validation, test_rows, tmp_path
    ):
        model, _ = choose(
            ctx, folder, validation, rule="amounts", amounts="amount", calibration="isotonic"
        )
        again = load_model(saved(model, tmp_path / "again").path)
        assert (again.decision, again.calibration) == (model.decision, model.calibration)
        assert_same_bits(again.predict_proba(test_rows), model.predict_proba(test_rows))
        sentences = " ".join(decision_texts(describe_model(tmp_path / "again")))
        assert "fraud" in sentences and "isotonic" in sentences and "1,500" in sentences

    def test_only_models_with_a_decision_have_the_new_version(
        self, ctx, folder, validation, tmp_path
    ):
        """A program that knows version 1 alone would ignore the threshold; it refuses version 2."""
        model, _ = choose(ctx, folder, validation)
        assert describe_model(saved(model, tmp_path / "with").path)["version"] == 2
        plain = replace(model, decision=None)
        same = saved(plain, tmp_path / "without").path
        assert (same / FILE).read_bytes() == (folder.path / FILE).read_bytes()
        assert describe_model(same)["version"] == 1

    @pytest.mark.parametrize(
        "changes",
        [
            {"decision": {"threshold": 0.5}},
            {"decision": {"threshold": "high"}},
            {"decision": {"threshold": float("nan")}},
            {"decision": {"threshold": 5.0}},
            {"decision": {"rows": -1}},
            {"decision": {"positive": "unknown"}},
            {"decision": {"costs": {"false_alarm": "much"}}},
            {"calibration": {"method": "magic"}},
            {"calibration": {"numbers": {"line": [-1.0, 0.0]}}},
            {"calibration": {"numbers": {"line": []}}},
            {"calibration": {"positive": "unknown"}},
        ],
        ids=str,
    )
    def test_a_forged_decision_is_refused(self, ctx, folder, validation, tmp_path, changes):
        model, _ = choose(ctx, folder, validation, calibration="sigmoid")
        place = saved(model, tmp_path / "forged").path
        about = json.loads((place / FILE).read_text())
        for name, parts in changes.items():
            about[name] |= parts
        if changes == {"decision": {"threshold": 0.5}}:
            del about["decision"]["rule"]
        (place / FILE).write_text(json.dumps(about))
        with refused(BadInput, naming="forged"):
            load_model(place)

    def test_a_second_choice_replaces_the_first(self, ctx, folder, validation, tmp_path):
        first, _ = choose(ctx, folder, validation, calibration="isotonic", rule="recall")
        second, _ = choose(ctx, saved(first, tmp_path / "first"), validation)
        direct, _ = choose(ctx, folder, validation)
        assert second.decision == direct.decision and second.calibration is None


class TestUse:
    @pytest.fixture
    def decided(self, ctx, folder, validation, tmp_path) -> Folder:
        model, _ = choose(
            ctx, folder, validation, rule="amounts", amounts="amount", interruption_cost=3.0
        )
        return saved(model, tmp_path / "decided")

    def predictions(self, ctx, folder, table) -> Predictions:
        inputs = {"model": folder, "table": table}
        return predict.NODE.run(ctx, inputs, predict.NODE.params())["predictions"]

    def test_predict_decides_by_the_threshold(self, ctx, decided, test_rows, tmp_path):
        made = self.predictions(ctx, decided, test_rows)
        threshold = load_model(decided.path).decision.threshold
        table = made.to_arrow()
        expected = np.where(table.column("p(fraud)").to_numpy() >= threshold, "fraud", "good")
        assert table.column("prediction").to_pylist() == expected.tolist()
        assert (made.predicted != made.probabilities.argmax(axis=1)).any()
        (tmp_path / "stored").mkdir()
        made.save(tmp_path / "stored")
        again = Predictions.load(tmp_path / "stored")
        assert again.decision == made.decision and again.to_arrow().equals(table)

    def test_evaluate_uses_the_threshold_and_the_costs_of_the_model(self, ctx, decided, test_rows):
        made = self.predictions(ctx, decided, test_rows)
        report = evaluate.NODE.run(
            ctx, {"predictions": made}, evaluate.NODE.params(positive="fraud")
        )
        report = report["report"]
        fraud = np.array(test_rows.data.column("y").to_pylist()) == "fraud"
        shown = made.predicted == made.classes.index("fraud")
        hits, alarms = int((shown & fraud).sum()), int((shown & ~fraud).sum())
        missed = int(fraud.sum()) - hits
        assert report.data["threshold_rule"] == "model"
        assert report.headline["threshold"] == made.decision.threshold
        assert report.headline["f1"] == pytest.approx(2 * hits / (2 * hits + alarms + missed))
        assert report.data["confusion"]["counts"][1] == [missed, hits]
        amounts = test_rows.data.column("amount").to_numpy()
        saved_money = amounts[shown & fraud].sum() - 3 * shown.sum()
        assert report.headline["money_saved"] == pytest.approx(saved_money)
        assert report.data["decision"]["rule"] == made.decision.rule
        low, high = report.data["intervals"]["money_saved"]
        assert low < saved_money < high
        # The replicates are sums of all rows, as the figure is.
        middle = np.mean(report.data["replicates"]["money_saved"])
        assert middle == pytest.approx(saved_money, rel=0.1)

    def test_the_other_class_is_evaluated_at_the_same_decisions(self, ctx, decided, test_rows):
        made = self.predictions(ctx, decided, test_rows)
        reports = [
            evaluate.NODE.run(ctx, {"predictions": made}, evaluate.NODE.params(positive=name))
            for name in ("fraud", "good")
        ]
        of_fraud, of_good = (each["report"] for each in reports)
        assert of_fraud.headline["accuracy"] == of_good.headline["accuracy"]
        turned = [row[::-1] for row in of_good.data["confusion"]["counts"][::-1]]
        assert of_fraud.data["confusion"]["counts"] == turned
        # A false alarm of fraud is not one of good.
        assert "money_saved" in of_fraud.headline and "money_saved" not in of_good.headline

    def test_a_threshold_of_the_node_comes_before_that_of_the_model(self, ctx, decided, test_rows):
        made = self.predictions(ctx, decided, test_rows)
        params = evaluate.NODE.params(positive="fraud", threshold=0.5)
        report = evaluate.NODE.run(ctx, {"predictions": made}, params)["report"]
        assert (report.headline["threshold"], report.data["threshold_rule"]) == (0.5, "given")

    def test_wrong_amounts_of_test_rows_leave_the_money_out(self, decided, test_rows, tmp_path):
        amounts = [None, *test_rows.data.column("amount").to_pylist()[1:]]
        data = test_rows.data.drop_columns("amount").append_column("amount", pa.array(amounts))
        lines: list[str] = []
        ctx = make_context(tmp_path, on_log=lines.append)
        made = self.predictions(ctx, decided, Table(data, "y"))
        params = evaluate.NODE.params(positive="fraud")
        report = evaluate.NODE.run(ctx, {"predictions": made}, params)["report"]
        assert "money_saved" not in report.headline and report.data["costs"] is None
        assert any("amount" in line for line in lines)


class TestThresholdsOfAReport:
    def test_thresholds_are_few_and_hold_those_that_matter(self, ctx):
        rng = np.random.default_rng(0)
        truth = (rng.random(20_000) < 0.01).astype(np.intp)
        score = np.clip(truth * 0.3 + rng.random(20_000) * 0.6, 0, 1)
        probabilities = np.column_stack([1 - score, score])
        report = evaluate.evaluation(
            "m", truth, probabilities, ["no", "yes"], evaluate.NODE.params(threshold=0.4321)
        )
        data = report.data["thresholds"]
        counts = ThresholdCounts.from_json(data)
        assert len(data["threshold"]) <= 500 and data["threshold"][0] is None
        assert counts.threshold[data["at"]] == 0.4321
        assert counts.rows == 20_000 and counts.positives == truth.sum()
        everything = ThresholdCounts.of(truth == 1, score)
        assert counts.f1[data["best"]] == everything.f1.max()
        for rate in (1 / 100, 1 / 1_000, 1 / 10_000):
            at = counts.at_rate(rate)
            assert counts.interrupted[at] == int(rate * 20_000 + 1e-9)
        for at in (1, 100, len(counts.threshold) - 1):
            shown = score >= counts.threshold[at]
            assert counts.true_positives[at] == (shown & (truth == 1)).sum()
            assert counts.false_positives[at] == (shown & (truth == 0)).sum()

    @pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"]])
    def test_without_a_threshold_they_start_at_the_most_probable_class(self, classes):
        rng = np.random.default_rng(1)
        # Many probabilities of exactly a half: there, the first class is predicted.
        probabilities = rng.choice([0.25, 0.5], size=(300, len(classes)))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        truth = rng.integers(0, len(classes), 300)
        report = evaluate.evaluation(
            "m", truth, probabilities, classes, evaluate.NODE.params(positive="b")
        )
        counts = ThresholdCounts.from_json(report.data["thresholds"])
        at = report.data["thresholds"]["at"]
        (_, alarms), (_, hits) = report.data["confusion"]["counts"]
        assert (counts.true_positives[at], counts.false_positives[at]) == (hits, alarms)
        assert report.data["threshold_rule"] == "best F1"


def test_rules_are_written_in_words():
    texts = {rule: ChooseThresholdParams(rule=rule, **RULES[rule]).words for rule in RULES}
    assert len(set(texts.values())) == len(RULES)
    assert "1 row in 100" in texts["rate"] and "50 %" in texts["precision"]
    assert "amount" in texts["amounts"] and "3" in texts["amounts"]
    decision = ThresholdDecision("fraud", 0.123456, texts["f1"], 1_500, Costs())
    assert "0.1235" in decision.text and "1,500" in decision.text


def test_only_the_fields_of_the_rule_are_shown():
    fields = ChooseThresholdParams.model_json_schema()["properties"]
    when = {name: each.get("x-form", {}).get("when") for name, each in fields.items()}
    assert {name for name, rule in when.items() if rule == {"rule": ["costs"]}} == {
        "false_alarm_cost",
        "missed_cost",
        "gain",
    }
    assert when["amounts"] == {"rule": ["amounts"]}
    assert fields["amounts"]["x-form"]["choose"] == "column"


def test_a_calibration_reaches_every_probability():
    """Also those outside of the rows that it was fitted on, up to 0 and 1."""
    line = Calibration("isotonic", "b", 9, {"scores": [0.2, 0.4, 0.8], "shares": [0.0, 0.5, 1.0]})
    found = line.apply(np.array([0.0, 0.1, 0.2, 0.3, 0.6, 0.9, 1.0]))
    assert (np.diff(found) > 0).all() and found[0] == 0 and found[-1] == 1
    np.testing.assert_allclose(found, [0, 0, 0, 0.25, 0.75, 1, 1], atol=2e-3)
    sigmoid = Calibration("sigmoid", "b", 9, {"line": [1.0, 0.0]})
    same = np.array([0.001, 0.3, 0.5, 0.999])
    np.testing.assert_allclose(sigmoid.apply(same), same, rtol=1e-9)
    assert np.isfinite(sigmoid.apply(np.array([0.0, 1.0]))).all()


def test_columns_of_the_node_are_known_before_a_run():
    known = (Column("x", "number"), Column("y", "category", "target"))
    assert choose_threshold.columns({"table": known, "model": None}, ChooseThresholdParams()) == {}
    assert choose_threshold.columns({"table": None}, ChooseThresholdParams()) == {}


def test_an_evaluation_is_about_the_class_of_the_threshold(ctx, folder, validation, tmp_path):
    """The model's classes are fraud and good: without a threshold, good would be positive."""
    model, _ = choose(ctx, folder, validation, rule="costs")
    inputs = {"model": saved(model, tmp_path / "chosen"), "table": validation}
    predictions = predict.NODE.run(ctx, inputs, predict.NODE.params())["predictions"]
    report = evaluate.NODE.run(ctx, {"predictions": predictions}, evaluate.NODE.params())["report"]
    assert report.headline["positive"] == "fraud"
    assert report.headline["threshold"] == model.decision.threshold
    assert "cost" in report.headline
    named = evaluate.NODE.run(
        ctx, {"predictions": predictions}, evaluate.NODE.params(positive="good")
    )["report"]
    assert named.headline["positive"] == "good"
