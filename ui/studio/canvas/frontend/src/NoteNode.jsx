// A note on the canvas: text, never HTML. Double-click or Enter to write, Escape or a click elsewhere to finish.

import { NodeResizer } from "@xyflow/react";
import { memo, useEffect, useRef, useState } from "react";
import { resizeNote, writeNote } from "./actions.js";
import { useStore, useView } from "./context.js";

const LONGEST = 10_000;

export const NoteNode = memo(function NoteNode({ id, data, selected }) {
  const store = useStore();
  const readOnly = useView((view) => view.readOnly);
  const isRequested = useView((view) => view.overlay?.kind === "note" && view.overlay.id === id);
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

  const finish = () => {
    if (!writing) return;
    setWriting(false);
    writeNote(store, id, field.current.value);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    const home = field.current.closest(".sylva-canvas");
    finish();
    home.focus({ preventScroll: true });
  };
  return (
    <div className="note" onDoubleClick={() => setWriting(!readOnly)}>
      <NodeResizer isVisible={selected && !readOnly} minWidth={96} minHeight={48} onResizeEnd={(_, size) => resizeNote(store, id, size)} />
      {writing ? (
        <textarea
          ref={field}
          className="note-text nodrag nowheel"
          aria-label="Note text"
          defaultValue={data.text}
          maxLength={LONGEST}
          onBlur={finish}
          onKeyDown={onKeyDown}
        />
      ) : (
        <div className="note-text">{data.text || <span className="faint">Double-click to write</span>}</div>
      )}
    </div>
  );
});
