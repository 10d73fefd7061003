// Maps of the same rows, one a layer, drawn side by side and linked: rows marked in one are marked in all.
// Everything here happens in the browser; Python hears of the marks when the mouse is let go.

const SHAPES = ["circle", "square", "triangle", "diamond"];
const GREY = "#8C8C8C", ORANGE = "#D55E00";
const PAD = 10, DOT = 2.4, NEAR = 9, DRAGGED = 4, MOST_NAMED = 40;

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
    if (anew) this.table = decoded(data);
    if (anew || data.epoch !== this.data.epoch) this.marked = new Set(data.marked);
    const recoloured = anew || data.by !== this.data.by;
    this.data = data;
    if (recoloured) this.styles = data.layers.map((_, at) => styled(data, this.table, at));
    if (anew) this.build();
    if (recoloured) this.describe();
    this.draw();
  }

  // What it is made of

  build() {
    this.tools = make("div", "tools");
    this.buttons = {};
    for (const [tool, name, why] of [["box", "Box", "Drag a frame around rows"], ["lasso", "Lasso", "Draw a line around rows"]]) {
      this.buttons[tool] = button(name, why, () => { this.tool = tool; this.draw(); });
      this.tools.append(this.buttons[tool]);
    }
    this.clear = button("Clear", "Unmark all rows (Esc)", () => this.mark([]));
    this.count = make("span", "count");
    const space = make("span", "space");
    this.tools.append(this.clear, this.count, space,
      button("PNG", "Save the maps as a picture", () => savePng(this)),
      button("SVG", "Save the maps as a drawing", () => saveSvg(this)));
    this.legend = make("div", "legend");
    this.grid = make("div", "grid");
    this.grid.style.setProperty("--columns", Math.min(4, this.data.layers.length));
    this.panels = this.data.layers.map((layer, at) => new Panel(this, layer, at));
    this.grid.append(...this.panels.map((panel) => panel.box));
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.root.replaceChildren(this.tools, this.legend, this.grid, this.tip);
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
    made.append(sign, name.length > 30 ? `${name.slice(0, 29)}…` : name);
    return made;
  }

  markAll(by, code) {
    const last = this.table.layers.length - 1, { truth } = this.table, found = [];
    for (let row = 0; row < truth.length; row++) {
      const wrong = truth[row] >= 0 && this.table.layers[last].predicted[row] !== truth[row];
      if (by === "class" ? truth[row] === code : truth[row] >= 0 && wrong === (code === 1)) found.push(row);
    }
    this.mark(found);
  }

  // What the user does

  mark(rows) {
    this.marked = new Set(rows);
    this.draw();
    this.tell([...this.marked].sort((a, b) => a - b));
  }

  hover(row, panel, event) {
    if (row !== this.hovered) { this.hovered = row; this.draw(); }
    this.tip.hidden = row < 0;
    if (row < 0) return;
    const { truth, rows, layers } = this.table, { classes } = this.data, layer = layers[panel.at];
    const parts = [`row ${rows[row].toLocaleString("en")}`];
    if (truth[row] >= 0) parts.push(`true class ${classes[truth[row]]}`);
    parts.push(`predicted ${classes[layer.predicted[row]]}`);
    if (!Number.isNaN(layer.margin[row])) parts.push(`margin ${layer.margin[row].toFixed(2)}`);
    this.tip.textContent = parts.join(" · ").slice(0, 300);
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
    const rows = this.table.rows.length.toLocaleString("en"), count = this.marked.size.toLocaleString("en");
    this.count.textContent = this.marked.size ? `${count} of ${rows} rows marked` : "Drag in any map to mark rows; Shift adds";
    this.root.dataset.marked = this.marked.size;
    this.root.dataset.by = this.data.by;
    for (const panel of this.panels) panel.draw();
  }
}

