"""The layers of a deep forest are reported while it grows, and again when training is resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Cancelled
from engine.node_types import NodeContext
from engine.values import Table
from nodes import deep_forest
from tests.nodes.conftest import make_context

LEARNERS = [
    {"kind": "random_forest", "trees": 5, "max_depth": 4},
    {"kind": "extra_trees", "trees": 5},
]


@pytest.fixture
def rows(digits: Table) -> Table:
    return digits.with_data(digits.data.slice(0, 200))


class Parts(dict[str, dict[str, Any]]):
    """What was told last of each part, and in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def hear(self, part: str, data: dict[str, Any]) -> None:
        json.dumps(data, allow_nan=False)
        self.order.append(part)
        self[part] = data


def grow(ctx: NodeContext, rows: Table, folder: Path) -> list[dict[str, Any]]:
    """The records of the layers as the model keeps them."""
    params = deep_forest.NODE.params(
        preset="mddf", learners=LEARNERS, folds=2, max_layers=2, patience=2
    )
    folder.mkdir()
    deep_forest.NODE.run(ctx, {"table": rows}, params)["model"].save(folder)
    layers: list[dict[str, Any]] = json.loads((folder / "forest.json").read_text())["content"][
        "model"
    ]["layers"]
    return layers


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    learners = [learner | {"seconds": 0.0} for learner in record["learners"]]
    return record | {"seconds": 0.0, "learners": learners}


def test_in_the_end_every_layer_was_told_as_the_model_has_it(rows: Table, tmp_path: Path) -> None:
    parts = Parts()
    kept = grow(make_context(tmp_path, on_publish=parts.hear), rows, tmp_path / "model")
    assert list(parts) == ["layer-1", "layer-2"]
    assert [without_times(record) for record in parts.values()] == kept


def test_a_training_that_goes_on_tells_the_layers_from_before_too(
    rows: Table, tmp_path: Path
) -> None:
    before, after = Parts(), Parts()
    stopped = make_context(tmp_path)

    def stop_after_one(part: str, data: dict[str, Any]) -> None:
        before.hear(part, data)
        stopped.cancelled.set()

    object.__setattr__(stopped, "on_publish", stop_after_one)
    with pytest.raises(Cancelled):
        grow(stopped, rows, tmp_path / "half")
    assert list(before) == ["layer-1"]
    jobs: list[str] = []
    ctx = make_context(
        tmp_path,
        on_publish=after.hear,
        on_subtask=lambda place, state, seconds, worker: jobs.append(state),
    )
    kept = grow(ctx, rows, tmp_path / "whole")
    assert jobs.count("reused") >= 4  # one layer of two learners by two folds
    assert [without_times(record) for record in after.values()] == kept
    assert without_times(after["layer-1"]) == without_times(before["layer-1"])


def test_a_node_that_must_wait_for_the_kernels_says_so(
    rows: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepforest.forest import kernel_cache, kernels

    assert (
        kernels
    )  # loaded, with the kernels of this machine, before the cache is made to look empty
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lock = kernel_cache.take_lock(kernel_cache.COUNTS)
    heard: list[tuple[float, str]] = []

    def hear(fraction: float, text: str) -> None:
        heard.append((fraction, text))
        if text == kernel_cache.WAITING and not kernel_cache.is_ready(kernel_cache.COUNTS):
            for part in kernel_cache.PARTS:
                kernel_cache.mark_ready(part)
            kernel_cache.release_lock(lock)

    grow(make_context(tmp_path, on_progress=hear), rows, tmp_path / "model")
    assert heard[0] == (0.0, kernel_cache.WAITING)
    assert "scored" in heard[-1][1]


def test_a_node_that_waits_for_the_kernels_can_be_cancelled(
    rows: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepforest.forest import kernel_cache

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ctx = make_context(tmp_path)
    with kernel_cache.file_lock(kernel_cache.COUNTS), pytest.raises(Cancelled):
        grow(
            replace(ctx, on_progress=lambda fraction, text: ctx.cancelled.set()),
            rows,
            tmp_path / "model",
        )


def test_a_cascade_of_boosted_trees_does_not_wait_for_the_kernels_of_forests(
    rows: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    heard: list[str] = []
    params = deep_forest.NODE.params(learners=[{"kind": "mart", "trees": 2}], max_layers=1)
    ctx = make_context(tmp_path, on_progress=lambda fraction, text: heard.append(text))
    deep_forest.NODE.run(ctx, {"table": rows}, params)
    assert heard
    assert not [text for text in heard if "kernels" in text]
