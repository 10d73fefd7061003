"""Widgets that several pages of the studio share.

- ``opened``, ``check_intact``  a stored output as a value; whether it could be opened
- ``facts``, ``counted``        the line under a title, and parts of it
- ``tiles``, ``metric_tile``, ``metric_column``  figures side by side; a metric there or in a table
- ``draw_tabs``                 tabs of which only the open one is drawn
- ``chart``, ``picture``, ``side_by_side``, ``image_format``  plots, and how they are saved
- ``grid``, ``selectable_table``  rows as a table; a table of which one row is selected
- ``download``, ``download_csv``, ``downloads``  data as files
- ``errors_shown``              an error of ours in place of what cannot be drawn
- ``flash``, ``errors_flashed``, ``show_flashes``  messages of a callback, shown by the next drawing
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import streamlit as st

from deepforest.metrics import METRIC_INFO, format_metric
from engine.errors import CorruptObject, SylvaError
from engine.store import Artifact, Store
from engine.text import readable
from engine.values import VALUES
from ui.studio.plots import CONFIG, for_dark
from ui.studio.screen_text import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

HASHED_BYTES = 32_000_000
"""Bytes: larger outputs are not hashed each time they are drawn."""
MAX_CELL = 200
TABS_HEIGHT = 480
"""Pixels: enough for a chart."""
TABLE_HEIGHT = 500
IMAGE_FORMAT = "inspect-camera"
BINARY = "application/octet-stream"
"""The media type of files that a browser only saves."""


# Outputs


def check_intact(output: Artifact, store: Store) -> None:
    """Raise ``CorruptObject`` if the output is gone or was changed; fast, however large it is."""
    if not store.intact(output):
        raise CorruptObject(output.digest, "one of its files is missing or was changed")


def opened(output: Artifact, store: Store) -> Any:
    """Return the value of an output, such as a table or a report.

    Raise ``CorruptObject`` if it is gone or was changed. A large output is not hashed each time it
    is drawn: size and time of its files are checked.
    """
    # ``store.open`` hashes every file, which takes seconds for a large model.
    if output.size <= HASHED_BYTES:
        return store.open(output)
    check_intact(output, store)
    return VALUES[output.type].load(store.workspace.objects / output.digest)


# Texts and figures


def facts(*parts: str) -> None:
    """Draw a line of short facts; empty ones are left out. Names are shown as they are."""
    st.caption(" · ".join(plain(part) for part in parts if part))


def metric_tile(title: str, metric: str, value: Any, more: str = "") -> tuple[str, str, str]:
    """Return a metric as a tile: its title, its value, and its explanation with ``more``."""
    return title, format_metric(metric, value), f"{METRIC_INFO[metric].explanation}{more}"


def metric_column(title: str, metric: str) -> Any:
    """Return the column of a table that holds a metric, as Streamlit's configuration."""
    info = METRIC_INFO[metric]
    style = "percent" if info.percent else "%.4f"
    if info.unit:
        style = "localized"
    return st.column_config.NumberColumn(title, format=style, help=info.explanation)


def tiles(
    figures: Sequence[tuple[str, str, str]], intervals: Mapping[str, str] | None = None
) -> None:
    """Draw figures side by side, as label, figure and explanation.

    ``intervals`` are drawn below the figures, by label. The tiles wrap on a narrow page.
    """
    with st.container(horizontal=True, gap="small"):
        for label, figure, explanation in figures:
            st.metric(
                plain(label),
                plain(figure),
                (intervals or {}).get(label),
                delta_color="off",
                delta_arrow="off",
                help=explanation or None,
                width=152,
            )


def draw_tabs(parts: Mapping[str, Callable[[], None]], key: str) -> None:
    """Draw a tab for each part, and the content of the open one.

    They have a minimum height, so that the page does not jump while another tab is drawn.
    """
    # Streamlit has no minimum height for a container.
    st.html(f"<style>[class*='st-key-held-'] {{ min-height: {TABS_HEIGHT}px; }}</style>")
    with st.container(key=f"held-{key}"):
        containers = st.tabs(list(parts), key=f"{key}-tabs", on_change="rerun")
    by_name = dict(zip(parts, containers, strict=True))
    # If Streamlit reports none of them as open, the first is drawn.
    name = next((name for name, tab in by_name.items() if tab.open), next(iter(parts)))
    with by_name[name]:
        parts[name]()


