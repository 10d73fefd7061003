"""The models of a workspace and what is known of each."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.atomic import read_lock
from engine.values import Folder
from engine.workspace import Workspace
from nodes import load_model, save_model, steps
from nodes.models.model import load_model as open_folder
from nodes.models.registry import Registry
from tests.expect import refused
from tests.nodes.conftest import make_context
from tests.nodes.models.conftest import Kept, started


@pytest.fixture
def workspace(kept: Kept, tmp_path: Path) -> Path:
    shutil.copytree(kept.workspace / "models", tmp_path / "models")
    return tmp_path


@pytest.fixture
def registry(workspace: Path) -> Registry:
    return Registry(Workspace(workspace))


def test_entries_tell_what_the_models_are(registry: Registry):
    entries = {entry.name: entry for entry in registry.entries()}
    assert sorted(entries) == ["linear", "mart"]
    mart = entries["mart"]
    assert (mart.kind, mart.classes, mart.rows, mart.problem) == ("mart", ("no", "yes"), 600, None)
    assert mart.features[0] == "amount" and mart.settings["trees"] == 12
    assert mart.bytes == sum(path.stat().st_size for path in (registry.folder / "mart").iterdir())
    assert mart.card.run is None and mart.card.metrics == {}


def test_an_empty_workspace_has_none(tmp_path: Path):
    registry = Registry(Workspace(tmp_path / "none"))
    assert registry.entries() == [] and not (tmp_path / "none").exists()
    with refused(field="name", naming=["'m'", registry.folder, "Save model"]):
        registry.open("m")


def test_what_is_no_model_is_left_out_or_told(registry: Registry):
    (registry.folder / ".mart.unfinished").mkdir()
    (registry.folder / "file").touch()
    (registry.folder / "bad").mkdir()
    (registry.folder / "bad" / "model.json").write_text("{")
    entries = {entry.name: entry for entry in registry.entries()}
    assert sorted(entries) == ["bad", "linear", "mart"]
    assert "'bad'" in (entries["bad"].problem or "")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".mart.lock", "mart\n"])
def test_no_name_leads_out_of_the_folder(registry: Registry, name: str):
    for action in (registry.open, registry.entry, registry.delete, registry.folder_of):
        with refused(field="name", naming=f"'{name}'"):
            action(name)


def test_find_takes_a_name_or_a_folder(registry: Registry, workspace: Path):
    assert registry.find("mart") == registry.folder / "mart"
    assert registry.find(str(registry.folder / "linear")) == registry.folder / "linear"
    with refused(naming=["'mrat'", "'mart'"]):
        registry.find("mrat")
    with refused(naming="'linear', 'mart'"):
        registry.find(str(workspace / "data"))


def test_a_deleted_model_is_gone(registry: Registry):
    registry.delete("mart")
    assert registry.names() == ["linear"]
    assert [path.name for path in registry.folder.iterdir() if path.suffix != ".lock"] == ["linear"]
    with refused(field="name", naming=["'mart'", "'linear'"]):
        registry.delete("mart")


def test_who_deletes_waits_for_who_reads(registry: Registry):
    with read_lock(registry.folder / "mart"):
        deleting = threading.Thread(target=registry.delete, args=["mart"])
        deleting.start()
        time.sleep(0.1)
        assert registry.open("mart").title == "MART"  # several may read at once
    deleting.join(10)
    assert registry.names() == ["linear"]


def test_models_can_be_read_where_nothing_can_be_written(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    def refuse(path: Path, *arguments: object, **more: object) -> None:
        raise PermissionError(13, "no", str(path))

    monkeypatch.setattr("engine.atomic.os.open", refuse)
    with read_lock(registry.folder / "mart"):
        pass


class TestCard:
    @pytest.fixture
    def made(self, tmp_path: Path):
        """A run of a pipeline that trains, judges and saves a model."""
        document = {
            "format": "sylva-pipeline", "version": 1, "name": "Wines",
            "nodes": {
                "load": {"type": "load-data", "params": {"source": "sample:wine"}},
                "split": {"type": "split"},
                "tree": {"type": "mart", "params": {"trees": 3, "min_rows": 5}},
                "again": {"type": "predict"}, "seen": {"type": "evaluate"},
                "score": {"type": "predict"}, "judge": {"type": "evaluate"},
                "keep": {"type": "save-model", "params": {"name": "wine"}},
            },
            "edges": [
                {"from": source, "to": target} for source, target in [
                    ("load.table", "split.table"), ("split.train", "tree.table"),
                    ("tree.model", "again.model"), ("split.train", "again.table"),
                    ("again.predictions", "seen.predictions"), ("tree.model", "score.model"),
                    ("split.test", "score.table"), ("score.predictions", "judge.predictions"),
                    ("tree.model", "keep.model"),
                ]
            ],
        }  # fmt: skip
        (tmp_path / "wines.json").write_text(json.dumps(document))
        with started("run", tmp_path / "wines.json", "--json", workspace=tmp_path) as process:
            told = json.loads(process.communicate(timeout=120)[0])
        assert told["state"] == "done", told
        return Registry(Workspace(tmp_path)), told["run"]

    def test_run_data_and_metrics_are_found_and_outlive_the_run(self, made):
        registry, run = made
        card = registry.entry("wine").card
        assert (card.run, card.run_exists, card.node) == (run, True, "keep")
        assert (card.pipeline, card.pipeline_id) == ("Wines", None)
        assert [(source.name, source.rows) for source in card.data] == [("sample:wine", 178)]
        assert [(judged.node, judged.table) for judged in card.evaluations] == [
            ("judge", "split.test"), ("seen", "split.train"),
        ]  # fmt: skip
        assert card.metrics["accuracy"] > 0.8 and card.metrics["rows"] == 53
        registry.open("wine")  # a card is no damage

        from engine.events import EventLog

        with EventLog(registry.workspace) as log:
            log.remove_runs([run])
        later = registry.entry("wine").card
        assert (later.run, later.run_exists) == (run, False)
        assert (later.evaluations, later.data, later.pipeline) == (
            card.evaluations,
            card.data,
            "Wines",
        )

    @pytest.mark.parametrize(
        "card",
        [
            "",
            "[]",
            "{",
            '{"run": 3}',
            '{"run": "last", "node": "x"}',
            '{"run": "r", "node": "n", "card": 1}',
            '{"run": "r", "node": "n", "card": '
            '{"pipeline": "p", "data": [1, {"name": 2}], "judged": [[]]}}',
            "[" * 50_000,
        ],
    )
    def test_a_card_that_is_none_does_no_harm(self, registry: Registry, card: str):
        (registry.folder / "mart" / "card.json").write_text(card)
        entry = registry.entry("mart")
        assert entry.problem is None and entry.card.evaluations == () and not entry.card.run_exists
        registry.open("mart")


def change(folder: Path, **changes: Any) -> None:
    """Other values in ``model.json``."""
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**about, **changes}))


class TestFoldersOfOthers:
    """What lies in a model's folder may be anything."""

    @pytest.mark.parametrize("name", ["mart.txt", "model.json", "card.json", "more"])
    @pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
    def test_only_plain_files_are_opened(
        self, registry: Registry, workspace: Path, name: str, kind: str
    ):
        place = registry.folder / "mart" / name
        kept = place.read_bytes() if place.exists() else b"{}"
        place.unlink(missing_ok=True)
        (workspace / "elsewhere").write_bytes(kept)
        {
            "pipe": os.mkfifo,
            "link": lambda path: path.symlink_to(workspace / "elsewhere"),
            "folder": Path.mkdir,
        }[kind](place)
        registry.entry("mart")
        ctx, params = make_context(workspace), load_model.NODE.params(name="mart")
        out = workspace / "out"
        out.mkdir()
        for use in (
            lambda: registry.open("mart"),
            lambda: load_model.SavedModel(registry.folder / "mart", ctx.reading).save(out),
            lambda: save_model.NODE.run(
                ctx,
                {"model": Folder(registry.folder / "mart")},
                save_model.SaveModelParams(name="x"),
            ),
        ):
            with refused(naming=["'mart'", name]):
                use()
        if name == "model.json":
            with refused(naming=["'mart'", "model.json"]):
                load_model.NODE.fingerprint(params, ctx.files)
        assert registry.names() == ["linear", "mart"]

    def test_columns_must_be_different_names_with_levels(self, registry: Registry):
        folder = registry.folder / "mart"
        about = json.loads((folder / "model.json").read_text())
        features, encoder = about["features"], about["encoder"]
        columns = encoder["columns"]
        no_levels = [
            {**column, "levels": []} if "levels" in column else column for column in columns
        ]
        twice = [columns[0], *columns[:-1]]
        for changes, naming in [
            ({"encoder": {**encoder, "columns": no_levels}}, ["levels"]),
            ({"encoder": {**encoder, "columns": twice}}, ["columns"]),
            (
                {
                    "encoder": {**encoder, "columns": twice},
                    "features": [features[0], *features[:-1]],
                },
                ["twice"],
            ),
            ({"features": [1, *features[1:]]}, ["features", "texts"]),
            ({"features": "amount"}, ["features", "texts"]),
            ({"classes": ["no", "no"]}, ["classes", "twice"]),
        ]:
            change(folder, **{**about, **changes})
            with refused(naming=["'mart'", *naming]):
                registry.open("mart")
        change(folder, **about)
        registry.open("mart")


