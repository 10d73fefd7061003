"""Train a deep forest: a cascade of layers, each of several learners.

A preset gives every setting a value; the parameters of the node change single ones. ``FitProgress``
turns the events of a fit into what the run page shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from engine.errors import BadInput, SubtaskFailed
from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import Columns, NodeContext, NodeParams, SubtaskState, form_hint
from nodes.composite_forest import CompositeLearnerParams
from nodes.data.columns import Task
from nodes.models.kinds import Encoding, ModelKind
from nodes.models.metric_titles import metric_titles
from nodes.models.training import (
    FEATURES_PER_SPLIT,
    ClassWeights,
    FoldsBy,
    MinRows,
    Seed,
    TrainingRows,
    compile_kernels,
    fit_statement,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from deepforest import FitEvent
    from deepforest.records import LayerRecord

Share = Annotated[float, Field(gt=0, le=1)]
Depth = Annotated[int, Field(ge=1, le=1000)]
Side = Annotated[int, Field(ge=1, le=1_000_000)]
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
    "gcforest_cs_scan",
]
# As in ``deepforest.presets``, which takes a moment to load; a test compares them.
PRESET_TITLES = {
    "default": "Best all-round choice",
    "gcforest": "gcForest (Zhou and Feng)",
    "mart_cascade": "MART cascade, gcForest-d (Zhang et al.)",
    "mart_cascade_tuned": "MART cascade, gcForest-t (Zhang et al.)",
    "mddf": "mdDF (Lyu, Yang and Zhou)",
    "mddf_sf": "mdDF, same forests",
    "mddf_st": "mdDF, stacking",
    "mddf_np": "mdDF, no predictions",
    "gcforest_cs": "gcForest-CS, confidence screening (Pang et al.)",
    "gcforest_cs_scan": "gcForest-CS with scanning (Pang et al.)",
}
GrowthMetric = Literal[
    "accuracy",
    "balanced_accuracy",
    "auc",
    "f1",
    "ks",
    "log_loss",
    "average_precision",
    "recall_at_rate",
    "recall_at_1_in_1000",
    "recall_at_1_in_10000",
    "rmse",
    "mae",
    "r2",
]
OF_NUMBERS = ("rmse", "mae", "r2")
"""Metrics for growth if a number is predicted."""
SCORING = {
    "recall_at_1_in_1000": "recall_at_rate(0.001)",
    "recall_at_1_in_10000": "recall_at_rate(0.0001)",
}
"""Metrics for growth that have another name in the library, and this name."""


Ranks = Annotated[
    int,
    Field(
        ge=1,
        le=256,
        title="Workers per fit",
        description="How many workers of a cluster, or processes of this machine, carry out one "
        "fit together, each on its part of the rows. For tables that are too large for one worker; "
        "1 is faster otherwise.",
        json_schema_extra=form_hint(folded=True),
    ),
]


class _Learner(NodeParams):
    """Hold the parameters that all learners of a layer share."""

    count: int = Field(
        1, ge=1, le=50, title="Count", description="How many of these learners each layer has."
    )
    trees: int = Field(
        100, ge=1, le=10_000, title="Trees", description="Number of trees in each learner."
    )
    max_depth: Depth | None = Field(
        None, title="Depth", description="Maximum depth of a tree; empty: no limit."
    )


class ForestLearnerParams(_Learner):
    """Describe a forest among the learners of a layer."""

    kind: Literal["random_forest", "completely_random_forest", "extra_trees"] = Field(
        title="Kind",
        description="How trees split: at the best threshold, at a random threshold of a random "
        "feature, or at the best of several random thresholds.",
        json_schema_extra=form_hint(
            words={
                "random_forest": "Random forest",
                "completely_random_forest": "Completely random forest",
                "extra_trees": "Extra trees",
            }
        ),
    )
    max_features: Literal["sqrt", "log2", "all"] | Share = Field(
        "sqrt",
        title="Features per split",
        description="How many features each split chooses from.",
        json_schema_extra=form_hint(
            words=FEATURES_PER_SPLIT, when={"kind": ("random_forest", "extra_trees")}
        ),
    )
    min_rows: MinRows = 1


class MartLearnerParams(_Learner):
    """Describe boosted trees among the learners of a layer."""

    kind: Literal["mart"] = Field(
        title="Kind",
        description="Gradient-boosted trees by LightGBM.",
        json_schema_extra=form_hint(words={"mart": "MART"}),
    )
    trees: int = Field(50, ge=1, le=10_000, title="Trees", description="Rounds of boosting.")
    learning_rate: Share = Field(0.1, title="Learning rate", description="Step size of each tree.")
    leaves: int = Field(
        31, ge=2, le=4096, title="Leaves", description="Maximum number of leaves of a tree."
    )
    min_rows: MinRows = 20
    row_share: Share = Field(
        0.8, title="Share of rows", description="Share of the rows each tree sees."
    )
    column_share: Share = Field(
        0.8, title="Share of columns", description="Share of the columns each tree sees."
    )
    ranks: Ranks = 1


class XgboostLearnerParams(_Learner):
    """Describe boosted trees by XGBoost among the learners of a layer."""

    kind: Literal["xgboost"] = Field(
        title="Kind",
        description="Gradient-boosted trees by XGBoost, a package of its own.",
        json_schema_extra=form_hint(words={"xgboost": "XGBoost"}),
    )
    trees: int = Field(50, ge=1, le=10_000, title="Trees", description="Rounds of boosting.")
    max_depth: Depth | None = Field(
        6, title="Depth", description="Maximum depth of a tree; empty: no limit."
    )
    learning_rate: Share = Field(0.1, title="Learning rate", description="Step size of each tree.")
    min_weight: Annotated[float, Field(ge=0)] = Field(
        1.0,
        title="Min weight",
        description="The smallest sum of second derivatives of the loss in a leaf.",
    )
    row_share: Share = Field(
        0.8, title="Share of rows", description="Share of the rows each tree sees."
    )
    column_share: Share = Field(
        0.8, title="Share of columns", description="Share of the columns each tree sees."
    )
    ranks: Ranks = 1

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        """Refuse it where the package is missing, before anything runs."""
        if find_spec("xgboost") is None:
            raise BadInput(
                "XGBoost is not installed; install it with pip install 'sylva-studio[cluster]', or "
                "choose MART",
                field="kind",
            )
        return self


LEARNER_SETTINGS = {
    "trees": "n_estimators",
    "min_rows": "min_samples_leaf",
    "leaves": "num_leaves",
    "min_weight": "min_child_weight",
    "row_share": "subsample",
    "column_share": "colsample_bytree",
    "penalty": "C",
}
"""Parameters of learners that have another name in the library, and this name."""

LearnerParams = Annotated[
    ForestLearnerParams | MartLearnerParams | XgboostLearnerParams | CompositeLearnerParams,
    Field(discriminator="kind"),
]

VALIDATION = {
    "nested": "on rows that no layer has seen",
    "per_layer": "out-of-fold (as in the papers)",
}

SCANNING_PRESET = "gcforest_cs_scan"
OF_SCAN = form_hint(when={"scan_shape": "*[0-9]*"})
OF_MARGIN = form_hint(when={"preset": "mddf*"}, words={"auto": "automatic"})
OF_PRESET = {
    **dict.fromkeys(("gamma", "mu", "depth_step"), ("mddf", "mdDF")),
    **dict.fromkeys(("error_share", "tree_growth"), ("gcforest_cs", "confidence screening")),
}
"""Settings that only some presets have: how the names of these presets begin, and their title."""


class DeepForestParams(NodeParams):
    """Choose the settings of the cascade; an empty field takes the value of the preset."""

    preset: Preset = Field(
        "default",
        title="Preset",
        description="Settings to start from. Each setting below can be changed. docs/why.md says "
        "on which tables a deep forest pays, and on which it does not.",
        json_schema_extra=form_hint(words=PRESET_TITLES),
    )
    learners: list[LearnerParams] = Field(
        default_factory=list,
        max_length=20,
        title="Base learners",
        description="The learners of each layer; empty: those of the preset.",
    )
    resampling: Literal["nested", "per_layer"] | None = Field(
        None,
        title="Validation",
        description="How layers are scored. On rows that no layer has seen: cascades that leave "
        "one fold out through all layers are scored on it, then one cascade learns all rows. As "
        "in the papers: one cascade; its scores are too good from layer 2 on.",
        json_schema_extra=form_hint(words=VALIDATION),
    )
    class_vectors: Literal["folds", "oob"] | None = Field(
        None,
        title="Class vectors",
        description="Which models predict a training row for the next layer: those of the other "
        "folds, or the trees that did not draw the row (fewer fits, several times faster).",
        json_schema_extra=form_hint(
            words={"folds": "from the other folds", "oob": "out of bag (faster)"}
        ),
    )
    folds: Annotated[int, Field(ge=2, le=50)] | None = Field(
        None,
        title="Folds",
        description="Number of parts that the training rows are divided into. Each part is "
        "predicted by models that did not see it.",
    )
    folds_by: FoldsBy = "auto"
    metric: GrowthMetric | None = Field(
        None,
        title="Metric for growth",
        description="The metric on held-out rows that decides whether a layer is added.",
        json_schema_extra=form_hint(words=metric_titles(GrowthMetric)),
    )
    patience: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None,
        title="Patience",
        description="Growth stops after this many layers in a row without a gain.",
    )
    tolerance: Annotated[float, Field(ge=0)] | None = Field(
        None,
        title="Tolerance",
        description="The smallest gain that counts. On rows that no layer has seen, it must also "
        "be larger than its standard error.",
    )
    max_layers: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, title="Max layers", description="Maximum number of layers; growth may stop earlier."
    )
    augment: Literal["concat", "stack", "none"] | None = Field(
        None,
        title="Input of the next layer",
        description="What a layer sees: the features of the table, the predictions (class "
        "vectors) of the layer before, or both.",
        json_schema_extra=form_hint(
            words={
                "concat": "features and predictions",
                "stack": "predictions only",
                "none": "features only",
            }
        ),
    )
    gamma: Literal["auto"] | Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        title="Target margin γ",
        description="The margin that all rows should reach. Automatic: tries 0.7 to 0.95 before "
        "layer 2 and takes the value with the lowest log loss on held-out rows.",
        json_schema_extra=OF_MARGIN,
    )
    mu: Literal["auto"] | Annotated[float, Field(gt=0)] | None = Field(
        None,
        title="Trade-off μ",
        description="Cost of margins above the target, relative to those below. Automatic: tries "
        "0.01, 0.05 and 0.1 as for γ.",
        json_schema_extra=OF_MARGIN,
    )
    depth_step: Literal["auto"] | Depth | None = Field(
        None,
        title="Depth step",
        description="The depth of the random forests in layer t is this number times (t + 1). "
        "Automatic: tries 16, 8, 4 and 2 in layer 1, until the log loss on held-out rows rises.",
        json_schema_extra=OF_MARGIN,
    )
    error_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        title="Error share a",
        description="A row leaves after a layer if the error on rows that are at least as "
        "confident is below this share of the layer's error. Empty: 1/10 or 1/3, depending on the "
        "accuracy of layer 1.",
        json_schema_extra=form_hint(when={"preset": "gcforest_cs*"}),
    )
    tree_growth: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None,
        title="Growth of trees",
        description="The number of trees grows as rows leave, by at most this share: with 1, to "
        "at most twice as many.",
        json_schema_extra=form_hint(when={"preset": "gcforest_cs*"}),
    )
    select_features: Annotated[int, Field(ge=1)] | None = Field(
        None,
        title="Features to keep",
        description="Keep only this many features before layer 1: the most important ones by MART.",
    )
    scan_shape: list[Side] = Field(
        default_factory=list,
        max_length=3,
        title="Shape of a row",
        description="For images: height, width and, if there are several, channels; for sequences: "
        "the length. The layers then see class vectors of windows that slide over the row "
        "(multi-grained scanning). Columns must be in reading order. Empty: no scanning.",
    )
    scan_windows: list[Side] = Field(
        default_factory=list,
        max_length=10,
        title="Window sizes",
        description="Sides of the square windows, or lengths in a sequence. Empty: windows of "
        "1/16, 1/8 and 1/4 of the columns; gcForest-CS with scanning has only the first.",
        json_schema_extra=OF_SCAN,
    )
    scan_sample: Share | None = Field(
        None,
        title="Share of positions",
        description="Share of the window positions that are used, drawn at random; fewer are "
        "faster and need less memory. Empty: all; with gcForest-CS with scanning, 0.1.",
        json_schema_extra=OF_SCAN,
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"

    @model_validator(mode="after")
    def _settings_of_the_scan(self) -> Self:
        """Refuse settings that do not describe a scan."""
        if not self.scan_shape:
            if self.preset == SCANNING_PRESET:
                raise BadInput(
                    f"the preset {PRESET_TITLES[SCANNING_PRESET]} needs the shape of a row; enter "
                    "height and width of the image, or the length of the sequence",
                    field="scan_shape",
                )
            for name in ("scan_windows", "scan_sample"):
                if getattr(self, name):
                    raise BadInput(
                        f"{type(self).model_fields[name].title} belongs to a scan; enter the Shape "
                        "of a row, or leave it empty",
                        field=name,
                    )
            return self
        sides = self.scan_shape[:2]
        for window in self.scan_windows:
            if window > min(sides):
                raise BadInput(
                    f"a window of {window} is larger than a row of "
                    f"{' × '.join(map(str, self.scan_shape))}; enter at most {min(sides)}",
                    field="scan_windows",
                )
        if self.select_features is not None:
            raise BadInput(
                "a scan needs all columns; leave Features to keep empty, or the Shape of a row",
                field="select_features",
            )
        return self

    @model_validator(mode="after")
    def _settings_of_the_preset(self) -> Self:
        """Refuse a setting that the preset does not have, because it would have no effect."""
        for name, (preset, title) in OF_PRESET.items():
            if getattr(self, name) is not None and not self.preset.startswith(preset):
                raise BadInput(
                    f"{type(self).model_fields[name].title} belongs to {title}; choose a preset of "
                    f"{title}, or leave it empty",
                    field=name,
                )
        if self.folds_by == "time" and self.resampling == "per_layer":
            raise BadInput(
                "later rows can be held out only with a Validation on rows that no layer has seen; "
                "choose that, or set Folds by to single rows",
                field="folds_by",
            )
        return self


CASCADE_PARAMS = (
    *("resampling", "class_vectors", "folds", "metric", "patience", "tolerance", "max_layers"),
    "augment",
    *("gamma", "mu", "depth_step", "error_share", "tree_growth"),
)

NAMES = {"folds": "cv", "metric": "scoring", "tolerance": "tol"}
"""Parameters that the library names as scikit-learn does."""


def cascade_params(params: DeepForestParams) -> dict[str, Any]:
    """Return the parameters that differ from the preset, with the library's names."""
    values = {name: getattr(params, name) for name in CASCADE_PARAMS}
    values = {NAMES.get(name, name): value for name, value in values.items() if value is not None}
    if params.metric in SCORING:
        values["scoring"] = SCORING[params.metric]
    if params.learners:
        values["learners"] = [_learner_params(learner) for learner in params.learners]
    if params.scan_shape:
        values["scan"] = scan_params(params)
    return values


