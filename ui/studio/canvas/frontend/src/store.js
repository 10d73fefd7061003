// The state of one canvas, and its exchange with Python.
//
// The canvas decides which nodes exist, their types, edges, notes, groups and positions. Both change the
// contents of a node. Python decides problems and run states. Each edit is sent as {instance, pipeline, revision,
// epoch, document}. Python answers with the last revision that it has taken (`taken`). Python's
// document replaces the document of the canvas only when `epoch` changes. Edits that Python had not
// taken by then are applied to the new document and sent again. No clocks are compared.

import { FRAME, edgeOf, flowEdges, flowNodes, geometry, reframed, sizes } from "./flow.js";
import { loadFrame, saveFrame } from "./frame.js";
import { History } from "./history.js";
import { layered } from "./layout.js";
import { changeContent, changeGroup, changedContent, fromWire, groupAt, hiddenNodes, isGroupId, move, nodeAt, sameDocument, sameJson, sameTopology, toWire, withContent } from "./model.js";
import { difference, isEmpty, rebase } from "./rebase.js";
import { routes } from "./route.js";
import { rememberUnsaved, load, save, takeUnsaved, whenIdle } from "./storage.js";

const SELECTION_DELAY = 60;
const SAVE_DELAY = 300;
const DRAG_END = ["pointerup", "pointercancel"];
const EMPTY = { nodes: {}, edges: [], layout: {}, notes: [], groups: [] };

/** `before` if both are equal: React draws only what is another object. */
const reuse = (before, after) => (sameJson(before, after) ? before : after);

/** A map without the names that every object has, such as "constructor". */
const record = (entries) => Object.assign(Object.create(null), Object.fromEntries(entries));

/** The map `after`, with the objects of `before` for entries that did not change. */
function reuseEntries(before, after) {
  const result = record(Object.entries(after).map(([id, value]) => [id, reuse(before[id], value)]));
  return sameJson(before, result) ? before : result;
}

export class CanvasStore {
  view = {
    pipeline: null,
    doc: EMPTY,
    nodes: [],
    edges: [],
    routed: routes([], new Map()), // the ways of the edges around the nodes
    rules: {},
    types: {},
    categories: [],
    titles: {},
    problems: {},
    states: {},
    notice: null,
    canUndo: false,
    canRedo: false,
    height: "640px",
    readOnly: false,
    frame: loadFrame(),
    viewport: null,
    reveal: null,
    overlay: null,
    tip: null,
    dropPort: null, // the output under a type that is dragged, as "node.port"
    pulled: null, // the edge that is being drawn: {end, side} where it starts, {doc} where it would be added
  };

  #listeners = new Set();
  #history = new History();
  #instance = Math.random().toString(36).slice(2);
  #revision = 0;
  #epoch = null;
  #base = EMPTY; // the last document that Python has confirmed
  #sent = new Map(); // revision → document that Python has not confirmed
  #asserted = {}; // node → the contents that the canvas has set and Python has not confirmed, and their revision
  #allProblems = [];
  #send = () => {};
  #trigger = () => {};
  #sendTimer = null;
  #selectionTimer = null;
  #saveTimer = null;
  #dragging = false;
  #selection = "[]";
  #revealed = null;
  #refused = null; // the last revision that Python has refused, and why
  #panelToken = null;
  #given = null; // the node that Python selected last on a read-only canvas

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
    const types = reuse(view.types, record(Object.entries(data.types)));
    this.view = {
      ...view,
      types,
      rules: reuse(view.rules, record(Object.entries(data.rules))),
      categories: reuse(view.categories, data.categories),
      titles: types === view.types ? view.titles : record(Object.entries(types).map(([name, { title }]) => [name, title])),
      states: reuseEntries(view.states, data.states),
      problems: reuseEntries(view.problems, byNode(data.problems)),
      height: data.height,
      readOnly: data.read_only,
    };
    this.#allProblems = data.problems;
    if (data.pipeline !== view.pipeline) this.#open(data);
    else if (data.epoch !== this.#epoch) this.#adopt(data);
    else this.#confirm(data);
    this.#reveal(data.reveal);
    this.#follow(data);
    this.#draw();
    const refused = data.refused && `${this.#revision}: ${data.refused}`;
    if (refused && refused !== this.#refused) this.notify(`This could not be saved. ${data.refused}`, "warning");
    this.#refused = refused;
  }

  /** Open a pipeline that was not on this canvas, with what this browser tab remembers of it. */
  #open(data) {
    if (this.view.pipeline !== null) this.#leave();
    const late = takeUnsaved();
    const memory = data.read_only ? {} : load(data.pipeline);
    this.#epoch = data.epoch;
    this.#history = new History();
    Object.assign(this.#history, { past: memory.past ?? [], future: memory.future ?? [] });
    this.#sent.clear();
    this.#asserted = {};
    this.#revealed = memory.revealed ?? null;
    this.#panelToken = memory.panelToken ?? null;
    const doc = this.#placed(fromWire(data.document, memory.doc?.notes));
    this.#base = doc;
    this.view = { ...this.view, pipeline: data.pipeline, doc, nodes: [], edges: [], viewport: memory.viewport ?? null, reveal: null, overlay: null };
    if (memory.unconfirmed) this.#carryOver(difference(memory.unconfirmed, memory.doc), memory.asserted ?? {});
    else if (memory.doc && !sameTopology(memory.doc, doc)) this.#history.record(memory.doc);
    this.#draw(new Set(memory.selected ?? []));
    if (late === null || late === data.pipeline) return;
    this.notify("Another pipeline was opened before your last edit was saved. The edit will be applied when you open the first pipeline again.", "warning");
  }

  /** Close the pipeline. An edit that Python has not taken is applied when it is opened again. */
  #leave() {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = null;
    if (this.view.readOnly) return;
    this.#save();
    if (this.#isUnsaved) rememberUnsaved(this.view.pipeline);
  }

  /** Take Python's new document in place of this one, and apply unconfirmed edits to it. */
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

  /** Apply an edit that Python does not have to the document that it sent, and send the result. */
  #carryOver(edit, content) {
    const onto = this.view.doc;
    const contents = Object.entries(content).filter(([id]) => nodeAt(onto, id) && !edit.added.some((added) => added.id === id));
    if (isEmpty(edit) && !contents.length) return;
    const { doc: moved, lost } = rebase(onto, edit, this.view.rules, this.view.titles);
    const remaining = contents.filter(([id]) => nodeAt(moved, id));
    const doc = remaining.reduce((before, [id, values]) => changeContent(before, id, values), moved);
    if (sameDocument(doc, onto) && !lost.length) return;
    this.#apply(doc);
    if (lost.length) this.notify(lost.join(" "), "warning");
    else this.notify("The pipeline has changed. Your last edit was applied to the new version.", "info");
  }

