"""Where nodes run. An executor takes jobs and reports what becomes of them; that is all a scheduler knows of it.

- ``NodeTask``        everything a worker must know to run one node, as plain JSON
- ``Executor``   the interface
- ``local``      processes on this machine; ``fork server`` forks them, ``worker`` is what runs inside one
- ``dask``       tasks on the workers of a Dask cluster; ``host`` is the process beside a Dask worker that runs them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from engine.node_types import Branch
from engine.processes import ProcessId
from engine.store import Artifact


@dataclass(frozen=True)
class NodeTask:
    """One attempt at one node."""

    workspace: str
    run: str
    node: str
    attempt: int
    type: str
    params: dict[str, Any]
    key: str
    inputs: dict[str, list[Artifact]]
    sources: dict[str, list[str]]
    branch: Branch | None
    branches: dict[str, list[Branch | None]]
    force: bool
    allow_absolute: bool
    threads: int
    timeout: float | None
    memory_limit: int
    """Megabytes."""
    bytes_left: int | None
    """Bytes that may still be added to the store."""
    imports: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> NodeTask:
        """From plain JSON."""
        inputs = {port: [Artifact.from_dict(each) for each in outputs] for port, outputs in about["inputs"].items()}
        branches = {port: [each and Branch(**each) for each in listed] for port, listed in about["branches"].items()}
        branch = about["branch"] and Branch(**about["branch"])
        typed = {"inputs": inputs, "branch": branch, "branches": branches, "imports": tuple(about["imports"])}
        return cls(**about | typed)


@dataclass(frozen=True)
class Failure:
    """Why a node did not finish: a kind a program can act on and a message a person can."""

    kind: str
    """``bad-input``, ``error``, ``memory``, ``disk``, ``timeout``, ``crashed``, ``lost``, ``corrupt`` or ``cancelled``.

    A ``crashed`` node lost its process, a ``lost`` one the cluster it ran on.
    """
    message: str
    field: str | None = None
    traceback: str | None = None
    digest: str | None = None
    """The damaged input, when ``kind`` is ``corrupt``."""


@dataclass(frozen=True)
class NodeStarted:
    """The node's process runs."""

    kind: ClassVar = "started"
    node: str
    process: ProcessId


@dataclass(frozen=True)
class NodeProgress:
    """How far the node is."""

    kind: ClassVar = "progress"
    node: str
    fraction: float
    text: str


@dataclass(frozen=True)
class SubtaskUpdate:
    """What became of jobs inside the node, as ``[place, state, seconds]``."""

    kind: ClassVar = "jobs"
    node: str
    jobs: list[Any]


@dataclass(frozen=True)
class PartialResult:
    """A finished part of the node's result, as plain JSON."""

    kind: ClassVar = "part"
    node: str
    part: str
    data: dict[str, Any]


@dataclass(frozen=True)
class NodeFinished:
    """The node's result is in the store."""

    kind: ClassVar = "finished"
    node: str


@dataclass(frozen=True)
class NodeFailed:
    """The node ended without a result."""

    kind: ClassVar = "failed"
    node: str
    failure: Failure


RunEvent = NodeStarted | NodeProgress | SubtaskUpdate | PartialResult | NodeFinished | NodeFailed


def event_to_dict(report: RunEvent) -> dict[str, Any]:
    """A report as plain JSON, to be sent to another process."""
    return {"kind": report.kind, **asdict(report)}


def event_from_dict(about: dict[str, Any]) -> RunEvent:
    """A report from plain JSON."""
    node = about["node"]
    match about["kind"]:
        case "started":
            return NodeStarted(node, ProcessId(**about["process"]))
        case "progress":
            return NodeProgress(node, about["fraction"], about["text"])
        case "jobs":
            return SubtaskUpdate(node, about["jobs"])
        case "part":
            return PartialResult(node, about["part"], about["data"])
        case "finished":
            return NodeFinished(node)
    return NodeFailed(node, Failure(**about["failure"]))


class Executor(Protocol):
    """Runs jobs somewhere."""

    @property
    def free(self) -> int:
        """How many jobs may be submitted now."""

    def submit(self, job: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Start a job. ``upcoming`` names modules later jobs will need, to be loaded while there is time."""

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """What has happened; waits for something to happen at most ``timeout`` seconds."""

    def wake(self) -> None:
        """Make ``wait`` return; may be called from a signal handler."""

    def stop(self) -> list[str]:
        """End all jobs that run; their nodes."""

    def close(self) -> None:
        """Leave nothing behind."""
