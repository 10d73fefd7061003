"""Make ``workspace-c0def43.tar.xz``, the old workspace that ``test_old_workspaces.py`` opens.

The program that writes the workspace is commit c0def43, not the commit this file is part of. Its
modules have other names than ours, so nothing here imports ours. To make the file again::

    git worktree add /tmp/old c0def43
    cd /tmp/old && make setup
    .venv/bin/python REPOSITORY/tests/compatibility/make_workspace.py

The archive holds

- ``workspace/``     what c0def43 left behind: pipelines, runs, stored results, saved models, data
- ``ten_rows.csv``   rows that no model was trained on
- ``expected.json``  what c0def43 printed about the runs, what its models predicted for the rows,
  and which node types, commands and options it had

All data come from a fixed seed. The runs, in order:

- Plans          succeeded: a deep forest with a sweep, a random forest with a sweep, a leaderboard
- All models     succeeded, started as the studio starts a run: every model for three classes
- Churn          succeeded: models for two classes, with weights
- Score          failed: the file to score was removed between the check and the run
- Long forest    failed by a time limit, after one automatic retry
- Long forest    cancelled while the forest was training
- Long forest    interrupted: its supervisor was killed while the forest was training
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMIT = "c0def43"
ARCHIVE = Path(__file__).with_name(f"workspace-{COMMIT}.tar.xz")
# A neutral place: the paths in tracebacks and logs then say nothing about the machine.
FOLDER = Path("/tmp/sylva-workspace")
WORKSPACE = FOLDER / "workspace"
ROWS = 120
FINISHED_FITS = 4
"""Finished fits of the long forest when it is stopped."""

MAIN = "from engine.cli import main; main()"

Document = dict[str, Any]


def main() -> None:
    """Make the workspace and pack it."""
    root = old_program()
    shutil.rmtree(FOLDER, ignore_errors=True)
    (WORKSPACE / "data").mkdir(parents=True)
    write_data()
    add_pipelines([plans(), all_models(), churn(), score(), long_forest()])
    sylva("run", WORKSPACE / "pipelines" / "plans.json", "--set", "split.seed=3")
    run_as_the_studio_does("all_models", "done")
    sylva("run", WORKSPACE / "pipelines" / "churn.json")
    run_as_the_studio_does("score", "failed")
    forest = WORKSPACE / "pipelines" / "long_forest.json"
    sylva("run", forest, "--timeout", 0.001, "--retries", 1, "--workers", 1, code=1)
    stop_long_forest(signal.SIGTERM, "cancelled")
    # With another seed: otherwise the run would find the finished fits of the cancelled one.
    stop_long_forest(signal.SIGKILL, "interrupted", "--set", "forest.seed=1")
    for name in DEEP_FORESTS:
        assert (WORKSPACE / "models" / name / "layer-2.npz").is_file(), f"{name} has one layer"
    write_expected()
    pack(str(root), str(Path(sys.prefix)), str(Path.home()))
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes")


def old_program() -> Path:
    """Return the folder of the program that is installed; end unless it is the old one."""
    import engine

    root = Path(engine.__file__).parents[1]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True)
    if not head.stdout.startswith(COMMIT):
        sys.exit(f"{root} is not a checkout of {COMMIT}; see the top of {Path(__file__).name}.")
    return root


def sylva(*arguments: object, code: int = 0) -> Any:
    """Call the old command with ``--json`` and return what it printed."""
    return json.loads(old_python(MAIN, *arguments, "--json", code=code))


def old_python(program: str, *arguments: object, code: int = 0) -> str:
    """Run a program text that uses the old modules; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *map(str, arguments)],
        env=os.environ | {"SYLVA_WORKSPACE": str(WORKSPACE)},
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout


# Data


def write_data() -> None:
    """Write the training rows and ten rows to predict."""
    rows = customers(ROWS + 10)
    write_csv(WORKSPACE / "data" / "customers.csv", rows[:ROWS])
    ten = rows[ROWS:]
    ten[0]["region"] = "island"  # a category that is not in the training rows
    write_csv(FOLDER / "ten_rows.csv", ten)


