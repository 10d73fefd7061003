// Keys while the canvas has the focus. Plain letters never reach Streamlit, which has its own `c`
// (clear cache) and `r` (rerun).

import { copySelected, duplicateSelected, nudge, pasteCopy, removeSelected, selectAll, selectedNodes, toggleBypass } from "./actions.js";
import { GRID } from "./model.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const isTyping = (element) => ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName) || element.isContentEditable;

/** A keydown handler. `ui` has the actions that need the screen: search, connect, fit, note, rename, group, open, close. */
export const keyHandler = (store, ui) => (event) => {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (plain && event.key.length === 1 && event.key !== " ") event.stopPropagation();
  if (isTyping(event.target) || event.target.closest("[role=menu], [role=dialog]")) return;
  const run = plain ? plainKey(event, store, ui) : chord(event, store, ui);
  if (!run) return;
  event.preventDefault();
  event.stopPropagation();
  run();
};

/** The keys of a canvas that cannot be edited. */
function viewKey(event, store, ui) {
  if (event.key === "Enter") return ui.open(event.target);
  if (event.key === "Escape") return () => store.select([]);
  return event.key === "f" ? ui.fit : null;
}

function plainKey(event, store, ui) {
  if (event.target.closest("button") && event.key === "Enter") return null;
  if (store.view.readOnly) return viewKey(event, store, ui);
  if (event.target.closest(".palette") && event.key !== "/") return null;
  const arrow = ARROWS[event.key];
  if (arrow) {
    const step = GRID * (event.shiftKey ? 5 : 1);
    return store.selected.ids.length ? () => nudge(store, arrow[0] * step, arrow[1] * step) : null;
  }
  switch (event.key) {
    case "Delete":
    case "Backspace":
      return () => {
        removeSelected(store);
        ui.focus();
      };
    case "Escape":
      return () => (store.view.overlay ? ui.close() : store.select([]));
    case "Enter":
      return ui.open(event.target);
    case "/":
      return ui.search;
    case "F2":
      return ui.rename(event.target);
    case "b":
      return selectedNodes(store).length ? () => toggleBypass(store) : null;
    case "e":
      return ui.connect(event.target);
    case "f":
      return ui.fit;
    case "n":
      return ui.note;
    default:
      return null;
  }
}

function chord(event, store, ui) {
  if (event.altKey || store.view.readOnly) return null;
  switch (event.key.toLowerCase()) {
    case "enter":
      return () => store.trigger("run", { node: "", direction: "all" });
    case "z":
      return event.shiftKey ? store.redo : store.undo;
    case "y":
      return store.redo;
    case "c":
      // Selected text is copied as text.
      return String(window.getSelection()) ? null : () => copySelected(store);
    case "x":
      return () => copySelected(store) && removeSelected(store);
    case "v":
      return () => pasteCopy(store);
    case "d":
      return () => duplicateSelected(store);
    case "a":
      return () => selectAll(store);
    case "g":
      return ui.group;
    default:
      return null;
  }
}
