"""Prepare text for the screen.

- ``plain``        escapes text from users where Streamlit reads Markdown
- ``time_of_day``  formats a time, as short as possible
"""

from __future__ import annotations

import re
import time

# Empty small text. It separates characters that Markdown would read as a link, emoji or arrow.
_SEPARATOR = ":small[]"
# Characters that change the direction of text: a name must not reverse the sentence around it.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SPECIAL = re.compile(r"([\\`*\[\]<>$~|&^])")
_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_OPENING_COLON = re.compile(r":(?=//|[\w+/\\-]+:)")
_COLON = re.compile(r":(?=\S)")
_LINK = re.compile(r"(?i)(www)(?=\.)|(?=@)")
_ARROW = re.compile(r"(?<!\S)(?:\\?[<>~=-]){2,}(?!\S)")
_FIRST_SPECIAL = re.compile(r"^([#+=-])")
_FIRST_NUMBER = re.compile(r"^(\d+)([.)])")


def plain(text: str) -> str:
    """Return the text as Markdown that shows every character, in one line.

    Text without special characters stays as it is.
    """
    text = _SPECIAL.sub(r"\\\1", " ".join(_DIRECTION.sub("", text).split()))
    for pattern, replacement in (
        (_LOOSE_UNDERSCORE, r"\\_"),
        (_COLON, r"\\:"),
        (_OPENING_COLON, f":{_SEPARATOR}"),
        (_LINK, rf"\1{_SEPARATOR}"),
        (_FIRST_SPECIAL, r"\\\1"),
        (_FIRST_NUMBER, r"\1\\\2"),
    ):
        text = pattern.sub(replacement, text)
    return _ARROW.sub(lambda arrow: _SEPARATOR.join(re.findall(r"\\?.", arrow[0])), text)


def time_of_day(moment: float) -> str:
    """Return the local time, with the day if it is not today."""
    local = time.localtime(moment)
    is_today = local[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%d %b %H:%M", local)
