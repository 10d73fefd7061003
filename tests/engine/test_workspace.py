"""A workspace is a folder of this machine; paths in a pipeline stay inside of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import BadInput, SylvaError
from engine.workspace import Files, Workspace
from tests.expect import refused


@pytest.mark.parametrize(
    "address", ["s3://bucket/place", "file:///tmp/place", "gs://b", Path("s3://bucket/place")]
)
def test_an_address_is_not_a_workspace(address: str | Path) -> None:
    with pytest.raises(
        BadInput, match="is an address, but a workspace is a folder of this machine"
    ):
        Workspace.at(address)


def test_an_address_in_the_environment_is_not_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYLVA_WORKSPACE", "s3://bucket/place")
    with pytest.raises(BadInput, match="SYLVA_WORKSPACE"):
        Workspace.at()


@pytest.mark.parametrize("name", ["plain", "with:colon", "a/b:c/d", "C:\\place"])
def test_a_folder_may_have_a_colon_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
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
        [*command, "--workspace", "s3://bucket/place"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ,
    )
    assert done.returncode == 2, done
    assert "'s3://bucket/place' is an address" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hold", ["in_use", "idle"])
def test_a_lock_that_cannot_be_written_is_a_workspace_that_cannot(
    tmp_path: Path, hold: str
) -> None:
    workspace = Workspace(tmp_path).create()
    # In the place of a disk that is read-only, which only root could mount.
    (tmp_path / "in-use.lock").mkdir()
    with (
        refused(SylvaError, naming=[tmp_path, "cannot be written", "--workspace"]),
        getattr(workspace, hold)(),
    ):
        pass


def test_an_error_while_a_lock_is_held_is_left_alone(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path).create()
    with pytest.raises(FileNotFoundError), workspace.in_use(), workspace.claim("r1"):
        (tmp_path / "missing").read_text()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "inside.csv").write_text("a\n1\n")
    (data / "out.csv").symlink_to(tmp_path / "secret.csv")
    (data / "outdir").symlink_to(tmp_path)
    (data / "loop").symlink_to(data / "loop")
    os.mkfifo(data / "pipe")
    return Files(tmp_path)


@pytest.mark.parametrize("path", ["inside.csv", "./inside.csv", "sub/../inside.csv"])
def test_a_file_in_the_workspace_is_found(files: Files, path: str) -> None:
    assert files.readable(path, field="source").name == "inside.csv"


@pytest.mark.parametrize(
    ("path", "naming"),
    [
        ("../secret.csv", ["'../secret.csv'", "DATA"]),
        ("sub/../../secret.csv", ["'sub/../../secret.csv'", "DATA"]),
        ("out.csv", ["'out.csv'", "DATA"]),
        ("outdir/secret.csv", ["'outdir/secret.csv'", "DATA"]),
        ("/etc/passwd", ["'/etc/passwd'", "DATA"]),
        ("missing.csv", ["'missing.csv'", "DATA"]),
        ("sub", ["'sub'"]),
        ("pipe", ["'pipe' is not a regular file"]),
        ("", ["''"]),
        ("loop", ["'loop'"]),
        ("a\0b", ["NUL"]),
        ("x" * 5000, ["xxx"]),
    ],
)
def test_everything_else_is_refused_with_the_field_named(
    files: Files, path: str, naming: list[str]
) -> None:
    values = [value.replace("DATA", str(files.data)) for value in naming]
    with refused(BadInput, field="source", naming=values):
        files.readable(path, field="source")


def test_the_command_line_may_name_any_file(files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "secret.csv"
    assert Files(tmp_path, allow_absolute=True).readable(str(outside), field="source") == outside