def scan_params(params: DeepForestParams) -> dict[str, Any]:
    """Return the settings of the scan, with the library's names."""
    values: dict[str, Any] = {"shape": params.scan_shape}
    if params.preset == SCANNING_PRESET:
        values |= {"windows": "fine", "sample": 0.1}
    if params.scan_windows:
        values["windows"] = params.scan_windows
    if params.scan_sample is not None:
        values["sample"] = params.scan_sample
    return values


def check_scan(params: DeepForestParams, columns: Columns) -> None:
    """Raise ``BadInput`` if the features of a table are not rows of the shape to be scanned.

    They must be numbers, as many as the shape has, and in reading order as far as their names say.
    """
    if not params.scan_shape:
        return
    from deepforest.scanning import check_order, check_shape

    features = [column for column in columns if column.role == "feature"]
    for column in features:
        if column.kind not in ("number", "bool"):
            raise BadInput(
                f"column '{column.name}' does not hold numbers, and a scan needs columns of "
                "numbers; leave it out with Select columns, or leave the Shape of a row empty",
                field="scan_shape",
            )
    try:
        shape = check_shape(params.scan_shape, len(features))
        check_order([column.name for column in features], shape)
    except ValueError as error:
        raise BadInput(str(error), field="scan_shape") from None


def _learner_params(learner: LearnerParams) -> dict[str, Any]:
    """Return the settings of one learner as the library expects them."""
    values: dict[str, Any] = {"kind": learner.kind}
    for name, value in learner.model_dump().items():
        values[LEARNER_SETTINGS.get(name, name)] = value
    if values.get("max_features") == "all":
        values["max_features"] = None
    # The library's default depends on the kind of learner; only a number replaces it.
    if values["max_depth"] is None and learner.kind != "xgboost":
        del values["max_depth"]
    return values


