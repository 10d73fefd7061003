"""Score a whole file with a model, in bounded memory.

Reading, predicting and writing overlap, each in its own thread: while one block is predicted, the
next is read and encoded, and the one before is written. The target file appears only when it is
complete; after an error or a cancel it does not exist.

- ``score_file``     scores a file in this process
- ``score_blocks``   the same as a generator, block by block
- ``score_guarded``  the same in a child process, for files and models that may be damaged
- ``Scored``         the result: rows and seconds
- ``target_format``, ``check_names``  checks that callers can do before
- ``drift_counter``  what compares scored rows with the training rows
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
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
from nodes.data import formats
from nodes.data.columns import require_column
from nodes.data.formats import (
    LIBSVM_COLUMN,
    LIBSVM_TARGET,
    TITLES,
    BlockFile,
    FileFormat,
    open_blocks,
    open_writer,
)
from nodes.models.model import FittedModel

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from nodes.models.drift import DriftCounter
    from nodes.models.explanations import Explanations
    from nodes.models.new_data import InputChecker

OLD_SECONDS = 86_400
"""Unfinished files that are older than this were left by a command that was killed."""
BLOCK_SECONDS = 600.0
"""A file is considered damaged if one block takes longer than this."""
IMPORTS = (*formats.IMPORTS, "lightgbm")
"""Slow modules that scoring needs."""
FORMATS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
"""Format of the target, by the ending of its name."""
CANCELLED = "Scoring cancelled. No file was written."

Keep = Sequence[str] | Literal["all"]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Scored:
    """Report what ``score_file`` has done."""

    rows: int
    seconds: float
    """Time from opening the file to writing the last row."""
    drift: dict[str, Any] | None = None
    """How far the rows differ from training, as ``DriftReport.to_json``; None if not asked for."""


@dataclass(frozen=True)
class _Block:
    """Hold the encoded rows of a block, and the columns to write beside the predictions."""

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
    explain: bool = False,
) -> Scored:
    """Score every row of ``source`` and write the predictions to ``target``.

    The ending of the target decides its format. ``keep`` names columns of the source that come
    first in the target. ``threads`` defaults to all cores. ``progress`` gets the rows done and
    about how many there are, None if that is not known. ``cancelled`` is asked after each block.
    With ``explain``, the target also has the contribution of each column to the probability.

    Raise ``BadInput`` if the columns do not fit, before anything is written, and ``Cancelled``
    after a cancel. The probabilities have the same bits as those of ``FittedModel.predict_proba``.
    """
    with closing(
        score_blocks(
            model,
            source,
            target,
            keep=keep,
            threads=threads,
            file_format=file_format,
            explain=explain,
        )
    ) as steps:
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
    explain: bool = False,
    drift: bool = False,
) -> Generator[Scored | tuple[int, int | None], None, None]:
    """Do the work of ``score_file`` block by block.

    Yield the rows done and about how many there are after each block, and ``Scored`` when the
    target is written. If the caller stops before that, no target is left behind. With ``drift``,
    the rows are also compared with the training rows; raise ``BadInput`` if the model was saved
    without a summary of these.
    """
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401  (loaded before the clock starts)

    from nodes.models.new_data import InputChecker

    began = time.monotonic()
    n_rows = model.rows_at_once
    if explain:
        from nodes.models.explanations import explain_rows, rows_to_explain

        model.check_explainable()
        n_rows = rows_to_explain(model)
    written_as = target_format(target)
    file = open_blocks(source, file_format)
    if target.is_dir():
        raise BadInput(f"'{target}' is a folder; give the name of a file")
    # The source is still being read when the target replaces it.
    if target.exists() and target.samefile(source):
        raise BadInput(
            f"'{target.name}' is the file to score and would be overwritten; choose another name"
        )
    kept = _kept_names(file, keep)
    missing = (file_format or FileFormat()).missing
    checker = InputChecker(model.encoder, missing, present=file.names or ())
    check_names(file, checker)
    counter = drift_counter(model, missing) if drift else None
    # Not all cores of the machine: a container may allow fewer.
    threads, done = threads or len(os.sched_getaffinity(0)), 0
    with _Ahead(_encoded(file, checker, model, kept, n_rows, counter)) as blocks:
        # The first block shows whether the columns fit, before a target is created.
        first = next(blocks)
        if first.kept is not None:
            _check_kept(first.kept, written_as)
        _clear_old(target)
        with _replacing(target) as temporary, _Writer(temporary, written_as, model) as writer:
            block: _Block | None = first
            # Otherwise the first block would stay in memory until the end.
            del first
            yield 0, file.total
            while block is not None:
                probabilities = model.predict_matrix(block.matrix, threads)
                explanations = None
                if explain:
                    explanations = explain_rows(model, block.matrix, probabilities, threads)
                writer.write(probabilities, block.kept, explanations)
                done += len(probabilities)
                # The total may be an estimate, and must not be below what is done.
                yield done, None if file.total is None else max(file.total, done)
                block = next(blocks, None)
    yield done, done
    found = counter.report().to_json() if counter else None
    yield Scored(done, time.monotonic() - began, found)


def score_guarded(
    model: Path,
    source: Path,
    target: Path,
    *,
    keep: Keep = (),
    threads: int | None = None,
    file_format: FileFormat | None = None,
    explain: bool = False,
    progress: Progress = lambda rows, total: None,
    drift: bool = False,
) -> Scored:
    """Open a model and score a file like ``score_file``, in a child process.

    A damaged or hostile model or file can end only the child. Raise ``SylvaError`` if it does.
    """
    arguments = {
        "model": str(model.absolute()),
        "source": str(source.absolute()),
        "target": str(target.absolute()),
        "keep": keep,
        "threads": threads,
        "file_format": (file_format or FileFormat()).to_json(),
        "explain": explain,
        "drift": drift,
    }
    call = sandbox.Call(
        "nodes.models.scoring:score_in_child",
        source.name,
        arguments,
        IMPORTS,
        field=None,
        megabytes=usable_memory(),
        seconds=BLOCK_SECONDS,
    )
    with closing(sandbox.stream(call)) as steps:
        for step in steps:
            if "seconds" in step:
                return Scored(**step)
            progress(step["rows"], step["total"])
    raise SylvaError(f"The scoring of '{source.name}' ended without a result. Try it again.")


def score_in_child(
    model: str,
    source: str,
    target: str,
    keep: Keep,
    threads: int | None,
    file_format: dict[str, Any],
    explain: bool,
    drift: bool,
) -> Generator[dict[str, Any], None, None]:
    """Score a file in the child process of ``score_guarded``; yield each step as plain JSON."""
    from nodes.models.registry import open_model

    steps = score_blocks(
        open_model(Path(model)),
        Path(source),
        Path(target),
        keep=keep,
        threads=threads,
        file_format=FileFormat.from_json(file_format),
        explain=explain,
        drift=drift,
    )
    with closing(steps):
        for step in steps:
            if isinstance(step, Scored):
                yield asdict(step)
            else:
                yield {"rows": step[0], "total": step[1]}


def target_format(target: Path) -> str:
    """Return the format that the ending of a name stands for; raise ``BadInput`` otherwise."""
    file_format = FORMATS.get(target.suffix.lower())
    if file_format is None:
        raise BadInput(
            f"'{target.name}' does not end in {', '.join(sorted(FORMATS))}; choose a name with "
            "such an ending"
        )
    return file_format


# Reading


def _kept_names(file: BlockFile, keep: Keep) -> list[str]:
    """Return the columns to keep, each once; raise ``BadInput`` if one does not exist."""
    if keep == "all":
        return [LIBSVM_TARGET] if file.names is None else file.names
    for name in keep:
        if file.names is not None:
            require_column(name, file.names, field="keep")
        elif name != LIBSVM_TARGET and not LIBSVM_COLUMN.fullmatch(name):
            raise BadInput(
                f"the column '{name}' does not exist; the columns of a LibSVM file are f1, f2 … "
                f"and '{LIBSVM_TARGET}'"
            )
    return list(dict.fromkeys(keep))


def check_names(file: BlockFile, checker: InputChecker) -> None:
    """Raise ``BadInput`` if the names of the columns show that the file cannot fit the model.

    A LibSVM file has every column that is named like its columns. For other files, only a file
    without any column of the model is refused here: the first block gives a better message.
    """
    from nodes.models.new_data import describe

    names = checker.encoder.names
    if file.names is None:
        missing = [
            name for name in names if name != LIBSVM_TARGET and not LIBSVM_COLUMN.fullmatch(name)
        ]
        if missing:
            raise BadInput(describe(missing, ()))
    elif not set(names) & set(file.names):
        problem = describe(checker.missing_columns(file.names), file.names)
        raise BadInput(f"{problem}; it has {listed(file.names)}")


def drift_counter(model: FittedModel, missing: Collection[str]) -> DriftCounter:
    """Return what counts the rows; raise ``BadInput`` if there is nothing to compare them with."""
    from nodes.models.drift import DriftCounter

    if model.summary is None:
        raise BadInput(
            "the model was saved without a summary of its training rows, so drift cannot be "
            "measured; train and save it again"
        )
    return DriftCounter(model.encoder, model.summary, missing)


def _encoded(
    file: BlockFile,
    checker: InputChecker,
    model: FittedModel,
    kept: list[str],
    n_rows: int,
    counter: DriftCounter | None,
) -> Iterator[_Block]:
    """Yield the file as blocks of at most ``n_rows`` encoded rows.

    Raise ``BadInput`` if it has no rows.
    """
    used = checker.encoder.names
    known = set(used if file.names is None else file.names)
    columns = list(dict.fromkeys([*kept, *(name for name in used if name in known)]))
    done = 0
    for table in file.blocks(columns, n_rows):
        fitting = checker.table(table, first_row=done)
        if counter is not None:
            counter.add(table, fitting)
        matrix = model.encoder.transform(fitting, model.precision)
        done += table.num_rows
        yield _Block(matrix, _without_dictionaries(table.select(kept), file) if kept else None)
        # Free the memory before the next block is read.
        del table, fitting, matrix
    if not done:
        raise BadInput(f"'{file.path.name}' has no rows; choose another file")


def _without_dictionaries(table: pa.Table, file: BlockFile) -> pa.Table:
    """Return the columns to keep in types that are the same in every block.

    Dictionaries differ from block to block, so they become their values. In a text file, an empty
    value is a missing one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if file.as_written:
        missing = pa.scalar(None, pa.string())
        texts = [pc.if_else(pc.equal(column, ""), missing, column) for column in table.columns]
        return pa.table(texts, names=table.column_names)
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


