"""One form being drawn: keys of its widgets, problems of its fields, and the way of an edit to the document.

- ``Form``   what every widget of a form uses

Callbacks of widgets may come from different runs of the page, since a run can be interrupted. What they share is
therefore kept in the session: each edit starts from the last one, and none undoes another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from engine.node_types import Columns
from engine.problems import Problem
from engine.text import shown
from ui.studio.forms.fields import FieldSpec, as_plain
from ui.studio.forms.values import MISSING, Place, at, put
from ui.studio.markdown import plain

_KEPT = "ui.studio.forms"
_MOST_KEPT = 8

ParamsEdit = Callable[[dict[str, Any]], dict[str, Any]]
"""A node's parameters → the parameters after an edit."""


@dataclass
class _Kept:
    """What outlives a run of the page."""

    params: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    """The document's value when each widget was last drawn."""
    turns: dict[str, int] = field(default_factory=dict)
    """How often a widget was replaced, since the document had come to another value."""
    opened: set[str] = field(default_factory=set)
    beyond: dict[str, list[Any]] = field(default_factory=dict)
    """What each list has offered beyond its options: a list that changes is drawn anew, under someone's hands."""

    def current(self, base: str) -> str:
        """The key of the widget that now stands at a place."""
        turn = self.turns.get(base, 0)
        return f"{base}~{turn}" if turn else base


class Bound(NamedTuple):
    """What a widget begins with, and its key and callback.

    The value is given to each drawing, not set in the session: a drawing may be cut short by the next, and the browser
    would then show something else and report it as the user's choice.
    """

    start: Any
    wiring: dict[str, Any]


