"""Start, follow and list the runs of a workspace: the one way to runs for every interface.

- ``Runs``        check, start, resume, cancel, list, watch; what a run found; remove old runs
- ``RunWatcher``  the state and the timeline of one run, brought up to date by new events only
- ``Span``        one time that a node was running

Example::

    with SupervisorStarter() as starter, Runs(workspace, starter=starter) as runs:
        run_id = runs.start(pipeline, RunOptions())
        watcher = runs.watch(run_id)
        while watcher.refresh().live:
            time.sleep(0.1)
        print(runs.reports(run_id))
"""

from __future__ import annotations

import builtins
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from engine.crash_points import crash_point
from engine.errors import BadInput, CorruptObject, InvalidPipeline, Problem, SylvaError
from engine.events import (
    EventLog,
    LogEntry,
    NodeCached,
    NodeStarted,
    RunEvent,
    RunFinished,
    RunRow,
    RunStarted,
    SummaryRow,
)
from engine.node_types import NodeCatalog, NodeParams, NodeType, load_catalog
from engine.pipeline import Pipeline
from engine.pipeline_file import dumps
from engine.plan import RunOptions, cache_key, check_requested_nodes
from engine.processes import ProcessId, is_alive
from engine.result_names import named_report
from engine.run_state import RunState, apply_events, mark_interrupted_if_dead, run_state
from engine.run_summaries import (
    UNREADABLE,
    RunPipelines,
    RunSummary,
    final_reports,
    result_state,
    save_summary,
    summaries,
)
from engine.settings import require_storage
from engine.store import Artifact, Store
from engine.supervisor_starter import SupervisorProcess, SupervisorStarter
from engine.sweeps import ExpandedPipeline
from engine.validation import (
    PortColumns,
    find_problems,
    find_source_problems,
    find_storage_problems,
)
from engine.values import Report
from engine.workspace import CLEANING_SECONDS, Files, Workspace


