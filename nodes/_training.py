"""From a table and a learner to a fitted model: what every node of the Learn category does.

- ``ClassWeights``  the parameter all of them have
- ``labelled``      the rows whose class is known
- ``train``         checks, encodes, weighs, fits
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveFloat

from engine.contract import Context, NodeParams, form_hint
from engine.errors import BadInput
from engine.values import Table, kind_of
from nodes._columns import listed
from nodes._encoder import TableEncoder, numbers
from nodes._learners import Learner, Problem
from nodes._levels import MISSING, class_codes, class_names
from nodes._model import FittedModel

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


def train(ctx: Context, table: Table, learner: Learner, params: NodeParams) -> FittedModel:
    """Fit ``learner`` to the table's target; ``params`` are kept with the model and say the class weights."""
    table, codes, classes = labelled(ctx, table)
    encoder = TableEncoder.fit(table, learner.form, ctx.log)
    of_class, weights = _weights(table, codes, classes, getattr(params, "class_weights", "none"))
    exact = learner.precision == "float32" or (learner.form == "codes" and encoder.fits_float32)
    problem = Problem(
        matrix=encoder.transform(table.data, "float32" if exact else "float64", learner.order),
        codes=codes,
        classes=len(classes),
        weights=weights,
        categorical=tuple(encoder.categorical),
        threads=ctx.threads,
        progress=ctx.progress,
        log=ctx.log,
        job=ctx.job,
        cancelled=ctx.cancelled.is_set,
        checkpoint=ctx.checkpoint,
    )
    learner.fit(problem)
    return FittedModel(
        title=learner.title,
        classes=classes,
        encoder=encoder,
        learner=learner,
        params=params.model_dump(mode="json"),
        train_rows=len(codes),
        class_weights=of_class,
    )


def labelled(ctx: Context, table: Table) -> tuple[Table, np.ndarray, list[str]]:
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
        ctx.log(f"{(~known).sum():,} of {len(codes):,} rows have no value in '{table.target}' and are left out.")
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
