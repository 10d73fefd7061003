"""A pipeline as a value that never changes.

- ``Pipeline``, ``Node``, ``NodeSettings``, ``Sweep``, ``Edge``, ``PortRef``, ``Note``  what a pipeline holds
- ``changed``                      a model with other values, checked like a new one
- ``value_problems``, ``translated``  what is wrong with plain JSON data, as ``Problem``s that name node and field

``pipeline_file`` reads and writes documents. This module knows the shape of a document only; ``validate`` knows
whether its types, parameters and edges fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Set
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AllowInfNan, BaseModel, ConfigDict, Discriminator, Field, JsonValue, Strict, Tag, ValidationError
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import AfterValidator, PlainValidator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from engine.problems import BadName, BadStructure, BadText, DuplicateKey, NotFinite, Problem, TooDeep, TooLarge
from engine.text import explain, shown, suggest

MAX_VALUES = 500_000
MAX_DEPTH = 32
MAX_NODES = 5_000
MAX_EDGES = 50_000
MAX_NOTES = 5_000
MAX_PARAMS = 500
MAX_BRANCHES = 200

NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
NAME_RULE = "begin with a letter and use up to 64 letters, digits, '-' and '_'"

Place = tuple[str | int, ...]
"""Where a value lies in the JSON: keys and list positions from the top."""


class PortRef(NamedTuple):
    """One end of an edge: a port of a node. In JSON it reads ``node.port``."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}.{self.port}"

    @classmethod
    def parse(cls, text: str) -> PortRef:
        """The end that ``node.port`` names; ``ValueError`` if the text reads otherwise."""
        found = _ENDPOINT.fullmatch(text)
        if found is None:
            raise ValueError(f"{shown(text)} does not read 'node.port'")
        return cls(*found.groups())


_ENDPOINT = re.compile(rf"({NAME_PATTERN})\.({NAME_PATTERN})")


def _endpoint(value: object) -> PortRef:
    """An end as JSON or as Python has it."""
    text = str(value) if isinstance(value, PortRef) else value
    found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise PydanticCustomError("endpoint", "not an end of an edge; write it as 'node.port'")
    return PortRef(*found.groups())


def _storable(params: dict[str, Any]) -> dict[str, Any]:
    """Refuse what a document could not hold, such as NaN; ``JsonValue`` has seen to the rest."""
    start = ("nodes", "", "params")
    for place, problem in value_problems(params, start):
        about = {"reason": problem.message, "class": type(problem), "place": place[len(start) :]}
        raise PydanticCustomError("unstorable", "{reason}", about)
    return params


class _Model(BaseModel):
    """Closed, unchanging, and strict: a document says what it means."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_by_name=True, validate_by_alias=True)


_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
NodeId = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Label = Annotated[str, Field(max_length=200, pattern=_LINE)]
End = Annotated[
    PortRef,
    PlainValidator(_endpoint),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^{NAME_PATTERN}\.{NAME_PATTERN}$"}),
]
Finite = Annotated[float, AllowInfNan(False)]
# JSON has lists where these have tuples, so the containers alone are not strict.
Position = Annotated[tuple[Finite, Finite], Strict(False)]
Params = Annotated[dict[str, JsonValue], Field(max_length=MAX_PARAMS), AfterValidator(_storable)]


class NodeSettings(_Model):
    """How the engine runs a node. None of it changes the node's result."""

    retries: int = Field(default=0, ge=0, le=10, description="How often to try again after a failure.")
    timeout: Finite | None = Field(
        default=None, gt=0, le=10_000_000, description="Seconds after which the node is stopped."
    )
    memory_limit: int | None = Field(default=None, ge=1, le=100_000_000, description="Megabytes the node may use.")


class Range(_Model):
    """Numbers from ``start`` to ``end`` (in JSON ``from`` and ``to``), both of them included."""

    start: Finite = Field(validation_alias="from", serialization_alias="from")
    end: Finite = Field(validation_alias="to", serialization_alias="to")
    log: bool = Field(default=False, description="Whether 1 to 10 is as likely as 10 to 100.")


def _values_or_range(value: object) -> str:
    return "range" if isinstance(value, dict | Range) else "values"


