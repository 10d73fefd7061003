// The help of form fields, beside the panel and never over the field. It is shown while a field has
// the keyboard, or the mouse rests on its label.

const WAIT = 350, GAP = 20, EDGE = 8;
const forms = new Map(); // the box of each form → texts by the class of the field

export default function ({ data, parentElement }) {
  const box = parentElement.querySelector(".field-help");
  box.id ||= `field-help-${crypto.randomUUID?.() ?? Math.random()}`;
  const view = forms.get(box) ?? new Help(box);
  forms.set(box, view);
  view.texts = data ?? {};
  view.refresh();
  return () => { if (!box.isConnected) { view.leave(); forms.delete(box); } };
}

class Help {
  constructor(box) {
    this.box = box;
    this.field = null; // the element of the widget whose help is shown
    this.timer = 0;
    this.listeners = [
      ["focusin", (event) => this.show(event.target)],
      ["focusout", () => this.hide()],
      ["pointerover", (event) => this.point(event.target)],
      ["keydown", (event) => { if (event.key === "Escape") this.hide(); }],
      ["scroll", () => this.place()],
    ];
    for (const [name, listener] of this.listeners) document.addEventListener(name, listener, true);
  }

  leave() {
    this.hide();
    for (const [name, listener] of this.listeners) document.removeEventListener(name, listener, true);
  }

  fieldOf(target) {
    for (let at = target?.closest?.("[class*=st-key-]"); at; at = at.parentElement?.closest("[class*=st-key-]"))
      for (const name of at.classList) if (this.texts[name]) return [at, this.texts[name]];
    return [null, ""];
  }

  // The mouse shows the help of a label after a moment; the field with the keyboard keeps its own.
  point(target) {
    clearTimeout(this.timer);
    const label = target.closest?.('[data-testid="stWidgetLabel"]');
    const [field] = label ? this.fieldOf(label) : [null];
    if (field === this.field) return;
    this.timer = setTimeout(() => this.show(field ? label : document.activeElement), WAIT);
  }

  show(target) {
    clearTimeout(this.timer);
    const [field, text] = this.fieldOf(target);
    if (!field) return this.hide();
    if (this.field !== field) this.hide();
    this.field = field;
    this.control = field.querySelector("input, textarea, button");
    this.box.textContent = text;
    this.control?.setAttribute("aria-describedby", this.box.id);
    if (!this.box.matches(":popover-open")) this.box.showPopover();
    this.place();
  }

  hide() {
    clearTimeout(this.timer);
    if (this.control?.getAttribute("aria-describedby") === this.box.id) this.control.removeAttribute("aria-describedby");
    this.field = this.control = null;
    if (this.box.matches(":popover-open")) this.box.hidePopover();
  }

  // The form was drawn again: the field may be gone, or another element.
  refresh() {
    if (this.field && !this.field.isConnected) this.hide();
    if (!this.field) this.show(document.activeElement);
  }

  place() {
    if (!this.field) return;
    const field = this.field.getBoundingClientRect(), { width, height } = this.box.getBoundingClientRect();
    const panel = (this.field.closest(".st-key-panel") ?? this.field).getBoundingClientRect();
    const beside = panel.left - width - GAP >= EDGE;
    let top = field.top, left = panel.left - width - GAP;
    // Without room beside the panel, above the field or else below it.
    if (!beside) {
      left = field.left;
      top = field.top - height - 4 >= EDGE ? field.top - height - 4 : field.bottom + 4;
    }
    top = Math.max(EDGE, beside ? Math.min(top, innerHeight - height - EDGE) : top);
    Object.assign(this.box.style, { left: `${left}px`, top: `${top}px` });
  }
}
