"""A page with one preview, for tests and people: the environment gives workspace and outputs."""

from __future__ import annotations

import json
import os

import streamlit as st

from engine.store import CacheEntry, Store
from engine.workspace import Workspace
from ui.studio.previews import Maker, show_output

st.set_page_config(layout="wide")
store = Store(Workspace.at())
results = [
    CacheEntry.from_dict(json.loads(path.read_text()))
    for path in sorted(store.workspace.results.iterdir())
]
outputs = {
    f"{result.node}.{port}": output for result in results for port, output in result.outputs.items()
}
chosen = st.query_params.get("output") or os.environ.get("PREVIEWED") or sorted(outputs)[0]
names = json.loads(os.environ.get("NAMES", "{}"))
maker = Maker(chosen.partition(".")[0], names)
show_output(outputs[chosen], store, title=chosen, key="preview", maker=maker)
