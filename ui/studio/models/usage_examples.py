"""Return commands and code that use a model, ready to copy.

- ``UsageExample``  which model, in which workspace, on which file
- ``example_row``   a row that the model accepts: typical values of its training data
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
class UsageExample:
    """A model, and the file that the examples score with it."""

    model: str
    workspace: Path
    source: str = "new_rows.csv"
    target: str = "scored.csv"


def command_line(call: UsageExample) -> str:
    """Return the command that scores a file."""
    return _command(
        "sylva",
        "predict",
        call.model,
        call.source,
        "-o",
        call.target,
        "--workspace",
        str(call.workspace),
    )


def service(call: UsageExample) -> str:
    """Return the command that starts the model as a service."""
    return _command(
        "sylva", "serve", call.model, "--port", str(PORT), "--workspace", str(call.workspace)
    )


def request(row: Mapping[str, Any]) -> str:
    """Return the command that asks the service for the prediction of one row."""
    body = json.dumps({"rows": [row]}, ensure_ascii=False)
    return "\n".join(
        [
            f"curl http://127.0.0.1:{PORT}/predict \\",
            "  --header 'Content-Type: application/json' \\",
            f"  --data {shlex.quote(body)}",
        ]
    )


def python(call: UsageExample) -> str:
    """Return the Python program that scores a file."""
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
    """Return a command line, quoted for the shell."""
    return " ".join(map(shlex.quote, words))
