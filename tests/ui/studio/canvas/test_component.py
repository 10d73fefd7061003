from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

from streamlit.testing.v1 import AppTest

from ui.studio import canvas as component
from ui.studio.canvas.protocol import Revision, payload

PACKAGE = Path(component.__file__).parent


def app() -> None:
    import streamlit as st

    from engine.node_types import load_catalog
    from engine.pipeline import Node, Pipeline
    from ui.studio.canvas import Edited, canvas

    pipeline = Pipeline(name="One", nodes={"load": Node(type="load-data")})
    seen: list[Pipeline] = []
    edits: list[Edited] = []
    selection = canvas(
        pipeline,
        epoch=0,
        catalog=load_catalog(),
        problems=lambda now: seen.append(now) or [],
        states=lambda now: {},
        key="c",
        pipeline_id="c",
        reveal=None,
        height="640px",
        on_edit=edits.append,
        on_port=st.write,
        on_run=st.write,
    )
    assert seen == [pipeline] and selection == ()
    assert [edited.pipeline is pipeline for edited in edits] == [True]
    st.write("drawn")


def test_a_page_with_the_canvas_is_drawn_and_drawn_again():
    test = AppTest.from_function(app, default_timeout=30).run()
    assert not test.exception
    assert test.markdown[0].value == "drawn"
    assert not test.run().exception


EDIT = {
    "instance": "tab",
    "pipeline": "c",
    "revision": 1,
    "epoch": 0,
    "document": {
        "nodes": {"load": {"type": "load-data"}},
        "edges": [],
        "layout": {"load": [8, 8]},
        "notes": [],
        "groups": [],
    },
}


def app_that_keeps_edits() -> None:
    import streamlit as st

    from engine.node_types import load_catalog
    from engine.pipeline import Node, Pipeline
    from ui.studio.canvas import Edited, canvas

    def keep(edited: Edited) -> None:
        if st.session_state.get("overtaken"):
            st.session_state.overtaken = False
            st.session_state.epoch = 1
            st.rerun()

    pipeline = Pipeline(name="One", nodes={"load": Node(type="load-data")})
    canvas(
        pipeline,
        epoch=st.session_state.get("epoch", 0),
        catalog=load_catalog(),
        problems=lambda now: [],
        states=lambda now: {},
        key="c",
        pipeline_id="c",
        reveal=None,
        height="640px",
        on_edit=keep,
        on_port=st.write,
        on_run=st.write,
    )


@pytest.mark.parametrize(
    ("overtaken", "told"), [(False, [Revision("tab", 1)]), (True, [Revision()])]
)
def test_the_canvas_never_hears_that_an_edit_was_taken_which_was_not_kept(
    overtaken: bool, told: list[Revision], monkeypatch: pytest.MonkeyPatch
):
    drawn: list[Revision] = []
    monkeypatch.setattr(component, "_last_edit", lambda key: EDIT)
    monkeypatch.setattr(
        component,
        "payload",
        lambda *given, **data: drawn.append(data["taken"]) or payload(*given, **data),
    )
    test = AppTest.from_function(app_that_keeps_edits, default_timeout=30)
    test.session_state["overtaken"] = overtaken
    assert not test.run().exception
    assert drawn == told
    assert test.session_state["_c_taken"] == told[0]


def test_the_bundle_is_one_script_and_one_style_sheet_and_small():
    files = list((PACKAGE / "frontend_dist").iterdir())
    assert sorted(file.suffix for file in files) == [".css", ".js"]
    assert sum(file.stat().st_size for file in files) <= 450_000
