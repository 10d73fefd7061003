// The edges that the user drags: of the palette, and of the node panel, which also opens and closes there.

import { useLayoutEffect } from "react";
import { useStore, useView } from "./context.js";
import { PALETTE, PANEL, scrollPanelUp, showPanel, widestPanel } from "./frame.js";
import { Icon } from "./icons.jsx";

const KEY_STEP = 24;

/** An edge that is dragged, or moved by arrow keys. `grows` is 1 if the part grows to the right, else -1. */
function Separator({ name, className, value, least, most, grows, onChange }) {
  const onPointerDown = (event) => {
    const { currentTarget: edge, clientX: start, pointerId } = event;
    event.preventDefault();
    event.stopPropagation();
    edge.focus({ preventScroll: true });
    edge.setPointerCapture(pointerId);
    const move = ({ clientX }) => onChange(value + grows * (clientX - start));
    const end = () => edge.removeEventListener("pointermove", move);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", end, { once: true });
  };
  const onKeyDown = (event) => {
    const places = { ArrowLeft: value - grows * KEY_STEP, ArrowRight: value + grows * KEY_STEP, Home: least, End: most };
    if (!(event.key in places)) return;
    event.preventDefault();
    event.stopPropagation();
    onChange(places[event.key]);
  };
  return (
    <div
      className={`separator ${className}`}
      role="separator"
      tabIndex={0}
      aria-label={name}
      title={name}
      aria-orientation="vertical"
      aria-valuenow={Math.round(value)}
      aria-valuemin={least}
      aria-valuemax={most}
      onPointerDown={onPointerDown}
      onKeyDown={onKeyDown}
    />
  );
}

export function PaletteEdge() {
  const store = useStore();
  const width = useView((view) => view.frame.paletteWidth);
  const onChange = (paletteWidth) => store.arrange({ paletteWidth });
  return <Separator name="Resize palette" className="palette-edge" value={width} least={PALETTE.least} most={PALETTE.most} grows={1} onChange={onChange} />;
}

/** The strip between the stage and the node panel. */
export function Grip() {
  const store = useStore();
  const frame = useView((view) => view.frame);
  const selected = useView((view) => view.nodes.filter((node) => node.selected).map(({ id }) => id).join());
  useLayoutEffect(() => showPanel(frame), [frame]);
  useLayoutEffect(() => scrollPanelUp(), [selected]);
  useLayoutEffect(() => {
    const onResize = () => store.arrange({});
    window.addEventListener("resize", onResize);
    return () => window.removeEventListener("resize", onResize);
  }, [store]);
  const { panel, panelWidth } = frame;
  const name = panel ? "Close panel" : "Open panel";
  return (
    <div className={`grip${panel ? " open" : ""}`}>
      {panel && (
        <Separator
          name="Resize panel"
          className="panel-edge"
          value={panelWidth}
          least={PANEL.least}
          most={widestPanel(window.innerWidth)}
          grows={-1}
          onChange={(width) => store.arrange({ panelWidth: width })}
        />
      )}
      <button type="button" aria-label={name} title={name} aria-expanded={panel} onClick={() => store.arrange({ panel: !panel })}>
        <Icon name={panel ? "right" : "left"} size={12} />
      </button>
    </div>
  );
}
