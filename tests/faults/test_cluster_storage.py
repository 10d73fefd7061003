"""A cluster whose workers do not see the workspace: data are in a storage, and none is lost."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from tests.cluster import Cluster
from tests.faults.lab import Answer, Lab, Outputs, Pipeline, pipeline
from tests.faults.test_cluster_forest import coordinator, jobs
from tests.faults.test_cluster_gang import gang_of_two
from tests.faults.test_deep_forest import forest
from tests.nodes.data.object_store import KEY, SECRET, ObjectStore, object_store
from tests.waiting import until

pytestmark = pytest.mark.slow
FORESTS = forest(trees=15)
BUCKET = "s3://lake/runs"
WAIT_SECONDS = 600.0
"""Longer than any step takes, also on a machine that does much else."""


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A server like S3; its credentials are in the environment of every process."""
    with object_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def cluster(lab: Lab, lake: ObjectStore) -> Iterator[Cluster]:
    """A scheduler and two workers that see an empty folder in place of the workspace."""
    lab.workspace.mkdir()
    with Cluster(lab) as made:
        for _ in range(2):
            made.start_worker(within=without(lab.workspace))
        made.workers()
        yield made


def without(folder: Path) -> list[str]:
    """What to put before a command that must not see the files of a folder."""
    script = f'mount -t tmpfs none {folder} && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root and unshare to hide the workspace from the workers")
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("this container may not mount anything")
    return words


def allow(lab: Lab, *addresses: str) -> None:
    listed = ", ".join(f'"{each}"' for each in addresses)
    (lab.workspace / "settings.json").write_text(f'{{"storages": [{listed}]}}')


def fits(lake: ObjectStore) -> set[str]:
    """The finished fits of the forest that the storage has had, by the names of their lists."""
    names = {name for name in list(lake.written) if name.startswith("runs/checkpoints/")}
    lists = {name for name in names if name.endswith(".json")}
    return {name for name in lists if not unquote(Path(name).name).startswith("file ")}


def require_each_fit_once(lake: ObjectStore) -> None:
    repeated = {name for name in fits(lake) if lake.written[name] > 1}
    assert fits(lake) and not repeated


