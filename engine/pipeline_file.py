"""Read and write pipelines as JSON text, and report every problem in it at once.

- ``parse``, ``read``   text or file → ``Pipeline``, or ``InvalidPipeline`` with all problems
- ``dumps``, ``write``  ``Pipeline`` → text that diffs well, or a file that is never half written
- ``to_json``           ``Pipeline`` → plain JSON data
- ``with_values``       a model with other values, checked like one that is read
- ``json_schema``       the JSON schema of pipeline files, for editors and checkers
- ``MIGRATIONS``        how documents of older versions become current ones
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from engine.atomic import replacing
from engine.errors import (
    BadName,
    BadStructure,
    BadText,
    DuplicateKey,
    InvalidPipeline,
    NewerVersion,
    NotFinite,
    NotJson,
    Problem,
    SylvaError,
    TooDeep,
    TooLarge,
    Unreadable,
    WrongFormat,
)
from engine.pipeline import Group, Node, NodeSettings, Note, Pipeline, Sweep, is_finite, is_utf8
from engine.text import explain, plain_number, shown, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from engine.node_types import NodeType, NodeTypes

FORMAT = "sylva-pipeline"
VERSION = 1

MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 500_000
MAX_DEPTH = 32
MAX_DIGITS = 308
MAX_PROBLEMS = 1_000
ONE_LINE = 100

NAME_RULE = "begin with a letter and use up to 64 letters, digits, '-' and '_'"

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older version n, a function that makes a document of version n + 1 out of it."""

JsonPath = tuple[str | int, ...]
"""Where a value is in the JSON: keys and list indices from the top."""


# Reading


def parse(text: str | bytes) -> Pipeline:
    """Return the pipeline that ``text`` holds; raise ``InvalidPipeline`` with all problems.

    Text of any size and content is safe: it is refused if it is too large, nested too deep or not
    JSON. Only its shape is checked; ``engine.validation`` checks types, parameters and edges.

    >>> parse('{"format": "sylva-pipeline", "version": 1, "name": "Iris", "nodes": {}}').name
    'Iris'
    """
    raw = _load_json(text)
    by_path = list(islice(value_problems(raw), MAX_PROBLEMS))
    problems = [problem for _, problem in by_path]
    if any(isinstance(problem, TooLarge | TooDeep) for problem in problems):
        raise InvalidPipeline(problems)
    raw = _current(raw, problems)
    try:
        pipeline = Pipeline.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        reported = {path for path, _ in by_path}
        problems += islice(model_problems(error, reported=reported), MAX_PROBLEMS)
    if problems:
        raise InvalidPipeline(problems)
    return pipeline


