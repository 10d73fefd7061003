// The state of a node as text.

export function duration(seconds) {
  const milliseconds = Math.round(seconds * 1000);
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 9950) return `${seconds.toFixed(1)} s`;
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  const minutes = Math.floor(rounded / 60);
  return minutes < 60 ? `${minutes} min ${rounded % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const STATE_TITLES = {
  queued: "Queued",
  running: "Running",
  done: "Done",
  cached: "Cached: reused from an earlier run",
  failed: "Failed",
  skipped: "Skipped",
};

const LINES = {
  idle: ({ text }) => text || null,
  queued: () => "Queued",
  running: ({ text, progress }) => [progress == null ? null : `${Math.round(progress * 100)} %`, text || "Running"].filter(Boolean).join(" · "),
  done: ({ seconds, text }) => (seconds == null ? "Done" : `Done in ${duration(seconds)}`) + (text ? ` · ${text}` : ""),
  cached: ({ text }) => (text ? `Cached · ${text}` : "Cached"),
  failed: ({ text }) => text || "Failed",
  skipped: ({ text }) => text || "Skipped",
};

/** A node for screen readers: its title, its state, and the text of the state. */
export const ariaLabelOf = (title, id, { state, text }) => `${title} (${id}), ${state}${text ? `: ${text}` : ""}`;

/** The line under a node's title; null for an idle node without text. */
export const stateLine = (state) => LINES[state.state]?.(state) ?? null;
