"""Draw the widgets of a form: one function per kind of field.

``draw_field`` chooses among them. Each draws the widget for the value at a path in the parameters.
A value that the field's widget cannot show is shown as text, so that the user can fix it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.node_types import Columns
from nodes.data.columns import KIND_TITLES
from ui.studio.forms.cards import draw_cards
from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    Hint,
    ParamPath,
    as_text,
    dotted,
    fits,
    from_text,
    value_at,
    with_value,
)
from ui.studio.forms.form import Bound, Form, heading, help_of
from ui.studio.screen_text import plain

NOT_SET = "(not set)"
"""The entry for no choice, in lists that also take what is typed."""
PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)
"""A name that needs no quotes in SQL."""
SHOW_PROBLEMS_THEMSELVES = ("table", "choice or table", "cards")
"""The kinds that show their problems beside each row or card."""


def draw_field(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw the label, the widget and the problems of a field.

    They are in a container of their own: when a problem appears, the browser keeps the widgets
    below, with what is being typed there.
    """
    with st.container(gap="xxsmall"):
        _draw_field(form, spec, path)


def _draw_field(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw the widget that fits the value, and the problems."""
    value = form.value(path)
    is_empty = value is MISSING or (value is None and spec.optional)
    if not is_empty and not fits(spec, value):
        _raw(form, spec, path)
        form.show_problems(path)
        return
    WIDGETS[spec.kind](form, spec, path)
    if spec.kind not in SHOW_PROBLEMS_THEMSELVES:
        form.show_problems(path)


def _label(spec: FieldSpec) -> str:
    """Return the title of a field, safe for Markdown."""
    return plain(spec.title)


def _placeholder(form: Form, spec: FieldSpec) -> str:
    """Return what an empty field shows."""
    if spec.name in form.placeholders:
        return form.placeholders[spec.name]
    if spec.required:
        return "required"
    return f"default: {spec.default_text}" if spec.default_text else "not set"


def _or_default(spec: FieldSpec, value: Any) -> Any:
    """Return the value, or the default of the field if it is missing."""
    return spec.default if value is MISSING else value


# One value


def _raw(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw any value as text."""
    bound = form.widget(path, as_text, partial(from_text, spec), ".raw")
    _text_input(form, spec, bound)


def _text_input(
    form: Form, spec: FieldSpec, bound: Bound, draw: Callable[..., Any] = st.text_input
) -> None:
    """Draw a text field with the help and placeholder of the field."""
    form.explain(bound, help_of(spec))
    draw(
        _label(spec),
        bound.initial,
        placeholder=_placeholder(form, spec),
        **bound.kwargs,
    )


def _json(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a value without its own widget as JSON."""
    bound = form.widget(path, as_text, partial(from_text, spec))
    _text_input(form, spec, bound, draw=partial(st.text_area, height=100))


def _text(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a text field, or a list of columns, files, models or sheets to choose from."""
    if spec.hint.choose == "column" and form.columns is not None:
        _one_of(form, spec, path, [column.name for column in form.columns], accepts_new=False)
    elif spec.hint.choose in ("file", "model"):
        _one_of(form, spec, path, form.files, accepts_new=True)
    elif spec.hint.choose == "sheet":
        _one_of(form, spec, path, form.sheets, accepts_new=True)
    else:
        draw = partial(st.text_area, height=140) if spec.hint.lines else st.text_input
        _text_input(form, spec, form.widget(path, as_text, partial(from_text, spec)), draw)
        if spec.hint.choose == "columns" and form.columns:
            st.caption(plain(f"Columns: {written_columns(form.columns)}"))


def written_columns(columns: Columns, most: int = 40) -> str:
    """Return columns with their types, each as it is written in an expression or a query."""
    texts = []
    for column in columns[:most]:
        name = column.name
        if not PLAIN_NAME.fullmatch(name):
            name = '"{}"'.format(name.replace('"', '""'))
        texts.append(f"{name} ({KIND_TITLES[column.kind]})")
    more = f" and {len(columns) - most:,} more" if len(columns) > most else ""
    return ", ".join(texts) + more


def _one_of(
    form: Form, spec: FieldSpec, path: ParamPath, options: Sequence[str], *, accepts_new: bool
) -> None:
    """Draw a choice among names; with ``accepts_new`` another name can be typed.

    The names are shown unchanged: where new ones may be typed, the browser sends back what it
    shows.
    """
    default = None if spec.optional else spec.default
    empty = None
    if spec.optional or spec.required:
        empty = form.placeholders.get(spec.name, NOT_SET)

    def show(value: Any) -> Any:
        return (default if value is MISSING else value) or None

    def read(chosen: Any) -> Any:
        return chosen if chosen and chosen != empty else MISSING

    bound = form.widget(path, show, read, f".one.{empty}")
    select(form, spec, bound, options, label=str, empty=empty, accept_new_options=accepts_new)


def select(
    form: Form,
    spec: FieldSpec,
    bound: Bound,
    options: Sequence[Any],
    *,
    label: Callable[[Any], str],
    empty: str | None = None,
    **looks: Any,
) -> None:
    """Draw a list to choose from; with ``empty`` it has an entry of that text for no choice."""
    if empty is not None:
        options = [None, *options]
    offered = form.offered(bound, options, bound.initial)
    form.explain(bound, help_of(spec))
    st.selectbox(
        _label(spec),
        offered,
        index=offered.index(bound.initial),
        format_func=lambda option: (empty or "") if option is None else label(option),
        **looks,
        **bound.kwargs,
    )


def _switch(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a switch; one that can be empty is a list."""
    if spec.optional or spec.required:
        _yes_or_no(form, spec, path)
        return
    bound = form.widget(path, lambda value: bool(_or_default(spec, value)), bool)
    form.explain(bound, help_of(spec))
    st.toggle(_label(spec), bound.initial, **bound.kwargs)


def _yes_or_no(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a switch that can also be empty."""
    empty = _placeholder(form, spec)
    bound = form.widget(
        path,
        lambda value: value if isinstance(value, bool) else None,
        lambda chosen: chosen if isinstance(chosen, bool) else MISSING,
        f".{empty}",
    )
    labels = {True: "yes", False: "no"}
    select(form, spec, bound, [True, False], label=labels.__getitem__, empty=empty)


def _number(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a number field; a number that can be empty is typed as text."""
    if spec.optional or not fits(spec, spec.default):
        _raw(form, spec, path)
        return
    number: type[int] | type[float] = int if spec.kind == "integer" else float
    bound = form.widget(
        path,
        lambda value: number(_or_default(spec, value)),
        lambda typed: MISSING if typed is None else _shortest(typed),
    )
    # Without minimum and maximum: a browser does not send a number outside of them, and the
    # validator could not report it.
    form.explain(bound, help_of(spec))
    st.number_input(
        _label(spec),
        value=bound.initial,
        step=1 if number is int else _step(spec.default),
        format="%d" if number is int else "%g",
        placeholder=_placeholder(form, spec),
        **bound.kwargs,
    )


def _shortest(number: float) -> float:
    """Round away what repeated steps leave: 0.30000000000000004 was meant as 0.3."""
    return number if isinstance(number, int) else float(f"{number:.12g}")


def _step(default: Any) -> float:
    """Return a step that is small compared with the default: a power of ten."""
    size = abs(float(default)) or 1.0
    return float(10.0 ** math.floor(math.log10(size) - 0.5))


def _choice(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a list with one choice."""
    empty = _placeholder(form, spec) if _can_be_empty(spec) else None
    bound = form.widget(
        path,
        partial(_chosen, spec),
        lambda chosen: chosen if chosen in spec.choices else MISSING,
        # The browser identifies a choice by its text: with another text for "empty" it needs
        # another widget.
        f".{empty}" if empty else "",
    )
    select(form, spec, bound, spec.choices, label=spec.text_of, empty=empty)


def _can_be_empty(spec: FieldSpec) -> bool:
    """Return whether the list has an entry for no choice."""
    return spec.optional or spec.required


def _chosen(spec: FieldSpec, value: Any) -> Any:
    """Return the option that a list shows for a value, ``None`` for the empty one."""
    if value is MISSING and _can_be_empty(spec):
        return None
    return _or_default(spec, value)


def _mixed(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a choice among words that also takes a number."""

    def show(value: Any) -> str | None:
        if value is MISSING and spec.optional:
            return None
        value = _or_default(spec, value)
        return (spec.text_of(value) if value in spec.choices else as_text(value)) or None

    # The browser sends back the text of an entry, also of the one for no choice.
    empty = form.placeholders.get(spec.name, NOT_SET) if spec.optional else None

    def read(chosen: str | None) -> Any:
        return from_text(spec, "" if chosen == empty else str(chosen or ""))

    bound = form.widget(path, show, read, f".{empty}" if empty else "")
    options = [spec.text_of(choice) for choice in spec.choices]
    select(form, spec, bound, options, label=str, empty=empty, accept_new_options=True)


# Several values


def _numbers(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a list of numbers as text with commas."""

    def show(value: Any) -> str:
        return "" if value in (MISSING, None) else ", ".join(map(as_text, value))

    _text_input(form, spec, form.widget(path, show, partial(from_text, spec)))


def _choices(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a list with several choices."""
    _some_of(form, spec, path, spec.choices, accepts_new=False)


def _texts(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a list of texts, or of columns where they are known."""
    if spec.hint.choose == "columns" and form.columns is not None:
        _some_of(form, spec, path, [column.name for column in form.columns], accepts_new=True)
    else:
        _some_of(form, spec, path, spec.default or [], accepts_new=True)


def _some_of(
    form: Form, spec: FieldSpec, path: ParamPath, options: Sequence[Any], *, accepts_new: bool
) -> None:
    """Draw a choice of several options; with ``accepts_new`` other names can be typed."""
    bound = form.widget(path, lambda value: list(_or_default(spec, value) or []), list, ".some")
    form.explain(bound, help_of(spec))
    st.multiselect(
        _label(spec),
        form.offered(bound, options, *bound.initial),
        bound.initial,
        format_func=str if accepts_new else spec.text_of,
        accept_new_options=accepts_new,
        placeholder="Choose, or type a name" if accepts_new else "Choose",
        **bound.kwargs,
    )


# A value for each of some names


def _table(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a title and one row per name."""
    heading(spec.title)
    _rows(form, spec, path)


def _rows(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw one row per name, each with its problems, and a field for one more name."""
    value = form.value(path)
    names = list(value) if isinstance(value, dict) else []
    for name in names:
        _row(form, spec, (*path, name))
        form.show_problems((*path, name))
    # A problem of the table as a whole often only repeats that one of its rows is wrong.
    if not any(form.problems_at((*path, name)) for name in names):
        form.show_other_problems(path, names)
    _add_row(form, spec, path, names)


def _row(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a name with its choice or number, and a button to remove it."""
    name = str(path[-1])
    inner = _row_spec(spec, name)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if fits(inner, form.value(path)):
            WIDGETS[inner.kind](form, inner, path)
        else:
            _raw(form, inner, path)
        with st.container(key=f"icon-button/{form.key}.{dotted(path)}.remove", width="content"):
            form.button(
                f"Remove {plain(name[:40])}",
                f"{dotted(path)}.remove",
                partial(with_value, path=path, value=MISSING),
                icon=":material/close:",
                type="tertiary",
            )


def _row_spec(spec: FieldSpec, name: str) -> FieldSpec:
    """Return the field of one row of a table."""
    if spec.choices and spec.kind == "table":
        words = Hint(words=spec.hint.words)
        return FieldSpec(name, name, "choice", choices=spec.choices, hint=words)
    return FieldSpec(
        name,
        name,
        "integer" if spec.integer else "number",
        optional=True,
        integer=spec.integer,
        minimum=spec.minimum,
        maximum=spec.maximum,
    )


def _add_row(form: Form, spec: FieldSpec, path: ParamPath, taken: Sequence[str]) -> None:
    """Draw a field for one more name, which is empty again after each entry.

    A name that the table already has keeps its value.
    """
    key = f"{form.key}.{dotted(path)}.add"
    columns = form.columns if spec.hint.choose in ("column", "columns") else None
    first = spec.choices[0] if spec.kind == "table" and spec.choices else 1

    def with_row(params: dict[str, Any], name: str) -> Any:
        row = (*path, name)
        # The edit may be made twice, and another tab may have added the name.
        is_new = value_at(params, row) is MISSING
        return with_value(params, row, first) if is_new else params

    def add() -> None:
        name = st.session_state[key]
        # Empty again, so that the next name can be entered at once.
        st.session_state[key] = "" if columns is None else None
        if name and name.strip():
            form.revise(partial(with_row, name=name))

    form.helps[key] = help_of(spec)
    word = _row_word(spec)
    label = f"Add a {word} to {_label(spec)}"
    looks: dict[str, Any] = {
        "key": key,
        "on_change": add,
        "placeholder": f"Add a {word}",
        "label_visibility": "collapsed",
    }
    if columns is None:
        st.text_input(label, **looks)
    else:
        offered = [column.name for column in columns if column.name not in taken]
        st.selectbox(label, offered, index=None, **looks)


def _row_word(spec: FieldSpec) -> str:
    """Return what the names of a table are names of."""
    words = {"class": "class", "column": "column", "columns": "column"}
    return words.get(spec.hint.choose or "", "name")


BY_NAME = "by name"


def _choice_or_table(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a choice whose last option opens a table."""

    def read(chosen: str | None) -> Any:
        if chosen == BY_NAME:
            return form.value(path) if isinstance(form.value(path), dict) else {}
        return MISSING if chosen is None else chosen

    def show(value: Any) -> Any:
        return BY_NAME if isinstance(value, dict) else _chosen(spec, value)

    def label(choice: Any) -> str:
        return f"by {_row_word(spec)}" if choice == BY_NAME else spec.text_of(choice)

    bound = form.widget(path, show, read)
    empty = _placeholder(form, spec) if _can_be_empty(spec) else None
    select(form, spec, bound, [*spec.choices, BY_NAME], label=label, empty=empty)
    if isinstance(form.value(path), dict):
        _rows(form, spec, path)
    else:
        form.show_problems(path)


def _cards(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw a list of settings that each have a kind."""
    noun = spec.title.lower()
    draw_cards(form, spec, path, draw_field, noun=noun.removesuffix("s"))


WIDGETS: dict[str, Callable[[Form, FieldSpec, ParamPath], None]] = {
    "json": _json,
    "switch": _switch,
    "integer": _number,
    "number": _number,
    "text": _text,
    "choice": _choice,
    "choices": _choices,
    "texts": _texts,
    "numbers": _numbers,
    "mixed": _mixed,
    "table": _table,
    "choice or table": _choice_or_table,
    "cards": _cards,
}
