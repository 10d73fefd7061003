"""Every model: trained by its node, saved in a folder, loaded, and refused where it must be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Cancelled
from engine.testing import check_node
from engine.values import Table
from nodes import feature_selection, mart
from nodes.models.kinds import all_kinds, kind_named, kind_of_estimator
from nodes.models.model import FILE, describe_model, load_model
from tests.expect import refused

from .conftest import IN_ONE_STEP, MODELS, make_context

NAMES = list(MODELS)
FOREST = [{"kind": "random_forest", "trees": 5}]
SEEDED = [kind for kind, (node, _) in MODELS.items() if "seed" in node.params.model_fields]
SAVED_BY_VERSION_1 = Path(__file__).parent / "models" / "saved_by_version_1.zip"
with zipfile.ZipFile(SAVED_BY_VERSION_1) as _archive:
    KINDS_OF_VERSION_1 = sorted({name.split("/")[0] for name in _archive.namelist() if "/" in name})


def mixed(classes=3, rows=240, seed=0, **more):
    """Numbers, categories, bools and times with gaps, and a target that depends on them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    number = y + rng.normal(scale=0.7, size=rows)
    gaps = rng.random(rows) < 0.1
    level = np.where(rng.random(rows) < 0.6, y, rng.integers(0, classes, rows))
    columns = {
        "number": pa.array(number, mask=gaps),
        "noise": pa.array(rng.normal(size=rows).astype(np.float32)),
        "level": pa.array(
            [f"l{code}" for code in level], mask=rng.random(rows) < 0.1
        ).dictionary_encode(),
        "flag": pa.array(rng.random(rows) < 0.3 + 0.4 * (y == 0)),
        "when": pa.array(
            (1_700_000_000 + 1000 * y + rng.integers(0, 3000, rows)) * 10**6, pa.timestamp("us")
        ),
        "class": pa.array([f"c{code}" for code in y]),
    }
    return Table(pa.table(columns | more), "class", dict.fromkeys(more, "weight"))


