"""Data: the tables of the workspace on the left, the chosen one on the right, as the address says."""

from __future__ import annotations

import hashlib

import streamlit as st

from engine.errors import SylvaError
from nodes._samples import NAMES, PREFIX
from ui.data.files import DataFile, listing
from ui.data.upload import draw_upload
from ui.data.view import draw_file, go_on, words_left
from ui.previews.parts import as_arrow
from ui.studio import studio
from ui.text import plain

ADDRESS = "file"
SAMPLE_TITLES = {
    "digits": "Digits", "breast-cancer": "Breast cancer", "wine": "Wine", "iris": "Iris", "fraud": "Payments",
}  # fmt: skip
MOST_HEIGHT = 420


def page() -> None:
    """Draw the page."""
    try:
        _draw()
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw() -> None:
    go_on()
    chosen = st.query_params.get(ADDRESS)
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.subheader("Data", anchor=False)
        words_left()
        if kept := draw_upload():
            st.query_params[ADDRESS] = kept
            st.rerun()
        _draw_list(listing(studio().files), chosen)
        _draw_samples(chosen)
    with right:
        if chosen:
            draw_file(chosen)
        else:
            st.info("Choose a table to look into it, or add one of your own.")


# The list


def file_table(files: list[DataFile]) -> list[dict[str, object]]:
    """The files as the list shows them."""
    return [
        {"Name": file.name, "Rows": file.rows, "Columns": file.columns, "Size": file.size,
         "Changed": int(file.modified * 1000)}
        for file in files
    ]  # fmt: skip


def _draw_list(files: list[DataFile], chosen: str | None) -> None:
    if not files:
        st.caption("No files yet. Add one above, or copy it into the folder:")
        st.code(str(studio().files.data), language=None, wrap_lines=True)
        return
    import pyarrow as pa

    names = [file.name for file in files]
    table = as_arrow(file_table(files))
    changed = table.column("Changed").cast(pa.timestamp("ms", "UTC"))
    table = table.set_column(table.column_names.index("Changed"), "Changed", changed)
    key = f"data-files-{hashlib.sha256(repr(names).encode()).hexdigest()[:12]}"  # a new file shifts the rows
    config = st.column_config
    st.dataframe(
        table,
        hide_index=True,
        placeholder="–",
        height=min(38 + 35 * len(files), MOST_HEIGHT),
        column_config={
            "Name": config.TextColumn(width=170),
            "Rows": config.NumberColumn(format="localized", width=64),
            "Columns": config.NumberColumn(format="localized", width=72),
            "Size": config.NumberColumn(format="bytes", width=72),
            "Changed": config.DatetimeColumn(format="distance", width=112),
        },
        on_select=lambda: _choose(key, names),
        selection_mode=["single-row", "single-cell"],
        selection_default={"selection": {"rows": [names.index(chosen)]}} if chosen in names else None,
        key=key,
    )


def _choose(key: str, names: list[str]) -> None:
    picked = st.session_state[key]["selection"]
    rows = [row for row, _ in picked["cells"]] or picked["rows"]
    if rows and rows[0] < len(names):
        st.query_params[ADDRESS] = names[rows[0]]


def _draw_samples(chosen: str | None) -> None:
    st.caption("Tables that come with the studio")
    with st.container(horizontal=True, gap="small"):
        for name in NAMES:
            source = f"{PREFIX}{name}"
            st.button(
                SAMPLE_TITLES.get(name, name), key=f"data-sample-{name}",
                type="primary" if source == chosen else "secondary", on_click=_choose_sample, args=(source,),
            )  # fmt: skip


def _choose_sample(source: str) -> None:
    st.query_params[ADDRESS] = source
