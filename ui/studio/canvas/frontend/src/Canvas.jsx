// The editor: the palette on the left, React Flow in the middle, the grip of the node panel on the
// right, and overlays.

import { Background, BackgroundVariant, ReactFlow, SelectionMode, applyEdgeChanges, applyNodeChanges, useReactFlow, useStore as useFlow } from "@xyflow/react";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import {
  add, addAfterSelected, connectable, copySelected, duplicateSelected, groupSelected, link, note, pasteCopy, removeSelected, retarget, selectAll, selectedNodes, tidy,
  toggleBypass, toggleGroup, ungroupSelected,
} from "./actions.js";
import { Connect } from "./Connect.jsx";
import { useStore, useView } from "./context.js";
import { dropHandlers } from "./drop.js";
import { NODE_WIDTH, boxOf, edgeOf } from "./flow.js";
import { Grip } from "./Grip.jsx";
import { GroupNode } from "./GroupNode.jsx";
import { keyHandler } from "./keyboard.js";
import { Menu, menuRoom } from "./Menu.jsx";
import { ConnectionHint, EmptyHint, Notice, Tip } from "./Messages.jsx";
import { GRID, disconnect, groupAt, isGroupId, isNoteId } from "./model.js";
import { NoteNode } from "./NoteNode.jsx";
import { Palette, ViewButtons } from "./Palette.jsx";
import { QuickAdd } from "./QuickAdd.jsx";
import { RoutedEdge } from "./RoutedEdge.jsx";
import { objection, outputAt } from "./rules.js";
import { PipelineNode } from "./PipelineNode.jsx";
import { CLEAR, isWithin, openingView, shifted } from "./view.js";

const pixels = (sides) => Object.fromEntries(Object.entries(sides).map(([side, size]) => [side, `${size}px`]));
const FIT = { padding: pixels(CLEAR), maxZoom: 1, duration: 200 };
const VIEW_ONLY = { nodesDraggable: false, nodesConnectable: false, edgesReconnectable: false, edgesFocusable: false };
const FAR = 0.3; // below this zoom small print is not readable
const ROOM = { add: { x: 264, y: 324 }, connect: { x: 428, y: 324 } }; // the size of a list on the stage
const PANEL_OPENS = 1000; // milliseconds within which the stage gets its new size when the panel opens

// These must always be the same objects: after a change React Flow updates every node, port and edge.
// React Flow has its own style for a type that is named group.
const SETTINGS = {
  nodeTypes: { node: PipelineNode, note: NoteNode, nodeGroup: GroupNode },
  edgeTypes: { routed: RoutedEdge },
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
  const readOnly = useView((view) => view.readOnly);
  const far = useFlow((state) => state.transform[2] < FAR);
  const home = useRef(null);
  const stage = useRef(null);
  const flow = useReactFlow();
  const ui = useScreen(store, home, stage, flow);
  const first = useFirstView(store, stage);
  useKeepFocus(home);

  const onKeyDown = useMemo(() => keyHandler(store, ui), [store, ui]);
  const drop = useMemo(() => dropHandlers(store, stage, flow.screenToFlowPosition, ui.focus), [store, flow, ui]);
  const closeElsewhere = (event) => overlay && !event.target.closest(".overlay") && ui.close();

  return (
    <div ref={home} className="sylva-canvas" style={{ height }} tabIndex={-1} onKeyDown={onKeyDown} onPointerDownCapture={closeElsewhere}>
      {readOnly ? <ViewButtons fit={ui.fit} /> : <Palette onAdd={ui.addInMiddle} onNote={ui.note} fit={ui.fit} />}
      <div ref={stage} className={`stage${far ? " far" : ""}`} onDoubleClick={ui.onDoubleClick} onPointerDown={ui.onPointerDown} onFocus={ui.onFocus} onScrollCapture={ui.onScroll} {...drop}>
        {first && <Flow ui={ui} first={first} />}
        <EmptyHint />
        <ConnectionHint />
        <Tip />
        <Notice />
        {overlay?.kind === "add" && <QuickAdd key={overlay.id} {...overlay} onChoose={ui.choose} onClose={ui.close} />}
        {overlay?.kind === "connect" && <Connect key={overlay.id} {...overlay} onChoose={ui.draw} onClose={ui.close} />}
        {overlay?.kind === "menu" && <Menu key={overlay.id} {...overlay} onClose={ui.close} />}
      </div>
      {!readOnly && <Grip />}
    </div>
  );
}

