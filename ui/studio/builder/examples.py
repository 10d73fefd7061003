"""The pipelines that come with the studio."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.resources import files

from engine.errors import SylvaError
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.pipeline_library import Library
from engine.plan import RunOptions
from ui.studio.session import Studio

EXAMPLE = "deep_forest"
"""The one whose finished run a new workspace has."""

FIRST = ("first_pipeline.json", f"{EXAMPLE}.json")


@cache
def samples() -> dict[str, Pipeline]:
    """The sample pipelines by the name of their file, the first steps first."""
    found = {path.name: path for path in files("sample_pipelines").iterdir() if path.name.endswith(".json")}
    order = sorted(found, key=lambda name: (name not in FIRST, name))
    return {name.removesuffix(".json"): parse(found[name].read_bytes()) for name in order}


def open_sample(library: Library, name: str) -> str:
    """The id of a pipeline that is the sample, kept in the library unless it lies there untouched already."""
    sample = samples()[name]
    for entry in library.entries():
        if entry.title == sample.name and not entry.problem and library.open(entry.id).pipeline == sample:
            return entry.id
    return library.create(sample)


def open_example(studio: Studio) -> str:
    """The id of the example as it comes, with a run; if there is none it takes a moment: the results are stored."""
    library = Library(studio.workspace)
    pipeline = open_sample(library, EXAMPLE)
    with studio.runs.log() as log:
        has_run = log.last_run_of(pipeline) is not None
    if not has_run:
        studio.runs.start(library.open(pipeline).pipeline, RunOptions(pipeline=pipeline))
    return pipeline


def prepare_example(studio: Studio) -> None:
    """Run the example in a workspace that has neither runs nor pipelines yet, so that a first visitor finds it done."""
    with studio.runs.log() as log:
        if log.runs(1) or Library(studio.workspace).entries():
            return
    with suppress(SylvaError):  # an example that does not run is no reason not to start
        open_example(studio)
