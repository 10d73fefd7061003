"""Pipelines that end in evaluations, and runs of them written by hand."""

from __future__ import annotations

from engine.pipeline import Edge, Node, Pipeline
from engine.values import Report
from tests.ui.studio.runs.lab import DONE, written
from ui.studio.session import Studio


def pipeline(**learners: str) -> Pipeline:
    """Load, split, and for each learner the model, predictions and evaluation of its own."""
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:digits"}),
        "split": Node(type="split"),
    }
    edges = [Edge.between("load.table", "split.table")]
    for name, kind in learners.items():
        nodes |= {
            name: Node(type=kind),
            f"predict_{name}": Node(type="predict"),
            f"evaluate_{name}": Node(type="evaluate"),
        }
        edges += [
            Edge.between("split.train", f"{name}.table"),
            Edge.between("split.test", f"predict_{name}.table"),
            Edge.between(f"{name}.model", f"predict_{name}.model"),
            Edge.between(f"predict_{name}.predictions", f"evaluate_{name}.predictions"),
        ]
    return Pipeline(name="Pipe", nodes=nodes, edges=tuple(edges))


def judged_run(studio: Studio, pipeline: Pipeline, **reports: Report) -> str:
    """A finished run in which these nodes gave these reports; the title is in their settings."""
    nodes = dict(pipeline.nodes)
    for node, report in reports.items():
        if nodes[node].type == "evaluate":
            named = {"params": {"name": report.title}}
            nodes[node] = nodes[node].model_copy(update=named)
    pipeline = pipeline.model_copy(update={"nodes": nodes})
    done = [
        (
            "finished",
            node,
            {**DONE, "outputs": {"report": studio.store.put("report", report).to_dict()}},
        )
        for node, report in reports.items()
    ]
    return written(studio, pipeline, [*done, ("run-finished", None, {"state": "done"})])
