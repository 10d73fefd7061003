"""Damaged files: each is read or refused in words, and nothing that a file does ends this process.

``make test`` reads 300 damaged files, ``make fuzz`` many thousands.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.errors import BadInput
from engine.workspace import Files
from nodes.data.formats import FileFormat
from nodes.data.tables import preview
from nodes.load_data import NODE, LoadDataParams, preview_params
from tests.fuzz.damage import WRITERS, Case, cases

QUICK, MANY = 300, 6_000
CHUNKS = 6


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_the_files_are_sound_before_they_are_damaged(files: Files, name: str):
    (files.data / name).write_bytes(WRITERS[name]())
    assert list(NODE.check(LoadDataParams(source=name, target="label"), files)) == []
    assert preview(preview_params(name, FileFormat()), files).data.num_rows > 0


def read_all_ways(case: Case, files: Files) -> str:
    """Read a file as validation, the Data page and its list do; what became of it."""
    name = f"{case.number}-{case.name}"
    (files.data / name).write_bytes(case.data)
    problems = list(NODE.check(LoadDataParams(source=name), files))
    assert all(isinstance(problem, BadInput) and problem.message for problem in problems), (
        case.damage
    )
    try:
        shown = preview(preview_params(name, FileFormat()), files)
    except BadInput as problem:
        outcome = "crashed" if "SIG" in problem.message else "refused"
        assert name in problem.message or problem.field, (case.damage, problem.message)
    else:
        shown.data.validate(full=True)
        outcome = "read"
    (files.data / name).unlink()
    return outcome


def outcomes(seed: int, start: int, stop: int, files: Files) -> Counter[str]:
    damaged = [case for case in cases(seed, stop) if case.number >= start]
    return Counter(read_all_ways(case, files) for case in damaged)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_files_are_read_or_refused(files: Files, chunk: int):
    step = QUICK // CHUNKS
    found = outcomes(1, chunk * step, (chunk + 1) * step, files)
    assert found.total() == step and found["read"] and found["refused"]


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2, 2 + MANY // 500))
def test_many_damaged_files_are_read_or_refused(files: Files, seed: int):
    found = outcomes(seed, 0, 500, files)
    print(f"seed {seed}: {dict(found)}")
    assert found.total() == 500
