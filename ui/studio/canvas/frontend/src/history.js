// Undo and redo as lists of whole documents. Documents share their equal parts, so this is small.

const MAX_STEPS = 100;

export class History {
  past = [];
  future = [];
  #open = null;

  /** Record the document before an edit. Consecutive edits with the same `series` count as one. */
  record(before, series = null) {
    if (series === null || series !== this.#open) this.past = [...this.past, before].slice(-MAX_STEPS);
    this.#open = series;
    this.future = [];
  }

  /** Return the document before the last edit, or null; redo will return `now`. */
  undo(now) {
    if (!this.past.length) return null;
    const [before, rest] = [this.past.at(-1), this.past.slice(0, -1)];
    this.#open = null;
    this.past = rest;
    this.future = [...this.future, now];
    return before;
  }

  redo(now) {
    if (!this.future.length) return null;
    const [after, rest] = [this.future.at(-1), this.future.slice(0, -1)];
    this.#open = null;
    this.future = rest;
    this.past = [...this.past, now];
    return after;
  }

  /** Every node name in the history. A new node gets another name, or undo would confuse the two. */
  names() {
    return new Set([...this.past, ...this.future].flatMap((doc) => Object.keys(doc.nodes)));
  }
}
