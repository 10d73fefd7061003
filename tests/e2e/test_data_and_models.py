"""A table in a real browser: uploaded, explored, trained on, scored by a saved model."""

from __future__ import annotations

import csv
import os
import signal
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest

from engine.pipeline import Edge, Node, Pipeline
from engine.workspace import Workspace
from nodes.models.registry import Registry
from tests.crashing_reader import CONTENT, NAME
from tests.e2e.studio import Studio
from tests.e2e.tab import gone, waited
from tests.waiting import until
from ui.studio.models.services import ModelServices

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

MODEL = "payers"
JOBS = ("cook", "nurse", "pilot")
SCRIPT = '<img src=x onerror="window.hacked=1">'


def people(rows: int) -> str:
    """A table in which who is old enough is paid well."""
    lines = (
        f"{18 + i * 7 % 60},{JOBS[i % 3]},{'high' if i * 7 % 60 > 25 else 'low'}\n"
        for i in range(rows)
    )
    return "age,job,pay\n" + "".join(lines)


@pytest.fixture(scope="module")
def model(place: tuple[str, Workspace], tab: Studio) -> str:
    """A model that a real run saved; the run was started in the browser."""
    (place[1].data / "past.csv").write_text(people(300))
    nodes = {
        "load": Node(type="load-data", params={"source": "past.csv", "target": "pay"}),
        "split": Node(type="split"),
        "forest": Node(
            type="deep-forest",
            params={"learners": [{"kind": "random_forest", "trees": 10}], "max_layers": 1},
        ),
        "predict": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
        "save": Node(type="save-model", params={"name": MODEL}),
    }
    wires = [
        ("load.table", "split.table"),
        ("split.train", "forest.table"),
        ("forest.model", "predict.model"),
        ("split.test", "predict.table"),
        ("predict.predictions", "evaluate.predictions"),
        ("forest.model", "save.model"),
    ]
    edges = tuple(Edge.between(*wire) for wire in wires)
    layout = {name: (at % 3 * 288.0, at // 3 * 192.0) for at, name in enumerate(nodes)}
    tab.begin(Pipeline(name="Payers", nodes=nodes, edges=edges, layout=layout))
    tab.button("Run").click()
    tab.expect_states(save="done", evaluate="done")
    return MODEL


# What a user does


def go(studio: Studio, address: str, title: str) -> None:
    studio.page.goto(f"{studio.address}/{address}")
    studio.page.get_by_role("heading", name=title, exact=True).wait_for()


def send(studio: Studio, name: str, content: str | bytes, where: str = "data-upload") -> None:
    """Choose a file in the uploader whose key begins with ``where``."""
    data = content.encode() if isinstance(content, str) else content
    chooser = studio.page.locator(f'[class*="st-key-{where}"] input[type="file"]').first
    chooser.wait_for(state="attached")
    chooser.set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})


def pick(studio: Studio, label: str, value: str) -> None:
    box = studio.page.get_by_role("combobox", name=label)
    box.click()
    box.fill(value)
    studio.page.get_by_role("option", name=value, exact=True).first.click()
    expect(studio.page.get_by_role("combobox", name=label)).to_have_value(value)


def delete(studio: Studio, is_gone: Callable[[], bool]) -> None:
    """Answer the question whether to delete what is open."""
    button = studio.button("Delete it")
    ask = studio.page.get_by_test_id("stPopover").get_by_text("Delete")
    studio.click_until(ask, lambda: button.is_visible() or is_gone(), "the question")
    studio.click_until(button, is_gone, "the deletion")


def seen(studio: Studio, text: str) -> None:
    expect(studio.page.get_by_text(text, exact=False).first).to_be_visible()


def cells(studio: Studio, heading: str) -> list[list[str]]:
    """The rows of the table that has such a column, as a screen reader is told them."""
    found: list[list[str]] = studio.page.evaluate(
        """heading => {
            for (const table of document.querySelectorAll('canvas table')) {
                const rows = [...table.querySelectorAll('tr')].map(
                    row => [...row.querySelectorAll('th, td')].map(cell => cell.textContent));
                if (rows.length && rows[0].includes(heading)) return rows;
            }
            return [];
        }""",
        heading,
    )
    return found


# Data


