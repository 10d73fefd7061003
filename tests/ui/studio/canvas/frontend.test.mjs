// The parts of the canvas that need no browser. Run by test_frontend.py, or by `node --test`.

import assert from "node:assert/strict";
import test from "node:test";
import { ranked, typesByCategory } from "../../../../ui/studio/canvas/frontend/src/find.js";
import { History } from "../../../../ui/studio/canvas/frontend/src/history.js";
import { layered } from "../../../../ui/studio/canvas/frontend/src/layout.js";
import { addNode, connect, copy, disconnect, freeId, fromWire, move, paste, reconnect, remove, toWire } from "../../../../ui/studio/canvas/frontend/src/model.js";
import { difference, isEmpty, rebase } from "../../../../ui/studio/canvas/frontend/src/rebase.js";
import { load, save } from "../../../../ui/studio/canvas/frontend/src/storage.js";
import { displaced, edgeInto, edgesAt, objection, refusal, replacing } from "../../../../ui/studio/canvas/frontend/src/rules.js";
import { isWithin, openingView } from "../../../../ui/studio/canvas/frontend/src/view.js";
import { ariaLabelOf, duration, smallPrint, stateLine, stateTitle } from "../../../../ui/studio/canvas/frontend/src/words.js";
import { CATEGORIES, CHAIN, EMPTY, RULES, TYPES, build, port } from "./desk.mjs";

const TITLES = Object.fromEntries(Object.entries(TYPES).map(([name, { title }]) => [name, title]));

/** Whether a sentence names all of these. */
const names = (sentence, ...parts) => parts.forEach((part) => assert.ok(sentence?.includes(part), `${part} in “${sentence}”`));

test("a connection is refused for its own reason, which names what it is about", () => {
  const doc = build({ a: "load", b: "change", c: "change", l: "learn" }, [["a.table", "b.table"], ["b.table", "c.table"]]);
  const why = (from, to, where = doc) => refusal(where, RULES, { from, to }, TITLES);
  const free = remove(doc, [], [doc.edges[0]]);
  const reasons = {
    itself: why("b.table", "b.table"),
    there: why("a.table", "b.table"),
    occupied: why("a.table", "c.table"),
    sides: why("c.table", "a.nothing"),
    circle: why("c.table", "b.table", free),
    type: why("l.model", "c.table"),
  };
  for (const [name, reason] of Object.entries(reasons)) assert.ok(reason, name);
  assert.equal(new Set(Object.values(reasons)).size, 6, "six reasons, six sentences");
  names(reasons.occupied, "table", TITLES.change);
  names(reasons.circle, TITLES.change);
  names(reasons.type, "table", "model");
  assert.equal(why("a.table", "b.table", free), null);
});

test("a refusal names an input that takes it, if one is free", () => {
  const doc = build({ a: "load", p: "apply" });
  const why = (where) => refusal(where, RULES, { from: "a.table", to: "p.model" });
  names(why(doc), "model", "table", "rows");
  assert.ok(!why(connect(doc, { from: "a.table", to: "p.rows" })).includes("rows"));
});

test("an edge to an input that takes one and has one is drawn in its place; every other reason still refuses it", () => {
  const doc = build({ a: "load", b: "change", c: "change", d: "load", l: "learn" }, [["a.table", "b.table"], ["b.table", "c.table"]]);
  const edge = { from: "d.table", to: "c.table" };
  const why = (from, to) => objection(doc, RULES, { from, to });
  assert.equal(why("d.table", "c.table"), null);
  assert.deepEqual(displaced(doc, RULES, edge), [doc.edges[1]]);
  names(replacing(doc, RULES, edge, TITLES), TITLES.change, "table");
  for (const [from, to] of [["c.table", "b.table"], ["b.table", "c.table"], ["l.model", "c.table"], ["c.table", "c.table"], ["c.table", "d.nothing"]]) {
    assert.ok(why(from, to), `${from} ${to}`);
  }
  assert.deepEqual(displaced(doc, RULES, { from: "b.table", to: "c.table" }), [], "itself");
  assert.equal(replacing(doc, RULES, { from: "d.table", to: "l.table" }, {}), null, "a free input");
});

test("an input for many gives none up", () => {
  const doc = build({ a: "load", b: "load", g: "gather" }, [["a.table", "g.tables"]]);
  assert.deepEqual(displaced(doc, RULES, { from: "b.table", to: "g.tables" }), []);
});

