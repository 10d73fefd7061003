"""The kinds of learners: how they are named, what they predict, and their form as plain data."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from deepforest._features import Features
from deepforest._fit_jobs import FolderCheckpointer
from deepforest._lightgbm import lightgbm_threads
from deepforest.learners import (
    FITTED,
    CompletelyRandomForest,
    ExtraTrees,
    Fit,
    FitSlice,
    Learner,
    Mart,
    RandomForest,
    Scikit,
    Target,
    make_learner,
    make_learners,
)
from deepforest.persistence import Pack
from tests.expect import refused

FORESTS = ["random_forest", "extra_trees", "completely_random_forest"]
KINDS = [*FORESTS, "mart"]
EVEN, ODD = np.arange(0, 150, 2), np.arange(1, 150, 2)


def features_of(x: Any, categorical: tuple[int, ...] = (), **settings: Any) -> Features:
    values = np.asarray(x, float)
    return Features(
        values, np.isin(np.arange(values.shape[1]), categorical), learning=True, **settings
    )


def flowers(n_classes: int = 3) -> tuple[Features, Target]:
    """Iris with three classes, two, or (0) a length as the target."""
    x, y = load_iris(return_X_y=True)
    if n_classes == 0:
        return features_of(x[:, :3]), Target(x[:, 3], 0)
    return features_of(x), Target(np.minimum(y, n_classes - 1).astype(np.int32), n_classes)


def fitted(learner: Learner, features: Features, target: Target, part: FitSlice) -> Fit:
    learner.prepare(features)
    return learner.fit(features, target, part)


def small(kind: str, **settings: Any) -> Learner:
    return make_learner({"kind": kind, "n_estimators": 8, **settings})


# --- asking for them ---


@pytest.mark.parametrize(
    ("wanted", "learners"),
    [
        ("mart", [Mart()]),
        (["random_forest", "extra_trees"], [RandomForest(), ExtraTrees()]),
        (
            {"kind": "mart", "n_estimators": 7, "count": 2},
            [Mart(n_estimators=7), Mart(n_estimators=7)],
        ),
        ([CompletelyRandomForest(count=2, max_depth=3)], [CompletelyRandomForest(max_depth=3)] * 2),
        (RandomForest(n_estimators=3), [RandomForest(n_estimators=3)]),
        (({"kind": "extra_trees"}, Mart(num_leaves=4)), [ExtraTrees(), Mart(num_leaves=4)]),
        ((kind for kind in ["mart"]), [Mart()]),
    ],
)
def test_learners_by_kind_mapping_and_object(wanted: Any, learners: list[Learner]) -> None:
    assert list(make_learners(wanted)) == learners


@pytest.mark.parametrize("in_a_list", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        RandomForestClassifier(5),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_any_scikit_learn_estimator_is_a_learner(estimator: Any, in_a_list: bool) -> None:
    (learner,) = make_learners([estimator] if in_a_list else estimator)
    assert isinstance(learner, Scikit)
    assert learner.estimator is estimator
    features, target = flowers()
    vectors = fitted(learner, features, target, FitSlice(EVEN, ODD, None, 0)).vectors
    assert (vectors.argmax(axis=1) == target.values[ODD]).mean() > 0.9


@pytest.mark.parametrize(
    ("wanted", "naming"),
    [
        ("forest", ["'forest'", "random_forest"]),
        ({"n_estimators": 5}, ["'kind'", "{'n_estimators': 5}"]),
        ({"kind": ["mart"]}, ["['mart']"]),
        ({"kind": "mart", "tress": 5}, ["mart", "'tress'", "count", "n_estimators"]),
        ({"kind": "random_forest", "num_leaves": 5}, ["random_forest", "'num_leaves'"]),
        ({"kind": "random_forest", "leaves": 5}, ["random_forest", "'leaves'"]),
        ({"kind": "scikit"}, ["None", "scikit-learn"]),
        (7, ["7", "scikit-learn"]),
        ([], ["learner"]),
    ],
)
def test_what_is_wrong_is_named(wanted: Any, naming: list[str]) -> None:
    with refused(ValueError, naming=naming):
        make_learners(wanted)


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("mart", "n_estimators", 0),
        ("mart", "num_leaves", 1),
        ("mart", "min_samples_leaf", 2.5),
        ("mart", "max_depth", 0),
        ("mart", "learning_rate", 0),
        ("mart", "learning_rate", "fast"),
        ("mart", "subsample", 1.1),
        ("mart", "colsample_bytree", float("nan")),
        ("extra_trees", "count", 0),
        ("extra_trees", "n_estimators", "many"),
        ("extra_trees", "min_samples_leaf", True),
        ("random_forest", "max_depth", -1),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_learner(
    kind: str, setting: str, value: Any
) -> None:
    with refused(ValueError, naming=[kind, setting, repr(value)]):
        make_learners({"kind": kind, setting: value})


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("random_forest", {"trees": 3, "min_rows": 4}, {"n_estimators": 3, "min_samples_leaf": 4}),
        ("extra_trees", {"trees": 3}, {"n_estimators": 3}),
        (
            "mart",
            {"trees": 3, "min_rows": 4, "leaves": 5, "row_share": 0.6, "column_share": 0.7},
            {
                "n_estimators": 3,
                "min_samples_leaf": 4,
                "num_leaves": 5,
                "subsample": 0.6,
                "colsample_bytree": 0.7,
            },
        ),
    ],
)
def test_settings_are_accepted_under_their_old_names(
    kind: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    with pytest.warns(FutureWarning) as warned:
        learner = make_learner({"kind": kind, **old})
    assert learner == make_learner({"kind": kind, **new})
    messages = [str(warning.message) for warning in warned]
    for names in zip(old, new, strict=True):
        assert any(all(repr(name) in message for name in names) for message in messages)


@pytest.mark.parametrize("value", ["cube", 1.5])
def test_an_unknown_number_of_features_is_named(value: Any) -> None:
    with refused(ValueError, naming=["max_features", repr(value)]):
        make_learners({"kind": "random_forest", "max_features": value})


@pytest.mark.parametrize("kind", KINDS)
def test_about_makes_the_same_learner_again(kind: str) -> None:
    learner = small(kind, min_samples_leaf=3)
    assert make_learner(learner.about()) == learner


@pytest.mark.parametrize(
    ("learner", "deeper", "larger"),
    [
        (
            RandomForest(n_estimators=10),
            RandomForest(n_estimators=10, max_depth=4),
            RandomForest(n_estimators=15),
        ),
        (Mart(n_estimators=1), Mart(n_estimators=1, max_depth=4), Mart(n_estimators=2)),
        (Scikit(estimator=GaussianNB()), None, None),
    ],
    ids=["forest", "mart", "scikit"],
)
def test_depth_and_trees_follow_the_layer_where_there_are_any(
    learner: Any, deeper: Any, larger: Any
) -> None:
    assert learner.with_depth(4) == (deeper or learner)
    assert learner.with_trees(1.5) == (larger or learner)


# --- what they tell ---


@pytest.mark.parametrize("n_classes", [3, 2, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_of_held_out_rows_are_what_the_model_says_of_them(
    kind: str, n_classes: int
) -> None:
    features, target = flowers(n_classes)
    fit = fitted(small(kind), features, target, FitSlice(EVEN, ODD, None, 3))
    assert fit.vectors.shape == (len(ODD), max(n_classes, 1))
    assert fit.vectors.dtype == np.float32
    np.testing.assert_allclose(fit.vectors, fit.model.vectors(features)[ODD], atol=1e-5)
    if n_classes:
        np.testing.assert_allclose(fit.vectors.sum(axis=1), 1, atol=1e-5)
        assert (fit.vectors.argmax(axis=1) == target.values[ODD]).mean() > 0.9
    else:
        assert np.corrcoef(fit.vectors[:, 0], target.values[ODD])[0, 1] > 0.85


@pytest.mark.parametrize("n_classes", [3, 0])
@pytest.mark.parametrize("kind", FORESTS)
def test_out_of_bag_vectors_are_of_the_training_rows(kind: str, n_classes: int) -> None:
    features, target = flowers(n_classes)
    fit = fitted(small(kind, n_estimators=30), features, target, FitSlice(EVEN, None, None, 3))
    assert fit.vectors.shape == (len(EVEN), max(n_classes, 1))
    assert np.isfinite(fit.vectors).all()
    assert not np.allclose(fit.vectors, fit.model.vectors(features)[EVEN], atol=1e-3)


@pytest.mark.parametrize("n_classes", [3, 0])
@pytest.mark.parametrize("kind", FORESTS)
def test_held_out_and_out_of_bag_rows_of_one_fit(kind: str, n_classes: int) -> None:
    features, target = flowers(n_classes)
    rows, held_out = np.arange(0, 150, 3), np.arange(1, 150, 3)
    both = FitSlice(rows, held_out, None, 3, out_of_bag=True)
    np.testing.assert_array_equal(both.predict_rows, np.flatnonzero(np.arange(150) % 3 < 2))
    learner = small(kind, n_estimators=30)
    fit = fitted(learner, features, target, both)
    of_held_out = fit.vectors[np.isin(both.predict_rows, held_out)]
    np.testing.assert_allclose(of_held_out, fit.model.vectors(features)[held_out], atol=1e-5)
    # A fit that predicts only the training rows grows the same trees.
    alone = fitted(learner, features, target, FitSlice(rows, None, None, 3))
    np.testing.assert_array_equal(fit.vectors[np.isin(both.predict_rows, rows)], alone.vectors)
    np.testing.assert_array_equal(alone.model.vectors(features), fit.model.vectors(features))


@pytest.mark.parametrize("kind", FORESTS)
def test_a_row_in_every_bag_has_no_vector(kind: str) -> None:
    features, target = flowers()
    vectors = fitted(
        small(kind, n_estimators=1), features, target, FitSlice(EVEN, None, None, 3)
    ).vectors
    in_bag = np.isnan(vectors).all(axis=1)
    assert (np.isnan(vectors).any(axis=1) == in_bag).all()
    assert 0.5 < in_bag.mean() < 0.75  # 1 - 1/e


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    features, target = flowers()
    one, same, other = (
        fitted(small(kind), features, target, FitSlice(EVEN, ODD, None, seed)).vectors
        for seed in (1, 1, 2**32 - 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_seed_reaches_a_scikit_learn_estimator_inside_a_pipeline() -> None:
    features, target = flowers()
    learner = make_learner(make_pipeline(StandardScaler(), RandomForestClassifier(3)))
    one, same, other = (
        fitted(learner, features, target, FitSlice(EVEN, ODD, None, seed)).vectors
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("n_classes", [2, 0])
@pytest.mark.parametrize("kind", [*KINDS, "scikit"])
def test_sample_weights_reach_the_learner(kind: str, n_classes: int) -> None:
    """Nothing tells the rows apart, so what is learned is the weighted share of ones."""
    ones = np.arange(300) % 2
    tree = DecisionTreeClassifier() if n_classes else DecisionTreeRegressor()
    learner = make_learner(tree) if kind == "scikit" else small(kind, n_estimators=60)
    features = features_of(np.zeros((300, 2)))
    target = Target(ones.astype(np.int32 if n_classes else float), n_classes)
    weights = np.where(ones == 1, 3.0, 1.0)
    vectors = fitted(
        learner, features, target, FitSlice(np.arange(250), np.arange(250, 300), weights, 0)
    ).vectors
    assert vectors[:, -1] == pytest.approx(0.75, abs=0.02)


def test_an_estimator_that_takes_no_weights_is_named_when_there_are_some() -> None:
    features, target = flowers()
    with refused(ValueError, naming=["KNeighborsClassifier", "weights"]):
        fitted(
            make_learner(KNeighborsClassifier()),
            features,
            target,
            FitSlice(EVEN, ODD, np.ones(150), 0),
        )


def test_an_estimator_without_probabilities_is_named() -> None:
    features, target = flowers()
    with refused(ValueError, naming=["LinearSVC", "predict_proba"]):
        fitted(make_learner(LinearSVC()), features, target, FitSlice(EVEN, ODD, None, 0))


@pytest.mark.parametrize("n_classes", [3, 2])
@pytest.mark.parametrize("kind", [*KINDS, "scikit"])
def test_a_class_that_is_absent_from_the_rows_has_no_share(kind: str, n_classes: int) -> None:
    features, target = flowers(n_classes)
    rows = np.flatnonzero(target.values < n_classes - 1)
    learner = make_learner(GaussianNB()) if kind == "scikit" else small(kind)
    fit = fitted(
        learner, features, target, FitSlice(rows, np.setdiff1d(np.arange(150), rows), None, 0)
    )
    assert fit.vectors.shape[1] == n_classes
    assert fit.vectors[:, -1].max() < 1e-3
    if kind != "scikit":
        pack = fit.model.pack()
        again = FITTED[pack.about["kind"]].unpack(pack, 4, n_classes)
        np.testing.assert_array_equal(again.vectors(features), fit.model.vectors(features))


@pytest.mark.parametrize("kind", KINDS)
def test_importances_are_shares_of_the_features_unless_trees_are_blind_to_the_target(
    kind: str,
) -> None:
    features, target = flowers()
    importances = fitted(
        small(kind), features, target, FitSlice(EVEN, ODD, None, 0)
    ).model.importances(4)
    assert importances.shape == (4,)
    assert importances.sum() == pytest.approx(0 if kind == "completely_random_forest" else 1)


@pytest.mark.parametrize(("estimator", "total"), [(DecisionTreeClassifier(), 1), (GaussianNB(), 0)])
def test_importances_of_an_estimator_are_its_own_if_it_has_any(
    estimator: Any, total: float
) -> None:
    features, target = flowers()
    model = fitted(make_learner(estimator), features, target, FitSlice(EVEN, ODD, None, 0)).model
    assert model.importances(4).sum() == pytest.approx(total)


@pytest.mark.parametrize("kind", KINDS)
def test_categories_that_only_a_set_can_tell_apart(kind: str) -> None:
    levels = np.random.default_rng(0).integers(0, 12, 600).astype(float)
    features = features_of(levels[:, None], categorical=(0,))
    target = Target(np.isin(levels, [1, 4, 5, 10]).astype(np.int32), 2)
    vectors = fitted(
        small(kind, n_estimators=30),
        features,
        target,
        FitSlice(np.arange(400), np.arange(400, 600), None, 0),
    ).vectors
    assert (vectors.argmax(axis=1) == target.values[400:]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_missing_values_are_learned_from(kind: str) -> None:
    x, y = load_iris(return_X_y=True)
    x = np.where(np.random.default_rng(0).random(x.shape) < 0.2, np.nan, x)
    vectors = fitted(
        small(kind), features_of(x), Target(y.astype(np.int32), 3), FitSlice(EVEN, ODD, None, 0)
    ).vectors
    assert (vectors.argmax(axis=1) == y[ODD]).mean() > 0.85


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_have_no_vectors(kind: str) -> None:
    features, target = flowers()
    model = fitted(small(kind), features, target, FitSlice(EVEN, ODD, None, 0)).model
    assert model.vectors(features.take(np.zeros(0, int))).shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_regression_is_about_right(kind: str) -> None:
    x, y = load_diabetes(return_X_y=True)
    held_out = np.arange(300, 442)
    vectors = fitted(
        small(kind, n_estimators=40),
        features_of(x),
        Target(y, 0),
        FitSlice(np.arange(300), held_out, None, 0),
    ).vectors
    assert 1 - np.mean((vectors[:, 0] - y[held_out]) ** 2) / y[held_out].var() > 0.3


# --- boosted trees ---


@pytest.mark.parametrize("n_classes", [3, 2, 0])
def test_threads_do_not_change_boosted_trees(n_classes: int) -> None:
    # LightGBM splits work among threads only if there are some thousand rows.
    x, y = make_classification(4000, 20, n_informative=8, n_classes=3, random_state=0)
    target = np.minimum(y, n_classes - 1).astype(np.int32) if n_classes else x[:, 0]
    target = Target(target, n_classes)
    weights = np.random.default_rng(0).random(4000)
    rows, held_out = np.arange(3000), np.arange(3000, 4000)
    one, three = (
        fitted(
            small("mart"),
            features_of(x, n_jobs=n_jobs),
            target,
            FitSlice(rows, held_out, weights, 3, n_jobs),
        )
        for n_jobs in (1, 3)
    )
    assert one.model.pack().text == three.model.pack().text
    np.testing.assert_array_equal(one.vectors, three.vectors)


def test_fits_with_different_numbers_of_threads_at_the_same_time() -> None:
    features, target = flowers()
    learner = small("mart")
    learner.prepare(features)
    slices = [FitSlice(EVEN, ODD, None, 3, 1 + number % 3) for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        fits = list(threads.map(lambda part: learner.fit(features, target, part), slices))
    for fit in fits:
        np.testing.assert_array_equal(fit.vectors, fits[0].vectors)


def test_a_fit_that_waits_for_threads_can_be_cancelled() -> None:
    features, target = flowers()
    learner = small("mart")
    learner.prepare(features)

    def cancel() -> None:
        raise KeyboardInterrupt

    with lightgbm_threads(2), ThreadPoolExecutor(1) as threads:
        part = FitSlice(EVEN, ODD, None, 3, 1, cancel)
        with pytest.raises(KeyboardInterrupt):
            threads.submit(learner.fit, features, target, part).result(timeout=60)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory from /proc")
def test_boosted_trees_do_not_hold_the_memory_of_their_training() -> None:
    x = np.random.default_rng(0).standard_normal((600, 1500)).astype(np.float32)
    features = Features(x, np.zeros(1500, bool), learning=True)
    target = Target((x[:, 0] > 0).astype(np.int32), 2)
    learner = small("mart", n_estimators=2, min_samples_leaf=5)
    rows, held_out = np.arange(0, 600, 2), np.arange(1, 600, 2)
    models, used = [], []
    for seed in range(5):
        models.append(fitted(learner, features, target, FitSlice(rows, held_out, None, seed)).model)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        used.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
    # The histograms of one fit take about 150 MB.
    assert used[4] - used[1] < 150


# --- as plain data ---


@pytest.mark.parametrize("n_classes", [3, 2, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_learner_says_the_same(kind: str, n_classes: int, tmp_path: Path) -> None:
    features, target = flowers(n_classes)
    model = fitted(small(kind), features, target, FitSlice(EVEN, ODD, None, 0)).model
    folder = FolderCheckpointer(tmp_path)
    folder.save("model", model.pack())
    pack = folder.load("model")
    assert pack is not None
    again = FITTED[pack.about["kind"]].unpack(pack, features.n_features, n_classes)
    np.testing.assert_array_equal(again.vectors(features), model.vectors(features))
    np.testing.assert_allclose(again.importances(4), model.importances(4), rtol=1e-5)


def test_a_scikit_learn_estimator_has_no_plain_form_and_says_what_to_do() -> None:
    features, target = flowers()
    model = fitted(make_learner(GaussianNB()), features, target, FitSlice(EVEN, ODD, None, 0)).model
    with refused(TypeError, naming=["GaussianNB", "pickle", "joblib.dump"]):
        model.pack()
    with refused(ValueError, naming="scikit-learn"):
        type(model).unpack(Pack(), 4, 3)


@pytest.fixture(scope="module")
def forest() -> Pack:
    features, target = flowers()
    return fitted(
        small("random_forest", max_depth=2), features, target, FitSlice(EVEN, ODD, None, 0)
    ).model.pack()


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        ("nodes", lambda nodes: nodes[:-1]),
        ("nodes", lambda nodes: nodes[::-1]),
        ("nodes", lambda nodes: nodes | np.uint64(4 << 41)),
        ("nodes", lambda nodes: nodes + np.uint64(1)),
        ("nodes", lambda nodes: nodes.astype(np.int64)),
        ("nodes", lambda nodes: nodes.reshape(1, -1)),
        ("roots", lambda roots: roots + 1),
        ("roots", lambda roots: roots[:1]),
        ("leaf_start", lambda starts: starts * 2),
        ("leaf_class", lambda classes: classes + np.uint16(3)),
        ("leaf_share", lambda shares: shares * 3),
        ("leaf_share", lambda shares: shares * np.float32("nan")),
        ("leaf_value", lambda values: np.ones(3)),
        ("importances", lambda importances: -importances),
        ("importances", lambda importances: importances[:2]),
        ("roots", None),
    ],
)
def test_a_forest_that_was_tampered_with_is_refused(forest: Pack, name: str, tamper: Any) -> None:
    arrays = {**forest.arrays, name: tamper(forest.arrays[name])} if tamper else dict(forest.arrays)
    if tamper is None:
        del arrays[name]
    with refused(ValueError, naming="forest"):
        FITTED["forest"].unpack(replace(forest, arrays=arrays), 4, 3)


@pytest.mark.parametrize(("n_features", "n_classes"), [(2, 3), (4, 2), (4, 0)])
def test_a_forest_of_other_features_or_classes_is_refused(
    forest: Pack, n_features: int, n_classes: int
) -> None:
    with refused(ValueError, naming="forest"):
        FITTED["forest"].unpack(forest, n_features, n_classes)


@pytest.fixture(scope="module")
def mart() -> Pack:
    features, target = flowers()
    return fitted(
        small("mart", n_estimators=2, num_leaves=4, min_samples_leaf=5),
        features,
        target,
        FitSlice(EVEN, ODD, None, 0),
    ).model.pack()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("num_class=3", "num_class=4"),
        ("objective=multiclass", "objective=binary"),
        ("tree_sizes=", "tree_sizes=1 "),
        ("tree_sizes=", "sizes="),
        ("max_feature_idx=3", "max_feature_idx=2"),
        ("max_feature_idx=3\n", ""),
        ("left_child=", "left_child=0 "),
        ("left_child=", "left_child=\nwas="),
        ("split_feature=", "split_feature=9"),
        ("threshold=", "threshold=nan"),
        ("leaf_value=", "leaf_value=inf"),
        ("leaf_value=", "leaf_value=x"),
        ("Tree=1", "Tree=7"),
        ("end of trees", "more trees"),
    ],
)
def test_a_text_that_was_tampered_with_is_refused(mart: Pack, old: str, new: str) -> None:
    assert old in mart.text
    with pytest.raises(ValueError, match=r"LightGBM|tree"):
        FITTED["mart"].unpack(replace(mart, text=mart.text.replace(old, new, 1)), 4, 3)


@pytest.mark.parametrize(
    "name", ["leaf_weight", "leaf_count", "split_gain", "internal_value", "internal_count"]
)
@pytest.mark.parametrize(("old", "new"), [(r"=\S", "=e"), (r"(=\S+ )\S", r"\1 ")])
def test_numbers_at_which_lightgbm_would_end_the_process_are_refused(
    mart: Pack, name: str, old: str, new: str
) -> None:
    """The length of the text stays the same: only the numbers themselves give it away."""
    text = re.sub(f"{name}{old}", f"{name}{new}", mart.text, count=1)
    assert len(text) == len(mart.text)
    with pytest.raises(ValueError, match="LightGBM"):
        FITTED["mart"].unpack(replace(mart, text=text), 4, 3)


@pytest.mark.parametrize("text", ["", "tree\n", "\n\n", "not a model", "tree\n\0\n\n"])
def test_something_else_than_a_text_of_lightgbm_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="LightGBM"):
        FITTED["mart"].unpack(Pack({"kind": "mart"}, text=text), 4, 3)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_text_that_was_cut_off_is_refused(mart: Pack, share: float) -> None:
    with pytest.raises(ValueError, match=r"LightGBM|tree"):
        FITTED["mart"].unpack(
            replace(mart, text=mart.text[: int(share * mart.text.index("end of trees"))]), 4, 3
        )


@pytest.mark.parametrize(("n_features", "n_classes"), [(5, 3), (4, 4), (4, 2), (4, 0)])
def test_a_text_of_other_features_or_classes_is_refused(
    mart: Pack, n_features: int, n_classes: int
) -> None:
    with pytest.raises(ValueError, match="LightGBM"):
        FITTED["mart"].unpack(mart, n_features, n_classes)
