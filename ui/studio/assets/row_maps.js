// Maps of rows, one a layer, drawn side by side and linked: rows marked in one are marked in all.
// Everything here happens in the browser; Python hears of the marks when the mouse is let go.
// A group is the maps of one forest. Its points have positions in the group; `index` gives the row of each,
// which is the same for both forests if they were inspected on the same rows. Maps of a group zoom together.

const SHAPES = ["circle", "square", "triangle", "diamond"];
const GREY = "#8C8C8C", ORANGE = "#D55E00";
const PAD = 10, DOT = 2.4, NEAR = 9, DRAGGED = 4, MOST_NAMED = 40, MOST_PICTURES = 30, MOST_ZOOM = 40;
const TOOLS = [
  ["box", "Box", "Drag a frame around rows to mark them"],
  ["lasso", "Lasso", "Draw a line around rows to mark them"],
  ["move", "Move", "Drag to move zoomed maps, or use the arrow keys; the wheel zooms"],
];

const shown = new WeakMap(); // what each place on the page shows, from one call to the next

export default function (component) {
  const { parentElement, data, setStateValue } = component;
  const root = parentElement.querySelector(".row-maps");
  let view = shown.get(root);
  if (!view) shown.set(root, (view = new Maps(root)));
  view.take(data, (marked) => setStateValue("marked", marked));
  return () => { if (!root.isConnected) { view.leave(); shown.delete(root); } };
}

class Maps {
  constructor(root) {
    this.root = root;
    this.marked = new Set();
    this.tool = "box";
    this.hovered = -1;
    this.asked = 0;
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(root);
    this.onKey = (event) => { if (event.key === "Escape" && this.marked.size) this.mark([]); };
    root.addEventListener("keydown", this.onKey);
  }

  leave() {
    this.resized.disconnect();
    cancelAnimationFrame(this.asked);
  }

  take(data, tell) {
    this.tell = tell;
    const anew = data.id !== this.data?.id;
    const recoloured = anew || data.by !== this.data.by;
    if (anew) this.table = decoded(data);
    if (anew || data.epoch !== this.data.epoch) this.marked = new Set(data.marked);
    if (anew || data.images?.src !== this.data.images?.src) this.pictures = loaded(data.images, () => this.draw());
    this.data = data;
    if (anew) this.build();
    if (recoloured) for (const panel of this.panels) panel.style = styled(data, this.table.truth, panel);
    if (recoloured) this.describe();
    this.draw();
  }

  // What it is made of

  build() {
    this.tools = make("div", "tools");
    this.buttons = {};
    for (const [tool, name, why] of TOOLS) {
      this.buttons[tool] = button(name, why, () => { this.tool = tool; this.draw(); });
      this.tools.append(this.buttons[tool]);
    }
    this.clear = button("Clear", "Unmark all rows (Esc)", () => this.mark([]));
    this.count = make("span", "count");
    this.reset = button("Reset view", "Show all rows again (0)", () => this.views.forEach((view) => view.reset()));
    this.tools.append(
      this.clear, this.count, make("span", "space"),
      named(button("+", "Zoom in (+)", () => this.views.forEach((view) => view.zoom(1.5))), "Zoom in"),
      named(button("−", "Zoom out (−)", () => this.views.forEach((view) => view.zoom(1 / 1.5))), "Zoom out"),
      this.reset,
      button("PNG", "Save the maps as a picture", () => savePng(this)),
      button("SVG", "Save the maps as a drawing", () => saveSvg(this)));
    this.legend = make("div", "legend");
    this.views = this.table.groups.map(() => new View(this));
    this.panels = [];
    const { columns, stacked } = arranged(this.data.groups.map((group) => group.layers.length));
    const groups = make("div", stacked ? "groups stacked" : "groups");
    groups.style.setProperty("--columns", columns);
    groups.append(...this.data.groups.map((group, at) => this.group(group, at)));
    this.chosen = make("div", "chosen");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.tipText = make("span", "");
    this.tipPicture = make("canvas", "picture");
    this.tip.append(this.tipPicture, this.tipText);
    this.root.replaceChildren(this.tools, this.legend, groups, this.chosen, this.tip);
  }

