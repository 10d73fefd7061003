"""The log of events from which every state shown anywhere is derived.

Events are added and never changed. What a node reports on the way is replaced by what says the same in fewer events:
a newer progress takes the place of the last, and when the node ends, one event with the last state of its jobs takes
the place of all. What is written anew gets a new number, in the same commit in which the old events go. So a reader
that asks for what came after the last number it has seen misses nothing.

SQLite in WAL mode: one supervisor writes a run's events, any number of programs read them meanwhile. Events
may be lost in a power cut (results may not: they are in the store), so commits do not wait for the disk.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from engine.errors import SylvaError
from engine.workspace import Workspace

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, request TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, time REAL NOT NULL,
    kind TEXT NOT NULL, node TEXT, data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_run ON events (run, seq);
CREATE TABLE IF NOT EXISTS summaries (run TEXT PRIMARY KEY, seq INTEGER NOT NULL, facts TEXT NOT NULL);
"""
IN_PASSING = ("progress", "jobs")
"""Kinds of events that count only until the node ends."""

INSERT_EVENT = "INSERT INTO events (run, time, kind, node, data) VALUES (?, ?, ?, ?, ?)"

FULL_DISK_PATIENCE = 5.0
MOST_TRIES = 50
REMOVED_AT_ONCE = 100
"""Runs that are forgotten in one commit; whoever writes meanwhile waits no longer than that takes."""
WORTH_SHRINKING = 0.25
"""Share of unused pages from which on the log is written anew; below that, later runs use them."""

Written = TypeVar("Written")

PIPELINE = "CASE WHEN json_valid(request) THEN json_extract(request, '$.pipeline') END"


class UnknownRun(SylvaError):
    """No run has that id."""

    exit_code = 2


@dataclass(frozen=True)
class LogEntry:
    """One thing that happened in a run."""

    seq: int
    time: float
    kind: str
    node: str | None
    data: dict[str, Any]


@dataclass(eq=False)
class NewEntry:
    """An event as its writer knows it; ``seq`` is its number once it is in the log."""

    run: str
    time: float
    kind: str
    node: str | None
    data: dict[str, Any]
    replaces: Sequence[NewEntry | LogEntry] = ()
    seq: int | None = None


@dataclass(frozen=True)
class Noted:
    """What the log says of a run without its events: the summary that was saved, and the number it is of."""

    id: str
    name: str
    created: float
    request: dict[str, Any]
    last_event: int
    summarised: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class RunRow:
    """A run as it was asked for; what became of it is in its events."""

    id: str
    name: str
    document: str
    request: dict[str, Any]
    created: float


