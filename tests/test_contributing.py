"""The examples in CONTRIBUTING.md work: this file takes them from the page and runs them."""

from __future__ import annotations

import json
import re
import runpy
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_wine

import deepforest.learners
import nodes
from deepforest import CascadeForestClassifier
from engine.export_python import export_python
from engine.node_types import load_catalog
from engine.pipeline_file import parse
from engine.plan import RunOptions
from engine.runs import Runs
from engine.store import Artifact
from engine.values import Table
from engine.workspace import Workspace
from nodes import steps
from nodes.models import estimators
from nodes.models.model import FittedModel
from tests.command_line import ROOT
from tests.nodes import test_models as models
from tests.nodes import test_same_bits as same_bits
from tests.nodes.conftest import MODELS, make_context

BLOCK = re.compile(r"^```(python|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.py)\n")
EXAMPLES = {
    "here",
    "nodes.drop_incomplete",
    "nodes.naive_bayes",
    "deepforest.learners.centroids",
}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the examples to files, as the page names them, where Python and Sylva find them."""
    texts: dict[str, str] = defaultdict(str)
    for language, block in BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        if language == "json":
            texts["pipeline.json"] += block
        else:
            match = FILE.match(block)
            assert match, f"the first line of a block names its file: {block[:60]}"
            texts[match.group(1)] += block
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(nodes, "__path__", [*nodes.__path__, str(tmp_path / "nodes")])
    learners = str(tmp_path / "deepforest" / "learners")
    monkeypatch.setattr(deepforest.learners, "__path__", [*deepforest.learners.__path__, learners])
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    known = set(sys.modules)
    _forget_node_types()
    yield tmp_path
    _forget_node_types()
    for name in EXAMPLES - known:
        sys.modules.pop(name, None)
    for number, handler in handlers.items():  # a node that runs in this process replaces them
        signal.signal(number, handler)


def _forget_node_types() -> None:
    nodes._node_types.cache_clear()
    load_catalog.cache_clear()


def test_the_node_passes_its_check(page: Path) -> None:
    example = runpy.run_path(str(page / "tests/nodes/test_drop_incomplete.py"))
    example["test_drop_incomplete"](page / "checked")


def test_the_node_reports_a_missing_column_before_a_run(page: Path) -> None:
    document = json.loads((page / "pipeline.json").read_text())
    document["nodes"]["load"]["params"] = {"source": "sample:iris"}
    runs = Runs(Workspace(page / "workspace").create())
    [problem] = runs.check(parse(json.dumps(document)), RunOptions())
    assert (problem.node, problem.field) == ("complete", "required")
    assert "'age'" in problem.message


def test_the_node_is_exported_as_a_step(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _append(monkeypatch, steps, page / "nodes/steps.py", "drop_incomplete")
    pipeline = parse((page / "pipeline.json").read_text())
    assert 'complete = steps.drop_incomplete(load, required=["age"])' in export_python(
        pipeline, load_catalog()
    )
    people = Table(pa.table({"age": [30, None]}))
    kept = steps.drop_incomplete(people, required=["age"])  # type: ignore[attr-defined]
    assert kept.data.column("age").to_pylist() == [30]


def _append(monkeypatch: pytest.MonkeyPatch, module: Any, file: Path, name: str) -> None:
    """Define ``name`` in a module for one test, by the lines that the page adds to the module."""
    added = vars(module).copy()
    exec(compile(file.read_text(), file, "exec"), added)
    monkeypatch.setattr(module, name, added[name], raising=False)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_model_node_keeps_the_rules_of_models(
    page: Path, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(monkeypatch, estimators, page / "nodes/models/estimators.py", "RowwiseNaiveBayes")
    node, kind, context = import_module("nodes.naive_bayes").NODE, "naive-bayes", make_context(page)
    monkeypatch.setitem(MODELS, kind, (node, {}))
    model = models.fit(kind, models.mixed(classes), context)

    def fitted(kind: str, classes: int) -> FittedModel:
        return model

    each, weights = models.TestEachModel(), models.TestWeights()
    each.test_learns_something(kind, classes, fitted)
    each.test_read_back_it_predicts_exactly_the_same(kind, classes, fitted, page)
    weights.test_weight_column_counts_like_class_weights(kind, context)
    rows = {"table": same_bits.make_rows(classes, 270, 0)}
    same_bits.test_rows_alone_in_blocks_and_together(
        node.run(context, rows, node.params())["model"]
    )


def test_the_node_and_the_executor_run_a_pipeline(page: Path) -> None:
    workspace = Workspace(page / "workspace").create()
    (workspace.data / "people.csv").write_text("age,buys\n30,yes\n,no\n41,no\n")
    run_here = import_module("here").run_here
    run_id = run_here(parse((page / "pipeline.json").read_text()), workspace)
    runs = Runs(workspace)
    state = runs.state(run_id)
    assert state.state == "done"
    assert {name: node.state for name, node in state.nodes.items()} == {
        "load": "done",
        "complete": "done",
    }
    output = Artifact.from_dict(state.nodes["complete"].outputs["table"])
    assert runs.store.open(output).data.column("age").to_pylist() == [30, 41]


def test_the_estimator_is_a_learner(page: Path) -> None:
    model = runpy.run_path(str(page / "learner_example.py"))["model"]
    wine, classes = load_wine(return_X_y=True)
    assert [learner.settings["kind"] for learner in model.layer_records_[0].learners] == [
        "random_forest",
        "scikit",
    ]
    assert model.score(wine, classes) > 0.9


def test_the_new_kind_trains_and_is_saved(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("deepforest.learners.centroids")
    monkeypatch.setitem(deepforest.learners.LEARNERS, "centroids", module.Centroids)
    monkeypatch.setitem(deepforest.learners.FITTED, "centroids", module.FittedCentroids)
    wine, classes = load_wine(return_X_y=True)
    learners = [{"kind": "extra_trees", "n_estimators": 10}, {"kind": "centroids", "count": 2}]
    model = CascadeForestClassifier(learners, max_layers=2, random_state=0).fit(wine, classes)
    model.save(page / "model")
    loaded = CascadeForestClassifier.load(page / "model")
    assert np.array_equal(loaded.predict_proba(wine), model.predict_proba(wine))
    assert model.score(wine, classes) > 0.9


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
PATH = re.compile(
    r"`((?:deepforest|engine|nodes|ui|tests|benchmarks|sample_pipelines|docs)/[\w./]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []
