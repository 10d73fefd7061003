"""The suite itself: every file of tests is collected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.collected_files import MARK
from tests.command_line import ROOT


def overlooked(root: Path) -> list[str]:
    """Return the test files of ``root/tests`` that ``pytest`` in ``root`` does not collect."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "tests.collected_files",
            "-p",
            "no:cacheprovider",
        ],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 5, (
        done.stdout + done.stderr
    )  # pytest's code for "no tests": no file was opened
    collected = {
        line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)
    }
    found = sorted((root / "tests").rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in found if str(path) not in collected]


def test_every_file_of_tests_is_collected() -> None:
    assert overlooked(ROOT) == []


def test_a_file_that_is_not_collected_is_found(tmp_path: Path) -> None:
    """By default pytest passes over folders named build; that once hid the tests of a page."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    for folder in ("page", "build"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text("def test_nothing(): ...\n")
    assert overlooked(tmp_path) == ["tests/build/test_build.py"]


def test_every_test_of_the_front_end_lies_where_it_is_run() -> None:
    """In these folders, a test in Python hands those of the front end to Node.js."""
    folders = {path.parent.name for path in (ROOT / "tests").rglob("*.test.mjs")}
    assert folders == {"canvas", "inspect"}
