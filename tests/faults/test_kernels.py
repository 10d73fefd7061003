"""The first deep forest on a machine: kernels are compiled once, visibly, within limits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deepforest.forest.kernel_cache import COMPILING, COUNTS, is_ready
from tests.faults.lab import Lab
from tests.faults.test_deep_forest import forest
from tests.waiting import until

pytestmark = pytest.mark.slow

MEGABYTES = "300"
COMPILE_SECONDS = 300
TYPICAL_FITS = """
import numpy as np
from deepforest import CascadeForestClassifier, CascadeForestRegressor
from deepforest.forest import HistForestClassifier, HistForestRegressor
from deepforest.forest import binning, kernels, prediction
rng = np.random.default_rng(0)
x = rng.normal(size=(500, 5))
gaps = np.where(rng.random(x.shape) < 0.1, np.nan, x)
two, many = x[:, 0] > 0, np.digitize(x[:, 0], [-1, -0.5, 0, 0.5, 1])
number, weight = x[:, 0] + x[:, 1], rng.random(500)
for splitter in ("best", "random", "completely_random"):
    for target in (two, many):
        forest = HistForestClassifier(5, splitter=splitter, oob_score=True)
        forest.fit(x.astype(np.float32), target).apply(np.asfortranarray(x))
        forest.fit(gaps, target, sample_weight=weight).predict_proba(gaps)
    regression = HistForestRegressor(5, splitter=splitter, oob_score=True)
    regression.fit(x, number).predict(x)
    regression.fit(gaps, number, sample_weight=weight).apply(x)
CascadeForestClassifier(max_layers=2).fit(x, two).predict_proba(x)
CascadeForestRegressor(max_layers=2).fit(x, number).predict(x)
found = [value for module in (binning, kernels, prediction) for value in vars(module).values()]
saved = [value for value in found if getattr(getattr(value, "_cache", None), "cache_path", None)]
print(len(saved), sum(sum(kernel.stats.cache_misses.values()) for kernel in saved))
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_first_run_compiles_under_a_memory_limit_and_says_so_and_the_next_run_does_not(
    lab: Lab, empty_cache: Path, tmp_path: Path
) -> None:
    first = lab.answer(
        lab.start("run", lab.write(forest(5)), "--memory-limit", MEGABYTES), timeout=COMPILE_SECONDS
    )
    assert first.code == 0
    assert COMPILING in first.err
    assert is_ready(COUNTS)
    next_lab = Lab(tmp_path / "next")
    again = next_lab.sylva("run", next_lab.write(forest(5)), "--memory-limit", MEGABYTES)
    assert again.code == 0
    assert COMPILING not in again.err


def test_the_command_compiles_all_that_typical_fits_need(empty_cache: Path) -> None:
    compiling = [sys.executable, "-m", "deepforest.forest.compile_kernels"]
    subprocess.run(compiling, check=True)
    folder = next(empty_cache.glob("sylva/kernels-*"))
    saved = {path: path.stat().st_mtime_ns for path in folder.glob("*.nb*")}
    subprocess.run(compiling, check=True)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.nb*")} == saved
    done = subprocess.run(
        [sys.executable, "-c", TYPICAL_FITS], check=True, capture_output=True, text=True
    )
    kernels, compiled = map(int, done.stdout.split())
    assert kernels == 10
    assert compiled == 0


def test_a_run_that_is_cancelled_while_its_kernels_are_compiled_leaves_nothing_behind(
    lab: Lab, empty_cache: Path
) -> None:
    command = lab.start_run(forest(5))
    until(lab.children_of_workers, 240, "the process that compiles")
    assert lab.sylva("cancel", "last").code == 0
    lab.answer(command)
    lab.nothing_is_left()
    assert not is_ready(COUNTS)
