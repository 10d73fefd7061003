// Undo and redo as lists of whole documents. Documents share what they have in common, so this is small.

const LONGEST = 100;

export class History {
  past = [];
  future = [];
  #open = null;

  /** Remember the document as it was before an edit. Edits in a row with the same `series` count as one. */
  record(before, series = null) {
    if (series === null || series !== this.#open) this.past = [...this.past, before].slice(-LONGEST);
    this.#open = series;
    this.future = [];
  }

  /** The document before the last edit, or null; `now` is what redo will bring back. */
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

  /** Every node name in it; a new node takes none of them, or undo would mix the two up. */
  names() {
    return new Set([...this.past, ...this.future].flatMap((doc) => Object.keys(doc.nodes)));
  }
}
