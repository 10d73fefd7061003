"""Run pipelines: check them, plan them, run each node in a process of its own, store the outputs.

The engine knows no node type and no learner: node types come from installed packages, through the
entry point group ``sylva.nodes``. A pipeline on its way through the package:

- ``pipeline``    a pipeline as a value; ``pipeline_file`` is its JSON, ``pipeline_library`` saves
  it, ``edits`` change it, ``sweeps`` expand it, ``pipeline_diff`` compares it with another
- ``node_types``  what a node type is, and which are installed; ``values`` flow along the edges
- ``validation``  everything that is wrong with a pipeline, as a ``Problem`` of ``errors`` each
- ``plan``        which nodes run, in which order; ``graph`` knows which node reads from which
- ``scheduler``   starts each node when its inputs are ready; ``executors`` run it
- ``store``       stores outputs by content; ``events`` is the log of a run, ``run_state`` its state
- ``runs``        start, resume, cancel, list and watch runs; ``supervisor`` is the process of a run
- ``workspace``   the folders of a user; ``atomic`` writes and locks files, ``text`` words messages

The names below are the public API; each module is imported when a name of it is first used::

    from engine import Pipeline, Workspace, find_problems, load_catalog, read
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.errors import BadInput, InvalidPipeline, Problem, SylvaError
    from engine.node_types import (
        Column,
        NodeCatalog,
        NodeContext,
        NodeParams,
        NodeType,
        Port,
        form_hint,
        load_catalog,
    )
    from engine.pipeline import Edge, Node, Pipeline
    from engine.pipeline_file import dumps, parse, read, write
    from engine.testing import check_node
    from engine.validation import find_problems
    from engine.values import Folder, Predictions, Report, Table
    from engine.workspace import Files, Workspace

__all__ = [
    "BadInput",
    "Column",
    "Edge",
    "Files",
    "Folder",
    "InvalidPipeline",
    "Node",
    "NodeCatalog",
    "NodeContext",
    "NodeParams",
    "NodeType",
    "Pipeline",
    "Port",
    "Predictions",
    "Problem",
    "Report",
    "SylvaError",
    "Table",
    "Workspace",
    "check_node",
    "dumps",
    "find_problems",
    "form_hint",
    "load_catalog",
    "parse",
    "read",
    "write",
]

# Imported on first use: a node that needs one name must not wait for the whole engine to load.
_MODULES = {
    "errors": "BadInput InvalidPipeline Problem SylvaError",
    "node_types": "Column NodeCatalog NodeContext NodeParams NodeType Port form_hint load_catalog",
    "pipeline": "Edge Node Pipeline",
    "pipeline_file": "dumps parse read write",
    "testing": "check_node",
    "validation": "find_problems",
    "values": "Folder Predictions Report Table",
    "workspace": "Files Workspace",
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"engine.{module}"), name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
