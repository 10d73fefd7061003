"""A list of things of which one is looked at; the address says which."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.studio.previews.parts import as_arrow

MOST_HEIGHT = 500


def selectable_table(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], address: str, *, time: str, columns: Mapping[str, Any]
) -> None:
    """Draw the rows as a table; a click puts the name of its row into the address, in place of all that it said.

    ``time`` is the column that holds milliseconds since 1970; ``columns`` say how the others look.
    """
    import pyarrow as pa

    table, chosen = as_arrow(rows), st.query_params.get(address)
    table = table.set_column(table.column_names.index(time), time, table.column(time).cast(pa.timestamp("ms", "UTC")))
    key = f"choose-{address}-{hashlib.sha256(repr(names).encode()).hexdigest()[:12]}"  # a new row shifts the others
    st.dataframe(
        table,
        hide_index=True,
        placeholder="–",
        height=min(38 + 35 * len(names), MOST_HEIGHT),
        column_config={time: st.column_config.DatetimeColumn(format="distance", width=132), **columns},
        on_select=lambda: _choose(key, names, address),
        selection_mode=["single-row", "single-cell"],
        selection_default={"selection": {"rows": [names.index(chosen)]}} if chosen in names else None,
        key=key,
    )


def _choose(key: str, names: Sequence[str], address: str) -> None:
    picked = st.session_state[key]["selection"]
    rows = [row for row, _ in picked["cells"]] or picked["rows"]
    if rows and rows[0] < len(names):
        st.query_params.from_dict({address: names[rows[0]]})
