"""A pipeline as a value that never changes: pydantic models, and nothing else.

A ``Pipeline`` has nodes (``Node``, with ``NodeSettings`` and an optional ``Sweep``), edges between
their ports (``Edge``, ``PortRef``), notes (``Note``) and groups of nodes (``Group``). Each model
checks its own shape only: ``engine.pipeline_file`` reads and writes documents and reports every
problem in them, ``engine.validation`` decides whether types, parameters and edges fit together.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Strict,
    Tag,
)
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import AfterValidator, PlainValidator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import PydanticCustomError

from engine.text import shown

MAX_NODES = 5_000
MAX_EDGES = 50_000
MAX_NOTES = 5_000
MAX_GROUPS = 1_000
MAX_PARAMS = 500
MAX_BRANCHES = 200

NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
_PORT = re.compile(rf"({NAME_PATTERN})\.({NAME_PATTERN})")
# JSON can hold half of a character that takes two code units; UTF-8 cannot.
_SURROGATE = re.compile("[\ud800-\udfff]")


class PortRef(NamedTuple):
    """A port of a node, where an edge begins or ends; in JSON it is written ``node.port``."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}.{self.port}"

    @classmethod
    def parse(cls, text: str) -> PortRef:
        """Return the port that ``node.port`` names; raise ``ValueError`` for any other text."""
        match = _PORT.fullmatch(text)
        if match is None:
            raise ValueError(f"{shown(text)} is not a port; write it as 'node.port'")
        return cls(*match.groups())


def _port_ref(value: object) -> PortRef:
    """Return a port that is written as in JSON, or is a ``PortRef`` already."""
    if isinstance(value, str | PortRef):
        match = _PORT.fullmatch(str(value))
        if match:
            return PortRef(*match.groups())
    raise PydanticCustomError("port", "not a port; write it as 'node.port'")


# What a pipeline file can hold


def is_utf8(text: str) -> bool:
    """Return whether the text can be written as UTF-8, that is, has no half character."""
    return text.isascii() or not _SURROGATE.search(text)


def is_finite(number: float) -> bool:
    """Return whether the number is finite and not too large for a floating-point number."""
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer larger than any float
        return False


def _is_storable(value: object) -> bool:
    """Return whether a pipeline file can hold the value, and all inside of it."""
    match value:
        case dict():
            return all(map(_is_storable, (*value.keys(), *value.values())))
        case list():
            return all(map(_is_storable, value))
        case str():
            return is_utf8(value)
        case int() | float():
            return is_finite(value)
    return True


def _storable(values: dict[str, Any]) -> dict[str, Any]:
    """Refuse numbers and text that a pipeline file cannot hold; ``JsonValue`` refuses the rest."""
    if not _is_storable(values):
        raise PydanticCustomError("unstorable", "cannot be written as JSON")
    return values


# The models


class _Model(BaseModel):
    """Base of all models: frozen, strict, and without unknown fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_name=True, validate_by_alias=True
    )


_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
NodeId = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Label = Annotated[str, Field(max_length=200, pattern=_LINE)]
End = Annotated[
    PortRef,
    PlainValidator(_port_ref),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^{NAME_PATTERN}\.{NAME_PATTERN}$"}),
]
Finite = Annotated[float, AllowInfNan(False)]
# JSON has lists where these have tuples, so the containers alone are not strict.
Position = Annotated[tuple[Finite, Finite], Strict(False)]
_LIMITED = (Field(max_length=MAX_PARAMS), AfterValidator(_storable))
Params = Annotated[dict[str, JsonValue], *_LIMITED]


class NodeSettings(_Model):
    """How the engine runs a node; no setting changes the node's result."""

    retries: int | None = Field(
        default=None,
        ge=0,
        le=10,
        description="How often to try again after a failure, 0 for never; else as the run says.",
    )
    timeout: Finite | None = Field(
        default=None, gt=0, le=10_000_000, description="Seconds after which the node is stopped."
    )
    memory_limit: int | None = Field(
        default=None, ge=1, le=100_000_000, description="Megabytes the node may use."
    )

    def tries(self, retries: int) -> int:
        """Return how often a run may start the node; ``retries`` is the number of the run."""
        return 1 + (retries if self.retries is None else self.retries)


