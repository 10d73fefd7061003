"""Model what a deep forest costs: few terms for each step, with non-negative coefficients.

A step costs Σ coefficient × amount. The amounts, such as rows × columns × trees, are known for any
table; the coefficients are those with the least squared RELATIVE error on the measured runs.

- ``Part``        what one fit, or one layer, works on
- ``STEPS``       the amounts of each step
- ``CostModel``   the coefficients; CPU seconds, megabytes and bytes of a part
- ``fit_model``   fits it to results of ``jobs.cascade``
- ``compare``     predicted against measured figures of a run
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from .runs import Result, Run, run_of
from .work import LayerWork, layers_of

Array = npt.NDArray[Any]

SAMPLED_ROWS, SAMPLED_VALUES = 200_000, 50_000_000
"""From so many rows and values LightGBM learns its bins; the forests from as many rows."""
LEAST_SECONDS, LEAST_MB = 0.01, 5.0
"""Errors of smaller figures do not count more than errors of these."""
LEAVES, BINS, BYTES_OF_BIN, BYTES_OF_SAMPLE = 31, 255, 16, 12
PAGE_BYTES = 4096
"""A mapped file is read by pages of so many bytes."""


@dataclass(frozen=True)
class Part:
    """What one step works on: the whole table, and the rows of one fit."""

    rows: int
    columns: int
    width: int
    """The columns with the class vectors of the layer before."""
    classes: int
    learners: int
    kind: str = "mart"
    training: float = 0
    left_out: float = 0
    trees: int = 0
    """Of one fit: rounds × classes for MART with more than two classes."""
    value_bytes: int = 4

    @property
    def vectors(self) -> int:
        """How many of the columns are class vectors."""
        return self.width - self.columns

    @property
    def sampled(self) -> float:
        """How many rows the bins are learned from."""
        return min(self.rows, SAMPLED_ROWS, SAMPLED_VALUES / self.columns)


Amounts = dict[str, float]


def _grow(part: Part) -> Amounts:
    if part.kind == "mart":
        return {
            "row × column × tree": part.training * part.width * part.trees,
            "column × tree": part.width * part.trees,
            "row × tree": part.training * part.trees,
        }
    levels = math.log2(max(2, part.training))
    amounts = {
        "row × tree × level": part.training * part.trees * levels,
        "held-out row × tree × level": part.left_out * part.trees * levels,
        "fit": 1.0,
    }
    if part.kind == "random_forest":
        row_trees = part.training * part.trees * levels
        amounts["row × √column × tree × level"] = row_trees * math.sqrt(part.width)
        amounts["row × tree × level × class"] = row_trees * part.classes
    return amounts


def _predict(part: Part) -> Amounts:
    if part.kind != "mart":
        return {}
    return {
        "row × column": part.left_out * part.width,
        "row × tree": part.left_out * part.trees,
        "row × class": part.left_out * part.classes,
        "fit": 1.0,
    }


def new_bytes(part: Part) -> float:
    """Return the bytes of the files that a layer adds: its bins, and the numbers that are new."""
    if part.vectors:
        return part.rows * (part.width + 4 * part.vectors)
    return part.rows * (part.width + part.value_bytes * part.columns)


OF_FIT: dict[str, Callable[[Part], Amounts]] = {
    "read": lambda part: {"row × column": part.rows * part.width, "fit": 1.0},
    "subset": lambda part: {"row × column": part.training * part.width},
    "grow": _grow,
    "predict": _predict,
    "save": lambda part: {"row × class": part.left_out * part.classes, "fit": 1.0},
    "other": lambda part: {"row": float(part.rows), "fit": 1.0},
}
OF_LAYER: dict[str, Callable[[Part], Amounts]] = {
    "bin": lambda part: {
        "row × column": part.rows * part.columns,
        "sampled row × column": part.sampled * part.columns,
    },
    "widen": lambda part: {
        "row × column": part.rows * part.width,
        "row × vector": part.rows * part.vectors,
    },
    "files": lambda part: {"byte": new_bytes(part), "set of fits": 1.0},
    "digest": lambda part: {"row × vector": part.rows * part.vectors, "row": float(part.rows)},
    "take": lambda part: {"row × class": part.left_out * part.classes, "fit": 1.0},
    "gather": lambda part: {"row × vector": part.rows * part.learners * part.classes},
    "score": lambda part: {
        "row × vector": part.rows * part.learners * part.classes,
        "row × class": part.rows * part.classes,
        "layer": 1.0,
    },
    "rest": lambda part: {"row × column": part.rows * part.columns, "run": 1.0},
}
"""Of the process that coordinates: once, per layer, per set of fits or per fit."""


@dataclass
class CostModel:
    """Coefficients by step (with the kind of learner) and amount, as plain JSON."""

    coefficients: dict[str, dict[str, float]]

    def _cost(self, name: str, amounts: Amounts) -> float:
        own = self.coefficients.get(name, {})
        return sum(own.get(amount, 0.0) * value for amount, value in amounts.items())

    def fit_steps(self, part: Part) -> dict[str, float]:
        """Return the CPU seconds of one fit by step."""
        steps = {}
        for step, amounts in OF_FIT.items():
            steps[step] = self._cost(f"{part.kind} {step}", amounts(part))
        return steps

    def layer_step(self, step: str, part: Part) -> float:
        """Return the CPU seconds of one step of the process that coordinates."""
        return self._cost(f"{part.kind} {step}", OF_LAYER[step](part))

    def fit_mb(self, part: Part) -> float:
        """Return the most memory that one fit holds, without mapped files."""
        return self._cost(f"{part.kind} memory", memory_of_fit(part))

    def coordinator_mb(self, part: Part) -> float:
        """Return the most memory that the process that coordinates holds, without the table."""
        return self._cost(f"{part.kind} coordinator memory", memory_of_coordinator(part))


def memory_of_fit(part: Part) -> Amounts:
    """Return what a fit holds, in megabytes if each coefficient is 1."""
    if part.kind != "mart":
        return {
            "row": part.training / 1e6,
            "row × tree": part.training * part.trees / 1e6,
            "row × class": part.left_out * part.classes / 1e6,
            "fit": 1.0,
        }
    # While it grows, a fit holds a copy of the bins of its rows, scores and gradients, and the
    # histograms of all leaves; while it predicts, the numbers of the rows that it left out, from
    # the second layer on twice.
    own = part.training * (part.width + 24 + 16 * part.classes)
    growing = own + LEAVES * BINS * BYTES_OF_BIN * part.width
    copies = part.columns + (part.width if part.vectors else 0)
    predicting = part.left_out * (copies * part.value_bytes + 20 * part.classes)
    whole = part.rows * (part.width + 9)
    return {"byte held": (whole + max(growing, predicting)) / 1e6, "fit": 1.0}


def memory_of_coordinator(part: Part) -> Amounts:
    """Return what the process that coordinates holds, beside the table itself."""
    # The bins of the columns, and from the second layer on a wider copy of them.
    widths = part.columns + (part.width if part.vectors else 0)
    return {
        "bins": part.rows * widths / 1e6,
        "sampled value": BYTES_OF_SAMPLE * part.sampled * part.columns / 1e6,
        "row": part.rows * (1 + part.learners * part.classes / 8) / 1e6,
        "fit": 1.0,
    }


# --- runs as parts ---


def parts_of(run: Run, value_bytes: int = 4) -> list[tuple[LayerWork, list[tuple[int, Part]]]]:
    """Return for each set of fits of a run how many fits there are of which part."""
    found = []
    for work in layers_of(run):
        parts = []
        for count, training, left_out in work.fits:
            part = _part(run, work.width, training, left_out, work.trees, value_bytes)
            parts.append((count, part))
        found.append((work, parts))
    return found


def _part(
    run: Run, width: int, training: float, left_out: float, trees: int, value_bytes: int
) -> Part:
    return Part(
        run.rows,
        run.columns,
        width,
        run.classes,
        run.learners,
        run.kind,
        training,
        left_out,
        trees,
        value_bytes,
    )


def coordinating(model: CostModel, run: Run, value_bytes: int = 4) -> dict[str, float]:
    """Return the CPU seconds of the process that coordinates, by step."""
    total: dict[str, float] = defaultdict(float)
    for number, (work, parts) in enumerate(parts_of(run, value_bytes)):
        for step, seconds in before_fits(model, work, parts[0][1], first=number == 0).items():
            total[step] += seconds
        for count, part in parts:
            total["take"] += count * model.layer_step("take", part)
        for step, seconds in after_fits(model, work, parts[0][1]).items():
            total[step] += seconds
    return total


def before_fits(model: CostModel, work: LayerWork, part: Part, first: bool) -> dict[str, float]:
    """Return what the coordinating process does before the fits of a set can start."""
    steps = {"digest": model.layer_step("digest", part)}
    if work.makes_files:
        steps["files"] = model.layer_step("files", part)
    if first:
        steps["bin"] = model.layer_step("bin", part)
        steps["rest"] = model.layer_step("rest", part)
    if part.vectors:
        steps["widen"] = model.layer_step("widen", part)
    return steps


def after_fits(model: CostModel, work: LayerWork, part: Part) -> dict[str, float]:
    """Return what it does once they have ended and their results are read."""
    steps = {"gather": model.layer_step("gather", part)}
    if work.scores:
        steps["score"] = model.layer_step("score", part)
    return steps


def predicted(model: CostModel, run: Run, value_bytes: int = 4) -> dict[str, float]:
    """Return CPU seconds, the memory of the largest fit and of the coordinator, and bytes."""
    own = sum(coordinating(model, run, value_bytes).values())
    of_fits = most = read = moved = 0.0
    widest = None
    for _, parts in parts_of(run, value_bytes):
        for count, part in parts:
            of_fits += count * sum(model.fit_steps(part).values())
            most = max(most, model.fit_mb(part))
            read += count * bytes_read(part)
            moved += count * bytes_moved(part)
            widest = part
    assert widest is not None
    return {
        "cpu": own + of_fits,
        "cpu of fits": of_fits,
        "cpu of the coordinator": own,
        "mb of a fit": most,
        "mb of the coordinator": model.coordinator_mb(widest),
        "bytes read": read,
        "bytes moved": moved,
        "bytes written": bytes_written(run, value_bytes),
    }


def bytes_read(part: Part) -> float:
    """Return the bytes that one fit uses: the bins of all rows, and the rows it predicts."""
    if part.kind != "mart":
        return part.rows * (2 * part.width + 4 * part.vectors + 4 + 0.25)
    numbers = part.left_out * part.columns * part.value_bytes
    return part.rows * (part.width + 4 * part.vectors + 4 + 0.25) + numbers


def bytes_moved(part: Part) -> float:
    """Return the bytes that arrive for one fit: the rows it predicts lie scattered over pages."""
    if part.kind != "mart":
        return bytes_read(part)
    row_bytes = part.columns * part.value_bytes
    rows_of_page = 1 + (PAGE_BYTES - 1) / row_bytes
    touched = 1 - (1 - part.left_out / part.rows) ** rows_of_page
    return bytes_read(part) + (touched * part.rows - part.left_out) * row_bytes


def bytes_written(run: Run, value_bytes: int = 4) -> float:
    """Return the bytes of the files that the fits are carried out from."""
    copies = 1 if run.kind == "mart" else 2
    total = float(run.rows * (run.columns * value_bytes + 4))
    for work in layers_of(run):
        vectors = work.width - run.columns
        n_fits = sum(count for count, _, _ in work.fits)
        views = 1 if work.makes_files else 0
        total += run.rows * views * (copies * work.width + 4 * vectors)
        total += run.rows * 0.25 * n_fits / run.learners
    return total


# --- fitting ---


def fit_model(results: Iterable[Result]) -> CostModel:
    """Return the model of measured runs."""
    seen: dict[str, list[tuple[Amounts, float]]] = defaultdict(list)
    for result in results:
        _observe_fits(run_of(result), result, seen)
        _observe_coordinator(run_of(result), result, seen)
    coefficients = {}
    for name, observed in sorted(seen.items()):
        least = LEAST_MB if "memory" in name else LEAST_SECONDS
        coefficients[name] = least_relative_squares(observed, least)
    return CostModel(coefficients)


def least_relative_squares(
    observed: Sequence[tuple[Amounts, float]], least: float
) -> dict[str, float]:
    """Return the non-negative coefficients with the least Σ ((predicted − seen) / seen)²."""
    names = sorted({name for amounts, _ in observed for name in amounts})
    matrix = np.array([[amounts.get(name, 0.0) for name in names] for amounts, _ in observed])
    seen = np.array([value for _, value in observed])
    weights = 1 / np.maximum(seen, least)
    matrix = matrix * weights[:, None]
    # Amounts differ by many powers of ten.
    scale = np.maximum(matrix.max(axis=0), 1e-300)
    solution, _ = nnls(matrix / scale, seen * weights)
    return {name: float(value) for name, value in zip(names, solution / scale, strict=True)}


Seen = dict[str, list[tuple[Amounts, float]]]


def _observe_fits(run: Run, result: Result, seen: Seen) -> None:
    """Add the steps and the memory of the fits of a run."""
    for fit in result["fits"]:
        part = _part_of(run, fit)
        known = 0.0
        for step, amounts in OF_FIT.items():
            if step != "other" and amounts(part):
                seconds = fit["steps"].get(step, 0.0)
                seen[f"{run.kind} {step}"].append((amounts(part), seconds))
                known += seconds
        other = max(0.0, fit["cpu"] - known)
        seen[f"{run.kind} other"].append((OF_FIT["other"](part), other))
        seen[f"{run.kind} memory"].append((memory_of_fit(part), fit["mb_most"]))


def _part_of(run: Run, fit: Result) -> Part:
    """Return the part of a measured fit: the one of the run with as many rows and columns."""
    width, training = int(fit["width"]), fit["training"]
    every = [part for _, parts in parts_of(run) for _, part in parts if part.width == width]
    return min(every, key=lambda part: abs(part.training - training))


def _observe_coordinator(run: Run, result: Result, seen: Seen) -> None:
    """Add the steps of the coordinating process, each summed over the run, and its memory."""
    sums: dict[str, Amounts] = {}

    def add(step: str, part: Part, count: int = 1) -> None:
        into = sums.setdefault(step, defaultdict(float))
        for name, amount in OF_LAYER[step](part).items():
            into[name] += count * amount

    last = None
    for number, (work, parts) in enumerate(parts_of(run)):
        part = parts[0][1]
        before = before_fits(NO_COST, work, part, number == 0)
        for step in (*before, *after_fits(NO_COST, work, part)):
            add(step, part)
        for count, of_fit in parts:
            add("take", of_fit, count)
        last = part
    assert last is not None
    own = result["coordinator"]
    steps = own["steps"] | {"rest": max(0.0, own["cpu"] - sum(own["steps"].values()))}
    for step, amounts in sums.items():
        seen[f"{run.kind} {step}"].append((dict(amounts), steps.get(step, 0.0)))
    seen[f"{run.kind} coordinator memory"].append((memory_of_coordinator(last), own["mb"]))


NO_COST = CostModel({})


def compare(model: CostModel, result: Result) -> dict[str, tuple[float, float]]:
    """Return predicted and measured figures of a run by name."""
    run = run_of(result)
    guess = predicted(model, run)
    fits, own = result["fits"], result["coordinator"]
    measured = {
        "cpu": result["cpu"],
        "mb of a fit": max(fit["mb_most"] for fit in fits),
        "mb of the coordinator": own["mb"],
        "bytes read": sum(fit["count"] * fit["read"] for fit in fits),
        "bytes written": own["written"],
    }
    return {name: (guess[name], value) for name, value in measured.items()}
