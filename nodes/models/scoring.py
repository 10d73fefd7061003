"""A whole file scored by a model, in bounded memory.

``score_file`` reads, encodes, predicts and writes at the same time, each in a thread of its own: while one block is
predicted, the next is made ready and the one before is written. What it writes appears under its name when all of it
is there, and not at all if anything goes wrong.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from engine import sandbox
from engine.atomic import replacing
from engine.errors import BadInput, Cancelled, SylvaError
from engine.processes import usable_memory
from engine.text import listed
from engine.values import Predictions
from nodes.data.columns import require_column
from nodes.data.formats import LIBSVM_COLUMN, LIBSVM_TARGET, BlockFile, FileFormat, open_blocks
from nodes.models.model import FittedModel
from nodes.models.new_data import InputChecker, describe

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

OLD_SECONDS = 86_400
"""Age from which what an earlier command left unfinished is of no one any more."""
BLOCK_SECONDS = 600.0
"""A file of which a block takes longer than this is taken for damaged."""
IMPORTS = ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet", "lightgbm")
"""Slow modules that scoring needs."""
FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow"}
"""What is written, by the ending of the target."""
CANCELLED = "Scoring cancelled. No file was written."
TITLES = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow"}

Keep = Sequence[str] | Literal["all"]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Scored:
    """What was done."""

    rows: int
    seconds: float
    """From the opening of the file to the last row written."""


@dataclass(frozen=True)
class _Block:
    matrix: np.ndarray
    kept: pa.Table | None


def score_file(
    model: FittedModel,
    source: Path,
    target: Path,
    *,
    keep: Keep = (),
    threads: int | None = None,
    progress: Progress = lambda rows, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    file_format: FileFormat | None = None,
) -> Scored:
    """Score every row of ``source`` and write the predictions to ``target``, as its ending says.

    ``keep`` names columns of the source that come first in the target. ``threads``: all cores by default.
    ``progress`` is told the rows done and about how many there are, if that is known. ``BadInput`` if the columns do
    not fit, before anything is written; ``Cancelled`` once ``cancelled`` says so. The probabilities are those of
    ``FittedModel.predict_proba`` to the last bit.
    """
    with closing(score_blocks(model, source, target, keep=keep, threads=threads, file_format=file_format)) as steps:
        for done in steps:
            if isinstance(done, Scored):
                return done
            progress(*done)
            if cancelled():
                break
    raise Cancelled(CANCELLED)


def score_blocks(
    model: FittedModel,
    source: Path,
    target: Path,
    *,
    keep: Keep = (),
    threads: int | None = None,
    file_format: FileFormat | None = None,
) -> Generator[Scored | tuple[int, int | None], None, None]:
    """Do the work of ``score_file`` block by block.

    Yield the rows done and about how many there are after each block, and ``Scored`` once the target is written.
    A caller that stops before that leaves no target behind.
    """
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401  (loaded before the clock starts)

    began = time.monotonic()
    written_as = target_format(target)
    file = open_blocks(source, file_format)
    if target.is_dir():
        raise BadInput(f"'{target}' is a folder; give the name of a file")
    if target.exists() and target.samefile(source):
        raise BadInput(f"'{target.name}' would replace the file it is made from; choose another name")
    kept = _kept_names(file, keep)
    fitting = InputChecker(model.encoder, (file_format or FileFormat()).missing)
    check_names(file, fitting)
    threads, done = threads or _cores(), 0
    with _Ahead(_encoded(file, fitting, model, kept)) as blocks:
        first = next(blocks)  # whatever does not fit is told before the target is there
        if first.kept is not None:
            _check_kept(first.kept, written_as)
        _clear_old(target)
        with _replacing(target) as temporary, _Writer(temporary, written_as, model) as writer:
            block: _Block | None = first
            del first  # so that no block outlives its turn
            yield 0, file.total
            while block is not None:
                probabilities = model.predict_matrix(block.matrix, threads)
                writer.write(probabilities, block.kept)
                done += len(probabilities)
                yield done, None if file.total is None else max(file.total, done)
                block = next(blocks, None)
    yield done, done
    yield Scored(done, time.monotonic() - began)


def score_guarded(
    model: Path,
    source: Path,
    target: Path,
    *,
    keep: Keep = (),
    threads: int | None = None,
    file_format: FileFormat | None = None,
    progress: Progress = lambda rows, total: None,
) -> Scored:
    """Open a model and score a file like ``score_file``, in a child process: either may be damaged or hostile."""
    arguments = {
        "model": str(model.absolute()), "source": str(source.absolute()), "target": str(target.absolute()),
        "keep": keep, "threads": threads,
        "file_format": None if file_format is None else file_format.to_json(),
    }  # fmt: skip
    call = sandbox.Call(
        "nodes.models.scoring:score_in_child", source.name, arguments, IMPORTS,
        field=None, megabytes=usable_memory(), seconds=BLOCK_SECONDS,
    )  # fmt: skip
    with closing(sandbox.stream(call)) as steps:
        for step in steps:
            if "seconds" in step:
                return Scored(**step)
            progress(step["rows"], step["total"])
    raise SylvaError(f"The scoring of '{source.name}' ended without a result.")


def score_in_child(
    model: str, source: str, target: str, keep: Keep, threads: int | None, file_format: dict[str, Any] | None
) -> Generator[dict[str, Any], None, None]:
    """Score a file; each step as JSON."""
    from nodes.models.registry import open_model

    source_format = None if file_format is None else FileFormat.from_json(file_format)
    steps = score_blocks(
        open_model(Path(model)), Path(source), Path(target), keep=keep, threads=threads, file_format=source_format
    )
    with closing(steps):
        for step in steps:
            if isinstance(step, Scored):
                yield asdict(step)
            else:
                yield {"rows": step[0], "total": step[1]}


def target_format(target: Path) -> str:
    """How a file of that name is written; ``BadInput`` if that is not known."""
    found = FORMATS.get(target.suffix.lower())
    if found is None:
        raise BadInput(f"'{target.name}' does not end in {', '.join(sorted(FORMATS))}; choose such a name")
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0))


# What is read


def _kept_names(file: BlockFile, keep: Keep) -> list[str]:
    if keep == "all":
        return [LIBSVM_TARGET] if file.names is None else file.names
    for name in keep:
        if file.names is not None:
            require_column(name, file.names, field="keep")
        elif name != LIBSVM_TARGET and not LIBSVM_COLUMN.fullmatch(name):
            raise BadInput(f"there is no column '{name}'; the columns of LibSVM are f1, f2 … and '{LIBSVM_TARGET}'")
    return list(dict.fromkeys(keep))


def check_names(file: BlockFile, fitting: InputChecker) -> None:
    """A LibSVM file has every column that is named as its columns are; of other files a first block tells more."""
    if file.names is None:
        lacking = [
            name for name in fitting.encoder.names if name != LIBSVM_TARGET and not LIBSVM_COLUMN.fullmatch(name)
        ]
        if lacking:
            raise BadInput(describe(lacking, []))
    elif not set(fitting.encoder.names) & set(file.names):
        raise BadInput(f"{describe(fitting.missing_columns(file.names), [])}; it has {listed(file.names)}")


def _encoded(file: BlockFile, fitting: InputChecker, model: FittedModel, kept: list[str]) -> Iterator[_Block]:
    used = fitting.encoder.names
    known = set(used if file.names is None else file.names)
    wanted = list(dict.fromkeys([*kept, *(name for name in used if name in known)]))
    done = 0
    for table in file.blocks(wanted, model.rows_at_once):
        done += table.num_rows
        yield _Block(
            model.encoder.transform(fitting.table(table, done - table.num_rows), model.precision),
            _written_out(table.select(kept), file) if kept else None,
        )
        del table  # before the next is read
    if not done:
        raise BadInput(f"'{file.path.name}' has no rows")


def _written_out(table: pa.Table, file: BlockFile) -> pa.Table:
    """Without dictionaries, which differ from block to block; of values as they are written, empty ones are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if file.as_written:
        nothing = pa.scalar(None, pa.string())
        texts = [pc.if_else(pc.equal(column, ""), nothing, column) for column in table.columns]
        return pa.table(texts, names=table.column_names)
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


