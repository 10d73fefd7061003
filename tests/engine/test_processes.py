"""What processes that run nodes have in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.processes import memory_limit_files, wait_passively


def test_threads_of_openmp_sleep_while_they_wait_unless_the_user_has_chosen(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    wait_passively()
    assert os.environ.pop("GOMP_SPINCOUNT") == "1000" and "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    wait_passively()
    assert os.environ["OMP_WAIT_POLICY"] == "active" and "GOMP_SPINCOUNT" not in os.environ


def test_the_limits_of_all_groups_above_a_process_count(
    tmp_path: Path,
) -> None:
    group = tmp_path / "proc"
    group.write_text("4:memory:/job/step\n3:cpu:/elsewhere\n0::/slice/service\n")
    files = list(memory_limit_files(tmp_path, group))
    assert tmp_path / "slice/service/memory.max" in files
    assert tmp_path / "slice/memory.max" in files
    assert tmp_path / "memory.max" in files
    assert tmp_path / "memory/job/step/memory.limit_in_bytes" in files
    assert not [file for file in files if "elsewhere" in str(file)]
