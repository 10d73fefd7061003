"""What a running node is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import Cancelled
from engine.node_types import NodeContext
from engine.workspace import Files
from tests.expect import refused


@pytest.fixture
def told() -> list[tuple[float, str]]:
    return []


@pytest.fixture
def context(tmp_path: Path, told: list[tuple[float, str]]) -> NodeContext:
    return NodeContext(
        node="a",
        key="ab" * 32,
        files=Files(tmp_path),
        checkpoint=tmp_path,
        threads=3,
        on_progress=lambda fraction, text: told.append((fraction, text)),
    )


def test_progress_stays_between_nothing_and_all(
    context: NodeContext, told: list[tuple[float, str]]
) -> None:
    for fraction in (-1, 0.5, 7):
        context.progress(fraction, "working")
    assert told == [(0.0, "working"), (0.5, "working"), (1.0, "working")]


def test_a_cancelled_node_stops_at_its_next_progress(
    context: NodeContext, told: list[tuple[float, str]]
) -> None:
    context.cancelled.set()
    with refused(Cancelled, naming=["'a'"]):
        context.progress(0.5)
    assert told == []


def test_what_is_told_of_the_result_is_passed_on(context: NodeContext) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    replace(context, on_publish=lambda part, data: heard.append((part, data))).publish(
        "layer-1", {"score": 0.5}
    )
    assert heard == [("layer-1", {"score": 0.5})]
    context.publish("layer-1", {})  # nobody listens


def test_the_same_work_draws_the_same_numbers(context: NodeContext) -> None:
    assert (
        context.rng().integers(1000, size=5).tolist()
        == context.rng().integers(1000, size=5).tolist()
    )
    assert context.rng(1).integers(10**9) != context.rng(2).integers(10**9)


def test_inner_jobs_run_on_the_nodes_threads(context: NodeContext) -> None:
    assert list(context.executor.map(lambda value: value + 1, range(3))) == [1, 2, 3]
    assert context.executor._max_workers == 3
