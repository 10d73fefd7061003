"""A workspace is a folder of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import BadInput
from engine.workspace import Workspace


@pytest.mark.parametrize("address", ["s3://bucket/place", "file:///tmp/place", "gs://b", Path("s3://bucket/place")])
def test_an_address_is_not_a_workspace(address: str | Path) -> None:
    with pytest.raises(BadInput, match="is an address, but a workspace is a folder of this machine"):
        Workspace.at(address)


def test_an_address_in_the_environment_is_not_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYLVA_WORKSPACE", "s3://bucket/place")
    with pytest.raises(BadInput, match="SYLVA_WORKSPACE"):
        Workspace.at()


@pytest.mark.parametrize("name", ["plain", "with:colon", "a/b:c/d", "C:\\place"])
def test_a_folder_may_have_a_colon_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert Workspace.at(name).create().root == tmp_path / name


SYLVA = [sys.executable, "-c", "from ui.cli import main; main()"]


@pytest.mark.parametrize(
    "command",
    [
        [*SYLVA, "runs"],
        [*SYLVA, "predict", "model", "table.csv", "-o", "out.csv"],
        [*SYLVA, "serve", "model"],
        [sys.executable, "-m", "ui.studio"],
    ],
    ids=["runs", "predict", "serve", "studio"],
)
def test_every_program_refuses_an_address(tmp_path: Path, command: list[str]) -> None:
    done = subprocess.run(
        [*command, "--workspace", "s3://bucket/place"], capture_output=True, text=True, cwd=tmp_path, env=os.environ
    )
    assert done.returncode == 2, done
    assert "is an address" in done.stderr
    assert list(tmp_path.iterdir()) == []
