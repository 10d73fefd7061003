"""From scores to a decision, as a user makes it: a threshold, a what-if, an honest choice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import sylva
from engine.pipeline import Edge, Node, Pipeline, Sweep
from engine.pipeline_file import read, with_values
from tests.e2e.studio import PATIENCE, Studio, expect
from tests.e2e.tab import ROOT, waited
from tests.e2e.test_sweep import PIPELINE as FLOWERS
from tests.waiting import until

MART = ("load", "prepare", "split", "mart", "decide_mart", "predict_mart", "evaluate_mart")
"""The quick branch of the sample; the cascade takes half a minute."""
FOREST = Pipeline(
    name="What if",
    nodes={
        "load": Node(type="load-data", params={"source": "sample:breast-cancer"}),
        "forest": Node(
            type="deep-forest",
            params={
                "learners": [{"kind": "random_forest", "trees": 5}],
                "folds": 2,
                "max_layers": 1,
            },
        ),
        "inspect": Node(type="inspect-layers", params={"rows": 60, "perplexity": 10}),
    },
    edges=(
        Edge.between("load.table", "forest.table"),
        Edge.between("load.table", "inspect.table"),
        Edge.between("forest.model", "inspect.model"),
    ),
)


def decision() -> Pipeline:
    """The sample from a raw table to a decision, with fewer rows and one model."""
    sample = read(ROOT / "sample_pipelines" / "fraud_decision.json")
    nodes = {name: sample.nodes[name] for name in MART}
    source = {"source": "sample:fraud", "rows": 10_000}
    nodes["load"] = with_values(nodes["load"], params=source)
    return with_values(
        sample,
        nodes=nodes,
        edges=tuple(
            edge for edge in sample.edges if {edge.source.node, edge.target.node} <= {*MART}
        ),
        layout={name: sample.layout[name] for name in MART},
    )


def tile(studio: Studio, title: str) -> Any:
    """The figure below a title in the panel."""
    label = studio.page.get_by_text(title, exact=True)
    figures = studio.panel.get_by_test_id("stMetric").filter(has=label)
    return figures.get_by_test_id("stMetricValue")


RAW_ROWS = 400
QUERY = """SELECT DISTINCT * EXCLUDE (amount),
  replace(replace(amount, '.', ''), ',', '.')::double AS amount FROM a"""


def write_raw_table(path: Path) -> None:
    """Orders with decimal commas, and three rows that stand there twice."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(RAW_ROWS):
        amount = rng.lognormal(4, 1)
        fraud = "yes" if amount * rng.random() > 60 else "no"
        lines.append(
            f"P{number:04d};{f'{amount:.2f}'.replace('.', ',')};{rng.random():.4f};{fraud}"
        )
    path.write_text("\n".join(["order;amount;score;fraud", *lines, *lines[:3]]) + "\n")


def test_a_raw_table_is_prepared_by_its_hints_and_learned(studio: Studio) -> None:
    write_raw_table(studio.workspace.data / "raw_orders.csv")
    page = studio.page
    page.goto(f"{studio.address}/data?file=raw_orders.csv")
    hints = page.get_by_test_id("stAlert").filter(has_text="decimal commas")
    expect()(hints).to_contain_text("'amount'")
    expect()(hints).to_contain_text("3 rows of 403 repeat another row")
    target = page.get_by_role("combobox", name=re.compile("Target")).first
    option = page.get_by_role("option", name="fraud", exact=True)
    studio.click_until(target, option.is_visible, "the columns")
    option.click()
    stage = page.locator(".stage")
    studio.click_until(studio.button("Use in a new pipeline"), stage.is_visible, "the canvas")

    studio.drop("sql", 150, 560)
    studio.connect("load.table", "sql.a")
    studio.connect("sql.table", "split.table")
    ends = {("load.table", "sql.a"), ("sql.table", "split.table")}
    studio.saved(lambda now: ends <= {(str(e.source), str(e.target)) for e in now.edges})
    studio.choose("sql")
    expect()(studio.panel).to_contain_text("amount (text)")

    def written() -> bool:
        studio.field("Query").fill(QUERY)
        studio.field("Query").press("Control+Enter")
        return waited(lambda: studio.document.nodes["sql"].params.get("query") == QUERY, 10)

    until(written, what="the query in the file")
    studio.button("Run").click()
    studio.expect_states(2 * PATIENCE, sql="finished", evaluate="finished")
    expect()(studio.node("sql")).to_contain_text(f"{RAW_ROWS} × 4")
    expect()(studio.node("evaluate")).to_contain_text("AUC")


