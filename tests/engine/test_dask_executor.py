"""A run on a Dask cluster: same results, and what dies or hangs costs no more than on one machine.

The scheduler, its workers and everything else are real processes on this machine. A cluster takes
seconds to start, so `make test` has one test on it; the others are slow.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from engine.environment import PACKAGES
from engine.errors import BadInput, SylvaError
from engine.executors import NodeTask
from engine.executors.dask import DaskExecutor, connect, fit_to_this_machine
from engine.plan import RunOptions
from engine.processes import end_leftover, identify, is_alive, usable_memory
from tests.cluster import Cluster
from tests.command_line import ROOT
from tests.expect import refused
from tests.faults.lab import Answer, Lab, diamond, duration_of, pipeline, tame
from tests.waiting import until

SAMPLE = Path(__file__).parents[2] / "sample_pipelines" / "first_pipeline.json"
TASK = NodeTask(
    workspace="/ws", run="run", node="node", try_number=1, type="probe", params={}, key="key",
    fingerprint="", inputs={}, sources={}, branch=None, branches={}, force=False,
    allow_absolute=False, threads=8,
    timeout=None, memory_limit=10**9,
    bytes_left=None, imports=(),
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers; nothing they started outlives the tests."""
    with Cluster(Lab(tmp_path_factory.mktemp("dask"))) as made:
        made.start_worker()
        made.start_worker()
        yield made


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[Lab]:
    """A fresh workspace on the shared cluster; a test that leaves a node's process behind fails."""
    lab = cluster.lab
    lab.workspace = lab.root / uuid4().hex
    (lab.root / "trace").unlink(missing_ok=True)
    try:
        yield lab
        until(lambda: not cluster.nodes(), 5, "the end of the nodes")
    finally:
        lab.kill(*cluster.supervisors())  # and with it all its nodes, should the test have failed


def finished(lab: Lab, process: subprocess.Popen[str], code: int = 0) -> Answer:
    answer = lab.answer(process, timeout=90)
    assert answer.code == code, answer
    return answer


@pytest.mark.slow
def test_a_sample_pipeline_gives_the_same_outputs_as_on_this_machine(
    cluster: Cluster, lab: Lab
) -> None:
    words = ("run", str(SAMPLE), "--set", "mart.trees=2", "--json")
    on_cluster = finished(lab, lab.start(*words, "--executor", cluster.address))
    lab.workspace = lab.root / uuid4().hex
    local = finished(lab, lab.start(*words))
    assert set(on_cluster.states.values()) == {"done"}
    assert on_cluster.outputs == local.outputs


def test_nodes_that_crash_hang_or_eat_memory_fail_alone_and_the_workers_live(
    cluster: Cluster, lab: Lab
) -> None:
    document = pipeline(
        fine={},
        segfault={"action": "segfault"},
        exit={"action": "exit", "amount": 3},
        hang={"action": "stubborn", "amount": 600, "settings": {"timeout": 0.5}},
        hungry={"action": "allocate", "amount": 50_000, "settings": {"memory_limit": 200}},
        below={"after": "segfault"},
    )
    workers = cluster.workers()
    answer = finished(lab, cluster.run(document), code=1)
    assert answer.states == dict.fromkeys(document["nodes"], "failed") | {
        "fine": "done",
        "below": "skipped",
    }
    assert "SIGSEGV" in answer.message("segfault")
    assert "exit code 3" in answer.message("exit")
    assert "0.5 s" in answer.message("hang")
    assert "200 MB" in answer.message("hungry")
    failing = ("segfault", "exit", "hang", "hungry")
    assert {name: answer.nodes[name]["error"]["kind"] for name in failing} == {
        "segfault": "crashed", "exit": "crashed", "hang": "timeout", "hungry": "memory",
    }  # fmt: skip
    assert workers == cluster.workers()


def test_data_may_be_in_a_storage_instead_of_the_workspace(
    cluster: Cluster, lab: Lab, tmp_path: Path
) -> None:
    address = f"file://{tmp_path}/shared"
    lab.workspace.mkdir()
    (lab.workspace / "settings.json").write_text(f'{{"storages": ["{address}"]}}')
    document = pipeline(first={}, second={"after": "first"}, broken={"action": "raise"})
    answer = finished(lab, cluster.run(document, "--storage", address), code=1)
    assert answer.states == {"first": "done", "second": "done", "broken": "failed"}
    assert len(list((tmp_path / "shared" / "results").iterdir())) == 2
    assert not list((tmp_path / "shared" / "runs").iterdir())  # token and logs are removed
    assert "probe does raise" in str(lab.sylva("show", "last", "broken", "--json").json["log"])
    lab.workspace = lab.root / uuid4().hex
    local = finished(lab, lab.start("run", lab.write(document), "--json"), code=1)
    assert answer.outputs == local.outputs


