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
from engine.events import EventLog
from engine.node_types import NodeCatalog, load_catalog
from engine.runs import Runs
from engine.store import Store
from engine.supervisor_starter import SupervisorStarter
from engine.workspace import Files, Workspace
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
    def starter(self) -> SupervisorStarter:
        """The process that starts supervisors; it has loaded all that nodes need."""
        starter = SupervisorStarter(preload=True)
        atexit.register(starter.close)
        return starter

    @cached_property
    def runs(self) -> Runs:
        """The runs of the workspace."""
        return Runs(self.workspace, self.catalogue, self.starter)

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
        """Open the run log; for each use, since Streamlit runs each script in a thread of its own."""
        with EventLog(self.workspace.create()) as log:
            yield log


@st.cache_resource(show_spinner=False)
def studio() -> Studio:
    """The studio of this server; its workspace is the one the environment names."""
    made = Studio(Workspace.at(), load_catalog())
    _ = made.starter
    sandbox.warm([*IMPORTS, "nodes.data.files", "ui.studio.models.scoring_jobs"])
    _ = made.compiler
    # The form of a deep forest needs the library, which takes seconds to load: better before anyone waits for it.
    threading.Thread(target=import_module, args=("deepforest.presets",), daemon=True).start()
    return made
