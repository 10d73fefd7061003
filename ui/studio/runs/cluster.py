"""Choose where pipelines run: on this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import streamlit as st

from engine.settings import check_cluster_address, cluster_address, set_cluster_address
from engine.text import counted
from ui.studio.screen_text import plain
from ui.studio.session import studio
from ui.studio.widgets import errors_flashed, errors_shown, grid, show_flashes

FLASHES = "cluster"
ADDRESS = "cluster-address"


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
        with st.container(horizontal=True):
            st.button("Save", type="primary", on_click=_save)
            test = st.button("Test", disabled=not _typed())
        show_flashes(FLASHES)
        if test:
            _draw_test(_typed())


def _typed() -> str:
    """Return the address in the field."""
    return str(st.session_state.get(ADDRESS, "")).strip()


def _save() -> None:
    """Save the address for the runs that start from now on."""
    with errors_flashed(FLASHES):
        set_cluster_address(studio().workspace.settings, _typed() or None)


@errors_shown()
def _draw_test(address: str) -> None:
    """Connect to the cluster, check its workers, and draw what was found."""
    # Needs the package for clusters, which is not always installed.
    from engine.executors.dask import check_workers

    check_cluster_address(address, "Cluster")
    with st.spinner("Checking the workers…"):
        workers = check_workers(address, studio().workspace)
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
