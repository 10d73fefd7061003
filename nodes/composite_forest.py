"""Train a Random Composite Forest: shallow trees with a polynomial SVM in every leaf."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from nodes.models.kinds import Encoding, ModelKind
from nodes.models.training import (
    FEATURES_PER_SPLIT,
    ClassWeights,
    Seed,
    TrainingRows,
    fit_statement,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from deepforest import CompositeForestClassifier

Degree = Annotated[int, Field(ge=1, le=20)]
AUTOMATIC = {"auto": "automatic"}
OF_BOUND = {"selection": "bound"}


class CompositeShape(NodeParams):
    """Choose size and leaves of a composite forest."""

    trees: int = Field(100, ge=1, le=10_000, title="Trees", description="Number of trees.")
    max_depth: int = Field(
        3,
        ge=1,
        le=20,
        title="Depth",
        description="Maximum number of splits from the root to a leaf. Deep trees leave few rows "
        "for each SVM; the paper tries 2 to 8.",
    )
    degrees: list[Degree] = Field(
        list(range(1, 10)),
        min_length=1,
        max_length=20,
        title="Degrees",
        description="Degrees of the polynomial kernels that leaves may have.",
    )
    selection: Literal["bound", "none"] = Field(
        "bound",
        title="Choice of degrees",
        description="How a tree chooses the degrees of its leaves: the sequence of degrees with "
        "the smallest bound on its error, or one random sequence (RF+SVM of the paper).",
        json_schema_extra=form_hint(words={"bound": "by the bound", "none": "at random"}),
    )
    sequences: Literal["all"] | Annotated[int, Field(ge=1, le=1000)] = Field(
        10,
        title="Sequences",
        description="How many random sequences of degrees each tree chooses from. All sequences: "
        "the exact minimum of the bound, with a fit of every degree in every leaf.",
        json_schema_extra=form_hint(when=OF_BOUND, words={"all": "all sequences"}, folded=True),
    )
    max_features: Literal["sqrt", "log2", "all"] | Annotated[float, Field(gt=0, le=1)] = Field(
        "sqrt",
        title="Features per split",
        description="How many features, drawn at random, each split chooses from.",
        json_schema_extra=form_hint(folded=True, words=FEATURES_PER_SPLIT),
    )
    min_leaf: int = Field(
        10,
        ge=1,
        title="Min rows for an SVM",
        description="A leaf with fewer training rows votes for its most frequent class.",
        json_schema_extra=form_hint(folded=True),
    )
    vc: Literal["kernel", "pairs"] = Field(
        "kernel",
        title="VC dimension",
        description="How the bound counts the complexity of a leaf: by its kernel, as in the "
        "paper, or by that times the number of classes less one, which is stricter.",
        json_schema_extra=form_hint(
            when=OF_BOUND,
            words={"kernel": "of the kernel", "pairs": "of all pairs of classes"},
            folded=True,
        ),
    )


class CompositeForestParams(CompositeShape):
    """Choose the settings of a composite forest."""

    gamma: Literal["auto"] | Annotated[float, Field(gt=0, le=1)] = Field(
        "auto",
        title="Weight of complexity γ",
        description="How much the complexity of leaves counts in the bound. Automatic: the best "
        "of 0.00001, 0.0001, 0.001 and 0.01 on the validation rows; without any, on a fifth of "
        "the training rows. From about 0.01 on, the bound selects nothing.",
        json_schema_extra=form_hint(when=OF_BOUND, words=AUTOMATIC),
    )
    penalty: Literal["auto"] | Annotated[float, Field(gt=0, le=1e9)] = Field(
        "auto",
        title="Penalty of errors C",
        description="How much the SVMs avoid errors on training rows. Automatic: one for each "
        "degree, from 0.001 to 100, by cross-validation on the training rows.",
        json_schema_extra=form_hint(words=AUTOMATIC),
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


class CompositeLearnerParams(CompositeShape):
    """Describe a composite forest among the learners of a layer of a deep forest.

    C and γ are numbers: to choose them in every fit of every layer takes too long.
    """

    kind: Literal["composite_forest"] = Field(
        title="Kind",
        description="Shallow trees with a support vector machine in every leaf; for classes only.",
        json_schema_extra=form_hint(words={"composite_forest": "Composite forest"}),
    )
    count: int = Field(
        1, ge=1, le=50, title="Count", description="How many of these learners each layer has."
    )
    trees: int = Field(
        50, ge=1, le=10_000, title="Trees", description="Number of trees in each learner."
    )
    gamma: Annotated[float, Field(gt=0, le=1)] = Field(
        1e-3,
        title="Weight of complexity γ",
        description="How much the complexity of leaves counts in the bound.",
        json_schema_extra=form_hint(when=OF_BOUND),
    )
    penalty: Annotated[float, Field(gt=0, le=1e9)] = Field(
        1.0,
        title="Penalty of errors C",
        description="How much the SVMs avoid errors on training rows.",
    )


def build(params: CompositeForestParams) -> CompositeForestClassifier:
    """Return an unfitted forest with the node's parameters."""
    from deepforest import CompositeForestClassifier

    return CompositeForestClassifier(params.trees, **_arguments(params))


