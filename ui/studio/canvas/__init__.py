"""Draw the canvas on which a pipeline is built: a Streamlit component.

- ``canvas``    draws a pipeline, reports the user's edits and clicks, and returns the selection
- ``canvas_view``  draws a pipeline that cannot be edited
- ``Edited``    the pipeline with one edit, before the canvas gets its confirmation
- ``NodeView``  a node's run state, as the canvas shows it
- ``Reveal``    a request to select a node and bring it into view

The canvas decides which nodes exist, their types, edges, notes, groups and positions. Both change
the contents of a node: parameters, label, settings and bypass. Python decides problems and states.
Python's pipeline replaces the one on the canvas only when ``epoch`` changes.

The canvas also decides whether the node panel beside it is open, and how wide it is. It sets
``data-sylva-panel`` (``open`` or ``closed``) and ``--sylva-panel-width`` on the root element of the
page, where a style sheet can use them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from engine.errors import Problem
from engine.node_types import NodeTypes
from engine.pipeline import Pipeline, PortRef
from ui.studio.canvas.protocol import (
    Edited,
    NodeView,
    Reveal,
    Revision,
    RunRequest,
    State,
    apply_edit,
    import_in,
    payload,
    port_in,
    run_in,
    selection_in,
)
from ui.studio.streamlit_compat import ComponentRenderer, component

__all__ = ["Edited", "NodeView", "Reveal", "RunRequest", "State", "canvas", "canvas_view"]


def canvas(
    pipeline: Pipeline,
    *,
    epoch: int,
    catalog: NodeTypes,
    problems: Callable[[Pipeline], Iterable[Problem]],
    states: Callable[[Pipeline], Mapping[str, NodeView]],
    key: str,
    pipeline_id: str,
    reveal: Reveal | None,
    height: str,
    on_edit: Callable[[Edited], None],
    on_port: Callable[[PortRef], None],
    on_run: Callable[[RunRequest], None],
    on_import: Callable[[str, str], None] | None = None,
    show_panel: int | None = None,
) -> tuple[str, ...]:
    """Draw ``pipeline`` and return the selected nodes. Pass what ``on_edit`` got at the next call.

    - ``epoch``: increase it whenever Python itself changes nodes, edges, notes or positions.
      Parameters, labels and settings may change without it.
    - ``pipeline_id``: identifies the pipeline. Each pipeline has its own undo history and viewport,
      and an edit is never applied to another pipeline.
    - ``problems``, ``states``: return the problems, and the run states by node, of the edited
      pipeline. They never change positions.
    - ``on_edit``: called with an edit before the canvas gets its confirmation. If it raises, as
      ``st.rerun`` does, the canvas sends the edit again.
    - ``on_port``, ``on_run``: called before the rerun that a click causes, like the callback of any
      widget. The next rerun may interrupt a rerun, but not a callback.
    - ``on_import``: called in the same way with the name and the text of a JSON file that was
      dropped on the canvas.
    - ``show_panel``: a token; the browser opens the node panel once for each new one.
    """
    session_key = f"_{key}_taken"
    taken: Revision = st.session_state.get(session_key, Revision())
    try:
        edited = apply_edit(
            pipeline, _last_edit(key), pipeline_id=pipeline_id, epoch=epoch, taken=taken
        )
    except Problem as problem:
        edited = Edited(pipeline, taken, refused=problem)
    on_edit(edited)
    # Only now: if the next rerun interrupted this one before, the edit would be lost.
    st.session_state[session_key] = edited.taken
    data = payload(
        edited.pipeline,
        catalog,
        pipeline_id=pipeline_id,
        epoch=epoch,
        taken=edited.taken,
        problems=problems(edited.pipeline),
        states=states(edited.pipeline),
        reveal=reveal,
        height=height,
        refused=edited.refused,
        show_panel=show_panel,
    )

    def import_file(file: tuple[str, str]) -> None:
        """Report a file that was dropped."""
        if on_import is not None:
            on_import(*file)

    sent = _component()(
        key=key,
        data=data,
        default={"edit": None, "selection": []},
        height="content",
        on_edit_change=_nothing,
        on_selection_change=_nothing,
        on_port_change=partial(_report, key, "port", partial(port_in, edited.pipeline), on_port),
        on_run_change=partial(_report, key, "run", partial(run_in, edited.pipeline), on_run),
        on_import_change=partial(_report, key, "import", import_in, import_file),
    )
    return selection_in(edited.pipeline, sent.get("selection"))


def canvas_view(
    pipeline: Pipeline,
    *,
    catalog: NodeTypes,
    states: Mapping[str, NodeView],
    key: str,
    height: str,
    selected: str | None,
    on_select: Callable[[str | None], None],
) -> None:
    """Draw ``pipeline`` in the design of the canvas, without a palette and without edits.

    ``selected`` is the node to select. ``on_select`` is called with the node that was clicked, or
    None if the selection has ended, before the rerun that the click causes.
    """
    data = payload(
        pipeline,
        catalog,
        pipeline_id=f"view of {key}",
        epoch=_checksum(pipeline),
        taken=Revision(),
        problems=[],
        states=states,
        reveal=None,
        height=height,
        read_only=True,
        selected=selected,
    )

    def report() -> None:
        """Report the node that is selected now."""
        sent = st.session_state.get(key)
        chosen = selection_in(pipeline, sent.get("selection")) if sent is not None else ()
        on_select(chosen[0] if chosen else None)

    _component()(
        key=key,
        data=data,
        default={"selection": []},
        height="content",
        on_selection_change=report,
    )


def _component() -> ComponentRenderer:
    """Return the component; it is registered with the running app."""
    return component(
        "sylva-studio.canvas",
        html='<div class="sylva-canvas-root"></div>',
        js="index-*.js",
        css="index-*.css",
        package=Path(__file__).parent,
    )


def _checksum(pipeline: Pipeline) -> int:
    """Return a number that differs for another pipeline, so that the canvas draws that one."""
    return zlib.crc32(json.dumps(pipeline.model_dump(mode="json", by_alias=True)).encode())


def _last_edit(key: str) -> Any:
    """Return the edit that came with this rerun.

    It is read before the canvas is drawn, so that the same drawing confirms it.
    """
    sent = st.session_state.get(key)
    return sent.get("edit") if sent is not None else None


def _report(
    key: str, name: str, read: Callable[[object], Any], callback: Callable[[Any], None]
) -> None:
    """Call ``callback`` with what was clicked, if ``read`` understands it."""
    sent = st.session_state.get(key)
    clicked = read(sent.get(name)) if sent is not None else None
    if clicked is not None:
        callback(clicked)


def _nothing() -> None:
    """Do nothing: Streamlit reads only those values of a component that have a callback."""
