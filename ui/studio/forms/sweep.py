"""The folded part of a node's form in which values are given to be tried, each combination in a branch of its own.

- ``sweep_form``   draws it; ``can_sweep`` says for which nodes there is one
- ``SweepEdit``    what it gives for each edit: from sweep to sweep
- ``in_sweep``     whether a problem is one of the sweep
- ``as_values``, ``values_text``  values as one types them: ``0.6, 0.8``, or at random ``3 to 12``
- ``offered_settings``  what can be swept, in the words of the form
- ``summary``      what a sweep amounts to, in a line

The widgets work on the sweep as plain data, the way those of a form work on parameters.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st
from pydantic import JsonValue

from engine.node_types import NodeType
from engine.params import Types
from engine.pipeline import MAX_BRANCHES, Node, Range, Sweep, changed
from engine.problems import InvalidPipeline, Problem
from engine.sweeps import choices_of, combinations, param_label
from ui.studio.forms.fields import FieldSpec, applies, specs_of
from ui.studio.forms.fit_count import KINDS, preset_facts
from ui.studio.forms.form_state import Form, ParamsEdit, choice_words
from ui.studio.forms.values import MISSING, Place, at, from_text, json_or_text, number_or_text, put
from ui.studio.markdown import plain

SweepEdit = Callable[[Sweep | None], Sweep | None]
"""A node's sweep → the sweep after an edit."""

Change = Callable[[SweepEdit, ParamsEdit | None], None]
"""Takes an edit of the sweep, and one of the parameters that has to be made with it."""

TITLE = "Sweep"
GRID, RANDOM = "grid", "random"
MODES = {GRID: "All combinations", RANDOM: "Some at random"}
NONE = "none"
"""How an empty value (null) is typed."""

_RANGE = re.compile(r"(\S+)\s+to\s+(\S+)(\s+log)?", re.IGNORECASE)


def sweep_form(
    name: str,
    node: Node,
    catalogue: Types,
    *,
    problems: Sequence[Problem],
    has_evaluation: bool,
    key: str,
    change: Change,
) -> None:
    """Draw the sweep of a node; each edit is given to ``change``, to be made upon the sweep there is by then.

    ``has_evaluation`` says whether an evaluation lies below it, so that the branches can be compared.
    """
    form = Form(
        f"{key}/sweep",
        as_plain(node.sweep),
        [_moved(problem) for problem in problems],
        lambda edit: change(_on_sweep(edit), None),
    )
    with st.expander(TITLE, expanded=form.stays_open(TITLE, node.sweep is not None), key=f"{key}/sweep-part"):
        specs = specs_of(catalogue[node.type].params)
        if node.sweep is None:
            st.caption("Try several values of a setting: each runs in a branch of its own, beside the others.")
        else:
            _draw(form, node, specs)
            if said := summary(name, node, catalogue):
                st.caption(plain(said))
            if not has_evaluation:
                st.caption("Put an Evaluate node below it, and a leaderboard will compare the branches.")
        _add(form, node, specs, change)
        if node.sweep is not None:
            form.button("Remove the sweep", "clear", lambda sweep: {}, icon=":material/close:", type="tertiary")


def can_sweep(node: Node, node_type: NodeType) -> bool:
    """Whether the node can have branches: not if it runs for its effect, or has no settings. One there is, is shown."""
    return node.sweep is not None or (node_type.cacheable and bool(specs_of(node_type.params)))


def in_sweep(problem: Problem) -> bool:
    """Whether the problem belongs to the sweep of its node rather than to a setting."""
    return problem.field is not None and (problem.field == "sweep" or problem.field.startswith("sweep."))


def _moved(problem: Problem) -> Problem:
    """The problem at its place inside the sweep."""
    field = (problem.field or "").removeprefix("sweep").removeprefix(".")
    return type(problem)(problem.message, node=problem.node, field=field or None)


# From the document and back


