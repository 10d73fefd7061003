"""Train a logistic regression on standardised numbers and one-hot categories."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.export_python import INDENT, Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams
from nodes.models.kinds import Encoding, ModelKind, load_array, save_array
from nodes.models.training import (
    ClassWeights,
    TrainingRows,
    fit_statement,
    one_blas_thread,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from nodes.models.estimators import RowwiseLogisticRegression


class LogisticRegressionParams(NodeParams):
    """Choose the strength of the penalty, the number of steps and the class weights."""

    c: float = Field(
        1.0,
        gt=0,
        le=1e9,
        title="C",
        description="Inverse strength of the penalty; a smaller C keeps the weights closer to "
        "zero.",
    )
    max_iter: int = Field(
        500,
        ge=1,
        le=100_000,
        title="Iterations",
        description="Maximum number of iterations of the solver.",
    )
    class_weights: ClassWeights = "none"


def build(params: LogisticRegressionParams) -> RowwiseLogisticRegression:
    """Return an unfitted logistic regression with the node's parameters."""
    from nodes.models.estimators import RowwiseLogisticRegression

    return RowwiseLogisticRegression(C=params.c, max_iter=params.max_iter)


def fit(ctx: NodeContext, rows: TrainingRows, regression: Any) -> None:
    """Minimise the penalised log loss with L-BFGS; log a warning if it does not converge."""
    from sklearn.exceptions import ConvergenceWarning

    ctx.progress(0.0, "fitting")
    with warnings.catch_warnings(record=True) as caught, one_blas_thread():
        warnings.simplefilter("always", ConvergenceWarning)
        regression.fit(rows.matrix, rows.y, sample_weight=rows.weights)
    regression.means_ = rows.matrix.mean(axis=0)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        ctx.log(
            f"The solver did not converge in {regression.max_iter} steps; more steps or a smaller "
            "C may help."
        )
    ctx.progress(1.0, f"{int(regression.n_iter_.max())} steps")


def python(params: LogisticRegressionParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script.

    BLAS uses one thread: sums that are split among threads round differently.
    """

    def lines(rows: Expression, regression: Expression) -> list[str]:
        """Return the lines that create and fit the regression."""
        return [
            *statement(regression, "LogisticRegression", C=params.c, max_iter=params.max_iter),
            'with threadpool_limits(1, user_api="blas"):',
            *fit_statement(regression, rows, indent=INDENT),
        ]

    imports = [
        "from sklearn.linear_model import LogisticRegression",
        "from threadpoolctl import threadpool_limits",
    ]
    return training_script(params, names, "regression", lines, imports, form="onehot")


def save(regression: Any, folder: Path) -> dict[str, Any]:
    """Write weights, intercepts and, if they are known, the means of the columns as arrays."""
    save_array(folder, "weights", regression.coef_)
    save_array(folder, "intercepts", regression.intercept_)
    if hasattr(regression, "means_"):
        save_array(folder, "means", regression.means_)
    return {}


def load(folder: Path, data: Mapping[str, Any]) -> RowwiseLogisticRegression:
    """Read the arrays; raise ``ValueError`` if they do not fit together."""
    import numpy as np

    from nodes.models.estimators import RowwiseLogisticRegression

    regression = RowwiseLogisticRegression()
    regression.coef_ = load_array(folder, "weights", "f", 2)
    regression.intercept_ = load_array(folder, "intercepts", "f")
    if len(regression.coef_) != len(regression.intercept_):
        raise ValueError("weights and intercepts differ in length")
    regression.n_features_in_ = regression.coef_.shape[1]
    # Models of earlier versions have no means.
    if (folder / "means.npy").exists():
        regression.means_ = load_array(folder, "means", "f")
        if len(regression.means_) != regression.n_features_in_:
            raise ValueError("weights and means differ in length")
    # For two classes there is one row of weights.
    regression.classes_ = np.arange(max(len(regression.coef_), 2))
    return regression


KIND = ModelKind(
    name="logistic-regression",
    title="Logistic regression",
    encoding=Encoding("onehot", "float64"),
    build=build,
    save=save,
    load=load,
    estimators=("LogisticRegression",),
)
NODE = training_node(
    KIND,
    summary="A linear score for each class, over standardised numbers and one-hot categories; a "
    "simple baseline.",
    version=1,
    params=LogisticRegressionParams,
    fit=fit,
    python=python,
    imports=("sklearn.linear_model", "threadpoolctl"),
)
