"""Train gradient-boosted trees."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.export_python import Code, Names, Raw, assignment, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from nodes.data.columns import check_learnable
from nodes.models.training import ClassWeights, Seed, fitting, train


class Params(NodeParams):
    """Settings of the boosting."""

    trees: int = Field(
        100,
        ge=1,
        le=10_000,
        title="Trees",
        description="Rounds of boosting; each adds one tree a class (one for two classes).",
    )
    learning_rate: float = Field(
        0.1, gt=0, le=1, title="Learning rate", description="How far each tree goes; smaller needs more trees."
    )
    leaves: int = Field(31, ge=2, le=4096, title="Leaves", description="Most leaves a tree may have.")
    min_rows: int = Field(
        20,
        ge=1,
        title="Rows a leaf",
        description="Fewest training rows in a leaf.",
        json_schema_extra=form_hint(folded=True),
    )
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


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Fit the trees to the table's target."""
    from nodes.models.learners import Mart

    learner = Mart(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


def python(params: Params, names: Names) -> Code:
    """How the node reads in a script: LightGBM itself, told to give the same trees whatever the machine."""

    def lines(rows: Raw, booster: Raw) -> list[str]:
        two = f"len({rows}.classes) == 2"
        told = {
            "objective": Raw(f'"binary" if {two} else "multiclass"'),
            "num_class": Raw(f"1 if {two} else len({rows}.classes)"),
            "learning_rate": params.learning_rate,
            "num_leaves": params.leaves,
            "min_data_in_leaf": params.min_rows,
            "feature_fraction": params.column_share,
            "bagging_fraction": params.row_share,
            "bagging_freq": 1 if params.row_share < 1 else 0,
            "seed": params.seed,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        how, data = names.local("settings"), names.local("data")
        weights, categories = Raw(f"{rows}.weights"), Raw(f"{rows}.categorical")
        return [
            *assignment(how, told),
            *statement(data, "lightgbm.Dataset", Raw(f"{rows}.matrix"), Raw(f"{rows}.codes"),
                       weight=weights, categorical_feature=categories, params=how),
            *statement(booster, "lightgbm.train", how, data, num_boost_round=params.trees),
        ]  # fmt: skip

    return fitting(params, names, "booster", lines, ["import lightgbm"])


NODE = NodeType(
    name="mart",
    title="MART",
    category="Learn",
    summary="Gradient-boosted trees by LightGBM: strong on most tables; categories and missing values need no care.",
    version=1,
    params=Params,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "lightgbm"),
)
