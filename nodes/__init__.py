"""Define the built-in node types, one file each.

Every module of this package is a node type and defines ``NODE``; to add one, add a file. A node
that trains a model also defines ``KIND``, a ``ModelKind``. ``steps`` is the one exception: it
offers the nodes as plain functions. What several nodes share is in the folders:

- ``data``        read tables
- ``models``      trained models: encode, train, save, score
- ``inspection``  figures of the layers of a deep forest

Slow libraries are imported inside ``run`` and listed in the node's ``imports``, so that listing the
node types stays fast. ``NODE_TYPES`` is made on first use, so importing a part of this package does
not import all of it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.node_types import NodeType

    NODE_TYPES: list[NodeType]

_NOT_A_NODE = "steps"


def module_names() -> list[str]:
    """Return the name of each module of this package that defines a node type."""
    names = [module.name for module in iter_modules(__path__) if not module.ispkg]
    return [name for name in names if name != _NOT_A_NODE]


@cache
def _node_types() -> list[NodeType]:
    """Import every module of this package and return the ``NODE`` of each."""
    return [import_module(f"{__name__}.{name}").NODE for name in module_names()]


def __getattr__(name: str) -> list[NodeType]:
    """Return ``NODE_TYPES`` on first use, as the entry point of this package asks for it."""
    if name == "NODE_TYPES":
        return _node_types()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
