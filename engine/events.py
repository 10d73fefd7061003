"""The events of a run, and the log in which they are stored.

``RunEvent`` is the union of all events: one class for one fact. A worker sends them over its
socket, a Dask task forwards them, the scheduler appends them to the log, and ``run_state`` derives
from them every state that is shown anywhere. The stored words (``kind`` and the names of the
fields) are those of the first version, so old logs are read like new ones.

Events are added and never changed. What a node reports while it runs is replaced by an event that
says the same in less: a newer progress replaces the last one, and when the node ends, one event
with the last state of its subtasks replaces all earlier ones. An event that is written again gets
a new number, in the same commit in which the old ones are deleted. So a reader that asks for the
events after the last number it knows misses nothing.

SQLite runs in WAL mode: one supervisor writes the events of a run while any number of programs read
them. A power cut may lose events (not results: these are in the store), so a commit does not wait
for the disk.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from uuid import uuid4

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_serializer,
)

from engine.errors import SylvaError
from engine.processes import ProcessId
from engine.store import ArtifactData
from engine.workspace import Workspace

# The events. A field that the log has lost takes its default.

Outputs = dict[str, ArtifactData]
"""The outputs of a node by port, as ``Artifact.to_dict`` describes them."""

SubtaskReport = tuple[tuple[str, ...], str, float | None, str]
"""Path (layer, learner, fold), state, seconds and worker of one subtask."""


def _with_worker(report: Any) -> Any:
    """Return a report of a subtask with its worker, which older logs do not have."""
    return [*report, ""] if isinstance(report, list | tuple) and len(report) == 3 else report


@dataclass(frozen=True)
class Failure:
    """Why a node did not finish: a kind that a program can act on, a message that a person can."""

    kind: str = "error"
    """``bad-input``, ``error``, ``memory``, ``disk``, ``timeout``, ``crashed`` (the node lost its
    process), ``lost`` (it lost the cluster it ran on), ``corrupt`` or ``cancelled``."""
    message: str = "The reason is not in the run log."
    field: str | None = None
    """The parameter to change, if it is known."""
    traceback: str | None = None
    digest: str | None = None
    """The damaged input, when ``kind`` is ``corrupt``."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return dict(vars(self))


class _Event(BaseModel):
    """Base of all events; a field is read by its own name and by the one that the log has."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON, as processes send it and the log stores it."""
        return self.model_dump(by_alias=True)


class _NodeEvent(_Event):
    """Base of the events of one node."""

    node: str


class RunStarted(_Event):
    """A supervisor starts or resumes the run; ``todo`` lists the nodes that are left."""

    supervisor: ProcessId | None = None
    todo: tuple[str, ...] = ()
    node: ClassVar[None] = None
    kind: Literal["run-started"] = "run-started"


class RunFinished(_Event):
    """The run ended as ``done``, ``failed``, ``cancelled`` or ``interrupted``."""

    state: str = "interrupted"
    node: ClassVar[None] = None
    kind: Literal["run-finished"] = "run-finished"


class NodeStarted(_NodeEvent):
    """The process of a node runs."""

    try_number: Annotated[int, Field(alias="attempt")] = 1
    """1 for the first process that a supervisor starts for the node, 2 for the next."""
    key: str | None = None
    """The cache key of the node."""
    process: ProcessId | None = None
    kind: Literal["started"] = "started"


class NodeProgress(_NodeEvent):
    """A node reports how far it is (0 to 1) and what it does now."""

    fraction: float = 0.0
    text: str = ""
    kind: Literal["progress"] = "progress"


class SubtaskUpdate(_NodeEvent):
    """A node reports the states of subtasks, such as the fits of a deep forest."""

    subtasks: Annotated[
        tuple[Annotated[SubtaskReport, BeforeValidator(_with_worker)], ...], Field(alias="jobs")
    ] = ()
    kind: Literal["jobs"] = "jobs"

    @field_serializer("subtasks")
    def _without_empty_worker(self, subtasks: tuple[SubtaskReport, ...]) -> list[tuple[Any, ...]]:
        """Leave out the worker of a subtask that no cluster carries out, as older logs do."""
        return [report if report[3] else report[:3] for report in subtasks]


