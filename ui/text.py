"""Words on screen."""

from __future__ import annotations

import re
import time

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&^=])")


def plain(text: str) -> str:
    """Text for places that read Markdown, made to stand there as it is: names and messages may come from anyone."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def time_of_day(moment: float) -> str:
    """The time, with the day if it was another."""
    then = time.localtime(moment)
    today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if today else "%d %b %H:%M", then)
