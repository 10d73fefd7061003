"""A storage holds results and finished parts of nodes: complete or not at all, checked, in words.

The same tests run against a folder and against a small S3 server on the loopback address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.executors.storage_jobs import named_files
from engine.executors.storage_node import CheckpointMirror
from engine.shared_storage import Content, Damaged, SharedStorage, StorageFailed, check_storage
from engine.storages import forget_file_systems
from engine.store import CacheEntry, Store
from engine.values import Report
from engine.workspace import Workspace
from tests.expect import refused
from tests.nodes.data.object_store import KEY, SECRET, ObjectStore, object_store

CELL = "layer-1/fold 2"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A server like S3, and its credentials in the environment."""
    with object_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        forget_file_systems()
        yield server
    forget_file_systems()


@pytest.fixture(params=["file", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> SharedStorage:
    address = f"file://{tmp_path}/shared"
    if request.param == "s3":
        request.getfixturevalue("lake")
        address = "s3://lake/runs"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return SharedStorage(address, scratch, pauses=())


def store_at(folder: Path) -> Store:
    return Store(Workspace(folder).create())


def result_in(store: Store, text: str = "hello") -> CacheEntry:
    report = store.put("report", Report("probe", "Probe", {"value": 1}, data={"text": text}))
    result = CacheEntry("key", "run", "node", 1.5, 2.5, {"report": report})
    store.record(result)
    return result


def anew(storage: SharedStorage) -> SharedStorage:
    """The same storage, as another process finds it."""
    return SharedStorage(storage.address, storage.scratch, pauses=())


def text_of(store: Store, result: CacheEntry) -> str:
    return str(store.open(result.outputs["report"]).data["text"])


def test_a_result_moves_from_one_store_to_another(storage: SharedStorage, tmp_path: Path) -> None:
    here, there = store_at(tmp_path / "here"), store_at(tmp_path / "there")
    assert storage.fetch_result(there, "key") is None
    storage.publish_result(here, result_in(here))
    assert anew(storage).fetch_result(there, "key", run="another") is None
    found = anew(storage).fetch_result(there, "key", run="run")
    assert found is not None and found == there.find("key")
    assert (found.seconds, text_of(there, found)) == (1.5, "hello")


def test_a_result_without_all_its_files_is_not_there(
    storage: SharedStorage, tmp_path: Path
) -> None:
    here, there = store_at(tmp_path / "here"), store_at(tmp_path / "there")
    result = result_in(here)
    storage.publish_result(here, result)
    (file,) = result.outputs["report"].files.values()
    storage.write_json(f"objects/{file.sha256}", "x" * (file.size - 2))  # of the same size
    assert anew(storage).fetch_result(there, "key") is None
    # The damaged file was removed, so that it is written again.
    anew(storage).publish_result(here, result)
    assert anew(storage).fetch_result(there, "key") is not None


def test_a_damaged_entry_does_not_count(storage: SharedStorage, tmp_path: Path) -> None:
    store = store_at(tmp_path / "there")
    for content in ("text", {"key": "key"}, {"outputs": {"report": {"files": {"../x": {}}}}}):
        storage.write_json("results/key.json", content)
        assert storage.fetch_result(store, "key") is None


def test_a_finished_part_of_a_node_moves_with_all_its_files(
    storage: SharedStorage, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / CELL).mkdir(parents=True)
    files = {}
    for name in ("forest.json", "arrays.npz"):
        (here / CELL / name).write_text(name)
        files[f"{CELL}/{name}"] = Content.of(here / CELL / name)
    assert storage.fetch_part("key", CELL, there) == []
    storage.publish_part("key", CELL, here, files)
    assert sorted(anew(storage).fetch_part("key", CELL, there)) == sorted(files)
    assert (there / CELL / "arrays.npz").read_text() == "arrays.npz"
    assert sorted(anew(storage).fetch_parts("key", tmp_path / "third")) == sorted(files)
    storage.remove_parts("key")
    assert anew(storage).fetch_parts("key", tmp_path / "fourth") == []
    storage.remove_parts("another key")


def test_a_list_cannot_write_outside_of_its_folder(storage: SharedStorage, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    storage.publish_file(file, Content.of(file))
    for name in ("../outside", "/tmp/outside", ""):
        storage.write_json("checkpoints/key/x.json", {"files": {name: Content.of(file)}})
        assert storage.fetch_part("key", "x", tmp_path / "inside") == []
        with pytest.raises(Damaged):
            storage.fetch_file(tmp_path / "inside", name, Content.of(file))
    assert not (tmp_path / "outside").exists()


def test_a_large_file_arrives_whole(storage: SharedStorage, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * 60_000)  # more than one part of an upload
    storage.publish_file(file, Content.of(file))
    anew(storage).fetch_file(tmp_path / "there", "large", Content.of(file))
    assert (tmp_path / "there" / "large").read_bytes() == file.read_bytes()


def test_the_mirror_copies_what_a_failed_try_has_saved(
    storage: SharedStorage, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "data").mkdir(parents=True)
    with pytest.raises(RuntimeError), CheckpointMirror(storage, "key", first):
        (first / "0-1.npy").write_text("fold")
        (first / ".unfinished").write_text("half")
        (first / "data" / "table.npy").write_text("can be made again")
        raise RuntimeError
    with CheckpointMirror(anew(storage), "key", second):
        assert [path.name for path in second.iterdir()] == ["0-1.npy"]


def test_files_that_a_request_names_are_found(tmp_path: Path) -> None:
    for name in ("values.npy", "mask.npy", "other.npy"):
        (tmp_path / name).touch()
    request = {"values": "values.npy", "rows": ["mask.npy", 3], "kind": "mart", "up": "../x"}
    assert sorted(named_files(request, tmp_path)) == ["mask.npy", "values.npy"]


# Messages


def test_a_storage_that_can_be_used_passes_the_check(storage: SharedStorage) -> None:
    check_storage(storage)
    with refused(StorageFailed, naming=[storage.address, "run-1"]):
        storage.read_token("run-1")


@pytest.mark.parametrize(
    ("change", "naming"),
    [
        ({"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, "credentials are missing or wrong"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_a_storage_that_cannot_be_used_is_explained_without_credentials(
    change: dict[str, str],
    naming: str,
    lake: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    forget_file_systems()
    storage = SharedStorage("s3://lake/runs", tmp_path, pauses=())
    with refused(StorageFailed, naming=["s3://lake/runs", naming]) as caught:
        check_storage(storage)
    with refused(StorageFailed, naming=[naming]):
        storage.read_json("results/key.json")
    assert not any(secret in str(caught.value) for secret in (KEY, SECRET, "AKIAOTHER"))


def test_another_bucket_is_explained(lake: ObjectStore, tmp_path: Path) -> None:
    with refused(StorageFailed, naming=["s3://other/runs", "bucket"]):
        check_storage(SharedStorage("s3://other/runs", tmp_path, pauses=()))


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = SharedStorage(f"file://{tmp_path}/file/x", tmp_path, pauses=())
    with refused(StorageFailed, naming=[storage.address, "cannot be written"]):
        check_storage(storage)


def test_a_failure_that_passes_is_tried_again(lake: ObjectStore, tmp_path: Path) -> None:
    lake.is_down = True
    storage = SharedStorage("s3://lake/runs", tmp_path, pauses=())
    with refused(StorageFailed, naming=["try again later"]):
        storage.read_json("results/key.json")

    class Repairing(tuple[float, ...]):
        """The pauses; the server is repaired in the first of them."""

        def __iter__(self) -> Iterator[float]:
            yield 0.0
            lake.is_down = False
            yield 0.0

    assert replace(storage, pauses=Repairing()).read_json("results/key.json") is None


def test_a_part_is_written_although_another_run_removes_its_folder_meanwhile(
    storage: SharedStorage, tmp_path: Path
) -> None:
    file, found = tmp_path / "file", tmp_path / "found"
    file.write_text("model")
    ends: list[str] = []

    class Disturbed(type(file)):  # type: ignore[misc]
        """A file; while it is copied for the first time, another run ends."""

        def open(self, *arguments: Any, **settings: Any) -> Any:
            if not ends:
                ends.append("key")
                anew(storage).remove_parts("key")
            return super().open(*arguments, **settings)

    storage.write_file("checkpoints/key/part", Disturbed(file))
    storage.append_file("checkpoints/key/part", found)
    assert ends and found.read_text() == "model"
