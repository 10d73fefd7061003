"""The commands ``sylva predict`` and ``sylva serve``.

Slow modules are imported where they are used.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from engine.errors import BadInput, Cancelled, SylvaError
from engine.processes import die_with_parent, wait_passively
from ui.cli.options import CommonOptions

if TYPE_CHECKING:
    from nodes.data.formats import FileFormat

TOKEN_VARIABLE = "SYLVA_TOKEN"
PROGRESS_SECONDS = {"lines": 5.0, "json": 0.2}
"""Time between two reports of progress."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name of a saved model in the workspace, with @N for its version N, or the folder of "
        "a model.",
    ),
]


def predict(
    common: CommonOptions,
    model: ModelArgument,
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A table: CSV, TSV, Parquet, Arrow, LibSVM or Excel."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="OUT", help="Where to write: .csv, .parquet or .arrow."
        ),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="Copy this column to OUT; may be repeated."),
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Copy all columns to OUT.")] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Add how much each column contributes to the probability of a class."
        ),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Threads. [default: one per core]")
    ] = None,
    file_format: Annotated[
        Literal["auto", "csv", "tsv", "parquet", "arrow", "libsvm", "excel"],
        typer.Option("--format", help="Format of DATA; auto: by its file name."),
    ] = "auto",
    sheet: Annotated[
        str, typer.Option(help="Sheet of an Excel file. [default: the first one]")
    ] = "",
    delimiter: Annotated[
        Literal["auto", "comma", "semicolon", "tab", "pipe", "space"],
        typer.Option(help="Separator between the values of a CSV file."),
    ] = "auto",
    encoding: Annotated[
        str, typer.Option(help="Encoding of a CSV file, such as latin-1.")
    ] = "utf-8",
    no_header: Annotated[
        bool,
        typer.Option("--no-header", help="The CSV file has no header; its columns are f1, f2, …"),
    ] = False,
    missing: Annotated[
        list[str] | None,
        typer.Option("--missing", metavar="TEXT", help="Another text that means a missing value."),
    ] = None,
    drift: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Compare the rows with the training rows, and write the drift as JSON to FILE.",
        ),
    ] = None,
    progress: Annotated[
        Literal["json"] | None,
        typer.Option(
            hidden=True,
            help="Report progress as lines of JSON on standard error; end with the caller.",
        ),
    ] = None,
) -> None:
    """Score the rows of a file with a saved model, block by block.

    The file may be of any size. OUT has a row for each row of DATA: the columns to keep, the
    prediction, and the probability of each class. The prediction is the most probable class, or
    that of the threshold which was saved with the model; of a regression it is the predicted value.
    OUT is written only when it is complete.

    With --explain, OUT also has a base value and the contribution of each column of the model.
    They add up to the probability of the explained class: of two classes that of the saved
    threshold, else the second; of more the predicted one; of a regression to the predicted value.
    Explaining takes much longer than predicting.
    """
    from engine.text import duration
    from nodes.models.model import describe_model, saved_decision
    from nodes.models.registry import Registry
    from nodes.models.scoring import score_guarded, target_format

    # The studio runs this command and reads its progress.
    if progress == "json":
        # The caller reads the progress. When it ends, the result is not needed any more.
        die_with_parent(os.getppid(), signal.SIGTERM)
    # Refuse a wrong ending before anything is read.
    target_format(out)
    for file in filter(None, (out, drift)):
        if not file.absolute().parent.is_dir():
            raise BadInput(
                f"{file.name} cannot be written: the folder {file.absolute().parent} does not "
                "exist."
            )
    if drift is not None and drift.resolve() in (data.resolve(), out.resolve()):
        raise BadInput(
            f"'{drift.name}' is DATA or OUT and would be overwritten by the drift; choose another "
            "name for --drift"
        )
    source_format = _file_format(
        file_format, delimiter, encoding, header=not no_header, missing=missing or []
    )
    source_format = replace(source_format, sheet=sheet)
    folder = Registry(common.workspace).find(model)
    with _cancel_on_sigterm(), _progress(common, progress) as report:
        scored = score_guarded(
            folder,
            data,
            out,
            keep="all" if keep_all else keep or (),
            threads=threads,
            progress=report,
            file_format=source_format,
            explain=explain,
            drift=drift is not None,
        )
    rate = scored.rows / scored.seconds if scored.seconds else 0.0
    words = f"{out}: {scored.rows:,} rows in {duration(scored.seconds)}, {rate:,.0f} rows/s."
    facts = {"model": folder.name, "data": str(data), "out": str(out), "rows": scored.rows}
    facts |= {"seconds": round(scored.seconds, 3), "rows_per_second": round(rate)}
    decision = saved_decision(describe_model(folder))
    if decision is not None:
        words += f"\n{decision.text}."
        facts["decision"] = decision.to_json()
    if drift is not None and scored.drift is not None:
        words += f"\n{_write_drift(drift, scored.drift)}"
        facts["drift"] = scored.drift
    common.output(facts, words)


