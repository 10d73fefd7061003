"""What can be wrong with a pipeline: one class per reason, each saying how to mend it.

- ``Problem``          one thing that is wrong, with the node and the field where it is; its subclasses are the reasons
- ``InvalidPipeline``  all the problems of a document, raised together
- ``explain``          what pydantic found, in plain words
- ``suggest``, ``shown``  the nearest known name, and a value made fit for a message
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from engine.errors import SylvaError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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


def shown(value: object) -> str:
    """A value as a message shows it: short, quoted if it is text, nothing in it that a terminal would obey."""
    match value:
        case str():
            return repr(value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}…")
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case int() | float() | None:
            return json.dumps(value) if value is None or abs(value) < 10**LONGEST_SHOWN else "the number"
    return f"a {type(value).__name__}"


def suggest(word: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean 'table'?``, or ``otherwise`` when no known name is near."""
    if len(word) > LONGEST_SHOWN:
        return otherwise
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {shown(near[0])}?" if near else otherwise


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """``a, b, c``, cut short when there are many."""
    names = list(names)
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


_WHOLE_NUMBER = ("{value} is not a whole number", "give a whole number")
_NUMBER = ("{value} is not a number", "give a number")
_SWITCH = ("{value} is neither true nor false", "give true or false, without quotes")
_LIST = ("{value} is not a list", "give a list in square brackets")
_OBJECT = ("{value} is not an object", "give an object in curly brackets")
_CHOICE = ("{value} is not one of the choices", "give {expected}")
_NOT_FINITE = ("the number is not finite", "give an ordinary number")

_EXPLANATIONS: Mapping[str, tuple[str, str]] = {
    "missing": ("it is missing", "add it"),
    "extra_forbidden": ("there is no such field", "remove it"),
    "string_type": ("{value} is not text", "give text in quotes"),
    "string_unicode": ("the text holds half a character", "remove it"),
    "string_too_long": ("the text is too long", "give at most {max_length} characters"),
    "string_too_short": ("the text is too short", "give {min_length} or more characters"),
    "string_pattern_mismatch": ("{value} does not have the right form", "give text that matches {pattern}"),
    "int_type": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NOT_FINITE,
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "none_required": ("{value} does not fit", "give null"),
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "greater_than": ("{value} is too small", "give a number above {gt}"),
    "greater_than_equal": ("{value} is too small", "give {ge} or more"),
    "less_than": ("{value} is too large", "give a number below {lt}"),
    "less_than_equal": ("{value} is too large", "give {le} or less"),
    "multiple_of": ("{value} does not fit", "give a multiple of {multiple_of}"),
    "too_long": ("there are too many entries", "give at most {max_length}"),
    "too_short": ("there are too few entries", "give {min_length} or more"),
    "literal_error": _CHOICE,
    "enum": _CHOICE,
    "union_tag_invalid": ("its {discriminator} '{tag}' is not known", "give one of {expected_tags}"),
    "union_tag_not_found": ("{value} does not say its {discriminator}", "add it"),
}


def explain(errors: Sequence[ErrorDetails]) -> str:
    """What pydantic found at one place, in plain words; several errors are the branches of a union."""
    said = list(dict.fromkeys(_what_and_how(error) for error in errors))
    if len(said) == 1:
        return "; ".join(part for part in said[0] if part)
    return f"{shown(errors[0]['input'])} does not fit; " + ", or ".join(how or what for what, how in said)


def _what_and_how(error: ErrorDetails) -> tuple[str, str]:
    value, facts = shown(error["input"]), error.get("ctx", {})
    if error["type"] in _EXPLANATIONS:
        what, how = _EXPLANATIONS[error["type"]]
        numbers = {name: _plain(fact) for name, fact in facts.items()}
        return what.format(value=value, **numbers), how.format(**numbers)
    if error["type"] in ("value_error", "assertion_error"):
        return str(facts["error"]), ""
    return f"{value} does not fit", error["msg"].replace("Input should be", "give").removesuffix(".")


def _plain(fact: object) -> object:
    return int(fact) if isinstance(fact, float) and fact.is_integer() else fact
