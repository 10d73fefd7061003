// The first view of a pipeline, and whether something is in view. A viewport is {x, y, zoom}, a box
// {x, y, width, height} on the canvas.

export const CLEAR = { top: 16, right: 10, bottom: 16, left: 10 }; // between the nodes and the border of the stage
const SMALLEST = 0.85; // all of a pipeline is shown at this zoom or more: text of 12 px has 10 px then
const READABLE = 0.9; // the zoom at the beginning of a pipeline that is larger

const low = (boxes, side) => Math.min(...boxes.map((box) => box[side]));
const high = (boxes, side, size) => Math.max(...boxes.map((box) => box[side] + box[size]));

/** The box around all boxes. */
export function around(boxes) {
  const [x, y] = [low(boxes, "x"), low(boxes, "y")];
  return { x, y, width: high(boxes, "x", "width") - x, height: high(boxes, "y", "height") - y };
}

/** The whole pipeline if its text is readable then, else its beginning. */
export function openingView(boxes, { width, height }) {
  const whole = around(boxes);
  const room = { width: width - CLEAR.left - CLEAR.right, height: height - CLEAR.top - CLEAR.bottom };
  const fitting = Math.min(1, room.width / whole.width, room.height / whole.height);
  const zoom = fitting >= SMALLEST ? fitting : READABLE;
  const first = boxes.reduce((one, other) => (other.x < one.x || (other.x === one.x && other.y < one.y) ? other : one));
  return {
    x: CLEAR.left + along(room.width / zoom, whole.x, whole.x + whole.width, first.x) * zoom,
    y: CLEAR.top + along(room.height / zoom, whole.y, whole.y + whole.height, first.y + first.height / 2) * zoom,
    zoom,
  };
}

/** The shift for content from `start` to `end`: to the middle of the room, or so that `first` is visible. */
function along(room, start, end, first) {
  if (end - start <= room) return (room - start - end) / 2;
  return Math.max(room - end, Math.min(-start, room / 2 - first));
}

/** Whether a box is completely on a stage of this size. */
export function isWithin(stage, { x, y, zoom }, box) {
  const [left, top] = [x + box.x * zoom, y + box.y * zoom];
  return left >= 0 && top >= 0 && left + box.width * zoom <= stage.width && top + box.height * zoom <= stage.height;
}

/** The viewport moved as little as possible, so that the box is on the stage; the same one if it is. */
export function shifted(stage, viewport, box) {
  if (isWithin(stage, viewport, box)) return viewport;
  const { x, y, zoom } = viewport;
  const into = (position, size, before, after, room) => {
    const start = Math.max(before, Math.min(position, room - after - size)); // of a box too large, its beginning
    return size > room - before - after ? before : start;
  };
  const left = into(x + box.x * zoom, box.width * zoom, CLEAR.left, CLEAR.right, stage.width);
  const top = into(y + box.y * zoom, box.height * zoom, CLEAR.top, CLEAR.bottom, stage.height);
  return { x: left - box.x * zoom, y: top - box.y * zoom, zoom };
}
