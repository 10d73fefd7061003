// Edits of the canvas beyond nodes and edges: connecting what is added, names, bypass and groups.

import assert from "node:assert/strict";
import test from "node:test";
import {
  add, addAfterSelected, connectable, groupSelected, rename, removeSelected, toggleBypass, toggleGroup, ungroupSelected,
} from "../../../../ui/studio/canvas/frontend/src/actions.js";
import { importFile } from "../../../../ui/studio/canvas/frontend/src/drop.js";
import { fromWire } from "../../../../ui/studio/canvas/frontend/src/model.js";
import { CHAIN, Desk, EMPTY, browser, build, later } from "./desk.mjs";

browser();

const BELOW = { x: 0, y: 400 };
const node = (desk, id) => desk.store.view.nodes.find((one) => one.id === id);
const group = (...nodes) => ({ title: "Group", nodes, collapsed: false });

test("a node that is added while one is selected is connected if there is one way to do that", () => {
  const desk = new Desk();
  desk.store.select(["c"]);
  addAfterSelected(desk.store, "learn", BELOW);
  later();
  assert.deepEqual(desk.wires.at(-1), "c.table > learn.table");
  assert.ok(desk.doc.layout.learn[0] > desk.doc.layout.c[0], "right of the selected node");
  assert.deepEqual(desk.store.selected.ids, ["learn"], "so that the next node follows it");
  assert.deepEqual(desk.document.edges, desk.doc.edges);
  desk.store.undo();
  assert.deepEqual(desk.doc, CHAIN, "one undo takes back node and edge");
});

test("it is not connected if nothing fits, if there are several ways, or if not one node is selected", () => {
  const refused = (document, type, selected) => {
    const desk = new Desk(document);
    desk.store.select(selected);
    addAfterSelected(desk.store, type, BELOW);
    assert.deepEqual([desk.wires.length, desk.nodes.length, desk.notice], [document.edges.length, Object.keys(document.nodes).length + 1, null]);
  };
  refused(CHAIN, "load", ["c"]);
  refused(CHAIN, "change", ["a", "b"]);
  refused(CHAIN, "change", []);
  refused(build({ s: "split" }), "learn", ["s"]);
});

test("a node is renamed in place, and an empty name gives it back the title of its type", () => {
  const desk = new Desk();
  rename(desk.store, "b", "  My <b>node</b> ");
  later();
  assert.equal(desk.document.nodes.b.label, "My <b>node</b>");
  rename(desk.store, "b", " ");
  later();
  assert.deepEqual(desk.document.nodes.b, { type: "change" });
  desk.store.undo();
  later();
  assert.equal(desk.document.nodes.b.label, "My <b>node</b>");
  rename(desk.store, "b", "x".repeat(300));
  assert.equal(desk.doc.nodes.b.label.length, 200, "as long as the engine allows");
  rename(desk.store, "b", "\tDeep\tforest\u0085 ");
  assert.equal(desk.doc.nodes.b.label, "Deep forest", "without characters that the engine refuses");
  rename(desk.store, "b", "🌲".repeat(300));
  assert.equal(desk.doc.nodes.b.label, "🌲".repeat(200));
});

test("F2 asks for the name of the one node that is selected", () => {
  const desk = new Desk();
  const asked = [];
  desk.press("F2", { ui: { rename: () => () => asked.push("name") } });
  assert.deepEqual(asked, ["name"]);
  assert.equal(desk.press("F2", { ui: { rename: () => null } }).prevented, false);
});

test("B bypasses what is selected and lets it run again; Python gets both", () => {
  const desk = new Desk();
  assert.equal(desk.press("b").prevented, false, "nothing is selected");
  desk.store.select(["a", "b"]);
  toggleBypass(desk.store);
  toggleBypass(desk.store);
  assert.deepEqual(desk.doc.nodes, CHAIN.nodes);
  desk.store.select(["b"]);
  desk.press("b");
  desk.store.select(["a", "b"]);
  desk.press("b");
  later();
  assert.deepEqual([desk.document.nodes.a.bypass, desk.document.nodes.b.bypass, desk.document.nodes.c.bypass], [true, true, undefined]);
  assert.match(node(desk, "a").ariaLabel, /bypassed/);
  desk.store.undo();
  later();
  assert.deepEqual([desk.document.nodes.a.bypass, desk.document.nodes.b.bypass], [undefined, true]);
});

