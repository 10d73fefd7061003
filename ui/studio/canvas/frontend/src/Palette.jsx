// The left side: buttons, the node types by category, the overview and the zoom. Drag a type onto the
// canvas; Enter or a double click adds it. A read-only canvas has only the buttons that move the view.

import { MiniMap, useStore as useFlow } from "@xyflow/react";
import { useMemo, useState } from "react";
import { useStore, useView } from "./context.js";
import { MIME, dragging } from "./drop.js";
import { typesByCategory } from "./find.js";
import { PaletteEdge } from "./Grip.jsx";
import { Icon } from "./icons.jsx";
import { boxOf } from "./flow.js";
import { isNoteId } from "./model.js";
import { Button, Toolbar, Zoom } from "./Toolbar.jsx";
import { around, isWithin } from "./view.js";

export function Palette({ onAdd, onNote, fit }) {
  const store = useStore();
  const { palette: open, paletteWidth } = useView((view) => view.frame);
  const toggle = open ? "Collapse palette" : "Expand palette";
  return (
    <aside className={open ? "palette" : "palette collapsed"} style={open ? { width: paletteWidth } : undefined} aria-label="Nodes">
      <Toolbar fit={fit} onNote={onNote} />
      {open && <Types onAdd={onAdd} />}
      {open && <Overview />}
      <Zoom>
        <Button name={toggle} icon={open ? "left" : "right"} aria-expanded={open} onClick={() => store.arrange({ palette: !open })} />
      </Zoom>
      {open && <PaletteEdge />}
    </aside>
  );
}

/** The buttons of a canvas that cannot be edited. */
export function ViewButtons({ fit }) {
  return (
    <aside className="palette collapsed" aria-label="View">
      <div className="bar">
        <Button name="Fit" icon="fit" hint="F" onClick={fit} />
      </div>
      <Zoom />
    </aside>
  );
}

const minimapClass = (node) => (isNoteId(node.id) ? "minimap-note" : `state-${node.domAttributes?.["data-state"]}`);

/** A small map of the pipeline, while the stage does not show all of it. */
function Overview() {
  const nodes = useView((view) => view.nodes);
  const whole = useMemo(() => nodes.length && around(nodes.map(boxOf)), [nodes]);
  const fits = useFlow(({ width, height, transform: [x, y, zoom] }) => !whole || isWithin({ width, height }, { x, y, zoom }, whole));
  if (fits) return null;
  return <MiniMap pannable zoomable ariaLabel="Overview" nodeClassName={minimapClass} nodeBorderRadius={12} />;
}

function Types({ onAdd }) {
  const types = useView((view) => view.types);
  const categories = useView((view) => view.categories);
  const [query, setQuery] = useState("");
  const groups = useMemo(() => typesByCategory(types, categories, query), [types, categories, query]);
  return (
    <>
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
    </>
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
      onDoubleClick={() => onAdd(name, true)}
      onKeyDown={(event) => event.key === "Enter" && onAdd(name)}
    >
      <span className="node-icon">
        <Icon name={type.category} size={14} />
      </span>
      <span className="palette-title">{type.title}</span>
    </div>
  );
}
