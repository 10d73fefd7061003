// What a node says about its state, in one line.

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const WORDS = {
  queued: () => "Queued",
  running: ({ text, progress }) => [progress == null ? null : `${Math.round(progress * 100)} %`, text || "Running"].filter(Boolean).join(" · "),
  done: ({ seconds, text }) => (seconds == null ? "Done" : `Done in ${duration(seconds)}`) + (text ? ` · ${text}` : ""),
  cached: ({ text }) => (text ? `Cached · ${text}` : "Cached"),
  failed: ({ text }) => text || "Failed",
  skipped: ({ text }) => text || "Skipped",
};

/** The line under a node's title; null for an idle node. */
export const stateLine = (state) => WORDS[state.state]?.(state) ?? null;
