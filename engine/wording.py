"""Text from outside made fit to be shown."""

from __future__ import annotations

import unicodedata

HIDDEN = ("Cc", "Cf", "Cs")
"""What a terminal obeys, what turns text around, what UTF-8 cannot hold."""


def readable(text: str, longest: int | None = None) -> str:
    """``text`` with everything that is not a visible character, a space, a tab or a new line spelled out."""
    if longest is not None and len(text) > longest:
        text = text[:longest] + " …"
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in "\n\t" or unicodedata.category(each) not in HIDDEN else ascii(each)[1:-1] for each in text
    )
