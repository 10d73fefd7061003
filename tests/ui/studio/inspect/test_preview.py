"""The card of inspected layers, as an output port shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import load_catalog
from engine.store import CacheEntry
from engine.workspace import Workspace
from tests.ui.studio.inspect.lab import inspected_run, small
from tests.ui.studio.runs.lab import labels, words
from ui.studio import links
from ui.studio.previews import models
from ui.studio.session import Studio


def _card() -> None:
    import streamlit as st

    from ui.studio.previews import show_output

    show_output(st.session_state["output"], st.session_state["store"], title="", key="card")


@pytest.fixture
def shown(tmp_path: Path) -> tuple[AppTest, Studio, str]:
    """The card of an inspection that a run of the workspace made."""
    studio = Studio(Workspace(tmp_path).create(), load_catalog())
    run, output = inspected_run(studio, small())
    studio.store.record(CacheEntry("a" * 64, run, "inspect", 1.0, 1.0, {"layers": output}))
    test = AppTest.from_function(_card, default_timeout=60)
    test.session_state["output"], test.session_state["store"] = output, studio.store
    test.session_state[links.PAGES] = {}
    return test, studio, run


def test_the_card_tells_the_layers_in_short_and_leads_inside(shown):
    test, studio, run = shown
    test.run()
    assert not test.exception and "2 layers" in words(test) and "10 rows" in words(test)
    assert test.dataframe[0].value["Accuracy"].tolist() == [0.5, pytest.approx(2 / 3)]
    assert labels(test) == ["Look inside"]
    assert models._maker(test.session_state["output"].digest, studio.store) == (run, "inspect")


def test_a_card_of_unknown_origin_only_tells(shown):
    test, studio, run = shown
    with studio.runs.log() as log:
        log.remove_runs([run])
    test.run()
    assert not test.exception and labels(test) == [] and "Open Inspect" in words(test)


def test_a_damaged_inspection_has_no_card(shown):
    test, studio, _ = shown
    (studio.workspace.objects / test.session_state["output"].digest / "layers.json").write_text(
        "{}"
    )
    test.run()
    assert not test.exception and "damaged" in test.warning[0].value