def build(params: DeepForestParams) -> BaseEstimator:
    """Return an unfitted cascade: the preset with the parameters that were changed."""
    from deepforest import MartSelector, preset

    values = cascade_params(params)
    if params.select_features is not None:
        values["selector"] = MartSelector(params.select_features)
    return preset(params.preset, **values, random_state=params.seed)


def build_regressor(params: DeepForestParams) -> BaseEstimator:
    """Return an unfitted cascade that predicts numbers."""
    from deepforest import MartSelector
    from deepforest.presets import regression_preset

    check_task(params, "regression")
    values = cascade_params(params)
    if params.select_features is not None:
        values["selector"] = MartSelector(params.select_features, target="numbers")
    return regression_preset(params.preset, **values, random_state=params.seed)


def check_task(params: DeepForestParams, task: Task) -> None:
    """Raise ``BadInput`` for a preset, learner or metric that does not suit classes or numbers."""
    if task == "regression" and params.scan_shape:
        raise BadInput(
            "the target is a number, and a scan makes vectors of classes; leave the Shape of a row "
            "empty",
            field="scan_shape",
        )
    if task == "regression" and params.preset.startswith(("mddf", "gcforest_cs")):
        raise BadInput(
            f"the target is a number, and the preset {PRESET_TITLES[params.preset]} is for "
            "classes; choose another preset",
            field="preset",
        )
    if task == "regression" and any(each.kind == "composite_forest" for each in params.learners):
        raise BadInput(
            "the target is a number, and a composite forest learns classes; remove it from the "
            "base learners",
            field="learners",
        )
    if params.metric is None or (params.metric in OF_NUMBERS) == (task == "regression"):
        return
    title = metric_titles(GrowthMetric)[params.metric]
    kind, others = "a class", "AUC, accuracy or log loss"
    if task == "regression":
        kind, others = "a number", "RMSE, MAE or R²"
    raise BadInput(
        f"the target is {kind}, and {title} cannot be computed for it; set Metric for growth to "
        f"{others}, or leave it empty",
        field="metric",
    )


