"""Train gradient-boosted trees (MART) with LightGBM."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, assignment, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from nodes.models.training import (
    ClassWeights,
    MinRows,
    Seed,
    TrainingRows,
    training_node,
    training_script,
)


class Params(NodeParams):
    """Choose number, size and learning rate of the trees, and the rows and columns they see."""

    trees: int = Field(
        100,
        ge=1,
        le=10_000,
        title="Trees",
        description="Rounds of boosting; each adds one tree per class (one for two classes).",
    )
    learning_rate: float = Field(
        0.1,
        gt=0,
        le=1,
        title="Learning rate",
        description="Step size of each tree; a smaller one needs more trees.",
    )
    leaves: int = Field(
        31, ge=2, le=4096, title="Leaves", description="Maximum number of leaves of a tree."
    )
    min_rows: MinRows = Field(20, json_schema_extra=form_hint(folded=True))
    column_share: float = Field(
        1.0,
        gt=0,
        le=1,
        title="Share of columns",
        description="Share of the columns each tree may use, drawn at random.",
        json_schema_extra=form_hint(folded=True),
    )
    row_share: float = Field(
        1.0,
        gt=0,
        le=1,
        title="Share of rows",
        description="Share of the rows each tree sees, drawn at random.",
        json_schema_extra=form_hint(folded=True),
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def fit(ctx: NodeContext, rows: TrainingRows, mart: Any) -> None:
    """Grow the trees and report each round as progress; a cancel takes effect after a round."""

    def report_round(env: Any) -> None:
        """Report a finished round; raise ``Cancelled`` if the run is cancelled."""
        done = env.iteration + 1
        ctx.progress(done / mart.n_estimators, f"round {done} of {mart.n_estimators}")

    # The run decides about threads. They do not change the trees.
    mart.set_params(n_jobs=ctx.threads)
    mart.fit(
        rows.matrix,
        rows.codes,
        rows.weights,
        categorical_feature=rows.categorical,
        callbacks=[report_round],
    )


def python(params: Params, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that calls LightGBM.

    The settings are those of ``BoostedTrees``, so the script grows the same trees as a run.
    """

    def lines(rows: Expression, booster: Expression) -> list[str]:
        """Return the lines that make the data set and train the booster."""
        two = f"len({rows}.classes) == 2"
        values = {
            "objective": Expression(f'"binary" if {two} else "multiclass"'),
            "num_class": Expression(f"1 if {two} else len({rows}.classes)"),
            "learning_rate": params.learning_rate,
            "num_leaves": params.leaves,
            "min_data_in_leaf": params.min_rows,
            "feature_fraction": params.column_share,
            "bagging_fraction": params.row_share,
            "bagging_freq": 1 if params.row_share < 1 else 0,
            "seed": params.seed,
            # One thread sums each histogram, so that the number of threads changes nothing.
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        settings, data = names.local("settings"), names.local("data")
        matrix, codes = Expression(f"{rows}.matrix"), Expression(f"{rows}.codes")
        columns = {
            "weight": Expression(f"{rows}.weights"),
            "categorical_feature": Expression(f"{rows}.categorical"),
        }
        return [
            *assignment(settings, values),
            *statement(data, "lightgbm.Dataset", matrix, codes, **columns, params=settings),
            *statement(booster, "lightgbm.train", settings, data, num_boost_round=params.trees),
        ]

    return training_script(params, names, "booster", lines, ["import lightgbm"])


NODE = training_node(
    "mart",
    summary="Gradient-boosted trees by LightGBM: strong on most tables; handles categories and "
    "missing values.",
    version=1,
    params=Params,
    fit=fit,
    python=python,
    imports=("lightgbm",),
)
