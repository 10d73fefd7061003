"""One layer: folds, vectors of rows that no model saw, out-of-bag vectors, seeds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from deepforest._features import Features
from deepforest._fit_jobs import JobRunner
from deepforest._layer import (
    FitResult,
    LayerFit,
    LayerPlan,
    LayerReader,
    PlannedFit,
    fit_layer,
    gather_vectors,
    pack_layers,
    seed_of,
)
from deepforest._resampling import CascadeRows, draw_folds, nested, per_layer
from deepforest.learners import Fit, FitSlice, Fitted, Learner, Target, make_learners
from deepforest.persistence import Pack

KINDS = ["random_forest", "extra_trees", "completely_random_forest", "mart"]


def task_of(target: Any, n_classes: int = 0) -> Target:
    return Target(np.asarray(target, np.int32 if n_classes else float), n_classes)


def iris() -> tuple[Features, Target]:
    x, y = load_iris(return_X_y=True)
    return Features(x, np.zeros(4, bool), learning=True), task_of(y, 3)


@dataclass
class Cascade:
    """What a layer needs of a cascade that grows."""

    features: Features

    def see(self) -> Features:
        return self.features


def fit(learners: Any, features: Features, target: Target, **settings: Any) -> LayerFit:
    """Fit a layer in the papers' way: one cascade, with folds of all its rows."""
    n_folds, seed = settings.pop("folds", 3), settings.get("seed", 7)
    rows = settings.pop("rows", np.arange(len(features)))
    folds = draw_folds(rows, target, n_folds, seed)
    [whole] = per_layer(rows).scored
    return fit_cascades(learners, features, target, [replace(whole, folds=folds)], **settings)[0]


def fit_cascades(
    learners: Any,
    features: Features,
    target: Target,
    rows: list[CascadeRows],
    *,
    n_jobs: int = 1,
    listener: Any = None,
    **settings: Any,
) -> list[LayerFit]:
    plan = {"number": 1, "weights": None, "out_of_bag": False, "seed": 7, **settings}
    plans = [LayerPlan(learners=make_learners(learners), rows=each, **plan) for each in rows]
    with JobRunner(n_jobs, listener=listener) as runner:
        return fit_layer(plans, [Cascade(features)] * len(rows), target, runner)


def small(kind: str, **settings: Any) -> dict[str, Any]:
    return {"kind": kind, "n_estimators": 10, **settings}


# --- folds ---


@pytest.mark.parametrize("folds", [2, 3, 5])
@pytest.mark.parametrize("sizes", [(50, 50), (97, 2, 1), (7, 11, 13, 17), (5, 5)])
def test_folds_are_disjoint_cover_all_rows_and_share_out_every_class(
    sizes: tuple[int, ...], folds: int
) -> None:
    target = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    drawn = draw_folds(np.arange(len(target)), task_of(target, len(sizes)), folds, 3)
    assert len(drawn) == folds
    assert sorted(np.concatenate(drawn)) == list(range(len(target)))
    assert all((np.diff(rows) > 0).all() for rows in drawn)
    counts = np.array([np.bincount(target[rows], minlength=len(sizes)) for rows in drawn])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_folds_of_numbers_are_of_equal_size() -> None:
    drawn = draw_folds(np.arange(20), task_of(np.linspace(0, 1, 20)), 3, 0)
    assert sorted(map(len, drawn)) == [6, 7, 7]
    assert sorted(np.concatenate(drawn)) == list(range(20))


def test_folds_are_of_the_rows_that_take_part_and_depend_on_the_seed() -> None:
    rows = np.array([2, 3, 5, 7, 11, 13])
    one, same, other = (
        draw_folds(rows, task_of(np.arange(20) % 2, 2), 2, seed) for seed in (1, 1, 4)
    )
    assert sorted(np.concatenate(one)) == rows.tolist()
    assert [fold.tolist() for fold in one] == [fold.tolist() for fold in same]
    assert [fold.tolist() for fold in one] != [fold.tolist() for fold in other]


# --- vectors of rows that were not seen ---


def test_a_learner_that_knows_its_rows_by_heart_knows_nothing_of_the_others() -> None:
    """The target is noise: 1-nearest-neighbour is always right about rows it saw and only then."""
    rng = np.random.default_rng(0)
    features = Features(rng.random((300, 3)), np.zeros(3, bool), learning=True)
    target = task_of(rng.integers(0, 2, 300), 2)
    told = fit([KNeighborsClassifier(1)], features, target)
    right = told.vectors[0].argmax(axis=1) == target.values
    assert 0.35 < right.mean() < 0.65
    models = told.layer.models[0]
    seen = [model.vectors(features).argmax(axis=1) == target.values for model in models]
    assert (np.sum(seen, axis=0) >= 2).all()  # two of the three models saw each row
    held_out = np.sum(seen, axis=0) == 2
    np.testing.assert_array_equal(
        right[held_out], False
    )  # the model that erred is the one that tells


