"""Draw the panel beside the canvas.

It has the settings, the output and the log of the selected node, or facts about the pipeline if
none is selected. The canvas decides whether the panel is open, and how wide it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Literal, get_args

import streamlit as st

from engine.edits import revise_params, revise_sweep, set_description, set_label, set_settings
from engine.node_types import NodeType
from engine.pipeline import Node, NodeSettings, Pipeline
from engine.run_state import NodeState
from engine.sweeps import has_evaluation
from engine.text import duration
from engine.validation import columns_for
from nodes.models.ranking import ranked_on, rows_text
from nodes.models.registry import Registry
from ui.studio import links
from ui.studio.builder.node_log import draw_log
from ui.studio.builder.open_pipeline import OpenPipeline, Part
from ui.studio.builder.outputs import draw_output
from ui.studio.builder.pipeline_list import FIVE_STEPS
from ui.studio.forms.fields import specs_of
from ui.studio.forms.form import ParamsEdit
from ui.studio.forms.node_form import node_form
from ui.studio.forms.sweep import SweepEdit, can_sweep, in_sweep, sweep_form
from ui.studio.screen_text import field_title, node_title, plain, problem_in_form, time_of_day
from ui.studio.session import studio

KEYS = """
`/` or double-click: add a node · `Ctrl+Z`, `Ctrl+Shift+Z`: undo, redo ·
`Ctrl+C`, `Ctrl+V`: copy, paste · `Del`: delete · `E`: connect · `F`: see all · `N`: note ·
`Ctrl+Enter`: run
"""

LIMITS: dict[str, tuple[str, int, int] | tuple[str, float, float]] = {
    "retries": ("Retries", 0, 10),
    "timeout": ("Timeout (seconds)", 0.001, 1e7),
    "memory_limit": ("Memory limit (MB)", 1, 100_000_000),
}
"""Title, least and most of each limit of a node."""
MOST_FILES = 2_000


def panel(opened: OpenPipeline, chosen: Sequence[str]) -> None:
    """Draw what belongs to the selection: one node, several nodes, or the whole pipeline."""
    if len(chosen) == 1 and chosen[0] in opened.pipeline.nodes:
        _of_node(opened, chosen[0])
    elif chosen:
        st.markdown(f"**{len(chosen)} nodes**")
        st.caption(
            "You can move, group, copy or delete them together. Select one to see its settings."
        )
    else:
        _of_pipeline(opened)


def _of_pipeline(opened: OpenPipeline) -> None:
    """Draw the name, the description and the keys; for an empty pipeline, how to begin."""
    if not opened.pipeline.nodes:
        st.markdown("**Build it in five steps**")
        st.markdown(FIVE_STEPS)
    else:
        st.markdown(f"**{plain(opened.pipeline.name)}**")
        st.caption("Click a node to see its result and its settings.")
    _description(opened)
    _last_run(opened)
    st.caption(KEYS)


def _last_run(opened: OpenPipeline) -> None:
    """Draw when the pipeline was run last, with a way to that run."""
    run = opened.run
    if run is None:
        return
    took = f" in {duration(run.finished - run.started)}" if run.finished and run.started else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Last run at {time_of_day(run.created)}: {run.state}{took}")
        # Without the pages of the studio, as in a test, there is nothing to link to.
        if links.PAGES in st.session_state and st.button("Open the run", type="tertiary"):
            links.to_run(run.id)


def _description(opened: OpenPipeline) -> None:
    """Draw the description of the pipeline, which can be edited."""
    text = opened.pipeline.description
    key = f"{opened.pipeline_id}/description/{hash(text)}"  # another text, another widget

    def save() -> None:
        """Save the description."""
        opened.try_edit(lambda pipeline: set_description(pipeline, st.session_state[key]))

    st.text_area(
        "Description",
        text,
        key=key,
        on_change=save,
        max_chars=10_000,
        height=100,
        placeholder="What the pipeline is for",
    )


def _of_node(opened: OpenPipeline, name: str) -> None:
    """Draw the panel of a node: its title, its error, and one of its parts."""
    node = opened.pipeline.nodes[name]
    node_type = opened.catalog.get(node.type)
    st.markdown(f"#### {plain(node_title(node, opened.catalog))}")
    if node_type is None:
        st.error(
            f"The node type “{plain(node.type)}” is not installed. "
            "Install the package that has it, or delete the node."
        )
        return
    if node.bypass:
        st.info("Bypassed: a run passes its input on unchanged. Press B on the canvas to use it.")
    for state in _failed(opened, name):
        failure(state, node_type)
    shown = opened.part_of(name)
    with st.container(horizontal=True, gap="small", key="parts"):
        for part in get_args(Part):
            looks: Literal["secondary", "tertiary"] = "secondary" if part == shown else "tertiary"
            st.button(
                part, key=f"part-{part}", type=looks, on_click=_open_part, args=(opened, name, part)
            )
    # Another node or part has another container: the browser starts at its top again.
    with st.container(key=f"part-of-{name}-{shown}"):
        match shown:
            case "Settings":
                _settings(opened, name, node, node_type)
            case "Output":
                draw_output(opened, name)
            case "Log":
                draw_log(opened, name)


def _open_part(opened: OpenPipeline, name: str, part: Part) -> None:
    """Open a part of the panel of a node."""
    opened.shown_part = name, part


def _settings(opened: OpenPipeline, name: str, node: Node, node_type: NodeType) -> None:
    """Draw the form of a node, its sweep, its name and limits."""
    st.caption(plain(node_type.summary))
    problems = [
        problem_in_form(problem, opened.pipeline, opened.catalog)
        for problem in (*opened.problems(), *opened.hints())
        if problem.node == name
    ]
    # Problems of the sweep belong to its own form below.
    of_sweep = [problem for problem in problems if in_sweep(problem)]
    node_form(
        node,
        node_type,
        columns=columns_for(opened.pipeline, opened.catalog, name, studio().files),
        offered_files=_offered_files(node_type),
        problems=[problem for problem in problems if problem not in of_sweep],
        key=opened.form_key(name),
        change=lambda edit: _revise(opened, name, edit),
    )
    if can_sweep(node, node_type):
        sweep_form(
            name,
            node,
            opened.catalog,
            problems=of_sweep,
            has_evaluation=has_evaluation(opened.pipeline, opened.catalog, name),
            ranked_on=rows_text(ranked_on(opened.pipeline, opened.catalog, name)),
            key=opened.form_key(name),
            change=partial(_revise_sweep, opened, name),
        )
    _name_and_limits(opened, name, node, node_type)


def _failed(opened: OpenPipeline, name: str) -> list[NodeState]:
    """Return the state of a node that failed in the last run; of several branches, the first."""
    states = [opened.run.nodes.get(copy) for copy in opened.branches_of(name)] if opened.run else []
    return [state for state in states if state is not None and state.state == "failed"][:1]


def failure(state: NodeState, node_type: NodeType) -> None:
    """Draw why a node failed: the message first, the traceback folded."""
    error = state.error or {}
    field = f"{field_title(error['field'], node_type)}: " if error.get("field") else ""
    message = error.get("message") or "The node failed without an error message. See its log."
    st.error(plain(f"{field}{message}"))
    if error.get("traceback"):
        with st.expander("Traceback"):
            st.code(error["traceback"], language=None)


def _revise(opened: OpenPipeline, name: str, edit: ParamsEdit) -> None:
    """Apply an edit of the form to the parameters of a node."""
    opened.try_edit(lambda pipeline: revise_params(pipeline, opened.catalog, name, edit))


def _revise_sweep(
    opened: OpenPipeline, name: str, edit: SweepEdit, params: ParamsEdit | None
) -> None:
    """Apply an edit of the sweep; it may change parameters too, in one step for undo."""

    def revise(pipeline: Pipeline) -> Pipeline:
        """Return the pipeline after both edits."""
        if params:
            pipeline = revise_params(pipeline, opened.catalog, name, params)
        return revise_sweep(pipeline, name, edit)

    opened.try_edit(revise)


def _offered_files(node_type: NodeType) -> list[str]:
    """Return the names that the form offers.

    These are the models of the workspace for a node that reads a model, or its files for a node
    that reads a file.
    """
    if any(spec.hint.choose == "model" for spec in specs_of(node_type.params)):
        return Registry(studio().workspace).references()
    folder = studio().workspace.data
    if node_type.source_columns is None or not folder.is_dir():
        return []
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    # A data folder may hold very many files, and a longer list would slow the form down.
    return sorted(islice(names, MOST_FILES))


def _name_and_limits(opened: OpenPipeline, name: str, node: Node, node_type: NodeType) -> None:
    """Draw the label of a node and its limits: retries, time and memory."""
    key = opened.form_key(name)
    with st.expander("Name and limits"):
        st.text_input(
            "Label",
            node.label,
            key=f"{key}/label/{node.label}",
            placeholder=node_type.title,
            max_chars=200,
            help="The name that the canvas shows for this node.",
            on_change=_set_label,
            args=(opened, name, f"{key}/label/{node.label}", node.label),
        )
        for field, (title, least, most) in LIMITS.items():
            value = getattr(node.settings, field)
            widget_key = f"{key}/settings/{field}/{value}"  # another value, another widget
            st.number_input(
                title,
                value=value,
                min_value=least,
                max_value=most,
                key=widget_key,
                placeholder="as the run says",
                help=NodeSettings.model_fields[field].description,
                on_change=_set_setting,
                args=(opened, name, field, widget_key, value),
            )
        st.caption(f"Name on the command line and in the file: `{name}`")


# A request that the browser has sent just before a field was replaced still has that field.
# Streamlit has forgotten its value by then, and takes the one that it showed for a new one.


def _set_label(opened: OpenPipeline, name: str, key: str, shown: str) -> None:
    """Save the label of a node, if it is not the one that the field showed."""
    label = st.session_state[key].strip()
    if label == shown:
        return
    opened.try_edit(lambda pipeline: set_label(pipeline, name, label))


def _set_setting(
    opened: OpenPipeline, name: str, field: str, key: str, shown: float | None
) -> None:
    """Save one limit of a node; an empty field removes it."""
    value = st.session_state[key]
    if value == shown:
        return
    # Another tab may have set another of the limits.
    opened.refresh()
    settings = opened.pipeline.nodes[name].settings.model_dump()
    settings[field] = value
    opened.try_edit(lambda pipeline: set_settings(pipeline, name, NodeSettings(**settings)))
