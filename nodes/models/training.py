"""From a table and a learner to a fitted model: what every node of the Learn category does.

- ``ClassWeights``  the parameter all of them have
- ``labelled``      the rows whose class is known
- ``Rows``, ``prepare``  a table as a learner wants it: checked, encoded, weighed
- ``train``         fits a learner to them
- ``fitting``       the same in a script
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PositiveFloat

from engine.errors import BadInput
from engine.export_python import Code, Names, Raw, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from engine.text import listed
from engine.values import Table, kind_of
from nodes.models.categories import MISSING, class_codes, class_names
from nodes.models.encoder import Form, Precision, TableEncoder, numbers
from nodes.models.learners import Learner, Problem
from nodes.models.model import FittedModel

if TYPE_CHECKING:
    import numpy as np

ClassWeights = Annotated[
    Literal["none", "balanced"] | dict[str, PositiveFloat],
    Field(
        title="Class weights",
        description="How much a row of each class counts: all the same (none), every class the same in total "
        "(balanced), or a number for each class named, 1 for the others. Only their ratios matter.",
        json_schema_extra=form_hint(choose="class"),
    ),
]
"""Annotation of the parameter ``class_weights``; its default is ``"none"``."""

Seed = Annotated[
    int,
    Field(
        ge=0, lt=2**31, title="Seed", description="The same seed gives the same model; another one, a different draw."
    ),
]


def train(ctx: NodeContext, table: Table, learner: Learner, params: NodeParams) -> FittedModel:
    """Fit ``learner`` to the table's target; ``params`` are kept with the model and say the class weights."""
    rows = prepare(
        table,
        form=learner.form,
        precision=learner.precision,
        order=learner.order,
        class_weights=getattr(params, "class_weights", "none"),
        log=ctx.log,
    )
    problem = Problem(
        matrix=rows.matrix,
        codes=rows.codes,
        classes=len(rows.classes),
        weights=rows.weights,
        categorical=tuple(rows.categorical),
        threads=ctx.threads,
        progress=ctx.progress,
        log=ctx.log,
        job=ctx.subtask,
        tell=ctx.publish,
        cancelled=ctx.cancelled.is_set,
        checkpoint=ctx.checkpoint,
    )
    learner.fit(problem)
    return FittedModel(
        title=learner.title,
        classes=rows.classes,
        encoder=rows.encoder,
        learner=learner,
        params=params.model_dump(mode="json"),
        train_rows=len(rows.codes),
        class_weights=rows.class_weights,
    )


@dataclass(frozen=True)
class Rows:
    """The labelled rows of a table as a learner wants them."""

    matrix: np.ndarray
    codes: np.ndarray
    """Class number of each row."""
    classes: list[str]
    weights: np.ndarray | None
    """Weight of each row, 1 on average; ``None`` if all are equal."""
    class_weights: dict[str, float]
    """What a row of each class counts, before weights are scaled; empty if all count the same."""
    encoder: TableEncoder

    @property
    def categorical(self) -> list[int]:
        """Matrix columns that hold level numbers."""
        return self.encoder.categorical


def prepare(
    table: Table,
    *,
    form: Form,
    precision: Precision,
    order: Literal["C", "F"] = "C",
    class_weights: str | dict[str, float] = "none",
    log: Callable[[str], None] = lambda text: None,
) -> Rows:
    """Check, encode and weigh; the matrix is of 32-bit floats where they lose nothing."""
    table, codes, classes = labelled(table, log)
    encoder = TableEncoder.fit(table, form, log)
    of_class, weights = _weights(table, codes, classes, class_weights)
    exact = precision == "float32" or (form == "codes" and encoder.fits_float32)
    matrix = encoder.transform(table.data, "float32" if exact else "float64", order)
    return Rows(matrix, codes, classes, weights, of_class, encoder)


def fitting(
    params: NodeParams, names: Names, stem: str, lines: Callable[[Raw, Raw], list[str]], imports: list[str], **how: Any
) -> Code:
    """How a node that trains reads as Python: the rows, the estimator that ``lines`` fits to them, the model."""
    rows, estimator = names.local("rows"), names.local(stem)
    weights = getattr(params, "class_weights", "none")
    how |= {"class_weights": weights} if weights != "none" else {}
    return Code(
        [
            *statement(rows, "steps.training_rows", names.inputs["table"], **how),
            *lines(rows, estimator),
            *statement(names.outputs["model"], "steps.model", rows, estimator),
        ],
        ["from nodes import steps", *imports],
    )


def labelled(table: Table, log: Callable[[str], None]) -> tuple[Table, np.ndarray, list[str]]:
    """The rows whose class is known, with their class numbers and the classes' names."""
    import pyarrow as pa

    if table.target is None:
        table.labels()
    if not table.data.num_rows:
        raise BadInput("the table has no rows to learn from")
    classes = class_names(table.labels(), str(table.target))
    if len(classes) < 2:
        found = f"only {listed(classes)}" if classes else "no value at all"
        raise BadInput(f"the target '{table.target}' holds {found}; a classifier needs at least two classes")
    codes = class_codes(table.labels(), classes)
    known = codes != MISSING
    if not known.all():
        log(f"{(~known).sum():,} of {len(codes):,} rows have no value in '{table.target}' and are left out.")
        table, codes = table.with_data(table.data.filter(pa.array(known))), codes[known]
    return table, codes, classes


def _weights(
    table: Table, codes: np.ndarray, classes: list[str], wanted: str | dict[str, float]
) -> tuple[dict[str, float], np.ndarray | None]:
    """What a row of each class counts, and each row's weight scaled to 1 on average (``None``: all the same)."""
    import numpy as np

    rows = _row_weights(table)
    of_class = _class_weights(np.bincount(codes, rows, len(classes)), classes, wanted)
    weights = np.ones(len(codes)) if rows is None else rows
    if of_class:
        weights = weights * np.array([of_class[name] for name in classes])[codes]
    if (weights == weights[0]).all():
        return of_class, None
    return of_class, weights / weights.mean()


def _row_weights(table: Table) -> np.ndarray | None:
    """The table's weight column, if it has one."""
    import numpy as np

    names = [column.name for column in table.columns if column.role == "weight"]
    if not names:
        return None
    if len(names) > 1:
        raise BadInput(f"the table has {len(names)} weight columns, {listed(names)}; keep one")
    name = names[0]
    if kind_of(table.data.schema.field(name).type) not in ("number", "bool"):
        raise BadInput(f"the weight column '{name}' is not a number")
    weights = numbers(table.data.column(name))
    if np.isnan(weights).any() or (weights < 0).any() or not weights.any():
        raise BadInput(
            f"the weight column '{name}' has a missing or negative value, or only zeros; weights must be 0 or more"
        )
    return weights


def _class_weights(totals: np.ndarray, classes: list[str], wanted: str | dict[str, float]) -> dict[str, float]:
    """What a row of each class counts; empty if all count the same."""
    if wanted == "none":
        return {}
    if isinstance(wanted, dict):
        unknown = [name for name in wanted if name not in classes]
        if unknown:
            raise BadInput(
                f"{listed(unknown)} is no class of the target; its classes are {listed(classes)}", field="class_weights"
            )
        return {name: float(wanted.get(name, 1.0)) for name in classes}
    if not totals.all():
        weightless = [name for name, total in zip(classes, totals, strict=True) if not total]
        raise BadInput(
            f"rows of {listed(weightless)} all have weight 0, so classes cannot be balanced", field="class_weights"
        )
    return {name: float(totals.sum() / len(classes) / total) for name, total in zip(classes, totals, strict=True)}
