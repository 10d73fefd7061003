"""The store keeps what was finished and nothing that was not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.atomic import Busy
from engine.errors import CorruptObject, SylvaError
from engine.store import Artifact, CacheEntry, Store
from engine.values import Report
from engine.workspace import Workspace
from tests.expect import refused


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Workspace(tmp_path).create())


def report(value: float) -> Report:
    return Report("probe", "Probe", {"value": value})


def kept(store: Store, value: float = 1, key: str = "k1", run: str = "r1") -> CacheEntry:
    result = CacheEntry(key, run, "node", 0.1, 0.0, {"report": store.put("report", report(value))})
    store.record(result)
    return result


def file_of(store: Store, output: Artifact) -> Path:
    return store.workspace.objects / output.digest / next(iter(output.files))


def test_an_output_comes_back_as_it_was_put(store: Store) -> None:
    assert store.open(store.put("report", report(2.5))) == report(2.5)


def test_same_content_is_kept_once(store: Store) -> None:
    assert store.put("report", report(1)).digest == store.put("report", report(1)).digest
    assert len(list(store.workspace.objects.iterdir())) == 1


def test_a_key_is_found_only_after_it_was_recorded(store: Store) -> None:
    assert store.find("k1") is None
    result = kept(store)
    assert store.find("k1") == result


def test_nothing_is_left_in_the_temporary_folder(store: Store) -> None:
    kept(store)
    assert not [path for path in store.workspace.temporary.rglob("*") if path.is_file()]


def test_a_value_that_cannot_be_saved_leaves_nothing(store: Store) -> None:
    with pytest.raises(ValueError):
        store.put("report", report(float("nan")))
    assert not list(store.workspace.objects.iterdir())
    assert not list((store.workspace.temporary / "shared").iterdir())


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip_a_byte, Path.unlink, lambda path: path.write_bytes(b"")])
def test_damage_is_seen_when_looked_up_and_when_read(store: Store, damage) -> None:
    result = kept(store)
    damage(file_of(store, result.outputs["report"]))
    assert store.find("k1") is None
    with refused(CorruptObject, naming=[result.outputs["report"].digest[:12]]):
        store.open(result.outputs["report"])


def test_damage_that_hides_its_time_is_seen_when_read(store: Store) -> None:
    output = kept(store).outputs["report"]
    path = file_of(store, output)
    before = path.stat()
    flip_a_byte(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CorruptObject):
        store.open(output)


def test_a_touched_but_equal_file_still_counts(store: Store) -> None:
    path = file_of(store, kept(store).outputs["report"])
    os.utime(path, ns=(1, 1))
    assert store.find("k1") is not None


def test_a_damaged_output_is_replaced_when_put_again(store: Store) -> None:
    output = store.put("report", report(1))
    flip_a_byte(file_of(store, output))
    assert store.open(store.put("report", report(1))) == report(1)


@pytest.mark.parametrize("garbage", ["", "{", "[]", "null", '{"key": 1}', '{"outputs": 3}'])
def test_a_garbled_record_counts_as_none(store: Store, garbage: str) -> None:
    kept(store)
    (store.workspace.results / "k1.json").write_text(garbage)
    assert store.find("k1") is None


def test_an_output_beyond_the_limit_is_refused_with_the_way_out(store: Store) -> None:
    with refused(SylvaError, naming=["sylva gc", "--store-limit"]):
        store.put("report", report(1), bytes_left=10)
    assert not list(store.workspace.objects.iterdir())


def test_collecting_keeps_what_is_referred_to_and_drops_the_rest(store: Store) -> None:
    first, second = kept(store, 1, "k1"), kept(store, 2, "k2")
    freed = store.collect(["k1"])
    assert freed == second.outputs["report"].size
    assert store.find("k1") == first
    assert store.find("k2") is None
    assert len(list(store.workspace.objects.iterdir())) == 1


def test_a_shared_output_survives_while_one_key_needs_it(store: Store) -> None:
    kept(store, 1, "k1")
    kept(store, 1, "k2")
    store.collect(["k2"])
    assert store.find("k2") is not None


def test_a_run_in_progress_forbids_cleaning_and_the_other_way_round(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path).create()
    with workspace.in_use(), workspace.in_use(), refused(Busy), workspace.idle():
        pass
    with workspace.idle(), pytest.raises(Busy), workspace.in_use():
        pass


def test_a_run_has_one_supervisor(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path).create()
    with (
        workspace.claim("r1"),
        workspace.claim("r2"),
        refused(Busy, naming=["Run r1 is running", "`sylva cancel r1`"]),
        workspace.claim("r1"),
    ):
        pass
    with workspace.claim("r1"):
        pass


def test_a_workspace_that_cannot_be_written_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refused(SylvaError, naming=["--workspace"]):
        Workspace(tmp_path / "file" / "inside").create()
