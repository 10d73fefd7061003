"""Score a file with a model: which file, whether it fits, progress and result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from engine.atomic import FileVersion
from engine.errors import SylvaError
from engine.text import counted, duration, size
from nodes.data.files import list_files
from nodes.data.formats import FileFormat
from nodes.models.registry import ModelEntry, Registry
from nodes.models.scoring import CANCELLED
from ui.studio.data.upload import draw_upload, file_format_of
from ui.studio.markdown import plain
from ui.studio.models.scoring_jobs import ScoringJob, ScoringJobs, misfit
from ui.studio.session import studio
from ui.studio.widgets import facts, flash_error, grid, short_texts, show_flashes

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_SECONDS = 0.7
DOWNLOADED = 100_000_000
"""Bytes up to which a result is offered for download: it passes through memory."""
FIRST_ROWS = 100
CHOSEN = "scoring-file"
ENDINGS = {"CSV": "csv", "Parquet": "parquet"}


@st.cache_resource(show_spinner=False)
def _jobs(root: str) -> ScoringJobs:
    """Return the jobs of the studio, shared by all tabs."""
    return ScoringJobs(studio().workspace)


def jobs() -> ScoringJobs:
    """Return the jobs of this workspace."""
    return _jobs(str(studio().workspace.root))


def draw_scoring(registry: Registry, entry: ModelEntry) -> None:
    """Draw the form, and the jobs of this model under it."""
    chosen = _choose_file()
    if chosen:
        _draw_start(registry, entry, chosen)
    show_flashes("scoring")
    found = jobs().of(entry.name)
    if found:
        live = any(job.running for job in found)
        st.fragment(_draw_jobs, run_every=LOOK_SECONDS if live else None)(entry.name, live)


# Before


def _choose_file() -> str | None:
    names = [file.name for file in list_files(studio().files)]
    wanted = st.session_state.get(CHOSEN)
    chosen = st.selectbox(
        "File", names, names.index(wanted) if wanted in names else None, key=f"scoring-choice-{wanted}",
        placeholder="Choose a file of the workspace" if names else "No files yet; add one below",
    )  # fmt: skip
    with st.expander("Add a file", expanded=not names):
        if kept := draw_upload("scoring"):
            st.session_state[CHOSEN] = kept
            st.rerun()
    return chosen


def _draw_start(registry: Registry, entry: ModelEntry, source: str) -> None:
    file_format = file_format_of(source)
    fault = _misfit(
        entry.name, entry.saved, source, FileVersion.of(studio().files.data / source), file_format, registry
    )
    if fault:
        st.error(plain(fault[:1].upper() + fault[1:]) + ".")
    else:
        st.caption(f":material/check: All {counted(len(entry.features), 'column')} that the model needs are present.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        ending = st.segmented_control("Result as", list(ENDINGS), default="CSV", key="scoring-ending", required=True)
        keep_all = st.toggle("With the columns of the file", value=True, key="scoring-keep")
        st.button(
            "Score", type="primary", icon=":material/play_arrow:", disabled=bool(fault), key="scoring-start",
            on_click=_start, args=(entry.name, source, ENDINGS[ending or "CSV"], keep_all, file_format),
        )  # fmt: skip


@st.cache_data(max_entries=32, show_spinner="Checking the columns …")
def _misfit(
    model: str, saved: float, source: str, version: FileVersion | None, file_format: FileFormat, _registry: Registry
) -> str:
    try:
        path = studio().files.readable(source, field="file")
        return misfit(_registry.folder_of(model), path, file_format)
    except SylvaError as error:
        return str(error)


def _start(model: str, source: str, ending: str, keep_all: bool, file_format: FileFormat) -> None:
    try:
        jobs().start(model, source, ending=ending, keep_all=keep_all, file_format=file_format)
    except SylvaError as error:
        flash_error("scoring", error)


# Meanwhile and after


def _draw_jobs(model: str, was_live: bool) -> None:
    found = jobs().of(model)
    if any(job.running for job in found) != was_live:
        st.rerun()
    for job in found:
        with st.container(border=True, key=f"job-{job.id}"):
            if job.running:
                _draw_running(job)
            else:
                _draw_ended(job)


def _draw_running(job: ScoringJob) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.fraction, text=progress_text(job))
        st.button(
            "Cancel", key=f"cancel-{job.id}", disabled=job.stopping, on_click=jobs().cancel, args=(job.id,)
        )  # fmt: skip


def progress_text(job: ScoringJob) -> str:
    """Return the progress of a job in words."""
    if job.stopping:
        return f"{plain(job.source)}: stopping …"
    if not job.rows:
        return f"{plain(job.source)}: loading the model …"
    of = f" of about {job.total:,}" if job.total else ""
    return f"{plain(job.source)}: {job.rows:,}{of} rows"


def _draw_ended(job: ScoringJob) -> None:
    took = duration(job.finished - job.started) if job.finished else ""
    match job.state:
        case "failed":
            st.error(f"{plain(job.source)} was not scored. {plain(job.error[:1].upper() + job.error[1:])}")
        case "cancelled":
            st.caption(f"{plain(job.source)}: {CANCELLED}")
        case _:
            _draw_result(job, took)
    st.button("Clear", key=f"forget-{job.id}", type="tertiary", on_click=jobs().forget, args=(job.id,))


def _draw_result(job: ScoringJob, took: str) -> None:
    its = FileVersion.of(job.target)
    if its is None:
        st.caption(f"{plain(job.source)} was scored; the result {plain(job.target.name)} was deleted.")
        return
    st.markdown(f"**{plain(job.source)}** was scored: {counted(job.rows, 'row')} in {took}.")
    facts([f"exports/{job.target.name}", size(its.size)])
    grid(_first_rows(str(job.target), its), f"result-{job.id}")
    if job.rows > FIRST_ROWS:
        st.caption(f"These are the first {FIRST_ROWS} rows.")
    small = its.size <= DOWNLOADED
    st.download_button(
        "Download the result", job.target.read_bytes, job.target.name, "application/octet-stream",
        on_click="ignore", icon=":material/download:", disabled=not small, key=f"download-{job.id}",
        help=None if small else "It is too large for the browser; it is in the exports folder of the workspace.",
    )  # fmt: skip


@st.cache_data(max_entries=16, show_spinner=False)
def _first_rows(target: str, version: FileVersion) -> pa.Table:
    return short_texts(first_rows(Path(target)))


def first_rows(path: Path, most: int = FIRST_ROWS) -> pa.Table:
    """Return the first rows of a result, predictions and probabilities first."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        batch = next(pq.ParquetFile(path).iter_batches(most), None)
        data = pa.Table.from_batches([batch] if batch is not None else [])
    else:
        data = pa.Table.from_pandas(pd.read_csv(path, nrows=most, low_memory=False), preserve_index=False)
    at = data.column_names.index("prediction") if "prediction" in data.column_names else 0
    return data.select([*data.column_names[at:], *data.column_names[:at]])