test("every connection that a node can have is listed, free inputs first, then the nearest", () => {
  const doc = build({ a: "load", b: "change", c: "change", d: "learn", x: "change" }, [["a.table", "b.table"], ["b.table", "c.table"]]);
  const listed = (id) => edgesAt(doc, RULES, id, TITLES);
  const wires = (id) => listed(id).map(({ edge, note }) => `${edge.from} ${edge.to}${note ? " replaces" : ""}`);
  assert.deepEqual(wires("d"), ["c.table d.table", "x.table d.table", "b.table d.table", "a.table d.table"]);
  assert.deepEqual(wires("a"), ["a.table d.table", "a.table x.table", "a.table c.table replaces"]);
  names(listed("a")[0].name, TITLES.load, TITLES.learn);
  names(listed("a")[2].name, `${TITLES.change} (2)`, "table");
  assert.deepEqual(edgesAt(build({ a: "load" }), RULES, "a", TITLES), []);
});

test("an input for many takes many, but not the same twice", () => {
  const doc = build({ a: "load", b: "load", g: "gather" }, [["a.table", "g.tables"]]);
  assert.equal(refusal(doc, RULES, { from: "b.table", to: "g.tables" }), null);
  assert.ok(refusal(doc, RULES, { from: "a.table", to: "g.tables" }));
});

test("an edge led to another port keeps its place, and its old port counts as free", () => {
  const [first, second] = CHAIN.edges;
  const moved = reconnect(CHAIN, second, { from: "a.table", to: "c.table" });
  assert.deepEqual(moved.edges, [first, { from: "a.table", to: "c.table" }]);
  assert.deepEqual(reconnect(CHAIN, first, first), CHAIN);
  const loose = disconnect(CHAIN, second);
  assert.deepEqual(loose.edges, [first]);
  assert.equal(refusal(loose, RULES, { from: "a.table", to: "c.table" }), null);
  assert.ok(refusal(loose, RULES, { from: "c.table", to: "b.table" }), "the other edge still takes its input");
});

test("a dropped type is connected to its first free input that fits, or says why not", () => {
  const { edge, reason } = edgeInto(build({ l: "learn", s: "change" }), RULES, "l.model", "s", TITLES);
  assert.equal(edge, null);
  names(reason, TITLES.change, "model");
  assert.deepEqual(edgeInto(build({ a: "load", s: "change" }), RULES, "a.table", "s", {}).edge, { from: "a.table", to: "s.table" });
});

test("an edit is found and made again upon another document", () => {
  const mine = connect(addNode(move(remove(CHAIN, ["c"]), { a: [16, 16] }), "d", { type: "change" }, [5, 5]), { from: "b.table", to: "d.table" });
  const theirs = addNode(CHAIN, "e", { type: "load" }, [9, 9]);
  const { doc, lost } = rebase(theirs, difference(CHAIN, mine), RULES);
  assert.deepEqual(Object.keys(doc.nodes), ["a", "b", "e", "d"]);
  assert.deepEqual(doc.layout.a, [16, 16]);
  assert.deepEqual(doc.edges, [{ from: "a.table", to: "b.table" }, { from: "b.table", to: "d.table" }]);
  assert.deepEqual(lost, []);
});

test("making an edit again that is there already changes nothing", () => {
  const mine = connect(addNode(CHAIN, "d", { type: "change" }, [5, 5]), { from: "c.table", to: "d.table" });
  const { doc, lost } = rebase(mine, difference(CHAIN, mine), RULES);
  assert.deepEqual(doc, mine);
  assert.deepEqual(lost, []);
});

test("a new node whose name was taken meanwhile gets another, and its edges follow", () => {
  const mine = connect(addNode(CHAIN, "d", { type: "change" }, [5, 5]), { from: "c.table", to: "d.table" });
  const theirs = addNode(CHAIN, "d", { type: "load" }, [400, 400]);
  const { doc } = rebase(theirs, difference(CHAIN, mine), RULES);
  assert.equal(doc.nodes.d.type, "load");
  assert.equal(doc.nodes["d-2"].type, "change");
  assert.ok(doc.edges.some(({ from, to }) => from === "c.table" && to === "d-2.table"));
});

test("what cannot be carried over is reported", () => {
  const mine = connect(addNode(CHAIN, "d", { type: "change" }, [5, 5]), { from: "c.table", to: "d.table" });
  const { doc, lost } = rebase(remove(CHAIN, ["c"]), difference(CHAIN, mine), RULES);
  assert.ok(doc.nodes.d);
  assert.equal(lost.length, 1);
  names(lost[0], "a deleted node", "change: table");
});

test("no edit is an empty difference", () => assert.ok(isEmpty(difference(CHAIN, { ...CHAIN }))));