def customers(count: int) -> list[dict[str, Any]]:
    """Return rows of numbers, categories, a date and a flag, one value in eight missing."""
    draw = random.Random(43)
    rows = []
    for number in range(count):
        age, income = draw.randint(18, 80), round(draw.lognormvariate(10, 0.5))
        region = draw.choice(["north", "south", "east", "west"])
        member = draw.random() < 0.4
        value = income / 10_000 + (age > 45) + 2 * (region == "south") + draw.gauss(0, 0.7)
        row: dict[str, Any] = {
            "id": f"c{number:03}",
            "age": age,
            "income": income,
            "region": region,
            "member": "yes" if member else "no",
            "since": f"20{draw.randint(10, 25)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
        }
        for name in ("age", "income", "region", "member", "since"):
            if draw.random() < 1 / 8:
                row[name] = ""
        row["plan"] = ["basic", "plus", "pro"][(value >= 2.5) + (value >= 4)]
        leaves = draw.random() < (0.1 if member else 0.5)
        row["churn"] = "yes" if leaves else "no"
        rows.append(row)
    return rows


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with a header."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# Pipelines

TREES = [
    {"kind": "random_forest", "trees": 2, "max_depth": 3},
    {"kind": "completely_random_forest", "trees": 2, "max_depth": 3},
]
MARTS = [{"kind": "mart", "trees": 2, "leaves": 4, "min_rows": 5}]
# With these seeds every forest keeps its second layer, which reads the outputs of the first.
SMALL = {"learners": TREES, "folds": 2, "max_layers": 2, "seed": 10}
DEEP_FORESTS: dict[str, dict[str, Any]] = {
    "default": {**SMALL, "learners": TREES + MARTS},
    "default-oob": {**SMALL, "class_vectors": "oob", "seed": 4},
    "default-selected": {**SMALL, "select_features": 3, "seed": 4},
    "gcforest": SMALL,
    "mart_cascade": {**SMALL, "learners": MARTS, "metric": "log_loss"},
    "mart_cascade_tuned": {**SMALL, "learners": MARTS * 2, "metric": "log_loss"},
    "mddf": {**SMALL, "gamma": 0.7, "mu": 0.2, "depth_step": 2},
    "mddf_sf": {**SMALL, "learners": TREES[:1]},
    "mddf_st": SMALL,
    "mddf_np": SMALL,
    "gcforest_cs": {
        **SMALL,
        "error_share": 0.5,
        "tree_growth": 1.0,
        "patience": 2,
        "max_layers": 3,
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "mart": {"trees": 3, "leaves": 4, "min_rows": 5},
    "random-forest": {"trees": 3, "max_depth": 4},
    "extra-trees": {"trees": 3, "max_depth": 4, "max_features": 0.5},
    "logistic-regression": {"max_iter": 200},
    "mlp": {"layers": [4], "epochs": 20, "learning_rate": 0.01},
}


class Builder:
    """A pipeline that is written node by node."""

    def __init__(self, name: str, description: str = "") -> None:
        head = {"format": "sylva-pipeline", "version": 1, "name": name, "description": description}
        self.document: Document = {**head, "nodes": {}, "edges": [], "layout": {}, "notes": []}

    def add(self, node: str, kind: str, params: Document | None = None, **rest: Any) -> None:
        """Add a node; the other keywords name its inputs and where they come from."""
        fields = {name: rest.pop(name) for name in ("label", "settings", "sweep") if name in rest}
        self.document["nodes"][node] = {"type": kind, "params": params or {}, **fields}
        self.document["layout"][node] = [260 * len(self.document["layout"]), 0]
        for port, source in rest.items():
            self.document["edges"].append({"from": source, "to": f"{node}.{port}"})

    def load(self, target: str, ignored: str) -> None:
        """Add the node that reads the customers."""
        roles = {"id": "id", ignored: "ignore"}
        params = {"source": "customers.csv", "target": target, "roles": roles}
        self.add("load", "load-data", params, label="Customers")

    def evaluated(self, learner: str) -> None:
        """Add prediction and evaluation behind a learner; a leaderboard takes the result."""
        predict, evaluate = f"predict_{learner}", f"evaluate_{learner}"
        self.add(predict, "predict", model=f"{learner}.model", table="split.test")
        self.add(evaluate, "evaluate", predictions=f"{predict}.predictions")


def plans() -> Document:
    """Two learners, a sweep each, and a leaderboard."""
    pipeline = Builder("Plans", "Which plan suits a customer?")
    pipeline.load("plan", "churn")
    pipeline.add("split", "split", {"test_share": 0.3, "seed": 1}, table="load.table")
    grid = {"grid": {"learners.0.trees": [2, 4]}}
    pipeline.add("forest", "deep-forest", SMALL, sweep=grid, label="Forest", table="split.train")
    drawn = {"trees": [2, 3, 4], "max_depth": {"from": 2, "to": 5}}
    sweep = {"random": drawn, "trials": 2, "seed": 5}
    pipeline.add("trees", "random-forest", {"trees": 2}, sweep=sweep, table="split.train")
    pipeline.evaluated("forest")
    pipeline.evaluated("trees")
    pipeline.add("compare", "compare", {"metric": "accuracy"}, label="Leaderboard")
    for learner in ("forest", "trees"):
        edge = {"from": f"evaluate_{learner}.report", "to": "compare.reports"}
        pipeline.document["edges"].append(edge)
    pipeline.document["notes"] = [{"text": "Small on purpose.", "x": 0, "y": 200, "width": 180}]
    return pipeline.document


def all_models() -> Document:
    """Every kind of model for three classes, each saved under its name; two forests inspected."""
    pipeline = Builder("All models")
    pipeline.load("plan", "churn")
    pipeline.add("split", "split", {"test_share": 0.2}, table="load.table")
    for name, params in DEEP_FORESTS.items():
        preset = name.partition("-")[0]
        add_saved(pipeline, name, "deep-forest", {"preset": preset, **params})
    for kind, params in OTHERS.items():
        add_saved(pipeline, kind, kind, params)
    for name in ("mddf", "gcforest_cs"):
        params = {"rows": 20, "perplexity": 5}
        inputs = {"model": f"{name}.model", "table": "split.test"}
        pipeline.add(f"inspect_{name}", "inspect-layers", params, **inputs)
    return pipeline.document


def churn() -> Document:
    """Models for two classes, some with weights, on fewer rows and columns."""
    pipeline = Builder("Churn")
    pipeline.load("churn", "plan")
    pipeline.add("sample", "sample", {"share": 0.9, "stratified": True}, table="load.table")
    columns = {"mode": "drop", "columns": ["since"]}
    pipeline.add("columns", "select-columns", columns, table="sample.table")
    selection = {"columns": 3, "trees": 5}
    pipeline.add("important", "feature-selection", selection, table="columns.table")
    pipeline.add("split", "split", {"test_share": 0.3}, table="important.table")
    weighted = {"class_weights": "balanced"}
    params = {**SMALL, "learners": TREES + MARTS, "metric": "auc", **weighted}
    add_saved(pipeline, "churn-deep-forest", "deep-forest", params)
    by_class = {"class_weights": {"yes": 2.0}}
    for kind, params in OTHERS.items():
        add_saved(pipeline, f"churn-{kind}", kind, {**params, **by_class})
    pipeline.evaluated("churn-deep-forest")
    saved = {"name": "churn", "format": "csv"}
    pipeline.add("export", "save-table", saved, table="predict_churn-deep-forest.predictions")
    return pipeline.document


def add_saved(pipeline: Builder, name: str, kind: str, params: Document) -> None:
    """Add a learner and a node that saves its model as ``name``."""
    pipeline.add(name, kind, params, table="split.train")
    pipeline.add(f"save_{name}", "save-model", {"name": name}, model=f"{name}.model")


def score() -> Document:
    """A saved model for new rows."""
    pipeline = Builder("Score")
    pipeline.add("model", "load-model", {"name": "default"})
    params = {
        "source": "new_customers.csv",
        "roles": {"id": "id", "plan": "ignore", "churn": "ignore"},
    }
    pipeline.add("load", "load-data", params)
    inputs = {"model": "model.model", "table": "load.table"}
    pipeline.add("predict", "predict", {"keep": ["region"]}, **inputs)
    saved = {"name": "scores", "format": "csv"}
    pipeline.add("export", "save-table", saved, table="predict.predictions")
    return pipeline.document


def long_forest() -> Document:
    """A deep forest of so many small fits that there is time to stop it."""
    pipeline = Builder("Long forest")
    pipeline.load("plan", "churn")
    pipeline.add("split", "split", table="load.table")
    learners = [{**learner, "count": 2} for learner in TREES]
    params = {"learners": learners, "folds": 5, "max_layers": 2}
    settings = {"memory_limit": 4000}
    pipeline.add("forest", "deep-forest", params, settings=settings, table="split.train")
    pipeline.evaluated("forest")
    pipeline.add("save", "save-model", {"name": "late"}, model="forest.model")
    return pipeline.document


# Runs


# The old program's own modules, in text: they are not modules of this commit.
ADD_PIPELINE = """
import sys
from engine.library import Library
from engine.pipeline_file import parse
from engine.workspace import Workspace

print(Library(Workspace.at(sys.argv[1])).create(parse(sys.argv[2])))
"""
START_AS_STUDIO = """
import sys
from engine.events import EventLog
from engine.launch import Launcher, new_run
from engine.library import Library
from engine.plan import Request
from engine.workspace import Workspace

workspace = Workspace.at(sys.argv[1])
document = Library(workspace).open(sys.argv[2]).document
with EventLog(workspace) as log:
    run = new_run(log, document, Request(pipeline=sys.argv[2]))
launcher = Launcher()
launcher.start(workspace, run)
launcher.close()
print(run)
"""


def add_pipelines(documents: list[Document]) -> None:
    """Save pipelines as the studio does."""
    for document in documents:
        old_python(ADD_PIPELINE, WORKSPACE, json.dumps(document))


def run_as_the_studio_does(pipeline: str, end: str) -> None:
    """Run a pipeline of the workspace, without a check; wait until it ends in state ``end``."""
    run = old_python(START_AS_STUDIO, WORKSPACE, pipeline).strip()
    wait_until(lambda: sylva("show", run)["state"] not in ("starting", "running"))
    assert sylva("show", run)["state"] == end, sylva("show", run)


def stop_long_forest(number: signal.Signals, end: str, *options: str) -> None:
    """Start the long forest and send its supervisor a signal after the first fits."""
    file = WORKSPACE / "pipelines" / "long_forest.json"
    before = finished_fits()
    run = sylva("run", file, *options, "--detach")["run"]
    wait_until(lambda: finished_fits() >= before + FINISHED_FITS)
    os.kill(supervisor(run), number)
    wait_until(lambda: sylva("show", run)["state"] == end)
    states = {name: node["state"] for name, node in sylva("show", run)["nodes"].items()}
    assert (states["load"], states["forest"]) == ("cached", end), states


def finished_fits() -> int:
    """Return the number of fits in checkpoints; folders may appear and vanish meanwhile."""
    folders = os.walk(WORKSPACE / "checkpoints")
    return sum("forest.json" in files for folder, _, files in folders if "/." not in folder)


def supervisor(run: str) -> int:
    """Return the id of the process that supervises a run; its nodes end with it."""
    log = sqlite3.connect(WORKSPACE / "sylva.db")
    query = "SELECT data FROM events WHERE run = ? AND kind = 'run-started'"
    [(data,)] = log.execute(query, [run]).fetchall()
    log.close()
    return int(json.loads(data)["supervisor"]["pid"])


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for at most two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited for two minutes"
        time.sleep(0.005)


# What the old program says

LAYER_FACTS = ("kind", "classes", "features", "learners", "table_rows")


def write_expected() -> None:
    """Write what the tests compare with."""
    expected = {"models": predictions(), "layers": layers(), **runs()}
    expected |= {"node_types": sylva("nodes"), "options": options()}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def predictions() -> Document:
    """Return what every saved model predicts for the ten rows."""
    import pyarrow.parquet as pq

    expected = {}
    for folder in sorted((WORKSPACE / "models").glob("[!.]*")):
        out = FOLDER / "out.parquet"
        sylva("predict", folder.name, FOLDER / "ten_rows.csv", "-o", out)
        kind = json.loads((folder / "model.json").read_text())["kind"]
        expected[folder.name] = {"kind": kind, "columns": pq.read_table(out).to_pydict()}
        out.unlink()
    return expected


def layers() -> Document:
    """Return a few facts about each stored inspection."""
    expected = {}
    for path in (WORKSPACE / "objects").glob("*/layers.json"):
        content = json.loads(path.read_text())
        facts = {name: content[name] for name in LAYER_FACTS}
        facts["scores"] = [stage["scores"] for stage in content["stages"]]
        expected[path.parent.name] = facts
    return expected


def runs() -> Document:
    """Return what `sylva runs` and `sylva show` print, without what depends on the folder."""
    rows, details, nodes = sylva("runs"), {}, {}
    for run in (row["run"] for row in rows):
        shown = sylva("show", run)
        details[run] = run_facts(shown)
        nodes[run] = {node: node_facts(sylva("show", run, node)) for node in shown["nodes"]}
    return {"rows": rows, "runs": details, "nodes": nodes}


def run_facts(shown: Document) -> Document:
    """Return what has to stay the same in `sylva show RUN --json`."""
    names = ("run", "pipeline", "state", "created", "started", "finished", "attempts", "settings")
    facts = {name: shown[name] for name in (*names, "reports", "exit_code")}
    facts["nodes"] = {name: state_facts(node) for name, node in shown["nodes"].items()}
    return facts


def state_facts(node: Document) -> Document:
    """Return what has to stay the same about a node of a run."""
    names = ("state", "attempt", "seconds", "key", "outputs", "executions")
    facts = {name: node[name] for name in names}
    if node["error"]:
        facts["error"] = {name: node["error"][name] for name in ("kind", "message", "field")}
    return facts


def node_facts(shown: Document) -> Document:
    """Return what has to stay the same in `sylva show RUN NODE --json`."""
    facts = {name: shown[name] for name in ("type", "params", "state", "log")}
    outputs = {port: dict(output) for port, output in shown["outputs"].items()}
    for output in outputs.values():
        del output["folder"]
    jobs = Counter(job["state"] for job in shown["jobs"])
    return {**facts, "outputs": outputs, "jobs": dict(jobs)}


def options() -> dict[str, list[str]]:
    """Return the options of every command."""
    commands = re.findall(r"^  ([a-z]+) ", old_python(MAIN, "--help"), re.MULTILINE)
    return {each: options_in(old_python(MAIN, each, "--help")) for each in commands}


def options_in(text: str) -> list[str]:
    """Return the options that a help text explains."""
    return sorted(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE))


def pack(*private: str) -> None:
    """Pack the folder; end if a file names a path of this machine."""
    leftovers = [path for path in WORKSPACE.glob("sylva.db-*") if path.stat().st_size]
    assert not leftovers, f"the run log is not complete: {leftovers}"
    for path in sorted(FOLDER.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        named = [text for text in private if text.encode() in content]
        assert not named, f"{path} names {named}"
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name in ("expected.json", "ten_rows.csv", "workspace"):
            archive.add(FOLDER / name, name, filter=anonymous)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member without the name of its owner."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