class PartialResult(_NodeEvent):
    """A node publishes a part of its result while it runs, as plain JSON."""

    name: Annotated[str, Field(alias="part")]
    data: dict[str, Any]
    kind: Literal["part"] = "part"


class NodeFinished(_NodeEvent):
    """The result of a node is in the store.

    A worker leaves out ``seconds`` and ``outputs``: the scheduler reads them from the store.
    """

    key: str | None = None
    seconds: float | None = None
    outputs: Outputs | None = None
    kind: Literal["finished"] = "finished"


class NodeCached(_NodeEvent):
    """The store had the result of a node already; ``why`` says since when."""

    key: str | None = None
    seconds: float | None = None
    outputs: Outputs | None = None
    why: str = ""
    kind: Literal["cached"] = "cached"


class NodeFailed(_NodeEvent):
    """A node ended without a result."""

    error: Failure = Failure()
    kind: Literal["failed"] = "failed"


class NodeRetrying(_NodeEvent):
    """A node failed and will be tried again."""

    why: str = ""
    error: Failure = Failure()
    kind: Literal["retrying"] = "retrying"


class NodeSkipped(_NodeEvent):
    """A node will not run because a node above it failed."""

    why: str = ""
    kind: Literal["skipped"] = "skipped"


class NodeStopped(_NodeEvent):
    """A node was stopped because the run was cancelled."""

    kind: Literal["stopped"] = "stopped"


class NodeReopened(_NodeEvent):
    """A node must run again because an input or an output of it was damaged on disk."""

    why: str = ""
    kind: Literal["reopened"] = "reopened"


class WorkerUpdate(_Event):
    """A worker of a cluster may run the nodes of the run, may not, or is gone."""

    address: str
    state: Literal["admitted", "refused", "lost"] = "lost"
    threads: int = 0
    machine: str = ""
    why: str = ""
    """Why it was refused."""
    memory: int = 0
    """Megabytes that nodes may use on its machine, 0 if not known."""
    node: ClassVar[None] = None
    kind: Literal["worker"] = "worker"


class UnknownEvent(_Event):
    """An event that cannot be read: damaged, or of a kind that a newer version writes."""

    kind: str
    node: str | None


KnownEvent = (
    RunStarted
    | RunFinished
    | NodeStarted
    | NodeProgress
    | SubtaskUpdate
    | PartialResult
    | NodeFinished
    | NodeCached
    | NodeFailed
    | NodeRetrying
    | NodeSkipped
    | NodeStopped
    | NodeReopened
    | WorkerUpdate
)
RunEvent = KnownEvent | UnknownEvent

_ADAPTER: TypeAdapter[KnownEvent] = TypeAdapter(Annotated[KnownEvent, Field(discriminator="kind")])


def event_from_dict(data: Mapping[str, Any]) -> RunEvent:
    """Return the event that ``to_dict`` wrote.

    A field with a wrong value takes its default. If a required field is wrong or missing, or the
    kind is unknown, return an ``UnknownEvent``.
    """
    try:
        return _ADAPTER.validate_python(data)
    except ValidationError as error:
        # The location of a problem begins with the kind of the event and the name of the field.
        wrong = {problem["loc"][1] for problem in error.errors() if len(problem["loc"]) > 1}
    try:
        return _ADAPTER.validate_python({name: data[name] for name in data if name not in wrong})
    except ValidationError:
        return UnknownEvent(kind=str(data.get("kind")), node=data.get("node"))


# The log

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, request TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, time REAL NOT NULL,
    kind TEXT NOT NULL, node TEXT, data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_run ON events (run, seq);
