"""How to call a model: commands and code that work as they stand.

- ``ScoringExample``  whose model, in which workspace, on which file
- ``example_row``   a row that the model takes: the middle of what it has seen
- ``command_line``, ``service``, ``request``, ``python``  the texts
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodes.models.encoder import TableEncoder

PORT = 8000


@dataclass(frozen=True)
class ScoringExample:
    """A model and the file it is shown with."""

    model: str
    workspace: Path
    source: str = "new_rows.csv"
    target: str = "scored.csv"


def command_line(call: ScoringExample) -> str:
    """Score a file in a terminal."""
    return _command("sylva", "predict", call.model, call.source, "-o", call.target, "--workspace", str(call.workspace))


def service(call: ScoringExample) -> str:
    """Start the model as a service."""
    return _command("sylva", "serve", call.model, "--port", str(PORT), "--workspace", str(call.workspace))


def request(row: Mapping[str, Any]) -> str:
    """Ask the service for one row."""
    body = json.dumps({"rows": [row]}, ensure_ascii=False)
    return "\n".join(
        [
            f"curl http://127.0.0.1:{PORT}/predict \\",
            "  --header 'Content-Type: application/json' \\",
            f"  --data {shlex.quote(body)}",
        ]
    )


def python(call: ScoringExample) -> str:
    """Score a file in a program."""
    return "\n".join(
        [
            "from pathlib import Path",
            "",
            "from engine.workspace import Workspace",
            "from nodes.models.registry import Registry",
            "from nodes.models.scoring import score_file",
            "",
            f"model = Registry(Workspace.at({str(call.workspace)!r})).open({call.model!r})",
            f"scored = score_file(model, Path({call.source!r}), Path({call.target!r}))",
            'print(f"{scored.rows:,} rows in {scored.seconds:.1f} s")',
        ]
    )


def example_row(encoder: TableEncoder) -> dict[str, Any]:
    """Return a value for each column of the model: the median, or the most frequent category."""
    return {column.name: column.example for column in encoder.columns}


def _command(*words: str) -> str:
    return " ".join(map(shlex.quote, words))
