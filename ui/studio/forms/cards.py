"""A list of settings that each have a kind, as cards one below the other.

- ``draw_cards``      the cards and what can be done with them
- ``new_card``, ``of_kind``, ``moved``, ``doubled``  the edits, on plain lists
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from ui.studio.forms.fields import FieldSpec
from ui.studio.forms.form_state import Form, ParamsEdit, choice_words, heading, help_of
from ui.studio.forms.values import MISSING, Place, as_text, at, json_or_text, put
from ui.studio.markdown import plain

Draw = Callable[[Form, FieldSpec, Place], None]
Cards = list[Any]


def draw_cards(
    form: Form, spec: FieldSpec, place: Place, draw: Draw, words: Callable[[Any], str] = choice_words
) -> None:
    """The label, one card an entry, and a button for one more."""
    heading(spec.title, help_of(spec))
    form.tell_problems(place, inside=False)
    cards = form.value(place)
    count = len(cards) if isinstance(cards, list) else 0
    for number in range(count):
        with st.container(border=True, gap="small"):
            _card(form, spec, (*place, number), draw, words)
            _actions(form, place, number, count)
    if spec.longest is None or count < spec.longest:
        edit = partial(_edited, place=place, edit=lambda cards: [*cards, new_card(spec)])
        form.button("Add", f"{_name(place)}.add", edit, icon=":material/add:", width="stretch")


def _name(place: Place) -> str:
    return ".".join(map(str, place))


def _card(form: Form, spec: FieldSpec, place: Place, draw: Draw, words: Callable[[Any], str]) -> None:
    card = form.value(place)
    kind = card.get(spec.tag) if isinstance(card, dict) else None
    if not isinstance(kind, str) or kind not in spec.variants:
        bound = form.widget(place, as_text, json_or_text, ".raw")
        st.text_area(f"Entry {int(place[-1]) + 1}", bound.start, height=100, **bound.wiring)
        form.tell_problems(place)
        return
    fields = spec.variants[kind]
    _kind(form, spec, place, words)
    form.tell_others(place, [one.name for one in fields])
    for start in range(0, len(fields), 2):
        for column, one in zip(st.columns(2, gap="small"), fields[start : start + 2], strict=False):
            with column:
                draw(form, one, (*place, one.name))
    _unknown(form, card, place, {spec.tag, *(one.name for one in fields)})


def _kind(form: Form, spec: FieldSpec, place: Place, words: Callable[[Any], str]) -> None:
    """Choosing another kind keeps what both kinds have."""

    def edit(kind: str) -> ParamsEdit:
        return lambda params: put(params, place, of_kind(at(params, place), kind, spec))

    kinds = list(spec.variants)
    bound = form.widget((*place, spec.tag), lambda kind: kind, lambda kind: kind, edit=edit)
    st.selectbox(
        choice_words(spec.tag).capitalize(), kinds, index=kinds.index(bound.start), format_func=words, **bound.wiring
    )


def _unknown(form: Form, card: Mapping[str, Any], place: Place, known: set[str]) -> None:
    """What the card has beyond its kind's settings can be taken out."""
    for name in card:
        if name not in known:
            edit = partial(put, place=(*place, name), value=MISSING)
            form.button(f"Remove {plain(name[:40])}", f"{_name(place)}.{name}.remove", edit, type="tertiary")


def _actions(form: Form, place: Place, number: int, count: int) -> None:
    name = f"{_name(place)}.{number}"
    edits: list[tuple[str, Callable[[Cards], Cards], bool]] = [
        ("Up", partial(moved, number=number, by=-1), number == 0),
        ("Down", partial(moved, number=number, by=1), number == count - 1),
        ("Duplicate", partial(doubled, number=number), False),
        ("Remove", partial(removed, number=number), False),
    ]
    with st.container(horizontal=True, gap="small"):
        for label, edit, disabled in edits:
            whole = partial(_edited, place=place, edit=edit)
            form.button(label, f"{name}.{label.lower()}", whole, type="tertiary", disabled=disabled)


# The edits


def _edited(params: dict[str, Any], place: Place, edit: Callable[[Cards], Cards]) -> dict[str, Any]:
    cards = at(params, place)
    after = edit(cards if isinstance(cards, list) else [])
    revised: dict[str, Any] = put(params, place, after or MISSING)
    return revised


def new_card(spec: FieldSpec) -> dict[str, Any]:
    """A card of the first kind, all as by default."""
    return {spec.tag: next(iter(spec.variants))}


def of_kind(card: Any, kind: str, spec: FieldSpec) -> Any:
    """The card as one of another kind: what that does not have is dropped. One that is gone stays gone."""
    if not isinstance(card, Mapping):
        return card
    known = {one.name for one in spec.variants[kind]}
    return {spec.tag: kind, **{name: value for name, value in card.items() if name in known}}


def moved(cards: Sequence[Any], number: int, by: int) -> Cards:
    """The cards with one of them further up or down."""
    order = list(cards)
    target = number + by
    if 0 <= number < len(order) and 0 <= target < len(order):
        order.insert(target, order.pop(number))
    return order


def doubled(cards: Sequence[Any], number: int) -> Cards:
    """The cards with one of them twice."""
    return [*cards[: number + 1], *cards[number : number + 1], *cards[number + 1 :]]


def removed(cards: Sequence[Any], number: int) -> Cards:
    """The cards without one of them."""
    return [*cards[:number], *cards[number + 1 :]]
