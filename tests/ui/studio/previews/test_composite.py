"""The preview of a composite forest: its leaves, and what the bound tells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from deepforest.composite import describe_choice
from engine.store import CacheEntry, Store
from engine.values import Folder, Table
from engine.workspace import Workspace
from nodes import composite_forest
from tests.nodes.conftest import make_context
from ui.studio.previews.composite import composite_record, leaf_rows

APP = str(Path(__file__).parent / "app.py")
SMALL: dict[str, Any] = {"trees": 5, "degrees": [1, 2, 4], "penalty": 1.0}


def table(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    noise = rng.random(rows) < 0.2
    columns = {f"x{j}": x[:, j] for j in range(3)}
    label = np.where((x[:, 0] * x[:, 1] > 0) ^ noise, "yes", "no")
    return Table(pa.table(columns | {"class": label}), "class")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with validation rows, with a number for γ, and without the bound."""
    node, saved = composite_forest.NODE, {}
    for name, settings in {
        "validated": {},
        "fixed": {"gamma": 1.0},
        "random": {"selection": "none"},
    }.items():
        inputs = {"table": table(200, 0)}
        if name == "validated":
            inputs["validation"] = table(100, 1)
        context = make_context(tmp_path_factory.mktemp("work"))
        saved[name] = tmp_path_factory.mktemp(name)
        node.run(context, inputs, node.params(**SMALL, **settings))["model"].save(saved[name])
    return saved


def preview(folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    workspace = Workspace(root)
    workspace.create()
    store = Store(workspace)
    output = store.put("model", Folder(folder))
    store.record(CacheEntry("forest", "run", "forest", 0.0, 0.0, {"model": output}))
    monkeypatch.setenv("SYLVA_WORKSPACE", str(root))
    monkeypatch.setenv("PREVIEWED", "forest.model")
    test = AppTest.from_file(APP, default_timeout=30).run()
    assert not test.exception
    return test


def plotted(test: AppTest) -> list[str]:
    specs = [json.loads(chart.proto.spec) for chart in test.get("plotly_chart")]
    return [spec["layout"]["title"]["text"] for spec in specs]


@pytest.mark.parametrize(
    ("name", "plots", "words"),
    [
        (
            "validated",
            ["Degrees of the leaves", "Bound and error of each tree"],
            "100 validation rows",
        ),
        ("fixed", ["Degrees of the leaves"], "it selects nothing"),
        ("random", ["Degrees of the leaves"], "the bound is not used"),
    ],
)
def test_the_leaves_of_a_model(
    name: str,
    plots: list[str],
    words: str,
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    test = preview(folders[name], tmp_path, monkeypatch)
    assert plotted(test) == plots
    assert words in " ".join(each.value for each in test.markdown)
    shown = test.dataframe[0].value
    record = composite_record(folders[name])
    assert record is not None and len(shown) == len(record.leaves)
    assert shown["Rows"].sum() == 5 * 200
    assert ("Saturated" in shown) == (name != "random")
    captions = " ".join(each.value for each in test.caption)
    assert ("cannot be compared" in captions) == (name == "fixed")


def test_a_row_of_the_table_has_all_facts_of_a_leaf(folders: dict[str, Path]) -> None:
    record = composite_record(folders["validated"])
    assert record is not None
    for row, leaf in zip(leaf_rows(record), record.leaves, strict=True):
        facts = [row[name] for name in ("Tree", "Leaf", "Depth", "Degree", "Rows", "Right")]
        assert facts == [leaf.tree, leaf.leaf, leaf.depth, leaf.degree, leaf.rows, leaf.right]
        assert row["Complexity 8cγA"] == leaf.complexity_term
        assert row["Share right"] == leaf.right_term
        assert (row["Saturated"], row["Fallback"]) == (leaf.saturated, leaf.fallback)


def test_it_says_plainly_where_the_bound_is_no_better_than_the_smallest_degrees(
    folders: dict[str, Path],
) -> None:
    record = composite_record(folders["validated"])
    assert record is not None and record.held_out is not None
    for error, smallest, is_better in ((0.1, 0.2, True), (0.2, 0.2, False), (0.3, 0.2, False)):
        held = replace(record.held_out, error=error, smallest_error=smallest)
        text = " ".join(describe_choice(record.leaves, record.gamma, held))
        assert ("no better than the smallest degrees" in text) != is_better
        assert f"{100 * error:.2f} %" in text and f"{100 * smallest:.2f} %" in text


def test_other_models_have_no_leaves(tmp_path: Path) -> None:
    assert composite_record(tmp_path) is None
    (tmp_path / "forest.json").write_text('{"content": {"model": {"class": "Other"}}}')
    assert composite_record(tmp_path) is None
