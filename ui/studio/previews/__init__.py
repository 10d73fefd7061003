"""Preview an output: a table, predictions, a report, a model, or inspected layers.

- ``show_output``  draws any output of the store
- ``Maker``        the node that made it, and the names of the results of its pipeline
- ``headline``     the one figure of a report that a list of runs shows
"""

from __future__ import annotations

import logging

import streamlit as st

from engine.errors import CorruptObject, SylvaError
from engine.store import Artifact, Store
from ui.studio.previews.models import show_layers, show_model
from ui.studio.previews.reports import Maker, headline, show_report
from ui.studio.previews.tables import show_predictions, show_table
from ui.studio.screen_text import plain

__all__ = ["Maker", "headline", "show_output"]

SHOWN = {
    "table": show_table,
    "model": show_model,
    "layers": show_layers,
}


def show_output(
    output: Artifact, store: Store, *, title: str, key: str, maker: Maker | None = None
) -> None:
    """Draw an output of the store.

    Parameters
    ----------
    title : drawn above the preview; an empty one is not drawn
    key : distinguishes its widgets from those of other previews
    maker : the node that made it; without it, models have the titles of their types
    """
    if title:
        st.subheader(plain(title), anchor=False)
    _draw(output, store, key, maker or Maker())


@st.fragment
def _draw(output: Artifact, store: Store, key: str, maker: Maker) -> None:
    """Draw the preview as a fragment: choosing a tab draws this preview again, and not the page.

    A damaged or unreadable output shows a warning and never a traceback.
    """
    try:
        if output.type == "report":
            show_report(output, store, key, maker)
        elif output.type == "predictions":
            show_predictions(output, store, key, maker.name)
        elif output.type in SHOWN:
            SHOWN[output.type](output, store, key)
        else:
            st.info(f"Outputs of type {plain(output.type)} have no preview.")
    except CorruptObject:
        st.warning("This output is damaged or was deleted. Run the node again to restore it.")
    except SylvaError as error:
        st.warning(
            f"This output cannot be shown: {plain(str(error))} Run the node again to restore it."
        )
    # What is stored may have been written by any version of any node.
    except Exception:
        logging.getLogger(__name__).exception("preview of %s %s", output.type, output.digest)
        st.warning(
            "This output cannot be read. Run the node again. "
            "If that does not help, report it as a bug."
        )
