"""What a form shows: the fields of a pydantic model, and the values of a document in them.

Fields are read from the model's JSON schema, so that a field means the same to the form, to the
validation of a document and to readers of the schema.

- ``FieldSpec``, ``Hint``  a field as a form sees it
- ``specs_of``             the fields of a model
- ``applies``              whether a field has an effect with the values of the other fields
- ``display_text``         a value as text on screen; ``FieldSpec.text_of`` with the field's words
- ``value_at``, ``with_value``  read and replace the value at a path in the parameters
- ``MISSING``              stands for a field that the document leaves out
- ``fits``                 whether the field's own widget can show a value
- ``as_text``, ``from_text``  a value as a user types it, and back; text that is not such a value
  stays text, so that the validator can report it
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from engine.node_types import FORM

FieldKind = Literal[
    "switch",  # true or false
    "integer",
    "number",
    "text",
    "choice",  # one of a few
    "choices",  # some of a few
    "texts",
    "numbers",
    "mixed",  # one of a few, or a number
    "table",  # a choice or a number for each name
    "choice or table",
    "cards",  # a list of settings, each of some kind
    "json",  # everything without its own widget
]
Schema = Mapping[str, Any]
ParamPath = tuple[str | int, ...]
"""Where a value is inside the parameters: names of fields and positions in lists."""

LARGEST = (1 << 53) - 1
"""The largest integer that a number field in a browser holds exactly."""

LONGEST_REFERENCE_CHAIN = 20
"""Stops at a schema whose references form a cycle."""


@dataclass(frozen=True)
class Hint:
    """Hold what ``form_hint`` declared for a field."""

    choose: str | None = None
    """What the field names: ``column``, ``columns``, ``class``, ``file`` or ``model``."""
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The field has an effect only while each of these other fields matches its patterns."""
    folded: bool = False
    """Whether the field is shown in the folded part of the form."""
    words: Mapping[str, str] = field(default_factory=dict)
    """How choices are shown, by their values."""
    lines: bool = False
    """Whether the text may have several lines."""


@dataclass(frozen=True)
class FieldSpec:
    """Describe a field as a form shows it."""

    name: str
    title: str
    kind: FieldKind
    help: str = ""
    default: Any = None
    required: bool = False
    optional: bool = False
    """Whether it may be empty (null)."""
    integer: bool = False
    """Whether its numbers are integers."""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()
    """The allowed values; in a table, for each name."""
    tag: str = ""
    """Of cards: the field that says a card's kind."""
    variants: Mapping[str, tuple[FieldSpec, ...]] = field(default_factory=dict)
    """Of cards: the fields of each kind."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Of cards: how each kind is shown."""
    max_items: int | None = None
    """Of lists: how many entries are allowed."""
    hint: Hint = Hint()

    @property
    def default_text(self) -> str:
        """The default as text on screen, empty for a field without one."""
        return "" if self.required or self.default is None else self.text_of(self.default)

    def text_of(self, value: Any) -> str:
        """Return a value of the field as text on screen; a choice in the words of its hint."""
        if isinstance(value, str) and value in self.hint.words:
            return self.hint.words[value]
        if isinstance(value, str) and value in self.choices:
            return value.replace("_", " ") or "(empty)"
        if isinstance(value, list) and value:
            return ", ".join(self.text_of(each) or "(empty)" for each in value)
        return display_text(value)

    def choice_of(self, text: str) -> Any:
        """Return the choice that a text names, by its words or its value; ``MISSING`` if none."""
        for choice in self.choices:
            if text in (self.text_of(choice), str(choice)):
                return choice
        return MISSING