const withTrees = (trees) => ({ ...CHAIN, nodes: { ...CHAIN.nodes, b: { type: "change", params: { trees }, label: "Mine" } } });

test("bypass, name and undo leave alone the parameters that a form has just set", () => {
  const desk = new Desk(withTrees(100));
  desk.store.select(["b"]);
  rename(desk.store, "b", "Name");
  later();
  desk.document = { ...desk.document, nodes: withTrees(500).nodes }; // the canvas does not know it yet
  toggleBypass(desk.store);
  rename(desk.store, "b", "");
  later();
  assert.deepEqual(desk.document.nodes.b, { type: "change", params: { trees: 500 }, bypass: true });
  assert.deepEqual(desk.doc.nodes.b, desk.document.nodes.b);
  rename(desk.store, "b", "Again");
  later();
  desk.document = { ...desk.document, nodes: { ...desk.document.nodes, b: { ...desk.document.nodes.b, params: { trees: 900 } } } };
  desk.store.undo();
  later();
  assert.equal(desk.document.nodes.b.params.trees, 900);
});

test("a bypass that comes late leaves alone the parameters that another tab has saved", () => {
  const desk = new Desk(withTrees(100));
  desk.busy = true;
  desk.store.select(["b"]);
  toggleBypass(desk.store);
  later();
  desk.busy = false;
  desk.replace(withTrees(500));
  later();
  assert.deepEqual(desk.document.nodes.b, { ...withTrees(500).nodes.b, bypass: true });
});

test("nodes are grouped, and the group is drawn around them", () => {
  const desk = new Desk();
  desk.store.select(["a", "b"]);
  const id = groupSelected(desk.store);
  rename(desk.store, id, "Data");
  rename(desk.store, id, "  ");
  later();
  assert.deepEqual(desk.document.groups, [{ ...group("a", "b"), title: "Data" }], "a group always has a title");
  const frame = node(desk, id);
  assert.ok(frame.position.x < 0 && frame.position.y < 0 && frame.width > 288 + 224);
  assert.equal(frame.zIndex < 0, true, "behind its nodes");
  desk.store.select(["b", "c"]);
  groupSelected(desk.store);
  assert.deepEqual(desk.doc.groups.map(({ nodes }) => nodes), [["a"], ["b", "c"]], "a node is in one group");
  desk.store.undo();
  assert.deepEqual(desk.doc.groups.map(({ nodes }) => nodes), [["a", "b"]]);
});

test("a collapsed group hides its nodes and inner edges, and the other edges end at it", () => {
  const desk = new Desk({ ...CHAIN, groups: [group("a", "b")] });
  toggleGroup(desk.store, "group:a");
  later();
  assert.equal(desk.document.groups[0].collapsed, true);
  assert.deepEqual(desk.store.view.nodes.map(({ id }) => id), ["group:a", "c"]);
  assert.deepEqual(desk.store.view.edges.map(({ source, target }) => [source, target]), [["group:a", "c"]]);
  assert.equal(desk.store.view.routed.ways.size, 1);
  assert.deepEqual(desk.wires, ["a.table > b.table", "b.table > c.table"], "the document has all edges");
  toggleGroup(desk.store, "group:a");
  assert.equal(desk.store.view.nodes.length, 4);
});

