// The document as React Flow draws it. An object is reused while it shows the same, so that React
// draws little again. What React Flow adds (measured size, selection, a running drag) is preserved.

import { GRID, cornerOf, groupId, hiddenNodes, nodeAt, nodeOf, portOf, sameEdge, sameJson } from "./model.js";
import { edgeName } from "./rules.js";
import { around } from "./view.js";
import { ariaLabelOf, groupState } from "./words.js";

// These are the sizes in styles/node.css. A state never changes the size of a node.
export const NODE_WIDTH = 224;
const HEADER = 62;
const HEADLINE = 30;
const PORT_ROW = 22;
const PORTS_TOP = 6;
const PORTS_BOTTOM = 7;
export const collapsedSize = { width: NODE_WIDTH, height: HEADER + PORT_ROW };
export const FRAME = { side: GRID, top: 3 * GRID }; // around the nodes of a group

export const IDLE = { state: "idle" };
const NO_PORTS = { inputs: [], outputs: [] };
const ghost = (name) => ({ name, title: name, type: "unknown", accepts: [], many: true, ghost: true });

/** The ports of a node's type, and those that edges name although the type does not have them. */
function portsOf(type, rules, named) {
  const known = rules[type] ?? NO_PORTS;
  const extra = (side) => [...named[side]].filter((name) => !known[side].some((port) => port.name === name)).map(ghost);
  const [inputs, outputs] = [extra("inputs"), extra("outputs")];
  if (!inputs.length && !outputs.length) return known;
  return { inputs: [...known.inputs, ...inputs], outputs: [...known.outputs, ...outputs] };
}

function namedPorts(doc) {
  const named = new Map(Object.keys(doc.nodes).map((id) => [id, { inputs: new Set(), outputs: new Set() }]));
  for (const { from, to } of doc.edges) {
    named.get(nodeOf(from))?.outputs.add(portOf(from));
    named.get(nodeOf(to))?.inputs.add(portOf(to));
  }
  return named;
}

const headOf = (type) => HEADER + (type?.headline ? HEADLINE : 0);

/** The size of a node with these ports, without measuring it. */
export const nodeSize = (type, { inputs, outputs }) => ({
  width: NODE_WIDTH,
  height: headOf(type) + PORTS_TOP + PORT_ROW * Math.max(1, inputs.length, outputs.length) + PORTS_BOTTOM,
});

/** How far below the top of a node its port in this row is. */
export const portHeight = (type, row) => headOf(type) + PORTS_TOP + PORT_ROW * (row + 0.5);

/** A function that returns the size of a node of the document. */
export function sizes({ doc, rules, types }) {
  const named = namedPorts(doc);
  return (id) => nodeSize(types[doc.nodes[id].type], portsOf(doc.nodes[id].type, rules, named.get(id)));
}

/** The box of one of React Flow's nodes. */
export const boxOf = ({ position, data, width, height }) => ({ ...position, ...(data.size ?? { width, height }) });

function flowNode(before, id, type, [x, y], data, selected, more) {
  const position = before?.dragging || (before?.position.x === x && before?.position.y === y) ? before.position : { x, y };
  const chosen = selected ? selected.has(id) : (before?.selected ?? false);
  const same = before && before.position === position && before.data === data && !!before.selected === chosen;
  if (same && Object.entries(more).every(([name, value]) => sameJson(before[name], value))) return before;
  return { ...before, id, type, position, data, selected: chosen, ...more };
}

/** React Flow's nodes; `selected` is a set of ids, or null to leave the selection as it is. */
export function flowNodes(view, selected = null) {
  const { doc, rules, types, states, titles, nodes: before } = view;
  const known = new Map(before.map((node) => [node.id, node]));
  const named = namedPorts(doc);
  const hidden = hiddenNodes(doc);
  const notes = doc.notes.map((note) => {
    const data = known.get(note.id)?.data.text === note.text ? known.get(note.id).data : { text: note.text };
    const more = { width: note.width, height: note.height, zIndex: -10, ariaLabel: "Note" };
    return flowNode(known.get(note.id), note.id, "note", [note.x, note.y], data, selected, more);
  });
  const shown = Object.entries(doc.nodes).filter(([id]) => !hidden.has(id));
  const drawn = shown.map(([id, { type, label, bypass }]) => {
    const ports = portsOf(type, rules, named.get(id));
    const size = nodeSize(types[type], ports);
    const data = sameJson(known.get(id)?.data, { ports, size }) ? known.get(id).data : { ports, size };
    const state = states[id] ?? IDLE;
    const ariaLabel = ariaLabelOf(label || titles[type] || type, state, bypass);
    const more = { domAttributes: { "data-state": state.state }, ariaLabel };
    return flowNode(known.get(id), id, "node", doc.layout[id], data, selected, more);
  });
  return unchanged([...flowGroups(view, known, drawn, selected), ...notes, ...drawn], before);
}

