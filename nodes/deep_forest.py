"""Train a deep forest: a cascade of layers, each of several learners."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from engine.export_python import Code, Names, Raw, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from nodes.data.columns import check_learnable
from nodes.models.training import ClassWeights, Seed, fitting, train

Share = Annotated[float, Field(gt=0, le=1)]
Depth = Annotated[int, Field(ge=1, le=1000)]
Preset = Literal[
    "default",
    "gcforest",
    "mart_cascade",
    "mart_cascade_tuned",
    "mddf",
    "mddf_sf",
    "mddf_st",
    "mddf_np",
    "gcforest_cs",
]


class _Learner(NodeParams):
    """What the learners share."""

    count: int = Field(1, ge=1, le=50, title="Count", description="How many of them a layer has.")
    trees: int = Field(100, ge=1, le=10_000, title="Trees", description="Trees in each of them.")
    max_depth: Depth | None = Field(None, title="Depth", description="Most levels of a tree; empty: no limit.")


class ForestLearner(_Learner):
    """A forest among the learners of a layer."""

    kind: Literal["random_forest", "completely_random_forest", "extra_trees"] = Field(
        title="Kind", description="How the trees are split: best cut, blind cut, or best of random cuts."
    )
    max_features: Literal["sqrt", "log2", "all"] | Share = Field(
        "sqrt", title="Columns a node", description="How many columns a node chooses its cut from, or their share."
    )
    min_rows: int = Field(1, ge=1, title="Rows a leaf", description="Fewest training rows in a leaf.")


class MartLearner(_Learner):
    """Boosted trees among the learners of a layer."""

    kind: Literal["mart"] = Field(title="Kind", description="Gradient-boosted trees by LightGBM.")
    trees: int = Field(50, ge=1, le=10_000, title="Trees", description="Rounds of boosting.")
    learning_rate: Share = Field(0.1, title="Learning rate", description="How far each tree goes.")
    leaves: int = Field(31, ge=2, le=4096, title="Leaves", description="Most leaves a tree may have.")
    min_rows: int = Field(20, ge=1, title="Rows a leaf", description="Fewest training rows in a leaf.")
    row_share: Share = Field(0.8, title="Share of rows", description="Share of the rows each tree sees.")
    column_share: Share = Field(0.8, title="Share of columns", description="Share of the columns each tree sees.")


LearnerParams = Annotated[ForestLearner | MartLearner, Field(discriminator="kind")]

MARGIN = ("gamma", "mu", "depth_step")
SCREENING = ("error_share", "tree_growth")
COMMON = ("class_vectors", "folds", "metric", "patience", "tolerance", "max_layers", "augment")


class Params(NodeParams):
    """Settings of the cascade; what is left empty is as the preset has it."""

    preset: Preset = Field(
        "default",
        title="Preset",
        description="What to start from: the choice that measures best all round, gcForest, the MART cascade of Ant "
        "Financial (50 trees; tuned: 200), mdDF with its variants (same forests, stacking, no predictions), or "
        "gcForest with confidence screening.",
    )
    learners: list[LearnerParams] = Field(
        default_factory=list,
        max_length=20,
        title="Learners of a layer",
        description="Kinds, how many of each, and their settings; empty: those of the preset.",
    )
    class_vectors: Literal["folds", "oob"] | None = Field(
        None,
        title="Class vectors",
        description="Vectors of training rows come from folds that held them out, or from trees that had them out of "
        "their bag (oob: one fit a learner, several times faster).",
    )
    folds: Annotated[int, Field(ge=2, le=50)] | None = Field(
        None,
        title="Folds",
        description="Number of folds; each learner is fitted once a fold.",
        json_schema_extra=form_hint(when={"class_vectors": "!oob"}),
    )
    metric: (
        Literal["accuracy", "balanced_accuracy", "auc", "f1", "ks", "log_loss", "average_precision", "recall_at_rate"]
        | None
    ) = Field(None, title="Grow by", description="The measure on held-out rows that decides about further layers.")
    patience: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, title="Patience", description="Growth stops after this many layers in a row without a gain."
    )
    tolerance: Annotated[float, Field(ge=0)] | None = Field(
        None, title="Tolerance", description="What a layer has to gain at least."
    )
    max_layers: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, title="Most layers", description="Growth stops here at the latest."
    )
    augment: Literal["concat", "stack", "none"] | None = Field(
        None,
        title="The next layer sees",
        description="The columns and the class vectors (concat), only the vectors (stack), or only the columns (none).",
    )
    gamma: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        title="Target margin γ",
        description="mdDF: the margin all rows should have.",
        json_schema_extra=form_hint(when={"preset": "mddf*"}),
    )
    mu: Annotated[float, Field(gt=0)] | None = Field(
        None,
        title="Trade-off μ",
        description="mdDF: what margins beyond the target cost, against those below.",
        json_schema_extra=form_hint(when={"preset": "mddf*"}),
    )
    depth_step: Depth | None = Field(
        None,
        title="Depth step",
        description="mdDF: random forests of layer t are this times t + 1 deep.",
        json_schema_extra=form_hint(when={"preset": "mddf*"}),
    )
    error_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        title="Error share a",
        description="Screening: rows leave a layer where it errs less than this share of its error; empty: 1/10 or "
        "1/3, by the accuracy of the first layer.",
        json_schema_extra=form_hint(when={"preset": "gcforest_cs"}),
    )
    tree_growth: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None,
        title="Growth of trees",
        description="Screening: how many times as many trees more, once all rows are gone.",
        json_schema_extra=form_hint(when={"preset": "gcforest_cs"}),
    )
    select_features: Annotated[int, Field(ge=1)] | None = Field(
        None, title="Select columns", description="Keep this many columns, the most important by MART, before layer 1."
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"

    @model_validator(mode="after")
    def _settings_of_the_preset(self) -> Self:
        """A setting that the preset does not have would be without effect."""
        for names, owner, title in ((MARGIN, "mddf", "mdDF"), (SCREENING, "gcforest_cs", "confidence screening")):
            alien = [name for name in names if getattr(self, name) is not None]
            if alien and not self.preset.startswith(owner):
                raise ValueError(f"{alien[0]} is a setting of {title}; choose such a preset, or leave it empty")
        return self


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Grow the cascade on the table's target."""
    from nodes.models.learners import DeepForest

    learner = DeepForest(preset=params.preset, changes=_changes(params), seed=params.seed)
    return {"model": train(ctx, inputs["table"], learner, params)}