class NotResumable(SylvaError):
    """The run is live, or done."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        if state.live:
            how = f"`sylva show {state.id}` shows it, `sylva cancel {state.id}` stops it."
        else:
            how = "there is nothing left to do."
        super().__init__(f"Run {state.id} is {state.state}; {how}")


class Runs:
    """The runs of one workspace.

    Each call opens the run log for itself, so a ``Runs`` may be used from several threads. Opened
    with ``with``, it keeps the log open, for one thread, and protects the runs that it starts from
    `sylva gc` until it is closed.
    """

    def __init__(
        self,
        workspace: Workspace,
        catalog: NodeCatalog | None = None,
        starter: SupervisorStarter | None = None,
    ) -> None:
        self.workspace = workspace
        self.store = Store(workspace)
        self.starter = starter
        """The process that starts supervisors; without one, the first run starts it."""
        self.supervisor: SupervisorProcess | None = None
        """The supervisor that was started last, for a caller that waits for it."""
        self._catalog = catalog
        self._pipelines = RunPipelines(catalog)
        self._held: ExitStack | None = None
        self._log: EventLog | None = None

    @property
    def catalog(self) -> NodeCatalog:
        """The node types that pipelines may use."""
        return load_catalog() if self._catalog is None else self._catalog

    def __enter__(self) -> Runs:
        self._held = ExitStack()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._held is not None
        with self._held:
            if kind is KeyboardInterrupt and self.supervisor:
                self.supervisor.cancel()
                self.supervisor.wait()
        self._held = self._log = None

    @contextmanager
    def log(self) -> Iterator[EventLog]:
        """Open the run log."""
        if self._held is None:
            with EventLog(self.workspace.create()) as log:
                yield log
        else:
            if self._log is None:
                self._log = self._held.enter_context(EventLog(self.workspace.create()))
            yield self._log

    # Start, resume, cancel

    def check(self, pipeline: Pipeline, options: RunOptions) -> list[Problem]:
        """Return everything that is wrong with a pipeline and the files that it reads."""
        files = Files(self.workspace.root, options.allow_absolute)
        stored = partial(_stored_columns, files, self.store)
        problems = find_problems(pipeline, self.catalog)
        if options.storage is not None:
            problems += find_storage_problems(pipeline, self.catalog)
        return problems + find_source_problems(pipeline, self.catalog, files, stored)

    def require_valid(self, pipeline: Pipeline, options: RunOptions) -> None:
        """Raise ``InvalidPipeline`` or ``BadInput`` if the pipeline cannot run."""
        problems = self.check(pipeline, options)
        if problems:
            raise InvalidPipeline(problems)
        if not pipeline.nodes:
            raise BadInput("The pipeline has no nodes yet; add some.")
        if all(node.bypass for node in pipeline.nodes.values()):
            raise BadInput("All nodes of the pipeline are bypassed; remove the bypass of some.")
        check_requested_nodes(pipeline, self.catalog, options)

    def start(self, pipeline: Pipeline, options: RunOptions) -> str:
        """Start a run and return its id.

        Raise everything that is wrong with the pipeline before anything is written.
        """
        self.require_valid(pipeline, options)
        if options.storage is not None:
            require_storage(self.workspace.settings, options.storage)
        with self._protected():
            run_id = self.create(pipeline, options)
            try:
                self._hand_over(run_id)
            except SylvaError:
                self.give_up(run_id)
                raise
        return run_id

    def create(self, pipeline: Pipeline, options: RunOptions) -> str:
        """Write a run of a valid pipeline into the log, without a supervisor yet; return its id."""
        text = dumps(pipeline)
        self._pipelines.add(text, pipeline)
        with self.log() as log:
            run_id = log.create_run(pipeline.name, text, options.to_dict())
        crash_point("run-created", "run")
        return run_id

    def resume(self, run_id: str, **limits: float | None) -> str:
        """Continue a run that failed, was cancelled or interrupted; nothing finished runs again.

        ``limits`` replace those options that are not None. Raise ``NotResumable`` if the run is
        live or done. Return the id of the run.
        """
        with self._protected(), self.log() as log:
            row = log.run(run_id)
            state = run_state(log, row)
            if state.live or state.state == "done":
                raise NotResumable(state)
            changed = {name: value for name, value in limits.items() if value is not None}
            if changed:
                log.change_options(row.id, row.options | changed)
            self._hand_over(row.id)
        return row.id

    def cancel(self, run_id: str) -> None:
        """Ask the supervisor of a run to stop; it ends the nodes, and the run can be resumed."""
        state = self.state(run_id)
        if not state.live or state.supervisor is None:
            raise SylvaError(f"Run {state.id} is not running; it is {state.state}.")
        supervisor = ProcessId(**state.supervisor)
        # The system may have given the process id to another program.
        if is_alive(supervisor):
            os.kill(supervisor.pid, signal.SIGTERM)

    def give_up(self, run_id: str) -> None:
        """Write into the log that a run never started: no other process can know."""
        with self.log() as log:
            log.append(run_id, RunFinished(state="interrupted"))

    def _hand_over(self, run_id: str) -> None:
        """Let a new supervisor take a run that is in the log."""
        if self.starter is None:
            self.starter = SupervisorStarter()
        if self.supervisor is not None:
            self.supervisor.close()
        self.supervisor = self.starter.start(self.workspace, run_id)

    @contextmanager
    def _protected(self) -> Iterator[None]:
        """Keep `sylva gc` away, until this object is closed if it was opened with ``with``."""
        with ExitStack() as lock:
            lock.enter_context(self.workspace.create().in_use(CLEANING_SECONDS))
            yield
            # From here on the lock belongs to this object, which is closed after the run has ended.
            if self._held is not None:
                self._held.push(lock.pop_all())

    # Look at runs

    def find(self, run_id: str) -> RunRow:
        """Return a run by its id, by a unique beginning of it, or the newest run for ``last``."""
        with self.log() as log:
            return log.run(run_id)

    def last_run_of(self, pipeline_id: str) -> RunRow | None:
        """Return the newest run of a saved pipeline."""
        with self.log() as log:
            return log.last_run_of(pipeline_id)

    def list(
        self, limit: int | None = None, *, text: str = "", states: Sequence[str] = ()
    ) -> builtins.list[RunSummary]:
        """Return the newest runs that have ``text`` in name or id and are in one of ``states``."""
        # A search has to look at all runs; how many will match is not known.
        searched = None if text or states else limit
        with self.log() as log:
            runs = (row for row in log.summary_rows(searched) if _has_text(row, text))
            return [*islice(summaries(log, self._pipelines, runs, states), limit)]

    def summary(self, run_id: str) -> RunSummary | None:
        """Return the summary of one run; None if it was removed meanwhile."""
        with self.log() as log:
            return save_summary(log, self._pipelines, run_id)

    def last_summaries(self, pipeline_ids: Sequence[str]) -> dict[str, RunSummary]:
        """Return the summary of the newest run of each saved pipeline that has runs."""
        found = {}
        with self.log() as log:
            for pipeline_id in pipeline_ids:
                row = log.last_run_of(pipeline_id)
                summary = save_summary(log, self._pipelines, row.id) if row else None
                if summary is not None:
                    found[pipeline_id] = summary
        return found

    def state(self, run_id: str) -> RunState:
        """Return the present state of a run."""
        return self.watch(run_id).refresh()

    def watch(self, run_id: str) -> RunWatcher:
        """Return a watcher of a run; it reads its first events when it is refreshed."""
        return RunWatcher(self, self.find(run_id))

    # What a run was, and what it found

    def written_pipeline(self, row: RunRow) -> Pipeline | None:
        """Return the pipeline of a run as it was written; None if this version cannot read it."""
        return self._pipelines.written(row)

    def planned_pipeline(self, row: RunRow) -> ExpandedPipeline | None:
        """Return the pipeline of a run with its sweeps expanded."""
        return self._pipelines.planned(row)

    def names(self, row: RunRow) -> Mapping[str, str]:
        """Return the names of the run's results by node: the labels that the user gave."""
        return self._pipelines.names(row)

    def pipeline(self, run_id: str) -> Pipeline | None:
        """Return the pipeline of a run as it was planned: with a node for each that the run has."""
        planned = self.planned_pipeline(self.find(run_id))
        return planned.pipeline if planned else None

    def results(self, row: RunRow) -> RunState:
        """Return the outputs of a run by node, without what nodes reported on the way."""
        with self.log() as log:
            return result_state(log, row)

    def final_reports(self, row: RunRow, state: RunState) -> dict[str, Artifact]:
        """Return the reports of a run that no other node reads, by node."""
        return final_reports(self._pipelines, row, state)

    def reports(self, run_id: str) -> dict[str, Report]:
        """Open the final reports of a run, by node; those that cannot be read are left out."""
        row = self.find(run_id)
        artifacts = self.final_reports(row, self.results(row))
        names, reports = self.names(row), {}
        for name, artifact in artifacts.items():
            report = self.open_report(artifact)
            if report is not None:
                reports[name] = named_report(report, name, names)
        return reports

    def open_report(self, artifact: Artifact) -> Report | None:
        """Open a report; return None if it was removed or is damaged."""
        try:
            report = self.store.open(artifact)
        except UNREADABLE:
            return None
        return report if isinstance(report, Report) else None

    def headline(self, run_id: str) -> str:
        """Return what a run found in a few words; empty if it is live or has no report."""
        summary = self.summary(self.find(run_id).id)
        return summary.headline if summary else ""

    # Remove old runs

    def clean(self, keep: int) -> Cleaned:
        """Remove all runs but the newest ``keep``, and every stored output no kept run refers to.

        The workspace is locked meanwhile: raise ``Busy`` while a run is starting or running. A run
        that is to start waits for the end of this. Only the run log is made smaller after that:
        SQLite itself takes care of programs that use it meanwhile.
        """
        with self.workspace.idle():
            store = Store(self.workspace.create())
            # First of all: on a full disk this gives the log space to work.
            freed = store.clear_temporary()
            with EventLog(self.workspace) as log:
                rows = log.runs()
                kept, removed = rows[:keep], rows[keep:]
                states = [run_state(log, row) for row in kept]
                nodes = [node for state in states for node in state.nodes.values()]
                freed += store.collect({node.key for node in nodes if node.key})
                log.remove_runs([row.id for row in removed])
            for row in removed:
                shutil.rmtree(self.workspace.run_folder(row.id), ignore_errors=True)
        freed_log, notice = self._shrink_log()
        return Cleaned(freed + freed_log, len(removed), len(kept), notice)

    def _shrink_log(self) -> tuple[int, str | None]:
        """Make the run log smaller; return the bytes freed, and why it failed if it did."""
        with EventLog(self.workspace) as log:
            before = log.size()
            try:
                log.shrink()
            except SylvaError as error:
                return 0, str(error)
            return max(0, before - log.size()), None