Values = list[JsonValue]
Drawn = Annotated[Annotated[Values, Tag("values")] | Annotated[Range, Tag("range")], Discriminator(_values_or_range)]


class Sweep(_Model):
    """Values to be tried for a node's parameters, each combination in a branch of its own.

    A parameter is named as in ``params``; ``learners.0.trees`` is one inside another. ``grid`` tries all combinations,
    ``random`` draws as many as ``trials`` says.
    """

    grid: Annotated[dict[str, Values], Field(max_length=MAX_PARAMS), AfterValidator(_storable)] = {}
    random: Annotated[dict[str, Drawn], Field(max_length=MAX_PARAMS), AfterValidator(_storable)] = {}
    trials: int = Field(default=10, ge=1, le=MAX_BRANCHES, description="How many combinations to draw.")
    seed: int = Field(default=0, ge=0, le=2**32 - 1, description="Another seed draws others.")


class Node(_Model):
    """One step of a pipeline: its type and the parameters that differ from the type's defaults."""

    type: str = Field(min_length=1, max_length=200, description="Name of the node type.")
    params: Params = {}
    label: Label = Field(default="", description="What the canvas shows instead of the type's title.")
    settings: NodeSettings = NodeSettings()
    sweep: Sweep | None = Field(default=None, description="Values to be tried, each combination in a branch.")


class Edge(_Model):
    """A connection from an output (``source``, in JSON ``from``) to an input (``target``, in JSON ``to``)."""

    source: End = Field(validation_alias="from", serialization_alias="from")
    target: End = Field(validation_alias="to", serialization_alias="to")

    @classmethod
    def between(cls, source: str, target: str) -> Edge:
        """``Edge.between("load.table", "forest.table")``."""
        return cls(source=PortRef.parse(source), target=PortRef.parse(target))

    @property
    def names(self) -> tuple[str, str]:
        """Both ends as text, as a problem names them."""
        return str(self.source), str(self.target)


class Note(_Model):
    """Text on the canvas; it means nothing to a run."""

    text: str = Field(max_length=10_000)
    x: Finite
    y: Finite
    width: Finite = Field(default=240, gt=0)
    height: Finite = Field(default=120, gt=0)


class Pipeline(_Model):
    """A whole pipeline. ``layout`` says where the canvas draws each node and means nothing to a run."""

    format: Literal["sylva-pipeline"] = "sylva-pipeline"
    version: Literal[1] = 1
    name: Label = Field(min_length=1)
    description: str = Field(default="", max_length=10_000)
    nodes: dict[NodeId, Node] = Field(max_length=MAX_NODES)
    edges: Annotated[tuple[Edge, ...], Strict(False)] = Field(default=(), max_length=MAX_EDGES)
    layout: dict[str, Position] = {}
    notes: Annotated[tuple[Note, ...], Strict(False)] = Field(default=(), max_length=MAX_NOTES)


ModelType = TypeVar("ModelType", bound=_Model)


def changed(model: ModelType, place: Place = (), /, **values: object) -> ModelType:
    """The same model with other values, checked like a new one; raises the first ``Problem`` found.

    ``place`` is where the model lies in its document, for the problem to name.
    """
    try:
        return type(model).model_validate({**dict(model), **values}, by_name=True)
    except ValidationError as error:
        raise next(translated(error, place)) from None


# What is wrong with single values


class RepeatedKeys(dict[str, Any]):
    """An object in which keys came twice; remembered here until the walk knows where it lies."""

    repeated: tuple[str, ...] = ()


