"""Train a model on a table: what every node of the category Train does.

- ``ClassWeights``, ``FoldsBy``, ``Seed``  the parameters that these nodes share
- ``labelled``         the rows whose class or number is known
- ``TrainingRows``, ``prepare``  a table as an estimator needs it: checked, encoded, weighted
- ``fold_column``, ``groups_and_times``  the column that says which rows a fold holds out
- ``training_node``    the node type of a kind of model; ``train`` is what it runs
- ``validation_text``  the figures on validation rows in words
- ``compile_kernels``, ``one_blas_thread``  what several fits need
- ``training_script``, ``fit_statement``  the same as lines of a Python script
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat

from engine.errors import BadInput
from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import (
    Column,
    Columns,
    NodeContext,
    NodeParams,
    NodeType,
    Port,
    SubtaskFunction,
    form_hint,
)
from engine.scratch import IN_MEMORY, ScratchFolder
from engine.text import listed
from engine.values import Table, kind_of
from nodes.data.columns import HOW_TO_TARGET, Task, check_learnable, check_numbers, task_of
from nodes.data.row_groups import group_codes
from nodes.models.kinds import Encoding, ModelKind
from nodes.models.model import FittedModel

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from nodes.models.encoder import TableEncoder

ClassWeights = Annotated[
    Literal["none", "balanced"] | dict[str, PositiveFloat],
    Field(
        title="Class weights",
        description="Weight of the rows of each class: all equal, the same total for every class, "
        "or a number for each class you name and 1 for the others. Only the ratios matter.",
        json_schema_extra=form_hint(
            choose="class", words={"none": "all rows equal", "balanced": "balanced classes"}
        ),
    ),
]
"""Annotation of the parameter ``class_weights``; its default is ``"none"``."""

FOLDS_BY_WORDS = {
    "auto": "as the roles say",
    "rows": "single rows",
    "group": "groups",
    "time": "later rows",
}
"""How the values of ``FoldsBy`` are shown."""

FoldsBy = Annotated[
    Literal["auto", "rows", "group", "time"],
    Field(
        title="Folds by",
        description="What is held out to score the model: single rows, all rows of a group such "
        "as a customer, or all later rows. By default the roles of the columns decide.",
        json_schema_extra=form_hint(words=FOLDS_BY_WORDS),
    ),
]
"""Annotation of the parameter ``folds_by``; its default is ``"auto"``."""

Seed = Annotated[
    int,
    Field(
        ge=0,
        lt=2**31,
        title="Seed",
        description="The same seed gives the same model; another seed, another random draw.",
    ),
]

ROUNDED_SHARE = 0.01
"""Share of the standard deviation of a target that may be lost by rounding."""
FEATURES_PER_SPLIT = {"sqrt": "√ features", "log2": "log₂ features", "all": "all features"}
"""How the choices for features per split are shown."""

MinRows = Annotated[
    int,
    Field(
        ge=1,
        title="Min rows per leaf",
        description="Minimum number of training rows in a leaf.",
    ),
]


def training_node(
    kind: ModelKind,
    *,
    summary: str,
    version: int,
    params: type[NodeParams],
    fit: Fit,
    python: Callable[[Any, Variables], Snippet],
    imports: tuple[str, ...],
    check_task: Callable[[Any, Task], None] = lambda params, task: None,
    check_columns: Callable[[Any, Columns], None] = lambda params, columns: None,
    run_subtask: SubtaskFunction | None = None,
    check_storage: Callable[[Any], Iterable[BadInput]] | None = None,
) -> NodeType:
    """Return the node type that trains a kind of model: a table in, a model out.

    ``fit`` trains the estimator that ``kind.estimator`` returns for the parameters. It may use
    ``rows.validation`` to end early. The score on these rows is logged and saved with the model.
    ``check_task`` raises ``BadInput`` for parameters that do not suit classes or numbers,
    ``check_columns`` for parameters that do not suit the columns of the table.
    """

    def check(task: Task, params: Any) -> None:
        """Raise ``BadInput`` if the kind or its parameters do not suit the task."""
        kind.check_task(task)
        if task == "regression" and getattr(params, "class_weights", "none") != "none":
            raise BadInput(
                "the target is a number and has no classes; set Class weights to all rows equal",
                field="class_weights",
            )
        check_task(params, task)

    def columns(inputs: Mapping[str, Columns | None], params: Any) -> dict[str, Columns | None]:
        """Raise ``BadInput`` if it is known that the columns cannot be used; return no columns."""
        table = inputs.get("table")
        task = None if table is None else task_of(table)
        if task is not None:
            check(task, params)
        if table is not None:
            check_columns(params, table)
        return _check_inputs(inputs, params)

    def run(ctx: NodeContext, inputs: dict[str, Any], params: NodeParams) -> dict[str, Any]:
        """Fit the estimator to the table's target and return it as a model."""
        task = task_of(inputs["table"].columns)
        if task is not None:
            check(task, params)
        check_columns(params, inputs["table"].columns)
        model = train(ctx, inputs["table"], kind, params, fit, inputs.get("validation"))
        return {"model": model}

    return NodeType(
        name=kind.name,
        title=kind.title,
        category="Train",
        summary=summary,
        version=version,
        params=params,
        run=run,
        run_subtask=run_subtask,
        check_storage=check_storage,
        python=python,
        inputs=(
            Port("table", "table", "Training rows"),
            Port("validation", "table", "Validation rows", required=False),
        ),
        outputs=(Port("model", "model", "Model"),),
        output_columns=columns,
        imports=("numpy", "nodes.models.encoder", *imports),
    )


