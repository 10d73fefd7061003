"""Versions of a model under one name: which are there, which one is in use, and their notes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.values import Folder
from engine.workspace import Workspace
from nodes import load_model, save_model
from nodes.models.model import load_model as open_folder
from nodes.models.registry import Registry
from nodes.models.versions import MAX_NOTE, Versions
from tests.expect import refused
from tests.nodes.conftest import make_context
from tests.nodes.models.conftest import Kept


@pytest.fixture
def registry(kept: Kept, tmp_path: Path) -> Registry:
    """``payers``: MART is version 1, a linear model is version 2 and in use."""
    registry = Registry(Workspace(tmp_path).create())
    versions = Versions(registry.folder / "payers")
    versions.add(kept.folder("mart"), {"saved": 1.0})
    versions.add(kept.folder("linear"), {"saved": 2.0, "note": "simpler"})
    return registry


def titles(registry: Registry) -> list[tuple[int, str, bool]]:
    return [(each.version, each.kind, each.in_use) for each in registry.versions("payers")]


def test_the_last_one_saved_is_in_use(registry: Registry):
    assert registry.names() == ["payers"]
    assert titles(registry) == [(2, "logistic-regression", True), (1, "mart", False)]
    assert registry.entry("payers").note == "simpler"
    assert registry.open("payers").kind.name == "logistic-regression"
    assert registry.open("payers@1").kind.name == "mart"
    assert registry.references() == ["payers", "payers@2", "payers@1"]


def test_another_version_is_put_in_use_and_nothing_is_lost(registry: Registry):
    registry.use("payers", 1)
    assert titles(registry) == [(2, "logistic-regression", False), (1, "mart", True)]
    assert registry.open("payers").kind.name == "mart"
    assert registry.entry("payers@2").note == "simpler"
    registry.use("payers", 2)
    assert registry.open("payers").kind.name == "logistic-regression"


def test_files_of_the_version_in_use_take_space_once(registry: Registry):
    for file in (registry.folder / "payers").iterdir():
        if file.name != "card.json":
            assert file.samefile(registry.folder / "payers@2" / file.name)


def test_the_same_model_is_one_version(registry: Registry, kept: Kept):
    versions = Versions(registry.folder / "payers")
    assert versions.add(kept.folder("mart"), {"saved": 3.0}, use=False) == 1
    assert titles(registry) == [(2, "logistic-regression", True), (1, "mart", False)]
    assert registry.entry("payers@1").saved == 3.0
    assert versions.add(kept.folder("linear"), {"saved": 4.0}) == 2
    assert registry.entry("payers").note == "simpler"


def test_a_model_of_a_workspace_without_versions_is_version_1(registry: Registry, kept: Kept):
    shutil.copytree(kept.folder("mart"), registry.folder / "old")
    assert [(each.version, each.in_use) for each in registry.versions("old")] == [(1, True)]
    assert registry.open("old@1").kind.name == "mart"
    registry.set_note("old", 1, "the first")
    assert Versions(registry.folder / "old").add(kept.folder("linear"), {}, use=False) == 2
    assert [(each.version, each.note, each.in_use) for each in registry.versions("old")] == [
        (2, "", False),
        (1, "the first", True),
    ]


def test_a_folder_that_was_replaced_by_hand_gets_a_number(registry: Registry, kept: Kept):
    registry.use("payers", 1)
    shutil.rmtree(registry.folder / "payers@2")
    shutil.rmtree(registry.folder / "payers")
    shutil.copytree(kept.folder("linear"), registry.folder / "payers")
    assert titles(registry) == [(2, "logistic-regression", True), (1, "mart", False)]
    registry.use("payers", 1)
    assert titles(registry) == [(2, "logistic-regression", False), (1, "mart", True)]


def test_versions_are_deleted_and_numbers_not_used_again(registry: Registry, kept: Kept):
    with refused(field="name", naming=["version 2", "in use"]):
        registry.delete("payers@2")
    registry.use("payers", 1)
    registry.delete("payers@2")
    assert titles(registry) == [(1, "mart", True)]
    with refused(field="name", naming=["version 2", "'payers@1'"]):
        registry.open("payers@2")
    assert Versions(registry.folder / "payers").add(kept.folder("linear"), {}) == 3
    registry.delete("payers")
    assert registry.names() == []
    assert [path.name for path in registry.folder.iterdir() if path.suffix != ".lock"] == []


def test_a_note_is_changed_and_limited(registry: Registry):
    registry.set_note("payers", 1, " trees ")
    assert registry.entry("payers@1").note == "trees"
    with refused(naming=[f"{MAX_NOTE + 1}", f"{MAX_NOTE}"]):
        registry.set_note("payers", 1, "x" * (MAX_NOTE + 1))
    with refused(field="name", naming="version 9"):
        registry.set_note("payers", 9, "x")


def test_without_hard_links_files_are_copied(registry: Registry, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr("nodes.models.versions.os.link", refuse)
    registry.use("payers", 1)
    assert titles(registry) == [(2, "logistic-regression", False), (1, "mart", True)]
    open_folder(registry.folder / "payers")


def test_a_damaged_card_names_no_version(registry: Registry):
    (registry.folder / "payers" / "card.json").write_text(
        json.dumps({"last_version": "many", "note": 5})
    )
    (registry.folder / "payers@1" / "card.json").write_text('{"note": {}, "saved": "never"}')
    assert [each.note for each in registry.versions("payers")] == ["simpler", ""]


@pytest.mark.parametrize("reference", ["payers@0", "payers@", "payers@x", "payers@1/..", "@1"])
def test_what_is_not_a_reference_is_refused(registry: Registry, reference: str):
    with refused(field="name", naming=f"'{reference}'"):
        registry.open(reference)
    with pytest.raises(ValueError):
        load_model.NODE.params(name=reference)


def test_the_node_adds_a_version_without_using_it(registry: Registry, kept: Kept):
    context = make_context(registry.workspace.root)
    params = save_model.NODE.params(name="payers", if_exists="add", note="for later")
    registry.delete("payers")
    first = save_model.NODE.run(context, {"model": Folder(kept.folder("linear"))}, params)
    report = save_model.NODE.run(context, {"model": Folder(kept.folder("mart"))}, params)["report"]
    assert first["report"].headline["version"] == 1
    assert (report.headline["version"], report.headline["folder"]) == (2, "models/payers@2")
    assert titles(registry) == [(2, "mart", False), (1, "logistic-regression", True)]
    assert registry.entry("payers@2").note == "for later"


def test_a_pipeline_loads_the_version_in_use_or_the_one_it_names(registry: Registry):
    files = make_context(registry.workspace.root).files
    node, params = load_model.NODE, load_model.NODE.params
    assert list(node.check(params(name="payers@1"), files)) == []
    [problem] = node.check(params(name="payers@7"), files)
    assert "version 7" in problem.message and problem.field == "name"
    before = node.fingerprint(params(name="payers"), files)
    assert before == node.fingerprint(params(name="payers@2"), files)
    registry.use("payers", 1)
    assert before != node.fingerprint(params(name="payers"), files)
    assert before == node.fingerprint(params(name="payers@2"), files)
