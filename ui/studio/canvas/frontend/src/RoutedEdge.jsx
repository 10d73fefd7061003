// An edge on its way around the nodes. While one of its nodes is dragged its way is found anew; the ways
// of all other edges are found when the node is dropped.

import { BaseEdge } from "@xyflow/react";
import { memo, useMemo } from "react";
import { useStore, useView } from "./context.js";
import { pathOf, route } from "./route.js";

const NEAR = 3; // pixels between a port as it is drawn and as it is computed

export const RoutedEdge = memo(function RoutedEdge({ id, source, target, sourceX, sourceY, targetX, targetY, interactionWidth }) {
  const store = useStore();
  const way = useView((view) => view.routed.ways.get(id));
  const path = useMemo(() => {
    const [start, end] = [{ x: sourceX, y: sourceY }, { x: targetX, y: targetY }];
    return pathOf(start, end, way ? wayNow(store.view.routed, way, source, target, start, end) : { points: null });
  }, [store, way, source, target, sourceX, sourceY, targetX, targetY]);
  return <BaseEdge path={path} interactionWidth={interactionWidth} />;
});

/** The way between the ports where they are now: moved along if both have moved by the same, else found anew. */
function wayNow({ boxes }, way, source, target, start, end) {
  const [moved, other] = [from(way.start, start), from(way.end, end)];
  if (Math.abs(moved.x - other.x) + Math.abs(moved.y - other.y) < NEAR) {
    const points = way.points?.slice(1, -1).map(({ x, y }) => ({ x: x + moved.x, y: y + moved.y }));
    return { points: points ? [start, ...points, end] : null };
  }
  // For a moment React Flow still draws an edge at a node that a collapsed group has replaced.
  if (!boxes.has(source) || !boxes.has(target)) return { points: null };
  const own = [[source, moved], [target, other]].map(([id, { x, y }]) => ({ ...boxes.get(id), x: boxes.get(id).x + x, y: boxes.get(id).y + y }));
  const others = [...boxes].filter(([id]) => id !== source && id !== target).map(([, box]) => box);
  return route(start, end, own, others);
}

const from = (a, b) => ({ x: b.x - a.x, y: b.y - a.y });
