// Whether an edge may be drawn. What fits is data from Python (`engine.validate.connection_rules`); only the
// question is asked here, so that the answer comes while the mouse is still moving.

import { nodeOf, portOf, sameEdge } from "./model.js";

const find = (ports, name) => ports?.find((port) => port.name === name);

export const outputAt = (doc, rules, end) => find(rules[doc.nodes[nodeOf(end)]?.type]?.outputs, portOf(end));
export const inputAt = (doc, rules, end) => find(rules[doc.nodes[nodeOf(end)]?.type]?.inputs, portOf(end));

const titleOf = (doc, id, titles) => doc.nodes[id]?.label || titles[doc.nodes[id]?.type] || id;
const oneOf = (names) => names.join(" or ");

/** Why the edge may not be drawn, as a sentence; null if it may. */
export function refusal(doc, rules, edge, titles = {}) {
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
  if (doc.edges.some((present) => sameEdge(present, edge))) return "This connection is there already.";
  const taken = doc.edges.find((present) => present.to === edge.to);
  if (taken && !input.many) {
    return `${input.title} takes one connection and has one from ${titleOf(doc, nodeOf(taken.from), titles)}. Remove that one first.`;
  }
  if (reaches(doc, target, source)) {
    return `This would close a circle: ${titleOf(doc, target, titles)} already leads to ${titleOf(doc, source, titles)}.`;
  }
  return null;
}

/** Whether data flows from one node to another. */
function reaches(doc, start, goal) {
  const onward = new Map();
  for (const { from, to } of doc.edges) onward.set(nodeOf(from), [...(onward.get(nodeOf(from)) ?? []), nodeOf(to)]);
  const seen = new Set([start]);
  const open = [start];
  while (open.length) {
    const here = open.pop();
    if (here === goal) return true;
    for (const next of onward.get(here) ?? []) if (!seen.has(next)) seen.add(next) && open.push(next);
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
