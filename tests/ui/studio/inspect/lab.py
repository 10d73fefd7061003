"""Deep forests to inspect, made by hand, small and known or of any size, and runs with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from streamlit.testing.v1 import AppTest

from deepforest.inspection import agreement, learner_scores, scatter_ratio
from deepforest.margins import margins
from deepforest.records import MarginRecord
from engine.pipeline import Edge, Node, Pipeline
from engine.store import Artifact
from nodes.inspection.layers import UNKNOWN, Layers
from tests.ui.studio.runs.lab import Event, written
from ui.studio.session import Studio

HOSTILE = "<img src=x onerror=alert(1)> **b** $x$"


def margin_record(values: Any) -> dict[str, Any]:
    made = MarginRecord.of(np.asarray(values, dtype=float))
    return {
        "mean": made.mean,
        "std": made.std,
        "ratio": made.ratio,
        "edges": made.edges,
        "counts": made.counts,
    }


def record(
    number: int,
    score: float = 0.9,
    *,
    kept: bool = True,
    reason: str = "",
    learners: int = 2,
    **more: Any,
) -> Any:
    """What training knows of a layer."""
    return {
        "number": number, "score": score, "gain": None if number == 1 else 0.01,
        "kept": kept, "reason": reason, "metric": "accuracy",
        "learners": [
            {"name": f"forest {at + 1}", "settings": {}, "fits": 5, "seconds": 1.0,
             "scores": {"accuracy": score - 0.02 * (at + 1), "log_loss": 0.3}}
            for at in range(learners)
        ],
        "scores": {"accuracy": score, "log_loss": 0.25}, "validation": {},
        "coefficients": [1 / learners] * learners,
        "margins": margin_record([0.5, 0.1 * number, -0.2, 0.9]),
        "alphas": None, "effective_size": 100.0, "rows_in": 100, "rows_out": 0, "error_out": None,
        "threshold": None, "n_features": 4, "seconds": 2.0, **more,
    }  # fmt: skip


RECORDS = [
    record(1, 0.90, reason="Accuracy 0.9000 to start with"),
    record(2, 0.95, reason="Accuracy 0.9500 is better by 0.0500"),
    record(
        3,
        0.94,
        kept=False,
        reason="Accuracy 0.9400: no gain above 0 (-0.0100); dropped, since layer 2 is the best; "
        "growth stopped: the last layer brought no gain above 0",
    ),
]


def small(
    classes: tuple[str, str] = ("no", "yes"), *, truth: tuple[int, ...] = (0, 1, 1, 0)
) -> Layers:
    """Two layers of two learners over four rows of a table of ten.

    Row 2 is right in all layers, row 4 changes from wrong to right, row 5 is wrong in all layers,
    row 9 leaves after the first layer.
    """
    first = [[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.95, 0.05]]
    second = [[0.8, 0.2], [0.3, 0.7], [0.9, 0.1], [np.nan, np.nan]]
    outputs = np.array([first, second], dtype=np.float32)
    vectors = np.stack([outputs, outputs], axis=1)
    codes = np.array(truth)
    return assembled(
        outputs, vectors, codes, np.array([2, 2, 2, 1]), list(classes), np.array([2, 4, 5, 9]), 10
    )


def large(rows: int = 5000, depth: int = 4, learners: int = 4, classes: int = 10) -> Layers:
    """Clouds that move apart layer by layer."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, rows)
    scores = rng.random((depth, learners, rows, classes)) + 0.2
    for layer in range(depth):
        scores[layer, :, np.arange(rows), truth] += 0.4 + 0.5 * layer
    vectors = (scores / scores.sum(axis=3, keepdims=True)).astype(np.float32)
    centres = rng.normal(size=(classes, 2)) * 10
    spread = [
        centres[truth] + rng.normal(size=(rows, 2)) * (4 - 0.8 * layer) for layer in range(depth)
    ]
    names = [f"class {code}" for code in range(classes)]
    return assembled(
        vectors.mean(axis=1), vectors, truth, np.full(rows, depth), names, np.arange(rows) * 3,
        rows * 3,
        np.stack(spread).astype(np.float32),
    )  # fmt: skip


def with_input(layers: Layers, values: Sequence[float] = (0.0, 1.0, 3.0, 10.0)) -> Layers:
    """The same inspection with its input: one column, and the map of it."""
    inputs = np.array(values, np.float32)[:, None]
    return replace(
        layers,
        input={"columns": 1, "separation": 0.5, "separation_vectors": 0.6},
        inputs=inputs,
        input_embedding=np.hstack([inputs, inputs]),
    )


def with_images(layers: Layers, side: int = 4) -> Layers:
    """The same inspection of rows whose columns are the pixels of images."""
    names = [f"pixel_{at // side}_{at % side}" for at in range(side * side)]
    pixels = np.random.default_rng(0).integers(0, 17, (len(layers.rows), len(names)))
    sample = pa.table(dict(zip(names, pixels.T, strict=True)))
    return replace(layers, features=names, sample=sample)


