"""Compare in a real browser: leaderboard, curves, confusion, settings, the pipeline of a run."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.node_types import NodeContext, load_catalog
from engine.pipeline import Node, Pipeline
from engine.values import Predictions, Report
from engine.workspace import Files, Workspace
from nodes import evaluate
from tests.e2e.studio import Studio
from tests.ui.studio.compare.lab import judged_run, pipeline
from ui.studio.session import Studio as Workshop

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect


def judgement(folder: Path, name: str, skill: float) -> Report:
    """A real evaluation of made-up scores: the greater the skill, the better."""
    rng = np.random.default_rng(1)
    truth = rng.random(2_000) < 0.1
    score = np.clip(rng.random(2_000) * (1 - skill) + truth * skill, 0, 1)
    predictions = Predictions(
        np.column_stack([1 - score, score]),
        ["fine", "fraud"],
        name,
        pa.array(np.where(truth, "fraud", "fine")),
    )
    ctx = NodeContext("judge", "0" * 64, Files(folder), folder)
    report: Report = evaluate.run(ctx, {"predictions": predictions}, evaluate.EvaluateParams())[
        "report"
    ]
    return report


@pytest.fixture
def runs(place: tuple[str, Workspace], tmp_path: Path) -> list[str]:
    """Two finished runs of a pipeline, with few and with many trees."""
    written = Workshop(place[1], load_catalog())
    return [
        judged_run(written, with_trees(trees), evaluate_one=judgement(tmp_path, name, skill))
        for trees, name, skill in ((5, "Few trees", 0.2), (50, "Many trees", 0.5))
    ]


def with_trees(trees: int) -> Pipeline:
    document = pipeline(one="mart")
    return document.model_copy(
        update={
            "nodes": {**document.nodes, "one": Node(type="mart", params={"trees": trees})},
            "name": "Payments",
        }
    )


def test_two_runs_are_compared_in_every_way_and_one_is_opened(
    studio: Studio, runs: list[str]
) -> None:
    page = studio.page
    page.goto(f"{studio.address}/compare?runs={','.join(runs)}")
    tables, plots = page.get_by_test_id("stDataFrame"), page.locator(".js-plotly-plot")
    expect(tables).to_have_count(1)
    expect(plots).to_have_count(2)
    expect(plots.locator(".legendtext", has_text="Many trees").first).to_be_visible()
    page.get_by_role("tab", name="Recall at rates").click()
    expect(plots).to_have_count(1)
    page.get_by_role("tab", name="Confusion").click()
    expect(plots).to_have_count(2)
    page.get_by_role("tab", name="Settings").click()
    expect(tables).to_have_count(2)

    board = studio.download(page.get_by_role("button", name="Leaderboard as CSV"))
    rows = list(csv.DictReader(board.open(encoding="utf-8")))
    assert [row["evaluation"] for row in rows] == ["Many trees", "Few trees"]
    assert float(rows[0]["auc"]) > float(rows[1]["auc"])

    page.get_by_role("tab", name="Runs").click()
    page.get_by_role("button", name="Open this pipeline").first.click()
    page.wait_for_selector(".react-flow__node")
    assert studio.document.nodes["one"].params == {"trees": 50}
    studio.open_menu()
    script = studio.download(page.get_by_role("button", name="Export as Python")).read_text(
        encoding="utf-8"
    )
    compile(script, "script.py", "exec")
    assert "num_boost_round=50" in script
