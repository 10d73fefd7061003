// The node types by category. Drag one onto the canvas; Enter or a double click puts it in the middle.

import { useMemo, useState } from "react";
import { useView } from "./context.js";
import { Icon } from "./icons.jsx";

export const dragging = { type: null }; // a browser does not tell what is dragged until it is dropped
export const MIME = "application/x-sylva-node";

export const wordsIn = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);

/** Types by category, in the order of the categories, as far as title, name or summary hold the words. */
export function found(types, categories, query) {
  const words = wordsIn(query);
  const matches = ([name, type]) => {
    const text = `${name} ${type.title} ${type.summary} ${type.category}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const fitting = Object.entries(types).filter(matches);
  const all = [...new Set([...categories, ...fitting.map(([, { category }]) => category)])];
  return all
    .map((category) => ({ category, items: fitting.filter(([, type]) => type.category === category) }))
    .filter(({ items }) => items.length);
}

/** The same as one list: types whose title begins with the words first, then those whose title holds them. */
export function ranked(types, categories, query) {
  const text = wordsIn(query).join(" ");
  const rank = ([, { title }]) => [title.toLowerCase().startsWith(text), title.toLowerCase().includes(text)].filter((fits) => !fits).length;
  return found(types, categories, query)
    .flatMap(({ items }) => items)
    .sort((a, b) => rank(a) - rank(b));
}

export function Palette({ onAdd }) {
  const types = useView((view) => view.types);
  const categories = useView((view) => view.categories);
  const [query, setQuery] = useState("");
  const groups = useMemo(() => found(types, categories, query), [types, categories, query]);
  return (
    <aside className="palette" aria-label="Steps">
      <label className="search">
        <Icon name="search" size={14} />
        <input type="search" placeholder="Search steps" aria-label="Search steps" value={query} onChange={(event) => setQuery(event.target.value)} />
      </label>
      <div className="palette-list">
        {groups.map(({ category, items }) => (
          <section key={category}>
            <h3>{category}</h3>
            {items.map(([name, type]) => (
              <PaletteItem key={name} name={name} type={type} onAdd={onAdd} />
            ))}
          </section>
        ))}
        {!groups.length && <p className="faint">No step matches.</p>}
      </div>
    </aside>
  );
}

function PaletteItem({ name, type, onAdd }) {
  const onDragStart = (event) => {
    dragging.type = name;
    event.dataTransfer.setData(MIME, name);
    event.dataTransfer.effectAllowed = "copy";
  };
  return (
    <div
      className={`palette-item category-${type.category}`}
      data-node-type={name}
      draggable
      tabIndex={0}
      role="button"
      aria-label={`Add ${type.title}`}
      title={type.summary}
      onDragStart={onDragStart}
      onDragEnd={() => (dragging.type = null)}
      onDoubleClick={() => onAdd(name)}
      onKeyDown={(event) => event.key === "Enter" && onAdd(name)}
    >
      <span className="step-icon">
        <Icon name={type.category} size={14} />
      </span>
      {type.title}
    </div>
  );
}
