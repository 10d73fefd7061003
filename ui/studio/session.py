"""What all pages share: the workspace, the node types and the runs."""

from __future__ import annotations

import atexit
import subprocess
import threading
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

import streamlit as st

from deepforest.forest.kernel_cache import PARTS, is_ready, kernel_folder, start_compiling
from engine import sandbox
from engine.node_types import NodeCatalog, load_catalog
from engine.runs import Runs
from engine.store import Store
from engine.supervisor_starter import SupervisorStarter
from engine.workspace import Files, Workspace
from nodes.data.formats import IMPORTS


@dataclass
class Studio:
    """One workspace with its node types and runs.

    Runs belong to processes of their own: they continue when the studio ends.
    """

    workspace: Workspace
    catalog: NodeCatalog

    @cached_property
    def files(self) -> Files:
        """Return the files that pipelines may read: nothing outside the workspace."""
        return Files(self.workspace.root)

    @cached_property
    def store(self) -> Store:
        """Return the store with the outputs of finished nodes.

        All runs of the workspace share it: equal work is stored once.
        """
        return self.runs.store

    @cached_property
    def runs(self) -> Runs:
        """Return the runs of the workspace."""
        return Runs(self.workspace, self.catalog)

    @cached_property
    def compiler(self) -> subprocess.Popen[bytes] | None:
        """Return the process that compiles the forest kernels in the background.

        It is None if the kernels were compiled on this machine before.
        """
        if kernel_folder() is None or all(map(is_ready, PARTS)):
            return None
        compiler = start_compiling("--background")
        atexit.register(compiler.terminate)
        return compiler


@st.cache_resource(show_spinner=False)
def studio() -> Studio:
    """Return the studio of this server, for the workspace that the environment names.

    All browser tabs share it. The first call starts what takes long to start: the process that
    begins runs, the one that reads uploads, and the compiler.
    """
    studio = Studio(Workspace.at(), load_catalog())
    # Importing the engine takes a second. A process that has done so starts runs at once.
    studio.runs.starter = starter = SupervisorStarter(preload=True)
    atexit.register(starter.close)
    # The first upload or preview would wait for these imports otherwise.
    sandbox.warm([*IMPORTS, "nodes.data.files", "ui.studio.models.scoring_jobs"])
    # Reading the property starts the process.
    _ = studio.compiler
    # The form of a deep forest needs the library, which takes seconds to load: load it now.
    threading.Thread(target=import_module, args=("deepforest.presets",), daemon=True).start()
    return studio
