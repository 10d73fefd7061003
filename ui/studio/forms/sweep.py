"""Draw the folded part of a node's form that holds values to try, each in its own branch.

- ``sweep_form``   draws it; ``can_sweep`` says which nodes have it
- ``SweepEdit``    what it reports for each edit: a function from sweep to sweep
- ``in_sweep``     whether a problem belongs to the sweep
- ``as_values``, ``values_text``  values as a user types them: ``0.6, 0.8``, or ``3 to 12``
- ``offered_settings``  the parameters that can be swept, by their titles in the form
- ``summary``      the number of branches and where it comes from, in one line

The widgets work on the sweep as plain data, as those of a form work on parameters.
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

from engine.errors import InvalidPipeline, Problem
from engine.node_types import NodeType, NodeTypes
from engine.pipeline import MAX_BRANCHES, Node, Range, Sweep
from engine.pipeline_file import with_values
from engine.sweeps import choices_of, combinations, param_label
from engine.text import counted
from ui.studio.forms.field_help import draw_help
from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    ParamPath,
    applies,
    from_text,
    is_one_of,
    is_within,
    json_or_text,
    number_or_text,
    specs_of,
    value_at,
    with_value,
)
from ui.studio.forms.fit_count import preset_info
from ui.studio.forms.form import Form, ParamsEdit, draw_style
from ui.studio.screen_text import plain

SweepEdit = Callable[[Sweep | None], Sweep | None]
"""A node's sweep → the sweep after an edit."""

Change = Callable[[SweepEdit, ParamsEdit | None], None]
"""Makes an edit of the sweep, with an edit of the parameters that belongs to it."""

TITLE = "Sweep"
GRID, RANDOM = "grid", "random"
MODES = {GRID: "All combinations", RANDOM: "Random combinations"}
NO_EVALUATION = (
    "Add Choose best after it to choose among the branches on validation rows, or Evaluate to "
    "compare them in a leaderboard."
)
NONE = "none"
"""How an empty value (null) is typed."""
LIST_HELP = "Values, separated by commas."
RANGE_HELP = "A range: 3 to 12. Add “log” to try small values as often as large ones."

KINDS_TYPED_AS_JSON = ("texts", "numbers", "choices", "cards", "table", "json")
_RANGE = re.compile(r"(\S+)\s+to\s+(\S+)(\s+log)?", re.IGNORECASE)


def sweep_form(
    name: str,
    node: Node,
    catalog: NodeTypes,
    *,
    problems: Sequence[Problem],
    has_evaluation: bool,
    ranked_on: str,
    key: str,
    change: Change,
) -> None:
    """Draw the sweep of a node; pass each edit to ``change``.

    An edit is a function of the sweep, which may be another when it is made. ``has_evaluation``
    says whether an evaluation follows the node, so that its branches can be compared; ``ranked_on``
    are the rows of that evaluation in words.
    """
    form = Form(
        f"{key}/sweep",
        sweep_data(node.sweep),
        [_relative_to_sweep(problem) for problem in problems],
        lambda edit: change(_on_sweep(edit), None),
    )
    draw_style()
    is_open = form.stays_open(TITLE, node.sweep is not None)
    with st.expander(TITLE, expanded=is_open, key=f"{key}/sweep-part"):
        specs = specs_of(catalog[node.type].params)
        if node.sweep is None:
            st.caption("Try several values of a setting. Each value runs in its own branch.")
        else:
            _draw(form, node, specs)
            if text := summary(name, node, catalog):
                st.caption(plain(text))
            if not has_evaluation:
                st.caption(NO_EVALUATION)
            elif ranked_on != "rows":
                st.caption(f"The branches are ranked on {ranked_on}.")
        _add(form, node, specs, change)
        if node.sweep is not None:
            icon = ":material/close:"
            form.button("Remove the sweep", "clear", lambda sweep: {}, icon=icon, type="tertiary")
    draw_help(form.helps, f"{key}/sweep")


def can_sweep(node: Node, node_type: NodeType) -> bool:
    """Return whether the node has a sweep or can have one.

    A node that runs for its effect, such as Save model, or that has no settings cannot.
    """
    return node.sweep is not None or (node_type.cacheable and bool(specs_of(node_type.params)))


def in_sweep(problem: Problem) -> bool:
    """Return whether the problem belongs to the sweep of its node and not to a setting."""
    return is_within(problem.field or "", "sweep")


def _relative_to_sweep(problem: Problem) -> Problem:
    """Return the problem with its path inside the sweep."""
    field = (problem.field or "").removeprefix("sweep").removeprefix(".")
    return type(problem)(problem.message, node=problem.node, field=field or None)


