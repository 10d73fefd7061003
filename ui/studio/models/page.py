"""The Models page: saved models on the left, the chosen one on the right, as the address says.

A model has versions, each with its card, where it comes from, what is inside, and how to use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import streamlit as st

from deepforest.metrics import METRIC_INFO, title_among
from engine.errors import BadInput, SylvaError
from engine.pipeline import Pipeline
from engine.text import counted, size
from nodes.data.samples import PREFIX, source_title
from nodes.models.model import describe_model
from nodes.models.model_card import EvaluationSummary, Origin, find_origin
from nodes.models.registry import MAX_ZIPPED, ModelEntry, Registry, zip_model
from nodes.models.versions import split_reference
from ui.studio import links
from ui.studio.models import serving, use, versions
from ui.studio.models.services import ModelService
from ui.studio.previews.models import show_inside
from ui.studio.screen_text import node_title, plain, task_words, time_of_day
from ui.studio.session import studio
from ui.studio.widgets import (
    download,
    draw_tabs,
    errors_shown,
    facts,
    flash,
    flash_error,
    metric_tile,
    selectable_table,
    show_flashes,
    tiles,
)

ADDRESS = "model"
HOW_TO_GET_ONE = """
**No models yet.** A model is listed here when a pipeline saves it:

1. Open a pipeline under *Build* that trains one, such as an example.
2. Drag **Save model** from the list onto the canvas, connect *Model* with it, and give it a name.
3. Press **Run**. When the node is done, the model is listed here.

