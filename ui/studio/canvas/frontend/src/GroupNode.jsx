// A group: a frame behind its nodes, or one node in their place. Edges across its border end at the collapsed node.

import { Handle, Position } from "@xyflow/react";
import { memo, useMemo } from "react";
import { toggleGroup } from "./actions.js";
import { useStore, useView } from "./context.js";
import { IDLE } from "./flow.js";
import { Icon } from "./icons.jsx";
import { Title } from "./Title.jsx";
import { STATE_TITLES, groupState } from "./words.js";

export const GroupNode = memo(function GroupNode({ id, data: { title, nodes, collapsed } }) {
  const store = useStore();
  const states = useView((view) => view.states);
  const readOnly = useView((view) => view.readOnly);
  const { state, done, count } = useMemo(() => groupState(nodes.map((node) => states[node] ?? IDLE)), [states, nodes]);
  const name = collapsed ? "Expand group" : "Collapse group";
  const toggle = (event) => {
    event.stopPropagation();
    toggleGroup(store, id);
  };
  return (
    <div className={`group state-${state}${collapsed ? " collapsed" : ""}`}>
      {collapsed && <Handle id="in" type="target" position={Position.Left} isConnectable={false} />}
      <div className="group-head">
        {!readOnly && (
          <button type="button" className="nodrag" aria-label={`${name} ${title}`} title={name} aria-expanded={!collapsed} onClick={toggle} onDoubleClick={(event) => event.stopPropagation()}>
            <Icon name={collapsed ? "right" : "down"} size={12} />
          </button>
        )}
        <Title id={id} title={title} className="group-title" />
        {state !== "idle" && (
          <span className="node-state" title={STATE_TITLES[state]}>
            <Icon name={state} size={14} />
          </span>
        )}
      </div>
      {collapsed && (
        <div className="group-line">
          {count} {count === 1 ? "node" : "nodes"}
          {state !== "idle" && ` · ${done} done`}
        </div>
      )}
      {collapsed && <Handle id="out" type="source" position={Position.Right} isConnectable={false} />}
    </div>
  );
});
