"""Say why a row got its prediction, and what other values would change.

- ``draw_why``  the contributions of the columns, and a form that changes values of the row

Nothing is stored: a changed row exists only on the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from engine.errors import BadInput
from engine.text import readable
from nodes.inspection.layers import UNKNOWN, Layers
from nodes.models.encoder import CategoryColumn, EncodedColumn, NumberColumn
from ui.studio import plots
from ui.studio.explained_rows import (
    StoredRow,
    draw_contributions,
    explained_class,
    explanation,
    loaded_columns,
    value_text,
    value_texts,
)
from ui.studio.inspect.forest_source import ForestView
from ui.studio.plots.layers import dropped_numbers
from ui.studio.screen_text import plain
from ui.studio.session import studio
from ui.studio.widgets import side_by_side

if TYPE_CHECKING:
    import pyarrow as pa

    from nodes.models.explanations import RowExplanation

FIRST_COLUMNS = 3
"""Columns with the largest contributions, whose values the form shows at first."""
WITHOUT_MODEL = (
    "The model of this inspection is not known, so that its rows cannot be explained. Run the "
    "pipeline again."
)
MISSING = "missing"


def draw_why(forest: ForestView, layers: Layers, at: int) -> None:
    """Draw why the row at this position got its prediction, and what other values would change."""
    with st.container(key="inspect-why"):
        st.markdown("**Why this prediction**")
        if forest.model is None:
            st.info(WITHOUT_MODEL)
            return
        name = f"{forest.digest}/{at}"
        row = StoredRow(forest.model, name, layers.sample.slice(at, 1))
        _draw(row, layers, at)


@st.fragment
def _draw(row: StoredRow, layers: Layers, at: int) -> None:
    """Draw both parts as a fragment: a changed value does not draw the whole page again."""
    store = studio().store
    try:
        before = explanation(row, store)
        columns = loaded_columns(row.model, store)
    except BadInput as error:
        st.info(plain(readable(str(error))))
        return
    key = f"why-{row.name}"
    texts = value_texts(row.values)
    code = explained_class(before, f"{key}-class")
    left, right = st.columns([3, 2])
    with right:
        changes = _draw_form(row, columns, before, key)
    after, shown = before, texts
    with left:
        if changes:
            try:
                after = explanation(row, store, changes)
            except BadInput as error:
                st.warning(plain(readable(str(error))))
                return
            shown = texts | {column: value_text(value) for column, value in changes.items()}
            st.markdown(plain(change_words(before, after, code)))
        compared = before if changes else None
        draw_contributions(after, shown, code, key, compared)
    if changes:
        _draw_layers(before, after, layers, at)


def change_words(before: RowExplanation, after: RowExplanation, code: int) -> str:
    """Return in a sentence what the changed values do to the prediction."""
    names = [readable(each.classes[int(each.probabilities.argmax())]) for each in (before, after)]
    explained = readable(before.classes[code])
    moved = (
        f"With the changed values, the probability of {explained} goes from "
        f"{before.probabilities[code]:.1%} to {after.probabilities[code]:.1%}"
    )
    if names[0] == names[1]:
        return f"{moved}; {names[0]} stays the most probable class."
    return f"{moved}; the most probable class changes from {names[0]} to {names[1]}."


def _draw_layers(before: RowExplanation, after: RowExplanation, layers: Layers, at: int) -> None:
    """Draw the class vectors of each layer before and after the change, side by side."""
    truth = int(layers.truth[at])
    pictures = []
    for found, title in ((before, "Before the change"), (after, "After the change")):
        figure = plots.class_vectors(
            found.vectors.tolist(),
            found.outputs.tolist(),
            found.learners,
            found.classes,
            truth if truth != UNKNOWN else None,
            dropped_numbers(layers.records),
        )
        figure.update_layout(title_text=title)
        words = f"{title}: what each learner predicts, layer by layer."
        pictures.append((figure, title.lower().replace(" ", "-"), words))
    side_by_side(pictures)


# The form


def _draw_form(
    row: StoredRow,
    columns: Sequence[EncodedColumn],
    found: RowExplanation,
    key: str,
) -> dict[str, Any]:
    """Draw inputs for values of the row; return the values that are changed, by column."""
    st.markdown("**What if**")
    st.caption("Change values of the row to see its prediction move. Nothing is saved.")
    resets = f"{key}-resets"
    # Another number, other widgets: these have the values of the row again.
    key = f"{key}-{st.session_state.get(resets, 0)}"
    by_name = {column.name: column for column in columns}
    names = list(by_name)
    if not found.reason:
        # The same order for all explained classes: another one must not empty the form.
        sizes = dict(zip(found.columns, abs(found.contributions).max(axis=1), strict=True))
        names = sorted(names, key=lambda name: -sizes[name])
    chosen = st.multiselect(
        "Columns to change",
        names,
        default=names[:FIRST_COLUMNS],
        format_func=readable,
        key=f"{key}-columns",
        help="The columns with the largest contributions come first.",
    )
    changes = {}
    for name in chosen:
        original = _original(by_name[name], row.values)
        value = _draw_value(by_name[name], original, f"{key}-value-{name}")
        if value != original:
            changes[name] = value
    st.button(
        "Reset",
        icon=":material/restart_alt:",
        disabled=not changes,
        key=f"{key}-reset",
        on_click=partial(_reset, resets),
    )
    return changes


def _reset(resets: str) -> None:
    """Give the form the values of the row again."""
    st.session_state[resets] = st.session_state.get(resets, 0) + 1


def _original(column: EncodedColumn, row: pa.Table) -> Any:
    """Return the value of the row as JSON, as the model reads it; None if it is missing."""
    number = float(column.read_column(row.column(column.name))[0])
    # A category that was not seen in training counts as missing.
    if math.isnan(number):
        return None
    if isinstance(column, CategoryColumn):
        return column.categories[int(number)]
    if column.kind == "time":
        return str(row.column(column.name).to_pylist()[0])
    return bool(number) if column.kind == "bool" else number


def _draw_value(column: EncodedColumn, original: Any, key: str) -> Any:
    """Draw the input for one value; return the value that it has."""
    label = plain(readable(column.name))
    if isinstance(column, CategoryColumn):
        return _draw_choice(label, [*column.categories, None], original, key)
    if column.kind == "bool":
        return _draw_choice(label, [True, False, None], original, key)
    if column.kind == "time":
        typed = st.text_input(label, original or "", key=key, max_chars=40)
        return typed or None
    return st.number_input(
        label,
        value=original,
        step=number_step(column),
        format="%.10g",
        placeholder=MISSING,
        key=key,
    )


def _draw_choice(label: str, options: list[Any], original: Any, key: str) -> Any:
    """Draw the choice between the values that a column had in training."""
    return st.selectbox(
        label,
        options,
        index=options.index(original),
        format_func=choice_text,
        key=key,
    )


def choice_text(value: Any) -> str:
    """Return a value of a category or a truth value as the list shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    return MISSING if value is None else readable(str(value))


def number_step(column: NumberColumn) -> float:
    """Return by how much the arrows of an input change a number: a power of ten.

    It is about a tenth of the spread of the training rows.
    """
    exponent = math.floor(math.log10(column.scale)) - 1 if column.scale > 0 else 0
    return 10.0 ** min(max(exponent, -12), 12)
