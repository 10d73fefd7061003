"""The studio in a browser tab, and pipelines to start with. Results are read from the workspace."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.events import EventLog, RunEvent
from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_library import Library
from engine.run_state import RunState, run_state
from engine.workspace import Workspace
from tests.crashing_reader import environment
from tests.e2e.tab import PATIENCE, Tab, expect, free_port, served
from tests.waiting import until


@contextmanager
def studio_at(workspace: Path) -> Iterator[str]:
    port = free_port()
    command = [
        sys.executable,
        "-P",
        "-m",
        "ui.studio",
        f"--port={port}",
        "--no-browser",
        f"--workspace={workspace}",
    ]
    with served(command, port, workspace, **environment()) as address:
        yield address


class Studio(Tab):
    """A tab with the studio in it; files and run log of its workspace show what Python did."""

    def __init__(self, page: Any, address: str, workspace: Workspace) -> None:
        super().__init__(page, address)
        self.workspace, self.library = workspace, Library(workspace)
        self.opened = ""

    # Where we are

    @property
    def pipeline(self) -> str:
        if self.page.is_closed():
            return self.opened
        address = self.page.evaluate("location.search")
        found = re.search(r"[?&]pipeline=([\w-]+)", address)
        assert found, address
        return found.group(1)

    @property
    def document(self) -> Pipeline:
        return self.library.open(self.pipeline).pipeline

    def saved(self, holds: Callable[[Pipeline], Any], seconds: float = PATIENCE) -> Pipeline:
        """The document in the file, once it is as expected."""
        try:
            until(lambda: holds(self.document), seconds)
        except AssertionError:
            raise AssertionError(f"the file has {self.document}") from None
        return self.document

    @property
    def run(self) -> RunState | None:
        with EventLog(self.workspace) as log:
            row = log.last_run_of(self.pipeline)
            return run_state(log, row) if row else None

    def events(self, kind: str) -> list[RunEvent]:
        assert self.run is not None
        with EventLog(self.workspace) as log:
            return [entry.event for entry in log.events(self.run.id) if entry.event.kind == kind]

    # What a user does

    def open(self, pipeline: str | None = None) -> Studio:
        self.page.goto(f"{self.address}/build" + (f"?pipeline={pipeline}" if pipeline else ""))
        if pipeline:
            self.opened = pipeline
            self.page.wait_for_selector(".stage")
        else:
            self.page.get_by_role("heading", name="Pipelines").wait_for()
        return self

    def new(self) -> Studio:
        self.open()
        self.button("New pipeline").click()
        self.page.wait_for_selector(".stage")
        return self

    def begin(self, document: Pipeline) -> Studio:
        """Open a pipeline that lies in the workspace."""
        self.open(self.library.create(document))
        self.page.wait_for_selector(".react-flow__node")
        return self

    @property
    def panel(self) -> Any:
        return self.page.locator(".st-key-panel")

    def choose(self, node: str) -> None:
        self.click(node)
        self.panel.locator(f'[class*="{node}"]').first.wait_for(
            state="attached"
        )  # keys of fields name their node

    def open_menu(self) -> None:
        shown = self.button("Export JSON")
        self.click_until(self.button("File"), shown.is_visible, "the menu")

    def delete_pipeline(self) -> None:
        shelf, button = (
            self.page.get_by_role("heading", name="Pipelines"),
            self.button("Delete this pipeline"),
        )
        part = self.page.get_by_test_id("stPopoverBody").get_by_text("Delete", exact=True)
        self.open_menu()
        self.click_until(
            part, lambda: button.is_visible() or shelf.is_visible(), "the last question"
        )
        self.click_until(button, shelf.is_visible, "the deletion")

    def field(self, label: str) -> Any:
        return self.panel.get_by_label(label, exact=True).first

    def fill(self, label: str, value: str) -> None:
        self.field(label).fill(value)
        self.field(label).press("Enter")

    def fill_until(self, label: str, value: str, holds: Callable[[Pipeline], Any]) -> None:
        """Fill a field until the document has the value.

        What is typed while the form is drawn again can be lost.
        """
        for _ in range(3):
            self.fill(label, value)
            with suppress(AssertionError):
                self.saved(holds, PATIENCE / 3)
                return
        self.saved(holds, 0)

    def unfold(self, title: str, label: str) -> None:
        """Open a folded part of the form, until a field in it is there."""
        part = self.panel.locator("summary").get_by_text(title, exact=True)
        self.click_until(part, self.field(label).is_visible, title)

    def expect_states(self, seconds: float = PATIENCE, **states: str) -> None:
        """``finished`` is done or cached: another test may have made the same."""
        for node, state in states.items():
            wanted = re.compile("done|cached" if state == "finished" else state)
            expect()(self.node(node)).to_have_attribute(
                "data-state", wanted, timeout=seconds * 1000
            )

    def look_at(self, end: str) -> None:
        self.button("Fit").click()  # the panel may be over the node
        self.handle(end, "output").click()
        node = end.partition(".")[0]
        self.page.locator(f".st-key-part-of-{node}-Output").wait_for()


WIRES = [
    ("load-data.table", "split.table"),
    ("split.train", "deep-forest.table"),
    ("split.test", "predict.table"),
    ("deep-forest.model", "predict.model"),
    ("predict.predictions", "evaluate.predictions"),
]


def five_steps() -> Pipeline:
    """The pipeline of the first lesson: nodes named by their types, in two rows on the stage."""
    places = {
        "load-data": (0, 0),
        "split": (288, 0),
        "deep-forest": (576, 0),
        "predict": (288, 224),
        "evaluate": (576, 224),
    }
    nodes = {name: Node(type=name) for name in places}
    nodes["load-data"] = Node(type="load-data", params={"source": "sample:wine"})
    edges = tuple(Edge.between(*wire) for wire in WIRES)
    return Pipeline(name="Five steps", nodes=nodes, edges=edges, layout=places)


def many(count: int, columns: int) -> Pipeline:
    """Rows of steps, each connected with the next in its row."""
    nodes = {f"split-{at}": Node(type="split") for at in range(count)}
    edges = tuple(
        Edge.between(f"split-{at}.train", f"split-{at + 1}.table")
        for at in range(count - 1)
        if (at + 1) % columns
    )
    layout = {f"split-{at}": (at % columns * 272.0, at // columns * 144.0) for at in range(count)}
    return Pipeline(name="Many", nodes=nodes, edges=edges, layout=layout)


def chain(
    *nodes: tuple[str, dict[str, Any]], name: str = "Chain", ports: str = "table"
) -> Pipeline:
    """Nodes behind each other, each named by its type."""
    names = [node_type for node_type, _ in nodes]
    return Pipeline(
        name=name,
        nodes={node_type: Node(type=node_type, params=params) for node_type, params in nodes},
        edges=tuple(Edge.between(f"{a}.{ports}", f"{b}.{ports}") for a, b in pairwise(names)),
        layout={node_type: (at * 288.0, 96.0) for at, node_type in enumerate(names)},
    )


def forest(**params: Any) -> Pipeline:
    """Load, split, deep forest."""
    return Pipeline(
        name="Forest",
        nodes={
            "load": Node(type="load-data", params={"source": "sample:digits"}),
            "split": Node(type="split"),
            "forest": Node(type="deep-forest", params=params),
        },
        edges=(
            Edge.between("load.table", "split.table"),
            Edge.between("split.train", "forest.table"),
        ),
        layout={"load": (0, 0), "split": (288, 0), "forest": (576, 0)},
    )