def test_the_slider_moves_all_figures_of_an_evaluation(studio: Studio) -> None:
    studio.begin(decision())
    studio.button("Run").click()
    studio.expect_states(2 * PATIENCE, evaluate_mart="finished")
    studio.look_at("evaluate_mart.report")
    titles = ("Threshold", "Precision", "Recall", "F1", "Interrupted", "Money saved")
    expect()(tile(studio, "Money saved")).to_be_visible()

    def shown() -> list[str]:
        return [tile(studio, title).inner_text() for title in titles]

    expect()(studio.panel).to_contain_text("The threshold of the model: most money saved")
    at_first = shown()

    # A threshold that this user chooses here, on the test rows, is marked as such.
    thumb = studio.panel.get_by_role("slider", name="Threshold")

    def moved() -> bool:
        thumb.focus()
        studio.press("ArrowLeft", 12)
        return all(now != before for now, before in zip(shown(), at_first, strict=True))

    until(moved, what="other figures")
    expect()(studio.panel).to_contain_text("Optimistic if you choose it here")
    studio.click_until(
        studio.button("As predicted"), lambda: shown() == at_first, "the model's threshold"
    )


def test_another_value_of_a_row_moves_its_prediction(studio: Studio) -> None:
    run = sylva.run(FOREST, studio.workspace.root)
    page = studio.page
    page.goto(f"{studio.address}/inspect?run={run.id}&node=inspect&tab=One+row")
    why = page.locator(".st-key-inspect-why")
    expect()(why).to_contain_text("The probability of")
    value = why.get_by_test_id("stNumberInput").get_by_role("spinbutton").first
    moved = why.get_by_text(re.compile(r"With the changed values, the probability of \w+ goes"))

    def probabilities() -> list[str]:
        return re.findall(r"([\d.]+)%", moved.inner_text()) if moved.is_visible() else []

    # One end of the column speaks for the class, the other against it.
    for typed in ("100000", "0"):
        value.fill(typed)
        value.press("Enter")
        if waited(lambda: len(set(probabilities())) == 2, 3):
            break
    assert len(set(probabilities())) == 2
    expect()(why).to_contain_text("After the change")
    studio.click_until(
        why.get_by_role("button", name="Reset", exact=True), moved.is_hidden, "the reset"
    )


def test_a_sweep_that_ranks_on_test_rows_is_fixed_with_one_click(studio: Studio) -> None:
    forest = with_values(FLOWERS.nodes["forest"], sweep=Sweep(grid={"trees": [2, 3]}))
    page = studio.begin(with_values(FLOWERS, nodes={**FLOWERS.nodes, "forest": forest})).page
    fix = page.get_by_role("button", name="Choose on validation rows")
    studio.click_until(page.get_by_role("button", name="1 hint"), fix.is_visible, "the hint")
    studio.click_until(fix, lambda: "choose-best" in types(studio.document), "the fix")
    document = studio.document
    assert document.nodes["split"].params["validation_share"] > 0
    [chooser] = [name for name, node in document.nodes.items() if node.type == "choose-best"]
    sources = {str(edge.source) for edge in document.edges if edge.target.node == chooser}
    assert sources == {"forest.model", "split.validation"}
    expect()(fix).to_be_hidden()
    studio.button("Undo").click()
    studio.saved(lambda pipeline: "choose-best" not in types(pipeline))


def types(pipeline: Pipeline) -> set[str]:
    return {node.type for node in pipeline.nodes.values()}
