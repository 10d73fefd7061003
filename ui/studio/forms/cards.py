"""Draw a list of settings that each have a kind: one line for each, which opens to its settings.

- ``draw_cards``      the rows, with buttons to move, copy and remove them, and one that adds one
- ``card_text``       a card in one line
- ``new_card``, ``with_kind``, ``moved``, ``copied``, ``removed``  the edits, on plain lists
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    ParamPath,
    applies,
    as_text,
    dotted,
    json_or_text,
    value_at,
    with_value,
)
from ui.studio.forms.form import Form, ParamsEdit, heading, help_of
from ui.studio.screen_text import plain

Draw = Callable[[Form, FieldSpec, ParamPath], None]
Cards = list[Any]
CardsEdit = Callable[[Cards], Cards]


def card_text(spec: FieldSpec, card: Mapping[str, Any]) -> str:
    """Return a card in one line: its kind, and the settings that are not the defaults."""
    parts = [spec.kinds[card[spec.tag]]]
    for inner in spec.variants[card[spec.tag]]:
        if inner.name in card:
            parts.append(f"{inner.title.lower()} {inner.text_of(card[inner.name])}")
    return " · ".join(parts)


class CardList(NamedTuple):
    """Draw the rows of one list of cards."""

    form: Form
    spec: FieldSpec
    path: ParamPath
    draw: Draw
    """Draws a field of a card."""
    text: Callable[[FieldSpec, Mapping[str, Any]], str]
    """Returns a card in one line."""
    noun: str
    """What a card is, for the names of its buttons: ``learner``."""

    @property
    def cards(self) -> Cards:
        """Return the cards that the document has, or that the list starts with."""
        cards = self.form.value(self.path)
        return cards if isinstance(cards, list) else []

    def key(self, number: int, part: str) -> str:
        """Return the key of a part of a row."""
        return f"{self.form.key}.{dotted(self.path)}.{number}.{part}"

    def row(self, number: int) -> None:
        """Draw one card: its line with the buttons, and its settings while it is open."""
        path = (*self.path, number)
        card = self.form.value(path)
        kind = card.get(self.spec.tag) if isinstance(card, dict) else None
        if not isinstance(kind, str) or kind not in self.spec.variants:
            self._unreadable(number)
            return
        with st.container(key=f"card-row/{self.key(number, 'row')}", gap=None):
            with st.container(key=f"card-text/{self.key(number, 'text')}"):
                st.markdown(plain(self.text(self.spec, card)))
            # The label stays the same: with another one, the browser would close the row.
            title = f"{self.noun.capitalize()} {number + 1}"
            part = st.expander(title, key=self.key(number, "open"), on_change="rerun")
            if part.open:
                with part:
                    self._settings(path, card, kind)
            else:
                titles = {inner.name: inner.title for inner in self.spec.variants[kind]}
                self.form.show_other_problems(path, [], titles)
            self._actions(number)

    def _unreadable(self, number: int) -> None:
        """Draw a card of an unknown kind as text."""
        path = (*self.path, number)
        bound = self.form.widget(path, as_text, json_or_text, ".raw")
        st.text_area(
            f"{self.noun.capitalize()} {number + 1}", bound.initial, height=100, **bound.kwargs
        )
        self.form.show_problems(path)
        self._action("Remove", number, partial(removed, number=number), ":material/delete:")

    def _settings(self, path: ParamPath, card: Mapping[str, Any], kind: str) -> None:
        """Draw the kind and the settings of a card, two beside each other."""
        fields = self.spec.variants[kind]
        self._kind(path)
        with st.container():
            self.form.show_other_problems(path, [inner.name for inner in fields])
        visible = [inner for inner in fields if self._is_shown(path, card, inner, fields)]
        for start in range(0, len(visible), 2):
            for column, inner in zip(st.columns(2, gap="small"), visible[start:], strict=False):
                with column:
                    self.draw(self.form, inner, (*path, inner.name))
        known = {self.spec.tag, *(inner.name for inner in fields)}
        self.form.offer_removal(path, known, type="tertiary")

    def _is_shown(
        self,
        path: ParamPath,
        card: Mapping[str, Any],
        inner: FieldSpec,
        fields: tuple[FieldSpec, ...],
    ) -> bool:
        """Return whether a setting has an effect for this kind, or is set and may be wrong."""
        is_wrong = bool(self.form.problems_at((*path, inner.name)))
        return applies(inner, card, fields) or inner.name in card or is_wrong

    def _kind(self, path: ParamPath) -> None:
        """Draw the choice of the kind; another kind keeps the settings that both kinds have."""

        def set_kind(params: dict[str, Any], kind: str) -> Any:
            return with_value(params, path, with_kind(value_at(params, path), kind, self.spec))

        def edit(kind: str) -> ParamsEdit:
            return partial(set_kind, kind=kind)

        kinds = list(self.spec.kinds)
        bound = self.form.widget(
            (*path, self.spec.tag), lambda kind: kind, lambda kind: kind, edit=edit
        )
        st.selectbox(
            self.spec.tag.capitalize(),
            kinds,
            index=kinds.index(bound.initial),
            format_func=self.spec.kinds.__getitem__,
            **bound.kwargs,
        )

    def _actions(self, number: int) -> None:
        """Draw the buttons of a row."""
        last = len(self.cards) - 1
        up, down = (partial(moved, number=number, by=by) for by in (-1, 1))
        with st.container(
            horizontal=True, gap=None, key=f"card-actions/{self.key(number, 'actions')}"
        ):
            self._action("Move up", number, up, ":material/arrow_upward:", disabled=number == 0)
            self._action(
                "Move down", number, down, ":material/arrow_downward:", disabled=number == last
            )
            copy, remove = partial(copied, number=number), partial(removed, number=number)
            self._action("Copy", number, copy, ":material/content_copy:", disabled=self.is_full)
            self._action("Remove", number, remove, ":material/delete:")

    @property
    def is_full(self) -> bool:
        """Return whether the list has as many cards as it may have."""
        return self.spec.max_items is not None and len(self.cards) >= self.spec.max_items

    def _action(
        self, label: str, number: int, action: CardsEdit, icon: str, disabled: bool = False
    ) -> None:
        """Draw a button that edits the list; its label is for screen readers and the tooltip."""
        st.button(
            f"{label} {self.noun} {number + 1}",
            key=self.key(number, label.lower().replace(" ", "-")),
            icon=icon,
            type="tertiary",
            help=label,
            disabled=disabled,
            on_click=self._revise,
            args=(action, action),
        )

    def add(self) -> None:
        """Draw the button that adds a card, which is then open."""
        key = f"{self.form.key}.{dotted(self.path)}.add"
        self.form.helps[key] = help_of(self.spec)
        st.button(
            f"Add {'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}",
            key=key,
            icon=":material/add:",
            on_click=self._revise,
            args=(lambda cards: [*cards, new_card(self.spec)], lambda flags: [*flags, True]),
        )

    def _revise(self, edit: CardsEdit, edit_open: CardsEdit) -> None:
        """Edit the list, and which of its rows are open in the same way."""
        before = [bool(st.session_state.get(self._open_key(at))) for at in range(len(self.cards))]
        self.form.revise(self.form.inside(self.path, self._on_list(edit)))
        for number, is_open in enumerate(edit_open(before)):
            st.session_state[self._open_key(number)] = is_open

    def _open_key(self, number: int) -> str:
        """Return the key under which the session says whether a row is open."""
        return self.key(number, "open")

    def _on_list(self, edit: CardsEdit) -> ParamsEdit:
        """Return an edit of the list as an edit of the parameters."""

        def revise(params: dict[str, Any]) -> dict[str, Any]:
            """Return the parameters with the edited list; an empty list is left out."""
            cards = value_at(params, self.path)
            after = edit(cards if isinstance(cards, list) else [])
            # Without any card, the node has its default again.
            revised: dict[str, Any] = with_value(params, self.path, after or MISSING)
            return revised

        return revise


def draw_cards(
    form: Form,
    spec: FieldSpec,
    path: ParamPath,
    draw: Draw,
    text: Callable[[FieldSpec, Mapping[str, Any]], str] = card_text,
    *,
    noun: str,
) -> None:
    """Draw the title, one row per card, and a button that adds one.

    ``draw`` draws a field of a card, and ``text`` returns a card in one line. ``noun`` is what a
    card is, for the names of its buttons.
    """
    heading(spec.title)
    with st.container():
        form.show_problems(path, inside=False)
    cards = CardList(form, spec, path, draw, text, noun)
    with st.container(gap="xsmall"):
        for number in range(len(cards.cards)):
            cards.row(number)
    if not cards.is_full:
        cards.add()


# The edits


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


def copied(cards: Sequence[Any], number: int) -> Cards:
    """Return the cards with a copy of one of them below it."""
    return [*cards[: number + 1], *cards[number : number + 1], *cards[number + 1 :]]


def removed(cards: Sequence[Any], number: int) -> Cards:
    """Return the cards without one of them."""
    return [*cards[:number], *cards[number + 1 :]]
