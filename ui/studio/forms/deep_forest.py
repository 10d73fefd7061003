"""The form of a deep forest: preset, learners as cards, and what the settings amount to.

An empty field is as the preset has it, and shows what that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from ui.studio.forms.cards import draw_cards
from ui.studio.forms.fields import FieldSpec, applies, as_words
from ui.studio.forms.fit_count import (
    KINDS,
    PresetFacts,
    amount,
    learner_words,
    needs_folds,
    preset_facts,
    preset_titles,
)
from ui.studio.forms.form_state import Form, choice_words, heading, help_of
from ui.studio.forms.values import MISSING, fits, put
from ui.studio.forms.widgets import draw_field
from ui.studio.markdown import plain

Row = tuple[str, ...]
VECTORS: tuple[Row, ...] = (("class_vectors",), ("folds",))
PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Growth", (("metric",), ("patience", "tolerance"), ("max_layers",), ("augment",))),
    ("Margin", (("gamma", "mu"), ("depth_step",))),
    ("Screening", (("error_share", "tree_growth"),)),
    ("Rows and columns", (("class_weights",), ("select_features", "seed"))),
)
METRIC = "AUC (3+ classes: accuracy)"


def draw_deep_forest(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw all of it; a field that is in none of the parts comes at the end."""
    by_name = {spec.name: spec for spec in specs}
    chosen = form.params.get("preset", by_name["preset"].default)
    facts = preset_facts(chosen) if isinstance(chosen, str) else None
    form.placeholders = _placeholders(facts)
    _preset(form, by_name["preset"], facts)
    _learners(form, by_name["learners"], facts)
    _part(form, by_name, "", VECTORS)
    said = amount(form.params)
    if said:
        st.markdown(f":small[:material/functions: {plain(said)}]")
    for title, rows in PARTS:
        _part(form, by_name, title, rows)
    placed = {"preset", "learners", *(name for _, rows in (("", VECTORS), *PARTS) for row in rows for name in row)}
    _part(form, by_name, "Others", tuple((spec.name,) for spec in specs if spec.name not in placed))


def _placeholders(facts: PresetFacts | None) -> dict[str, str]:
    if facts is None:
        return {}
    words = {name: as_words(value) for name, value in facts.settings.items()}
    if facts.settings["metric"] == "auto":
        words["metric"] = METRIC
    return {
        **{name: f"preset: {text}" for name, text in words.items()},
        "select_features": "all",
    }


def _preset(form: Form, spec: FieldSpec, facts: PresetFacts | None) -> None:
    value = form.params.get("preset", spec.default)
    if not fits(spec, value):
        draw_field(form, spec, ("preset",))
        return
    titles = preset_titles()
    bound = form.widget(("preset",), lambda held: spec.default if held is MISSING else held, lambda chosen: chosen)
    st.selectbox(
        plain(spec.title),
        spec.choices,
        index=list(spec.choices).index(bound.start),
        format_func=lambda name: titles.get(name, choice_words(name)),
        help=help_of(spec),
        **bound.wiring,
    )
    form.tell_problems(("preset",))
    if facts and facts.about:
        st.caption(plain(facts.about))


# Learners


def _learners(form: Form, spec: FieldSpec, facts: PresetFacts | None) -> None:
    cards = form.params.get("learners")
    if cards is not None and not fits(spec, cards):
        draw_field(form, spec, ("learners",))
        return
    if cards:
        draw_cards(form, spec, ("learners",), draw_field, words=_kind_words)
        back = partial(put, place=("learners",), value=MISSING)
        form.button("Back to the preset's learners", "learners.preset", back, type="tertiary")
    elif facts:
        _preset_learners(form, spec, facts)


def _kind_words(kind: Any) -> str:
    return KINDS.get(kind, choice_words(kind))


def _preset_learners(form: Form, spec: FieldSpec, facts: PresetFacts) -> None:
    """What the preset has, and a way to change it."""
    heading(spec.title, help_of(spec))
    form.tell_problems(("learners",))
    with st.container(border=True, gap="small"):
        for learner in facts.learners:
            st.text(learner_words(learner))
        if facts.of_many_classes != facts.learners:
            instead = ", ".join(map(learner_words, facts.of_many_classes))
            st.caption(plain(f"With more than {facts.most_classes} classes: {instead}."))
        own = [dict(learner) for learner in facts.learners]
        edit = partial(put, place=("learners",), value=own)
        form.button("Change the learners", "learners.change", edit, icon=":material/edit:", width="stretch")


# The other parts


def _part(form: Form, by_name: Mapping[str, FieldSpec], title: str, rows: tuple[Row, ...]) -> None:
    """A heading and those of the fields that are of use; nothing if none is."""
    shown = [tuple(name for name in row if name in by_name and _is_shown(form, by_name, name)) for row in rows]
    shown = [row for row in shown if row]
    if shown and title:
        heading(title)
    for row in shown:
        for column, name in zip(st.columns(len(row), gap="small"), row, strict=True):
            with column:
                draw_field(form, _without_default(by_name[name]), (name,))


def _is_shown(form: Form, by_name: Mapping[str, FieldSpec], name: str) -> bool:
    spec = by_name[name]
    of_use = needs_folds(form.params) if name == "folds" else applies(spec, form.params, tuple(by_name.values()))
    is_set = form.params.get(name, spec.default) != spec.default
    return of_use or is_set or bool(form.problems_at((name,)))


def _without_default(spec: FieldSpec) -> FieldSpec:
    return replace(spec, default=None) if spec.optional else spec
