"""The built-in node types, one file each.

Every module of this package that defines ``NODE`` is a node type; adding one means adding a file. Names that
begin with an underscore are what several nodes share. Slow libraries are imported inside ``run`` and listed
in the node's ``imports``, so that listing the catalogue stays instant.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from engine.contract import NodeType

NODE_TYPES: list[NodeType] = [
    import_module(f"{__name__}.{module.name}").NODE
    for module in iter_modules(__path__)
    if not module.name.startswith("_")
]
