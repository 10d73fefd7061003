"""Commands that other packages add to ``sylva``, through the entry point group ``sylva.commands``.

An entry point gives a function whose parameters are those of the command, as Typer reads them. None is loaded before
it is asked for by name, or all are listed. One that cannot be loaded is left out of the list and says why when it is
asked for; the others still work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from engine.errors import SylvaError

GROUP = "sylva.commands"

LOOKS: Mapping[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""How every command looks."""


class Commands(TyperGroup):
    """The program's own commands and, after them, those that other packages offer; the program's own come first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all that can be used."""
        own = super().list_commands(ctx)
        return own + [name for name in offered() if name not in own and _is_loadable(name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, if there is one."""
        own = super().get_command(ctx, cmd_name)
        return command(offered()[cmd_name]) if own is None and cmd_name in offered() else own


@cache
def offered() -> dict[str, EntryPoint]:
    """What is offered, by name; the first of a name stays."""
    return collect(entry_points(group=GROUP))


def collect(entries: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    """Entry points by name, those of one name in the order of their packages."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entries, key=_source):
        found.setdefault(entry.name, entry)
    return found


@cache
def command(entry: EntryPoint) -> Any:
    """The command an entry point gives; ``SylvaError`` if it cannot be loaded."""
    try:
        function: Callable[..., Any] = entry.load()
        app = typer.Typer(**LOOKS)
        app.command(entry.name)(function)
        return typer.main.get_command(app)
    # A package's import may raise anything, even SystemExit; none of it may take the program down.
    except (Exception, SystemExit) as error:
        raise SylvaError(
            f"The command '{entry.name}' of {_source(entry)} ({entry.value}) could not be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


def _is_loadable(name: str) -> bool:
    try:
        command(offered()[name])
    except SylvaError as error:
        print(error, file=sys.stderr)
        return False
    return True


def _source(entry: EntryPoint) -> str:
    return f"package '{entry.dist.name}'" if entry.dist else f"entry point '{entry.name}'"
