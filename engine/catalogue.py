"""The node types that are installed.

A package offers node types through the entry point group ``sylva.nodes``: an entry point gives one
``NodeType`` or several. One that cannot be loaded is left out and named in ``failures``; the others still work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from engine.node_types import NodeType

GROUP = "sylva.nodes"
OWN_DISTRIBUTION = "sylva-studio"


class NodeCatalog(Mapping[str, NodeType]):
    """Node types by name; ``failures`` has one plain sentence for each that could not be taken in."""

    def __init__(self, node_types: Iterable[NodeType] = (), *, source: str = "this program") -> None:
        self._types: dict[str, NodeType] = {}
        self._sources: dict[str, str] = {}
        self.failures: list[str] = []
        self.add(node_types, source=source)

    def add(self, node_types: Iterable[NodeType], *, source: str) -> None:
        """Take in node types from ``source``; the first of a name stays, so that no package can replace another's."""
        for node_type in node_types:
            if node_type.name in self._types:
                self.failures.append(
                    f"Node type '{node_type.name}' of {source} is left out: "
                    f"{self._sources[node_type.name]} already has one of that name."
                )
            else:
                self._types[node_type.name] = node_type
                self._sources[node_type.name] = source

    def __getitem__(self, name: str) -> NodeType:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


@cache
def load_catalog() -> NodeCatalog:
    """The node types of all installed packages, the built-in ones first."""
    return collect(sorted(entry_points(group=GROUP), key=_own_first))


def collect(entries: Iterable[EntryPoint]) -> NodeCatalog:
    """The node types these entry points give."""
    catalogue = NodeCatalog()
    for entry in entries:
        try:
            catalogue.add(_node_types(entry.load()), source=_source(entry))
        # A package's import may raise anything, even SystemExit; none of it may take the program down.
        except (Exception, SystemExit) as error:
            catalogue.failures.append(
                f"The node types of {_source(entry)} ({entry.value}) could not be loaded: "
                f"{type(error).__name__}: {error}"
            )
    return catalogue


def _node_types(loaded: object) -> list[NodeType]:
    offered: list[Any] = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    for thing in offered:
        if not isinstance(thing, NodeType):
            raise TypeError(f"it gives a {type(thing).__name__} where a NodeType is expected")
    return offered


def _own_first(entry: EntryPoint) -> tuple[bool, str, str]:
    source = _source(entry)
    return source != f"package '{OWN_DISTRIBUTION}'", source, entry.name


def _source(entry: EntryPoint) -> str:
    return f"package '{entry.dist.name}'" if entry.dist else f"entry point '{entry.name}'"