def display_text(value: Any) -> str:
    """Return a setting's value as text on screen."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None | [] | {}:
            return "none"
        case list():
            return ", ".join("(empty)" if each == "" else display_text(each) for each in value)
        case dict():
            return ", ".join(f"{name}: {display_text(each)}" for name, each in value.items())
        case float():
            return f"{value:g}"
    return str(value)


# Making a schema takes milliseconds, and every drawing of a form needs it.
@lru_cache(maxsize=256)
def specs_of(model: type[BaseModel]) -> tuple[FieldSpec, ...]:
    """Return the fields of a model, in its order.

    A field whose type has no widget gets the kind ``json``. The result is cached.
    """
    try:
        schema: Schema = model.model_json_schema()
    # A type without a JSON schema; its fields are then edited as JSON.
    except Exception:
        schema = {"properties": {name: {} for name in model.model_fields}}
    defaults = {}
    for name, info in model.model_fields.items():
        for default in _default(info):
            defaults[name] = default
    return _fields(schema, schema.get("$defs", {}), defaults)


def _default(info: FieldInfo) -> list[Any]:
    """Return the field's default in a list, which is empty if it has none."""
    if info.is_required() or info.default_factory_takes_validated_data:
        return []
    try:
        return [to_jsonable_python(info.get_default(call_default_factory=True))]
    # A default factory may be code of another package.
    except Exception:
        return []


def _fields(
    schema: Schema, defs: Schema, defaults: Mapping[str, Any] | None = None
) -> tuple[FieldSpec, ...]:
    """Return the fields of an object in a schema; ``defaults`` are those of the model itself."""
    required = schema.get("required", ())
    return tuple(
        _field(name, _resolved(inner, defs), defs, name in required, defaults)
        for name, inner in schema.get("properties", {}).items()
    )


def _field(
    name: str, schema: Schema, defs: Schema, required: bool, defaults: Mapping[str, Any] | None
) -> FieldSpec:
    """Return one field. A default of the model takes precedence over that of the schema."""
    hint = schema.get(FORM, {})
    branches = [_resolved(branch, defs) for branch in schema.get("anyOf", [schema])]
    when = {other: tuple(patterns) for other, patterns in hint.get("when", {}).items()}
    return FieldSpec(
        name=name,
        title=schema.get("title") or name,
        help=schema.get("description", ""),
        default=(defaults or {}).get(name, schema.get("default")),
        required=required,
        optional=any(branch.get("type") == "null" for branch in branches),
        hint=Hint(
            hint.get("choose"),
            when,
            hint.get("folded", False),
            hint.get("words", {}),
            hint.get("lines", False),
        ),
        **_union_shape([branch for branch in branches if branch.get("type") != "null"], defs),
    )


def _union_shape(branches: list[Schema], defs: Schema) -> dict[str, Any]:
    """Return kind, limits and choices of a field that allows any of these schemas."""
    match [_shape(branch, defs) for branch in branches]:
        case [shape]:
            return shape
        case [{"kind": "choice"} as choice, {"kind": "number" | "integer"} as number]:
            return {**number, **choice, "kind": "mixed"}
        case [{"kind": "choice"} as choice, {"kind": "table"} as table] if not table.get("choices"):
            return {**table, **choice, "kind": "choice or table"}
        # ``int | float`` is one field for numbers, in either order.
        case [{"kind": "integer"}, {"kind": "number"} as number]:
            return number
        case [{"kind": "number"} as number, {"kind": "integer"}]:
            return number
    return {"kind": "json"}


def _shape(schema: Schema, defs: Schema) -> dict[str, Any]:
    """Return kind, limits and choices of a field that allows only this schema."""
    if "enum" in schema:
        return {"kind": "choice", "choices": tuple(schema["enum"])}
    if "const" in schema:
        return {"kind": "choice", "choices": (schema["const"],)}
    match schema.get("type"):
        case "boolean":
            return {"kind": "switch"}
        case "integer" | "number":
            return {"kind": schema["type"], **_limits(schema)}
        case "string":
            return {"kind": "text"}
        case "array" if isinstance(schema.get("items"), dict):
            return _list_shape(schema, _resolved(schema["items"], defs), defs)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            inner = _shape(_resolved(schema["additionalProperties"], defs), defs)
            if inner["kind"] in ("choice", "number", "integer"):
                return {**inner, "kind": "table"}
    return {"kind": "json"}


LIST_KINDS: Mapping[str, FieldKind] = {
    "choice": "choices",
    "text": "texts",
    "number": "numbers",
    "integer": "numbers",
}
"""The kind of a list by the kind of its entries."""


