"""A deep forest on a cluster: its fits are spread, and a lost worker costs its own fits only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from tests.cluster import Cluster, parent
from tests.faults.lab import Answer, Lab, Outputs
from tests.faults.test_cluster import SETTINGS, Network, network
from tests.faults.test_deep_forest import forest, kept_fits
from tests.waiting import until

__all__ = ["network"]
pytestmark = pytest.mark.slow
FORESTS = forest(trees=60)


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab) as made:
        made.start_worker()
        made.start_worker()
        made.workers()
        yield made


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What the forest is without a cluster."""
    local = Lab(tmp_path_factory.mktemp("local"))
    return local.answer(local.start_run(FORESTS), timeout=400).outputs


def jobs(lab: Lab) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = lab.sylva("show", "last", "forest", "--json").json["jobs"]
    return shown


def log(lab: Lab) -> str:
    shown = lab.sylva("show", "last", "forest", "--json").json
    return "\n".join(shown["log"])


def nothing_was_done_twice(lab: Lab, answer: Answer, outputs: Outputs) -> None:
    """The coordinator went on to the end, and the model is that of one machine."""
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert {job["state"] for job in jobs(lab)} == {"done"}
    assert answer.nodes["forest"]["executions"] == 1


def coordinator(cluster: Cluster) -> int:
    """The process of the forest node: it has the lock of its checkpoints open."""
    for pid in cluster.nodes():
        for file in psutil.Process(pid).open_files():
            if Path(file.path).name == ".lock":
                return pid
    return 0