@dataclass(frozen=True)
class Cleaned:
    """What ``Runs.clean`` did."""

    freed: int
    """Bytes."""
    removed: int
    kept: int
    notice: str | None
    """Why the run log could not be made smaller."""


def _stored_columns(
    files: Files, store: Store, node_type: NodeType, params: NodeParams
) -> PortColumns | None:
    """Return the columns of a node that has read this very file before; None if it has not."""
    if node_type.inputs:
        return None
    try:
        outside = node_type.fingerprint(params, files) if node_type.fingerprint else ""
        result = store.find(cache_key(node_type, params, {}, {}, outside))
        if result is None:
            return None
        columns: PortColumns = {}
        for port, artifact in result.outputs.items():
            columns[port] = store.open(artifact).columns if artifact.type == "table" else None
        return columns
    except (BadInput, CorruptObject):
        return None


def _has_text(run: SummaryRow, text: str) -> bool:
    """Return whether the name of a run has all the words, or its id the text."""
    name = run.name.casefold()
    return all(word in name for word in text.casefold().split()) or text.strip() in run.id


# One run


@dataclass(frozen=True)
class Span:
    """One time that a node was running; a cached result has no length."""

    node: str
    start: float
    end: float | None
    state: str
    attempt: int
    """Which attempt of the run this was in."""