  /** Python has the same document: note which revision it has taken, and take its parameters and labels. */
  #confirm({ taken, document }) {
    const revision = this.#takenRevision(taken);
    this.#base = this.#takenBy(taken);
    for (const known of this.#sent.keys()) if (known < revision) this.#sent.delete(known);
    for (const [id, { since }] of Object.entries(this.#asserted)) if (since <= revision) delete this.#asserted[id];
    const { nodes } = this.view.doc;
    const changed = Object.entries(document.nodes)
      .filter(([id, { type }]) => nodeAt(this.view.doc, id)?.type === type)
      .map(([id, node]) => [id, withContent(node, this.#asserted[id] ?? {})])
      .filter(([id, node]) => !sameJson(withContent(nodes[id], {}), node));
    if (!changed.length) return;
    this.#history.record(this.view.doc);
    this.view = { ...this.view, doc: { ...this.view.doc, nodes: { ...nodes, ...Object.fromEntries(changed) } } };
    this.#remember();
  }

  get #isUnsaved() {
    return !sameTopology(this.#base, this.view.doc) || Object.keys(this.#asserted).length > 0;
  }

  #takenRevision = (taken) => (taken?.instance === this.#instance ? taken.revision : 0);
  #takenBy = (taken) => this.#sent.get(this.#takenRevision(taken)) ?? this.#base;

  #reveal(reveal) {
    if (!reveal || reveal.token === this.#revealed) return;
    this.#revealed = reveal.token;
    if (!nodeAt(this.view.doc, reveal.node)) return;
    const doc = this.#withOpenGroup(reveal.node);
    if (doc !== this.view.doc) this.edit(doc);
    this.#draw(new Set([reveal.node]));
    this.view = { ...this.view, reveal };
  }

  /** The document with the collapsed group open that hides this node. */
  #withOpenGroup(node) {
    const { doc } = this.view;
    const group = hiddenNodes(doc).get(node);
    return group ? changeGroup(doc, group, { collapsed: false }) : doc;
  }

  /** Open the panel, and select a node on a read-only canvas, as Python asks; each once. */
  #follow({ show_panel: token, selected, read_only: readOnly }) {
    if (token != null && token !== this.#panelToken) {
      this.#panelToken = token;
      this.#remember();
      this.arrange({ panel: true });
    }
    if (!readOnly || selected === this.#given) return;
    this.#given = selected;
    this.view = { ...this.view, doc: this.#withOpenGroup(selected) };
    this.#draw(new Set(selected ? [selected] : []));
    this.#selection = JSON.stringify(selected ? [selected] : []); // Python knows it
  }

  /** Give a position to every node without one: all by the layout, single ones below the others. */
  #placed(doc) {
    const unplaced = Object.keys(doc.nodes).filter((id) => !Object.hasOwn(doc.layout, id));
    if (!unplaced.length) return doc;
    const places = layered(doc, sizes({ ...this.view, doc }));
    const bottom = unplaced.length === Object.keys(doc.nodes).length ? 0 : Math.max(...Object.values(doc.layout).map(([, y]) => y)) + 160;
    return { ...doc, layout: { ...doc.layout, ...Object.fromEntries(unplaced.map((id) => [id, [places[id][0], places[id][1] + bottom]])) } };
  }

  // Edits

  /** Replace the document by `doc`, so that it can be undone. Consecutive edits of one `series` count as one. */
  edit(doc, { select = null, series = null } = {}) {
    if (sameDocument(doc, this.view.doc)) return;
    this.#history.record(this.view.doc, series);
    this.#apply(doc, { select, delay: series ? 150 : 0 });
  }

  undo = () => this.#restore(this.#history.undo(this.view.doc));
  redo = () => this.#restore(this.#history.redo(this.view.doc));

  #restore(doc) {
    if (doc) this.#apply(doc);
  }

  #apply(doc, { select = null, delay = 0 } = {}) {
    const before = this.view.doc;
    for (const [id, node] of Object.entries(doc.nodes)) {
      const changed = changedContent(nodeAt(before, id), node);
      if (Object.keys(changed).length) this.#asserted[id] = { ...this.#asserted[id], ...changed, since: this.#revision + 1 };
    }
    for (const id of Object.keys(this.#asserted)) if (!nodeAt(doc, id)) delete this.#asserted[id];
    this.view = { ...this.view, doc };
    this.#draw(select && new Set(select));
    clearTimeout(this.#sendTimer);
    this.#sendTimer = setTimeout(this.#flush, delay);
    this.#remember();
  }

  /** Make React Flow's nodes and edges from the document. */
  #draw(selected = null) {
    const edges = flowEdges(this.view, this.#allProblems);
    const nodes = flowNodes(this.view, selected);
    const { ends, boxes } = geometry({ ...this.view, nodes, edges });
    this.set({
      nodes,
      routed: routes(ends, boxes, this.view.routed),
      edges: selected ? edges.map((edge) => (edge.selected ? { ...edge, selected: false } : edge)) : edges,
      canUndo: this.#history.past.length > 0,
      canRedo: this.#history.future.length > 0,
    });
    this.#watchSelection();
  }

  /** Names that a new node must not have. */
  get reserved() {
    return new Set([...Object.keys(this.view.doc.nodes), ...this.#history.names()]);
  }

  // From React Flow

  /** Take React Flow's nodes after it measured, moved or selected some. */
  nodesChanged(nodes, selectionChanged) {
    this.set({ nodes: reframed(this.view.doc, nodes) });
    if (selectionChanged) this.#watchSelection();
  }

  edgesChanged(edges) {
    this.set({ edges });
  }

  /** The user starts to drag. The selection is reported only at the end: Python's answer would stop the drag. */
  dragStarted = () => {
    const release = () => {
      this.#dragging = false;
      this.#watchSelection();
      for (const type of DRAG_END) window.removeEventListener(type, release, true);
    };
    this.#dragging = true;
    for (const type of DRAG_END) window.addEventListener(type, release, true);
  };

  /** The user ends a drag: the new positions become part of the document. */
  dropped(moved) {
    const { doc } = this.view;
    const inner = (id) => (isGroupId(id) && !groupAt(doc, id)?.collapsed ? [FRAME.side, FRAME.top] : [0, 0]);
    const corner = ({ id, position: { x, y } }) => [id, [x + inner(id)[0], y + inner(id)[1]]];
    this.edit(move(doc, Object.fromEntries(moved.map(corner))));
  }

  /** Change the frame: which parts are open, and how wide they are. */
  arrange(changes) {
    this.set({ frame: reuse(this.view.frame, saveFrame({ ...this.view.frame, ...changes })) });
  }

  moveViewport = (viewport) => {
    this.view = { ...this.view, viewport };
    this.#remember();
  };

  select(ids) {
    this.#draw(new Set(ids));
  }

  /** Select one edge and nothing else. */
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

  size = (id) => sizes(this.view)(id);

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
    if (this.#dragging) return;
    const ids = this.selected.ids.filter((id) => this.view.doc.nodes[id]);
    const text = JSON.stringify(ids);
    if (text === this.#selection) return;
    this.#selection = text;
    this.#send("selection", ids);
    this.#remember();
  };

  // Memory

  #remember() {
    if (this.view.readOnly) return;
    clearTimeout(this.#saveTimer);
    this.#saveTimer = setTimeout(() => whenIdle(() => this.#saveTimer && this.#save()), SAVE_DELAY);
  }

  #save = () => {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = null;
    const { pipeline, doc, viewport } = this.view;
    const { past, future } = this.#history;
    const unconfirmed = this.#isUnsaved ? this.#base : null;
    const tokens = { revealed: this.#revealed, panelToken: this.#panelToken };
    save(pipeline, { doc, viewport, past, future, unconfirmed, asserted: this.#asserted, selected: this.selected.ids, ...tokens });
  };

  /** Save everything before the page is left or closed. */
  dispose = () => {
    if (this.view.pipeline === null) return;
    if (this.#sendTimer) this.#flush();
    clearTimeout(this.#selectionTimer);
    this.#leave();
  };
}

function byNode(problems) {
  const texts = record([]);
  for (const { node, text } of problems) if (node) (texts[node] ??= []).push(text);
  return texts;
}
