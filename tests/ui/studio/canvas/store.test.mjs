// The canvas's store and what a user does to it, with a Python that answers. Run by test_frontend.py, or by `node --test`.

import assert from "node:assert/strict";
import test from "node:test";
import { add, duplicateSelected, link, note, resizeNote, retarget, tidy, writeNote } from "../../../../ui/studio/canvas/frontend/src/actions.js";
import { CanvasStore } from "../../../../ui/studio/canvas/frontend/src/store.js";
import { CHAIN, Desk, EMPTY, browser, build, later } from "./desk.mjs";

test.beforeEach(browser);
test.afterEach(() => {
  later();
  test.mock.timers.reset();
  delete globalThis.marked;
});

test("a change that is added has a free name, a place on the grid, and is selected; Python has it", () => {
  const desk = new Desk();
  add(desk.store, "change", { x: 301, y: 203 });
  later();
  assert.deepEqual(Object.keys(desk.document.nodes), ["a", "b", "c", "change"]);
  assert.deepEqual(desk.document.layout.change, [304, 208]);
  assert.deepEqual(desk.selections.at(-1), ["change"]);
  add(desk.store, "change", { x: 301, y: 203 });
  assert.deepEqual(desk.doc.layout["change-2"], [304, 336], "it does not hide the other");
});

test("a change that is added to an output is connected, or a notice names its type", () => {
  const desk = new Desk(build({ l: "learn" }));
  add(desk.store, "apply", { x: 400, y: 0 }, "l.model");
  assert.deepEqual(desk.wires, ["l.model > apply.model"]);
  assert.equal(desk.notice, null);
  add(desk.store, "gather", { x: 800, y: 0 }, "l.model");
  assert.deepEqual(desk.wires, ["l.model > apply.model"]);
  assert.ok(desk.nodes.includes("gather"));
  assert.equal(desk.notice.kind, "warning");
  assert.match(desk.notice.text, /Gather/);
  assert.match(desk.notice.text, /model/);
});

test("every edit is undone and redone, by key and by button", () => {
  const desk = new Desk();
  desk.store.select(["b"]);
  desk.press("Delete");
  assert.deepEqual([desk.nodes, desk.wires], [["a", "c"], []]);
  add(desk.store, "learn", { x: 0, y: 300 });
  desk.press("Control+z");
  desk.press("Control+z");
  assert.deepEqual(desk.doc, CHAIN);
  assert.equal(desk.store.view.canUndo, false);
  desk.press("Control+Shift+Z");
  assert.deepEqual(desk.nodes, ["a", "c"]);
  desk.press("Control+y");
  assert.deepEqual(desk.nodes, ["a", "c", "learn"]);
  assert.equal(desk.store.view.canRedo, false);
  desk.store.undo();
  desk.store.undo();
  later();
  assert.deepEqual(desk.doc, CHAIN);
  assert.deepEqual([desk.document.edges, Object.keys(desk.document.nodes)], [CHAIN.edges, ["a", "b", "c"]]);
});

test("undo brings back the parameters of a deleted node, and Python gets them", () => {
  const given = { ...CHAIN, nodes: { ...CHAIN.nodes, a: { type: "load", params: { source: "sample:digits" } } } };
  const desk = new Desk(given);
  desk.store.select(["a"]);
  desk.press("Backspace");
  later();
  assert.deepEqual(Object.keys(desk.document.nodes), ["b", "c"]);
  desk.store.undo();
  later();
  assert.deepEqual(desk.document.nodes.a, { type: "load", params: { source: "sample:digits" } });
  assert.deepEqual(desk.nodes, ["a", "b", "c"], "in its old place");
});

test("what Python sets in a form is shown, is one change of undo, and is restored in Python by it", () => {
  const desk = new Desk();
  desk.document = { ...desk.document, nodes: { ...desk.document.nodes, a: { type: "load", label: "Renamed", params: { source: "x" } } } };
  desk.rerun();
  assert.equal(desk.doc.nodes.a.label, "Renamed");
  desk.store.undo();
  later();
  assert.deepEqual(desk.document.nodes.a, { type: "load" });
});

test("a deleted name is not given again while undo could bring the node back", () => {
  const desk = new Desk();
  add(desk.store, "change", { x: 0, y: 300 });
  desk.press("Delete");
  assert.equal(add(desk.store, "change", { x: 0, y: 300 }), "change-2");
});

test("an edge is selected alone and deleted by key", () => {
  const desk = new Desk();
  desk.store.select(["a"]);
  desk.store.selectEdge("a.table>b.table");
  assert.deepEqual(desk.store.selected, { ids: [], edges: [CHAIN.edges[0]] });
  desk.press("Delete");
  assert.deepEqual([desk.wires, desk.nodes], [["b.table > c.table"], ["a", "b", "c"]]);
});

test("the end of an edge is led to another port and back by one undo", () => {
  const desk = new Desk(build({ a: "load", d: "load", b: "change", c: "change" }, [["a.table", "b.table"], ["b.table", "c.table"]]));
  const before = desk.doc;
  retarget(desk.store, desk.doc.edges[0], { from: "d.table", to: "b.table" });
  assert.deepEqual(desk.wires, ["d.table > b.table", "b.table > c.table"]);
  desk.store.undo();
  assert.equal(desk.doc, before);
  retarget(desk.store, desk.doc.edges[0], { from: "c.table", to: "b.table" });
  assert.equal(desk.doc, before, "a circle is refused");
  assert.equal(desk.notice.kind, "warning");
  retarget(desk.store, desk.doc.edges[0], desk.doc.edges[0]);
  assert.equal(desk.store.view.canUndo, false, "an end let go where it was is not an edit");
});

test("a connection that replaces another is taken back by one undo", () => {
  const desk = new Desk();
  link(desk.store, { from: "a.table", to: "c.table" });
  assert.deepEqual(desk.wires, ["a.table > b.table", "a.table > c.table"]);
  desk.store.undo();
  assert.deepEqual(desk.doc, CHAIN);
  assert.equal(desk.store.view.canUndo, false);
});

test("a selection is copied, pasted, duplicated and cut with its edges and parameters", () => {
  const given = { ...CHAIN, nodes: { ...CHAIN.nodes, a: { type: "load", params: { source: "s" } } } };
  const desk = new Desk(given);
  desk.store.select(["a", "b"]);
  desk.press("Control+c");
  desk.press("Control+v");
  assert.deepEqual(desk.nodes, ["a", "b", "c", "a-2", "b-2"]);
  assert.ok(desk.wires.includes("a-2.table > b-2.table"));
  assert.deepEqual(desk.doc.nodes["a-2"].params, { source: "s" });
  assert.deepEqual(desk.store.selected.ids, ["a-2", "b-2"]);
  desk.press("Control+v");
  assert.deepEqual(desk.doc.layout["a-3"], [64, 64], "further on with each paste");
  desk.press("Control+d");
  assert.deepEqual(desk.store.selected.ids, ["a-4", "b-4"]);
  desk.press("Control+x");
  assert.deepEqual(desk.nodes.filter((id) => id.endsWith("-4")), []);
  desk.press("Control+v");
  later();
  assert.deepEqual(desk.document.nodes["a-5"].params, { source: "s" });
});

test("text that is marked is copied as text", () => {
  const desk = new Desk();
  desk.store.select(["a"]);
  duplicateSelected(desk.store);
  globalThis.marked = "a word";
  assert.deepEqual(desk.press("Control+c"), { stopped: false, prevented: false });
  globalThis.marked = "";
  assert.deepEqual(desk.press("Control+c"), { stopped: true, prevented: true });
});

test("arrows move what is selected on the grid, all at once, and one undo takes it back", () => {
  const desk = new Desk();
  desk.store.select(["a", "b"]);
  for (let times = 0; times < 3; times++) desk.press("ArrowDown");
  desk.press("Shift+ArrowRight");
  assert.deepEqual(desk.doc.layout, { a: [80, 48], b: [368, 48], c: [576, 0] });
  desk.store.undo();
  assert.deepEqual(desk.doc, CHAIN);
  desk.store.select([]);
  assert.deepEqual(desk.press("ArrowDown"), { stopped: false, prevented: false }, "the page scrolls");
});

test("Ctrl A selects all, notes too, and Delete empties the canvas", () => {
  const desk = new Desk();
  note(desk.store, { x: 0, y: 200 });
  desk.press("Control+a");
  assert.equal(desk.store.selected.ids.length, 4);
  later();
  assert.deepEqual(desk.selections.at(-1), ["a", "b", "c"], "Python hears of nodes only");
  desk.press("Delete");
  later();
  assert.deepEqual(desk.document, EMPTY);
});

test("the canvas's letters never reach Streamlit, and typing never reaches the canvas", () => {
  const desk = new Desk();
  desk.store.select(["a"]);
  for (const key of ["c", "r"]) assert.deepEqual(desk.press(key), { stopped: true, prevented: false }, key);
  for (const on of ["input", "dialog"]) assert.deepEqual(desk.press("Delete", { on }), { stopped: false, prevented: false }, on);
  assert.deepEqual(desk.press("r", { on: "input" }), { stopped: true, prevented: false });
  desk.press("Delete", { on: "palette" });
  assert.deepEqual(desk.nodes, ["a", "b", "c"]);
  assert.equal(desk.press("Alt+c").prevented, false);
});

test("keys ask for what needs the screen", () => {
  const desk = new Desk();
  const asked = [];
  const tell = (name) => () => asked.push(name);
  const ui = { search: tell("search"), fit: tell("fit"), note: tell("note"), connect: () => tell("connect"), open: () => tell("open") };
  for (const key of ["/", "f", "n", "e", "Enter"]) desk.press(key, { ui });
  assert.deepEqual(asked, ["search", "fit", "note", "connect", "open"]);
  assert.equal(desk.press("Enter", { ui, on: "button" }).prevented, false, "a button is pressed");
  assert.equal(desk.press("/", { ui, on: "palette" }).prevented, true);
});

test("Escape closes what lies over the canvas, else it ends the selection", () => {
  const desk = new Desk();
  const closed = [];
  desk.store.select(["a"]);
  desk.store.set({ overlay: { kind: "menu" } });
  desk.press("Escape", { ui: { close: () => closed.push(1) } });
  assert.deepEqual([closed.length, desk.store.selected.ids], [1, ["a"]]);
  desk.store.set({ overlay: null });
  desk.press("Escape");
  assert.deepEqual(desk.store.selected.ids, []);
});

for (const keys of ["Control+Enter", "Meta+Enter"]) {
  test(`${keys} asks to run everything, after the edit that was made just before`, () => {
    const desk = new Desk();
    add(desk.store, "load", { x: 0, y: 300 });
    desk.press(keys);
    assert.ok(desk.document.nodes.load, "the edit did not wait");
    assert.deepEqual(desk.asked, [["run", { node: "", direction: "all" }]]);
  });
}

test("notes are written, moved, resized and removed; their text stays as it is", () => {
  const desk = new Desk();
  const text = "<b>bold?</b> remember";
  const id = note(desk.store, { x: 5, y: 200 });
  writeNote(desk.store, id, text);
  desk.store.dropped([{ id, position: { x: 32, y: 64 } }]);
  resizeNote(desk.store, id, { x: 32, y: 64, width: 161, height: 90 });
  later();
  assert.deepEqual(desk.document.notes, [{ text, x: 32, y: 64, width: 160, height: 96 }]);
  desk.store.select([id]);
  desk.press("Delete");
  assert.deepEqual(desk.doc.notes, []);
});

test("tidying up is one edit that Python gets", () => {
  const desk = new Desk({ ...CHAIN, layout: { a: [500, 500], b: [0, 0], c: [3, 3] } });
  tidy(desk.store);
  later();
  const [a, b, c] = ["a", "b", "c"].map((id) => desk.document.layout[id][0]);
  assert.ok(a < b && b < c);
  desk.store.undo();
  assert.deepEqual(desk.doc.layout.a, [500, 500]);
});

test("nodes without a place get one, below those that have one", () => {
  const desk = new Desk({ ...CHAIN, layout: { a: [0, 64] } });
  const { a, b, c } = desk.doc.layout;
  assert.deepEqual(a, [0, 64]);
  assert.ok(b[1] > 64 && c[1] > 64 && b[0] < c[0]);
});

test("states that arrive while a node is dragged move nothing and draw only the node they are about", () => {
  const desk = new Desk();
  const [a, b, c] = desk.store.view.nodes;
  const dragged = { ...c, dragging: true, position: { x: 7, y: 9 } };
  desk.store.nodesChanged([a, b, dragged], false);
  desk.states = { b: { state: "running", progress: 0.5 } };
  desk.rerun();
  const after = desk.store.view.nodes;
  assert.equal(after[0], a);
  assert.equal(after[1].domAttributes["data-state"], "running");
  assert.equal(after[2], dragged, "it stays in the hand");
  assert.deepEqual(desk.doc.layout.c, CHAIN.layout.c);
});

test("Python hears of a selection only when the dragged node is let go", () => {
  const desk = new Desk();
  desk.store.dragStarted();
  desk.store.nodesChanged(desk.store.view.nodes.map((node) => ({ ...node, selected: node.id === "c" })), true);
  later();
  assert.deepEqual(desk.selections, []);
  window.dispatchEvent(new Event("pointerup"));
  later();
  assert.deepEqual(desk.selections, [["c"]]);
});

test("an edit made while Python puts another document in place is carried over, with a notice", () => {
  const desk = new Desk();
  desk.busy = true;
  desk.store.select(["c"]);
  desk.press("Delete");
  add(desk.store, "learn", { x: 0, y: 300 });
  later();
  desk.busy = false;
  desk.replace({ ...CHAIN, nodes: { ...CHAIN.nodes, made: { type: "load" } }, layout: { ...CHAIN.layout, made: [0, 400] } });
  later();
  assert.deepEqual(Object.keys(desk.document.nodes), ["a", "b", "made", "learn"]);
  assert.deepEqual(desk.nodes, ["a", "b", "made", "learn"]);
  assert.equal(desk.notice.kind, "info");
});

test("a document that Python replaces is not asked about when there is nothing to carry over", () => {
  const desk = new Desk();
  desk.replace(build({ z: "load" }));
  assert.deepEqual([desk.nodes, desk.notice, desk.edits], [["z"], null, []]);
  desk.store.undo();
  assert.deepEqual(desk.nodes, ["a", "b", "c"], "but it can be undone");
});

test("an edit that came too late for its pipeline waits there and does not reach another", () => {
  const desk = new Desk();
  desk.busy = true;
  add(desk.store, "learn", { x: 0, y: 300 });
  later();
  const other = new Desk(build({ z: "load" }), { pipeline: "q", store: desk.store });
  later();
  assert.equal(other.notice.kind, "warning");
  assert.deepEqual([other.nodes, other.edits], [["z"], []]);
  const again = new Desk(CHAIN, { pipeline: "p", store: other.store });
  later();
  assert.deepEqual(Object.keys(again.document.nodes), ["a", "b", "c", "learn"]);
});

test("an edit that is not sent yet goes with the canvas and is found by the next", () => {
  const desk = new Desk();
  desk.busy = true;
  desk.store.select(["c"]);
  desk.press("Delete");
  desk.store.dispose();
  assert.equal(desk.edits.length, 1, "sent at the last moment");
  const again = new Desk(CHAIN, { store: new CanvasStore() });
  later();
  assert.deepEqual([Object.keys(again.document.nodes), again.nodes], [["a", "b"], ["a", "b"]]);
});

test("undo, selection and viewport outlive a page switch", () => {
  const desk = new Desk();
  add(desk.store, "learn", { x: 0, y: 300 });
  desk.store.moveViewport({ x: 1, y: 2, zoom: 0.5 });
  later();
  desk.store.dispose();
  const again = new Desk(desk.document, { store: new CanvasStore() });
  assert.deepEqual([again.store.view.viewport, again.store.selected.ids], [{ x: 1, y: 2, zoom: 0.5 }, ["learn"]]);
  again.store.undo();
  later();
  assert.deepEqual(Object.keys(again.document.nodes), ["a", "b", "c"]);
});

test("Python can reveal a node once, also on a canvas that remembers another place", () => {
  const desk = new Desk();
  desk.reveal = { node: "c", token: 1 };
  desk.rerun();
  later();
  assert.deepEqual([desk.store.view.reveal, desk.selections.at(-1)], [{ node: "c", token: 1 }, ["c"]]);
  desk.store.select(["a"]);
  desk.rerun();
  assert.deepEqual(desk.store.selected.ids, ["a"], "the same wish is granted once");
  later();
  desk.store.dispose();
  const again = new Desk(CHAIN, { store: new CanvasStore() });
  again.reveal = { node: "b", token: 2 };
  again.rerun();
  assert.deepEqual(again.store.selected.ids, ["b"]);
  again.reveal = { node: "gone", token: 3 };
  again.rerun();
  assert.deepEqual(again.store.selected.ids, ["b"], "a node that is not there");
});