Item = TypeVar("Item")


class _Ahead(Generic[Item]):
    """What an iterator gives, made ready in a thread of its own, a few items ahead of whoever takes them."""

    DEPTH = 2

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._ready: queue.Queue[tuple[str, Any]] = queue.Queue(self.DEPTH)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="reading", daemon=True)

    def __enter__(self) -> Iterator[Item]:
        self._thread.start()
        return self._taken()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _taken(self) -> Iterator[Item]:
        while True:
            kind, value = self._ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put("item", item):
                    return
                del item  # before the next is made
            self._put("end", None)
        except BaseException as error:
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> bool:
        """Wait for room; false once no one takes any more."""
        while not self._stopped.is_set():
            try:
                self._ready.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


# What is written


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """As ``replacing``, with words for what the system may refuse."""
    try:
        with replacing(target) as temporary:
            yield temporary
    except OSError as error:
        raise SylvaError(f"{target} could not be written: {error.strerror or error}") from error


def _check_kept(kept: pa.Table, file_format: str) -> None:
    """``BadInput`` that names the columns which the target cannot hold."""
    import pyarrow as pa

    refused = []
    for field in kept.schema:
        try:
            with _open_sink(pa.BufferOutputStream(), file_format, pa.schema([field])) as sink:
                sink.write_table(kept.select([field.name]).slice(0, 1))
        except pa.ArrowException:
            refused.append(f"'{field.name}' ({field.type})")
    if refused:
        instead = "" if file_format == "parquet" else ", or write Parquet"
        raise BadInput(
            f"{TITLES[file_format]} cannot hold {', '.join(refused)}; do not keep what it cannot hold{instead}"
        )


