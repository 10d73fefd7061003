"""Show the leaves of a composite forest: their facts, their degrees, and what the bound tells.

Only the manifest of the model is read.

- ``CompositeRecord``, ``composite_record``  the leaves of a stored model
- ``show_leaves``  draws them
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui.studio import plots
from ui.studio.screen_text import plain
from ui.studio.widgets import chart, grid

if TYPE_CHECKING:
    from deepforest.composite import HeldOutRecord, LeafRecord

FOREST_FILE = "forest.json"
MOST_LEAVES = 2_000


@dataclass(frozen=True)
class CompositeRecord:
    """Hold what training wrote about the leaves; ``gamma`` is None if the bound is not used."""

    leaves: list[LeafRecord]
    gamma: float | None
    held_out: HeldOutRecord | None


def composite_record(folder: Path) -> CompositeRecord | None:
    """Return the leaves of a composite forest from its manifest; None for other models."""
    path = folder / FOREST_FILE
    if not path.is_file():
        return None
    model = json.loads(path.read_text(encoding="utf-8"))["content"]["model"]
    if model.get("class") != "CompositeForestClassifier":
        return None
    from deepforest.composite import read_held_out, read_leaves

    return CompositeRecord(
        read_leaves(model["leaves"]), model["gamma"], read_held_out(model["held_out"])
    )


def show_leaves(record: CompositeRecord, key: str) -> None:
    """Draw what the bound has chosen: in words, as plots, and leaf by leaf."""
    from deepforest.composite import describe_choice

    for sentence in describe_choice(record.leaves, record.gamma, record.held_out):
        st.markdown(plain(sentence))
    chart(plots.degree_histogram([leaf.degree for leaf in record.leaves]), f"{key}-degrees")
    _show_bound(record, key)
    grid(leaf_rows(record), f"{key}-leaves", column_config=_columns())
    if len(record.leaves) > MOST_LEAVES:
        st.caption(f"The first {MOST_LEAVES:,} of {len(record.leaves):,} leaves.")
    if record.gamma is not None:
        st.caption(
            "The bound adds up, over the leaves of a tree, the share of rows that are classified "
            "wrong and the smaller one of the two terms. Where the share of right rows is the "
            "smaller term, the leaf is saturated: its degree has no effect."
        )


def _show_bound(record: CompositeRecord, key: str) -> None:
    """Draw the bound of each tree against its error, if rows were held out."""
    if record.held_out is not None:
        held = record.held_out
        figure = plots.bound_and_error(held.tree_bounds, held.tree_errors, _rows_of(held))
        chart(figure, f"{key}-bounds")
    elif record.gamma is not None:
        st.caption(
            "No rows were held out, so the bound cannot be compared with the error of the trees. "
            "Connect validation rows, or set γ to automatic."
        )


def _rows_of(held: HeldOutRecord) -> str:
    return "validation rows" if held.source == "validation rows" else "held-out training rows"


def leaf_rows(record: CompositeRecord) -> list[dict[str, Any]]:
    """Return one row for each leaf; without the bound, its terms are left out."""
    rows = []
    for leaf in record.leaves[:MOST_LEAVES]:
        row: dict[str, Any] = {"Tree": leaf.tree, "Leaf": leaf.leaf, "Depth": leaf.depth}
        row |= {"Degree": leaf.degree, "Rows": leaf.rows, "Right": leaf.right}
        if record.gamma is not None:
            row |= {"Complexity 8cγA": leaf.complexity_term, "Share right": leaf.right_term}
            row["Saturated"] = leaf.saturated
        # A constant leaf has no SVM.
        row["C"] = leaf.C if leaf.degree else None
        rows.append(row | {"Fallback": leaf.fallback})
    return rows


def _columns() -> dict[str, Any]:
    """Return how the columns of the table of leaves are shown."""
    number = st.column_config.NumberColumn(format="%.4f")
    return {
        "Complexity 8cγA": number,
        "Share right": number,
        "C": st.column_config.NumberColumn(format="%.3g"),
        "Degree": st.column_config.NumberColumn(help="Degree of the kernel; 0: constant leaf."),
        "Right": st.column_config.NumberColumn(help="Training rows that are classified right."),
        "Fallback": st.column_config.TextColumn(
            help="Why the leaf does not have an SVM of the drawn degree."
        ),
    }
