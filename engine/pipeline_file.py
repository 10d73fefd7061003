"""Pipeline documents as text and files.

- ``parse``, ``read``   text or file → ``Pipeline``, or ``InvalidPipeline`` with every problem there is
- ``dumps``, ``write``  ``Pipeline`` → text that diffs well, or a file that is never half written
- ``MIGRATIONS``        how documents of older versions become current ones
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.atomic import replacing
from engine.errors import SylvaError
from engine.pipeline import Pipeline, RepeatedKeys, too_deep, translated, value_problems
from engine.problems import (
    BadStructure,
    InvalidPipeline,
    NewerVersion,
    NotJson,
    Problem,
    TooDeep,
    TooLarge,
    Unreadable,
    WrongFormat,
)
from engine.text import shown

FORMAT = "sylva-pipeline"
VERSION = 1

MAX_BYTES = 8 * 1024 * 1024
MAX_DIGITS = 308
MAX_PROBLEMS = 1_000

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older version n, what makes a document of version n + 1 out of it."""


# Reading


def parse(text: str | bytes) -> Pipeline:
    """The document that ``text`` holds, or ``InvalidPipeline`` with all that is wrong with it."""
    raw = _load_json(text)
    by_place = list(islice(value_problems(raw), MAX_PROBLEMS))
    problems = [problem for _, problem in by_place]
    if any(isinstance(problem, TooLarge | TooDeep) for problem in problems):
        raise InvalidPipeline(problems)
    raw = _current(raw, problems)
    try:
        document = Pipeline.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        already_said = {place for place, _ in by_place}
        problems += islice(translated(error, already_said=already_said), MAX_PROBLEMS)
    if problems:
        raise InvalidPipeline(problems)
    return document


def read(path: Path) -> Pipeline:
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
        raise InvalidPipeline([too_deep()]) from None


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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = RepeatedKeys(plain)
    found.repeated = tuple(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return found


def _integer(digits: str) -> float:
    # Python refuses to read integers of more than 4300 digits, and a float holds none of more than 308.
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf


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


# Writing


def dumps(document: Pipeline) -> str:
    """The document as text: keys in a fixed order, defaults left out, one line for each small thing."""
    return _formatted(to_json(document), "", open_up=True) + "\n"


def to_json(document: Pipeline) -> dict[str, Any]:
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


def write(path: Path, document: Pipeline) -> None:
    """Put the document into the file ``path``; a reader sees the old text or the new, never a part."""
    try:
        with replacing(path.resolve()) as temporary:  # a link stays a link
            temporary.write_text(dumps(document), encoding="utf-8", newline="\n")
    except OSError as error:
        raise SylvaError(f"The pipeline could not be saved to {shown(str(path))}: {error.strerror or error}.") from None


def _plain(model: BaseModel) -> dict[str, Any]:
    """What differs from the defaults, with 30.0 written as 30."""
    fields = type(model).model_fields
    return {
        fields[name].serialization_alias or name: _written(value)
        for name, value in model
        if value != fields[name].default
    }


def _written(value: Any) -> Any:
    match value:
        case BaseModel():
            return _plain(value)
        case dict():
            return {name: _plain(one) if isinstance(one, BaseModel) else one for name, one in value.items()}
    return _number(value)


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