class EventLog:
    """Runs and events of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._gathered: list[NewEntry] | None = None
        try:
            self._db = sqlite3.connect(workspace.database, timeout=30, isolation_level=None)
            self._db.text_factory = lambda text: text.decode(errors="replace")  # one damaged text costs no other
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
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise SylvaError(f"The run log {self.workspace.database} was made by a newer Sylva; update this one.")
        if version < VERSION:
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_run(self, name: str, document: str, request: dict[str, Any]) -> str:
        """Note down a run that is about to start; its id."""
        for _ in range(MOST_TRIES):
            now = time.time()
            run = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{uuid4().hex[:4]}"
            with contextlib.suppress(sqlite3.IntegrityError):  # another run of this second has the id
                row = (run, name, document, json.dumps(request), now)
                self._write_rows("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", [row])
                return run
        raise SylvaError("Too many runs were started in this second; try again.")

    def change_request(self, run: str, request: dict[str, Any]) -> None:
        """Go on with a run under other limits."""
        self._write_rows("UPDATE runs SET request = ? WHERE id = ?", [(json.dumps(request), run)])

    def append(
        self,
        run: str,
        kind: str,
        node: str | None = None,
        *,
        replaces: Sequence[NewEntry | LogEntry] = (),
        moment: float | None = None,
        **data: Any,
    ) -> NewEntry:
        """Add one event, in the place of those that it replaces; ``moment`` is when it happened, if not now."""
        entry = NewEntry(run, time.time() if moment is None else moment, kind, node, data, replaces)
        if self._gathered is None:
            self._add([entry])
        else:
            self._gathered.append(entry)
        return entry

    @contextmanager
    def together(self) -> Iterator[None]:
        """Events appended inside become visible at once, in one commit."""
        self._gathered = []
        try:
            yield
        finally:
            entries, self._gathered = self._gathered, None
            self._add(entries)

    def _add(self, entries: Sequence[NewEntry]) -> None:
        """Write events and drop those they replace, in one commit. One that is replaced already is not written."""
        replaced = [old for entry in entries for old in entry.replaces]
        unwritten = {id(old) for old in replaced}
        new = [entry for entry in entries if id(entry) not in unwritten]
        gone = [(old.seq, entry.run) for entry in entries for old in entry.replaces if old.seq is not None]

        def change() -> list[int | None]:
            self._db.executemany("DELETE FROM events WHERE seq = ? AND run = ?", gone)
            return [self._db.execute(INSERT_EVENT, _row(entry)).lastrowid for entry in new]

        for entry, seq in zip(new, self._write(change), strict=True):
            entry.seq, entry.replaces = seq, ()

    def _write_rows(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._write(lambda: self._db.executemany(statement, rows))

    def _write(self, change: Callable[[], Written], patience: float = FULL_DISK_PATIENCE) -> Written:
        """Do all of a change or nothing. A node that has filled the disk frees it when it fails, so wait a little."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._transaction():
                    return change()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                    raise self._damaged(error) from error
                if time.monotonic() > deadline:
                    place = self.workspace.root
                    raise SylvaError(f"The run log cannot be written ({error}); free some space at {place}.") from error
            except sqlite3.IntegrityError:
                raise
            except sqlite3.Error as error:
                raise self._damaged(error) from error
            time.sleep(0.1)

    def _damaged(self, error: sqlite3.Error) -> SylvaError:
        return SylvaError(
            f"The run log {self.workspace.database} cannot be used: {error}. If the file is damaged, move it away: "
            "a new one is begun then, and results that are stored stay."
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def events(self, run: str, after: int = 0, *, without: Sequence[str] = (), nodes: bool = True) -> list[LogEntry]:
        """The run's events with a number above ``after``, but for those of the kinds ``without`` or of nodes."""
        others = f"AND kind NOT IN ({', '.join('?' * len(without))})" if without else ""
        others += "" if nodes else " AND node IS NULL"
        query = f"SELECT seq, time, kind, node, data FROM events WHERE run = ? AND seq > ? {others} ORDER BY seq"
        rows = self._select(query, run, after, *without)
        return [
            LogEntry(seq, when, kind, node, _facts(data)) for seq, when, kind, node, data in rows if _is_moment(when)
        ]

    def last_event(self, run: str) -> int:
        """The number of the run's newest event; 0 if it has none."""
        ((newest,),) = self._select("SELECT MAX(seq) FROM events WHERE run = ?", run)
        return newest or 0

    def runs(self, limit: int | None = None) -> list[RunRow]:
        """All runs, newest first."""
        return self._rows("ORDER BY rowid DESC LIMIT ?", -1 if limit is None else limit)

    def run(self, wanted: str) -> RunRow:
        """The run of that id, of an unambiguous beginning of it, or the newest for ``last``."""
        found = self.runs(1) if wanted == "last" else []
        found = found or self._rows("WHERE id = ?", wanted)
        found = found or self._rows("WHERE substr(id, 1, ?) = ? ORDER BY rowid DESC", len(wanted), wanted)
        if len(found) == 1:
            return found[0]
        if found:
            raise UnknownRun(f"'{wanted}' fits {len(found)} runs: {', '.join(row.id for row in found[:5])} …")
        raise UnknownRun(f"There is no run '{wanted}' in {self.workspace.root}; `sylva runs` lists them.")

    def last_run_of(self, pipeline: str) -> RunRow | None:
        """The newest run of a pipeline of the workspace."""
        return next(iter(self._rows(f"WHERE {PIPELINE} = ? ORDER BY rowid DESC LIMIT 1", pipeline)), None)

    def pipelines(self) -> set[str]:
        """The pipelines of the workspace that have runs."""
        return {name for (name,) in self._select(f"SELECT DISTINCT {PIPELINE} FROM runs") if isinstance(name, str)}

    def _rows(self, which: str, *values: str | int) -> list[RunRow]:
        rows = self._select(f"SELECT id, name, document, request, created FROM runs {which}", *values)
        return [
            RunRow(str(run), str(name), document, _facts(request), created)
            for run, name, document, request, created in rows
            if _is_moment(created)
        ]

    def _select(self, query: str, *values: str | int) -> Sequence[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def noted(self, limit: int | None = None, run: str | None = None) -> Iterator[Noted]:
        """All runs, newest first, or one run, with their saved summaries."""
        query = (
            "SELECT id, name, created, request, (SELECT MAX(seq) FROM events WHERE run = id), summaries.seq, facts "
            "FROM runs LEFT JOIN summaries ON summaries.run = id "
        )
        if run is None:
            rows = self._select(f"{query} ORDER BY runs.rowid DESC LIMIT ?", -1 if limit is None else limit)
        else:
            rows = self._select(f"{query} WHERE id = ?", run)
        for found, name, created, request, last, seq, facts in rows:
            if _is_moment(created):
                yield Noted(str(found), str(name), created, _facts(request), last or 0, seq or 0, _facts(facts))

    def save_summaries(self, found: Iterable[tuple[str, int, dict[str, Any]]]) -> None:
        """Save what became of runs: run, the number of its last event, facts."""
        rows = [(seq, json.dumps(facts), run) for run, seq, facts in found]
        # Of a run that was forgotten meanwhile nothing is saved.
        statement = "INSERT OR REPLACE INTO summaries SELECT id, ?, ? FROM runs WHERE id = ?"
        self._write(lambda: self._db.executemany(statement, rows), patience=0.0)

    def remove_runs(self, runs: Sequence[str]) -> None:
        """Forget runs and their events."""
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
        """Bytes on disk."""
        files = [self.workspace.database, Path(f"{self.workspace.database}-wal")]
        return sum(file.stat().st_size for file in files if file.is_file())

    def shrink(self) -> None:
        """Give the space of forgotten runs back to the disk. Readers and writers may go on meanwhile."""
        try:
            (pages,) = self._db.execute("PRAGMA page_count").fetchone()
            (unused,) = self._db.execute("PRAGMA freelist_count").fetchone()
            if unused >= WORTH_SHRINKING * pages:
                self._db.execute("VACUUM")
            # Waits for readers of the old pages as long as for any lock; if they stay, a later one does it.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise SylvaError(
                f"The run log {self.workspace.database} could not be made smaller ({error}). If the disk is full, "
                "free some space; if runs are in progress, wait for them. Then run `sylva gc` again."
            ) from error


def _row(entry: NewEntry) -> tuple[Any, ...]:
    return entry.run, entry.time, entry.kind, entry.node, json.dumps(entry.data)


def _facts(text: str) -> dict[str, Any]:
    """What was noted down with a run or an event; nothing if it is damaged."""
    try:
        facts = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _is_moment(value: object) -> bool:
    return isinstance(value, int | float)
