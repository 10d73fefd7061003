"""Hold the state of one form while it is drawn: widget keys, problems, and how edits are made.

- ``Form``   what every widget of a form uses
- ``folded``  a part of a form that is folded, with a text in its header
- ``draw_style``, ``show_problem``, ``heading``, ``help_of``  small parts of a form

Streamlit may interrupt a run of the page and start the next one, so callbacks of widgets may come
from different runs. What they share is therefore saved in the session: each edit starts from the
result of the last one, and no edit undoes another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from engine.errors import Problem
from engine.node_types import Columns
from engine.text import shown
from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    ParamPath,
    applies,
    dotted,
    is_within,
    value_at,
    with_value,
)
from ui.studio.screen_text import plain

_SESSION_KEY = "ui.studio.forms"
_STYLE = Path(__file__).parents[1] / "assets" / "forms.css"
_MAX_SAVED_FORMS = 8

ParamsEdit = Callable[[dict[str, Any]], dict[str, Any]]
"""A node's parameters → the parameters after an edit."""
Convert = Callable[[Any], Any]
"""A document's value → a widget's value (``show``), or back (``read``)."""


@dataclass
class _SessionState:
    """Hold the state of a form that outlives a run of the page."""

    params: dict[str, Any] = field(default_factory=dict)
    """The parameters after the last edit."""
    seen: dict[str, Any] = field(default_factory=dict)
    """The document's value when each widget was last drawn."""
    replaced: dict[str, int] = field(default_factory=dict)
    """How often a widget was replaced because the document had got another value."""
    opened: set[str] = field(default_factory=set)
    """The folded parts that were opened once."""
    extra_options: dict[str, list[Any]] = field(default_factory=dict)
    """What each list has offered besides its options. A list whose options change is drawn again,
    and closes while the user works with it; so nothing is ever removed."""

    def widget_key(self, base: str) -> str:
        """Return the key of the widget that is now drawn for a field."""
        number = self.replaced.get(base, 0)
        return f"{base}~{number}" if number else base


class Bound(NamedTuple):
    """What connects a widget with a field: its first value, and its key and callback.

    The value is passed to each drawing, not set in the session: the next run may interrupt a
    drawing, and the browser would then show another value and report it as the user's choice.
    """

    initial: Any
    kwargs: dict[str, Any]


