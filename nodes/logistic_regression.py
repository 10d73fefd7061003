"""Train a logistic regression."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.export_python import Code, Names, Raw, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.training import ClassWeights, fitting, train


class Params(NodeParams):
    """Settings of the regression."""

    c: float = Field(
        1.0, gt=0, le=1e9, title="C", description="Freedom of the weights; smaller holds them closer to zero."
    )
    max_iter: int = Field(500, ge=1, le=100_000, title="Steps", description="Most steps of the solver.")
    class_weights: ClassWeights = "none"


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Fit the weights to the table's target."""
    from nodes.models.learners import LogisticRegression

    learner = LogisticRegression(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


def python(params: Params, names: Names) -> Code:
    """How the node reads in a script; on one thread, since sums that are split among threads round differently."""

    def lines(rows: Raw, regression: Raw) -> list[str]:
        weights = Raw(f"{rows}.weights")
        fit = statement("", f"{regression}.fit", Raw(f"{rows}.matrix"), Raw(f"{rows}.codes"), sample_weight=weights)
        return [
            *statement(regression, "LogisticRegression", C=params.c, max_iter=params.max_iter),
            'with threadpool_limits(1, user_api="blas"):',
            *(f"    {line}" for line in fit),
        ]

    imports = ["from sklearn.linear_model import LogisticRegression", "from threadpoolctl import threadpool_limits"]
    return fitting(params, names, "regression", lines, imports, form="onehot")


NODE = NodeType(
    name="logistic-regression",
    title="Logistic regression",
    category="Learn",
    summary="A linear score for each class, over standardised numbers and one-hot categories; the plain baseline.",
    version=1,
    params=Params,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "sklearn.linear_model", "threadpoolctl"),
)