CREATE TABLE IF NOT EXISTS summaries (
    run TEXT PRIMARY KEY, seq INTEGER NOT NULL, facts TEXT NOT NULL
);
"""
INSERT_EVENT = "INSERT INTO events (run, time, kind, node, data) VALUES (?, ?, ?, ?, ?)"
PIPELINE_ID = "CASE WHEN json_valid(request) THEN json_extract(request, '$.pipeline') END"

FULL_DISK_PATIENCE = 5.0
MAX_TRIES = 50
REMOVED_AT_ONCE = 100
"""Runs that are deleted in one commit; another writer waits no longer than that takes."""
WORTH_SHRINKING = 0.25
"""Share of unused pages above which the log file is rewritten; below that, later runs use them."""

Written = TypeVar("Written")


class UnknownRun(SylvaError):
    """No run has that id."""

    exit_code = 2


@dataclass
class LogEntry:
    """An event in the log, and when it happened."""

    run: str
    time: float
    event: RunEvent
    seq: int = 0
    """Its number, which later entries exceed; 0 until it is written."""


@dataclass(frozen=True)
class SummaryRow:
    """A run with its saved summary instead of its events."""

    id: str
    name: str
    created: float
    options: dict[str, Any]
    """The ``RunOptions`` as they are stored."""
    last_event: int
    """The number of its newest event."""
    summarised: int
    """The number of the event for which the summary was saved; 0 without a summary."""
    facts: dict[str, Any]
    """The summary."""


@dataclass(frozen=True)
class RunRow:
    """A run as it was requested; its events say how it went."""

    id: str
    name: str
    document: str
    """The JSON text of its pipeline."""
    options: dict[str, Any]
    """The ``RunOptions`` as they are stored."""
    created: float

    @property
    def pipeline_id(self) -> str | None:
        """The id of its pipeline, if that is one of the workspace."""
        found = self.options.get("pipeline")
        return found if isinstance(found, str) else None

    @property
    def retries(self) -> int:
        """How often it tries a failed node again, if the node itself does not say it."""
        found = self.options.get("retries")
        return found if isinstance(found, int) else 0

    @property
    def overrides(self) -> list[str]:
        """The texts of ``--set`` and ``--sweep`` that it was started with."""
        return [str(text) for text in self.options.get("settings") or ()]


class EventLog:
    """Runs and events of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._gathered: list[tuple[LogEntry, Sequence[LogEntry]]] | None = None
        try:
            self._db = sqlite3.connect(workspace.database, timeout=30, isolation_level=None)
            # One damaged text must not make the others unreadable.
            self._db.text_factory = lambda text: text.decode(errors="replace")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._check_version()
            self._db.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise SylvaError(
                f"The run log {workspace.database} cannot be opened: {error}. "
                "Is the disk full, the file damaged, or the folder not yours?"
            ) from error

    def _check_version(self) -> None:
        """Raise ``SylvaError`` if a newer version of the program made this log."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            path = self.workspace.database
            raise SylvaError(f"The run log {path} was made by a newer Sylva; update this one.")
        if version < VERSION:
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing.

    def create_run(self, name: str, document: str, options: dict[str, Any]) -> str:
        """Add a run that is about to start and return its id."""
        for _ in range(MAX_TRIES):
            now = time.time()
            run = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{uuid4().hex[:4]}"
            with contextlib.suppress(sqlite3.IntegrityError):  # another run has this id
                row = (run, name, document, json.dumps(options), now)
                self._write_rows("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", [row])
                return run
        raise SylvaError("Too many runs were started in this second; try again.")

    def change_options(self, run: str, options: dict[str, Any]) -> None:
        """Store other options for a run that is resumed."""
        self._write_rows("UPDATE runs SET request = ? WHERE id = ?", [(json.dumps(options), run)])

    def append(
        self,
        run: str,
        event: RunEvent,
        *,
        replaces: Sequence[LogEntry] = (),
        moment: float | None = None,
    ) -> LogEntry:
        """Add an event and delete the entries that it replaces.

        ``moment`` is when the event happened, by default now. The entry that is returned has its
        number once it is written: at once, or at the end of ``together``.
        """
        entry = LogEntry(run, time.time() if moment is None else moment, event)
        if self._gathered is None:
            self._add([(entry, replaces)])
        else:
            self._gathered.append((entry, replaces))
        return entry

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the events that are appended inside in one commit."""
        self._gathered = []
        try:
            yield
        finally:
            additions, self._gathered = self._gathered, None
            self._add(additions)

    def _add(self, additions: Sequence[tuple[LogEntry, Sequence[LogEntry]]]) -> None:
        """Write entries and delete those that each replaces, in one commit."""
        replaced = [old for _, replaces in additions for old in replaces]
        deleted = [(old.seq, old.run) for old in replaced if old.seq]
        # An entry that is replaced in the commit that would add it is not written at all.
        unwritten = {id(old) for old in replaced}
        new = [entry for entry, _ in additions if id(entry) not in unwritten]

        def change() -> list[int | None]:
            self._db.executemany("DELETE FROM events WHERE seq = ? AND run = ?", deleted)
            return [self._db.execute(INSERT_EVENT, _row(entry)).lastrowid for entry in new]

        for entry, seq in zip(new, self._write(change), strict=True):
            entry.seq = seq or 0

    def _write_rows(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._write(lambda: self._db.executemany(statement, rows))

    def _write(
        self, change: Callable[[], Written], patience: float = FULL_DISK_PATIENCE
    ) -> Written:
        """Make all of a change or nothing.

        A node that has filled the disk frees space when it fails, so wait ``patience`` seconds.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._transaction():
                    return change()
            except sqlite3.OperationalError as error:
                # The low byte is the error itself, the rest says more about it.
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                    raise self._damaged(error) from error
                if time.monotonic() > deadline:
                    where = self.workspace.root
                    raise SylvaError(
                        f"The run log cannot be written ({error}); free some space at {where}."
                    ) from error
            except sqlite3.IntegrityError:
                raise  # ``create_run`` tries another id
            except sqlite3.Error as error:
                raise self._damaged(error) from error
            time.sleep(0.1)

    def _damaged(self, error: sqlite3.Error) -> SylvaError:
        """Return the error for a log that SQLite cannot use."""
        return SylvaError(
            f"The run log {self.workspace.database} cannot be used: {error}. If the file is "
            "damaged, move it away: a new one is created, and stored results stay."
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what is done inside, or undo it if that fails."""
        # IMMEDIATE takes the lock here, where it waits; taken at the first write it could fail.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # Reading.

    def events(
        self, run: str, after: int = 0, *, without: Sequence[str] = (), nodes: bool = True
    ) -> list[LogEntry]:
        """Return the run's events with a number above ``after``.

        Leave out the kinds in ``without`` and, unless ``nodes``, all events of nodes.
        """
        others = f"AND kind NOT IN ({', '.join('?' * len(without))})" if without else ""
        if not nodes:
            others += " AND node IS NULL"
        query = "SELECT seq, time, kind, node, data FROM events WHERE run = ? AND seq > ?"
        query = f"{query} {others} ORDER BY seq"
        entries = []
        for seq, when, kind, node, data in self._select(query, run, after, *without):
            if _is_moment(when):
                event = event_from_dict({**_object(data), "kind": kind, "node": node})
                entries.append(LogEntry(run, when, event, seq))
        return entries

    def last_event(self, run: str) -> int:
        """Return the number of the run's newest event, 0 if it has none."""
        ((newest,),) = self._select("SELECT MAX(seq) FROM events WHERE run = ?", run)
        return newest or 0

    def runs(self, limit: int | None = None) -> list[RunRow]:
        """Return all runs, newest first."""
        return self._rows("ORDER BY rowid DESC LIMIT ?", -1 if limit is None else limit)

    def run(self, wanted: str) -> RunRow:
        """Return the run with this id or beginning of an id, or the newest one for ``last``.

        Raise ``UnknownRun`` if no id matches, or if several do.
        """
        found = self.runs(1) if wanted == "last" else []
        found = found or self._rows("WHERE id = ?", wanted)
        if not found:
            # Not LIKE: a name with % or _ would match other runs.
            beginning = "WHERE substr(id, 1, ?) = ? ORDER BY rowid DESC"
            found = self._rows(beginning, len(wanted), wanted)
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(row.id for row in found[:5])
            raise UnknownRun(f"'{wanted}' fits {len(found)} runs: {ids} …")
        root = self.workspace.root
        raise UnknownRun(f"There is no run '{wanted}' in {root}; `sylva runs` lists them.")

    def last_run_of(self, pipeline_id: str) -> RunRow | None:
        """Return the newest run of a pipeline of the workspace."""
        rows = self._rows(f"WHERE {PIPELINE_ID} = ? ORDER BY rowid DESC LIMIT 1", pipeline_id)
        return next(iter(rows), None)

    def pipeline_ids(self) -> set[str]:
        """Return the pipelines of the workspace that have runs."""
        rows = self._select(f"SELECT DISTINCT {PIPELINE_ID} FROM runs")
        return {found for (found,) in rows if isinstance(found, str)}

    def _rows(self, which: str, *values: str | int) -> list[RunRow]:
        """Return the runs that a part of an SQL query selects."""
        query = f"SELECT id, name, document, request, created FROM runs {which}"
        rows = self._select(query, *values)
        return [
            RunRow(str(run), str(name), document, _object(options), created)
            for run, name, document, options, created in rows
            if _is_moment(created)
        ]

    def _select(self, query: str, *values: str | int) -> Sequence[Any]:
        """Return all rows of a query; raise ``SylvaError`` if the log is damaged."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    # Summaries of runs, and runs that are removed.

    def summary_rows(
        self, limit: int | None = None, run: str | None = None
    ) -> Iterator[SummaryRow]:
        """Yield all runs, newest first, or one run, with their saved summaries."""
        query = (
            "SELECT id, name, created, request, (SELECT MAX(seq) FROM events WHERE run = id), "
            "summaries.seq, facts FROM runs LEFT JOIN summaries ON summaries.run = id "
        )
        if run is None:
            most = -1 if limit is None else limit
            rows = self._select(f"{query} ORDER BY runs.rowid DESC LIMIT ?", most)
        else:
            rows = self._select(f"{query} WHERE id = ?", run)
        for found, name, created, options, last, seq, facts in rows:
            if _is_moment(created):
                numbers = last or 0, seq or 0
                yield SummaryRow(
                    str(found), str(name), created, _object(options), *numbers, _object(facts)
                )

    def save_summaries(self, found: Iterable[tuple[str, int, dict[str, Any]]]) -> None:
        """Save summaries of runs: run, the number of its last event, facts."""
        rows = [(seq, json.dumps(facts), run) for run, seq, facts in found]
        # The SELECT saves nothing of a run that was removed meanwhile.
        statement = "INSERT OR REPLACE INTO summaries SELECT id, ?, ? FROM runs WHERE id = ?"
        self._write(lambda: self._db.executemany(statement, rows), patience=0.0)

    def remove_runs(self, runs: Sequence[str]) -> None:
        """Delete runs and their events."""
        try:
            for start in range(0, len(runs), REMOVED_AT_ONCE):
                some = [(run,) for run in runs[start : start + REMOVED_AT_ONCE]]
                with self._transaction():
                    self._db.executemany("DELETE FROM events WHERE run = ?", some)
                    self._db.executemany("DELETE FROM summaries WHERE run = ?", some)
                    self._db.executemany("DELETE FROM runs WHERE id = ?", some)
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def size(self) -> int:
        """Return the bytes on disk."""
        files = [self.workspace.database, Path(f"{self.workspace.database}-wal")]
        return sum(file.stat().st_size for file in files if file.is_file())

    def shrink(self) -> None:
        """Return the space of removed runs to the disk; others may read and write meanwhile."""
        try:
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (unused,) = self._db.execute("PRAGMA freelist_count").fetchone()
            if unused >= WORTH_SHRINKING * pages:
                self._db.execute("VACUUM")
            # This waits for readers of the old pages; if they stay, a later call does it.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise SylvaError(
                f"The run log {self.workspace.database} could not be made smaller ({error}). "
                "If the disk is full, free some space; if runs are in progress, wait for them. "
                "Then run `sylva gc` again."
            ) from error


def _row(entry: LogEntry) -> tuple[Any, ...]:
    """Return an entry as a row of the table ``events``."""
    data = entry.event.to_dict()
    kind, node = data.pop("kind"), data.pop("node", None)
    return entry.run, entry.time, kind, node, json.dumps(data)


def _object(text: str) -> dict[str, Any]:
    """Return a stored JSON object, empty if it is damaged."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_moment(value: object) -> bool:
    return isinstance(value, int | float)
