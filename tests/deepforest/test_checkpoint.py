"""Finished fits survive: what a folder keeps, and fits that are killed and called again."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.naive_bayes import GaussianNB

from deepforest import CascadeForestClassifier, CascadeForestRegressor, MartSelector
from deepforest._fit_jobs import FitEvent, FolderCheckpointer
from deepforest._grow import Grown
from deepforest._layer import unpack_fit
from deepforest.persistence import Pack
from tests.deepforest.scripted_scores import keeps_every_layer
from tests.expect import refused

FOREST = {"kind": "random_forest", "n_estimators": 4}
MART = {"kind": "mart", "n_estimators": 3, "num_leaves": 4}
PACK = Pack({"seconds": 1.5}, {"numbers": np.arange(5), "none": np.zeros((0, 2))}, "text\n")


# --- the folder ---


@pytest.fixture
def kept(tmp_path: Path) -> FolderCheckpointer:
    folder = FolderCheckpointer(tmp_path / "there")
    folder.save("a", PACK)
    return folder


def check_same(pack: Pack | None) -> None:
    assert pack is not None
    assert (pack.about, pack.text) == (PACK.about, PACK.text)
    assert pack.arrays.keys() == PACK.arrays.keys()
    for name, array in PACK.arrays.items():
        np.testing.assert_array_equal(pack.arrays[name], array)


def test_what_was_kept_is_there_whole(kept: FolderCheckpointer) -> None:
    check_same(kept.load("a"))
    check_same(FolderCheckpointer(str(kept.folder)).load("a"))


def test_results_lie_under_their_keys(kept: FolderCheckpointer) -> None:
    kept.save("b", Pack({"value": 2}))
    kept.save("fit/b", Pack({"value": 3}))
    found = {key: kept.load(key) for key in ("a", "b", "fit/b", "c", "fit", "fit/a")}
    assert found["b"] == Pack({"value": 2})
    assert found["fit/b"] == Pack({"value": 3})
    assert [key for key, pack in found.items() if pack is None] == ["c", "fit", "fit/a"]


def test_a_later_result_takes_the_place_of_the_first(kept: FolderCheckpointer) -> None:
    kept.save("a", Pack({"value": 2}))
    assert kept.load("a") == Pack({"value": 2})
    assert [path.name for path in kept.folder.iterdir()] == ["a"]


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "forest.json").read_text())
        change(document["content"])
        (folder / "forest.json").write_text(json.dumps(document))

    return damage


def write(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def cut(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return damage


def in_place_of_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file of somebody else")


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        in_place_of_the_folder,
        lambda folder: (folder / "forest.json").unlink(),  # the last thing that is written
        lambda folder: (folder / "result.npz").unlink(),
        lambda folder: (folder / "result.txt").unlink(),
        cut("forest.json"),
        cut("result.npz"),
        cut("result.txt"),
        write("forest.json", b""),
        write("forest.json", b"[1, 2]"),
        write("forest.json", b"\xff\xfe"),
        write("forest.json", b'{"name": "something else"}'),
        write("result.npz", b""),
        write("result.txt", b"other trees"),
        manifest(lambda content: content["packs"]["result"].update(seconds=2.0)),
        manifest(lambda content: content["packs"].clear()),
        manifest(lambda content: content.update(version=99)),
    ],
)
def test_what_is_broken_half_written_or_foreign_counts_as_absent(
    kept: FolderCheckpointer, damage: Callable[[Path], None]
) -> None:
    damage(kept.folder / "a")
    assert kept.load("a") is None
    kept.save("a", PACK)
    check_same(kept.load("a"))


def test_what_a_killed_writer_left_beside_is_not_taken_for_a_result(
    kept: FolderCheckpointer,
) -> None:
    (kept.folder / "a").rename(kept.folder / ".b-0123abcd")
    assert kept.load("a") is None
    assert kept.load("b") is None
    kept.save("b", PACK)
    check_same(kept.load("b"))


# --- fits that were killed ---

SETTINGS = {"cv": 3, "max_layers": 2, "patience": 2, "random_state": 3}
LEARNERS = [FOREST, {"kind": "completely_random_forest", "n_estimators": 4}, MART]
# Three cascades are scored. They share the fits of the first layer: one without each pair of folds.
SCORED = (3, 6)
# Then one cascade learns all rows: a fit without each fold, in every layer that is kept.
FINAL = 3

SCRIPT = f"""
import sys
from sklearn.datasets import load_digits
from deepforest import CascadeForestClassifier

