"""Train gradient-boosted trees (MART) with LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, assignment, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from nodes.models.kinds import Encoding, ModelKind
from nodes.models.training import (
    ClassWeights,
    MinRows,
    Seed,
    TrainingRows,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from nodes.models.estimators import BoostedRegressionTrees, BoostedTrees

EARLY_STOPPING = 20
"""As in ``nodes.models.estimators``, which takes a moment to load; a test compares them."""
TREES_FILE = "mart.txt"
REGRESSION_LINE = "\nobjective=regression\n"
"""Line of LightGBM's text by which trees for numbers are known."""


class MartParams(NodeParams):
    """Choose number, size and learning rate of the trees, and the rows and columns they see."""

    trees: int = Field(
        100,
        ge=1,
        le=10_000,
        title="Trees",
        description="Rounds of boosting; each adds one tree per class (one for two classes, or for "
        "a number). With validation rows, training may end earlier, and the best number of rounds "
        "is kept.",
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


def build(params: MartParams) -> BoostedTrees:
    """Return unfitted boosted trees with the node's parameters."""
    from nodes.models.estimators import BoostedTrees

    return BoostedTrees(**_settings(params))


def build_regressor(params: MartParams) -> BoostedRegressionTrees:
    """Return unfitted boosted trees that predict numbers."""
    from nodes.models.estimators import BoostedRegressionTrees

    return BoostedRegressionTrees(**_settings(params))


def _settings(params: MartParams) -> dict[str, Any]:
    """Return the arguments of the estimator."""
    return {
        "n_estimators": params.trees,
        "learning_rate": params.learning_rate,
        "num_leaves": params.leaves,
        "min_child_samples": params.min_rows,
        "colsample_bytree": params.column_share,
        "subsample": params.row_share,
        "random_state": params.seed,
    }


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
        rows.y,
        rows.weights,
        categorical_feature=rows.categorical,
        callbacks=[report_round],
        validation=rows.validation,
    )
    if rows.validation is not None:
        kept = mart.booster_.current_iteration()
        ctx.log(
            f"{kept:,} of {mart.n_estimators:,} rounds are kept: with them, the loss on the "
            "validation rows is lowest."
        )


def python(params: MartParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that calls LightGBM.

    The settings are those of ``BoostedTrees``, so the script grows the same trees as a run.
    """

    def lines(rows: Expression, booster: Expression) -> list[str]:
        """Return the lines that make the data set and train the booster."""
        values = {
            "objective": Expression(f"{rows}.objective"),
            "num_class": Expression(f"{rows}.num_class"),
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
        matrix, y = Expression(f"{rows}.matrix"), Expression(f"{rows}.y")
        columns = {
            "weight": Expression(f"{rows}.weights"),
            "categorical_feature": Expression(f"{rows}.categorical"),
        }
        created = [
            *assignment(settings, values),
            *statement(data, "lightgbm.Dataset", matrix, y, **columns, params=settings),
        ]
        more: dict[str, Any] = {"num_boost_round": params.trees}
        if "validation" in names.inputs:
            held_out = names.local("validation")
            parts = Expression(f"*{rows}.validation[:2]")
            # The third part are the weights, if there are some.
            weight = Expression(f"next(iter({rows}.validation[2:]), None)")
            created += statement(held_out, "lightgbm.Dataset", parts, weight=weight, reference=data)
            more["valid_sets"] = [held_out]
            stop = f"lightgbm.early_stopping({EARLY_STOPPING}, verbose=False)"
            more["callbacks"] = [Expression(stop)]
        return [*created, *statement(booster, "lightgbm.train", settings, data, **more)]

    return training_script(params, names, "booster", lines, ["import lightgbm"])


def save(estimator: Any, folder: Path) -> dict[str, Any]:
    """Write the trees as LightGBM's text."""
    from deepforest.lightgbm_text import trees_only

    # A script may give the booster that lightgbm.train returned.
    booster = getattr(estimator, "booster_", estimator)
    text = trees_only(booster.model_to_string())
    (folder / TREES_FILE).write_text(text, encoding="utf-8", newline="\n")
    return {"task": "regression"} if REGRESSION_LINE in text else {}


def load(folder: Path, data: Mapping[str, Any]) -> BoostedTrees | BoostedRegressionTrees:
    """Read the trees; raise ``ValueError`` if their text is damaged."""
    from deepforest.lightgbm_text import check_text, trees_only
    from nodes.models.estimators import BoostedRegressionTrees, BoostedTrees

    text = trees_only((folder / TREES_FILE).read_text(encoding="utf-8"))
    is_regression = data.get("task") == "regression"
    # LightGBM trusts the text. A wrong number in it could crash the process.
    check_text(text, regression=is_regression)
    if is_regression:
        return BoostedRegressionTrees().read_text(text)
    return BoostedTrees().read_text(text)


KIND = ModelKind(
    name="mart",
    title="MART",
    encoding=Encoding("codes", "float64", "F"),
    build=build,
    save=save,
    load=load,
    estimators=(
        "BoostedTrees",
        "BoostedRegressionTrees",
        "LGBMClassifier",
        "LGBMRegressor",
        "Booster",
    ),
    build_regressor=build_regressor,
    rounds_target=True,
)
NODE = training_node(
    KIND,
    summary="Gradient-boosted trees by LightGBM: strong on most tables; handles categories and "
    "missing values.",
    version=1,
    params=MartParams,
    fit=fit,
    python=python,
    imports=("lightgbm",),
)
