"""Runs to look at: real ones of small nodes, and logs written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from streamlit.testing.v1 import AppTest

from engine.pipeline import Edge, Node, Pipeline
from engine.plan import RunOptions
from engine.processes import identify
from engine.run_state import RunState, run_state
from tests.run_events import append_stored
from tests.waiting import until
from ui.studio.session import Studio

GONE = {"pid": 1, "began": 1, "boot": "another"}
STARTED = {"attempt": 1, "key": "k", "process": GONE}
DONE: dict[str, Any] = {"key": "k", "seconds": 1.5, "outputs": {}}
ERROR = {
    "kind": "error",
    "message": "ValueError: no <b>rows</b>",
    "field": None,
    "traceback": "Traceback: line 1",
}

Event = tuple[str, str | None, dict[str, Any]]


def probes(*names: str, name: str = "Probes", **params: dict[str, Any]) -> Pipeline:
    """A chain of probes; ``params`` by node."""
    edges = [Edge.between(f"{first}.report", f"{then}.reports") for first, then in pairwise(names)]
    return Pipeline(
        name=name,
        nodes={each: Node(type="probe", params=params.get(each, {})) for each in names},
        edges=tuple(edges),
    )


def written(
    studio: Studio, pipeline: Pipeline, events: Iterable[Event], *, alive: bool = False
) -> str:
    """A run whose log says just this; its supervisor lives or is gone."""
    supervisor = identify().to_dict() if alive else GONE
    with studio.runs.log() as log:
        run = studio.runs.create(pipeline, RunOptions())
        append_stored(log, run, "run-started", supervisor=supervisor, todo=list(pipeline.nodes))
        for kind, node, facts in events:
            append_stored(log, run, kind, node, **facts)
    return run


def state_of(studio: Studio, run: str) -> RunState:
    with studio.runs.log() as log:
        return run_state(log, log.run(run))


def ended(studio: Studio, run: str, attempt: int = 1) -> RunState:
    """The state in which a run ends its attempt."""

    def final_state() -> RunState | None:
        state = state_of(studio, run)
        return None if state.live or state.attempt < attempt else state

    found = until(final_state, what="the end of the run")
    assert found is not None
    return found


def started(studio: Studio, run: str, node: str) -> None:
    """Wait until a node is at work."""
    until(lambda: node in state_of(studio, run).nodes_in("running"), what="the start of the node")


def _page() -> None:
    from ui.studio.runs.page import page

    page()


def runs_page(**address: str) -> AppTest:
    """The page at an address, drawn once."""
    test = AppTest.from_function(_page, default_timeout=30)
    for name, value in address.items():
        test.query_params[name] = value
    return test.run()


def words(test: AppTest) -> str:
    """All plain text on the page."""
    elements = [
        *test.markdown,
        *test.caption,
        *test.text,
        *test.error,
        *test.warning,
        *test.info,
        *test.subheader,
    ]
    return "\n".join(str(element.value) for element in elements).replace("\\", "")


def labels(test: AppTest) -> list[str]:
    """The buttons on the page."""
    return [button.label for button in test.button]


def press(test: AppTest, label: str) -> AppTest:
    """Press a button by its name."""
    return next(button for button in test.button if button.label == label).click().run()
