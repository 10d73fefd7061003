// The pipeline as the canvas holds it: an immutable value. Every function returns a new one.
//
//   nodes   {id: {type, params, label, settings, bypass}}    edges  [{from: "node.port", to: "node.port"}]
//   layout  {id: [x, y]}                                     notes  [{id, text, x, y, width, height}]
//   groups  [{title, nodes: [id], collapsed}]
//
// Notes have ids here only ("note:3"); in a document they are a plain list. A node is in one group at
// most, so a group is identified by its first node ("group:load").

export const GRID = 16;
const FARTHEST = 1e7;
export const NOTE_SIZE = { width: 240, height: 128 };

const CONTENT = { params: {}, label: "", settings: {}, bypass: false }; // what a node has besides its type, by default
let noteCount = 0;

export const newNoteId = () => `note:${++noteCount}-${Math.random().toString(36).slice(2, 7)}`;
export const isNoteId = (id) => id.startsWith("note:");
export const isGroupId = (id) => id.startsWith("group:");
export const groupId = ({ nodes }) => `group:${nodes[0]}`;
export const groupAt = (doc, id) => doc.groups.find((group) => groupId(group) === id);
export const snap = (value) => Math.round(value / GRID) * GRID;
export const nodeOf = (end) => end.slice(0, end.indexOf("."));
export const portOf = (end) => end.slice(end.indexOf(".") + 1);
export const nodeAt = (doc, id) => (Object.hasOwn(doc.nodes, id) ? doc.nodes[id] : undefined); // a node may be named "constructor"
export const sameEdge = (a, b) => a.from === b.from && a.to === b.to;
export const sameJson = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

const isDefault = (value) => [{}, "", false].some((empty) => sameJson(value, empty));

/** A node with other contents. A default is left out, as in a document. */
export function withContent({ type, ...before }, values) {
  const fields = Object.keys(CONTENT).map((name) => [name, values[name] ?? before[name]]);
  return { type, ...Object.fromEntries(fields.filter(([, value]) => value !== undefined && !isDefault(value))) };
}

/** The contents that differ from those of the node before, which may be absent or of another type. */
export function changedContent(before, node) {
  const known = before?.type === node.type ? before : {};
  const changed = Object.keys(CONTENT).filter((name) => !sameJson(node[name], known[name]));
  return Object.fromEntries(changed.map((name) => [name, node[name] ?? CONTENT[name]]));
}

/** A coordinate that floating-point numbers can still move by one grid cell. */
const clamped = (value) => Math.max(-FARTHEST, Math.min(value, FARTHEST));

/** A document from Python. A note that is also in `known` keeps its id. A group has only nodes that exist, and none of another group. */
export function fromWire(document, known = []) {
  const free = [...known];
  const notes = document.notes.map(({ x, y, ...rest }) => {
    const note = bare({ ...rest, x: clamped(x), y: clamped(y) });
    const at = free.findIndex((other) => sameJson(bare(other), note));
    return { ...note, id: at < 0 ? newNoteId() : free.splice(at, 1)[0].id };
  });
  const first = new Map(document.groups.toReversed().flatMap((group) => group.nodes.map((id) => [id, group])));
  const groups = document.groups.map((group) => ({ ...group, nodes: [...new Set(group.nodes)].filter((id) => nodeAt(document, id) && first.get(id) === group) }));
  const layout = Object.fromEntries(Object.entries(document.layout).map(([id, position]) => [id, position.map(clamped)]));
  return { nodes: document.nodes, edges: document.edges, layout, notes, groups: groups.filter(({ nodes }) => nodes.length) };
}

/** The document for Python: what the canvas decides, and the contents of nodes that it has changed. */
export function toWire(doc, asserted = {}) {
  const nodes = Object.fromEntries(
    Object.entries(doc.nodes).map(([id, { type }]) => [id, asserted[id] ? { type, ...asserted[id] } : { type }]),
  );
  return { nodes, edges: doc.edges, layout: doc.layout, notes: doc.notes.map(bare), groups: doc.groups };
}

const bare = ({ text, x, y, width, height }) => ({ text, x, y, width, height });

export function sameTopology(a, b) {
  const types = (doc) => Object.entries(doc.nodes).map(([id, node]) => [id, node.type]);
  return a === b || (sameJson(types(a), types(b)) && ["edges", "layout", "notes", "groups"].every((part) => sameJson(a[part], b[part])));
}

export const sameDocument = (a, b) => sameTopology(a, b) && sameJson(a.nodes, b.nodes);

/** An unused name: `stem`, or `stem-2`, `stem-3` … */
export function freeId(stem, taken) {
  const clean = stem.replace(/-\d+$/, "").replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 50);
  const base = /^[A-Za-z]/.test(clean) ? clean : `node${clean}`;
  for (let number = 1; ; number++) {
    const name = number === 1 ? base : `${base}-${number}`;
    if (!taken.has(name)) return name;
  }
}

export const addNode = (doc, id, node, [x, y]) => ({
  ...doc,
  nodes: { ...doc.nodes, [id]: node },
  layout: { ...doc.layout, [id]: [x, y] },
});

export const connect = (doc, edge) => ({ ...doc, edges: [...doc.edges, { from: edge.from, to: edge.to }] });

const edgeIndex = (doc, edge) => doc.edges.findIndex((present) => sameEdge(present, edge));

export function disconnect(doc, edge) {
  const removed = edgeIndex(doc, edge);
  return { ...doc, edges: doc.edges.filter((_, index) => index !== removed) };
}

/** The document with an edge in the place of `old`. */
export function reconnect(doc, old, { from, to }) {
  const replaced = edgeIndex(doc, old);
  return { ...doc, edges: doc.edges.map((edge, index) => (index === replaced ? { from, to } : edge)) };
}

