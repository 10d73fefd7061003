// What the user arranges around the stage: the palette at its left and the node panel at its right.
// The browser remembers it for all pipelines. The panel itself is drawn by Streamlit: a style sheet
// of the page reads what `showPanel` sets on the root element.

const KEY = "sylva-frame";
export const PALETTE = { least: 150, most: 360, usual: 172 };
export const PANEL = { least: 320, share: 0.6, usual: 420 };

const clamp = (value, least, most) => Math.round(Math.max(least, Math.min(most, value)));

/** The widest that the panel may be: a share of the window. */
export const widestPanel = (windowWidth) => Math.max(PANEL.least, Math.round(PANEL.share * windowWidth));

/** A frame with every value present and within its bounds. */
export function cleanFrame({ palette, paletteWidth, panel, panelWidth } = {}, windowWidth) {
  const number = (value, usual) => (Number.isFinite(value) ? value : usual);
  return {
    palette: palette !== false,
    paletteWidth: clamp(number(paletteWidth, PALETTE.usual), PALETTE.least, PALETTE.most),
    panel: panel === true,
    panelWidth: clamp(number(panelWidth, PANEL.usual), PANEL.least, widestPanel(windowWidth)),
  };
}

const windowWidth = () => globalThis.innerWidth ?? 1440;

export function loadFrame() {
  try {
    return cleanFrame(JSON.parse(localStorage.getItem(KEY)) ?? {}, windowWidth());
  } catch {
    return cleanFrame({}, windowWidth()); // the storage is forbidden, or holds something else
  }
}

export function saveFrame(frame) {
  const clean = cleanFrame(frame, windowWidth());
  try {
    localStorage.setItem(KEY, JSON.stringify(clean));
  } catch {
    // it holds for this page only
  }
  return clean;
}

/** Show the panel as the frame says. Returns a function that removes all traces of it. */
export function showPanel({ panel, panelWidth }, root = document.documentElement) {
  root.dataset.sylvaPanel = panel ? "open" : "closed";
  root.style.setProperty("--sylva-panel-width", `${panelWidth}px`);
  return () => {
    delete root.dataset.sylvaPanel;
    root.style.removeProperty("--sylva-panel-width");
  };
}

/** Show the panel of another node from its top. */
export function scrollPanelUp() {
  const panel = document.querySelector(".st-key-panel");
  if (panel) panel.scrollTop = 0;
}
