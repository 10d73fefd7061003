"""Fits of several workers on a cluster: a lost one starts them again, and the model is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from tests.cluster import Cluster
from tests.faults.lab import Lab, Outputs, Pipeline
from tests.faults.test_deep_forest import forest
from tests.waiting import until

pytestmark = pytest.mark.slow
LONG = 300.0
"""Ranks wait for each other at every split, which takes long on a busy machine."""


def gang_of_two(trees: int = 4) -> Pipeline:
    """Two learners by two folds; each fit of the first has two workers."""
    document = forest()
    document["nodes"]["load"]["params"]["source"] = "sample:breast-cancer"
    document["nodes"]["forest"]["params"] = {
        "learners": [
            {"kind": "mart", "trees": trees, "leaves": 4, "ranks": 2},
            {"kind": "random_forest", "trees": 20},
        ],
        "resampling": "per_layer",
        "folds": 2,
        "max_layers": 1,
    }
    return document


@pytest.fixture
def cluster(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", str(LONG))
    with Cluster(lab) as made:
        made.start_worker()
        made.start_worker()
        made.workers()
        yield made


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What the forest is with two processes of this machine."""
    return local(Lab(tmp_path_factory.mktemp("local")), gang_of_two())


def local(lab: Lab, document: Pipeline) -> Outputs:
    """The outputs of a run on this machine."""
    answer = lab.answer(lab.start("run", lab.write(document), "--json"), timeout=LONG)
    assert answer.code == 0, answer
    return answer.outputs


def jobs(lab: Lab) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = lab.sylva("show", "last", "forest", "--json").json["jobs"]
    return shown


def training(lab: Lab) -> int:
    """How many ranks of a fit are in their training."""
    count = 0
    for sign in lab.workspace.glob("checkpoints/*/gangs/*/rank-*.json"):
        try:
            count += json.loads(sign.read_text())["state"] == "training"
        except (OSError, ValueError):  # it was removed or is being replaced
            continue
    return count


def test_two_workers_find_the_same_model_as_two_processes(
    lab: Lab, cluster: Cluster, outputs: Outputs
) -> None:
    answer = lab.answer(cluster.run(gang_of_two()), timeout=LONG)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    marts = [job for job in jobs(lab) if "mart" in " ".join(job["place"]).lower()]
    assert len(marts) == 2
    for job in marts:
        assert len(job["worker"].split(", ")) == 2


@pytest.mark.parametrize("victim", ["rank", "worker"])
def test_a_lost_rank_starts_the_fit_again(
    lab: Lab, cluster: Cluster, outputs: Outputs, victim: str
) -> None:
    document = gang_of_two(trees=40)
    undisturbed = local(Lab(lab.root / "undisturbed"), document)
    command = cluster.run(document)
    until(lambda: training(lab) == 2, LONG, "two ranks that train")
    own = [pid for pid in cluster.nodes() if has_lock(pid)]
    where = {cluster.worker_of(pid) for pid in own}
    rank = next(pid for pid in cluster.nodes() if cluster.worker_of(pid) not in where)
    lab.kill(rank if victim == "rank" else cluster.worker_of(rank))
    answer = lab.answer(command, timeout=LONG)
    assert answer.code == 0, answer
    assert answer.outputs == undisturbed
    assert answer.nodes["forest"]["executions"] == 1
    log = lab.sylva("show", "last", "forest", "--json").json["log"]
    assert "try 2 of 3" in str(log)


def has_lock(pid: int) -> bool:
    """Whether a process is that of the node: it has the lock of its checkpoints open."""
    return any(file.path.endswith(".lock") for file in psutil.Process(pid).open_files())


def test_a_cluster_with_too_few_workers_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYLVA_CLUSTER_PATIENCE", str(LONG))
    with Cluster(lab) as small:
        small.start_worker()
        small.workers()
        answer = lab.answer(small.run(gang_of_two()), timeout=LONG)
    assert answer.code == 1
    message = answer.nodes["forest"]["error"]["message"]
    assert "2 workers" in message and "1 can be used" in message
