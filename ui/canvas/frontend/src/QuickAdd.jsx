// Search and add, at the pointer: opened by `/`, a double click on the canvas, or an edge let go on empty ground.

import { useEffect, useMemo, useRef, useState } from "react";
import { useView } from "./context.js";
import { Icon } from "./icons.jsx";
import { ranked } from "./Palette.jsx";
import { takers } from "./rules.js";

export const SEARCH_ROOM = { x: 264, y: 324 };

export function QuickAdd({ at, portType, onChoose, onClose }) {
  const types = useView((view) => view.types);
  const rules = useView((view) => view.rules);
  const categories = useView((view) => view.categories);
  const [query, setQuery] = useState("");
  const [marked, setMarked] = useState(0);
  const field = useRef(null);
  const list = useRef(null);
  const items = useMemo(() => {
    const fitting = portType ? new Set(takers(rules, portType)) : null;
    return ranked(types, categories, query).filter(([name]) => !fitting || fitting.has(name));
  }, [types, categories, rules, query, portType]);

  useEffect(() => {
    field.current.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    list.current.children[marked]?.scrollIntoView({ block: "nearest" });
  }, [marked]);

  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setMarked((marked + step + items.length) % Math.max(1, items.length));
    else if (event.key === "Enter" && items[marked]) onChoose(items[marked][0]);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="overlay quick-add" style={{ left: at.x, top: at.y }} role="dialog" aria-label="Add a step" onKeyDown={onKeyDown}>
      <label className="search">
        <Icon name="search" size={14} />
        <input
          ref={field}
          type="search"
          placeholder={portType ? `What takes this ${portType}?` : "Add a step"}
          aria-label="Add a step"
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setMarked(0);
          }}
        />
      </label>
      <ul ref={list} role="listbox" aria-label="Steps found">
        {items.map(([name, type], index) => (
          <li
            key={name}
            role="option"
            aria-selected={index === marked}
            className={`category-${type.category}`}
            title={type.summary}
            onPointerMove={() => setMarked(index)}
            onClick={() => onChoose(name)}
          >
            <span className="step-icon">
              <Icon name={type.category} size={14} />
            </span>
            <span>{type.title}</span>
            <span className="faint">{type.category}</span>
          </li>
        ))}
        {!items.length && <li className="faint">No step matches.</li>}
      </ul>
    </div>
  );
}
