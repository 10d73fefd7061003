"""Arguments and options that several commands share, and those that every command has."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from engine.workspace import Workspace

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline document (JSON).")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run, the beginning of an id, or 'last'.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return at once; the run continues by itself.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(min=1, help="Number of nodes that run at once. [default: one per core]"),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(min=0, max=10, help="How often a failed node is tried again, after a pause."),
]
TimeoutOption = Annotated[
    float | None, typer.Option(min=0.001, max=1e7, help="Maximum seconds for a node.")
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=100_000_000,
        metavar="MB",
        help="Maximum memory of a node. [default: 90 % of the machine's]",
    ),
]

COMMON_OPTIONS: dict[str, Any] = {
    # Text, not a Path: that would turn s3://bucket into s3:/bucket before it is refused.
    "workspace": Annotated[
        str | None,
        typer.Option(
            "--workspace",
            metavar="PATH",
            help="Folder with data, results and runs. [default: ~/.sylva]",
        ),
    ],
    "json": Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of text.")
    ],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")],
}
"""``--debug`` is read by ``ui.cli.main``, which also handles errors outside of a command."""


@dataclass(frozen=True)
class CommonOptions:
    """The values of the options that every command has."""

    root: str | None = None
    as_json: bool = False

    @property
    def workspace(self) -> Workspace:
        """Return the chosen workspace."""
        from engine.workspace import Workspace

        return Workspace.at(self.root)

    @property
    def used_workspace(self) -> Workspace:
        """Return the workspace of a command that needs a run.

        Raise ``UnknownRun`` if it has no runs; nothing is created then.
        """
        from engine.events import UnknownRun

        workspace = self.workspace
        if not workspace.database.is_file():
            raise UnknownRun(f"The workspace {workspace.root} has no runs yet.")
        return workspace

    def output(self, data: Any, text: str | Callable[[], object]) -> None:
        """Print the data as JSON with ``--json``, else the text, or what ``text`` prints."""
        if self.as_json:
            print(json.dumps(data, indent=2, ensure_ascii=False))
        elif isinstance(text, str):
            print(text)
        else:
            text()


def command(
    app: typer.Typer,
    *,
    name: str | None = None,
    alias: str | None = None,
    without: tuple[str, ...] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command of ``app`` that also has the common options.

    The function gets their values as its first argument, a ``CommonOptions``.

    Parameters
    ----------
    name : the name of the command; by default that of the function
    alias : another name of the command, which `sylva --help` does not list
    without : common options that the command does not have
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        """Add the common options to the signature, and register the command."""
        _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
        for option, annotation in COMMON_OPTIONS.items():
            if option not in without:
                default = None if option == "workspace" else False
                parameter = inspect.Parameter(
                    option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
                )
                parameters.append(parameter)

        @functools.wraps(function)
        def run(**values: Any) -> None:
            """Call the function with a ``CommonOptions`` made of the common options."""
            values.pop("debug", None)
            common = CommonOptions(values.pop("workspace", None), values.pop("json", False))
            function(common, **values)

        # typer reads the options of a command from the signature.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name or function.__name__)(run)
        if alias:
            app.command(alias, hidden=True)(run)
        return function

    return register