def _check_inputs(inputs: Mapping[str, Columns | None], params: Any) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the columns cannot be used; return no columns."""
    table, validation = inputs.get("table"), inputs.get("validation")
    if table is not None:
        fold_column(table, getattr(params, "folds_by", "rows"))
    if validation is not None and not any(column.role == "target" for column in validation):
        raise BadInput(f"the validation rows have no target; {HOW_TO_TARGET}")
    return check_learnable(inputs, params)


def train(
    ctx: NodeContext,
    table: Table,
    kind: ModelKind,
    params: NodeParams,
    fit: Fit,
    validation: Table | None = None,
) -> FittedModel:
    """Build the estimator that ``params`` describe and fit it to the table's target with ``fit``.

    Raise ``BadInput`` if the table cannot be learned: no rows, a single class, no usable feature or
    wrong weights.
    """
    from deepforest.large_arrays import large_arrays_in

    with large_arrays_in(ctx.checkpoint, ctx.large):
        rows = prepare(
            table,
            kind.encoding,
            class_weights=getattr(params, "class_weights", "none"),
            folds_by=getattr(params, "folds_by", "rows"),
            validation=validation,
            log=ctx.log,
            scratch=ctx.scratch,
        )
        if kind.rounds_target and rows.task == "regression":
            check_rounded(rows.y, str(table.target), kind.title)
        estimator = kind.estimator(params, rows.task)
        fit(ctx, rows, estimator)
        model = rows.model(kind, estimator, params.model_dump(mode="json"))
    if model.validation:
        ctx.log(validation_text(model.validation))
    return model


@dataclass(frozen=True)
class TrainingRows:
    """Hold the labelled rows of a table in the form that an estimator needs."""

    matrix: np.ndarray
    y: np.ndarray
    """Class number of each row; the number itself if that is predicted."""
    classes: list[str]
    """Names of the classes; empty if a number is predicted."""
    row_weights: np.ndarray | None
    """Weight of each row by the table's weight column, 1 on average; ``None`` if all are equal."""
    class_weights: dict[str, float]
    """Weight of a row of each class by its name, not scaled; empty without class weights."""
    weights: np.ndarray | None
    """Row weight times class weight, 1 on average; ``None`` if all are equal.

    For estimators that take only ``sample_weight``. An estimator that also computes scores must
    take the two apart: class weights are costs of errors, and not part of a metric.
    """
    encoder: TableEncoder
    groups: np.ndarray | None = None
    """Number of the group of each row, if a fold must hold out whole groups."""
    times: np.ndarray | None = None
    """Time of each row, if a fold must hold out the rows after those it learns from."""
    validation: tuple[np.ndarray, ...] | None = None
    """Matrix, class numbers and, if there are some, row weights of the validation rows."""
    sample: pa.Table | None = None
    """Some of the rows as they came, for the summary that is saved with the model."""

    @property
    def codes(self) -> np.ndarray:
        """Return ``y`` by its name in scripts that an earlier version exported."""
        return self.y

    @property
    def class_weight(self) -> dict[int, float] | None:
        """Return the weight of each class number; ``None`` if all are equal.

        They are scaled such that row weight times class weight is 1 on average.
        """
        import numpy as np

        if not self.class_weights:
            return None
        by_code = np.array([self.class_weights.get(name, 1.0) for name in self.classes])
        if (by_code == by_code[0]).all():
            return None
        mean = np.average(by_code[self.y], weights=self.row_weights)
        return dict(enumerate((by_code / mean).tolist()))

    @property
    def objective(self) -> str:
        """Return what LightGBM calls this task."""
        if not self.classes:
            return "regression"
        return "binary" if len(self.classes) == 2 else "multiclass"

    @property
    def num_class(self) -> int:
        """Return the trees of LightGBM per round: one for two classes or for numbers."""
        return len(self.classes) if len(self.classes) > 2 else 1

    @property
    def task(self) -> Task:
        """Return whether a class or a number is predicted."""
        return "classification" if self.classes else "regression"

    @property
    def categorical(self) -> list[int]:
        """Return the matrix columns that hold category numbers."""
        return self.encoder.categorical

    def model(self, kind: ModelKind, estimator: Any, params: dict[str, Any]) -> FittedModel:
        """Return the model of an estimator that was fitted to these rows."""
        from nodes.models.drift import summarise

        return FittedModel(
            kind=kind,
            title=kind.title,
            classes=self.classes,
            encoder=self.encoder,
            estimator=estimator,
            params=params,
            train_rows=len(self.y),
            class_weights=self.class_weights,
            validation=self._validation_figures(estimator),
            summary=None if self.sample is None else summarise(self.sample, self.encoder),
        )

    def _validation_figures(self, estimator: Any) -> dict[str, float | int]:
        """Return how well an estimator predicts the validation rows; empty without such rows."""
        from deepforest import metrics

        # A cascade has the scores of its layers on these rows already.
        if self.validation is None or hasattr(estimator, "layer_records_"):
            return {}
        matrix, y, *weights = self.validation
        if self.classes:
            used = {name: metrics.METRICS[name] for name in ("accuracy", "log_loss", "auc")}
            output = estimator.predict_proba(matrix)
        else:
            used = dict(metrics.REGRESSION_METRICS)
            output = estimator.predict(matrix).reshape(-1, 1)
        values = {name: metric(y, output, *weights) for name, metric in used.items()}
        known = {name: float(value) for name, value in values.items() if value is not None}
        return {"rows": len(y), **known}