def fit(ctx: NodeContext, rows: TrainingRows, cascade: Any) -> None:
    """Grow the cascade, with checkpoints, progress and cancellation.

    A fit that was finished before a crash is read from the checkpoint instead of being repeated.
    Raise ``Cancelled`` if the run is cancelled.
    """
    from deepforest import FitCancelled
    from deepforest.gang.places import GangFailed
    from deepforest.records import depth_sentence

    _check_scanned_columns(rows, cascade)
    _compile_kernels_for(ctx, rows, cascade)
    cascade.set_params(categorical_features=rows.categorical, n_jobs=ctx.threads)
    if rows.classes:
        # Apart from the row weights, which count in the scores of the layers, too.
        cascade.set_params(class_weight=rows.class_weight)
    try:
        cascade.fit(
            rows.matrix,
            rows.y,
            sample_weight=rows.row_weights,
            groups=rows.groups,
            times=_times(ctx, rows, cascade),
            validation=rows.validation,
            checkpoint=ctx.checkpoint,
            executor=ctx.remote,
            listener=FitProgress(ctx, cascade).on_event,
            cancelled=ctx.cancelled.is_set,
        )
        sentence = depth_sentence(cascade.layer_records_)
        if sentence:
            ctx.log(f"{sentence}.")
    except FitCancelled:
        # It raises Cancelled. The line after it is for a cancel that is not the run's.
        ctx.check_cancelled()
        raise
    except GangFailed as error:
        raise SubtaskFailed(error.kind, str(error)) from error


