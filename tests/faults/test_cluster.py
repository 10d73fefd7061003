"""Faults of a Dask cluster: the scheduler dies, a worker leaves or loses its connection."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from tests.cluster import Cluster, parent
from tests.faults.lab import Lab, Outputs, Pipeline, diamond, pipeline
from tests.faults.test_deep_forest import forest
from tests.waiting import until

pytestmark = pytest.mark.slow

Undisturbed = Callable[[Pipeline], Outputs]
ASLEEP = diamond(action="stubborn", amount=600, first=1)
"""A diamond whose left node, the first time, sleeps for longer than any test."""

SETTINGS = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s"}
"""Seconds of silence after which a connection is lost: the least that Dask takes (default 30)."""


def only_left_runs(cluster: Cluster) -> int:
    """Wait until all else that can be done is done; the process of the node that sleeps."""
    until(lambda: {"left", "right"} <= set(cluster.lab.trace()) and len(cluster.nodes()) == 1, 120)
    return cluster.nodes()[0]


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab) as made:
        made.start_worker()
        made.start_worker()
        yield made


def test_a_worker_that_leaves_costs_only_the_node_it_ran(
    lab: Lab, cluster: Cluster, undisturbed: Undisturbed
) -> None:
    command = cluster.run(ASLEEP)
    nanny = parent(cluster.worker_of(only_left_runs(cluster)))
    lab.kill(nanny, with_signal=signal.SIGTERM)
    answer = lab.answer(command)
    assert answer.code == 0, answer
    assert cluster.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    assert answer.outputs == undisturbed(ASLEEP)


def test_without_its_scheduler_a_run_fails_plainly_and_its_nodes_end(
    lab: Lab, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", "20")
    cluster.workers()
    command = cluster.run(ASLEEP)
    only_left_runs(cluster)
    lab.kill(cluster.scheduler.pid)
    answer = lab.answer(command, timeout=90)
    assert (answer.code, answer.states["left"], answer.states["join"]) == (1, "failed", "skipped")
    assert answer.nodes["left"]["error"]["kind"] == "lost"
    assert cluster.address in answer.message("left")
    until(lambda: not cluster.nodes(), 60, "the end of a node that is not needed")


def test_a_killed_host_fails_the_node_it_ran_and_is_replaced(lab: Lab, cluster: Cluster) -> None:
    document = diamond(action="stubborn", amount=600, first=1, settings={"retries": 1})
    command = cluster.run(document)
    node = only_left_runs(cluster)
    lab.kill(parent(parent(node)))
    answer = lab.answer(command)
    assert answer.code == 0, answer
    assert lab.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    assert node not in cluster.nodes()


def test_a_run_resumed_at_once_after_its_supervisor_was_killed_does_nothing_twice(
    lab: Lab, cluster: Cluster
) -> None:
    command = cluster.run(ASLEEP)
    only_left_runs(cluster)
    lab.kill(*cluster.supervisors())
    assert lab.resume().code == 0
    assert lab.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    assert lab.answer(command).json["state"] == "interrupted"


def certificates(folder: Path) -> dict[str, str]:
    """Dask's settings for encrypted connections, with a certificate that is its own authority."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=sylva-test", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    before = "DASK_DISTRIBUTED__COMM__"
    settings = {
        f"{before}REQUIRE_ENCRYPTION": "true",
        f"{before}TLS__CA_FILE": str(certificate),
    }
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"{before}TLS__{role}__CERT"] = str(certificate)
        settings[f"{before}TLS__{role}__KEY"] = str(key)
    return settings