def validation_text(figures: Mapping[str, float | int]) -> str:
    """Return the figures of a model on its validation rows in words."""
    from deepforest.metrics import format_metric, metric_title

    words = [
        f"{metric_title(name)} {format_metric(name, value)}"
        for name, value in figures.items()
        if name != "rows"
    ]
    return f"On {figures['rows']:,} validation rows: {', '.join(words)}."


Fit = Callable[[NodeContext, TrainingRows, Any], None]
"""``fit(ctx, rows, estimator)``: fits the estimator and reports progress; cancelling raises
``Cancelled``."""


def prepare(
    table: Table,
    encoding: Encoding,
    *,
    class_weights: str | dict[str, float] = "none",
    folds_by: str = "rows",
    validation: Table | None = None,
    log: Callable[[str], None] = lambda text: None,
    scratch: ScratchFolder = IN_MEMORY,
) -> TrainingRows:
    """Check, encode and weight a table; rows without a target are left out.

    The matrix has 32-bit floats where they lose nothing. ``folds_by`` is a value of ``FoldsBy``.
    The rows of ``validation`` are encoded like those of the table. ``log`` gets what is left out
    and why. ``scratch`` holds a large table of the rows that have a target. Raise ``BadInput`` like
    ``train``.
    """
    import numpy as np

    from deepforest import large_arrays
    from nodes.models.drift import sampled
    from nodes.models.encoder import TableEncoder

    table, y, classes = labelled(table, log, scratch)
    encoder = TableEncoder.fit(table, encoding.form, log)
    row_weights = _row_weights(table)
    of_class: dict[str, float] = {}
    if classes:
        # The weights of rows count for the balance of the classes.
        totals = np.bincount(y, row_weights, len(classes))
        of_class = _class_weights(totals, classes, class_weights)
    weights = row_weights
    if of_class:
        by_row = np.array([of_class[name] for name in classes])[y]
        weights = by_row if row_weights is None else row_weights * by_row
    groups, times = groups_and_times(table, folds_by, log)
    precision = encoding.precision
    # 32 bits halve the memory, and trees see the same values.
    if encoding.form == "codes" and encoder.fits_float32:
        precision = "float32"
    matrix = encoder.transform(table.data, precision, encoding.order, empty=large_arrays.empty)
    validation_rows = None
    if validation is not None:
        # Encoded as in a prediction: 32 bits may lose something of values that are new.
        encode = partial(
            encoder.transform,
            precision=encoding.precision,
            order=encoding.order,
            empty=large_arrays.empty,
        )
        validation_rows = _validation(validation, encode, classes, log)
    return TrainingRows(
        matrix=matrix,
        y=y,
        classes=classes,
        row_weights=_scaled(row_weights),
        class_weights=of_class,
        weights=_scaled(weights),
        encoder=encoder,
        groups=groups,
        times=times,
        validation=validation_rows,
        sample=sampled(table.data.select(encoder.names)),
    )


