"""What an output port shows: a table, predictions, a report, a model.

- ``show_output``  draws any output of the store
- ``headline``     the one figure of a report that a list of runs shows
"""

from __future__ import annotations

import logging

import streamlit as st

from engine.errors import CorruptObject, SylvaError
from engine.store import Artifact, Store
from ui.studio.markdown import plain
from ui.studio.previews.models import show_layers, show_model
from ui.studio.previews.predictions import show_predictions
from ui.studio.previews.reports import headline, show_report
from ui.studio.previews.tables import show_table

__all__ = ["headline", "show_output"]

SHOWN = {
    "table": show_table,
    "predictions": show_predictions,
    "report": show_report,
    "model": show_model,
    "layers": show_layers,
}


def show_output(output: Artifact, store: Store, *, title: str, key: str) -> None:
    """Draw an output. ``key`` tells its widgets apart from those of other previews; an empty title draws none."""
    if title:
        st.subheader(plain(title), anchor=False)
    _draw(output, store, key)


@st.fragment
def _draw(output: Artifact, store: Store, key: str) -> None:
    """A fragment: choosing a tab or a column draws this preview again and not the page."""
    if output.type not in SHOWN:
        st.info(f"There is no preview for outputs of type {plain(output.type)}.")
        return
    try:
        SHOWN[output.type](output, store, key)
    except CorruptObject:
        st.warning("This output is damaged or no longer in the store. Run the node again to restore it.")
    except SylvaError as error:
        st.warning(f"This output cannot be shown: {plain(str(error))} Run the node again to restore it.")
    except Exception:  # what is stored may have been written by any version of any node
        logging.getLogger(__name__).exception("preview of %s %s", output.type, output.digest)
        st.warning("This output cannot be read. Run the node again; if that does not help, it is a bug in Sylva.")