def test_a_table_is_uploaded_looked_into_and_made_into_a_pipeline(studio: Studio):
    go(studio, "data", "Data")
    content = people(400)
    send(studio, "people.csv", content)
    studio.page.get_by_role("heading", name="people.csv", exact=True).wait_for()
    assert (studio.workspace.data / "people.csv").read_text() == content
    seen(studio, "400 rows")
    until(
        lambda: any("people.csv" in row for row in cells(studio, "Changed")),
        what="the file in the list",
    )
    assert "file=people.csv" in studio.page.evaluate("location.href")
    studio.page.get_by_role("tab", name="Columns").click()
    until(
        lambda: any({"age", "number"} <= {*row} for row in cells(studio, "Kind")),
        what="figures of the columns",
    )
    assert any({"job", "category"} <= {*row} for row in cells(studio, "Kind"))
    pick(studio, "Target", "pay")
    until(lambda: any("low" in row for row in cells(studio, "Share")), what="the classes")
    high = content.count(",high")
    assert any("high" in row and str(high) in row for row in cells(studio, "Share")), cells(
        studio, "Share"
    )
    studio.shoot("data")
    studio.button("Use in a new pipeline").click()
    studio.page.wait_for_selector(".react-flow__node")
    assert studio.document.nodes["load"].params == {"source": "people.csv", "target": "pay"}
    studio.expect_states(load="idle", split="idle", forest="idle", predict="idle", evaluate="idle")
    expect(studio.page.locator(".st-key-problems")).to_have_count(0)


def test_a_file_whose_reader_crashes_is_refused_and_the_studio_continues(studio: Studio):
    go(studio, "data", "Data")
    send(studio, NAME, CONTENT)
    alert = studio.page.get_by_role("alert").filter(has_text=NAME)
    expect(alert).to_contain_text("SIGABRT")
    studio.shoot("damaged-upload")
    copied = studio.workspace.data / NAME
    assert not copied.exists()
    copied.write_text(CONTENT)  # without an upload: the list and the page continue to work
    send(studio, "sound.csv", people(50))
    studio.page.get_by_role("heading", name="sound.csv", exact=True).wait_for()
    seen(studio, "50 rows")
    studio.page.goto(f"{studio.address}/data?file={NAME}")
    expect(alert).to_contain_text("SIGABRT")
    copied.unlink()


def test_a_name_that_is_taken_is_asked_about_and_a_file_that_cannot_be_read_is_not_kept(
    studio: Studio,
):
    folder = studio.workspace.data
    (folder / "taken.csv").write_text("x\n1\n")
    go(studio, "data", "Data")
    send(studio, "taken.csv", people(30))
    studio.button("Keep both").click()
    studio.page.get_by_role("heading", name="taken-2.csv", exact=True).wait_for()
    assert (folder / "taken.csv").read_text() == "x\n1\n"
    assert (folder / "taken-2.csv").read_text() == people(30)
    before = {path.name for path in folder.iterdir()}
    go(studio, "data", "Data")
    send(studio, f"{SCRIPT}.csv", "a,b\n1,2\n1,2,3\n")
    expect(studio.page.get_by_role("alert").first).to_contain_text("row 3")
    assert {path.name for path in folder.iterdir()} == before
    go(studio, "data?file=taken-2.csv", "taken-2.csv")
    delete(studio, lambda: not (folder / "taken-2.csv").exists())
    studio.page.wait_for_url(lambda address: "file=" not in address)


def test_hostile_names_columns_and_classes_are_text(studio: Studio):
    name = "<img src=x onerror=window.hacked=1> **b**.csv"
    go(studio, "data", "Data")
    send(studio, name, f'"{SCRIPT.replace(chr(34), "")}",y\n' + "1,<b>a</b>\n2,[b](c)\n" * 20)
    studio.page.get_by_role("heading", name=name, exact=True).wait_for()
    pick(studio, "Target", "y")
    until(lambda: any("<b>a</b>" in row for row in cells(studio, "Share")), what="the classes")
    studio.page.get_by_role("tab", name="Plots").click()
    studio.page.locator(".js-plotly-plot").first.wait_for()


# Models