def _list_shape(schema: Schema, items: Schema, defs: Schema) -> dict[str, Any]:
    """Return kind, limits and choices of a list: of cards, or of single values."""
    max_items = schema.get("maxItems")
    tag = items.get("discriminator", {}).get("propertyName")
    if tag and "mapping" in items["discriminator"]:
        variants, kinds = _variants(items, tag, defs)
        return {
            "kind": "cards",
            "tag": tag,
            "variants": variants,
            "kinds": kinds,
            "max_items": max_items,
        }
    inner = _shape(items, defs)
    return {**inner, "kind": LIST_KINDS.get(inner["kind"], "json"), "max_items": max_items}


def _variants(
    items: Schema, tag: str, defs: Schema
) -> tuple[dict[str, tuple[FieldSpec, ...]], dict[str, str]]:
    """Return the fields of each kind of card, without the field that says the kind, and its words.

    Kinds come in the order in which they are declared; pydantic sorts its own mapping.
    """
    mapping: dict[str, str] = items["discriminator"]["mapping"]
    declared: list[str] = []
    for branch in items.get("oneOf", []):
        kinds = _resolved(branch, defs).get("properties", {}).get(tag, {})
        declared += kinds.get("enum", [kinds.get("const")])
    names = [name for name in declared if name in mapping]
    names += [name for name in mapping if name not in declared]
    variants, kinds = {}, {}
    for name in names:
        specs = _fields(_resolved({"$ref": mapping[name]}, defs), defs)
        variants[name] = tuple(spec for spec in specs if spec.name != tag)
        kinds[name] = next(spec.text_of(name) for spec in specs if spec.name == tag)
    return variants, kinds


def _limits(schema: Schema) -> dict[str, Any]:
    """Return the limits that the help names.

    For a decimal number they include an exclusive limit itself; the validator reports that value.
    """
    step = 1 if schema["type"] == "integer" else 0
    minimum, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    maximum, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    return {
        "integer": schema["type"] == "integer",
        "minimum": minimum if above is None else above + step,
        "maximum": maximum if below is None else below - step,
    }


def _resolved(schema: Schema, defs: Schema) -> Schema:
    """Return the schema with its reference replaced; entries beside a reference override it."""
    for _ in range(LONGEST_REFERENCE_CHAIN):
        if "$ref" not in schema:
            break
        target = defs.get(schema["$ref"].rpartition("/")[2], {})
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**target, **beside}
    return schema


