// Whether an edge may be drawn. The rules are data from Python (`engine.validation.connection_rules`);
// they are checked here, so that the answer comes while the mouse is moving. A user may draw an edge
// to an input that takes one edge and has one: it replaces the other.

import { nodeAt, nodeOf, portOf, sameEdge } from "./model.js";

const find = (ports, name) => ports?.find((port) => port.name === name);

export const outputAt = (doc, rules, end) => find(rules[nodeAt(doc, nodeOf(end))?.type]?.outputs, portOf(end));
export const inputAt = (doc, rules, end) => find(rules[nodeAt(doc, nodeOf(end))?.type]?.inputs, portOf(end));

export function titleOf(doc, id, titles) {
  const node = nodeAt(doc, id);
  return node ? node.label || titles[node.type] || node.type : "a deleted node";
}
const oneOf = (names) => names.join(" or ");

/** Why the edge may not be added, as a sentence; null if it may. The engine decides the same. */
export const refusal = (doc, rules, edge, titles = {}) =>
  mismatch(doc, rules, edge) ?? occupied(doc, rules, edge, titles) ?? cycle(doc, edge, titles);

/** Why the edge may not be drawn, even if it replaces another; null if it may. */
export const objection = (doc, rules, edge, titles = {}) => mismatch(doc, rules, edge) ?? cycle(doc, edge, titles);

/** The edges that this one replaces, because its input takes only one. */
export const displaced = (doc, rules, edge) =>
  inputAt(doc, rules, edge.to)?.many ? [] : doc.edges.filter((present) => present.to === edge.to && !sameEdge(present, edge));

/** An edge in words: "Split: Test rows → Predict: Rows to score". */
export function edgeName(doc, rules, { from, to }, titles, name = (id) => titleOf(doc, id, titles)) {
  const [output, input] = [outputAt(doc, rules, from), inputAt(doc, rules, to)];
  const end = (id, port) => name(id) + (port ? `: ${port.title}` : "");
  return `${end(nodeOf(from), output)} → ${end(nodeOf(to), input)}`;
}

/** What the edge would replace, as a sentence; null if it replaces nothing. */
export function replacing(doc, rules, edge, titles) {
  const named = ({ from }) => `${titleOf(doc, nodeOf(from), titles)}: ${outputAt(doc, rules, from)?.title ?? portOf(from)}`;
  const sources = displaced(doc, rules, edge).map(named);
  return sources.length ? `Replaces the connection from ${sources.join(" and ")}.` : null;
}

/** What is wrong with the two ends of the edge. */
function mismatch(doc, rules, edge) {
  const [source, target] = [nodeOf(edge.from), nodeOf(edge.to)];
  if (source === target) return "A node cannot feed itself. Connect two different nodes.";
  const output = outputAt(doc, rules, edge.from);
  const input = inputAt(doc, rules, edge.to);
  if (!output || !input) return "Connect an output (right side) to an input (left side).";
  if (!input.accepts.includes(output.type)) {
    const free = (port) => port.many || !doc.edges.some((present) => present.to === `${target}.${port.name}`);
    const fitting = rules[doc.nodes[target].type].inputs.filter((port) => port.accepts.includes(output.type) && free(port));
    const how = fitting.length ? ` Use its input ${oneOf(fitting.map((port) => port.title))}.` : "";
    return `${input.title} takes ${oneOf(input.accepts)}, and this is ${output.type}.${how}`;
  }
  return doc.edges.some((present) => sameEdge(present, edge)) ? "This connection already exists." : null;
}

function occupied(doc, rules, edge, titles) {
  const [present] = displaced(doc, rules, edge);
  if (!present) return null;
  const { title } = inputAt(doc, rules, edge.to);
  return `${title} takes one connection and has one from ${titleOf(doc, nodeOf(present.from), titles)}. Remove that one first.`;
}

function cycle(doc, edge, titles) {
  const [source, target] = [nodeOf(edge.from), nodeOf(edge.to)];
  if (!reaches(doc, target, source)) return null;
  return `This would create a cycle: ${titleOf(doc, target, titles)} already leads to ${titleOf(doc, source, titles)}.`;
}

const successors = new WeakMap(); // list of edges → what each node leads to

function nextOf(edges) {
  if (!successors.has(edges)) {
    const next = new Map();
    for (const { from, to } of edges) next.set(nodeOf(from), [...(next.get(nodeOf(from)) ?? []), nodeOf(to)]);
    successors.set(edges, next);
  }
  return successors.get(edges);
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

/** The first allowed edge from `from` into the node `id`, or the reason if there is none. */
export function edgeInto(doc, rules, from, id, titles) {
  const inputs = rules[doc.nodes[id].type]?.inputs ?? [];
  const edges = inputs.map((port) => ({ from, to: `${id}.${port.name}` }));
  const edge = edges.find((candidate) => refusal(doc, rules, candidate, titles) === null);
  if (edge) return { edge, reason: null };
  const title = titles[doc.nodes[id].type] ?? id;
  const output = outputAt(doc, rules, from);
  return { edge: null, reason: `${title} has no free input for ${output?.type ?? "this output"}, so it was not connected.` };
}

/** The edges that could connect a node with a new node of this type behind it. */
export function edgesToNew(doc, rules, id, type) {
  const { inputs } = rules[type] ?? { inputs: [] };
  return (rules[doc.nodes[id].type]?.outputs ?? []).flatMap((output) =>
    inputs.filter((input) => input.accepts.includes(output.type)).map((input) => ({ from: `${id}.${output.name}`, input: input.name })),
  );
}

/** The node types that accept an output of this type. */
export const typesAccepting = (rules, portType) =>
  Object.keys(rules).filter((type) => rules[type].inputs.some((port) => port.accepts.includes(portType)));

/** Every edge that may be drawn from or to a node, with its title: free inputs first, then the nearest nodes. */
export function edgesAt(doc, rules, id, titles) {
  const ends = (node, side) => (rules[doc.nodes[node]?.type]?.[side] ?? []).map((port) => `${node}.${port.name}`);
  const pairs = (from, to) => ends(from, "outputs").flatMap((output) => ends(to, "inputs").map((input) => ({ from: output, to: input })));
  const others = Object.keys(doc.nodes).filter((other) => other !== id);
  const distance = Object.fromEntries(others.map((other) => [other, Math.hypot(...doc.layout[other].map((value, axis) => value - doc.layout[id][axis]))]));
  const order = (one, other) => !!one.note - !!other.note || distance[one.partner] - distance[other.partner];
  const name = namer(doc, titles);
  return others
    .flatMap((partner) => [...pairs(id, partner), ...pairs(partner, id)].map((edge) => ({ edge, partner })))
    .filter(({ edge }) => objection(doc, rules, edge) === null)
    .map(({ edge, partner }) => {
      const { type } = outputAt(doc, rules, edge.from);
      return { edge, partner, name: edgeName(doc, rules, edge, titles, name), type, note: replacing(doc, rules, edge, titles) };
    })
    .sort(order);
}

/** A function that returns the title of a node; nodes with the same title are numbered. */
function namer(doc, titles) {
  const byTitle = new Map();
  for (const id of Object.keys(doc.nodes)) {
    const title = titleOf(doc, id, titles);
    byTitle.set(title, [...(byTitle.get(title) ?? []), id]);
  }
  return (id) => {
    const title = titleOf(doc, id, titles);
    const same = byTitle.get(title);
    return same.length > 1 ? `${title} (${same.indexOf(id) + 1})` : title;
  };
}
