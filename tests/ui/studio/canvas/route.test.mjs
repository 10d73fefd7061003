// The ways of edges around nodes, and the layout that leaves room for them.

import assert from "node:assert/strict";
import test from "node:test";
import { flowEdges, flowNodes, geometry, sizes } from "../../../../ui/studio/canvas/frontend/src/flow.js";
import { layered } from "../../../../ui/studio/canvas/frontend/src/layout.js";
import { groupNodes } from "../../../../ui/studio/canvas/frontend/src/model.js";
import { curveAt, pathOf, route, routes } from "../../../../ui/studio/canvas/frontend/src/route.js";
import { build, port } from "./desk.mjs";

const box = (x, y, width = 224, height = 120) => ({ x, y, width, height });
const RULES = { any: { inputs: [port("a", "table"), port("b", "table")], outputs: [port("x", "table"), port("y", "table")] } };
const TYPES = { any: { title: "Any", category: "Data", summary: "" } };

const meets = (a, b, { x, y, width, height }) =>
  Math.max(a.x, b.x) > x && Math.min(a.x, b.x) < x + width && Math.max(a.y, b.y) > y && Math.min(a.y, b.y) < y + height;

/** The points of a way, also those of a curve. */
const drawn = ({ start, end, points }) => points ?? Array.from({ length: 65 }, (_, at) => curveAt(start, end, at / 64));

/** The boxes, as ids, that a way runs through. */
function behind(way, boxes) {
  const points = drawn(way);
  return [...boxes].filter(([, one]) => points.slice(1).some((point, at) => meets(points[at], point, one))).map(([id]) => id);
}

/** The edges and boxes of a document as they are drawn. */
function drawing(doc) {
  const view = { doc, rules: RULES, types: TYPES, states: {}, titles: {}, nodes: [], edges: [] };
  return geometry({ ...view, nodes: flowNodes(view), edges: flowEdges(view, []) });
}

/** A document with many edges, always the same one for a seed; positions are those of the layout. */
function tangle(count, seed) {
  let state = seed;
  const chance = (most) => (state = (state * 1103515245 + 12345) & 0x7fffffff) % most;
  const edges = [];
  for (let at = 1; at < count; at++) {
    for (const input of ["a", "b"]) if (chance(10) < 7) edges.push([`n${Math.max(0, at - 1 - chance(9))}.${"xy"[chance(2)]}`, `n${at}.${input}`]);
  }
  const doc = build(Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, "any"])), edges);
  return { ...doc, layout: layered(doc, sizes({ doc, rules: RULES, types: TYPES })) };
}

/** The document with a node dragged to the right and down, to a place that no other node covers. */
function dragged(doc, id) {
  const { boxes } = drawing(doc);
  const own = boxes.get(id);
  const covers = (shift) => [...boxes].some(([other, { x, y, width, height }]) => other !== id && meets({ x: own.x + shift - 24, y: own.y + shift - 24 }, { x: own.x + shift + own.width + 24, y: own.y + shift + own.height + 24 }, { x, y, width, height }));
  let shift = 48;
  while (covers(shift)) shift += 16;
  return { ...doc, layout: { ...doc.layout, [id]: [own.x + shift, own.y + shift] } };
}

/** Check that no way runs behind a node that it does not touch; return how many were checked. */
function checkAll(doc) {
  const { ends, boxes } = drawing(doc);
  const { ways } = routes(ends, boxes);
  for (const { id, source, target } of ends) {
    const through = behind(ways.get(id), boxes).filter((node) => node !== source && node !== target);
    assert.deepEqual(through, [], id);
  }
  return ends.length;
}

test("an edge with nothing in its way is a curve, and one with a node in its way goes around it", () => {
  const [start, end] = [{ x: 230, y: 60 }, { x: 570, y: 60 }];
  const own = [box(0, 0), box(576, 0)];
  assert.equal(route(start, end, own, []).points, null);
  assert.equal(route(start, end, own, [box(288, 200)]).points, null, "a node below");
  const way = route(start, end, own, [box(288, 0)]);
  assert.deepEqual([way.points[0], way.points.at(-1)], [start, end]);
  assert.ok(way.points.length <= 6, "four turns at most");
  assert.deepEqual(behind({ start, end, ...way }, new Map([["between", box(288, 0)]])), []);
});

