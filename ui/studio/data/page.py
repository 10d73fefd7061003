"""The Data page: the tables of the workspace on the left, the chosen one on the right."""

from __future__ import annotations

import streamlit as st

from engine.errors import SylvaError
from nodes.data.files import DataFile, list_files
from nodes.data.samples import PREFIX
from ui.studio.data.table_view import draw_table, open_new_pipeline
from ui.studio.data.upload import draw_upload
from ui.studio.markdown import plain
from ui.studio.session import studio
from ui.studio.widgets import selectable_table, show_flashes

ADDRESS = "file"
SAMPLE_TITLES = {
    "digits": "Digits", "breast-cancer": "Breast cancer", "wine": "Wine", "iris": "Iris", "fraud": "Payments",
}  # fmt: skip


def page() -> None:
    """Draw the page, or why it cannot be drawn."""
    try:
        _draw()
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw() -> None:
    """Draw upload and list on the left, and the table that the address names on the right."""
    open_new_pipeline()
    chosen = st.query_params.get(ADDRESS)
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.subheader("Data", anchor=False)
        show_flashes("data")
        saved = draw_upload()
        if saved:
            st.query_params.from_dict({ADDRESS: saved})
            st.rerun()
        _draw_list(list_files(studio().files))
        _draw_samples(chosen)
    with right:
        if chosen:
            draw_table(chosen)
        else:
            st.info("Choose a table to see its rows and columns, or add one of your own.")


# The list


def file_table(files: list[DataFile]) -> list[dict[str, object]]:
    """Return the files as rows of the list."""
    return [
        {"Name": file.name, "Rows": file.rows, "Columns": file.columns, "Size": file.size,
         "Changed": int(file.modified * 1000)}
        for file in files
    ]  # fmt: skip


def _draw_list(files: list[DataFile]) -> None:
    """Draw the files of the workspace; a click opens one."""
    if not files:
        st.caption("No files yet. Add one above, or copy it into the folder:")
        st.code(str(studio().files.data), language=None, wrap_lines=True)
        return
    config = st.column_config
    selectable_table(
        file_table(files),
        [file.name for file in files],
        ADDRESS,
        time="Changed",
        columns={
            "Name": config.TextColumn(width=150),
            "Rows": config.NumberColumn(format="localized", width=64),
            "Columns": config.NumberColumn(format="localized", width=72),
            "Size": config.NumberColumn(format="bytes", width=72),
        },
    )


def _draw_samples(chosen: str | None) -> None:
    """Draw buttons for the tables that come with the studio."""
    st.caption("Tables that come with the studio")
    with st.container(horizontal=True, gap="small"):
        for name, title in SAMPLE_TITLES.items():
            source = f"{PREFIX}{name}"
            st.button(
                title, key=f"data-sample-{name}",
                type="primary" if source == chosen else "secondary", on_click=_choose_sample, args=(source,),
            )  # fmt: skip


def _choose_sample(source: str) -> None:
    """Open a sample."""
    st.query_params.from_dict({ADDRESS: source})
