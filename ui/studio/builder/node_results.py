"""Sum up the result of a finished node in a few words, for the canvas.

The summary of an output is read once: outputs never change, so it is cached by their digest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from deepforest.metrics import format_metric, metric_title
from engine.errors import SylvaError
from engine.node_types import NodeType
from engine.pipeline import Node
from engine.run_state import NodeState
from engine.store import Artifact, Store
from engine.text import counted
from nodes.inspection.layers import load_layers
from nodes.models.model import describe_model
from ui.studio.builder.node_states import NodeResult
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.builder.outputs import names_now, result_nodes
from ui.studio.previews.models import forest_record
from ui.studio.previews.reports import result_of
from ui.studio.screen_text import source_title
from ui.studio.session import studio
from ui.studio.widgets import opened as read


class Summary(NamedTuple):
    """An output in a few words: ``text``, and of a table its number of rows."""

    text: str
    rows: int = 0


def node_result(opened: OpenPipeline, name: str) -> NodeResult:
    """Return the result of a node of the pipeline; an empty one if there is nothing to say.

    A swept node has the result of the node that compares its branches.
    """
    run = opened.run
    for shown in result_nodes(opened, name):
        state = run.nodes.get(shown) if run else None
        if state is not None:
            node = opened.pipeline.nodes[name]
            result = result_in_run(state, opened.type_of(name), node, partial(names_now, opened))
            if result != NodeResult():
                return result
    return NodeResult()


def result_in_run(
    state: NodeState,
    node_type: NodeType | None,
    node: Node,
    names: Callable[[], Mapping[str, str]],
) -> NodeResult:
    """Return the result of one node of a run; ``names`` returns those of the run's results."""
    outputs = {port: Artifact.from_dict(data) for port, data in state.outputs.items()}
    store = studio().store
    report = next((output for output in outputs.values() if output.type == "report"), None)
    if report is not None:
        line = result_of(report, store)
        if line.figure:
            best = line.tie
            if line.best and not line.tie:
                best = names().get(line.best_node, line.best)
            return NodeResult(" · ".join(filter(None, (best, line.metric))), line.figure)
    summaries = {port: _summary(output, store) for port, output in outputs.items()}
    tables = [port for port, output in outputs.items() if output.type == "table"]
    if len(tables) > 1:
        return NodeResult(_row_counts(tables, summaries, node_type))
    words = [summary.text for summary in summaries.values() if summary.text]
    # A node that reads a file names it.
    source = node.params.get("source") if node_type and node_type.source_columns else None
    if isinstance(source, str) and words:
        words.append(source_title(source))
    return NodeResult(" · ".join(words))


def _row_counts(
    tables: list[str], summaries: dict[str, Summary], node_type: NodeType | None
) -> str:
    """Return the rows of several tables: ``1,257 training · 540 test``."""
    words = []
    for port in tables:
        described = node_type.output(port) if node_type else None
        title = described.title if described and described.title else port
        words.append(f"{summaries[port].rows:,} {title.lower().removesuffix(' rows')}")
    return " · ".join(words)


def _summary(output: Artifact, store: Store) -> Summary:
    """Return the summary of an output; an empty one if it was cleaned up or is damaged."""
    try:
        return _read_summary(output.digest, output, store)
    except (SylvaError, OSError, ValueError, TypeError, KeyError):
        return Summary("")


@st.cache_data(max_entries=2000, show_spinner=False)
def _read_summary(digest: str, _output: Artifact, _store: Store) -> Summary:
    """Return the summary of an output from the cache; ``digest`` is the cache key."""
    value = read(_output, _store)
    match _output.type:
        case "table":
            rows, columns = value.data.shape
            return Summary(f"{rows:,} × {columns:,}", rows)
        case "predictions":
            return Summary(counted(len(value.probabilities), "row"))
        case "model":
            return Summary(_model_text(value.path))
        case "layers":
            layers = load_layers(value.path)
            depth, rows = counted(len(layers.stages), "layer"), counted(layers.table_rows, "row")
            return Summary(f"{depth} · {rows}")
        case "report":
            # What was saved, by the name of its file or model.
            saved = value.headline.get("File") or value.headline.get("name") or ""
            return Summary(str(saved).rpartition("/")[2])
    return Summary("")


def _model_text(folder: Path) -> str:
    """Return a model in a few words: the layers and the score of a forest, else its rows."""
    forest = forest_record(folder)
    if forest is None:
        return _trained_text(describe_model(folder))
    kept = [layer for layer in forest["layers"] if layer["kept"]]
    words = [counted(len(kept), "layer")]
    metric, score = forest["metric"], kept[-1]["score"] if kept else None
    if score is not None:
        words.append(f"{metric_title(metric)} {format_metric(metric, score)}")
    return " · ".join(words)


def _trained_text(info: Mapping[str, Any]) -> str:
    """Return the training rows of a model, and its first figure on validation rows."""
    words = [f"trained on {counted(info['train_rows'], 'row')}"]
    figures = {name: value for name, value in info.get("validation", {}).items() if name != "rows"}
    for name, value in list(figures.items())[:1]:
        words.append(f"validation {metric_title(name)} {format_metric(name, value)}")
    return " · ".join(words)
