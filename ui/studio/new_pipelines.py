"""Make pipelines that a user begins with.

- ``samples``, ``open_sample``       the pipelines that come with the studio
- ``prepare_example``, ``is_new``     the sample that a new user finds finished
- ``pipeline_for``                   a pipeline for a table and its target
- ``save_copy``, ``pipeline_of_run``  a copy of a pipeline; what a run ran
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

from engine.atomic import lock
from engine.errors import SylvaError
from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import parse, with_values
from engine.pipeline_library import Library
from engine.plan import RunOptions
from engine.runs import Runs
from nodes.data.columns import Task
from nodes.data.formats import FileFormat
from nodes.data.tables import Preview

EXAMPLE = "digits_inside"
"""The sample that is run in a new workspace; it inspects its deep forest."""

FIRST = ("deep_forest.json", "first_pipeline.json")
EDGES = (
    ("load.table", "split.table"),
    ("split.train", "forest.table"),
    ("forest.model", "predict.model"),
    ("split.test", "predict.table"),
    ("predict.predictions", "evaluate.predictions"),
    ("forest.model", "inspect.model"),
    ("split.test", "inspect.table"),
)
LAYOUT = {
    "load": (0.0, 120.0),
    "split": (288.0, 120.0),
    "forest": (576.0, 0.0),
    "predict": (864.0, 120.0),
    "evaluate": (1152.0, 120.0),
    "inspect": (864.0, 288.0),
}
"""Edges and positions of a pipeline for a table."""


# The pipelines that come with the studio


@cache
def samples() -> dict[str, Pipeline]:
    """Return the sample pipelines by the name of their file, those for beginners first."""
    paths = {
        path.name: path
        for path in files("sample_pipelines").iterdir()
        if path.name.endswith(".json")
    }
    order = sorted(paths, key=lambda name: (name not in FIRST, name))
    return {name.removesuffix(".json"): parse(paths[name].read_bytes()) for name in order}


def open_sample(library: Library, name: str) -> str:
    """Return the id of a pipeline that equals the sample.

    It is saved, unless the library has an unchanged copy already.
    """
    sample = samples()[name]
    for entry in library.entries():
        if entry.pipeline == sample:
            return entry.id
    return library.create(sample)


def is_new(runs: Runs) -> bool:
    """Return whether the workspace holds nothing but the example, or nothing at all."""
    pipelines = [entry.pipeline for entry in Library(runs.workspace).entries()]
    return pipelines == [samples()[EXAMPLE]] or not (pipelines or runs.list(1))


def prepare_example(runs: Runs) -> None:
    """Run the example in a new workspace, so that a new user finds it finished.

    It is run once, also if several studios start together. A run that was killed continues where
    it was. A workspace with other pipelines is left as it is.
    """
    library = Library(runs.workspace)
    # The studio starts even if the example cannot run, for example because the disk is full.
    with suppress(SylvaError, OSError), lock(library.folder / ".example", create_folder=True):
        if not is_new(runs):
            return
        pipeline_id = open_sample(library, EXAMPLE)
        last = runs.last_run_of(pipeline_id)
        if last is None:
            runs.start(samples()[EXAMPLE], RunOptions(pipeline_id=pipeline_id))
        elif runs.state(last.id).state == "interrupted":
            runs.resume(last.id)


# A pipeline for a table


def pipeline_for(
    source: str,
    target: str,
    file_format: FileFormat,
    seen: Preview,
    task: Task = "classification",
) -> Pipeline:
    """Return a pipeline that trains a deep forest, and evaluates and inspects it on held-out rows.

    A forest that predicts a number is not inspected, since its layers have no classes. ``seen`` is
    the preview of the table. Rows without a target and columns without values are dropped if it has
    any: the pipeline would fail otherwise.
    """
    params: dict[str, Any] = {"source": source, "target": target, **file_format.settings}
    if task == "regression":
        params["task"] = task
    # By default, Load data fails for such tables.
    if seen.rows_without(target):
        params["missing_target"] = "drop"
    if seen.empty:
        params["empty_columns"] = "drop"
    nodes = {
        "load": Node(type="load-data", params=params, label=title_of(source)),
        "split": Node(type="split"),
        "forest": Node(type="deep-forest"),
        "predict": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
        "inspect": Node(type="inspect-layers"),
    }
    if task == "regression":
        del nodes["inspect"]
    drawn = [edge for edge in EDGES if edge[1].partition(".")[0] in nodes]
    edges = tuple(Edge.between(start, end) for start, end in drawn)
    layout = {name: LAYOUT[name] for name in nodes}
    return Pipeline(name=f"Learn {title_of(source)}", nodes=nodes, edges=edges, layout=layout)


def title_of(source: str) -> str:
    """Return the title of a source: the name of the sample, or of the file without its ending."""
    name = source.removeprefix("sample:").rpartition("/")[2]
    # Remove the ending, and a second one before ``.gz``.
    name = re.sub(r"(\.\w{1,8})?\.(gz|bz2|zst)$|\.\w{1,8}$", "", name) or name
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", name)[:100]


# Copies


def save_copy(library: Library, pipeline: Pipeline) -> str:
    """Save a pipeline under another name; return the id of the new pipeline."""
    return library.create(with_values(pipeline, name=f"{pipeline.name[:190]} copy"))


def pipeline_of_run(library: Library, runs: Runs, run_id: str) -> str:
    """Return the id of a pipeline that is exactly what a run ran.

    It is the one that the run was started from if that is unchanged, else a new copy.
    """
    row = runs.find(run_id)
    # Not the pipeline as it is now: it may have been edited after the run.
    pipeline, source = parse(row.document), row.pipeline_id
    if source is not None and _has_pipeline(library, source, pipeline):
        return source
    moment = time.strftime("%d %b %H:%M", time.localtime(row.created))
    return library.create(with_values(pipeline, name=f"{pipeline.name[:150]}, as run {moment}"))


def _has_pipeline(library: Library, pipeline_id: str, pipeline: Pipeline) -> bool:
    """Return whether the library has exactly this pipeline under this id."""
    try:
        return library.open(pipeline_id).pipeline == pipeline
    except SylvaError:
        return False
