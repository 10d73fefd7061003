"""What all previews are made of.

- ``opened``     an output as a value; ``check_there``: only that it could be
- ``facts``      the line under the title
- ``tiles``      figures side by side
- ``tabs``       tabs of which only the open one is drawn
- ``chart``      a figure of ``ui.studio.plots``; ``in_theme``: readable in the theme that is seen
- ``grid``       rows as a table
- ``downloads``  rows as CSV, all as JSON
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from engine.errors import CorruptObject
from engine.store import Artifact, Store
from engine.values import VALUES
from ui.studio.markdown import plain
from ui.studio.plots import CONFIG, for_dark

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa
    from streamlit.elements.lib.mutable_tab_container import TabContainer

HASHED_BYTES = 32_000_000
"""Outputs up to this size are hashed each time they are drawn; of larger ones size and time are looked at."""
LONGEST_CELL = 200
TABS_HEIGHT = 480
"""Enough for a chart."""


def check_there(output: Artifact, store: Store) -> None:
    """``CorruptObject`` if the output is gone or was touched since it was written; quick, however large it is."""
    if not store.intact(output):
        raise CorruptObject(output.digest, "a file of it is gone or has changed on disk")


def opened(output: Artifact, store: Store) -> Any:
    """The value of an output; ``CorruptObject`` if it is gone or not what was written."""
    if output.size <= HASHED_BYTES:
        return store.open(output)
    check_there(output, store)
    return VALUES[output.type].load(store.workspace.objects / output.digest)


def facts(parts: Iterable[str]) -> None:
    """A line of short facts; names in it are shown as they are, whatever they hold."""
    st.caption(" · ".join(plain(part) for part in parts if part))


def tiles(figures: Sequence[tuple[str, str, str]]) -> None:
    """Label, figure and explanation of each, side by side and wrapped where there is no room."""
    with st.container(horizontal=True, gap="small"):
        for label, figure, explanation in figures:
            st.metric(plain(label), plain(figure), help=explanation or None, width=152)


def tabs(names: Sequence[str], key: str) -> Sequence[TabContainer]:
    """Tabs of which the caller draws the open one; the page keeps its length meanwhile, so that it does not jump."""
    st.html(f"<style>[class*='st-key-held-'] {{ min-height: {TABS_HEIGHT}px; }}</style>")
    with st.container(key=f"held-{key}"):
        return st.tabs(names, key=f"{key}-tabs", on_change="rerun")


def chart(figure: go.Figure, key: str) -> None:
    """A plot in the colours of the theme."""
    st.plotly_chart(in_theme(figure), theme="streamlit", config=CONFIG, key=key)


def in_theme(figure: go.Figure) -> go.Figure:
    """The figure with the texts in its cells readable; all else takes the colours of the theme by itself."""
    return for_dark(figure) if st.context.theme.type == "dark" else figure


def grid(rows: Sequence[Mapping[str, Any]] | pa.Table, key: str, **settings: Any) -> None:
    """A table that scrolls inside its frame."""
    data = as_arrow(rows) if isinstance(rows, Sequence) else rows
    st.dataframe(data, hide_index=True, placeholder="–", key=key, **settings)


def as_arrow(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of plain data as columns; a column of mixed values becomes text."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _as_column([row.get(name) for row in rows]) for name in names})


def _as_column(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def short_texts(data: pa.Table) -> pa.Table:
    """Categories as texts and long texts cut, so that a few rows never are many bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    columns = []
    for column in data.columns:
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_string(column.type) or types.is_large_string(column.type):
            column = pc.utf8_slice_codeunits(column, 0, LONGEST_CELL)
        columns.append(column)
    return pa.table(columns, names=data.column_names)


def downloads(name: str, rows: Sequence[Mapping[str, Any]], everything: Mapping[str, Any], key: str) -> None:
    """Buttons that save the rows as CSV and the whole as JSON."""
    with st.container(horizontal=True, gap="small"):
        if rows:
            st.download_button(
                "Rows as CSV", as_csv(rows), f"{name}.csv", "text/csv", key=f"{key}-csv",
                on_click="ignore", icon=":material/download:",
            )  # fmt: skip
        text = json.dumps(everything, indent=1, ensure_ascii=False)
        st.download_button(
            "All as JSON", text, f"{name}.json", "application/json", key=f"{key}-json",
            on_click="ignore", icon=":material/download:",
        )  # fmt: skip


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; what is none is empty."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
