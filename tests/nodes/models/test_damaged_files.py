"""Files and models that would end the process that opens them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import sandbox
from engine.errors import Cancelled
from nodes.models.registry import prove_model
from nodes.models.scoring import score_guarded
from tests.crashing_reader import NAME, environment
from tests.expect import refused
from tests.nodes.models.conftest import Kept

HEADER, ROW = "amount,count,steady,member,when,colour,grade\n", "1,2,3,true,2024-01-01,red,1\n"


@pytest.fixture
def crashing_sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new server of the sandbox, whose children crash at the file ``NAME``."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    server = sandbox._Server()
    monkeypatch.setattr(sandbox, "_server", server)
    yield
    server._stop()


@pytest.mark.usefixtures("crashing_sandbox")
def test_predict_refuses_a_file_whose_reader_crashes(sylva: Any, tmp_path: Path):
    bad = tmp_path / NAME
    bad.write_text(HEADER + ROW * 10)
    done = sylva("predict", "mart", bad, "-o", tmp_path / "out.csv", code=2)
    assert NAME in done.stderr and "SIGABRT" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [bad]


def test_a_scoring_whose_process_crashes_blames_the_file(kept: Kept, tmp_path: Path):
    source = tmp_path / "t.csv"
    # So many that the process still scores when it is killed after the first rows.
    source.write_text(HEADER + ROW * 500_000)
    server = sandbox._server

    def crash(rows: int, total: int | None) -> None:
        assert server._process is not None
        [child] = (
            Path(f"/proc/{server._process.pid}/task/{server._process.pid}/children")
            .read_text()
            .split()
        )
        os.kill(int(child), signal.SIGSEGV)

    with refused(naming=["t.csv", "SIGSEGV"]):
        score_guarded(kept.folder("mart"), source, tmp_path / "out.csv", progress=crash)
    assert not (tmp_path / "out.csv").exists()


def test_a_damaged_model_is_refused_before_it_is_opened_here(kept: Kept, tmp_path: Path):
    prove_model(kept.folder("mart"))
    copy = shutil.copytree(kept.folder("mart"), tmp_path / "copy")
    text = next(copy.glob("*.txt"))
    text.write_text(text.read_text().replace("tree", "treee", 1))
    with refused():
        prove_model(copy)


def test_a_stopped_scoring_leaves_nothing_behind(kept: Kept, tmp_path: Path):
    def stop(rows: int, total: int | None) -> None:
        raise Cancelled("stopped")

    source = tmp_path / "t.csv"
    source.write_text(HEADER + ROW * 10)
    with refused(Cancelled):
        score_guarded(kept.folder("mart"), source, tmp_path / "out.csv", progress=stop)
    assert list(tmp_path.iterdir()) == [source]
