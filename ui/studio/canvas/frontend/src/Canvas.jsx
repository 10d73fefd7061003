// The editor: the palette on the left, React Flow on the right, and overlays.

import {
  Background,
  BackgroundVariant,
  MiniMap,
  ReactFlow,
  SelectionMode,
  applyEdgeChanges,
  applyNodeChanges,
  useReactFlow,
  useStore as useFlow,
} from "@xyflow/react";
import { useEffect, useMemo, useRef, useState, useLayoutEffect } from "react";
import { add, copySelected, duplicateSelected, link, note, pasteCopy, removeSelected, retarget, selectAll, tidy } from "./actions.js";
import { Connect } from "./Connect.jsx";
import { useStore, useView } from "./context.js";
import { dropHandlers } from "./drop.js";
import { NODE_WIDTH, edgeOf } from "./flow.js";
import { keyHandler } from "./keyboard.js";
import { Menu, menuRoom } from "./Menu.jsx";
import { ConnectionHint, EmptyHint, Notice, Tip } from "./Messages.jsx";
import { GRID, disconnect, isNoteId } from "./model.js";
import { NoteNode } from "./NoteNode.jsx";
import { Palette } from "./Palette.jsx";
import { QuickAdd } from "./QuickAdd.jsx";
import { objection, outputAt } from "./rules.js";
import { StepNode } from "./StepNode.jsx";
import { Toolbar, Zoom } from "./Toolbar.jsx";
import { CLEAR, isWithin, openingView } from "./view.js";

const pixels = (sides) => Object.fromEntries(Object.entries(sides).map(([side, size]) => [side, `${size}px`]));
const FIT = { padding: pixels(CLEAR), maxZoom: 1, duration: 200 };
const FAR = 0.3; // below this zoom small print is not readable
const ROOM = { add: { x: 264, y: 324 }, connect: { x: 428, y: 324 } }; // the size of a list on the stage
const MINIMAP_NEEDS = { width: 700, height: 430 };

// These must always be the same objects: after a change React Flow updates every node, port and edge.
const SETTINGS = {
  nodeTypes: { step: StepNode, note: NoteNode },
  snapToGrid: true,
  snapGrid: [GRID, GRID],
  connectionRadius: 26,
  connectOnClick: false,
  reconnectRadius: 14,
  selectionMode: SelectionMode.Partial,
  multiSelectionKeyCode: ["Shift", "Meta", "Control"],
  deleteKeyCode: null,
  disableKeyboardA11y: true,
  elevateNodesOnSelect: false,
  zoomOnDoubleClick: false,
  nodeDragThreshold: 2,
  minZoom: 0.1,
  maxZoom: 2,
  proOptions: { hideAttribution: true },
};

export function Canvas() {
  const store = useStore();
  const overlay = useView((view) => view.overlay);
  const height = useView((view) => view.height);
  const far = useFlow((state) => state.transform[2] < FAR);
  const home = useRef(null);
  const stage = useRef(null);
  const flow = useReactFlow();
  const ui = useScreen(store, home, stage, flow);
  const [first, setFirst] = useState(null);
  useLayoutEffect(() => setFirst(firstView(store, stage.current)), [store]);
  useSteadyCentre(home, height, flow);

  const onKeyDown = useMemo(() => keyHandler(store, ui), [store, ui]);
  const drop = useMemo(() => dropHandlers(store, stage, flow.screenToFlowPosition, ui.focus), [store, flow, ui]);
  const closeElsewhere = (event) => overlay && !event.target.closest(".overlay") && ui.close();

  return (
    <div ref={home} className="sylva-canvas" style={{ height }} tabIndex={-1} onKeyDown={onKeyDown} onPointerDownCapture={closeElsewhere}>
      <Palette onAdd={ui.addInMiddle} />
      <div ref={stage} className={`stage${far ? " far" : ""}`} onDoubleClick={ui.onDoubleClick} onPointerDown={ui.onPointerDown} onFocus={ui.onFocus} {...drop}>
        {first && <Flow ui={ui} first={first} />}
        <Toolbar fit={ui.fit} onNote={ui.note} />
        <Zoom />
        <EmptyHint />
        <ConnectionHint />
        <Tip />
        <Notice />
        {overlay?.kind === "add" && <QuickAdd key={overlay.id} {...overlay} onChoose={ui.choose} onClose={ui.close} />}
        {overlay?.kind === "connect" && <Connect key={overlay.id} {...overlay} onChoose={ui.draw} onClose={ui.close} />}
        {overlay?.kind === "menu" && <Menu key={overlay.id} {...overlay} onClose={ui.close} />}
      </div>
    </div>
  );
}