@dataclass
class Form:
    """Give the widgets of a form what they need; every change of a value ends in ``revise``."""

    key: str
    params: Mapping[str, Any]
    problems: Sequence[Problem]
    change: Callable[[ParamsEdit], None]
    columns: Columns | None = None
    files: Sequence[str] = ()
    sheets: Sequence[str] = ()
    """The sheets of the source, if it is an Excel file."""
    placeholders: dict[str, str] = field(default_factory=dict)
    """What an empty field means, by its name, where that is not its default."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What fields are called on screen, by their names."""
    starts: Mapping[str, Any] = field(default_factory=dict)
    """The values that lists have while the document leaves them out. An edit inside such a list
    writes all of it."""
    helps: dict[str, str] = field(default_factory=dict)
    """The help of each widget, by its key."""

    def __post_init__(self) -> None:
        forms: dict[str, _SessionState] = st.session_state.setdefault(_SESSION_KEY, {})
        self._state = forms.pop(self.key, _SessionState())
        forms[self.key] = self._state
        # A session may draw hundreds of forms; the state of old ones would only use memory.
        for old in list(forms)[:-_MAX_SAVED_FORMS]:
            del forms[old]
        self._state.params = dict(self.params)

    # Values

    def value(self, path: ParamPath) -> Any:
        """Return the document's value at a path, or ``MISSING``."""
        return value_at(self._started(self.params, path), path)

    def _started(self, params: Mapping[str, Any], path: ParamPath) -> Any:
        """Return the parameters with the list that the path leads into, if they leave it out."""
        if len(path) > 0 and path[0] in self.starts and not params.get(str(path[0])):
            return {**params, path[0]: self.starts[str(path[0])]}
        return params

    def inside(self, path: ParamPath, edit: ParamsEdit) -> ParamsEdit:
        """Return the edit of a value at a path, for parameters that may leave its list out."""
        return lambda params: edit(self._started(params, path))

    def revise(self, edit: ParamsEdit, change: Callable[[ParamsEdit], None] | None = None) -> None:
        """Pass an edit to ``change`` unless it has no effect.

        The edit is a function, since the parameters may be others when it is made.
        """
        after = edit(self._state.params)
        if after != self._state.params:
            self._state.params = after
            (change or self.change)(edit)

    # Widgets

    def widget(
        self,
        path: ParamPath,
        show: Convert,
        read: Convert,
        suffix: str = "",
        edit: Callable[[Any], ParamsEdit] | None = None,
    ) -> Bound:
        """Return what a widget for a path needs.

        It begins with ``show`` of the document's value. A choice becomes an edit by ``edit``;
        without it, ``read`` of the choice is written at the path. When the document gets a value
        that the widget does not show, a new widget with another key replaces it: a widget in the
        browser keeps its own value, whatever it is given.
        """
        base = f"{self.key}.{dotted(path)}{suffix}"
        value, state = self.value(path), self._state
        if base in state.seen and not _same(state.seen[base], value):
            displayed = st.session_state.get(state.widget_key(base), MISSING)
            if displayed is MISSING or not _stands_for(displayed, value, show, read):
                state.replaced[base] = state.replaced.get(base, 0) + 1
        state.seen[base] = value
        key = state.widget_key(base)
        make = edit or (lambda chosen: partial(with_value, path=path, value=read(chosen)))

        def edit_inside(chosen: Any) -> ParamsEdit:
            return self.inside(path, make(chosen))

        callback = {"on_change": self._on_change, "args": (path, base, key, show, edit_inside)}
        return Bound(show(value), {"key": key, **callback})

    def _on_change(
        self, path: ParamPath, base: str, key: str, show: Convert, edit: Callable[[Any], ParamsEdit]
    ) -> None:
        """Make the edit that a widget reports.

        A browser also reports widgets that were replaced and values that it was just given. Both
        are ignored.
        """
        chosen = st.session_state[key]
        # The widget was replaced since; the browser reports its last value once more.
        if key != self._state.widget_key(base):
            return
        now = value_at(self._started(self._state.params, path), path)
        if not _same(_shown(show, now), chosen):
            self.revise(edit(chosen))

    def offered(self, bound: Bound, options: Iterable[Any], *chosen: Any) -> list[Any]:
        """Return the options, and everything that was ever chosen besides them in this widget."""
        key = bound.kwargs["key"]
        extra = self._state.extra_options.setdefault(key, [])
        # What was typed may be another text for the value of the document.
        now = st.session_state.get(key)
        typed = [now] if isinstance(now, str) else []
        extra += [each for each in (*chosen, *typed) if each not in extra]
        return list(dict.fromkeys([*options, *extra]))

    def explain(self, bound: Bound, text: str) -> None:
        """Show a text beside the widget while the user works with it."""
        if text:
            self.helps[bound.kwargs["key"]] = text

    def button(self, label: str, name: str, edit: ParamsEdit, **looks: Any) -> None:
        """Draw a button that revises the parameters."""
        st.button(label, key=f"{self.key}.{name}", on_click=self.revise, args=(edit,), **looks)

    def offer_removal(self, path: ParamPath, known: set[str], **looks: Any) -> None:
        """Draw a button to remove each value at a path that no field knows."""
        for name in self.value(path):
            if name not in known:
                edit = self.inside(path, partial(with_value, path=(*path, name), value=MISSING))
                label = f"Remove {plain(name[:40])}"
                self.button(label, f"{dotted((*path, name))}.remove", edit, **looks)

    def stays_open(self, part: str, needed: bool) -> bool:
        """Return whether a folded part is open.

        Once it was needed it stays open, so that it does not close while the user works in it.
        """
        if needed:
            self._state.opened.add(part)
        return part in self._state.opened

    def is_set(self, spec: FieldSpec) -> bool:
        """Return whether a field of the node has another value than its default."""
        return bool(self.params.get(spec.name, spec.default) != spec.default)

    def is_shown(self, spec: FieldSpec, specs: tuple[FieldSpec, ...]) -> bool:
        """Return whether a field has an effect, or is set or wrong so that the user may fix it."""
        is_wrong = bool(self.problems_at((spec.name,)))
        return applies(spec, self.params, specs) or is_wrong or self.is_set(spec)

    # Problems

    def problems_at(self, path: ParamPath) -> list[Problem]:
        """Return the problems of the value at a path and of everything inside it."""
        name = dotted(path)
        return [problem for problem in self.problems if is_within(problem.field or "", name)]

    def show_problems(self, path: ParamPath, inside: bool = True) -> None:
        """Show the problems at a path; with ``inside`` False, not those of the values inside it."""
        name = dotted(path)
        for problem in self.problems_at(path):
            if inside or problem.field == name:
                show_problem(problem)

    def show_other_problems(
        self, path: ParamPath, drawn: Iterable[str], titles: Mapping[str, str] | None = None
    ) -> None:
        """Show the problems at a path that do not belong to one of the fields drawn there.

        ``titles`` are those of the fields at the path; without them, those of the node.
        """
        titles = self.titles if titles is None else titles
        start = dotted(path)
        drawn_names = [f"{start}.{name}" if start else name for name in drawn]
        for problem in self.problems_at(path) if path else self.problems:
            name = problem.field or ""
            if name != start and any(is_within(name, other) for other in drawn_names):
                continue
            relative = name.removeprefix(f"{start}.") if path and name != start else name
            show_problem(problem, relative and titles.get(relative, shown(relative)))