test("notes keep their ids as long as they read the same", () => {
  const notes = [{ text: "a", x: 0, y: 0, width: 9, height: 9 }, { text: "a", x: 0, y: 0, width: 9, height: 9 }];
  const doc = fromWire({ ...EMPTY, notes });
  assert.equal(new Set(doc.notes.map(({ id }) => id)).size, 2);
  const again = fromWire({ ...EMPTY, notes: [notes[0], { ...notes[1], text: "b" }] }, doc.notes);
  assert.equal(again.notes[0].id, doc.notes[0].id);
  assert.notEqual(again.notes[1].id, doc.notes[1].id);
  assert.deepEqual(toWire(doc).notes, notes);
});

test("Python gets types only, and content where the canvas gave it", () => {
  const doc = { ...EMPTY, nodes: { a: { type: "load", params: { x: 1 } }, b: { type: "change", label: "B" } } };
  assert.deepEqual(toWire(doc, { b: { since: 2, label: "B" } }).nodes, { a: { type: "load" }, b: { type: "change", since: 2, label: "B" } });
});

test("a copy brings its inner edges and takes names that are free", () => {
  const { doc, ids } = paste(CHAIN, copy(CHAIN, ["a", "b"]), [32, 32], new Set(["a-2"]));
  assert.deepEqual(ids, ["a-3", "b-2"]);
  assert.deepEqual(doc.edges.at(-1), { from: "a-3.table", to: "b-2.table" });
  assert.deepEqual(doc.layout["b-2"], [320, 32]);
});

test("names are the engine's: letters, digits, - and _", () => {
  assert.equal(freeId("split", new Set(["split"])), "split-2");
  assert.equal(freeId("split-2", new Set(["split", "split-2"])), "split-3");
  assert.match(freeId("9 <b>", new Set()), /^[A-Za-z][A-Za-z0-9_-]*$/);
});

test("edits of one series are undone as one", () => {
  const history = new History();
  for (const [before, series] of [["0", null], ["1", "nudge"], ["2", "nudge"], ["3", null]]) history.record(before, series);
  assert.deepEqual(history.past, ["0", "1", "3"]);
  assert.equal(history.undo("4"), "3");
  assert.equal(history.undo("3"), "1");
  assert.equal(history.redo("1"), "3");
  history.record("5");
  assert.equal(history.redo("6"), null);
});

test("what a tab remembers is read as it was written, with fewer nodes of undo where it would be too much", () => {
  const kept = new Map();
  globalThis.sessionStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text) };
  const change = (at) => ({ ...CHAIN, notes: [{ id: "note:1", text: "long ".repeat(20_000) + at }] });
  const memory = { doc: CHAIN, viewport: { x: 1, y: 2, zoom: 1 }, unconfirmed: null, selected: ["a"] };
  save("p", { ...memory, past: [CHAIN, { ...CHAIN, edges: [] }], future: [CHAIN] });
  assert.deepEqual(load("p"), { ...memory, past: [CHAIN, { ...CHAIN, edges: [] }], future: [CHAIN] });
  save("p", { ...memory, past: Array.from({ length: 40 }, (_, at) => change(at)), future: [] });
  assert.ok([...kept.values()].every((text) => text.length <= 1_500_000));
  assert.equal(load("p").past.length, 7);
  assert.ok(load("p").past.at(-1).notes[0].text.endsWith("39"));
  assert.deepEqual(load("q"), {});
  delete globalThis.sessionStorage;
});

test("the layout goes left to right and lets nothing overlap, even for a circle", () => {
  const wide = build(
    Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`n${at}`, "change"])),
    Array.from({ length: 60 }, (_, at) => [`n${at % 20}.table`, `n${(at * 7) % 20 + 20}.table`]),
  );
  const circle = build({ a: "change", b: "change" }, [["a.table", "b.table"], ["b.table", "a.table"]]);
  const size = { width: 208, height: 84 };
  for (const doc of [CHAIN, wide, circle, EMPTY]) {
    const places = Object.entries(layered(doc, () => size));
    assert.equal(places.length, Object.keys(doc.nodes).length);
    for (const [one, [x, y]] of places) {
      assert.ok(x % 16 === 0 && y % 16 === 0);
      for (const [other, [u, v]] of places) {
        if (one !== other) assert.ok(Math.abs(x - u) >= size.width || Math.abs(y - v) >= size.height, `${one} over ${other}`);
      }
    }
    const at = Object.fromEntries(places);
    if (doc === wide || doc === CHAIN) for (const { from, to } of doc.edges) assert.ok(at[from.split(".")[0]][0] < at[to.split(".")[0]][0]);
  }
});