/** React Flow with the document: the only part that is drawn again during a drag. */
function Flow({ ui, first }) {
  const store = useStore();
  const nodes = useView((view) => view.nodes);
  const edges = useView((view) => view.edges);
  const flow = useReactFlow();
  useReveal(flow);
  const roomy = useFlow(({ width, height }) => width >= MINIMAP_NEEDS.width && height >= MINIMAP_NEEDS.height);
  const handlers = useMemo(() => flowHandlers(store, ui), [store, ui]);
  return (
    <ReactFlow nodes={nodes} edges={edges} {...SETTINGS} {...first} {...handlers}>
      <Background variant={BackgroundVariant.Dots} gap={GRID} size={1.5} />
      {roomy && <MiniMap pannable zoomable ariaLabel="Overview" nodeClassName={minimapClass} nodeBorderRadius={12} />}
    </ReactFlow>
  );
}

/** The first view: the last one if there is one, else the node that Python wants to show, else the beginning. */
function firstView(store, stage) {
  const { viewport, nodes, reveal } = store.view;
  if (viewport || !nodes.length) return { defaultViewport: viewport ?? { x: 40, y: 40, zoom: 1 } };
  const room = stage.getBoundingClientRect();
  if (reveal || !room.width) return { fitView: true, fitViewOptions: { ...FIT, duration: 0, nodes: reveal && [{ id: reveal.node }] } };
  const boxes = nodes.map(({ id }) => boxOf(store, id));
  const defaultViewport = openingView(boxes, room, SETTINGS.minZoom);
  store.moveViewport(defaultViewport);
  return { defaultViewport };
}

// Only an edit of the document removes nodes and edges, not React Flow by itself.
const withoutRemovals = (changes) => changes.filter(({ type }) => type !== "remove");

const flowHandlers = (store, ui) => ({
  onNodesChange: (changes) =>
    store.nodesChanged(
      applyNodeChanges(withoutRemovals(changes), store.view.nodes),
      changes.some(({ type }) => type === "select"),
    ),
  onEdgesChange: (changes) => store.edgesChanged(applyEdgeChanges(withoutRemovals(changes), store.view.edges)),
  onNodeDragStart: store.dragStarted,
  onSelectionDragStart: store.dragStarted,
  onNodeDragStop: (_, __, moved) => store.dropped(moved),
  onSelectionDragStop: (_, moved) => store.dropped(moved),
  isValidConnection: (connection) => objection(store.view.pulled?.doc ?? store.view.doc, store.view.rules, edgeOf(connection)) === null,
  onConnect: (connection) => link(store, edgeOf(connection)),
  onConnectStart: ui.onConnectStart,
  onConnectEnd: ui.onConnectEnd,
  onReconnect: (edge, connection) => retarget(store, edgeOf(edge), edgeOf(connection)),
  onReconnectStart: ui.onReconnectStart,
  onMoveEnd: (_, viewport) => store.moveViewport(viewport),
  onNodeContextMenu: (event, node) => ui.onNodeMenu(event, node.id),
  onSelectionContextMenu: (event) => ui.onNodeMenu(event, null),
  onEdgeContextMenu: ui.onEdgeMenu,
  onPaneContextMenu: ui.onPaneMenu,
});

const minimapClass = (node) => (isNoteId(node.id) ? "minimap-note" : `state-${node.domAttributes?.["data-state"]}`);