def _stands_for(displayed: Any, value: Any, show: Convert, read: Convert) -> bool:
    """Return whether what a widget displays already means the value."""
    return _same(show(value), displayed) or _same(read(displayed), value)


def _shown(show: Convert, value: Any) -> Any:
    """Return what a widget shows of a value; ``MISSING`` if it cannot show it.

    Another tab may have written such a value since the widget was drawn.
    """
    try:
        return show(value)
    except (TypeError, ValueError):
        return MISSING


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in a document."""
    # In Python 1 == True, but in a document they are different values.
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


# Small parts


def show_problem(problem: Problem, title: str = "") -> None:
    """Draw a problem in small red letters, or a hint in orange ones.

    ``title`` says what it is about, for a problem that is not shown beside its field.
    """
    message = f"{title}: {problem.message}" if title else problem.message
    message = message[:1].upper() + message[1:]
    if problem.severity == "warning":
        st.markdown(f":small[:orange[:material/lightbulb: {plain(message)}]]")
    else:
        st.markdown(f":small[:red[:material/error: {plain(message)}]]")


def draw_style() -> None:
    """Load the style of forms into the page."""
    st.html(_STYLE)


def heading(title: str) -> None:
    """Draw the title of several widgets."""
    st.markdown(f":small[**{plain(title)}**]")


@contextmanager
def folded(title: str, text: str, key: str, *, expanded: bool) -> Iterator[None]:
    """Draw a part that is folded; its header has the title and a text.

    The text is not part of the label: the browser would draw all of it again when it changes, and
    the user would lose what is being typed.
    """
    with st.container(key=f"folded-part/{key}", gap=None):
        with st.container(key=f"folded-text/{key}"):
            st.markdown(text)
        with st.expander(title, expanded=expanded, key=f"{key}.part"):
            yield


LARGEST_HELPFUL_LIMIT = 1_000_000
"""A greater limit only says that any number will do, so that the help does not name it."""


def help_of(spec: FieldSpec) -> str:
    """Return description, limits and default of a field."""
    sentences = [spec.help, _limits_text(spec)]
    if spec.kind == "mixed":
        sentences.append("Choose, or type a number.")
    if spec.default_text and spec.kind != "cards":
        sentences.append(f"Default: {spec.default_text}.")
    return " ".join(filter(None, sentences))


def _limits_text(spec: FieldSpec) -> str:
    """Return the limits of a field in words; empty if they would not help."""
    if not spec.integer or spec.minimum is None or spec.maximum is None:
        return ""
    if spec.maximum > LARGEST_HELPFUL_LIMIT:
        return ""
    return f"From {spec.minimum:,} to {spec.maximum:,}."