test("an edge to a node on the left goes around both of its nodes", () => {
  const [start, end] = [{ x: 806, y: 60 }, { x: -6, y: 60 }];
  const own = [box(576, 0), box(0, 0)];
  const way = route(start, end, own, [box(288, 0)]);
  assert.deepEqual(behind({ start, end, ...way }, new Map([...own, box(288, 0)].entries())), []);
});

test("an edge whose port is covered by another node is still drawn", () => {
  const [start, end] = [{ x: 230, y: 60 }, { x: 570, y: 60 }];
  const own = [box(0, 0), box(576, 0)];
  const { points } = route(start, end, own, [box(200, 0, 100)]);
  assert.match(pathOf(start, end, { points }), /^M230,60 .*570,60$/);
});

test("no edge runs behind a node that it does not touch, after the layout and after a drag", () => {
  let checked = 0;
  for (const [count, seed] of [[5, 1], [11, 2], [20, 3], [40, 4], [80, 5]]) {
    const doc = tangle(count, seed);
    checked += checkAll(doc);
    for (const at of [0, 1, 2, 3]) checked += checkAll(dragged(doc, `n${at}`));
  }
  assert.ok(checked > 300);
});

test("edges are routed again only near a node that moved", () => {
  const doc = tangle(300, 6);
  const { ends, boxes } = drawing(doc);
  const first = routes(ends, boxes);
  assert.equal(routes(ends, boxes, first).ways, first.ways, "nothing moved");
  const [x, y] = doc.layout.n299;
  const moved = drawing({ ...doc, layout: { ...doc.layout, n299: [x + 16, y] } });
  const second = routes(moved.ends, moved.boxes, first);
  const anew = ends.filter(({ id }) => second.ways.get(id) !== first.ways.get(id));
  assert.ok(anew.length > 0 && anew.length < ends.length / 4, `${anew.length} of ${ends.length}`);
});

test("lines of edges from different ports do not lie upon each other", () => {
  // Both edges must pass above or below the node in the middle.
  const doc = { ...build({ s: "any", m: "any", t: "any" }, [["s.x", "t.a"], ["s.y", "t.b"]]), layout: { s: [0, 0], m: [320, 0], t: [640, 0] } };
  const { ends, boxes } = drawing(doc);
  const ways = [...routes(ends, boxes).ways.values()];
  const long = ways.map(({ points }) => points.slice(1).map((point, at) => [points[at], point]).find(([a, b]) => a.y === b.y && Math.abs(a.x - b.x) > 200));
  assert.equal(long.filter(Boolean).length, 2);
  assert.notEqual(long[0][0].y, long[1][0].y);
});

test("the layout leaves a lane for an edge that passes a column", () => {
  const doc = build({ load: "any", split: "any", forest: "any", predict: "any" }, [["load.x", "split.a"], ["split.x", "forest.a"], ["forest.x", "predict.a"], ["split.y", "predict.b"]]);
  const placed = { ...doc, layout: layered(doc, sizes({ doc, rules: RULES, types: TYPES })) };
  const { ends, boxes } = drawing(placed);
  const { ways } = routes(ends, boxes);
  const passing = ways.get("split.y>predict.b");
  assert.deepEqual(behind(passing, new Map([["forest", boxes.get("forest")]])), []);
  assert.ok((passing.points?.length ?? 2) <= 4, "at most two turns");
});

test("the layout places a group as one, with its nodes together and no other node inside", () => {
  const doc = groupNodes(tangle(12, 7), ["n2", "n3", "n4"], "Group");
  const layout = layered(doc, sizes({ doc, rules: RULES, types: TYPES }));
  const of = (ids) => ids.map((id) => box(layout[id][0], layout[id][1]));
  const inside = of(doc.groups[0].nodes);
  const [left, top] = [Math.min(...inside.map(({ x }) => x)), Math.min(...inside.map(({ y }) => y))];
  const [right, bottom] = [Math.max(...inside.map(({ x }) => x + 224)), Math.max(...inside.map(({ y }) => y + 120))];
  const others = of(Object.keys(doc.nodes).filter((id) => !doc.groups[0].nodes.includes(id)));
  assert.ok(others.every((one) => !meets({ x: left, y: top }, { x: right, y: bottom }, one)));
});