  group(group, at) {
    const box = make("section", "group"), grid = make("div", "grid");
    if (this.data.groups.length > 1) {
      const title = make("div", "group-title");
      title.textContent = group.title;
      box.append(title);
    }
    group.layers.forEach((layer, number) => {
      if (layer.dropped) return grid.append(droppedBox(layer));
      const panel = new Panel(this, layer, this.table.groups[at], number, this.views[at]);
      // In a file the maps of both forests are together.
      panel.heading = this.data.groups.length > 1 ? `${layer.title} · ${shortened(group.title, 36)}` : layer.title;
      this.panels.push(panel);
      grid.append(panel.box);
    });
    box.append(grid);
    return box;
  }

  describe() {
    const { by, classes } = this.data;
    const entries = by === "mistake" ? [["right", GREY, "circle"], ["wrong", ORANGE, "circle"]]
      : by === "margin" ? [["margin −1: certainly wrong", marginColour(-1), "circle"], ["0", marginColour(0), "circle"], ["1: certainly right", marginColour(1), "circle"]]
      : classes.slice(0, MOST_NAMED).map((name, code) => [name, ...classStyle(this.data, code)]);
    this.legend.replaceChildren(...entries.map(([name, colour, shape], code) => this.entry(name, colour, shape, code)));
    if (by === "class" && classes.length > MOST_NAMED) this.legend.append(`and ${classes.length - MOST_NAMED} more`);
  }

  entry(name, colour, shape, code) {
    const { by } = this.data;
    const made = by === "margin" ? make("span", "entry") : button("", "Mark these rows", () => this.markAll(by, code));
    made.classList.add("entry");
    const sign = make("canvas", "sign");
    sign.width = sign.height = 20;
    paint(sign.getContext("2d"), shape, 10, 10, 6, colour);
    made.append(sign, shortened(name, 30));
    return made;
  }

  markAll(by, code) {
    const { truth, groups } = this.table, found = new Set();
    for (const { index, layers } of groups) {
      const { predicted } = layers[layers.length - 1];
      index.forEach((row, at) => {
        const wrong = truth[row] >= 0 && predicted[at] !== truth[row];
        if (by === "class" ? truth[row] === code : truth[row] >= 0 && wrong === (code === 1)) found.add(row);
      });
    }
    this.mark(found);
  }

  // What the user does

  mark(rows) {
    this.marked = new Set(rows);
    this.draw();
    this.tell([...this.marked].sort((a, b) => a - b));
  }

