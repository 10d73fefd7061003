"""Where nodes run. An executor takes jobs and reports what becomes of them; that is all a scheduler knows of it.

- ``NodeTask``        everything a worker must know to run one node, as plain JSON
- ``Executor``   the interface
- ``local``      processes on this machine; ``nursery`` forks them, ``worker`` is what runs inside one
- ``dask``       tasks on the workers of a Dask cluster; ``host`` is the process beside a Dask worker that runs them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

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
    fresh: bool
    allow_absolute: bool
    threads: int
    timeout: float | None
    memory_limit: int
    """Megabytes."""
    room: int | None
    """Bytes that may still be added to the store."""
    imports: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> NodeTask:
        """From plain JSON."""
        inputs = {port: [Artifact.from_dict(each) for each in outputs] for port, outputs in about["inputs"].items()}
        return cls(**{**about, "inputs": inputs, "imports": tuple(about["imports"])})


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
class Started:
    """The node's process runs."""

    node: str
    process: ProcessId


@dataclass(frozen=True)
class Progressed:
    """How far the node is."""

    node: str
    fraction: float
    text: str


@dataclass(frozen=True)
class Worked:
    """What became of jobs inside the node, as ``[place, state, seconds]``."""

    node: str
    jobs: list[Any]


@dataclass(frozen=True)
class Told:
    """A finished part of the node's result, as plain JSON."""

    node: str
    part: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Finished:
    """The node's result is in the store."""

    node: str


@dataclass(frozen=True)
class Failed:
    """The node ended without a result."""

    node: str
    failure: Failure


Report = Started | Progressed | Worked | Told | Finished | Failed


def report_to_dict(report: Report) -> dict[str, Any]:
    """A report as plain JSON, to be sent to another process."""
    return {"kind": type(report).__name__.lower(), **asdict(report)}


def report_from_dict(about: dict[str, Any]) -> Report:
    """A report from plain JSON."""
    node = about["node"]
    match about["kind"]:
        case "started":
            return Started(node, ProcessId(**about["process"]))
        case "progressed":
            return Progressed(node, about["fraction"], about["text"])
        case "worked":
            return Worked(node, about["jobs"])
        case "told":
            return Told(node, about["part"], about["data"])
        case "finished":
            return Finished(node)
    return Failed(node, Failure(**about["failure"]))


class Executor(Protocol):
    """Runs jobs somewhere."""

    @property
    def free(self) -> int:
        """How many jobs may be submitted now."""

    def submit(self, job: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Start a job. ``upcoming`` names modules later jobs will need, to be loaded while there is time."""

    def wait(self, timeout: float | None) -> list[Report]:
        """What has happened; waits for something to happen at most ``timeout`` seconds."""

    def wake(self) -> None:
        """Make ``wait`` return; may be called from a signal handler."""

    def stop(self) -> list[str]:
        """End all jobs that run; their nodes."""

    def close(self) -> None:
        """Leave nothing behind."""
