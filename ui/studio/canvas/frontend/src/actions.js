// What a user can do with the document, by mouse, keyboard, menu or toolbar.

import { layered } from "./layout.js";
import { GRID, NOTE_SIZE, addNode, addNote, changeNote, connect, copy, disconnect, freeId, move, newNoteId, paste, reconnect, remove, snap } from "./model.js";
import { NODE_WIDTH } from "./flow.js";
import { displaced, edgeInto, objection } from "./rules.js";
import { recall, remember } from "./storage.js";

const PASTE_SHIFT = 2 * GRID;

/** Add a new node; with `from` (an output) connect it, if it fits. */
export function add(store, type, { x, y }, from = null) {
  const { doc, rules, titles } = store.view;
  const id = freeId(type, store.reserved);
  let next = addNode(doc, id, { type }, clear(doc, snap(x), snap(y)));
  if (from) {
    const { edge, reason } = edgeInto(next, rules, from, id, titles);
    if (edge) next = connect(next, edge);
    else store.notify(reason, "warning");
  }
  store.edit(next, { select: [id] });
  return id;
}

/** The nearest position further down that does not hide another node. */
function clear(doc, x, y) {
  const hides = ([tx, ty]) => Math.abs(tx - x) < 4 * GRID && Math.abs(ty - y) < 4 * GRID;
  while (Object.values(doc.layout).some(hides)) y += 8 * GRID;
  return [x, y];
}

/** The position for a node that is added after another: to its right. */
export function placeAfter(store, id) {
  const [x, y] = store.view.doc.layout[id];
  const right = x + NODE_WIDTH + 5 * GRID;
  const taken = Object.values(store.view.doc.layout);
  let down = y;
  while (taken.some(([tx, ty]) => Math.abs(tx - right) < NODE_WIDTH && Math.abs(ty - down) < 6 * GRID)) down += 8 * GRID;
  return { x: right, y: down };
}

/** Draw an edge. The edges that it replaces are removed in the same edit. */
export function link(store, edge) {
  const { doc, rules, titles } = store.view;
  const reason = objection(doc, rules, edge, titles);
  if (reason) store.notify(reason, "warning");
  else store.edit(connect(remove(doc, [], displaced(doc, rules, edge)), edge));
}

/** Move an end of an edge to another port. The edges that it replaces are removed in the same edit. */
export function retarget(store, old, edge) {
  const { doc, rules, titles } = store.view;
  const without = disconnect(doc, old);
  const reason = objection(without, rules, edge, titles);
  if (reason) store.notify(reason, "warning");
  else store.edit(reconnect(remove(doc, [], displaced(without, rules, edge)), old, edge));
}

export function removeSelected(store) {
  const { ids, edges } = store.selected;
  if (ids.length || edges.length) store.edit(remove(store.view.doc, ids, edges), { select: [] });
}

export function copySelected(store) {
  const { ids } = store.selected;
  if (ids.length) remember({ piece: copy(store.view.doc, ids), pasted: 0 });
  return ids.length > 0;
}

export function pasteCopy(store) {
  const copied = recall();
  if (!copied) return;
  const shift = PASTE_SHIFT * (copied.pasted + 1);
  remember({ ...copied, pasted: copied.pasted + 1 });
  put(store, copied.piece, [shift, shift]);
}

export function duplicateSelected(store) {
  const { ids } = store.selected;
  if (ids.length) put(store, copy(store.view.doc, ids), [PASTE_SHIFT, PASTE_SHIFT]);
}

function put(store, piece, shift) {
  const { doc, ids } = paste(store.view.doc, piece, shift, store.reserved);
  store.edit(doc, { select: ids });
}

export function nudge(store, dx, dy) {
  const { ids } = store.selected;
  const nodes = store.view.nodes.filter((node) => ids.includes(node.id));
  const positions = Object.fromEntries(nodes.map(({ id, position }) => [id, [position.x + dx, position.y + dy]]));
  if (ids.length) store.edit(move(store.view.doc, positions), { series: `nudge ${ids.join()}` });
}

export function tidy(store) {
  store.edit(move(store.view.doc, layered(store.view.doc, store.size)));
}

export function note(store, { x, y }) {
  const id = newNoteId();
  store.edit(addNote(store.view.doc, { id, text: "", x: snap(x), y: snap(y), ...NOTE_SIZE }), { select: [id] });
  return id;
}

export const writeNote = (store, id, text) => store.edit(changeNote(store.view.doc, id, { text }));

export const resizeNote = (store, id, { x, y, width, height }) =>
  store.edit(changeNote(store.view.doc, id, { x: snap(x), y: snap(y), width: snap(width), height: snap(height) }));

export const selectAll = (store) => store.select(store.view.nodes.map(({ id }) => id));
