"""Compare in a real browser: from a leaderboard to curves, confusion, settings, and back to the pipeline of a run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.catalogue import load_catalogue
from engine.contract import Context
from engine.document import Document, Node
from engine.files import Files
from engine.library import Library
from engine.values import Predictions, Report
from engine.workspace import Workspace
from nodes import evaluate
from tests.e2e.studio import PATIENCE, Studio, studio_at
from tests.ui.compare.lab import judged_run, pipeline
from ui.studio import Studio as Workshop

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
LONG = PATIENCE * 1000


def judgement(folder: Path, name: str, skill: float) -> Report:
    """A real evaluation of made-up scores: the greater the skill, the better."""
    rng = np.random.default_rng(1)
    truth = rng.random(2_000) < 0.1
    score = np.clip(rng.random(2_000) * (1 - skill) + truth * skill, 0, 1)
    predictions = Predictions(
        np.column_stack([1 - score, score]), ["fine", "fraud"], name, pa.array(np.where(truth, "fraud", "fine"))
    )
    ctx = Context("judge", "0" * 64, Files(folder), folder)
    report: Report = evaluate.run(ctx, {"predictions": predictions}, evaluate.Params())["report"]
    return report


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workspace, list[str]]]:
    root = tmp_path_factory.mktemp("compare")
    workspace = Workspace(root).create()
    written = Workshop(workspace, load_catalogue())
    documents = [_with_trees(pipeline(one="mart"), trees) for trees in (5, 50)]
    runs = [
        judged_run(written, document, evaluate_one=judgement(root, name, skill))
        for document, name, skill in zip(documents, ("Few trees", "Many trees"), (0.2, 0.5), strict=True)
    ]
    with studio_at(root) as address:
        yield address, workspace, runs


def _with_trees(document: Document, trees: int) -> Document:
    return document.model_copy(
        update={"nodes": {**document.nodes, "one": Node(type="mart", params={"trees": trees})}, "name": "Payments"}
    )


@pytest.fixture
def tab(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000}, color_scheme=getattr(request, "param", "light")
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    shown = page.locator('[data-testid="stException"]').count()
    context.close()
    assert not errors and not shown


def test_two_runs_are_compared_in_every_way_and_one_is_opened(place: Any, tab: Any, tmp_path: Path) -> None:
    address, workspace, runs = place
    tab.goto(f"{address}/compare?runs={','.join(runs)}")
    expect(tab.locator('[data-testid="stDataFrame"]')).to_be_visible(timeout=LONG)
    expect(tab.locator(".js-plotly-plot")).to_have_count(2, timeout=LONG)
    expect(tab.get_by_text("Precision and recall").first).to_be_visible(timeout=LONG)
    expect(tab.locator(".js-plotly-plot .legendtext", has_text="Many trees").first).to_be_visible(timeout=LONG)

    tab.get_by_role("tab", name="Recall at rates").click()
    expect(tab.get_by_text("Recall at interrupt rates")).to_be_visible(timeout=LONG)
    tab.get_by_role("tab", name="Confusion").click()
    expect(tab.get_by_text("Actual class").nth(1)).to_be_visible(timeout=LONG)
    tab.get_by_role("tab", name="Settings").click()
    expect(tab.locator('[data-testid="stDataFrame"]')).to_have_count(2, timeout=LONG)

    with tab.expect_download(timeout=LONG) as waiting:
        tab.get_by_role("button", name="Leaderboard as CSV").click()
    waiting.value.save_as(tmp_path / "board.csv")
    rows = list(csv.DictReader((tmp_path / "board.csv").open(encoding="utf-8")))
    assert [row["evaluation"] for row in rows] == ["Many trees", "Few trees"]
    assert float(rows[0]["auc"]) > float(rows[1]["auc"])

    tab.get_by_role("tab", name="Runs").click()
    tab.get_by_role("button", name="Open this pipeline").first.click()
    tab.wait_for_selector(".react-flow__node", timeout=LONG)
    opened = tab.evaluate("new URLSearchParams(location.search).get('pipeline')")
    assert Library(workspace).open(opened).document.nodes["one"].params == {"trees": 50}

    Studio(tab, address, workspace).open_menu()
    with tab.expect_download(timeout=LONG) as waiting:
        tab.get_by_role("button", name="Export as Python").click()
    waiting.value.save_as(tmp_path / "script.py")
    script = (tmp_path / "script.py").read_text(encoding="utf-8")
    compile(script, "script.py", "exec")
    assert "num_boost_round=50" in script


@pytest.mark.parametrize("tab", ["dark"], indirect=True)
def test_the_newest_runs_are_compared_without_being_named(place: Any, tab: Any) -> None:
    address, _, runs = place
    tab.goto(f"{address}/compare")
    expect(tab.locator('[data-testid="stDataFrame"]')).to_be_visible(timeout=LONG)
    tab.get_by_role("tab", name="Runs").click()
    expect(tab.get_by_text(runs[0])).to_be_visible(timeout=LONG)
    tab.get_by_role("button", name="Open run").first.click()
    tab.wait_for_url("**/runs?run=*", timeout=LONG)
