"""One form being drawn: keys of its widgets, problems of its fields, and the way of an edit to the document.

- ``Form``   what every widget of a form uses

Callbacks of widgets may come from different runs of the page, since a run can be interrupted. What they share is
therefore kept in the session: each edit starts from the last one, and none undoes another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from engine.contract import Columns
from engine.problems import Problem, shown
from ui.forms.fields import FieldSpec, as_plain
from ui.forms.values import Place, at, put
from ui.text import plain

_KEPT = "ui.forms"
_MOST_KEPT = 8
LATE_SECONDS = 1.0
"""How long a browser may go on telling what a widget no longer shows; no hand is that quick."""


@dataclass
class _Kept:
    """What outlives a run of the page."""

    params: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    """The document's value when each widget was last drawn."""
    opened: set[str] = field(default_factory=set)
    replaced: dict[str, tuple[Any, float]] = field(default_factory=dict)
    """What a widget showed before it was made to follow the document, and when that was."""


@dataclass
class Form:
    """What the widgets of a form use; every change of a value ends in ``commit``."""

    key: str
    params: Mapping[str, Any]
    problems: Sequence[Problem]
    change: Callable[[dict[str, Any]], None]
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

    def commit(self, place: Place, value: Any) -> None:
        """Give the document another value there, or none."""
        self.revise(lambda params: put(params, place, value))

    def revise(self, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Give the document the parameters that ``edit`` makes of the latest ones."""
        self._kept.params = edit(self._kept.params)
        self.change(self._kept.params)

    # Widgets

    def widget(
        self,
        place: Place,
        show: Callable[[Any], Any],
        read: Callable[[Any], Any],
        suffix: str = "",
    ) -> dict[str, Any]:
        """Key and callback of the widget for a place; it begins with what ``show`` makes of the document's value.

        A widget whose own value means another thing than the document has follows the document, but only when that
        has changed: an edit on its way there is not taken back.
        """
        key = f"{self.key}.{'.'.join(map(str, place))}{suffix}"
        value = self.value(place)
        held = st.session_state.get(key)
        moved = key in self._kept.seen and not _same(self._kept.seen[key], value)
        if key not in st.session_state or (moved and not _same(read(held), value)):
            if key in st.session_state:
                self._kept.replaced[key] = held, time.monotonic()
            st.session_state[key] = show(value)
        self._kept.seen[key] = value
        return {"key": key, "on_change": self._on_change, "args": (place, key, show, read)}

    def _on_change(self, place: Place, key: str, show: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        if self.is_late(key):
            st.session_state[key] = show(at(self._kept.params, place))
        else:
            self.commit(place, read(st.session_state[key]))

    def is_late(self, key: str) -> bool:
        """Whether a widget's new value is its old one, sent by a browser that has yet to hear it was replaced."""
        before, moment = self._kept.replaced.get(key, (None, -LATE_SECONDS))
        return time.monotonic() - moment < LATE_SECONDS and _same(before, st.session_state[key])

    def button(self, label: str, name: str, edit: Callable[[dict[str, Any]], dict[str, Any]], **looks: Any) -> None:
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


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
