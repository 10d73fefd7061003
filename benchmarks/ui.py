"""Measure the studio in a real browser: ``python -m benchmarks.ui [--repeats N]``.

It needs Chromium, and nothing else should run at the same time. Every figure is a median, except
for the worst frame.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import ui.studio.session
from benchmarks._figures import Figure, process_tree
from engine.events import EventLog, NodeStarted, RunFinished, RunStarted
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import dumps
from engine.processes import identify
from engine.workspace import Workspace
from tests.e2e.studio import Studio, five_steps, studio_at
from tests.e2e.tab import CHROMIUM, ROOT, until
from tests.ui.studio.inspect.lab import inspected_run, large

IDLE_SECONDS = 20
FRAMES = """() => { window.frames_ = []; let last = performance.now(); const step = now => {
    window.frames_.push(now - last); last = now; window.watching_ && requestAnimationFrame(step); };
    window.watching_ = true; requestAnimationFrame(step); }"""
SMALLEST_TEXT = """nodes => {
    const texts = nodes.flatMap(node => {
        const zoom = node.getBoundingClientRect().width / node.offsetWidth;
        const all = [...node.querySelectorAll("*")].filter(part =>
            part.checkVisibility() && [...part.childNodes].some(child =>
                child.nodeType === Node.TEXT_NODE && child.textContent.trim()));
        return all.map(part => zoom * parseFloat(getComputedStyle(part).fontSize));
    });
    return Math.min(...texts); }"""
STOP_FRAMES = "() => { window.watching_ = false; return window.frames_; }"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=7)
    repeats = options.parse_args().repeats
    with tempfile.TemporaryDirectory(prefix="sylva-ui-") as folder, sync_playwright() as driver:
        workspace = Workspace(Path(folder)).create()
        with studio_at(workspace.root) as address:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            # The size of a small laptop: what is not in view is not drawn.
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            for figure in figures(Studio(page, address, workspace), repeats):
                print(figure.line(), flush=True)
            browser.close()


def figures(studio: Studio, repeats: int) -> Iterator[Figure]:
    yield bundle_size()
    yield first_paint(studio, repeats)
    yield from room(studio)
    yield output_latency(studio, repeats)
    yield edit_latency(studio, repeats)
    yield state_latency(studio, repeats)
    yield worst_frame(studio, repeats)
    yield inspection(studio, repeats)
    yield idle_load(studio)


def many(count: int) -> Pipeline:
    nodes = {f"split-{at}": Node(type="split") for at in range(count)}
    edges = tuple(
        Edge.between(f"split-{at}.train", f"split-{at + 1}.table")
        for at in range(count - 1)
        if (at + 1) % 15
    )
    layout = {f"split-{at}": (at % 15 * 272.0, at // 15 * 144.0) for at in range(count)}
    return Pipeline(name=f"Many {count}", nodes=nodes, edges=edges, layout=layout)


def five() -> Pipeline:
    nodes = {
        name: Node(type=name)
        for name in ("load-data", "split", "deep-forest", "predict", "evaluate")
    }
    return Pipeline(
        name="Five", nodes=nodes, layout={name: (at * 272.0, 0.0) for at, name in enumerate(nodes)}
    )


def median(what: str, values: list[float], limit: float, unit: str = "s") -> Figure:
    print(f"  {what}: {', '.join(f'{value:.3f}' for value in values)}")
    return Figure(what, statistics.median(values), unit, limit)


def timed(action: Callable[[], Any], holds: Callable[[], Any]) -> float:
    action()
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > 20:
            raise TimeoutError
        time.sleep(0.005)
    return time.perf_counter() - began


def bundle_size() -> Figure:
    files = list((ROOT / "ui" / "studio" / "canvas" / "frontend_dist").iterdir())
    return Figure(
        "bundle of the canvas", sum(path.stat().st_size for path in files) / 1000, "kB", 450
    )


def first_paint(studio: Studio, repeats: int) -> Figure:
    """Measure from the address to a canvas that shows its nodes, with a warm browser cache."""
    pipeline = studio.library.create(five())
    took = []
    for _ in range(repeats + 1):
        studio.page.goto("about:blank")
        began = time.perf_counter()
        studio.page.goto(f"{studio.address}/build?pipeline={pipeline}", wait_until="commit")
        studio.node("evaluate").wait_for()
        studio.button("Run").wait_for()
        took.append(time.perf_counter() - began)
    return median("first useful paint of Build, warm", took[1:], 1.5)


def room(studio: Studio) -> Iterator[Figure]:
    """Measure what share of the window the canvas has, and its smallest text, at opening."""
    pipeline = studio.library.create(five())
    wide = studio.page.viewport_size
    for (width, height), least in {(1440, 900): 70, (1280, 800): 65}.items():
        studio.page.set_viewport_size({"width": width, "height": height})
        studio.open(pipeline)
        studio.node("evaluate").wait_for()
        box = studio.box(studio.page.locator(".stage"))
        share = 100 * box["width"] * box["height"] / (width * height)
        size = f"{width} × {height}"
        yield Figure(f"canvas, share of a window of {size}", share, "%", least, at_least=True)
        smallest = studio.page.locator(".react-flow__node").evaluate_all(SMALLEST_TEXT)
        yield Figure(f"smallest text on a node, {size}", smallest, "px", 10, at_least=True)
    studio.page.set_viewport_size(wide)


def output_latency(studio: Studio, repeats: int) -> Figure:
    """Measure from a click on a finished node to its output, one node after the other."""
    studio.begin(five_steps())
    studio.button("Run").click()
    studio.expect_states(evaluate="finished")
    shown = {"load-data": "178 rows", "evaluate": "Accuracy"}
    took = []
    for _ in range(repeats + 1):
        for node, text in shown.items():
            output = studio.page.locator(f".st-key-part-of-{node}-Output").get_by_text(text)
            studio.page.wait_for_timeout(500)
            title = studio.node(node).locator(".node-title")
            took.append(timed(title.click, output.first.is_visible))
    warm = took[len(shown) :]
    return median("a click on a finished node shows its output, warm", warm, 0.5)


def edit_latency(studio: Studio, repeats: int) -> Figure:
    """Measure from the drop of a node to the document in its file, with 100 nodes."""
    studio.begin(many(100))
    studio.page.wait_for_timeout(2000)
    took = []
    for at in range(repeats):
        before = studio.library.version(studio.pipeline)
        x, y = studio.centre(studio.node("split-0").locator(".node-title"))
        studio.pull((x, y), (x + 32 + at, y + 32), let_go=False)
        took.append(
            timed(
                studio.page.mouse.up,
                lambda before=before: studio.library.version(studio.pipeline) != before,
            )
        )
        studio.page.wait_for_timeout(700)
    return median("an edit among 100 nodes reaches Python and the disk", took, 0.4)


def state_latency(studio: Studio, repeats: int) -> Figure:
    """Measure from an event in the log to the state on the canvas; nothing may move."""
    document = many(100)
    pipeline = studio.library.create(document)
    took = []
    with EventLog(studio.workspace) as log:
        run = log.create_run("Many", dumps(document), {"pipeline": pipeline})
        log.append(run, RunStarted(supervisor=identify(), todo=tuple(document.nodes)))
        studio.open(pipeline)
        until(lambda: studio.node("split-0").get_attribute("data-state") == "queued")
        places = studio.places()
        for at in range(repeats):
            node = f"split-{at}"
            # Events must not be in step with the page, which looks for them at fixed intervals.
            studio.page.wait_for_timeout(300 + 70 * at)
            took.append(
                timed(
                    lambda node=node: log.append(
                        run, NodeStarted(node=node, try_number=1, key="k")
                    ),
                    lambda node=node: studio.node(node).get_attribute("data-state") == "running",
                )
            )
        assert studio.places() == places, "a state moved a node"
        log.append(run, RunFinished(state="done"))
    return median("a state reaches the canvas, 100 nodes, nothing moves", took, 1.2)


def worst_frame(studio: Studio, repeats: int) -> Figure:
    """Measure the longest frame while a node is dragged among 300."""
    studio.begin(many(300))
    studio.page.wait_for_timeout(3000)
    worst = []
    for _ in range(repeats):
        x, y = studio.centre(studio.node("split-0").locator(".node-title"))
        studio.page.mouse.move(x, y)
        studio.page.mouse.down()
        studio.page.mouse.move(x + 8, y + 8, steps=2)
        studio.page.wait_for_timeout(200)
        studio.page.evaluate(FRAMES)
        studio.page.mouse.move(x + 240, y + 120, steps=40)
        studio.page.mouse.move(x, y, steps=40)
        frames = studio.page.evaluate(STOP_FRAMES)
        worst.append(max(frames[1:]))  # the first one began before the drag
        studio.page.mouse.up()
        studio.page.wait_for_timeout(800)
    print(f"  worst frame of each drag: {', '.join(f'{value:.0f}' for value in worst)}")
    return Figure("worst frame of all drags among 300 nodes", max(worst), "ms", 100)


def inspection(studio: Studio, repeats: int) -> Figure:
    """Measure from the address to the first plot of four layers, inspected on 5,000 rows."""
    session = ui.studio.session.Studio(studio.workspace, load_catalog())
    run, _ = inspected_run(session, large(rows=5000, depth=4))
    took = []
    for _ in range(repeats + 1):
        studio.page.goto("about:blank")
        began = time.perf_counter()
        studio.page.goto(f"{studio.address}/inspect?run={run}&node=inspect", wait_until="commit")
        studio.page.get_by_role("tab", name="t-SNE").wait_for()
        studio.page.locator(".st-key-inspect-growth .js-plotly-plot .main-svg").first.wait_for()
        took.append(time.perf_counter() - began)
    return median("Inspect of 4 layers and 5,000 rows usable, warm", took[1:], 3)


def idle_load(studio: Studio) -> Figure:
    """Measure the share of a core that the studio takes while a pipeline is open and unused."""
    studio.begin(five())
    studio.page.wait_for_timeout(5000)
    before, began = _cpu_seconds(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    share = (_cpu_seconds() - before) / (time.perf_counter() - began)
    return Figure("idle studio, share of a core", share * 100, "%", 3)


def _cpu_seconds() -> float:
    """Return the CPU time of the studio that this process has started, without the browser."""
    ticks = 0
    for pid in process_tree(os.getpid()):
        with suppress(OSError):  # it has ended meanwhile
            if b"ui.studio" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                ticks += sum(map(_cpu_ticks, process_tree(pid)))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cpu_ticks(pid: int) -> int:
    """Return the CPU time of one process in ticks, in its own code and in the kernel."""
    # The name in brackets may contain spaces; after it, these are the fields utime and stime.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    main()
