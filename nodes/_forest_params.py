"""The settings that random forests and extra trees share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.contract import NodeParams, form_hint
from nodes._training import ClassWeights, Seed


class ForestParams(NodeParams):
    """Size and shape of a forest."""

    trees: int = Field(100, ge=1, le=10_000, title="Trees", description="How many trees the forest has.")
    max_depth: int | None = Field(
        None, ge=1, title="Depth", description="Most splits from the root to a leaf; empty: until leaves are pure."
    )
    min_leaf: int = Field(
        1,
        ge=1,
        title="Rows a leaf",
        description="Fewest training rows in a leaf.",
        json_schema_extra=form_hint(folded=True),
    )
    max_features: Literal["sqrt", "log2", "all"] | Annotated[float, Field(gt=0, le=1)] = Field(
        "sqrt",
        title="Columns a split",
        description="How many columns, drawn at random, each split chooses from: a rule, or a share of all columns.",
        json_schema_extra=form_hint(folded=True),
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"