def _arguments(params: CompositeForestParams) -> dict[str, Any]:
    """Return the parameters with the names of the library, without the number of trees."""
    return {
        "max_depth": params.max_depth,
        # The library says None for all columns, as scikit-learn does.
        "max_features": None if params.max_features == "all" else params.max_features,
        "degrees": tuple(params.degrees),
        "sequences": params.sequences,
        "selection": params.selection,
        "gamma": params.gamma,
        "C": params.penalty,
        "min_leaf": params.min_leaf,
        "vc": params.vc,
        "random_state": params.seed,
    }


def fit(ctx: NodeContext, rows: TrainingRows, forest: Any) -> None:
    """Fit trees and leaves; a cancel takes effect before the next leaf.

    Log what the bound has chosen.
    """
    from deepforest.composite import describe_choice

    forest.set_params(categorical_features=rows.categorical, n_jobs=ctx.threads)
    forest.fit(
        rows.matrix,
        rows.y,
        sample_weight=rows.weights,
        validation=rows.validation,
        report=ctx.progress,
    )
    ctx.progress(1.0, f"{forest.n_estimators} trees")
    for sentence in describe_choice(forest.leaves_, forest.gamma_, forest.held_out_):
        ctx.log(sentence)


def python(params: CompositeForestParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script."""

    def lines(rows: Expression, forest: Expression) -> list[str]:
        """Return the lines that create and fit the forest."""
        arguments = {
            **_arguments(params),
            "categorical_features": Expression(f"{rows}.categorical"),
            "n_jobs": -1,
        }
        others = ["validation"] if "validation" in names.inputs else []
        return [
            *statement(forest, "CompositeForestClassifier", params.trees, **arguments),
            *fit_statement(forest, rows, others=others),
        ]

    imports = ["from deepforest import CompositeForestClassifier"]
    return training_script(params, names, "forest", lines, imports)


def save(forest: Any, folder: Path) -> dict[str, Any]:
    """Write the forest as arrays and JSON."""
    forest.save(folder)
    return {}


def load(folder: Path, data: Mapping[str, Any]) -> CompositeForestClassifier:
    """Read a forest; raise ``ValueError`` if its parts do not fit together."""
    from deepforest import CompositeForestClassifier

    return CompositeForestClassifier.load(folder)


KIND = ModelKind(
    name="composite-forest",
    title="Composite forest",
    encoding=Encoding("codes", "float64"),
    build=build,
    save=save,
    load=load,
    estimators=("CompositeForestClassifier",),
)
NODE = training_node(
    KIND,
    summary="Random Composite Forest: shallow trees with a support vector machine in every leaf; a "
    "bound chooses how complex each leaf is. For small tables.",
    version=1,
    params=CompositeForestParams,
    fit=fit,
    python=python,
    imports=("deepforest.composite",),
)