Item = TypeVar("Item")


class _Ahead(Generic[Item]):
    """Run an iterator in its own thread, a few items ahead of the consumer.

    An error of the iterator is raised again in the consumer. Leaving the ``with`` block stops the
    thread.
    """

    DEPTH = 2

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._ready: queue.Queue[tuple[str, Any]] = queue.Queue(self.DEPTH)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="reading", daemon=True)

    def __enter__(self) -> Iterator[Item]:
        """Start the thread and return the items."""
        self._thread.start()
        return self._received()

    def __exit__(self, *_: object) -> None:
        """Stop the thread and wait for its end."""
        self._stopped.set()
        self._thread.join()

    def _received(self) -> Iterator[Item]:
        """Yield the items in order; raise the error of the iterator where it occurred."""
        while True:
            kind, value = self._ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value

    def _fill(self) -> None:
        """Put items into the queue until the iterator ends, fails, or the consumer stops."""
        try:
            for item in self._items:
                if not self._put("item", item):
                    return
                # Free the memory before the next item is made.
                del item
            self._put("end", None)
        # The consumer waits for an item, so every error must reach it.
        except BaseException as error:
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> bool:
        """Wait for space in the queue; return False if the consumer has stopped."""
        while not self._stopped.is_set():
            try:
                # With a timeout, because the consumer may stop while this thread waits.
                self._ready.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


