"""The command line from the outside: real pipelines, real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = str(ROOT / "tests" / "plugin")
SAMPLES = sorted((ROOT / "sample_pipelines").glob("*.json"))


class Sylva:
    """The installed command in a workspace of its own."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace

    def __call__(self, *arguments: object, code: int = 0) -> str:
        command = [sys.executable, "-c", "from engine.cli import main; main()", *map(str, arguments)]
        environment = os.environ | {"SYLVA_WORKSPACE": str(self.workspace), "PYTHONPATH": PLUGIN}
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        self.errors = done.stderr
        return done.stdout

    def json(self, *arguments: object, code: int = 0):
        return json.loads(self(*arguments, "--json", code=code))


@pytest.fixture(scope="module")
def sylva(tmp_path_factory: pytest.TempPathFactory) -> Sylva:
    return Sylva(tmp_path_factory.mktemp("workspace"))


SHORTER = {
    "fraud_cascade": ("load.rows=30000", "cascade.max_layers=1"),
    "imbalanced_fraud": ("load.rows=30000",),
    "screening": ("screened.max_layers=2", "plain.max_layers=2", "inspect.rows=300"),
    "digits_inside": ("inspect.rows=300",),
}
"""What is set smaller so that the tests are quick; all nodes run."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_pipeline_runs_and_judges_real_models(sylva: Sylva, sample: Path) -> None:
    assert json.loads(sample.read_text())["description"]
    outcome = sylva.json("run", sample, *(word for given in SHORTER.get(sample.stem, ()) for word in ("--set", given)))
    assert outcome["state"] == "done"
    (report,) = (report for report in outcome["reports"].values() if report["kind"] != "saved-model")
    assert report["headline"].get("accuracy", report["headline"].get("value")) > 0.3


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_pipeline_is_written_as_the_studio_would_write_it(sample: Path) -> None:
    from engine.pipeline_file import dumps, read

    assert dumps(read(sample)) == sample.read_text()


def test_a_replay_gives_the_same_report_from_the_store(sylva: Sylva) -> None:
    first = sylva.json("run", SAMPLES[0])
    again = sylva.json("run", SAMPLES[0])
    assert {node["state"] for node in again["nodes"].values()} == {"cached"}
    assert again["reports"] == first["reports"]


def test_a_fresh_run_gives_the_same_bytes(sylva: Sylva, tmp_path: Path) -> None:
    """Nothing in the outputs depends on the workspace, the time or the order in which nodes ran."""
    sample = ROOT / "sample_pipelines" / "model_comparison.json"
    first, second = sylva.json("run", sample), Sylva(tmp_path).json("run", sample, "--workers", 1)
    assert {name: node["outputs"] for name, node in first["nodes"].items()} == {
        name: node["outputs"] for name, node in second["nodes"].items()
    }


def probes(folder: Path, **nodes: dict) -> Path:
    """A chain of probes, in the order given."""
    names = list(nodes)
    document = {
        "format": "sylva-pipeline", "version": 1, "name": "probes",
        "nodes": {name: {"type": "probe", "params": params} for name, params in nodes.items()},
        "edges": [{"from": f"{a}.report", "to": f"{b}.reports"} for a, b in pairwise(names)],
    }  # fmt: skip
    path = folder / "probes.json"
    path.write_text(json.dumps(document))
    return path


def test_a_failed_run_is_mended_and_retried_without_running_the_rest_again(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = probes(tmp_path, a={"value": 41}, b={"action": "fail-times", "amount": 1, "value": 1}, c={})
    sylva("run", pipeline, code=1)
    assert "Node 'b': RuntimeError: failing, time 1" in sylva.errors
    assert "sylva retry" in sylva.errors
    assert "Traceback" not in sylva.errors
    outcome = sylva.json("retry", "last")
    assert [outcome["nodes"][name]["executions"] for name in "abc"] == [1, 2, 1]
    assert outcome["reports"]["c"]["headline"]["value"] == 42
    assert sylva.json("retry", "last")["state"] == "done"


def test_a_run_that_met_a_limit_goes_on_under_another(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = probes(tmp_path, a={"action": "sleep", "amount": 1.0, "value": 77})
    sylva("run", pipeline, "--timeout", 0.2, code=1)
    assert "took longer than its timeout of 0.2 s" in sylva.errors
    assert sylva.json("retry", "last", "--timeout", 60)["state"] == "done"


def test_a_run_that_is_done_is_left_alone(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", probes(tmp_path, a={"value": 78}))
    assert "is done already" in sylva("retry", "last")
    assert sylva.json("resume", "last")["state"] == "done"


def test_a_run_up_to_a_node_tells_that_nodes_report(sylva: Sylva, tmp_path: Path) -> None:
    outcome = sylva.json("run", probes(tmp_path, a={"value": 79}, b={}, c={}), "--to", "b")
    assert list(outcome["reports"]) == ["b"]


def test_a_list_of_runs_tells_them_apart(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", probes(tmp_path, a={"value": 80}), "--set", "a.value=81")
    row = sylva.json("runs", "--limit", 1)[0]
    assert (row["headline"], row["changed"]) == ("value 81", "a.value=81")


def test_an_empty_pipeline_has_nothing_to_run(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", probes(tmp_path), code=2)
    assert "no nodes yet" in sylva.errors


def test_bad_input_found_while_running_exits_with_2(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", probes(tmp_path, a={"action": "bad-input"}), code=2)
    assert "Node 'a', field 'action': the probe was told to refuse" in sylva.errors


def test_progress_and_log_of_a_node_can_be_read(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", probes(tmp_path, a={"action": "sleep", "amount": 0.3, "value": 5}))
    assert "a: started" in sylva.errors
    details = sylva.json("show", "last", "a")
    assert "probe does sleep" in details["log"][0]
    assert details["outputs"]["report"]["report"]["headline"] == {"value": 5}


def test_setting_a_parameter_changes_this_run_only(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = probes(tmp_path, a={"value": 1})
    before = pipeline.read_text()
    assert sylva.json("run", pipeline, "--set", "a.value=7")["reports"]["a"]["headline"] == {"value": 7}
    assert pipeline.read_text() == before


def test_to_and_from_choose_what_runs(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = probes(tmp_path, a={"value": 100}, b={"value": 101}, c={"value": 102})
    assert list(sylva.json("run", pipeline, "--to", "b")["nodes"]) == ["a", "b"]
    outcome = sylva.json("run", pipeline, "--from", "b")
    assert [node["state"] for node in outcome["nodes"].values()] == ["cached", "done", "done"]


def test_an_absolute_path_works_from_the_command_line(sylva: Sylva, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)))
    pipeline = ROOT / "sample_pipelines" / "first_pipeline.json"
    outcome = sylva.json("run", pipeline, "--to", "load", "--set", f"load.source={table}", "--set", "load.target=y")
    assert outcome["state"] == "done"


def test_a_changed_file_is_read_again_a_touched_one_changes_nothing_below(sylva: Sylva, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)))
    first = ROOT / "sample_pipelines" / "first_pipeline.json"
    arguments = ["run", first, "--to", "split", "--set", f"load.source={table}", "--set", "load.target=y"]
    sylva(*arguments)
    os.utime(table, (1, 1))
    assert [node["state"] for node in sylva.json(*arguments)["nodes"].values()] == ["done", "cached"]
    table.write_text(table.read_text() + "99,a\n")
    assert [node["state"] for node in sylva.json(*arguments)["nodes"].values()] == ["done", "done"]


def test_modules_in_the_current_folder_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "networkx.py").write_text("raise SystemExit('a stranger was loaded')")
    command = Path(sys.executable).with_name("sylva")
    pipeline = probes(tmp_path, a={"value": 1})
    environment = os.environ | {"SYLVA_WORKSPACE": str(tmp_path / "workspace"), "PYTHONPATH": PLUGIN}
    done = subprocess.run([command, "run", pipeline], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_detached_run_goes_on_by_itself(sylva: Sylva, tmp_path: Path) -> None:
    run = sylva.json("run", probes(tmp_path, a={"action": "sleep", "amount": 0.4, "value": 9}), "--detach")["run"]
    while (outcome := sylva.json("show", run))["state"] in ("starting", "running"):
        pass
    assert outcome["state"] == "done"


def test_garbage_collection_keeps_the_newest_runs(tmp_path: Path) -> None:
    sylva = Sylva(tmp_path / "workspace")
    old, new = (sylva.json("run", probes(tmp_path, a={"value": value}))["run"] for value in (1, 2))
    freed = sylva.json("gc", "--keep", 1)
    assert freed["forgotten_runs"] == 1
    assert freed["freed_bytes"] > 0
    assert [row["run"] for row in sylva.json("runs")] == [new]
    sylva("show", old, code=2)
    assert sylva.json("run", probes(tmp_path, a={"value": 2}))["nodes"]["a"]["state"] == "cached"


def test_runs_nodes_and_schema_speak_json(sylva: Sylva) -> None:
    assert {"run", "state", "pipeline"} <= set(sylva.json("runs")[0])
    assert {"load-data", "split", "mart", "evaluate"} <= {each["name"] for each in sylva.json("nodes")}
    assert sylva.json("nodes", "mart")["params"]["properties"]
    assert sylva.json("schema")["$schema"]
    sylva("nodes", "nothing", code=2)


def test_the_reference_page_is_the_one_the_node_types_give() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-c", "from engine.cli import main; main()", "nodes", "--markdown"]
    page = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=True).stdout
    assert (ROOT / "docs" / "nodes.md").read_text() == page, "renew it: sylva nodes --markdown > docs/nodes.md"


@pytest.mark.parametrize(
    ("imported", "slow"),
    [
        ("engine.cli.commands", ["networkx", "pydantic", "pyarrow", "numpy"]),
        ("nodes", ["pyarrow", "numpy", "sklearn", "lightgbm", "numba"]),
    ],
)
def test_help_and_catalogue_load_nothing_slow(imported: str, slow: list[str]) -> None:
    code = f"import sys, {imported}; print([name for name in {slow} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
