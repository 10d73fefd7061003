"""Cascades in files: saved and loaded, pickled, damaged and hostile."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    HistForestClassifier,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
)
from deepforest.persistence import BrokenModel
from tests.deepforest.scripted_scores import keeps_every_layer
from tests.expect import refused

FOREST = {"kind": "random_forest", "n_estimators": 4}
MART = {"kind": "mart", "n_estimators": 4, "min_samples_leaf": 5}
X, Y = load_iris(return_X_y=True)
WAY = {"cv": 3, "max_layers": 2, "patience": 2, "random_state": 0}
MODELS: dict[str, Any] = {
    "gcforest": CascadeForestClassifier([FOREST, MART], **WAY),
    "out of bag": CascadeForestClassifier([FOREST, MART], class_vectors="oob", **WAY),
    "marts only": CascadeForestClassifier([MART], **WAY),
    "stack": CascadeForestClassifier([FOREST, MART], augment="stack", **WAY),
    "none": CascadeForestClassifier([FOREST, MART], augment="none", **WAY),
    "selector": CascadeForestClassifier(
        [FOREST, MART], selector=MartSelector(2, n_estimators=3), **WAY
    ),
    "regression": CascadeForestRegressor([FOREST, MART], **WAY),
    "per layer": CascadeForestClassifier([FOREST, MART], resampling="per_layer", **WAY),
    "mdDF": MarginForestClassifier([FOREST, MART], **WAY),
    "screening": ScreenedForestClassifier([FOREST, MART], error_share=0.9, **WAY),
    "default": CascadeForestClassifier("random_forest", max_layers=1, cv=3),
}


def with_gaps() -> np.ndarray:
    return np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)


# --- what is saved comes back ---


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_cascade_predicts_the_same(name: str, tmp_path: Path) -> None:
    x = with_gaps()
    model = clone(MODELS[name]).set_params(scoring=keeps_every_layer()).fit(x, Y)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded._predict(x), model._predict(x))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.transform(x), model.transform(x))
    np.testing.assert_array_equal(loaded.trace(x).left_at, model.trace(x).left_at)
    # LightGBM writes the gains of its splits with six digits
    np.testing.assert_allclose(loaded.feature_importances_, model.feature_importances_, rtol=1e-4)
    assert loaded.layer_records_ == model.layer_records_
    assert loaded.n_layers_ == model.n_layers_
    assert loaded.n_features_in_ == 4


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("by", ["pickle", "joblib"])
def test_a_pickled_cascade_predicts_the_same(name: str, by: str) -> None:
    x = with_gaps()
    model = clone(MODELS[name]).fit(x, Y)
    if by == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        file = BytesIO()
        joblib.dump(model, file)
        file.seek(0)
        copy = joblib.load(file)
    np.testing.assert_array_equal(copy._predict(x), model._predict(x))
    assert copy.layer_records_ == model.layer_records_


@pytest.mark.parametrize(
    ("make", "params"),
    [
        (
            CascadeForestClassifier,
            {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}, "tol": 0.5, "scoring": "f1"},
        ),
        (CascadeForestClassifier, {"class_weight": {np.int64(0): np.float64(1), 1: 2.0, 2: 1}}),
        (
            CascadeForestClassifier,
            {"class_weight": "balanced", "categorical_features": [np.int64(0), 2]},
        ),
        (
            CascadeForestClassifier,
            {"random_state": np.int64(3), "categorical_features": np.array([True, False] * 2)},
        ),
        (
            MarginForestClassifier,
            {"gamma": 0.9, "mu": 0.1, "depth_step": None, "joint_alphas": False},
        ),
        (ScreenedForestClassifier, {"error_share": 0.2, "tree_growth": 2.0}),
        (CascadeForestRegressor, {"combine": "weighted", "scoring": "mae"}),
    ],
)
def test_parameters_come_back_and_the_copy_can_be_fitted_again(
    make: Any, params: dict[str, Any], tmp_path: Path
) -> None:
    model = make([FOREST], cv=3, max_layers=1, **params).fit(X, Y)
    model.save(tmp_path)
    loaded = make.load(tmp_path)
    for name, value in params.items():
        np.testing.assert_equal(
            getattr(loaded, name), value.tolist() if isinstance(value, np.ndarray) else value
        )
    if "random_state" not in params:
        model.set_params(random_state=0), loaded.set_params(random_state=0)
    np.testing.assert_array_equal(loaded.fit(X, Y)._predict(X), model.fit(X, Y)._predict(X))


def test_class_weights_of_ten_classes_and_more_do_not_break_the_seal(tmp_path: Path) -> None:
    y = np.arange(150) % 12
    for make in (CascadeForestClassifier([FOREST], cv=3, max_layers=1), HistForestClassifier(3)):
        model = make.set_params(class_weight={label: 1.0 + label for label in range(12)}).fit(X, y)
        model.save(tmp_path)
        loaded = type(model).load(tmp_path)
        assert loaded.class_weight == model.class_weight
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("labels", [["no", "maybe", "yes"], [-5, 10, 200], [True, False, True]])
@pytest.mark.parametrize("as_object", [False, True])
def test_labels_come_back_as_they_were(labels: list[Any], as_object: bool, tmp_path: Path) -> None:
    y = np.array(labels, dtype=object if as_object and isinstance(labels[0], str) else None)[Y]
    model = CascadeForestClassifier([FOREST], cv=3, max_layers=1, random_state=0).fit(X, y)
    model.save(tmp_path)
    loaded = CascadeForestClassifier.load(tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [FOREST, MART])
def test_categories_of_a_table_come_back(kind: dict[str, Any], tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "word": rng.choice(["tree", "leaf", None], 90),
            "rank": pd.Categorical(rng.integers(0, 4, 90)),
            "flag": rng.random(90) < 0.5,
            "size": rng.random(90),
        }
    )
    y = (frame["word"] == "leaf").to_numpy()
    model = CascadeForestClassifier([kind], selector=MartSelector(3, n_estimators=3), **WAY).fit(
        frame, y
    )
    model.save(tmp_path)
    loaded = CascadeForestClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["size", "flag", "rank", "word"]])


def test_saving_again_replaces_what_was_there(tmp_path: Path) -> None:
    CascadeForestClassifier([FOREST, MART], **WAY).fit(X, Y).save(tmp_path)
    small = CascadeForestClassifier([FOREST], cv=3, max_layers=1, random_state=1).fit(X, Y)
    small.save(tmp_path)
    np.testing.assert_array_equal(
        CascadeForestClassifier.load(tmp_path).predict_proba(X), small.predict_proba(X)
    )


def test_a_scikit_learn_learner_cannot_be_saved_but_pickled(tmp_path: Path) -> None:
    model = CascadeForestClassifier([LogisticRegression(), FOREST], **WAY).fit(X, Y)
    with refused(TypeError, naming=["LogisticRegression", "pickle", "joblib.dump"]):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X)
    )


# --- damaged ---


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    selector = MartSelector(3, n_estimators=3)
    CascadeForestClassifier(
        [FOREST, MART], selector=selector, **{**WAY, "scoring": keeps_every_layer()}
    ).fit(X, Y).save(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def refuse(folder: Path, *naming: str) -> None:
    with refused(BrokenModel, naming=naming):
        CascadeForestClassifier.load(folder)


def test_a_changed_byte_in_any_file_is_noticed(copy: Path) -> None:
    files = sorted(copy.iterdir())
    assert len(files) > 10
    for file in files:
        whole = file.read_bytes()
        for place in np.linspace(0, len(whole) - 1, 7).astype(int):
            changed = bytearray(whole)
            changed[place] ^= 1
            file.write_bytes(changed)
            refuse(copy)
        file.write_bytes(whole)
    assert CascadeForestClassifier.load(copy).score(X, Y) > 0.8


def test_a_missing_or_cut_file_is_noticed(copy: Path) -> None:
    for file in sorted(copy.iterdir()):
        whole = file.read_bytes()
        file.unlink()
        refuse(copy, file.name if file.suffix != ".json" else str(copy))
        for size in (0, len(whole) // 2):
            file.write_bytes(whole[:size])
            refuse(copy)
        file.write_bytes(whole)


def test_a_folder_of_another_cascade_or_of_nothing_is_refused(saved: Path, tmp_path: Path) -> None:
    with refused(BrokenModel, naming="CascadeForestClassifier"):
        MarginForestClassifier.load(saved)
    refuse(tmp_path / "nowhere", "nowhere")


# --- hostile: the seal is right ---


def reseal(folder: Path, change: Callable[[dict[str, Any]], Any] | None = None) -> None:
    """Change the manifest's content and make all hashes right again."""
    manifest = folder / "forest.json"
    content = json.loads(manifest.read_text())["content"]
    for name in content["sha256"]:
        if (folder / name).is_file():
            content["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    if change is not None:
        change(content)
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    manifest.write_text(json.dumps({"content": content, "sha256": seal}))


def test_resealing_alone_changes_nothing(copy: Path) -> None:
    reseal(copy)
    assert CascadeForestClassifier.load(copy).score(X, Y) > 0.8


def test_settings_of_learners_that_were_saved_under_old_names_are_read(copy: Path) -> None:
    old = [
        {"kind": "random_forest", "count": 1, "trees": 4, "min_rows": 1},
        {"kind": "mart", "trees": 4, "leaves": 31, "row_share": 0.8, "column_share": 0.8},
    ]
    reseal(copy, lambda content: content["model"]["params"].update(learners=old))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CascadeForestClassifier.load(copy)
        model.save(copy.parent / "again")
    forest, mart = model.learners
    assert forest == {"kind": "random_forest", "count": 1, "n_estimators": 4, "min_samples_leaf": 1}
    assert mart.keys() == {"kind", "n_estimators", "num_leaves", "subsample", "colsample_bytree"}


MANIFESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a newer version": lambda content: content.update(version=99),
    "another format": lambda content: content.update(format="zebra"),
    "no packs": lambda content: content.pop("packs"),
    "packs that are a list": lambda content: content.update(packs=[]),
    "hashes that are a list": lambda content: content.update(sha256=["input.npz"]),
    "no model": lambda content: content.pop("model"),
    "a file outside": lambda content: content["sha256"].update({"../../etc/passwd": "0"}),
    "an absolute file": lambda content: content["sha256"].update({"/etc/passwd": "0"}),
    "a file in a folder": lambda content: content["sha256"].update({"sub/input.npz": "0"}),
    "a hidden file": lambda content: content["sha256"].update({".npz": "0"}),
    "no layers": lambda content: content["model"].update(n_layers=0),
    "too many layers": lambda content: content["model"].update(n_layers=3),
    "layers that are no number": lambda content: content["model"].update(n_layers="two"),
    "another number of outputs": lambda content: content["model"].update(n_outputs=10**9),
    "fewer classes": lambda content: content["model"]["classes"].update(values=[0, 1]),
    "classes of no type": lambda content: content["model"]["classes"].update(dtype="zebra"),
    "another number of learners": lambda content: content["model"].update(n_learners=7),
    "fewer features": lambda content: content["model"].update(n_features=1),
    "an unknown parameter": lambda content: content["model"]["params"].update(colour="green"),
    "a parameter less of augment": lambda content: content["model"]["params"].update(
        augment="zebra"
    ),
    "another augment": lambda content: content["model"]["params"].update(augment="none"),
    "parameters that are a list": lambda content: content["model"].update(params=[1]),
    "records of nothing": lambda content: content["model"].update(layers=[{}]),
    "records that are a number": lambda content: content["model"].update(layers=3),
    "a table without columns": lambda content: content["model"].update(
        table={"names": [], "levels": []}
    ),
    "a table that is a list": lambda content: content["model"].update(table=[1]),
    "a wider layer": lambda content: content["packs"]["layer-2"].update(n_features=99),
    "a threshold of text": lambda content: content["packs"]["layer-1"].update(threshold="high"),
    "a learner without models": lambda content: content["packs"]["layer-1"].update(models=[[], []]),
    "a model that is not there": lambda content: content["packs"]["layer-1"]["models"][0].append(
        "layer-1-learner-1-fold-9"
    ),
    "models of another layer": lambda content: content["packs"]["layer-1"].update(
        models=content["packs"]["layer-2"]["models"]
    ),
    "models that are a number": lambda content: content["packs"]["layer-1"].update(models=3),
    "no cascades": lambda content: content["model"].update(n_cascades=0),
    "too many cascades": lambda content: content["model"].update(n_cascades=4),
    "cascades that are no number": lambda content: content["model"].update(n_cascades="two"),
    "a learner of unknown kind": lambda content: content["packs"][
        "layer-1-learner-1-fold-1"
    ].update(kind="oak"),
    "a learner of another kind": lambda content: content["packs"][
        "layer-1-learner-1-fold-1"
    ].update(kind="mart"),
    "a pickled learner": lambda content: content["packs"]["layer-1-learner-1-fold-1"].update(
        kind="scikit"
    ),
    "a pack without a file": lambda content: content["sha256"].pop("layer-1-learner-1-fold-1.npz"),
    "a pack about nothing": lambda content: content["packs"].update({"layer-1": None}),
}