def _walk(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Every value inside ``value`` with its place, the outer before the inner; no recursion, no list of them all."""
    pending: list[Iterator[tuple[Place, Any]]] = [iter([(place, value)])]
    while pending:
        for place, value in pending[-1]:
            yield place, value
            if isinstance(value, dict | list) and value:
                pending.append(_inside(place, value))
                break
        else:
            pending.pop()


def _inside(place: Place, value: dict[str, Any] | list[Any]) -> Iterator[tuple[Place, Any]]:
    items: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    return (((*place, key), inner) for key, inner in items)


def value_problems(value: Any, start: Place = ()) -> Iterator[tuple[Place, Problem]]:
    """What is wrong with single values, wherever they are; excess size or depth ends the search."""
    for count, (place, inner) in enumerate(_walk(value, start), start=1):
        if count > MAX_VALUES:
            yield place, TooLarge(f"the document holds more than {MAX_VALUES:,} values; make it smaller")
            return
        if len(place) + isinstance(inner, dict | list) > MAX_DEPTH:
            yield place, too_deep()
            return
        if isinstance(inner, dict):
            yield from _key_problems(inner, place)
        elif isinstance(inner, str) and not _is_text(inner):
            yield place, _at(place, BadText, "the text holds half a character (a lone surrogate); remove it")
        elif isinstance(inner, int | float) and not _is_finite(inner):
            yield place, _at(place, NotFinite, "the number is not finite or is too large; give an ordinary number")


def _key_problems(value: dict[str, Any], place: Place) -> Iterator[tuple[Place, Problem]]:
    if isinstance(value, RepeatedKeys):
        for key in value.repeated:
            # The place of the object, not of the value: the value may be wrong besides.
            yield place, _at((*place, key), DuplicateKey, "it is there more than once; keep one")
    for key in value:
        if not _is_text(key):
            yield place, _at((*place, key), BadText, "the name holds half a character (a lone surrogate); remove it")


def _is_text(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer larger than any float
        return False


def too_deep() -> Problem:
    """The problem of a document that is nested without end."""
    return TooDeep(f"lists and objects are nested more than {MAX_DEPTH} deep; make the document flatter")


# What pydantic found, as problems


def locate(place: Place) -> tuple[str | None, str | None]:
    """Node and field of a place in the JSON: ``nodes.split.params.seed`` is field ``seed`` of node ``split``."""
    match place:
        case ("nodes", str() as node, "params", _, *_):
            return node, _joined(place[3:])
        case ("nodes", str() as node, "sweep", "random", name, "values" | "range", *rest):
            return node, _joined(("sweep", "random", name, *rest))  # without the name of the kind
        case ("nodes", str() as node, *rest):
            return node, _joined(rest)
        case ("layout", str() as node, *_):
            return node, "layout"
    return None, _joined(place)


def _joined(place: Iterable[str | int]) -> str | None:
    return ".".join(map(str, place)) or None


def _at(place: Place, kind: type[Problem], message: str) -> Problem:
    node, field = locate(place)
    return kind(message, node=node, field=field)


def translated(
    error: ValidationError, place: Place = (), *, already_said: Set[Place] = frozenset()
) -> Iterator[Problem]:
    """Each thing pydantic found, as a problem, but for places about which enough is said."""
    for found in error.errors(include_url=False):
        said = found["type"] == "unstorable" if already_said else False
        if not said and found["loc"] not in already_said:
            yield _problem((*place, *found["loc"]), found)


def _problem(place: Place, found: ErrorDetails) -> Problem:
    match place:
        case ("nodes", _, "[key]"):
            return BadName(f"the name cannot be used; {NAME_RULE}", node=str(found["input"]))
        case ("layout", _, *_):
            return _at(place, BadStructure, "this is not a position; give two numbers, such as [0, 0]")
    match found["type"]:
        case "unstorable":
            return _at((*place, *found["ctx"]["place"]), found["ctx"]["class"], found["msg"])
        case "extra_forbidden":
            near = suggest(str(place[-1]), _fields_at(place), "remove it")
            return _at(place, BadStructure, f"there is no such field; {near}")
    return _at(place, BadStructure, _SPECIAL.get(found["type"]) or explain([found]))


_SPECIAL = {
    "endpoint": "this is not an end of an edge; write it as 'node.port'",
    "invalid-json-value": "this cannot be written as JSON; use text, numbers, true, false, null, lists and objects",
}


def _fields_at(place: Place) -> list[str]:
    """The fields that may stand where ``place`` ends."""
    match place:
        case ("nodes", _, "settings", _):
            return list(NodeSettings.model_fields)
        case ("nodes", _, "sweep", _):
            return list(Sweep.model_fields)
        case ("nodes", _, "sweep", "random", _, "range", _):
            return ["from", "to", "log"]
        case ("nodes", _, _):
            return list(Node.model_fields)
        case ("edges", _, _):
            return ["from", "to"]
        case ("notes", _, _):
            return list(Note.model_fields)
    return list(Pipeline.model_fields)
