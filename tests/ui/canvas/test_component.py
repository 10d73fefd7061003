from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

from streamlit.testing.v1 import AppTest

import ui.canvas

PACKAGE = Path(ui.canvas.__file__).parent


def app() -> None:
    import streamlit as st

    from engine.catalogue import load_catalogue
    from engine.document import Document, Node
    from ui.canvas import canvas

    document = Document(name="One", nodes={"load": Node(type="load-data")})
    seen: list[Document] = []
    result = canvas(document, epoch=0, catalogue=load_catalogue(), problems=lambda now: seen.append(now) or [], key="c")
    assert seen == [document]
    assert result.document is document and not result.edited(document)
    assert (result.selection, result.port, result.run, result.refused) == ((), None, None, None)
    st.write("drawn")


def test_a_page_with_the_canvas_is_drawn_and_drawn_again():
    test = AppTest.from_function(app, default_timeout=30).run()
    assert not test.exception
    assert test.markdown[0].value == "drawn"
    assert not test.run().exception


def test_the_bundle_is_one_script_and_one_style_sheet_and_small():
    files = list((PACKAGE / "frontend_dist").iterdir())
    assert sorted(file.suffix for file in files) == [".css", ".js"]
    assert sum(file.stat().st_size for file in files) <= 400_000
