// The editor: palette to the left, React Flow to the right, and what lies over it.

import { Background, BackgroundVariant, MiniMap, ReactFlow, SelectionMode, useReactFlow } from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { add, copySelected, duplicateSelected, link, note, pasteCopy, removeSelected, selectAll, tidy } from "./actions.js";
import { useStore, useView } from "./context.js";
import { dropHandlers } from "./drop.js";
import { NODE_WIDTH, edgeOf } from "./flow.js";
import { keyHandler } from "./keyboard.js";
import { Menu } from "./Menu.jsx";
import { ConnectionHint, EmptyHint, Notice, Tip } from "./Messages.jsx";
import { GRID, isNoteId } from "./model.js";
import { NoteNode } from "./NoteNode.jsx";
import { Palette } from "./Palette.jsx";
import { QuickAdd } from "./QuickAdd.jsx";
import { outputAt, refusal } from "./rules.js";
import { StepNode } from "./StepNode.jsx";
import { Toolbar, Zoom } from "./Toolbar.jsx";

const NODE_TYPES = { step: StepNode, note: NoteNode };
const FIT = { padding: { top: "64px", right: "32px", bottom: "64px", left: "32px" }, maxZoom: 1, duration: 200 }; // clear of the bars
const OVERLAY_ROOM = { x: 270, y: 330 };
const MANY_KEYS = ["Shift", "Meta", "Control"];

export function Canvas() {
  const store = useStore();
  const nodes = useView((view) => view.nodes);
  const edges = useView((view) => view.edges);
  const overlay = useView((view) => view.overlay);
  const height = useView((view) => view.height);
  const home = useRef(null);
  const stage = useRef(null);
  const flow = useReactFlow();
  const [fitAtFirst] = useState(() => !store.view.viewport && nodes.length > 0);
  const ui = useScreen(store, home, stage, flow);
  useReveal(flow);

  const onKeyDown = useMemo(() => keyHandler(store, ui), [store, ui]);
  const drop = useMemo(() => dropHandlers(store, stage, flow.screenToFlowPosition, ui.focus), [store, flow, ui]);
  const isValidConnection = useCallback((connection) => refusal(store.view.doc, store.view.rules, edgeOf(connection)) === null, [store]);
  const closeElsewhere = (event) => overlay && !event.target.closest(".overlay") && ui.close();

  return (
    <div ref={home} className="sylva-canvas" style={{ height }} tabIndex={-1} onKeyDown={onKeyDown} onPointerDownCapture={closeElsewhere}>
      <Palette onAdd={(type) => ui.addInMiddle(type)} />
      <div ref={stage} className="stage" onDoubleClick={ui.onDoubleClick} onPointerDown={ui.onPointerDown} {...drop}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          onNodesChange={store.nodesChanged}
          onEdgesChange={store.edgesChanged}
          onNodeDragStop={(_, __, moved) => store.dropped(moved)}
          onSelectionDragStop={(_, moved) => store.dropped(moved)}
          isValidConnection={isValidConnection}
          onConnect={(connection) => link(store, edgeOf(connection))}
          onConnectStart={ui.onConnectStart}
          onConnectEnd={ui.onConnectEnd}
          onMoveEnd={(_, viewport) => store.moveViewport(viewport)}
          onNodeContextMenu={(event, node) => ui.onNodeMenu(event, node.id)}
          onSelectionContextMenu={(event) => ui.onNodeMenu(event, null)}
          onEdgeContextMenu={ui.onEdgeMenu}
          onPaneContextMenu={ui.onPaneMenu}
          defaultViewport={store.view.viewport ?? { x: 40, y: 40, zoom: 1 }}
          fitView={fitAtFirst}
          fitViewOptions={{ ...FIT, duration: 0 }}
          snapToGrid
          snapGrid={[GRID, GRID]}
          connectionRadius={26}
          connectOnClick={false}
          selectionMode={SelectionMode.Partial}
          multiSelectionKeyCode={MANY_KEYS}
          deleteKeyCode={null}
          disableKeyboardA11y
          elevateNodesOnSelect={false}
          zoomOnDoubleClick={false}
          nodeDragThreshold={2}
          minZoom={0.1}
          maxZoom={2}
          proOptions={{ hideAttribution: true }}
        >
          <Background variant={BackgroundVariant.Dots} gap={GRID} size={1.5} />
          <MiniMap pannable zoomable ariaLabel="Overview" nodeClassName={minimapClass} nodeBorderRadius={12} />
        </ReactFlow>
        <Toolbar fit={ui.fit} onNote={ui.note} />
        <Zoom />
        <EmptyHint />
        <ConnectionHint />
        <Tip />
        <Notice />
        {overlay?.kind === "add" && <QuickAdd key={overlay.id} {...overlay} onChoose={ui.choose} onClose={ui.close} />}
        {overlay?.kind === "menu" && <Menu key={overlay.id} {...overlay} onClose={ui.close} />}
      </div>
    </div>
  );
}

const minimapClass = (node) => (isNoteId(node.id) ? "minimap-note" : `state-${node.domAttributes?.["data-state"]}`);

