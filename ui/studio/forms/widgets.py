"""One function a kind of field: each draws the widget for a place of the parameters.

``draw_field`` chooses among them. A value that a field's widget cannot show is shown as text, to be mended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from ui.studio.forms.cards import draw_cards
from ui.studio.forms.fields import FieldSpec
from ui.studio.forms.form_state import Bound, Form, choice_words, heading, help_of
from ui.studio.forms.values import MISSING, Place, as_text, at, fits, from_text, put
from ui.studio.markdown import plain

SAMPLE = "sample:"
NOTHING = "(not set)"
"""No choice, in lists that also take what is typed."""


def draw_field(form: Form, spec: FieldSpec, place: Place) -> None:
    """The field's label, widget and problems."""
    value = form.value(place)
    empty = value is MISSING or (value is None and spec.optional)
    if spec.kind == "json":
        _json(form, spec, place)
    elif not empty and not fits(spec, value):
        _raw(form, spec, place)
        form.tell_problems(place)
        return
    else:
        DRAWN[spec.kind](form, spec, place)
    if spec.kind not in ("table", "choice or table", "cards"):  # they say it row by row
        form.tell_problems(place)


def _label(spec: FieldSpec) -> str:
    return plain(spec.title)


def _placeholder(form: Form, spec: FieldSpec) -> str:
    if spec.name in form.placeholders:
        return form.placeholders[spec.name]
    if spec.required:
        return "needed"
    return f"default: {spec.default_text}" if spec.default_text else "not set"


def _or_default(spec: FieldSpec, value: Any) -> Any:
    return spec.default if value is MISSING else value


# One value


def _raw(form: Form, spec: FieldSpec, place: Place) -> None:
    bound = form.widget(place, as_text, partial(from_text, spec), ".raw")
    st.text_input(_label(spec), bound.start, help=help_of(spec), placeholder=_placeholder(form, spec), **bound.wiring)


def _json(form: Form, spec: FieldSpec, place: Place) -> None:
    bound = form.widget(place, as_text, partial(from_text, spec))
    st.text_area(
        _label(spec), bound.start, help=help_of(spec), placeholder=_placeholder(form, spec), height=100, **bound.wiring
    )


def _text(form: Form, spec: FieldSpec, place: Place) -> None:
    if spec.hint.choose == "column" and form.columns is not None:
        _one_of(form, spec, place, [column.name for column in form.columns], accepts_new=False)
    elif spec.hint.choose in ("file", "model"):
        _one_of(form, spec, place, _files(form, spec), accepts_new=True)
    else:
        bound = form.widget(place, as_text, partial(from_text, spec))
        st.text_input(
            _label(spec), bound.start, help=help_of(spec), placeholder=_placeholder(form, spec), **bound.wiring
        )


def _files(form: Form, spec: FieldSpec) -> list[str]:
    """The files or models there are, and the samples where the field knows such."""
    if not str(spec.default).startswith(SAMPLE):
        return list(form.files)
    from nodes.data.samples import NAMES

    return [*form.files, *(f"{SAMPLE}{name}" for name in NAMES)]


def _one_of(form: Form, spec: FieldSpec, place: Place, options: Sequence[str], *, accepts_new: bool) -> None:
    """A choice among names, that also takes another one where not all are known.

    The names stand there as they are: where new ones may be typed, the browser sends back what it shows.
    """
    default = None if spec.optional else spec.default
    bound = form.widget(
        place,
        lambda value: (default if value is MISSING else value) or None,
        lambda chosen: chosen if chosen and chosen != NOTHING else MISSING,
        ".one",
    )
    empty = NOTHING if spec.optional or spec.required else None
    _select(form, spec, bound, options, words=str, empty=empty, accept_new_options=accepts_new)


def _select(
    form: Form,
    spec: FieldSpec,
    bound: Bound,
    options: Sequence[Any],
    *,
    words: Callable[[Any], str] = choice_words,
    empty: str | None = None,
    **looks: Any,
) -> None:
    """A list to choose from that starts with what the document has; ``empty`` is what no choice reads as."""
    offered = form.offered(bound, [*([] if empty is None else [None]), *options], bound.start)
    st.selectbox(
        _label(spec),
        offered,
        index=offered.index(bound.start),
        format_func=lambda one: (empty or "") if one is None else words(one),
        **{"help": help_of(spec), **looks, **bound.wiring},
    )


