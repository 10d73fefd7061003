"""Take the pictures of README and docs: ``make screenshots``.

A studio on an empty workspace runs the samples; Chromium takes a picture of each page.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from engine import pipeline_file
from engine.workspace import Workspace
from tests.e2e.studio import Studio, studio_at
from tests.e2e.tab import CHROMIUM

IMAGES = Path(__file__).parent / "images"
SAMPLES = Path(__file__).parents[1] / "sample_pipelines"
MINUTES = 60.0


def main() -> None:
    """Take all pictures, one after the other."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        workspace = Workspace(Path(folder)).create()
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        with studio_at(workspace.root) as address:
            studio = Studio(page, address, workspace)
            take_build(studio)
            take_layers(studio)
            take_run_and_model(studio)
            take_data(studio)
        browser.close()


def take_build(studio: Studio) -> None:
    """Run the pipeline with a deep forest beside MART, and choose the forest."""
    open_sample(studio, "deep_forest")
    studio.button("Run").click()
    studio.expect_states(5 * MINUTES, compare="finished")
    studio.choose("forest")
    shoot(studio, "build")


def take_layers(studio: Studio) -> None:
    """Show the maps of the layers of a forest."""
    open_sample(studio, "digits_inside")
    studio.button("Run").click()
    studio.expect_states(5 * MINUTES, inspect="finished")
    assert studio.run is not None
    studio.page.goto(f"{studio.address}/inspect?run={studio.run.id}&node=inspect")
    studio.page.get_by_role("tab", name="t-SNE").click()
    studio.page.locator("canvas[data-layer]").first.wait_for()
    shoot(studio, "inspect")


def take_run_and_model(studio: Studio) -> None:
    """Show a cascade while it is trained, and its saved model when the run is done."""
    open_sample(studio, "fraud_cascade")
    pipeline = studio.pipeline
    studio.button("Run").click()
    studio.expect_states(5 * MINUTES, cascade="running")
    assert studio.run is not None
    studio.page.goto(f"{studio.address}/runs?run={studio.run.id}")
    studio.page.frame_locator("iframe").first.locator(".react-flow__node").first.wait_for()
    shoot(studio, "run")
    studio.open(pipeline)
    studio.expect_states(10 * MINUTES, compare="finished", keep="finished")
    studio.page.goto(f"{studio.address}/models?model=fraud-cascade")
    studio.page.get_by_role("tab", name="Inside").click()
    shoot(studio, "models")


def take_data(studio: Studio) -> None:
    """Upload a table with columns of every type."""
    table = studio.workspace.root / "people.csv"
    write_people(table)
    studio.page.goto(f"{studio.address}/data")
    studio.page.set_input_files("input[type=file]", table)
    studio.page.get_by_role("heading", name="people.csv").wait_for()
    target = studio.page.get_by_role("combobox", name="Target")
    target.fill("income")
    target.press("Enter")
    studio.page.get_by_text("2 classes").wait_for()
    studio.page.get_by_role("tab", name="Columns").click()
    shoot(studio, "data")


def open_sample(studio: Studio, name: str) -> None:
    """Open a copy of a sample pipeline."""
    studio.begin(pipeline_file.read(SAMPLES / f"{name}.json"))


def shoot(studio: Studio, name: str) -> None:
    """Take a picture once the page has settled."""
    studio.page.mouse.move(2, 2)
    studio.page.wait_for_timeout(2_500)
    studio.page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png", flush=True)


def write_people(path: Path) -> None:
    """Write a table of people with numbers, categories, dates and text."""
    rng = np.random.default_rng(0)
    jobs = np.array(["clerk", "nurse", "pilot", "teacher", ""])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "hours", "job", "since", "city", "income"])
        for row in range(400):
            writer.writerow(person(rng, jobs, row))


def person(rng: np.random.Generator, jobs: Any, row: int) -> list[Any]:
    """Return one row of the table."""
    age = int(rng.integers(18, 80))
    hours = round(float(rng.normal(36, 8)), 1)
    since = f"{rng.integers(2010, 2026)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
    income = "high" if age + hours + rng.normal(0, 20) > 88 else "low"
    job = jobs[rng.choice(5, p=[0.25, 0.25, 0.25, 0.2, 0.05])]
    return [age, hours, job, since, f"town {rng.integers(1, 150)}", income]


if __name__ == "__main__":
    main()
