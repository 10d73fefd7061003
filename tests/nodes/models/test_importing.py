"""Models that come as a ZIP archive: from a download, from anyone, damaged."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.workspace import Workspace
from nodes.models import importing
from nodes.models.importing import import_model, suggested_name
from nodes.models.registry import Registry, zip_model
from tests.expect import refused
from tests.nodes.models.conftest import Kept


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(Workspace(tmp_path / "workspace"))


@pytest.fixture
def archive(kept: Kept, tmp_path: Path) -> Path:
    path = tmp_path / "mart.zip"
    path.write_bytes(zip_model(kept.folder("mart")))
    return path


def changed(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The archive with other files in it."""
    with zipfile.ZipFile(archive) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    change(files)
    with zipfile.ZipFile(archive, "w") as written:
        for name, content in files.items():
            written.writestr(name, content)
    return archive


def nothing_was_written(registry: Registry) -> None:
    assert registry.names() == []
    assert list(registry.workspace.temporary.iterdir()) == []


def test_a_downloaded_model_predicts_the_same(registry: Registry, archive: Path, kept: Kept, table):
    assert import_model(registry, archive, note="from the laptop") == ("mart", 1)
    entry = registry.entry("mart")
    assert (entry.problem, entry.note, entry.card.imported) == (
        None,
        "from the laptop",
        "mart.zip",
    )
    assert (
        registry.open("mart").predict_proba(table).tobytes()
        == kept.open("mart").predict_proba(table).tobytes()
    )
    assert list(registry.workspace.temporary.iterdir()) == []


def test_a_second_import_is_a_version_that_may_wait(
    registry: Registry, archive: Path, kept: Kept, tmp_path: Path
):
    import_model(registry, archive, "payers")
    other = tmp_path / "linear.zip"
    other.write_bytes(zip_model(kept.folder("linear")))
    assert import_model(registry, other, "payers", use=False) == ("payers", 2)
    assert [(each.version, each.in_use) for each in registry.versions("payers")] == [
        (2, False),
        (1, True),
    ]
    assert import_model(registry, archive, "payers") == ("payers", 1)  # the same model again


def test_its_card_is_shown_without_the_run_of_another_workspace(registry: Registry, archive: Path):
    card = {
        "pipeline": "Fraud",
        "pipeline_id": "x",
        "data": [{"name": "past.csv", "rows": 9}],
        "judged": [
            {"node": "e", "title": "T", "table": "s.test", "metrics": {"auc": 0.9, "odd": [1]}}
        ],
    }
    whole = {"run": "20260101", "node": "save", "saved": float("nan"), "card": card, "script": True}
    changed(archive, lambda files: files.update({"mart/card.json": json.dumps(whole).encode()}))
    import_model(registry, archive)
    found = registry.entry("mart")
    assert found.saved > 1_700_000_000
    assert (found.card.run, found.card.pipeline_id, found.card.pipeline) == (None, None, "Fraud")
    assert found.card.metrics == {"auc": 0.9}


@pytest.mark.parametrize(
    "name",
    ["../evil.npy", "/etc/evil", "mart/../../evil", "mart/a/b.npy", "mart\\..\\evil", "mart/.hid"],
)
def test_no_file_leaves_the_folder(registry: Registry, archive: Path, tmp_path: Path, name: str):
    changed(archive, lambda files: files.update({name: b"x"}))
    with refused(field="file", naming=["'mart.zip'", "not a file of a model"]):
        import_model(registry, archive)
    nothing_was_written(registry)
    assert [path.name for path in tmp_path.rglob("*evil*")] == []


def test_links_are_refused(registry: Registry, archive: Path):
    link = zipfile.ZipInfo("mart/link.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(link, "/etc/passwd")
    with refused(field="file", naming="link.npy"):
        import_model(registry, archive)
    nothing_was_written(registry)


def described(files: dict[str, bytes], **fields: object) -> None:
    """Change what the file of a model says about it."""
    known = json.loads(files["mart/model.json"])
    files["mart/model.json"] = json.dumps({**known, **fields}).encode()


DAMAGES: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "a file was changed": (lambda files: files.update({"mart/mart.txt": b"tree"}), "mart.txt"),
    "a file is missing": (lambda files: files.pop("mart/mart.txt") and None, "mart.txt"),
    "a file too many": (lambda files: files.update({"mart/more.npy": b"x"}), "more.npy"),
    "no description": (lambda files: files.pop("mart/model.json") and None, "model.json"),
    "two folders": (lambda files: files.update({"b/c.npy": b"x"}), "folder"),
    "another format": (lambda files: files.update({"mart/model.json": b"[]"}), "model.json"),
    "no settings": (lambda files: described(files, params=None), "params"),
    "no weights": (lambda files: described(files, class_weights=[]), "class_weights"),
    "fewer rows than none": (lambda files: described(files, train_rows=-1), "training rows"),
    "not JSON": (lambda files: files.update({"mart/model.json": b"{" * 100_000}), "mart"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_and_nothing_is_written(registry: Registry, archive: Path, damage: str):
    change, named = DAMAGES[damage]
    with refused(naming=named):
        import_model(registry, changed(archive, change))
    nothing_was_written(registry)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"model", b"\x80\x04K\x01."])
def test_what_is_not_an_archive_is_refused(registry: Registry, archive: Path, content: bytes):
    archive.write_bytes(content)
    with refused(field="file", naming="'mart.zip'"):
        import_model(registry, archive)


def test_a_cut_archive_is_refused(registry: Registry, archive: Path):
    whole = archive.read_bytes()
    for length in (len(whole) // 3, len(whole) - 40):
        archive.write_bytes(whole[:length])
        with refused(field="file", naming="'mart.zip'"):
            import_model(registry, archive)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    archive.write_bytes(broken)
    with refused(naming="mart"):
        import_model(registry, archive)
    nothing_was_written(registry)


def test_an_archive_that_unpacks_into_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importing, "MAX_UNPACKED", 5_000_000)
    monkeypatch.setattr(importing, "MAX_FILES", 3)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("m/model.json", b"{}")
        bomb.writestr("m/a.npy", bytes(9_000_000))
    with zipfile.ZipFile(content) as opened, refused(field="file", naming=["m.zip", "5 MB"]):
        importing.unpack(opened, tmp_path, "m.zip")
    with zipfile.ZipFile(content, "a") as bomb:
        for number in range(3):
            bomb.writestr(f"m/{number}.npy", b"")
    with zipfile.ZipFile(content) as opened, refused(field="file", naming=["m.zip", "5 files"]):
        importing.unpack(opened, tmp_path / "none", "m.zip")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("fraud.zip", "fraud"),
        ("fraud@2.zip", "fraud"),
        ("fraud (1).zip", "fraud"),
        ("é ü.zip", "model"),
        (".zip", "model"),
        ("my model.v2.zip", "my-model.v2"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_file_suggests_a_name(file: str, name: str):
    assert suggested_name(file) == name


def test_a_name_that_cannot_be_is_refused(registry: Registry, archive: Path):
    for name in ("../x", ".x", "a@2", "x" * 65):
        with refused(field="name", naming=f"'{name}'"):
            import_model(registry, archive, name)
