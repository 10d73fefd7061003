"""Draw a list of settings that each have a kind, as cards one below the other.

- ``draw_cards``      the cards, with buttons to add, move, duplicate and remove them
- ``new_card``, ``with_kind``, ``moved``, ``duplicated``, ``removed``  the edits, on plain lists
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    ParamPath,
    as_text,
    dotted,
    json_or_text,
    value_at,
    with_value,
)
from ui.studio.forms.form import Form, ParamsEdit, choice_label, heading, help_of

Draw = Callable[[Form, FieldSpec, ParamPath], None]
Label = Callable[[Any], str]
Cards = list[Any]
CardsEdit = Callable[[Cards], Cards]


def draw_cards(
    form: Form, spec: FieldSpec, path: ParamPath, draw: Draw, label: Label = choice_label
) -> None:
    """Draw the title, one card per entry, and a button that adds one.

    ``draw`` draws a field of a card; ``label`` is the text for a kind.
    """
    heading(spec.title, help_of(spec))
    form.show_problems(path, inside=False)
    cards = form.value(path)
    count = len(cards) if isinstance(cards, list) else 0
    for number in range(count):
        with st.container(border=True, gap="small"):
            _card(form, spec, (*path, number), draw, label)
            _actions(form, path, number, count)
    if spec.max_items is None or count < spec.max_items:
        edit = partial(_edited, path=path, edit=lambda cards: [*cards, new_card(spec)])
        form.button("Add", f"{dotted(path)}.add", edit, icon=":material/add:", width="stretch")


def _card(form: Form, spec: FieldSpec, path: ParamPath, draw: Draw, label: Label) -> None:
    """Draw one card in two columns; an entry of an unknown kind is shown as text."""
    card = form.value(path)
    kind = card.get(spec.tag) if isinstance(card, dict) else None
    if not isinstance(kind, str) or kind not in spec.variants:
        bound = form.widget(path, as_text, json_or_text, ".raw")
        st.text_area(f"Entry {int(path[-1]) + 1}", bound.initial, height=100, **bound.kwargs)
        form.show_problems(path)
        return
    fields = spec.variants[kind]
    _kind(form, spec, path, label)
    form.show_other_problems(path, [inner.name for inner in fields])
    for start in range(0, len(fields), 2):
        columns = st.columns(2, gap="small")
        for column, inner in zip(columns, fields[start : start + 2], strict=False):
            with column:
                draw(form, inner, (*path, inner.name))
    form.offer_removal(path, {spec.tag, *(inner.name for inner in fields)}, type="tertiary")


def _kind(form: Form, spec: FieldSpec, path: ParamPath, label: Label) -> None:
    """Draw the choice of the kind; another kind keeps the settings that both kinds have."""

    def set_kind(params: dict[str, Any], kind: str) -> Any:
        return with_value(params, path, with_kind(value_at(params, path), kind, spec))

    def edit(kind: str) -> ParamsEdit:
        return partial(set_kind, kind=kind)

    kinds = list(spec.variants)
    bound = form.widget((*path, spec.tag), lambda kind: kind, lambda kind: kind, edit=edit)
    st.selectbox(
        choice_label(spec.tag).capitalize(),
        kinds,
        index=kinds.index(bound.initial),
        format_func=label,
        **bound.kwargs,
    )


def _actions(form: Form, path: ParamPath, number: int, count: int) -> None:
    """Draw the buttons of a card: up, down, duplicate, remove."""
    name = f"{dotted(path)}.{number}"
    actions: list[tuple[str, CardsEdit, bool]] = [
        ("Up", partial(moved, number=number, by=-1), number == 0),
        ("Down", partial(moved, number=number, by=1), number == count - 1),
        ("Duplicate", partial(duplicated, number=number), False),
        ("Remove", partial(removed, number=number), False),
    ]
    with st.container(horizontal=True, gap="small"):
        for label, action, disabled in actions:
            edit = partial(_edited, path=path, edit=action)
            form.button(label, f"{name}.{label.lower()}", edit, type="tertiary", disabled=disabled)


# The edits


def _edited(params: dict[str, Any], path: ParamPath, edit: CardsEdit) -> dict[str, Any]:
    """Return the parameters with an edited list of cards; an empty list is left out."""
    cards = value_at(params, path)
    after = edit(cards if isinstance(cards, list) else [])
    # Without any card, the node has its default again.
    revised: dict[str, Any] = with_value(params, path, after or MISSING)
    return revised


def new_card(spec: FieldSpec) -> dict[str, Any]:
    """Return a card of the first kind with its defaults."""
    return {spec.tag: next(iter(spec.variants))}


def with_kind(card: Any, kind: str, spec: FieldSpec) -> Any:
    """Return the card as one of another kind, without the settings that this kind does not have.

    ``MISSING`` stays ``MISSING``: the card was removed meanwhile.
    """
    if not isinstance(card, Mapping):
        return card
    known = {inner.name for inner in spec.variants[kind]}
    return {spec.tag: kind, **{name: value for name, value in card.items() if name in known}}


def moved(cards: Sequence[Any], number: int, by: int) -> Cards:
    """Return the cards with one of them moved by so many positions, if there is room."""
    order = list(cards)
    target = number + by
    if 0 <= number < len(order) and 0 <= target < len(order):
        order.insert(target, order.pop(number))
    return order


def duplicated(cards: Sequence[Any], number: int) -> Cards:
    """Return the cards with a copy of one of them below it."""
    return [*cards[: number + 1], *cards[number : number + 1], *cards[number + 1 :]]


def removed(cards: Sequence[Any], number: int) -> Cards:
    """Return the cards without one of them."""
    return [*cards[:number], *cards[number + 1 :]]