def assembled(
    outputs: Any, vectors: Any, truth: Any, left_at: Any, classes: list[str], rows: Any,
    table_rows: int,
    embedding: Any = None,
) -> Layers:  # fmt: skip
    depth, learners, count, _ = vectors.shape
    if embedding is None:
        embedding = np.arange(depth * count * 2, dtype=np.float32).reshape(depth, count, 2) % 7
    names = [f"forest {at + 1}" for at in range(learners)]
    stages = [
        stage(layer, outputs, vectors, truth, left_at, embedding, names) for layer in range(depth)
    ]
    records = [record(layer + 1, 0.9 + 0.02 * layer, learners=learners) for layer in range(depth)]
    sample = pa.table({"row": [f"own {row}" for row in rows], "size": np.arange(count) * 1.5})
    return Layers(
        title="Deep forest", kind="mddf", metric="accuracy", classes=classes, features=["size"],
        learners=names,
        records=records, table_rows=table_rows, stages=stages, rows=np.asarray(rows, np.int64),
        left_at=np.asarray(left_at, np.int64), truth=np.asarray(truth, np.int64),
        embedding=embedding,
        vectors=vectors, outputs=outputs, sample=sample,
    )  # fmt: skip


def stage(
    layer: int,
    outputs: Any,
    vectors: Any,
    truth: Any,
    left_at: Any,
    embedding: Any,
    names: list[str],
) -> Any:
    """What an inspected table shows of a layer, without rows that left or have no class."""
    there = (left_at > layer) & (truth != UNKNOWN)
    said, leaves = outputs[layer][there], (left_at == layer + 1)
    judged = bool(there.any())
    right = said.argmax(axis=1) == truth[there]
    return {
        "number": layer + 1,
        "scores": {"accuracy": float(right.mean()), "log_loss": 0.3} if judged else None,
        "margins": margin_record(margins(said.astype(float), truth[there])) if judged else None,
        "learner_scores": learner_scores(vectors[layer][:, there], truth[there])
        if judged
        else [{} for _ in names],
        "agreement": agreement(vectors[layer][:, left_at > layer]).tolist(),
        "separation": scatter_ratio(embedding[layer], truth),
        "separation_vectors": None,
        "rows_in": int((left_at > layer).sum()),
        "rows_out": int(leaves.sum()),
        "error_out": float((outputs[layer][leaves].argmax(axis=1) != truth[leaves]).mean())
        if leaves.any()
        else None,
        "threshold": 0.94 if not layer else None,
        "importances": [
            {"feature": name, "importance": share, "learners": [share] * len(names)}
            for name, share in (
                ("size", 0.75 - 0.2 * layer),
                ("class vectors of layer 1", 0.25 + 0.2 * layer),
            )
        ],
    }


# Runs


def pipeline(*, inspected: bool = True, label: str = "", **params: Any) -> Pipeline:
    nodes = {"load": Node(type="load-data", params={"source": "sample:digits"})}
    nodes["forest"] = Node(type="deep-forest", params=params, label=label)
    edges = [Edge.between("load.table", "forest.table")]
    if inspected:
        nodes["inspect"] = Node(type="inspect-layers")
        edges += [
            Edge.between("forest.model", "inspect.model"),
            Edge.between("load.table", "inspect.table"),
        ]
    return Pipeline(
        name=f"Digits {HOSTILE}" if label else "Digits", nodes=nodes, edges=tuple(edges)
    )


def finished(output: Artifact, port: str) -> dict[str, Any]:
    return {"key": "k", "seconds": 1.5, "outputs": {port: output.to_dict()}}


def part(node: str, of: dict[str, Any]) -> Event:
    return "part", node, {"part": f"layer-{of['number']}", "data": of}


def inspected_run(studio: Studio, layers: Layers, **about: Any) -> tuple[str, Artifact]:
    """A finished run of an inspection."""
    output = studio.store.put("layers", layers)
    events: list[Event] = [
        ("finished", "load", {"key": "l", "seconds": 0.1, "outputs": {}}),
        *(part("forest", each) for each in layers.records),
        ("finished", "forest", {"key": "f", "seconds": 2.0, "outputs": {}}),
        ("finished", "inspect", finished(output, "layers")),
        ("run-finished", None, {"state": "done"}),
    ]
    return written(studio, pipeline(**about), events), output


def _page() -> None:
    from ui.studio.inspect.page import page

    page()


def inspect_page(tab: str | None = None, **address: str) -> AppTest:
    """The page at an address, drawn once, perhaps with another tab open."""
    test = AppTest.from_function(_page, default_timeout=60)
    for name, value in address.items():
        test.query_params[name] = value
    if tab:
        test.query_params["tab"] = tab
    return test.run()
