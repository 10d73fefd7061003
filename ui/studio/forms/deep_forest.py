"""Draw the form of a deep forest: preset, learners as cards, and the number of fits.

An empty field has the value of the preset, which it shows as its placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from ui.studio.forms.cards import draw_cards
from ui.studio.forms.fields import FieldSpec, applies, display_text
from ui.studio.forms.fit_count import (
    LEARNER_TITLES,
    PresetInfo,
    fit_count_text,
    learner_text,
    needs_folds,
    preset_info,
    preset_titles,
)
from ui.studio.forms.form_state import Form, choice_label, heading, help_of
from ui.studio.forms.values import MISSING, fits, with_value
from ui.studio.forms.widgets import draw_field
from ui.studio.markdown import plain

Row = tuple[str, ...]
"""Names of fields that stand side by side."""
VECTORS: tuple[Row, ...] = (("class_vectors",), ("folds",))
PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Growth", (("metric",), ("patience", "tolerance"), ("max_layers",), ("augment",))),
    ("Margin", (("gamma", "mu"), ("depth_step",))),
    ("Screening", (("error_share", "tree_growth"),)),
    ("Rows and columns", (("class_weights",), ("select_features", "seed"))),
)
METRIC = "AUC (3+ classes: accuracy)"


def draw_deep_forest(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the form; a field that belongs to none of the parts is drawn at the end."""
    by_name = {spec.name: spec for spec in specs}
    chosen = form.params.get("preset", by_name["preset"].default)
    info = preset_info(chosen) if isinstance(chosen, str) else None
    form.placeholders = _placeholders(info)
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
    others = tuple((spec.name,) for spec in specs if spec.name not in drawn)
    _part(form, by_name, "Others", others)


def _placeholders(info: PresetInfo | None) -> dict[str, str]:
    """Return what empty fields show: the values of the preset."""
    if info is None:
        return {}
    texts = {name: display_text(value) for name, value in info.settings.items()}
    if info.settings["metric"] == "auto":
        texts["metric"] = METRIC
    placeholders = {name: f"preset: {text}" for name, text in texts.items()}
    return {**placeholders, "select_features": "all"}


def _preset(form: Form, spec: FieldSpec, info: PresetInfo | None) -> None:
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
        names = [name for name in row if name in by_name and _is_shown(form, by_name, name)]
        if names:
            visible.append(names)
    if visible and title:
        heading(title)
    for names in visible:
        for column, name in zip(st.columns(len(names), gap="small"), names, strict=True):
            with column:
                draw_field(form, _without_default(by_name[name]), (name,))


def _is_shown(form: Form, by_name: Mapping[str, FieldSpec], name: str) -> bool:
    """Return whether the field has an effect, or is set or wrong so that the user may fix it."""
    spec = by_name[name]
    if form.params.get(name, spec.default) != spec.default or form.problems_at((name,)):
        return True
    if name == "folds":
        return needs_folds(form.params)
    return applies(spec, form.params, tuple(by_name.values()))


def _without_default(spec: FieldSpec) -> FieldSpec:
    """Return an optional field without default, so that its help does not name one."""
    return replace(spec, default=None) if spec.optional else spec
