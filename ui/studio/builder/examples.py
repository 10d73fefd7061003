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
"""The example that is run in a new workspace."""

FIRST = ("first_pipeline.json", f"{EXAMPLE}.json")


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
        # Compare the titles first: most files need not be opened.
        if (
            entry.title == sample.name
            and not entry.problem
            and library.open(entry.id).pipeline == sample
        ):
            return entry.id
    return library.create(sample)


def open_example(studio: Studio) -> str:
    """Return the id of the example, and make sure that it has a run.

    Without one it is run now; results that the store has are not computed again.
    """
    library = Library(studio.workspace)
    pipeline = open_sample(library, EXAMPLE)
    with studio.runs.log() as log:
        has_run = log.last_run_of(pipeline) is not None
    if not has_run:
        studio.runs.start(library.open(pipeline).pipeline, RunOptions(pipeline=pipeline))
    return pipeline


def prepare_example(studio: Studio) -> None:
    """Run the example in a new workspace, so that a new user finds it finished.

    A workspace with runs or pipelines is left as it is.
    """
    with studio.runs.log() as log:
        if log.runs(1) or Library(studio.workspace).entries():
            return
    with suppress(SylvaError):  # the studio starts even if the example cannot run
        open_example(studio)
