"""Train a linear regression with a ridge penalty, to predict a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.export_python import INDENT, Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams
from nodes.models.kinds import Encoding, ModelKind, load_array, save_array
from nodes.models.training import (
    TrainingRows,
    fit_statement,
    one_blas_thread,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from nodes.models.estimators import RowwiseRidge


class LinearRegressionParams(NodeParams):
    """Choose the strength of the penalty."""

    alpha: float = Field(
        1.0,
        ge=0,
        le=1e9,
        title="Penalty",
        description="Strength of the penalty (ridge); a larger one keeps the weights closer to "
        "zero. 0 is ordinary least squares.",
    )


def build(params: LinearRegressionParams) -> RowwiseRidge:
    """Return an unfitted regression with the node's parameters."""
    from nodes.models.estimators import RowwiseRidge

    return RowwiseRidge(alpha=params.alpha)


def fit(ctx: NodeContext, rows: TrainingRows, regression: Any) -> None:
    """Solve the penalised least squares."""
    ctx.progress(0.0, "fitting")
    with one_blas_thread():
        regression.fit(rows.matrix, rows.y, sample_weight=rows.weights)
    regression.means_ = rows.matrix.mean(axis=0)
    ctx.progress(1.0, "fitted")


def python(params: LinearRegressionParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script.

    BLAS uses one thread: sums that are split among threads round differently.
    """

    def lines(rows: Expression, regression: Expression) -> list[str]:
        """Return the lines that create and fit the regression."""
        return [
            *statement(regression, "Ridge", alpha=params.alpha),
            'with threadpool_limits(1, user_api="blas"):',
            *fit_statement(regression, rows, indent=INDENT),
            f"{regression}.means_ = {rows}.matrix.mean(axis=0)",
        ]

    imports = [
        "from sklearn.linear_model import Ridge",
        "from threadpoolctl import threadpool_limits",
    ]
    return training_script(params, names, "regression", lines, imports, form="onehot")


def save(regression: Any, folder: Path) -> dict[str, Any]:
    """Write weights, intercept and the means of the columns as arrays."""
    import numpy as np

    save_array(folder, "weights", regression.coef_)
    save_array(folder, "intercept", np.atleast_1d(np.asarray(regression.intercept_, float)))
    # An estimator of a script may not know the means; a row of zeros is then the base.
    means = getattr(regression, "means_", np.zeros(len(regression.coef_)))
    save_array(folder, "means", means)
    return {}


def load(folder: Path, data: Mapping[str, Any]) -> RowwiseRidge:
    """Read the arrays; raise ``ValueError`` if they do not fit together."""
    from nodes.models.estimators import RowwiseRidge

    regression = RowwiseRidge()
    regression.coef_ = load_array(folder, "weights", "f")
    regression.intercept_ = load_array(folder, "intercept", "f")
    regression.means_ = load_array(folder, "means", "f")
    regression.n_features_in_ = len(regression.coef_)
    if len(regression.means_) != len(regression.coef_) or len(regression.intercept_) != 1:
        raise ValueError("weights, intercept and means do not fit together")
    return regression


KIND = ModelKind(
    name="linear-regression",
    title="Linear regression",
    encoding=Encoding("onehot", "float64"),
    build=build,
    save=save,
    load=load,
    estimators=("Ridge",),
    build_regressor=build,
    classifies=False,
)
NODE = training_node(
    KIND,
    summary="Predicts a number by a weighted sum of standardised numbers and one-hot categories; "
    "a simple baseline.",
    version=1,
    params=LinearRegressionParams,
    fit=fit,
    python=python,
    imports=("sklearn.linear_model", "threadpoolctl"),
)