export const addNote = (doc, note) => ({ ...doc, notes: [...doc.notes, note] });

export const changeNote = (doc, id, values) => ({
  ...doc,
  notes: doc.notes.map((note) => (note.id === id ? { ...note, ...values } : note)),
});

export const changeContent = (doc, id, values) => ({ ...doc, nodes: { ...doc.nodes, [id]: withContent(doc.nodes[id], values) } });

/** The groups with only those nodes that `remains` accepts; a group without nodes is gone. */
const shrunk = (groups, remains) =>
  groups.map((group) => ({ ...group, nodes: group.nodes.filter(remains) })).filter(({ nodes }) => nodes.length);

/** The document with these nodes in a new group, taken out of the groups they were in. */
export function groupNodes(doc, ids, title) {
  const nodes = Object.keys(doc.nodes).filter((id) => ids.includes(id));
  if (!nodes.length) return doc;
  return { ...doc, groups: [...shrunk(doc.groups, (id) => !nodes.includes(id)), { title, nodes, collapsed: false }] };
}

export const ungroup = (doc, ids) => ({ ...doc, groups: doc.groups.filter((group) => !ids.includes(groupId(group))) });

export const changeGroup = (doc, id, values) => ({
  ...doc,
  groups: doc.groups.map((group) => (groupId(group) === id ? { ...group, ...values } : group)),
});

/** The nodes and notes that these ids stand for: a group stands for its nodes. */
export const standFor = (doc, ids) => [...new Set(ids.flatMap((id) => groupAt(doc, id)?.nodes ?? [id]))];

/** For each node of a collapsed group the id of the group. */
export const hiddenNodes = (doc) =>
  new Map(doc.groups.filter(({ collapsed }) => collapsed).flatMap((group) => group.nodes.map((id) => [id, groupId(group)])));

/** The top left corner of a group's nodes. */
export const cornerOf = (doc, { nodes }) => [0, 1].map((axis) => Math.min(...nodes.map((id) => doc.layout[id][axis])));

/** The document without these nodes and notes, the edges at them, and these edges. */
export function remove(doc, ids, edges = []) {
  const gone = new Set(ids);
  const without = (record) => Object.fromEntries(Object.entries(record).filter(([id]) => !gone.has(id)));
  return {
    nodes: without(doc.nodes),
    layout: without(doc.layout),
    notes: doc.notes.filter((note) => !gone.has(note.id)),
    groups: doc.groups.some(({ nodes }) => nodes.some((id) => gone.has(id))) ? shrunk(doc.groups, (id) => !gone.has(id)) : doc.groups,
    edges: doc.edges.filter(
      (edge) => !gone.has(nodeOf(edge.from)) && !gone.has(nodeOf(edge.to)) && !edges.some((other) => sameEdge(edge, other)),
    ),
  };
}

/** The document with nodes, notes and groups moved: `positions` is {id: [x, y]}. */
export function move(doc, positions) {
  const layout = { ...doc.layout };
  for (const group of doc.groups) {
    const position = positions[groupId(group)];
    if (!position) continue;
    const corner = cornerOf(doc, group);
    for (const id of group.nodes) layout[id] = doc.layout[id].map((value, axis) => value + position[axis] - corner[axis]);
  }
  for (const [id, position] of Object.entries(positions)) if (nodeAt(doc, id)) layout[id] = position;
  const notes = doc.notes.map((note) => (positions[note.id] ? { ...note, x: positions[note.id][0], y: positions[note.id][1] } : note));
  return { ...doc, layout, notes };
}

/** Nodes and notes with the edges between them and the groups of only these, for `paste`. */
export function copy(doc, ids) {
  const chosen = new Set(ids);
  const pick = (record) => Object.fromEntries(Object.entries(record).filter(([id]) => chosen.has(id)));
  return {
    nodes: pick(doc.nodes),
    layout: pick(doc.layout),
    notes: doc.notes.filter((note) => chosen.has(note.id)),
    groups: doc.groups.filter(({ nodes }) => nodes.every((id) => chosen.has(id))),
    edges: doc.edges.filter((edge) => chosen.has(nodeOf(edge.from)) && chosen.has(nodeOf(edge.to))),
  };
}

/** The document with a copied piece, moved by [dx, dy] and with new names; and these names. */
export function paste(doc, piece, [dx, dy], reserved) {
  const taken = new Set([...Object.keys(doc.nodes), ...reserved]);
  const names = {};
  for (const id of Object.keys(piece.nodes)) {
    names[id] = freeId(id, taken);
    taken.add(names[id]);
  }
  let result = doc;
  for (const [id, node] of Object.entries(piece.nodes)) {
    const [x, y] = piece.layout[id];
    result = addNode(result, names[id], node, [x + dx, y + dy]);
  }
  for (const { from, to } of piece.edges) {
    result = connect(result, { from: `${names[nodeOf(from)]}.${portOf(from)}`, to: `${names[nodeOf(to)]}.${portOf(to)}` });
  }
  const notes = piece.notes.map((note) => ({ ...note, id: newNoteId(), x: note.x + dx, y: note.y + dy }));
  const groups = (piece.groups ?? []).map((group) => ({ ...group, nodes: group.nodes.map((id) => names[id]) }));
  const whole = { ...result, notes: [...result.notes, ...notes], groups: [...result.groups, ...groups] };
  const within = hiddenNodes(whole);
  const ids = [...Object.values(names).map((id) => within.get(id) ?? id), ...notes.map((note) => note.id)];
  return { doc: whole, ids: [...new Set(ids)] };
}
