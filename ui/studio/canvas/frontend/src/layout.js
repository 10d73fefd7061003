// A layered layout, left to right: a node is right of its inputs, and near the height of its neighbours.

import { GRID, nodeOf, snap } from "./model.js";

const COLUMN_GAP = 5 * GRID;
const ROW_GAP = 2 * GRID;
const SWEEPS = 8;

/** Return {id: [x, y]} for every node; `sizeOf(id)` returns {width, height}. */
export function layered(doc, sizeOf) {
  const ids = Object.keys(doc.nodes);
  const { into, outOf } = neighbours(doc);
  const columns = order(intoColumns(ids, into, outOf), into, outOf);
  const positions = {};
  let x = 0;
  for (const column of columns) {
    for (const id of column) positions[id] = [snap(x), 0];
    x += Math.max(...column.map((id) => sizeOf(id).width)) + COLUMN_GAP;
  }
  const heights = settle(columns, into, outOf, sizeOf);
  const top = Math.min(0, ...Object.values(heights));
  for (const id of ids) positions[id][1] = snap(heights[id] - top);
  return positions;
}

function neighbours(doc) {
  const into = new Map(Object.keys(doc.nodes).map((id) => [id, []]));
  const outOf = new Map(Object.keys(doc.nodes).map((id) => [id, []]));
  for (const edge of doc.edges) {
    const [source, target] = [nodeOf(edge.from), nodeOf(edge.to)];
    if (source !== target && into.has(source) && into.has(target)) {
      into.get(target).push(source);
      outOf.get(source).push(target);
    }
  }
  return { into, outOf };
}

/** Columns by the longest path from a start. Nodes of a cycle (in an invalid document) come last, each in its column. */
function intoColumns(ids, into, outOf) {
  const waiting = new Map(ids.map((id) => [id, into.get(id).length]));
  const columns = [];
  let ready = ids.filter((id) => waiting.get(id) === 0);
  const placed = new Set();
  while (placed.size < ids.length) {
    if (!ready.length) ready = [ids.find((id) => !placed.has(id))];
    columns.push(ready);
    ready.forEach((id) => placed.add(id));
    const next = new Set();
    for (const id of ready) {
      for (const target of outOf.get(id)) {
        waiting.set(target, waiting.get(target) - 1);
        if (waiting.get(target) === 0 && !placed.has(target)) next.add(target);
      }
    }
    ready = [...next];
  }
  return columns;
}

/** Sort each column by the mean position of its neighbours, left and right in turn, so that few edges cross. */
function order(columns, into, outOf) {
  const rank = new Map();
  const note = () => columns.forEach((column) => column.forEach((id, at) => rank.set(id, at / Math.max(1, column.length - 1))));
  note();
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const side = sweep % 2 ? outOf : into;
    columns = columns.map((column) => {
      const weight = new Map(column.map((id) => [id, mean(side.get(id).map((other) => rank.get(other))) ?? rank.get(id)]));
      return [...column].sort((a, b) => weight.get(a) - weight.get(b));
    });
    note();
  }
  return columns;
}

/** Move every node towards the mean height of its neighbours, as far as the nodes above and below allow. */
function settle(columns, into, outOf, sizeOf) {
  const middle = {};
  for (const column of columns) pack(column, () => 0, sizeOf, middle);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) {
      const target = (id) => mean((forward ? into : outOf).get(id).map((other) => middle[other])) ?? middle[id];
      pack(column, target, sizeOf, middle);
    }
  }
  return Object.fromEntries(Object.entries(middle).map(([id, y]) => [id, y - sizeOf(id).height / 2]));
}

/** Place a column's nodes in order without overlap, and shift the column by the mean distance to their targets. */
function pack(column, target, sizeOf, middle) {
  const targets = column.map(target);
  let floor = -Infinity;
  const placed = column.map((id, at) => {
    const half = sizeOf(id).height / 2;
    const y = Math.max(targets[at], floor + half);
    floor = y + half + ROW_GAP;
    return y;
  });
  const shift = mean(placed.map((y, at) => targets[at] - y)) ?? 0;
  column.forEach((id, at) => (middle[id] = placed[at] + shift));
}

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined);
