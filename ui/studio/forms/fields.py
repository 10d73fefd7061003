"""From a pydantic model to what a form shows: one ``FieldSpec`` a field.

Everything is read from the model's JSON schema, so that a field means the same to the form, to a document's checks
and to whoever reads the schema.

- ``FieldSpec``, ``Hint``  a field as a form sees it
- ``specs_of``             the fields of a model
- ``applies``              whether a field is of use, given the others
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from engine.node_types import FORM

Kind = Literal[
    "switch",  # true or false
    "whole",
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
    "json",  # all that has no widget of its own
]
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Hint:
    """What ``form_hint`` said."""

    choose: str | None = None
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folded: bool = False


@dataclass(frozen=True)
class FieldSpec:
    """A field as a form shows it."""

    name: str
    title: str
    kind: Kind
    help: str = ""
    default: Any = None
    required: bool = False
    optional: bool = False
    """Whether it may be empty (null)."""
    whole: bool = False
    """Whether its numbers are whole."""
    least: float | None = None
    most: float | None = None
    choices: tuple[Any, ...] = ()
    """What may be chosen; in a table, for each name."""
    tag: str = ""
    """Of cards: the field that says a card's kind."""
    variants: Mapping[str, tuple[FieldSpec, ...]] = field(default_factory=dict)
    """Of cards: the fields of each kind."""
    longest: int | None = None
    """Of lists: how many entries there may be."""
    hint: Hint = Hint()

    @property
    def default_text(self) -> str:
        """The default in words, empty if there is none."""
        return "" if self.required or self.default is None else as_words(self.default)


def as_words(value: Any) -> str:
    """A setting's value as text on screen."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None | [] | {}:
            return "none"
        case list():
            return ", ".join(as_words(one) if one != "" else "(empty)" for one in value)
        case dict():
            return ", ".join(f"{name}: {as_words(one)}" for name, one in value.items())
        case float():
            return f"{value:g}"
    return str(value)


@lru_cache(maxsize=256)
def specs_of(model: type[BaseModel]) -> tuple[FieldSpec, ...]:
    """The fields of a model, in its order."""
    try:
        schema: Schema = model.model_json_schema()
    except Exception:  # a type that has no JSON schema; its fields are then given as JSON
        schema = {"properties": {name: {} for name in model.model_fields}}
    defaults = {name: default for name, info in model.model_fields.items() for default in _default(info)}
    return _fields(schema, schema.get("$defs", {}), defaults)


def _default(info: FieldInfo) -> list[Any]:
    """The field's default, in a list that is empty if it has none."""
    if info.is_required() or info.default_factory_takes_validated_data:
        return []
    try:
        return [to_jsonable_python(info.get_default(call_default_factory=True))]
    except Exception:  # a factory is a package's own code
        return []


def _fields(schema: Schema, defs: Schema, defaults: Mapping[str, Any] | None = None) -> tuple[FieldSpec, ...]:
    required = schema.get("required", ())
    return tuple(
        _field(name, _resolved(about, defs), defs, name in required, defaults)
        for name, about in schema.get("properties", {}).items()
    )


def _field(name: str, about: Schema, defs: Schema, required: bool, defaults: Mapping[str, Any] | None) -> FieldSpec:
    hint = about.get(FORM, {})
    default = (defaults or {}).get(name, about.get("default"))
    branches = [_resolved(branch, defs) for branch in about.get("anyOf", [about])]
    optional = any(branch.get("type") == "null" for branch in branches)
    return FieldSpec(
        name=name,
        title=about.get("title") or name,
        help=about.get("description", ""),
        default=default,
        required=required,
        optional=optional,
        hint=Hint(
            hint.get("choose"),
            {other: tuple(ways) for other, ways in hint.get("when", {}).items()},
            hint.get("folded", False),
        ),
        **_shape([branch for branch in branches if branch.get("type") != "null"], defs),
    )


