// The ways of edges around the nodes that they do not touch.
//
// An edge is a smooth curve if no node is in its way. Otherwise it runs along horizontal and vertical
// lines beside the nodes: the shortest way with few turns is searched among the lines beside those
// nodes that were found to be in the way (Dijkstra's algorithm); if that way meets another node, the
// search is repeated with that one as well.
//
// A point is {x, y}, a box {x, y, width, height}. A way is {points}: the corners, or null for a curve.

const CLEARANCE = 4; // the least distance from a node
const MARGINS = [10, 7, 5]; // the distance of a line from the node that it passes; less where there is less room
const LANE = 5; // the distance of lines from ports below each other
const STUB = 12; // how far an edge leaves its node before it turns
const TURN = 48; // a turn is worth as much as this length
const RADIUS = 10;
const SAMPLES = 32;

const grown = ({ x, y, width, height }, by) => ({ x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by });
const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const holds = (box, { x, y }) => x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height;

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

function curveIsFree(start, end, boxes) {
  if (end.x < start.x) return false;
  const near = grown(extent([start, end]), CLEARANCE);
  const inWay = boxes.filter((box) => meet(box, near));
  if (!inWay.length) return true;
  const points = Array.from({ length: SAMPLES + 1 }, (_, at) => curveAt(start, end, at / SAMPLES));
  return points.slice(1).every((point, at) => !inWay.some((box) => meet(grown(box, CLEARANCE), atLeastThin(extent([points[at], point])))));
}

/** A box that is not empty, so that it can meet others. */
const atLeastThin = (box) => ({ ...box, width: Math.max(box.width, 0.01), height: Math.max(box.height, 0.01) });

const blocks = (box, from, to) => meet(grown(box, CLEARANCE), atLeastThin(extent([from, to])));

/**
 * The way of an edge from `start` (leaving to the right) to `end` (arriving from the left).
 *
 * `own` are the boxes of its two nodes, `others` all that it must not meet. `rows` are the rows of
 * its two ports, which keep lines apart. `most` limits the repeated searches.
 */
export function route(start, end, own, others, { rows = [0, 0], most = Infinity } = {}) {
  if (curveIsFree(start, end, others)) return { points: null };
  const [from, to] = [stub(start, 1, rows[0], others), stub(end, -1, rows[1], others)];
  // A node that lies over an end cannot be avoided.
  const avoidable = others.filter((box) => !holds(grown(box, CLEARANCE), from) && !holds(grown(box, CLEARANCE), to));
  const owns = own.filter((box) => !holds(grown(box, CLEARANCE), from) && !holds(grown(box, CLEARANCE), to));
  for (const margin of MARGINS) {
    const points = wayAround(from, to, owns, avoidable, margin + LANE * rows[0] * (margin === MARGINS[0]), most);
    if (points) return { points: corners([start, ...points, end]) };
  }
  return { points: null };
}

/** The point where an edge may turn first: closer to its port where another node is near. */
function stub({ x, y }, side, row, others) {
  const lengths = [STUB + LANE * row, STUB / 2, CLEARANCE];
  const free = lengths.find((length) => !others.some((box) => holds(grown(box, CLEARANCE), { x: x + side * length, y })));
  return { x: x + side * (free ?? STUB), y };
}

function wayAround(from, to, own, others, margin, most) {
  const inWay = new Set(own);
  for (let tries = 0; tries < most; tries++) {
    const points = shortest(from, to, [...inWay], margin);
    if (!points) return null;
    const met = others.filter((box) => !inWay.has(box) && points.slice(1).some((point, at) => blocks(box, points[at], point)));
    if (!met.length) return points;
    met.forEach((box) => inWay.add(box));
  }
  return null;
}

const DIRECTIONS = [[1, 0], [0, 1], [-1, 0], [0, -1]]; // the opposite of one is two further
const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