  // `point` is a position in the panel's group, -1 for none.
  hover(point, panel, event) {
    const row = point < 0 ? -1 : panel.index[point];
    if (row !== this.hovered) { this.hovered = row; this.draw(); }
    this.tip.hidden = row < 0;
    if (row < 0) return;
    const { truth, rows } = this.table, { classes } = this.data, { predicted, margin } = panel.points;
    const parts = [`row ${rows[row].toLocaleString("en")}`];
    if (truth[row] >= 0) parts.push(`true class ${classes[truth[row]]}`);
    parts.push(`${panel.layer.number ? "predicted" : "predicted in the end"} ${classes[predicted[point]]}`);
    if (!Number.isNaN(margin[point])) parts.push(`margin ${margin[point].toFixed(2)}`);
    this.tipText.textContent = parts.join(" · ").slice(0, 300);
    this.tipPicture.hidden = !drawPicture(this.tipPicture, this.pictures, row, 72);
    const at = this.root.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, at.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 16}px`;
  }

  // What is seen

  draw() {
    cancelAnimationFrame(this.asked);
    this.asked = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    for (const [tool, made] of Object.entries(this.buttons)) made.setAttribute("aria-pressed", tool === this.tool);
    this.clear.disabled = !this.marked.size;
    this.reset.disabled = this.views.every((view) => view.scale === 1);
    this.root.dataset.zoom = Math.max(...this.views.map((view) => view.scale)).toFixed(2);
    const rows = this.table.rows.length.toLocaleString("en"), count = this.marked.size.toLocaleString("en");
    this.count.textContent = this.marked.size ? `${count} of ${rows} rows marked` : "Drag in any map to mark rows; Shift adds";
    this.root.dataset.marked = this.marked.size;
    this.root.dataset.by = this.data.by;
    this.root.dataset.pictures = this.pictures?.ready ? "shown" : "none";
    for (const panel of this.panels) panel.draw();
    this.showChosen();
  }

  // The first marked rows as pictures, if rows are images.
  showChosen() {
    const rows = this.pictures?.ready ? [...this.marked].sort((a, b) => a - b).slice(0, MOST_PICTURES) : [];
    const key = rows.join(" ");
    if (key === this.chosenRows) return;
    this.chosenRows = key;
    this.chosen.replaceChildren(...rows.map((row) => {
      const picture = make("canvas", "picture"), { truth, rows: numbers } = this.table;
      picture.hidden = !drawPicture(picture, this.pictures, row, 40);
      picture.title = `row ${numbers[row].toLocaleString("en")}${truth[row] >= 0 ? `, class ${this.data.classes[truth[row]]}` : ""}`;
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", picture.title);
      return picture;
    }));
  }
}

// Which part of the maps is seen: the middle in shares of the whole, and how much it is enlarged.

export class View {
  constructor(maps) { Object.assign(this, { maps, scale: 1, x: 0.5, y: 0.5 }); }

  reset() { this.set(1, 0.5, 0.5); }

  set(scale, x, y) {
    this.scale = Math.min(MOST_ZOOM, Math.max(1, scale));
    if (this.scale < 1.01) this.scale = 1;
    const half = 0.5 / this.scale, within = (at) => Math.min(1 - half, Math.max(half, at));
    this.x = within(x);
    this.y = within(y);
    this.maps.draw();
  }

  // (u, v): the place that stays where it is, in shares of the map on screen.
  zoom(factor, u = 0.5, v = 0.5) {
    const scale = Math.min(MOST_ZOOM, Math.max(1, this.scale * factor));
    const shift = 1 / this.scale - 1 / scale;
    this.set(scale, this.x + (u - 0.5) * shift, this.y + (v - 0.5) * shift);
  }

  move(dx, dy) { this.set(this.scale, this.x + dx / this.scale, this.y + dy / this.scale); }
}

// A layer that was grown and dropped has no map: it predicts nothing.

function droppedBox(layer) {
  const box = make("figure", "panel dropped"), title = make("div", "title"), blank = make("div", "blank");
  title.textContent = layer.title;
  blank.textContent = "dropped";
  const caption = make("figcaption", "caption");
  caption.textContent = layer.caption;
  box.append(title, blank, caption);
  return box;
}

class Panel {
  constructor(maps, layer, group, at, view) {
    Object.assign(this, { maps, layer, view, index: group.index, points: group.layers[at], path: null, from: null });
    this.box = make("figure", "panel");
    const title = make("div", "title"), caption = make("figcaption", "caption"), colour = make("span", "colour");
    colour.style.background = layer.colour;
    title.append(colour, layer.title);
    caption.textContent = layer.caption;
    this.canvas = make("canvas", "map");
    this.canvas.dataset.layer = layer.number;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${layer.title}: ${layer.caption}. Plus and minus zoom, arrow keys move, 0 resets.`);
    this.box.append(title, this.canvas, caption);
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.end(event));
    this.canvas.addEventListener("pointercancel", () => { this.path = this.from = null; maps.draw(); });
    this.canvas.addEventListener("pointerleave", (event) => { if (!this.path) maps.hover(-1, this, event); });
    this.canvas.addEventListener("dblclick", () => maps.mark([]));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get size() { return this.canvas.clientWidth; }

  get room() { return this.size - 2 * PAD; }

  place(point) {
    const { xy } = this.points, { scale, x, y } = this.view, { room } = this;
    const u = (xy[2 * point] / 65535 - x) * scale + 0.5, v = (1 - xy[2 * point + 1] / 65535 - y) * scale + 0.5;
    return [PAD + u * room, PAD + v * room];
  }

  isSeen([x, y]) { return x > 0 && y > 0 && x < this.size && y < this.size; }

  wheel(event) {
    // Without a key the wheel scrolls the page, also over a map.
    if (!event.ctrlKey && !event.metaKey && this.maps.tool !== "move") return;
    event.preventDefault();
    const u = (event.offsetX - PAD) / this.room, v = (event.offsetY - PAD) / this.room;
    this.view.zoom(Math.exp(-Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120) / 400), u, v);
  }

  key(event) {
    const step = 0.15, { view } = this;
    const acts = {
      "+": () => view.zoom(1.5), "=": () => view.zoom(1.5), "-": () => view.zoom(1 / 1.5), 0: () => view.reset(),
      ArrowLeft: () => view.move(-step, 0), ArrowRight: () => view.move(step, 0),
      ArrowUp: () => view.move(0, -step), ArrowDown: () => view.move(0, step),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  begin(event) {
    const moves = event.button === 1 || (event.button === 0 && this.maps.tool === "move");
    if (event.button !== 0 && !moves) return;
    this.canvas.setPointerCapture(event.pointerId);
    if (moves) {
      event.preventDefault();
      this.from = [event.offsetX, event.offsetY];
      return;
    }
    this.path = [[event.offsetX, event.offsetY]];
    this.before = event.shiftKey ? [...this.maps.marked] : [];
    this.maps.hover(-1, this, event);
  }

  move(event) {
    const at = [event.offsetX, event.offsetY];
    if (this.from) {
      this.view.move((this.from[0] - at[0]) / this.room, (this.from[1] - at[1]) / this.room);
      this.from = at;
      return;
    }
    if (!this.path) return this.maps.hover(this.nearest(at), this, event);
    if (this.maps.tool === "box") this.path[1] = at;
    else this.path.push(at);
    if (this.isDragged()) this.maps.marked = new Set([...this.before, ...this.inside()]);
    this.maps.draw();
  }

  end(event) {
    this.from = null;
    if (!this.path) return;
    const dragged = this.isDragged(), near = this.nearest([event.offsetX, event.offsetY]);
    const rows = dragged ? [...this.before, ...this.inside()] : near >= 0 ? [...this.before, this.index[near]] : null;
    this.path = null;
    if (rows) this.maps.mark(rows);
    else this.maps.draw();
  }

  isDragged() {
    const [x, y] = this.path[0];
    return this.path.some(([u, v]) => Math.hypot(u - x, v - y) > DRAGGED);
  }

  inside() {
    const holds = this.maps.tool === "box" ? inBox(this.path) : inLasso(this.path), found = [];
    this.index.forEach((row, point) => {
      const at = this.place(point);
      if (this.isSeen(at) && holds(...at)) found.push(row);
    });
    return found;
  }

  nearest([x, y]) {
    let best = -1, least = NEAR;
    for (let point = 0; point < this.index.length; point++) {
      const [u, v] = this.place(point), far = Math.hypot(u - x, v - y);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  draw() {
    const { canvas, size } = this, sharp = window.devicePixelRatio || 1;
    if (!size) return;
    canvas.style.height = `${size}px`;
    if (canvas.width !== Math.round(size * sharp)) canvas.width = canvas.height = Math.round(size * sharp);
    const ink = canvas.getContext("2d");
    ink.setTransform(sharp, 0, 0, sharp, 0, 0);
    ink.clearRect(0, 0, size, size);
    this.paintRows(ink, sharp);
    if (this.path) this.paintPath(ink);
  }

  paintRows(ink, sharp) {
    const { marked, hovered } = this.maps, { style, index } = this, stamps = new Map();
    // Enlarged maps have room for larger dots.
    const dot = (index.length > 2000 ? DOT : DOT * 1.35) * Math.min(1.6, this.view.scale ** 0.25);
    const stamp = (point, radius, alpha) => {
      const at = this.place(point);
      if (!this.isSeen(at)) return;
      const key = `${style.colours[point]} ${style.shapes[point]} ${radius}`;
      if (!stamps.has(key)) stamps.set(key, stamped(style.colours[point], style.shapes[point], radius, sharp));
      const made = stamps.get(key), half = made.width / sharp / 2;
      ink.globalAlpha = alpha;
      ink.drawImage(made, at[0] - half, at[1] - half, 2 * half, 2 * half);
    };
    for (const point of style.order) if (!marked.has(index[point])) stamp(point, dot, marked.size ? 0.1 : 0.75);
    for (const point of style.order) if (marked.has(index[point])) stamp(point, dot * 1.25, 1);
    ink.globalAlpha = 1;
    const point = hovered < 0 ? -1 : index.indexOf(hovered);
    if (point >= 0) {
      const [x, y] = this.place(point);
      ink.strokeStyle = getComputedStyle(this.canvas).color;
      ink.lineWidth = 2;
      ink.beginPath();
      ink.arc(x, y, 7, 0, 2 * Math.PI);
      ink.stroke();
    }
  }

  paintPath(ink) {
    ink.strokeStyle = ink.fillStyle = getComputedStyle(this.canvas).color;
    ink.lineWidth = 1;
    ink.setLineDash([4, 3]);
    ink.beginPath();
    const [first, ...rest] = this.path;
    if (this.maps.tool === "box" && rest.length) ink.rect(first[0], first[1], rest[0][0] - first[0], rest[0][1] - first[1]);
    else { ink.moveTo(...first); rest.forEach((at) => ink.lineTo(...at)); ink.closePath(); }
    ink.stroke();
    ink.globalAlpha = 0.06;
    ink.fill();
    ink.globalAlpha = 1;
    ink.setLineDash([]);
  }
}

// How many maps a group has side by side, and whether groups are one above the other: with many maps, so that
// the maps of one layer are in one column.

export function arranged(panels) {
  const most = Math.max(...panels);
  if (panels.length > 1 && most <= 2) return { columns: most, stacked: false };
  return { columns: columnsFor(most), stacked: panels.length > 1 };
}

// Few maps are in one line, many in lines of about equal length.

export function columnsFor(panels) {
  if (panels <= 5) return panels;
  return panels <= 6 ? 3 : 4;
}

// Numbers as Python sent them

export function decoded(data) {
  return {
    rows: array(data.rows, Int32Array),
    truth: array(data.truth, Int16Array),
    groups: data.groups.map((group) => ({
      index: array(group.index, Int32Array),
      layers: group.layers.filter((layer) => !layer.dropped).map((layer) => ({
        xy: array(layer.xy, Uint16Array), predicted: array(layer.predicted, Int16Array), margin: array(layer.margin, Float32Array),
      })),
    })),
  };
}

function array(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// Colours and shapes

export function styled(data, truth, { index, points }) {
  const { predicted, margin } = points, count = index.length;
  const colours = new Array(count), shapes = new Array(count).fill("circle"), order = [...Array(count).keys()];
  const known = (at) => truth[index[at]] >= 0, wrong = (at) => known(at) && predicted[at] !== truth[index[at]];
  for (let at = 0; at < count; at++) {
    if (data.by === "mistake") colours[at] = wrong(at) ? ORANGE : GREY;
    else if (data.by === "margin") colours[at] = Number.isNaN(margin[at]) ? GREY : marginColour(margin[at]);
    else [colours[at], shapes[at]] = classStyle(data, known(at) ? truth[index[at]] : predicted[at]);
  }
  if (data.by === "mistake") order.sort((a, b) => wrong(a) - wrong(b)); // mistakes on top
  if (data.by === "margin") order.sort((a, b) => (margin[b] || 0) - (margin[a] || 0));
  return { colours, shapes, order };
}

function classStyle(data, code) {
  const { colours } = data;
  return [colours[code % colours.length], SHAPES[Math.floor(code / colours.length) % SHAPES.length]];
}

function marginColour(margin) {
  const ends = margin < 0 ? [[140, 140, 140], [213, 94, 0]] : [[140, 140, 140], [0, 114, 178]];
  const share = Math.min(1, Math.ceil(Math.abs(margin) * 8) / 8); // few steps: few stamps
  return `rgb(${ends[0].map((from, at) => Math.round(from + (ends[1][at] - from) * share)).join(",")})`;
}

function stamped(colour, shape, radius, sharp) {
  const made = document.createElement("canvas"), side = Math.ceil((radius + 2) * 2 * sharp);
  made.width = made.height = side;
  paint(made.getContext("2d"), shape, side / 2, side / 2, radius * sharp, colour);
  return made;
}

function paint(ink, shape, x, y, radius, colour) {
  ink.fillStyle = colour;
  ink.beginPath();
  if (shape === "circle") ink.arc(x, y, radius, 0, 2 * Math.PI);
  else corners(shape, x, y, radius).forEach(([u, v], at) => (at ? ink.lineTo(u, v) : ink.moveTo(u, v)));
  ink.closePath();
  ink.fill();
}

function corners(shape, x, y, r) {
  if (shape === "square") return [[x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r]].map(([u, v]) => [x + (u - x) * 0.88, y + (v - y) * 0.88]);
  if (shape === "triangle") return [[x, y - 1.2 * r], [x + 1.1 * r, y + 0.9 * r], [x - 1.1 * r, y + 0.9 * r]];
  return [[x, y - 1.25 * r], [x + 1.25 * r, y], [x, y + 1.25 * r], [x - 1.25 * r, y]];
}

// What a path holds

export function inBox([first, last]) {
  const [left, right] = [first[0], last[0]].sort((a, b) => a - b), [top, low] = [first[1], last[1]].sort((a, b) => a - b);
  return (x, y) => left <= x && x <= right && top <= y && y <= low;
}

export function inLasso(path) {
  return (x, y) => {
    let inside = false;
    for (let at = 0, before = path.length - 1; at < path.length; before = at++) {
      const [u, v] = path[at], [s, t] = path[before];
      if (v > y !== t > y && x < ((s - u) * (y - v)) / (t - v) + u) inside = !inside;
    }
    return inside;
  };
}

// Rows that are images: all of them are on one sheet

function loaded(images, then) {
  if (!images) return null;
  const sheet = new Image(), pictures = { ...images, sheet, ready: false };
  sheet.onload = () => { pictures.ready = true; then(); };
  sheet.src = images.src;
  return pictures;
}

function drawPicture(canvas, pictures, row, height) {
  if (!pictures?.ready || row >= pictures.count) return false;
  const x = (row % pictures.across) * pictures.width, y = Math.floor(row / pictures.across) * pictures.height;
  canvas.width = pictures.width;
  canvas.height = pictures.height;
  canvas.style.height = `${height}px`;
  canvas.style.width = `${(height * pictures.width) / pictures.height}px`;
  canvas.getContext("2d").drawImage(pictures.sheet, x, y, pictures.width, pictures.height, 0, 0, pictures.width, pictures.height);
  return true;
}

// Files

function savePng(maps) {
  const side = 480, columns = columnsFor(maps.panels.length), sharp = 2, head = 56;
  const sheet = document.createElement("canvas");
  sheet.width = columns * side * sharp;
  sheet.height = Math.ceil(maps.panels.length / columns) * (side + head) * sharp;
  const ink = sheet.getContext("2d"), looks = getComputedStyle(maps.root);
  ink.fillStyle = looks.getPropertyValue("--st-background-color") || "white";
  ink.fillRect(0, 0, sheet.width, sheet.height);
  ink.textAlign = "center";
  maps.panels.forEach((panel, at) => {
    const x = (at % columns) * side * sharp, y = Math.floor(at / columns) * (side + head) * sharp;
    ink.drawImage(panel.canvas, x, y + 28 * sharp, side * sharp, side * sharp);
    ink.fillStyle = looks.color;
    ink.font = `600 ${15 * sharp}px sans-serif`;
    ink.fillText(panel.heading, x + (side * sharp) / 2, y + 20 * sharp);
    ink.font = `${12 * sharp}px sans-serif`;
    ink.fillText(panel.layer.caption, x + (side * sharp) / 2, y + (side + head - 12) * sharp);
  });
  sheet.toBlob((blob) => save(blob, `${maps.data.file}.png`));
}

function saveSvg(maps) {
  const side = maps.panels[0].size, columns = columnsFor(maps.panels.length), head = 56, parts = [];
  const height = Math.ceil(maps.panels.length / columns) * (side + head);
  const looks = getComputedStyle(maps.root), ground = looks.getPropertyValue("--st-background-color") || "white";
  parts.push(`<rect width="100%" height="100%" fill="${ground}"/>`);
  maps.panels.forEach((panel, at) => {
    const text = (y, size, words) => `<text x="${side / 2}" y="${y}" font-size="${size}" text-anchor="middle" fill="${looks.color}">${escaped(words)}</text>`;
    parts.push(`<g transform="translate(${(at % columns) * side} ${Math.floor(at / columns) * (side + head)})" font-family="sans-serif">`);
    parts.push(text(20, 15, panel.heading), text(side + head - 12, 12, panel.layer.caption));
    const { style } = panel;
    for (const point of style.order) {
      const [x, y] = panel.place(point), faded = maps.marked.size && !maps.marked.has(panel.index[point]);
      if (panel.isSeen([x, y])) parts.push(vector(style.shapes[point], x, y + 28, DOT, style.colours[point], faded ? 0.1 : 0.8));
    }
    parts.push("</g>");
  });
  const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${columns * side}" height="${height}">${parts.join("\n")}</svg>`;
  save(new Blob([text], { type: "image/svg+xml" }), `${maps.data.file}.svg`);
}

function vector(shape, x, y, radius, colour, opacity) {
  const looks = `fill="${colour}" fill-opacity="${opacity}"`, short = (value) => value.toFixed(1);
  if (shape === "circle") return `<circle cx="${short(x)}" cy="${short(y)}" r="${radius}" ${looks}/>`;
  return `<polygon points="${corners(shape, x, y, radius).map((at) => at.map(short).join(",")).join(" ")}" ${looks}/>`;
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
}

// Elements

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function make(tag, name) {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}

function named(made, name) {
  made.setAttribute("aria-label", name);
  return made;
}

function button(name, why, act) {
  const made = make("button", "");
  Object.assign(made, { type: "button", textContent: name, title: why });
  made.addEventListener("click", act);
  return made;
}
