// The function that Streamlit calls with the data of each rerun; what it returns ends the component.

import "@xyflow/react/dist/base.css";
import "./styles/theme.css";
import "./styles/frame.css";
import "./styles/node.css";
import "./styles/flow.css";

import { ReactFlowProvider } from "@xyflow/react";
import { createRoot } from "react-dom/client";
import { Canvas } from "./Canvas.jsx";
import { StoreProvider, useView } from "./context.js";
import { CanvasStore } from "./store.js";

const mounted = new WeakMap();

/** Each pipeline gets its own React Flow, with its own viewport. */
function Editor() {
  const pipeline = useView((view) => view.pipeline);
  return (
    <ReactFlowProvider key={pipeline}>
      <Canvas />
    </ReactFlowProvider>
  );
}

/** Streamlit fades what a rerun has not reached yet. The canvas is in use then, and a fade would draw all of it again. */
function keepClear(parentElement) {
  const home = (parentElement.host ?? parentElement).closest(".stElementContainer");
  home?.style.setProperty("opacity", "1", "important");
}

function mount(parentElement) {
  keepClear(parentElement);
  const element = parentElement.querySelector(".sylva-canvas-root");
  const store = new CanvasStore();
  const root = createRoot(element);
  window.addEventListener("pagehide", store.dispose);
  // Streamlit also calls this for a rerun that a newer one has overtaken. The canvas is still in
  // the page then, and the user would lose focus, menus and drags.
  const unmount = () => {
    if (parentElement.isConnected) return;
    window.removeEventListener("pagehide", store.dispose);
    store.dispose();
    root.unmount();
    mounted.delete(parentElement);
  };
  return { store, root, unmount, drawn: false };
}

export default function ({ parentElement, data, setStateValue, setTriggerValue }) {
  if (!mounted.has(parentElement)) mounted.set(parentElement, mount(parentElement));
  const canvas = mounted.get(parentElement);
  canvas.store.receive(data, setStateValue, setTriggerValue);
  if (!canvas.drawn) {
    canvas.drawn = true;
    canvas.root.render(
      <StoreProvider value={canvas.store}>
        <Editor />
      </StoreProvider>,
    );
  }
  return canvas.unmount;
}
