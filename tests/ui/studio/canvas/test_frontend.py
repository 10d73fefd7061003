"""The source of the front end: its rules against the engine's, its own tests, and its bundle."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline, PortRef
from engine.validation import can_connect, connection_rules
from ui.studio.canvas.protocol import Revision, payload

ROOT = Path(__file__).parents[4]
FRONTEND = ROOT / "ui" / "studio" / "canvas" / "frontend"
NODE = shutil.which("node")
CATALOG = load_catalog()

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
needs_packages = pytest.mark.skipif(
    not (FRONTEND / "node_modules" / "esbuild").is_dir(),
    reason="the packages are not installed; run `npm install --no-package-lock` "
    "in ui/studio/canvas/frontend",
)


def node(*arguments: str, given: str = "") -> str:
    assert NODE
    done = subprocess.run(
        [NODE, *arguments], input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_node
def test_the_modules_behave():
    ours = sorted(Path(__file__).parent.glob("*.test.mjs"))
    assert ours
    node("--test", *map(str, ours))


def pipelines() -> Iterator[Pipeline]:
    """Random pipelines, also with edges that do not fit."""
    chance = random.Random(4)
    types = list(CATALOG)
    for _ in range(40):
        nodes = {f"n{at}": Node(type=chance.choice(types)) for at in range(chance.randint(2, 7))}
        pipeline = Pipeline(name="Random", nodes=nodes)
        for edge in chance.sample(list(possible_edges(pipeline)), k=3):
            fits = can_connect(pipeline, CATALOG, edge)
            if fits or chance.random() < 0.2:
                pipeline = Pipeline(name="Random", nodes=nodes, edges=(*pipeline.edges, edge))
        yield pipeline


def possible_edges(pipeline: Pipeline) -> Iterator[Edge]:
    outputs = [
        PortRef(name, port.name)
        for name, n in pipeline.nodes.items()
        for port in CATALOG[n.type].outputs
    ]
    inputs = [
        PortRef(name, port.name)
        for name, n in pipeline.nodes.items()
        for port in CATALOG[n.type].inputs
    ]
    yield from (Edge(source=source, target=target) for source in outputs for target in inputs)
    yield Edge.between("n0.nothing", "n1.nothing")
    yield Edge.between("n0.nothing", "n0.nothing")
    yield Edge.between("n1.table", "n0.nothing")


ASK = f"""
import fs from "node:fs";
import {{ refusal }} from {json.dumps((FRONTEND / "src" / "rules.js").as_uri())};
const {{ rules, cases }} = JSON.parse(fs.readFileSync(0, "utf8"));
const refusals = ({{ document, edges }}) => edges.map((edge) => refusal(document, rules, edge));
console.log(JSON.stringify(cases.map(refusals)));
"""


@needs_node
def test_the_canvas_allows_exactly_the_connections_that_the_engine_allows():
    documents = list(pipelines())
    cases = [
        {"document": wire(pipeline), "edges": [ends(edge) for edge in possible_edges(pipeline)]}
        for pipeline in documents
    ]
    asked = json.dumps({"rules": connection_rules(CATALOG), "cases": cases})
    answers = json.loads(node("--input-type=module", "-e", ASK, given=asked))
    checked = 0
    for pipeline, reasons in zip(documents, answers, strict=True):
        for edge, reason in zip(possible_edges(pipeline), reasons, strict=True):
            assert (reason is None) == can_connect(pipeline, CATALOG, edge), (
                pipeline.edges,
                edge,
                reason,
            )
            checked += 1
    assert checked > 300


def ends(edge: Edge) -> dict[str, str]:
    return {"from": str(edge.source), "to": str(edge.target)}


def wire(pipeline: Pipeline) -> dict[str, Any]:
    data = payload(
        pipeline,
        CATALOG,
        pipeline_id="p",
        epoch=0,
        taken=Revision(),
        problems=[],
        states={},
        reveal=None,
        height=1,
    )
    found: dict[str, Any] = data["document"]
    return found


@needs_node
@needs_packages
def test_the_committed_bundle_is_what_the_source_gives(tmp_path: Path):
    for folder in ("once", "twice"):
        node(str(FRONTEND / "build.mjs"), str(tmp_path / folder))
        made = {file.name: file.read_bytes() for file in (tmp_path / folder).iterdir()}
        committed = {
            file.name: file.read_bytes() for file in (FRONTEND.parent / "frontend_dist").iterdir()
        }
        assert made.keys() == committed.keys(), "run `node build.mjs` in ui/studio/canvas/frontend"
        assert made == committed


def test_package_versions_are_pinned():
    described = json.loads((FRONTEND / "package.json").read_text(encoding="utf-8"))
    versions = {**described["dependencies"], **described["devDependencies"]}
    assert all(version[0].isdigit() for version in versions.values())