def require_no_secret(lab: Lab, cluster: Cluster, *answers: Answer) -> None:
    """Neither the log of the run nor what its processes have written has credentials."""
    for answer in answers:
        assert SECRET not in answer.out + answer.err and KEY not in answer.out + answer.err
    files = [*lab.workspace.glob("sylva.db*"), *lab.workspace.glob("runs/*/*")]
    for file in [*files, cluster.folder / "log.txt"]:
        content = file.read_bytes()
        assert SECRET.encode() not in content and KEY.encode() not in content, file


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What the forest is without a cluster."""
    return Lab(tmp_path_factory.mktemp("local")).run(FORESTS).outputs


def digits_with_files(lab: Lab) -> Pipeline:
    """A small forest on a file of the workspace, whose model is saved there."""
    (lab.workspace / "data").mkdir(parents=True, exist_ok=True)
    with (lab.workspace / "data" / "points.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["x", "y", "kind"])
        rows.writerows([i % 17, i % 11, "ab"[i % 17 > 8]] for i in range(400))
    document = forest(trees=5)
    document["nodes"]["load"]["params"] = {"source": "points.csv", "target": "kind"}
    document["nodes"]["save"] = {"type": "save-model", "params": {"name": "points"}}
    document["edges"].append({"from": "forest.model", "to": "save.model"})
    return document


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_the_model_is_the_same_as_on_one_machine_and_files_stay_there(
    lab: Lab, cluster: Cluster, kind: str, tmp_path: Path
) -> None:
    address = BUCKET if kind == "s3" else f"file://{tmp_path}/shared"
    allow(lab, address)
    document = digits_with_files(lab)
    answer = lab.answer(cluster.run(document, "--storage", address), timeout=WAIT_SECONDS)
    assert answer.code == 0, answer
    assert (lab.workspace / "models" / "points").is_dir()
    assert "to start with" in " ".join(lab.sylva("show", "last", "forest", "--json").json["log"])
    require_no_secret(lab, cluster, answer)
    local = Lab(tmp_path / "local")
    expected = local.run(digits_with_files(local))
    assert answer.outputs == expected.outputs
    again = lab.answer(cluster.run(document, "--storage", address), timeout=WAIT_SECONDS)
    assert again.states == {"load": "cached", "forest": "cached", "save": "done"}


def test_a_killed_worker_costs_its_own_fit_only(
    lab: Lab, lake: ObjectStore, cluster: Cluster, outputs: Outputs
) -> None:
    allow(lab, BUCKET)
    command = cluster.run(FORESTS, "--storage", BUCKET)
    until(lambda: len(fits(lake)) >= 3, WAIT_SECONDS, "three finished fits")
    own = cluster.worker_of(coordinator(cluster))
    (other,) = cluster.workers() - {own}
    lab.kill(other)
    answer = lab.answer(command, timeout=WAIT_SECONDS)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert answer.nodes["forest"]["executions"] == 1
    assert {job["state"] for job in jobs(lab)} == {"done"}
    require_each_fit_once(lake)


def test_when_the_coordinator_is_lost_another_one_goes_on_with_the_finished_fits(
    lab: Lab, lake: ObjectStore, cluster: Cluster, outputs: Outputs
) -> None:
    allow(lab, BUCKET)
    command = cluster.run(FORESTS, "--storage", BUCKET)
    until(lambda: len(fits(lake)) >= 4, WAIT_SECONDS, "four finished fits")
    before = len(fits(lake))
    lab.kill(cluster.worker_of(coordinator(cluster)))
    answer = lab.answer(command, timeout=WAIT_SECONDS)
    assert answer.code == 0, answer
    assert answer.outputs == outputs
    assert answer.nodes["forest"]["executions"] == 2
    assert [job["state"] for job in jobs(lab)].count("reused") >= before
    require_each_fit_once(lake)


def test_a_run_whose_supervisor_was_killed_resumes_with_the_finished_fits(
    lab: Lab, lake: ObjectStore, cluster: Cluster, outputs: Outputs
) -> None:
    allow(lab, BUCKET)
    command = cluster.run(FORESTS, "--storage", BUCKET)
    until(lambda: len(fits(lake)) >= 3, WAIT_SECONDS, "three finished fits")
    lab.kill(*cluster.supervisors())
    before = len(fits(lake))
    assert lab.answer(command).json["state"] == "interrupted"
    resumed = lab.answer(lab.start("resume", "last", "--json"), timeout=WAIT_SECONDS)
    assert resumed.code == 0, resumed
    assert resumed.outputs == outputs
    assert [job["state"] for job in jobs(lab)].count("reused") >= before
    require_each_fit_once(lake)


def test_two_runs_of_one_forest_at_once_find_the_same_model(
    lab: Lab, lake: ObjectStore, cluster: Cluster, outputs: Outputs
) -> None:
    """They may do the same fit twice, and the first to end removes the fits of the other."""
    allow(lab, BUCKET)
    commands = [cluster.run(FORESTS, "--storage", BUCKET) for _ in range(2)]
    for command in commands:
        answer = lab.answer(command, timeout=WAIT_SECONDS)
        assert answer.code == 0, answer
        assert answer.outputs == outputs


def test_workers_that_see_a_storage_only_do_not_share_a_fit(lab: Lab, lake: ObjectStore) -> None:
    """It is refused before the cluster is asked."""
    lab.workspace.mkdir()
    allow(lab, BUCKET)
    words = ("--executor", "tcp://127.0.0.1:9", "--storage", BUCKET)
    answer = lab.answer(lab.start("run", lab.write(gang_of_two()), "--json", *words))
    assert answer.code == 2
    assert "ranks" in answer.out and "2 workers per fit" in answer.out
    assert lab.sylva("runs", "--json").json == []


def test_a_storage_that_is_away_for_some_seconds_fails_nothing(
    lab: Lab, lake: ObjectStore, cluster: Cluster, outputs: Outputs
) -> None:
    allow(lab, BUCKET)
    command = cluster.run(FORESTS, "--storage", BUCKET)
    until(lambda: len(fits(lake)) >= 2, WAIT_SECONDS, "two finished fits")
    lake.is_down = True
    time.sleep(3)
    lake.is_down = False
    answer = lab.answer(command, timeout=WAIT_SECONDS)
    assert answer.code == 0, answer
    assert answer.outputs == outputs


def test_a_worker_that_cannot_use_the_storage_gets_no_node(lab: Lab, cluster: Cluster) -> None:
    allow(lab, BUCKET)
    cluster.start_odd_worker(AWS_ACCESS_KEY_ID="AKIAOTHER")
    document = pipeline(**{f"node{i}": {} for i in range(6)})

    def check() -> list[dict[str, str]]:
        words = ("cluster", "check", cluster.address, "--storage", BUCKET, "--json")
        found: list[dict[str, str]] = lab.sylva(*words).json
        return found if len(found) == 3 else []

    workers = until(check, WAIT_SECONDS, "three checked workers")
    assert sorted(worker["state"] for worker in workers) == ["admitted", "admitted", "refused"]
    (why,) = [worker["why"] for worker in workers if worker["why"]]
    assert "credentials" in why and BUCKET in why and "AKIAOTHER" not in why
    answer = lab.answer(cluster.run(document, "--storage", BUCKET), timeout=WAIT_SECONDS)
    assert set(answer.states.values()) == {"done"}, answer
    require_no_secret(lab, cluster, answer)


def test_what_a_failed_node_has_saved_and_printed_arrives(lab: Lab, cluster: Cluster) -> None:
    allow(lab, BUCKET)
    document = pipeline(
        often={"action": "fail-times", "amount": 1, "settings": {"retries": 1}},
        crash={"action": "segfault"},
    )
    answer = lab.answer(cluster.run(document, "--storage", BUCKET), timeout=WAIT_SECONDS)
    assert answer.states == {"often": "done", "crash": "failed"}
    assert "SIGSEGV" in answer.message("crash")
    log = lab.sylva("show", "last", "often", "--json").json["log"]
    assert len([line for line in log if "probe does" in line]) == 2


@pytest.mark.parametrize(
    ("address", "change", "naming"),
    [
        ("s3://other/runs", {}, "bucket"),
        (BUCKET, {"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, "credentials"),
        (BUCKET, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_a_storage_that_cannot_be_used_is_explained_before_any_node_runs(
    lab: Lab,
    lake: ObjectStore,
    address: str,
    change: dict[str, str],
    naming: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No cluster is asked: the storage is checked first."""
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    lab.workspace.mkdir()
    words = ("--json", "--executor", "tcp://127.0.0.1:9", "--storage", address)
    command = lab.start("run", lab.write(pipeline(node={})), *words)
    refusal = lab.answer(command)
    assert refusal.code == 2 and "storages" in refusal.out + refusal.err, refusal
    allow(lab, address)
    command = lab.start("run", lab.write(pipeline(node={})), *words)
    answer = lab.answer(command)
    assert answer.code == 1
    assert naming in answer.json["error"] and address in answer.json["error"]
    assert not any(each in answer.out + answer.err for each in (KEY, SECRET, "AKIAOTHER"))