def test_the_fits_are_spread_and_the_model_is_the_same(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    answer = lab.answer(cluster.run(FORESTS), timeout=400)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    fits = Counter(job["worker"] for job in jobs(lab))
    assert len(fits) == 2
    # Neither of two workers does much more than the other.
    assert min(fits.values()) >= 0.3 * fits.total()


def test_a_killed_worker_costs_its_own_fit_only(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    command = cluster.run(FORESTS)
    until(lambda: kept_fits(lab) >= 3, 180, "three finished fits")
    own = cluster.worker_of(coordinator(cluster))
    (other,) = cluster.workers() - {own}
    before = kept_fits(lab)
    lab.kill(other)
    answer = lab.answer(command, timeout=400)
    nothing_was_done_twice(lab, answer, outputs)
    assert before < len(jobs(lab))  # or it was over before the kill
    # One thread: at most the fit that it was doing, and the one that waited for it.
    repeated = re.findall(r"(layer \d+ learner \d+ fold .*) is repeated on", log(lab))
    assert len(repeated) == len(set(repeated)) <= 2
    assert [worker["state"] for worker in answer.json["workers"].values()].count("lost") == 1


def test_when_the_coordinator_is_lost_another_one_goes_on_with_the_finished_fits(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    command = cluster.run(FORESTS)
    until(lambda: kept_fits(lab) >= 4, 180, "four finished fits")
    before = kept_fits(lab)
    lab.kill(cluster.worker_of(coordinator(cluster)))
    answer = lab.answer(command, timeout=400)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert answer.nodes["forest"]["executions"] == 2
    assert [job["state"] for job in jobs(lab)].count("reused") >= before


def test_two_forests_share_one_cluster(lab: Lab, cluster: Cluster, outputs: Outputs) -> None:
    both = forest(trees=60)
    both["nodes"]["second"] = {
        "type": "deep-forest",
        "params": {**both["nodes"]["forest"]["params"], "seed": 7},
    }
    both["edges"].append({"from": "load.table", "to": "second.table"})
    answer = lab.answer(cluster.run(both), timeout=400)
    assert answer.code == 0, answer
    assert answer.outputs["forest"] == outputs["forest"]
    assert answer.outputs["second"] != outputs["forest"]


def test_two_runs_of_one_forest_do_the_work_once(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    commands = [cluster.run(FORESTS), cluster.run(FORESTS)]
    answers = [lab.answer(command, timeout=400) for command in commands]
    fits = []
    for answer in answers:
        assert answer.code == 0, answer
        assert answer.outputs == outputs
        shown = lab.sylva("show", answer.json["run"], "forest", "--json").json["jobs"]
        fits.append(len(shown))
    assert sorted(fits)[0] == 0
    assert sorted(fits)[1] > 0


def test_a_cancelled_forest_leaves_no_process(lab: Lab, cluster: Cluster) -> None:
    command = cluster.run(forest(trees=400))
    until(lambda: kept_fits(lab) >= 1, 180, "a finished fit")
    lab.sylva("cancel", "last")
    assert lab.answer(command).json["state"] == "cancelled"
    until(lambda: not cluster.nodes(), 10, "the end of all fits")


def test_one_worker_with_one_thread_grows_two_forests(lab: Lab, outputs: Outputs) -> None:
    both = forest(trees=60)
    both["nodes"]["second"] = both["nodes"]["forest"] | {"settings": {"retries": 1}}
    both["nodes"]["second"]["params"] = {**both["nodes"]["forest"]["params"], "seed": 7}
    both["edges"].append({"from": "load.table", "to": "second.table"})
    with Cluster(lab) as small:
        small.start_worker()
        command = small.run(both)
        until(lambda: kept_fits(lab) >= 1, 180, "a finished fit")
        # The first does not keep the second from beginning: its thread is free while it waits.
        until(lambda: set(lab.show().states.values()) == {"done", "running"}, 180, "two forests")
        answer = lab.answer(command, timeout=400)
    assert answer.code == 0, answer
    assert answer.outputs["forest"] == outputs["forest"]


def test_a_run_goes_on_when_its_scheduler_is_restarted(
    lab: Lab, cluster: Cluster, outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", "300")  # a busy machine starts workers slowly
    command = cluster.run(FORESTS)
    until(lambda: kept_fits(lab) >= 4, 180, "four finished fits")
    before = kept_fits(lab)
    cluster.restart_scheduler()
    cluster.start_worker()
    answer = lab.answer(command, timeout=400)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert [job["state"] for job in jobs(lab)].count("reused") >= before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make networks")
@pytest.mark.skipif(not shutil.which("ip"), reason="needs the command ip (package iproute2)")
def test_a_worker_that_is_cut_off_costs_its_own_fits_only(
    lab: Lab, network: Network, outputs: Outputs
) -> None:
    with Cluster(lab, network.address("a"), network.within("a"), SETTINGS) as far:
        host_of = {
            far.start_worker(host=network.address(host), within=network.within(host)).pid: host
            for host in "bc"
        }
        workers = far.workers()
        command = far.run(FORESTS)
        until(lambda: kept_fits(lab) >= 3, 180, "three finished fits")
        (other,) = workers - {far.worker_of(coordinator(far))}
        network.cut_off(host_of[parent(other)])
        answer = lab.answer(command, timeout=400)
    nothing_was_done_twice(lab, answer, outputs)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
def test_a_fit_that_needs_more_memory_goes_to_a_larger_worker(lab: Lab, tmp_path: Path) -> None:
    # The limit of a control group, as this worker sees it: 8 MB, too few for some of the fits.
    groups = "mount -t tmpfs none /sys/fs/cgroup && echo 9500000 > /sys/fs/cgroup/memory.max"
    small = ["unshare", "--mount", "sh", "-c", f'{groups} && exec "$@"', "sh"]
    if subprocess.run([*small, "true"], capture_output=True).returncode:
        pytest.skip("this container may not mount anything")
    document = forest(trees=600)
    document["nodes"]["forest"]["params"] |= {"folds": 3, "max_layers": 1}
    with Cluster(lab) as mixed:
        mixed.start_worker()
        mixed.workers()
        command = mixed.run(document)
        # The node itself must not begin on the small worker.
        until(lambda: coordinator(mixed), 180, "the node")
        mixed.start_worker(within=small)
        answer = lab.answer(command, timeout=400)
        nothing_was_done_twice(lab, answer, Lab(tmp_path / "local").run(document).outputs)
        assert "is repeated on a worker with more memory" in log(lab)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
def test_a_fit_that_needs_more_memory_than_any_worker_has_says_so(lab: Lab) -> None:
    groups = "mount -t tmpfs none /sys/fs/cgroup && echo max > /sys/fs/cgroup/memory.max"
    limited = ["unshare", "--mount", "sh", "-c", f'{groups} && exec "$@"', "sh"]
    if subprocess.run([*limited, "true"], capture_output=True).returncode:
        pytest.skip("this container may not mount anything")
    document = forest(trees=600)
    document["nodes"]["forest"]["params"] |= {"folds": 3, "max_layers": 1}
    with Cluster(lab) as small:
        small.start_worker(within=limited)
        (worker,) = small.workers()
        command = small.run(document)
        # The node itself must begin with enough memory.
        files = lab.workspace / "checkpoints"
        until(lambda: list(files.glob("*/data/mask-*")), 180, "the files of the first fits")
        Path(f"/proc/{worker}/root/sys/fs/cgroup/memory.max").write_text("9500000")
        answer = lab.answer(command, timeout=400)
    assert answer.code == 1
    error = answer.nodes["forest"]["error"]
    assert error["kind"] == "memory"
    assert "no worker of the cluster has more" in error["message"]
    assert "fold" in error["message"]