@pytest.mark.parametrize("change", MANIFESTS)
def test_a_manifest_that_cannot_be_right_is_refused(change: str, copy: Path) -> None:
    reseal(copy, MANIFESTS[change])
    refuse(copy)


def test_a_manifest_does_not_reach_outside_of_its_folder(copy: Path) -> None:
    outside = copy.parent / "outside.npz"
    shutil.copy(copy / "input.npz", outside)

    def reach_out(content: dict[str, Any]) -> None:
        content["packs"]["../outside"] = {}
        content["sha256"]["../outside.npz"] = hashlib.sha256(outside.read_bytes()).hexdigest()

    reseal(copy, reach_out)
    refuse(copy, "'../outside.npz'")


Change = tuple[str, str, Callable[[np.ndarray], np.ndarray]]
FITTED_FOREST = "layer-2-learner-1-fold-1.npz"
HOSTILE_ARRAYS: dict[str, Change] = {
    "children before their parents": (FITTED_FOREST, "nodes", lambda a: a & ~np.uint64(0xFFFFFFFF)),
    "children far away": (FITTED_FOREST, "nodes", lambda a: a | np.uint64(0x0FFFFFFF)),
    "features far away": (FITTED_FOREST, "nodes", lambda a: a | np.uint64(0x7FFFF << 41)),
    "nodes of other numbers": (FITTED_FOREST, "nodes", lambda a: a.astype(float)),
    "no nodes": (FITTED_FOREST, "nodes", lambda a: a[:0]),
    "fewer nodes": (FITTED_FOREST, "nodes", lambda a: a[:-1]),
    "nodes as a table": (FITTED_FOREST, "nodes", lambda a: a[None]),
    "roots far away": (FITTED_FOREST, "roots", lambda a: a + 10**9),
    "roots below zero": (FITTED_FOREST, "roots", lambda a: -a),
    "no roots": (FITTED_FOREST, "roots", lambda a: a[:0]),
    "classes far away": (FITTED_FOREST, "leaf_class", lambda a: np.append(a, 200).astype(a.dtype)),
    "shares that are no numbers": (
        FITTED_FOREST,
        "leaf_share",
        lambda a: np.append(a, np.nan).astype(a.dtype),
    ),
    "importances of more features": (FITTED_FOREST, "importances", lambda a: np.append(a, 1.0)),
    "bins of more features": ("layer-2.npz", "other_bin", lambda a: np.append(a, -1)),
    "bins of fewer features": ("layer-2.npz", "n_edges", lambda a: a[:-1]),
    "bins as a table": ("layer-2.npz", "n_edges", lambda a: a[None]),
    "more edges than bins": ("layer-2.npz", "n_edges", lambda a: a + 300),
    "edges below zero": ("layer-2.npz", "n_edges", lambda a: -a),
    "edges of text": ("layer-2.npz", "edges", lambda a: a.astype(str)),
    "numbers of edges with fractions": ("layer-2.npz", "n_edges", lambda a: a.astype(float)),
    "more coefficients": ("layer-2.npz", "coefficients", lambda a: np.append(a, a)),
    "bins of the raw features": ("input.npz", "other_bin", lambda a: a[:-1]),
    "selected columns far away": ("input.npz", "selected", lambda a: a + 10**6),
    "selected columns below zero": ("input.npz", "selected", lambda a: a - 10**6),
    "selected columns by fraction": ("input.npz", "selected", lambda a: a + 0.5),
    "fewer selected columns": ("input.npz", "selected", lambda a: a[:1]),
    "fewer flags": ("input.npz", "categorical", lambda a: a[:1]),
    "flags that are numbers": ("input.npz", "categorical", lambda a: a.astype(float)),
}