/** The groups: a frame around the nodes, or one node in the place of a collapsed group. */
function flowGroups({ doc, states }, known, drawn, selected) {
  const placed = doc.groups.length ? new Map(drawn.map((node) => [node.id, node])) : null;
  return doc.groups.map((group) => {
    const id = groupId(group);
    const data = sameJson(known.get(id)?.data, group) ? known.get(id).data : group;
    const { state } = groupState(group.nodes.map((member) => states[member] ?? IDLE));
    const box = group.collapsed ? collapsedBox(doc, group) : frameBox(group, placed);
    const more = {
      width: box.width,
      height: box.height,
      zIndex: group.collapsed ? 0 : -20,
      domAttributes: { "data-state": state },
      ariaLabel: `Group ${group.title}, ${group.collapsed ? "collapsed" : "open"}, ${group.nodes.length} nodes, ${state}`,
    };
    return flowNode(known.get(id), id, "nodeGroup", [box.x, box.y], data, selected, more);
  });
}

function collapsedBox(doc, group) {
  const [x, y] = cornerOf(doc, group);
  return { x, y, ...collapsedSize };
}

function frameBox(group, placed) {
  const boxes = group.nodes.map((id) => boxOf(placed.get(id)));
  const { x, y, width, height } = around(boxes);
  return { x: x - FRAME.side, y: y - FRAME.top, width: width + 2 * FRAME.side, height: height + FRAME.top + FRAME.side };
}

/** The nodes with each frame around its nodes as they are now, during a drag. */
export function reframed(doc, nodes) {
  const open = new Map(doc.groups.filter(({ collapsed }) => !collapsed).map((group) => [groupId(group), group]));
  if (!open.size) return nodes;
  const placed = new Map(nodes.map((node) => [node.id, node]));
  return nodes.map((node) => {
    if (!open.has(node.id)) return node;
    const { x, y, width, height } = frameBox(open.get(node.id), placed);
    const same = node.position.x === x && node.position.y === y && node.width === width && node.height === height;
    return same ? node : { ...node, position: { x, y }, width, height };
  });
}

/** The old list, if the new one holds the same objects. */
const unchanged = (after, before) => (after.length === before.length && after.every((item, at) => item === before[at]) ? before : after);

/** React Flow's edges. One with a missing node is not drawn, nor one inside a collapsed group. */
export function flowEdges({ doc, rules, titles, edges: before }, problems) {
  const known = new Map(before.map((edge) => [edge.id, edge]));
  const counts = new Map();
  const hidden = hiddenNodes(doc);
  const drawn = ({ from, to }) => {
    const [source, target] = [nodeOf(from), nodeOf(to)];
    return nodeAt(doc, source) && nodeAt(doc, target) && !(hidden.has(source) && hidden.get(source) === hidden.get(target));
  };
  const after = doc.edges.filter(drawn).map(({ from, to }) => {
    const name = `${from}>${to}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const id = counts.get(name) === 1 ? name : `${name}#${counts.get(name)}`;
    const type = rules[doc.nodes[nodeOf(from)].type]?.outputs.find((port) => port.name === portOf(from))?.type ?? "unknown";
    const wrong = problems.some((problem) => problem.edge && sameEdge(problem.edge, { from, to }));
    const className = `port-${type}${wrong ? " wrong" : ""}`;
    const ends = endsOf(from, to, hidden);
    const ariaLabel = edgeName(doc, rules, { from, to }, titles);
    const old = known.get(id);
    if (old?.className === className && old.ariaLabel === ariaLabel && old.source === ends.source && old.target === ends.target) return old;
    const reconnectable = !hidden.has(nodeOf(from)) && !hidden.has(nodeOf(to));
    return { ...old, id, ...ends, type: "routed", reconnectable, className, ariaLabel, data: { from, to } };
  });
  return unchanged(after, before);
}

/** The nodes and handles where an edge is drawn: at the border of a collapsed group. */
function endsOf(from, to, hidden) {
  const at = (end, handle) => {
    const group = hidden.get(nodeOf(end));
    return group ? [group, handle] : [nodeOf(end), portOf(end)];
  };
  const [source, sourceHandle] = at(from, "out");
  const [target, targetHandle] = at(to, "in");
  return { source, sourceHandle, target, targetHandle };
}

/** The edge of the document that an edge or a connection of React Flow stands for. */
export const edgeOf = ({ source, sourceHandle, target, targetHandle, data }) =>
  data ? { from: data.from, to: data.to } : { from: `${source}.${sourceHandle}`, to: `${target}.${targetHandle}` };

const HANDLE = 5.5; // a handle reaches this far out of its node

/** The edges with the places of their ports, for `routes`, and the boxes of the nodes they avoid. */
export function geometry({ doc, types, nodes, edges }) {
  const drawn = new Map(nodes.filter(({ type, data }) => type === "node" || (type === "nodeGroup" && data.collapsed)).map((node) => [node.id, node]));
  const boxes = new Map([...drawn].map(([id, node]) => [id, boxOf(node)]));
  const port = (id, side, name) => {
    const { x, y, width, height } = boxes.get(id);
    const { ports } = drawn.get(id).data;
    const row = ports ? ports[side].findIndex((one) => one.name === name) : 0;
    const below = ports ? portHeight(types[doc.nodes[id].type], row) : height / 2;
    return { row, place: { x: side === "outputs" ? x + width + HANDLE : x - HANDLE, y: y + below } };
  };
  const ends = edges.map(({ id, source, sourceHandle, target, targetHandle }) => {
    const [from, to] = [port(source, "outputs", sourceHandle), port(target, "inputs", targetHandle)];
    return { id, source, target, start: from.place, end: to.place, rows: [from.row, to.row] };
  });
  return { ends, boxes };
}
