"""The command line: real pipelines, real runs. Most commands are called in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from engine.pipeline import Node, Pipeline
from engine.pipeline_file import dumps, read
from nodes import NODE_TYPES
from tests.command_line import ROOT, SAMPLES, Sylva, pipeline_of_probes
from ui.cli.node_reference import markdown_page

FIRST = ROOT / "sample_pipelines" / "first_pipeline.json"

SMALL: dict[str, dict[str, Any]] = {
    "first_pipeline": {"mart.trees": 5},
    "deep_forest": {
        "forest.learners": [
            {"kind": "random_forest", "trees": 5},
            {"kind": "extra_trees", "trees": 5},
        ],
        "forest.max_layers": 1,
        "mart.trees": 3,
    },
    "sweep": {
        "forest.learners": [{"kind": "random_forest", "trees": 5}],
        "forest.folds": 2,
        "forest.max_layers": 1,
        "forest.gamma": 0.5,
        "random_forest.trees": 5,
    },
}
"""Samples that `make test` runs, with settings that make them quick; all nodes run. `make faults`
runs all samples in full."""


@pytest.fixture(scope="module")
def sylva(tmp_path_factory: pytest.TempPathFactory) -> Sylva:
    return Sylva(tmp_path_factory.mktemp("workspace"))


def assert_models_are_evaluated(outcome: dict[str, Any]) -> None:
    assert outcome["state"] == "done"
    (report,) = (
        report for report in outcome["reports"].values() if report["kind"] != "saved-model"
    )
    assert report["headline"].get("accuracy", report["headline"].get("value")) > 0.3


@pytest.mark.parametrize("sample", SMALL)
def test_the_main_samples_run_in_small_form(sylva: Sylva, sample: str) -> None:
    settings = [
        word
        for name, value in SMALL[sample].items()
        for word in ("--set", f"{name}={json.dumps(value)}")
    ]
    assert_models_are_evaluated(
        sylva.json("run", ROOT / "sample_pipelines" / f"{sample}.json", *settings)
    )


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_runs_in_full(sylva: Sylva, sample: Path) -> None:
    assert_models_are_evaluated(sylva.json("run", sample))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_described_valid_and_written_as_the_studio_would_write_it(
    sylva: Sylva, sample: Path
) -> None:
    document = read(sample)
    assert document.description
    assert dumps(document) == sample.read_text()
    assert sylva.json("validate", sample)["valid"]


def test_validate_lists_hints_about_data(sylva: Sylva, tmp_path: Path) -> None:
    rows = "".join(f"{index},{'yes' if index % 3 else 'no'}\n" for index in range(60))
    (tmp_path / "t.csv").write_text(f"row_id,y\n{rows}")
    params = {"source": str(tmp_path / "t.csv"), "target": "y"}
    file = tmp_path / "p.json"
    file.write_text(
        dumps(Pipeline(name="p", nodes={"load": Node(type="load-data", params=params)}))
    )
    assert "Hint: Node 'load', field 'roles': the column 'row_id'" in sylva("validate", file)
    [hint] = sylva.json("validate", file)["hints"]
    assert (hint["code"], hint["severity"], hint["node"]) == ("data-hint", "warning", "load")


def test_a_replay_gives_the_same_report_from_the_store(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = pipeline_of_probes(tmp_path, a={"value": 60}, b={"value": 1})
    first, again = sylva.json("run", pipeline), sylva.json("run", pipeline)
    assert {node["state"] for node in again["nodes"].values()} == {"cached"}
    assert again["reports"] == first["reports"]


@pytest.mark.slow
def test_a_fresh_run_gives_the_same_bytes(sylva: Sylva, tmp_path: Path) -> None:
    """Nothing in the outputs depends on the workspace, the time or the order in which nodes ran."""
    words = ["run", ROOT / "sample_pipelines" / "model_comparison.json"]
    for name, value in {
        "mart.trees": 3,
        "random_forest.trees": 5,
        "extra_trees.trees": 5,
        "mlp.epochs": 3,
    }.items():
        words += ["--set", f"{name}={value}"]
    first, second = sylva.json(*words), Sylva(tmp_path).json(*words, "--workers", 1)
    assert {name: node["outputs"] for name, node in first["nodes"].items()} == {
        name: node["outputs"] for name, node in second["nodes"].items()
    }


# What a run says


def test_a_failed_run_is_retried_without_running_the_rest_again(
    sylva: Sylva, tmp_path: Path
) -> None:
    pipeline = pipeline_of_probes(
        tmp_path, a={"value": 41}, b={"action": "fail-times", "amount": 1, "value": 1}, c={}
    )
    sylva("run", pipeline, code=1)
    assert all(
        part in sylva.errors for part in ("'b'", "RuntimeError: failing, time 1", "sylva retry")
    )
    assert "Traceback" not in sylva.errors
    outcome = sylva.json("retry", "last")
    assert [outcome["nodes"][name]["executions"] for name in "abc"] == [1, 2, 1]
    assert outcome["reports"]["c"]["headline"]["value"] == 42
    assert outcome["run"] in sylva("retry", "last"), "a run that is done is left alone"
    assert sylva.json("resume", "last") == {"run": outcome["run"], "state": "done"}


def test_a_retry_prints_what_happens_now_and_not_what_happened_before(
    sylva: Sylva, tmp_path: Path
) -> None:
    path = pipeline_of_probes(tmp_path, a={}, b={"action": "fail-times", "amount": 2})
    sylva("run", path, code=1)
    assert "a: " in sylva.errors and "time 1" in sylva.errors
    sylva("retry", "last", code=1)
    assert "a: " not in sylva.errors and "time 1" not in sylva.errors
    assert "b: started" in sylva.errors and "time 2" in sylva.errors


def test_retry_and_resume_are_one_command_of_which_help_lists_the_first(sylva: Sylva) -> None:
    listed = [line.split()[0] for line in sylva("--help").splitlines() if line.startswith("  ")]
    assert "retry" in listed and "resume" not in listed
    texts = [sylva(name, "--help") for name in ("retry", "resume")]
    first, second = (text.partition("Continue a run")[2] for text in texts)
    assert first == second and "`sylva resume` is the same command" in first


def test_a_run_that_met_a_limit_goes_on_under_another(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = pipeline_of_probes(tmp_path, a={"action": "sleep", "amount": 1.0, "value": 77})
    error = sylva.json("run", pipeline, "--timeout", 0.2, code=1)["nodes"]["a"]["error"]
    assert error["kind"] == "timeout" and "0.2 s" in error["message"]
    assert sylva.json("retry", "last", "--timeout", 60)["state"] == "done"


def test_an_empty_pipeline_has_nothing_to_run(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", pipeline_of_probes(tmp_path), code=2)
    assert sylva.errors.strip()


def test_bad_input_found_while_running_exits_with_2(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", pipeline_of_probes(tmp_path, a={"action": "bad-input"}), code=2)
    assert "Node 'a', field 'action': the probe was told to refuse" in sylva.errors


def test_progress_and_log_of_a_node_can_be_read(sylva: Sylva, tmp_path: Path) -> None:
    sylva("run", pipeline_of_probes(tmp_path, a={"action": "sleep", "amount": 0.3, "value": 5}))
    assert "a: started" in sylva.errors
    details = sylva.json("show", "last", "a")
    assert "probe does sleep" in details["log"][0]
    assert details["outputs"]["report"]["report"]["headline"] == {"value": 5}


def test_a_set_parameter_changes_this_run_only_and_is_listed_with_it(
    sylva: Sylva, tmp_path: Path
) -> None:
    pipeline = pipeline_of_probes(tmp_path, a={"value": 80})
    before = pipeline.read_text()
    assert sylva.json("run", pipeline, "--set", "a.value=81")["reports"]["a"]["headline"] == {
        "value": 81
    }
    assert pipeline.read_text() == before
    row = sylva.json("runs", "--limit", 1)[0]
    assert (row["state"], row["pipeline"]) == ("done", "probes")
    assert (row["headline"], row["changed"]) == ("value 81", "a.value=81")


def test_to_and_from_choose_what_runs_and_is_reported(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = pipeline_of_probes(tmp_path, a={"value": 100}, b={"value": 101}, c={"value": 102})
    outcome = sylva.json("run", pipeline, "--to", "b")
    assert (list(outcome["nodes"]), list(outcome["reports"])) == (["a", "b"], ["b"])
    outcome = sylva.json("run", pipeline, "--from", "b")
    assert [node["state"] for node in outcome["nodes"].values()] == ["cached", "done", "done"]


def test_a_bypassed_node_does_not_run(sylva: Sylva, tmp_path: Path) -> None:
    path = pipeline_of_probes(tmp_path, a={"value": 5}, b={"action": "wrong"}, c={"value": 7})
    document = json.loads(path.read_text())
    document["nodes"]["b"]["bypass"] = True
    path.write_text(json.dumps(document))
    assert "3 nodes, 2 edges. Bypassed: b." in sylva("validate", path)
    outcome = sylva.json("run", path)
    assert list(outcome["nodes"]) == ["a", "c"]
    assert outcome["reports"]["c"]["headline"] == {"value": 12}
    for option in ("--to", "--from"):
        sylva("run", path, option, "b", code=2)
        assert "Node 'b': it is bypassed" in sylva.errors


def test_a_changed_file_is_read_again_a_touched_one_changes_nothing_below(
    sylva: Sylva, tmp_path: Path
) -> None:
    """The file is given by an absolute path, which only the command line may do."""
    table = tmp_path / "table.csv"
    table.write_text("x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)))
    arguments = [
        "run",
        FIRST,
        "--to",
        "split",
        "--set",
        f"load.source={table}",
        "--set",
        "load.target=y",
    ]
    sylva(*arguments)
    os.utime(table, (1, 1))
    assert [node["state"] for node in sylva.json(*arguments)["nodes"].values()] == [
        "done",
        "cached",
    ]
    table.write_text(table.read_text() + "99,a\n")
    assert [node["state"] for node in sylva.json(*arguments)["nodes"].values()] == ["done", "done"]


def test_a_detached_run_goes_on_by_itself(sylva: Sylva, tmp_path: Path) -> None:
    pipeline = pipeline_of_probes(tmp_path, a={"action": "sleep", "amount": 0.4, "value": 9})
    run = sylva.json("run", pipeline, "--detach")["run"]
    while (outcome := sylva.json("show", run))["state"] in ("starting", "running"):
        time.sleep(0.02)
    assert outcome["state"] == "done"


def test_garbage_collection_keeps_the_newest_runs(tmp_path: Path) -> None:
    sylva = Sylva(tmp_path / "workspace")
    old, new = (
        sylva.json("run", pipeline_of_probes(tmp_path, a={"value": value}))["run"]
        for value in (1, 2)
    )
    freed = sylva.json("gc", "--keep", 1)
    assert freed["forgotten_runs"] == 1
    assert freed["freed_bytes"] > 0
    assert [row["run"] for row in sylva.json("runs")] == [new]
    sylva("show", old, code=2)
    assert (
        sylva.json("run", pipeline_of_probes(tmp_path, a={"value": 2}))["nodes"]["a"]["state"]
        == "cached"
    )


# What there is


def test_nodes_and_schema_are_printed_as_json(sylva: Sylva) -> None:
    assert {"load-data", "split", "mart", "evaluate", "probe"} <= {
        each["name"] for each in sylva.json("nodes")
    }
    assert sylva.json("nodes", "mart")["params"]["properties"]
    assert sylva.json("schema")["$schema"]
    sylva("nodes", "nothing", code=2)
    assert "'nothing'" in sylva.errors


def test_the_reference_page_is_the_one_the_node_types_give() -> None:
    page = markdown_page(NODE_TYPES)
    assert (ROOT / "docs" / "nodes.md").read_text() == page, (
        "renew it: sylva nodes --markdown > docs/nodes.md"
    )


# In a process of its own, as a shell starts it


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


def test_the_installed_command_runs_and_loads_no_modules_of_the_current_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "networkx.py").write_text("raise SystemExit('a stranger was loaded')")
    pipeline = pipeline_of_probes(tmp_path, a={"value": 1})
    code, out, err = ended(
        Sylva(tmp_path / "workspace").process("run", pipeline, "--json", cwd=tmp_path)
    )
    assert (code, json.loads(out)["reports"]["a"]["headline"]) == (0, {"value": 1}), err


@pytest.mark.parametrize(("action", "code"), [("raise", 1), ("bad-input", 2)])
def test_the_exit_code_of_a_process_tells_a_failure_from_bad_input(
    tmp_path: Path, action: str, code: int
) -> None:
    process = Sylva(tmp_path / "workspace").process(
        "run", pipeline_of_probes(tmp_path, a={"action": action})
    )
    assert ended(process)[0] == code


def test_an_error_goes_to_stderr_or_is_the_json_document(tmp_path: Path) -> None:
    sylva = Sylva(tmp_path / "workspace")
    code, out, err = ended(sylva.process("validate", "missing.json", cwd=tmp_path))
    assert (code, out) == (2, "") and "'missing.json'" in err
    code, out, err = ended(sylva.process("validate", "missing.json", "--json", cwd=tmp_path))
    assert (code, err, json.loads(out)["exit_code"]) == (2, "", 2)


def test_a_reader_that_goes_away_ends_the_command_in_silence(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = Sylva(tmp_path).process("nodes", "--json", stdout=writing)
    os.close(writing)
    os.close(reading)
    code, _, err = ended(process)
    assert (code, err) == (1, "")


def test_ctrl_c_cancels_a_run(tmp_path: Path) -> None:
    sylva = Sylva(tmp_path / "workspace")
    pipeline = pipeline_of_probes(tmp_path, a={"action": "sleep", "amount": 600})
    # A test run in the background of a shell would pass on that it ignores Ctrl-C.
    process = sylva.process(
        "run", pipeline, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    assert process.stderr is not None and "a: started" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code not in (0, 2) and "sylva resume" in err
    assert sylva.json("show", "last")["state"] == "cancelled"


@pytest.mark.parametrize(
    ("imported", "slow"),
    [
        ("ui.cli.commands", ["networkx", "pydantic", "pyarrow", "numpy"]),
        ("nodes", ["pyarrow", "numpy", "sklearn", "lightgbm", "numba"]),
    ],
)
def test_help_and_catalog_load_nothing_slow(imported: str, slow: list[str]) -> None:
    code = f"import sys, {imported}; print([name for name in {slow} if name in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"
