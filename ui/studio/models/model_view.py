"""One model: its card, where it comes from, what is inside, how to use it."""

from __future__ import annotations

import streamlit as st

from deepforest.metrics import METRIC_INFO, format_metric, title_among
from engine.errors import SylvaError
from engine.text import counted, size
from nodes.data.samples import PREFIX
from nodes.models.encoder import TableEncoder
from nodes.models.model import describe_model
from nodes.models.model_card import EvaluationSummary, Origin, find_origin
from nodes.models.registry import MAX_ZIPPED, ModelEntry, Registry, zip_model
from ui.studio import links
from ui.studio.markdown import plain, time_of_day
from ui.studio.models import score_view as scoring
from ui.studio.models import usage_examples
from ui.studio.models.usage_examples import Call
from ui.studio.previews.models import show_inside
from ui.studio.session import studio
from ui.studio.widgets import facts, flash, flash_error, tiles

WAY = "models-way"
"""Where a button leaves the page it leads to: a name of ``ui.studio.links``, and what it is given."""
MAX_TILES = 4


def draw_model(registry: Registry, entry: ModelEntry) -> None:
    """Draw the card and what can be done with the model."""
    st.subheader(plain(entry.name), anchor=False)
    if entry.problem:
        st.error(plain(entry.problem[:1].upper() + entry.problem[1:]) + ".")
        _draw_delete(registry, entry)
        return
    _draw_facts(entry)
    _draw_ways(registry, entry, find_origin(entry.card, registry.workspace))
    _draw_measures(entry)
    score, call, inside = st.tabs(
        ["Score a file", "How to use it", "Inside"], key=f"model-{entry.name}-tabs", on_change="rerun"
    )
    if call.open:
        with call:
            _draw_calls(registry, entry)
    elif inside.open:
        with inside:
            folder = registry.folder_of(entry.name)
            show_inside(folder, describe_model(folder), f"model-{entry.name}-inside")
    else:
        with score:
            scoring.draw_scoring(registry, entry)


# The card


def _draw_facts(entry: ModelEntry) -> None:
    facts(
        [
            entry.title,
            counted(len(entry.classes), "class", "classes"),
            counted(len(entry.features), "feature"),
            f"trained on {counted(entry.rows, 'row')}",
            size(entry.bytes),
            f"saved {time_of_day(entry.saved)}",
        ]
    )
    if entry.card.run:
        from_where = [_source_words(source.name, source.rows) for source in entry.card.data]
        pipeline = f"pipeline {entry.card.pipeline}" if entry.card.pipeline else ""
        facts([f"data {', '.join(from_where)}" if from_where else "", pipeline, f"run {entry.card.run}"])


def _source_words(name: str, rows: int | None) -> str:
    return f"{name} ({counted(rows, 'row')})" if rows is not None else name


def _draw_measures(entry: ModelEntry) -> None:
    for evaluation in entry.card.evaluations[:1]:
        tiles(metric_tiles(evaluation))
        st.caption(plain(evaluation_text(evaluation)))


def evaluation_text(evaluation: EvaluationSummary) -> str:
    """Return ``Deep forest, evaluated in its run on the rows “test” of the node “split”.``"""
    node, _, port = evaluation.table.rpartition(".")
    return f"{evaluation.title}, evaluated in its run on the rows “{port}” of the node “{node}”."


def metric_tiles(evaluation: EvaluationSummary) -> list[tuple[str, str, str]]:
    """Return the metrics as tiles, the most important first."""
    known = [name for name in METRIC_INFO if evaluation.metrics.get(name) is not None][:MAX_TILES]
    return [
        (
            title_among([evaluation.metrics], name),
            format_metric(name, evaluation.metrics[name]),
            METRIC_INFO[name].explanation,
        )
        for name in known
    ]


def _draw_ways(registry: Registry, entry: ModelEntry, origin: Origin) -> None:
    """Buttons to where it comes from, and what can be done with it as a whole."""
    data = [source.name for source in entry.card.data if not source.name.startswith(PREFIX)][:1]
    with st.container(horizontal=True, vertical_alignment="center"):
        if origin.run:
            _way("Run", ":material/history:", "to_run", origin.run)
        if origin.run and origin.layers:
            _way("Inspect layers", ":material/layers:", "to_inspect", origin.run, origin.layers)
        if origin.pipeline:
            _way("Pipeline", ":material/account_tree:", "to_build", origin.pipeline)
        if data:
            _way("Data", ":material/table:", "to_data", data[0])
        _draw_download(registry, entry)
        _draw_delete(registry, entry)


def _way(label: str, icon: str, *wish: str) -> None:
    st.button(label, icon=icon, key=f"model-{wish[0]}", on_click=_wish, args=wish)


def _wish(*wish: str) -> None:
    st.session_state[WAY] = wish


def go_on() -> None:
    """Switch to the page that a button asked for; a drawing that was cut short meanwhile loses nothing."""
    if WAY in st.session_state:
        link, *address = st.session_state.pop(WAY)
        getattr(links, link)(*address)


def _draw_download(registry: Registry, entry: ModelEntry) -> None:
    small = entry.bytes <= MAX_ZIPPED
    st.download_button(
        "Download", lambda: zip_model(registry.folder_of(entry.name)), f"{entry.name}.zip", "application/zip",
        on_click="ignore", type="tertiary", disabled=not small, key="model-download",
        help="All its files as a ZIP archive." if small else "It is too large for the browser; copy its folder.",
    )  # fmt: skip


def _draw_delete(registry: Registry, entry: ModelEntry) -> None:
    with st.popover("Delete", type="tertiary"):
        st.write(f"Delete the model “{plain(entry.name)}”? Its run stays; a new run saves it again.")
        st.button("Delete it", type="primary", key="model-delete", on_click=_delete, args=(registry, entry.name))


def _delete(registry: Registry, name: str) -> None:
    try:
        scoring.jobs().cancel_all_of(name)
        registry.delete(name)
        st.query_params.pop("model", None)
        flash("models", f"The model {name} was deleted.")
    except (SylvaError, OSError) as error:
        flash_error("models", f"The model could not be deleted: {error}")


# How to use it


def _draw_calls(registry: Registry, entry: ModelEntry) -> None:
    call = Call(entry.name, studio().workspace.root)
    row = usage_examples.example_row(TableEncoder.from_json(describe_model(registry.folder_of(entry.name))["encoder"]))
    st.markdown("**Command line.** A file of any size, block by block; CSV, Parquet or Arrow comes out.")
    st.code(usage_examples.command_line(call), language="bash", wrap_lines=True)
    st.markdown("**REST.** Start the service, then send rows; the page at the same address explains the rest.")
    st.code(usage_examples.service(call), language="bash", wrap_lines=True)
    st.code(usage_examples.request(row), language="bash", wrap_lines=True, height=260 if len(row) > 20 else "content")
    st.markdown("**Python.** In an environment in which Sylva is installed.")
    st.code(usage_examples.python(call), language="python")
