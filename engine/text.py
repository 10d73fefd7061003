"""Turn values into the text of messages, tables and screens.

- ``duration``, ``clock``, ``size``, ``counted``  a time span, a moment, bytes, ``3 rows``
- ``cell``          a value in a table
- ``shown``, ``listed``, ``suggest``  a value, a list of names, ``did you mean 'table'?``
- ``closest``       the known name that is most like a word
- ``lacking``       names that are missing
- ``shortened``     a text that is cut to a length
- ``free_name``     a name that is not taken
- ``readable``      text from outside with control characters spelled out
- ``explain``       an error of pydantic as a sentence
- ``failure_line``  which node failed, in which field, and why
"""

from __future__ import annotations

import difflib
import json
import math
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain, count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LONGEST_SHOWN = 80
FIRST_DIGITS = 20
"""How much of a longer number is shown."""
HIDDEN = ("Cc", "Cf", "Cs")
"""Unicode categories that are spelled out: control characters, which a terminal obeys; format
characters, which can reverse the text around them; surrogates, which UTF-8 cannot hold."""


# Times and amounts


def duration(seconds: float | None) -> str:
    """Return a time span: ``320 ms``, ``4.2 s``, ``3 min 5 s`` or ``2 h 10 min``."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def clock(moment: float | None) -> str:
    """Return date and time of a moment, in the time zone of this machine."""
    return "–" if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def size(count: int) -> str:
    """Return a number of bytes in the unit that fits: ``12 kB``, ``1.3 GB``."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 row``, ``2,000 rows``."""
    noun = one if count == 1 else many or f"{one}s"
    return f"{count:,} {noun}"


def cell(value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


# Values and names inside a message


def shown(value: object) -> str:
    """Return a value for a message: short, text in quotes, control characters escaped."""
    match value:
        case str():
            return repr(value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}…")
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case None:
            return "null"
        case float() if math.isinf(value):
            return "infinity" if value > 0 else "-infinity"
        case int() if abs(value) >= 10**LONGEST_SHOWN:
            # Python refuses to write integers of thousands of digits; a Decimal has no limit.
            return f"{str(Decimal(value))[:FIRST_DIGITS]}…"
        case int() | float():
            return json.dumps(value)  # JSON has true where Python has True
    return f"a {type(value).__name__}"


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning with ``…`` so that it has ``longest`` letters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def suggest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return ``did you mean 'table'?``, or ``otherwise`` when no known name is near."""
    near = closest(word, known)
    return f"did you mean {shown(near)}?" if near else otherwise


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a word; None when none is near."""
    # The time to compare grows with the square of the length; no name is that long.
    if len(word) > LONGEST_SHOWN:
        return None
    by_lower_case = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    return by_lower_case[near[0]] if near else None


def free_name(stem: str, is_taken: Callable[[str], bool]) -> str:
    """Return ``stem`` if it is free, else ``stem_2``, ``stem_3`` …"""
    candidates = chain([stem], (f"{stem}_{number}" for number in count(2)))
    return next(name for name in candidates if not is_taken(name))


def listed(names: Iterable[object], most: int = 5) -> str:
    """Return names in quotes, the first few of them: ``'a', 'b' and 7 more``."""
    quoted = [shown(str(name)) for name in names]
    if len(quoted) <= most:
        return ", ".join(quoted)
    return f"{', '.join(quoted[:most])} and {len(quoted) - most:,} more"


def lacking(missing: Sequence[str], present: Iterable[str], most: int = 5) -> str:
    """Return names that are missing, with those present that differ from them in case only."""
    folded = {name.casefold() for name in missing}
    similar = [name for name in present if name.casefold() in folded]
    names = listed(missing, most)
    if not similar:
        return names
    return f"{names} (upper and lower case must match; it has {listed(similar, most)})"


def readable(text: str, longest: int | None = None) -> str:
    """Return ``text`` with every invisible character spelled out, such as ``\\x1b``.

    Spaces, tabs and new lines stay. Text longer than ``longest`` is cut.
    """
    if longest is not None and len(text) > longest:
        text = text[:longest] + " …"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in HIDDEN:
        return character
    return ascii(character)[1:-1]


# Errors of pydantic


_WHOLE_NUMBER = ("{value} is not a whole number", "give a whole number")
_NUMBER = ("{value} is not a number", "give a number")
_SWITCH = ("{value} is neither true nor false", "give true or false, without quotes")
_LIST = ("{value} is not a list", "give a list in square brackets")
_OBJECT = ("{value} is not an object", "give an object in curly brackets")
_CHOICE = ("{value} is not one of the choices", "give {expected}")
_NOT_FINITE = ("the number is not finite", "give an ordinary number")

_EXPLANATIONS: Mapping[str, tuple[str, str]] = {
    # For each error type of pydantic what is wrong and how to fix it, with values of the error.
    "missing": ("it is missing", "add it"),
    "extra_forbidden": ("this field does not exist", "remove it"),
    "string_type": ("{value} is not text", "give text in quotes"),
    "string_unicode": ("the text has half a character", "remove it"),
    "string_too_long": ("the text is too long", "give at most {max_length} characters"),
    "string_too_short": ("the text is too short", "give {min_length} or more characters"),
    "string_pattern_mismatch": (
        "{value} does not have the right form",
        "give text that matches {pattern}",
    ),
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
    "union_tag_invalid": (
        "its {discriminator} '{tag}' is not known",
        "give one of {expected_tags}",
    ),
    "union_tag_not_found": ("{value} does not say its {discriminator}", "add it"),
}


def explain(errors: Sequence[ErrorDetails]) -> str:
    """Return what is wrong with one value, and how to fix it: ``0 is too small; give 1 or more``.

    Several errors come from a union: each says what one of its members would need.
    """
    reasons = list(dict.fromkeys(_what_and_how(error) for error in errors))
    if len(reasons) == 1:
        return "; ".join(part for part in reasons[0] if part)
    choices = ", or ".join(how or what for what, how in reasons)
    return f"{shown(errors[0]['input'])} does not fit; {choices}"


def _what_and_how(error: ErrorDetails) -> tuple[str, str]:
    """Return what is wrong, and how to fix it."""
    value, context = shown(error["input"]), error.get("ctx", {})
    if error["type"] in _EXPLANATIONS:
        what, how = _EXPLANATIONS[error["type"]]
        numbers = {name: plain_number(number) for name, number in context.items()}
        return what.format(value=value, **numbers), how.format(**numbers)
    if error["type"] in ("value_error", "assertion_error"):
        return str(context["error"]), ""
    how = error["msg"].replace("Input should be", "give").removesuffix(".")
    return f"{value} does not fit", how


def plain_number(value: Any) -> Any:
    """Return 30.0 as 30, as people write it, and any other value as it is."""
    # Above 2**53 (about 9e15) a float has gaps between integers.
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value


# Failures


def failure_line(node: str, error: Mapping[str, Any]) -> str:
    """Return which node failed, in which field, and why."""
    where = f"Node '{node}', field '{error['field']}'" if error.get("field") else f"Node '{node}'"
    return f"{where}: {error['message']}"
