"""The built-in node types, one file each.

Every module of this package that defines ``NODE`` is a node type; adding one means adding a file. Names that
begin with an underscore are what several nodes share; ``deploy`` puts trained models to work outside a pipeline. Slow
libraries are imported inside ``run`` and listed in the node's ``imports``, so that listing the catalogue stays instant.

``NODE_TYPES`` is made when it is first asked for: whoever needs a part of this package does not load all of it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.contract import NodeType

    NODE_TYPES: list[NodeType]


@cache
def _node_types() -> list[NodeType]:
    modules = [module.name for module in iter_modules(__path__) if not module.name.startswith("_") and not module.ispkg]
    return [import_module(f"{__name__}.{name}").NODE for name in modules]


def __getattr__(name: str) -> list[NodeType]:
    if name == "NODE_TYPES":
        return _node_types()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
