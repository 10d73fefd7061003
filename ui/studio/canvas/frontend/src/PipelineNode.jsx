// A node of the pipeline: title, result or state, and its ports by name, type and colour.

import { Handle, Position } from "@xyflow/react";
import { memo, useEffect } from "react";
import { useStore, useView } from "./context.js";
import { IDLE } from "./flow.js";
import { Icon } from "./icons.jsx";
import { tipAt } from "./Messages.jsx";
import { objection } from "./rules.js";
import { Title } from "./Title.jsx";
import { smallPrint, stateLine, stateTitle } from "./words.js";

export const PipelineNode = memo(function PipelineNode({ id, data }) {
  const node = useView((view) => view.doc.nodes[id]);
  const type = useView((view) => view.types[view.doc.nodes[id]?.type]);
  const state = useView((view) => view.states[id]) ?? IDLE;
  const problems = useView((view) => view.problems[id]);
  if (!node) return null;
  const standard = type?.title ?? node.type;
  const title = node.label || standard;
  const known = type ? stateLine(state) : `${node.type} is not installed`;
  const line = node.bypass ? "bypassed" : known;
  const classes = `node state-${state.state} category-${type?.category ?? "other"}${node.bypass ? " bypassed" : ""}`;
  return (
    <div className={classes}>
      <div className="node-head">
        <span className="node-icon">
          <Icon name={type?.category} size={14} />
        </span>
        <span className="node-names">
          <Title id={id} title={title} label={node.label ?? ""} placeholder={standard} className="node-title" />
          <span className="node-time">{smallPrint(state)}</span>
        </span>
        {problems && <Problems messages={problems} />}
        {state.state !== "idle" && (
          <span className="node-state" title={stateTitle(state)}>
            <Icon name={state.state} size={14} />
          </span>
        )}
      </div>
      {type?.headline && <div className="node-headline">{state.headline}</div>}
      <div className="node-line" title={line ?? undefined}>
        {line}
      </div>
      <Ports id={id} title={title} ports={data.ports} />
      {state.state === "running" && (
        <div className={`node-bar${state.progress == null ? " unsure" : ""}`}>
          <i style={state.progress == null ? undefined : { width: `${state.progress * 100}%` }} />
        </div>
      )}
    </div>
  );
});

function Problems({ messages }) {
  const store = useStore();
  const label = `${messages.length} ${messages.length === 1 ? "problem" : "problems"}`;
  const show = (event) => store.set({ tip: tipAt(event.currentTarget, messages) });
  const hide = () => store.set({ tip: null });
  useEffect(() => hide, []); // the tooltip must not outlive its badge
  return (
    <span
      className="node-problems"
      tabIndex={0}
      role="note"
      aria-label={`${label}: ${messages.join(" ")}`}
      onPointerEnter={show}
      onPointerLeave={hide}
      onFocus={show}
      onBlur={hide}
    >
      {messages.length > 1 ? messages.length : "!"}
    </span>
  );
}

function Ports({ id, title, ports }) {
  const pulled = useView((view) => view.pulled);
  const dropPort = useView((view) => (view.dropPort?.startsWith(`${id}.`) ? view.dropPort : null));
  const rows = Math.max(ports.inputs.length, ports.outputs.length, 1);
  return (
    <div className="ports">
      {Array.from({ length: rows }, (_, row) => (
        <div className="port-row" key={row}>
          {ports.inputs[row] && <Port id={id} node={title} port={ports.inputs[row]} side="input" pulled={pulled} />}
          {ports.outputs[row] && <Port id={id} node={title} port={ports.outputs[row]} side="output" pulled={pulled} dropPort={dropPort} />}
        </div>
      ))}
    </div>
  );
}

function Port({ id, node, port, side, pulled, dropPort }) {
  const store = useStore();
  const input = side === "input";
  const end = `${id}.${port.name}`;
  const fits = pulled && !port.ghost && fitsPulled(store.view.rules, pulled, end, input);
  const preview = () => input || store.trigger("port", { node: id, port: port.name });
  const hint = input ? `takes ${port.accepts.join(" or ")}${port.many ? ", any number" : ""}${port.required ? "" : ", optional"}` : `${port.type}; click to preview it`;
  return (
    <div className={`port ${side} port-${port.type}${pulled ? (fits ? " fits" : " unfit") : ""}${port.ghost ? " ghost" : ""}`}>
      <Handle
        id={port.name}
        type={input ? "target" : "source"}
        position={input ? Position.Left : Position.Right}
        data-port={port.name}
        data-port-type={port.type}
        data-side={side}
        className={dropPort === end ? "drop-here" : undefined}
        role="img"
        aria-label={`${side} ${port.title} of ${node}, ${port.type}`}
        title={`${port.title}: ${hint}`}
        onClick={preview}
      />
      <span title={`${port.title}: ${hint}`}>{port.title}</span>
    </div>
  );
}

/** Whether the edge that is being drawn could end here; the port where it starts counts as well. */
function fitsPulled(rules, { end: origin, side, doc }, end, input) {
  if (origin === end && (side === "source") !== input) return true;
  if ((side === "source") !== input) return false;
  return objection(doc, rules, side === "source" ? { from: origin, to: end } : { from: end, to: origin }) === null;
}