class Range(_Model):
    """Numbers from ``start`` to ``end`` (in JSON ``from`` and ``to``), both included."""

    start: Finite = Field(validation_alias="from", serialization_alias="from")
    end: Finite = Field(validation_alias="to", serialization_alias="to")
    log: bool = Field(default=False, description="Whether 1 to 10 is as likely as 10 to 100.")


def _values_or_range(value: object) -> str:
    """Return which kind of choice a value is meant to be."""
    return "range" if isinstance(value, dict | Range) else "values"


Values = list[JsonValue]
# With the discriminator a wrong value has one error, not one for each of the two kinds.
Drawn = Annotated[
    Annotated[Values, Tag("values")] | Annotated[Range, Tag("range")],
    Discriminator(_values_or_range),
]


class Sweep(_Model):
    """Values to try for a node's parameters, each combination in a branch of its own.

    A parameter is named as in ``params``; ``learners.0.trees`` is inside another one. ``grid``
    tries all combinations, ``random`` draws ``trials`` of them.
    """

    grid: Annotated[dict[str, Values], *_LIMITED] = {}
    random: Annotated[dict[str, Drawn], *_LIMITED] = {}
    trials: int = Field(
        default=10, ge=1, le=MAX_BRANCHES, description="How many combinations to draw."
    )
    seed: int = Field(
        default=0, ge=0, le=2**32 - 1, description="Another seed draws other combinations."
    )


class Node(_Model):
    """One step of a pipeline: its type, and the parameters that differ from the type's defaults."""

    type: str = Field(min_length=1, max_length=200, description="Name of the node type.")
    params: Params = {}
    label: Label = Field(
        default="", description="Title on the canvas; by default the title of the type."
    )
    bypass: bool = Field(
        default=False, description="Whether a run leaves the node out and passes its input on."
    )
    settings: NodeSettings = NodeSettings()
    sweep: Sweep | None = Field(
        default=None, description="Values to try, each combination in a branch of its own."
    )


class Edge(_Model):
    """A connection from an output (in JSON ``from``) to an input (in JSON ``to``)."""

    source: End = Field(validation_alias="from", serialization_alias="from")
    target: End = Field(validation_alias="to", serialization_alias="to")

    @classmethod
    def between(cls, source: str, target: str) -> Edge:
        """Return an edge of two names: ``Edge.between("load.table", "forest.table")``."""
        return cls(source=PortRef.parse(source), target=PortRef.parse(target))

    @property
    def names(self) -> tuple[str, str]:
        """Return both ends as text, as a problem names them."""
        return str(self.source), str(self.target)


class Note(_Model):
    """Text on the canvas, without effect on a run."""

    text: str = Field(max_length=10_000)
    x: Finite
    y: Finite
    width: Finite = Field(default=240, gt=0)
    height: Finite = Field(default=120, gt=0)


class Group(_Model):
    """Nodes with one title on the canvas, without effect on a run; a node is in one group only."""

    title: Label = Field(min_length=1)
    nodes: Annotated[tuple[str, ...], Strict(False)] = Field(
        min_length=1, max_length=MAX_NODES, description="Ids of the nodes in the group."
    )
    collapsed: bool = Field(
        default=False, description="Whether the canvas draws the group as one box."
    )


class Pipeline(_Model):
    """A whole pipeline; ``layout`` is where the canvas draws each node, without effect on a run."""

    format: Literal["sylva-pipeline"] = "sylva-pipeline"
    version: Literal[1] = 1
    name: Label = Field(min_length=1)
    description: str = Field(default="", max_length=10_000)
    nodes: dict[NodeId, Node] = Field(max_length=MAX_NODES)
    edges: Annotated[tuple[Edge, ...], Strict(False)] = Field(default=(), max_length=MAX_EDGES)
    layout: dict[str, Position] = {}
    notes: Annotated[tuple[Note, ...], Strict(False)] = Field(default=(), max_length=MAX_NOTES)
    groups: Annotated[tuple[Group, ...], Strict(False)] = Field(default=(), max_length=MAX_GROUPS)