SPAN_ENDS = {
    "finished": "done",
    "failed": "failed",
    "retrying": "failed",
    "stopped": "cancelled",
    "reopened": "failed",
}
"""Events that end a span, and the state in which they leave it."""


class RunWatcher:
    """The state and the timeline of one run, as of the last refresh."""

    def __init__(self, runs: Runs, row: RunRow) -> None:
        self.row = row
        self.new_events: list[LogEntry] = []
        """What the last refresh has read."""
        self._runs = runs
        self._reported = RunState(row.id, row.name, row.created)
        """What the events say, whether or not the supervisor is alive."""
        self.state = self._reported
        """The state as of the last refresh."""
        self._last_time = row.created
        self._spans: list[Span] = []

    def refresh(self) -> RunState:
        """Read new events and return the present state."""
        self.new_events = []
        self._read()
        self.state = mark_interrupted_if_dead(self._reported)
        if self.state.live != self._reported.live:
            # Its supervisor is gone. It may have written its last events after the first look.
            self._read()
            self.state = mark_interrupted_if_dead(self._reported)
        return self.state

    def _read(self) -> None:
        """Add the new events to the state and to the timeline."""
        with self._runs.log() as log:
            events = log.events(self.row.id, self._reported.last_event)
        attempt = self._reported.attempt
        for entry in events:
            if isinstance(entry.event, RunStarted):
                attempt += 1
            self._add_to_spans(entry.event, entry.time, attempt)
            # Subtasks of a killed attempt may be written again, with the time of the first writing.
            self._last_time = max(self._last_time, entry.time)
        self._reported = apply_events(self._reported, events)
        self.new_events += events

    def _add_to_spans(self, event: RunEvent, moment: float, attempt: int) -> None:
        """Begin or end spans as an event says."""
        match event:
            case RunStarted():  # nodes of an attempt that was killed
                self._end_spans(self._last_time, "interrupted")
            case RunFinished():
                self._end_spans(moment, event.state)
            case NodeStarted():
                self._spans.append(Span(event.node, moment, None, "running", attempt))
            case NodeCached():
                self._spans.append(Span(event.node, moment, moment, "cached", attempt))
            case _ if event.kind in SPAN_ENDS:
                self._end_spans(moment, SPAN_ENDS[event.kind], event.node)

    def _end_spans(self, moment: float, state: str, node: str | None = None) -> None:
        """End the open spans, of one node or of all."""
        for index, span in enumerate(self._spans):
            if span.end is None and node in (None, span.node):
                self._spans[index] = replace(span, end=moment, state=state)

    @property
    def spans(self) -> list[Span]:
        """When nodes were running.

        Open spans end now, or at the last event if the run is not live any more.
        """
        changes: dict[str, Any] = {"end": time.time()}
        if not self.state.live:
            changes = {"end": self._last_time, "state": "interrupted"}
        return [span if span.end else replace(span, **changes) for span in self._spans]
