"""A deep forest that is killed in the middle repeats none of its finished fits."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.faults.lab import Lab, Pipeline
from tests.waiting import until

FOLDS = 4


def forest(trees: int = 150) -> Pipeline:
    """Two learners by four folds a layer, two layers."""
    params: dict[str, Any] = {
        "learners": [
            {"kind": "random_forest", "trees": trees},
            {"kind": "extra_trees", "trees": trees},
        ],
        "folds": FOLDS,
        "max_layers": 2,
    }
    return {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "forest",
        "nodes": {
            "load": {"type": "load-data", "params": {"source": "sample:digits"}},
            "forest": {"type": "deep-forest", "params": params},
        },
        "edges": [{"from": "load.table", "to": "forest.table"}],
    }


def kept_fits(lab: Lab) -> int:
    """Finished fits that lie in checkpoints; folders may come and go while they are counted."""
    places = os.walk(lab.workspace / "checkpoints")
    return sum(
        "forest.json" in files and not Path(folder).name.startswith(".")
        for folder, _, files in places
    )


@pytest.mark.slow
def test_after_a_kill_no_finished_fit_is_repeated_and_the_model_is_the_same(
    lab: Lab, tmp_path: Path
) -> None:
    command = lab.start_run(forest())
    until(lambda: kept_fits(lab) >= 3, what="three finished fits")
    lab.kill_everything()
    lab.answer(command)
    finished = kept_fits(lab)
    assert 3 <= finished < 4 * FOLDS  # or it was over before it was killed
    resumed = lab.resume()
    assert resumed.code == 0
    shown = lab.sylva("show", "last", "forest", "--json").json
    assert [job["state"] for job in shown["jobs"]].count("reused") == finished
    assert {job["place"][0] for job in shown["jobs"]} >= {"Layer 1", "Layer 2"}
    assert {job["state"] for job in shown["jobs"]} == {"reused", "done"}
    log = "\n".join(shown["log"])
    assert sum(map(int, re.findall(r"(\d+) of \d+ fits reused", log))) == finished
    assert resumed.outputs == Lab(tmp_path / "undisturbed").run(forest()).outputs