# Plots


def chart(figure: go.Figure, key: str) -> None:
    """Draw a plot in the colours of the theme; ``key`` must be unique on the page."""
    st.plotly_chart(in_theme(figure), theme="streamlit", config=CONFIG, key=key)


def in_theme(figure: go.Figure) -> go.Figure:
    """Return the figure for the theme: texts in cells need colours of their own in the dark one."""
    return for_dark(figure) if st.context.theme.type == "dark" else figure


def image_format() -> None:
    """Draw the switch for the file format that the camera of a plot saves: PNG or SVG."""
    st.segmented_control(
        "Plots are saved as", ["PNG", "SVG"], default="PNG", required=True, key=IMAGE_FORMAT,
        format_func=lambda form: f":material/photo_camera: {form}", label_visibility="collapsed",
    )  # fmt: skip


def picture(figure: go.Figure, name: str, caption: str) -> None:
    """Draw a plot with a caption under it.

    ``name`` is its key and the name of the file that the camera button saves.
    """
    form = str(st.session_state.get(IMAGE_FORMAT) or "PNG").lower()
    saved = {
        "toImageButtonOptions": {**CONFIG["toImageButtonOptions"], "format": form, "filename": name}
    }
    st.plotly_chart(
        in_theme(figure), theme="streamlit", config=CONFIG | saved, key=f"inspect-plot-{name}"
    )
    st.caption(caption)


def side_by_side(pictures: Sequence[tuple[go.Figure, str, str]]) -> None:
    """Draw plots in columns, all as high as the highest; each is a figure, name and caption."""
    height = max(figure.layout.height for figure, _, _ in pictures)
    for column, (figure, name, caption) in zip(st.columns(len(pictures)), pictures, strict=True):
        with column:
            picture(figure.update_layout(height=height), name, caption)


# Tables


def grid(rows: Sequence[Mapping[str, Any]] | pa.Table, key: str, **settings: Any) -> None:
    """Draw a table that scrolls inside its frame.

    ``rows`` are mappings from column to value, or a table of pyarrow; ``settings`` go to Streamlit.
    """
    data = as_arrow(rows) if isinstance(rows, Sequence) else rows
    st.dataframe(data, hide_index=True, placeholder="–", key=key, **settings)


