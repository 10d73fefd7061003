"""Pipelines as Python scripts: the figures of a run, readable; a document cannot inject code."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

from engine.errors import BadInput
from engine.events import EventLog
from engine.export_python import Expression, comment, export_python, literal, statement
from engine.node_types import NodeCatalog, load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import dumps, parse, read
from engine.run_state import run_state
from engine.store import Artifact, Store
from engine.values import Report
from engine.workspace import Workspace
from nodes import NODE_TYPES
from tests.command_line import ROOT, SAMPLES, Sylva
from tests.expect import refused

Learners = dict[str, dict[str, Any]]

LEARNERS: Learners = {
    "mart": {"trees": 8, "row_share": 0.7, "class_weights": "balanced"},
    "random-forest": {"trees": 7, "max_depth": 6, "max_features": "all"},
    "extra-trees": {"trees": 6, "class_weights": {"yes": 5.0}},
    "composite-forest": {
        "trees": 4,
        "degrees": [1, 2],
        "penalty": 1.0,
        "class_weights": "balanced",
    },
    "logistic-regression": {"max_iter": 40},
    "mlp": {"layers": [8, 4], "epochs": 14, "class_weights": "balanced"},
    "deep-forest": {
        "learners": [
            {"kind": "mart", "trees": 5},
            {"kind": "random_forest", "trees": 8, "max_features": "all"},
        ],
        "folds": 2,
        "max_layers": 2,
        "select_features": 12,
        "class_weights": "balanced",
    },
}
TINY_LEARNERS: Learners = {
    "mart": {"trees": 3, "class_weights": "balanced"},
    "random-forest": {"trees": 3, "max_depth": 4, "max_features": "all"},
    "extra-trees": {"trees": 3, "class_weights": {"yes": 5.0}},
    "composite-forest": {"trees": 2, "degrees": [1], "penalty": 1.0, "max_features": "all"},
    "logistic-regression": {"max_iter": 10},
    "mlp": {"layers": [4], "epochs": 2},
    "deep-forest": {
        "learners": [{"kind": "random_forest", "trees": 3}],
        "folds": 2,
        "max_layers": 1,
    },
}
DIGIT_LEARNERS: Learners = {
    "mart": {"trees": 3},
    "logistic-regression": {"max_iter": 30},
    "mlp": {"layers": [10], "epochs": 5},
    "deep-forest": {
        "preset": "mddf",
        "learners": [{"kind": "random_forest", "trees": 5, "count": 2}],
        "max_layers": 2,
    },
}
Parts = tuple[dict[str, Node], list[str]]


def payments(rows: int, learners: Learners) -> Parts:
    """Nodes and edges on payments, which have two classes; a table and a model are saved."""
    nodes = {
        "load": Node(
            type="load-data", params={"source": "sample:fraud", "rows": rows, "fraud_share": 0.1}
        ),
        "some": Node(type="sample", params={"share": 0.8, "seed": 3}),
        "fewer": Node(type="select-columns", params={"columns": ["items"], "kinds": ["bool"]}),
        "split": Node(
            type="split", params={"test_rows": rows // 4, "seed": 5}, label="Hold out # 1 in 3"
        ),
        "best": Node(type="feature-selection", params={"columns": 15, "trees": 10}),
        "table": Node(type="save-table", params={"name": "scores", "format": "parquet"}),
        "keep": Node(type="save-model", params={"name": "kept"}),
    }
    edges = [
        "load.table some.table",
        "some.table fewer.table",
        "fewer.table split.table",
        "split.train best.table",
    ]
    edges += ["pay-mart-p.predictions table.table", "pay-mlp.model keep.model"]
    # Rows at an input that may stay unconnected.
    edges += [f"split.test pay-{kind}.validation" for kind in learners]
    nodes["folds"] = Node(type="cross-validate", params={"folds": 2, "positive": "yes"})
    edges += ["pay-mart.model folds.model", "best.table folds.table"]
    nodes["choice"] = Node(type="choose-best")
    edges += ["pay-mart.model choice.models", "pay-mlp.model choice.models"]
    edges += ["split.test choice.table"]
    nodes["shuffled"] = Node(type="permutation-importance", params={"metric": "auc", "repeats": 2})
    edges += ["pay-mart.model shuffled.model", "split.test shuffled.table"]
    nodes["decide"] = Node(
        type="choose-threshold", params={"rule": "recall", "recall": 0.6, "calibration": "sigmoid"}
    )
    nodes["decide-p"] = Node(type="predict")
    nodes["decide-e"] = Node(type="evaluate")
    nodes["decided"] = Node(type="save-table", params={"name": "decided", "format": "parquet"})
    edges += ["pay-mart.model decide.model", "split.train decide.table"]
    edges += ["decide.model decide-p.model", "split.test decide-p.table"]
    edges += ["decide-p.predictions decide-e.predictions", "decide-p.predictions decided.table"]
    compared_nodes, compared_edges = compared("pay", learners, "best.table", "split.test")
    compared_nodes["pay-mart-p"] = Node(type="predict", params={"keep": ["amount"]})
    return nodes | compared_nodes, edges + compared_edges


def prepared() -> Parts:
    """Nodes and edges that prepare tables; the result is saved."""
    query = "SELECT a.*, b.amount / 2 AS half\nFROM a JOIN b USING (payment_id)"
    nodes = {
        "p-query": Node(type="sql", params={"query": query}),
        "p-filter": Node(
            type="filter-rows",
            params={"conditions": [{"test": "at_least", "column": "amount", "value": "5"}]},
        ),
        "p-half": Node(type="split", params={"test_share": 0.5}),
        "p-fill": Node(type="fill-missing", params={"categories": "value", "text": "?"}),
        "p-both": Node(type="concatenate", params={"source_column": "part"}),
        "p-log": Node(type="derive-column", params={"name": "log", "expression": "ln(amount + 1)"}),
        "p-join": Node(type="join", params={"on": ["payment_id"], "suffix": " (all)"}),
        "p-save": Node(type="save-table", params={"name": "prepared", "format": "parquet"}),
    }
    edges = [
        "some.table p-query.a",
        "load.table p-query.b",
        "p-query.table p-filter.table",
        "p-filter.table p-half.table",
        "p-half.train p-fill.train",
        "p-half.test p-fill.test",
        "p-fill.train p-both.first",
        "p-fill.test p-both.second",
        "p-both.table p-log.table",
        "p-log.table p-join.left",
        "load.table p-join.right",
        "p-join.table p-save.table",
    ]
    return nodes, edges


def digits() -> Parts:
    """Nodes and edges on digits, which have ten classes."""
    nodes = {
        "digits": Node(type="load-data"),
        "part": Node(type="sample", params={"rows": 600}),
        "halves": Node(type="split", params={"test_share": 0.5}),
    }
    edges = ["digits.table part.table", "part.table halves.table"]
    compared_nodes, compared_edges = compared(
        "digit", DIGIT_LEARNERS, "halves.train", "halves.test"
    )
    return nodes | compared_nodes, edges + compared_edges


def numbers() -> Parts:
    """Nodes and edges on diabetes, whose target is a number."""
    nodes = {
        "patients": Node(type="load-data", params={"source": "sample:diabetes"}),
        "two": Node(type="split"),
    }
    learners: Learners = {"linear-regression": {"alpha": 2.0}, "mart": {"trees": 3}}
    compared_nodes, compared_edges = compared("number", learners, "two.train", "two.test")
    return nodes | compared_nodes, ["patients.table two.table", *compared_edges]


def compared(stem: str, learners: Learners, rows: str, held_out: str) -> Parts:
    """One model of each kind, evaluated on ``held_out`` and compared."""
    nodes, edges = {f"{stem}-compare": Node(type="compare", params={"metric": "log_loss"})}, []
    for kind, params in learners.items():
        name = f"{stem}-{kind}"
        nodes |= {
            name: Node(type=kind, params=params),
            f"{name}-p": Node(type="predict"),
            f"{name}-e": Node(type="evaluate"),
        }
        edges += [
            f"{rows} {name}.table",
            f"{name}.model {name}-p.model",
            f"{held_out} {name}-p.table",
        ]
        edges += [
            f"{name}-p.predictions {name}-e.predictions",
            f"{name}-e.report {stem}-compare.reports",
        ]
    return nodes, edges


def every_node_type(*parts: Parts, inspected: str, rows: str) -> Pipeline:
    """A pipeline of every node type there is but for ``load-model``."""
    nodes = {"layers": Node(type="inspect-layers", params={"rows": 50, "perplexity": 5.0})}
    edges = [f"{inspected}.model layers.model", f"{rows} layers.table"]
    for more_nodes, more_edges in parts:
        nodes, edges = nodes | more_nodes, edges + more_edges
    return Pipeline(
        name="All", nodes=nodes, edges=tuple(Edge.between(*edge.split()) for edge in edges)
    )


def tiny() -> Pipeline:
    return every_node_type(
        payments(1000, TINY_LEARNERS),
        prepared(),
        numbers(),
        inspected="pay-deep-forest",
        rows="split.test",
    )


def full() -> Pipeline:
    return every_node_type(
        payments(3000, LEARNERS),
        prepared(),
        numbers(),
        digits(),
        inspected="digit-deep-forest",
        rows="halves.test",
    )


def with_saved_model() -> Pipeline:
    """New payments scored by the model that ``payments`` saves."""
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:fraud", "rows": 1000, "seed": 9}),
        "model": Node(type="load-model", params={"name": "kept"}),
        "class": Node(type="predict"),
        "print": Node(type="evaluate", params={"positive": "no"}),
    }
    edges = [
        "load.table class.table",
        "model.model class.model",
        "class.predictions print.predictions",
    ]
    return Pipeline(
        name="New", nodes=nodes, edges=tuple(Edge.between(*edge.split()) for edge in edges)
    )


def run_script(text: str, workspace: Path, folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    # One thread: on a busy machine several threads mostly wait for one another.
    environment = os.environ | {
        "SYLVA_WORKSPACE": str(workspace),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(output: str) -> dict[str, dict[str, str]]:
    """The figures that a script printed, by variable."""
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in output.splitlines():
        if not line.startswith(" "):
            name = line.split(":")[0]
            found[name] = {}
        elif len(parts := line.split(maxsplit=1)) == 2:
            found[name][parts[0]] = parts[1]
    return found


def reports_of_last_run(workspace: Path) -> dict[str, Report]:
    place = Workspace(workspace)
    with EventLog(place) as log:
        state = run_state(log, log.run("last"))
    assert state.state == "done"
    return {
        name: Store(place).open(Artifact.from_dict(node.outputs["report"]))
        for name, node in state.nodes.items()
        if "report" in node.outputs
    }


def assert_same_figures(printed: dict[str, dict[str, str]], reports: dict[str, Report]) -> None:
    judged = {
        name: report
        for name, report in reports.items()
        if report.kind in ("evaluation", "comparison", "permutation-importance")
    }
    for name, report in judged.items():
        stem = name.replace("-", "_")
        # A node with several outputs has a variable for each; a word of Python is not a variable.
        (figures,) = (
            printed[each] for each in (stem, f"{stem}_report", f"{stem}_2") if each in printed
        )
        for measure, value in report.headline.items():
            if isinstance(value, float):
                assert math.isclose(float(figures[measure]), value, rel_tol=1e-9, abs_tol=1e-12), (
                    name,
                    measure,
                )
            elif value is not None:
                assert figures[measure] == str(value), (name, measure)


@pytest.fixture(scope="module")
def sylva(tmp_path_factory: pytest.TempPathFactory) -> Sylva:
    return Sylva(tmp_path_factory.mktemp("workspace"))


def exported(sylva: Sylva, document: Pipeline, folder: Path) -> str:
    """The script as the command writes it, and the run beside it."""
    file = folder / "pipeline.json"
    file.write_text(dumps(document), encoding="utf-8")
    assert sylva.json("run", file)["state"] == "done"
    sylva("export", file, "--python", "-o", folder / "out.py")
    return (folder / "out.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("make", [tiny, pytest.param(full, marks=pytest.mark.slow)])
def test_a_script_of_every_node_type_finds_the_figures_of_the_run(
    make: Callable[[], Pipeline], tmp_path: Path
) -> None:
    sylva, document = Sylva(tmp_path / "workspace"), make()
    assert {node.type for node in document.nodes.values()} | {"load-model"} == {
        each.name for each in NODE_TYPES
    }
    script = exported(sylva, document, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    assert_same_figures(
        told(run_script(script, elsewhere, tmp_path)), reports_of_last_run(sylva.workspace)
    )
    scores, same_scores = (
        read_table(at / "exports/scores.parquet") for at in (elsewhere, sylva.workspace)
    )
    assert "amount" in scores.column_names and scores.select(["amount"]) == same_scores.select(
        ["amount"]
    )
    assert scores.column_names == same_scores.column_names
    for name in ("prepared", "decided"):
        tables = [read_table(at / f"exports/{name}.parquet") for at in (elsewhere, sylva.workspace)]
        assert tables[0].equals(tables[1]), name
    mine, theirs = (
        json.loads((at / "models/kept/model.json").read_text())
        for at in (elsewhere, sylva.workspace)
    )
    assert mine["files"] == theirs["files"], "the very same network is saved"
    assert "engine" not in {name.split(".")[0] for name in imported(script)}

    script = exported(sylva, with_saved_model(), tmp_path)
    assert_same_figures(
        told(run_script(script, sylva.workspace, tmp_path)), reports_of_last_run(sylva.workspace)
    )


def imported(script: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


# How it reads


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_becomes_a_script_in_good_form(sample: Path, tmp_path: Path) -> None:
    script = export_python(read(sample), load_catalog())
    compile(script, "script", "exec")
    assert max(map(len, script.splitlines())) <= 120
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        for check in (["format", "--check"], ["check", "--select", "E,F,W"]):
            done = subprocess.run(
                [ruff, *check, "--isolated", "--line-length", "100", tmp_path / "script.py"],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout


def test_the_blocks_stand_in_the_order_of_the_work_each_with_its_name() -> None:
    script = export_python(with_saved_model(), load_catalog())
    assert [line for line in script.splitlines() if "·" in line] == [
        "# load · Load data",
        "# model · Load model",
        "# class · Predict",
        "# print · Evaluate",
    ]
    assert 'load = steps.load("sample:fraud", rows=1000, seed=9)' in script
    assert "class_2 = steps.predict(model, load)" in script, "a word of Python is no variable"
    assert 'print_2 = steps.evaluate(class_2, positive="no")' in script, (
        "nor is a function that is in use"
    )


def test_names_that_would_be_the_same_stay_apart() -> None:
    ids = ["a-b", "a_b", "steps", "lightgbm", "a_b_rows"]
    nodes = {name: Node(type="mart", params={"trees": 2}) for name in ids} | {
        "data": Node(type="load-data")
    }
    edges = tuple(Edge.between("data.table", f"{name}.table") for name in ids)
    script = export_python(Pipeline(name="x", nodes=nodes, edges=edges), load_catalog())
    assigned = [
        node.targets[0].id  # type: ignore[attr-defined]
        for node in ast.parse(script).body
        if isinstance(node, ast.Assign)
    ]
    assert len(assigned) == len(set(assigned))
    assert not {"steps", "lightgbm"} & set(assigned)


def test_a_sweep_is_written_out_branch_by_branch() -> None:
    sample = read(ROOT / "sample_pipelines" / "first_pipeline.json")
    about = json.loads(dumps(sample))
    about["nodes"]["mart"]["sweep"] = {"grid": {"trees": [3, 5]}}
    script = export_python(parse(json.dumps(about)), load_catalog())
    compile(script, "script", "exec")
    assert "num_boost_round=3" in script and "num_boost_round=5" in script
    assert script.count("steps.evaluate(") == 2 and script.count("steps.compare(") == 1


def test_a_type_that_does_not_say_how_is_named() -> None:
    types = [
        replace(each, python=None) if each.name == "mart" else each
        for each in load_catalog().values()
    ]
    document = read(ROOT / "sample_pipelines" / "first_pipeline.json")
    with refused(BadInput, naming=["'mart' (mart)"]):
        export_python(document, NodeCatalog(types))


def test_the_command_writes_python_and_says_what_is_wrong(sylva: Sylva, tmp_path: Path) -> None:
    assert sylva("export", SAMPLES[0]) == sylva("export", SAMPLES[0], "--python")
    (tmp_path / "bad.json").write_text(
        '{"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {"a": {}}}'
    )
    sylva("export", tmp_path / "bad.json", "--python", code=2)
    compile(sylva("export", SAMPLES[0], "--python"), "script", "exec")
    sylva("export", SAMPLES[0], "--python", "-o", tmp_path / "no" / "such" / "folder.py", code=1)
    assert "folder.py" in sylva.errors


# No document puts in code

HOSTILE = [
    "x\nimport os; os._exit(66)",
    "x\r\nraise SystemExit(66)",
    "x\u2028import os",
    '"); import os; os._exit(66); ("',
    "'''\"\"\"\\",
    "\\",
    "{__import__('os')._exit(66)}",
    "\x0cimport os",
    "\x00\x1b[2J\u202e",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_become_literals_and_comments_only(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text
    assert ast.literal_eval(literal({text: [text, (text,)]})) == {text: [text, (text,)]}
    assert ast.parse(comment(text)).body == []
    (call,) = ast.parse(
        "\n".join(statement("x", "f", Expression("y"), name=text, others={text: text}))
    ).body
    assert isinstance(call, ast.Assign)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_document_gives_the_statements_of_a_harmless_one(text: str) -> None:
    def script(word: str) -> list[str]:
        line = "".join(
            each for each in word if each.isprintable()
        )  # all that a name or label may hold
        nodes = {
            "load": Node(
                type="load-data",
                params={"source": word, "target": word, "roles": {word: "id"}},
                label=line,
            ),
            "fewer": Node(type="select-columns", params={"columns": [word]}, label=line),
            "mart": Node(type="mart", params={"class_weights": {word: 2.0}}),
            "predict": Node(type="predict"),
            "judge": Node(type="evaluate", params={"name": word, "positive": word}),
            "all": Node(type="compare"),
        }
        edges = ["load.table fewer.table", "fewer.table mart.table", "mart.model predict.model"]
        edges += [
            "load.table predict.table",
            "predict.predictions judge.predictions",
            "judge.report all.reports",
        ]
        document = Pipeline(
            name=line or "x",
            description=word.replace("\x00", ""),
            nodes=nodes,
            edges=tuple(Edge.between(*edge.split()) for edge in edges),
        )
        tree = ast.parse(export_python(document, load_catalog()))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = "harmless" if node.value in (word, line) else node.value
        return [ast.dump(statement) for statement in tree.body]

    assert script(text) == script("harmless")


@pytest.mark.parametrize(
    "value", [1, 2.5, True, None, "a", "it's", [], {}, [1, [2]], {"a": {"b": [None]}}, (1,), 1e-300]
)
def test_values_are_written_as_they_are(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_what_is_no_plain_value_is_refused() -> None:
    with refused(TypeError, naming=["Path"]):
        literal(Path("x"))


def test_long_calls_are_broken_at_their_brackets() -> None:
    lines = statement(
        "x", "f", Expression("y"), settings={"name": "a" * 60, "others": list(range(30))}, z=1
    )
    assert max(map(len, lines)) <= 104
    (call,) = ast.parse("\n".join(lines)).body
    assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
    assert ast.literal_eval(call.value.keywords[0].value)["others"] == list(range(30))
