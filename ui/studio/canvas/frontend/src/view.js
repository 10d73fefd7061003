// The first view of a pipeline, and whether a node is in view.

export const CLEAR = { top: 64, right: 32, bottom: 136, left: 32 }; // of the bars and the minimap
const RECOGNISABLE = 0.45; // the smallest zoom at which the whole pipeline is recognisable
const READABLE = 0.75; // the smallest zoom at which small print is easy to read
const ENOUGH = 0.15; // the smallest share of the nodes that a view of the beginning must show

const low = (boxes, side) => Math.min(...boxes.map((box) => box[side]));
const high = (boxes, side, size) => Math.max(...boxes.map((box) => box[side] + box[size]));

/** The whole pipeline if it is recognisable then, else its readable beginning; a very large one as a whole. */
export function openingView(boxes, { width, height }, smallest) {
  const [left, top] = [low(boxes, "x"), low(boxes, "y")];
  const [right, bottom] = [high(boxes, "x", "width"), high(boxes, "y", "height")];
  const room = { width: width - CLEAR.left - CLEAR.right, height: height - CLEAR.top - CLEAR.bottom };
  const whole = Math.min(1, room.width / (right - left), room.height / (bottom - top));
  const first = boxes.reduce((one, other) => (other.x < one.x || (other.x === one.x && other.y < one.y) ? other : one));

  const at = (zoom) => ({
    x: CLEAR.left + along(room.width / zoom, left, right, first.x) * zoom,
    y: CLEAR.top + along(room.height / zoom, top, bottom, first.y + first.height / 2) * zoom,
    zoom,
  });
  if (whole >= RECOGNISABLE) return at(whole);
  const near = at(READABLE);
  const seen = boxes.filter((box) => isWithin({ width, height }, near, box));
  return seen.length >= ENOUGH * boxes.length ? near : at(Math.max(whole, smallest));
}

/** Whether a box is completely on a stage of this size. */
export function isWithin(stage, { x, y, zoom }, box) {
  const [left, top] = [x + box.x * zoom, y + box.y * zoom];
  return left >= 0 && top >= 0 && left + box.width * zoom <= stage.width && top + box.height * zoom <= stage.height;
}

/** The shift for content from `start` to `end`: to the middle of the room, or so that `first` is visible. */
function along(room, start, end, first) {
  if (end - start <= room) return (room - start - end) / 2;
  return Math.max(room - end, Math.min(-start, room / 2 - first));
}