def _write_drift(file: Path, drift: dict[str, Any]) -> str:
    """Write how far the rows differ from the training rows; return it in words."""
    from engine.atomic import replacing
    from nodes.models.drift import DriftReport

    try:
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(drift, indent=2, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise SylvaError(f"{file} could not be written: {error.strerror or error}.") from error
    return f"{file}: {DriftReport.from_json(drift).words}"


def serve(
    common: CommonOptions,
    model: ModelArgument,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 8000,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; one that other machines can reach needs a token."),
    ] = LOOPBACK[0],
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE, help="What callers must send as 'Authorization: Bearer TOKEN'."
        ),
    ] = None,
    batch_limit: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Maximum rows of a request.")
    ] = 10_000,
    body_limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="MB", help="Maximum size of a request.")
    ] = 16,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Threads. [default: one per core]")
    ] = None,
) -> None:
    """Serve predictions of a model over HTTP, until stopped with Ctrl-C.

    POST rows to /predict. GET /schema describes the columns of a row. The page at / explains the
    service and lets you try it.
    """
    from nodes.models.registry import Registry, open_model, prove_model
    from ui.rest.service import RequestLimits, Service, listen, run_until_stopped

    # Threads that wait actively would take the cores from other requests.
    wait_passively()
    _check_token(host, token)
    registry = Registry(common.workspace)
    folder = registry.find(model)
    if folder.parent != registry.folder:
        prove_model(folder)  # the model was named by its path: it may come from anyone
    service = Service(
        folder.name,
        open_model(folder),
        token=token,
        limits=RequestLimits(batch_limit, body_limit * 1_000_000),
        threads=threads,
    )
    # Before the address is printed: with --port 0 the port is known only now.
    listener = listen(host, port)
    shown_host = f"[{host}]" if ":" in host else host  # an IPv6 address needs brackets
    address = f"http://{shown_host}:{listener.getsockname()[1]}"
    facts = {
        "model": folder.name,
        "address": address,
        "pid": os.getpid(),
        "token": token is not None,
    }
    words = f"Serving model '{folder.name}' at {address} (press Ctrl-C to stop)."

    def announce() -> None:
        """Print the address, at once also into a pipe: a program may wait for it."""
        common.output(facts, words)
        sys.stdout.flush()

    run_until_stopped(service, listener, announce)


def _check_token(host: str, token: str | None) -> None:
    """Raise ``BadInput`` if the token cannot be sent, or a public address has none."""
    # Other characters cannot be sent in an HTTP header.
    if token is not None and not (
        token.isascii() and token.isprintable() and token.strip() == token and token
    ):
        raise BadInput(
            "The token must consist of visible ASCII characters, without spaces at its ends."
        )
    if token is None and host not in LOOPBACK:
        raise BadInput(
            f"Other machines can reach the service on {host}, so it needs a token: "
            f"set it with --token or ${TOKEN_VARIABLE}, or listen on {LOOPBACK[0]}."
        )


def _file_format(
    file_format: str, delimiter: str, encoding: str, *, header: bool, missing: list[str]
) -> FileFormat:
    """Return how DATA is written; raise ``BadInput`` for an unknown encoding."""
    from nodes.data.formats import MISSING_TEXTS, FileFormat, is_encoding

    if not is_encoding(encoding):
        raise BadInput(f"The encoding '{encoding}' is not known; try utf-8, latin-1 or utf-16.")
    return FileFormat(file_format, delimiter, encoding, header, MISSING_TEXTS | {*missing})


@contextmanager
def _cancel_on_sigterm() -> Iterator[None]:
    """Turn the first SIGTERM into ``Cancelled``, so that no unfinished file is left behind.

    A second SIGTERM ends the program at once.
    """
    from nodes.models.scoring import CANCELLED

    def stop(number: int, frame: object) -> None:
        """Raise ``Cancelled`` in the main thread."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Cancelled(CANCELLED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _progress(
    common: CommonOptions, form: str | None
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that reports how many rows are scored, of how many.

    It draws a bar in a terminal and prints lines elsewhere. With ``--json`` it is silent, unless
    lines of JSON are requested.
    """
    if form == "json":
        yield _ProgressLines(as_json=True)
    elif common.as_json:
        yield lambda rows, total: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            "scoring",
            BarColumn(),
            TextColumn("{task.completed:,.0f} rows"),
            TimeRemainingColumn(),
        )
        # Not our own stream, which would escape the control characters that draw the bar.
        with Progress(*columns, console=Console(file=sys.__stderr__), transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda rows, total: bar.update(task, completed=rows, total=total)
    else:
        yield _ProgressLines()


class _ProgressLines:
    """Print a line about the progress from time to time; ``as_json`` for programs."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._pause = PROGRESS_SECONDS["json" if as_json else "lines"]
        self._printed = time.monotonic()

    def __call__(self, rows: int, total: int | None) -> None:
        if time.monotonic() - self._printed < self._pause:
            return
        self._printed = time.monotonic()
        if self._as_json:
            line = json.dumps({"rows": rows, "total": total})
        elif total is None:
            line = f"{rows:,} rows"
        else:
            line = f"{rows:,} of about {total:,} rows"
        print(line, file=sys.stderr, flush=True)
