"""Draw the form of a node, generated from its type's parameters.

The form of a deep forest is its own: preset, learners as cards, and the number of fits. There, an
empty field has the value of the preset, which it shows as its placeholder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import Problem
from engine.node_types import Columns, NodeType
from engine.pipeline import Node
from ui.studio.forms.cards import draw_cards
from ui.studio.forms.field_widgets import draw_field
from ui.studio.forms.fields import (
    MISSING,
    FieldSpec,
    applies,
    display_text,
    fits,
    specs_of,
    with_value,
)
from ui.studio.forms.fit_count import (
    LEARNER_TITLES,
    PresetInfo,
    fit_count_text,
    learner_text,
    needs_folds,
    preset_info,
    preset_titles,
)
from ui.studio.forms.form import Form, ParamsEdit, choice_label, heading, help_of
from ui.studio.screen_text import plain

MORE = "More settings"
Row = tuple[str, ...]
"""Names of fields that stand side by side."""
VECTORS: tuple[Row, ...] = (("resampling",), ("class_vectors",), ("folds", "folds_by"))
PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Growth", (("metric",), ("patience", "tolerance"), ("max_layers",), ("augment",))),
    ("Margin", (("gamma", "mu"), ("depth_step",))),
    ("Screening", (("error_share", "tree_growth"),)),
    ("Rows and columns", (("class_weights",), ("select_features", "seed"))),
)
METRIC = {"nested": "log loss", "per_layer": "AUC or accuracy, as in the paper"}


def node_form(
    node: Node,
    node_type: NodeType,
    *,
    columns: Columns | None,
    offered_files: Sequence[str],
    problems: Sequence[Problem],
    key: str,
    change: Callable[[ParamsEdit], None],
) -> None:
    """Draw the form of a node; pass each edit to ``change``.

    An edit is a function of the parameters, which may be others when it is made. ``columns`` are
    those to choose from, ``None`` if they are not known. ``problems`` are those of this node. With
    another ``key`` all widgets begin again with the values of the document.
    """
    form = Form(key, node.params, problems, change, columns, offered_files)
    specs = specs_of(node_type.params)
    with st.container(gap="small"):
        form.show_other_problems((), [spec.name for spec in specs])
        form.offer_removal((), {spec.name for spec in specs}, icon=":material/close:")
        if not specs:
            st.caption("This node has no settings.")
        elif node_type.name == "deep-forest":
            _load_learners()
            _draw_deep_forest(form, specs)
        else:
            _draw_fields(form, specs)


def _draw_fields(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the fields that have an effect, those that are rarely needed in a folded part."""
    visible = [spec for spec in specs if _is_shown(form, spec, specs)]
    for spec in visible:
        if not spec.hint.folded:
            draw_field(form, spec, (spec.name,))
    folded = [spec for spec in visible if spec.hint.folded]
    if folded:
        needed = any(_is_set_or_wrong(form, spec) for spec in folded)
        with st.expander(MORE, expanded=form.stays_open(MORE, needed)):
            for spec in folded:
                draw_field(form, spec, (spec.name,))


def _is_set_or_wrong(form: Form, spec: FieldSpec) -> bool:
    """Return whether a folded field needs the attention of the user."""
    return spec.name in form.params or bool(form.problems_at((spec.name,)))


def _is_shown(form: Form, spec: FieldSpec, specs: tuple[FieldSpec, ...]) -> bool:
    """Return whether the field has an effect, or is set or wrong so that the user may fix it."""
    if applies(spec, form.params, specs) or form.problems_at((spec.name,)):
        return True
    return _is_set(form, spec)


def _is_set(form: Form, spec: FieldSpec) -> bool:
    """Return whether the field has another value than its default."""
    return bool(form.params.get(spec.name, spec.default) != spec.default)


# A deep forest


def _load_learners() -> None:
    """Load the learning library, which is slow the first time, and say so meanwhile."""
    if "deepforest.presets" not in sys.modules:
        with st.spinner("Loading the learners …"):
            import deepforest.presets  # noqa: F401