def rewrite(file: Path, changes: dict[str, np.ndarray]) -> None:
    with np.load(file) as stored:
        arrays = {**{name: stored[name] for name in stored.files}, **changes}
    np.savez(file, **arrays)


@pytest.mark.parametrize("change", HOSTILE_ARRAYS)
def test_arrays_that_cannot_be_right_are_refused(change: str, copy: Path) -> None:
    file, name, spoil = HOSTILE_ARRAYS[change]
    with np.load(copy / file) as stored:
        spoiled = spoil(stored[name])
    rewrite(copy / file, {name: spoiled})
    reseal(copy)
    refuse(copy)


def test_bins_of_more_columns_than_a_row_has_are_refused(copy: Path) -> None:
    many = 3000  # consistent in themselves: only the width of the rows gives them away
    wide = {
        "edges": np.zeros(0),
        "n_edges": np.zeros(many, np.int64),
        "other_bin": np.full(many, -1),
    }
    for file in ("layer-2.npz", "input.npz"):
        original = (copy / file).read_bytes()
        rewrite(copy / file, wide)
        reseal(copy)
        refuse(copy, "bins")
        (copy / file).write_bytes(original)


def test_a_layer_that_cuts_columns_no_row_has_is_refused(copy: Path) -> None:
    for fold in (1, 2):
        file = copy / f"layer-1-learner-1-fold-{fold}.npz"
        with np.load(file) as stored:
            nodes = stored["nodes"].copy()
        is_leaf = nodes >> np.uint64(41) == (1 << 23) - 1
        nodes[~is_leaf] |= np.uint64(1000 << 41)
        rewrite(file, {"nodes": nodes, "importances": np.zeros(2000)})
    reseal(copy, lambda content: content["packs"]["layer-1"].update(n_features=2000))
    refuse(copy)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 no archive", pickle.dumps([1, 2, 3]), b"\x93NUMPY\x01\x00"],
    ids=["nothing", "half an archive", "a pickle", "half an array"],
)
def test_files_that_hold_no_arrays_are_refused(content: bytes, copy: Path) -> None:
    (copy / FITTED_FOREST).write_bytes(content)
    reseal(copy)
    refuse(copy, FITTED_FOREST, "arrays")


