"""Run a plan: start each node as soon as its inputs are ready and the executor is free.

A failure skips the nodes below it and nothing else. A node whose result is in the store does not
run. The scheduler decides and writes the log; the executor knows where and how a node runs, the
store what a result is.
"""

from __future__ import annotations

import heapq
import os
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from engine.errors import BadInput
from engine.events import (
    EventLog,
    Failure,
    LogEntry,
    NodeCached,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeReopened,
    NodeRetrying,
    NodeSkipped,
    NodeStarted,
    NodeStopped,
    PartialResult,
    RunEvent,
    SubtaskUpdate,
    WorkerUpdate,
)
from engine.executors import Executor, NodeTask
from engine.plan import Plan, PlannedNode, RunOptions, cache_key
from engine.run_state import last_subtasks
from engine.store import Artifact, CacheEntry, Store
from engine.workspace import Files

BACK_OFF_SECONDS = 1.0
"""Pause before the first retry of a node; it doubles with each further one."""
LONGEST_BACK_OFF = 60.0
REPAIRS = 3
"""How often a node may find its input damaged before that counts as a failure."""


@dataclass
class Scheduler:
    """Run a plan once.

    ``outputs`` holds the artifacts of finished nodes by node and port; a run that is resumed starts
    with those of its first part. ``default_memory`` is the limit, in MB, of a node without its own.
    """

    plan: Plan
    options: RunOptions
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
        self.tries: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.repairs: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.fingerprints: dict[str, str] = {}
        self.running: set[str] = set()
        # A node waits for the nodes above it, is ready, and is startable once it is known that it
        # is not cached. A node that failed comes back later, at a time of the monotonic clock.
        self.waiting: dict[str, set[str]] = {}
        self.ready: deque[str] = deque()
        self.startable: deque[str] = deque()
        self.later: list[tuple[float, str]] = []
        # Progress and subtasks in the log, to be replaced when the node ends.
        self.updates: dict[str, list[LogEntry]] = {}
        self.files = Files(self.store.workspace.root, self.options.allow_absolute)
        self.bytes_left = self._bytes_left()
        for node in self.plan.steps:
            if node not in self.outputs:
                self._queue(node)

    def run(self) -> str:
        """Run nodes until none is left that can run; return ``done``, ``failed`` or ``cancelled``.

        This is the loop of the engine: check the cache, start nodes, wait for events, handle them.
        """
        while not self.cancelled and (self.ready or self.startable or self.running or self.later):
            self._requeue_due()
            if self.ready or self.startable:
                # One commit for all of them: a wide pipeline may have hundreds of cached nodes.
                with self.log.together():
                    self._check_cache()
                    self._start_startable()
            if self.running or self.later:
                events = self.executor.wait(self._until_next_retry())
                if events:
                    with self.log.together():
                        for event in events:
                            self._handle(event)
        if self.cancelled:
            with self.log.together():
                for node in self.executor.stop():
                    self._record(NodeStopped(node=node))
            return "cancelled"
        return "failed" if self.failed else "done"

    def cancel(self) -> None:
        """Ask ``run`` to stop the running nodes and to return; safe in a signal handler."""
        self.cancelled = True
        self.executor.wake()

    # Before a node runs: its cache key, and whether the store has its result already.

    def _check_cache(self) -> None:
        """Complete the ready nodes that are cached and queue the others to start.

        A completed node may make further nodes ready, so the loop ends when none is left.
        """
        while self.ready:
            name = self.ready.popleft()
            node = self.plan.steps[name]
            try:
                self.keys[name] = self._key(node)
            except BadInput as error:
                self._fail(name, Failure("bad-input", error.message, error.field))
                continue
            result = self._usable_result(node)
            if result is None:
                self.startable.append(name)
                continue
            why = f"unchanged since run {result.run}"
            if result.run == self.run_id:
                why = "made earlier in this run"
            self._complete(NodeCached(node=name, why=why, **_facts(result)), result)

    def _key(self, node: PlannedNode) -> str:
        """Return the cache key of a node; raise ``BadInput`` if a file it reads is not there."""
        digests = {}
        for port, artifacts in self._inputs(node).items():
            digests[port] = [artifact.digest for artifact in artifacts]
        fingerprint = ""
        if node.type.fingerprint:
            fingerprint = node.type.fingerprint(node.params, self.files)
        self.fingerprints[node.id] = fingerprint
        branches = [node.branch, *chain.from_iterable(node.branches.values())]
        return cache_key(node.type, node.params, digests, _sources(node), fingerprint, branches)

    def _usable_result(self, node: PlannedNode) -> CacheEntry | None:
        """Return the stored result of a node if it may be used instead of running it.

        A node that is forced uses only a result of this run. A result with other ports than the
        node type declares now does not count.
        """
        result = self.store.find(self.keys[node.id])
        if result is None or (node.force and result.run != self.run_id):
            return None
        promised = {port.name: port.type for port in node.type.outputs}
        stored = {port: artifact.type for port, artifact in result.outputs.items()}
        return result if stored == promised else None

    def _inputs(self, node: PlannedNode) -> dict[str, list[Artifact]]:
        """Return the artifacts at each input port; all nodes above have finished."""
        inputs = {}
        for port, sources in node.inputs.items():
            inputs[port] = [self.outputs[source.node][source.port] for source in sources]
        return inputs

    # Starting.

    def _start_startable(self) -> None:
        """Submit as many tasks as the executor takes."""
        while self.startable and self.executor.free > 0:
            name = self.startable.popleft()
            self.tries[name] = self.tries.get(name, 0) + 1
            self.running.add(name)
            self.executor.submit(self._task(self.plan.steps[name]), self._upcoming())

    def _task(self, node: PlannedNode) -> NodeTask:
        """Return the next try of a node; nodes that run at once share the processors."""
        settings, options = node.settings, self.options
        at_once = len(self.running) + min(len(self.startable), self.executor.free)
        return NodeTask(
            workspace=str(self.store.workspace.root),
            run=self.run_id,
            node=node.id,
            try_number=self.tries[node.id],
            type=node.type.name,
            params=node.params.model_dump(mode="json"),
            key=self.keys[node.id],
            fingerprint=self.fingerprints[node.id],
            inputs=self._inputs(node),
            sources=_sources(node),
            branch=node.branch,
            branches=node.branches,
            force=node.force,
            allow_absolute=options.allow_absolute,
            threads=max(1, len(os.sched_getaffinity(0)) // max(1, at_once)),
            timeout=settings.timeout or options.timeout,
            memory_limit=settings.memory_limit or options.memory_limit or self.default_memory,
            bytes_left=self.bytes_left,
            imports=node.type.imports,
            delegates=node.type.run_subtask is not None,
        )

    def _upcoming(self) -> dict[str, None]:
        """Return the modules that nodes still to come will need, in the order of the plan."""
        finished = set(self.outputs) | self.skipped | self.failed
        modules: dict[str, None] = {}
        for name, node in self.plan.steps.items():
            if name not in finished:
                modules |= dict.fromkeys(node.type.imports)
        return modules

    # What happens to it.

    def _handle(self, event: RunEvent) -> None:
        """Write an event of a node to the log and act on it.

        ``NodeFinished`` and ``NodeFailed`` end a try; the other events only report progress.
        """
        match event:
            case NodeStarted() | PartialResult() | WorkerUpdate():
                self.log.append(self.run_id, event)
            case NodeProgress():
                self._replace_progress(event)
            case SubtaskUpdate():
                entry = self.log.append(self.run_id, event)
                self.updates.setdefault(event.node, []).append(entry)
            case NodeFinished():
                self.running.discard(event.node)
                self._finish(event)
            case NodeFailed():
                self.running.discard(event.node)
                self._retry_or_fail(event.node, event.error)

    def _replace_progress(self, event: NodeProgress) -> None:
        """Write how far a node is in place of what it reported last."""
        updates = self.updates.get(event.node, [])
        before = [entry for entry in updates if isinstance(entry.event, NodeProgress)]
        others = [entry for entry in updates if not isinstance(entry.event, NodeProgress)]
        entry = self.log.append(self.run_id, event, replaces=before)
        self.updates[event.node] = [*others, entry]

    def _finish(self, event: NodeFinished) -> None:
        """Complete a node with its result in the store: only what is there counts."""
        result = self.store.find(self.keys[event.node])
        if result is None:
            missing = Failure("crashed", "finished, but its result is not in the store")
            self._retry_or_fail(event.node, missing)
            return
        # Nodes that run at the same time each see all that is left, so the limit is not exact.
        if self.bytes_left is not None:
            self.bytes_left -= sum(artifact.size for artifact in result.outputs.values())
        self._complete(event.model_copy(update=_facts(result)), result)

    def _complete(self, event: NodeFinished | NodeCached, result: CacheEntry) -> None:
        """Make the outputs of a node available to the nodes below it."""
        self._record(event)
        self.outputs[event.node] = result.outputs
        for child in self.plan.children(event.node):
            if event.node in self.waiting.get(child, ()):
                self._queue(child)

    def _queue(self, node: str) -> None:
        """Make a node ready if all its inputs are there, else let it wait for the others."""
        self.waiting[node] = self.plan.parents(node) - set(self.outputs)
        if not self.waiting[node]:
            self.ready.append(node)

    def _retry_or_fail(self, node: str, failure: Failure) -> None:
        """Repair a damaged input, try the node again later, or let it fail.

        A failure for bad input is final: a retry would find the same input.
        """
        if failure.kind == "corrupt" and self.repairs.get(node, 0) < REPAIRS:
            self.repairs[node] = self.repairs.get(node, 0) + 1
            self._repair(node, failure)
            return
        self.failures[node] = self.failures.get(node, 0) + 1
        tries = self.plan.steps[node].settings.tries(self.options.retries)
        if failure.kind == "bad-input" or self.failures[node] >= tries:
            self._fail(node, failure)
            return
        # 1, 2, 4, 8 … seconds: what was short of memory or disk may have it later.
        wait = min(BACK_OFF_SECONDS * 2 ** (self.failures[node] - 1), LONGEST_BACK_OFF)
        next_try = f"try {self.failures[node] + 1} of {tries}"
        why = f"failed: {failure.message}; {next_try} in {wait:g} s"
        self._record(NodeRetrying(node=node, why=why, error=failure))
        heapq.heappush(self.later, (time.monotonic() + wait, node))

    def _repair(self, node: str, failure: Failure) -> None:
        """Discard the damaged inputs of a node and run the nodes again that made them.

        ``node`` itself waits for them and then runs again.
        """
        self._record(NodeReopened(node=node, why=failure.message))
        for source in chain.from_iterable(self.plan.steps[node].inputs.values()):
            artifact = self.outputs.get(source.node, {}).get(source.port)
            if artifact is None or artifact.digest != failure.digest:
                continue
            # Another node may have found the damage first, and it may be repaired meanwhile.
            if not self.store.is_whole(artifact):
                self.store.discard(artifact)
                self._make_again(source.node, f"its output was damaged on disk; '{node}' found it")
        self._queue(node)

    def _make_again(self, node: str, why: str) -> None:
        """Queue a finished node again, and let the nodes below it wait that have not started."""
        del self.outputs[node]
        self._record(NodeReopened(node=node, why=why))
        for child in self.plan.children(node):
            # A child that runs has read the output already, or finds the damage itself.
            for queue in (self.ready, self.startable):
                if child in queue:
                    queue.remove(child)
                    self.waiting[child] = {node}
        self._queue(node)

    def _fail(self, node: str, failure: Failure) -> None:
        """Let a node fail for good and skip all nodes below it."""
        self.failed.add(node)
        self._record(NodeFailed(node=node, error=failure))
        for below in self.plan.descendants(node):
            if below not in self.skipped and below not in self.outputs:
                self.skipped.add(below)
                self._record(NodeSkipped(node=below, why=f"needs '{node}', which failed"))

    def _requeue_due(self) -> None:
        """Queue the nodes whose time to be tried again has come."""
        while self.later and self.later[0][0] <= time.monotonic():
            self._queue(heapq.heappop(self.later)[1])

    def _until_next_retry(self) -> float | None:
        """Return the seconds until the next retry, None if no node waits for one."""
        return max(0.0, self.later[0][0] - time.monotonic()) if self.later else None

    def _bytes_left(self) -> int | None:
        """Return the bytes that may be added to the store, None without a limit."""
        limit = self.options.store_limit
        return None if limit is None else limit - self.store.size()

    def _record(self, event: RunEvent) -> None:
        """Write an event that ends a try of a node, in place of the updates of that try.

        The last states of its subtasks stay in the log as one event.
        """
        updates = self.updates.pop(str(event.node), [])
        subtasks = last_subtasks(updates)
        if subtasks:
            self.log.append(self.run_id, SubtaskUpdate(node=str(event.node), subtasks=subtasks))
        self.log.append(self.run_id, event, replaces=updates)


def _sources(node: PlannedNode) -> dict[str, list[str]]:
    """Return the nodes that feed each input port."""
    nodes = {}
    for port, sources in node.inputs.items():
        nodes[port] = [source.node for source in sources]
    return nodes


def _facts(result: CacheEntry) -> dict[str, Any]:
    """Return what events say about a result: its key, the seconds, the outputs as plain JSON."""
    outputs = {port: artifact.to_dict() for port, artifact in result.outputs.items()}
    return {"key": result.key, "seconds": result.seconds, "outputs": outputs}
