"""A workspace to break things in: real ``sylva`` processes, observed independently of Sylva.

- ``Lab``              runs commands, reads what nodes did (their trace), finds all its processes
- ``pipeline``         a document out of a few words; ``DIAMOND`` is the usual one
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from engine.supervisor import PROCESS_NAME
from tests.command_line import COMMAND, PLUGIN, ROOT
from tests.waiting import until

MARK = "SYLVA_TEST_MARK"

Pipeline = dict[str, Any]
Outputs = dict[str, dict[str, str]]
T = TypeVar("T")


def pipeline(**nodes: dict[str, Any]) -> Pipeline:
    """Return probes that add up their values, each node with its own value.

    Example: ``pipeline(a={}, b={"after": "a", "action": "sleep"})``.
    """
    document: Pipeline = {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "faults",
        "nodes": {},
        "edges": [],
    }
    for index, (name, about) in enumerate(nodes.items()):
        params = {"value": 2**index, **about}
        after, settings = params.pop("after", ""), params.pop("settings", {})
        document["nodes"][name] = {"type": "probe", "params": params, "settings": settings}
        document["edges"] += [
            {"from": f"{each}.report", "to": f"{name}.reports"} for each in after.split()
        ]
    return document


def diamond(**left: Any) -> Pipeline:
    """Source, left and right, join; ``left`` does what is asked for."""
    return pipeline(
        source={},
        left={"after": "source", **left},
        right={"after": "source"},
        join={"after": "left right"},
    )


DIAMOND = diamond()


def tame(document: Pipeline) -> Pipeline:
    """The same pipeline with nodes that work; outputs do not depend on how they failed before."""
    nodes = {
        name: {"type": "probe", "params": _tame(node["params"])}
        for name, node in document["nodes"].items()
    }
    return {**document, "nodes": nodes}


def _tame(params: dict[str, Any]) -> dict[str, Any]:
    return params if params.get("action") == "big" else {"value": params["value"]}


def duration_of(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def run(self) -> str:
        return self.json["run"]

    @property
    def nodes(self) -> dict[str, Any]:
        return self.json["nodes"]

    @property
    def states(self) -> dict[str, str]:
        return {name: node["state"] for name, node in self.nodes.items()}

    @property
    def outputs(self) -> Outputs:
        return {name: node["outputs"] for name, node in self.nodes.items()}

    def message(self, node: str) -> str:
        return self.nodes[node]["error"]["message"]


@dataclass
class Lab:
    """One workspace and all that happens in it."""

    root: Path
    workspace: Path = field(init=False)
    mark: str = field(init=False)
    killed: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.workspace = self.root / "workspace"
        self.mark = uuid4().hex
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([PLUGIN, str(ROOT)])
        own = {"PYTHONPATH": path, "SYLVA_WORKSPACE": str(self.workspace), MARK: self.mark}
        return {**os.environ, **own, "SYLVA_TEST_TRACE": str(self.root / "trace")}

    # Commands.

    def write(self, document: Pipeline) -> str:
        path = self.root / f"{uuid4().hex}.json"
        path.write_text(json.dumps(document))
        return str(path)

    def start(self, *words: str, fault: str | None = None) -> subprocess.Popen[str]:
        """A command that runs while the test goes on."""
        environment = self.environment | ({"SYLVA_FAULT": fault} if fault else {})
        return subprocess.Popen(
            [COMMAND, *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            # Tests that run in the background of a shell would pass on that they ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def sylva(self, *words: str, fault: str | None = None) -> Answer:
        return self.answer(self.start(*words, fault=fault))

    def answer(self, process: subprocess.Popen[str], timeout: float = 60) -> Answer:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{process.args} took longer than {timeout} s") from None
        assert "Traceback" not in err, err
        return Answer(process.returncode, out, err)

    def run(self, document: Pipeline, *words: str, fault: str | None = None) -> Answer:
        return self.sylva("run", self.write(document), "--json", *words, fault=fault)

    def start_run(
        self, document: Pipeline, *words: str, fault: str | None = None
    ) -> subprocess.Popen[str]:
        return self.start("run", self.write(document), "--json", *words, fault=fault)

    def resume(self) -> Answer:
        return self.sylva("resume", "last", "--json")

    def show(self, run: str = "last") -> Answer:
        return self.sylva("show", run, "--json")

    # What really happened.

    def trace(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.root / "trace").read_text().splitlines()
        return []

    def executions(self) -> Counter[str]:
        """How often each node's code was started; fails if the same work was done twice at once."""
        trace = self.trace()
        assert not [line for line in trace if " " in line], trace
        return Counter(trace)

    def begun(self, node: str, times: int = 1) -> None:
        """Wait until a node's code runs."""
        until(
            lambda: self.trace().count(node) >= times,
            what=f"the start of '{node}' (trace: {self.trace()})",
        )

    def open_gate(self) -> None:
        """Let nodes that wait at the gate go on."""
        (self.root / "trace.open").touch()

    # Processes, found by a variable only this lab's have.

    def processes(self) -> dict[int, list[str]]:
        """Command lines of all living processes this lab has caused, by process id."""
        return {pid: line for pid in _all_processes() if (line := _command(pid, self.mark))}

    def supervisors(self) -> list[int]:
        # What a supervisor forks has its name too.
        found = [pid for pid in self.processes() if _name(pid) == PROCESS_NAME]
        return [pid for pid in found if _parent(pid) not in found]

    def fork_servers(self) -> list[int]:
        supervisors = self.supervisors()
        return [pid for pid in self.processes() if _parent(pid) in supervisors]

    def supervisor(self) -> int:
        return until(lambda: next(iter(self.supervisors()), 0), what="a supervisor")

    def fork_server(self) -> int:
        return until(lambda: next(iter(self.fork_servers()), 0), what="a fork server")

    def workers(self) -> list[int]:
        fork_servers = self.fork_servers()
        return [pid for pid in self.processes() if _parent(pid) in fork_servers]

    def children_of_workers(self) -> list[int]:
        """What nodes have started themselves."""
        workers = self.workers()
        return [pid for pid in self.processes() if _parent(pid) in workers]

    def kill(self, *pids: int, with_signal: int = signal.SIGKILL) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, with_signal)
        self.killed.update(pids)

    def kill_everything(self) -> None:
        self.kill(*self.processes())

    def no_process_is_left(self, seconds: float = 5.0) -> None:
        until(lambda: not self.processes(), seconds, f"the end of {self.processes()}")
        until(
            lambda: not any(map(_holds_files, self.killed)),
            seconds,
            "the release of the locks of killed processes",
        )

    def nothing_is_left(self) -> None:
        """No process lives and nothing half written lies about."""
        self.no_process_is_left()
        assert not list((self.workspace / "tmp").iterdir())

    # The store.

    def object_file(self, answer: Answer, node: str) -> Path:
        """The file in which the output of ``node`` lies."""
        return self.workspace / "objects" / answer.outputs[node]["report"] / "report.json"

    def record_file(self, answer: Answer, node: str) -> Path:
        """The file that says which outputs the key of ``node`` stands for."""
        return self.workspace / "results" / f"{answer.nodes[node]['key']}.json"


def _all_processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def _command(pid: int, mark: str) -> list[str]:
    """The command line of a living process with ``mark`` in its environment; a zombie has none."""
    with contextlib.suppress(OSError):
        if f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    return []


def _holds_files(pid: int) -> bool:
    """Whether a process may still have files open.

    A killed process gives up its environment first and its files, with their locks, a moment later.
    It has none when it is gone, or when its last thread is a zombie.
    """
    with contextlib.suppress(OSError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return len(threads) > 1 or _state(pid) != "Z"
    return False


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
