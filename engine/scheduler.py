"""Runs a plan: each node as soon as its own inputs are ready, as many at once as the executor takes.

A failure skips the nodes below it and nothing else. What is in the store is not run. The scheduler decides and
writes down; where and how a node runs is the executor's business, what a result is the store's.
"""

from __future__ import annotations

import heapq
import os
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from engine.errors import BadInput
from engine.events import EventLog, NewEntry
from engine.executors import (
    Executor,
    Failure,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeStarted,
    NodeTask,
    PartialResult,
    RunEvent,
    SubtaskUpdate,
)
from engine.plan import Plan, PlannedNode, RunOptions, cache_key
from engine.run_state import last_jobs
from engine.store import Artifact, CacheEntry, Store
from engine.workspace import Files

BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF = 60.0
REPAIRS = 3
"""How often a node may find its input damaged before that counts as a failure."""


@dataclass
class Scheduler:
    """One run of a plan; ``outputs`` holds what is finished, by node and port."""

    plan: Plan
    request: RunOptions
    run_id: str
    store: Store
    log: EventLog
    executor: Executor
    outputs: dict[str, dict[str, Artifact]] = field(default_factory=dict)
    default_memory: int = 1_000_000

    def __post_init__(self) -> None:
        self.cancelled = False
        self.failed: set[str] = set()
        self.skipped: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.repairs: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.running: set[str] = set()
        self.waiting: dict[str, set[str]] = {}
        self.ready: deque[str] = deque()
        self.startable: deque[str] = deque()
        self.later: list[tuple[float, str]] = []
        self.passing: dict[str, list[NewEntry]] = {}
        self.files = Files(self.store.workspace.root, self.request.allow_absolute)
        self.bytes_left = self._bytes_left()
        for node in self.plan.steps:
            if node not in self.outputs:
                self._queue(node)

    def run(self) -> str:
        """Work until nothing is left that can be done; how it ended."""
        while not self.cancelled and (self.ready or self.startable or self.running or self.later):
            self._requeue_due()
            if self.ready or self.startable:
                with self.log.together():
                    self._settle_ready()
                    self._start_startable()
            if self.running or self.later:
                reports = self.executor.wait(self._until_next_retry())
                if reports:
                    with self.log.together():
                        for report in reports:
                            self._handle(report)
        if self.cancelled:
            with self.log.together():
                for node in self.executor.stop():
                    self._record("stopped", node)
            return "cancelled"
        return "failed" if self.failed else "done"

    def cancel(self) -> None:
        """Stop at the next moment; safe in a signal handler."""
        self.cancelled = True
        self.executor.wake()

    # Before a node runs: its key, and whether the store has its result already.

    def _settle_ready(self) -> None:
        while self.ready:
            node = self.ready.popleft()
            step = self.plan.steps[node]
            try:
                self.keys[node] = self._key(step)
            except BadInput as error:
                self._fail(node, Failure("bad-input", error.message, error.field))
                continue
            result = self._usable_result(step)
            if result:
                why = "made earlier in this run" if result.run == self.run_id else f"unchanged since run {result.run}"
                self._complete("cached", result, node, why=why)
            else:
                self.startable.append(node)

    def _key(self, step: PlannedNode) -> str:
        digests = {port: [output.digest for output in outputs] for port, outputs in self._inputs(step).items()}
        fingerprint = step.type.fingerprint(step.params, self.files) if step.type.fingerprint else ""
        branches = [step.branch, *chain.from_iterable(step.branches.values())]
        return cache_key(step.type, step.params, digests, _sources(step), fingerprint, branches)

    def _usable_result(self, step: PlannedNode) -> CacheEntry | None:
        result = self.store.find(self.keys[step.id])
        promised = {port.name: port.type for port in step.type.outputs}
        if result and {port: output.type for port, output in result.outputs.items()} != promised:
            return None
        return result if result and (not step.force or result.run == self.run_id) else None

    def _inputs(self, step: PlannedNode) -> dict[str, list[Artifact]]:
        return {port: [self.outputs[end.node][end.port] for end in ends] for port, ends in step.inputs.items()}

    # Starting.

    def _start_startable(self) -> None:
        while self.startable and self.executor.free > 0:
            node = self.startable.popleft()
            self.attempts[node] = self.attempts.get(node, 0) + 1
            self.running.add(node)
            self.executor.submit(self._job(self.plan.steps[node]), self._upcoming())

    def _job(self, step: PlannedNode) -> NodeTask:
        settings, request = step.settings, self.request
        at_once = min(len(self.running) + len(self.startable), len(self.running) + self.executor.free)
        return NodeTask(
            workspace=str(self.store.workspace.root),
            run=self.run_id,
            node=step.id,
            attempt=self.attempts[step.id],
            type=step.type.name,
            params=step.params.model_dump(mode="json"),
            key=self.keys[step.id],
            inputs=self._inputs(step),
            sources=_sources(step),
            branch=step.branch,
            branches=step.branches,
            force=step.force,
            allow_absolute=request.allow_absolute,
            threads=max(1, len(os.sched_getaffinity(0)) // max(1, at_once)),
            timeout=settings.timeout or request.timeout,
            memory_limit=settings.memory_limit or request.memory_limit or self.default_memory,
            bytes_left=self.bytes_left,
            imports=step.type.imports,
        )

    def _upcoming(self) -> dict[str, None]:
        """Modules that nodes still to come will need."""
        todo = set(self.plan.steps) - set(self.outputs) - self.skipped - self.failed
        return {name: None for node in self.plan.steps if node in todo for name in self.plan.steps[node].type.imports}

    # What becomes of it.

    def _handle(self, report: RunEvent) -> None:
        match report:
            case NodeStarted(node, process):
                self._record(
                    "started", node, attempt=self.attempts[node], key=self.keys[node], process=process.to_dict()
                )
            case NodeProgress(node, fraction, text):
                self._progress(node, fraction, text)
            case SubtaskUpdate(node, jobs):
                entry = self.log.append(self.run_id, "jobs", node, jobs=jobs)
                self.passing.setdefault(node, []).append(entry)
            case PartialResult(node, part, data):
                self._record("part", node, part=part, data=data)
            case NodeFinished(node):
                self.running.discard(node)
                self._finish(node)
            case NodeFailed(node, failure):
                self.running.discard(node)
                self._retry_or_fail(node, failure)

    def _finish(self, node: str) -> None:
        result = self.store.find(self.keys[node])
        if result is None:
            self._retry_or_fail(node, Failure("crashed", "finished, but its result is not in the store"))
            return
        if self.bytes_left is not None:
            self.bytes_left -= sum(output.size for output in result.outputs.values())
        self._complete("finished", result, node)

    def _complete(self, kind: str, result: CacheEntry, node: str, **facts: str) -> None:
        outputs = {port: output.to_dict() for port, output in result.outputs.items()}
        self._record(kind, node, key=result.key, seconds=result.seconds, outputs=outputs, **facts)
        self.outputs[node] = result.outputs
        for child in self.plan.children(node):
            if node in self.waiting.get(child, ()):
                self._queue(child)

    def _queue(self, node: str) -> None:
        """Ready if all it reads is there, else waiting for what is not."""
        self.waiting[node] = self.plan.parents(node) - set(self.outputs)
        if not self.waiting[node]:
            self.ready.append(node)

    def _retry_or_fail(self, node: str, failure: Failure) -> None:
        """Repair, try again or give up."""
        settings = self.plan.steps[node].settings
        if failure.kind == "corrupt" and self.repairs.get(node, 0) < REPAIRS:
            self.repairs[node] = self.repairs.get(node, 0) + 1
            self._repair(node, failure)
            return
        self.failures[node] = self.failures.get(node, 0) + 1
        if failure.kind != "bad-input" and self.failures[node] <= (settings.retries or self.request.retries):
            wait = min(BACK_OFF_SECONDS * 2 ** (self.failures[node] - 1), LONGEST_BACK_OFF)
            why = f"failed: {failure.message}; tries again in {wait:g} s"
            self._record("retrying", node, why=why, error=asdict(failure))
            heapq.heappush(self.later, (time.monotonic() + wait, node))
        else:
            self._fail(node, failure)

    def _repair(self, node: str, failure: Failure) -> None:
        """An input was damaged on disk: have whoever made it make it again, then come back to ``node``."""
        self._record("reopened", node, why=failure.message)
        for end in [end for ends in self.plan.steps[node].inputs.values() for end in ends]:
            output = self.outputs.get(end.node, {}).get(end.port)
            # It may have been made again meanwhile, for another node that found the damage first.
            if output and output.digest == failure.digest and not self.store.is_whole(output):
                self.store.discard(output)
                self._make_again(end.node, f"its output was damaged on disk; '{node}' found it")
        self._queue(node)

    def _make_again(self, node: str, why: str) -> None:
        del self.outputs[node]
        self._record("reopened", node, why=why)
        for child in self.plan.children(node):
            for queue in (self.ready, self.startable):
                if child in queue:
                    queue.remove(child)
                    self.waiting[child] = {node}
        self._queue(node)

    def _fail(self, node: str, failure: Failure) -> None:
        self.failed.add(node)
        self._record("failed", node, error=asdict(failure))
        for below in self.plan.descendants(node):
            if below not in self.skipped and below not in self.outputs:
                self.skipped.add(below)
                self._record("skipped", below, why=f"needs '{node}', which failed")

    def _requeue_due(self) -> None:
        while self.later and self.later[0][0] <= time.monotonic():
            self._queue(heapq.heappop(self.later)[1])

    def _until_next_retry(self) -> float | None:
        return max(0.0, self.later[0][0] - time.monotonic()) if self.later else None

    def _bytes_left(self) -> int | None:
        limit = self.request.store_limit
        return None if limit is None else limit - self.store.size()

    def _progress(self, node: str, fraction: float, text: str) -> None:
        """Note how far a node is, in the place of what it said last."""
        before = [entry for entry in self.passing.get(node, []) if entry.kind == "progress"]
        entry = self.log.append(self.run_id, "progress", node, replaces=before, fraction=fraction, text=text)
        others = [entry for entry in self.passing.get(node, []) if entry.kind != "progress"]
        self.passing[node] = [*others, entry]

    def _record(self, kind: str, node: str, **facts: Any) -> None:
        """Note what became of a node. Once it has ended, one event says how its jobs ended and none how far it was."""
        passing = [] if kind in ("started", "part") else self.passing.pop(node, [])
        jobs = last_jobs(passing)
        if jobs:
            self.log.append(self.run_id, "jobs", node, jobs=jobs)
        self.log.append(self.run_id, kind, node, replaces=passing, **facts)


def _sources(step: PlannedNode) -> dict[str, list[str]]:
    return {port: [end.node for end in ends] for port, ends in step.inputs.items()}