def fit(kind, table, ctx, **params):
    node, defaults = MODELS[kind]
    return node.run(ctx, {"table": table}, node.params(**defaults | params))["model"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Give the model of ``kind`` for ``mixed(classes)``; the tests share it and only read it."""

    @cache
    def model(kind, classes=3):
        return fit(kind, mixed(classes), make_context(tmp_path_factory.mktemp("fitted")))

    return model


def saved(model, folder):
    folder.mkdir()
    model.save(folder)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_kind_of_model_is_tested_here_and_found_by_its_name():
    # The others are in test_regression.
    assert {kind.name for kind in all_kinds() if kind.classifies} == set(MODELS)
    assert [kind_named(name).name for name in NAMES] == NAMES


@pytest.mark.parametrize("name", ["steps", "models", "split", "deep_forest", "no-such-kind", ""])
def test_a_module_without_a_model_is_not_a_kind(name):
    with pytest.raises(ValueError, match=f"'{name}' is unknown"):
        kind_named(name)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", NAMES)
class TestEachModel:
    def test_learns_something(self, kind, classes, fitted):
        probabilities = fitted(kind, classes).predict_proba(mixed(classes, seed=1))
        truth = mixed(classes, seed=1).labels().to_pylist()
        right = np.mean(
            [
                f"c{code}" == label
                for code, label in zip(probabilities.argmax(1), truth, strict=True)
            ]
        )
        assert probabilities.shape == (240, classes)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        assert right > 1 / classes + 0.15

    def test_read_back_it_predicts_exactly_the_same(self, kind, classes, fitted, tmp_path):
        model = fitted(kind, classes)
        restored = load_model(saved(model, tmp_path / "m"))
        for seed in (0, 1):
            table = mixed(classes, seed=seed)
            np.testing.assert_array_equal(restored.predict_proba(table), model.predict_proba(table))
        assert (restored.title, restored.classes, restored.params) == (
            model.title,
            model.classes,
            model.params,
        )
        assert contents(saved(restored, tmp_path / "again")) == contents(tmp_path / "m")

    def test_trained_twice_it_has_the_same_bytes_on_any_number_of_threads(
        self, kind, classes, fitted, tmp_path
    ):
        first = saved(fitted(kind, classes), tmp_path / "first")
        again = fit(kind, mixed(classes), make_context(tmp_path, threads=2))
        assert contents(saved(again, tmp_path / "again")) == contents(first)

    def test_prediction_is_the_same_on_any_number_of_threads(self, kind, classes, fitted):
        model, table = fitted(kind, classes), mixed(classes, rows=20_000, seed=2)
        settings = dict(vars(model.estimator))
        np.testing.assert_array_equal(
            model.predict_proba(table, threads=1), model.predict_proba(table, threads=2)
        )
        assert vars(model.estimator) == settings


@pytest.mark.parametrize("kind", NAMES)
def test_node_satisfies_the_contract(kind, tmp_path):
    node, params = MODELS[kind]
    check_node(node, tmp_path, {"table": mixed()}, node.params(**params))


@pytest.mark.parametrize("kind", SEEDED)
def test_another_seed_gives_another_model(kind, ctx):
    table, later = mixed(), mixed(seed=1)
    one, other = (fit(kind, table, ctx, seed=seed).predict_proba(later) for seed in (1, 2))
    assert (one != other).any()


@pytest.mark.parametrize("kind", NAMES)
class TestWeights:
    def test_balanced_weights_favour_the_rare_class(self, kind, ctx):
        table = mixed(2, rows=600)
        rare = pa.array(np.random.default_rng(0).random(600) < 0.15)
        kept = pa.compute.or_(pa.compute.equal(table.labels(), "c0"), rare)
        table = table.with_data(table.data.filter(kept))
        has_leaves = "min_leaf" in MODELS[kind][0].params.model_fields
        settings = {"min_leaf": 10} if has_leaves else {}
        plain, balanced = (
            fit(kind, table, ctx, class_weights=weights, **settings)
            .predict_proba(mixed(2, seed=3))[:, 1]
            .mean()
            for weights in ("none", "balanced")
        )
        assert balanced > plain + 0.02

    def test_only_the_ratios_of_weights_matter(self, kind, ctx):
        table = mixed(2)
        one, other = (
            fit(kind, table, ctx, class_weights=weights).predict_proba(table)
            for weights in ({"c1": 4.0}, {"c0": 0.5, "c1": 2.0})
        )
        np.testing.assert_array_equal(one, other)

    def test_weight_column_counts_like_class_weights(self, kind, ctx):
        weights = np.where(np.array(mixed(2).labels().to_pylist()) == "c1", 4.0, 1.0)
        # In the scores of a deep forest only the column counts: here they decide nothing.
        settings = {"max_layers": 1, "learners": FOREST} if kind == "deep-forest" else {}
        by_column = fit(kind, mixed(2, w=pa.array(weights)), ctx, **settings)
        by_class = fit(kind, mixed(2), ctx, class_weights={"c1": 4.0}, **settings)
        np.testing.assert_array_equal(
            by_column.predict_proba(mixed(2)), by_class.predict_proba(mixed(2))
        )

    def test_equal_weights_change_nothing(self, kind, fitted, ctx):
        plain = fitted(kind).predict_proba(mixed())
        same = fit(
            kind,
            mixed(w=pa.array([3.0] * 240)),
            ctx,
            class_weights={"c0": 2.0, "c1": 2.0, "c2": 2.0},
        )
        np.testing.assert_array_equal(plain, same.predict_proba(mixed()))

    def test_cancelled_training_stops(self, kind, ctx):
        ctx.cancelled.set()
        with pytest.raises(Cancelled):
            fit(kind, mixed(), ctx)

    def test_training_stopped_midway(self, kind, tmp_path):
        seen = []

        def stop_later(fraction, text):
            seen.append(fraction)
            if len(seen) == 2:
                ctx.cancelled.set()

        ctx = make_context(tmp_path, on_progress=stop_later)
        if kind in IN_ONE_STEP:
            fit(kind, mixed(), ctx)
        else:
            with pytest.raises(Cancelled):
                fit(kind, mixed(), ctx)
        assert len(seen) == 2

    def test_progress_rises_to_the_end(self, kind, tmp_path):
        seen = []
        fit(
            kind,
            mixed(),
            make_context(tmp_path, on_progress=lambda fraction, text: seen.append(fraction)),
        )
        assert seen == sorted(seen) and seen[-1] == 1.0


BAD_TABLES = [
    (lambda t: Table(t.data), ["target"]),
    (lambda t: t.with_data(t.data.slice(0, 0)), ["no rows"]),
    (lambda t: t.with_data(t.data.filter(pa.compute.equal(t.labels(), "c0"))), ["'class'", "'c0'"]),
    (lambda t: t.with_data(t.data.select(["class"])), ["no feature"]),
    (lambda t: Table(t.data, "when"), ["'when'", "time"]),
    (lambda t: Table(t.data, "class", {"level": "weight"}), ["weight", "'level'"]),
    (lambda t: Table(t.data, "class", {"noise": "weight"}), ["weight", "'noise'", "negative"]),
    (
        lambda t: Table(t.data, "class", {"noise": "weight", "number": "weight"}),
        ["2", "'noise'", "'number'"],
    ),
]


@pytest.mark.parametrize(
    ("change", "naming"), BAD_TABLES, ids=[" ".join(naming) for _, naming in BAD_TABLES]
)
def test_table_that_cannot_be_learned_is_refused(change, naming, ctx):
    with refused(naming=naming):
        fit("mart", change(mixed()), ctx)


@pytest.mark.parametrize(
    ("role", "naming"), [("target", ["no target", "Target"]), ("feature", ["no feature"])]
)
@pytest.mark.parametrize(
    "node",
    [*(node for node, _ in MODELS.values()), feature_selection.NODE],
    ids=lambda node: node.name,
)
def test_a_node_that_learns_tells_before_the_run_that_it_could_not(node, role, naming):
    params, columns = node.params(), mixed().columns
    assert (
        node.output_columns({"table": columns}, params)
        == node.output_columns({"table": None}, params)
        == {}
    )
    with refused(naming=naming):
        node.output_columns(
            {"table": tuple(column for column in columns if column.role != role)}, params
        )


def test_weight_for_an_unknown_class_names_it(ctx):
    with refused(field="class_weights", naming=["'fraud'", "'c0', 'c1', 'c2'"]):
        fit("mart", mixed(), ctx, class_weights={"fraud": 2.0})


@pytest.mark.parametrize(
    "weights", ["some", {"c0": 0.0}, {"c0": -1.0}, {"c0": float("inf")}, {"c0": "2"}]
)
def test_impossible_class_weights_are_no_parameters(weights):
    with pytest.raises(ValueError):
        mart.NODE.params(class_weights=weights)


def test_rows_without_a_class_are_left_out_and_logged(tmp_path):
    lines = []
    table = mixed()
    labels = [
        None if index < 40 else label for index, label in enumerate(table.labels().to_pylist())
    ]
    holes = table.with_data(table.data.set_column(5, "class", pa.array(labels)))
    model = fit("mart", holes, make_context(tmp_path, on_log=lines.append))
    assert model.train_rows == 200 and any("40 of 240" in line for line in lines)
    without = fit("mart", table.with_data(table.data.slice(40)), make_context(tmp_path))
    np.testing.assert_array_equal(model.predict_proba(table), without.predict_proba(table))


@pytest.mark.parametrize("kind", NAMES)
class TestUnusualData:
    def test_many_classes_of_two_rows(self, kind, ctx, tmp_path):
        rng, many = np.random.default_rng(0), 40 if kind == "deep-forest" else 200
        columns = {"x": rng.normal(size=2 * many), "y": rng.normal(size=2 * many)}
        data = pa.table(columns | {"class": list(map(str, range(many))) * 2})
        model = fit(kind, Table(data, "class"), ctx)
        probabilities = model.predict_proba(Table(data, "class"))
        assert probabilities.shape == (2 * many, many) and model.classes[:3] == ["0", "1", "2"]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        restored = load_model(saved(model, tmp_path / "m"))
        np.testing.assert_array_equal(restored.predict_proba(Table(data)), probabilities)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_one_constant_feature_predicts_the_shares_of_the_classes(self, kind, classes, ctx):
        labels = (["a"] * 3 + ["b"] * 1 + ["c"] * 4 * (classes - 2)) * 50
        data = Table(pa.table({"x": [1.0] * len(labels), "class": labels}), "class")
        probabilities = fit(kind, data, ctx).predict_proba(data)
        assert (probabilities == probabilities[0]).all()
        # A few epochs do not reach the shares; the trees of a composite forest only vote.
        if kind not in ("mlp", "composite-forest"):
            shares = [labels.count(name) / len(labels) for name in sorted(set(labels))]
            np.testing.assert_allclose(probabilities[0], shares, atol=0.05)

    def test_more_features_than_rows(self, kind, ctx):
        rng = np.random.default_rng(0)
        columns = {f"x{i}": rng.normal(size=20) for i in range(100)}
        table = Table(pa.table(columns | {"class": ["a", "b"] * 10}), "class")
        assert np.isfinite(fit(kind, table, ctx).predict_proba(table)).all()

    def test_unknown_levels_and_missing_values_later(self, kind, fitted):
        odd = mixed().data.slice(0, 3)
        odd = odd.set_column(2, "level", pa.array(["new", None, "l1"]))
        odd = odd.set_column(1, "noise", pa.nulls(3))
        assert np.isfinite(fitted(kind).predict_proba(Table(odd))).all()

    def test_wrong_columns_are_refused(self, kind, fitted):
        model = fitted(kind)
        with refused(naming="'noise', 'when'"):
            model.predict_proba(Table(mixed().data.drop_columns(["noise", "when"])))
        with refused(naming=["'number'", "a text", "a number"]):
            model.predict_proba(Table(mixed().data.set_column(0, "number", pa.array(["x"] * 240))))

    @pytest.mark.parametrize("classes", [2, 3])
    def test_probabilities_of_the_largest_numbers_there_are(
        self, kind, classes, fitted, ctx, tmp_path
    ):
        huge = np.resize([1.7e308, -1.7e308, 1.8e308, -np.inf, 1e300], 240)
        odd = (
            mixed(classes)
            .data.set_column(0, "number", pa.array(huge))
            .set_column(1, "noise", pa.array(-huge))
        )
        trained_on_it = fit(kind, Table(odd, "class"), ctx)
        saved(trained_on_it, tmp_path / "m")
        for trained in (fitted(kind, classes), trained_on_it, load_model(tmp_path / "m")):
            probabilities = trained.predict_proba(Table(odd))
            assert np.isfinite(probabilities).all()
            np.testing.assert_allclose(probabilities.sum(axis=1), 1)

    def test_no_rows_give_no_predictions(self, kind, fitted):
        assert fitted(kind).predict_proba(mixed().with_data(mixed().data.slice(0, 0))).shape == (
            0,
            3,
        )


def encoded(model, table, precision):
    return model.encoder.transform(table.data, precision)


def codes(model, table):
    return np.array([model.classes.index(label) for label in table.labels().to_pylist()])


class TestSameAsTheLibrary:
    @pytest.mark.parametrize("kind", ["random-forest", "extra-trees"])
    @pytest.mark.parametrize("weights", ["none", "balanced"])
    def test_forest(self, kind, weights, ctx):
        from deepforest import HistForestClassifier

        table, later = mixed(), mixed(seed=1)
        model = fit(kind, table, ctx, trees=30, seed=3, min_leaf=2, class_weights=weights)
        how = {} if kind == "random-forest" else {"splitter": "random", "bootstrap": False}
        direct = HistForestClassifier(
            30,
            random_state=3,
            min_samples_leaf=2,
            categorical_features=model.encoder.categorical,
            **how,
        )
        y = codes(model, table)
        balance = len(y) / 3 / np.bincount(y)
        scale = (balance[y] / balance[y].mean()) if weights == "balanced" else None
        direct.fit(encoded(model, table, "float64"), y, sample_weight=scale)
        expected = direct.predict_proba(encoded(model, later, "float64"))
        np.testing.assert_array_equal(model.predict_proba(later), expected)

    def test_mart(self, ctx):
        import lightgbm

        table, later = mixed(2), mixed(2, seed=1)
        model = fit("mart", table, ctx, row_share=1.0, column_share=1.0)
        direct = lightgbm.LGBMClassifier(
            n_estimators=8, min_child_samples=2, verbosity=-1, force_col_wise=True
        )
        x = encoded(model, table, "float64")
        direct.fit(x, codes(model, table), categorical_feature=model.encoder.categorical)
        np.testing.assert_allclose(
            model.predict_proba(later), direct.predict_proba(encoded(model, later, "float64"))
        )

    @pytest.mark.parametrize("classes", [2, 3])
    def test_logistic_regression(self, classes, ctx):
        from sklearn.linear_model import LogisticRegression

        table, later = mixed(classes), mixed(classes, seed=1)
        model = fit("logistic-regression", table, ctx)
        direct = LogisticRegression(max_iter=200).fit(
            encoded(model, table, "float64"), codes(model, table)
        )
        expected = direct.predict_proba(encoded(model, later, "float64"))
        np.testing.assert_allclose(model.predict_proba(later), expected, atol=1e-9)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("classes", [2, 3])
    def test_first_epoch_of_mlp(self, classes, ctx):
        from sklearn.neural_network import MLPClassifier

        table, later = mixed(classes), mixed(classes, seed=1)
        model = fit("mlp", table, ctx, class_weights={"c1": 3.0}, layers=[8], epochs=1)
        direct = MLPClassifier([8], max_iter=1, random_state=0, learning_rate_init=0.02)
        weights = np.where(codes(model, table) == 1, 3.0, 1.0)
        direct.fit(encoded(model, table, "float32"), codes(model, table), weights / weights.mean())
        expected = direct.predict_proba(encoded(model, later, "float32"))
        np.testing.assert_allclose(model.predict_proba(later), expected, atol=1e-5)


@pytest.fixture(scope="module")
def forest_folder(tmp_path_factory):
    """A random forest that version 1 of the node saved: a file for each array."""
    return saved_by_version_1(tmp_path_factory.mktemp("forest")) / "random-forest"


def saved_by_version_1(folder):
    """Unpack a model of each kind as the first release saved them, and what they predicted."""
    with zipfile.ZipFile(SAVED_BY_VERSION_1) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("kind", KINDS_OF_VERSION_1)
def test_a_model_of_version_1_predicts_what_it_predicted_then(kind, tmp_path):
    folder = saved_by_version_1(tmp_path / "models")
    model, expected = load_model(folder / kind), json.loads((folder / "expected.json").read_text())
    rows = Table(pa.Table.from_pylist(expected["rows"]))
    probabilities = model.predict_proba(rows)
    assert probabilities.tolist() == expected["probabilities"][kind]
    again = saved(model, tmp_path / "again")
    assert load_model(again).predict_proba(rows).tolist() == probabilities.tolist()
    # A deep forest is written with the names and records of today.
    if kind != "deep-forest":
        assert contents(again) == contents(folder / kind)


def rewrite(folder, **changes):
    """Change ``model.json`` and make the hashes fit again, as a forger would."""
    import hashlib

    about = json.loads((folder / FILE).read_text()) | changes
    about["files"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in about["files"]
    }
    (folder / FILE).write_text(json.dumps(about))


@pytest.fixture
def copy(forest_folder, tmp_path):
    return shutil.copytree(forest_folder, tmp_path / "copy")


class TestRefusedFolders:
    def test_empty_folder(self, tmp_path):
        with refused(naming=["model.json", tmp_path.name]):
            load_model(tmp_path)

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "3", '{"format": "other"}', '{"format": "sylva-model"}', "\udcff"]
    )
    def test_foreign_description(self, tmp_path, text):
        (tmp_path / FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
        with refused(naming=tmp_path.name):
            load_model(tmp_path)

    def test_newer_version(self, copy):
        rewrite(copy, version=99)
        with refused(naming=["'copy'", "version 99"]):
            load_model(copy)

    @pytest.mark.parametrize(
        "field", ["classes", "encoder", "learner", "files", "kind", "params", "title"]
    )
    def test_description_without_a_field(self, copy, field):
        about = json.loads((copy / FILE).read_text())
        del about[field]
        (copy / FILE).write_text(json.dumps(about))
        with refused(naming=["'copy'", f"'{field}'"]):
            load_model(copy)

    def test_classes_that_are_not_the_estimators(self, copy):
        rewrite(copy, classes=["only", "two"])
        with refused(naming=["'copy'", "fit"]):
            load_model(copy)

    def test_unknown_kind(self, copy):
        rewrite(copy, kind="perceptron-of-the-future")
        with refused(naming=["'copy'", "perceptron-of-the-future"]):
            load_model(copy)

    def test_changed_file(self, copy):
        path = copy / "forest-threshold.npy"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        with refused(naming=["'copy'", "forest-threshold.npy"]):
            load_model(copy)

    def test_lost_file(self, copy):
        (copy / "forest-left.npy").unlink()
        with refused(naming=["'copy'", "forest-left.npy"]):
            load_model(copy)

    def test_file_outside_the_folder(self, copy):
        about = json.loads((copy / FILE).read_text())
        about["files"] = {"../secret": "0"}
        (copy / FILE).write_text(json.dumps(about))
        with refused(naming=["'copy'", "secret"]):
            load_model(copy)

    def test_pickled_array(self, copy):
        np.save(
            copy / "forest-threshold.npy", np.array([print, None], dtype=object), allow_pickle=True
        )
        rewrite(copy)
        with refused(naming=["'copy'", "allow_pickle"]):
            load_model(copy)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("left", lambda a: a * 0),
            ("left", lambda a: np.where(a >= 0, 10**6, a)),
            ("right", lambda a: np.where(a >= 0, -5, a)),
            ("feature", lambda a: np.where(a >= 0, 99, a)),
            ("nodes_per_tree", lambda a: a + 1),
            ("classes_per_leaf", lambda a: a + 1),
            ("leaf_class", lambda a: a + 50),
            ("threshold", lambda a: a[:-1]),
            ("threshold", lambda a: a.astype("U9")),
        ],
    )
    def test_trees_that_lead_nowhere(self, copy, name, change):
        path = copy / f"forest-{name}.npy"
        np.save(path, change(np.load(path)))
        rewrite(copy)
        with refused(naming="'copy'"):
            load_model(copy)

    @pytest.mark.parametrize(
        "change", [np.negative, lambda a: a * np.nan, lambda a: a * 2, lambda a: a / 2]
    )
    def test_leaves_whose_shares_are_none(self, copy, change):
        path = copy / "forest-leaf_share.npy"
        np.save(path, change(np.load(path)))
        rewrite(copy)
        with refused(naming="'copy'"):
            load_model(copy)

    @pytest.mark.parametrize("files", [{}, {"forest-left.npy": None}])
    def test_files_without_a_hash(self, copy, files):
        about = json.loads((copy / FILE).read_text())
        about["files"] = {name: about["files"][name] for name in files}
        (copy / FILE).write_text(json.dumps(about))
        with refused(naming=["'copy'", "forest-", ".npy"]):
            load_model(copy)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("classes", "abc"),
            ("classes", ["a", "a", "b"]),
            ("classes", ["a", 1, None]),
            ("classes", [["a"], ["b"], {}]),
            ("title", {"a": 1}),
            ("version", True),
        ],
    )
    def test_classes_and_titles_that_are_no_texts(self, copy, field, value):
        rewrite(copy, **{field: value})
        with refused(naming="'copy'"):
            load_model(copy)

    @pytest.mark.parametrize(
        "change", [{"levels": [1, 2]}, {"scale": 0}, {"scale": "x"}, {"mean": float("nan")}]
    )
    def test_encoder_that_cannot_encode(self, copy, change):
        encoder = json.loads((copy / FILE).read_text())["encoder"]
        for column in encoder["columns"]:
            column.update({name: value for name, value in change.items() if name in column})
        rewrite(copy, encoder=encoder)
        with refused(naming="'copy'"):
            load_model(copy)

    def test_description_nested_too_deep(self, copy):
        (copy / FILE).write_text("[" * 200_000)
        with refused(naming="'copy'"):
            load_model(copy)

    @pytest.mark.parametrize("shape", [b"(1000000000000000,), }", b"(" * 5_000])
    def test_array_header_that_asks_for_too_much(self, copy, shape):
        header = b"{'descr': '<i4', 'fortran_order': False, 'shape': " + shape + b"\n"
        (copy / "forest-left.npy").write_bytes(
            b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
        )
        rewrite(copy)
        with refused(naming="'copy'"):
            load_model(copy)

    def test_mart_text_that_is_none(self, ctx, tmp_path):
        folder = saved(fit("mart", mixed(), ctx), tmp_path / "m")
        (folder / "mart.txt").write_text("not a model")
        rewrite(folder)
        with refused(naming="'m'"):
            load_model(folder)


@pytest.fixture(scope="module")
def mart_folder(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("mart")
    return saved(fit("mart", mixed(), make_context(workspace)), workspace / "m")


def with_true_sizes(text):
    """The text with sizes that fit its trees, as a forger would write them."""
    trees = re.findall(r"^Tree=.*?(?=^Tree=|^end of trees)", text, re.MULTILINE | re.DOTALL)
    return re.sub(
        r"^tree_sizes=.*",
        "tree_sizes=" + " ".join(str(len(tree)) for tree in trees),
        text,
        flags=re.MULTILINE,
    )


def every(value):
    """The same value in place of each of a line's values."""
    return lambda line: line[1] + " ".join([value] * len(line[2].split(" ")))


FORGED_LINES = [
    ("split_feature", every("99999999")),
    ("split_feature", every("-5000000")),
    ("left_child", every("0")),
    ("right_child", every("1")),
    ("left_child", every("99999999")),
    ("right_child", every("-99999999")),
    ("left_child", every("4294967295")),
    ("left_child", every("x")),
    ("left_child", lambda line: f"{line[0]} 1"),
    ("num_leaves", every("2000000000")),
    ("num_leaves", every("-7")),
    ("num_leaves", every("2")),
    ("num_cat", every("999999")),
    ("num_cat", every("0")),
    ("cat_boundaries", every("7")),
    ("cat_threshold", lambda line: f"{line[0]} 1"),
    ("threshold", every("99")),
    ("threshold", every("nan")),
    ("decision_type", every("1")),
    ("decision_type", every("77")),
    ("leaf_value", every("nan")),
    ("leaf_value", every("inf")),
    ("leaf_value", lambda line: f"{line[0]}\n{line[0]}"),
    ("is_linear", every("1")),
    ("shrinkage", lambda line: f"{line[0]}\n\nTree=99"),
    ("objective", lambda line: "objective=regression"),
    ("num_class", every("7")),
    ("num_tree_per_iteration", every("0")),
    ("max_feature_idx", every("999999999")),
    ("tree_sizes", every("9999999")),
    ("tree_sizes", every("-1")),
    ("tree_sizes", lambda line: line[0].rpartition(" ")[0]),
    ("tree_sizes", lambda line: "none=1"),
]


@pytest.mark.parametrize(("name", "change"), FORGED_LINES)
def test_mart_trees_that_lead_nowhere_are_refused_before_lightgbm_follows_them(
    mart_folder, tmp_path, name, change
):
    folder = shutil.copytree(mart_folder, tmp_path / "copy")
    text = (folder / "mart.txt").read_text()
    forged = re.sub(rf"^({name}=)(.*)", change, text, flags=re.MULTILINE)
    assert forged != text
    (folder / "mart.txt").write_text(forged if name == "tree_sizes" else with_true_sizes(forged))
    rewrite(folder)
    with refused(naming="'copy'"):
        load_model(folder)


def test_the_forgers_sizes_are_right(mart_folder):
    text = (mart_folder / "mart.txt").read_text()
    assert with_true_sizes(text) == text


def test_description_is_enough_to_list_models(forest_folder):
    about = describe_model(forest_folder)
    assert (
        about["kind"] == "random-forest"
        and about["classes"] == ["c0", "c1", "c2"]
        and about["train_rows"] == 90
    )


def test_forest_of_many_classes_keeps_only_the_classes_of_a_leaf(ctx, tmp_path):
    rng = np.random.default_rng(0)
    data = pa.table({"x": rng.normal(size=2000), "class": rng.integers(0, 200, 2000)})
    folder = saved(fit("random-forest", Table(data, "class"), ctx), tmp_path / "m")
    nodes = len(np.load(folder / "forest.npz")["nodes"])
    assert sum(path.stat().st_size for path in folder.iterdir()) < nodes * 200 * 8 / 10


def test_listing_the_node_types_imports_nothing_slow():
    code = (
        "import sys, nodes; slow = ('numpy', 'pyarrow', 'sklearn', 'lightgbm'); "
        "print([m for m in slow if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.parametrize("kind", NAMES)
def test_the_kind_of_an_estimator_is_found_by_its_class(kind, fitted):
    assert kind_of_estimator(fitted(kind).estimator).name == kind


def test_an_estimator_that_cannot_be_saved_is_refused_by_name():
    from sklearn.ensemble import RandomForestClassifier

    with pytest.raises(TypeError, match="RandomForestClassifier"):
        kind_of_estimator(RandomForestClassifier())


# Validation rows


def validated(kind, ctx, classes=2, **params):
    node, defaults = MODELS[kind]
    inputs = {"table": mixed(classes), "validation": mixed(classes, rows=160, seed=1)}
    return node.run(ctx, inputs, node.params(**defaults | params))["model"]


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "deep-forest"])
def test_the_score_on_validation_rows_is_logged_and_saved_with_the_model(kind, tmp_path):
    log = []
    model = validated(kind, make_context(tmp_path, on_log=log.append))
    predicted = model.predict_proba(mixed(2, rows=160, seed=1)).argmax(axis=1)
    truth = [model.classes.index(label) for label in mixed(2, 160, 1).labels().to_pylist()]
    assert model.validation["rows"] == 160
    assert model.validation["accuracy"] == pytest.approx(np.mean(predicted == truth))
    assert set(model.validation) == {"rows", "accuracy", "log_loss", "auc"}
    assert any("160 validation rows" in line for line in log)
    folder = saved(model, tmp_path / "model")
    assert load_model(folder).validation == model.validation
    (tmp_path / "again").mkdir()
    assert contents(saved(load_model(folder), tmp_path / "again" / "model")) == contents(folder)