def compile_kernels(ctx: NodeContext, *, counts: bool, weights: bool) -> None:
    """Wait until the forest kernels that a fit needs are compiled, and report it as progress.

    ``counts`` are needed for trees whose rows all count the same, ``weights`` for trees whose rows
    have weights. A cancel ends the wait.
    """
    from deepforest.forest.kernel_cache import COUNTS, WEIGHTS, ensure_compiled

    parts = [part for part, is_needed in ((COUNTS, counts), (WEIGHTS, weights)) if is_needed]
    ensure_compiled(parts, say=lambda text: ctx.progress(0.0, text), interrupt=ctx.check_cancelled)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Compute matrix products on one thread: split among threads, their sums round differently."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def fit_statement(
    estimator: Expression,
    rows: Expression,
    indent: str = "",
    *,
    weights: str = "weights",
    others: Sequence[str] = (),
) -> list[str]:
    """Return the line of a script that fits an estimator to training rows.

    ``weights`` is the attribute of the rows that the estimator gets as ``sample_weight``;
    ``others`` are attributes that it gets under their own names.
    """
    matrix, y = Expression(f"{rows}.matrix"), Expression(f"{rows}.y")
    arguments = {"sample_weight": Expression(f"{rows}.{weights}")}
    for name in others:
        arguments[name] = Expression(f"{rows}.{name}")
    return statement("", f"{indent}{estimator}.fit", matrix, y, **arguments)


def training_script(
    params: NodeParams,
    names: Variables,
    stem: str,
    lines: Callable[[Expression, Expression], list[str]],
    imports: list[str],
    **encoding: Any,
) -> Snippet:
    """Return the snippet of a node that trains: the rows, the estimator and the model.

    ``lines`` returns the statements that create and fit the estimator, from the variables of the
    rows and of the estimator. ``stem`` is the name of the latter. ``encoding`` are arguments of
    ``steps.training_rows``.
    """
    rows, estimator = names.local("rows"), names.local(stem)
    weights = getattr(params, "class_weights", "none")
    if weights != "none":
        encoding["class_weights"] = weights
    folds_by = getattr(params, "folds_by", "rows")
    if folds_by != "rows":
        encoding["folds_by"] = folds_by
    if "validation" in names.inputs:
        encoding["validation"] = names.inputs["validation"]
    return Snippet(
        [
            *statement(rows, "steps.training_rows", names.inputs["table"], **encoding),
            *lines(rows, estimator),
            *statement(names.outputs["model"], "steps.model", rows, estimator),
        ],
        ["from nodes import steps", *imports],
    )


def labelled(
    table: Table, log: Callable[[str], None], scratch: ScratchFolder = IN_MEMORY
) -> tuple[Table, np.ndarray, list[str]]:
    """Return the rows whose target is known, their class numbers and the names of the classes.

    If the target is a number, return the numbers and no classes. Raise ``BadInput`` if the table
    has no target, no rows, fewer than two classes or a single number.
    """
    from nodes.models.encoder import class_codes, class_names

    if table.target is None:
        # It raises the message for a table without a target.
        table.labels()
    if not table.data.num_rows:
        raise BadInput("the table has no rows to train on; connect a table with rows")
    if task_of(table.columns) == "regression":
        check_numbers(table.labels(), str(table.target), field=None)
        return *with_numbers(table, log, scratch), []
    classes = class_names(table.labels(), str(table.target))
    if len(classes) < 2:
        values = f"only {listed(classes)}" if classes else "no values"
        raise BadInput(
            f"the target '{table.target}' holds {values}; a classifier needs at least two classes"
        )
    table, y = _with_class(table, class_codes(table.labels(), classes), log, scratch)
    return table, y, classes