def _switch(form: Form, spec: FieldSpec, place: Place) -> None:
    if spec.optional or spec.required:
        _yes_or_no(form, spec, place)
        return
    bound = form.widget(place, lambda value: bool(_or_default(spec, value)), bool)
    st.toggle(_label(spec), bound.start, help=help_of(spec), **bound.wiring)


def _yes_or_no(form: Form, spec: FieldSpec, place: Place) -> None:
    empty = _placeholder(form, spec)
    bound = form.widget(
        place,
        lambda value: value if isinstance(value, bool) else None,
        lambda said: said if isinstance(said, bool) else MISSING,
        f".{empty}",
    )
    words = {True: "yes", False: "no"}
    _select(form, spec, bound, [True, False], words=words.__getitem__, empty=empty)


def _number(form: Form, spec: FieldSpec, place: Place) -> None:
    if spec.optional or not fits(spec, spec.default):
        _raw(form, spec, place)
        return
    number: type[int] | type[float] = int if spec.kind == "whole" else float
    bound = form.widget(
        place,
        lambda value: number(_or_default(spec, value)),
        lambda given: MISSING if given is None else _shortest(given),
    )
    # Without limits: a browser would keep a number beyond them to itself, instead of having its problem told.
    st.number_input(
        _label(spec),
        value=bound.start,
        step=1 if number is int else _step(spec.default),
        format="%d" if number is int else "%g",
        help=help_of(spec),
        placeholder=_placeholder(form, spec),
        **bound.wiring,
    )


def _shortest(number: float) -> float:
    """Without the dust that steps leave: 0.30000000000000004 was meant as 0.3."""
    return number if isinstance(number, int) else float(f"{number:.12g}")


def _step(default: Any) -> float:
    """A step that is small against the default."""
    size = abs(float(default)) or 1.0
    return float(10.0 ** math.floor(math.log10(size) - 0.5))


def _choice(form: Form, spec: FieldSpec, place: Place) -> None:
    can_be_empty = spec.optional or spec.required
    empty = _placeholder(form, spec) if can_be_empty else None
    # The browser tells a choice by the words it shows: with other words for none, it is another widget.
    bound = form.widget(
        place,
        lambda value: _or_default(spec, value) if not can_be_empty else None if value is MISSING else value,
        lambda chosen: chosen if chosen in spec.choices else MISSING,
        f".{empty}" if empty else "",
    )
    _select(form, spec, bound, spec.choices, empty=empty)


def _mixed(form: Form, spec: FieldSpec, place: Place) -> None:
    bound = form.widget(
        place,
        lambda value: as_text(None if value is MISSING and spec.optional else _or_default(spec, value)) or None,
        lambda chosen: from_text(spec, "" if chosen == NOTHING else str(chosen or "")),
    )
    _select(
        form,
        spec,
        bound,
        [*map(str, spec.choices)],
        words=str,
        empty=NOTHING if spec.optional else None,
        accept_new_options=True,
        help=plain(f"{spec.help} Choose, or type a number.") if spec.help else None,
    )


# Several values


def _numbers(form: Form, spec: FieldSpec, place: Place) -> None:
    def show(value: Any) -> str:
        return "" if value in (MISSING, None) else ", ".join(map(as_text, value))

    bound = form.widget(place, show, partial(from_text, spec))
    st.text_input(_label(spec), bound.start, help=help_of(spec), placeholder=_placeholder(form, spec), **bound.wiring)


def _choices(form: Form, spec: FieldSpec, place: Place) -> None:
    _some_of(form, spec, place, spec.choices, accepts_new=False)


def _texts(form: Form, spec: FieldSpec, place: Place) -> None:
    if spec.hint.choose == "columns" and form.columns is not None:
        _some_of(form, spec, place, [column.name for column in form.columns], accepts_new=True)
    else:
        _some_of(form, spec, place, spec.default or [], accepts_new=True)