def as_plain(sweep: Sweep | None) -> dict[str, Any]:
    """The sweep as plain data, empty if there is none."""
    return sweep.model_dump(mode="json", by_alias=True, exclude_defaults=True) if sweep else {}


def as_sweep(data: Mapping[str, Any]) -> Sweep | None:
    """The sweep that plain data means; none if it names no parameter. Raises the ``Problem`` if it is no sweep."""
    if not data.get(GRID) and not data.get(RANDOM):
        return None
    return changed(Sweep(), ("nodes", "", "sweep"), **data)


def _on_sweep(edit: ParamsEdit) -> SweepEdit:
    """An edit of plain data as one of a sweep."""
    return lambda sweep: as_sweep(edit(as_plain(sweep)))


def mode_of(data: Mapping[str, Any]) -> str:
    """Whether all combinations are tried, or some at random."""
    return RANDOM if data.get(RANDOM) else GRID


def in_mode(data: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The same values to be tried in the other way; a range has its two ends in a grid."""
    choices = data.get(mode_of(data), {})
    if mode == RANDOM:
        return {RANDOM: choices}
    lists = {name: [each["from"], each["to"]] if isinstance(each, dict) else each for name, each in choices.items()}
    return {GRID: lists}


# Drawing


def _draw(form: Form, node: Node, specs: tuple[FieldSpec, ...]) -> None:
    mode = mode_of(form.params)
    form.tell_others((), [f"{part}.{name}" for part in MODES for name in form.params.get(part, {})])
    for name in form.params.get(mode, {}):
        _param(form, spec_at(specs, node.params, name), (mode, name))
    bound = form.widget((), mode_of, str, ".mode", edit=lambda chosen: partial(in_mode, mode=chosen or GRID))
    st.radio(
        "Try", list(MODES), index=list(MODES).index(bound.start), format_func=MODES.__getitem__, horizontal=True,
        label_visibility="collapsed", **bound.wiring,
    )  # fmt: skip
    if mode == RANDOM:
        trials, seed = st.columns(2, gap="small")
        with trials:
            _whole(form, "Trials", "trials", 1, MAX_BRANCHES)
        with seed:
            _whole(form, "Seed", "seed", 0, 2**32 - 1)


def _whole(form: Form, title: str, name: str, least: int, most: int) -> None:
    about = Sweep.model_fields[name]
    bound = form.widget(
        (name,),
        lambda value: about.default if value is MISSING else value,
        lambda given: MISSING if given in (None, about.default) else given,
    )
    st.number_input(
        title, value=bound.start, min_value=least, max_value=most, step=1, help=about.description, **bound.wiring
    )


def _param(form: Form, spec: FieldSpec, place: Place) -> None:
    """The values of a parameter, and a way to take it out."""
    name = str(place[-1])
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if _has_choices(spec, form.value(place)):
            _choices(form, spec, place)
        else:
            _typed(form, spec, place)
        remove = partial(put, place=place, value=MISSING)
        form.button(
            "", f"{name}.remove", remove, icon=":material/close:", type="tertiary",
            help=f"Stop sweeping {plain(spec.title)}",
        )  # fmt: skip
    form.tell_problems(place)


def _has_choices(spec: FieldSpec, values: Any) -> bool:
    """Whether all there is to try can be chosen from a list."""
    offered = _offered(spec)
    return bool(offered) and isinstance(values, list) and all(_is_in(value, offered) for value in values)


def _offered(spec: FieldSpec) -> list[Any]:
    choices = [True, False] if spec.kind == "switch" else list(spec.choices) if spec.kind == "choice" else []
    return [*choices, None] if choices and spec.optional else choices


def _is_in(value: Any, offered: Sequence[Any]) -> bool:
    return any(value == one and type(value) is type(one) for one in offered)


def _choices(form: Form, spec: FieldSpec, place: Place) -> None:
    bound = form.widget(place, list, list, ".some")
    words = {True: "yes", False: "no", None: NONE}
    st.multiselect(
        plain(spec.title),
        form.offered(bound, _offered(spec)),
        bound.start,
        format_func=lambda one: words[one] if isinstance(one, bool | None) else choice_words(one),
        placeholder="Choose",
        **bound.wiring,
    )


def _typed(form: Form, spec: FieldSpec, place: Place) -> None:
    random = place[0] == RANDOM
    bound = form.widget(place, values_text, partial(as_values, spec, random=random))
    how = "Values with commas between them." + (
        " A range: 3 to 12; with “log” behind it, small ones as often." * random
    )
    placeholder = "3 to 12" if random else "values, such as 1, 2, 5"
    st.text_input(plain(spec.title), bound.start, help=how, placeholder=placeholder, **bound.wiring)


def _add(form: Form, node: Node, specs: tuple[FieldSpec, ...], change: Change) -> None:
    """A list of what else can be swept; it empties itself."""
    taken = form.params.get(mode_of(form.params), {})
    params = _with_preset_learners(node, taken)
    offered = offered_settings(specs, params, taken)
    key = f"{form.key}.add"

    def add() -> None:
        name = offered.get(st.session_state[key])
        st.session_state[key] = None
        if name is None:
            return
        values = _start(params, spec_at(specs, params, name), name)
        needed = _set_learners(params) if name.startswith("learners.") and params is not node.params else None
        form.revise(partial(with_param, name=name, values=values), lambda edit: change(_on_sweep(edit), needed))

    st.selectbox(
        "Setting to sweep", list(offered), index=None, key=key, on_change=add, placeholder="Add a setting",
        label_visibility="collapsed",
    )  # fmt: skip


def _with_preset_learners(node: Node, taken: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters, of a deep forest with its preset's learners if it has none of its own."""
    preset = node.params.get("preset", "default")
    if node.type != "deep-forest" or node.params.get("learners") or "preset" in taken or not isinstance(preset, str):
        return node.params
    facts = preset_facts(preset)
    return {**node.params, "learners": [dict(one) for one in facts.learners]} if facts else node.params


def _set_learners(params: Mapping[str, Any]) -> ParamsEdit:
    """Write the preset's learners down, so that one of them can be swept; those that are there by then stay."""
    return lambda now: now if now.get("learners") else {**now, "learners": params["learners"]}


def with_param(data: dict[str, Any], name: str, values: list[Any]) -> dict[str, Any]:
    """The sweep with one more parameter; one that is there keeps its values."""
    place = (mode_of(data), name)
    return data if at(data, place) is not MISSING else dict(put(data, place, values))


def _start(params: Mapping[str, Any], spec: FieldSpec, name: str) -> list[Any]:
    """What the parameter is now, to begin with."""
    now = at(params, _steps(name))
    now = spec.default if now is MISSING else now
    return [] if now is None or now == [] else [now]


# Which parameters there are


def _steps(name: str) -> Place:
    return tuple(int(step) if re.fullmatch("[0-9]{1,4}", step) else step for step in name.split("."))


def offered_settings(
    specs: tuple[FieldSpec, ...], params: Mapping[str, Any], taken: Mapping[str, Any]
) -> dict[str, str]:
    """What can be swept besides what is: parameters by the titles that the form has for them.

    A field that is of no use with the other settings, or with the first of their swept values, is left out.
    """
    now = {**params, **{name: values[0] for name, values in taken.items() if isinstance(values, list) and values}}
    useful = [spec for spec in specs if applies(spec, now, specs)]
    titles = {name: spec_at(specs, params, name).title for name in _names(useful, params)}
    often = Counter(titles.values())
    return {
        title if often[title] == 1 else f"{title} ({name})": name
        for name, title in titles.items()
        if not any(_overlap(name, other) for other in taken)
    }


def _overlap(one: str, other: str) -> bool:
    """Whether one of the parameters is the other, or a part of it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _names(specs: Sequence[FieldSpec], params: Mapping[str, Any]) -> Iterator[str]:
    """Each field, and those of each card that the node has."""
    for spec in specs:
        yield spec.name
        for number, kind in enumerate(_kinds(spec, params)):
            for inner in spec.variants.get(kind, ()):
                yield f"{spec.name}.{number}.{inner.name}"


def _kinds(spec: FieldSpec, params: Mapping[str, Any]) -> list[str]:
    """The kinds of the cards that the node has."""
    cards = params.get(spec.name) if spec.kind == "cards" else None
    return [str(at(card, (spec.tag,))) for card in cards] if isinstance(cards, list) else []


def spec_at(specs: tuple[FieldSpec, ...], params: Mapping[str, Any], name: str) -> FieldSpec:
    """The field that a name means; one that takes anything, if it is none."""
    first, *rest = _steps(name)
    spec = next((spec for spec in specs if spec.name == first), None)
    if spec is not None and not rest:
        return spec
    kinds = _kinds(spec, params) if spec else []
    match rest:
        case [int(number), str(inner)] if spec and number < len(kinds):
            for one in spec.variants.get(kinds[number], ()):
                if one.name == inner:
                    return replace(one, title=f"{one.title} of {_card_words(kinds, number)}")
    return FieldSpec(name, name, "json")


def _card_words(kinds: Sequence[str], number: int) -> str:
    """A card by its kind: ``Random forest``, with its place if there are several of that kind."""
    words = KINDS.get(kinds[number], choice_words(kinds[number]))
    return words if kinds.count(kinds[number]) == 1 else f"{words} ({number + 1})"


# Values as text


def values_text(choice: Any) -> str:
    """Values as one would type them."""
    if isinstance(choice, dict):
        return f"{choice.get('from')} to {choice.get('to')}{' log' if choice.get('log') else ''}"
    return ", ".join(_value_text(value) for value in choice) if isinstance(choice, list) else ""


def _value_text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, str):
        simple = value and value == value.strip() and not re.search(r'[,"\[\]{}]', value) and value.lower() != NONE
        return value if simple else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def as_values(spec: FieldSpec, text: str, *, random: bool = False) -> JsonValue:
    """The values that were typed; what is no such value stays text, for the validator to name."""
    text = text.strip()
    ends = _range(text) if random else None
    if ends is not None:
        return ends
    return [_value(spec, part) for part in _parts(text)]


def _range(text: str) -> JsonValue:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    start, end = number_or_text(found[1]), number_or_text(found[2])
    if isinstance(start, str) or isinstance(end, str):
        return None
    return {"from": start, "to": end, **({"log": True} if found[3] else {})}


def _parts(text: str) -> list[str]:
    """What stands between the commas, but for those inside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == '"'
        depth += 0 if quoted else (sign in "[{") - (sign in "]}")
        if sign == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _value(spec: FieldSpec, part: str) -> JsonValue:
    if part[0] in '["{':
        found: JsonValue = json_or_text(part)
        return found
    if part.lower() in (NONE, "null") and spec.optional:
        return None
    if spec.kind in ("texts", "numbers", "choices", "cards", "table", "json"):
        return json_or_text(part)  # type: ignore[no-any-return]
    value: JsonValue = from_text(spec, part)
    return value


# What it amounts to


def summary(name: str, node: Node, catalogue: Types) -> str:
    """``6 branches: γ (3) × μ (2)``; nothing while the sweep cannot be carried out."""
    assert node.sweep is not None
    try:
        count = len(combinations(name, node, catalogue))
    except InvalidPipeline:
        return ""
    branches = "1 branch" if count == 1 else f"{count:,} branches"
    choices = choices_of(node.sweep).items()
    texts = [f"{param_label(param, catalogue[node.type])} {_told(choice)}" for param, choice in choices]
    if node.sweep.random:
        return f"{branches}, drawn from {', '.join(texts)}"
    return f"{branches}: {' × '.join(texts)}"


def _told(choice: Sequence[JsonValue] | Range) -> str:
    return f"({choice.start:g} to {choice.end:g})" if isinstance(choice, Range) else f"({len(choice)})"