def read(path: Path) -> Pipeline:
    """Return the pipeline in the file ``path``.

    Raise ``InvalidPipeline`` if it cannot be read, or with everything that is wrong with its text.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)  # one byte too many is refused by ``parse``
    except FileNotFoundError:
        raise _unreadable(f"the file {shown(str(path))} does not exist; check the path") from None
    except IsADirectoryError:
        raise _unreadable(f"{shown(str(path))} is a folder; name a pipeline file") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL character
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"{shown(str(path))} cannot be read ({reason}); check its path and permissions"
        raise _unreadable(message) from None
    return parse(text)


def _unreadable(message: str) -> InvalidPipeline:
    return InvalidPipeline([Unreadable(message)])


class RepeatedKeys(dict[str, Any]):
    """An object with keys that occur twice, until the walk knows the path of the object."""

    repeated: tuple[str, ...] = ()


def _load_json(text: str | bytes) -> Any:
    """Return the JSON data in the text; objects with repeated keys are ``RepeatedKeys``."""
    try:
        return json.loads(_decoded(text), object_pairs_hook=_object, parse_int=parse_integer)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        message = f"this is not valid JSON: {error.msg} at {where}; fix the text there"
        raise InvalidPipeline([NotJson(message)]) from None
    except RecursionError:
        raise InvalidPipeline([_too_deep()]) from None


def _decoded(text: str | bytes) -> str:
    """Return the text; raise ``InvalidPipeline`` if it is too large or not UTF-8."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        limit = f"{MAX_BYTES // 1024**2} MB"
        message = f"the document is larger than {limit}; keep data in files and name them"
        raise InvalidPipeline([TooLarge(message)])
    try:
        # Editors on Windows put a byte order mark in front; it means nothing.
        return text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        message = f"this is not UTF-8 text (see byte {error.start + 1}); save the file in UTF-8"
        raise InvalidPipeline([NotJson(message)]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; ``RepeatedKeys`` if a key occurs twice."""
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    with_repeated = RepeatedKeys(plain)
    counts = Counter(key for key, _ in pairs)
    with_repeated.repeated = tuple(key for key, count in counts.items() if count > 1)
    return with_repeated


def parse_integer(digits: str) -> float:
    """Return an integer of a JSON text; infinity if it is larger than any float."""
    # Python refuses integers of more than 4300 digits, and no float has more than 308.
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


def _current(raw: Any, problems: list[Problem]) -> dict[str, Any]:
    """Return the document in the current version; raise where nothing more can be said about it."""
    if not isinstance(raw, dict):
        message = f"the document is {shown(raw)}; a pipeline is an object in curly brackets"
        raise InvalidPipeline([*problems, BadStructure(message)])
    header = list(_header_problems(raw))
    problems += header
    is_newer = any(isinstance(problem, NewerVersion) for problem in header)
    if is_newer or raw.get("format", FORMAT) != FORMAT:
        raise InvalidPipeline(problems)
    if not header:
        raw = _migrated(raw)
    # A wrong header is reported already; the rest is checked as if it were right.
    return {**raw, "format": FORMAT, "version": VERSION}


def _header_problems(raw: dict[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with ``format`` and ``version``."""
    begins_with = f'a pipeline begins with "format": "{FORMAT}"'
    if "format" not in raw:
        yield WrongFormat(f"it is missing; {begins_with}", field="format")
    elif raw["format"] != FORMAT:
        message = f"{shown(raw['format'])} is not a pipeline; {begins_with}"
        yield WrongFormat(message, field="format")
        return
    version = raw.get("version")
    if "version" not in raw:
        yield BadStructure(f'it is missing; add "version": {VERSION}', field="version")
    elif not isinstance(version, int) or isinstance(version, bool) or version < 1:
        message = f"{shown(version)} is not a version; give a whole number from 1"
        yield BadStructure(message, field="version")
    elif version > VERSION:
        message = (
            f"version {shown(version)} is newer than version {VERSION}, "
            "the last that this program reads; update Sylva"
        )
        yield NewerVersion(message, field="version")


def _migrated(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a document of an older version as one of the current version, step by step."""
    for version in range(raw["version"], VERSION):
        try:
            raw = {**MIGRATIONS[version](raw), "version": version + 1}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            problem = BadStructure(
                f"the document is not a valid version {version} ({error!r}); "
                "fix it or build it again"
            )
            raise InvalidPipeline([problem]) from None
    return raw


# Problems of single values


def value_problems(value: Any, start: JsonPath = ()) -> Iterator[tuple[JsonPath, Problem]]:
    """Yield what is wrong with single values, and their paths.

    These are numbers that are not finite, text that is not UTF-8 and keys that occur twice: what
    JSON libraries let pass and a pipeline file cannot hold. ``start`` is the path of ``value``. The
    search ends where there are too many values, or where they are nested too deep.
    """
    for count, (path, inner) in enumerate(_walk(value, start), start=1):
        if count > MAX_VALUES:
            message = f"the document has more than {MAX_VALUES:,} values; make it smaller"
            yield path, TooLarge(message)
            return
        if len(path) + isinstance(inner, dict | list) > MAX_DEPTH:
            yield path, _too_deep()
            return
        if isinstance(inner, dict):
            yield from _key_problems(inner, path)
        elif isinstance(inner, str) and not is_utf8(inner):
            message = "the text has half a character (a lone surrogate); remove it"
            yield path, _problem_at(path, BadText, message)
        elif isinstance(inner, int | float) and not is_finite(inner):
            message = "the number is not finite or is too large; give another number"
            yield path, _problem_at(path, NotFinite, message)


def _walk(value: Any, path: JsonPath) -> Iterator[tuple[JsonPath, Any]]:
    """Yield every value inside ``value`` with its path, the outer before the inner."""
    # No recursion and no list of all values: a hostile document must not exhaust the memory.
    pending: list[Iterator[tuple[JsonPath, Any]]] = [iter([(path, value)])]
    while pending:
        for path, value in pending[-1]:
            yield path, value
            if isinstance(value, dict | list) and value:
                pending.append(_children(path, value))
                break
        else:
            pending.pop()


def _children(path: JsonPath, value: dict[str, Any] | list[Any]) -> Iterator[tuple[JsonPath, Any]]:
    """Return the values directly inside a list or an object, with their paths."""
    items: Iterable[tuple[str | int, Any]]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return (((*path, key), inner) for key, inner in items)


def _key_problems(value: dict[str, Any], path: JsonPath) -> Iterator[tuple[JsonPath, Problem]]:
    """Yield what is wrong with the keys of an object."""
    if isinstance(value, RepeatedKeys):
        message = "it occurs more than once; keep one"
        for key in value.repeated:
            # With the path of the object, not of the value: the value may be wrong besides.
            yield path, _problem_at((*path, key), DuplicateKey, message)
    for key in value:
        if not is_utf8(key):
            message = "the name has half a character (a lone surrogate); remove it"
            yield path, _problem_at((*path, key), BadText, message)


def _too_deep() -> Problem:
    return TooDeep(
        f"lists and objects are nested more than {MAX_DEPTH} deep; make the document flatter"
    )


# Problems of models

ModelType = TypeVar("ModelType", bound=BaseModel)


def with_values(model: ModelType, path: JsonPath = (), /, **values: object) -> ModelType:
    """Return the same model with other values; raise the first ``Problem`` if they do not fit.

    ``path`` is where the model is in its document, so that the problem names node and field:

    >>> with_values(node, ("nodes", "forest"), label="Deep forest")  # doctest: +SKIP
    """
    for _, problem in value_problems(values, path):
        raise problem
    try:
        return type(model).model_validate({**dict(model), **values}, by_name=True)
    except ValidationError as error:
        raise next(model_problems(error, path)) from None


def model_problems(
    error: ValidationError, path: JsonPath = (), *, reported: Set[JsonPath] = frozenset()
) -> Iterator[Problem]:
    """Yield the errors of pydantic as problems that name node and field.

    ``path`` is where the model is in its document. ``reported`` are the paths that
    ``value_problems`` has reported already: pydantic's word on them would be the second.
    """
    for details in error.errors(include_url=False):
        known = details["loc"] in reported or (reported and details["type"] == "unstorable")
        if not known:
            yield _model_problem((*path, *details["loc"]), details)


def _model_problem(path: JsonPath, details: ErrorDetails) -> Problem:
    """Return an error of pydantic as a problem with our own words."""
    match path:
        case ("nodes", _, "[key]"):
            return BadName(f"this name cannot be used; {NAME_RULE}", node=str(details["input"]))
        case ("layout", _, *_):
            message = "this is not a position; give two numbers, such as [0, 0]"
            return _problem_at(path, BadStructure, message)
    if details["type"] == "extra_forbidden":
        near = suggest(str(path[-1]), _fields_at(path), "remove it")
        return _problem_at(path, BadStructure, f"this field does not exist; {near}")
    return _problem_at(path, BadStructure, _TEXTS.get(details["type"]) or explain([details]))


_NOT_JSON = (
    "this cannot be written as JSON; use text, numbers, true, false, null, lists and objects"
)
_TEXTS = {
    "port": "this is not a port; write it as 'node.port'",
    "invalid-json-value": _NOT_JSON,
    "unstorable": _NOT_JSON,
    "string_pattern_mismatch": "this must be one line without tabs or other control characters",
}


def _problem_at(path: JsonPath, kind: type[Problem], message: str) -> Problem:
    """Return a problem of the node and field that a path names."""
    node, field = _node_and_field(path)
    return kind(message, node=node, field=field)


def _node_and_field(path: JsonPath) -> tuple[str | None, str | None]:
    """Return node and field of a path: ``nodes.a.params.seed`` is field ``seed`` of node ``a``."""
    match path:
        case ("nodes", str() as node, "params", _, *_):
            return node, _joined(path[3:])
        case ("nodes", str() as node, "sweep", "random", name, "values" | "range", *rest):
            # pydantic adds which kind of value it took it for.
            return node, _joined(("sweep", "random", name, *rest))
        case ("nodes", str() as node, *rest):
            return node, _joined(rest)
        case ("layout", str() as node, *_):
            return node, "layout"
    return None, _joined(path)


def _joined(path: Iterable[str | int]) -> str | None:
    return ".".join(map(str, path)) or None


def _fields_at(path: JsonPath) -> list[str]:
    """Return the fields that are allowed where ``path`` ends."""
    match path:
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
        case ("groups", _, _):
            return list(Group.model_fields)
    return list(Pipeline.model_fields)


# Writing


def dumps(pipeline: Pipeline) -> str:
    """Return the pipeline as text that diffs well.

    Keys have a fixed order, defaults are left out, and each small object takes one line. The same
    pipeline always gives the same text, and ``parse`` gives the same pipeline again.
    """
    return _formatted(to_json(pipeline), "", open_up=True) + "\n"


def to_json(pipeline: Pipeline) -> dict[str, Any]:
    """Return the pipeline as plain JSON data, in the order in which ``dumps`` writes it."""
    data: dict[str, Any] = pipeline.model_dump(include={"format", "version", "name"})
    if pipeline.description:
        data["description"] = pipeline.description
    data["nodes"] = {name: _without_defaults(node) for name, node in pipeline.nodes.items()}
    data["edges"] = [{"from": str(edge.source), "to": str(edge.target)} for edge in pipeline.edges]
    layout = {}
    for node in pipeline.nodes:
        if node in pipeline.layout:
            x, y = pipeline.layout[node]
            layout[node] = [plain_number(x), plain_number(y)]
    if layout:
        data["layout"] = layout
    if pipeline.notes:
        data["notes"] = [_without_defaults(note) for note in pipeline.notes]
    if pipeline.groups:
        data["groups"] = [_without_defaults(group) for group in pipeline.groups]
    return data


def write(path: Path, pipeline: Pipeline) -> None:
    """Write the pipeline to the file ``path``; raise ``SylvaError`` if that fails.

    A reader sees the old text or the new, never a part.
    """
    try:
        # A link stays a link: the file that it points to is replaced.
        with replacing(path.resolve()) as temporary:
            temporary.write_text(dumps(pipeline), encoding="utf-8", newline="\n")
    except OSError as error:
        reason = error.strerror or error
        message = f"The pipeline could not be saved to {shown(str(path))}: {reason}."
        raise SylvaError(message) from None


def _without_defaults(model: BaseModel) -> dict[str, Any]:
    """Return the fields that differ from their defaults, with 30.0 written as 30."""
    fields = type(model).model_fields
    return {
        fields[name].serialization_alias or name: _plain(value)
        for name, value in model
        if value != fields[name].default
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON data."""
    match value:
        case BaseModel():
            return _without_defaults(value)
        case dict():
            # Numbers inside ``params`` stay: a node type may distinguish 30.0 from 30.
            return {
                name: _plain(one) if isinstance(one, BaseModel) else one
                for name, one in value.items()
            }
        case tuple():
            return list(value)
    return plain_number(value)


def _formatted(value: Any, indent: str, *, open_up: bool = False) -> str:
    """Return JSON in which a short object or list takes one line, if it has no others inside.

    ``open_up`` gives each item of the outermost one a line of its own.
    """
    deeper = f"{indent}  "
    match value:
        case dict():
            parts = [
                f"{json.dumps(key, ensure_ascii=False)}: {_formatted(item, deeper)}"
                for key, item in value.items()
            ]
            inner, opening, closing = list(value.values()), "{", "}"
        case list():
            parts = [_formatted(item, deeper) for item in value]
            inner, opening, closing = value, "[", "]"
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
    line = opening + ", ".join(parts) + closing
    flat = not any(isinstance(item, dict | list) and item for item in inner)
    if not inner or (flat and not open_up and len(indent) + len(line) <= ONE_LINE):
        return line
    lines = ",\n".join(deeper + part for part in parts)
    return f"{opening}\n{lines}\n{indent}{closing}"


# The schema


def json_schema(catalog: NodeTypes) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of pipeline files.

    The ``params`` of each node must be those of its type, so editors can complete and check them.
    Edges are checked by their form only: JSON schema cannot compare them with the nodes.
    """
    from pydantic.json_schema import JsonSchemaMode, models_json_schema

    schema = Pipeline.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Sylva pipeline"
    schema["required"] = ["format", "version", "name", "nodes"]
    models: list[tuple[type[BaseModel], JsonSchemaMode]]
    models = [(node_type.params, "validation") for node_type in catalog.values()]
    params, definitions = models_json_schema(models, ref_template="#/$defs/params.{model}")
    for name, model in definitions.get("$defs", {}).items():
        schema["$defs"][f"params.{name}"] = model
    schema["properties"]["nodes"]["additionalProperties"] = False
    node = schema["$defs"]["Node"]
    node["properties"]["type"]["enum"] = sorted(catalog)
    if catalog:  # a schema may not have an empty allOf
        types = catalog.values()
        node["allOf"] = [_params_rule(each, params[each.params, "validation"]) for each in types]
    return schema


def _params_rule(node_type: NodeType, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule that a node of this type has the parameters of the type."""
    rule: dict[str, Any] = {"properties": {"params": params}}
    if any(field.is_required() for field in node_type.params.model_fields.values()):
        rule["required"] = ["params"]
    # The parameters of a bypassed node are not checked: it does not run.
    runs = {"type": {"const": node_type.name}, "bypass": {"const": False}}
    condition = {"properties": runs, "required": ["type"]}
    return {"if": condition, "then": rule}