/** Keep the focus on the canvas when the node or edge that has it is removed: the next key is for the canvas, too. */
function useKeepFocus(home) {
  useEffect(() => {
    const canvas = home.current;
    let last = null; // the element that got the focus last
    const remember = ({ target }) => (last = target);
    const watcher = new MutationObserver(() => {
      if (!last || last.isConnected) return;
      last = null;
      if (document.activeElement === document.body) canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("focusin", remember);
    watcher.observe(canvas, { childList: true, subtree: true });
    return () => {
      canvas.removeEventListener("focusin", remember);
      watcher.disconnect();
    };
  }, [home]);
}

/** React Flow with the document: the only part that is drawn again during a drag. */
function Flow({ ui, first }) {
  const store = useStore();
  const nodes = useView((view) => view.nodes);
  const edges = useView((view) => view.edges);
  const readOnly = useView((view) => view.readOnly);
  useReveal(ui);
  useInView(ui);
  const handlers = useMemo(() => (readOnly ? viewHandlers : flowHandlers)(store, ui), [store, ui, readOnly]);
  return (
    <ReactFlow nodes={nodes} edges={edges} {...SETTINGS} {...(readOnly ? VIEW_ONLY : {})} defaultViewport={first} {...handlers}>
      <Background variant={BackgroundVariant.Dots} gap={GRID} size={1.5} />
    </ReactFlow>
  );
}

/** The first viewport, once the stage has a size: the last one if it shows a node, else the beginning of the pipeline. */
function useFirstView(store, stage) {
  const [first, setFirst] = useState(null);
  useLayoutEffect(() => {
    const measure = () => {
      const { width, height } = stage.current.getBoundingClientRect();
      if (!width || !height) return;
      watcher.disconnect();
      const viewport = firstView(store, { width, height });
      store.moveViewport(viewport);
      setFirst(viewport);
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(stage.current);
    measure();
    return () => watcher.disconnect();
  }, [store, stage]);
  return first;
}

function firstView(store, room) {
  const { viewport, nodes, reveal } = store.view;
  if (!nodes.length) return viewport ?? { x: 40, y: 40, zoom: 1 };
  const boxes = nodes.map(boxOf);
  const shows = viewport && boxes.some((box) => isWithin(room, viewport, box));
  const opening = shows ? viewport : openingView(boxes, room);
  const revealed = reveal && nodes.find(({ id }) => id === reveal.node);
  return revealed ? shifted(room, opening, boxOf(revealed)) : opening;
}

// Only an edit of the document removes nodes and edges, not React Flow by itself.
const withoutRemovals = (changes) => changes.filter(({ type }) => type !== "remove");

/** The changes, and those of the nodes in a frame that is dragged. */
function withMembers(changes, { doc, nodes }) {
  const frames = changes.filter(({ type, id, position }) => type === "position" && position && isGroupId(id) && !groupAt(doc, id)?.collapsed);
  if (!frames.length) return changes;
  const known = new Map(nodes.map((node) => [node.id, node]));
  const moved = new Set(changes.filter(({ type }) => type === "position").map(({ id }) => id));
  const along = frames.flatMap(({ id, position, dragging }) => {
    const before = known.get(id).position;
    const members = groupAt(doc, id).nodes.filter((member) => !moved.has(member));
    return members.map((member) => {
      const { x, y } = known.get(member).position;
      return { id: member, type: "position", dragging, position: { x: x + position.x - before.x, y: y + position.y - before.y } };
    });
  });
  return [...changes, ...along];
}

const viewHandlers = (store, ui) => ({
  onNodesChange: (changes) =>
    store.nodesChanged(
      applyNodeChanges(withMembers(withoutRemovals(changes), store.view), store.view.nodes),
      changes.some(({ type }) => type === "select"),
    ),
  onEdgesChange: (changes) => store.edgesChanged(applyEdgeChanges(withoutRemovals(changes), store.view.edges)),
  onMoveEnd: (_, viewport) => store.moveViewport(viewport),
  onNodeClick: ui.onNodeClick,
});

const flowHandlers = (store, ui) => ({
  ...viewHandlers(store, ui),
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
  onNodeContextMenu: (event, node) => ui.onNodeMenu(event, node.id),
  onSelectionContextMenu: (event) => ui.onNodeMenu(event, null),
  onEdgeContextMenu: ui.onEdgeMenu,
  onPaneContextMenu: ui.onPaneMenu,
});

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
    const rename = (id) => store.set({ overlay: { kind: "rename", id } });
    /** Open the node panel. The stage becomes smaller then; the node stays in view. */
    const openPanel = (id) => {
      if (store.view.readOnly || store.view.frame.panel) return;
      inView.id = id;
      inView.until = performance.now() + PANEL_OPENS;
      store.arrange({ panel: true });
    };
    /** Bring a node or group into view, if it is not. */
    const bringIntoView = (id, duration = 0) => {
      const node = store.view.nodes.find((one) => one.id === id);
      const viewport = flow.getViewport();
      const after = node ? shifted(stage.current.getBoundingClientRect(), viewport, boxOf(node)) : viewport;
      if (after !== viewport) flow.setViewport(after, { duration });
    };
    const inView = { id: null, until: 0 };
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
      openPanel,
      bringIntoView,
      /** After a change of the stage's size, the node for which the panel was opened comes into view again. */
      stageResized: () => inView.until > performance.now() && bringIntoView(inView.id),
      /** Add a node from the palette. After a double click the next keys are for the node; the keyboard stays in the palette. */
      addInMiddle: (type, byMouse = false) => {
        const shift = 2 * GRID * (Object.keys(store.view.doc.nodes).length % 6);
        const { x, y } = centred(toFlow(middle()));
        bringIntoView(addAfterSelected(store, type, { x: x + shift, y: y + shift }), 200);
        if (byMouse) focus();
      },
      choose: (type) => {
        const { place, from } = store.view.overlay;
        const id = from ? add(store, type, place, from) : addAfterSelected(store, type, centred(place));
        close();
        bringIntoView(id, 200);
      },
      /** Rename the node or group that has the focus, or else the selected one. */
      rename: (element) => {
        const focused = element.closest(".react-flow__node")?.dataset.id;
        const ids = focused ? [focused] : store.selected.ids;
        return ids.length === 1 && !isNoteId(ids[0]) ? () => rename(ids[0]) : null;
      },
      group: () => {
        const id = groupSelected(store);
        if (id) rename(id);
      },
      /** List the connections of the node that has the focus, or else of the selected node. */
      connect: (element) => {
        const id = connectable(store, element);
        return id && (() => connect(id, element.closest(".react-flow__node")));
      },
      draw: (edge) => {
        link(store, edge);
        close();
      },
      /** Enter selects the node that has the focus and opens the panel; on a selected note it starts writing. */
      open: (element) => {
        const id = element.closest(".react-flow__node")?.dataset.id;
        if (!id) return null;
        if (isNoteId(id) && store.selected.ids.includes(id)) return () => store.set({ overlay: { kind: "note", id } });
        return () => {
          store.select([id]);
          if (store.view.doc.nodes[id]) openPanel(id);
        };
      },
      /** A click on a node opens the panel, unless it adds the node to a selection. */
      onNodeClick: (event, { id }) => {
        if (store.view.doc.nodes[id] && !event.shiftKey && !event.ctrlKey && !event.metaKey) openPanel(id);
      },
      onPointerDown: (event) => event.target.closest("input, textarea, button, .overlay, .react-flow__node") || focus(),
      /** A node reached by Tab is brought into view. */
      onFocus: ({ target }) => {
        if (!target.matches(".react-flow__node:focus-visible")) return;
        bringIntoView(target.dataset.id, 200);
      },
      /**
       * The browser scrolls an element into view that gets the focus, or that a screen reader or a test
       * wants to use. React Flow takes that back, and the element would jump away: move the view instead.
       */
      onScroll: ({ target }) => {
        const { scrollLeft, scrollTop } = target;
        if (!target.matches(".react-flow") || (!scrollLeft && !scrollTop)) return;
        target.scrollTo({ left: 0, top: 0, behavior: "instant" });
        const { x, y, zoom } = flow.getViewport();
        flow.setViewport({ x: x - scrollLeft, y: y - scrollTop, zoom });
      },
      onDoubleClick: (event) => !store.view.readOnly && event.target.classList.contains("react-flow__pane") && search(event),
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
        show("menu", event, { items: nodeItems(store, id, { connect, rename, openPanel }) });
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
            null,
            { label: "Layout", run: () => tidy(store) },
            { label: "Fit", keys: "F", run: () => flow.fitView(FIT) },
            { label: store.view.frame.palette ? "Collapse palette" : "Expand palette", run: () => store.arrange({ palette: !store.view.frame.palette }) },
          ],
        });
      },
    };
  }, [store, home, stage, flow]);
}

