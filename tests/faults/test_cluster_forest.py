"""A deep forest on a cluster: its fits are spread, and a lost worker costs its own fits only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from tests.cluster import Cluster
from tests.faults.lab import Lab, Outputs
from tests.faults.test_deep_forest import forest, kept_fits
from tests.waiting import until

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
    return Lab(tmp_path_factory.mktemp("local")).run(FORESTS).outputs


def jobs(lab: Lab) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = lab.sylva("show", "last", "forest", "--json").json["jobs"]
    return shown


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
    answer = lab.answer(cluster.run(FORESTS), timeout=120)
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
    until(lambda: kept_fits(lab) >= 3, 60, "three finished fits")
    own = cluster.worker_of(coordinator(cluster))
    (other,) = cluster.workers() - {own}
    before = kept_fits(lab)
    lab.kill(other)
    answer = lab.answer(command, timeout=120)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert before < len(jobs(lab))  # or it was over before the kill
    assert {job["state"] for job in jobs(lab)} == {"done"}  # no fit of the node was begun again
    assert answer.nodes["forest"]["executions"] == 1


def test_when_the_coordinator_is_lost_another_one_goes_on_with_the_finished_fits(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    command = cluster.run(FORESTS)
    until(lambda: kept_fits(lab) >= 4, 60, "four finished fits")
    before = kept_fits(lab)
    lab.kill(cluster.worker_of(coordinator(cluster)))
    answer = lab.answer(command, timeout=120)
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
    answer = lab.answer(cluster.run(both), timeout=150)
    assert answer.code == 0, answer
    assert answer.outputs["forest"] == outputs["forest"]
    assert answer.outputs["second"] != outputs["forest"]


def test_two_runs_of_one_forest_do_the_work_once(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    commands = [cluster.run(FORESTS), cluster.run(FORESTS)]
    answers = [lab.answer(command, timeout=150) for command in commands]
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
    until(lambda: kept_fits(lab) >= 1, 60, "a finished fit")
    lab.sylva("cancel", "last")
    assert lab.answer(command).json["state"] == "cancelled"
    until(lambda: not cluster.nodes(), 10, "the end of all fits")
