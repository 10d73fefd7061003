"""Changes to a document that can be taken back.

An edit is a small value that says what to change. ``edit.apply(document, catalogue)`` gives the changed document
and the edit that takes the change back, exactly: the order of nodes and edges comes back too. An edit that cannot
be made raises the ``Problem`` that says why, and nothing is changed.

- nodes     ``AddNode``, ``RemoveNode``, ``RenameNode``, ``SetLabel``, ``SetParams``, ``ReviseParams``, ``SetSettings``,
            ``SetSweep``, ``ReviseSweep``, ``KeepBranch``, ``Move``
- edges     ``Connect``, ``Disconnect``
- notes     ``AddNote``, ``RemoveNote``, ``EditNote``
- document  ``SetName``, ``SetDescription``; ``Batch`` makes several edits one
- ``History``      does, undoes and redoes edits
- ``free_id``      a name for a new node
- ``without_defaults``  the parameters worth writing down
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pydantic import JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from engine.branches import with_values
from engine.contract import NodeType
from engine.document import NAME_PATTERN, NAME_RULE, Document, Edge, Endpoint, Node, NodeSettings, Note, Sweep, changed
from engine.problems import BadName, BadStructure, BadSweep, shown
from engine.validate import Types, check_connect, unknown_node


class Edit(ABC):
    """A change to a document."""

    @abstractmethod
    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """The parts (``nodes``, ``edges`` …) that become others; raises a ``Problem`` if it cannot be."""

    def apply(self, document: Document, catalogue: Types) -> tuple[Document, Edit]:
        """The changed document, and the edit that takes the change back."""
        changes = self.changes(document, catalogue)
        before = {part: getattr(document, part) for part in changes}
        return changed(document, **changes), _Restore(before)


@dataclass(frozen=True)
class _Restore(Edit):
    """Puts back the parts that an edit replaced. Documents share what they have in common, so this is small."""

    parts: Mapping[str, Any]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        return dict(self.parts)


# Nodes


@dataclass(frozen=True)
class AddNode(Edit):
    """Put a node into the pipeline, on the canvas at ``position``."""

    node_id: str
    node: Node
    position: tuple[float, float] | None = None

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """A new node at the end, its parameters without those that equal the default."""
        _check_free(document, self.node_id)
        params = without_defaults(catalogue.get(self.node.type), self.node.params)
        node = changed(self.node, ("nodes", self.node_id), params=params)
        place = {} if self.position is None else {self.node_id: self.position}
        return {"nodes": {**document.nodes, self.node_id: node}, "layout": {**document.layout, **place}}


@dataclass(frozen=True)
class RemoveNode(Edit):
    """Take a node out, with its edges and its place on the canvas."""

    node_id: str

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """Everything but the node."""
        _existing(document, self.node_id)
        return {
            "nodes": {name: node for name, node in document.nodes.items() if name != self.node_id},
            "edges": [edge for edge in document.edges if self.node_id not in (edge.source.node, edge.target.node)],
            "layout": {name: place for name, place in document.layout.items() if name != self.node_id},
        }


@dataclass(frozen=True)
class RenameNode(Edit):
    """Give a node another id; its edges follow."""

    node_id: str
    new_id: str

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """The same nodes in the same order, one under another name."""
        _existing(document, self.node_id)
        if self.new_id == self.node_id:
            return {}
        _check_free(document, self.new_id)
        return {
            "nodes": {self._renamed(name): node for name, node in document.nodes.items()},
            "edges": [self._moved(edge) for edge in document.edges],
            "layout": {self._renamed(name): place for name, place in document.layout.items() if name != self.new_id},
        }

    def _renamed(self, name: str) -> str:
        return self.new_id if name == self.node_id else name

    def _moved(self, edge: Edge) -> Edge:
        if self.node_id not in (edge.source.node, edge.target.node):
            return edge
        source, target = (Endpoint(self._renamed(end.node), end.port) for end in (edge.source, edge.target))
        return Edge(source=source, target=target)


@dataclass(frozen=True)
class SetLabel(Edit):
    """Change what the canvas shows as the node's title."""

    node_id: str
    label: str

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with another label."""
        return _with_node(document, self.node_id, label=self.label)


@dataclass(frozen=True)
class SetParams(Edit):
    """Replace all parameters of a node. Wrong ones are kept for the form to show; ``find_problems`` names them."""

    node_id: str
    params: Mapping[str, JsonValue]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with other parameters, without those that equal the default."""
        node_type = catalogue.get(_existing(document, self.node_id).type)
        return _with_node(document, self.node_id, params=without_defaults(node_type, self.params))


