// What survives a change of page: viewport, selection, undo history and unconfirmed edits. The
// sessionStorage may be full or forbidden; then the canvas works without it.

const PREFIX = "sylva-canvas:";
const MOST_STEPS = 30;
const MOST_CHARACTERS = 1_500_000;

export function load(pipeline) {
  try {
    const memory = JSON.parse(sessionStorage.getItem(PREFIX + pipeline)) ?? {};
    // A tab may remember documents from before there were groups.
    const docs = [memory.doc, memory.unconfirmed, ...(memory.past ?? []), ...(memory.future ?? [])];
    for (const doc of docs) if (doc) doc.groups ??= [];
    return memory;
  } catch {
    return {};
  }
}

/** Run a function when the browser has nothing to draw. */
export const whenIdle = globalThis.requestIdleCallback ?? ((run) => setTimeout(run));

const written = new WeakMap(); // a document never changes, so it is written out once

function asText(doc) {
  if (!written.has(doc)) written.set(doc, JSON.stringify(doc));
  return written.get(doc);
}

/** What is saved, as text, with so many steps of undo and redo. */
function withSteps({ past, future, ...memory }, steps) {
  const list = (docs) => `[${(steps ? docs.slice(-steps) : []).map(asText).join()}]`;
  return `${JSON.stringify(memory).slice(0, -1)},"past":${list(past)},"future":${list(future)}}`;
}

export function save(pipeline, memory) {
  for (let steps = MOST_STEPS; ; steps = Math.floor(steps / 2)) {
    const text = withSteps(memory, steps);
    const small = text.length <= MOST_CHARACTERS;
    try {
      if (small || steps === 0) return sessionStorage.setItem(PREFIX + pipeline, text);
    } catch {
      if (steps === 0) return undefined;
    }
  }
}

/** Remember that a canvas was closed with an unconfirmed edit; the next canvas in this tab reads it once. */
export function rememberUnsaved(pipeline) {
  try {
    sessionStorage.setItem(`${PREFIX}late`, pipeline);
  } catch {
    // without storage there is no message
  }
}

export function takeUnsaved() {
  try {
    const pipeline = sessionStorage.getItem(`${PREFIX}late`);
    sessionStorage.removeItem(`${PREFIX}late`);
    return pipeline;
  } catch {
    return null;
  }
}

let clipboard = null;

export function remember(piece) {
  clipboard = piece;
  try {
    sessionStorage.setItem(`${PREFIX}clipboard`, JSON.stringify(piece));
  } catch {
    // the copy can still be pasted on this page
  }
}

export function recall() {
  try {
    return clipboard ?? JSON.parse(sessionStorage.getItem(`${PREFIX}clipboard`));
  } catch {
    return null;
  }
}
