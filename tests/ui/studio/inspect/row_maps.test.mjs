// The rules of the row maps that need no browser. Run by test_row_maps.py, or by `node --test`.

import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";

// The studio sends the file as text, so it has no package that would name its kind.
const source = fs.readFileSync(new URL("../../../../ui/studio/assets/row_maps.js", import.meta.url));
const { View, arranged, columnsFor, decoded, inBox, inLasso, styled } = await import(`data:text/javascript;base64,${source.toString("base64")}`);

const view = () => new View({ draws: 0, draw() { this.draws += 1; } });
const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);
const text = (numbers) => Buffer.from(numbers.buffer).toString("base64");

// Where a share of the map is on screen, as the panel places it.
const onScreen = ({ scale, x, y }, u, v) => [(u - x) * scale + 0.5, (v - y) * scale + 0.5];

test("zoom keeps the place under the mouse where it is", () => {
  const seen = view();
  seen.zoom(2, 0.25, 0.75);
  const [u, v] = onScreen(seen, 0.25, 0.75);
  near(u, 0.25);
  near(v, 0.75);
  assert.equal(seen.scale, 2);
  seen.zoom(3, 0.1, 0.1);
  seen.zoom(1 / 3, 0.1, 0.1);
  near(onScreen(seen, 0.25, 0.75)[0], 0.25);
  assert.equal(seen.maps.draws, 3, "each change is drawn");
});

test("zoom has a limit at both ends, and a view never leaves the map", () => {
  const seen = view();
  seen.zoom(1000);
  assert.equal(seen.scale, 40);
  seen.move(100, -100);
  assert.ok(seen.x <= 1 - 0.5 / 40 + 1e-9 && seen.y >= 0.5 / 40 - 1e-9);
  seen.zoom(1 / 1000);
  assert.deepEqual([seen.scale, seen.x, seen.y], [1, 0.5, 0.5]);
  seen.move(0.3, 0.3);
  assert.deepEqual([seen.x, seen.y], [0.5, 0.5], "a map that is seen whole cannot be moved");
});

test("a move is as far on screen at every zoom", () => {
  const seen = view();
  seen.zoom(4);
  const before = onScreen(seen, 0.5, 0.5)[0];
  seen.move(0.2, 0);
  near(before - onScreen(seen, 0.5, 0.5)[0], 0.2);
  seen.reset();
  assert.deepEqual([seen.scale, seen.x, seen.y], [1, 0.5, 0.5]);
});

test("a frame holds what is inside, in whichever direction it was drawn", () => {
  for (const path of [[[10, 10], [20, 30]], [[20, 30], [10, 10]], [[10, 30], [20, 10]]]) {
    const holds = inBox(path);
    assert.ok(holds(15, 20) && holds(10, 10) && !holds(9, 20) && !holds(15, 31));
  }
});

test("a lasso follows its line, also around a hollow", () => {
  const holds = inLasso([[0, 0], [30, 0], [30, 30], [20, 30], [20, 10], [10, 10], [10, 30], [0, 30]]);
  assert.ok(holds(5, 20) && holds(25, 20) && holds(15, 5));
  assert.ok(!holds(15, 20), "the hollow of the U is outside");
  assert.ok(!holds(40, 5));
});

test("arrays arrive as Python sent them, and dropped layers have none", () => {
  const layer = { xy: text(new Uint16Array([0, 65535])), predicted: text(new Int16Array([1])), margin: text(new Float32Array([NaN])) };
  const { rows, truth, groups } = decoded({
    rows: text(new Int32Array([70000])), truth: text(new Int16Array([-1])),
    groups: [{ index: text(new Int32Array([0])), layers: [layer, { number: 2, dropped: true }] }],
  });
  assert.deepEqual([...rows, ...truth, ...groups[0].index], [70000, -1, 0]);
  assert.equal(groups[0].layers.length, 1);
  assert.deepEqual([...groups[0].layers[0].xy], [0, 65535]);
  assert.ok(Number.isNaN(groups[0].layers[0].margin[0]));
});

// Three rows: the second group has rows 2 and 0 of the list, in this order.
const panel = { index: [2, 0, 1], points: { predicted: [1, 0, 0], margin: [0.5, -0.5, NaN] } };
const truth = [1, -1, 1];

test("rows have the colour of their class by the row they stand for; an unknown class that of its prediction", () => {
  const { colours } = styled({ by: "class", colours: ["a", "b"] }, truth, panel);
  assert.deepEqual(colours, ["b", "b", "a"]);
});

test("mistakes are drawn last, so that they are on top", () => {
  const { colours, order } = styled({ by: "mistake", colours: ["a", "b"] }, truth, panel);
  assert.equal(colours[1], "#D55E00");
  assert.equal(colours[0], colours[2], "a row of an unknown class is not a mistake");
  assert.equal(order.at(-1), 1);
});

test("after the colours come other shapes", () => {
  const many = { index: [0, 1, 2], points: { predicted: [0, 0, 0], margin: [0, 0, 0] } };
  const { colours, shapes } = styled({ by: "class", colours: ["a", "b"] }, [0, 2, 4], many);
  assert.deepEqual(colours, ["a", "a", "a"]);
  assert.equal(new Set(shapes).size, 3);
});

test("few maps are in one line, many in lines of about equal length", () => {
  assert.deepEqual([1, 2, 5, 6, 7, 8].map(columnsFor), [1, 2, 5, 3, 4, 4]);
});

test("two forests are side by side while their maps fit, else above each other with the layers in columns", () => {
  assert.deepEqual(arranged([2, 1]), { columns: 2, stacked: false });
  assert.deepEqual(arranged([5, 3]), { columns: 5, stacked: true });
  assert.deepEqual(arranged([5]), { columns: 5, stacked: false });
});