@pytest.mark.parametrize("classes", [2, 3])
def test_boosting_ends_where_the_loss_on_validation_rows_is_lowest(ctx, classes):
    from nodes.models import estimators

    settings = {"trees": 300, "learning_rate": 0.5}
    model = validated("mart", ctx, classes, **settings)
    kept = model.estimator.booster_.current_iteration()
    assert 0 < kept < 300
    losses = {}
    for trees in (kept, kept + 15, 300):
        other = fit("mart", mixed(classes), ctx, **settings | {"trees": trees})
        losses[trees] = log_loss_of(other, classes)
    assert losses[kept] == min(losses.values()) == model.validation["log_loss"]
    assert mart.EARLY_STOPPING == estimators.EARLY_STOPPING


def log_loss_of(model, classes):
    from deepforest.metrics import log_loss

    table = mixed(classes, rows=160, seed=1)
    truth = np.array([model.classes.index(label) for label in table.labels().to_pylist()])
    return log_loss(truth, model.predict_proba(table))


def test_the_network_of_the_epoch_with_the_lowest_loss_on_validation_rows_is_kept(tmp_path):
    log = []
    settings = {"epochs": 60, "learning_rate": 0.05}
    model = validated("mlp", make_context(tmp_path, on_log=log.append), **settings)
    best = int(re.search(r"epoch (\d+) is kept", "\n".join(log))[1])
    assert 1 < best < 60
    ctx = make_context(tmp_path)
    same = fit("mlp", mixed(2), ctx, **settings | {"epochs": best})
    np.testing.assert_array_equal(
        same.predict_proba(mixed(2, seed=2)), model.predict_proba(mixed(2, seed=2))
    )
    later = fit("mlp", mixed(2), ctx, **settings | {"epochs": best + 5})
    assert log_loss_of(later, 2) > log_loss_of(model, 2) == model.validation["log_loss"]


@pytest.mark.parametrize("figures", [[], {"auc": 0.5}, {"rows": 3, "auc": "high"}, {"rows": True}])
def test_figures_on_validation_rows_that_are_not_numbers_are_damage(figures, fitted, tmp_path):
    folder = saved(fitted("mart"), tmp_path / "model")
    data = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(data | {"validation": figures}))
    with refused(naming=["validation rows"]):
        describe_model(folder)
