"""Errors that a user can fix: each message says what is wrong, where, and how to fix it.

- ``SylvaError``       base of all of them; the command line shows the message, not a traceback
- ``BadInput``         a node cannot use its data or parameters; the engine adds the node
- ``Problem``          one thing that is wrong with a pipeline; one subclass for each reason
- ``Message``          a message with names in it, which a screen replaces by titles
- ``InvalidPipeline``  all problems of a pipeline, raised together
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from engine.text import shown


class SylvaError(Exception):
    """An error that a user can fix; shown as its message, never as a traceback."""

    exit_code = 1


class BadInput(SylvaError):
    """A node cannot use its data or parameters; ``field`` names the parameter to change."""

    exit_code = 2

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def reader_crashed(file: str, how: str, field: str | None = None) -> BadInput:
    """Return the error for a file whose reader crashed; ``how`` is its signal or exit code."""
    return BadInput(
        f"'{file}' cannot be read: the reader crashed ({how}), so the file is probably damaged; "
        "save it again or use another file",
        field=field,
    )


class Cancelled(SylvaError):
    """The run was cancelled while this node was running."""


class SubtaskFailed(SylvaError):
    """A subtask of a node failed on another machine; ``kind`` is that of its failure."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class CorruptObject(SylvaError):
    """A stored output no longer has the bytes that were written."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(
            f"Stored output {digest[:12]} is damaged: {reason}. It will be computed again."
        )
        self.digest = digest


# Messages with names

Side = Literal["input", "output"]
"""The side of a node that a port is on."""


@dataclass(frozen=True)
class NodeName:
    """A node in a message."""

    node: str

    def __str__(self) -> str:
        return shown(self.node)


@dataclass(frozen=True)
class PortName:
    """An input or an output of a node in a message; ``full`` names the node as well."""

    node: str
    port: str
    side: Side
    full: bool = False

    def __str__(self) -> str:
        return f"{self.node}.{self.port}" if self.full else shown(self.port)


@dataclass(frozen=True)
class FieldName:
    """A parameter of a node in a message: ``trees``, ``learners.0.trees``."""

    node: str
    field: str

    def __str__(self) -> str:
        return shown(self.field)


@dataclass(frozen=True)
class TypeName:
    """A node type in a message."""

    type: str

    def __str__(self) -> str:
        return shown(self.type)


Name = NodeName | PortName | FieldName | TypeName


@dataclass(frozen=True)
class Names:
    """Several names in a message: ``'a', 'b' and 7 more``."""

    names: tuple[Name, ...]
    separator: str = ", "
    more: int = 0
    """How many others are not listed."""

    @classmethod
    def of(cls, names: Iterable[Name], most: int) -> Names:
        """Return the first ``most`` of these names."""
        every = tuple(names)
        return cls(every[:most], more=max(len(every) - most, 0))

    def written(self, write: Callable[[Name], str]) -> str:
        """Return the names in a line."""
        text = self.separator.join(map(write, self.names))
        return f"{text} and {self.more:,} more" if self.more else text

    def __str__(self) -> str:
        return self.written(str)


class Message(str):
    """A message with names in it: as text it has the names of the document.

    The template is a text with the keys of ``values`` in curly brackets.

    >>> print(Message("{node} has no input {port}", node=NodeName("a"), port="rows"))
    'a' has no input rows
    """

    __slots__ = ("template", "values")
    template: str
    values: dict[str, object]

    def __new__(cls, template: str, **values: object) -> Message:
        """Return the text of the template with its values."""
        message = super().__new__(cls, template.format_map(values))
        message.template, message.values = template, values
        return message

    def written(self, write: Callable[[Name], str]) -> str:
        """Return the message with each name as ``write`` writes it."""
        texts = {}
        for key, value in self.values.items():
            if isinstance(value, Names | Message):
                value = value.written(write)
            elif isinstance(value, NodeName | PortName | FieldName | TypeName):
                value = write(value)
            texts[key] = value
        return self.template.format_map(texts)


# Problems of a pipeline


class Problem(SylvaError):
    """One thing that is wrong with a pipeline; ``edge`` names both ends if it is a connection.

    ``code`` identifies the reason in ``--json``: ``unknown-type`` for ``UnknownType``.
    ``field_word`` is what ``field`` names: a field of a form, a port or an input. A problem of the
    severity ``warning`` does not stop a run.
    """

    exit_code = 2
    code: ClassVar[str] = "problem"
    field_word: ClassVar[str] = "field"
    severity: ClassVar[Literal["error", "warning"]] = "error"

    def __init_subclass__(cls) -> None:
        # Programs that read --json know the code, so a class must not be renamed.
        cls.code = re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

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
    def location(self) -> str:
        """Return where the problem is, as a sentence begins: ``Node 'split', field 'seed'``."""
        if self.edge is not None:
            return f"Edge {self.edge[0]} → {self.edge[1]}"
        parts = []
        if self.node is not None:
            parts.append(f"node {shown(self.node)}")
        if self.field is not None:
            parts.append(f"{self.field_word} {shown(self.field)}")
        return _capitalized(", ".join(parts))

    def __str__(self) -> str:
        location = self.location
        text = f"{location}: {self.message}" if location else _capitalized(self.message)
        return text if text.endswith((".", "?", "!")) else f"{text}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``--json`` and the canvas; ``text`` is the whole sentence."""
        edge = {"from": self.edge[0], "to": self.edge[1]} if self.edge else None
        return {
            "code": self.code,
            "severity": self.severity,
            "node": self.node,
            "field": self.field,
            "edge": edge,
            "message": self.message,
            "text": str(self),
        }


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


