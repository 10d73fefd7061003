"""mdDF: alphas, weights and margins from layer to layer, and its variants."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.tree import DecisionTreeClassifier

from deepforest import MarginForestClassifier, margin_forest, preset
from deepforest._layer import Layer
from deepforest._strategy import GrowingCascade, TrainingData
from deepforest.early_stopping import EarlyStopping
from deepforest.learners import make_learners
from deepforest.margin_forest import DEPTH_STEPS, GAMMAS, MUS, MarginStrategy
from deepforest.margins import effective_size, margin_loss, margins, row_weights

FEW = [
    {"kind": "random_forest", "n_estimators": 10, "count": 2},
    {"kind": "completely_random_forest", "n_estimators": 10},
]
PAPER: dict[str, Any] = {"resampling": "per_layer", "cv": 2, "random_state": 0}
X, Y = load_iris(return_X_y=True)


@cache
def digits(**params: Any) -> MarginForestClassifier:
    x, y = load_digits(return_X_y=True)
    return MarginForestClassifier(
        FEW, resampling="per_layer", cv=3, max_layers=4, patience=4, random_state=0, **params
    ).fit(x, y)


class WatchedStrategy(MarginStrategy):
    """Adds the outputs of the layers, and the weights after each, to lists of the model."""

    def __init__(self, model: Watched, *settings: Any) -> None:
        super().__init__(*settings)
        self.model = model

    def advance(self, cascade: GrowingCascade, vectors: np.ndarray, data: TrainingData) -> None:
        super().advance(cascade, vectors, data)
        self.model.said_ = list(cascade.layer_outputs)
        self.model.weights_.append(cascade.weights)


class Watched(MarginForestClassifier):
    """Keeps what each layer said of the training rows, and the weights after it."""

    def fit(self, *data: Any, **options: Any) -> Watched:
        self.weights_: list[Any] = []
        return super().fit(*data, **options)

    def _strategy(self) -> WatchedStrategy:
        settings = (self.gamma, self.mu, self.depth_step, self.joint_alphas, self.reweight)
        return WatchedStrategy(self, *settings)


def watched(**params: Any) -> tuple[Watched, np.ndarray]:
    """A fitted forest and the margins of its layers, rows × layers."""
    settings = {**PAPER, "max_layers": 3, "patience": 3}
    model = Watched(FEW, **settings, **params).fit(X, Y)
    return model, np.column_stack([margins(said, Y) for said in model.said_])


def test_the_margin_ratio_falls_with_the_layers() -> None:
    model = digits()
    ratios = [record.margins.ratio for record in model.layer_records_ if record.margins is not None]
    assert model.n_layers_ > 1
    assert ratios[model.n_layers_ - 1] < ratios[0]
    assert all(ratio is not None and ratio > 0 for ratio in ratios)


@pytest.mark.parametrize("vectors", ["folds", "oob"])
def test_alphas_are_not_negative_and_no_others_are_better(vectors: str) -> None:
    model, by_layer = watched(class_vectors=vectors)
    for number, record in enumerate(model.layer_records_, 1):
        part = by_layer[:, :number]

        def cost(alphas: np.ndarray, part: np.ndarray = part) -> float:
            return float(margin_loss(part @ alphas, 0.8, 0.05).mean())

        assert record.alphas is not None
        assert len(record.alphas) == number
        assert record.alpha == record.alphas[-1]
        assert min(record.alphas) >= 0
        found = minimize(
            cost, np.ones(number) / number, bounds=[(0, None)] * number, options={"ftol": 1e-13}
        )
        assert cost(np.array(record.alphas)) <= found.fun * (1 + 1e-7) + 1e-10


def test_alphas_one_after_the_other_are_each_the_best() -> None:
    model, by_layer = watched(joint_alphas=False)
    before = np.zeros(len(Y))
    alphas: list[float] = []
    for number, record in enumerate(model.layer_records_):
        margin = by_layer[:, number]
        assert record.alphas is not None
        assert record.alphas[:-1] == alphas
        alphas = record.alphas

        def cost(alpha: float, before: np.ndarray = before, margin: np.ndarray = margin) -> float:
            return float(margin_loss(before + alpha * margin, 0.8, 0.05).mean())

        found = minimize_scalar(cost, bounds=(0, 3), method="bounded", options={"xatol": 1e-10})
        assert cost(alphas[-1]) <= found.fun * (1 + 1e-7)
        before = before + alphas[-1] * margin


@pytest.mark.parametrize(("gamma", "mu"), [(0.7, 0.1), (0.95, 0.01)])
def test_gamma_and_mu_are_those_of_the_loss(gamma: float, mu: float) -> None:
    model, by_layer = watched(gamma=gamma, mu=mu)
    for number, record in enumerate(model.layer_records_, 1):
        weights = row_weights(by_layer[:, :number] @ np.array(record.alphas), gamma, mu)
        np.testing.assert_allclose(model.weights_[number - 1], weights * len(Y))


def test_rows_of_later_layers_weigh_what_their_margins_cost() -> None:
    model, _ = watched()
    assert model.layer_records_[0].effective_size == 150
    assert len(model.layer_records_) > 1
    for number in range(1, len(model.layer_records_)):
        size = model.layer_records_[number].effective_size
        assert size == pytest.approx(effective_size(model.weights_[number - 1]))
        assert size < 150
    assert all(
        record.effective_size < len(load_digits().target) for record in digits().layer_records_[1:]
    )


def test_given_weights_stay_when_rows_are_weighed_anew() -> None:
    given = 1 + Y.astype(float)
    model = Watched(FEW, max_layers=1, **PAPER).fit(X, Y, given)
    margin = margins(model.said_[0], Y) * model.layer_records_[0].alphas[0]
    expected = row_weights(margin, 0.8, 0.05) * given
    np.testing.assert_allclose(
        model.weights_[0] / model.weights_[0].sum(), expected / expected.sum(), rtol=1e-3
    )


def test_without_reweighting_every_row_counts_the_same() -> None:
    model, _ = watched(reweight=False)
    assert [record.effective_size for record in model.layer_records_] == [150] * len(
        model.layer_records_
    )


@pytest.mark.parametrize("joint", [True, False])
def test_on_rows_that_can_hardly_be_told_apart_it_still_says_what_its_learners_say(
    joint: bool,
) -> None:
    x, y = make_classification(
        600, 12, n_informative=8, n_classes=10, n_clusters_per_class=1, flip_y=0.5, random_state=0
    )
    model = MarginForestClassifier(FEW, joint_alphas=joint, max_layers=2, random_state=0).fit(
        x[:400], y[:400]
    )
    assert all(
        sum(record.alphas) > 0 and min(record.alphas) >= 0 for record in model.layer_records_
    )
    assert model.score(x[400:], y[400:]) > 0.2
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_what_is_said_is_the_sum_of_the_layers() -> None:
    model, _ = watched()
    depth = model.n_layers_
    alphas = np.array(model.layer_records_[depth - 1].alphas)
    trace = model.trace(X)
    means = trace.vectors.mean(axis=1)
    total = np.tensordot(alphas, means, axes=1)
    np.testing.assert_allclose(
        model.predict_proba(X), total / total.sum(axis=1, keepdims=True), atol=1e-6
    )
    said = np.tensordot(alphas, np.stack(model.said_[:depth]), axes=1)
    np.testing.assert_allclose(model.oof_output_, said / said.sum(axis=1, keepdims=True), atol=1e-5)


def test_the_next_layer_sees_one_column_a_class() -> None:
    model = digits()
    assert [record.n_features for record in model.layer_records_] == [64, 74, 74, 74]
    assert model.transform(load_digits().data[:5]).shape == (5, 30)


@pytest.mark.parametrize(
    ("depth_step", "given", "depths"),
    [(4, None, [8, 12, 16]), (None, None, [None] * 3), (4, 10, [8, 10, 10])],
)
def test_random_forests_grow_deeper_with_the_layers(
    depth_step: int | None, given: int | None, depths: list
) -> None:
    learners = [
        {"kind": "random_forest", "n_estimators": 3, "max_depth": given},
        {"kind": "completely_random_forest", "n_estimators": 3},
    ]
    model = MarginForestClassifier(
        learners, depth_step=depth_step, max_layers=3, patience=3, **PAPER
    )
    records = model.fit(X, Y).layer_records_
    assert [record.learners[0].settings["max_depth"] for record in records] == depths
    assert [record.learners[1].settings["max_depth"] for record in records] == [None] * 3


@pytest.mark.parametrize(
    ("name", "kinds", "features"),
    [
        ("mddf", ["random_forest"] * 2 + ["completely_random_forest"] * 2, [4, 7]),
        ("mddf_sf", ["random_forest"] * 4, [4, 7]),
        ("mddf_st", ["random_forest"] * 2 + ["completely_random_forest"] * 2, [4, 3]),
        ("mddf_np", ["random_forest"] * 2 + ["completely_random_forest"] * 2, [4, 4]),
    ],
)
def test_the_papers_variants(name: str, kinds: list[str], features: list[int]) -> None:
    model = preset(name, cv=2, max_layers=2, patience=2, random_state=0)
    model.set_params(learners=[{**learner, "n_estimators": 5} for learner in model.learners]).fit(
        X, Y
    )
    assert [learner.settings["kind"] for learner in model.layer_records_[0].learners] == kinds
    assert [record.n_features for record in model.layer_records_] == features
    assert model.score(X, Y) > 0.9


def test_rows_all_beyond_hope_still_have_probabilities() -> None:
    rng = np.random.default_rng(0)
    x, y = (
        rng.random((40, 2)),
        np.arange(40) % 4,
    )  # nothing to learn: no layer has a weight worth having
    model = MarginForestClassifier(FEW, cv=2, max_layers=2, random_state=0).fit(x, y)
    said = model.predict_proba(x)
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert (said >= 0).all()


# --- settings that are chosen ---


class Trials:
    """Stand in for the trials of a layer: the loss of each value is known."""

    def __init__(self, losses: dict[Any, float], cascade: Any = None) -> None:
        self.expected = losses
        self.cascade = cascade
        self.tried: list[Any] = []

    def loss(self, setting: str, value: Any, *_: Any) -> float:
        self.tried.append(value)
        return self.expected[value]


@pytest.mark.parametrize(
    ("losses", "chosen", "tried"),
    [
        ({16: 0.1, 8: 0.2, 4: 0.05, 2: 0.0}, 16, [16, 8]),
        ({16: 0.3, 8: 0.2, 4: 0.25, 2: 0.0}, 8, [16, 8, 4]),
        # Equal, since no tree is so deep: the shallower ones may still be better.
        ({16: 0.3, 8: 0.3, 4: 0.2, 2: 0.25}, 4, [16, 8, 4, 2]),
        ({16: 0.3, 8: 0.3, 4: 0.4, 2: 0.25}, 16, [16, 8, 4]),
    ],
)
def test_the_depth_step_falls_while_that_helps(
    losses: dict[Any, float], chosen: int, tried: list[int]
) -> None:
    strategy = MarginStrategy(0.8, 0.05, "auto", True, True)
    trials = Trials(losses)
    strategy.tune(1, make_learners(FEW), [], None, trials)  # type: ignore[arg-type]
    assert strategy.depth_step == chosen
    assert trials.tried == tried


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
@pytest.mark.parametrize("vectors", ["folds", "oob"])
def test_auto_takes_the_values_with_the_lowest_loss(
    resampling: str, vectors: str, tmp_path: Path
) -> None:
    x, y = load_digits(return_X_y=True)
    model = MarginForestClassifier(
        FEW, gamma="auto", mu="auto", depth_step="auto", resampling=resampling, cv=3,
        class_vectors=vectors, max_layers=2, patience=2, random_state=0,
    ).fit(x[:600], y[:600])  # fmt: skip
    first, second = model.layer_records_
    assert first.trials.keys() == {"depth_step"}
    assert second.trials.keys() == {"gamma", "mu"}
    best = {}
    for trials in (first.trials, second.trials):
        for name, losses in trials.items():
            best[name] = min(losses, key=lambda value, losses=losses: losses[value])
    assert list(second.trials["gamma"]) == [str(value) for value in GAMMAS]
    assert list(second.trials["mu"]) == [str(value) for value in MUS]
    assert set(first.trials["depth_step"]) <= {str(value) for value in DEPTH_STEPS}
    assert best == {name: str(value) for name, value in second.settings.items()}
    assert (model.gamma_, model.mu_, model.depth_step_) == tuple(second.settings.values())
    # The row weights of layer 2, and its depth, are those of the chosen values.
    plain = MarginForestClassifier(**{**model.get_params(), **second.settings}).fit(
        x[:600], y[:600]
    )
    assert plain.layer_records_[1].effective_size == pytest.approx(second.effective_size, rel=0.05)
    assert plain.layer_records_[0].score == pytest.approx(first.score, rel=1e-5)
    depth = second.learners[0].settings["max_depth"]
    assert depth == 3 * model.depth_step_
    model.save(tmp_path / "model")
    again = MarginForestClassifier.load(tmp_path / "model")
    assert (again.gamma_, again.mu_, again.depth_step_) == tuple(second.settings.values())
    assert again.layer_records_[1].trials == second.trials


@pytest.mark.parametrize("params", [{"gamma": "best"}, {"mu": "best"}, {"depth_step": "best"}])
def test_other_words_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(params))}.*best"):
        MarginForestClassifier(FEW, **params).fit(X, Y)


# --- layers without a weight ---


@pytest.mark.parametrize(
    ("alphas", "augment", "needed"),
    [
        # Layer 3 sees f_2 = α_2·h_2, and layer 2 sees f_1: all are needed.
        ([[0.9], [0, 0.9], [0, 0, 0.9]], "concat", [True, True, True]),
        ([[0.9], [0, 0.9], [0, 0, 0.9]], "none", [False, False, True]),
        # Layer 3 sees f_2 = f_1: nothing needs layer 2.
        ([[0.9], [0.9, 0], [0.3, 0, 0.6]], "concat", [True, False, True]),
        ([[0.9], [0.9, 0], [0, 0, 0.9]], "stack", [True, False, True]),
        ([[0.9], [0, 0.9], [0.9, 0, 0]], "concat", [True, False, False]),
    ],
)
def test_layers_that_no_prediction_needs_are_not_passed(
    alphas: list[list[float]], augment: str, needed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        margin_forest, "best_alphas", lambda by_layer, *_: np.array(alphas[by_layer.shape[1] - 1])
    )
    x, y = load_digits(return_X_y=True)
    settings: dict[str, Any] = {"cv": 3, "max_layers": 3, "patience": 3, "random_state": 0}
    monkeypatch.setattr(EarlyStopping, "_is_proven", lambda *_: True)  # keeps all layers
    model = MarginForestClassifier(FEW, augment=augment, **settings).fit(x[:400], y[:400])
    assert model.n_layers_ == 3
    assert [cascade.needed_layers(augment) for cascade in model.cascades_] == [needed]
    *_, staged = model.staged_predict_proba(x[400:])
    passed = set()
    vectors = Layer.vectors

    def watch(layer: Layer, *arguments: Any) -> np.ndarray:
        passed.add(len(layer.alphas))
        return vectors(layer, *arguments)

    monkeypatch.setattr(Layer, "vectors", watch)
    np.testing.assert_array_equal(model.predict_proba(x[400:]), staged)
    assert passed == {number for number, is_needed in enumerate(needed, 1) if is_needed}


def test_a_probe_of_one_cascade_refuses_a_layer() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((1000, 3)), rng.integers(0, 2, 1000)  # nothing to learn
    refused_ = []
    for seed in range(4):  # by chance the first cascade gains something in some of them
        model = MarginForestClassifier(FEW, cv=3, random_state=seed).fit(x, y)
        refused_ += [record for record in model.layer_records_ if record.probe]
    assert refused_
    for record in refused_:
        assert not record.kept
        assert record.gain is not None
        assert record.gain <= 0


def test_a_fit_that_sees_no_row_with_a_cost() -> None:
    # Every margin but that of the odd row is the target: only this row has a cost.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (300, 2)).astype(float)
    y = x[:, 0].astype(int)
    x[0], y[0] = (50, 50), 0
    params = {"cv": 3, "max_layers": 2, "patience": 2, "random_state": 0}
    model = MarginForestClassifier([DecisionTreeClassifier()], **params).fit(x, y)
    assert np.isfinite(model.predict_proba(x)).all()
