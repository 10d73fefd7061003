// The title of a node or group, which is changed in place: double-click, F2 or the menu. Enter saves, Escape cancels.

import { useEffect, useRef, useState } from "react";
import { rename } from "./actions.js";
import { useStore, useView } from "./context.js";

const LONGEST = 200;

export function Title({ id, title, label = title, placeholder, className }) {
  const store = useStore();
  const readOnly = useView((view) => view.readOnly);
  const isRequested = useView((view) => view.overlay?.kind === "rename" && view.overlay.id === id);
  const [writing, setWriting] = useState(false);
  const field = useRef(null);

  useEffect(() => {
    if (!isRequested) return;
    setWriting(true);
    store.set({ overlay: null });
  }, [isRequested, store]);
  useEffect(() => {
    if (!writing) return;
    field.current.focus({ preventScroll: true });
    field.current.select();
  }, [writing]);

  const finish = (save) => {
    if (!writing) return;
    setWriting(false);
    if (save) rename(store, id, field.current.value);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    const node = field.current.closest(".react-flow__node");
    finish(event.key === "Enter");
    node.focus({ preventScroll: true });
  };
  const start = (event) => {
    event.stopPropagation();
    setWriting(!readOnly);
  };
  if (writing)
    return (
      <input
        ref={field}
        className={`title-field nodrag ${className}`}
        aria-label="Name"
        defaultValue={label}
        placeholder={placeholder}
        maxLength={LONGEST}
        onBlur={() => finish(true)}
        onKeyDown={onKeyDown}
        onClick={(event) => event.stopPropagation()}
      />
    );
  return (
    <span className={className} title={title} onDoubleClick={start}>
      {title}
    </span>
  );
}
