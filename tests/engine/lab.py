"""A plan of small nodes and an executor that runs them in this process, in the order of a test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from engine.events import (
    EventLog,
    Failure,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunEvent,
    RunFinished,
    RunStarted,
)
from engine.executors import NodeTask
from engine.node_types import NodeCatalog
from engine.pipeline import Edge, Node, NodeSettings, Pipeline
from engine.plan import Plan, RunOptions, make_plan
from engine.processes import identify
from engine.run_state import RunState, run_state
from engine.scheduler import Scheduler
from engine.store import Artifact, CacheEntry, Store
from engine.values import Report as ReportValue
from engine.workspace import Workspace

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))
from sylva_test_nodes import PROBE

CATALOG = NodeCatalog([PROBE])
ONCE = replace(PROBE, name="once", cacheable=False)
CATALOG_WITH_EFFECTS = NodeCatalog([PROBE, ONCE])


def pipeline(
    *chains: str, settings: Mapping[str, NodeSettings] | None = None, **params: int
) -> Pipeline:
    """Nodes and edges from chains such as ``"a b d"``; ``params`` gives a node's value."""
    names = dict.fromkeys(name for chain in chains for name in chain.split())
    pairs = dict.fromkeys(
        pair for chain in chains for pair in zip(chain.split(), chain.split()[1:], strict=False)
    )
    nodes = {
        name: Node(
            type="once" if name.startswith("once") else "probe",
            params={"value": params[name]} if name in params else {},
            settings=(settings or {}).get(name, NodeSettings()),
        )
        for name in names
    }
    edges = tuple(Edge(source=f"{first}.report", target=f"{then}.reports") for first, then in pairs)
    return Pipeline(name="test", nodes=nodes, edges=edges)


class InlineExecutor:
    """Finishes one task per ``wait``, oldest first, unless a test has it fail."""

    def __init__(self, store: Store, slots: int = 2) -> None:
        self.store, self.slots = store, slots
        self.tasks: list[NodeTask] = []
        self.executed: list[str] = []
        self.most_at_once = 0
        self.failures: dict[str, list[Failure]] = {}
        self.before: Callable[[NodeTask], None] = lambda task: None

    @property
    def free(self) -> int:
        return self.slots - len(self.tasks)

    def submit(self, task: NodeTask, upcoming: Mapping[str, None]) -> None:
        self.tasks.append(task)
        self.most_at_once = max(self.most_at_once, len(self.tasks))

    def wait(self, timeout: float | None) -> list[RunEvent]:
        if not self.tasks:
            return []
        task = self.tasks.pop(0)
        self.before(task)
        self.executed.append(task.node)
        started = NodeStarted(
            node=task.node, try_number=task.try_number, key=task.key, process=identify()
        )
        if self.failures.get(task.node):
            return [started, NodeFailed(node=task.node, error=self.failures[task.node].pop(0))]
        for outputs in task.inputs.values():
            for output in outputs:
                if not self.store.is_whole(output):
                    return [
                        started,
                        NodeFailed(
                            node=task.node,
                            error=Failure("corrupt", "damaged", digest=output.digest),
                        ),
                    ]
        self.store.record(self._result(task))
        return [started, NodeFinished(node=task.node)]

    def _result(self, task: NodeTask) -> CacheEntry:
        read = [self.store.open(output) for output in task.inputs.get("reports", [])]
        value = task.params["value"] + sum(report.headline["value"] for report in read)
        output = self.store.put("report", ReportValue("probe", "Probe", {"value": value}))
        return CacheEntry(task.key, task.run, task.node, 0.0, 0.0, {"report": output})

    def wake(self) -> None:
        pass

    def stop(self) -> list[str]:
        stopped = [task.node for task in self.tasks]
        self.tasks.clear()
        return stopped

    def close(self) -> None:
        pass


class Lab:
    """A workspace in which pipelines run inline."""

    def __init__(self, folder: Path) -> None:
        self.workspace = Workspace(folder).create()
        self.store = Store(self.workspace)
        self.log = EventLog(self.workspace)
        self.executor = InlineExecutor(self.store)

    def scheduler(
        self,
        pipeline: Pipeline,
        options: RunOptions | None = None,
        outputs: dict[str, dict[str, Artifact]] | None = None,
    ) -> Scheduler:
        options = options or RunOptions()
        run = self.log.create_run(pipeline.name, "", options.to_dict())
        plan = make_plan(pipeline, CATALOG_WITH_EFFECTS, options)
        self.log.append(run, RunStarted(supervisor=identify(), todo=tuple(plan.steps)))
        return Scheduler(plan, options, run, self.store, self.log, self.executor, outputs or {})

    def run(self, pipeline: Pipeline, options: RunOptions | None = None) -> RunState:
        scheduler = self.scheduler(pipeline, options)
        self.executor.executed.clear()
        self.log.append(scheduler.run_id, RunFinished(state=scheduler.run()))
        return run_state(self.log, self.log.run(scheduler.run_id))

    def value(self, state: RunState, node: str) -> float:
        return self.store.open(Artifact.from_dict(state.nodes[node].outputs["report"])).headline[
            "value"
        ]


def plan_of(pipeline: Pipeline, **options: object) -> Plan:
    return make_plan(pipeline, CATALOG_WITH_EFFECTS, RunOptions(**options))