def use(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the command openssl")
def test_an_encrypted_cluster_serves_only_who_has_a_certificate(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = forest(trees=10)
    with Cluster(lab, settings=certificates(tmp_path), protocol="tls") as cluster:
        cluster.start_worker()
        assert cluster.address.startswith("tls://")
        stranger = lab.answer(cluster.run(document), timeout=60)
        assert stranger.code == 1
        assert "needs a certificate" in stranger.json["error"]
        other = tmp_path / "other"
        other.mkdir()
        use(certificates(other), monkeypatch)
        foreign = lab.answer(cluster.run(document), timeout=60)
        assert foreign.code == 1
        assert "does not accept the certificate" in foreign.json["error"]
        use(cluster.settings, monkeypatch)
        answer = lab.answer(cluster.run(document), timeout=120)
        assert answer.code == 0, answer
    assert answer.outputs == Lab(tmp_path / "local").run(document).outputs


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("nsenter"), reason="needs root and nsenter"
)
def test_a_worker_that_loses_its_disk_gives_its_nodes_to_another(lab: Lab) -> None:
    own_mounts = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*own_mounts, "true"], capture_output=True).returncode:
        pytest.skip("this container may not have mounts of its own")
    document = pipeline(
        gate={"action": "gate"}, **{f"node{i}": {"after": "gate"} for i in range(6)}
    )
    with Cluster(lab) as cluster:
        cluster.start_worker(within=own_mounts)
        cluster.start_worker(within=own_mounts)
        command = cluster.run(document)
        lab.begun("gate")
        until(lambda: len(lab.show().json["workers"]) == 2, 30, "two admitted workers")
        (gate,) = cluster.nodes()
        (other,) = cluster.workers() - {cluster.worker_of(gate)}
        words = ["nsenter", "--mount", "-t", str(other)]
        subprocess.run([*words, "mount", "-t", "tmpfs", "none", str(lab.workspace)], check=True)
        lab.open_gate()
        answer = lab.answer(command)
    assert answer.code == 0, answer
    assert cluster.executions() == dict.fromkeys(document["nodes"], 1)
    states = {worker["state"]: worker["why"] for worker in answer.json["workers"].values()}
    assert set(states) == {"admitted", "refused"}
    assert str(lab.workspace) in states["refused"]


@dataclass(frozen=True)
class Network:
    """A switch with three hosts. Names contain the process id: two test runs do not collide."""

    prefix: str
    hosts: tuple[str, ...] = ("a", "b", "c")

    @property
    def switch(self) -> str:
        return f"{self.prefix}s"

    def address(self, host: str) -> str:
        return f"10.77.0.{self.hosts.index(host) + 1}"

    def within(self, host: str) -> list[str]:
        """What to put before a command to run it on a host."""
        return ["ip", "netns", "exec", f"{self.prefix}{host}"]

    def make(self) -> None:
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "name", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "dev", "bridge", "up")
        for host in self.hosts:
            space = f"{self.prefix}{host}"
            ip("netns", "add", space)
            ip(
                "link",
                "add",
                "name",
                "wire",
                "netns",
                space,
                "type",
                "veth",
                "peer",
                "name",
                host,
                "netns",
                self.switch,
            )
            ip("-n", self.switch, "link", "set", "dev", host, "master", "bridge", "up")
            ip("-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "wire")
            ip("-n", space, "link", "set", "dev", "wire", "up")
            ip("-n", space, "link", "set", "dev", "lo", "up")

    def cut_off(self, host: str) -> None:
        ip("-n", self.switch, "link", "set", "dev", host, "down")

    def remove(self) -> None:
        for space in (*(f"{self.prefix}{host}" for host in self.hosts), self.switch):
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(f"sy{os.getpid()}")
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"no networks can be made here: {error.stderr.decode().strip()}")
    yield made
    made.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make networks")
@pytest.mark.skipif(not shutil.which("ip"), reason="needs the command ip (package iproute2)")
def test_a_worker_that_is_cut_off_costs_only_the_node_it_ran(
    lab: Lab, network: Network, undisturbed: Undisturbed
) -> None:
    with Cluster(lab, network.address("a"), network.within("a"), SETTINGS) as cluster:
        host_of = {
            cluster.start_worker(host=network.address(host), within=network.within(host)).pid: host
            for host in "bc"
        }
        command = cluster.run(ASLEEP)
        node = only_left_runs(cluster)
        network.cut_off(host_of[parent(cluster.worker_of(node))])
        answer = lab.answer(command, timeout=120)
        assert answer.code == 0, answer
        assert cluster.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
        assert node not in cluster.nodes()
    assert answer.outputs == undisturbed(ASLEEP)
