"""Convert between what a document holds and what a widget shows.

- ``MISSING``               stands for a field that the document leaves out
- ``value_at``, ``with_value``  read and replace the value at a path in the parameters
- ``fits``                  whether the field's own widget can show a value
- ``as_text``, ``from_text``  a value as a user types it, and back; text that is not such a value
  stays text, so that the validator can report it
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from ui.studio.forms.fields import FieldSpec

ParamPath = tuple[str | int, ...]
"""Where a value is inside the parameters: names of fields and positions in lists."""

LARGEST = (1 << 53) - 1
"""The largest integer that a number field in a browser holds exactly."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


def value_at(params: Any, path: ParamPath) -> Any:
    """Return the value at a path, ``MISSING`` if there is none."""
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
            return _is_one_of(value, spec.choices)
        case "choices":
            return isinstance(value, list) and all(_is_one_of(each, spec.choices) for each in value)
        case "texts":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "numbers":
            return isinstance(value, list) and all(_is_number(each) for each in value)
        case "mixed":
            return _is_one_of(value, spec.choices) or _is_number(value)
        case "table":
            return isinstance(value, dict)
        case "choice or table":
            return isinstance(value, dict) or _is_one_of(value, spec.choices)
        case "cards":
            return isinstance(value, list)
    return True


def _is_one_of(value: Any, choices: Sequence[Any]) -> bool:
    # The types are compared too: in Python, 1 == True and 1 == 1.0.
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _is_number(value: Any, *, integer: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if integer else int | float):
        return False
    return abs(value) <= LARGEST


# Text


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
            return typed if typed in spec.choices else number_or_text(typed, integer=spec.integer)
        case "choice":
            return next((choice for choice in spec.choices if str(choice) == typed), typed)
        case "switch":
            words = {"true": True, "yes": True, "false": False, "no": False}
            return words.get(typed.lower(), typed)
        case "numbers" if typed[0] != "[":
            parts = [part.strip() for part in typed.split(",")]
            return [number_or_text(part, integer=spec.integer) for part in parts if part]
    return json_or_text(typed)


def _takes_empty(spec: FieldSpec) -> bool:
    """Return whether empty text is a value of its own, not a way to write none or the default."""
    return not spec.optional and not spec.required and spec.default == ""


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
    # ``json`` reads NaN and Infinity, which are not valid JSON.
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
