"""``sylva predict`` and ``sylva serve``. Slow modules are imported where they are used."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.errors import BadInput, Cancelled
from engine.processes import wait_passively
from ui.cli.options import DebugOption, JsonOption, WorkspaceOption

if TYPE_CHECKING:
    from nodes.data.batches import Writing

TOKEN_VARIABLE = "SYLVA_TOKEN"
LINE_SECONDS = 5.0
JSON_SECONDS = 0.2
"""How often progress is printed as a line, for people and for programs."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name of a saved model of the workspace, or a model's folder.")
]


def predict(
    model: ModelArgument,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table: CSV, TSV, Parquet, Arrow or LibSVM.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT", help="Where to write: .csv, .parquet or .arrow.")],
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="COLUMN", help="Carry this column along; repeatable.")
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Carry all columns along.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads. [default: one per core]")] = None,
    file_format: Annotated[
        Literal["auto", "csv", "tsv", "parquet", "arrow", "libsvm"],
        typer.Option("--format", help="How DATA is written; auto goes by its name."),
    ] = "auto",
    delimiter: Annotated[
        Literal["auto", "comma", "semicolon", "tab", "pipe", "space"],
        typer.Option(help="What stands between the values of a CSV file."),
    ] = "auto",
    encoding: Annotated[str, typer.Option(help="Encoding of a CSV file, such as latin-1.")] = "utf-8",
    no_header: Annotated[
        bool, typer.Option("--no-header", help="A CSV file begins with data; columns are f1 …")
    ] = False,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", metavar="TEXT", help="One more text that means a missing value.")
    ] = None,
    report_as: Annotated[
        Literal["auto", "json"],
        typer.Option("--progress", help="How progress is shown on standard error: a bar or lines, or JSON lines."),
    ] = "auto",
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Score the rows of a file with a saved model, block by block.

    The file may be of any size. OUT holds a row for each row of DATA: the columns kept, the prediction, and the
    probability of each class. It appears once all of it is written.
    """
    from engine.text import duration, print_json
    from engine.workspace import Workspace
    from nodes.models.registry import Registry
    from nodes.models.scoring import score_guarded, target_format

    target_format(out)
    if not out.absolute().parent.is_dir():
        raise BadInput(f"There is no folder {out.absolute().parent} to write {out.name} into.")
    writing = _writing(file_format, delimiter, encoding, header=not no_header, missing=missing or [])
    folder = Registry(Workspace.at(workspace)).find(model)
    with _stoppable(), _progress(report_as, quiet=as_json) as progress:
        scored = score_guarded(
            folder,
            data,
            out,
            keep="all" if keep_all else keep or (),
            threads=threads,
            progress=progress,
            writing=writing,
        )
    rate = scored.rows / scored.seconds if scored.seconds else 0.0
    if as_json:
        about = {"model": folder.name, "data": str(data), "out": str(out), "rows": scored.rows}
        print_json({**about, "seconds": round(scored.seconds, 3), "rows_per_second": round(rate)})
    else:
        print(f"{out}: {scored.rows:,} rows in {duration(scored.seconds)}, {rate:,.0f} rows/s.")


def serve(
    model: ModelArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = LOOPBACK[0],
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_VARIABLE, help="What callers must send as 'Authorization: Bearer TOKEN'."),
    ] = None,
    batch_limit: Annotated[int, typer.Option(min=1, max=10_000_000, help="Rows a request may have.")] = 10_000,
    body_limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="MB", help="Size a request may have.")] = 16,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads. [default: one per core]")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Answer requests for predictions over HTTP until stopped (Ctrl-C).

    POST rows to /predict; GET /schema says which columns a row has, / is a page to read and to try it.
    """
    from engine.text import print_json
    from engine.workspace import Workspace
    from nodes.models.registry import Registry, open_model, prove_model
    from ui.rest.service import RequestLimits, Service, listen, run_until_stopped

    wait_passively()
    _check_token(host, token)
    registry = Registry(Workspace.at(workspace))
    folder = registry.find(model)
    if folder.parent != registry.folder:
        prove_model(folder)  # it was given as a path: it may come from anyone
    service = Service(
        folder.name,
        open_model(folder),
        token=token,
        limits=RequestLimits(batch_limit, body_limit * 1_000_000),
        threads=threads,
    )
    sockets = listen(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{sockets.getsockname()[1]}"

    def announce() -> None:
        if as_json:
            print_json({"model": folder.name, "address": address, "pid": os.getpid(), "token": token is not None})
        else:
            print(f"Model '{folder.name}' answers at {address} (Ctrl-C stops it).")
        sys.stdout.flush()

    run_until_stopped(service, sockets, announce)


def _check_token(host: str, token: str | None) -> None:
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise BadInput("The token must be of visible ASCII characters, without spaces around it.")
    if token is None and host not in LOOPBACK:
        raise BadInput(
            f"Listening on {host} lets other machines in: set a token with --token or ${TOKEN_VARIABLE}, "
            f"or listen on {LOOPBACK[0]}."
        )


def _writing(file_format: str, delimiter: str, encoding: str, *, header: bool, missing: list[str]) -> Writing:
    from nodes.data.batches import Writing
    from nodes.data.csv_reader import Dialect
    from nodes.models.new_data import MISSING_TEXTS

    try:
        "a".encode(encoding)
    except (LookupError, ValueError):
        raise BadInput(f"There is no encoding '{encoding}'; try utf-8, latin-1 or utf-16.") from None
    return Writing(file_format, Dialect(delimiter, encoding, header, MISSING_TEXTS | {*missing}))


@contextmanager
def _stoppable() -> Iterator[None]:
    """Turn the first request to end (SIGTERM) into ``Cancelled``, so that nothing half done is left behind.

    A second request ends the program at once.
    """
    import signal

    from nodes.models.scoring import CANCELLED

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Cancelled(CANCELLED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(report_as: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Yield what shows the progress: a moving bar in a terminal, else lines; nothing with ``--json`` alone."""
    if report_as == "json":
        yield _ProgressLines(lambda rows, total: json.dumps({"rows": rows, "total": total}), JSON_SECONDS)
    elif quiet:
        yield lambda rows, total: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        shown = ("scoring", BarColumn(), TextColumn("{task.completed:,.0f} rows"), TimeRemainingColumn())
        with Progress(*shown, console=Console(file=sys.__stderr__), transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda rows, total: bar.update(task, completed=rows, total=total)
    else:
        yield _ProgressLines(_line, LINE_SECONDS)


def _line(rows: int, total: int | None) -> str:
    of = "" if total is None else f" of about {total:,}"
    return f"{rows:,}{of} rows"


class _ProgressLines:
    """Prints a line of progress on standard error every ``seconds``."""

    def __init__(self, line: Callable[[int, int | None], str], seconds: float) -> None:
        self._line, self._seconds, self._printed = line, seconds, time.monotonic()

    def __call__(self, rows: int, total: int | None) -> None:
        if time.monotonic() - self._printed >= self._seconds:
            self._printed = time.monotonic()
            print(self._line(rows, total), file=sys.stderr, flush=True)
