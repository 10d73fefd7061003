"""Large tables of a node are mapped files, with the same rows as tables in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine import scratch
from engine.scratch import IN_MEMORY, ScratchFolder
from engine.values import Table


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "BLOCK_BYTES", 1 << 15)


def rows(count: int, seed: int = 0) -> pa.Table:
    """Return numbers, texts and categories, each with gaps."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(count) < 0.1
    texts = [f"text {number}" for number in rng.integers(0, 9_999, count)]
    levels = pa.array([f"level {seed} {number}" for number in rng.integers(0, 5, count)])
    return pa.table(
        {
            "number": pa.array(rng.normal(size=count), mask=gaps),
            "flag": pa.array(rng.random(count) < 0.5, mask=gaps),
            "text": pa.array(texts, mask=gaps),
            "level": levels.dictionary_encode(),
        }
    )


def test_a_stored_table_is_the_same_and_takes_no_memory(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    stored = ScratchFolder(tmp_path, 0).stored(rows(2_000, seed) for seed in range(3))
    assert pa.total_allocated_bytes() - before < 10_000
    wanted = pa.concat_tables(rows(2_000, seed) for seed in range(3))
    assert stored.unify_dictionaries().equals(wanted.unify_dictionaries())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_filtered_rows_are_the_same(tmp_path: Path, count: int) -> None:
    data, large = rows(count), ScratchFolder(tmp_path, 0)
    for mask in (np.zeros(count, bool), np.ones(count, bool), np.arange(count) % 3 == 1):
        assert large.filter(data, mask).equals(IN_MEMORY.filter(data, mask))
        assert IN_MEMORY.filter(data, mask).equals(data.filter(pa.array(mask)))


def test_only_large_columns_are_stored(tmp_path: Path) -> None:
    column = rows(100).column("number")
    assert ScratchFolder(tmp_path, column.nbytes + 1).column(column) is column
    stored = ScratchFolder(tmp_path, column.nbytes).column(column)
    assert stored is not column
    assert stored.equals(column)


def test_the_bytes_of_a_table_do_not_depend_on_its_chunks(tmp_path: Path) -> None:
    """The store names a table by its bytes; so equal tables are stored once."""
    parts = [rows(count, seed) for seed, count in enumerate((3_000, 1, 2_000))]
    whole = pa.concat_tables(parts)
    written = []
    for number, data in enumerate((whole, whole.unify_dictionaries().combine_chunks())):
        folder = tmp_path / str(number)
        folder.mkdir()
        # Arrow may leave unused bytes in texts of a slice.
        Table(data.drop(["text"])).save(folder)
        assert Table.load(folder).data.num_rows == 5_001
        written.append((folder / Table.FILE).read_bytes())
    assert written[0] == written[1]
    loaded = Table.load(tmp_path / "0").data
    assert loaded.column(0).num_chunks > 1
    assert loaded.column("level").to_pylist() == whole.column("level").to_pylist()
