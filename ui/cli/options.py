"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline document (JSON).")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, a beginning of it, or 'last'.")]
WorkspaceOption = Annotated[
    Path | None, typer.Option("--workspace", help="Where data, results and runs live. [default: ~/.sylva]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DetachOption = Annotated[bool, typer.Option("--detach", help="Return at once; the run goes on by itself.")]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Nodes at once. [default: one per core]")]
RetriesOption = Annotated[int | None, typer.Option(min=0, max=10, help="Tries again per failed node, after a pause.")]
TimeoutOption = Annotated[float | None, typer.Option(min=0.001, max=1e7, help="Seconds a node may take.")]
MemoryOption = Annotated[
    int | None,
    typer.Option(min=1, max=100_000_000, metavar="MB", help="Memory a node may use. [default: 90 % of the machine's]"),
]