class Panel {
  constructor(maps, layer, at) {
    Object.assign(this, { maps, at, layer, path: null });
    this.box = make("figure", "panel");
    const title = make("div", "title"), caption = make("figcaption", "caption");
    title.textContent = layer.title;
    caption.textContent = layer.caption;
    this.canvas = make("canvas", "map");
    this.canvas.dataset.layer = layer.number;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${layer.title}: ${layer.caption}`);
    this.box.append(title, this.canvas, caption);
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.end(event));
    this.canvas.addEventListener("pointercancel", () => { this.path = null; maps.draw(); });
    this.canvas.addEventListener("pointerleave", (event) => { if (!this.path) maps.hover(-1, this, event); });
    this.canvas.addEventListener("dblclick", () => maps.mark([]));
  }

  get size() { return this.canvas.clientWidth; }

  place(row) {
    const { xy } = this.maps.table.layers[this.at], room = this.size - 2 * PAD;
    return [PAD + (xy[2 * row] / 65535) * room, PAD + (1 - xy[2 * row + 1] / 65535) * room];
  }

  begin(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.path = [[event.offsetX, event.offsetY]];
    this.before = event.shiftKey ? [...this.maps.marked] : [];
    this.maps.hover(-1, this, event);
  }

  move(event) {
    const at = [event.offsetX, event.offsetY];
    if (!this.path) return this.maps.hover(this.nearest(at), this, event);
    if (this.maps.tool === "box") this.path[1] = at;
    else this.path.push(at);
    if (this.isDragged()) this.maps.marked = new Set([...this.before, ...this.inside()]);
    this.maps.draw();
  }

  end(event) {
    if (!this.path) return;
    const dragged = this.isDragged(), near = this.nearest([event.offsetX, event.offsetY]);
    const rows = dragged ? [...this.before, ...this.inside()] : near >= 0 ? [...this.before, near] : null;
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
    for (let row = 0; row < this.maps.table.rows.length; row++) if (holds(...this.place(row))) found.push(row);
    return found;
  }

  nearest([x, y]) {
    let best = -1, least = NEAR;
    for (let row = 0; row < this.maps.table.rows.length; row++) {
      const [u, v] = this.place(row), far = Math.hypot(u - x, v - y);
      if (far < least) [best, least] = [row, far];
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
    const { marked, styles, hovered, table } = this.maps, style = styles[this.at], stamps = new Map();
    const dot = table.rows.length > 2000 ? DOT : DOT * 1.35;
    const stamp = (row, radius, alpha) => {
      const key = `${style.colours[row]} ${style.shapes[row]} ${radius}`;
      if (!stamps.has(key)) stamps.set(key, stamped(style.colours[row], style.shapes[row], radius, sharp));
      const made = stamps.get(key), [x, y] = this.place(row), half = made.width / sharp / 2;
      ink.globalAlpha = alpha;
      ink.drawImage(made, x - half, y - half, 2 * half, 2 * half);
    };
    for (const row of style.order) if (!marked.has(row)) stamp(row, dot, marked.size ? 0.1 : 0.75);
    for (const row of marked) stamp(row, dot * 1.25, 1);
    ink.globalAlpha = 1;
    if (hovered >= 0) {
      const [x, y] = this.place(hovered);
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

// Numbers as Python sent them

function decoded(data) {
  return {
    rows: array(data.rows, Int32Array),
    truth: array(data.truth, Int16Array),
    layers: data.layers.map((layer) => ({
      xy: array(layer.xy, Uint16Array), predicted: array(layer.predicted, Int16Array), margin: array(layer.margin, Float32Array),
    })),
  };
}

function array(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

// Colours and shapes

function styled(data, table, at) {
  const { truth, layers } = table, { predicted, margin } = layers[at], count = truth.length;
  const colours = new Array(count), shapes = new Array(count).fill("circle"), order = [...Array(count).keys()];
  const wrong = (row) => truth[row] >= 0 && predicted[row] !== truth[row];
  for (let row = 0; row < count; row++) {
    if (data.by === "mistake") colours[row] = wrong(row) ? ORANGE : GREY;
    else if (data.by === "margin") colours[row] = Number.isNaN(margin[row]) ? GREY : marginColour(margin[row]);
    else [colours[row], shapes[row]] = classStyle(data, truth[row] >= 0 ? truth[row] : predicted[row]);
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

function inBox([first, last]) {
  const [left, right] = [first[0], last[0]].sort((a, b) => a - b), [top, low] = [first[1], last[1]].sort((a, b) => a - b);
  return (x, y) => left <= x && x <= right && top <= y && y <= low;
}

function inLasso(path) {
  return (x, y) => {
    let inside = false;
    for (let at = 0, before = path.length - 1; at < path.length; before = at++) {
      const [u, v] = path[at], [s, t] = path[before];
      if (v > y !== t > y && x < ((s - u) * (y - v)) / (t - v) + u) inside = !inside;
    }
    return inside;
  };
}

// Pictures

function savePng(maps) {
  const side = 480, columns = Math.min(4, maps.panels.length), sharp = 2, head = 56;
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
    ink.fillText(panel.layer.title, x + (side * sharp) / 2, y + 20 * sharp);
    ink.font = `${12 * sharp}px sans-serif`;
    ink.fillText(panel.layer.caption, x + (side * sharp) / 2, y + (side + head - 12) * sharp);
  });
  sheet.toBlob((blob) => save(blob, `${maps.data.file}.png`));
}

function saveSvg(maps) {
  const side = maps.panels[0].size, columns = Math.min(4, maps.panels.length), head = 56, parts = [];
  const height = Math.ceil(maps.panels.length / columns) * (side + head);
  const looks = getComputedStyle(maps.root), ground = looks.getPropertyValue("--st-background-color") || "white";
  parts.push(`<rect width="100%" height="100%" fill="${ground}"/>`);
  maps.panels.forEach((panel, at) => {
    const text = (y, size, words) => `<text x="${side / 2}" y="${y}" font-size="${size}" text-anchor="middle" fill="${looks.color}">${escaped(words)}</text>`;
    parts.push(`<g transform="translate(${(at % columns) * side} ${Math.floor(at / columns) * (side + head)})" font-family="sans-serif">`);
    parts.push(text(20, 15, panel.layer.title), text(side + head - 12, 12, panel.layer.caption));
    const style = maps.styles[at];
    for (const row of style.order) {
      const [x, y] = panel.place(row), faded = maps.marked.size && !maps.marked.has(row);
      parts.push(vector(style.shapes[row], x, y + 28, DOT, style.colours[row], faded ? 0.1 : 0.8));
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

function make(tag, name) {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}

function button(name, why, act) {
  const made = make("button", "");
  Object.assign(made, { type: "button", textContent: name, title: why });
  made.addEventListener("click", act);
  return made;
}
