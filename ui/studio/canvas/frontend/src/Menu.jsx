// A context menu: `items` are {label, keys, run, disabled} or null for a line between groups.

import { useEffect, useRef } from "react";

/** The size of a menu, so that it opens at the pointer and still fits on the stage. */
export const menuRoom = (items) => ({ x: 206, y: 18 + items.reduce((sum, item) => sum + (item ? 30 : 9), 0) });

export function Menu({ at, items, onClose }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.querySelector("button:not(:disabled)")?.focus({ preventScroll: true });
  }, []);
  const onKeyDown = (event) => {
    const buttons = [...box.current.querySelectorAll("button:not(:disabled)")];
    const here = buttons.indexOf(event.target);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) buttons[(here + step + buttons.length) % buttons.length].focus({ preventScroll: true });
    else if (event.key === "Escape") onClose();
    else if (event.key !== "Enter" && event.key !== " ") return;
    if (step || event.key === "Escape") event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div ref={box} className="overlay menu" style={{ left: at.x, top: at.y }} role="menu" onKeyDown={onKeyDown}>
      {items.map((item, index) =>
        item === null ? (
          <hr key={index} />
        ) : (
          <button
            key={index}
            type="button"
            role="menuitem"
            disabled={item.disabled}
            onClick={() => {
              onClose();
              item.run();
            }}
          >
            <span>{item.label}</span>
            {item.keys && <kbd>{item.keys}</kbd>}
          </button>
        ),
      )}
    </div>
  );
}