def _some_of(
    form: Form,
    spec: FieldSpec,
    place: Place,
    options: Sequence[Any],
    *,
    accepts_new: bool,
) -> None:
    bound = form.widget(place, lambda value: list(_or_default(spec, value) or []), list, ".some")
    st.multiselect(
        _label(spec),
        form.offered(bound, options, *bound.start),
        bound.start,
        format_func=str if accepts_new else choice_words,
        accept_new_options=accepts_new,
        help=help_of(spec),
        placeholder="Choose, or type a name" if accepts_new else "Choose",
        **bound.wiring,
    )


# A value for each of some names


def _table(form: Form, spec: FieldSpec, place: Place) -> None:
    heading(spec.title, help_of(spec))
    _rows(form, spec, place)


def _rows(form: Form, spec: FieldSpec, place: Place) -> None:
    value = form.value(place)
    names = list(value) if isinstance(value, dict) else []
    for name in names:
        _row(form, spec, (*place, name))
        form.tell_problems((*place, name))
    if not any(form.problems_at((*place, name)) for name in names):  # else it only says that some row is wrong
        form.tell_others(place, names)
    _add_row(form, spec, place, names)


def _row(form: Form, spec: FieldSpec, place: Place) -> None:
    """A name with its choice or number, and a way to take it out."""
    name = str(place[-1])
    inner = _of_row(spec, name)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if fits(inner, form.value(place)):
            DRAWN[inner.kind](form, inner, place)
        else:
            _raw(form, inner, place)
        form.button(
            "",
            f"{'.'.join(map(str, place))}.remove",
            partial(put, place=place, value=MISSING),
            icon=":material/close:",
            type="tertiary",
            help=f"Remove {plain(name[:40])}",
        )


def _of_row(spec: FieldSpec, name: str) -> FieldSpec:
    if spec.choices and spec.kind == "table":
        return FieldSpec(name, name, "choice", choices=spec.choices)
    kind: Any = "whole" if spec.whole else "number"
    return FieldSpec(name, name, kind, optional=True, whole=spec.whole, least=spec.least, most=spec.most)


def _add_row(form: Form, spec: FieldSpec, place: Place, taken: Sequence[str]) -> None:
    """A field for one more name; it empties itself. A name that is there already keeps its value."""
    key = f"{form.key}.{'.'.join(map(str, place))}.add"
    columns = form.columns if spec.hint.choose in ("column", "columns") else None
    first = spec.choices[0] if spec.kind == "table" and spec.choices else 1

    def with_row(params: dict[str, Any], name: str) -> Any:
        return params if at(params, (*place, name)) is not MISSING else put(params, (*place, name), first)

    def add() -> None:
        name = st.session_state[key]
        st.session_state[key] = "" if columns is None else None
        if name and name.strip():
            form.revise(partial(with_row, name=name))

    word = _thing(spec)
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


def _thing(spec: FieldSpec) -> str:
    """What the names of a table are names of."""
    return {"class": "class", "column": "column", "columns": "column"}.get(spec.hint.choose or "", "name")


BY_NAME = "by name"


def _choice_or_table(form: Form, spec: FieldSpec, place: Place) -> None:
    def read(chosen: str | None) -> Any:
        if chosen == BY_NAME:
            return form.value(place) if isinstance(form.value(place), dict) else {}
        return MISSING if chosen is None else chosen

    can_be_empty = spec.optional or spec.required
    bound = form.widget(
        place,
        lambda value: (
            BY_NAME
            if isinstance(value, dict)
            else None
            if value is MISSING and can_be_empty
            else _or_default(spec, value)
        ),
        read,
    )
    _select(
        form,
        spec,
        bound,
        [*spec.choices, BY_NAME],
        words=lambda choice: f"by {_thing(spec)}" if choice == BY_NAME else choice_words(choice),
        empty=_placeholder(form, spec) if can_be_empty else None,
    )
    if isinstance(form.value(place), dict):
        _rows(form, spec, place)
    else:
        form.tell_problems(place)


def _cards(form: Form, spec: FieldSpec, place: Place) -> None:
    draw_cards(form, spec, place, draw_field)


DRAWN: dict[str, Callable[[Form, FieldSpec, Place], None]] = {
    "switch": _switch,
    "whole": _number,
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