def test_an_array_of_objects_is_never_unpickled(copy: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("it was unpickled",))

    rewrite_with_pickle = np.array([Trap()], dtype=object)
    with np.load(copy / FITTED_FOREST) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(copy / FITTED_FOREST, allow_pickle=True, **{**arrays, "nodes": rewrite_with_pickle})
    reseal(copy)
    refuse(copy, FITTED_FOREST, "arrays")


def test_a_single_array_in_place_of_an_archive_is_refused(copy: Path) -> None:
    with (copy / FITTED_FOREST).open("wb") as file:
        np.save(file, np.arange(3))
    reseal(copy)
    refuse(copy, FITTED_FOREST, "arrays")


MART_TEXT = "layer-2-learner-2-fold-1.txt"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("left_child=", "left_child=99999 "),
        ("split_feature=", "split_feature=99999 "),
        ("num_leaves=", "num_leaves=9"),
        ("max_feature_idx=", "max_feature_idx=9"),
        ("tree\n", "zebra\n"),
        ("Tree=0", "Tree=1"),
        ("objective=multiclass", "objective=poisson"),
        ("end of trees", "ende of trees"),
    ],
)
def test_boosted_trees_that_cannot_be_walked_are_refused(old: str, new: str, copy: Path) -> None:
    text = (copy / MART_TEXT).read_text()
    assert old in text
    (copy / MART_TEXT).write_text(text.replace(old, new, 1))
    reseal(copy)
    refuse(copy)


