"""Fixtures: a lab, and the outputs an undisturbed run would have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.lab import Lab, Outputs, Pipeline, tame


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A new workspace. A test that leaves a process or a file behind fails."""
    made = Lab(tmp_path / "lab")
    try:
        yield made
        made.no_process_is_left()
    finally:
        made.kill_everything()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Pipeline], Outputs]:
    """Outputs of the same pipeline run once, elsewhere, with nothing going wrong."""
    known: dict[str, Outputs] = {}

    def outputs(document: Pipeline) -> Outputs:
        harmless = tame(document)
        text = json.dumps(harmless)
        if text not in known:
            answer = Lab(tmp_path_factory.mktemp("undisturbed")).run(harmless)
            assert answer.code == 0, answer
            known[text] = answer.outputs
        return known[text]

    return outputs
