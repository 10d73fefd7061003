// Whether an edge may be drawn. What fits is data from Python (`engine.validate.connection_rules`); only the
// question is asked here, so that the answer comes while the mouse is still moving. A user may draw more than a document
// may hold: an edge to an input that takes one and has one is drawn in the place of the other.

import { nodeOf, portOf, sameEdge } from "./model.js";

const find = (ports, name) => ports?.find((port) => port.name === name);

export const outputAt = (doc, rules, end) => find(rules[doc.nodes[nodeOf(end)]?.type]?.outputs, portOf(end));
export const inputAt = (doc, rules, end) => find(rules[doc.nodes[nodeOf(end)]?.type]?.inputs, portOf(end));

const titleOf = (doc, id, titles) => doc.nodes[id]?.label || titles[doc.nodes[id]?.type] || id;
const oneOf = (names) => names.join(" or ");

/** Why the edge may not be added, as a sentence; null if it may. The engine says the same. */
export const refusal = (doc, rules, edge, titles = {}) =>
  fault(doc, rules, edge) ?? occupied(doc, rules, edge, titles) ?? circle(doc, edge, titles);

/** Why the edge may not be drawn, even in the place of another; null if it may. */
export const objection = (doc, rules, edge, titles = {}) => fault(doc, rules, edge) ?? circle(doc, edge, titles);

/** The edges that go when this one is drawn, because its input takes one only. */
export const displaced = (doc, rules, edge) =>
  inputAt(doc, rules, edge.to)?.many ? [] : doc.edges.filter((present) => present.to === edge.to && !sameEdge(present, edge));

/** What a user should know before an edge is drawn that takes another's place; null if it takes none. */
export function replacing(doc, rules, edge, titles) {
  const named = ({ from }) => `${titleOf(doc, nodeOf(from), titles)}: ${outputAt(doc, rules, from)?.title ?? portOf(from)}`;
  const sources = displaced(doc, rules, edge).map(named);
  return sources.length ? `Replaces the connection from ${sources.join(" and ")}.` : null;
}

/** What is wrong with the edge itself. */
function fault(doc, rules, edge) {
  const [source, target] = [nodeOf(edge.from), nodeOf(edge.to)];
  if (source === target) return "A step cannot feed itself. Connect two different steps.";
  const output = outputAt(doc, rules, edge.from);
  const input = inputAt(doc, rules, edge.to);
  if (!output || !input) return "Connect an output (right side) to an input (left side).";
  if (!input.accepts.includes(output.type)) {
    const free = (port) => port.many || !doc.edges.some((present) => present.to === `${target}.${port.name}`);
    const fitting = rules[doc.nodes[target].type].inputs.filter((port) => port.accepts.includes(output.type) && free(port));
    const how = fitting.length ? ` Use its input ${oneOf(fitting.map((port) => port.title))}.` : "";
    return `${input.title} takes ${oneOf(input.accepts)}, and this is ${output.type}.${how}`;
  }
  return doc.edges.some((present) => sameEdge(present, edge)) ? "This connection is there already." : null;
}

function occupied(doc, rules, edge, titles) {
  const [taken] = displaced(doc, rules, edge);
  if (!taken) return null;
  const { title } = inputAt(doc, rules, edge.to);
  return `${title} takes one connection and has one from ${titleOf(doc, nodeOf(taken.from), titles)}. Remove that one first.`;
}

function circle(doc, edge, titles) {
  const [source, target] = [nodeOf(edge.from), nodeOf(edge.to)];
  if (!reaches(doc, target, source)) return null;
  return `This would close a circle: ${titleOf(doc, target, titles)} already leads to ${titleOf(doc, source, titles)}.`;
}

const onward = new WeakMap(); // of a list of edges: what each node leads to

function nextOf(edges) {
  if (!onward.has(edges)) {
    const next = new Map();
    for (const { from, to } of edges) next.set(nodeOf(from), [...(next.get(nodeOf(from)) ?? []), nodeOf(to)]);
    onward.set(edges, next);
  }
  return onward.get(edges);
}

/** Whether data flows from one node to another. */
function reaches(doc, start, goal) {
  const next = nextOf(doc.edges);
  const seen = new Set([start]);
  const open = [start];
  while (open.length) {
    const here = open.pop();
    if (here === goal) return true;
    for (const node of next.get(here) ?? []) if (!seen.has(node)) seen.add(node) && open.push(node);
  }
  return false;
}

/** The first edge from `from` into the node `id` that is allowed, or why there is none. */
export function edgeInto(doc, rules, from, id, titles) {
  const inputs = rules[doc.nodes[id].type]?.inputs ?? [];
  const edges = inputs.map((port) => ({ from, to: `${id}.${port.name}` }));
  const edge = edges.find((candidate) => refusal(doc, rules, candidate, titles) === null);
  if (edge) return { edge, reason: null };
  const title = titles[doc.nodes[id].type] ?? id;
  const output = outputAt(doc, rules, from);
  return { edge: null, reason: `${title} has no free input for ${output?.type ?? "this output"}, so it was not connected.` };
}

/** The node types an output of this type can be plugged into. */
export const takers = (rules, portType) =>
  Object.keys(rules).filter((type) => rules[type].inputs.some((port) => port.accepts.includes(portType)));

/** Every edge a user may draw from or to a node, with its name in words: free inputs first, then the nearest steps. */
export function edgesAt(doc, rules, id, titles) {
  const ends = (node, side) => (rules[doc.nodes[node]?.type]?.[side] ?? []).map((port) => `${node}.${port.name}`);
  const pairs = (from, to) => ends(from, "outputs").flatMap((output) => ends(to, "inputs").map((input) => ({ from: output, to: input })));
  const others = Object.keys(doc.nodes).filter((other) => other !== id);
  const away = Object.fromEntries(others.map((other) => [other, Math.hypot(...doc.layout[other].map((at, axis) => at - doc.layout[id][axis]))]));
  const order = (one, other) => !!one.note - !!other.note || away[one.partner] - away[other.partner];
  const name = namer(doc, titles);
  return others
    .flatMap((partner) => [...pairs(id, partner), ...pairs(partner, id)].map((edge) => ({ edge, partner })))
    .filter(({ edge }) => objection(doc, rules, edge) === null)
    .map(({ edge, partner }) => {
      const [output, input] = [outputAt(doc, rules, edge.from), inputAt(doc, rules, edge.to)];
      const words = `${name(nodeOf(edge.from))}: ${output.title} → ${name(nodeOf(edge.to))}: ${input.title}`;
      return { edge, partner, name: words, type: output.type, note: replacing(doc, rules, edge, titles) };
    })
    .sort(order);
}

/** Titles of steps; those that several have are told apart by their ids. */
function namer(doc, titles) {
  const all = Object.keys(doc.nodes).map((id) => titleOf(doc, id, titles));
  return (id) => {
    const title = titleOf(doc, id, titles);
    return all.filter((other) => other === title).length > 1 ? `${title} (${id})` : title;
  };
}