@dataclass(frozen=True)
class ReviseParams(Edit):
    """Change parameters of a node, whatever they are when the edit is made."""

    node_id: str
    revise: Callable[[dict[str, Any]], Mapping[str, JsonValue]]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with its present parameters revised."""
        params = self.revise(dict(_existing(document, self.node_id).params))
        return SetParams(self.node_id, params).changes(document, catalogue)


@dataclass(frozen=True)
class SetSettings(Edit):
    """Change how the engine runs a node."""

    node_id: str
    settings: NodeSettings

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with other settings."""
        return _with_node(document, self.node_id, settings=self.settings)


@dataclass(frozen=True)
class SetSweep(Edit):
    """Have a node try several values, or no longer. Values that do not fit are kept for the form to show."""

    node_id: str
    sweep: Sweep | None

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with another sweep."""
        return _with_node(document, self.node_id, sweep=self.sweep)


@dataclass(frozen=True)
class ReviseSweep(Edit):
    """Change the sweep of a node, whatever it is when the edit is made."""

    node_id: str
    revise: Callable[[Sweep | None], Sweep | None]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One node with its present sweep revised."""
        sweep = self.revise(_existing(document, self.node_id).sweep)
        return SetSweep(self.node_id, sweep).changes(document, catalogue)


@dataclass(frozen=True)
class KeepBranch(Edit):
    """Give nodes the values that they had in one branch of their sweeps, and sweep no more."""

    values: Mapping[str, Mapping[str, JsonValue]]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """The same nodes, each with its values."""
        nodes = dict(document.nodes)
        for name, values in self.values.items():
            node = _existing(document, name)
            try:
                params = with_values(node.params, dict(values))
            except LookupError:
                message = "the node has no such place any more; run the sweep again"
                raise BadSweep(message, node=name, field="sweep") from None
            kept = without_defaults(catalogue.get(node.type), params)
            nodes[name] = changed(node, ("nodes", name), params=kept, sweep=None)
        return {"nodes": nodes}


@dataclass(frozen=True)
class Move(Edit):
    """Put nodes elsewhere on the canvas."""

    positions: Mapping[str, tuple[float, float]]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """Another place for each node named."""
        for name in self.positions:
            _existing(document, name)
        return {"layout": {**document.layout, **self.positions}}


# Edges


@dataclass(frozen=True)
class Connect(Edit):
    """Draw an edge, by the rules of ``check_connect``. ``at`` is its place among the edges, at the end if not given."""

    edge: Edge
    at: int | None = None

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One more edge."""
        check_connect(document, catalogue, self.edge)
        at = len(document.edges) if self.at is None else self.at
        return {"edges": [*document.edges[:at], self.edge, *document.edges[at:]]}


@dataclass(frozen=True)
class Disconnect(Edit):
    """Remove an edge."""

    edge: Edge

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One edge less; of an edge that is there twice, the first stays."""
        if self.edge not in document.edges:
            raise BadStructure("there is no such edge; it may be removed already", edge=self.edge.names)
        at = len(document.edges) - 1 - document.edges[::-1].index(self.edge)
        return {"edges": [*document.edges[:at], *document.edges[at + 1 :]]}


# Notes and the document itself