def _draw_deep_forest(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the form; a field that belongs to none of the parts is drawn at the end."""
    by_name = {spec.name: spec for spec in specs}
    chosen = form.params.get("preset", by_name["preset"].default)
    info = preset_info(chosen) if isinstance(chosen, str) else None
    form.placeholders = _placeholders(info, form.params.get("resampling"))
    _preset(form, by_name["preset"], info)
    _learners(form, by_name["learners"], info)
    _part(form, by_name, "", VECTORS)
    fit_count = fit_count_text(form.params)
    if fit_count:
        st.markdown(f":small[:material/functions: {plain(fit_count)}]")
    drawn = {"preset", "learners"}.union(*VECTORS)
    for title, rows in PARTS:
        _part(form, by_name, title, rows)
        drawn.update(*rows)
    # A field that is added to the node later is shown before this form knows its part.
    others = tuple((spec.name,) for spec in specs if spec.name not in drawn)
    _part(form, by_name, "Others", others)


def _placeholders(info: PresetInfo | None, resampling: Any) -> dict[str, str]:
    """Return what empty fields show: the values of the preset.

    ``resampling`` is how scores are made, if that is set: the metric for growth depends on it.
    """
    if info is None:
        return {}
    from nodes.deep_forest import HOW_SCORES_ARE_MADE

    texts = {name: display_text(value) for name, value in info.params.items()}
    texts["resampling"] = HOW_SCORES_ARE_MADE[info.params["resampling"]]
    if info.params["metric"] == "auto":
        texts["metric"] = METRIC.get(str(resampling), METRIC[info.params["resampling"]])
    placeholders = {name: f"preset: {text}" for name, text in texts.items()}
    return {**placeholders, "select_features": "all"}


def _preset(form: Form, spec: FieldSpec, info: PresetInfo | None) -> None:
    """Draw the choice of the preset with its description."""
    value = form.params.get("preset", spec.default)
    if not fits(spec, value):
        draw_field(form, spec, ("preset",))
        return
    titles = preset_titles()
    bound = form.widget(
        ("preset",),
        lambda value: spec.default if value is MISSING else value,
        lambda chosen: chosen,
    )
    st.selectbox(
        plain(spec.title),
        spec.choices,
        index=list(spec.choices).index(bound.initial),
        format_func=lambda name: titles.get(name, choice_label(name)),
        help=help_of(spec),
        **bound.kwargs,
    )
    form.show_problems(("preset",))
    if info and info.description:
        st.caption(plain(info.description))


# Learners


def _learners(form: Form, spec: FieldSpec, info: PresetInfo | None) -> None:
    """Draw the learners as cards, or those of the preset while none are set."""
    cards = form.params.get("learners")
    if cards is not None and not fits(spec, cards):
        draw_field(form, spec, ("learners",))
        return
    if cards:
        draw_cards(form, spec, ("learners",), draw_field, label=_kind_label)
        back = partial(with_value, path=("learners",), value=MISSING)
        form.button("Back to the preset's learners", "learners.preset", back, type="tertiary")
    elif info:
        _preset_learners(form, spec, info)


def _kind_label(kind: Any) -> str:
    """Return the title of a kind of learner."""
    return LEARNER_TITLES.get(kind, choice_label(kind))


def _preset_learners(form: Form, spec: FieldSpec, info: PresetInfo) -> None:
    """List the learners of the preset, with a button that writes them down to be changed."""
    heading(spec.title, help_of(spec))
    form.show_problems(("learners",))
    with st.container(border=True, gap="small"):
        for learner in info.learners:
            st.text(learner_text(learner))
        if info.learners_of_many_classes != info.learners:
            instead = ", ".join(map(learner_text, info.learners_of_many_classes))
            st.caption(plain(f"With more than {info.max_classes} classes: {instead}."))
        own = [dict(learner) for learner in info.learners]
        edit = partial(with_value, path=("learners",), value=own)
        icon = ":material/edit:"
        form.button("Change the learners", "learners.change", edit, icon=icon, width="stretch")


# The other parts


def _part(form: Form, by_name: Mapping[str, FieldSpec], title: str, rows: tuple[Row, ...]) -> None:
    """Draw a heading and the fields that have an effect; nothing if none has."""
    visible = []
    for row in rows:
        names = [name for name in row if name in by_name and _has_effect(form, by_name, name)]
        if names:
            visible.append(names)
    if visible and title:
        heading(title)
    for names in visible:
        for column, name in zip(st.columns(len(names), gap="small"), names, strict=True):
            with column:
                draw_field(form, _without_default(by_name[name]), (name,))


def _has_effect(form: Form, by_name: Mapping[str, FieldSpec], name: str) -> bool:
    """Return whether to show a field; folds also depend on which learners there are."""
    if name == "folds" and not (_is_set(form, by_name[name]) or form.problems_at((name,))):
        return needs_folds(form.params)
    return _is_shown(form, by_name[name], tuple(by_name.values()))


def _without_default(spec: FieldSpec) -> FieldSpec:
    """Return an optional field without default, so that its help does not name one."""
    return replace(spec, default=None) if spec.optional else spec
