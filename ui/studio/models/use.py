"""Use a model: score a file here, or copy commands and code that use it elsewhere.

- ``draw_scoring``  choose a file, check it, follow the job, see the result
- ``draw_usage``    the command line, the REST service and Python, ready to copy
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from engine.atomic import FileVersion
from engine.errors import SylvaError
from engine.text import counted, duration, size
from nodes.data.files import list_files
from nodes.data.formats import FileFormat
from nodes.models.drift import DriftReport
from nodes.models.encoder import TableEncoder
from nodes.models.model import describe_model
from nodes.models.registry import ModelEntry, Registry
from nodes.models.scoring import CANCELLED
from ui.studio.models.scoring_jobs import ScoringJob, ScoringJobs, misfit
from ui.studio.screen_text import plain
from ui.studio.session import studio
from ui.studio.upload import draw_upload, file_format_of
from ui.studio.widgets import (
    BINARY,
    download,
    errors_flashed,
    facts,
    grid,
    short_texts,
    show_flashes,
)

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_SECONDS = 0.7
MAX_DOWNLOAD = 100_000_000
"""Bytes up to which a result is offered for download: it passes through memory."""
FIRST_ROWS = 100
CHOSEN = "scoring-file"
PORT = 8000
ADDRESS = f"http://127.0.0.1:{PORT}"
DRIFT_HELP = {
    "Drift": "How far the values differ from the training rows, by PSI: some from 0.1, large from "
    "0.25. None if chance alone could explain it.",
    "PSI": "Population stability index: 0 if the shares of all bins are those of the training "
    "rows.",
    "KS": "Kolmogorov–Smirnov statistic: the largest distance between the two cumulative "
    "distributions, from 0 to 1. Only for numbers and times.",
    "Unseen": "Share of rows with a category that the training rows did not have.",
    "Missing": "Share of rows without a value.",
    "Missing in training": "Share of training rows without a value.",
}
ENDINGS = {"CSV": "csv", "Parquet": "parquet"}


@st.cache_resource(show_spinner=False)
def _jobs(root: str) -> ScoringJobs:
    """Return the scoring jobs of a workspace; all browser tabs share them."""
    return ScoringJobs(studio().workspace)


def jobs() -> ScoringJobs:
    """Return the scoring jobs of this workspace."""
    return _jobs(str(studio().workspace.root))


def draw_scoring(registry: Registry, entry: ModelEntry) -> None:
    """Draw the form, and the jobs of this model under it.

    The jobs are drawn again by themselves while one of them is running.
    """
    chosen = _choose_file()
    if chosen:
        _draw_start(registry, entry, chosen)
    show_flashes("scoring")
    model = reference_of(entry)
    own = jobs().of(model)
    if own:
        # Only running jobs have to be drawn again by themselves.
        live = any(job.running for job in own)
        st.fragment(_draw_jobs, run_every=LOOK_SECONDS if live else None)(model, live)


def reference_of(entry: ModelEntry) -> str:
    """Return how commands name the version that is shown: the one in use by its name alone."""
    return entry.name if entry.in_use else entry.reference


# Before


def _choose_file() -> str | None:
    """Draw the choice of a file, and the upload of a new one.

    Return the chosen file; an uploaded one is chosen at once.
    """
    names = [file.name for file in list_files(studio().files)]
    uploaded = st.session_state.get(CHOSEN)
    chosen = st.selectbox(
        "File", names, names.index(uploaded) if uploaded in names else None,
        key=f"scoring-choice-{uploaded}",  # a new upload: a new widget, with a new default
        placeholder="Choose a file of the workspace" if names else "No files yet; add one below",
    )  # fmt: skip
    with st.expander("Add a file", expanded=not names):
        saved = draw_upload("scoring")
        if saved:
            st.session_state[CHOSEN] = saved
            st.rerun()
    return chosen


def _draw_start(registry: Registry, entry: ModelEntry, source: str) -> None:
    """Draw whether the file fits the model, the options, and the button that starts."""
    file_format = file_format_of(source)
    fault = _misfit(
        entry.reference,
        entry.saved,
        source,
        FileVersion.of(studio().files.data / source),
        file_format,
        registry,
    )
    if fault:
        st.error(plain(fault[:1].upper() + fault[1:]) + ".")
    else:
        columns = counted(len(entry.features), "column")
        st.caption(f":material/check: The file has all {columns} that the model needs.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        ending = st.segmented_control(
            "Result as", list(ENDINGS), default="CSV", key="scoring-ending", required=True
        )
        keep_all = st.toggle("Include the columns of the file", value=True, key="scoring-keep")
        st.button(
            "Score",
            type="primary",
            icon=":material/play_arrow:",
            disabled=bool(fault),
            key="scoring-start",
            on_click=_start,
            args=(reference_of(entry), source, ENDINGS[ending or "CSV"], keep_all, file_format),
        )


@st.cache_data(max_entries=32, show_spinner="Checking the columns …")
def _misfit(
    model: str,
    saved: float,
    source: str,
    version: FileVersion | None,
    file_format: FileFormat,
    _registry: Registry,
) -> str:
    """Return why the file does not fit, from the cache; empty if it does.

    ``saved`` and ``version`` are part of the cache key: model and file may be replaced.
    """
    try:
        path = studio().files.readable(source, field="file")
        return misfit(_registry.folder_of(model), path, file_format)
    except SylvaError as error:
        return str(error)


def _start(model: str, source: str, ending: str, keep_all: bool, file_format: FileFormat) -> None:
    """Start a job; an error of ours is shown by the next drawing."""
    with errors_flashed("scoring"):
        jobs().start(model, source, ending=ending, keep_all=keep_all, file_format=file_format)


# Meanwhile and after


def _draw_jobs(model: str, was_live: bool) -> None:
    """Draw the jobs of a model; draw the page again when polling must start or stop."""
    own = jobs().of(model)
    if any(job.running for job in own) != was_live:
        st.rerun()
    for job in own:
        with st.container(border=True, key=f"job-{job.id}"):
            if job.running:
                _draw_running(job)
            else:
                _draw_ended(job)


def _draw_running(job: ScoringJob) -> None:
    """Draw the progress of a job, and how to cancel it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.fraction, text=progress_text(job))
        cancel = partial(jobs().cancel, job.id)
        st.button("Cancel", key=f"cancel-{job.id}", disabled=job.stopping, on_click=cancel)