def _check_scanned_columns(rows: TrainingRows, cascade: Any) -> None:
    """Raise ``BadInput`` if a column of a scan has no values: the others are not the whole row."""
    scan = getattr(cascade, "scan", None)
    if scan is None:
        return
    n_columns, n_used = math.prod(scan["shape"]), rows.matrix.shape[1]
    if n_used != n_columns:
        raise BadInput(
            f"a scan needs all {n_columns} columns, and {n_columns - n_used} of them have no "
            "values in the training rows; the log names them. Fill them with Fill missing values, "
            "or leave the Shape of a row empty",
            field="scan_shape",
        )


def check_storage(params: DeepForestParams) -> Iterator[BadInput]:
    """Yield what needs a folder that all workers see: ranks meet there."""
    for number, learner in enumerate(params.learners):
        ranks = getattr(learner, "ranks", 1)
        if ranks > 1:
            yield BadInput(
                f"{ranks} workers per fit need a workspace that all workers see, and this run has "
                "a storage instead; set it to 1, or run without the storage",
                field=f"learners.{number}.ranks",
            )


def run_subtask(
    checkpoint: Path, key: str, request: dict[str, Any], check_cancelled: Callable[[], None]
) -> None:
    """Carry out one fit of a cascade that another process grows."""
    from deepforest import run_fit

    run_fit(checkpoint, key, request, check_cancelled)


