// A canvas without a browser: its store, a Python that answers it, and the keys a user presses.

import { mock } from "node:test";
import { keyHandler } from "../../../../ui/studio/canvas/frontend/src/keyboard.js";
import { withContent } from "../../../../ui/studio/canvas/frontend/src/model.js";
import { CanvasStore } from "../../../../ui/studio/canvas/frontend/src/store.js";

export const port = (name, type, more = {}) => ({ name, title: name, type, accepts: [type], many: false, required: true, ...more });
export const RULES = {
  load: { inputs: [], outputs: [port("table", "table")] },
  change: { inputs: [port("table", "table")], outputs: [port("table", "table")] },
  split: { inputs: [port("table", "table")], outputs: [port("train", "table"), port("test", "table")] },
  gather: { inputs: [port("tables", "table", { many: true })], outputs: [] },
  learn: { inputs: [port("table", "table")], outputs: [port("model", "model")] },
  apply: { inputs: [port("model", "model"), port("rows", "table")], outputs: [] },
};
export const TYPES = {
  load: { title: "Load data", category: "Data", summary: "Reads a file." },
  change: { title: "Change", category: "Prepare", summary: "Changes a table." },
  gather: { title: "Gather", category: "Prepare", summary: "Joins tables." },
  learn: { title: "Deep forest", category: "Train", summary: "Learns from a table." },
  apply: { title: "Predict", category: "Predict", summary: "Asks a forest." },
};
export const CATEGORIES = ["Data", "Prepare", "Train", "Predict"];
export const EMPTY = { nodes: {}, edges: [], layout: {}, notes: [], groups: [] };

export const build = (nodes, edges = []) => ({
  ...EMPTY,
  nodes: Object.fromEntries(Object.entries(nodes).map(([id, type]) => [id, { type }])),
  layout: Object.fromEntries(Object.keys(nodes).map((id, at) => [id, [at * 288, 0]])),
  edges: edges.map(([from, to]) => ({ from, to })),
});
export const CHAIN = build({ a: "load", b: "change", c: "change" }, [["a.table", "b.table"], ["b.table", "c.table"]]);

/** What a browser has and Node does not. */
export function browser() {
  const kept = new Map();
  globalThis.sessionStorage = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, text) => kept.set(key, String(text)),
    removeItem: (key) => kept.delete(key),
  };
  globalThis.window = Object.assign(new EventTarget(), { getSelection: () => globalThis.marked ?? "" });
  mock.timers.enable({ apis: ["setTimeout"] });
}

export const later = () => mock.timers.tick(1000);

/** A canvas and its Python, which takes every edit unless it is busy. */
export class Desk {
  constructor(document = CHAIN, { pipeline = "p", store = new CanvasStore() } = {}) {
    Object.assign(this, { store, pipeline, document, epoch: 0, taken: { instance: null, revision: 0 }, states: {}, reveal: null });
    Object.assign(this, { busy: false, edits: [], selections: [], asked: [] });
    this.rerun();
  }

  /** Python draws its page anew. */
  rerun(more = {}) {
    const { document, epoch, taken, pipeline, states, reveal } = this;
    const data = { pipeline, document, epoch, taken, states, reveal, rules: RULES, types: TYPES, categories: CATEGORIES };
    const send = (kind, value) => (kind === "edit" ? this.#take(value) : this.selections.push(value));
    this.store.receive({ ...data, problems: [], height: 600, refused: null, ...more }, send, (...asked) => this.asked.push(asked));
  }

  #take(edit) {
    this.edits.push(edit);
    if (!this.busy) this.answer();
  }

  /** Python takes the last edit, as `protocol.apply_edit` does: the contents that the canvas has changed, else its own. */
  answer() {
    const edit = this.edits.at(-1);
    if (edit && edit.epoch === this.epoch && edit.pipeline === this.pipeline) {
      const whole = ([id, { since, ...node }]) => [id, withContent({ ...this.document.nodes[id], type: node.type }, node)];
      this.document = { ...edit.document, nodes: Object.fromEntries(Object.entries(edit.document.nodes).map(whole)) };
      this.taken = { instance: edit.instance, revision: edit.revision };
    }
    this.rerun();
  }

  /** Python puts another document in the place of the present one. */
  replace(document) {
    this.document = document;
    this.epoch += 1;
    this.rerun();
  }

  get doc() {
    return this.store.view.doc;
  }

  get nodes() {
    return Object.keys(this.doc.nodes);
  }

  get wires() {
    return this.doc.edges.map(({ from, to }) => `${from} > ${to}`);
  }

  get notice() {
    return this.store.view.notice;
  }

  /** Press a key; gives what became of the event. `on` is the element that has the focus. */
  press(keys, { on = "canvas", ui = {} } = {}) {
    const parts = keys.split("+");
    const key = parts.pop();
    const held = (name) => parts.includes(name);
    const came = { stopped: false, prevented: false };
    const event = {
      key,
      ctrlKey: held("Control"), metaKey: held("Meta"), altKey: held("Alt"), shiftKey: held("Shift"),
      target: element(on),
      stopPropagation: () => (came.stopped = true),
      preventDefault: () => (came.prevented = true),
    };
    const nothing = () => null;
    keyHandler(this.store, { focus: nothing, close: nothing, open: nothing, connect: nothing, search: nothing, fit: nothing, note: nothing, rename: nothing, group: nothing, ...ui })(event);
    return came;
  }
}

const MATCHES = { input: "INPUT", dialog: "[role=menu], [role=dialog]", palette: ".palette", button: "button" };

/** The element that has the focus, as far as the keyboard asks. */
const element = (kind) => ({
  tagName: kind === "input" ? "INPUT" : "DIV",
  isContentEditable: false,
  closest: (selector) => (MATCHES[kind] === selector ? {} : null),
});