class Unreadable(Problem):
    """The file does not exist or cannot be read."""


class NotJson(Problem):
    """The text is not JSON, or not even UTF-8."""


class TooLarge(Problem):
    """The document has more bytes or more values than a pipeline may have."""


class TooDeep(Problem):
    """Lists and objects are nested deeper than a pipeline may have them."""


class DuplicateKey(Problem):
    """An object has the same key twice; one of the values would be lost."""


class NotFinite(Problem):
    """A number is NaN, infinite, or larger than any floating-point number."""


class BadText(Problem):
    """A text has half a character (a lone surrogate) and cannot be written as UTF-8."""


class WrongFormat(Problem):
    """The JSON is something other than a pipeline."""


class NewerVersion(Problem):
    """The document was written by a newer version of the program."""


class BadStructure(Problem):
    """A part of the document is missing, unknown or of the wrong kind."""


class BadName(Problem):
    """A node's name cannot be used."""


class UnknownType(Problem):
    """No installed package has a node type of that name."""


class UnknownParam(Problem):
    """The node type has no such parameter."""


class MissingParam(Problem):
    """A parameter without a default has no value."""


class BadParam(Problem):
    """A parameter's value cannot be used."""


class UnknownNode(Problem):
    """An edge or an edit names a node that does not exist."""


class UnknownPort(Problem):
    """An edge names a port that the node does not have."""

    field_word = "port"


class TypeMismatch(Problem):
    """An edge leads from an output to an input of another type."""


class SelfEdge(Problem):
    """An edge leads from a node to itself."""


class DuplicateEdge(Problem):
    """The pipeline has the same edge twice."""


class PortTaken(Problem):
    """A second edge leads to an input that takes one only."""


class Cycle(Problem):
    """Edges form a cycle, so that none of its nodes could start."""


class MissingInput(Problem):
    """A required input is not connected."""

    field_word = "input"


class CannotBypass(Problem):
    """A node is bypassed, but something reads an output that nothing can replace."""

    field_word = "output"


class Bypassed(Problem):
    """A run is asked for a node that is bypassed."""


class GroupOverlap(Problem):
    """A node is in more than one group, or twice in the same group."""


class BadSweep(Problem):
    """A sweep cannot be run, or leads to a node that must not run more than once."""


class BadSource(Problem):
    """A file or model that a node reads does not exist or cannot be used."""


class BadColumns(Problem):
    """A node cannot work with the columns that will arrive at it."""


class DataHint(Problem):
    """The pipeline can run, but its figures may mislead."""

    severity = "warning"


class RankedOnTestRows(DataHint):
    """Models are chosen on test rows, so the figures of the best one there are too good."""


class InvalidPipeline(SylvaError):
    """All problems of a pipeline; the message has one line for each."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
