// Line icons on a 16 × 16 grid, in the colour of the text around them.

const PATHS = {
  // categories
  Data: "M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
  Prepare: "M2 4.5h5m4 0h3M2 11.5h2m4 0h6M9 2.8v3.4M6 9.8v3.4",
  Train: "M8 14V9M8 2 3.5 7h2L3 10.5h10L10.5 7h2z",
  Predict: "M2 8h8M7 4.5 10.5 8 7 11.5M13.5 2.5v11",
  Evaluate: "M2.5 12.5a6 6 0 1 1 11 0M8 9.5l2.8-3.2M8 10.5a.6.6 0 1 0 0-1.2.6.6 0 0 0 0 1.2",
  Save: "M8 2v7.5M4.8 6.5 8 9.7l3.2-3.2M2.5 11v2.5h11V11",
  other: "M8 2.5 13 5.3v5.4L8 13.5 3 10.7V5.3zM3 5.3 8 8l5-2.7M8 8v5.5",
  // toolbar and menus
  undo: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H6",
  redo: "M10.5 3l3 3-3 3M13.5 6h-7a4 4 0 0 0 0 8H10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  layout: "M2 3h4v3H2zM2 10h4v3H2zM10 6.5h4v3h-4zM6 4.5h2v7H6M8 8h2",
  note: "M2.5 2.5h11v7l-4 4h-7zM9.5 13.5v-4h4",
  remove: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.7v4M9.3 6.7v4",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10M10.7 10.7 14 14",
  // states
  queued: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 4.8V8l2.2 1.6",
  running: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2",
  done: "M3 8.5 6.5 12 13 4.5",
  cached: "M9 1.8 3.5 9h4L7 14.2 12.5 7h-4z",
  failed: "M4 4l8 8M12 4l-8 8",
  skipped: "M3 4.5 7 8l-4 3.5zM9 4.5 13 8l-4 3.5z",
};

export function Icon({ name, size = 16 }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name] ?? PATHS.other} />
    </svg>
  );
}
