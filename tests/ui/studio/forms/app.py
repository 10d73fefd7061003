"""A small app around one node's form, for tests; the session's ``document`` is what it edits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from engine.node_types import load_catalog
from engine.pipeline import Node, Pipeline
from engine.pipeline_file import parse, with_values
from engine.validation import columns_for, find_problems, find_source_problems
from engine.workspace import Files
from ui.studio.forms.node_form import node_form
from ui.studio.screen_text import problem_in_form

state = st.session_state
catalog = load_catalog()
files = Files(Path(os.environ.get("FORMS_WORKSPACE", ".")))

if "document" not in state:
    given = st.query_params.get("document")
    kind = st.query_params.get("type", "load-data")
    params = json.loads(st.query_params.get("params", "{}"))
    state.document = (
        parse(given)
        if given
        else Pipeline(name="One", nodes={"node": Node(type=kind, params=params)})
    )
if "node" not in state:
    state.node = next(reversed(state.document.nodes))


def change(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    pipeline: Pipeline = state.document
    node = pipeline.nodes[state.node]
    node = with_values(node, params=edit(dict(node.params)))
    state.document = with_values(pipeline, nodes={**pipeline.nodes, state.node: node})


pipeline: Pipeline = state.document
node = pipeline.nodes[state.node]
problems = [*find_problems(pipeline, catalog), *find_source_problems(pipeline, catalog, files)]
panel = st.container()
if "panel" in st.query_params:
    panel = st.container(width=360, border=True)
    st.code(json.dumps(node.params), language=None)
with panel:
    node_form(
        node,
        catalog[node.type],
        columns=columns_for(pipeline, catalog, state.node, files),
        offered_files=sorted(path.name for path in files.data.iterdir())
        if files.data.is_dir()
        else [],
        problems=[
            problem_in_form(problem, pipeline, catalog)
            for problem in problems
            if problem.node == state.node
        ],
        key=f"form.{state.node}.{state.get('epoch', 0)}",
        change=change,
    )