def _changes(params: Params) -> dict[str, Any]:
    """What is set otherwise than in the preset, in the library's words."""
    changes = {name: getattr(params, name) for name in (*COMMON, *MARGIN, *SCREENING)}
    changes = {name: value for name, value in changes.items() if value is not None}
    if params.learners:
        changes["learners"] = [_learner(learner) for learner in params.learners]
    if params.select_features is not None:
        from deepforest import MartSelector

        changes["selector"] = MartSelector(params.select_features)
    return changes


def _learner(learner: ForestLearner | MartLearner) -> dict[str, Any]:
    settings = learner.model_dump()
    if settings.get("max_features") == "all":
        settings["max_features"] = None
    return settings


def _spelled_out(learner: ForestLearner | MartLearner) -> dict[str, Any]:
    """A learner for a reader: its kind first, and no limit that is none."""
    settings = {"kind": learner.kind} | _learner(learner)
    return {name: value for name, value in settings.items() if name != "max_depth" or value is not None}


def python(params: Params, names: Names) -> Code:
    """How the node reads in a script."""
    changes = {name: value for name in (*COMMON, *MARGIN, *SCREENING) if (value := getattr(params, name)) is not None}
    if params.learners:
        changes["learners"] = [_spelled_out(learner) for learner in params.learners]
    if params.select_features is not None:
        changes["selector"] = Raw(f"MartSelector({params.select_features})")

    def lines(rows: Raw, cascade: Raw) -> list[str]:
        others = {"categorical_features": Raw(f"{rows}.categorical"), "random_state": params.seed, "n_jobs": -1}
        weights = Raw(f"{rows}.weights")
        return [
            *statement(cascade, "preset", params.preset, **changes, **others),
            *statement("", f"{cascade}.fit", Raw(f"{rows}.matrix"), Raw(f"{rows}.codes"), sample_weight=weights),
        ]

    imports = ["from deepforest import preset"]
    imports += ["from deepforest import MartSelector"] * (params.select_features is not None)
    return fitting(params, names, "cascade", lines, imports)


NODE = NodeType(
    name="deep-forest",
    title="Deep forest",
    category="Learn",
    summary="A cascade of forests and boosted trees: each layer learns from the columns and what the last one said.",
    version=1,
    params=Params,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "lightgbm", "deepforest.presets"),
)