# From the document and back


def sweep_data(sweep: Sweep | None) -> dict[str, Any]:
    """Return the sweep as plain data, empty for ``None``."""
    if sweep is None:
        return {}
    return sweep.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def as_sweep(data: Mapping[str, Any]) -> Sweep | None:
    """Return the sweep from plain data, ``None`` if it names no parameter.

    Raise ``Problem`` if the data is not a valid sweep.
    """
    if not data.get(GRID) and not data.get(RANDOM):
        return None
    return with_values(Sweep(), ("nodes", "", "sweep"), **data)


def _on_sweep(edit: ParamsEdit) -> SweepEdit:
    """Return an edit of plain data as an edit of a sweep."""
    return lambda sweep: as_sweep(edit(sweep_data(sweep)))


def mode_of(data: Mapping[str, Any]) -> str:
    """Return ``grid`` (all combinations are tried) or ``random`` (some of them)."""
    return RANDOM if data.get(RANDOM) else GRID


def with_mode(data: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Return the sweep with the same values in another mode.

    A range becomes its two ends in a grid, which has only lists.
    """
    choices = data.get(mode_of(data), {})
    if mode == RANDOM:
        return {RANDOM: choices}
    lists = {}
    for name, values in choices.items():
        is_range = isinstance(values, dict)
        lists[name] = [values["from"], values["to"]] if is_range else values
    return {GRID: lists}


# Drawing


def _draw(form: Form, node: Node, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the swept parameters, the mode, and for random trials their number and seed."""
    mode = mode_of(form.params)
    drawn = [f"{part}.{name}" for part in MODES for name in form.params.get(part, {})]
    form.show_other_problems((), drawn)
    for name in form.params.get(mode, {}):
        _param(form, spec_at(specs, node.params, name), (mode, name))

    def edit(chosen: str | None) -> ParamsEdit:
        return partial(with_mode, mode=chosen or GRID)

    bound = form.widget((), mode_of, str, ".mode", edit=edit)
    st.radio(
        "Try",
        list(MODES),
        index=list(MODES).index(bound.initial),
        format_func=MODES.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
        **bound.kwargs,
    )
    if mode == RANDOM:
        trials, seed = st.columns(2, gap="small")
        with trials:
            _integer_input(form, "Trials", "trials", 1, MAX_BRANCHES)
        with seed:
            _integer_input(form, "Seed", "seed", 0, 2**32 - 1)


def _integer_input(form: Form, title: str, name: str, minimum: int, maximum: int) -> None:
    """Draw a number of the sweep itself; its default is left out of the document."""
    field = Sweep.model_fields[name]
    bound = form.widget(
        (name,),
        lambda value: field.default if value is MISSING else value,
        lambda typed: MISSING if typed in (None, field.default) else typed,
    )
    form.explain(bound, field.description or "")
    st.number_input(
        title,
        value=bound.initial,
        min_value=minimum,
        max_value=maximum,
        step=1,
        **bound.kwargs,
    )


def _param(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw the values of a parameter, and a button to stop sweeping it."""
    name = str(path[-1])
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if _has_choices(spec, form.value(path)):
            _choices(form, spec, path)
        else:
            _typed(form, spec, path)
        remove = partial(with_value, path=path, value=MISSING)
        with st.container(key=f"icon-button/{form.key}.{name}.remove", width="content"):
            form.button(
                f"Stop sweeping {plain(spec.title)}",
                f"{name}.remove",
                remove,
                icon=":material/close:",
                type="tertiary",
            )
    form.show_problems(path)


def _has_choices(spec: FieldSpec, values: Any) -> bool:
    """Return whether a list of options holds all the values."""
    options = _options(spec)
    if not options or not isinstance(values, list):
        return False
    return all(is_one_of(value, options) for value in values)


def _options(spec: FieldSpec) -> list[Any]:
    """Return what can be chosen for a parameter, nothing if its values are typed."""
    if spec.kind == "switch":
        options: list[Any] = [True, False]
    elif spec.kind == "choice":
        options = list(spec.choices)
    else:
        return []
    return [*options, None] if options and spec.optional else options


def _choices(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw the values of a parameter as a list of options."""
    bound = form.widget(path, list, list, ".some")
    labels = {True: "yes", False: "no", None: NONE}

    def label(option: Any) -> str:
        return labels[option] if isinstance(option, bool | None) else spec.text_of(option)

    st.multiselect(
        plain(spec.title),
        form.offered(bound, _options(spec)),
        bound.initial,
        format_func=label,
        placeholder="Choose",
        **bound.kwargs,
    )


def _typed(form: Form, spec: FieldSpec, path: ParamPath) -> None:
    """Draw the values of a parameter as text; a random sweep also takes a range."""
    random = path[0] == RANDOM
    show, read = partial(values_text, spec), partial(as_values, spec, random=random)
    bound = form.widget(path, show, read)
    form.explain(bound, f"{LIST_HELP} {RANGE_HELP}" if random else LIST_HELP)
    st.text_input(
        plain(spec.title),
        bound.initial,
        placeholder="3 to 12" if random else "values, such as 1, 2, 5",
        **bound.kwargs,
    )


def _add(form: Form, node: Node, specs: tuple[FieldSpec, ...], change: Change) -> None:
    """Draw a list of the settings that can be added, which is empty again after each choice."""
    taken = form.params.get(mode_of(form.params), {})
    params = _with_preset_learners(node, taken)
    offered = offered_settings(specs, params, taken)
    key = f"{form.key}.add"

    def add() -> None:
        name = offered.get(st.session_state[key])
        st.session_state[key] = None
        if name is None:
            return
        values = _initial_values(params, spec_at(specs, params, name), name)
        # A sweep of a preset's learner needs that learner in the parameters.
        is_preset_learner = name.startswith("learners.") and params is not node.params
        needed = _set_learners(params) if is_preset_learner else None
        edit = partial(with_param, name=name, values=values)
        form.revise(edit, lambda edit: change(_on_sweep(edit), needed))

    st.selectbox(
        "Setting to sweep",
        list(offered),
        index=None,
        key=key,
        on_change=add,
        placeholder="Add a setting",
        label_visibility="collapsed",
    )


def _with_preset_learners(node: Node, taken: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters; a deep forest without its own learners gets those of its preset."""
    preset = node.params.get("preset", "default")
    has_own = bool(node.params.get("learners")) or "preset" in taken
    if node.type != "deep-forest" or has_own or not isinstance(preset, str):
        return node.params
    info = preset_info(preset)
    if info is None:
        return node.params
    return {**node.params, "learners": [dict(learner) for learner in info.learners]}


def _set_learners(params: Mapping[str, Any]) -> ParamsEdit:
    """Return an edit that writes the preset's learners, unless there are learners by then."""
    learners = params["learners"]
    return lambda now: now if now.get("learners") else {**now, "learners": learners}


def with_param(data: dict[str, Any], name: str, values: list[Any]) -> dict[str, Any]:
    """Return the sweep with one more parameter; a parameter that it has keeps its values.

    ``name`` is dotted: ``learners.0.trees`` is a setting of the first learner.
    """
    path = (mode_of(data), name)
    if value_at(data, path) is not MISSING:
        return data
    return dict(with_value(data, path, values))


def _initial_values(params: Mapping[str, Any], spec: FieldSpec, name: str) -> list[Any]:
    """Return the parameter's value outside the sweep, as the first one to try."""
    now = value_at(params, _path_of(name))
    now = spec.default if now is MISSING else now
    return [] if now is None or now == [] else [now]


# Which parameters there are


def _path_of(name: str) -> ParamPath:
    """Return the path of a dotted name: ``learners.0.trees`` → ``("learners", 0, "trees")``."""
    steps = name.split(".")
    return tuple(int(step) if re.fullmatch("[0-9]{1,4}", step) else step for step in steps)


def offered_settings(
    specs: tuple[FieldSpec, ...], params: Mapping[str, Any], taken: Mapping[str, Any]
) -> dict[str, str]:
    """Return the parameters that can be added to the sweep, by their titles in the form.

    A field without effect is left out. To find that out, a swept parameter counts with the first
    of its values.
    """
    # The form hides a field without effect, and so does this list.
    now = dict(params)
    for name, values in taken.items():
        if isinstance(values, list) and values:
            now[name] = values[0]
    useful = [spec for spec in specs if applies(spec, now, specs)]
    titles = {name: spec_at(specs, params, name).title for name in _names(useful, params)}
    counts = Counter(titles.values())
    offered = {}
    for name, title in titles.items():
        unique = title if counts[title] == 1 else f"{title} ({name})"
        if not any(_overlap(name, other) for other in taken):
            offered[unique] = name
    return offered


def _overlap(one: str, other: str) -> bool:
    """Return whether one of the parameters is the other, or a part of it."""
    return is_within(one, other) or is_within(other, one)


def _names(specs: Sequence[FieldSpec], params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each field, and of each field of the cards that the node has."""
    for spec in specs:
        yield spec.name
        for number, kind in enumerate(_kinds(spec, params)):
            for inner in spec.variants.get(kind, ()):
                yield f"{spec.name}.{number}.{inner.name}"


def _kinds(spec: FieldSpec, params: Mapping[str, Any]) -> list[str]:
    """Return the kinds of the cards that the node has in this field."""
    cards = params.get(spec.name) if spec.kind == "cards" else None
    if not isinstance(cards, list):
        return []
    return [str(value_at(card, (spec.tag,))) for card in cards]


def spec_at(specs: tuple[FieldSpec, ...], params: Mapping[str, Any], name: str) -> FieldSpec:
    """Return the field of a dotted name; for an unknown name, a field that takes any JSON."""
    first, *rest = _path_of(name)
    spec = next((spec for spec in specs if spec.name == first), None)
    if spec is not None and not rest:
        return spec
    kinds = _kinds(spec, params) if spec else []
    match rest:
        case [int(number), str(inner)] if spec and number < len(kinds):
            for field in spec.variants.get(kinds[number], ()):
                if field.name == inner:
                    return replace(
                        field, title=f"{field.title} of {_card_title(spec, kinds, number)}"
                    )
    return FieldSpec(name, name, "json")


def _card_title(spec: FieldSpec, kinds: Sequence[str], number: int) -> str:
    """Return ``Random forest``, or ``Random forest (2)`` if several cards are of that kind."""
    kind = kinds[number]
    title = spec.kinds.get(kind, kind)
    return title if kinds.count(kind) == 1 else f"{title} ({number + 1})"


# Values as text


def values_text(spec: FieldSpec, choice: Any) -> str:
    """Return a list of values, or a range, as a user would type it; choices in their words."""
    if isinstance(choice, dict):
        log = " log" if choice.get("log") else ""
        return f"{choice.get('from')} to {choice.get('to')}{log}"
    if not isinstance(choice, list):
        return ""
    return ", ".join(_value_text(spec, value) for value in choice)


def _value_text(spec: FieldSpec, value: Any) -> str:
    """Return one value as text that ``as_values`` reads as the same value."""
    if value is None:
        return NONE
    if spec.kind == "mixed" and value in spec.choices:
        value = spec.text_of(value)
    if isinstance(value, str) and _needs_no_quotes(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _needs_no_quotes(text: str) -> bool:
    """Return whether text can be typed as it is, and is read as the same text."""
    if text != text.strip() or text.lower() in ("", NONE):
        return False
    # Commas, quotes and brackets have a meaning between values.
    return not re.search(r'[,"\[\]{}]', text)


def as_values(spec: FieldSpec, text: str, *, random: bool = False) -> JsonValue:
    """Return the values that were typed; with ``random``, also a range.

    A part that is not a value of the field stays text, so that the validator can report it.
    """
    text = text.strip()
    bounds = _range(text) if random else None
    if bounds is not None:
        return bounds
    return [_value(spec, part) for part in _parts(text)]


def _range(text: str) -> JsonValue:
    """Return the range that a text such as ``0.01 to 10 log`` says, ``None`` for other text."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    start, end = number_or_text(match[1]), number_or_text(match[2])
    if isinstance(start, str) or isinstance(end, str):
        return None
    log: dict[str, JsonValue] = {"log": True} if match[3] else {}
    return {"from": start, "to": end, **log}


def _parts(text: str) -> list[str]:
    """Split the text at its commas, except those inside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        # Inside quotes, commas and brackets are part of a value.
        quoted ^= character == '"'
        if not quoted:
            depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _value(spec: FieldSpec, part: str) -> JsonValue:
    """Return one typed value."""
    if part.lower() in (NONE, "null") and spec.optional:
        return None
    is_json = part[0] in '["{' or spec.kind in KINDS_TYPED_AS_JSON
    value: JsonValue = json_or_text(part) if is_json else from_text(spec, part)
    return value


# The number of branches


def summary(name: str, node: Node, catalog: NodeTypes) -> str:
    """Return ``6 branches: γ (3) × μ (2)``; an empty text while the sweep is not valid."""
    assert node.sweep is not None
    try:
        count = len(combinations(name, node, catalog))
    except InvalidPipeline:
        return ""
    branches = counted(count, "branch", "branches")
    texts = []
    for param, choice in choices_of(node.sweep).items():
        texts.append(f"{param_label(param, catalog[node.type])} {_choice_text(choice)}")
    if node.sweep.random:
        return f"{branches}, drawn from {', '.join(texts)}"
    return f"{branches}: {' × '.join(texts)}"


def _choice_text(choice: Sequence[JsonValue] | Range) -> str:
    """Return how many values are tried, or the range they are drawn from."""
    if isinstance(choice, Range):
        return f"({choice.start:g} to {choice.end:g})"
    return f"({len(choice)})"
