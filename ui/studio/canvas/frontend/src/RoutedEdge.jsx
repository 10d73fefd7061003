import { BaseEdge, getBezierPath } from "@xyflow/react";
import { memo } from "react";
export const RoutedEdge = memo(function RoutedEdge(props) {
  const [path] = getBezierPath(props);
  return <BaseEdge path={path} interactionWidth={20} />;
});
