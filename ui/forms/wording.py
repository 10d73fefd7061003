"""Text of others made safe for places where Streamlit reads markdown."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\`*\[\]<>$~|&^@])")
_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_COLON = re.compile(r":(?=\S)")
_LINK_DOT = re.compile(r"(?i)\b(www)\.")
_FIRST_SIGN = re.compile(r"^([#+=-])")
_FIRST_NUMBER = re.compile(r"^(\d+)([.)])")


def plain(text: str) -> str:
    """The text as markdown that shows it letter for letter, in one line; text without signs stays as it is."""
    text = _SIGNS.sub(r"\\\1", " ".join(text.split()))
    for pattern, shown in (
        (_LOOSE_UNDERSCORE, r"\\_"),
        (_COLON, r"\\:"),
        (_LINK_DOT, r"\1\\."),
        (_FIRST_SIGN, r"\\\1"),
        (_FIRST_NUMBER, r"\1\\\2"),
    ):
        text = pattern.sub(shown, text)
    return text
