// Apply an edit that Python does not have to the newer document that Python has sent.

import { addNode, connect, freeId, move, nodeAt, nodeOf, portOf, remove, sameEdge, sameJson } from "./model.js";
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
    groups: groupChanges(before.groups, after.groups),
  };
}

const without = (nodes, others) => nodes.filter((id) => !others.includes(id));
const shared = ({ nodes }, others) => nodes.filter((id) => others.includes(id)).length;

/** The group that has most of these nodes, if one has any. */
function closest(groups, nodes) {
  const best = Math.max(0, ...groups.map((group) => shared(group, nodes)));
  return best ? groups.find((group) => shared(group, nodes) === best) : undefined;
}

/** What was done to each group: the group before, nodes that joined and left it, and a new title or `collapsed`.
 * A group that was made was absent before; all nodes left a group that was taken apart. */
function groupChanges(before, after) {
  const rest = new Set(before);
  const changes = after.map((group) => {
    const match = closest([...rest], group.nodes);
    rest.delete(match);
    const { nodes, ...known } = match ?? { nodes: [] };
    const values = ["title", "collapsed"].filter((name) => group[name] !== known[name]).map((name) => [name, group[name]]);
    return { before: match, joined: without(group.nodes, nodes), left: without(nodes, group.nodes), values: Object.fromEntries(values) };
  });
  const apart = [...rest].map((group) => ({ before: group, joined: [], left: group.nodes, values: {} }));
  return [...changes, ...apart].filter(({ joined, left, values }) => joined.length || left.length || Object.keys(values).length);
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
  doc = { ...doc, groups: rebasedGroups(doc, edit.groups, renamed, lost) };
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

/** The groups of `doc` after these changes; `lost` gets a sentence for each group that is gone meanwhile. */
function rebasedGroups(doc, changes, renamed, lost) {
  const groups = new Map(doc.groups.map((group) => [group, group])); // the changed group for each present one
  const drop = (key, ids) => groups.set(key, { ...groups.get(key), nodes: without(groups.get(key).nodes, ids) });
  const found = changes.map((change) => ({ ...change, target: change.before ? present(doc.groups, change) : {} }));
  for (const { target, left } of found) if (groups.has(target)) drop(target, left);
  for (const { before, target, joined, values } of found) {
    const joining = joined.map((id) => renamed[id] ?? id).filter((id) => nodeAt(doc, id));
    if (target) {
      for (const key of groups.keys()) drop(key, joining);
      const group = groups.get(target) ?? { nodes: [] };
      groups.set(target, { ...group, ...values, nodes: [...group.nodes, ...joining] });
    } else if (joining.length || "title" in values) lost.push(`The group “${before.title}” could not be changed. It was removed meanwhile.`);
  }
  return [...groups.values()].filter(({ nodes }) => nodes.length);
}

/** The present group that a change is about: best by the nodes that stayed in it. */
const present = (groups, { before: { nodes }, left }) => closest(groups, without(nodes, left)) ?? closest(groups, nodes);