@pytest.mark.parametrize("out_of_bag", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_cannot_be_told_from_features(kind: str, out_of_bag: bool) -> None:
    rng = np.random.default_rng(1)
    features = Features(rng.random((400, 3)), np.zeros(3, bool), learning=True)
    target = task_of(rng.integers(0, 2, 400), 2)
    told = fit([small(kind, n_estimators=30)], features, target, out_of_bag=out_of_bag)
    assert 0.4 < (told.vectors[0].argmax(axis=1) == target.values).mean() < 0.6
    assert (
        told.layer.vectors(features)[0].argmax(axis=1) == target.values
    ).mean() > 0.65  # of rows it knows


@dataclass(frozen=True)
class Spy(Learner):
    """Remembers what it was given."""

    kind = "spy"
    log: list[FitSlice] = field(default_factory=list, compare=False)

    def prepare(self, features: Features) -> None:
        pass

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        self.log.append(part)
        return Fit(Silent(), np.zeros((len(part.predict_rows), target.n_outputs), np.float32))


class Silent(Fitted):
    kind = "silent"

    def vectors(self, features: Features) -> np.ndarray:
        return np.zeros((len(features), 1))

    def importances(self, n_features: int) -> np.ndarray:
        return np.zeros(n_features)

    def pack(self) -> Pack:
        return Pack()

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> Silent:
        return cls()


def spied(**settings: Any) -> list[FitSlice]:
    log: list[FitSlice] = []
    features, target = iris()
    fit([Spy(log=log), Spy(log=log)], features, target, **settings)
    return log


def test_each_fit_learns_from_all_rows_but_those_it_holds_out() -> None:
    parts = spied(rows=np.arange(0, 150, 2))
    assert len(parts) == 6
    for part in parts:
        assert sorted([*part.rows, *part.held_out]) == list(range(0, 150, 2))
        assert (np.diff(part.rows) > 0).all()
    assert sorted(np.concatenate([part.held_out for part in parts[:3]])) == list(range(0, 150, 2))


def test_seeds_differ_by_layer_learner_and_fold_and_are_the_same_next_time() -> None:
    seeds = [part.seed for number in (1, 2, 3) for part in spied(number=number)]
    assert len(set(seeds)) == 3 * 2 * 3
    assert seeds == [part.seed for number in (1, 2, 3) for part in spied(number=number)]
    assert set(seeds).isdisjoint(part.seed for part in spied(seed=8))
    assert seed_of(1, 2, 3) != seed_of(1, 3, 2)


@pytest.mark.parametrize(("n_jobs", "threads"), [(1, 1), (4, 1), (12, 2), (20, 3)])
def test_workers_that_would_be_idle_help_the_fits(n_jobs: int, threads: int) -> None:
    assert {part.n_jobs for part in spied(n_jobs=n_jobs)} == {threads}


def test_rows_that_take_no_part_have_no_vectors() -> None:
    features, target = iris()
    rows = np.arange(0, 150, 2)
    told = fit([small("random_forest")], features, target, rows=rows)
    assert not told.vectors[0][1::2].any()
    np.testing.assert_allclose(told.vectors[0][rows].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("out_of_bag", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "scikit"])
def test_a_class_that_a_training_fold_lacks_is_no_trouble(kind: str, out_of_bag: bool) -> None:
    x, y = load_iris(return_X_y=True)
    rows = np.concatenate([np.arange(100), [100]])  # the third class has a single row
    features = Features(x[rows], np.zeros(4, bool), learning=True)
    learner = GaussianNB(var_smoothing=1e-3) if kind == "scikit" else small(kind)
    told = fit([learner], features, task_of(y[rows], 3), out_of_bag=out_of_bag)
    assert np.isfinite(told.vectors).all()
    np.testing.assert_allclose(told.vectors[0].sum(axis=1), 1, atol=1e-5)
    assert told.vectors[0][100, 2] < 0.05  # whoever tells of it never saw its class
    assert told.layer.vectors(features).shape == (1, 101, 3)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_workers_do_not_change_the_result(n_jobs: int) -> None:
    learners = [small(kind) for kind in KINDS]
    alone, together = fit(learners, *iris()), fit(learners, *iris(), n_jobs=n_jobs)
    np.testing.assert_array_equal(alone.vectors, together.vectors)


def test_weights_reach_the_fits() -> None:
    features, target = (
        Features(np.zeros((200, 1)), np.zeros(1, bool), learning=True),
        task_of(np.arange(200) % 2, 2),
    )
    told = fit(
        [small("completely_random_forest")],
        features,
        target,
        weights=np.where(target.values == 1, 4.0, 1.0),
    )
    np.testing.assert_allclose(told.vectors[0][:, 1], 0.8, atol=0.01)


def test_numbers_are_told_of_as_well() -> None:
    x, _ = load_iris(return_X_y=True)
    features = Features(x[:, :3], np.zeros(3, bool), learning=True)
    told = fit([small("random_forest"), "mart", LinearRegression()], features, task_of(x[:, 3]))
    assert told.vectors.shape == (3, 150, 1)
    assert all(np.corrcoef(vectors[:, 0], x[:, 3])[0, 1] > 0.9 for vectors in told.vectors)


# --- out of the bags ---


def test_out_of_bag_there_is_one_model_a_learner_that_can_and_one_a_fold_of_others() -> None:
    features, target = iris()
    told = fit(
        [small("random_forest"), "mart", GaussianNB()], features, target, out_of_bag=True, folds=4
    )
    assert [len(models) for models in told.layer.models] == [1, 4, 4]
    assert (told.vectors.argmax(axis=2) == target.values).mean() > 0.9


@pytest.mark.parametrize("n_classes", [3, 0])
def test_rows_that_no_tree_left_out_get_what_is_typical(n_classes: int) -> None:
    rows = np.array([0, 2, 3, 5])
    target = task_of([0, 2, 1, 1, 2, 1], n_classes)
    told = np.full((4, target.n_outputs), 0.5, np.float32)
    told[2] = np.nan
    [whole] = per_layer(rows).scored
    plan = LayerPlan(1, (), whole, None, True, 0)
    fits = [PlannedFit("", (), Spy(), rows, rows[:0], True, 0)]
    vectors = gather_vectors(plan, fits, [FitResult(Silent(), told, 0.0)], target)
    np.testing.assert_allclose(vectors[3], [0.25, 0.75, 0] if n_classes else [0.75])
    np.testing.assert_allclose(vectors[[0, 2, 5]], 0.5)
    np.testing.assert_allclose(vectors[[1, 4]], 0)


def test_a_forest_of_one_tree_tells_class_shares_of_the_rows_in_its_bag() -> None:
    features, target = iris()
    rows = np.arange(0, 125)
    told = fit(
        [small("random_forest", n_estimators=1)], features, target, out_of_bag=True, rows=rows
    )
    typical = np.isclose(told.vectors[0][rows], [0.4, 0.4, 0.2]).all(axis=1)
    assert 0.5 < typical.mean() < 0.75


# --- the fitted layer ---


def test_new_rows_get_the_mean_over_the_fold_models() -> None:
    features, target = iris()
    layer = fit([small("random_forest"), "mart"], features, target).layer
    for number, models in enumerate(layer.models):
        mean = np.mean([model.vectors(features) for model in models], axis=0)
        np.testing.assert_allclose(layer.vectors(features)[number], mean, atol=1e-6)


def test_a_layer_is_the_same_after_it_was_packed() -> None:
    features, target = iris()
    features.room = 3
    features.add(fit([small("random_forest")], features, target).vectors[0])
    layer = fit([small("extra_trees"), small("mart")], features, target, number=2).layer
    layer.coefficients, layer.alphas, layer.threshold = (
        np.array([0.25, 0.75]),
        np.array([0.5, 1.0]),
        0.9,
    )
    again = LayerReader(pack_layers([[layer]]), 3).read(1, 1)
    vectors = layer.vectors(features)
    np.testing.assert_array_equal(again.vectors(features), vectors)
    np.testing.assert_array_equal(again.combine(vectors), layer.combine(vectors))
    np.testing.assert_allclose(again.importances(), layer.importances(), rtol=1e-5)
    np.testing.assert_array_equal(again.alphas, layer.alphas)
    assert again.threshold == 0.9
    assert again.binner is not None
    np.testing.assert_array_equal(
        again.binner.bin_rows(features.vectors), layer.binner.bin_rows(features.vectors)
    )


# --- several cascades ---


def nested_rows(n_folds: int, rows: np.ndarray | None = None) -> list[CascadeRows]:
    _, target = iris()
    return nested(np.arange(150) if rows is None else rows, target, n_folds, 3, None).scored


def keys_of(event_states: list[tuple[str, str]], state: str) -> list[str]:
    return [key for key, found in event_states if found == state]


@pytest.mark.parametrize("out_of_bag", [False, True])
@pytest.mark.parametrize("n_folds", [2, 3, 4, 5])
def test_cascades_share_the_fits_of_the_first_layer(n_folds: int, out_of_bag: bool) -> None:
    """Without folds i and j there is one fit; out of bag, one for each cascade."""
    learners = [small("random_forest", n_estimators=4), GaussianNB()]
    for number in (1, 2):
        events: list[tuple[str, str]] = []
        features, target = iris()
        fits = fit_cascades(
            learners,
            features,
            target,
            nested_rows(n_folds),
            number=number,
            out_of_bag=out_of_bag,
            listener=lambda event, events=events: events.append((event.key, event.state)),
        )
        finished = keys_of(events, "finished")
        assert len(finished) == len(set(finished))
        assert sorted(finished) == sorted(keys_of(events, "waiting"))
        pairs = n_folds * max(n_folds - 1, 2)
        if number == 1 and n_folds > 2:
            pairs //= 2
        assert len(finished) == (n_folds if out_of_bag else pairs) + pairs
        for each in fits:
            n_models = [len(models) for models in each.layer.models]
            assert n_models == [1 if out_of_bag else max(n_folds - 1, 2), max(n_folds - 1, 2)]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("n_folds", [2, 3, 4])
def test_a_cascade_that_learns_all_rows_shares_no_fit(n_folds: int, number: int) -> None:
    """Beside the others it is fitted when there are validation rows."""
    _, target = iris()
    rows, final = nested(np.arange(150), target, n_folds, 3, None)
    assert final is not None
    log: list[FitSlice] = []
    features, target = iris()
    fits = fit_cascades([Spy(log=log)], features, target, [*rows, final], number=number)
    models = [{id(model) for model in fit.layer.models[0]} for fit in fits]
    assert len(log) == len(set.union(*models))  # none was made twice
    assert len(models[-1]) == n_folds
    assert models[-1].isdisjoint(set.union(*models[:-1]))
    # Each row is left out by one fit and learned by all others.
    own = log[-n_folds:]
    np.testing.assert_array_equal(
        np.sort(np.concatenate([part.held_out for part in own])), final.training
    )
    for part in own:
        np.testing.assert_array_equal(np.sort([*part.rows, *part.held_out]), np.arange(150))


def test_a_fit_without_two_folds_serves_the_cascades_that_are_blind_to_one_of_them() -> None:
    log: list[FitSlice] = []
    features, target = iris()
    rows = nested_rows(3)
    fits = fit_cascades([Spy(log=log)], features, target, rows)
    folds = [each.blind for each in rows]
    assert len(log) == 3
    for part in log:
        # It learns from one of three folds and predicts the two others.
        [learned] = [fold for fold in folds if np.array_equal(fold, part.rows)]
        others = np.sort(np.concatenate([fold for fold in folds if fold is not learned]))
        np.testing.assert_array_equal(part.held_out, others)
    models = [fit.layer.models[0] for fit in fits]
    for one in range(3):
        for other in range(one):
            assert len({id(model) for model in models[one]} & {id(m) for m in models[other]}) == 1


@pytest.mark.parametrize("number", [1, 2])
def test_no_fit_of_a_cascade_learns_from_rows_it_is_blind_to(number: int) -> None:
    """Also in later layers, where some rows have left."""
    left = np.arange(0, 150, 7)
    rows = []
    for each in nested_rows(4):
        folds = [np.setdiff1d(fold, left) for fold in each.folds or []]
        training, blind = np.setdiff1d(each.training, left), np.setdiff1d(each.blind, left)
        rows.append(replace(each, training=training, folds=folds, blind=blind))
    for each in rows:
        log: list[FitSlice] = []
        features, target = iris()
        fit_cascades([Spy(log=log)], features, target, [each], number=number)
        assert len(log) == 3
        for part in log:
            assert not np.isin(part.rows, each.blind).any()
            assert not np.isin(part.rows, left).any()
            assert np.isin(each.blind, part.held_out).all()
        # Each training row is predicted by the one fit that did not learn from it.
        learned = np.concatenate([part.rows for part in log])
        np.testing.assert_array_equal(np.bincount(learned, minlength=150)[each.training], 2)


def test_rows_a_cascade_is_blind_to_get_the_mean_of_its_fits() -> None:
    features, target = iris()
    rows = nested_rows(4)
    for fit_of_cascade, each in zip(
        fit_cascades([small("random_forest")], features, target, rows), rows, strict=True
    ):
        new = fit_of_cascade.layer.vectors(features)
        np.testing.assert_allclose(
            fit_of_cascade.vectors[0][each.blind], new[0][each.blind], atol=1e-6
        )
        assert np.isfinite(fit_of_cascade.vectors).all()


def test_fits_of_nested_folds_share_the_trees_of_a_forest() -> None:
    features, target = iris()
    learners = [small("random_forest", n_estimators=12), small("mart", n_estimators=6)]
    [forest, mart] = fit_cascades(learners, features, target, nested_rows(4))[0].layer.models
    assert [len(model.forest.roots) - 1 for model in forest] == [4, 4, 4]
    assert [model.booster.num_trees() for model in mart] == [18, 18, 18]  # a tree for each class
