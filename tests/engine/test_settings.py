"""The settings of a workspace: damaged files are named, and saving one setting keeps the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import BadInput
from engine.plan import RunOptions
from engine.settings import (
    check_cluster_address,
    cluster_address,
    cluster_storage,
    covers,
    remote_sources,
    set_cluster,
    storages,
)
from tests.expect import refused

ADDRESS = "tcp://10.0.0.1:8786"


def test_without_a_file_pipelines_run_on_this_machine(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    assert cluster_address(settings) is None
    assert remote_sources(settings) == []


def test_the_cluster_is_saved_beside_the_other_settings_and_removed_again(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"remote_sources": ["s3://lake"]}))
    set_cluster(settings, ADDRESS)
    assert cluster_address(settings) == ADDRESS
    set_cluster(settings, None)
    assert cluster_address(settings) is None
    assert remote_sources(settings) == ["s3://lake"]


@pytest.mark.parametrize("address", ["", "here", "http://10.0.0.1:8786", "tcp://10.0.0.1"])
def test_what_is_not_an_address_is_not_saved(address: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    with refused(BadInput, naming=["tcp://HOST:PORT"]):
        set_cluster(settings, address)
    assert not settings.exists()


@pytest.mark.parametrize("address", ["tcp://me:secret@10.0.0.1:8786", "tcp://10.0.0.1:99999"])
def test_an_address_with_a_password_or_an_impossible_port_is_refused(address: str) -> None:
    with refused(BadInput, naming=["65535", "without user and password"]) as error:
        check_cluster_address(address, "--executor")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"cluster": 5}'])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(content)
    with refused(BadInput, naming=[str(settings)]):
        cluster_address(settings)


def test_the_form_of_a_damaged_file_shows_both_lists(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text("[]")
    with refused(BadInput, naming=["JSON object", "remote_sources", "storages"]):
        storages(settings)


def test_only_a_storage_that_the_settings_allow_is_saved_and_read(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    with refused(BadInput, naming=["s3://lake/runs", str(settings)]):
        set_cluster(settings, ADDRESS, "s3://lake/runs")
    settings.write_text(json.dumps({"storages": ["s3://lake"]}))
    set_cluster(settings, ADDRESS, "s3://lake/runs/")
    assert cluster_storage(settings) == "s3://lake/runs"
    settings.write_text(settings.read_text().replace('"s3://lake"', '"s3://lak"'))
    with refused(BadInput, naming=["s3://lake/runs"]):
        cluster_storage(settings)
    settings.write_text(settings.read_text().replace('"s3://lak"', '"s3://lake"'))
    set_cluster(settings, ADDRESS)
    assert cluster_storage(settings) is None


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/shared",
        "http://host/folder",
        "s3://",
        "file://",
        "s3://key:hunter2@bucket/runs",
        "s3://bucket/runs?secret=hunter2",
        "s3://bucket/../hunter2",
        "s3://bucket/hunter2 x",
    ],
)
def test_what_is_not_the_address_of_a_storage_is_refused_and_not_repeated(address: str) -> None:
    with refused(BadInput, naming=["--storage", "s3://BUCKET/FOLDER"]) as caught:
        RunOptions(executor=ADDRESS, storage=address)
    assert "hunter2" not in str(caught.value)


def test_a_storage_is_for_runs_on_a_cluster() -> None:
    with refused(BadInput, naming=["--executor"]):
        RunOptions(storage="s3://lake/runs")
    options = RunOptions(executor=ADDRESS, storage="abfs://box@account.dfs.core.windows.net/runs")
    assert RunOptions.from_dict(options.to_dict()) == options


def test_an_entry_may_end_in_a_slash() -> None:
    for allowed in ("s3://lake/runs", "s3://lake/runs/"):
        assert covers(allowed, "s3://lake/runs") and covers(allowed, "s3://lake/runs/a")
        assert not covers(allowed, "s3://lake/runs2")
