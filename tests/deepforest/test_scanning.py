"""Multi-grained scanning: windows by address, held-out vectors, and cascades that scan."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from deepforest import (
    BrokenModel,
    CascadeForestClassifier,
    FitCancelled,
    FitEvent,
    MarginForestClassifier,
    MartSelector,
    MultiGrainedScanner,
    ScreenedForestClassifier,
    preset,
)
from deepforest._grow import Grown
from deepforest.forest.binning import Binner
from deepforest.forest.forest import ForestSettings, grow_forest
from deepforest.scanning import guess_shape, window_sizes
from deepforest.scanning.scan import Images, Scan
from deepforest.scanning.windows import make_grains

ONE: Any = ({"kind": "random_forest", "n_estimators": 5, "max_depth": 6},)
TWO: Any = (*ONE, {"kind": "completely_random_forest", "n_estimators": 5, "max_depth": 6})
FEW: Any = [{"kind": "extra_trees", "n_estimators": 10}]


def noise(n: int, width: int, n_classes: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, size=(n, width)).astype(float), np.arange(n) % n_classes


def some_digits(step: int = 4) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    return x[::step], y[::step]


# --- windows ---


@pytest.mark.parametrize(
    ("shape", "windows", "sample", "n_positions", "width"),
    [
        ((400,), [100], None, 301, 903),
        ((400,), [100], 30, 30, 90),
        ((20, 20), [(10, 10)], None, 121, 363),
        ((20, 20), [10], 10, 10, 30),
    ],
)
def test_the_numbers_of_windows_and_columns_are_those_of_the_paper(
    shape: Any, windows: Any, sample: Any, n_positions: int, width: int
) -> None:
    x, y = noise(30, 400)
    scanner = MultiGrainedScanner(
        shape, windows=windows, sample=sample, learners=ONE, random_state=0
    )
    vectors = scanner.fit_transform(x, y)
    assert len(scanner.scan_.grains[0].positions) == n_positions
    assert vectors.shape == scanner.transform(x).shape == (30, width)
    assert len(set(scanner.get_feature_names_out())) == width


def test_the_sizes_of_auto_are_parts_of_the_number_of_values() -> None:
    assert window_sizes((784,), "auto") == [(49,), (98,), (196,)]
    assert window_sizes((28, 28), "auto") == [(7, 7), (10, 10), (14, 14)]
    assert window_sizes((28, 28, 3), "auto") == [(7, 7), (10, 10), (14, 14)]
    assert window_sizes((28, 28), "fine") == [(7, 7)]


def test_a_stride_leaves_positions_out_and_names_say_where_a_window_is() -> None:
    x, y = noise(30, 28)
    scanner = MultiGrainedScanner((4, 7), windows=[(2, 3)], stride=2, learners=ONE, random_state=0)
    scanner.fit(x, y)
    assert scanner.scan_.grains[0].positions.tolist() == [
        [0, 0],
        [0, 2],
        [0, 4],
        [2, 0],
        [2, 2],
        [2, 4],
    ]
    assert scanner.get_feature_names_out()[-1] == "2x3@(2,4) random_forest class 2"


def test_a_sample_prefers_positions_that_differ_between_rows() -> None:
    varies = np.zeros(36, bool)
    varies[[14, 15]] = True
    for seed in range(5):
        (grain,) = make_grains((6, 6), [2], 1, 4, varies, seed)
        holds = [varies[corner + grain.windows.offsets].any() for corner in grain.windows.corners]
        assert all(holds)
    (grain,) = make_grains((6, 6), [2], 1, 20, varies, 0)
    assert len(grain.positions) == 20


@pytest.mark.parametrize("shape", [(42,), (6, 7), (3, 7, 2)])
@pytest.mark.parametrize("splitter", ["best", "random", "completely_random"])
@pytest.mark.parametrize("weighted", [False, True])
def test_windows_by_address_equal_a_copy_of_each_window(
    shape: Any, splitter: str, weighted: bool
) -> None:
    x, _ = noise(120, 42)
    y = ((x[:, 8] + x[:, 9] > 8) + (x[:, 20] > 6)).astype(np.int32)
    images = Images(x, shape)
    (grain,) = make_grains(shape, [3], 2, None, images.varies, 0)
    windows = grain.windows
    n_windows, n_values = len(windows.corners), len(windows.offsets)
    # The same windows as a matrix of their own, with the bins of their channels.
    copies = x[:, windows.corners[:, None] + windows.offsets].reshape(-1, n_values)
    channels = np.arange(n_values) % images.binner.n_features
    edges = [images.binner.edges[channel] for channel in channels]
    copied = Binner().restore(edges, [-1] * n_values).bin(copies)
    training, held_out = np.arange(90), np.arange(90, 120)
    weights = np.random.default_rng(1).random(120) if weighted else None
    settings = ForestSettings(
        n_trees=3, splitter=splitter, bootstrap=False, max_depth=5, min_samples_leaf=2
    )

    def numbers(rows: Any) -> Any:
        return (rows[:, None] * n_windows + np.arange(n_windows)).reshape(-1)

    ours = grow_forest(
        images.matrix,
        y,
        settings,
        n_classes=3,
        rows=training,
        held_out=held_out,
        sample_weight=weights,
        seed=3,
        windows=windows,
    )
    theirs = grow_forest(
        copied,
        np.repeat(y, n_windows),
        settings,
        n_classes=3,
        rows=numbers(training),
        held_out=numbers(held_out),
        sample_weight=None if weights is None else np.repeat(weights, n_windows),
        seed=3,
    )
    for name, array in ours.forest.arrays().items():
        np.testing.assert_array_equal(array, theirs.forest.arrays()[name])
    np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    bins = np.ascontiguousarray(images.matrix.rows[:, :42])
    predicted = ours.forest.predict_windows(bins, windows).reshape(-1, 3)
    np.testing.assert_array_equal(predicted, theirs.forest.predict(copied.rows).astype(np.float32))


# --- held-out vectors ---


def peak_of_a_scan(x: Any, y: Any, sample: float | None) -> int:
    """Return the most bytes that a scan of 14 × 14 windows holds at the same time."""
    scanner = MultiGrainedScanner(
        (28, 28), windows=[14], sample=sample, learners=ONE, class_vectors="oob", random_state=0
    )
    tracemalloc.start()
    try:
        scanner.fit_transform(x, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_windows_are_not_copied_and_a_sample_takes_a_part_of_the_memory() -> None:
    x, y = noise(1000, 784, n_classes=2)
    x = x.astype(np.float32)
    peak_of_a_scan(x[:20], y[:20], None)  # what is loaded at the first use does not count
    all_windows = peak_of_a_scan(x, y, None)
    # A copy would take a byte for each value of each window, besides the rest.
    assert all_windows < 1000 * 225 * 14 * 14
    assert peak_of_a_scan(x, y, 1 / 8) < all_windows / 2


def test_all_windows_of_a_row_are_in_a_bag_or_none() -> None:
    x, y = noise(60, 36)
    images = Images(x, (6, 6))
    (grain,) = make_grains((6, 6), [3], 1, None, images.varies, 0)
    settings = ForestSettings(n_trees=7, max_depth=4)
    grown = grow_forest(
        images.matrix,
        y.astype(np.int32),
        settings,
        n_classes=3,
        out_of_bag=True,
        windows=grain.windows,
    )
    votes = grown.votes.reshape(60, 16)
    assert (votes == votes[:, :1]).all()
    assert len(np.unique(votes)) > 1


@pytest.mark.parametrize("class_vectors", ["oob", "folds"])
def test_the_vectors_of_training_rows_do_not_know_their_labels(class_vectors: str) -> None:
    x, _ = noise(300, 36)
    y = np.random.default_rng(3).integers(0, 2, 300)
    deep = [{"kind": "random_forest", "n_estimators": 20}]
    scanner = MultiGrainedScanner(
        (6, 6), windows=[5], learners=deep, class_vectors=class_vectors, random_state=0
    )
    held_out = scanner.fit_transform(x, y)[:, 1::2].mean(axis=1)
    learned = scanner.transform(x)[:, 1::2].mean(axis=1)
    assert abs(roc_auc_score(y, held_out) - 0.5) < 0.08
    assert roc_auc_score(y, learned) > 0.9


def test_groups_stay_together() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5)
    x = np.repeat(rng.normal(size=(60, 36)), 5, axis=0)
    y = np.repeat(rng.integers(0, 2, 60), 5)
    deep = [{"kind": "random_forest", "n_estimators": 20}]
    scanner = MultiGrainedScanner((6, 6), windows=[5], learners=deep, random_state=0)
    alone = scanner.fit_transform(x, y)[:, 1::2].mean(axis=1)
    together = scanner.fit_transform(x, y, groups=groups)[:, 1::2].mean(axis=1)
    assert roc_auc_score(y, alone) > 0.9
    assert roc_auc_score(y, together) < 0.7


def random_label_auc(n: int, seed: int, learners: Any) -> float:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, 256)), rng.integers(0, 2, n)
    cascade = CascadeForestClassifier(
        learners, scan={"shape": (16, 16), "sample": 20}, random_state=seed, n_jobs=2
    ).fit(x, y)
    return float(roc_auc_score(y, cascade.oof_output_[:, 1]))


def test_a_cascade_that_scans_sees_nothing_in_random_labels() -> None:
    aucs = [random_label_auc(200, seed, FEW) for seed in range(3)]
    assert abs(np.mean(aucs) - 0.5) < 0.06


@pytest.mark.slow
def test_a_cascade_that_scans_sees_nothing_in_many_random_labels() -> None:
    aucs = [random_label_auc(1000, seed, TWO) for seed in range(4)]
    assert abs(np.mean(aucs) - 0.5) < 0.03


def test_rows_of_weight_zero_change_nothing() -> None:
    x, y = some_digits()
    weights = np.ones(len(x))
    weights[-50:] = 0
    scanner = MultiGrainedScanner((8, 8), windows=[4], sample=4, learners=ONE, random_state=0)
    scanner.fit_transform(x, y, sample_weight=weights)
    other = y.copy()
    other[-50:] = (other[-50:] + 1) % 10
    again = MultiGrainedScanner((8, 8), windows=[4], sample=4, learners=ONE, random_state=0)
    again.fit(x, other, sample_weight=weights)
    np.testing.assert_array_equal(scanner.transform(x), again.transform(x))


def test_pooling_merges_neighbouring_positions() -> None:
    x, y = some_digits()
    params: dict[str, Any] = {"windows": [4], "learners": ONE, "random_state": 0}
    plain = MultiGrainedScanner((8, 8), **params)
    full = plain.fit_transform(x, y).reshape(len(x), 5, 5, 10)
    pooled = MultiGrainedScanner((8, 8), pooling=("max", 2), **params)
    vectors = pooled.fit_transform(x, y).reshape(len(x), 3, 3, 10)
    np.testing.assert_array_equal(vectors[:, 1, 1], full[:, 2:4, 2:4].max(axis=(1, 2)))
    np.testing.assert_array_equal(vectors[:, 2, 2], full[:, 4, 4])
    assert pooled.get_feature_names_out()[0] == "4x4@(0,0)-(1,1) random_forest class 0"
    assert pooled.transform(x).shape == (len(x), 90)


def test_the_result_does_not_depend_on_threads_or_on_the_batch() -> None:
    x, y = some_digits()
    scanners = [
        MultiGrainedScanner((8, 8), sample=3, learners=TWO, random_state=0, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    ]
    first, second = (scanner.fit_transform(x, y) for scanner in scanners)
    np.testing.assert_array_equal(first, second)
    whole = scanners[0].transform(x)
    np.testing.assert_array_equal(whole, scanners[1].transform(x))
    np.testing.assert_array_equal(whole[7:9], scanners[0].transform(x[7:9]))


def test_a_scanner_is_saved_and_loaded(tmp_path: Path) -> None:
    x, y = some_digits()
    names = [f"digit {label}" for label in y]
    scanner = MultiGrainedScanner(
        (8, 8), sample=0.2, learners=TWO, class_vectors="folds", random_state=0
    ).fit(x, names)
    scanner.save(tmp_path / "scanner")
    loaded = MultiGrainedScanner.load(tmp_path / "scanner")
    np.testing.assert_array_equal(loaded.transform(x), scanner.transform(x))
    assert loaded.get_feature_names_out().tolist() == scanner.get_feature_names_out().tolist()
    assert loaded.get_params()["sample"] == 0.2
    damaged = next((tmp_path / "scanner").glob("*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(BrokenModel, match="was changed"):
        MultiGrainedScanner.load(tmp_path / "scanner")


def test_a_stored_position_outside_of_the_image_is_refused() -> None:
    x, y = some_digits()
    scanner = MultiGrainedScanner((8, 8), windows=[4], learners=ONE, random_state=0).fit(x, y)
    packs = scanner.scan_.pack("scan")
    packs["scan"].arrays["positions_1"][0] = [7, 7]  # type: ignore[index]
    with pytest.raises(ValueError, match="the positions"):
        Scan.unpack(packs, "scan", 10)


def test_finished_fits_of_a_scan_are_not_repeated(tmp_path: Path) -> None:
    x, y = some_digits()
    params: dict[str, Any] = {"windows": [3, 4], "sample": 3, "learners": TWO, "random_state": 0}
    events: list[FitEvent] = []
    first = MultiGrainedScanner((8, 8), **params).fit_transform(x, y, checkpoint=tmp_path)
    second = MultiGrainedScanner((8, 8), **params).fit_transform(
        x, y, checkpoint=tmp_path, listener=events.append
    )
    np.testing.assert_array_equal(first, second)
    assert [event.state for event in events] == ["waiting", "waiting", "kept", "kept"] * 2
    assert events[0].place == ("Scan 3x3", "random forest", "out of bag")


def test_a_scan_stops_when_it_is_cancelled() -> None:
    x, y = some_digits()
    with pytest.raises(FitCancelled):
        MultiGrainedScanner((8, 8)).fit(x, y, cancelled=lambda: True)


def test_missing_values_are_scanned() -> None:
    x, y = some_digits()
    x = x.copy()
    x[::3, 20:30] = np.nan
    scanner = MultiGrainedScanner((8, 8), windows=[4], learners=ONE, random_state=0).fit(x, y)
    assert np.isfinite(scanner.transform(x)).all()


# --- bad input ---


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"shape": (7, 9)}, "shape is 7 × 9, which is 63 columns, and there are 64"),
        ({"shape": "8x8"}, "shape is '8x8'"),
        ({"shape": (8, 0)}, "a part of shape is 0"),
        ({"windows": [(9, 3)]}, "a window of 9 × 3 does not fit into an image of 8 × 8"),
        ({"windows": [0]}, "the side of a window is 0"),
        ({"windows": []}, "windows is"),
        ({"windows": "all"}, "windows is 'all'"),
        ({"shape": (64,), "windows": [65]}, "does not fit into a sequence of 64"),
        ({"sample": 0}, "give a number from 1 to"),
        ({"windows": [4], "sample": 26}, "a window of 4 × 4 has 25 positions"),
        ({"sample": 0.0}, "a share above 0"),
        ({"sample": 1.5}, "a share above 0"),
        ({"stride": 0}, "stride is 0"),
        ({"pooling": ("median", 2)}, "pooling is"),
        ({"pooling": ("max", 2), "sample": 3}, "a sample leaves some out"),
        ({"learners": ["mart"]}, "a mart learner cannot learn from windows"),
        ({"class_vectors": "both"}, "class_vectors is 'both'"),
    ],
)
def test_params_that_cannot_be_used_are_refused(params: Any, message: str) -> None:
    x, y = some_digits()
    asked = {"shape": (8, 8), "learners": ONE, **params}
    with pytest.raises(ValueError, match=message):
        MultiGrainedScanner(**asked).fit(x, y)
    with pytest.raises(ValueError, match=message):
        CascadeForestClassifier(FEW, scan=asked).fit(x, y)


def test_columns_out_of_reading_order_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = some_digits()
    names = [f"px{row}_{column}" for row in range(8) for column in range(8)]
    table = pandas.DataFrame(x, columns=names)
    swapped = table[[names[1], names[0], *names[2:]]]
    with pytest.raises(ValueError, match=r"column 1 is 'px0_1'.* needs 'px0_0' there"):
        MultiGrainedScanner((8, 8), learners=ONE).fit(swapped, y)
    cascade = CascadeForestClassifier(
        FEW, scan={"shape": (8, 8), "learners": ONE, "sample": 3}, max_layers=1
    )
    with pytest.raises(ValueError, match="reading order"):
        cascade.fit(swapped, y)
    cascade.fit(table, y)
    with pytest.raises(ValueError, match="feature names"):
        cascade.predict(swapped)


def test_a_shape_is_guessed_from_the_columns() -> None:
    names = [f"r{row}c{column}" for row in range(1, 4) for column in range(1, 6)]
    assert guess_shape(names) == (3, 5)
    assert guess_shape(names[:-1]) is None
    assert guess_shape([f"pixel_{number}" for number in range(64)]) == (8, 8)
    assert guess_shape(["age", "income", "balance", "duration"]) is None


def test_a_scan_and_a_selector_exclude_each_other() -> None:
    x, y = some_digits()
    with pytest.raises(ValueError, match="scan and selector"):
        CascadeForestClassifier(FEW, scan={"shape": (8, 8)}, selector=MartSelector(5)).fit(x, y)
    with pytest.raises(ValueError, match="give a MultiGrainedScanner"):
        CascadeForestClassifier(FEW, scan=(8, 8)).fit(x, y)
    with pytest.raises(ValueError, match="unexpected keyword argument 'size'"):
        CascadeForestClassifier(FEW, scan={"shape": (8, 8), "size": 3}).fit(x, y)


# --- cascades that scan ---

SCAN: dict[str, Any] = {"shape": (8, 8), "windows": [4], "sample": 6, "learners": ONE}


def test_each_cascade_fits_its_scan_on_its_own_training_rows(growths: list[Grown]) -> None:
    x, y = some_digits()
    CascadeForestClassifier(FEW, scan=SCAN, max_layers=1, random_state=0).fit(x, y)
    (grown,) = growths
    sizes = []
    for cascade in grown.scored:
        scan = cascade.layers[0].scan
        assert scan is not None
        sizes.append(int(scan.class_rows.sum()))
    # Each is blind to one fold of five, and the model to none.
    assert sum(len(x) - size for size in sizes) == len(x)
    final = grown.cascades[0].layers[0].scan
    assert final is not None
    assert final.class_rows.sum() == len(x)


@pytest.mark.parametrize(
    "cascade",
    [
        CascadeForestClassifier(FEW, scan=SCAN, max_layers=2, random_state=0),
        CascadeForestClassifier(
            FEW, scan=MultiGrainedScanner(**SCAN), augment="stack", resampling="per_layer", cv=3
        ),
        MarginForestClassifier(FEW, scan=SCAN, depth_step=None, max_layers=2, random_state=0),
        ScreenedForestClassifier(FEW, scan=SCAN, max_layers=3, cv=3, random_state=0),
    ],
    ids=["cascade", "stack", "margin", "screened"],
)
def test_a_cascade_that_scans_is_saved_with_its_scans(cascade: Any, tmp_path: Path) -> None:
    x, y = some_digits(2)
    cascade.fit(x[::2], y[::2])
    expected = cascade.predict_proba(x)
    assert (expected.argmax(axis=1) == y)[1::2].mean() > 0.7
    cascade.save(tmp_path / "model")
    loaded = type(cascade).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(x), expected)
    np.testing.assert_array_equal(loaded.predict_proba(x[5:6])[0], expected[5])
    assert loaded.feature_importances_.sum() == pytest.approx(1)
    names = loaded.layer_feature_names([])
    for seen, importances in zip(names, loaded.layer_importances(), strict=True):
        assert importances.shape[1] == len(seen)
    with pytest.raises(ValueError, match="model that scans"):
        loaded.predict_contributions(x)


def test_a_cascade_that_scans_continues_from_its_checkpoint(tmp_path: Path) -> None:
    x, y = some_digits()
    params: dict[str, Any] = {"scan": SCAN, "max_layers": 1, "cv": 3, "random_state": 0}
    events: list[FitEvent] = []
    first = CascadeForestClassifier(FEW, **params).fit(x, y, checkpoint=tmp_path)
    second = CascadeForestClassifier(FEW, **params).fit(
        x, y, checkpoint=tmp_path, listener=events.append
    )
    assert "started" not in {event.state for event in events}
    places = [event.place for event in events if event.state == "kept"]
    assert ("Layer 1", "Scan 4x4, random forest", "Cascade 1, out of bag") in places
    assert ("Model, layer 1", "Scan 4x4, random forest", "Out of bag") in places
    np.testing.assert_array_equal(first.predict_proba(x), second.predict_proba(x))


def test_a_model_without_its_scan_is_refused(tmp_path: Path) -> None:
    x, y = some_digits()
    model = CascadeForestClassifier(FEW, scan=SCAN, max_layers=1, random_state=0).fit(x, y)
    model.cascades_[0].layers[0].scan = None
    model.save(tmp_path / "model")
    with pytest.raises(BrokenModel, match="the scan cannot be right"):
        CascadeForestClassifier.load(tmp_path / "model")


def test_importances_and_positions_show_where_the_class_is() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 100)), rng.integers(0, 2, 300)
    image = x.reshape(-1, 10, 10)
    image[:, 6:9, 1:4] += y[:, None, None]
    scan = {"shape": (10, 10), "windows": [3], "learners": TWO}
    model = CascadeForestClassifier(FEW, scan=scan, max_layers=1, random_state=0).fit(x, y)
    (recalls,) = model.scans_[0].recalls
    accuracy = (recalls @ model.scans_[0].class_rows / 300).reshape(8, 8)
    assert np.unravel_index(accuracy.argmax(), (8, 8)) == (6, 1)
    assert accuracy[6, 1] > 0.75 > 0.65 > accuracy[:3, 5:].max()
    importances = model.feature_importances_.reshape(10, 10)
    assert importances[6:9, 1:4].sum() > 0.3


def test_every_layer_of_screening_scans_the_rows_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = some_digits(2)
    model = preset(
        "gcforest_cs_scan",
        learners=FEW,
        scan={**SCAN, "sample": 5},
        resampling="per_layer",
        patience=4,
        max_layers=5,
        random_state=0,
    ).fit(x, y)
    scans = model.scans_
    assert len(scans) == model.n_layers_ >= 3
    records = model.layer_records_[: len(scans)]
    # A scan learns only the rows that are still in, and has positions of its own.
    assert [int(scan.class_rows.sum()) for scan in scans] == [each.rows_in for each in records]
    positions = {scan.grains[0].positions.tobytes() for scan in scans}
    assert len(positions) == len(scans)
    # A layer sees the last three scans and the vectors of the layer before.
    widths = [50 * min(number, 3) for number in range(1, len(scans) + 1)]
    assert [each.n_features for each in records] == [
        width + (10 if number else 0) for number, width in enumerate(widths)
    ]
    # A row that has left is not scanned any more.
    scanned: list[int] = []
    vectors = Scan.vectors

    def count(self: Scan, values: Any) -> Any:
        scanned.append(len(values))
        return vectors(self, values)

    monkeypatch.setattr(Scan, "vectors", count)
    left_at = model.trace(x).left_at
    assert scanned == [int((left_at >= number).sum()) for number in range(1, len(scans) + 1)]
    assert scanned[-1] < scanned[0]


def test_the_preset_that_scans_needs_a_shape() -> None:
    with pytest.raises(ValueError, match="shape is None"):
        preset("gcforest_cs_scan").fit(*some_digits())
    model = preset("gcforest_cs_scan", shape=(28, 28))
    assert model.scan == {"shape": (28, 28), "windows": "fine", "sample": 0.1}
    assert preset("gcforest", shape=(28, 28)).scan == {"shape": (28, 28)}