def _times(ctx: NodeContext, rows: TrainingRows, cascade: Any) -> Any:
    """Return the times by which rows are held out; None for the papers' way, which has no order."""
    if rows.times is not None and cascade.resampling == "per_layer":
        ctx.log("Scores as in the papers are on single rows, not on the latest.")
        return None
    return rows.times


def _compile_kernels_for(ctx: NodeContext, rows: TrainingRows, cascade: Any) -> None:
    """Compile the forest kernels that this cascade will use; a cascade of boosters needs none."""
    # Without learners of its own, a cascade has the forests of its preset.
    kinds = {learner["kind"] for learner in cascade.learners or []}
    if kinds and kinds <= {"mart", "xgboost"} and getattr(cascade, "scan", None) is None:
        return
    is_weighted = rows.row_weights is not None or rows.class_weight is not None
    # mdDF gives the rows weights from its second layer on.
    reweights = getattr(cascade, "reweight", False)
    compile_kernels(ctx, counts=not is_weighted, weights=is_weighted or reweights)


PART_OF_SCORING = 0.9  # of the progress; the rest is the model on all rows
SUBTASK_STATES: Mapping[str, SubtaskState] = {
    "waiting": "waiting",
    "started": "running",
    "finished": "done",
    "kept": "reused",
    "failed": "failed",
}


@dataclass
class FitProgress:
    """Turn the events of a fit into subtasks, partial results, progress and log lines of the node.

    The counters are those of the ``stage``, the layer that is being fitted: ``planned`` fits, those
    ``done``, and how many of these were ``reused`` from a checkpoint. ``reached`` is the largest
    share that was reported, ``scored`` that before the model on all rows. ``published`` holds the
    records that were sent last, by layer.
    """

    ctx: NodeContext
    cascade: Any
    stage: str = "Layer 1"
    planned: int = 0
    done: int = 0
    reused: int = 0
    reached: float = 0.0
    scored: float = 0.0
    last_score: str = ""
    published: dict[int, LayerRecord] = field(default_factory=dict)

    def on_event(self, event: FitEvent) -> None:
        """Process one event: a finished layer, or a fit that changed its state."""
        from deepforest.records import LayerRecord

        if isinstance(event.result, LayerRecord):
            self._finish_layer(event.result)
        # Events without a place are about the whole fit.
        elif event.place:
            self._count(event)
        stage = self.stage[:1].lower() + self.stage[1:]
        text = f"{stage}: {self.done} of {self.planned} fits done{self.last_score}"
        # The fits of a later layer are planned cascade by cascade; progress must not go backwards.
        self.reached = max(self.reached, self._fraction)
        self.ctx.progress(self.reached, text)

    @property
    def _fraction(self) -> float:
        """Return how much of the largest possible cascade is fitted, from 0 to 1."""
        of_layer = self.done / self.planned if self.planned else 0.0
        max_layers: int = self.cascade.max_layers
        layer = int(self.stage.rpartition(" ")[2])
        if self.stage.startswith("Model"):
            # The model on all rows is the last part, and has as many layers as were kept.
            kept = sum(record.kept for record in self.cascade.layer_records_)
            left = (layer - 1 + of_layer) / max(kept, layer)
            return float(self.scored + (1 - self.scored) * left)
        return PART_OF_SCORING * min(layer - 1 + of_layer, max_layers) / max_layers

    def _count(self, event: FitEvent) -> None:
        """Update the counters and report the fit as a subtask of the node."""
        if event.place[0] != self.stage:
            self._start_stage(event.place[0])
        if event.text:
            self.ctx.log(f"{', '.join(event.place)}: {event.text}.")
        seconds = getattr(event.result, "seconds", None)
        self.ctx.subtask(event.place, SUBTASK_STATES[event.state], seconds, event.worker)
        if event.state == "waiting":
            self.planned += 1
        if event.state in ("finished", "kept"):
            self.done += 1
        if event.state == "kept":
            self.reused += 1

    def _finish_layer(self, record: LayerRecord) -> None:
        """Log the finished layer with its score, and start counting for the next one."""
        self._publish_layers()
        reused = f", {self.reused} of {self.done} fits reused" if self.reused else ""
        self.ctx.log(f"Layer {record.number}, {record.seconds:.1f} s{reused}: {record.reason}.")
        # Shown until the next layer has a score.
        self.last_score = f"; layer {record.number} scored {record.score:.4f}"
        self._start_stage(f"Layer {record.number + 1}")

    def _start_stage(self, stage: str) -> None:
        """Start counting for the next layer, of the cascades that are scored or of the model."""
        if not self.stage.startswith("Model"):
            self.scored = self.reached
        self.stage = stage
        self.planned = self.done = self.reused = 0

    def _publish_layers(self) -> None:
        """Publish the records that are new or have changed, as partial results of the node."""
        # All layers: a later one may decide that an earlier one is kept after all.
        for record in self.cascade.layer_records_:
            if self.published.get(record.number) != record:
                self.published[record.number] = record
                self.ctx.publish(f"layer-{record.number}", record.as_dict())