const pointed = (stage, event) => stage.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest(".react-flow__pane");

/** The menu of a node, group or note (`id`), or of all that is selected (null). */
function nodeItems(store, id, { connect, rename, openPanel }) {
  const { doc } = store.view;
  const nodes = selectedNodes(store);
  const group = id && groupAt(doc, id);
  const bypassed = nodes.length > 0 && nodes.every((node) => doc.nodes[node].bypass);
  const ofNode = [
    { label: "Open settings and output", keys: "Enter", run: () => openPanel(id) },
    { label: "Rename", keys: "F2", run: () => rename(id) },
    null,
    { label: "Run to here", run: () => store.trigger("run", { node: id, direction: "to" }) },
    { label: "Run from here", run: () => store.trigger("run", { node: id, direction: "from" }) },
    null,
    { label: "Connect…", keys: "E", run: () => connect(id) },
  ];
  const ofGroup = [
    { label: "Rename", keys: "F2", run: () => rename(id) },
    { label: group?.collapsed ? "Expand" : "Collapse", run: () => toggleGroup(store, id) },
    { label: "Ungroup", run: () => ungroupSelected(store) },
    null,
  ];
  const ofNodes = [
    { label: bypassed ? "Do not bypass" : "Bypass", keys: "B", run: () => toggleBypass(store) },
    { label: "Group", keys: "Ctrl G", run: () => rename(groupSelected(store)) },
    null,
  ];
  return [
    ...(id && doc.nodes[id] ? ofNode : []),
    ...(group ? ofGroup : []),
    ...(nodes.length ? ofNodes : []),
    { label: "Copy", keys: "Ctrl C", run: () => copySelected(store) },
    { label: "Paste", keys: "Ctrl V", run: () => pasteCopy(store) },
    { label: "Duplicate", keys: "Ctrl D", run: () => duplicateSelected(store) },
    { label: "Delete", keys: "Del", run: () => removeSelected(store) },
  ];
}

/** Bring the node into view that Python wants to show. */
function useReveal(ui) {
  const store = useStore();
  const reveal = useView((view) => view.reveal);
  useEffect(() => {
    if (reveal && store.view.doc.nodes[reveal.node]) ui.bringIntoView(reveal.node, 200);
  }, [reveal, ui, store]);
}

/** Keep the node in view for which the panel was opened. */
function useInView(ui) {
  const width = useFlow((state) => state.width);
  useEffect(() => {
    ui.stageResized();
  }, [width, ui]);
}