@pytest.mark.slow
def test_a_killed_worker_costs_only_the_node_it_ran(cluster: Cluster, lab: Lab) -> None:
    document = diamond(action="spawn", amount=600, first=1)
    command = cluster.run(document)
    lab.begun("left")
    until(
        lambda: lab.trace().count("right") and len(cluster.nodes()) == 1 and cluster.left_by_nodes()
    )
    (node,) = cluster.nodes()
    lab.kill(cluster.worker_of(node))
    until(lambda: not cluster.left_by_nodes(), 5, "the end of what the node had started")
    answer = finished(lab, command)
    assert cluster.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    lab.workspace = lab.root / uuid4().hex
    assert answer.outputs == lab.run(tame(document)).outputs


@pytest.mark.slow
def test_progress_and_log_arrive_and_a_cancelled_node_is_gone_within_two_seconds(
    cluster: Cluster, lab: Lab
) -> None:
    command = cluster.run(
        pipeline(node={"action": "spawn", "amount": 600, "first": 1}, last={"after": "node"})
    )
    lab.begun("node")
    until(lambda: lab.show().nodes["node"]["text"] == "sleeping")
    node = lab.sylva("show", "last", "node", "--json").json
    assert any("probe does spawn" in line for line in node["log"])
    assert [node["process"]["pid"]] == cluster.nodes()
    command_takes = duration_of(lambda: lab.sylva("runs"))
    lab.kill(lab.supervisor(), with_signal=signal.SIGTERM)
    asked = time.monotonic()
    until(lambda: not cluster.nodes() and not cluster.left_by_nodes())
    assert time.monotonic() - asked < 2 + command_takes  # which tells how busy the machine is
    assert finished(lab, command, code=1).json["state"] == "cancelled"
    assert lab.resume().states == {"node": "done", "last": "done"}
    assert lab.executions() == {"node": 2, "last": 1}


@pytest.mark.slow
def test_nodes_end_when_their_supervisor_was_killed_and_the_run_resumes(
    cluster: Cluster, lab: Lab
) -> None:
    command = cluster.run(
        pipeline(node={"action": "stubborn", "amount": 600, "first": 1}, last={"after": "node"})
    )
    lab.begun("node")
    lab.kill(lab.supervisor())
    until(lambda: not cluster.nodes(), 10, "the end of a node that is not needed")
    assert finished(lab, command, code=1).json["state"] == "interrupted"
    assert lab.resume().states == {"node": "done", "last": "done"}
    assert lab.executions() == {"node": 2, "last": 1}


@pytest.mark.slow
def test_without_workers_nodes_fail_after_a_while_and_a_retry_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", "0.5")
    lab = Lab(tmp_path)
    with Cluster(lab) as empty:
        answer = finished(
            lab, empty.run(pipeline(first={}, second={}, third={"after": "first"})), code=1
        )
        assert answer.states == {"first": "failed", "second": "failed", "third": "skipped"}
        assert answer.nodes["first"]["error"]["kind"] == "lost"
        assert all(each in answer.message("first") for each in (empty.address, "0.5 s"))
        monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", "60")
        empty.start_worker()
        assert set(lab.sylva("retry", "last", "--json").states.values()) == {"done"}


@pytest.mark.slow
def test_without_a_scheduler_the_message_is_plain(cluster: Cluster, lab: Lab) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        answer = finished(
            lab, lab.start("run", lab.write(pipeline(a={})), "--executor", address), code=1
        )
    assert address in answer.err


