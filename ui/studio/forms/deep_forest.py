"""Draw the form of a deep forest: its preset, its learners, and folded parts with the rest.

An empty field has the value of the preset, which it shows as its placeholder. The header of a part
says what differs from the preset.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from nodes.deep_forest import SCANNING_PRESET
from ui.studio.forms.cards import draw_cards
from ui.studio.forms.field_widgets import draw_field
from ui.studio.forms.fields import MISSING, FieldSpec, fits, with_value
from ui.studio.forms.fit_count import (
    PresetInfo,
    fit_count_text,
    learner_text,
    needs_folds,
    preset_info,
)
from ui.studio.forms.form import Form, folded
from ui.studio.screen_text import plain

SCANNING = "Images and sequences"
"""Title of the part about scanning."""
Row = tuple[str, ...]
"""Names of fields that stand side by side."""
PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "Layers",
        (
            ("resampling",),
            ("metric",),
            ("max_layers", "patience"),
            ("folds", "tolerance"),
            ("folds_by",),
            ("class_vectors",),
            ("augment",),
        ),
    ),
    ("Rows and columns", (("class_weights",), ("select_features", "seed"))),
    ("Margin", (("gamma", "mu"), ("depth_step",))),
    ("Screening", (("error_share", "tree_growth"),)),
    (SCANNING, (("scan_shape",), ("scan_windows", "scan_sample"))),
)
AS_PRESET = "as the preset"
PHRASES = {"folds": "{} fold", "max_layers": "max {} layer", "select_features": "{} feature"}
"""How the header of a part says a value; others are said with the title of the field."""
METRIC = {"nested": "Log loss", "per_layer": "AUC or accuracy, as in the paper"}


def draw_deep_forest(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the form; a field that belongs to none of the parts is drawn at the end."""
    _load_learners()
    by_name = {spec.name: spec for spec in specs}
    chosen = form.params.get("preset", by_name["preset"].default)
    info = preset_info(chosen) if isinstance(chosen, str) else None
    form.placeholders = _placeholders(info, by_name, form.params.get("resampling"))
    if chosen == SCANNING_PRESET:
        form.placeholders |= {"scan_windows": "1/16 of the columns", "scan_sample": "0.1"}
    draw_field(form, by_name["preset"], ("preset",))
    with st.container():
        if info:
            st.caption(_about(info))
    with st.container(gap="xsmall"):
        _learners(form, by_name["learners"], info)
    with st.container():
        for line in (fit_count_text(form.params) or "").splitlines():
            st.markdown(f":small[{plain(line)}]")
    drawn = {"preset", "learners"}
    for title, rows in PARTS:
        drawn.update(*rows)
        with st.container():
            _part(form, by_name, title, rows)
    # A field that is added to the node later is shown before this form knows its part.
    others = tuple((spec.name,) for spec in specs if spec.name not in drawn)
    _part(form, by_name, "Others", others)


def _load_learners() -> None:
    """Load the learning library, which is slow the first time, and say so meanwhile."""
    if "deepforest.presets" not in sys.modules:
        with st.spinner("Loading the learners …"):
            import deepforest.presets  # noqa: F401


def _placeholders(
    info: PresetInfo | None, by_name: Mapping[str, FieldSpec], resampling: Any
) -> dict[str, str]:
    """Return what empty fields show: the values of the preset.

    ``resampling`` is how layers are scored, if that is set: the metric for growth depends on it.
    """
    if info is None:
        return {}
    texts = {}
    for name, value in info.params.items():
        if name in by_name:
            texts[name] = by_name[name].text_of(value)
    if info.params["metric"] == "auto":
        texts["metric"] = METRIC.get(str(resampling), METRIC[info.params["resampling"]])
    placeholders = {name: f"preset: {text}" for name, text in texts.items()}
    scan = {"scan_shape": "no scanning", "scan_windows": "automatic", "scan_sample": "all"}
    return {**placeholders, "select_features": "all", **scan}


