"""The settings of a workspace: damaged files are named, and saving one setting keeps the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import BadInput
from engine.settings import cluster_address, remote_sources, set_cluster_address
from tests.expect import refused

ADDRESS = "tcp://10.0.0.1:8786"


def test_without_a_file_pipelines_run_on_this_machine(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    assert cluster_address(settings) is None
    assert remote_sources(settings) == []


def test_the_cluster_is_saved_beside_the_other_settings_and_removed_again(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"remote_sources": ["s3://lake"]}))
    set_cluster_address(settings, ADDRESS)
    assert cluster_address(settings) == ADDRESS
    set_cluster_address(settings, None)
    assert cluster_address(settings) is None
    assert remote_sources(settings) == ["s3://lake"]


@pytest.mark.parametrize("address", ["", "here", "http://10.0.0.1:8786", "tcp://10.0.0.1"])
def test_what_is_not_an_address_is_not_saved(address: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    with refused(BadInput, naming=["tcp://HOST:PORT"]):
        set_cluster_address(settings, address)
    assert not settings.exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"cluster": 5}'])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(content)
    with refused(BadInput, naming=[str(settings)]):
        cluster_address(settings)
