// The buttons of the canvas: edits and view at the top of the palette, zoom at its bottom. On a palette
// that is collapsed they stand below each other.

import { useReactFlow, useStore as useFlow } from "@xyflow/react";
import { removeSelected, tidy } from "./actions.js";
import { useStore, useView } from "./context.js";
import { Icon } from "./icons.jsx";

export function Button({ name, icon, hint, ...rest }) {
  return (
    <button type="button" aria-label={name} title={hint ? `${name} (${hint})` : name} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

export function Toolbar({ fit, onNote }) {
  const store = useStore();
  const canUndo = useView((view) => view.canUndo);
  const canRedo = useView((view) => view.canRedo);
  const empty = useView((view) => view.nodes.length === 0);
  const hasSelection = useView((view) => view.nodes.some((node) => node.selected) || view.edges.some((edge) => edge.selected));
  const layout = () => {
    tidy(store);
    setTimeout(fit, 50);
  };
  return (
    <div className="bar" role="toolbar" aria-label="Canvas">
      <Button name="Undo" icon="undo" hint="Ctrl+Z" disabled={!canUndo} onClick={store.undo} />
      <Button name="Redo" icon="redo" hint="Ctrl+Shift+Z" disabled={!canRedo} onClick={store.redo} />
      <Button name="Fit" icon="fit" hint="F" disabled={empty} onClick={fit} />
      <Button name="Layout" icon="layout" disabled={empty} onClick={layout} />
      <Button name="Note" icon="note" hint="N" onClick={onNote} />
      <Button name="Delete" icon="remove" hint="Del" disabled={!hasSelection} onClick={() => removeSelected(store)} />
    </div>
  );
}

/** Zoom, and what else stands in its row. */
export function Zoom({ children }) {
  const { zoomIn, zoomOut, zoomTo } = useReactFlow();
  const percent = useFlow((state) => Math.round(state.transform[2] * 100));
  return (
    <div className="bar" role="group" aria-label="Zoom">
      <Button name="Zoom out" icon="minus" onClick={() => zoomOut()} />
      <button type="button" className="zoom-level" aria-label="Zoom to 100 %" title="Zoom to 100 %" onClick={() => zoomTo(1)}>
        {percent} %
      </button>
      <Button name="Zoom in" icon="plus" onClick={() => zoomIn()} />
      {children}
    </div>
  );
}