Or import a model that was downloaded on another Models page:
"""
REQUESTED_PAGE = "models-way"
"""Where a button saves the page it leads to: a function of ``ui.studio.links``, its arguments."""
MAX_TILES = 4


@errors_shown()
def page() -> None:
    """Draw the list and the chosen model; without models, how to get one."""
    _open_requested_page()
    registry = Registry(studio().workspace)
    entries = registry.entries()
    chosen = st.query_params.get(ADDRESS)
    if not entries and not chosen:
        st.subheader("Models", anchor=False)
        show_flashes("models")
        with st.container(border=True, width=640):
            st.markdown(HOW_TO_GET_ONE)
            versions.draw_import(registry)
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Models", anchor=False)
        show_flashes("models")
        _draw_list(entries, serving.services(registry.workspace).all())
        versions.draw_import(registry)
    with right:
        _draw_chosen(registry, chosen)


def _draw_chosen(registry: Registry, chosen: str | None) -> None:
    """Draw the model that the address names, or why it cannot be shown."""
    if not chosen:
        st.info(
            "Choose a model to see where it comes from, to score a file with it, "
            "or to see how to use it."
        )
        return
    version = st.query_params.get(versions.VERSION)
    try:
        entry = registry.entry(f"{chosen}@{version}" if version else chosen)
        all_versions = registry.versions(entry.name)
    except BadInput as problem:
        st.error(plain(problem.message))
        st.button("All models", on_click=_leave)
        return
    _draw_model(registry, entry, all_versions)


def _leave() -> None:
    """Close the model and show only the list."""
    st.query_params.clear()


# The list


def model_table(
    entries: list[ModelEntry], services: Mapping[str, ModelService]
) -> list[dict[str, object]]:
    """Return the models as rows of the list; one that cannot be read has few values.

    The column of services is there only if a model is served.
    """
    rows = []
    for entry in entries:
        row = _model_row(entry)
        if services:
            state = services[entry.name].state if entry.name in services else None
            row = {"Name": row["Name"], "Service": state, **row}
        rows.append(row)
    return rows


def _model_row(entry: ModelEntry) -> dict[str, object]:
    """Return what the list shows of a model: its version in use."""
    return {
        "Name": entry.name,
        "Version": entry.version,
        "Kind": entry.title or "cannot be read",
        "Result": entry.card.headline or None,
        "Saved": int(entry.saved * 1000),
        "Trained on": entry.rows or None,
        "Size": entry.bytes,
    }


def _draw_list(entries: list[ModelEntry], services: Mapping[str, ModelService]) -> None:
    """Draw the list; a click opens a model."""
    if not entries:
        st.caption("No models.")
        return
    config = st.column_config
    selectable_table(
        model_table(entries, services),
        [entry.name for entry in entries],
        ADDRESS,
        time="Saved",
        columns={
            "Name": config.TextColumn(width=104),
            "Service": config.TextColumn(width=72, help="Start and stop it under Service"),
            "Version": config.NumberColumn(width=60, help="The version in use"),
            "Kind": config.TextColumn(width=88),
            "Result": config.TextColumn(width=92),
            "Trained on": config.NumberColumn(format="localized", width=76, help="Training rows"),
            "Size": config.NumberColumn(format="bytes", width=64),
        },
    )


# One model


def _draw_model(registry: Registry, entry: ModelEntry, all_versions: list[ModelEntry]) -> None:
    """Draw the card of a version of a model and what can be done with it.

    A model that cannot be read shows why, and can only be deleted.
    """
    st.subheader(plain(entry.name), anchor=False)
    versions.draw_choice(registry, entry, all_versions)
    if entry.problem:
        st.error(plain(entry.problem[:1].upper() + entry.problem[1:]) + ".")
        _draw_delete(registry, entry, len(all_versions))
        return
    if entry.note:
        st.markdown(plain(entry.note))
    _draw_facts(entry)
    _draw_links(registry, entry, find_origin(entry.card, registry.workspace), len(all_versions))
    _draw_measures(entry)
    folder, key = registry.folder_of(entry.reference), f"model-{entry.name}"
    draw_tabs(
        {
            "Score a file": lambda: use.draw_scoring(registry, entry),
            "Versions": lambda: versions.draw_versions(registry, entry, all_versions),
            "Service": lambda: serving.draw_service(registry, entry),
            "How to use it": lambda: use.draw_usage(registry, entry),
            "Inside": lambda: show_inside(folder, describe_model(folder), f"{key}-inside"),
        },
        key,
    )


# The card


def _draw_facts(entry: ModelEntry) -> None:
    """Draw the facts of a model, and the data, pipeline and run it comes from."""
    facts(
        entry.title,
        task_words(entry.classes),
        counted(len(entry.features), "feature"),
        f"trained on {counted(entry.rows, 'row')}",
        size(entry.bytes),
        f"saved {time_of_day(entry.saved)}",
        f"imported from {entry.card.imported}" if entry.card.imported else "",
    )
    for sentence in entry.decision:
        st.caption(plain(sentence))
    if entry.card.run or entry.card.imported:
        from_where = [_source_words(source.name, source.rows) for source in entry.card.data]
        pipeline = f"pipeline {entry.card.pipeline}" if entry.card.pipeline else ""
        facts(
            f"data {', '.join(from_where)}" if from_where else "",
            pipeline,
            f"run {entry.card.run}" if entry.card.run else "",
        )


def _source_words(name: str, rows: int | None) -> str:
    """Return a table with the number of its rows, if that is known."""
    title = source_title(name)
    return f"{title} ({counted(rows, 'row')})" if rows is not None else title


def _draw_measures(entry: ModelEntry) -> None:
    """Draw the metrics of the first evaluation on the card."""
    for evaluation in entry.card.evaluations[:1]:
        tiles(metric_tiles(evaluation))
        st.caption(plain(evaluation_text(evaluation, _pipeline_of(entry))))


def _pipeline_of(entry: ModelEntry) -> Pipeline | None:
    """Return the pipeline of the run that saved a model; None if the run is no longer stored."""
    with suppress(SylvaError, OSError):
        return studio().runs.pipeline(entry.card.run) if entry.card.run else None
    return None


def evaluation_text(evaluation: EvaluationSummary, pipeline: Pipeline | None) -> str:
    """Return on which rows a model was evaluated, as far as its pipeline is known.

    For example: ``Deep forest, evaluated in its run on: Test rows of “Split”.``
    """
    name, _, port_name = evaluation.table.rpartition(".")
    node = pipeline.nodes.get(name) if pipeline else None
    node_type = studio().catalog.get(node.type) if node else None
    port = node_type.output(port_name) if node_type else None
    if node is None or port is None:
        return f"{evaluation.title}, evaluated in its run."
    title = node_title(node, studio().catalog)
    return f"{evaluation.title}, evaluated in its run on: {port.title} of “{title}”."


def metric_tiles(evaluation: EvaluationSummary) -> list[tuple[str, str, str]]:
    """Return the metrics of an evaluation as tiles, the most important first."""
    known = [name for name in METRIC_INFO if evaluation.metrics.get(name) is not None][:MAX_TILES]
    metrics = evaluation.metrics
    return [metric_tile(title_among([metrics], name), name, metrics[name]) for name in known]


def _draw_links(registry: Registry, entry: ModelEntry, origin: Origin, n_versions: int) -> None:
    """Draw buttons to where the model comes from, its download and its deletion."""
    sources = () if entry.card.imported else entry.card.data
    data = [source.name for source in sources if not source.name.startswith(PREFIX)][:1]
    with st.container(horizontal=True, vertical_alignment="center"):
        if origin.run:
            _link_button("Run", ":material/history:", "to_run", origin.run)
        if origin.run and origin.layers:
            _link_button(
                "Inspect layers", ":material/layers:", "to_inspect", origin.run, origin.layers
            )
        if origin.pipeline:
            _link_button("Pipeline", ":material/account_tree:", "to_build", origin.pipeline)
        if data:
            _link_button("Data", ":material/table:", "to_data", data[0])
        _draw_download(registry, entry)
        _draw_delete(registry, entry, n_versions)


def _link_button(label: str, icon: str, *link: str) -> None:
    """Draw a button that leads to another page."""
    st.button(label, icon=icon, key=f"model-{link[0]}", on_click=_request_page, args=link)


def _request_page(*link: str) -> None:
    """Remember the page that a button leads to, until ``_open_requested_page``."""
    st.session_state[REQUESTED_PAGE] = link


def _open_requested_page() -> None:
    """Switch to the page that a button asked for.

    Callbacks cannot switch pages. The next drawing of the page does, even if one was cancelled
    before.
    """
    if REQUESTED_PAGE in st.session_state:
        link, *address = st.session_state.pop(REQUESTED_PAGE)
        getattr(links, link)(*address)


def _draw_download(registry: Registry, entry: ModelEntry) -> None:
    """Draw the download of the model as a ZIP archive, unless it is too large."""
    refused = None
    if entry.bytes > MAX_ZIPPED:
        refused = (
            "The model is too large for the browser. Copy its folder in the workspace instead."
        )
    download(
        "Download",
        lambda: zip_model(registry.folder_of(use.reference_of(entry))),
        f"{use.reference_of(entry)}.zip",
        "application/zip",
        "model-download",
        icon=None,
        type="tertiary",
        help="All files of the model as a ZIP archive.",
        refused=refused,
    )


def _draw_delete(registry: Registry, entry: ModelEntry, n_versions: int) -> None:
    """Draw the deletion, which asks first: of the shown version, or of all if it is in use."""
    with st.popover("Delete", type="tertiary"):
        if entry.in_use:
            which = f" with its {n_versions} versions" if n_versions > 1 else ""
            question, reference = f"the model “{plain(entry.name)}”{which}", entry.name
        else:
            question = f"version {entry.version} of the model “{plain(entry.name)}”"
            reference = entry.reference
        again = "Its run is not deleted; run it again to save the model."
        if entry.card.imported:
            again = "The file that it was imported from is not deleted."
        st.write(f"Delete {question}? {again}")
        delete = partial(_delete, registry, reference)
        st.button("Delete it", type="primary", key="model-delete", on_click=delete)


def _delete(registry: Registry, reference: str) -> None:
    """Delete a version, or a model; whatever uses it is stopped before."""
    name, version = split_reference(reference)
    try:
        # A job reads the files of the model until it ends.
        use.jobs().cancel_all_of(reference)
        if version is None:
            serving.services(registry.workspace).stop(name)
        registry.delete(reference)
        st.query_params.pop(versions.VERSION, None)
        if version is None:
            st.query_params.pop(ADDRESS, None)
        what = f"The model {name}" if version is None else f"Version {version} of {name}"
        flash("models", f"{what} was deleted.")
    except (SylvaError, OSError) as error:
        flash_error("models", f"The model could not be deleted: {error}")
