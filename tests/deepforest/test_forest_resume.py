"""A forest grown in two steps is the forest grown at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepforest.forest import GrownForest
from tests.expect import refused

from .test_forest_kernel import SPLITTERS, Problem, changed


def assert_same(one: GrownForest, other: GrownForest) -> None:
    """Compare everything that callers read and everything that is saved, bit for bit."""
    arrays, others = one.arrays(), other.arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        assert array.tobytes() == others[name].tobytes(), name
    assert one.vectors.tobytes() == other.vectors.tobytes()


def saved(grown: GrownForest, folder: Path) -> GrownForest:
    """Write the arrays to a file and read them again, without pickle."""
    file = folder / "forest.npz"
    arrays: dict[str, Any] = grown.arrays()
    np.savez(file, **arrays)
    with np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    return GrownForest.from_arrays(arrays, grown.forest.n_features, grown.forest.n_classes)


def asked_for(problem: Problem, what: str) -> dict[str, Any]:
    everyone = np.arange(len(problem.target))
    if what == "out_of_bag":
        return {"out_of_bag": True}
    part = {"rows": everyone[everyone % 3 != 1], "held_out": everyone[everyone % 3 == 1]}
    return {**part, "out_of_bag": what == "both"}


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("n_classes", [0, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("what", ["held_out", "out_of_bag", "both"])
def test_two_steps_give_the_same_bits_as_one(
    splitter: str, n_classes: int, weighted: bool, what: str, tmp_path: Path
) -> None:
    problem = Problem(1, 300, 4, n_classes, 50, 0.1)
    params = {
        "splitter": splitter,
        "max_features": 2,
        "sample_weight": problem.weights if weighted else None,
        "seed": 3,
        **asked_for(problem, what),
    }
    whole = problem.grow(n_trees=12, snapshot_at=5, **params)
    assert len(whole.vectors) == (100 if what == "held_out" else 300)
    for n_jobs in (1, 2):
        first = problem.grow(n_trees=5, n_jobs=n_jobs, **params)
        assert whole.snapshot is not None
        assert whole.snapshot.vectors.tobytes() == first.vectors.tobytes()
        assert whole.snapshot.votes.tobytes() == first.votes.tobytes()
        for resume in (first, saved(first, tmp_path)):
            rest = problem.grow(n_trees=12, n_jobs=n_jobs, resume=resume, snapshot_at=5, **params)
            assert_same(rest, whole)
    assert_same(saved(whole, tmp_path), whole)


def test_the_trees_to_resume_stay_as_they_are() -> None:
    problem = Problem(1, 300, 4, 3, 50, 0.1)
    first = problem.grow(n_trees=2, out_of_bag=True)
    before = {name: array.copy() for name, array in first.arrays().items()}
    rest = problem.grow(n_trees=4, out_of_bag=True, resume=first)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    assert_same(problem.grow(n_trees=4, out_of_bag=True, resume=rest), rest)


def test_only_the_missing_trees_are_grown() -> None:
    problem = Problem(1, 300, 4, 3, 50, 0.1)
    grown: list[int] = []
    first = problem.grow(n_trees=3)
    problem.grow(n_trees=10, resume=first, interrupt=lambda: grown.append(1))
    assert len(grown) == 7


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_trees": 2}, "3 trees 2"),
        ({"rows": np.arange(200)}, "other data"),
        ({"out_of_bag": False}, "other data"),
        ({"snapshot_at": 2}, "snapshot_at 2 4 6"),
        ({"snapshot_at": 7}, "snapshot_at 7 4 6"),
    ],
)
def test_a_forest_that_cannot_be_resumed_is_refused(change: dict[str, Any], words: str) -> None:
    problem = Problem(1, 300, 4, 0, 50, 0.1)
    first = problem.grow(n_trees=3, out_of_bag=True)
    with refused(ValueError, naming=words.split()):
        problem.grow(**{"n_trees": 6, "out_of_bag": True, "resume": first, **change})


def test_another_target_is_refused() -> None:
    problem = Problem(1, 300, 4, 0, 50, 0.1)
    first = problem.grow(n_trees=3)
    problem.target = problem.target + 1.0
    with refused(ValueError, naming=["other data", "target"]):
        problem.grow(n_trees=6, resume=first)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("nodes", lambda array: array[1:]),
        ("gains", lambda array: array[1:]),
        ("gains", lambda array: array * np.nan),
        ("center", lambda array: np.array([np.inf])),
        ("predict_rows", lambda array: array[::-1]),
        ("sums", lambda array: array[1:]),
        ("sums", lambda array: array.astype(float)),
        ("sums", lambda array: changed(array, 0, -1.0)),
        ("votes", lambda array: changed(array, 0, 4)),
        ("snapshot_trees", lambda array: array + 2),
        ("votes", None),
        ("snapshot_votes", None),
    ],
)
def test_corrupt_arrays_are_refused(name: str, change: Any) -> None:
    grown = Problem(1, 300, 4, 3, 50, 0.1).grow(n_trees=3, out_of_bag=True, snapshot_at=2)
    arrays = grown.arrays()
    GrownForest.from_arrays(arrays, 4, 3)
    array = arrays.pop(name)
    if change is not None:
        arrays[name] = change(array)
    with refused(ValueError, naming="forest"):
        GrownForest.from_arrays(arrays, 4, 3)
