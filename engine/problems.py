"""What can be wrong with a pipeline: one class per reason, each saying how to mend it.

- ``Problem``          one thing that is wrong, with the node and the field where it is; its subclasses are the reasons
- ``InvalidPipeline``  all the problems of a document, raised together
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from engine.errors import SylvaError
from engine.text import shown

if TYPE_CHECKING:
    pass

LONGEST_SHOWN = 80


class Problem(SylvaError):
    """One thing that is wrong. ``edge`` names both ends where the problem is a connection."""

    exit_code = 2
    code: ClassVar[str] = "problem"
    field_word: ClassVar[str] = "field"

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        field: str | None = None,
        edge: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.field = field
        self.edge = edge

    @property
    def place(self) -> str:
        """Where the problem is, as a sentence begins: ``Node 'split', field 'test_share'``."""
        if self.edge is not None:
            return f"Edge {self.edge[0]} → {self.edge[1]}"
        node = f"Node {shown(self.node)}" if self.node is not None else ""
        field = f"{self.field_word} {shown(self.field)}" if self.field is not None else ""
        place = ", ".join(part for part in (node, field) if part)
        return place[:1].upper() + place[1:]

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message[:1].upper() + self.message[1:]
        return text if text.endswith((".", "?", "!")) else f"{text}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``--json`` and the canvas; ``text`` is the whole sentence."""
        edge = {"from": self.edge[0], "to": self.edge[1]} if self.edge else None
        return {
            "code": self.code,
            "node": self.node,
            "field": self.field,
            "edge": edge,
            "message": self.message,
            "text": str(self),
        }


class Unreadable(Problem):
    """The file is not there or may not be read."""

    code = "unreadable"


class NotJson(Problem):
    """The text is not JSON, or not even UTF-8."""

    code = "not-json"


class TooLarge(Problem):
    """The document has more bytes or more values than a pipeline can need."""

    code = "too-large"


class TooDeep(Problem):
    """Lists and objects are nested deeper than a pipeline can need."""

    code = "too-deep"


class DuplicateKey(Problem):
    """An object has the same key twice, so that one of the values would be lost."""

    code = "duplicate-key"


class NotFinite(Problem):
    """A number is NaN, infinite, or too large for any computer number."""

    code = "not-finite"


class BadText(Problem):
    """A text holds half a character (a lone surrogate) and cannot be written as UTF-8."""

    code = "bad-text"


class WrongFormat(Problem):
    """The JSON is something other than a pipeline."""

    code = "wrong-format"


class NewerVersion(Problem):
    """The document was written by a newer version of the program."""

    code = "newer-version"


class BadStructure(Problem):
    """A part of the document is missing, unknown or of the wrong kind."""

    code = "bad-structure"


class BadName(Problem):
    """A node's name cannot be used."""

    code = "bad-name"


class UnknownType(Problem):
    """No installed package has a node type of that name."""

    code = "unknown-type"


class UnknownParam(Problem):
    """The node type has no such parameter."""

    code = "unknown-param"


class MissingParam(Problem):
    """A parameter without a default is not given."""

    code = "missing-param"


class BadParam(Problem):
    """A parameter's value cannot be used."""

    code = "bad-param"


class UnknownNode(Problem):
    """An edge or an edit names a node that is not there."""

    code = "unknown-node"


class UnknownPort(Problem):
    """An edge names a port that the node does not have."""

    code = "unknown-port"
    field_word = "port"


class TypeMismatch(Problem):
    """An edge leads from an output to an input of another type."""

    code = "type-mismatch"


class SelfEdge(Problem):
    """An edge leads from a node to itself."""

    code = "self-edge"


class DuplicateEdge(Problem):
    """The same edge is there twice."""

    code = "duplicate-edge"


class PortTaken(Problem):
    """A second edge leads into an input that takes only one."""

    code = "port-taken"


class Cycle(Problem):
    """Edges lead around in a circle, so that no node of it could start."""

    code = "cycle"


class MissingInput(Problem):
    """Nothing is connected to an input that needs something."""

    code = "missing-input"
    field_word = "input"


class BadSweep(Problem):
    """A sweep cannot be carried out, or leads into a node that must not run more than once."""

    code = "bad-sweep"


class BadSource(Problem):
    """What a node reads from outside the pipeline is not there or cannot be used."""

    code = "bad-source"


class BadColumns(Problem):
    """A node cannot work with the columns that will arrive at it."""

    code = "bad-columns"


class InvalidPipeline(SylvaError):
    """Everything that is wrong with a pipeline; its text has one problem a line."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