test("a group is dragged, copied, deleted and taken apart with its nodes", () => {
  const desk = new Desk({ ...CHAIN, groups: [{ ...group("a", "b"), collapsed: true }] });
  desk.store.dropped([{ id: "group:a", position: { x: 32, y: 64 } }]);
  assert.deepEqual([desk.doc.layout.a, desk.doc.layout.b, desk.doc.layout.c], [[32, 64], [320, 64], [576, 0]]);
  desk.store.select(["group:a"]);
  desk.press("Control+d");
  assert.deepEqual(desk.doc.groups.at(-1).nodes, ["a-2", "b-2"]);
  assert.deepEqual(desk.store.selected.ids, ["group:a-2"]);
  removeSelected(desk.store);
  assert.deepEqual(desk.nodes, ["a", "b", "c"], "a collapsed group is deleted with what it holds");
  toggleGroup(desk.store, "group:a");
  desk.store.select(["group:a"]);
  desk.press("Delete");
  assert.deepEqual([desk.nodes, desk.doc.groups], [["a", "b", "c"], []], "of an open group only the frame");
  desk.store.undo();
  desk.store.select(["group:a"]);
  ungroupSelected(desk.store);
  later();
  assert.deepEqual([desk.document.groups, desk.store.selected.ids], [[], ["a", "b"]]);
});

test("a node that is deleted leaves its group, and a group without nodes is gone", () => {
  const desk = new Desk({ ...CHAIN, groups: [group("a", "b")] });
  desk.store.select(["a"]);
  desk.press("Delete");
  assert.deepEqual(desk.doc.groups, [group("b")]);
  desk.store.select(["b"]);
  desk.press("Delete");
  assert.deepEqual(desk.doc.groups, []);
  desk.store.undo();
  desk.store.undo();
  assert.deepEqual(desk.doc.groups, [group("a", "b")]);
});

test("a group of a file with unknown nodes, nodes of another group or a node twice is drawn without them", () => {
  const groups = [group("a", "gone", "a"), group("a", "b"), group("gone")];
  assert.deepEqual(fromWire({ ...CHAIN, groups }).groups, [group("a"), group("b")]);
  assert.equal(new Desk({ ...CHAIN, groups }).store.view.nodes.length, 5);
});

test("a name and a bypass that Python has not taken survive a reload and are carried over", () => {
  const desk = new Desk();
  desk.busy = true;
  desk.store.select(["b"]);
  rename(desk.store, "b", "Name");
  toggleBypass(desk.store);
  later();
  desk.store.dispose();
  const again = new Desk(CHAIN);
  later();
  assert.deepEqual(again.document.nodes.b, { type: "change", label: "Name", bypass: true });
  again.store.dispose();
  assert.equal(new Desk(again.document).notice, null, "it is saved by now");
});

test("a node that Python shows comes out of its collapsed group", () => {
  const hiding = { ...CHAIN, groups: [{ ...group("a", "b"), collapsed: true }] };
  const desk = new Desk(hiding);
  desk.reveal = { node: "b", token: 1 };
  desk.rerun();
  later();
  assert.equal(node(desk, "b").selected, true);
  assert.deepEqual([desk.selections.at(-1), desk.document.groups], [["b"], [group("a", "b")]]);
  const view = new Desk(hiding, { pipeline: "view" });
  view.rerun({ read_only: true, selected: "b" });
  later();
  assert.equal(node(view, "b").selected, true);
  assert.deepEqual(view.edits, []);
});

test("E connects a node, and neither a group nor a note", () => {
  const desk = new Desk({ ...CHAIN, groups: [group("a", "b")] });
  const canvas = { closest: () => null };
  const focused = (id) => ({ closest: () => ({ dataset: { id } }) });
  desk.store.select(["c"]);
  assert.equal(connectable(desk.store, canvas), "c");
  assert.equal(connectable(desk.store, focused("a")), "a");
  assert.equal(connectable(desk.store, focused("group:a")), null);
  desk.store.select(["group:a"]);
  assert.equal(connectable(desk.store, canvas), null);
  desk.store.select(["a", "c"]);
  assert.equal(connectable(desk.store, canvas), null);
});

test("nodes are added next to one that is very far away, like its note", () => {
  const note = { text: "far", x: -1e300, y: 1e300, width: 240, height: 128 };
  const desk = new Desk({ ...build({ a: "load" }), layout: { a: [1e300, -1e300] }, notes: [note] });
  const [x, y] = desk.doc.layout.a;
  add(desk.store, "load", { x, y });
  desk.store.select(["a"]);
  addAfterSelected(desk.store, "change", BELOW);
  later();
  const noted = desk.document.notes.map((present) => [present.x, present.y]);
  assert.ok([...Object.values(desk.document.layout), ...noted].flat().every((value) => Math.abs(value) < 1e8));
});