def test_a_model_that_a_script_saved_says_so(registry: Registry, workspace: Path, monkeypatch):
    monkeypatch.setenv("SYLVA_WORKSPACE", str(workspace))
    before = time.time()
    steps.save_model(registry.open("mart"), name="scripted")
    entry = registry.entry("scripted")
    assert entry.card.script and entry.card.run is None and before <= entry.saved <= time.time()
    assert not registry.entry("mart").card.script
    registry.open("scripted")


class TestLoadModel:
    def node(self, ctx, **params):
        return load_model.NODE, load_model.NODE.params(**params)

    def test_gives_the_model_without_its_card(
        self, workspace: Path, kept: Kept, table, tmp_path: Path
    ):
        ctx = make_context(workspace, run_id="r1")
        save_model.NODE.run(
            ctx, {"model": Folder(kept.folder("mart"))}, save_model.NODE.params(name="carded")
        )
        assert (workspace / "models" / "carded" / "card.json").is_file()
        outputs = []
        for name in ("mart", "carded"):
            value = load_model.NODE.run(ctx, {}, load_model.NODE.params(name=name))["model"]
            (tmp_path / f"out-{name}").mkdir()
            value.save(tmp_path / f"out-{name}")
            outputs.append(
                {path.name: path.read_bytes() for path in (tmp_path / f"out-{name}").iterdir()}
            )
        assert outputs[0] == outputs[1] and set(outputs[0]) == {
            "model.json",
            "mart.txt",
            "training.json",
        }
        again = open_folder(tmp_path / "out-carded").predict_proba(table)
        np.testing.assert_array_equal(again, kept.open("mart").predict_proba(table))

    def test_a_missing_model_is_told_before_a_run(self, workspace: Path):
        ctx = make_context(workspace)
        (problem,) = load_model.NODE.check(load_model.NODE.params(name="marts"), ctx.files)
        assert (
            problem.field == "name" and "'marts'" in problem.message and "'mart'" in problem.message
        )
        assert list(load_model.NODE.check(load_model.NODE.params(name="mart"), ctx.files)) == []

    def test_another_model_under_the_name_is_another_result(self, workspace: Path):
        ctx = make_context(workspace)
        params = load_model.NODE.params(name="mart")
        before = load_model.NODE.fingerprint(params, ctx.files)
        assert load_model.NODE.fingerprint(params, ctx.files) == before
        linear = Folder(workspace / "models" / "linear")
        save_model.NODE.run(ctx, {"model": linear}, save_model.NODE.params(name="mart"))
        assert load_model.NODE.fingerprint(params, ctx.files) != before

    def test_a_damaged_model_is_refused(self, workspace: Path, tmp_path: Path):
        ctx = make_context(workspace)
        with (workspace / "models" / "mart" / "mart.txt").open("a") as file:
            file.write("\n")
        value = load_model.NODE.run(ctx, {}, load_model.NODE.params(name="mart"))["model"]
        (tmp_path / "out").mkdir()
        with refused(naming=["'mart'", "mart.txt"]):
            value.save(tmp_path / "out")
