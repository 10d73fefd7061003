// What a user can do with the document, by mouse, keyboard, menu or toolbar.

import { layered } from "./layout.js";
import { NODE_WIDTH, sizes } from "./flow.js";
import {
  GRID, NOTE_SIZE, addNode, addNote, changeContent, changeGroup, changeNote, connect, copy, disconnect, freeId, groupAt, groupId, groupNodes,
  isGroupId, isNoteId, move, newNoteId, nodeAt, paste, reconnect, remove, snap, standFor, ungroup,
} from "./model.js";
import { displaced, edgeInto, edgesToNew, objection } from "./rules.js";
import { recall, remember } from "./storage.js";

const PASTE_SHIFT = 2 * GRID;
const MOST_PLACES = 1000; // to try for a new node
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g; // not allowed in a name

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

/** Add a new node and connect the selected one with it, if there is only one way to do that. It is placed at `place`, or right of the selected node. */
export function addAfterSelected(store, type, place, isPlaceChosen = false) {
  const { doc, rules } = store.view;
  const ids = selectedNodes(store);
  const [edge, ...others] = ids.length === 1 ? edgesToNew(doc, rules, ids[0], type) : [];
  if (!edge || others.length) return add(store, type, place);
  return add(store, type, isPlaceChosen ? place : placeAfter(store, ids[0]), edge.from);
}

/** The nearest position further down that has no other node within this distance. */
function clear(doc, x, y, [width, height] = [4 * GRID, 4 * GRID]) {
  const taken = Object.values(doc.layout);
  const isNear = (down) => ([tx, ty]) => Math.abs(tx - x) < width && Math.abs(ty - down) < height;
  const downs = Array.from({ length: MOST_PLACES }, (_, at) => y + 8 * GRID * at);
  return [x, downs.find((down) => !taken.some(isNear(down))) ?? y];
}

/** The position for a node that is added after another: to its right. */
export function placeAfter(store, id) {
  const [x, y] = store.view.doc.layout[id];
  const [right, down] = clear(store.view.doc, x + NODE_WIDTH + 5 * GRID, y, [NODE_WIDTH, 6 * GRID]);
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

/** Delete what is selected: of an open group the frame, of a collapsed one all that it holds. */
export function removeSelected(store) {
  const { ids, edges } = store.selected;
  const { doc } = store.view;
  if (!ids.length && !edges.length) return;
  const frames = ids.filter((id) => isGroupId(id) && !groupAt(doc, id).collapsed);
  const others = standFor(doc, ids.filter((id) => !frames.includes(id)));
  store.edit(remove(ungroup(doc, frames), others, edges), { select: [] });
}

export function copySelected(store) {
  const { ids } = store.selected;
  if (ids.length) remember({ piece: copy(store.view.doc, standFor(store.view.doc, ids)), pasted: 0 });
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
  if (ids.length) put(store, copy(store.view.doc, standFor(store.view.doc, ids)), [PASTE_SHIFT, PASTE_SHIFT]);
}

function put(store, piece, shift) {
  const { doc, ids } = paste(store.view.doc, piece, shift, store.reserved);
  store.edit(doc, { select: ids });
}

export function nudge(store, dx, dy) {
  const { ids } = store.selected;
  const { doc } = store.view;
  const notes = Object.fromEntries(doc.notes.map(({ id, x, y }) => [id, [x, y]]));
  const places = standFor(doc, ids).map((id) => [id, doc.layout[id] ?? notes[id]]);
  const positions = Object.fromEntries(places.map(([id, [x, y]]) => [id, [x + dx, y + dy]]));
  if (ids.length) store.edit(move(doc, positions), { series: `nudge ${ids.join()}` });
}

export function tidy(store) {
  store.edit(move(store.view.doc, layered(store.view.doc, sizes(store.view))));
}

/** Give a node a label, or a group a title. Without text a node shows the title of its type again. */
export function rename(store, id, text) {
  const { doc } = store.view;
  const name = [...text.replace(CONTROL, " ").trim()].slice(0, 200).join(""); // by characters, as Python counts them
  if (!isGroupId(id)) store.edit(changeContent(doc, id, { label: name }));
  else if (name) store.edit(changeGroup(doc, id, { title: name }));
}

/** The selected nodes, without notes; a group counts as its nodes. */
export const selectedNodes = (store) => standFor(store.view.doc, store.selected.ids).filter((id) => !isNoteId(id));

/** The node that has the focus, or else the only selected one; null if that is not a node. */
export function connectable(store, element) {
  const focused = element.closest(".react-flow__node")?.dataset.id;
  const ids = focused ? [focused] : store.selected.ids;
  return ids.length === 1 && nodeAt(store.view.doc, ids[0]) ? ids[0] : null;
}

/** Bypass the selected nodes, or run them again if all of them are bypassed. */
export function toggleBypass(store) {
  const { doc } = store.view;
  const ids = selectedNodes(store);
  const bypass = !ids.every((id) => doc.nodes[id].bypass);
  store.edit(ids.reduce((after, id) => changeContent(after, id, { bypass }), doc));
}

/** Put the selected nodes into a new group; return its id. */
export function groupSelected(store) {
  const after = groupNodes(store.view.doc, selectedNodes(store), "Group");
  if (after === store.view.doc) return null;
  const id = groupId(after.groups.at(-1));
  store.edit(after, { select: [id] });
  return id;
}

export function ungroupSelected(store) {
  const { doc } = store.view;
  const groups = store.selected.ids.filter(isGroupId);
  store.edit(ungroup(doc, groups), { select: standFor(doc, groups) });
}

/** Collapse a group, or open it. */
export const toggleGroup = (store, id) => store.edit(changeGroup(store.view.doc, id, { collapsed: !groupAt(store.view.doc, id).collapsed }));

export function note(store, { x, y }) {
  const id = newNoteId();
  store.edit(addNote(store.view.doc, { id, text: "", x: snap(x), y: snap(y), ...NOTE_SIZE }), { select: [id] });
  return id;
}

export const writeNote = (store, id, text) => store.edit(changeNote(store.view.doc, id, { text }));

export const resizeNote = (store, id, { x, y, width, height }) =>
  store.edit(changeNote(store.view.doc, id, { x: snap(x), y: snap(y), width: snap(width), height: snap(height) }));

export const selectAll = (store) => store.select(store.view.nodes.map(({ id }) => id));
