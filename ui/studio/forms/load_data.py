"""Draw where *Load data* reads from: a file, a sample, an address, or a file uploaded here.

Another source keeps the target if it has that column. Otherwise a column that is named like a
target is proposed. With another target, the form proposes whether it is a class or a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.errors import BadInput
from engine.node_types import Column
from nodes.data import formats
from nodes.data.columns import proposed_target, proposed_task
from nodes.data.locations import without_credentials
from nodes.data.samples import (
    PREFIX,
    sample_columns,
    sample_name,
    sample_titles,
)
from nodes.data.tables import preview
from nodes.load_data import preview_params
from ui.studio.forms.field_widgets import draw_field, select
from ui.studio.forms.fields import MISSING, FieldSpec, fits
from ui.studio.forms.form import Form, ParamsEdit
from ui.studio.session import studio
from ui.studio.upload import draw_upload, file_format_of
from ui.studio.widgets import show_flashes


def draw_source(form: Form, spec: FieldSpec) -> None:
    """Draw the choice of the source, and the upload of a file."""
    value = form.value((spec.name,))
    if value is MISSING or fits(spec, value):
        with st.container(gap="xxsmall"):
            _draw_choice(form, spec)
            form.show_problems((spec.name,))
    else:
        draw_field(form, spec, (spec.name,))
    source = form.params.get(spec.name, spec.default)
    form.placeholders = {"task": "a class (default)"}
    own_target = _own_target(source)
    if own_target:
        task = "a number" if own_target.kind == "number" else "a class"
        form.placeholders = {"target": f"{own_target.name} (its own)", "task": f"{task} (its own)"}
    elif isinstance(source, str) and formats.is_excel(source):
        form.sheets = _sheets(source)
        form.placeholders = {**form.placeholders, "sheet": "(the first one that has values)"}
    with st.container(key=f"form-upload/{form.key}", gap="xxsmall"):
        key = f"{form.key}/upload"
        show_flashes(key)
        saved = draw_upload(key)
    if saved:
        form.revise(_reading(saved))
        st.rerun()


def _draw_choice(form: Form, spec: FieldSpec) -> None:
    """Draw the list of files and samples; another file or an address can be typed.

    A password in an address is removed before it becomes part of the pipeline.
    """
    sources = {title: source for source, title in sample_titles().items()}

    def show(value: Any) -> str:
        return spec.text_of(spec.default if value is MISSING else value)

    def read(chosen: str | None) -> str:
        text = without_credentials((chosen or str(spec.default)).strip())
        # A file of the workspace may be named like a sample.
        return text if text in form.files else sources.get(text, text)

    def edit(chosen: str | None) -> ParamsEdit:
        return _reading(read(chosen))

    bound = form.widget((spec.name,), show, read, ".one", edit=edit)
    options = [*form.files, *sources]
    select(form, spec, bound, options, label=str, accept_new_options=True)


def _own_target(source: Any) -> Column | None:
    """Return the target that a sample has by itself; None for other sources."""
    if not isinstance(source, str) or source not in sample_titles():
        return None
    name = source.removeprefix(PREFIX)
    return next(column for column in sample_columns(name) if column.role == "target")


def _sheets(source: str) -> Sequence[str]:
    """Return the sheets of an Excel file; none if it cannot be read."""
    try:
        return preview(preview_params(source, file_format_of(source)), studio().files).sheets
    except BadInput:
        return ()


def _reading(source: str) -> ParamsEdit:
    """Return the edit that reads another source."""
    return partial(with_source, source=source, names=_column_names(source))


def _column_names(source: str) -> Sequence[str] | None:
    """Return the columns of a source; None if it cannot be read."""
    try:
        settings = preview_params(source, file_format_of(source))
        return preview(settings, studio().files).names
    except BadInput:
        return None


def with_source(
    params: Mapping[str, Any], source: str, names: Sequence[str] | None
) -> dict[str, Any]:
    """Return the parameters for another source with the columns ``names``, None if not known.

    The target stays if the source has it. Otherwise it is the column that is named like a target,
    or none. A sample has a target of its own. The sheet and the query belong to the source before.
    """
    kept = {name: value for name, value in params.items() if name not in ("sheet", "query")}
    revised = {**kept, "source": source, **file_format_of(source).settings}
    if names is None or params.get("target") in names:
        return revised
    revised.pop("target", None)
    target = None if sample_name(source) else proposed_target(names)
    return {**revised, "target": target} if target else revised


def proposing_task(change: Callable[[ParamsEdit], None]) -> Callable[[ParamsEdit], None]:
    """Return ``change``, such that an edit of the target also says what it is predicted as."""
    return lambda edit: change(partial(_with_task, edit=edit))


def _with_task(params: dict[str, Any], edit: ParamsEdit) -> dict[str, Any]:
    """Return the parameters after an edit.

    With another target or source, a target that looks like a quantity is predicted as a number.
    """
    after = edit(params)
    names = ("source", "target")
    if [params.get(name) for name in names] == [after.get(name) for name in names]:
        return after
    others = {name: value for name, value in after.items() if name != "task"}
    source, target = after.get("source"), after.get("target")
    if isinstance(source, str) and isinstance(target, str) and _is_quantity(source, target):
        return {**others, "task": "regression"}
    return others


def _is_quantity(source: str, target: str) -> bool:
    """Return whether a column looks like a quantity; False if it cannot be read."""
    try:
        seen = preview(preview_params(source, file_format_of(source)), studio().files)
    except BadInput:
        return False
    if target not in seen.data.column_names:
        return False
    return proposed_task(seen.data.column(target)) == "regression"