const STAGE = { width: 1000, height: 600 };
const grid = (columns, rows) => Array.from({ length: columns * rows }, (_, at) => ({ x: (at % columns) * 288, y: Math.floor(at / columns) * 144, width: 208, height: 104 }));
const onScreen = ({ x, y, zoom }, box) => ({ left: x + box.x * zoom, right: x + (box.x + box.width) * zoom, top: y + box.y * zoom, bottom: y + (box.y + box.height) * zoom });
test("a pipeline opens as a whole if its text is readable then, else at its beginning", () => {
  const cases = [
    [[1, 1], 1, 1],
    [[3, 1], 1, 3],
    [[4, 1], 0.91, 4],
    [[6, 1], 0.9, 4],
    [[15, 7], 0.9, 16],
    [[200, 1], 0.9, 4],
  ];
  for (const [[columns, rows], zoom, seen] of cases) {
    const boxes = grid(columns, rows);
    const view = openingView(boxes, STAGE);
    assert.equal(Math.round(view.zoom * 100) / 100, zoom, `${columns} × ${rows}`);
    assert.ok(isWithin(STAGE, view, boxes[0]), `the first of ${columns} × ${rows}`);
    assert.equal(boxes.filter((box) => isWithin(STAGE, view, box)).length, seen, `${columns} × ${rows}`);
  }
});

test("what is cut by the stage's border is not within", () => {
  const box = { x: 0, y: 0, width: 208, height: 104 };
  for (const [x, y, zoom, within] of [[0, 0, 1, true], [-1, 0, 1, false], [0, -1, 1, false], [793, 0, 1, false], [793, 0, 0.9, true], [0, 497, 1, false]]) {
    assert.equal(isWithin(STAGE, { x, y, zoom }, box), within, `${x}, ${y}, ${zoom}`);
  }
});

test("a pipeline that begins in the middle of its height opens there", () => {
  const boxes = [{ x: 0, y: 1000, width: 208, height: 104 }, ...grid(3, 15).map((box) => ({ ...box, x: box.x + 288 }))];
  const { top, bottom } = onScreen(openingView(boxes, STAGE), boxes[0]);
  assert.ok(top > 150 && bottom < 450, `${top} to ${bottom}`);
});

test("states are shown in words", () => {
  assert.equal(stateLine({ state: "idle" }), null);
  assert.equal(stateLine({ state: "running", progress: 0.45, text: "layer 2" }), "45 % · layer 2");
  assert.equal(stateLine({ state: "queued" }), "Queued");
  assert.equal(stateLine({ state: "done", seconds: 0.04, result: "1,797 × 65", text: "read" }), "1,797 × 65");
  assert.equal(stateLine({ state: "cached", text: "same inputs" }), "same inputs");
  assert.equal(smallPrint({ state: "done", seconds: 0.04 }), "40 ms");
  assert.equal(smallPrint({ state: "cached", seconds: 0.04 }), "cached");
  assert.equal(stateTitle({ state: "done", seconds: 2 }), "Done in 2.0 s");
  assert.equal(ariaLabelOf("Split", { state: "failed", text: "no column age" }), "Split, failed: no column age");
  assert.equal(ariaLabelOf("Split", { state: "idle" }, true), "Split, bypassed");
  assert.equal(ariaLabelOf("Evaluate", { state: "done", headline: "97.4 %", result: "accuracy" }), "Evaluate, done: 97.4 %, accuracy");
  const said = { 0: "0 ms", 0.9994: "999 ms", 0.9996: "1.0 s", 9.96: "10 s", 59.7: "1 min 0 s", 119.7: "2 min 0 s", 184: "3 min 4 s", 7265: "2 h 1 min" };
  for (const [seconds, words] of Object.entries(said)) assert.equal(duration(Number(seconds)), words);
});

test("nodes are found by the words of their title, name, summary and category, titles first", () => {
  const all = (query) => typesByCategory(TYPES, CATEGORIES, query).map(({ category, items }) => [category, items.map(([name]) => name)]);
  assert.deepEqual(all(""), [["Data", ["load"]], ["Prepare", ["change", "gather"]], ["Train", ["learn"]], ["Predict", ["apply"]]]);
  assert.deepEqual(all("FOREST"), [["Train", ["learn"]], ["Predict", ["apply"]]]);
  assert.deepEqual(all("table  joins"), [["Prepare", ["gather"]]]);
  assert.deepEqual(all("nothing"), []);
  assert.deepEqual(ranked(TYPES, CATEGORIES, "pre").map(([name]) => name), ["apply", "change", "gather"]);
});