def _clear_old(target: Path) -> None:
    """Remove what commands that were killed have left beside the target."""
    for left in target.parent.glob(f".{escape(target.name[:100])}.????????.unfinished"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > OLD_SECONDS:
                left.unlink()


class _Writer:
    """Writes blocks of predictions in a thread of its own; a block is only taken once the one before is written."""

    def __init__(self, path: Path, file_format: str, model: FittedModel) -> None:
        self._path, self._format, self._model = path, file_format, model
        self._sink: Any = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="writing")
        self._last: Future[None] | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        try:
            if error is None and self._last is not None:
                self._last.result()
        finally:
            self._threads.shutdown()
            if self._sink is not None:
                self._sink.close()

    def write(self, probabilities: np.ndarray, kept: pa.Table | None) -> None:
        """Add the rows of a block."""
        if self._last is not None:
            self._last.result()
        self._last = self._threads.submit(self._write, probabilities, kept)

    def _write(self, probabilities: np.ndarray, kept: pa.Table | None) -> None:
        table = Predictions(probabilities, self._model.classes, self._model.title, carried=kept).to_arrow()
        if self._sink is None:
            self._sink = _open_sink(str(self._path), self._format, table.schema)
        self._sink.write_table(table)


def _open_sink(place: Any, file_format: str, schema: pa.Schema) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if file_format == "csv":
        return pa_csv.CSVWriter(place, schema)
    if file_format == "parquet":
        # Fractions hardly ever come twice: a dictionary of them would only take time and room.
        repeating = [field.name for field in schema if not pa.types.is_floating(field.type)]
        return pq.ParquetWriter(place, schema, compression="zstd", use_dictionary=repeating)
    return pa.ipc.new_file(place, schema)
