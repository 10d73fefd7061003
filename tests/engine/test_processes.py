"""What processes that run nodes have in common."""

from __future__ import annotations

import os

import pytest

from engine.processes import wait_passively


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
