"""Serve a model over HTTP from the Models page: start, follow and stop its service."""

from __future__ import annotations

from functools import partial

import streamlit as st

from engine.workspace import Workspace
from nodes.models.encoder import TableEncoder
from nodes.models.model import describe_model
from nodes.models.registry import ModelEntry, Registry
from ui.studio.models.services import ModelService, ModelServices
from ui.studio.models.use import example_row, request
from ui.studio.screen_text import plain, time_of_day
from ui.studio.widgets import errors_flashed, facts, show_flashes

STARTING_SECONDS, RUNNING_SECONDS = 0.7, 3.0
"""Time between two looks at a service."""


@st.cache_resource(show_spinner=False)
def _services(root: str, _workspace: Workspace) -> ModelServices:
    """Return the services of a workspace; all browser tabs share them."""
    return ModelServices(_workspace)


def services(workspace: Workspace) -> ModelServices:
    """Return the services of a workspace."""
    return _services(str(workspace.root), workspace)


def draw_service(registry: Registry, entry: ModelEntry) -> None:
    """Draw the service of a model, or the button that starts one."""
    show_flashes("service")
    st.markdown(
        "Programs on this machine send rows to the service and get predictions. It runs until you "
        "stop it, also without the studio."
    )
    service = services(registry.workspace).of(entry.name)
    if service is None or service.state == "ended":
        if service is not None:
            _draw_ended(registry, service)
        _draw_start(registry, entry)
        return
    pause = STARTING_SECONDS if service.state == "starting" else RUNNING_SECONDS
    st.fragment(_draw_live, run_every=pause)(registry, entry, service.state)


def _draw_start(registry: Registry, entry: ModelEntry) -> None:
    """Draw the port and the button that starts the service."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        port = st.number_input(
            "Port",
            min_value=1024,
            max_value=65535,
            value=None,
            step=1,
            placeholder="a free one",
            key="service-port",
            help="Where the service listens, on 127.0.0.1 only. Leave it empty for a free port.",
            width=160,
        )
        start = partial(_start, registry, entry, int(port or 0))
        st.button(
            f"Serve version {entry.version}",
            type="primary",
            icon=":material/play_arrow:",
            key="service-start",
            on_click=start,
        )


def _start(registry: Registry, entry: ModelEntry, port: int) -> None:
    """Start the service; an error of ours is shown by the next drawing."""
    with errors_flashed("service"):
        services(registry.workspace).start(entry.name, entry.version, port)


def _stop(registry: Registry, model: str) -> None:
    """Stop the service of a model."""
    with errors_flashed("service"):
        services(registry.workspace).stop(model)


def _draw_ended(registry: Registry, service: ModelService) -> None:
    """Draw that a service ended by itself, and why."""
    st.warning(
        f"The service of version {service.version}, started {time_of_day(service.started)}, ended. "
        f"{plain(service.problem)}"
    )
    stop = partial(_stop, registry, service.model)
    st.button("Clear", key="service-clear", type="tertiary", on_click=stop)


def _draw_live(registry: Registry, entry: ModelEntry, drawn: str) -> None:
    """Draw a service that starts or runs; draw the page again when that changes."""
    service = services(registry.workspace).of(entry.name)
    if service is None or service.state != drawn:
        st.rerun()
    if service.state == "starting":
        st.progress(0.0, text=f"Loading version {service.version} …")
    else:
        _draw_running(registry, entry, service)
    stop = partial(_stop, registry, entry.name)
    st.button("Stop", icon=":material/stop:", key="service-stop", on_click=stop)


def _draw_running(registry: Registry, entry: ModelEntry, service: ModelService) -> None:
    """Draw the address and the token of a service, and a request to copy."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge("Running", icon=":material/check:", color="green")
        st.markdown(f"at **{service.address}**", width="content")
    facts(f"version {service.version}", f"started {time_of_day(service.started)}")
    if service.version != entry.version or not entry.in_use:
        st.caption(
            f"The service answers with version {service.version}, also if another version is put "
            "in use. Stop it and start it again to serve another one."
        )
    st.markdown(
        "**Token.** Callers must send it, so that other users of this machine cannot call. The "
        "page of the service at its address asks for it too."
    )
    st.code(service.token, language=None)
    st.markdown("**A request** for the prediction of one row:")
    folder = registry.folder_of(f"{entry.name}@{service.version}")
    row = example_row(TableEncoder.from_json(describe_model(folder)["encoder"]))
    st.code(
        request(row, service.address, service.token),
        language="bash",
        wrap_lines=True,
        height=260 if len(row) > 20 else "content",
    )