def tell(event):
    print(event.state, event.key, flush=True)
    sys.stdin.readline()  # whoever listens says when to go on

x, y = load_digits(return_X_y=True)
model = CascadeForestClassifier({LEARNERS!r}, n_jobs=2, **{SETTINGS!r})
model.fit(x[:200], y[:200], checkpoint=sys.argv[1], listener=tell)
"""


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x[:200], y[:200]


class Told:
    """A listener that sorts the fits by what happened to them."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, event: FitEvent) -> None:
        if "-fold-" in event.key:
            self.events.append((event.state, event.key))

    def __getitem__(self, state: str) -> set[str]:
        return {key for found, key in self.events if found == state}


def killed_when(state: str, times: int, folder: Path) -> Told:
    """Fit in another process, and kill it when that has happened to so many fits."""
    told = Told()
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            told(FitEvent(line.split()[1], line.split()[0]))
            if len(told[state]) == times:
                process.send_signal(signal.SIGKILL)
                break
            process.stdin.write("go on\n")
    assert process.returncode == -signal.SIGKILL
    return told


def in_layers(keys: set[str], *, final: bool) -> list[int]:
    """Return how many of the fits are in each layer: of scored cascades, or of the final one."""
    own = [key for key in keys if ("-fold-4-" in key) == final]
    return [sum(key.startswith(f"layer-{number}-") for key in own) for number in (1, 2)]


@pytest.mark.parametrize(
    ("kills", "dies_in_final"),
    [
        ([("finished", len(LEARNERS) * SCORED[0] + 5)], False),
        ([("finished", len(LEARNERS) * sum(SCORED) + 5)], True),
        pytest.param(
            [("finished", 2), ("started", 6), ("finished", 6)], False, marks=pytest.mark.slow
        ),
    ],
    ids=["while cascades are scored", "while all rows are learned", "again and again"],
)
def test_a_fit_that_is_killed_repeats_nothing_and_ends_the_same(
    kills: list[tuple[str, int]], dies_in_final: bool, tmp_path: Path
) -> None:
    finished: set[str] = set()
    for state, times in kills:
        told = killed_when(state, times, tmp_path)
        assert told["kept"] == finished
        assert told["started"].isdisjoint(finished)
        finished |= told["finished"]
    in_first, in_second = in_layers(finished, final=False)
    assert in_first == len(LEARNERS) * SCORED[0]
    if dies_in_final:
        assert in_second == len(LEARNERS) * SCORED[1]
        assert 0 < in_layers(finished, final=True)[0] < len(LEARNERS) * FINAL
    else:
        assert 0 < in_second < len(LEARNERS) * SCORED[1]
        assert in_layers(finished, final=True) == [0, 0]

    x, y = digits()
    told = Told()
    model = CascadeForestClassifier(LEARNERS, **SETTINGS).fit(
        x, y, checkpoint=tmp_path, listener=told
    )
    assert told["kept"] == finished
    assert told["started"] == told["finished"]
    assert told["started"].isdisjoint(finished)
    every = told["kept"] | told["finished"]
    assert in_layers(every, final=False) == [len(LEARNERS) * fits for fits in SCORED]
    assert sum(in_layers(every, final=True)) == len(LEARNERS) * FINAL * model.n_layers_

    unbroken = CascadeForestClassifier(LEARNERS, **SETTINGS).fit(x, y)
    np.testing.assert_array_equal(model.predict_proba(x), unbroken.predict_proba(x))
    np.testing.assert_array_equal(model.oof_output_, unbroken.oof_output_)
    assert [layer.score for layer in model.layer_records_] == [
        layer.score for layer in unbroken.layer_records_
    ]


# --- what is taken up, and what not ---


def fit(folder: Any, **settings: Any) -> tuple[CascadeForestClassifier, Told]:
    x, y = load_iris(return_X_y=True)
    x, y, weights = settings.pop("x", x), settings.pop("y", y), settings.pop("sample_weight", None)
    told = Told()
    settings = {"learners": [FOREST, MART], **SETTINGS, **settings}
    model = CascadeForestClassifier(**settings).fit(x, y, weights, checkpoint=folder, listener=told)
    return model, told


