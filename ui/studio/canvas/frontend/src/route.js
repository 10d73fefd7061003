// The ways of edges around the nodes that they do not touch.
//
// An edge is a smooth curve if no node is in its way. Otherwise it runs along horizontal and vertical
// lines beside the nodes, and never turns back on its way from left to right (or right to left, if
// its target is on the left). The best of these ways is found by dynamic programming from one
// vertical line to the next: short, with few turns, and not upon the lines of other edges.
//
// A point is {x, y}, a box {x, y, width, height}. A way is {points}: the corners, or null for a curve.

const CLEARANCE = 4; // the least distance from a node
const MARGINS = [9, 16]; // the distances of lines from a node that they pass
const APART = 5; // lines of other edges at a smaller distance count as the same line
const LANE = 6; // the distance of lines from ports below each other
const STUB = 12; // how far an edge leaves its node before it turns
const TURN = 48; // a turn is worth as much as this length
const SHARED = 2; // on a line of another edge, a length counts so many times more
const RADIUS = 10;
const SAMPLES = 32;

const grown = ({ x, y, width, height }, by) => ({ x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by });
const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const holds = (box, { x, y }) => x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height;
const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

/** How many of the sorted values are less than a value. */
function countBelow(values, value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The box around points. */
function extent(points) {
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

/** A point of the curve between two ports, for `t` from 0 to 1; it leaves and arrives horizontally. */
export function curveAt(start, end, t) {
  const middle = (start.x + end.x) / 2;
  const mix = (a, b, c, d) => (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d;
  return { x: mix(start.x, middle, middle, end.x), y: mix(start.y, start.y, end.y, end.y) };
}

/** A box that is not empty, so that it can meet others. */
const atLeastThin = (box) => ({ ...box, width: Math.max(box.width, 0.01), height: Math.max(box.height, 0.01) });

function curveIsFree(start, end, boxes) {
  if (end.x < start.x) return false;
  const near = grown(extent([start, end]), CLEARANCE);
  const inWay = boxes.filter((box) => meet(box, near));
  if (!inWay.length) return true;
  const points = Array.from({ length: SAMPLES + 1 }, (_, at) => curveAt(start, end, at / SAMPLES));
  return points.slice(1).every((point, at) => !inWay.some((box) => meet(grown(box, CLEARANCE), atLeastThin(extent([points[at], point])))));
}

/**
 * The way of an edge from `start` (leaving to the right) to `end` (arriving from the left).
 *
 * `own` are the boxes of its two nodes, `others` all that it must not meet. `rows` are the rows of
 * its two ports, which keep lines apart. `taken` are the lines of other edges (see `linesOf`).
 */
export function route(start, end, own, others, { rows = [0, 0], taken = [] } = {}) {
  if (curveIsFree(start, end, others)) return { points: null };
  const room = end.x >= start.x ? (end.x - start.x) / 2 : Infinity;
  const [from, to] = [stub(start, 1, rows[0], room, others), stub(end, -1, rows[1], room, others)];
  // A node that lies over an end cannot be avoided.
  const isFree = (box) => !holds(grown(box, CLEARANCE), from) && !holds(grown(box, CLEARANCE), to);
  const points = search(from, to, [...own, ...others].filter(isFree), taken);
  return { points: points && corners([start, ...points, end]) };
}

/** The point where an edge may turn first: closer to its port where another node is near. */
function stub({ x, y }, side, row, room, others) {
  const lengths = [STUB + LANE * row, STUB / 2, CLEARANCE].map((length) => Math.min(length, room));
  const free = lengths.find((length) => !others.some((box) => holds(grown(box, CLEARANCE), { x: x + side * length, y })));
  return { x: x + side * (free ?? lengths[0]), y };
}

/** The vertical and horizontal lines of a way: {x, low, high} or {y, low, high}, each with the `start` of its edge. */
const linesOf = ({ start, points }) =>
  (points ?? []).slice(1).map((b, at) => {
    const a = points[at];
    if (a.x === b.x) return { start, x: a.x, low: Math.min(a.y, b.y), high: Math.max(a.y, b.y) };
    return { start, y: a.y, low: Math.min(a.x, b.x), high: Math.max(a.x, b.x) };
  });

/** The best way from one vertical line to the next; null if the boxes leave none. */
function search(from, to, boxes, taken) {
  const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
  const near = boxes.map((box) => grown(box, CLEARANCE)).filter((box) => box.x < right && box.x + box.width > left);
  const beside = (low, size) => MARGINS.flatMap((margin) => [low + CLEARANCE - margin, low + size - CLEARANCE + margin]);
  const inside = near.flatMap(({ x, width }) => beside(x, width)).filter((x) => x > left && x < right);
  const xs = sorted([from.x, to.x, ...inside]);
  if (to.x < from.x) xs.reverse();
  const ys = sorted([from.y, to.y, ...near.flatMap(({ y, height }) => beside(y, height))]);
  const count = ys.length;
  // The rows inside each box, and upon each horizontal line, are those from `first` to `last`.
  const rowsIn = (low, high) => ({ first: countBelow(ys, low), last: countBelow(ys, high) - 1 });
  const walls = near.map((box) => ({ ...box, ...rowsIn(box.y, box.y + box.height) }));
  const across = taken
    .filter((line) => line.y !== undefined && line.low < right && line.high > left)
    .map((line) => ({ ...line, ...rowsIn(line.y - APART, line.y + APART) }))
    .filter(({ first, last }) => first <= last);
  const upright = taken.filter((line) => line.x > left - APART && line.x < right + APART);
  const cameFrom = new Int32Array(xs.length * count); // the row from which each crossing was reached on its vertical line
  let cost = new Float64Array(count).fill(Infinity);
  cost[ys.indexOf(from.y)] = 0;
  xs.forEach((x, column) => {
    if (column > 0) goAlong(cost, walls, across, xs[column - 1], x);
    cost = goUpAndDown(cost, ys, walls, upright, x, cameFrom.subarray(column * count, (column + 1) * count));
  });
  if (cost[ys.indexOf(to.y)] === Infinity) return null;
  const points = [];
  for (let [column, row] = [xs.length - 1, ys.indexOf(to.y)]; column >= 0; column--) {
    const before = cameFrom[column * count + row];
    points.unshift({ x: xs[column], y: ys[before] }, { x: xs[column], y: ys[row] });
    row = before;
  }
  return points;
}

/** Add to the cost of each row what it costs to go from one vertical line to the next. */
function goAlong(cost, walls, across, before, x) {
  const [left, right] = [Math.min(before, x), Math.max(before, x)];
  for (let row = 0; row < cost.length; row++) cost[row] += right - left;
  for (const box of walls) if (box.x < right && box.x + box.width > left) cost.fill(Infinity, box.first, box.last + 1);
  for (const { low, high, first, last } of across) {
    if (low < right && high > left) for (let row = first; row <= last; row++) cost[row] += SHARED * (right - left);
  }
}

/** The costs of the rows after a move on the vertical line at `x`; `cameFrom` gets the row of each before the move. */
function goUpAndDown(cost, ys, walls, upright, x, cameFrom) {
  const after = Float64Array.from(cost);
  const lengths = ys.slice(1).map((y, row) => y - ys[row]);
  for (const box of walls) if (box.x < x && x < box.x + box.width) lengths.fill(Infinity, Math.max(0, box.first - 1), box.last + 1);
  for (const line of upright) {
    if (Math.abs(line.x - x) >= APART) continue;
    lengths.forEach((length, row) => line.low < ys[row + 1] && line.high > ys[row] && (lengths[row] += SHARED * length));
  }
  ys.forEach((_, row) => (cameFrom[row] = row));
  const pass = (first, last, by) => {
    let [carried, origin] = [Infinity, first];
    for (let row = first; row !== last; row += by) {
      if (row !== first) carried += lengths[Math.min(row, row - by)];
      if (carried < after[row]) {
        after[row] = carried;
        cameFrom[row] = origin;
      }
      if (cost[row] + 2 * TURN < carried) [carried, origin] = [cost[row] + 2 * TURN, row];
    }
  };
  pass(0, ys.length, 1);
  pass(ys.length - 1, -1, -1);
  return after;
}

/** The points without those that lie on a straight line between their neighbours. */
function corners(points) {
  const distinct = points.filter(({ x, y }, at) => !at || x !== points[at - 1].x || y !== points[at - 1].y);
  return distinct.filter(({ x, y }, at) => {
    const [before, after] = [distinct[at - 1], distinct[at + 1]];
    return !before || !after || !((before.x === x && after.x === x) || (before.y === y && after.y === y));
  });
}

/** A way as an SVG path: a curve, or lines with rounded corners. */
export function pathOf(start, end, { points }) {
  if (!points) {
    // An edge to the left that has no way swings out at both ends.
    const reach = end.x >= start.x ? (end.x - start.x) / 2 : 6 * Math.sqrt(start.x - end.x);
    return `M${start.x},${start.y} C${start.x + reach},${start.y} ${end.x - reach},${end.y} ${end.x},${end.y}`;
  }
  const inner = points.slice(1, -1).map((corner, at) => {
    const [before, after] = [points[at], points[at + 2]];
    const radius = Math.min(RADIUS, distance(before, corner) / 2, distance(corner, after) / 2);
    const [a, b] = [towards(corner, before, radius), towards(corner, after, radius)];
    return `L${a.x},${a.y} Q${corner.x},${corner.y} ${b.x},${b.y}`;
  });
  return [`M${start.x},${start.y}`, ...inner, `L${end.x},${end.y}`].join(" ");
}

const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

function towards(from, to, length) {
  const share = length / (distance(from, to) || 1);
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

/**
 * The ways of all edges: {boxes, ways}, where `ways` maps an id to {start, end, points}.
 *
 * `edges` are {id, source, target, start, end, rows}, `boxes` maps the id of a node to its box. A way
 * of `before` is used again unless one of its ends has moved, or a node near it.
 */
export function routes(edges, boxes, before = { boxes: new Map(), ways: new Map() }) {
  const changed = changedBoxes(before.boxes, boxes);
  const remains = ({ id, start, end }) => {
    const known = before.ways.get(id);
    return known && samePoint(known.start, start) && samePoint(known.end, end) && !changed.some((box) => meet(box, known.area));
  };
  const ways = new Map(edges.map((edge) => [edge.id, remains(edge) ? before.ways.get(edge.id) : null]));
  const lines = [...ways.values()].flatMap((way) => (way ? linesOf(way) : []));
  const all = [...boxes];
  for (const { id, source, target, start, end, rows } of edges) {
    if (ways.get(id)) continue;
    const others = all.filter(([node]) => node !== source && node !== target).map(([, box]) => box);
    const taken = lines.filter((line) => !samePoint(line.start, start));
    const { points } = route(start, end, [boxes.get(source), boxes.get(target)], others, { rows, taken });
    const way = { start, end, points, area: grown(extent(points ?? [start, end]), STUB + RADIUS) };
    ways.set(id, way);
    lines.push(...linesOf(way));
  }
  const same = before.ways.size === ways.size && [...ways].every(([id, way]) => before.ways.get(id) === way);
  return { boxes, ways: same ? before.ways : ways };
}

const samePoint = (a, b) => a.x === b.x && a.y === b.y;

/** The boxes that are only in one of two maps, or differ. */
function changedBoxes(before, after) {
  const changed = [];
  for (const id of new Set([...before.keys(), ...after.keys()])) {
    const [old, now] = [before.get(id), after.get(id)];
    if (old && now && samePoint(old, now) && old.width === now.width && old.height === now.height) continue;
    changed.push(...[old, now].filter(Boolean));
  }
  return changed;
}
