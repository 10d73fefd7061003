// Connect without the mouse: `e` on a node lists every connection that can be drawn from or to it.

import { useMemo } from "react";
import { useView } from "./context.js";
import { wordsIn } from "./find.js";
import { edgesAt } from "./rules.js";
import { Search } from "./Search.jsx";

export function Connect({ node, ...rest }) {
  const doc = useView((view) => view.doc);
  const rules = useView((view) => view.rules);
  const titles = useView((view) => view.titles);
  const edges = useMemo(() => edgesAt(doc, rules, node, titles), [doc, rules, node, titles]);
  const find = (query) =>
    edges
      .filter(({ name }) => wordsIn(query).every((word) => name.toLowerCase().includes(word)))
      .map(({ edge, name, type, note }) => ({ key: `${edge.from}>${edge.to}`, value: edge, className: `port-${type}`, content: shown(name, note) }));
  return <Search kind="connect" label="Connect" placeholder="Connect with …" find={find} none="No connection fits." {...rest} />;
}

const shown = (name, note) => (
  <>
    <i className="dot" />
    <span>
      {name}
      {note && <span className="faint">{note}</span>}
    </span>
  </>
);
