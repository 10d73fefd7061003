// Apply an edit that Python does not have to the newer document that Python has sent.

import { addNode, connect, freeId, groupAt, groupId, move, nodeAt, nodeOf, portOf, remove, sameEdge, sameJson } from "./model.js";
import { edgeName, refusal } from "./rules.js";

const minus = (edges, others) => edges.filter((edge) => !others.some((other) => sameEdge(edge, other)));
const names = (record, absent) => Object.keys(record).filter((id) => !Object.hasOwn(absent, id));

/** The edit that turns one document into another. */
export function difference(before, after) {
  const noteBefore = new Map(before.notes.map((note) => [note.id, note]));
  const noteAfter = new Set(after.notes.map((note) => note.id));
  return {
    added: names(after.nodes, before.nodes).map((id) => ({ id, node: after.nodes[id], position: after.layout[id] })),
    removed: names(before.nodes, after.nodes),
    moved: Object.fromEntries(
      Object.entries(after.layout).filter(([id, position]) => nodeAt(before, id) && nodeAt(after, id) && !sameJson(position, before.layout[id])),
    ),
    connected: minus(after.edges, before.edges),
    disconnected: minus(before.edges, after.edges),
    notes: after.notes.filter((note) => !sameJson(note, noteBefore.get(note.id))),
    notesRemoved: before.notes.filter((note) => !noteAfter.has(note.id)).map((note) => note.id),
    groups: after.groups.filter((group) => !sameJson(group, groupAt(before, groupId(group)))),
    groupsRemoved: before.groups.map(groupId).filter((id) => !groupAt(after, id)),
  };
}

export const isEmpty = (edit) => Object.values(edit).every((part) => Object.keys(part).length === 0);

/** Apply the edit to `onto`. `lost` says in sentences what could not be applied; `renamed` maps names that were taken. */
export function rebase(onto, edit, rules, titles = {}) {
  const lost = [];
  const renamed = Object.create(null);
  let doc = remove(onto, [...edit.removed, ...edit.notesRemoved], edit.disconnected);
  for (const { id, node, position } of edit.added) {
    if (sameJson([nodeAt(doc, id)?.type, doc.layout[id]], [node.type, position])) continue; // Python already has it
    renamed[id] = freeId(id, new Set([...Object.keys(doc.nodes), ...edit.added.map((other) => other.id).filter((other) => other !== id)]));
    doc = addNode(doc, renamed[id], node, position);
  }
  doc = move(doc, edit.moved);
  for (const note of edit.notes) doc = { ...doc, notes: [...doc.notes.filter(({ id }) => id !== note.id), note] };
  doc = { ...doc, groups: rebasedGroups(doc, edit, renamed) };
  const current = (end) => `${renamed[nodeOf(end)] ?? nodeOf(end)}.${portOf(end)}`;
  for (const { from, to } of edit.connected) {
    const edge = { from: current(from), to: current(to) };
    if (doc.edges.some((present) => sameEdge(present, edge))) continue;
    const why = refusal(doc, rules, edge, titles);
    if (why) lost.push(`The connection ${edgeName(doc, rules, edge, titles)} could not be added. ${why}`);
    else doc = connect(doc, edge);
  }
  return { doc, lost, renamed };
}

/** The groups of `doc` after the edit; nodes that are gone meanwhile are left out. */
function rebasedGroups(doc, edit, renamed) {
  const changed = edit.groups.map((group) => ({ ...group, nodes: group.nodes.map((id) => renamed[id] ?? id).filter((id) => nodeAt(doc, id)) }));
  const moved = new Set(changed.flatMap(({ nodes }) => nodes));
  const others = doc.groups
    .filter((group) => !edit.groupsRemoved.includes(groupId(group)))
    .map((group) => ({ ...group, nodes: group.nodes.filter((id) => !moved.has(id)) }));
  return [...others, ...changed].filter(({ nodes }) => nodes.length);
}
