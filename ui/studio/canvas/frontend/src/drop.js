// A node type dragged from the palette onto the canvas, or onto an output to connect it.

import { add, placeAfter } from "./actions.js";
import { NODE_WIDTH } from "./flow.js";
import { GRID } from "./model.js";
import { MIME, dragging } from "./Palette.jsx";

const REACH = 22;

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

/** Handlers for the element that types are dropped on. */
export function dropHandlers(store, stage, toFlow, focus) {
  const mark = (port) => port !== store.view.dropPort && store.set({ dropPort: port });
  return {
    onDragOver: (event) => {
      if (!event.dataTransfer.types.includes(MIME)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      mark(outputNear(stage.current, event));
    },
    onDragLeave: (event) => stage.current.contains(event.relatedTarget) || mark(null),
    onDrop: (event) => {
      const type = event.dataTransfer.getData(MIME) || dragging.type;
      mark(null);
      if (!store.view.types[type]) return;
      event.preventDefault();
      const from = outputNear(stage.current, event);
      const { x, y } = toFlow({ x: event.clientX, y: event.clientY });
      if (from) add(store, type, placeAfter(store, from.slice(0, from.indexOf("."))), from);
      else add(store, type, { x: x - NODE_WIDTH / 2, y: y - 2 * GRID });
      focus();
    },
  };
}
