"""Files and models that would end the process that opens them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.errors import BadInput, Cancelled
from nodes.deploy.registry import prove_model
from nodes.deploy.scoring import score_guarded
from tests.fuzz.damage import killer
from tests.nodes.deploy.conftest import Kept, Sylva
from ui.models.scoring_jobs import misfit


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.parquet"
    path.write_bytes(killer())
    return path


def test_predict_refuses_a_file_that_ends_its_reader(sylva: Sylva, bad: Path, tmp_path: Path):
    done = sylva("predict", "mart", bad, "-o", tmp_path / "out.csv", code=2)
    assert bad.name in done.stderr and "SIGABRT" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [bad]


def test_the_studio_says_that_such_a_file_does_not_fit(kept: Kept, bad: Path):
    assert bad.name in misfit(kept.folder("mart"), bad)


def test_a_damaged_model_is_refused_before_it_is_opened_here(kept: Kept, tmp_path: Path):
    prove_model(kept.folder("mart"))
    copy = shutil.copytree(kept.folder("mart"), tmp_path / "copy")
    text = next(copy.glob("*.txt"))
    text.write_text(text.read_text().replace("tree", "treee", 1))
    with pytest.raises(BadInput):
        prove_model(copy)


def test_a_stopped_scoring_leaves_nothing_behind(kept: Kept, tmp_path: Path):
    source = tmp_path / "t.csv"
    source.write_text("amount,count,steady,member,when,colour,grade\n" + "1,2,3,true,2024-01-01,red,1\n" * 10)
    with pytest.raises(Cancelled):
        score_guarded(kept.folder("mart"), source, tmp_path / "out.csv", cancelled=lambda: True)
    assert list(tmp_path.iterdir()) == [source]
