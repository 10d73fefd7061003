// The document as React Flow draws it. An object is reused while it shows the same, so that React
// draws little again. What React Flow adds (measured size, selection, a running drag) is preserved.

import { nodeOf, portOf, sameEdge, sameJson } from "./model.js";
import { ariaLabelOf } from "./words.js";

export const NODE_WIDTH = 208;
const HEADER = 50;
const PORT_ROW = 22;

export const IDLE = { state: "idle" };
const NO_PORTS = { inputs: [], outputs: [] };
const ghost = (name) => ({ name, title: name, type: "unknown", accepts: [], many: true, ghost: true });

/** The ports of a node's type, and those that edges name although the type does not have them. */
function portsOf(id, type, rules, named) {
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

export function sizeOf(id, doc, rules, nodes) {
  const measured = nodes.find((node) => node.id === id)?.measured;
  if (measured?.height) return measured;
  const { inputs, outputs } = rules[doc.nodes[id].type] ?? NO_PORTS;
  return { width: NODE_WIDTH, height: HEADER + PORT_ROW * Math.max(1, inputs.length, outputs.length) + 10 };
}

function flowNode(before, id, type, [x, y], data, selected, more) {
  const position = before?.dragging || (before?.position.x === x && before?.position.y === y) ? before.position : { x, y };
  const chosen = selected ? selected.has(id) : (before?.selected ?? false);
  const same = before && before.position === position && before.data === data && !!before.selected === chosen;
  if (same && Object.entries(more).every(([name, value]) => sameJson(before[name], value))) return before;
  return { ...before, id, type, position, data, selected: chosen, ...more };
}

/** React Flow's nodes; `selected` is a set of ids, or null to leave the selection as it is. */
export function flowNodes({ doc, rules, states, titles, nodes: before }, selected = null) {
  const known = new Map(before.map((node) => [node.id, node]));
  const named = namedPorts(doc);
  const notes = doc.notes.map((note) => {
    const data = known.get(note.id)?.data.text === note.text ? known.get(note.id).data : { text: note.text };
    const more = { width: note.width, height: note.height, zIndex: -10, ariaLabel: "Note" };
    return flowNode(known.get(note.id), note.id, "note", [note.x, note.y], data, selected, more);
  });
  const steps = Object.entries(doc.nodes).map(([id, { type, label }]) => {
    const ports = portsOf(id, type, rules, named.get(id));
    const data = sameJson(known.get(id)?.data.ports, ports) ? known.get(id).data : { ports };
    const state = states[id] ?? IDLE;
    const more = { domAttributes: { "data-state": state.state }, ariaLabel: ariaLabelOf(label || titles[type] || type, id, state) };
    return flowNode(known.get(id), id, "step", doc.layout[id], data, selected, more);
  });
  return unchanged([...notes, ...steps], before);
}

/** The old list, if the new one holds the same objects. */
const unchanged = (after, before) => (after.length === before.length && after.every((item, at) => item === before[at]) ? before : after);

/** React Flow's edges; one with a missing node is not drawn. */
export function flowEdges({ doc, rules, edges: before }, problems) {
  const known = new Map(before.map((edge) => [edge.id, edge]));
  const counts = new Map();
  const after = doc.edges
    .filter(({ from, to }) => doc.nodes[nodeOf(from)] && doc.nodes[nodeOf(to)])
    .map(({ from, to }) => {
      const name = `${from}>${to}`;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      const id = counts.get(name) === 1 ? name : `${name}#${counts.get(name)}`;
      const type = rules[doc.nodes[nodeOf(from)].type]?.outputs.find((port) => port.name === portOf(from))?.type ?? "unknown";
      const wrong = problems.some((problem) => problem.edge && sameEdge(problem.edge, { from, to }));
      const className = `port-${type}${wrong ? " wrong" : ""}`;
      const old = known.get(id);
      if (old?.className === className) return old;
      const ends = { source: nodeOf(from), sourceHandle: portOf(from), target: nodeOf(to), targetHandle: portOf(to) };
      return { ...old, id, ...ends, className, ariaLabel: `${from} to ${to}` };
    });
  return unchanged(after, before);
}

export const edgeOf = ({ source, sourceHandle, target, targetHandle }) => ({
  from: `${source}.${sourceHandle}`,
  to: `${target}.${targetHandle}`,
});
