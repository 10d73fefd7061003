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

const finished = ({ result, text }) => result || text || null;

const LINES = {
  idle: ({ text }) => text || null,
  queued: () => "Queued",
  running: ({ text, progress }) => [progress == null ? null : `${Math.round(progress * 100)} %`, text || "Running"].filter(Boolean).join(" · "),
  done: finished,
  cached: finished,
  failed: ({ text }) => text || "Failed",
  skipped: ({ text }) => text || "Skipped",
};

/** The second line of a node: its result, what it does, or why it failed; null if there is nothing to show. */
export const stateLine = (state) => LINES[state.state]?.(state) ?? null;

/** The small print at the state of a finished node: how long it ran, or that it did not have to. */
export function smallPrint({ state, seconds }) {
  if (state === "cached") return "cached";
  return state === "done" && seconds != null ? duration(seconds) : "";
}

/** The state of a node for its tooltip: in a word, and how long it ran. */
export function stateTitle(state) {
  const time = state.state === "done" ? smallPrint(state) : "";
  return time ? `Done in ${time}` : STATE_TITLES[state.state];
}

/** A node for screen readers: its title, its state, its headline and its line. */
export function ariaLabelOf(title, state, bypassed = false) {
  const about = [state.headline, stateLine(state)].filter(Boolean).join(", ");
  return `${title}, ${bypassed ? "bypassed" : state.state}${about ? `: ${about}` : ""}`;
}

/** The states of a group's nodes as one: {state, done, count}. */
export function groupState(states) {
  const count = (name) => states.filter(({ state }) => state === name).length;
  const done = count("done") + count("cached");
  const whole = { done, count: states.length };
  if (count("failed")) return { state: "failed", ...whole };
  if (count("running") || (count("queued") && done)) return { state: "running", ...whole };
  if (count("queued")) return { state: "queued", ...whole };
  if (count("skipped")) return { state: "skipped", ...whole };
  if (done < states.length) return { state: "idle", ...whole };
  return { state: count("cached") === states.length ? "cached" : "done", ...whole };
}
