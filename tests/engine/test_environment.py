"""What results depend on besides the pipeline: code and libraries, on every machine the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.environment import (
    MISSING,
    PACKAGES,
    PRODUCT,
    SOURCE,
    differences,
    environment,
    environment_digest,
)
from engine.executors.admission import TOKEN, WorkerCheck, prepare_token
from tests.command_line import ROOT

HERE = environment()


def test_equal_machines_do_not_differ() -> None:
    assert differences(environment(), HERE) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"lightgbm": "3.0"}, "it has lightgbm 3.0, the run has"),
        ({"Python": "3.99"}, "it has Python 3.99"),
        ({SOURCE: "0"}, "source code"),
        ({SOURCE: MISSING}, "Sylva is not installed"),
        ({PRODUCT: MISSING}, "Sylva is not installed"),
    ],
)
def test_each_difference_is_named(changed: dict[str, str], text: str) -> None:
    (found,) = differences(HERE | changed, HERE)
    assert text in found


def test_a_plug_in_that_a_worker_lacks_is_named() -> None:
    assert differences(HERE, HERE | {"my-nodes": "1.2"}) == [
        f"it has my-nodes {MISSING}, the run has 1.2"
    ]


def test_other_source_code_gives_another_digest(tmp_path: Path) -> None:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.json"))
    code = "from engine.environment import environment_digest; print(environment_digest())"

    def digest() -> str:
        words = [sys.executable, "-P", "-c", code]
        answer = subprocess.run(words, env={"PYTHONPATH": str(tmp_path)}, capture_output=True)
        return answer.stdout.decode().strip()

    assert digest() == environment_digest()
    with (tmp_path / "deepforest" / "metrics.py").open("a") as file:
        file.write("# another line\n")
    assert digest() not in ("", environment_digest())


def test_a_worker_must_see_the_token_of_the_run(tmp_path: Path) -> None:
    check = WorkerCheck(str(tmp_path), prepare_token(tmp_path), HERE)
    assert check.refusals() == []
    (tmp_path / TOKEN).write_text("of another folder")
    assert "another one" in check.refusals()[0]
    (tmp_path / TOKEN).unlink()
    assert str(tmp_path) in check.refusals()[0]
