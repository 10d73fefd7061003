"""What commit c0def43 wrote opens and runs: documents, workspaces, run logs and saved models.

``make_workspace.py`` made the workspace with the old program and says what is in it. The tests go
through the command line as far as it reaches.
"""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.pipeline_file import dumps, parse
from engine.pipeline_library import Library
from engine.workspace import Workspace
from nodes.inspection.layers import load_layers
from nodes.models.registry import Registry
from tests.command_line import Sylva
from tests.compatibility.make_workspace import (
    ARCHIVE,
    DEEP_FORESTS,
    LAYER_FACTS,
    OTHERS,
    node_facts,
    options_in,
    run_facts,
)

SAMPLES = sorted((Path(__file__).parent / "documents").glob("*.json"))
PIPELINES = {"plans": 9, "all_models": 36, "churn": 20, "score": 4, "long_forest": 6}
"""Pipelines of the workspace and how many nodes each has."""
MODELS = (*DEEP_FORESTS, *OTHERS, "churn-deep-forest", *(f"churn-{kind}" for kind in OTHERS))
TOLERANCE = 1e-6
"""How far a probability may be from the old one: a sum may be added up in another order."""


@dataclass(frozen=True)
class Old:
    """The unpacked archive."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def ten_rows(self) -> Path:
        return self.folder / "ten_rows.csv"

    @property
    def missing_file(self) -> Path:
        """The file that was missing when the pipeline Score ran."""
        return self.workspace / "data" / "new_customers.csv"

    @property
    def sylva(self) -> Sylva:
        return Sylva(self.workspace)

    @property
    def expected(self) -> dict[str, Any]:
        return json.loads((self.folder / "expected.json").read_text())

    def pipeline(self, name: str) -> Path:
        return self.workspace / "pipelines" / f"{name}.json"

    def run(self, pipeline: str, state: str) -> str:
        """Return the id of the only run of a pipeline in a state."""
        rows = [row for row in self.expected["rows"] if row["state"] == state]
        [run] = [row["run"] for row in rows if row["pipeline"] == pipeline]
        return str(run)


def unpacked(folder: Path) -> Old:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return Old(folder)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Old:
    """A workspace that tests only look at."""
    return unpacked(tmp_path_factory.mktemp("old"))


@pytest.fixture
def changing(tmp_path: Path) -> Old:
    """A workspace for a test that changes it."""
    return unpacked(tmp_path)


def states(shown: dict[str, Any]) -> set[str]:
    return {node["state"] for node in shown["nodes"].values()}


# Documents


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_of_the_old_program_is_valid_and_keeps_its_text(path: Path, tmp_path: Path):
    text = path.read_text()
    assert dumps(parse(text)) == text
    assert Sylva(tmp_path).json("validate", path)["problems"] == []


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_of_the_workspace_is_valid_and_exports(name: str, changing: Old):
    shutil.copy(changing.ten_rows, changing.missing_file)
    path = changing.pipeline(name)
    assert dumps(parse(path.read_text())) == path.read_text()
    checked = changing.sylva.json("validate", path)
    assert (checked["nodes"], checked["problems"]) == (PIPELINES[name], [])
    compile(changing.sylva("export", path, "--python"), name, "exec")


def test_the_library_lists_the_pipelines(old: Old):
    entries = Library(Workspace(old.workspace)).entries()
    found = {entry.id: len(entry.pipeline.nodes) for entry in entries if entry.pipeline}
    assert found == PIPELINES
    assert {entry.title for entry in entries} == {row["pipeline"] for row in old.expected["rows"]}


def test_every_old_node_type_has_its_ports_and_params(old: Old):
    current = {each["name"]: each for each in old.sylva.json("nodes")}
    for before in old.expected["node_types"]:
        now = current[before["name"]]
        for side in ("inputs", "outputs"):
            assert ports(before[side]) <= ports(now[side])
        params = now["params"]["properties"]
        for name, field in before["params"]["properties"].items():
            assert name in params, f"{before['name']}.{name}"
            lost = choices(field, before["params"]) - choices(params[name], now["params"])
            assert not lost, f"{before['name']}.{name}"


def ports(described: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(port["name"], port["type"]) for port in described}


def choices(schema: Any, whole: dict[str, Any]) -> set[str]:
    """Return the values and the names of inner fields that a part of a JSON schema allows."""
    if isinstance(schema, list):
        return set().union(*(choices(each, whole) for each in schema))
    if not isinstance(schema, dict):
        return set()
    values = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
    found = {*map(json.dumps, values), *schema.get("properties", {})}
    if "$ref" in schema:
        found |= choices(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    return found | choices(list(schema.values()), whole)


# Commands


def test_every_old_command_has_its_options(old: Old):
    assert {"run", "retry", "resume", "predict", "gc"} <= old.expected["options"].keys()
    for command, options in old.expected["options"].items():
        assert set(options) <= set(options_in(old.sylva(command, "--help"))), command


# Runs


def test_runs_are_listed_with_what_the_old_program_said(old: Old):
    assert old.sylva.json("runs") == old.expected["rows"]
    shown = old.sylva("runs")
    assert all(row["run"] in shown for row in old.expected["rows"])


def test_every_run_shows_what_the_old_program_showed(old: Old):
    for run, facts in old.expected["runs"].items():
        assert run_facts(old.sylva.json("show", run)) == facts
        shown = old.sylva("show", run)
        assert all(node in shown for node in facts["nodes"])


def test_a_node_of_each_type_and_state_shows_what_the_old_program_showed(old: Old):
    for run, nodes in old.expected["nodes"].items():
        chosen = {(facts["type"], facts["state"]): node for node, facts in nodes.items()}
        for node in chosen.values():
            facts, expected = node_facts(old.sylva.json("show", run, node)), nodes[node]
            if run == old.run("Plans", "done") and facts["type"] in ("evaluate", "compare"):
                # The values of a sweep no longer reach these nodes as parameters.
                facts["params"] = expected["params"]
            assert facts == expected


def test_a_pipeline_that_succeeded_runs_again(changing: Old):
    before = changing.expected["runs"][changing.run("Plans", "done")]
    # The random forests are trained again, on rows that the old program stored.
    options = ("--set", "split.seed=3", "--from", "trees")
    again = changing.sylva.json("run", changing.pipeline("plans"), *options)
    assert set(again["nodes"]) == set(before["nodes"])
    assert states(again) <= {"done", "cached"}
    assert again["nodes"]["trees-1"]["state"] == "done"
    assert len(again["reports"]["compare"]["rows"]) == len(before["reports"]["compare"]["rows"])


def test_a_failed_run_is_retried_once_its_cause_is_fixed(changing: Old):
    run = changing.run("Score", "failed")
    shutil.copy(changing.ten_rows, changing.missing_file)
    retried = changing.sylva.json("retry", run)
    assert (retried["run"], retried["state"], retried["attempts"]) == (run, "done", 2)
    with (changing.workspace / "exports" / "scores.csv").open() as file:
        scores = list(csv.DictReader(file))
    expected = changing.expected["models"]["default"]["columns"]
    assert [row["prediction"] for row in scores] == expected["prediction"]


def test_an_interrupted_run_resumes_and_finishes(changing: Old):
    run = changing.run("Long forest", "interrupted")
    resumed = changing.sylva.json("resume", run)
    assert (resumed["run"], resumed["state"], resumed["attempts"]) == (run, "done", 2)
    out = changing.folder / "out.csv"
    assert changing.sylva.json("predict", "late", changing.ten_rows, "-o", out)["rows"] == 10


@pytest.mark.slow
def test_cancelled_and_timed_out_runs_finish(changing: Old):
    resumed = changing.sylva.json("resume", changing.run("Long forest", "cancelled"))
    assert (resumed["state"], resumed["attempts"]) == ("done", 2)
    failed = changing.run("Long forest", "failed")
    retried = changing.sylva.json("retry", failed, "--timeout", 600)
    assert (retried["state"], retried["attempts"]) == ("done", 2)
    assert retried["reports"].keys() == resumed["reports"].keys()


def test_old_runs_can_be_removed(changing: Old):
    expected, newest = changing.expected, changing.run("Long forest", "interrupted")
    cleaned = changing.sylva.json("gc", "--keep", 1)
    assert cleaned["forgotten_runs"] == len(expected["rows"]) - 1 and cleaned["freed_bytes"] > 0
    assert changing.sylva.json("runs") == expected["rows"][:1]
    assert run_facts(changing.sylva.json("show", newest)) == expected["runs"][newest]
    assert predicted(changing, "mart") == approximately(expected["models"]["mart"])


# Models


def test_every_saved_model_has_expected_predictions(old: Old):
    assert set(old.expected["models"]) == set(MODELS)
    assert {model["kind"] for model in old.expected["models"].values()} == {"deep-forest", *OTHERS}


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_model_predicts_the_same(model: str, old: Old):
    assert predicted(old, model) == approximately(old.expected["models"][model])


def test_a_model_that_cannot_be_read_says_to_train_it_again(changing: Old):
    path = changing.workspace / "models" / "random-forest" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "a-forest-of-another-time"}))
    assert_says_to_train_again(changing, "random-forest")


def test_the_models_are_listed_with_the_runs_that_saved_them(old: Old):
    entries = {entry.name: entry for entry in Registry(Workspace(old.workspace)).entries()}
    assert set(entries) == set(MODELS)
    forest = entries["churn-deep-forest"]
    assert (forest.problem, forest.kind) == (None, "deep-forest")
    assert forest.card.run == old.run("Churn", "done") and forest.card.pipeline == "Churn"
    assert 0 < forest.card.metrics["accuracy"] < 1


def predicted(old: Old, model: str) -> dict[str, Any]:
    """Return the columns that `sylva predict` writes for the ten rows."""
    out = old.folder / f"{model}.csv"
    old.sylva("predict", model, old.ten_rows, "-o", out)
    with out.open() as file:
        rows = list(csv.DictReader(file))
    return {name: [_value(row[name]) for row in rows] for name in rows[0]}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def approximately(model: dict[str, Any]) -> dict[str, Any]:
    """Return the expected columns of a model, to be compared with those of ``predicted``."""
    columns = dict(model["columns"])
    labels = columns.pop("prediction")
    close = {name: pytest.approx(values, rel=0, abs=TOLERANCE) for name, values in columns.items()}
    return {"prediction": labels, **close}


def assert_says_to_train_again(old: Old, model: str) -> None:
    """Check that the model is refused by name, and that the message says what to do."""
    refusal = old.sylva.json("predict", model, old.ten_rows, "-o", old.folder / "out.csv", code=2)
    assert f"'{model}'" in refusal["error"]
    assert refusal["error"].rstrip(".").endswith("train it again")


# Layers


def test_stored_layers_open(old: Old):
    digests = set()
    for node in ("inspect_mddf", "inspect_gcforest_cs"):
        shown = old.sylva.json("show", old.run("All models", "done"), node)
        output = shown["outputs"]["layers"]
        expected = old.expected["layers"][output["digest"]]
        layers = load_layers(Path(output["folder"]))
        facts = {name: getattr(layers, name) for name in LAYER_FACTS}
        facts["scores"] = [stage["scores"] for stage in layers.stages]
        assert facts == expected
        assert layers.sample.num_rows == len(layers.rows) == 20
        assert np.isfinite(layers.embedding).all()
        digests.add(output["digest"])
    assert digests == set(old.expected["layers"])