def applies(spec: FieldSpec, params: Mapping[str, Any], specs: tuple[FieldSpec, ...]) -> bool:
    """Return whether the field has an effect with the values of the other fields."""
    defaults = {other.name: other.default for other in specs}
    for name, patterns in spec.hint.when.items():
        value = params.get(name, defaults.get(name))
        if not _matches(pattern_text(value), patterns):
            return False
    return True


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    """Return whether any pattern matches, and none that begins with ``!``."""
    allowed = [pattern for pattern in patterns if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    if any(fnmatchcase(text, pattern) for pattern in excluded):
        return False
    return not allowed or any(fnmatchcase(text, pattern) for pattern in allowed)


def pattern_text(value: Any) -> str:
    """Return a value as the patterns of ``when`` are compared with it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


# Values of a document


class _Missing:
    """The type of ``MISSING``: ``None`` is a value that a document may hold."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


def dotted(path: ParamPath) -> str:
    """Return a path as problems and widget keys name it: ``learners.0.trees``."""
    return ".".join(map(str, path))


def is_within(name: str, outer: str) -> bool:
    """Return whether a dotted name is ``outer`` or inside it."""
    return name == outer or name.startswith(f"{outer}.")


def value_at(params: Any, path: ParamPath) -> Any:
    """Return the value at a path, or ``MISSING``.

    It never raises: parameters may hold anything until they are valid.
    """
    for step in path:
        try:
            params = params[step]
        except (LookupError, TypeError):
            return MISSING
    return params


def with_value(params: Any, path: ParamPath, value: Any) -> Any:
    """Return a copy of the parameters with ``value`` at the path; ``MISSING`` removes the entry.

    A list entry that another edit has removed meanwhile is not created again.
    """
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        if not isinstance(params, list) or step >= len(params):
            return params
        inner = with_value(params[step], tuple(rest), value)
        entries = [] if inner is MISSING else [inner]
        return [*params[:step], *entries, *params[step + 1 :]]
    fields = params if isinstance(params, dict) else {}
    inner = with_value(fields.get(step, MISSING), tuple(rest), value)
    if inner is MISSING:
        return {name: each for name, each in fields.items() if name != step}
    return {**fields, step: inner}


def fits(spec: FieldSpec, value: Any) -> bool:
    """Return whether the field's widget can show the value as it is."""
    match spec.kind:
        case "switch":
            return isinstance(value, bool)
        case "integer" | "number":
            return _is_number(value, integer=spec.kind == "integer")
        case "text":
            return isinstance(value, str)
        case "choice":
            return is_one_of(value, spec.choices)
        case "choices":
            return isinstance(value, list) and all(is_one_of(each, spec.choices) for each in value)
        case "texts":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "numbers":
            return isinstance(value, list) and all(_is_number(each) for each in value)
        case "mixed":
            return is_one_of(value, spec.choices) or _is_number(value)
        case "table":
            return isinstance(value, dict)
        case "choice or table":
            return isinstance(value, dict) or is_one_of(value, spec.choices)
        case "cards":
            return isinstance(value, list)
    return True


def is_one_of(value: Any, choices: Sequence[Any]) -> bool:
    """Return whether a value is among the choices."""
    # The types are compared too: in Python, 1 == True and 1 == 1.0.
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _is_number(value: Any, *, integer: bool = False) -> bool:
    """Return whether a number field in a browser can show the value."""
    if isinstance(value, bool) or not isinstance(value, int if integer else int | float):
        return False
    return abs(value) <= LARGEST


# Values as a user types them


def as_text(value: Any) -> str:
    """Return a value as a user would type it."""
    if value is MISSING or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_text(spec: FieldSpec, text: str) -> Any:
    """Return the value that was typed; text that the field does not accept stays text."""
    typed = text.strip()
    if spec.kind == "text":
        return text if text or _takes_empty(spec) else MISSING
    if not typed:
        return MISSING
    match spec.kind:
        case "integer" | "number":
            return number_or_text(typed, integer=spec.integer)
        case "mixed":
            choice = spec.choice_of(typed)
            is_choice = choice is not MISSING
            return choice if is_choice else number_or_text(typed, integer=spec.integer)
        case "choice":
            choice = spec.choice_of(typed)
            return typed if choice is MISSING else choice
        case "switch":
            words = {"true": True, "yes": True, "false": False, "no": False}
            return words.get(typed.lower(), typed)
        # A list that begins with a bracket is JSON, see below.
        case "numbers" if typed[0] != "[":
            parts = [part.strip() for part in typed.split(",")]
            return [number_or_text(part, integer=spec.integer) for part in parts if part]
    return json_or_text(typed)


def _takes_empty(spec: FieldSpec) -> bool:
    """Return whether empty text is a value of its own, not a way to write none or the default."""
    return not spec.optional and not spec.required and spec.default == ""


# At most 300 digits: a longer integer does not fit into a float.
_INTEGER = re.compile(r"[+-]?\d{1,300}")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def number_or_text(text: str, *, integer: bool = False) -> int | float | str:
    """Return the number that the text says; the text if a document cannot hold it."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) > 300 or not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
        return text
    number = float(text)
    return int(number) if integer and number.is_integer() else number


def json_or_text(text: str) -> Any:
    """Return the JSON value that the text says; the text if a document cannot hold it."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(word: str) -> Any:
    """Raise ``ValueError`` for a word that is not valid JSON."""
    # ``json`` reads NaN and Infinity, which are not valid JSON.
    raise ValueError(word)


def _finite(text: str) -> float:
    """Return a number, or raise ``ValueError`` if it is too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
