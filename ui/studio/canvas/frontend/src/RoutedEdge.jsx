// An edge on its way around the nodes. While one of its nodes is dragged the way is found anew, with a
// short search; the ways of all other edges are found when the node is dropped.

import { BaseEdge } from "@xyflow/react";
import { memo, useMemo } from "react";
import { useStore, useView } from "./context.js";
import { pathOf, route } from "./route.js";

const NEAR = 3; // pixels between a port as it is drawn and as it is computed
const MOST_SEARCHES = 4;

export const RoutedEdge = memo(function RoutedEdge({ id, source, target, sourceX, sourceY, targetX, targetY, interactionWidth }) {
  const store = useStore();
  const way = useView((view) => view.routed.ways.get(id));
  const path = useMemo(() => {
    const [start, end] = [{ x: sourceX, y: sourceY }, { x: targetX, y: targetY }];
    if (!way) return pathOf(start, end, { points: null });
    const isWhereItWas = [[way.start, start], [way.end, end]].every(([a, b]) => Math.abs(a.x - b.x) + Math.abs(a.y - b.y) < NEAR);
    return isWhereItWas ? pathOf(start, end, fitted(way, start, end)) : pathOf(start, end, liveWay(store, way, source, target, start, end));
  }, [store, way, source, target, sourceX, sourceY, targetX, targetY]);
  return <BaseEdge path={path} interactionWidth={interactionWidth} />;
});

/** The way with its ends exactly at the ports. */
const fitted = ({ points }, start, end) => ({ points: points && [start, ...points.slice(1, -1), end] });

function liveWay(store, way, source, target, start, end) {
  const { boxes } = store.view.routed;
  const moved = (box, before, now) => box && { ...box, x: box.x + now.x - before.x, y: box.y + now.y - before.y };
  const own = [moved(boxes.get(source), way.start, start), moved(boxes.get(target), way.end, end)].filter(Boolean);
  const others = [...boxes].filter(([id]) => id !== source && id !== target).map(([, box]) => box);
  return route(start, end, own, others, { most: MOST_SEARCHES });
}
