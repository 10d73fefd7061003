// What a node says about its state, in one line.

export function duration(seconds) {
  const milliseconds = Math.round(seconds * 1000);
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 9950) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const STATE_TITLES = {
  queued: "Queued",
  running: "Running",
  done: "Done",
  cached: "Cached: taken from an earlier run",
  failed: "Failed",
  skipped: "Skipped",
};

const WORDS = {
  idle: ({ text }) => text || null,
  queued: () => "Queued",
  running: ({ text, progress }) => [progress == null ? null : `${Math.round(progress * 100)} %`, text || "Running"].filter(Boolean).join(" · "),
  done: ({ seconds, text }) => (seconds == null ? "Done" : `Done in ${duration(seconds)}`) + (text ? ` · ${text}` : ""),
  cached: ({ text }) => (text ? `Cached · ${text}` : "Cached"),
  failed: ({ text }) => text || "Failed",
  skipped: ({ text }) => text || "Skipped",
};

/** A node for those who hear it: what it is, its state, and what the state says. */
export const spoken = (title, id, { state, text }) => `${title} (${id}), ${state}${text ? `: ${text}` : ""}`;

/** The line under a node's title; null for an idle node with nothing to say. */
export const stateLine = (state) => WORDS[state.state]?.(state) ?? null;