def changed(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values[-1] = values[0]
    return values


X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "other",
    [
        {"x": changed(X)},
        {"x": X.astype(np.float32)},
        {"y": changed(Y)},
        {"sample_weight": changed(np.arange(1.0, 151.0))},
        {"class_weight": {0: 1, 1: 2, 2: 3}},
        {"random_state": 4},
        {"random_state": None},
        {"cv": 4},
        {"resampling": "per_layer"},
        {"class_vectors": "oob"},
        {"augment": "stack"},
        {"learners": [FOREST, {**MART, "n_estimators": 2}]},
        {"learners": [MART, FOREST]},
        {"categorical_features": [3]},
        {"selector": MartSelector(2, random_state=0)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_fit_takes_up_nothing(other: dict[str, Any], tmp_path: Path) -> None:
    fit(tmp_path)
    model, told = fit(tmp_path, **other)
    assert not told["kept"]
    if other != {"random_state": None}:
        np.testing.assert_array_equal(model.oof_output_, fit(None, **other)[0].oof_output_)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"max_layers": 1},
        {"patience": 1},
        {"scoring": "log_loss"},
        {"scoring": lambda y, said: 0.0},
        {"tol": 0.5},
        {"n_jobs": 2},
        {"y": np.array(["setosa", "versicolor", "virginica"])[Y]},
    ],
    ids=lambda other: next(iter(other), "same"),
)
def test_what_does_not_change_the_fits_takes_them_up(other: dict[str, Any], tmp_path: Path) -> None:
    # The first fit keeps both layers, so that the final cascade has both, whatever is kept later.
    _, first = fit(tmp_path, scoring=keeps_every_layer())
    model, told = fit(tmp_path, **other)
    assert told["kept"] <= first["finished"]
    scored = sum(learner.fits for record in model.layer_records_ for learner in record.learners)
    assert len(told["kept"]) == scored + 2 * FINAL * model.n_layers_
    assert not told["started"]


def test_more_layers_are_grown_on_those_that_are_there(tmp_path: Path) -> None:
    _, first = fit(tmp_path, max_layers=1)
    model, told = fit(tmp_path, scoring=keeps_every_layer())
    assert model.n_layers_ == 2
    assert told["kept"] == first["finished"]
    assert len(told["kept"]) == 2 * SCORED[0] + 2 * FINAL
    assert {key.split("-")[1] for key in told["started"]} == {"2"}
    assert len(told["started"]) == 2 * SCORED[1] + 2 * FINAL
    unbroken, _ = fit(None, scoring=keeps_every_layer())
    np.testing.assert_array_equal(model.predict_proba(X), unbroken.predict_proba(X))


def test_a_fit_without_random_state_goes_on_where_it_was(tmp_path: Path) -> None:
    first, _ = fit(tmp_path, random_state=None)
    again, told = fit(tmp_path, random_state=None)
    scored = 2 * sum(SCORED[: len(again.layer_records_)])
    assert len(told["kept"]) == scored + 2 * FINAL * again.n_layers_
    assert not told["started"]
    np.testing.assert_array_equal(again.oof_output_, first.oof_output_)


def test_a_random_state_that_moved_on_is_another_seed(tmp_path: Path) -> None:
    state = np.random.RandomState(3)
    fit(tmp_path, random_state=state)
    assert not fit(tmp_path, random_state=state)[1]["kept"]
    assert fit(tmp_path, random_state=np.random.RandomState(3))[1]["kept"]


def test_a_selector_that_chose_other_columns_starts_anew(
    tmp_path: Path, growths: list[Grown]
) -> None:
    noise = np.random.default_rng(0).random((150, 8))
    chosen: set[tuple[int, ...]] = set()
    taken_up = 0
    for seed in range(4):
        selector = MartSelector(2, n_estimators=1, random_state=seed)
        model, told = fit(tmp_path, x=noise, selector=selector, max_layers=1)
        cascades = [*growths[-1].scored, *model.cascades_]
        own = {(number, *each.selected) for number, each in enumerate(cascades)}
        # Each cascade has selected columns itself: it has its own fits, two of each learner; the
        # final one, which is number 3, has three.
        fits = [2 * (FINAL if number == 3 else 2) for number, *_ in own & chosen]
        assert len(told["kept"]) == sum(fits)
        taken_up += len(told["kept"])
        chosen |= own
    assert len(chosen) > 3
    assert taken_up > 0


