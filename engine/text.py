"""Things put into lines of text."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import SylvaError

if TYPE_CHECKING:
    from engine.workspace import Workspace

LITTLE_SPACE = 100_000
UNBOUNDED = 1_000_000
NARROWEST = 20
"""Characters below which a column is left out rather than wrapped."""

Row = Mapping[str, Any]


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(error: SylvaError, *, as_json: bool) -> None:
    """An error for a person, or for a program."""
    if as_json:
        problems = [problem.to_dict() for problem in getattr(error, "problems", [])]
        print_json({"error": str(error), "problems": problems, "exit_code": error.exit_code})
    else:
        print(error, file=sys.stderr)


def print_table(rows: Sequence[Row]) -> None:
    """Rows with the same keys, as aligned columns; those without a value, or beyond the terminal, are left out."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    if not names:
        return
    cells = [names, *([cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(names))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
    fitting = _fitting(widths, room)
    for line in cells:
        print(_line(line[:fitting], widths, room))
    if fitting < len(names):
        print(f"… and {len(names) - fitting} more columns; --json shows all")


def _fitting(widths: list[int], room: int) -> int:
    """How many columns fit, the last of them wrapped if need be."""
    count = len(widths)
    while count > 2 and sum(widths[: count - 1]) + 2 * (count - 1) + min(widths[count - 1], NARROWEST) > room:
        count -= 1
    return count


def _line(texts: list[str], widths: list[int], room: int) -> str:
    *first, last = texts
    start = "".join(text.ljust(width + 2) for text, width in zip(first, widths, strict=False))
    wrapped = textwrap.wrap(last, max(room - len(start), NARROWEST))
    return (start + f"\n{' ' * len(start)}".join(wrapped)).rstrip()


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def duration(seconds: float | None) -> str:
    """A time span as people say it."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def clock(moment: float | None) -> str:
    """A moment as date and time."""
    return "–" if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def size(count: int) -> str:
    """Bytes as people say them."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def last_words(workspace: Workspace, run: str) -> str:
    """The last line a supervisor wrote about itself; empty if all went well."""
    if shutil.disk_usage(workspace.root).free < LITTLE_SPACE:  # then it could not write any
        return f"the disk is full; free some space at {workspace.root}."
    log = workspace.supervisor_log(run)
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line for line in reversed(lines) if line.strip()), "")


def failure_line(node: str, error: Mapping[str, Any]) -> str:
    """Which node failed, in which field, why."""
    where = f"Node '{node}', field '{error['field']}'" if error.get("field") else f"Node '{node}'"
    return f"{where}: {error['message']}"