def progress_text(job: ScoringJob) -> str:
    """Return the progress of a job in words."""
    if job.stopping:
        return f"{plain(job.source)}: stopping …"
    if not job.rows:
        return f"{plain(job.source)}: loading the model …"
    of = f" of about {job.total:,}" if job.total else ""
    return f"{plain(job.source)}: {job.rows:,}{of} rows"


def _draw_ended(job: ScoringJob) -> None:
    """Draw how a job ended."""
    took = duration(job.finished - job.started) if job.finished else ""
    match job.state:
        case "failed":
            error = job.error[:1].upper() + job.error[1:]
            st.error(f"{plain(job.source)} was not scored. {plain(error)}")
        case "cancelled":
            st.caption(f"{plain(job.source)}: {CANCELLED}")
        case _:
            _draw_result(job, took)
    forget = partial(jobs().forget, job.id)
    st.button("Clear", key=f"forget-{job.id}", type="tertiary", on_click=forget)


def _draw_result(job: ScoringJob, took: str) -> None:
    """Draw the first rows of the result, and its download."""
    version = FileVersion.of(job.target)
    if version is None:
        source, target = plain(job.source), plain(job.target.name)
        st.caption(f"{source} was scored, but its result {target} was deleted since.")
        return
    st.markdown(f"**{plain(job.source)}** was scored: {counted(job.rows, 'row')} in {took}.")
    facts(f"exports/{job.target.name}", size(version.size))
    grid(_first_rows(str(job.target), version), f"result-{job.id}")
    if job.rows > FIRST_ROWS:
        st.caption(f"These are the first {FIRST_ROWS} rows.")
    refused = None
    if version.size > MAX_DOWNLOAD:
        refused = (
            "The result is too large for the browser. It is in the exports folder of the workspace."
        )
    file, key = (job.target.read_bytes, job.target.name, BINARY), f"download-{job.id}"
    download("Download the result", *file, key, refused=refused)
    _draw_drift(job)


def _draw_drift(job: ScoringJob) -> None:
    """Draw how far the scored rows differ from the training rows."""
    if job.drift is None:
        st.caption(
            "Drift was not measured: the model was saved without a summary of its training rows. "
            "Train and save it again to get one."
        )
        return
    report = DriftReport.from_json(job.drift)
    if report.at("large") or report.at("some"):
        st.warning(plain(report.words), icon=":material/trending_up:")
    else:
        st.caption(f":material/check: {plain(report.words)}")
    config = st.column_config
    columns = {
        name: config.NumberColumn(format="%.3f" if name in ("PSI", "KS") else "percent", help=text)
        for name, text in DRIFT_HELP.items()
        if name != "Drift"
    }
    columns["Drift"] = config.TextColumn(help=DRIFT_HELP["Drift"])
    with st.expander("Drift by column", expanded=bool(report.at("large"))):
        grid(drift_table(report), f"drift-{job.id}", column_config=columns)
        st.caption(
            f"{report.rows:,} scored rows against {report.training_rows:,} training rows, which "
            "the model remembers as counts."
        )