def as_arrow(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of plain data as a table; a column of mixed values becomes text."""
    import pyarrow as pa

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = _as_column([row.get(name) for row in rows])
    return pa.table(columns)


def _as_column(values: list[Any]) -> pa.Array:
    """Return values as a column; as text if their types do not fit together."""
    import pyarrow as pa

    try:
        return pa.array(values)
    # pyarrow has one error for mixed types, and another for integers beyond 64 bits.
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def short_texts(data: pa.Table) -> pa.Table:
    """Return a table with categories as texts and long texts cut.

    So the few rows that a page shows are never many bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    columns = []
    for column in data.columns:
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_string(column.type) or types.is_large_string(column.type):
            column = pc.utf8_slice_codeunits(column, 0, MAX_CELL)
        columns.append(column)
    return pa.table(columns, names=data.column_names)


def selectable_table(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    address: str,
    *,
    time: str,
    columns: Mapping[str, Any],
) -> None:
    """Draw a table of which one row is selected; a click puts its name into the address.

    Parameters
    ----------
    names : the name of each row, for the address
    address : the parameter of the address that names the selected row
    time : the column that holds milliseconds since 1970
    columns : Streamlit's configuration of the other columns
    """
    import pyarrow as pa

    table, chosen = as_arrow(rows), st.query_params.get(address)
    # Streamlit writes “2 hours ago” only for a column of timestamps.
    table = table.set_column(
        table.column_names.index(time), time, table.column(time).cast(pa.timestamp("ms", "UTC"))
    )
    # Other rows, another widget: a selection is a position, and a new row shifts the others.
    key = f"choose-{address}-{hashlib.sha256(repr(names).encode()).hexdigest()[:12]}"
    st.dataframe(
        table,
        hide_index=True,
        placeholder="–",
        height=min(38 + 35 * len(names), TABLE_HEIGHT),
        column_config={
            time: st.column_config.DatetimeColumn(format="distance", width=132),
            **columns,
        },
        on_select=lambda: _choose(key, names, address),
        selection_mode=["single-row", "single-cell"],
        selection_default={"selection": {"rows": [names.index(chosen)]}}
        if chosen in names
        else None,
        key=key,
    )


def _choose(key: str, names: Sequence[str], address: str) -> None:
    """Put the name of the clicked row into the address."""
    picked = st.session_state[key]["selection"]
    # A click on a cell selects the cell, a tick selects the row.
    rows = [row for row, _ in picked["cells"]] or picked["rows"]
    if rows and rows[0] < len(names):
        st.query_params.from_dict({address: names[rows[0]]})


# Files


def download(
    label: str,
    data: Any,
    file: str,
    kind: str,
    key: str,
    *,
    refused: str | None = None,
    **looks: Any,
) -> None:
    """Draw a button that downloads data; a click does not draw the page again.

    ``kind`` is the media type. If ``data`` is a function, the click calls it. ``refused`` says why
    the data cannot be downloaded; the button is then disabled.
    """
    looks = {"icon": ":material/download:", **looks}
    if refused:
        looks |= {"disabled": True, "help": plain(refused)}
    st.download_button(label, data, file, kind, key=key, on_click="ignore", **looks)


def downloads(
    name: str, rows: Sequence[Mapping[str, Any]], everything: Mapping[str, Any], key: str
) -> None:
    """Draw buttons that download the rows as CSV and everything as JSON.

    ``name`` is the name of the files without ending, ``key`` distinguishes the buttons.
    """
    with st.container(horizontal=True, gap="small"):
        if rows:
            download("Rows as CSV", as_csv(rows), f"{name}.csv", "text/csv", f"{key}-csv")
        text = json.dumps(everything, indent=1, ensure_ascii=False)
        download("All as JSON", text, f"{name}.json", "application/json", f"{key}-json")


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; missing values are empty."""
    text = io.StringIO()
    # Rows may have different columns; what a row does not have stays empty.
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def download_csv(name: str, rows: Sequence[Mapping[str, Any]] | str) -> None:
    """Draw a button that downloads rows, or a text that is CSV already.

    The text is made in advance: a click while the page is drawn again must not be lost.
    """
    data = rows if isinstance(rows, str) else as_csv(rows)
    download("Download data (CSV)", data, f"{name}.csv", "text/csv", f"inspect-{name}-csv")


# Errors and messages


@contextmanager
def errors_shown() -> Iterator[None]:
    """Show an error of ours in place of what cannot be drawn. It is a decorator too."""
    try:
        yield
    except SylvaError as error:
        st.error(plain(readable(str(error))))


@contextmanager
def errors_flashed(page_part: str) -> Iterator[None]:
    """Save an error of ours in a callback, for the next drawing of a part of the page."""
    try:
        yield
    except SylvaError as error:
        flash_error(page_part, error)


def flash(page_part: str, text: str) -> None:
    """Save a message that something was done, for the next drawing.

    ``page_part`` names the part of the page that shows it. A callback cannot draw: what it draws is
    lost.
    """
    st.session_state[f"{page_part}-message"] = text


def flash_error(page_part: str, error: object) -> None:
    """Save a message that something went wrong, for the next drawing."""
    st.session_state[f"{page_part}-error"] = str(error)


def show_flashes(page_part: str) -> None:
    """Show the messages that were saved for this part of the page, once."""
    message = st.session_state.pop(f"{page_part}-message", "")
    if message:
        st.toast(plain(message), icon=":material/check:")
    error = st.session_state.pop(f"{page_part}-error", "")
    if error:
        st.error(plain(readable(error)))
