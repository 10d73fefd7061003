"""A pipeline as a JSON file: what it holds, and how it is read and written.

- ``Document``, ``Node``, ``NodeSettings``, ``Edge``, ``Endpoint``, ``Note``  the pipeline as a value that never changes
- ``parse``, ``read``    text or file → ``Document``, or ``InvalidPipeline`` with every problem there is
- ``dumps``, ``write``   ``Document`` → text that diffs well, or a file that is never half written
- ``MIGRATIONS``         how documents of older versions become current ones
- ``json_schema``        the format for editors, with the parameters of each node type
- ``changed``            a model with other values, checked like a new one

This module knows the shape of a document only; ``validate`` knows whether its types, parameters and edges fit.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, JsonValue, Strict, ValidationError
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import AfterValidator, PlainValidator
from pydantic.json_schema import JsonSchemaMode, WithJsonSchema, models_json_schema
from pydantic_core import ErrorDetails, PydanticCustomError

from engine.contract import NodeType
from engine.errors import SylvaError
from engine.problems import (
    BadName,
    BadStructure,
    BadText,
    DuplicateKey,
    InvalidPipeline,
    NewerVersion,
    NotFinite,
    NotJson,
    Problem,
    TooDeep,
    TooLarge,
    Unreadable,
    WrongFormat,
    explain,
    shown,
    suggest,
)

FORMAT = "sylva-pipeline"
VERSION = 1

MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 500_000
MAX_DEPTH = 32
MAX_NODES = 5_000
MAX_EDGES = 50_000
MAX_NOTES = 5_000
MAX_PARAMS = 500
MAX_DIGITS = 308
MAX_PROBLEMS = 1_000

NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
NAME_RULE = "begin with a letter and use up to 64 letters, digits, '-' and '_'"

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older version n, what makes a document of version n + 1 out of it."""

Place = tuple[str | int, ...]
"""Where a value lies in the JSON: keys and list positions from the top."""


class Endpoint(NamedTuple):
    """One end of an edge: a port of a node. In JSON it reads ``node.port``."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node}.{self.port}"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """The end that ``node.port`` names; ``ValueError`` if the text reads otherwise."""
        found = _ENDPOINT.fullmatch(text)
        if found is None:
            raise ValueError(f"{shown(text)} does not read 'node.port'")
        return cls(*found.groups())


_ENDPOINT = re.compile(rf"({NAME_PATTERN})\.({NAME_PATTERN})")


def _endpoint(value: object) -> Endpoint:
    """An end as JSON or as Python has it."""
    text = str(value) if isinstance(value, Endpoint) else value
    found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise PydanticCustomError("endpoint", "not an end of an edge; write it as 'node.port'")
    return Endpoint(*found.groups())


def _storable(params: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what a document could not hold, such as NaN; ``JsonValue`` has seen to the rest."""
    start = ("nodes", "", "params")
    for place, problem in _value_problems(params, start):
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
    Endpoint,
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


class Node(_Model):
    """One step of a pipeline: its type and the parameters that differ from the type's defaults."""

    type: str = Field(min_length=1, max_length=200, description="Name of the node type.")
    params: Params = {}
    label: Label = Field(default="", description="What the canvas shows instead of the type's title.")
    settings: NodeSettings = NodeSettings()


class Edge(_Model):
    """A connection from an output (``source``, in JSON ``from``) to an input (``target``, in JSON ``to``)."""

    source: End = Field(validation_alias="from", serialization_alias="from")
    target: End = Field(validation_alias="to", serialization_alias="to")

    @classmethod
    def between(cls, source: str, target: str) -> Edge:
        """``Edge.between("load.table", "forest.table")``."""
        return cls(source=Endpoint.parse(source), target=Endpoint.parse(target))

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


class Document(_Model):
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
        raise next(_translated(error, place)) from None


# Reading


def parse(text: str | bytes) -> Document:
    """The document that ``text`` holds, or ``InvalidPipeline`` with all that is wrong with it."""
    raw = _load_json(text)
    by_place = list(islice(_value_problems(raw), MAX_PROBLEMS))
    problems = [problem for _, problem in by_place]
    if any(isinstance(problem, TooLarge | TooDeep) for problem in problems):
        raise InvalidPipeline(problems)
    raw = _current(raw, problems)
    try:
        document = Document.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        already_said = {place for place, _ in by_place}
        problems += islice(_translated(error, already_said=already_said), MAX_PROBLEMS)
    if problems:
        raise InvalidPipeline(problems)
    return document