def python(params: DeepForestParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that uses the library directly."""
    values = cascade_params(params)
    imports = ["from deepforest import preset", "from deepforest.presets import regression_preset"]
    if params.select_features is not None:
        imports.append("from deepforest import MartSelector")

    def lines(rows: Expression, cascade: Expression) -> list[str]:
        """Return the lines that create and fit the cascade."""
        if params.select_features is not None:
            target = f'"classes" if {rows}.classes else "numbers"'
            selector = f"MartSelector({params.select_features}, target={target})"
            values["selector"] = Expression(selector)
        if params.class_weights != "none":
            values["class_weight"] = Expression(f"{rows}.class_weight")
        others = {
            "categorical_features": Expression(f"{rows}.categorical"),
            "random_state": params.seed,
            "n_jobs": -1,
        }
        more = []
        if params.folds_by in ("auto", "group"):
            more.append("groups")
        if params.folds_by in ("auto", "time") and params.resampling != "per_layer":
            more.append("times")
        if "validation" in names.inputs:
            more.append("validation")
        kind = names.local("cascade_of")
        return [
            f"{kind} = preset if {rows}.classes else regression_preset",
            *statement(cascade, str(kind), params.preset, **values, **others),
            *fit_statement(cascade, rows, weights="row_weights", others=more),
        ]

    return training_script(params, names, "cascade", lines, imports)


def save(cascade: Any, folder: Path) -> dict[str, Any]:
    """Write the cascade and return the name of its class."""
    # Times differ from run to run; without them the same training gives the same bytes.
    cascade = copy(cascade)
    cascade.layer_records_ = [record.without_times() for record in cascade.layer_records_]
    cascade.save(folder)
    return {"class": type(cascade).__name__}


def load(folder: Path, data: Mapping[str, Any]) -> BaseEstimator:
    """Read a cascade; raise ``ValueError`` if its class is not one of the presets' classes."""
    from deepforest import CascadeForestRegressor
    from deepforest.presets import PRESETS

    classes: dict[str, Any] = {each.kind.__name__: each.kind for each in PRESETS.values()}
    classes[CascadeForestRegressor.__name__] = CascadeForestRegressor
    if data["class"] not in classes:
        raise ValueError(f"the cascade '{data['class']}' is unknown")
    cascade: BaseEstimator = classes[data["class"]].load(folder)
    return cascade


KIND = ModelKind(
    name="deep-forest",
    title="Deep forest",
    encoding=Encoding("codes", "float64"),
    build=build,
    save=save,
    load=load,
    estimators=(
        "CascadeForestClassifier",
        "MarginForestClassifier",
        "ScreenedForestClassifier",
        "CascadeForestRegressor",
    ),
    build_regressor=build_regressor,
    rounds_target=True,
)
NODE = training_node(
    KIND,
    summary="A cascade of forests and boosted trees; each layer sees the columns and the last "
    "layer's predictions.",
    version=2,
    params=DeepForestParams,
    fit=fit,
    python=python,
    imports=("lightgbm", "deepforest.presets", "deepforest.forest.load_kernels"),
    check_task=check_task,
    run_subtask=run_subtask,
    check_storage=check_storage,
    check_columns=check_scan,
)