def check_rounded(y: np.ndarray, target: str, title: str) -> None:
    """Raise ``BadInput`` if the numbers differ so little that 32-bit floats lose it."""
    import numpy as np

    step = float(np.spacing(np.float32(np.abs(y).max())))
    if step > ROUNDED_SHARE * y.std():
        raise BadInput(
            f"the target '{target}' lies between {y.min():,.10g} and {y.max():,.10g}, and {title} "
            f"can tell its values apart only in steps of {step:,.3g}; subtract a number near "
            f"{y.mean():,.10g} from it in a Derive column node, or use Linear regression or a "
            "forest"
        )


def _with_class(
    table: Table, y: np.ndarray, log: Callable[[str], None], scratch: ScratchFolder = IN_MEMORY
) -> tuple[Table, np.ndarray]:
    """Return the rows that have a class, and their class numbers."""
    from nodes.models.encoder import MISSING

    return _known(table, y, y != MISSING, log, scratch)


def with_numbers(
    table: Table, log: Callable[[str], None], scratch: ScratchFolder = IN_MEMORY
) -> tuple[Table, np.ndarray]:
    """Return the rows whose target is a finite number, and these numbers."""
    import numpy as np

    from nodes.models.encoder import numbers

    y = numbers(table.labels())
    return _known(table, y, ~np.isnan(y), log, scratch)


def _known(
    table: Table,
    y: np.ndarray,
    known: np.ndarray,
    log: Callable[[str], None],
    scratch: ScratchFolder,
) -> tuple[Table, np.ndarray]:
    """Return the rows whose target is known, and their targets."""
    if known.all():
        return table, y
    missing = f"{(~known).sum():,} of {len(y):,} rows"
    log(f"{missing} have no value in '{table.target}' and are left out.")
    return table.with_data(scratch.filter(table.data, known)), y[known]


def _validation(
    table: Table,
    encode: Callable[[pa.Table], np.ndarray],
    classes: list[str],
    log: Callable[[str], None],
) -> tuple[np.ndarray, ...]:
    """Return matrix, class numbers and, if there are some, row weights of validation rows.

    Raise ``BadInput`` if a column is missing, or for rows that cannot be scored: without a target,
    of a single class, or of a class without training rows.
    """
    import numpy as np

    from nodes.models.encoder import class_codes

    def tell(text: str) -> None:
        log(f"Validation rows: {text}")

    try:
        if not table.data.num_rows:
            raise BadInput("the table is empty; set Share of validation rows in Split")
        if classes:
            table, y = _with_class(table, class_codes(table.labels(), classes), tell)
            present = [classes[code] for code in np.unique(y)]
        else:
            check_number_target(table)
            table, y = with_numbers(table, tell)
        if classes and len(present) < 2:
            held = f"only {listed(present)}" if present else "no values"
            raise BadInput(
                f"the target '{table.target}' holds {held}; a score needs at least two classes"
            )
        if not len(y):
            raise BadInput(f"the target '{table.target}' has no values")
        weights = _scaled(_row_weights(table))
        matrix = encode(table.data)
    except BadInput as problem:
        raise BadInput(f"validation rows: {problem.message}", field=problem.field) from None
    return (matrix, y) if weights is None else (matrix, y, weights)


def check_number_target(table: Table) -> None:
    """Raise ``BadInput`` unless the target of a table is a number, as a regression needs it."""
    if task_of(table.columns) != "regression":
        table.labels()
        raise BadInput(
            f"the target '{table.target}' is a class, but the model predicts a number; set "
            "'Predict the target as' to a number in the Load data node"
        )


def fold_column(columns: Columns, folds_by: str) -> Column | None:
    """Return the column by which rows are held out; None if single rows are.

    ``folds_by`` is a value of ``FoldsBy``. Raise ``BadInput`` if the table does not have the
    column, or if ``auto`` has to choose between a group and a time: only the user knows whether the
    model will be used for new groups or for later rows.
    """
    if folds_by == "rows":
        return None
    group = next((column for column in columns if column.role == "group"), None)
    time = next((column for column in columns if column.role == "time"), None)
    if folds_by == "auto":
        if group and time:
            raise BadInput(
                f"the table has a group, '{group.name}', and a time, '{time.name}'; set Folds by "
                "to group if the model is for new groups, or to time if it is for later rows",
                field="folds_by",
            )
        return group or time
    column = group if folds_by == "group" else time
    if column is None:
        raise BadInput(
            f"no column has the role {folds_by}; give one this role in the Load data node, or set "
            "Folds by to rows",
            field="folds_by",
        )
    return column