def read(path: Path) -> Document:
    """The document in the file ``path``, or ``InvalidPipeline``; reads no more than a document can have."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidPipeline([Unreadable(f"there is no file {shown(str(path))}; check the path")]) from None
    except IsADirectoryError:
        raise InvalidPipeline([Unreadable(f"{shown(str(path))} is a folder; name a pipeline file")]) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
        reason = error.strerror if isinstance(error, OSError) else error
        problem = Unreadable(f"{shown(str(path))} cannot be read ({reason}); check its path and permissions")
        raise InvalidPipeline([problem]) from None
    return parse(text)


def _load_json(text: str | bytes) -> Any:
    try:
        return json.loads(_decoded(text), object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidPipeline([NotJson(f"this is not JSON: {error.msg} at {place}; mend the text there")]) from None
    except RecursionError:
        raise InvalidPipeline([_too_deep()]) from None


def _decoded(text: str | bytes) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidPipeline(
            [TooLarge(f"the document is larger than {MAX_BYTES // 1024**2} MB; keep data in files and name them")]
        )
    try:
        # Editors on Windows put a byte order mark in front; it means nothing.
        return text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidPipeline(
            [NotJson(f"this is not UTF-8 text (see byte {error.start + 1}); save the file in UTF-8")]
        ) from None


class _WithRepeats(dict[str, Any]):
    """An object in which keys came twice; remembered here until the walk knows where it lies."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = _WithRepeats(plain)
    found.repeated = tuple(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return found


def _integer(digits: str) -> float:
    # Python refuses to read integers of more than 4300 digits, and a float holds none of more than 308.
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


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


def _value_problems(value: Any, start: Place = ()) -> Iterator[tuple[Place, Problem]]:
    """What is wrong with single values, wherever they are; excess size or depth ends the search."""
    for count, (place, inner) in enumerate(_walk(value, start), start=1):
        if count > MAX_VALUES:
            yield place, TooLarge(f"the document holds more than {MAX_VALUES:,} values; make it smaller")
            return
        if len(place) + isinstance(inner, dict | list) > MAX_DEPTH:
            yield place, _too_deep()
            return
        if isinstance(inner, dict):
            yield from _key_problems(inner, place)
        elif isinstance(inner, str) and not _is_text(inner):
            yield place, _at(place, BadText, "the text holds half a character (a lone surrogate); remove it")
        elif isinstance(inner, int | float) and not _is_finite(inner):
            yield place, _at(place, NotFinite, "the number is not finite or is too large; give an ordinary number")


def _key_problems(value: dict[str, Any], place: Place) -> Iterator[tuple[Place, Problem]]:
    if isinstance(value, _WithRepeats):
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


def _too_deep() -> Problem:
    return TooDeep(f"lists and objects are nested more than {MAX_DEPTH} deep; make the document flatter")


def _current(raw: Any, problems: list[Problem]) -> dict[str, Any]:
    """The document in the current version; stops where nothing more can be said about it."""
    if not isinstance(raw, dict):
        found = BadStructure(f"the document is {shown(raw)}; a pipeline is an object in curly brackets")
        raise InvalidPipeline([*problems, found])
    header = list(_header_problems(raw))
    problems += header
    if any(isinstance(problem, NewerVersion) for problem in header) or raw.get("format", FORMAT) != FORMAT:
        raise InvalidPipeline(problems)
    if not header:
        raw = _migrated(raw)
    # A wrong header is reported already; the rest is looked at as if it were right.
    return {**raw, "format": FORMAT, "version": VERSION}


def _header_problems(raw: dict[str, Any]) -> Iterator[Problem]:
    if raw.get("format") != FORMAT:
        what = f"{shown(raw['format'])} is not a pipeline" if "format" in raw else "it is missing"
        yield WrongFormat(f'{what}; a pipeline begins with "format": "{FORMAT}"', field="format")
        if "format" in raw:
            return
    version = raw.get("version")
    if "version" not in raw:
        yield BadStructure(f'it is missing; add "version": {VERSION}', field="version")
    elif not isinstance(version, int) or isinstance(version, bool) or version < 1:
        yield BadStructure(f"{shown(version)} is not a version; give a whole number from 1 on", field="version")
    elif version > VERSION:
        message = f"the document has version {shown(version)}, this program reads up to {VERSION}; update Sylva"
        yield NewerVersion(message, field="version")


def _migrated(raw: dict[str, Any]) -> dict[str, Any]:
    for version in range(raw["version"], VERSION):
        try:
            raw = {**MIGRATIONS[version](raw), "version": version + 1}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"the document does not have the shape of version {version} ({error!r}); mend it or build it anew"
            raise InvalidPipeline([BadStructure(message)]) from None
    return raw


# What pydantic found, as problems


def locate(place: Place) -> tuple[str | None, str | None]:
    """Node and field of a place in the JSON: ``nodes.split.params.seed`` is field ``seed`` of node ``split``."""
    match place:
        case ("nodes", str() as node, "params", _, *_):
            return node, _joined(place[3:])
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


def _translated(
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
        case ("nodes", _, _):
            return list(Node.model_fields)
        case ("edges", _, _):
            return ["from", "to"]
        case ("notes", _, _):
            return list(Note.model_fields)
    return list(Document.model_fields)


# Writing


def dumps(document: Document) -> str:
    """The document as text: keys in a fixed order, defaults left out, one line for each small thing."""
    return _formatted(to_json(document), "", open_up=True) + "\n"


def to_json(document: Document) -> dict[str, Any]:
    """The document as plain JSON data, in the order it is written in."""
    layout = {node: list(map(_number, document.layout[node])) for node in document.nodes if node in document.layout}
    optional = {"layout": layout, "notes": [_plain(note) for note in document.notes]}
    return {
        "format": document.format,
        "version": document.version,
        "name": document.name,
        **({"description": document.description} if document.description else {}),
        "nodes": {name: _plain(node) for name, node in document.nodes.items()},
        "edges": [{"from": str(edge.source), "to": str(edge.target)} for edge in document.edges],
        **{key: value for key, value in optional.items() if value},
    }


def write(path: Path, document: Document) -> None:
    """Put the document into the file ``path``; a reader sees the old text or the new, never a part."""
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(dumps(document))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise SylvaError(f"The pipeline could not be saved to {shown(str(path))}: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(model: _Model) -> dict[str, Any]:
    """What differs from the defaults, with 30.0 written as 30."""
    default = {name: field.default for name, field in type(model).model_fields.items()}
    return {
        name: _plain(value) if isinstance(value, _Model) else _number(value)
        for name, value in model
        if value != default[name]
    }


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


ONE_LINE = 100


def _formatted(value: Any, indent: str, *, open_up: bool = False) -> str:
    """JSON in which an object or list without further ones inside takes one line, if it is short."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    flat = not any(isinstance(item, dict | list) and item for item in inner)
    line = json.dumps(value, ensure_ascii=False, allow_nan=False) if flat else ""
    if not inner or (flat and not open_up and len(indent) + len(line) <= ONE_LINE):
        return line
    deeper = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_formatted(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + _formatted(item, deeper) for item in value) + f"\n{indent}]"


# The format, for editors


def json_schema(catalogue: Mapping[str, NodeType]) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a document; each node's ``params`` are those of its type."""
    schema = Document.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Sylva pipeline"
    schema["required"] = ["format", "version", "name", "nodes"]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (node_type.params, "validation") for node_type in catalogue.values()
    ]
    params, defined = models_json_schema(models, ref_template="#/$defs/params.{model}")
    schema["$defs"] |= {f"params.{name}": model for name, model in defined.get("$defs", {}).items()}
    schema["properties"]["nodes"]["additionalProperties"] = False
    node = schema["$defs"]["Node"]
    node["properties"]["type"]["enum"] = sorted(catalogue)
    if catalogue:  # a schema may not have an empty allOf
        node["allOf"] = [_params_rule(one, params[one.params, "validation"]) for one in catalogue.values()]
    return schema


def _params_rule(node_type: NodeType, params: Mapping[str, Any]) -> dict[str, Any]:
    needed = any(field.is_required() for field in node_type.params.model_fields.values())
    return {
        "if": {"properties": {"type": {"const": node_type.name}}, "required": ["type"]},
        "then": {"properties": {"params": params}} | ({"required": ["params"]} if needed else {}),
    }
