"""Draw the form of a node, generated from its type's parameters.

Two forms are their own: that of *Load data* (``load_data``), and that of a deep forest
(``deep_forest``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from engine.errors import Problem
from engine.node_types import Columns, NodeType
from engine.pipeline import Node
from ui.studio.forms.deep_forest import draw_deep_forest
from ui.studio.forms.field_help import draw_help
from ui.studio.forms.field_widgets import draw_field
from ui.studio.forms.fields import FieldSpec, specs_of
from ui.studio.forms.form import Form, ParamsEdit, draw_style
from ui.studio.forms.load_data import draw_source, proposing_task

MORE = "More settings"


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
    specs = specs_of(node_type.params)
    titles = {spec.name: spec.title for spec in specs}
    if node_type.name == "load-data":
        change = proposing_task(change)
    form = Form(key, node.params, problems, change, columns, offered_files, titles=titles)
    draw_style()
    with st.container(gap="small", key=f"node-form/{key}"):
        # Problems come and go; in a container of their own they do not move what is below.
        with st.container():
            form.show_other_problems((), [spec.name for spec in specs])
            form.offer_removal((), {spec.name for spec in specs}, icon=":material/close:")
        if not specs:
            st.caption("This node has no settings.")
        elif node_type.name == "deep-forest":
            draw_deep_forest(form, specs)
        elif node_type.name == "load-data":
            draw_source(form, specs[0])
            _draw_fields(form, specs, specs[1:])
        else:
            _draw_fields(form, specs, specs)
    draw_help(form.helps, key)


def _draw_fields(form: Form, specs: tuple[FieldSpec, ...], drawn: tuple[FieldSpec, ...]) -> None:
    """Draw the fields that have an effect, those that are rarely needed in a folded part."""
    for spec in drawn:
        if not spec.hint.folded:
            _draw_if_shown(form, spec, specs)
    rare = [spec for spec in drawn if spec.hint.folded]
    if any(form.is_shown(spec, specs) for spec in rare):
        needed = any(_is_set_or_wrong(form, spec) for spec in rare)
        with st.expander(MORE, expanded=form.stays_open(MORE, needed)):
            for spec in rare:
                _draw_if_shown(form, spec, specs)


def _draw_if_shown(form: Form, spec: FieldSpec, specs: tuple[FieldSpec, ...]) -> None:
    """Draw a field if it has an effect.

    Each field has its place, also without an effect: the browser draws a place again when another
    field takes it, and what is typed there would be lost.
    """
    with st.container():
        if form.is_shown(spec, specs):
            draw_field(form, spec, (spec.name,))


def _is_set_or_wrong(form: Form, spec: FieldSpec) -> bool:
    """Return whether a folded field needs the attention of the user."""
    return spec.name in form.params or bool(form.problems_at((spec.name,)))