def groups_and_times(
    table: Table, folds_by: str, log: Callable[[str], None]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the group or the time of each row, by what a fold holds out; None for the others.

    Raise ``BadInput`` if a time is missing. With ``auto``, single rows are then held out.
    """
    import numpy as np

    from nodes.models.encoder import numbers

    column = fold_column(table.columns, folds_by)
    if column is None:
        return None, None
    if column.role == "group":
        groups = group_codes(table.data.column(column.name))
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise BadInput(
                f"all rows have the same group in '{column.name}'; set Folds by to rows, or choose "
                "another column",
                field="folds_by",
            )
        log(f"Folds hold out whole groups: '{column.name}' has {n_groups:,} of them.")
        return groups, None
    times = numbers(table.data.column(column.name))
    obstacle = _obstacle(times)
    if obstacle is None:
        log(f"Folds hold out the latest rows by '{column.name}'.")
        return None, times
    if folds_by == "time":
        raise BadInput(
            f"the rows cannot be divided by the time '{column.name}': {obstacle}; set Folds by to "
            "rows, or choose another column",
            field="folds_by",
        )
    log(f"Folds hold out single rows, not the latest by '{column.name}': {obstacle}.")
    return None, None


def _obstacle(times: np.ndarray) -> str | None:
    """Return why rows cannot be divided by these times, in words; None if they can."""
    import numpy as np

    missing = int(np.isnan(times).sum())
    if missing:
        return f"it is missing in {missing:,} rows"
    # Some rows for training, some for their class vectors, and some to be scored.
    if len(np.unique(times)) < 3:
        return "it has fewer than 3 different values"
    return None


def _scaled(weights: np.ndarray | None) -> np.ndarray | None:
    """Return weights that are 1 on average, because some settings of estimators depend on that.

    They are None if all are equal: without weights, the estimators use faster code.
    """
    if weights is None or (weights == weights[0]).all():
        return None
    scaled: np.ndarray = weights / weights.mean()
    return scaled


def _row_weights(table: Table) -> np.ndarray | None:
    """Return the table's weight column, if it has one; raise ``BadInput`` if it cannot be used."""
    import numpy as np

    from nodes.models.encoder import numbers

    names = [column.name for column in table.columns if column.role == "weight"]
    if not names:
        return None
    if len(names) > 1:
        raise BadInput(f"the table has {len(names)} weight columns, {listed(names)}; keep one")
    name = names[0]
    if kind_of(table.data.schema.field(name).type) not in ("number", "bool"):
        raise BadInput(
            f"the weight column '{name}' does not hold numbers; give another column the role weight"
        )
    weights = numbers(table.data.column(name))
    if np.isnan(weights).any() or (weights < 0).any() or not weights.any():
        raise BadInput(
            f"the weight column '{name}' has a missing or negative value, or only zeros; every "
            "weight must be 0 or more"
        )
    return weights


def _class_weights(
    totals: np.ndarray, classes: list[str], requested: str | dict[str, float]
) -> dict[str, float]:
    """Return the weight of a row of each class; empty if all are equal.

    ``totals`` are the summed row weights of the classes. ``balanced`` gives every class the same
    total. Raise ``BadInput`` for an unknown class, or if a class has no weight to balance.
    """
    if requested == "none":
        return {}
    if isinstance(requested, dict):
        unknown = [name for name in requested if name not in classes]
        if unknown:
            raise BadInput(
                f"{listed(unknown)} is not a class of the target; its classes are "
                f"{listed(classes)}",
                field="class_weights",
            )
        return {name: float(requested.get(name, 1.0)) for name in classes}
    if not totals.all():
        weightless = [name for name, total in zip(classes, totals, strict=True) if not total]
        raise BadInput(
            f"all rows of {listed(weightless)} have weight 0, so the classes cannot be balanced; "
            "correct the weights, or set Class weights to none",
            field="class_weights",
        )
    return {
        name: float(totals.sum() / len(classes) / total)
        for name, total in zip(classes, totals, strict=True)
    }
