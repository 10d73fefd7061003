// A node type dragged from the palette onto the canvas, or onto an output to connect it; or a file.

import { add, addAfterSelected, placeAfter } from "./actions.js";
import { NODE_WIDTH } from "./flow.js";
import { GRID } from "./model.js";

export const MIME = "application/x-sylva-node";
export const dragging = { type: null }; // a browser reveals the dragged data only when it is dropped
const REACH = 22;
const LARGEST = 5_000_000; // as in protocol.py

/** The output whose handle is nearest to the pointer, as "node.port", or null. */
export function outputNear(stage, { clientX, clientY }) {
  let [best, nearest] = [null, REACH];
  for (const handle of stage.querySelectorAll(".react-flow__handle.source")) {
    const box = handle.getBoundingClientRect();
    const distance = Math.hypot(clientX - (box.left + box.right) / 2, clientY - (box.top + box.bottom) / 2);
    if (distance <= nearest) [best, nearest] = [`${handle.dataset.nodeid}.${handle.dataset.handleid}`, distance];
  }
  return best;
}

/** Handlers for the element that types and files are dropped on. */
export function dropHandlers(store, stage, toFlow, focus) {
  const mark = (port) => port !== store.view.dropPort && store.set({ dropPort: port });
  return {
    onDragOver: (event) => {
      const { types } = event.dataTransfer;
      if (store.view.readOnly || !(types.includes(MIME) || types.includes("Files"))) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      if (types.includes(MIME)) mark(outputNear(stage.current, event));
    },
    onDragLeave: (event) => stage.current.contains(event.relatedTarget) || mark(null),
    onDrop: (event) => {
      const type = event.dataTransfer.getData(MIME) || dragging.type;
      const files = [...event.dataTransfer.files];
      mark(null);
      if (store.view.readOnly || !(files.length || store.view.types[type])) return;
      event.preventDefault();
      if (files.length) return importFile(store, files);
      const from = outputNear(stage.current, event);
      const { x, y } = toFlow({ x: event.clientX, y: event.clientY });
      if (from) add(store, type, placeAfter(store, from.slice(0, from.indexOf("."))), from);
      else addAfterSelected(store, type, { x: x - NODE_WIDTH / 2, y: y - 2 * GRID }, true);
      focus();
    },
  };
}

/** Send a dropped pipeline file to Python, or say what can be dropped. */
export async function importFile(store, [file, ...others]) {
  if (others.length) return store.notify("Drop one file at a time.", "warning");
  if (!/\.json$/i.test(file.name)) {
    const tables = "Upload a table on the Data page, or in the settings of a Load data node.";
    return store.notify(`${file.name} cannot be dropped here. Drop a pipeline as a JSON file. ${tables}`, "warning");
  }
  if (file.size > LARGEST) {
    const size = (file.size / 1e6).toFixed(1);
    return store.notify(`${file.name} is too large for a pipeline: ${size} MB, and 5 MB is the most.`, "warning");
  }
  try {
    store.trigger("import", { name: file.name, text: await file.text() });
  } catch {
    store.notify(`${file.name} could not be read.`, "warning");
  }
}