def test_boosted_trees_of_bytes_that_are_no_text_are_refused(copy: Path) -> None:
    (copy / MART_TEXT).write_bytes(b"\xff\xfe tree")
    reseal(copy)
    refuse(copy, MART_TEXT, "text")


def test_boosted_trees_of_another_layer_are_refused(copy: Path) -> None:
    shutil.copy(copy / "layer-1-learner-2-fold-1.txt", copy / MART_TEXT)
    reseal(copy)
    refuse(copy, "features", "classes")


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("nodes", lambda nodes: nodes | np.uint64(0x0FFFFFFF)),
        ("roots", lambda roots: roots + 10**9),
        ("n_edges", lambda counts: counts[:-1]),
        ("other_bin", lambda bins: np.append(bins, -1)),
    ],
)
def test_a_hostile_forest_alone_is_refused_too(name: str, spoil: Any, tmp_path: Path) -> None:
    HistForestClassifier(3, random_state=0).fit(X, Y).save(tmp_path)
    with np.load(tmp_path / "forest.npz") as stored:
        spoiled = spoil(stored[name])
    rewrite(tmp_path / "forest.npz", {name: spoiled})
    reseal(tmp_path)
    with pytest.raises(BrokenModel):
        HistForestClassifier.load(tmp_path)


def test_compressed_arrays_are_refused_before_they_are_unpacked(copy: Path) -> None:
    path = copy / "input.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez_compressed(path, **arrays, more=np.zeros(10**7))
    reseal(copy)
    refuse(copy, "input.npz", "arrays")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["model"]["classes"].update(dtype="<M8[s]"),
        lambda content: content["model"]["classes"].update(values=[0, 1, 1]),
        lambda content: content["model"].update(n_features=float("inf")),
    ],
)
def test_classes_and_numbers_that_cannot_be_right_are_refused(change: Any, copy: Path) -> None:
    reseal(copy, change)
    refuse(copy)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("num_leaves=", "num_leaves=0_"),
        ("num_tree_per_iteration=", "num_tree_per_iteration=0_"),
        ("shrinkage=", "shrinkage=abc"),
        ("num_cat=", "num_cat=0_"),
        ("max_feature_idx=", "colour=1\nmax_feature_idx="),
    ],
)
def test_boosted_trees_that_would_end_the_process_are_refused(
    old: str, new: str, copy: Path
) -> None:
    text = next(copy.glob("*.txt"))
    assert old in text.read_text()
    text.write_text(text.read_text().replace(old, new, 1))
    reseal(copy)
    refuse(copy)


def test_nothing_but_trees_is_read_of_boosted_trees(saved: Path) -> None:
    assert all(text.read_text().endswith("end of trees\n") for text in saved.glob("*.txt"))
