"""Draw the form of a node, generated from its type's parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.errors import Problem
from engine.node_types import Columns, NodeType
from engine.pipeline import Node
from ui.studio.forms.fields import FieldSpec, applies, specs_of
from ui.studio.forms.form_state import Form, ParamsEdit
from ui.studio.forms.values import MISSING, with_value
from ui.studio.forms.widgets import draw_field
from ui.studio.markdown import plain

MORE = "More settings"


def node_form(
    node_id: str,
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
        draw_unknown(form, specs)
        if not specs:
            st.caption("This node has no settings.")
        elif node_type.name == "deep-forest":
            _draw_deep_forest(form, specs)
        else:
            draw_fields(form, specs)


def _draw_deep_forest(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the form that needs the learning library, which is slow to load the first time."""
    from ui.studio.forms.deep_forest import draw_deep_forest

    if "deepforest.presets" in sys.modules:
        draw_deep_forest(form, specs)
        return
    with st.spinner("Loading the learners …"):
        import deepforest.presets  # noqa: F401
    draw_deep_forest(form, specs)


def draw_fields(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw the fields that have an effect, those that are rarely needed in a folded part."""
    visible = [spec for spec in specs if is_shown(form, spec, specs)]
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
    return spec.name in form.params or bool(form.problems_at((spec.name,)))


def is_shown(form: Form, spec: FieldSpec, specs: tuple[FieldSpec, ...]) -> bool:
    """Return whether the field has an effect, or is set or wrong so that the user may fix it."""
    if applies(spec, form.params, specs) or form.problems_at((spec.name,)):
        return True
    return bool(form.params.get(spec.name, spec.default) != spec.default)


def draw_unknown(form: Form, specs: tuple[FieldSpec, ...]) -> None:
    """Draw a button to remove each parameter that the node type does not have."""
    known = {spec.name for spec in specs}
    for name in form.params:
        if name not in known:
            edit = partial(with_value, path=(name,), value=MISSING)
            label = f"Remove {plain(name[:40])}"
            form.button(label, f"{name}.remove", edit, icon=":material/close:")
