// The state of one canvas, and its talk with Python.
//
// The canvas owns which nodes there are, their types, edges, notes and places; Python owns parameters, labels,
// problems and run states. Each edit is sent as {instance, pipeline, revision, epoch, document}. Python answers with
// the revision it has taken (`taken`). Python's document replaces the canvas's own only when `epoch` changes; what
// Python had not taken by then is made again upon the new document, and sent. No clocks are compared.

import { edgeOf, flowEdges, flowNodes, sizeOf } from "./flow.js";
import { History } from "./history.js";
import { layered } from "./layout.js";
import { contentOf, fromWire, isNoteId, move, sameContent, sameJson, sameTopology, toWire } from "./model.js";
import { difference, isEmpty, rebase } from "./rebase.js";
import { leaveLate, load, save, takeLate, whenIdle } from "./storage.js";

const SELECTION_DELAY = 60;
const SAVE_DELAY = 300;
const LET_GO = ["pointerup", "pointercancel"];
const EMPTY = { nodes: {}, edges: [], layout: {}, notes: [] };

const kept = (before, after) => (sameJson(before, after) ? before : after);

/** The same map with the same values for those entries that did not change, so that only the others are drawn. */
function keptEntries(before, after) {
  const result = Object.fromEntries(Object.entries(after).map(([id, value]) => [id, kept(before[id], value)]));
  return sameJson(before, result) ? before : result;
}

export class CanvasStore {
  view = {
    pipeline: null,
    doc: EMPTY,
    nodes: [],
    edges: [],
    rules: {},
    types: {},
    categories: [],
    titles: {},
    problems: {},
    states: {},
    notice: null,
    canUndo: false,
    canRedo: false,
    height: 640,
    viewport: null,
    reveal: null,
    overlay: null,
    tip: null,
    dropPort: null, // the output under a type that is dragged, as "node.port"
    pulled: null, // an edge that is being pulled: {end, side} it comes from, and the document it would be added to
  };

  #listeners = new Set();
  #history = new History();
  #instance = Math.random().toString(36).slice(2);
  #revision = 0;
  #epoch = null;
  #base = EMPTY; // the document as Python last said it has it
  #sent = new Map(); // revision → document, of what Python has not confirmed
  #asserted = {}; // node → content the canvas gave it that Python has not confirmed
  #allProblems = [];
  #send = () => {};
  #trigger = () => {};
  #sendTimer = null;
  #selectionTimer = null;
  #saveTimer = null;
  #held = false; // a node is in the user's hand
  #selection = "[]";
  #revealed = null;
  #refused = null;

  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get = () => this.view;

  set(changes) {
    this.view = { ...this.view, ...changes };
    this.#listeners.forEach((listener) => listener());
  }

  // From Python

