"""Where nodes run. An executor takes tasks and returns the events of their nodes.

- ``NodeTask``     everything a worker must know to run one node, as plain JSON
- ``Executor``     the interface; a scheduler knows nothing else of where nodes run
- ``local``        processes on this machine
- ``fork_server``  the process from which these are forked
- ``worker``       runs one node, inside its process
- ``dask``         tasks on the workers of a Dask cluster
- ``cluster_jobs``  subtasks of one node on such workers
- ``admission``    which workers may run nodes
- ``storage``      a cluster whose workers do not see the workspace, but a storage
- ``storage_node``  what a node on such a worker does with the storage
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pydantic import TypeAdapter

from engine.events import RunEvent
from engine.node_types import Branch
from engine.store import Artifact


@dataclass(frozen=True)
class ClusterOfRun:
    """The Dask cluster that a run uses."""

    address: str
    resource: str
    """What workers have that may run its nodes."""
    machines: dict[str, int]
    """How many of these workers each machine has."""
    topic: str
    """Where workers report to the supervisor."""
    limit: int | None = None
    """How many subtasks of a node may run at once, None if that depends on the workers alone."""


@dataclass(frozen=True)
class SubtaskRequest:
    """A subtask of a node: its key among the checkpoints, and what the node's type needs."""

    key: str
    request: dict[str, Any]
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Size and hash of files in the node's checkpoint folder that it reads, in a storage."""


@dataclass(frozen=True)
class NodeTask:
    """One try of one node."""

    workspace: str
    run: str
    node: str
    try_number: int
    """1 for the first process that the run starts for the node, 2 for the next."""
    type: str
    params: dict[str, Any]
    key: str
    fingerprint: str
    """The version of the files that the node reads, as it was when ``key`` was computed."""
    inputs: dict[str, list[Artifact]]
    sources: dict[str, list[str]]
    branch: Branch | None
    branches: dict[str, list[Branch | None]]
    force: bool
    """Whether only a result that this run made counts."""
    allow_absolute: bool
    threads: int
    timeout: float | None
    memory_limit: int
    """Megabytes."""
    bytes_left: int | None
    """Bytes that may still be added to the store."""
    imports: tuple[str, ...]
    delegates: bool = False
    """Whether other processes can carry out subtasks of the node."""
    cluster: ClusterOfRun | None = None
    """Where they can, if the run uses a cluster."""
    subtask: SubtaskRequest | None = None
    """A subtask of the node to be carried out, instead of the whole node."""
    storage: str | None = None
    """Where inputs and results are, if not in a workspace that every machine sees."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NodeTask:
        """Return the task that ``to_dict`` wrote."""
        return _TASK.validate_python(data)


# Made once: that takes far longer than to read a task.
_TASK = TypeAdapter(NodeTask)


class Executor(Protocol):
    """Runs tasks somewhere."""

    @property
    def free(self) -> int:
        """How many tasks may be submitted now."""

    def submit(self, task: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Start a task.

        ``upcoming`` names modules that later tasks need, to be loaded while there is time.
        """

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """Return new events; wait for the first at most ``timeout`` seconds."""

    def wake(self) -> None:
        """Make ``wait`` return; may be called from a signal handler."""

    def stop(self) -> list[str]:
        """End all tasks that run and return their nodes."""

    def close(self) -> None:
        """End all processes and close all connections."""
