"""Choose where pipelines run: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import streamlit as st

from engine.settings import (
    check_cluster_address,
    cluster_address,
    cluster_storage,
    set_cluster,
    storages,
)
from engine.text import counted
from ui.studio.screen_text import plain
from ui.studio.session import studio
from ui.studio.widgets import errors_flashed, errors_shown, grid, show_flashes

FLASHES = "cluster"
ADDRESS = "cluster-address"
STORAGE = "cluster-storage"
WORKSPACE = "The workspace folder"


@errors_shown()
def draw_cluster() -> None:
    """Draw the setting of the cluster, with a button that tests it."""
    address = cluster_address(studio().workspace.settings)
    where = "this machine" if address is None else address
    with st.popover(f"Runs on {plain(where)}", icon=":material/lan:"):
        st.text_input(
            "Address of a Dask scheduler",
            address or "",
            key=ADDRESS,
            placeholder="tcp://10.0.0.1:8786",
            help="Its workers run the nodes of new runs. Leave it empty to use this machine. "
            "`sylva cluster up` starts a small cluster on this machine.",
        )
        _draw_storage()
        with st.container(horizontal=True):
            st.button("Save", type="primary", on_click=_save)
            test = st.button("Test", disabled=not _typed())
        show_flashes(FLASHES)
        if test:
            _draw_test(_typed())


def _draw_storage() -> None:
    """Draw where workers find data, if the settings allow a storage for that."""
    settings = studio().workspace.settings
    allowed = storages(settings)
    chosen = cluster_storage(settings)
    if not allowed:
        return
    options = [WORKSPACE, *dict.fromkeys([*allowed, chosen or allowed[0]])]
    st.selectbox(
        "Workers find data in",
        options,
        options.index(chosen or WORKSPACE),
        key=STORAGE,
        help="The workspace folder, if all machines see it under the same path; else a storage. "
        f"{settings.name} of the workspace lists those that may be used.",
    )


def _storage() -> str | None:
    """Return the storage that is chosen, None for the workspace folder."""
    chosen = str(st.session_state.get(STORAGE, WORKSPACE))
    return None if chosen == WORKSPACE else chosen


def _typed() -> str:
    """Return the address in the field."""
    return str(st.session_state.get(ADDRESS, "")).strip()


def _save() -> None:
    """Save the address for the runs that start from now on."""
    with errors_flashed(FLASHES):
        set_cluster(studio().workspace.settings, _typed() or None, _storage())


@errors_shown()
def _draw_test(address: str) -> None:
    """Connect to the cluster, check its workers, and draw what was found."""
    # Needs the package for clusters, which is not always installed.
    from engine.executors.storage import check_cluster

    check_cluster_address(address, "Cluster")
    with st.spinner("Checking the workers…"):
        workers = check_cluster(address, studio().workspace, _storage())
    admitted = [worker for worker in workers if worker.state == "admitted"]
    if not workers:
        st.warning("The cluster answers, but has no workers yet.")
    elif not admitted:
        st.error("No worker can run pipelines of this workspace.")
    else:
        threads = sum(worker.threads for worker in admitted)
        ready = counted(len(admitted), "worker", "workers")
        st.success(f"{ready} with {counted(threads, 'thread', 'threads')} can run pipelines.")
    rows = []
    for worker in workers:
        rows.append({"Worker": worker.address, "State": worker.state, "Why": worker.why})
    if rows:
        grid(rows, "cluster-workers")