  /** Take what Python sent with a rerun. */
  receive(data, setStateValue, setTriggerValue) {
    this.#send = setStateValue;
    this.#trigger = setTriggerValue;
    const { view } = this;
    const types = kept(view.types, data.types);
    this.view = {
      ...view,
      types,
      rules: kept(view.rules, data.rules),
      categories: kept(view.categories, data.categories),
      titles: types === view.types ? view.titles : Object.fromEntries(Object.entries(types).map(([name, { title }]) => [name, title])),
      states: keptEntries(view.states, data.states),
      problems: keptEntries(view.problems, byNode(data.problems)),
      height: data.height,
    };
    this.#allProblems = data.problems;
    if (data.pipeline !== view.pipeline) this.#open(data);
    else if (data.epoch !== this.#epoch) this.#adopt(data);
    else this.#confirm(data);
    this.#reveal(data.reveal);
    this.#draw();
    if (data.refused && data.refused !== this.#refused) this.notify(`This could not be saved. ${data.refused}`, "warning");
    this.#refused = data.refused;
  }

  /** A pipeline that was not on this canvas before: with the memory this browser tab has of it. */
  #open(data) {
    if (this.view.pipeline !== null) this.#leave();
    const late = takeLate();
    const memory = load(data.pipeline);
    this.#epoch = data.epoch;
    this.#history = new History();
    Object.assign(this.#history, { past: memory.past ?? [], future: memory.future ?? [] });
    this.#sent.clear();
    this.#asserted = {};
    this.#revealed = memory.revealed ?? null;
    const doc = this.#placed(fromWire(data.document, memory.doc?.notes));
    this.#base = doc;
    this.view = { ...this.view, pipeline: data.pipeline, doc, nodes: [], edges: [], viewport: memory.viewport ?? null, reveal: null, overlay: null };
    if (memory.unconfirmed) this.#carryOver(difference(memory.unconfirmed, memory.doc), {});
    else if (memory.doc && !sameTopology(memory.doc, doc)) this.#history.record(memory.doc);
    this.#draw(new Set(memory.selected ?? []));
    if (late === null || late === data.pipeline) return;
    this.notify("Another pipeline was opened before your last edit was saved. The edit will be made when you open the first one again.", "warning");
  }

  /** Another pipeline takes its place; an edit that came too late for Python is made when this one is opened again. */
  #leave() {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = null;
    this.#save();
    if (!sameTopology(this.#base, this.view.doc)) leaveLate(this.view.pipeline);
  }

  /** Python put another document in place of this one. */
  #adopt(data) {
    const base = this.#takenBy(data.taken);
    const edit = difference(base, this.view.doc);
    const content = Object.fromEntries(Object.entries(this.#asserted).filter(([, { since }]) => since > this.#takenRevision(data.taken)));
    this.#history.record(this.view.doc);
    this.#epoch = data.epoch;
    this.#sent.clear();
    this.#asserted = {};
    this.#base = this.#placed(fromWire(data.document, this.view.doc.notes));
    this.view = { ...this.view, doc: this.#base };
    this.#carryOver(edit, content);
  }

  /** Make an edit that Python does not have upon the document it sent, and send that. */
  #carryOver(edit, content) {
    const onto = this.view.doc;
    const kept = Object.entries(content).filter(([id]) => onto.nodes[id] && !edit.added.some((added) => added.id === id));
    if (isEmpty(edit) && !kept.length) return;
    const { doc, lost } = rebase(onto, edit, this.view.rules, this.view.titles);
    for (const [id, { since, ...values }] of kept) if (doc.nodes[id]) doc.nodes = { ...doc.nodes, [id]: { type: doc.nodes[id].type, ...values } };
    if (sameTopology(doc, onto) && !kept.length && !lost.length) return;
    this.#apply(doc);
    if (lost.length) this.notify(lost.join(" "), "warning");
    else this.notify("The pipeline changed meanwhile; your last edit was carried over.", "info");
  }

  /** Python has the same document; note what it has taken of ours, and take its parameters and labels. */
  #confirm({ taken, document }) {
    const revision = this.#takenRevision(taken);
    this.#base = this.#takenBy(taken);
    for (const known of this.#sent.keys()) if (known < revision) this.#sent.delete(known);
    for (const [id, { since }] of Object.entries(this.#asserted)) if (since <= revision) delete this.#asserted[id];
    const changed = Object.entries(document.nodes).filter(([id, node]) => {
      const own = this.view.doc.nodes[id];
      return own?.type === node.type && !this.#asserted[id] && !sameContent(own, node);
    });
    if (!changed.length) return;
    this.#history.record(this.view.doc);
    this.view = { ...this.view, doc: { ...this.view.doc, nodes: { ...this.view.doc.nodes, ...Object.fromEntries(changed) } } };
    this.#remember();
  }

  #takenRevision = (taken) => (taken?.instance === this.#instance ? taken.revision : 0);
  #takenBy = (taken) => this.#sent.get(this.#takenRevision(taken)) ?? this.#base;

  #reveal(reveal) {
    if (!reveal || reveal.token === this.#revealed) return;
    this.#revealed = reveal.token;
    if (!this.view.doc.nodes[reveal.node]) return;
    this.#draw(new Set([reveal.node]));
    this.view = { ...this.view, reveal };
  }

  /** Every node needs a place: those without one are laid out, or put below the others. */
  #placed(doc) {
    const homeless = Object.keys(doc.nodes).filter((id) => !doc.layout[id]);
    if (!homeless.length) return doc;
    const places = layered(doc, (id) => sizeOf(id, doc, this.view.rules, []));
    const bottom = homeless.length === Object.keys(doc.nodes).length ? 0 : Math.max(...Object.values(doc.layout).map(([, y]) => y)) + 160;
    return { ...doc, layout: { ...doc.layout, ...Object.fromEntries(homeless.map((id) => [id, [places[id][0], places[id][1] + bottom]])) } };
  }

  // Edits

  /** Put `doc` in the place of the document, so that it can be undone. Edits of one `series` in a row count as one. */
  edit(doc, { select = null, series = null } = {}) {
    if (doc === this.view.doc || (sameTopology(doc, this.view.doc) && sameJson(doc.nodes, this.view.doc.nodes))) return;
    this.#history.record(this.view.doc, series);
    this.#apply(doc, { select, delay: series ? 150 : 0 });
  }

  undo = () => this.#travel(this.#history.undo(this.view.doc));
  redo = () => this.#travel(this.#history.redo(this.view.doc));

  #travel(doc) {
    if (doc) this.#apply(doc);
  }

  #apply(doc, { select = null, delay = 0 } = {}) {
    const before = this.view.doc;
    for (const [id, node] of Object.entries(doc.nodes)) {
      if (!before.nodes[id] || !sameContent(before.nodes[id], node)) this.#asserted[id] = { since: this.#revision + 1, ...contentOf(node) };
    }
    for (const id of Object.keys(this.#asserted)) if (!doc.nodes[id]) delete this.#asserted[id];
    this.view = { ...this.view, doc };
    this.#draw(select && new Set(select));
    clearTimeout(this.#sendTimer);
    this.#sendTimer = setTimeout(this.#flush, delay);
    this.#remember();
  }

  /** Draw the document: React Flow's nodes and edges from it, all else as it is. */
  #draw(selected = null) {
    const edges = flowEdges(this.view, this.#allProblems);
    this.set({
      nodes: flowNodes(this.view, selected),
      edges: selected ? edges.map((edge) => (edge.selected ? { ...edge, selected: false } : edge)) : edges,
      canUndo: this.#history.past.length > 0,
      canRedo: this.#history.future.length > 0,
    });
    this.#watchSelection();
  }

  /** Names a new node may not take. */
  get reserved() {
    return new Set([...Object.keys(this.view.doc.nodes), ...this.#history.names()]);
  }

  // From React Flow

  /** React Flow measured, moved or selected something: `nodes` as it has them now. */
  nodesChanged(nodes, selectionChanged) {
    this.set({ nodes });
    if (selectionChanged) this.#watchSelection();
  }

  edgesChanged(edges) {
    this.set({ edges });
  }

  /** The user drags something. Python hears what is selected only when it is let go: its answer would stop the hand. */
  held = () => {
    const release = () => {
      this.#held = false;
      this.#watchSelection();
      for (const type of LET_GO) window.removeEventListener(type, release, true);
    };
    this.#held = true;
    for (const type of LET_GO) window.addEventListener(type, release, true);
  };

  /** The user let go of what was dragged: its places become part of the document. */
  dropped(moved) {
    this.edit(move(this.view.doc, Object.fromEntries(moved.map(({ id, position }) => [id, [position.x, position.y]]))));
  }

  moveViewport = (viewport) => {
    this.view = { ...this.view, viewport };
    this.#remember();
  };

  select(ids) {
    this.#draw(new Set(ids));
  }

  /** One edge and nothing else. */
  selectEdge(id) {
    this.select([]);
    this.set({ edges: this.view.edges.map((edge) => (edge.id === id ? { ...edge, selected: true } : edge)) });
  }

  get selected() {
    return {
      ids: this.view.nodes.filter((node) => node.selected).map((node) => node.id),
      edges: this.view.edges.filter((edge) => edge.selected).map(edgeOf),
    };
  }

  size = (id) => sizeOf(id, this.view.doc, this.view.rules, this.view.nodes);

  // To Python and to the user

  trigger = (name, value) => {
    if (this.#sendTimer) this.#flush();
    this.#trigger(name, value);
  };

  notify(text, kind = "info") {
    this.set({ notice: { text, kind, id: (this.view.notice?.id ?? 0) + 1 } });
  }

  #flush = () => {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = null;
    const { doc, pipeline } = this.view;
    this.#revision += 1;
    this.#sent.set(this.#revision, doc);
    const document = toWire(doc, this.#asserted);
    this.#send("edit", { instance: this.#instance, pipeline, revision: this.#revision, epoch: this.#epoch, document });
    this.#reportSelection();
  };

  #watchSelection() {
    clearTimeout(this.#selectionTimer);
    this.#selectionTimer = setTimeout(this.#reportSelection, SELECTION_DELAY);
  }

  #reportSelection = () => {
    clearTimeout(this.#selectionTimer);
    if (this.#held) return;
    const ids = this.selected.ids.filter((id) => !isNoteId(id));
    const text = JSON.stringify(ids);
    if (text === this.#selection) return;
    this.#selection = text;
    this.#send("selection", ids);
    this.#remember();
  };

  // Memory

  #remember() {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = setTimeout(() => whenIdle(() => this.#saveTimer && this.#save()), SAVE_DELAY);
  }

  #save = () => {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = null;
    const { pipeline, doc, viewport } = this.view;
    const { past, future } = this.#history;
    const unconfirmed = sameTopology(this.#base, doc) ? null : this.#base;
    save(pipeline, { doc, viewport, past, future, unconfirmed, selected: this.selected.ids, revealed: this.#revealed });
  };

  /** Before the canvas goes: the page is left or closed. */
  dispose = () => {
    if (this.view.pipeline === null) return;
    if (this.#sendTimer) this.#flush();
    clearTimeout(this.#selectionTimer);
    this.#leave();
  };
}

function byNode(problems) {
  const found = {};
  for (const { node, text } of problems) if (node) (found[node] ??= []).push(text);
  return found;
}
