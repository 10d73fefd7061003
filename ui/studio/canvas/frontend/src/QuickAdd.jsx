// Search for a node and add it, at the pointer. Opened by `/`, a double click on the canvas, or an
// edge that ends on an empty spot.

import { useMemo } from "react";
import { useView } from "./context.js";
import { ranked } from "./find.js";
import { Icon } from "./icons.jsx";
import { typesAccepting } from "./rules.js";
import { Search } from "./Search.jsx";

export function QuickAdd({ portType, ...rest }) {
  const types = useView((view) => view.types);
  const rules = useView((view) => view.rules);
  const categories = useView((view) => view.categories);
  const fitting = useMemo(() => (portType ? new Set(typesAccepting(rules, portType)) : null), [rules, portType]);
  const find = (query) =>
    ranked(types, categories, query)
      .filter(([name]) => !fitting || fitting.has(name))
      .map(([name, type]) => ({ key: name, value: name, className: `category-${type.category}`, title: type.summary, content: shown(type) }));
  const placeholder = portType ? `What takes this ${portType}?` : "Add a node";
  return <Search label="Add a node" placeholder={placeholder} find={find} none="No node matches." {...rest} />;
}

const shown = ({ category, title }) => (
  <>
    <span className="node-icon">
      <Icon name={category} size={14} />
    </span>
    <span>{title}</span>
    <span className="faint">{category}</span>
  </>
);
