"""Choose from which probability on a row is positive, and make probabilities mean what they say.

- ``ThresholdCounts``    what happens at every threshold: rows found and interrupted, money
- ``money_metric``       the money of the decisions at one threshold, as a metric
- ``Calibration``        a map of probabilities; ``fit_calibration`` fits it to rows
- ``reliability``        how often rows of about the same probability are positive
- ``row_amounts``        the amounts in a column, checked
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from engine.errors import BadInput
from engine.values import Costs

if TYPE_CHECKING:
    import pyarrow as pa

    from deepforest.metrics import Metric

MAX_POINTS = 500
"""Thresholds that a report holds: more cannot be distinguished on a slider."""
RATES = (1 / 10_000, 1 / 1_000, 1 / 100)
"""Interrupt rates whose thresholds a report always has."""
LEAST = 1e-12
"""Probabilities count as at least this, and at most 1 minus this, where they need a logarithm."""
ORDER_SHARE = 1e-3
"""Share of the model's own probability in an isotonic one: it keeps the rows in their order."""
BINS = 10

Method = Literal["isotonic", "sigmoid"]


# Thresholds


@dataclass(frozen=True)
class ThresholdCounts:
    """Hold what is decided at falling thresholds: a row is positive from the threshold on.

    The first threshold is infinite: there, no row is positive. At the last one all rows are.
    """

    threshold: np.ndarray
    true_positives: np.ndarray
    false_positives: np.ndarray
    amount_found: np.ndarray | None = None
    """Sum of the amounts of the true positives."""

    @classmethod
    def of(
        cls, positive: np.ndarray, score: np.ndarray, amounts: np.ndarray | None = None
    ) -> ThresholdCounts:
        """Count for each threshold at which the decisions change."""
        order = np.argsort(-score, kind="stable")
        score, positive = score[order], positive[order]
        # Rows of equal score cannot be separated: only the last of each group is a threshold.
        last = np.flatnonzero(np.diff(score, append=-np.inf))
        found = None
        if amounts is not None:
            found = _after_none(np.cumsum(amounts[order] * positive)[last])
        return cls(
            np.concatenate(([np.inf], score[last])),
            _after_none(np.cumsum(positive)[last]),
            _after_none(np.cumsum(~positive)[last]),
            found,
        )

    @property
    def positives(self) -> int:
        """Return how many rows are positive."""
        return int(self.true_positives[-1])

    @property
    def negatives(self) -> int:
        """Return how many rows are not positive."""
        return int(self.false_positives[-1])

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return self.positives + self.negatives

    @property
    def interrupted(self) -> np.ndarray:
        """Return the rows that count as positive at each threshold."""
        return np.asarray(self.true_positives + self.false_positives)

    @property
    def interrupt_rate(self) -> np.ndarray:
        """Return the share of all rows that count as positive."""
        return self.interrupted / max(self.rows, 1)

    @property
    def precision(self) -> np.ndarray:
        """Return the share of the interrupted rows that are positive; NaN without such rows."""
        return _ratio(self.true_positives, self.interrupted)

    @property
    def recall(self) -> np.ndarray:
        """Return the share of the positive rows that are found; NaN if no row is positive."""
        return _ratio(self.true_positives, np.full(len(self.threshold), self.positives))

    @property
    def f1(self) -> np.ndarray:
        """Return F1 = 2·TP / (2·TP + FP + FN); NaN if no row is positive."""
        f1 = _ratio(2 * self.true_positives, self.interrupted + self.positives)
        return f1 if self.positives else np.full(len(f1), np.nan)

    def money(self, costs: Costs) -> np.ndarray:
        """Return what the decisions at each threshold are worth; more is better."""
        missed = self.positives - self.true_positives
        money = costs.gain * self.true_positives - costs.missed * missed
        money = money - costs.false_alarm * self.false_positives
        if costs.amounts is not None and self.amount_found is not None:
            money = money + self.amount_found
        return np.asarray(money, np.float64)

    def at(self, threshold: float) -> int:
        """Return the position of the decisions that a threshold makes, which may lie between."""
        # Falling thresholds: all that are not below it come first.
        return int(np.searchsorted(-self.threshold, -threshold, side="right")) - 1

    def at_rate(self, rate: float) -> int:
        """Return the position of the lowest threshold that interrupts at most a share of rows."""
        # The tolerance lets 0.01 of 100 rows be one row in spite of rounding.
        return int(np.searchsorted(self.interrupted, rate * self.rows + 1e-9, side="right")) - 1

    def with_threshold(self, threshold: float) -> ThresholdCounts:
        """Return the same with one more threshold, which decides like the next higher one."""
        at = self.at(threshold)
        if self.threshold[at] == threshold:
            return self
        return ThresholdCounts(
            np.insert(self.threshold, at + 1, threshold),
            np.insert(self.true_positives, at + 1, self.true_positives[at]),
            np.insert(self.false_positives, at + 1, self.false_positives[at]),
            None
            if self.amount_found is None
            else np.insert(self.amount_found, at + 1, self.amount_found[at]),
        )

    def thinned(self, keep: Iterable[int] = (), points: int = MAX_POINTS) -> ThresholdCounts:
        """Return at most ``points`` of the thresholds; those at ``keep`` are among them.

        They are spread evenly over rows found, rows interrupted, and the logarithm of the latter:
        the thresholds of a few interruptions matter most where positive rows are rare.
        """
        size = len(self.threshold)
        if size <= points:
            return self
        kept = {0, 1, size - 1, *keep, *(self.at_rate(rate) for rate in RATES)}
        along = self.true_positives / max(self.positives, 1)
        along = along + self.interrupt_rate
        along = along + np.log1p(self.interrupted) / np.log1p(self.rows)
        even = np.searchsorted(along, np.linspace(0, along[-1], points - len(kept)))
        return self.take(np.unique([*even.tolist(), *kept]))

    def take(self, positions: np.ndarray) -> ThresholdCounts:
        """Return the thresholds at some positions."""
        return ThresholdCounts(
            self.threshold[positions],
            self.true_positives[positions],
            self.false_positives[positions],
            None if self.amount_found is None else self.amount_found[positions],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain data, where the infinite threshold is None."""
        thresholds: list[float | None] = [None, *self.threshold[1:].tolist()]
        return {
            "threshold": thresholds,
            "true_positives": self.true_positives.tolist(),
            "false_positives": self.false_positives.tolist(),
            "amount_found": None if self.amount_found is None else self.amount_found.tolist(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ThresholdCounts:
        """Return counts from plain data."""
        amounts = data.get("amount_found")
        return cls(
            np.array([np.inf, *data["threshold"][1:]], np.float64),
            np.array(data["true_positives"], np.int64),
            np.array(data["false_positives"], np.int64),
            None if amounts is None else np.array(amounts, np.float64),
        )


def money_metric(costs: Costs, threshold: float, amounts: np.ndarray | None) -> Metric:
    """Return the money of the decisions at a threshold as a metric of two classes.

    It is the mean over rows of what a row is worth, times the number of rows, so that it has the
    value that ``Costs.shown`` gives.
    """
    from deepforest.metrics import Metric, metric_title

    def worth(truth: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        positive, interrupted = truth == 1, probabilities[:, 1] >= threshold
        found = np.full(len(truth), costs.gain)
        if costs.amounts is not None and amounts is not None:
            found = found + amounts
        not_found = np.where(positive, -costs.missed, 0.0)
        worth = np.where(interrupted, np.where(positive, found, -costs.false_alarm), not_found)
        return np.asarray((-worth if costs.is_cost else worth) * len(truth))

    return Metric(costs.name, metric_title(costs.name), not costs.is_cost, per_row=worth)


def _after_none(sums: np.ndarray) -> np.ndarray:
    """Return sums at the thresholds, with 0 for the first one, where no row is positive."""
    return np.concatenate((np.zeros(1, sums.dtype), sums))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part by whole, NaN where the whole is 0."""
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def row_amounts(column: pa.ChunkedArray, name: str, *, field: str | None = None) -> np.ndarray:
    """Return the amounts of the rows; raise ``BadInput`` if one is missing or negative."""
    if column.null_count:
        raise BadInput(
            f"the amount '{name}' is missing in {column.null_count:,} of {len(column):,} rows; "
            "fill it or leave these rows out",
            field=field,
        )
    amounts = np.asarray(column.to_numpy(), np.float64)
    wrong = int((~np.isfinite(amounts)).sum())
    if wrong:
        raise BadInput(
            f"the amount '{name}' is not a finite number in {wrong:,} of {len(amounts):,} rows; "
            "correct it or leave these rows out",
            field=field,
        )
    with np.errstate(over="ignore"):
        total = amounts.sum()
    if not np.isfinite(total):
        raise BadInput(
            f"the amounts '{name}' add up to more than a number can hold; give them in a larger "
            "unit",
            field=field,
        )
    below = int((amounts < 0).sum())
    if below:
        raise BadInput(
            f"the amount '{name}' is below zero in {below:,} of {len(amounts):,} rows; an amount "
            "that can be saved is 0 or more",
            field=field,
        )
    return amounts


# Calibration


@dataclass(frozen=True)
class Calibration:
    """Map the probability of one of two classes to one that fits how often the class occurs.

    The map never changes the order of rows. Every row is computed by itself, with the same bits on
    every machine.
    """

    method: Method
    positive: str
    rows: int
    """Validation rows that it was fitted on."""
    numbers: Mapping[str, list[float]]
    """Of isotonic, the ``scores`` and ``shares`` of its corners; of sigmoid, ``line``: its slope
    and intercept."""

    def apply(self, score: np.ndarray) -> np.ndarray:
        """Return the calibrated probabilities of the positive class."""
        score = np.asarray(score, np.float64)
        if self.method == "sigmoid":
            from deepforest.arithmetic import class_probabilities

            slope, intercept = self.numbers["line"]
            return class_probabilities((slope * _log_odds(score) + intercept)[:, None])[:, 1]
        scores, shares = np.array(self.numbers["scores"]), np.array(self.numbers["shares"])
        inside = np.clip(score, scores[0], scores[-1])
        right = np.clip(np.searchsorted(scores, inside), 1, len(scores) - 1)
        left = right - 1
        slope = (shares[right] - shares[left]) / (scores[right] - scores[left])
        share = shares[left] + slope * (inside - scores[left])
        return np.asarray((1 - ORDER_SHARE) * share + ORDER_SHARE * score)

    def probabilities(self, probabilities: np.ndarray, classes: list[str]) -> np.ndarray:
        """Return calibrated probabilities of both classes."""
        code = classes.index(self.positive)
        calibrated = np.empty(probabilities.shape)
        calibrated[:, code] = self.apply(probabilities[:, code])
        calibrated[:, 1 - code] = 1 - calibrated[:, code]
        return calibrated

    def contributions(self, parts: np.ndarray, classes: list[str]) -> np.ndarray:
        """Return contributions that add up to the calibrated probabilities.

        ``parts`` are rows × (columns + base value) × classes. The contributions of a row are
        stretched by one factor, so that their shares stay.
        """
        base, total = parts[:, -1], parts.sum(axis=1)
        new_base = self.probabilities(base, classes)
        difference = total - base
        moved = self.probabilities(total, classes) - new_base
        factor = np.divide(
            moved, difference, out=np.ones_like(moved), where=np.abs(difference) > LEAST
        )
        stretched: np.ndarray = parts * factor[:, None, :]
        stretched[:, -1] = new_base
        return stretched

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as plain data."""
        return {
            "method": self.method,
            "positive": self.positive,
            "rows": self.rows,
            "numbers": dict(self.numbers),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], classes: list[str]) -> Calibration:
        """Return a calibration from plain data; raise ``ValueError`` if it cannot be one."""
        method, positive, numbers = data["method"], data["positive"], data["numbers"]
        if len(classes) != 2 or positive not in classes:
            raise ValueError("the calibration is not about one of two classes")
        if method not in ("isotonic", "sigmoid"):
            raise ValueError(f"the calibration {method!r} is not known")
        arrays = {name: np.array(values, np.float64) for name, values in numbers.items()}
        if not all(array.ndim == 1 and np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a number of the calibration is not a number")
        if method == "sigmoid":
            is_valid = len(arrays["line"]) == 2 and arrays["line"][0] > 0
        else:
            scores, shares = arrays["scores"], arrays["shares"]
            in_order = (np.diff(scores) > 0).all() and (np.diff(shares) >= 0).all()
            is_share = (shares >= 0).all() and (shares <= 1).all()
            is_valid = len(scores) == len(shares) >= 2 and bool(in_order and is_share)
        if not is_valid:
            raise ValueError("the numbers of the calibration do not keep the order of rows")
        plain = {name: array.tolist() for name, array in arrays.items()}
        return cls(method, positive, int(data["rows"]), plain)


def fit_calibration(
    method: Method, score: np.ndarray, positive: np.ndarray, name: str
) -> Calibration:
    """Fit a calibration to rows of which ``positive`` says whether they are of the class ``name``.

    Raise ``BadInput`` if positive rows do not have higher scores than others.
    """
    fit = {"isotonic": _isotonic, "sigmoid": _sigmoid}[method]
    return Calibration(method, name, len(score), fit(score, positive))


def _isotonic(score: np.ndarray, positive: np.ndarray) -> dict[str, list[float]]:
    """Return the corners of the rising line that is closest to the classes of the rows."""
    from sklearn.isotonic import IsotonicRegression

    line = IsotonicRegression(y_min=0, y_max=1).fit(score, positive.astype(np.float64))
    scores, shares = line.X_thresholds_, line.y_thresholds_
    if len(scores) == 1:
        scores, shares = np.array([scores[0], scores[0] + 1]), np.repeat(shares, 2)
    return {"scores": scores.tolist(), "shares": shares.tolist()}


def _sigmoid(score: np.ndarray, positive: np.ndarray) -> dict[str, list[float]]:
    """Return slope and intercept of the log-odds, as Platt (1999) fits them."""
    from sklearn.linear_model import LogisticRegression

    # Nearly without regularization: two numbers cannot overfit.
    line = LogisticRegression(C=1e6, max_iter=1_000).fit(_log_odds(score)[:, None], positive)
    slope, intercept = float(line.coef_[0, 0]), float(line.intercept_[0])
    if slope <= 0:
        raise BadInput(
            "a sigmoid cannot calibrate this model: positive rows do not have higher "
            "probabilities than others; check the positive class, or set Calibration to none",
            field="calibration",
        )
    return {"line": [slope, intercept]}


def _log_odds(score: np.ndarray) -> np.ndarray:
    """Return log(p / (1 − p))."""
    from deepforest.arithmetic import logarithms

    inside = np.clip(score, LEAST, 1 - LEAST)
    return logarithms(inside) - logarithms(1 - inside)


def reliability(positive: np.ndarray, score: np.ndarray) -> dict[str, Any]:
    """Return the mean probability and the share of positive rows in bins of similar rows.

    A bin has about as many rows as others, and where positive rows are rare, about as many of
    these: otherwise all bins would lie near 0. ``brier`` is the mean squared error.
    """
    order = np.argsort(score, kind="stable")
    score, positive = score[order], positive[order]
    weight = 1 / len(score) + positive / max(positive.sum(), 1)
    bins = np.minimum((np.cumsum(weight) * BINS / weight.sum()).astype(int), BINS - 1)
    predicted, observed, rows = [], [], []
    for number in np.unique(bins):
        inside = bins == number
        predicted.append(float(score[inside].mean()))
        observed.append(float(positive[inside].mean()))
        rows.append(int(inside.sum()))
    brier = float(np.mean((score - positive) ** 2))
    return {"predicted": predicted, "observed": observed, "rows": rows, "brier": brier}