/** The actions that need to know where things are on the screen. */
function useScreen(store, home, stage, flow) {
  return useMemo(() => {
    let overlays = 0;
    let loose = null; // the edge whose end is being dragged to another port
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
      const room = ROOM[kind] ?? menuRoom(more.items);
      const at = { x: Math.max(8, Math.min(x, box.width - room.x)), y: Math.max(8, Math.min(y, box.height - room.y)) };
      store.set({ overlay: { kind, id: ++overlays, at, place: toFlow(event), ...more } });
    };
    const close = () => {
      const back = store.view.overlay?.back;
      store.set({ overlay: null });
      if (back?.isConnected) back.focus({ preventScroll: true });
      else focus();
    };
    const centred = ({ x, y }) => ({ x: x - NODE_WIDTH / 2, y: y - 2 * GRID });
    const noteAt = (place) => store.set({ overlay: { kind: "note", id: note(store, place) } });
    const search = (event, more) => show("add", event, more);
    const connect = (node, back) => {
      const [x, y] = store.view.doc.layout[node];
      const place = flow.flowToScreenPosition({ x, y: y + store.size(node).height + GRID / 2 });
      show("connect", { clientX: place.x, clientY: place.y }, { node, back });
    };

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
      /** List the connections of the node that has the focus, or else of the selected node. */
      connect: (element) => {
        const back = element.closest(".react-flow__node");
        const ids = back ? [back.dataset.id] : store.selected.ids;
        return ids.length === 1 && !isNoteId(ids[0]) ? () => connect(ids[0], back) : null;
      },
      draw: (edge) => {
        link(store, edge);
        close();
      },
      /** Enter selects the node that has the focus; on a selected note it starts writing. */
      open: (element) => {
        const id = element.closest(".react-flow__node")?.dataset.id;
        if (!id) return null;
        return () => (isNoteId(id) && store.selected.ids.includes(id) ? store.set({ overlay: { kind: "note", id } }) : store.select([id]));
      },
      onPointerDown: (event) => event.target.closest("input, textarea, button, .overlay, .react-flow__node") || focus(),
      /** A node reached by Tab is brought into view. */
      onFocus: ({ target }) => {
        if (!target.matches(".react-flow__node:focus-visible")) return;
        const { id } = target.dataset;
        if (!isWithin(stage.current.getBoundingClientRect(), flow.getViewport(), boxOf(store, id))) centre(store, flow, id);
      },
      onDoubleClick: (event) => event.target.classList.contains("react-flow__pane") && search(event),
      onReconnectStart: (_, edge) => (loose = edgeOf(edge)),
      onConnectStart: (_, { nodeId, handleId, handleType }) => {
        const doc = loose ? disconnect(store.view.doc, loose) : store.view.doc;
        store.set({ pulled: { end: `${nodeId}.${handleId}`, side: handleType, doc } });
      },
      onConnectEnd: (event, { fromHandle, toHandle, isValid }) => {
        store.set({ pulled: null });
        if (loose) {
          loose = null;
          return focus(); // the edge that had the focus may have been replaced
        }
        const pane = event.target.closest?.(".react-flow__pane") ?? pointed(stage.current, event);
        if (isValid || toHandle || fromHandle?.type !== "source" || !pane) return;
        const from = `${fromHandle.nodeId}.${fromHandle.id}`;
        const type = outputAt(store.view.doc, store.view.rules, from)?.type;
        if (type) search(event, { from, portType: type });
      },
      onNodeMenu: (event, id) => {
        event.preventDefault();
        if (id && !store.selected.ids.includes(id)) store.select([id]);
        show("menu", event, { items: nodeItems(store, id, connect) });
      },
      onEdgeMenu: (event, edge) => {
        event.preventDefault();
        store.selectEdge(edge.id);
        show("menu", event, { items: [{ label: "Delete connection", keys: "Del", run: () => removeSelected(store) }] });
      },
      onPaneMenu: (event) => {
        event.preventDefault();
        const place = toFlow(event);
        const again = { clientX: event.clientX, clientY: event.clientY };
        show("menu", event, {
          items: [
            { label: "Add a node…", keys: "/", run: () => search(again) },
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

function nodeItems(store, id, connect) {
  const run = id && !isNoteId(id);
  return [
    ...(run
      ? [
          { label: "Run to here", run: () => store.trigger("run", { node: id, direction: "to" }) },
          { label: "Run from here", run: () => store.trigger("run", { node: id, direction: "from" }) },
          null,
          { label: "Connect…", keys: "E", run: () => connect(id) },
        ]
      : []),
    { label: "Copy", keys: "Ctrl C", run: () => copySelected(store) },
    { label: "Duplicate", keys: "Ctrl D", run: () => duplicateSelected(store) },
    { label: "Delete", keys: "Del", run: () => removeSelected(store) },
  ];
}

/** Keep the centre of the view when the height of the canvas changes. */
function useSteadyCentre(home, height, flow) {
  const before = useRef({});
  useLayoutEffect(() => {
    const now = home.current.clientHeight;
    const { x, y, zoom } = flow.getViewport();
    if (before.current.height && before.current.height !== height) flow.setViewport({ x, y: y + (now - before.current.now) / 2, zoom });
    before.current = { height, now };
  }, [home, height, flow]);
}

/** Bring the node into view that Python wants to show. */
function useReveal(flow) {
  const store = useStore();
  const reveal = useView((view) => view.reveal);
  useEffect(() => {
    if (reveal && store.view.doc.nodes[reveal.node]) centre(store, flow, reveal.node);
  }, [reveal, flow, store]);
}

/** Move a node to the middle without changing the zoom. */
function centre(store, flow, id) {
  const { x, y, width, height } = boxOf(store, id);
  flow.setCenter(x + width / 2, y + height / 2, { zoom: flow.getZoom(), duration: 200 });
}

function boxOf(store, id) {
  const node = store.view.nodes.find((one) => one.id === id);
  const { width, height } = isNoteId(id) ? node : store.size(id);
  return { ...node.position, width, height };
}