/** What needs to know where things are on the screen. */
function useScreen(store, home, stage, flow) {
  return useMemo(() => {
    let overlays = 0;
    const focus = () => home.current?.focus({ preventScroll: true });
    const inStage = ({ clientX, clientY }) => {
      const box = stage.current.getBoundingClientRect();
      return { x: clientX - box.left, y: clientY - box.top };
    };
    const middle = () => {
      const box = stage.current.getBoundingClientRect();
      return { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
    };
    const toFlow = ({ clientX, clientY }) => flow.screenToFlowPosition({ x: clientX, y: clientY });
    const show = (kind, event, more) => {
      const { x, y } = inStage(event);
      const box = stage.current.getBoundingClientRect();
      const at = { x: Math.max(8, Math.min(x, box.width - OVERLAY_ROOM.x)), y: Math.max(8, Math.min(y, box.height - OVERLAY_ROOM.y)) };
      store.set({ overlay: { kind, id: ++overlays, at, place: toFlow(event), ...more } });
    };
    const close = () => {
      store.set({ overlay: null });
      focus();
    };
    const centred = ({ x, y }) => ({ x: x - NODE_WIDTH / 2, y: y - 2 * GRID });
    const noteAt = (place) => store.set({ overlay: { kind: "note", id: note(store, place) } });
    const search = (event, more) => show("add", event, more);

    return {
      focus,
      close,
      fit: () => flow.fitView(FIT),
      search: () => search(middle()),
      note: () => noteAt(centred(toFlow(middle()))),
      addInMiddle: (type) => {
        const shift = 2 * GRID * (Object.keys(store.view.doc.nodes).length % 6);
        const { x, y } = centred(toFlow(middle()));
        add(store, type, { x: x + shift, y: y + shift });
      },
      choose: (type) => {
        const { place, from } = store.view.overlay;
        add(store, type, from ? place : centred(place), from);
        close();
      },
      /** Enter on a node that has the focus: select it; on a selected note: write. */
      open: (element) => {
        const id = element.closest(".react-flow__node")?.dataset.id;
        if (!id) return null;
        return () => (isNoteId(id) && store.selected.ids.includes(id) ? store.set({ overlay: { kind: "note", id } }) : store.select([id]));
      },
      onPointerDown: (event) => event.target.closest("input, textarea, button, .overlay, .react-flow__node") || focus(),
      onDoubleClick: (event) => event.target.classList.contains("react-flow__pane") && search(event),
      onConnectStart: (_, { nodeId, handleId, handleType }) => store.set({ pulled: { end: `${nodeId}.${handleId}`, side: handleType } }),
      onConnectEnd: (event, { fromHandle, toHandle, isValid }) => {
        store.set({ pulled: null });
        const pane = event.target.closest?.(".react-flow__pane") ?? pointed(stage.current, event);
        if (isValid || toHandle || fromHandle?.type !== "source" || !pane) return;
        const from = `${fromHandle.nodeId}.${fromHandle.id}`;
        const type = outputAt(store.view.doc, store.view.rules, from)?.type;
        if (type) search(event, { from, portType: type });
      },
      onNodeMenu: (event, id) => {
        event.preventDefault();
        if (id && !store.selected.ids.includes(id)) store.select([id]);
        show("menu", event, { items: nodeItems(store, id) });
      },
      onEdgeMenu: (event, edge) => {
        event.preventDefault();
        store.select([]);
        store.edgesChanged([{ id: edge.id, type: "select", selected: true }]);
        show("menu", event, { items: [{ label: "Delete connection", keys: "Del", run: () => removeSelected(store) }] });
      },
      onPaneMenu: (event) => {
        event.preventDefault();
        const place = toFlow(event);
        const again = { clientX: event.clientX, clientY: event.clientY };
        show("menu", event, {
          items: [
            { label: "Add a step…", keys: "/", run: () => search(again) },
            { label: "Add a note", keys: "N", run: () => noteAt(place) },
            null,
            { label: "Paste", keys: "Ctrl V", run: () => pasteCopy(store) },
            { label: "Select all", keys: "Ctrl A", run: () => selectAll(store) },
            { label: "Tidy up", run: () => tidy(store) },
          ],
        });
      },
    };
  }, [store, home, stage, flow]);
}

const pointed = (stage, event) => stage.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest(".react-flow__pane");

function nodeItems(store, id) {
  const run = id && !isNoteId(id);
  return [
    ...(run
      ? [
          { label: "Run to here", run: () => store.trigger("run", { node: id, direction: "to" }) },
          { label: "Run from here", run: () => store.trigger("run", { node: id, direction: "from" }) },
          null,
        ]
      : []),
    { label: "Copy", keys: "Ctrl C", run: () => copySelected(store) },
    { label: "Duplicate", keys: "Ctrl D", run: () => duplicateSelected(store) },
    { label: "Delete", keys: "Del", run: () => removeSelected(store) },
  ];
}

/** Python asked to show a node: bring it into view without changing the zoom. */
function useReveal(flow) {
  const store = useStore();
  const reveal = useView((view) => view.reveal);
  useEffect(() => {
    const place = reveal && store.view.doc.layout[reveal.node];
    if (!place) return;
    const { width, height } = store.size(reveal.node);
    flow.setCenter(place[0] + width / 2, place[1] + height / 2, { zoom: flow.getZoom(), duration: 200 });
  }, [reveal, flow, store]);
}