@pytest.mark.parametrize(
    "address", ["", "somewhere", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1"]
)
def test_what_is_no_address_is_refused_before_anything_is_noted_down(address: str) -> None:
    with refused(BadInput, naming=["tcp://HOST:PORT"]):
        RunOptions(executor=address)


@pytest.mark.parametrize(
    ("said", "threads"), [("", 1), ("4", 4), ("2,1", 2), ("many", 1), ("0", 1)]
)
def test_a_worker_says_how_many_threads_a_node_has(
    said: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert fit_to_this_machine(TASK, 1).threads == threads


def test_no_node_may_have_more_memory_than_its_machine() -> None:
    assert fit_to_this_machine(TASK, 1).memory_limit == usable_memory()
    assert fit_to_this_machine(replace(TASK, memory_limit=10), 1).memory_limit == 10


def test_workers_on_one_machine_share_its_memory() -> None:
    assert fit_to_this_machine(TASK, 4).memory_limit == usable_memory(4)
    assert usable_memory(4) == pytest.approx(usable_memory() / 4, abs=1)


def test_what_answers_but_is_not_a_scheduler_is_not_waited_for() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with refused(SylvaError, naming=[address, "docs/cluster.md"]):
            connect(address, timeout=0.2)


def test_a_web_server_is_not_a_scheduler() -> None:
    server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with refused(SylvaError, naming=[f"tcp://127.0.0.1:{server.server_port}"]):
            connect(f"tcp://127.0.0.1:{server.server_port}", timeout=0.5)
    finally:
        server.shutdown()
        server.server_close()


def test_a_name_that_does_not_exist_is_not_waited_for() -> None:
    address = "tcp://no-such-host.invalid:8786"
    with refused(SylvaError, naming=[address]):
        connect(address, timeout=0.2)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refused(SylvaError, naming=["sylva-studio[cluster]"]):
        DaskExecutor("tcp://127.0.0.1:8786", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
def test_a_worker_that_does_not_see_the_workspace_says_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.workspace.mkdir()
    hidden = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs none {lab.workspace} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode:
        pytest.skip("this container may not mount anything")
    with Cluster(lab) as elsewhere:
        elsewhere.start_worker(within=hidden)
        answer = finished(lab, elsewhere.run(pipeline(node={})), code=1)
        assert all(
            each in answer.message("node") for each in (str(lab.workspace), "tcp://127.0.0.1:")
        )


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
def test_a_workspace_that_is_another_folder_on_a_worker_is_named(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    other = tmp_path / "other"
    for folder in (lab.workspace, other):
        folder.mkdir()
    words = f'mount --bind {other} {lab.workspace} && exec "$@"'
    elsewhere = ["unshare", "--mount", "sh", "-c", words, "sh"]
    if subprocess.run([*elsewhere, "true"], capture_output=True).returncode:
        pytest.skip("this container may not mount anything")
    finished(lab, lab.start_run(pipeline(node={})))
    shutil.copytree(lab.workspace, other, dirs_exist_ok=True)
    with Cluster(lab) as mixed:
        mixed.start_worker(within=elsewhere)
        mixed.start_worker()
        answer = finished(lab, mixed.run(pipeline(**{f"node{i}": {"value": 2} for i in range(4)})))
    whys = {worker["state"]: worker["why"] for worker in answer.json["workers"].values()}
    assert set(whys) == {"admitted", "refused"}
    assert str(lab.workspace) in whys["refused"]


@pytest.mark.slow
def test_workers_with_other_code_or_without_sylva_get_no_node(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    packages = tmp_path / "packages"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, packages / name)
    with (packages / "deepforest" / "metrics.py").open("a") as file:
        file.write("# one line more\n")
    libraries = sysconfig.get_paths()["purelib"]
    with Cluster(lab) as mixed:
        mixed.start_odd_worker(PYTHONPATH=str(packages))
        # -S: Python does not read the file that makes Sylva importable.
        mixed.start_odd_worker("-S", PYTHONPATH=libraries)
        mixed.start_worker()
        answer = finished(lab, mixed.run(pipeline(**{f"node{i}": {} for i in range(6)})))
    assert set(answer.states.values()) == {"done"}
    workers = sorted(answer.json["workers"].values(), key=lambda worker: worker["state"])
    assert [worker["state"] for worker in workers] == ["admitted", "refused", "refused"]
    reasons = " | ".join(worker["why"] for worker in workers)
    assert "source code" in reasons
    assert "Sylva is not installed" in reasons


def test_a_process_of_another_machine_is_left_alone() -> None:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        end_leftover(replace(identify(process.pid), boot="another machine"))
        assert is_alive(identify(process.pid))
    finally:
        process.kill()
        process.wait()
