"""From what a document holds to what a widget shows, and back.

- ``MISSING``               stands for a field that the document leaves out
- ``at``, ``put``           the value at a place in the parameters, and the parameters with another one there
- ``fits``                  whether the field's own widget can show a value
- ``as_text``, ``from_text``  a value as one types it; text that is no such value stays text, for the validator to name
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from ui.studio.forms.fields import FieldSpec

Place = tuple[str | int, ...]
LARGEST = (1 << 53) - 1
"""What a number field in a browser can hold."""


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


def at(params: Any, place: Place) -> Any:
    """The value there, ``MISSING`` if there is none."""
    for step in place:
        try:
            params = params[step]
        except (LookupError, TypeError):
            return MISSING
    return params


def put(params: Any, place: Place, value: Any) -> Any:
    """The same parameters with ``value`` there, or without anything there; nothing else is touched."""
    if not place:
        return value
    step, *rest = place
    if isinstance(step, int):
        if not isinstance(params, list) or step >= len(params):
            return params  # the entry is gone by now
        inner = [put(params[step], tuple(rest), value)]
        return [*params[:step], *([] if inner == [MISSING] else inner), *params[step + 1 :]]
    held = params if isinstance(params, dict) else {}
    inner = put(held.get(step, MISSING), tuple(rest), value)
    if inner is MISSING:
        return {name: one for name, one in held.items() if name != step}
    return {**held, step: inner}


def fits(spec: FieldSpec, value: Any) -> bool:
    """Whether the field's widget can show the value as it is."""
    match spec.kind:
        case "switch":
            return isinstance(value, bool)
        case "whole" | "number":
            return _is_number(value, whole=spec.kind == "whole")
        case "text":
            return isinstance(value, str)
        case "choice":
            return _is_one_of(value, spec.choices)
        case "choices":
            return isinstance(value, list) and all(_is_one_of(one, spec.choices) for one in value)
        case "texts":
            return isinstance(value, list) and all(isinstance(one, str) for one in value)
        case "numbers":
            return isinstance(value, list) and all(_is_number(one) for one in value)
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
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _is_number(value: Any, *, whole: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return abs(value) <= LARGEST


# Text


def as_text(value: Any) -> str:
    """A value as one would type it."""
    if value is MISSING or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_text(spec: FieldSpec, text: str) -> Any:
    """The value that was typed; text as it is where the field takes something else."""
    typed = text.strip()
    if spec.kind == "text":
        return text if text or _takes_empty(spec) else MISSING
    if not typed:
        return MISSING
    match spec.kind:
        case "whole" | "number":
            return number_or_text(typed, whole=spec.whole)
        case "mixed":
            return typed if typed in spec.choices else number_or_text(typed, whole=spec.whole)
        case "choice":
            return next((choice for choice in spec.choices if str(choice) == typed), typed)
        case "switch":
            return {"true": True, "yes": True, "false": False, "no": False}.get(typed.lower(), typed)
        case "numbers" if typed[0] != "[":
            return [number_or_text(part.strip(), whole=spec.whole) for part in typed.split(",") if part.strip()]
    return json_or_text(typed)


def _takes_empty(spec: FieldSpec) -> bool:
    """Whether empty text is a value of its own, rather than none or the default."""
    return not spec.optional and not spec.required and spec.default == ""


_WHOLE = re.compile(r"[+-]?\d{1,300}")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def number_or_text(text: str, *, whole: bool = False) -> int | float | str:
    """The number that the text says, if a document can hold it."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if len(text) > 300 or not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
        return text
    number = float(text)
    return int(number) if whole and number.is_integer() else number


def json_or_text(text: str) -> Any:
    """The JSON value that the text says, if a document can hold it."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