@dataclass
class Form:
    """What the widgets of a form use; every change of a value ends in ``revise``."""

    key: str
    params: Mapping[str, Any]
    problems: Sequence[Problem]
    change: Callable[[ParamsEdit], None]
    columns: Columns | None = None
    files: Sequence[str] = ()
    placeholders: Mapping[str, str] = field(default_factory=dict)
    """What an empty field means, by its name, where that is not its default."""

    def __post_init__(self) -> None:
        forms: dict[str, _Kept] = st.session_state.setdefault(_KEPT, {})
        self._kept = forms.pop(self.key, _Kept())
        forms[self.key] = self._kept
        for old in list(forms)[:-_MOST_KEPT]:
            del forms[old]
        self._kept.params = dict(self.params)

    # Values

    def value(self, place: Place) -> Any:
        """What the document has there."""
        return at(self.params, place)

    def revise(self, edit: ParamsEdit, change: Callable[[ParamsEdit], None] | None = None) -> None:
        """Have the document's parameters changed by ``edit``, whatever they are by then; ``change`` may be another."""
        after = edit(self._kept.params)
        if after != self._kept.params:
            self._kept.params = after
            (change or self.change)(edit)

    # Widgets

    def widget(
        self,
        place: Place,
        show: Callable[[Any], Any],
        read: Callable[[Any], Any],
        suffix: str = "",
        edit: Callable[[Any], ParamsEdit] | None = None,
    ) -> Bound:
        """What a widget for a place needs; it starts with what ``show`` makes of the document's value.

        A choice becomes an edit by ``edit``; without, it is put in the place as ``read`` understands it. When the
        document has come to another value than the widget stands for, a new widget takes its place.
        """
        base = f"{self.key}.{'.'.join(map(str, place))}{suffix}"
        value, kept = self.value(place), self._kept
        held = st.session_state.get(kept.current(base), MISSING)
        moved = base in kept.seen and not _same(kept.seen[base], value)
        if moved and not (held is not MISSING and (_same(show(value), held) or _same(read(held), value))):
            kept.turns[base] = kept.turns.get(base, 0) + 1
        kept.seen[base] = value
        key = kept.current(base)
        edit = edit or (lambda chosen: partial(put, place=place, value=read(chosen)))
        wiring = {"key": key, "on_change": self._on_change, "args": (place, base, key, show, edit)}
        return Bound(show(value), wiring)

    def _on_change(
        self, place: Place, base: str, key: str, show: Callable[[Any], Any], edit: Callable[[Any], ParamsEdit]
    ) -> None:
        """Take a choice; not from a widget whose place another has taken, nor what the document has already.

        A browser tells of both: of what it has yet to remove, and of what it has just drawn.
        """
        chosen = st.session_state[key]
        if key == self._kept.current(base) and not _same(_shown(show, at(self._kept.params, place)), chosen):
            self.revise(edit(chosen))

    def offered(self, bound: Bound, options: Iterable[Any], *chosen: Any) -> list[Any]:
        """The options, and all that was ever chosen beyond them in this widget."""
        beyond = self._kept.beyond.setdefault(bound.wiring["key"], [])
        beyond += [one for one in chosen if one not in beyond]
        return list(dict.fromkeys([*options, *beyond]))

    def button(self, label: str, name: str, edit: ParamsEdit, **looks: Any) -> None:
        """A button that revises the parameters."""
        st.button(label, key=f"{self.key}.{name}", on_click=self.revise, args=(edit,), **looks)

    def stays_open(self, part: str, needed: bool) -> bool:
        """Whether a folded part is open: once it had to be, it does not close under someone's hands."""
        if needed:
            self._kept.opened.add(part)
        return part in self._kept.opened

    # Problems

    def problems_at(self, place: Place) -> list[Problem]:
        """Those of a place and of what is inside it."""
        name = ".".join(map(str, place))
        return [one for one in self.problems if one.field == name or (one.field or "").startswith(f"{name}.")]

    def tell_problems(self, place: Place, inside: bool = True) -> None:
        """Say what is wrong at a place; with ``inside`` False, only with the whole of it."""
        name = ".".join(map(str, place))
        tell(problem for problem in self.problems_at(place) if inside or problem.field == name)

    def tell_others(self, place: Place, drawn: Iterable[str]) -> None:
        """Say what is wrong inside a place but outside the fields that are drawn there."""
        start = ".".join(map(str, place))
        known = [f"{start}.{name}" if start else name for name in drawn]
        for problem in self.problems_at(place) if place else self.problems:
            name = problem.field or ""
            if name != start and any(name == one or name.startswith(f"{one}.") for one in known):
                continue
            tell([problem], name=name.removeprefix(f"{start}.") if place and name != start else name)


def tell(problems: Iterable[Problem], name: str = "") -> None:
    """Problems in small red letters; ``name`` is what they are about, where they do not stand beside it."""
    for problem in problems:
        message = f"{problem.field_word} {shown(name)}: {problem.message}" if name else problem.message
        st.markdown(f":small[:red[:material/error: {plain(message[:1].upper() + message[1:])}]]")


def heading(title: str, help: str | None = None) -> None:
    """What stands over several widgets."""
    st.markdown(f":small[**{plain(title)}**]", help=help)


def help_of(spec: FieldSpec) -> str | None:
    """Description, limits and default, as a tooltip reads it."""
    limits = f"From {spec.least:,} to {spec.most:,}." if spec.whole and _both(spec.least, spec.most) else ""
    default = f"Default: {spec.default_text}." if spec.default_text and spec.kind != "cards" else ""
    return plain(" ".join(part for part in (spec.help, limits, default) if part)) or None


def _both(least: float | None, most: float | None) -> bool:
    """Whether both limits are there, and near enough to mean something."""
    return least is not None and most is not None and most <= 1_000_000


def choice_words(choice: Any) -> str:
    """A choice as a list shows it."""
    return as_plain(choice).replace("_", " ") or "(empty)"


def _shown(show: Callable[[Any], Any], value: Any) -> Any:
    """What a widget would show of a value; nothing, if another tab has put there what it cannot show."""
    try:
        return show(value)
    except (TypeError, ValueError):
        return MISSING


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
