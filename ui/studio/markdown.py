"""Words on screen.

- ``plain``        text of others, made safe for places where Streamlit reads Markdown
- ``time_of_day``  a moment, as short as can be
"""

from __future__ import annotations

import re
import time

_NOTHING = ":small[]"  # no text at all, in small letters: it parts what would be taken for a link, an emoji or an arrow
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # a name must not turn the sentence around it
_SIGNS = re.compile(r"([\\`*\[\]<>$~|&^])")
_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_OPENING_COLON = re.compile(r":(?=//|[\w+/\\-]+:)")
_COLON = re.compile(r":(?=\S)")
_LINK = re.compile(r"(?i)(www)(?=\.)|(?=@)")
_ARROW = re.compile(r"(?<!\S)(?:\\?[<>~=-]){2,}(?!\S)")
_FIRST_SIGN = re.compile(r"^([#+=-])")
_FIRST_NUMBER = re.compile(r"^(\d+)([.)])")


def plain(text: str) -> str:
    """The text as markdown that shows it letter for letter, in one line; text without signs stays as it is."""
    text = _SIGNS.sub(r"\\\1", " ".join(_TURNING.sub("", text).split()))
    for pattern, shown in (
        (_LOOSE_UNDERSCORE, r"\\_"),
        (_COLON, r"\\:"),
        (_OPENING_COLON, f":{_NOTHING}"),
        (_LINK, rf"\1{_NOTHING}"),
        (_FIRST_SIGN, r"\\\1"),
        (_FIRST_NUMBER, r"\1\\\2"),
    ):
        text = pattern.sub(shown, text)
    return _ARROW.sub(lambda found: _NOTHING.join(re.findall(r"\\?.", found[0])), text)


def time_of_day(moment: float) -> str:
    """The time, with the day if it was another."""
    then = time.localtime(moment)
    today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if today else "%d %b %H:%M", then)