# Writing


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path like ``replacing``; raise ``SylvaError`` if the disk refuses it."""
    try:
        with replacing(target) as temporary:
            yield temporary
    except OSError as error:
        raise SylvaError(f"{target} could not be written: {error.strerror or error}") from error


def _check_kept(kept: pa.Table, file_format: str) -> None:
    """Raise ``BadInput`` that names the kept columns which the target's format cannot store."""
    import pyarrow as pa

    refused = []
    for field in kept.schema:
        try:
            # Try one row in memory: formats have no list of the types they can store.
            with open_writer(pa.BufferOutputStream(), file_format, pa.schema([field])) as sink:
                sink.write_table(kept.select([field.name]).slice(0, 1))
        except pa.ArrowException:
            refused.append(f"'{field.name}' ({field.type})")
    if refused:
        instead = "" if file_format == "parquet" else ", or write Parquet"
        raise BadInput(
            f"{TITLES[file_format]} cannot store {', '.join(refused)}; do not keep these "
            f"columns{instead}"
        )


def _clear_old(target: Path) -> None:
    """Remove the temporary files that killed commands have left beside the target."""
    for leftover in target.parent.glob(f".{escape(target.name[:100])}.????????.unfinished"):
        with suppress(OSError):
            # A young file may belong to a command that is still running.
            if time.time() - leftover.lstat().st_mtime > OLD_SECONDS:
                leftover.unlink()


class _Writer:
    """Write blocks of predictions in its own thread.

    ``write`` waits until the block before is written, so at most one block waits in memory.
    """

    def __init__(self, path: Path, file_format: str, model: FittedModel) -> None:
        self._path, self._format, self._model = path, file_format, model
        self._sink: Any = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="writing")
        self._last: Future[None] | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """Wait for the last block and close the file."""
        try:
            # After an error in the block, a second error would only hide the first.
            if error is None and self._last is not None:
                self._last.result()
        finally:
            self._threads.shutdown()
            if self._sink is not None:
                self._sink.close()

    def write(
        self,
        probabilities: np.ndarray,
        kept: pa.Table | None,
        explanations: Explanations | None = None,
    ) -> None:
        """Append the rows of a block; raise the error of the block before, if it had one."""
        if self._last is not None:
            self._last.result()
        self._last = self._threads.submit(self._write, probabilities, kept, explanations)

    def _write(
        self,
        probabilities: np.ndarray,
        kept: pa.Table | None,
        explanations: Explanations | None,
    ) -> None:
        """Write a block; the first one opens the file, because its columns are known only then."""
        model = self._model
        table = Predictions(
            probabilities, model.classes, model.title, carried=kept, decision=model.decision
        ).to_arrow()
        if explanations is not None:
            table = explanations.beside(table)
        if self._sink is None:
            self._sink = open_writer(
                str(self._path), self._format, table.schema, floats_repeat=False
            )
        self._sink.write_table(table)
