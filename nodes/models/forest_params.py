"""The settings that random forests and extra trees share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.export_python import Code, Names, Raw, statement
from engine.node_types import NodeParams, form_hint
from nodes.models.training import ClassWeights, Seed, fitting


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


def forest_python(params: ForestParams, names: Names, estimator: str) -> Code:
    """How a forest reads in a script."""

    def lines(rows: Raw, forest: Raw) -> list[str]:
        shape = {"max_depth": params.max_depth, "min_samples_leaf": params.min_leaf}
        columns = None if params.max_features == "all" else params.max_features
        weights = Raw(f"{rows}.weights")
        return [
            *statement(forest, estimator, params.trees, **shape, max_features=columns,
                       random_state=params.seed, n_jobs=-1),
            *statement("", f"{forest}.fit", Raw(f"{rows}.matrix"), Raw(f"{rows}.codes"), sample_weight=weights),
        ]  # fmt: skip

    imports = [f"from sklearn.ensemble import {estimator}"]
    return fitting(params, names, "forest", lines, imports, precision="float32")
