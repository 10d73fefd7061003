// The node types by category. Drag one onto the canvas; Enter or a double click adds it in the middle.

import { useMemo, useState } from "react";
import { useView } from "./context.js";
import { typesByCategory } from "./find.js";
import { Icon } from "./icons.jsx";

export const dragging = { type: null }; // a browser reveals the dragged data only when it is dropped
export const MIME = "application/x-sylva-node";

export function Palette({ onAdd }) {
  const types = useView((view) => view.types);
  const categories = useView((view) => view.categories);
  const [query, setQuery] = useState("");
  const groups = useMemo(() => typesByCategory(types, categories, query), [types, categories, query]);
  return (
    <aside className="palette" aria-label="Nodes">
      <label className="search">
        <Icon name="search" size={14} />
        <input type="search" placeholder="Search nodes" aria-label="Search nodes" value={query} onChange={(event) => setQuery(event.target.value)} />
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
        {!groups.length && <p className="faint">No node matches.</p>}
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
