// A search field with its results, over the canvas: arrows to move, Enter to choose, Escape to close.

import { useEffect, useRef, useState } from "react";
import { Icon } from "./icons.jsx";

const MAX_RESULTS = 100;

/** `find(query)` returns [{key, value, className, title, content}]; `onChoose` gets the value. */
export function Search({ at, kind = "", label, placeholder, find, none, onChoose, onClose }) {
  const [query, setQuery] = useState("");
  const [marked, setMarked] = useState(0);
  const field = useRef(null);
  const list = useRef(null);
  const results = find(query);
  const items = results.slice(0, MAX_RESULTS);

  useEffect(() => {
    field.current.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    list.current.children[marked]?.scrollIntoView({ block: "nearest" });
  }, [marked]);

  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setMarked((marked + step + items.length) % Math.max(1, items.length));
    else if (event.key === "Enter" && items[marked]) onChoose(items[marked].value);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className={`overlay quick-add ${kind}`} style={{ left: at.x, top: at.y }} role="dialog" aria-label={label} onKeyDown={onKeyDown}>
      <label className="search">
        <Icon name="search" size={14} />
        <input
          ref={field}
          type="search"
          role="combobox"
          aria-expanded="true"
          aria-controls="found"
          aria-activedescendant={items.length ? `found-${marked}` : undefined}
          placeholder={placeholder}
          aria-label={label}
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setMarked(0);
          }}
        />
      </label>
      <ul ref={list} id="found" role="listbox" aria-label={`${label}: results`}>
        {items.map(({ key, value, className, title, content }, index) => (
          <li
            key={key}
            id={`found-${index}`}
            role="option"
            aria-selected={index === marked}
            className={className}
            title={title}
            onPointerMove={() => setMarked(index)}
            onClick={() => onChoose(value)}
          >
            {content}
          </li>
        ))}
        {!items.length && <li className="faint">{none}</li>}
        {results.length > MAX_RESULTS && <li className="faint">{results.length - MAX_RESULTS} more: type to find them</li>}
      </ul>
    </div>
  );
}