/** The shortest way with few turns along lines beside the boxes; null if they leave none. */
function shortest(from, to, boxes, margin) {
  const xs = sorted([from.x, to.x, ...boxes.flatMap(({ x, width }) => [x - margin, x + width + margin])]);
  const ys = sorted([from.y, to.y, ...boxes.flatMap(({ y, height }) => [y - margin, y + height + margin])]);
  const state = (column, row, direction) => (row * xs.length + column) * 4 + direction;
  const point = (one) => ({ x: xs[(one >> 2) % xs.length], y: ys[Math.floor((one >> 2) / xs.length)] });
  const begin = state(xs.indexOf(from.x), ys.indexOf(from.y), 0);
  const goal = state(xs.indexOf(to.x), ys.indexOf(to.y), 0) >> 2;
  const cost = new Map([[begin, 0]]);
  const previous = new Map();
  const queue = new Queue();
  queue.add(0, begin);
  for (let next = queue.take(); next; next = queue.take()) {
    const [reached, here] = next;
    if (reached > cost.get(here)) continue;
    if (here >> 2 === goal && here % 4 === 0) return wayTo(here, previous, point);
    const [column, row, direction] = [(here >> 2) % xs.length, Math.floor((here >> 2) / xs.length), here % 4];
    for (const turn of [0, 1, 3]) {
      const towards = (direction + turn) % 4;
      const [dx, dy] = DIRECTIONS[towards];
      // At its end an edge may turn on the spot, to arrive from the left.
      const stays = here >> 2 === goal && turn > 0 && towards === 0;
      const [c, r] = stays ? [column, row] : [column + dx, row + dy];
      if (c < 0 || r < 0 || c >= xs.length || r >= ys.length) continue;
      const there = state(c, r, towards);
      const [a, b] = [point(here), point(there)];
      const total = reached + Math.abs(a.x - b.x) + Math.abs(a.y - b.y) + (turn ? TURN : 0);
      if (total >= (cost.get(there) ?? Infinity) || boxes.some((box) => blocks(box, a, b))) continue;
      cost.set(there, total);
      previous.set(there, here);
      queue.add(total, there);
    }
  }
  return null;
}

function wayTo(last, previous, point) {
  const points = [];
  for (let here = last; here !== undefined; here = previous.get(here)) points.unshift(point(here));
  return points;
}

/** A queue that gives the entry with the least cost first: a binary heap. */
class Queue {
  #entries = [];

  add(cost, value) {
    const entries = this.#entries;
    let at = entries.push([cost, value]) - 1;
    while (at > 0 && entries[(at - 1) >> 1][0] > entries[at][0]) at = this.#swap(at, (at - 1) >> 1);
  }

  take() {
    const entries = this.#entries;
    if (entries.length < 2) return entries.pop();
    const first = entries[0];
    entries[0] = entries.pop();
    for (let at = 0; ; ) {
      const children = [2 * at + 1, 2 * at + 2].filter((child) => child < entries.length);
      const least = children.reduce((one, other) => (entries[other][0] < entries[one][0] ? other : one), at);
      if (least === at) return first;
      at = this.#swap(at, least);
    }
  }

  #swap(one, other) {
    [this.#entries[one], this.#entries[other]] = [this.#entries[other], this.#entries[one]];
    return other;
  }
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
  const changed = [];
  for (const id of new Set([...before.boxes.keys(), ...boxes.keys()])) {
    const [old, now] = [before.boxes.get(id), boxes.get(id)];
    if (!old || !now || old.x !== now.x || old.y !== now.y || old.width !== now.width || old.height !== now.height) {
      if (old) changed.push(old);
      if (now) changed.push(now);
    }
  }
  const all = [...boxes];
  const ways = new Map();
  for (const { id, source, target, start, end, rows } of edges) {
    const known = before.ways.get(id);
    const moved = !known || known.start.x !== start.x || known.start.y !== start.y || known.end.x !== end.x || known.end.y !== end.y;
    if (!moved && !changed.some((box) => meet(box, known.area))) {
      ways.set(id, known);
      continue;
    }
    const others = all.filter(([node]) => node !== source && node !== target).map(([, box]) => box);
    const { points } = route(start, end, [boxes.get(source), boxes.get(target)], others, { rows });
    ways.set(id, { start, end, points, area: grown(extent(points ?? [start, end]), STUB + RADIUS) });
  }
  const same = before.ways.size === ways.size && [...ways].every(([id, way]) => before.ways.get(id) === way);
  return { boxes, ways: same ? before.ways : ways };
}
