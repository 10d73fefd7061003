"""Large arrays are files mapped into memory, with the same values as arrays in memory."""

from __future__ import annotations

import errno
import mmap
from pathlib import Path

import numpy as np
import pytest

from deepforest import large_arrays
from deepforest._features import Features, digest_of
from deepforest.large_arrays import large_arrays_in

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "BLOCK_BYTES", 100)


def is_mapped(array: np.ndarray) -> bool:
    return isinstance(array.base, mmap.mmap)


def test_only_large_arrays_are_mapped_and_leave_nothing_behind(tmp_path: Path) -> None:
    with large_arrays_in(tmp_path, 80):
        assert not is_mapped(large_arrays.empty(9, np.float64))
        large = large_arrays.empty((5, 2), np.float64, "F")
        assert is_mapped(large)
        assert not is_mapped(large_arrays.empty((0, 3), np.float64))
    assert large.flags.f_contiguous
    large[:] = RNG.normal(size=(5, 2))
    assert large.flags.writeable
    assert list(tmp_path.iterdir()) == []
    assert not is_mapped(large_arrays.empty(10, np.float64))


def test_a_block_ends_with_the_place_of_the_one_around_it(tmp_path: Path) -> None:
    with large_arrays_in(tmp_path, 1):
        with large_arrays_in(tmp_path, 1000):
            assert not is_mapped(large_arrays.empty(9, np.float64))
        assert is_mapped(large_arrays.empty(9, np.float64))


@pytest.mark.parametrize("least", [1, float("inf")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_hold_what_numpy_would_give(tmp_path: Path, least: float, order: str) -> None:
    values = np.asarray(RNG.normal(size=(40, 5)), order=order)  # type: ignore[call-overload]
    others = RNG.normal(size=(40, 3)).astype(np.float32)
    rows, columns = np.array([3, 4, 30, 39]), np.array([0, 4])
    with large_arrays_in(tmp_path, least):
        found = [
            large_arrays.zeros((4, 2), np.float32),
            large_arrays.missing(4, np.float32),
            large_arrays.take(values, rows),
            large_arrays.take(values, columns=columns),
            large_arrays.take(values, rows, columns),
            large_arrays.beside([values, others]),
            large_arrays.by_row([values]),
        ]
    wanted = [
        np.zeros((4, 2), np.float32),
        np.full(4, np.nan, np.float32),
        values[rows],
        values[:, columns],
        values[np.ix_(rows, columns)],
        np.hstack([values, others]),
        values,
    ]
    for own, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(own, expected)
        assert own.dtype == expected.dtype
        assert own.flags.c_contiguous


def test_the_digest_of_an_array_does_not_depend_on_its_order() -> None:
    values = RNG.normal(size=(50, 7))
    assert digest_of(values) == digest_of(np.asfortranarray(values)) != digest_of(values[:-1])


def test_an_array_that_does_not_fit_on_the_disk_is_refused(tmp_path: Path) -> None:
    with large_arrays_in(tmp_path, 1):
        for make in (lambda: large_arrays.empty(1 << 55, np.uint8), lambda: new_file(1 << 55)):
            with pytest.raises(OSError) as caught:
                make()
            assert caught.value.errno == errno.ENOSPC


def new_file(size: int) -> Path | None:
    return large_arrays.new_file(size)


def test_bins_in_a_file_are_those_in_memory(tmp_path: Path) -> None:
    """A cascade goes from layer to layer and back to the raw features, as folds need it."""
    values, vectors = RNG.normal(size=(300, 4)), RNG.random((300, 2)).astype(np.float32)
    texts = []
    for least in (1, float("inf")):
        with large_arrays_in(tmp_path, least):
            there = Features(values, np.zeros(4, bool), room=2, learning=True)
            there.dataset()
            for number, added in enumerate((vectors, vectors[::-1])):
                there.add(added)
                there.dataset().save_binary(str(tmp_path / f"{least}-{number}.bin"))
            there.forget_vectors()
            there.dataset().save_binary(str(tmp_path / f"{least}-raw.bin"))
        files = [tmp_path / f"{least}-{name}.bin" for name in (0, 1, "raw")]
        texts.append([file.read_bytes() for file in files])
        for file in files:
            file.unlink()
    assert texts[0] == texts[1]
    assert list(tmp_path.iterdir()) == []


def test_bins_of_a_wide_table_in_a_file_can_be_read_again(tmp_path: Path) -> None:
    """With more than 250 columns, fewer rows are sampled for the bins than LightGBM would take."""
    values = RNG.normal(size=(40, 300))
    with large_arrays_in(tmp_path, 1):
        there = Features(values, np.zeros(300, bool), room=1, learning=True)
        there.dataset()
        there.add(values[:, :1].astype(np.float32))
        assert there.dataset().num_feature() == 301
