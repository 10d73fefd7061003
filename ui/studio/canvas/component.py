"""The component itself: how Streamlit finds its files, and one call of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from engine.errors import Problem
from engine.node_types import NodeTypes
from engine.pipeline import Pipeline, PortRef
from ui.studio.canvas.protocol import (
    CanvasResult,
    Edited,
    NodeView,
    Reveal,
    Revision,
    RunRequest,
    apply_edit,
    payload,
    port_in,
    run_in,
    selection_in,
)

if TYPE_CHECKING:
    from streamlit.components.v2.component_manager import BidiComponentManager
    from streamlit.components.v2.types import ComponentRenderer

_HERE = Path(__file__).parent
_NAME = "sylva-studio.canvas"


def canvas(
    document: Pipeline,
    *,
    epoch: int,
    catalogue: NodeTypes,
    problems: Iterable[Problem] | Callable[[Pipeline], Iterable[Problem]] = (),
    states: Mapping[str, NodeView] | Callable[[Pipeline], Mapping[str, NodeView]] | None = None,
    key: str,
    pipeline: str | None = None,
    reveal: Reveal | None = None,
    height: int | str = 640,
    on_edit: Callable[[Edited], None] | None = None,
    on_port: Callable[[PortRef], None] = lambda end: None,
    on_run: Callable[[RunRequest], None] = lambda request: None,
) -> CanvasResult:
    """Draw ``document`` and give back what the user made of it.

    Keep the document of the result, or that of ``on_edit``, and pass it again. Raise ``epoch`` whenever Python itself
    changes nodes, edges, notes or places; parameters, labels and settings may change without. ``pipeline`` tells one
    pipeline from another (``key`` if not given): each has its own undo history and viewport, and an edit is never
    carried from one to the other. ``problems`` may be a function, which is then asked about the document with the
    user's edits. ``states`` are the run states by node, or a function likewise; they never move anything. ``on_edit``
    is given what the user did before the canvas hears that it was taken; if it raises, as ``st.rerun`` does, the canvas
    makes the edit again.
    ``on_port`` and ``on_run`` are called before the rerun that a click leads to, like any widget's callback: a rerun
    may be cut short by the next, a callback is not.
    """
    pipeline = key if pipeline is None else pipeline
    place = f"_{key}_taken"
    taken: Revision = st.session_state.get(place, Revision())
    refused = None
    try:
        edited = apply_edit(document, _last_edit(key), pipeline=pipeline, epoch=epoch, taken=taken)
    except Problem as problem:
        edited, refused = Edited(document, taken), problem
    if on_edit is not None:
        on_edit(edited)
        st.session_state[place] = edited.taken
    data = payload(
        edited.document,
        catalogue,
        pipeline=pipeline,
        epoch=epoch,
        taken=edited.taken,
        problems=problems(edited.document) if callable(problems) else problems,
        states=(states(edited.document) if callable(states) else states) or {},
        reveal=reveal,
        height=height,
        refused=refused,
    )
    sent = _renderer()(
        key=key,
        data=data,
        default={"edit": None, "selection": []},
        height="content",
        on_edit_change=_nothing,
        on_selection_change=_nothing,
        on_port_change=partial(_tell, key, "port", partial(port_in, edited.document), on_port),
        on_run_change=partial(_tell, key, "run", partial(run_in, edited.document), on_run),
    )
    # Whoever keeps the document of the result has it only now: a rerun that is cut short while it draws must find the
    # edit as new as it was.
    st.session_state[place] = edited.taken
    return CanvasResult(
        document=edited.document,
        selection=selection_in(edited.document, sent.get("selection")),
        port=port_in(edited.document, sent.get("port")),
        run=run_in(edited.document, sent.get("run")),
        revision=edited.taken.revision,
        restored=edited.restored,
        refused=refused,
    )


def _last_edit(key: str) -> Any:
    """The edit that came with this rerun, read before drawing, so that the canvas hears at once that it was taken."""
    sent = st.session_state.get(key)
    return sent.get("edit") if sent is not None else None


def _tell(key: str, name: str, read: Callable[[object], Any], hear: Callable[[Any], None]) -> None:
    """Pass on what was clicked, if it makes sense."""
    sent = st.session_state.get(key)
    clicked = read(sent.get(name)) if sent is not None else None
    if clicked is not None:
        hear(clicked)


def _nothing() -> None:
    """Streamlit knows a component's values by their callbacks."""


# Registration

_known: tuple[BidiComponentManager, ComponentRenderer] | None = None


def _renderer() -> ComponentRenderer:
    """The component, registered with the manager of the app that is running."""
    global _known
    manager = get_bidi_component_manager()
    if _known is None or _known[0] is not manager:
        # Streamlit finds the manifest of an installed package by itself, but not that of an editable install.
        if manager.get_component_asset_root(_NAME) is None:
            manager.register_from_manifest(_manifest(), _HERE)
        html = '<div class="sylva-canvas-root"></div>'
        _known = manager, st.components.v2.component(_NAME, html=html, js="index-*.js", css="index-*.css")
    return _known[1]


def _manifest() -> ComponentManifest:
    described = tomllib.loads((_HERE / "pyproject.toml").read_text(encoding="utf-8"))
    components = described["tool"]["streamlit"]["component"]["components"]
    project = described["project"]
    parts = [ComponentConfig.from_dict(component) for component in components]
    return ComponentManifest(name=project["name"], version=project["version"], components=parts)