def test_columns_of_another_type_start_anew(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"level": np.arange(60) % 6, "noise": np.arange(60) * 7 % 11})
    target = np.isin(table["level"], [1, 4])
    fit(tmp_path, x=table, y=target)
    _, told = fit(tmp_path, x=table.astype({"level": "category"}), y=target)
    assert not told["kept"]


def test_a_broken_result_is_fitted_again(tmp_path: Path) -> None:
    first, _ = fit(tmp_path)
    (broken,) = tmp_path.glob("*/layer-1-learner-2-fold-1-2")
    (broken / "result.txt").write_text("tree\n")
    again, told = fit(tmp_path)
    assert told["started"] == {broken.name}
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))


def test_a_result_of_another_version_is_fitted_again(tmp_path: Path) -> None:
    first, _ = fit(tmp_path)
    keys = ["layer-1-learner-1-fold-1-2", "layer-1-learner-2-fold-1-2"]
    for key in keys:
        (path,) = tmp_path.glob(f"*/{key}")
        folder = FolderCheckpointer(path.parent)
        pack = folder.load(key)
        assert pack is not None
        arrays = {name: array for name, array in pack.arrays.items() if name != "nodes"}
        folder.save(key, Pack(pack.about, arrays, pack.text.replace("threshold=", "thresholds=")))
    again, told = fit(tmp_path)
    assert told["started"] == set(keys)
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))


def test_a_scikit_learn_learner_is_fitted_again_and_the_others_are_taken_up(tmp_path: Path) -> None:
    first, _ = fit(tmp_path, learners=[GaussianNB(), FOREST])
    again, told = fit(tmp_path, learners=[GaussianNB(), FOREST])
    assert {key.split("-")[3] for key in told["started"]} == {"1"}
    assert {key.split("-")[3] for key in told["kept"]} == {"2"}
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))


def test_any_checkpointer_will_do() -> None:
    class Memory(dict):
        load, save = dict.get, dict.__setitem__

    memory = Memory()
    model, _ = fit(memory)
    n_fits = 2 * sum(SCORED) + 2 * FINAL * model.n_layers_
    assert len(memory) == n_fits
    assert len(fit(memory)[1]["kept"]) == n_fits
    assert not fit(memory, random_state=9)[1]["kept"]


def test_regression_goes_on_as_well(tmp_path: Path) -> None:
    predicted = []
    for _ in range(2):
        told = Told()
        model = CascadeForestRegressor([FOREST, MART], cv=3, max_layers=1, random_state=0)
        predicted.append(
            model.fit(X[:, :3], X[:, 3], checkpoint=tmp_path, listener=told).predict(X[:, :3])
        )
    assert len(told["kept"]) == 2 * SCORED[0] + 2 * FINAL
    assert not told["started"]
    np.testing.assert_array_equal(*predicted)


def fitted_pack() -> Pack:
    """A finished fit as it is kept."""
    kept: dict[str, Pack] = {}

    class Memory:
        def load(self, key: str) -> Pack | None:
            return None

        def save(self, key: str, pack: Pack) -> None:
            kept[key] = pack

    x, y = load_iris(return_X_y=True)
    CascadeForestClassifier(
        ["random_forest"], resampling="per_layer", cv=2, max_layers=1, random_state=0
    ).fit(x, y, checkpoint=Memory())
    return next(iter(kept.values()))


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((3, 3), np.float32),
        np.zeros((75, 3)),
        np.full((75, 3), 1e30, np.float32),
        np.zeros(75, np.float32),
        np.full((75, 3), "a"),
    ],
)
def test_vectors_that_cannot_be_right_are_not_taken(vectors: np.ndarray) -> None:
    pack = fitted_pack()
    unpack_fit(pack, 75, 4, 3)
    with refused(ValueError, naming="vectors"):
        unpack_fit(Pack(pack.about, {**pack.arrays, "vectors": vectors}), 75, 4, 3)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"content": {"format": "sylva-forest", "version": Infinity}}']
)
def test_a_manifest_that_is_hard_to_read_counts_as_absent(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "forest.json").write_text(text)
    assert FolderCheckpointer(tmp_path).load("key") is None


def test_many_may_keep_the_same_result_at_once(tmp_path: Path) -> None:
    pack = fitted_pack()
    keeper = FolderCheckpointer(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: keeper.save("key", pack), range(100)))
    assert keeper.load("key") is not None
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
