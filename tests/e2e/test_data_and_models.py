"""A table's way through the studio in a real browser: uploaded, looked into, learned from; a saved model scores it."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.document import Document, Edge, Node
from engine.workspace import Workspace
from nodes.deploy.registry import Registry
from tests.e2e.studio import PATIENCE, Studio, studio_at
from tests.e2e.tab import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

LONG = PATIENCE * 1000
MODEL = "payers"
JOBS = ("cook", "nurse", "pilot")
SCRIPT = '<img src=x onerror="window.hacked=1">'


def people(rows: int) -> str:
    """A table in which who is old enough is paid well."""
    lines = (f"{18 + i * 7 % 60},{JOBS[i % 3]},{'high' if i * 7 % 60 > 25 else 'low'}\n" for i in range(rows))
    return "age,job,pay\n" + "".join(lines)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workspace]]:
    workspace = Workspace(tmp_path_factory.mktemp("studio")).create()
    with studio_at(workspace.root) as address:
        yield address, workspace


@pytest.fixture
def studio(place: tuple[str, Workspace], browser: Any) -> Iterator[Studio]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    studio = Studio(context.new_page(), *place)
    yield studio
    assert studio.page.evaluate("window.hacked") is None
    if studio.page.locator('[data-testid="stException"]').count():
        studio.errors.append(studio.page.locator('[data-testid="stException"]').first.inner_text())
    context.close()
    assert not studio.errors


@pytest.fixture(scope="module")
def model(place: tuple[str, Workspace], browser: Any) -> str:
    """A model that a real run saved; the run was started in the browser."""
    address, workspace = place
    (workspace.data / "past.csv").write_text(people(300))
    nodes = {
        "load": Node(type="load-data", params={"source": "past.csv", "target": "pay"}),
        "split": Node(type="split"),
        "forest": Node(
            type="deep-forest", params={"learners": [{"kind": "random_forest", "trees": 10}], "max_layers": 1}
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
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = Studio(context.new_page(), address, workspace)
    tab.begin(Document(name="Payers", nodes=nodes, edges=edges, layout=layout))
    tab.button("Run").click()
    tab.expect_states(save="done", evaluate="done")
    context.close()
    return MODEL


# What a user does


def go(studio: Studio, address: str, title: str) -> None:
    studio.page.goto(f"{studio.address}/{address}")
    studio.page.get_by_role("heading", name=title, exact=True).wait_for(timeout=LONG)


def send(studio: Studio, name: str, content: str | bytes) -> None:
    content = content.encode() if isinstance(content, str) else content
    chooser = studio.page.locator('input[type="file"]').first
    chooser.wait_for(state="attached", timeout=LONG)
    chooser.set_input_files({"name": name, "mimeType": "text/csv", "buffer": content})


def pick(studio: Studio, label: str, value: str) -> None:
    box = studio.page.get_by_role("combobox", name=label)
    box.click()
    box.fill(value)
    studio.page.get_by_role("option", name=value, exact=True).first.click()
    expect(studio.page.get_by_role("combobox", name=label)).to_have_value(value, timeout=LONG)


def seen(studio: Studio, text: str) -> None:
    expect(studio.page.get_by_text(text, exact=False).first).to_be_visible(timeout=LONG)


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
    studio.page.get_by_role("heading", name="people.csv", exact=True).wait_for(timeout=LONG)
    assert (studio.workspace.data / "people.csv").read_text() == content
    seen(studio, "400 rows × 3 columns")
    until(lambda: any("people.csv" in row for row in cells(studio, "Changed")), what="the file in the list")
    assert "file=people.csv" in studio.page.evaluate("location.href")
    studio.page.get_by_role("tab", name="Columns").click()
    until(lambda: any({"age", "number"} <= {*row} for row in cells(studio, "Kind")), what="figures of the columns")
    assert any({"job", "category"} <= {*row} for row in cells(studio, "Kind"))
    pick(studio, "Target", "pay")
    seen(studio, "2 classes")
    until(lambda: any("low" in row for row in cells(studio, "Share")), what="the classes")
    high = content.count(",high")
    assert any("high" in row and str(high) in row for row in cells(studio, "Share")), cells(studio, "Share")
    studio.shoot("data")
    studio.button("Use in a new pipeline").click()
    studio.page.wait_for_selector(".react-flow__node", timeout=LONG)
    assert studio.document.nodes["load"].params == {"source": "people.csv", "target": "pay"}
    studio.expect_states(load="idle", split="idle", forest="idle", predict="idle", evaluate="idle")
    seen(studio, "No problems found")


def test_a_name_that_is_taken_is_asked_about(studio: Studio):
    (studio.workspace.data / "taken.csv").write_text("x\n1\n")
    go(studio, "data", "Data")
    send(studio, "taken.csv", people(30))
    seen(studio, "There is a file “taken.csv” already")
    assert (studio.workspace.data / "taken.csv").read_text() == "x\n1\n"
    studio.button("Keep both").click()
    studio.page.get_by_role("heading", name="taken-2.csv", exact=True).wait_for(timeout=LONG)
    assert (studio.workspace.data / "taken-2.csv").read_text() == people(30)


def as_zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a.csv", people(30))
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("zip.csv", as_zip(), "not text"),
        ("empty.csv", b"", "is empty"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "row 3"),
        ("fake.parquet", b"PAR1garbage", "no Parquet file"),
        (f"{SCRIPT}.exe", b"MZ", "does not end in"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_not_kept(studio: Studio, name: str, content: bytes, said: str):
    before = {path.name for path in studio.workspace.data.iterdir()}
    go(studio, "data", "Data")
    send(studio, name, content)
    seen(studio, "The file was not kept")
    seen(studio, said)
    assert {path.name for path in studio.workspace.data.iterdir()} == before


def test_hostile_names_columns_and_classes_are_text(studio: Studio):
    name = "<img src=x onerror=window.hacked=1> **b**.csv"
    go(studio, "data", "Data")
    send(studio, name, f'"{SCRIPT.replace(chr(34), "")}",y\n' + "1,<b>a</b>\n2,[b](c)\n" * 20)
    studio.page.get_by_role("heading", name=name, exact=True).wait_for(timeout=LONG)
    pick(studio, "Target", "y")
    seen(studio, "2 classes")
    studio.page.get_by_role("tab", name="Plots").click()
    studio.page.locator(".js-plotly-plot").first.wait_for(timeout=LONG)


def test_a_sample_is_looked_into_and_a_file_deleted(studio: Studio):
    (studio.workspace.data / "goes.csv").write_text(people(30))
    go(studio, "data", "Data")
    studio.button("Iris").click()
    seen(studio, "150 rows × 5 columns")
    seen(studio, "3 classes")
    go(studio, "data?file=goes.csv", "goes.csv")
    studio.page.get_by_test_id("stPopover").get_by_text("Delete").click()
    studio.click_at_rest(studio.button("Delete it"))
    until(lambda: not (studio.workspace.data / "goes.csv").exists(), what="the deletion")
    seen(studio, "Choose a table to look into it")


# Models


def test_a_saved_model_is_listed_with_its_card_and_leads_to_its_layers(studio: Studio, model: str):
    go(studio, "models", "Models")
    until(lambda: any(model in row for row in cells(studio, "Result")), what="the model in the list")
    go(studio, f"models?model={model}", model)
    seen(studio, "Deep forest · 2 classes · 2 features")
    seen(studio, "data past.csv (300 rows)")
    seen(studio, "Accuracy")
    studio.page.get_by_role("tab", name="How to call it").click()
    seen(studio, f"sylva predict {model}")
    studio.page.get_by_role("tab", name="Inside").click()
    studio.page.locator(".js-plotly-plot").first.wait_for(timeout=LONG)
    with studio.page.expect_download(timeout=LONG) as download:
        studio.button("Download").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert f"{model}/model.json" in archive.namelist()
    studio.button("Run").click()
    until(lambda: "/runs?run=" in studio.page.evaluate("location.href"), what="the way to the run")
    seen(studio, "Payers")


def test_a_file_is_scored_with_the_model_and_the_result_downloaded(studio: Studio, model: str, tmp_path: Path):
    go(studio, f"models?model={model}", model)
    studio.page.get_by_text("Add a file", exact=True).click()
    send(studio, "new.csv", people(250))
    seen(studio, "All 2 columns that the model reads are there")
    assert (studio.workspace.data / "new.csv").read_text() == people(250)
    studio.button("Score").click()
    seen(studio, "250 rows in")
    seen(studio, f"exports/new by {model}.csv")
    studio.shoot("models")
    with studio.page.expect_download(timeout=LONG) as download:
        studio.button("Download the result").click()
    download.value.save_as(tmp_path / "result.csv")
    rows = list(csv.DictReader((tmp_path / "result.csv").open()))
    assert len(rows) == 250 and [*rows[0]] == ["age", "job", "pay", "prediction", "p(high)", "p(low)"]
    assert sum(row["prediction"] == row["pay"] for row in rows) > 240
    assert all(abs(float(row["p(high)"]) + float(row["p(low)"]) - 1) < 1e-6 for row in rows)


def test_columns_that_do_not_fit_are_named_at_once(studio: Studio, model: str):
    (studio.workspace.data / "weather.csv").write_text("job,rain\ncook,1\n")
    go(studio, f"models?model={model}", model)
    pick(studio, "File", "weather.csv")
    seen(studio, "it lacks 'age'")
    expect(studio.button("Score")).to_be_disabled(timeout=LONG)


def test_a_long_scoring_outlives_a_reload_and_is_cancelled(studio: Studio, model: str):
    with (studio.workspace.data / "long.csv").open("w") as file:
        file.write("age,job\n")
        for _ in range(40):
            file.write("33,cook\n51,pilot\n" * 50_000)
    go(studio, f"models?model={model}", model)
    pick(studio, "File", "long.csv")
    expect(studio.button("Score")).to_be_enabled(timeout=LONG)
    studio.button("Score").click()
    expect(studio.button("Cancel")).to_be_visible(timeout=LONG)
    studio.page.reload()
    expect(studio.button("Cancel")).to_be_visible(timeout=LONG)
    other = Studio(studio.page.context.new_page(), studio.address, studio.workspace)
    go(other, "data?file=sample:wine", "sample:wine")  # the studio answers meanwhile
    expect(other.page.get_by_text("178 rows × 14 columns")).to_be_visible(timeout=LONG)
    studio.page.bring_to_front()
    studio.button("Cancel").click()
    seen(studio, "cancelled, nothing was written")
    exports = studio.workspace.root / "exports"
    assert not [path.name for path in exports.iterdir() if "long" in path.name]


def test_a_model_is_deleted_after_being_asked(studio: Studio, model: str):
    registry = Registry(studio.workspace)
    go(studio, f"models?model={model}", model)
    studio.page.get_by_test_id("stPopover").get_by_text("Delete").click()
    studio.click_at_rest(studio.button("Delete it"))
    until(lambda: registry.names() == [], PATIENCE, "the deletion")
    seen(studio, "No models yet")
