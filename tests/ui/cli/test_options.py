"""Commands and options are a promise: scripts of users call them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from ui.cli.commands import app

STORED = Path(__file__).with_name("options.txt")


def described(param: Any) -> str:
    """Return one line about an argument or an option."""
    kind = "flag" if getattr(param, "is_flag", False) else "value"
    if getattr(param, "multiple", False):
        kind = "values"
    limits = [str(getattr(param, limit, None)) for limit in ("min", "max")]
    required = "required" if param.required else "optional"
    return (
        f"{' '.join(param.opts)} {kind} {required} {'..'.join(limits)} {param.envvar or ''}".strip()
    )


def commands_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command and all commands below it by name; those of ``sylva`` by their own name."""
    yield name, command
    for below, each in sorted(getattr(command, "commands", {}).items()):
        yield from commands_of(below if name == "sylva" else f"{name} {below}", each)


def test_every_command_has_the_options_it_always_had():
    lines = []
    for name, command in commands_of("sylva", get_command(app)):
        visible = [param for param in command.params if not getattr(param, "hidden", False)]
        lines += [f"{name}: {each}" for each in sorted(map(described, visible))]
    assert lines == STORED.read_text().splitlines()