def _shape(branches: list[Schema], defs: Schema) -> dict[str, Any]:
    """Kind, limits and choices of what the branches of a union allow together."""
    match [_alone(branch, defs) for branch in branches]:
        case [shape]:
            return shape
        case [{"kind": "choice"} as words, {"kind": "number" | "whole"} as number]:
            return {**number, **words, "kind": "mixed"}
        case [{"kind": "choice"} as words, {"kind": "table"} as table] if not table.get("choices"):
            return {**table, **words, "kind": "choice or table"}
        case [{"kind": "whole"}, {"kind": "number"} as number] | [{"kind": "number"} as number, {"kind": "whole"}]:
            return number
    return {"kind": "json"}


def _alone(about: Schema, defs: Schema) -> dict[str, Any]:
    choices = about["enum"] if "enum" in about else [about["const"]] if "const" in about else []
    if choices:
        return {"kind": "choice", "choices": tuple(choices)}
    match about.get("type"):
        case "boolean":
            return {"kind": "switch"}
        case "integer" | "number":
            return {"kind": "whole" if about["type"] == "integer" else "number", **_limits(about)}
        case "string":
            return {"kind": "text"}
        case "array" if isinstance(about.get("items"), dict):
            return _list(about, _resolved(about["items"], defs), defs)
        case "object" if isinstance(about.get("additionalProperties"), dict):
            inner = _alone(_resolved(about["additionalProperties"], defs), defs)
            if inner["kind"] in ("choice", "number", "whole"):
                return {**inner, "kind": "table"}
    return {"kind": "json"}


def _list(about: Schema, items: Schema, defs: Schema) -> dict[str, Any]:
    tag = items.get("discriminator", {}).get("propertyName")
    if tag and "mapping" in items["discriminator"]:
        kinds = _variants(items, tag, defs)
        return {"kind": "cards", "tag": tag, "variants": kinds, "longest": about.get("maxItems")}
    inner = _alone(items, defs)
    kind = {"choice": "choices", "text": "texts", "number": "numbers", "whole": "numbers"}.get(inner["kind"], "json")
    return {**inner, "kind": kind, "longest": about.get("maxItems")}


def _variants(items: Schema, tag: str, defs: Schema) -> dict[str, tuple[FieldSpec, ...]]:
    """The fields of each kind of card but the one that says the kind; kinds in the order they are declared."""
    mapping: dict[str, str] = items["discriminator"]["mapping"]
    declared: list[str] = []
    for branch in items.get("oneOf", []):
        about = _resolved(branch, defs).get("properties", {}).get(tag, {})
        declared += about.get("enum", [about.get("const")])
    names = [*(name for name in declared if name in mapping), *(name for name in mapping if name not in declared)]
    fields = {name: _fields(_resolved({"$ref": mapping[name]}, defs), defs) for name in names}
    return {name: tuple(spec for spec in specs if spec.name != tag) for name, specs in fields.items()}


def _limits(about: Schema) -> dict[str, Any]:
    """The nearest numbers that may be given; a limit that is itself too far is told by the validator."""
    step = 1 if about["type"] == "integer" else 0
    least, above = about.get("minimum"), about.get("exclusiveMinimum")
    most, below = about.get("maximum"), about.get("exclusiveMaximum")
    return {
        "whole": about["type"] == "integer",
        "least": least if above is None else above + step,
        "most": most if below is None else below - step,
    }


def _resolved(about: Schema, defs: Schema) -> Schema:
    """The schema with what it refers to written in its place; what stands beside a reference has the last word."""
    seen = 0
    while "$ref" in about and seen < 20:
        about = {**defs.get(about["$ref"].rpartition("/")[2], {}), **{k: v for k, v in about.items() if k != "$ref"}}
        seen += 1
    return about


def applies(spec: FieldSpec, params: Mapping[str, Any], specs: tuple[FieldSpec, ...]) -> bool:
    """Whether the field is of use with the values the others have."""
    defaults = {other.name: other.default for other in specs}
    return all(
        _matches(as_plain(params.get(name, defaults.get(name))), patterns) for name, patterns in spec.hint.when.items()
    )


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    refused = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    if any(fnmatchcase(text, pattern) for pattern in refused):
        return False
    return not wanted or any(fnmatchcase(text, pattern) for pattern in wanted)


def as_plain(value: Any) -> str:
    """A value as the patterns of ``when`` see it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