test("a group that was made while Python changed the pipeline is carried over", () => {
  const desk = new Desk();
  desk.busy = true;
  desk.store.select(["b", "c"]);
  groupSelected(desk.store);
  later();
  desk.busy = false;
  const { c, ...nodes } = CHAIN.nodes;
  desk.replace({ ...EMPTY, nodes, layout: CHAIN.layout });
  later();
  assert.deepEqual(desk.document.groups, [group("b")]);
});

/** The groups after `edit` on this canvas while another tab makes `theirs` of the groups `mine`; and the notice. */
function inTwoTabs(mine, edit, theirs) {
  const chain = build({ a: "load", b: "change", c: "change", d: "change" });
  const desk = new Desk({ ...chain, groups: mine });
  desk.busy = true;
  edit(desk.store);
  later();
  desk.busy = false;
  desk.replace({ ...chain, groups: theirs });
  later();
  assert.deepEqual(desk.doc.groups, desk.document.groups);
  return { groups: desk.document.groups, notice: desk.notice };
}

const chosen = (act, ...ids) => (store) => {
  store.select(ids);
  act(store);
};

test("two tabs change one group, and both changes are kept", () => {
  const titled = (...nodes) => ({ ...group(...nodes), title: "Theirs" });
  const collapse = (store) => toggleGroup(store, "group:a");
  const kept = (...args) => inTwoTabs(...args).groups;
  const two = [group("a", "b")];
  assert.deepEqual(kept(two, chosen(removeSelected, "a"), [titled("a", "b")]), [titled("b")], "its first node is deleted here");
  assert.deepEqual(kept(two, collapse, [group("a", "b", "c")]), [{ ...group("a", "b", "c"), collapsed: true }], "it has grown there");
  assert.deepEqual(kept(two, collapse, [titled("b")]), [{ ...titled("b"), collapsed: true }], "its first node has left there");
  assert.deepEqual(kept(two, collapse, [group("c"), group("b", "a")]), [group("c"), { ...group("b", "a"), collapsed: true }]);
  assert.deepEqual(kept(two, (store) => rename(store, "group:a", "Mine"), [{ ...group("a", "b"), collapsed: true }]), [
    { ...group("a", "b"), title: "Mine", collapsed: true },
  ]);
  assert.deepEqual(kept(two, chosen(ungroupSelected, "group:a"), [titled("a", "b")]), [], "it is taken apart here");
  assert.deepEqual(kept(two, chosen(groupSelected, "b", "c"), [titled("a", "b", "d")]), [titled("a", "d"), group("b", "c")]);
  assert.deepEqual(kept([group("a", "b"), group("c")], chosen(groupSelected, "b"), [titled("a"), group("b", "c")]), [titled("a"), group("c"), group("b")]);
});

test("a group that another tab has taken apart is not made again, and a lost title is reported", () => {
  const lost = inTwoTabs([group("a", "b")], (store) => rename(store, "group:a", "Mine"), []);
  assert.deepEqual(lost.groups, []);
  assert.equal(lost.notice.kind, "warning");
  assert.match(lost.notice.text, /“Group”/);
  assert.deepEqual(inTwoTabs([group("a", "b")], chosen(removeSelected, "a"), []).groups, []);
});

test("a pipeline file that is dropped goes to Python; anything else is refused with a reason", async () => {
  const desk = new Desk();
  const file = (name, text = "{}", size = text.length) => ({ name, size, text: async () => text });
  await importFile(desk.store, [file("Mine.JSON")]);
  assert.deepEqual(desk.asked, [["import", { name: "Mine.JSON", text: "{}" }]]);
  for (const files of [[file("table.csv")], [file("a.json"), file("b.json")], [file("large.json", "", 6e6)]]) {
    const before = desk.notice;
    await importFile(desk.store, files);
    assert.notEqual(desk.notice, before);
    assert.equal(desk.notice.kind, "warning");
  }
  assert.equal(desk.asked.length, 1);
});
