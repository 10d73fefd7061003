// The messages of the canvas. At the pointer: why a connection is refused, or what it replaces. At a
// badge: the problems of a node. Below: notices. In the middle: a hint while the canvas is empty.

import { useConnection, useStore as useFlow } from "@xyflow/react";
import { useEffect } from "react";
import { useStore, useView } from "./context.js";
import { objection, replacing } from "./rules.js";

const NOTICE_SECONDS = 8;

/** Why the edge under the pointer is refused, or which edge it will replace. */
export function ConnectionHint() {
  const connection = useConnection();
  const doc = useView((view) => view.pulled?.doc ?? view.doc);
  const rules = useView((view) => view.rules);
  const titles = useView((view) => view.titles);
  const width = useFlow((state) => state.width);
  const height = useFlow((state) => state.height);
  const { inProgress, fromHandle, toHandle, isValid, pointer } = connection;
  if (!inProgress || !toHandle) return null;
  if (toHandle.nodeId === fromHandle.nodeId && toHandle.id === fromHandle.id && toHandle.type === fromHandle.type) return null;
  const text = hint(doc, rules, titles, fromHandle, toHandle, isValid);
  if (!text) return null;
  return (
    <div className={`overlay hint ${isValid ? "replacing" : "refusal"}`} role={isValid ? "status" : "alert"} style={besidePointer(pointer, width, height)}>
      {text}
    </div>
  );
}

const HINT = { width: 280, height: 76 };

/** Right of and below the pointer, or on its other side where the stage ends. */
const besidePointer = ({ x, y }, width, height) => ({
  left: Math.max(8, Math.min(x + 16, width - HINT.width - 8)),
  ...(y + 18 + HINT.height < height ? { top: y + 18 } : { bottom: height - y + 14 }),
});

function hint(doc, rules, titles, fromHandle, toHandle, isValid) {
  const end = (handle) => `${handle.nodeId}.${handle.id}`;
  if (fromHandle.type === toHandle.type && fromHandle.nodeId !== toHandle.nodeId) {
    const side = fromHandle.type === "source" ? "outputs" : "inputs";
    return `Both are ${side}. Connect an output (right side) to an input (left side).`;
  }
  const [source, target] = fromHandle.type === "source" ? [fromHandle, toHandle] : [toHandle, fromHandle];
  return (isValid ? replacing : objection)(doc, rules, { from: end(source), to: end(target) }, titles);
}

export function Notice() {
  const store = useStore();
  const notice = useView((view) => view.notice);
  useEffect(() => {
    const timer = notice && setTimeout(() => store.set({ notice: null }), NOTICE_SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [notice, store]);
  if (!notice) return null;
  return (
    <div className={`notice ${notice.kind}`} role="status">
      <span>{notice.text}</span>
      <button type="button" aria-label="Dismiss" onClick={() => store.set({ notice: null })}>
        ×
      </button>
    </div>
  );
}

const TIP = { width: 272, gap: 8, most: 8 };

/** The position of an element's tooltip: above or below it, where there is more room. */
export function tipAt(element, messages) {
  const stage = element.closest(".stage").getBoundingClientRect();
  const box = element.getBoundingClientRect();
  const middle = (box.left + box.right) / 2 - stage.left;
  const left = Math.max(8, Math.min(middle - TIP.width / 2, stage.width - TIP.width - 8));
  const above = box.top - stage.top > stage.height / 2;
  const edge = above ? { bottom: stage.bottom - box.top + TIP.gap } : { top: box.bottom - stage.top + TIP.gap };
  return { style: { left, width: TIP.width, ...edge }, messages };
}

export function Tip() {
  const tip = useView((view) => view.tip);
  if (!tip) return null;
  return (
    <div className="overlay tip" role="tooltip" style={tip.style}>
      {tip.messages.slice(0, TIP.most).map((message, at) => (
        <span key={at}>{message}</span>
      ))}
      {tip.messages.length > TIP.most && <span className="faint">and {tip.messages.length - TIP.most} more</span>}
    </div>
  );
}

export function EmptyHint() {
  const empty = useView((view) => view.nodes.length === 0);
  if (!empty) return null;
  return (
    <div className="empty">
      <strong>Build your pipeline here</strong>
      <span>
        Drag a node from the left, double-click, or press <kbd>/</kbd> to search.
      </span>
    </div>
  );
}
