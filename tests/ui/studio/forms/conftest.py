"""A form in ``AppTest``: drawn from parameters, edited, and compared with the document."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from engine.errors import Problem
from engine.node_types import load_catalog
from engine.pipeline import Node, Pipeline
from engine.pipeline_file import parse
from engine.validation import find_problems, find_source_problems
from engine.workspace import Files, Workspace
from ui.studio import upload
from ui.studio.forms import load_data
from ui.studio.session import Studio

APP = Path(__file__).with_name("app.py")


@cache
def the_app() -> AppTest:
    """One app for all tests: starting it takes longer than what they do."""
    return AppTest.from_file(str(APP), default_timeout=60)


class Drawn:
    """A drawn form; widgets are found by their labels."""

    def __init__(self, pipeline: Pipeline, node: str) -> None:
        self.node = node
        self.app = the_app()
        self.draw_anew()
        self.app.session_state["document"] = pipeline
        self.app.session_state["node"] = node
        self.run()

    def draw_anew(self) -> None:
        """Give the form another key."""
        state = self.app.session_state
        state["epoch"] = state["epoch"] + 1 if "epoch" in state else 0

    def run(self) -> Drawn:
        try:
            self.app.run()
            assert not self.app.exception, self.app.exception[0].stack_trace
        except BaseException:
            the_app.cache_clear()  # what went wrong here must not go wrong in other tests
            raise
        return self

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.app.session_state["document"].nodes[self.node].params)

    @property
    def problems(self) -> list[Problem]:
        """The problems that the engine finds in the node, except inputs without an edge."""
        pipeline, catalog = self.app.session_state["document"], load_catalog()
        files = Files(Path(os.environ["FORMS_WORKSPACE"]))
        found = [
            *find_problems(pipeline, catalog),
            *find_source_problems(pipeline, catalog, files),
        ]
        return [
            each for each in found if each.node == self.node and each.field_word.lower() == "field"
        ]

    @property
    def labels(self) -> list[str]:
        kinds = ("selectbox", "multiselect", "text_input", "text_area", "number_input", "toggle")
        return [widget.label for kind in kinds for widget in self.app.get(kind)]

    @property
    def said(self) -> str:
        """All text but that of widgets."""
        return "\n".join(
            one.value for kind in ("caption", "markdown", "text") for one in self.app.get(kind)
        )

    def find(self, label: str, number: int = 0) -> Any:
        kinds = ("selectbox", "multiselect", "text_input", "text_area", "number_input", "toggle")
        found = [widget for kind in kinds for widget in self.app.get(kind) if widget.label == label]
        assert len(found) > number, f"no {label!r} in {self.labels}"
        return found[number]

    def give(self, label: str, value: Any, number: int = 0) -> dict[str, Any]:
        """Set a widget; the parameters after it."""
        widget = self.find(label, number)
        if (
            isinstance(widget, Selectbox)
            and isinstance(value, str)
            and widget.format_func(value) not in widget.options
        ):
            widget.options.append(value)  # as if it were typed
        if isinstance(widget, Selectbox) and value is None:
            widget.select_index(0)  # the entry that means no choice
        else:
            widget.set_value(value)
        return self.run().params

    @property
    def open_cards(self) -> list[int]:
        """The numbers of the learners that are open."""
        state = self.app.session_state
        keys = [f"{self.form_key}learners.{number}.open" for number in range(20)]
        # The state of an AppTest has no ``get``.
        known = [key in state and bool(state[key]) for key in keys]
        return [number for number, is_open in enumerate(known) if is_open]

    @property
    def form_key(self) -> str:
        return f"form.{self.node}.{self.app.session_state['epoch']}."

    def open_card(self, number: int) -> Drawn:
        """Open the card of a list of learners, as a click on it does."""
        self.app.session_state[f"{self.form_key}learners.{number}.open"] = True
        return self.run()

    def press(self, name: str) -> dict[str, Any]:
        """Press the button whose key ends so; the parameters after it."""
        button = next(one for one in self.app.button if one.key.endswith(name))
        button.click()
        return self.run().params


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Drawn]]:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    for module in (load_data, upload):
        monkeypatch.setattr(module, "studio", lambda: made)
    monkeypatch.setenv("FORMS_WORKSPACE", str(tmp_path))

    def drawn(node_type: str, **params: Any) -> Drawn:
        return Drawn(
            Pipeline(name="One", nodes={"node": Node(type=node_type, params=params)}), "node"
        )

    yield drawn


@pytest.fixture
def draw_document(draw: Callable[..., Drawn]) -> Callable[..., Drawn]:
    def drawn(node: str, nodes: dict[str, Any], *edges: tuple[str, str]) -> Drawn:
        wires = [{"from": source, "to": target} for source, target in edges]
        whole = {
            "format": "sylva-pipeline",
            "version": 1,
            "name": "x",
            "nodes": nodes,
            "edges": wires,
        }
        return Drawn(parse(json.dumps(whole)), node)

    return drawn