@dataclass(frozen=True)
class AddNote(Edit):
    """Put a note on the canvas, above the others."""

    note: Note

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One more note."""
        return {"notes": [*document.notes, self.note]}


@dataclass(frozen=True)
class RemoveNote(Edit):
    """Remove the note at a position in the list of notes."""

    index: int

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """One note less."""
        _check_note(document, self.index)
        return {"notes": [*document.notes[: self.index], *document.notes[self.index + 1 :]]}


@dataclass(frozen=True)
class EditNote(Edit):
    """Put another note in the place of one."""

    index: int
    note: Note

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """The notes, one of them another."""
        _check_note(document, self.index)
        return {"notes": [*document.notes[: self.index], self.note, *document.notes[self.index + 1 :]]}


@dataclass(frozen=True)
class SetName(Edit):
    """Name the pipeline."""

    name: str

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """Another name."""
        return {"name": self.name}


@dataclass(frozen=True)
class SetDescription(Edit):
    """Describe the pipeline."""

    description: str

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """Another description."""
        return {"description": self.description}


@dataclass(frozen=True)
class Batch(Edit):
    """Several edits as one: all are made or none, and one undo takes them all back."""

    edits: tuple[Edit, ...]

    def changes(self, document: Document, catalogue: Types) -> dict[str, Any]:
        """What all of them change together, each made upon the one before."""
        after = document
        for edit in self.edits:
            after, _ = edit.apply(after, catalogue)
        parts = Document.model_fields
        return {part: getattr(after, part) for part in parts if getattr(after, part) is not getattr(document, part)}


# Doing and undoing


@dataclass
class History:
    """A document with the edits that led to it."""

    document: Document
    _done: list[Edit] = field(default_factory=list)
    _undone: list[Edit] = field(default_factory=list)

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        """Whether there is an undone edit to make again."""
        return bool(self._undone)

    def do(self, edit: Edit, catalogue: Types) -> Document:
        """Make an edit; what was undone before it can no longer be redone."""
        self.document, inverse = edit.apply(self.document, catalogue)
        self._done.append(inverse)
        self._undone.clear()
        return self.document

    def undo(self) -> Document:
        """Take the last edit back; nothing happens if there is none."""
        return self._step(self._done, self._undone)

    def redo(self) -> Document:
        """Make the edit that was undone last again; nothing happens if there is none."""
        return self._step(self._undone, self._done)

    def _step(self, taken_from: list[Edit], put_on: list[Edit]) -> Document:
        if taken_from:
            self.document, inverse = taken_from.pop().apply(self.document, {})
            put_on.append(inverse)
        return self.document


# What several edits need


def free_id(document: Document, stem: str) -> str:
    """An id no node has yet: ``stem``, or ``stem-2``, ``stem-3`` …"""
    stem = re.sub(r"[^A-Za-z0-9_-]", "-", stem)[:50]
    stem = stem if re.match("[A-Za-z]", stem) else f"node{stem}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(name for name in names if name not in document.nodes)


def without_defaults(node_type: NodeType | None, params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The parameters that differ from the default, in the order of the node type; all of them if it is unknown."""
    if node_type is None:
        return dict(params)
    fields = node_type.params.model_fields
    ordered = {name: params[name] for name in (*fields, *params) if name in params}
    return {
        name: value for name, value in ordered.items() if name not in fields or not _is_default(fields[name], value)
    }


def _is_default(known: FieldInfo, value: JsonValue) -> bool:
    if known.is_required() or known.default_factory_takes_validated_data:
        return False
    return _same(to_jsonable_python(known.get_default(call_default_factory=True)), value)


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON means it: 1 is 1.0, but neither is true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _existing(document: Document, node_id: str) -> Node:
    if node_id not in document.nodes:
        raise unknown_node(node_id, document)
    return document.nodes[node_id]


def _check_free(document: Document, node_id: str) -> None:
    if not re.fullmatch(NAME_PATTERN, node_id):
        raise BadName(f"the name cannot be used; {NAME_RULE}", node=node_id)
    if node_id in document.nodes:
        near = free_id(document, node_id)
        raise BadName(f"there is a node of that name already; take {shown(near)} or another", node=node_id)


def _with_node(document: Document, node_id: str, **values: object) -> dict[str, Any]:
    node = changed(_existing(document, node_id), ("nodes", node_id), **values)
    return {"nodes": {**document.nodes, node_id: node}}


def _check_note(document: Document, index: int) -> None:
    if not 0 <= index < len(document.notes):
        raise BadStructure(f"there is no note {index + 1}; it may be removed already", field="notes")
