// A layered layout, left to right: a node is right of its inputs, and near the height of its
// neighbours. An edge across several columns gets a lane in each of them, so that there is room for it.
// A group is laid out for itself, and then placed like one node.

import { FRAME, collapsedSize } from "./flow.js";
import { GRID, cornerOf, groupId, nodeAt, nodeOf, snap } from "./model.js";

const COLUMN_GAP = 4 * GRID;
const ROW_GAP = 2 * GRID;
const SWEEPS = 8;
const LANE = { width: 0, height: 0 };

/** Return {id: [x, y]} for every node; `sizeOf(id)` returns {width, height}. */
export function layered(doc, sizeOf) {
  const nodes = Object.keys(doc.nodes);
  const home = new Map(doc.groups.flatMap((group) => group.nodes.map((id) => [id, groupId(group)])));
  const inner = new Map(doc.groups.map((group) => [groupId(group), inGroup(doc, group, sizeOf)]));
  const ids = [...new Set(nodes.map((id) => home.get(id) ?? id))];
  const places = columnsOf(ids, links(doc, (id) => home.get(id) ?? id), (id) => inner.get(id)?.size ?? sizeOf(id));
  const place = (id) => {
    const group = inner.get(home.get(id));
    if (!group) return places[id];
    return places[home.get(id)].map((value, axis) => value + group.places[id][axis]);
  };
  return Object.fromEntries(nodes.map((id) => [id, place(id)]));
}

/** The places of a group's nodes from its top left corner, and its size. */
function inGroup(doc, group, sizeOf) {
  if (group.collapsed && group.nodes.every((id) => Object.hasOwn(doc.layout, id))) {
    const [left, top] = cornerOf(doc, group);
    const places = group.nodes.map((id) => [id, [doc.layout[id][0] - left, doc.layout[id][1] - top]]);
    return { places: Object.fromEntries(places), size: collapsedSize };
  }
  const within = new Set(group.nodes);
  const places = columnsOf(group.nodes, links(doc, (id) => (within.has(id) ? id : null)), sizeOf);
  const end = (axis, side) => Math.max(...group.nodes.map((id) => places[id][axis] + sizeOf(id)[side]));
  const size = { width: end(0, "width") + 2 * FRAME.side, height: end(1, "height") + FRAME.top + FRAME.side };
  const shifted = group.nodes.map((id) => [id, [places[id][0] + FRAME.side, places[id][1] + FRAME.top]]);
  return { places: Object.fromEntries(shifted), size };
}

/** The pairs of nodes that edges connect; `named` gives the node to use for one, or null for none. */
function links(doc, named) {
  const pairs = new Map();
  for (const { from, to } of doc.edges) {
    if (!nodeAt(doc, nodeOf(from)) || !nodeAt(doc, nodeOf(to))) continue;
    const [source, target] = [named(nodeOf(from)), named(nodeOf(to))];
    if (source && target && source !== target) pairs.set(`${source}>${target}`, [source, target]);
  }
  return [...pairs.values()];
}

function columnsOf(ids, pairs, sizeOf) {
  const all = intoColumns(ids, ...neighbours(ids, pairs));
  const { columns, chains } = withLanes(all, pairs);
  const [into, outOf] = neighbours(columns.flat(), chains);
  const size = (id) => (isLane(id) ? LANE : sizeOf(id));
  const ordered = order(columns, into, outOf);
  const heights = settle(ordered, into, outOf, size);
  const top = Math.min(...ids.map((id) => heights[id]));
  const positions = Object.create(null);
  let x = 0;
  for (const column of ordered) {
    for (const id of column) if (!isLane(id)) positions[id] = [snap(x), snap(heights[id] - top)];
    x += Math.max(...column.map((id) => size(id).width)) + COLUMN_GAP;
  }
  return positions;
}

const isLane = (id) => id.startsWith("lane:");

/** The columns with a lane for each edge in every column that it passes, and the edges in pieces from column to column. */
function withLanes(columns, pairs) {
  const result = columns.map((column) => [...column]);
  const at = new Map(columns.flatMap((column, index) => column.map((id) => [id, index])));
  const chains = pairs.flatMap(([source, target]) => {
    const passed = Array.from({ length: Math.max(0, at.get(target) - at.get(source) - 1) }, (_, index) => at.get(source) + 1 + index);
    const lanes = passed.map((column) => `lane:${source}>${target}:${column}`);
    passed.forEach((column, index) => result[column].push(lanes[index]));
    const way = [source, ...lanes, target];
    return way.slice(1).map((id, index) => [way[index], id]);
  });
  return { columns: result, chains };
}

function neighbours(ids, pairs) {
  const into = new Map(ids.map((id) => [id, []]));
  const outOf = new Map(ids.map((id) => [id, []]));
  for (const [source, target] of pairs) {
    into.get(target).push(source);
    outOf.get(source).push(target);
  }
  return [into, outOf];
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
  const middle = Object.create(null);
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