test("what Python refuses is said once for each edit, with Python's reason", () => {
  const desk = new Desk();
  desk.rerun({ refused: "The file is read-only." });
  const first = desk.notice;
  assert.equal(first.kind, "warning");
  assert.match(first.text, /The file is read-only\./);
  desk.rerun({ refused: "The file is read-only." });
  assert.equal(desk.notice, first);
  desk.busy = true;
  add(desk.store, "learn", { x: 0, y: 300 });
  later();
  desk.rerun({ refused: "The file is read-only." });
  assert.notEqual(desk.notice, first, "the next edit is not saved either");
});

test("problems are shown at their node and a wrong edge is marked", () => {
  const desk = new Desk();
  desk.rerun({ problems: [{ node: "b", text: "one" }, { node: "b", text: "two" }, { node: null, edge: CHAIN.edges[0], text: "three" }] });
  assert.deepEqual({ ...desk.store.view.problems }, { b: ["one", "two"] });
  assert.deepEqual(desk.store.view.edges.map(({ className }) => className.includes("wrong")), [true, false]);
});

test("a node of a type that is not installed keeps the ports its edges name", () => {
  const desk = new Desk({ ...build({ a: "load", x: "strange" }), edges: [{ from: "a.table", to: "x.entry" }, { from: "a.table", to: "gone.table" }] });
  const stranger = desk.store.view.nodes.find(({ id }) => id === "x");
  assert.deepEqual(stranger.data.ports.inputs.map(({ name, ghost }) => [name, ghost]), [["entry", true]]);
  assert.equal(desk.store.view.edges.length, 1, "an edge to a node that is not there is not drawn");
  add(desk.store, "learn", { x: 0, y: 300 });
  assert.equal(desk.doc.edges.length, 2, "but kept");
});

test("a collapsed group whose nodes have no position, or one of them not, is laid out", () => {
  for (const layout of [{}, { a: [0, 64], c: [0, 0] }]) {
    const desk = new Desk({ ...CHAIN, layout, groups: [{ title: "Data", nodes: ["a", "b"], collapsed: true }] });
    assert.deepEqual(desk.store.view.nodes.map(({ id }) => id), ["group:a", "c"]);
    assert.ok(Object.values(desk.doc.layout).flat().every(Number.isFinite));
  }
});

for (const name of ["constructor", "toString", "valueOf", "__proto__"]) {
  test(`the name ${name} is as good as any other`, () => {
    const own = (value) => JSON.parse(`{"${name}": ${JSON.stringify(value)}}`); // an own property, even of this name
    const problems = [{ node: name, text: "one" }];
    const lone = new Desk({ ...EMPTY, nodes: own({ type: "load" }) });
    lone.rerun({ problems });
    assert.ok(lone.doc.layout[name].every(Number.isFinite));
    const edges = [...CHAIN.edges, { from: `${name}.table`, to: "b.table" }];
    const groups = [{ title: "Group", nodes: [name, "a"], collapsed: false }];
    const desk = new Desk({ ...CHAIN, nodes: { ...CHAIN.nodes, c: { type: name } }, edges, groups });
    desk.rerun({ problems });
    assert.deepEqual(desk.store.view.nodes.map(({ id }) => id), ["group:a", "a", "b", "c"]);
    assert.match(desk.store.view.nodes.at(-1).ariaLabel, new RegExp(name));
    tidy(desk.store);
    desk.replace(CHAIN);
  });
}

test("three hundred nodes are edited and only what changed is drawn again", () => {
  const desk = new Desk(build(Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`s${at}`, "change"]))));
  const before = desk.store.view.nodes;
  desk.store.dropped([{ id: "s100", position: { x: 16, y: 320 } }]);
  const changed = desk.store.view.nodes.filter((node, at) => node !== before[at]).map(({ id }) => id);
  assert.deepEqual(changed, ["s100"]);
});