def test_a_saved_model_is_listed_with_its_card_and_leads_to_its_layers(studio: Studio, model: str):
    go(studio, "models", "Models")
    until(
        lambda: any(model in row for row in cells(studio, "Result")), what="the model in the list"
    )
    go(studio, f"models?model={model}", model)
    seen(studio, "past.csv")
    seen(studio, "Accuracy")
    studio.page.get_by_role("tab", name="How to use it").click()
    seen(studio, f"sylva predict {model}")
    studio.page.get_by_role("tab", name="Inside").click()
    studio.page.locator(".js-plotly-plot").first.wait_for()
    with zipfile.ZipFile(studio.download(studio.button("Download"))) as archive:
        assert f"{model}/model.json" in archive.namelist()
    studio.button("Run").click()
    studio.page.wait_for_url("**/runs?run=*")
    studio.page.get_by_role("heading", name="Payers").wait_for()


def test_a_file_is_scored_with_the_model_and_the_result_downloaded(studio: Studio, model: str):
    go(studio, f"models?model={model}", model)
    studio.page.get_by_text("Add a file", exact=True).click()
    send(studio, "new.csv", people(250), "scoring-upload")
    expect(studio.button("Score")).to_be_enabled()
    assert (studio.workspace.data / "new.csv").read_text() == people(250)
    studio.button("Score").click()
    seen(studio, f"exports/new by {model}.csv")
    seen(studio, "250 rows")
    seen(studio, "No drift")
    studio.shoot("models")
    rows = list(csv.DictReader(studio.download(studio.button("Download the result")).open()))
    assert len(rows) == 250 and [*rows[0]] == [
        "age",
        "job",
        "pay",
        "prediction",
        "p(high)",
        "p(low)",
    ]
    assert sum(row["prediction"] == row["pay"] for row in rows) > 240
    assert all(abs(float(row["p(high)"]) + float(row["p(low)"]) - 1) < 1e-6 for row in rows)


def test_a_downloaded_model_is_imported_and_served_until_it_is_killed(studio: Studio, model: str):
    go(studio, f"models?model={model}", model)
    archive = studio.download(studio.button("Download")).read_bytes()
    studio.page.get_by_text("Import a model", exact=True).click()
    send(studio, "copy.zip", archive, "model-import")
    studio.click_until(
        studio.button("Import"),
        lambda: "copy" in Registry(studio.workspace).names(),
        "the import",
    )
    studio.page.get_by_role("heading", name="copy", exact=True).wait_for()
    services = ModelServices(studio.workspace)
    start, stop = studio.button("Serve version 1"), studio.button("Stop")
    tab = studio.page.get_by_role("tab", name="Service")

    def is_served() -> bool:
        # The page may be drawn anew after the import, with its first tab open.
        if services.of("copy") is None:
            with suppress(*gone()):
                (start if start.is_visible() else tab).click(timeout=2_000)
        return waited(lambda: services.of("copy") is not None, 2)

    try:
        until(is_served, what="the start")
        seen(studio, "A request for the prediction of one row")
        expect(stop).to_be_visible()
        studio.page.reload()
        seen(studio, "imported from copy.zip")
        service = services.of("copy")
        assert service is not None and service.state == "running"
        with urllib.request.urlopen(f"{service.address}/health", timeout=30) as answer:
            assert answer.status == 200
        os.kill(service.process.pid, signal.SIGKILL)
        alert = studio.page.get_by_role("alert").filter(has_text="ended")
        studio.click_until(tab, alert.is_visible, "the end of the service")
    finally:
        services.stop("copy")


def test_a_long_scoring_outlives_a_reload_and_is_cancelled(studio: Studio, model: str):
    with (studio.workspace.data / "long.csv").open("w") as file:
        file.write("age,job\n")
        for _ in range(200):
            file.write("33,cook\n51,pilot\n" * 50_000)
    go(studio, f"models?model={model}", model)
    pick(studio, "File", "long.csv")
    expect(studio.button("Score")).to_be_enabled()
    studio.button("Score").click()
    expect(studio.button("Cancel")).to_be_visible()
    studio.page.reload()
    expect(studio.button("Cancel")).to_be_visible()
    studio.button("Cancel").click()
    expect(studio.button("Clear").first).to_be_visible()
    expect(studio.button("Cancel")).to_have_count(0)
    exports = studio.workspace.root / "exports"
    assert not exports.exists() or not [
        path.name for path in exports.iterdir() if "long" in path.name
    ]