def _about(info: PresetInfo) -> str:
    """Return what a preset is in one sentence, and its paper."""
    text = plain(info.description)
    return f"{text} Paper: {plain(info.paper)}." if info.paper else text


def _learners(form: Form, spec: FieldSpec, info: PresetInfo | None) -> None:
    """Draw the learners; while none are set, those of the preset, which an edit writes down."""
    own = form.params.get("learners")
    if own is not None and not fits(spec, own):
        draw_field(form, spec, ("learners",))
        return
    if info:
        form.starts = {"learners": [dict(learner) for learner in info.learners]}
    draw_cards(form, spec, ("learners",), draw_field, learner_text, "learner")
    if own:
        back = partial(with_value, path=("learners",), value=MISSING)
        form.button("Back to the preset's learners", "learners.preset", back, type="tertiary")
    elif info and info.learners_of_many_classes != info.learners:
        texts = [learner_text(spec, learner) for learner in info.learners_of_many_classes]
        st.caption(plain(f"With more than {info.max_classes} classes: {', '.join(texts)}."))


def _part(form: Form, by_name: Mapping[str, FieldSpec], title: str, rows: tuple[Row, ...]) -> None:
    """Draw the fields that have an effect in a folded part; nothing if none has."""
    visible = []
    for row in rows:
        visible.append([name for name in row if _has_effect(form, by_name, name)])
    if not any(visible):
        return
    names = [name for row in rows for name in row]
    is_wrong = any(form.problems_at((name,)) for name in names)
    text = ":red[to be fixed]" if is_wrong else plain(differences(form.params, by_name, names))
    key = f"{form.key}/{title}"
    with folded(title, text, key, expanded=form.stays_open(title, is_wrong)):
        for shown_names in visible:
            with st.container():
                _row(form, by_name, shown_names)
        if title == SCANNING:
            _propose_shape(form)


def _propose_shape(form: Form) -> None:
    """Offer the shape that the columns of the input suggest, while none is set."""
    from deepforest.scanning import guess_shape

    if form.columns is None or form.params.get("scan_shape"):
        return
    features = [column for column in form.columns if column.role == "feature"]
    shape = None
    if all(column.kind == "number" for column in features):
        shape = guess_shape([column.name for column in features])
    if shape is not None:
        text = " × ".join(map(str, shape))
        propose = partial(with_value, path=("scan_shape",), value=list(shape))
        form.button(
            f"Scan as images of {text}, as the columns suggest",
            "scan_shape.propose",
            propose,
            type="tertiary",
        )


def _row(form: Form, by_name: Mapping[str, FieldSpec], names: list[str]) -> None:
    """Draw fields side by side."""
    if not names:
        return
    for column, name in zip(st.columns(len(names), gap="small"), names, strict=True):
        with column:
            draw_field(form, _without_default(by_name[name]), (name,))


def differences(
    params: Mapping[str, Any], by_name: Mapping[str, FieldSpec], names: list[str]
) -> str:
    """Return which of the fields differ from the preset: ``3 folds, max 5 layers``."""
    texts = []
    for name in names:
        spec = by_name[name]
        value = params.get(name, spec.default)
        if value != spec.default:
            phrase = PHRASES.get(name, f"{spec.title[:1].lower()}{spec.title[1:]} {{}}")
            plural = "s" if name in PHRASES and value != 1 else ""
            texts.append(f"{phrase.format(spec.text_of(value))}{plural}")
    return ", ".join(texts) or AS_PRESET


def _has_effect(form: Form, by_name: Mapping[str, FieldSpec], name: str) -> bool:
    """Return whether to show a field; folds also depend on which learners there are."""
    if name == "folds" and not (form.is_set(by_name[name]) or form.problems_at((name,))):
        return needs_folds(form.params)
    return form.is_shown(by_name[name], tuple(by_name.values()))


def _without_default(spec: FieldSpec) -> FieldSpec:
    """Return an optional field without default, so that its help does not name one."""
    return replace(spec, default=None) if spec.optional else spec
