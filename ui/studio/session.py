"""What all pages share: the workspace, the node types, and the process that starts runs."""

from __future__ import annotations

import atexit
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

import streamlit as st

from deepforest.forest.kernel_cache import PARTS, is_ready, kernel_folder, start_compiling
from engine import sandbox
from engine.catalogue import NodeCatalog, load_catalog
from engine.errors import BadInput, SylvaError
from engine.events import EventLog, RunFinished
from engine.files import Files
from engine.launch import Launcher, find_all_problems, new_run, request_cancel
from engine.pipeline import Pipeline
from engine.plan import RunOptions, make_plan
from engine.problems import InvalidPipeline
from engine.run_state import run_state
from engine.store import Store
from engine.workspace import CLEANING_SECONDS, Workspace
from nodes.load_data import IMPORTS


@dataclass
class Studio:
    """One workspace as the app sees it. Runs belong to processes of their own and outlive it."""

    workspace: Workspace
    catalogue: NodeCatalog

    @cached_property
    def files(self) -> Files:
        """What pipelines may read: nothing outside the workspace."""
        return Files(self.workspace.root)

    @cached_property
    def store(self) -> Store:
        """Outputs of finished nodes."""
        return Store(self.workspace)

    @cached_property
    def launcher(self) -> Launcher:
        """Starts supervisors without loading anything; made once, when the studio starts."""
        launcher = Launcher()
        atexit.register(launcher.close)
        return launcher

    @cached_property
    def compiler(self) -> subprocess.Popen[bytes] | None:
        """Compiles the forest kernels in the background, if that was not done on this machine before."""
        if kernel_folder() is None or all(map(is_ready, PARTS)):
            return None
        compiler = start_compiling("--background")
        atexit.register(compiler.terminate)
        return compiler

    @contextmanager
    def log(self) -> Iterator[EventLog]:
        """The run log; opened for each use, since Streamlit runs each script in a thread of its own."""
        with EventLog(self.workspace.create()) as log:
            yield log

    def start(self, document: Pipeline, request: RunOptions) -> str:
        """Run a document; its run's id. Raises everything that is wrong with it before anything is written."""
        problems = find_all_problems(document, self.catalogue, request, self.workspace)
        if problems:
            raise InvalidPipeline(problems)
        if not document.nodes:
            raise BadInput("The pipeline has no nodes yet; drag some onto the canvas.")
        make_plan(document, self.catalogue, request)
        with self.workspace.create().in_use(CLEANING_SECONDS), self.log() as log:
            run = new_run(log, document, request)
            try:
                self.launcher.start(self.workspace, run)
            except SylvaError:
                log.append(run, RunFinished(state="interrupted"))
                raise
        return run

    def go_on(self, run: str) -> None:
        """Retry or resume a run: nothing that is finished runs again."""
        with self.workspace.create().in_use(CLEANING_SECONDS), self.log() as log:
            state = run_state(log, log.run(run))
            if state.live:
                raise SylvaError(f"Run {run} is {state.state} already.")
            self.launcher.start(self.workspace, run)

    def stop(self, run: str) -> None:
        """Ask a run to stop; it stays resumable."""
        with self.log() as log:
            request_cancel(run_state(log, log.run(run)))


@st.cache_resource(show_spinner=False)
def studio() -> Studio:
    """The studio of this server; its workspace is the one the environment names."""
    made = Studio(Workspace.at(), load_catalog())
    _ = made.launcher
    sandbox.warm([*IMPORTS, "nodes.data.files", "ui.studio.models.scoring_jobs"])
    _ = made.compiler
    # The form of a deep forest needs the library, which takes seconds to load: better before anyone waits for it.
    threading.Thread(target=import_module, args=("deepforest.presets",), daemon=True).start()
    return made
