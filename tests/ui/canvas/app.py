"""A small app around the canvas, for the end-to-end tests; each rerun writes a line to the file CANVAS_LOG names."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import streamlit as st

from engine.catalogue import load_catalogue
from engine.document import Document, Edge, Node, Note, changed
from engine.validate import find_problems
from ui.canvas import NodeView, Reveal, canvas

CATALOGUE = load_catalogue()
LOG = Path(os.environ["CANVAS_LOG"])
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def wait_for_the_test() -> None:
    """Python is slow until the test takes away the file that says so."""
    waiting = LOG.with_suffix(".waiting")
    waiting.touch()
    while waiting.exists():
        time.sleep(0.02)


def five_steps() -> Document:
    types = ("load-data", "split", "deep-forest", "predict", "evaluate")
    nodes = {name: Node(type=name) for name in types}
    nodes["load-data"] = Node(type="load-data", params={"source": "sample:digits"})
    wires = (
        ("load-data.table", "split.table"),
        ("split.train", "deep-forest.table"),
        ("split.test", "predict.table"),
        ("deep-forest.model", "predict.model"),
        ("predict.predictions", "evaluate.predictions"),
    )
    places = {"load-data": (0, 64), "split": (288, 64), "deep-forest": (576, 0), "predict": (864, 64)}
    return Document(
        name="Five steps",
        nodes=nodes,
        edges=tuple(Edge.between(*wire) for wire in wires),
        layout={**places, "evaluate": (1152, 64)},
        notes=(Note(text="Digits: 1,797 pictures of 8 × 8 points.", x=0, y=224, width=208, height=80),),
    )


def hostile() -> Document:
    nodes = {"bad": Node(type="load-data", label=HOSTILE), "stranger": Node(type="no-such-type", label=HOSTILE)}
    edges = (Edge.between("bad.table", "stranger.entry"), Edge.between("bad.nowhere", "gone.table"))
    return Document(name="Hostile", nodes=nodes, edges=edges, notes=(Note(text=HOSTILE, x=0, y=200),))


def many(count: int) -> Document:
    nodes = {f"split-{at}": Node(type="split") for at in range(count)}
    edges = tuple(
        Edge.between(f"split-{at}.train", f"split-{at + 1}.table") for at in range(count - 1) if (at + 1) % 15
    )
    layout = {f"split-{at}": (at % 15 * 272.0, at // 15 * 144.0) for at in range(count)}
    return Document(name="Many", nodes=nodes, edges=edges, layout=layout)


def start() -> Document:
    name = st.query_params.get("doc", "empty")
    if name.isdigit():
        return many(int(name))
    return {"empty": lambda: Document(name="New", nodes={}), "five": five_steps, "hostile": hostile}[name]()


def run_states(step: int) -> dict[str, NodeView]:
    """A run that moves on with every rerun."""
    views: dict[str, NodeView] = {}
    for at, name in enumerate(state.document.nodes):
        done = step - 4 * at
        if done < 0:
            views[name] = {"state": "queued"}
        elif done < 4:
            views[name] = {"state": "running", "progress": done / 4, "text": f"layer {done + 1}, fold 3 of 5"}
        else:
            views[name] = {"state": "done", "seconds": 1.24}
    return views


SHOWCASE: dict[str, NodeView] = {
    "load-data": {"state": "cached", "text": "same file as last time"},
    "split": {"state": "done", "seconds": 0.042},
    "deep-forest": {"state": "running", "progress": 0.45, "text": "layer 3, fold 2 of 5"},
    "predict": {"state": "failed", "text": "the table lacks the column age of the sample"},
    "evaluate": {"state": "skipped", "text": "Predict failed"},
}

state = st.session_state
st.set_page_config(layout="wide", page_title="Canvas")
if "document" not in state:
    state.document, state.epoch, state.running, state.steps, state.revealed = start(), 0, False, 0, 0
    state.revealed = int(st.query_params.get("reveal", "0"))

buttons = st.columns(8)
if buttons[0].button("Start run"):
    state.running, state.steps = True, 0
if buttons[1].button("Slow Python edit"):
    before = state.document
    wait_for_the_test()
    nodes = {**before.nodes, "from-python": Node(type="evaluate")}
    state.document = changed(before, nodes=nodes, layout={**before.layout, "from-python": (32.0, 400.0)})
    state.epoch += 1
if buttons[2].button("Set parameter"):
    name = next(iter(state.document.nodes))
    node = changed(state.document.nodes[name], params={"source": f"sample:digits{state.steps}"}, label="Renamed")
    state.document = changed(state.document, nodes={**state.document.nodes, name: node})
if buttons[3].button("Reveal last"):
    state.revealed += 1
if buttons[4].button("Slow other pipeline"):
    wait_for_the_test()
    state.document, state.epoch = five_steps(), state.epoch + 1
hidden = buttons[5].checkbox("Another page")


@st.fragment(run_every=0.4 if state.running else None)
def build() -> None:
    state.steps += 1
    showcase = "showcase" in st.query_params
    last = list(state.document.nodes)[-1] if state.document.nodes else ""
    result = canvas(
        state.document,
        epoch=state.epoch,
        catalogue=CATALOGUE,
        problems=lambda document: find_problems(document, CATALOGUE),
        states=run_states(state.steps) if state.running else SHOWCASE if showcase else {},
        key="canvas",
        pipeline=state.document.name,
        reveal=Reveal(last, state.revealed) if state.revealed else None,
        height=int(st.query_params.get("height", "620")),
    )
    state.document = result.document
    line = {
        "time": time.time(),
        "document": result.document.model_dump(mode="json", by_alias=True),
        "selection": result.selection,
        "port": str(result.port) if result.port else None,
        "run": result.run,
        "revision": result.revision,
        "restored": sorted(result.restored),
        "refused": str(result.refused) if result.refused else None,
        "epoch": state.epoch,
    }
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
    st.caption(f"{len(result.document.nodes)} nodes, {len(result.document.edges)} edges")


if not hidden:
    build()