def drift_table(report: DriftReport) -> list[dict[str, Any]]:
    """Return the drift of each column as rows of a table, the most drift first."""
    return [
        {
            "Column": each.name,
            "Drift": each.level,
            "PSI": each.psi,
            "KS": each.ks,
            "Unseen": each.unseen,
            "Missing": each.missing,
            "Missing in training": each.missing_in_training,
        }
        for each in report.columns
    ]


@st.cache_data(max_entries=16, show_spinner=False)
def _first_rows(target: str, version: FileVersion) -> pa.Table:
    """Return the first rows of a result from the cache; ``version`` is part of the cache key."""
    return short_texts(first_rows(Path(target)))


def first_rows(path: Path, most: int = FIRST_ROWS) -> pa.Table:
    """Return the first rows of a result file, CSV or Parquet.

    Prediction and probabilities come first: the columns of the file may be many.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        # Read one batch: the file may be larger than the memory.
        batch = next(pq.ParquetFile(path).iter_batches(most), None)
        data = pa.Table.from_batches([batch] if batch is not None else [])
    else:
        data = pa.Table.from_pandas(
            pd.read_csv(path, nrows=most, low_memory=False), preserve_index=False
        )
    at = data.column_names.index("prediction") if "prediction" in data.column_names else 0
    return data.select([*data.column_names[at:], *data.column_names[:at]])


# Commands and code


def draw_usage(registry: Registry, entry: ModelEntry) -> None:
    """Draw commands and code that use the model, ready to copy."""
    example = UsageExample(reference_of(entry), studio().workspace.root)
    if not entry.classes:
        example = replace(example, predict="predict")
    row = example_row(
        TableEncoder.from_json(describe_model(registry.folder_of(entry.reference))["encoder"])
    )
    st.markdown(
        "**Command line.** Score a file of any size. The result is a CSV, Parquet or Arrow file."
    )
    st.code(command_line(example), language="bash", wrap_lines=True)
    st.markdown(
        "**REST.** Start the service here under *Service*, or in a terminal. Then send rows. Open "
        "its address in a browser to read more."
    )
    st.code(service(example), language="bash", wrap_lines=True)
    st.code(
        request(row), language="bash", wrap_lines=True, height=260 if len(row) > 20 else "content"
    )
    st.markdown("**Python.** Run this where Sylva is installed.")
    st.code(python(example), language="python")


@dataclass(frozen=True)
class UsageExample:
    """A model, and the file that the examples score with it."""

    model: str
    workspace: Path
    source: str = "new_rows.csv"
    target: str = "scored.csv"
    predict: str = "predict_proba"
    """The method that Python calls; a model that predicts a number has only ``predict``."""


def command_line(example: UsageExample) -> str:
    """Return the command that scores a file."""
    words = ["sylva", "predict", example.model, example.source, "-o", example.target]
    return shlex.join([*words, "--workspace", str(example.workspace)])


def service(example: UsageExample) -> str:
    """Return the command that starts the model as a service."""
    words = ["sylva", "serve", example.model, "--port", str(PORT)]
    return shlex.join([*words, "--workspace", str(example.workspace)])


def request(row: Mapping[str, Any], address: str = ADDRESS, token: str = "") -> str:
    """Return the command that asks a service for the prediction of one row."""
    body = json.dumps({"rows": [row]}, ensure_ascii=False)
    lines = [f"curl {address}/predict \\"]
    if token:
        lines.append(f"  --header {shlex.quote(f'Authorization: Bearer {token}')} \\")
    lines += [
        "  --header 'Content-Type: application/json' \\",
        f"  --data {shlex.quote(body)}",
    ]
    return "\n".join(lines)


def python(example: UsageExample) -> str:
    """Return the Python program that predicts for a data frame."""
    load = f"sylva.load_model({example.model!r}, {str(example.workspace)!r})"
    return "\n".join(
        [
            "import pandas as pd",
            "import sylva",
            "",
            f"model = {load}",
            f"print(model.{example.predict}(pd.read_csv({example.source!r})))",
        ]
    )


def example_row(encoder: TableEncoder) -> dict[str, Any]:
    """Return a value for each column of the model: the median, or the most frequent category."""
    return {column.name: column.example for column in encoder.columns}
