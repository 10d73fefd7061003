"""One file scored in a process of its own, so that the studio stays quick and outlives whatever happens here.

It is told what to do by one JSON object on standard input, and says how far it is in lines of JSON on standard output:
``{"rows": 10, "total": 100}`` …, and at last ``{"done": 100}``, ``{"stopped": true}`` or ``{"error": "why"}``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, SylvaError
from engine.processes import die_with_parent, wait_passively

SPEAK_SECONDS = 0.2
POLITENESS = 5
"""How much this process stands back for others, the studio among them."""


def main() -> None:
    """Do what standard input says."""
    order = json.load(sys.stdin)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    die_with_parent(order["parent"], signal.SIGTERM)
    os.nice(POLITENESS)
    wait_passively()
    try:
        _say(done=_score(order, asked))
    except Cancelled:
        _say(stopped=True)
    except SylvaError as error:
        _say(error=str(error))


def _score(order: dict[str, Any], asked: list[int]) -> int:
    from nodes.data.formats import FileFormat
    from nodes.models.registry import open_model
    from nodes.models.scoring import score_file

    scored = score_file(
        open_model(Path(order["model"])),
        Path(order["source"]),
        Path(order["target"]),
        keep="all" if order["keep_all"] else (),
        progress=_Told(),
        cancelled=lambda: bool(asked),
        file_format=FileFormat.from_json(order["file_format"]),
    )
    return scored.rows


class _Told:
    """Says how far it is, now and then."""

    def __init__(self) -> None:
        self._spoke = 0.0

    def __call__(self, rows: int, total: int | None) -> None:
        if time.monotonic() - self._spoke >= SPEAK_SECONDS:
            self._spoke = time.monotonic()
            _say(rows=rows, total=total)


def _say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
