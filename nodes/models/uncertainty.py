"""Compute how certain the figures of an evaluation are, alone and against another evaluation.

- ``intervals_of``      95 % intervals of figures, and their replicates for differences
- ``evaluated_groups``  the groups of the evaluated rows, which are resampled as a whole
- ``difference``        how much better one evaluation is than another of the same rows
- ``difference_text``, ``interval_text``, ``what_decides``  the same in words
- ``margin_of_folds``   half of the 95 % interval of a mean over folds
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.values import Predictions, Report
from nodes.data.row_groups import group_codes
from nodes.data.row_identity import same_rows

if TYPE_CHECKING:
    import numpy as np

    from deepforest.bootstrap import Difference, Replicates
    from deepforest.metrics import Metric

COVERAGE = 0.95
OF_ALL_CLASSES = ("accuracy", "balanced_accuracy", "log_loss")
"""Metrics that an evaluation computes from all classes, also if one of them is the positive one."""
SAME = 1e-9
"""Figures that differ by less are the same."""

Rows = tuple["np.ndarray", "np.ndarray"]


def intervals_of(
    figures: Mapping[str, Any],
    truth: np.ndarray,
    output: np.ndarray,
    *,
    ranked: Rows | None = None,
    groups: np.ndarray | None = None,
    money: Metric | None = None,
) -> dict[str, Any]:
    """Return what an evaluation stores about the certainty of its figures.

    ``figures`` are values by the names of metrics; other entries are ignored. ``truth`` are class
    numbers and ``output`` probabilities, or ``truth`` and ``output`` are numbers of a regression.
    ``ranked`` are the rows with the positive class against the rest, if there is one, and ``money``
    is a metric of these rows. With ``groups``, whole groups are resampled.

    ``intervals`` are 95 % intervals, ``replicates`` the values on resampled rows, ``units`` how
    many rows or groups decide about a figure, and ``resampled`` is ``rows`` or ``groups``.
    ``too_few`` names the figures that too few rows decide about for an interval. A figure that does
    not follow from these rows has none of these.
    """
    from deepforest.bootstrap import resampled

    output = output.reshape(len(truth), -1)
    chosen: dict[bool, list[Metric]] = {True: [], False: []}
    rows = {True: ranked or (truth, output), False: (truth, output)}
    for name, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for is_ranked, metric in _candidates(name, figures.get("threshold"), rows):
            computed = metric(*rows[is_ranked], None)
            if computed is not None and abs(computed - value) < SAME:
                chosen[is_ranked].append(metric)
                break
    if money is not None:
        chosen[True].append(money)
    found: dict[str, Replicates] = {}
    for is_ranked, metrics in chosen.items():
        if metrics:
            found |= resampled(metrics, *rows[is_ranked], groups=groups)
    intervals, replicates, too_few = {}, {}, []
    for name in (name for name in figures if name in found):
        limits = found[name].interval()
        if limits is None:
            too_few.append(name)
            continue
        digits = _digits(found[name].values)
        intervals[name] = [round(limit, digits) for limit in limits]
        replicates[name] = _rounded(found[name].values, digits)
    return {
        "intervals": intervals,
        "replicates": replicates,
        "units": {name: int(found[name].units) for name in replicates},
        "too_few": too_few,
        "resampled": "rows" if groups is None else "groups",
    }


def _candidates(
    name: str, threshold: float | None, rows: Mapping[bool, Rows]
) -> Iterator[tuple[bool, Metric]]:
    """Yield the metrics that a figure may be, and whether it is of the positive class."""
    from deepforest.metrics import (
        DECIDED,
        METRICS,
        REGRESSION_METRICS,
        decided_metric,
        metric,
        recall_share,
    )

    classes, all_classes = rows[True][1].shape[1], rows[False][1].shape[1]
    if classes == 1:
        if name in REGRESSION_METRICS:
            yield False, REGRESSION_METRICS[name]
        return
    if name not in METRICS and recall_share(name) is None:
        return
    # Two classes are the same rows either way: then one bootstrap serves all metrics.
    if classes == all_classes or name not in OF_ALL_CLASSES:
        yield True, metric(name)
    yield False, metric(name)
    if name in DECIDED and threshold is not None and classes == 2:
        yield True, decided_metric(name, threshold)


def _digits(values: np.ndarray) -> int:
    """Return the decimals that keep a thousandth of the standard error."""
    import numpy as np

    error = float(np.nanstd(values))
    return 6 if error == 0 else max(3 - math.floor(math.log10(error)), 0)


def _rounded(values: np.ndarray, digits: int) -> list[float | None]:
    """Return replicates for JSON; None where the metric has no value."""
    rounded = values.round(digits).tolist()
    return [None if math.isnan(value) else value for value in rounded]


def evaluated_groups(predictions: Predictions) -> np.ndarray | None:
    """Return the number of the group of each row whose class is known; None without groups."""
    if predictions.truth is None or predictions.carried is None or predictions.group is None:
        return None
    known = predictions.truth.is_valid().to_numpy(zero_copy_only=False)
    groups: np.ndarray = group_codes(predictions.carried.column(predictions.group))[known]
    return groups


def difference(name: str, report: Report, best: Report) -> Difference | None:
    """Return how much better an evaluation is than another of the same rows, by one metric.

    Return None if that is not known: other rows, another positive class, an earlier version.
    """
    import numpy as np

    from deepforest import bootstrap
    from deepforest.metrics import lower_is_better

    value, best_value = report.headline.get(name), best.headline.get(name)
    if not isinstance(value, int | float) or not isinstance(best_value, int | float):
        return None
    if not _have_same_rows(report, best):
        return None
    gap = value - best_value
    folds, best_folds = report.data.get("folds"), best.data.get("folds")
    if folds and best_folds:
        return _difference_of_folds(name, -gap if lower_is_better(name) else gap, report, best)
    own, others = (each.data.get("replicates", {}).get(name) for each in (report, best))
    units = report.data.get("units", {}).get(name)
    if folds or best_folds or own is None or others is None or units is None:
        return None
    drawn = report.data.get("resampled"), len(own)
    if drawn != (best.data.get("resampled"), len(others)):
        return None
    replicates = np.array(own, float), np.array(others, float)
    return bootstrap.difference(name, *replicates, gap, units)


def _have_same_rows(first: Report, second: Report) -> bool:
    """Return whether two evaluations are of the same rows and the same positive class."""
    rows, others = first.data.get("test_rows"), second.data.get("test_rows")
    if not rows or not others or first.data.get("positive") != second.data.get("positive"):
        return False
    return same_rows(rows, others)


def _difference_of_folds(name: str, gain: float, report: Report, best: Report) -> Difference | None:
    """Return the difference of two cross-validations, from their differences in each fold."""
    from deepforest.bootstrap import Difference

    differences = []
    # A fold of one must be the fold of the other.
    if report.data.get("held_out", "unknown") != best.data.get("held_out"):
        return None
    for fold, other in zip(report.data["folds"], best.data["folds"], strict=True):
        value, best_value = fold.get(name), other.get(name)
        if value is not None and best_value is not None:
            differences.append(value - best_value)
    test_to_train = report.data.get("test_to_train")
    if test_to_train is None:
        return None
    margin = margin_of_folds(differences, test_to_train)
    return None if margin is None else Difference(gain, margin)


def margin_of_folds(values: Sequence[float], test_to_train: float) -> float | None:
    """Return half of the 95 % interval of the mean of a figure over folds; None for one fold.

    Models of different folds share most of their rows, so their figures vary less than those of
    models of other data would. The interval allows for that (Nadeau and Bengio 2003).
    ``test_to_train`` is how many rows are held out for each row that a model is trained on.
    """
    import numpy as np
    from scipy.stats import t

    if len(values) < 2:
        return None
    error = float(np.std(values, ddof=1)) * math.sqrt(1 / len(values) + test_to_train)
    return float(t.ppf((1 + COVERAGE) / 2, len(values) - 1)) * error


def within_limits(name: str, low: float, high: float) -> tuple[float, float]:
    """Return an interval without values that the metric cannot have."""
    from deepforest.bootstrap import UNLIMITED

    if name == "r2":
        return low, min(high, 1.0)
    return max(low, 0.0), high if name in UNLIMITED else min(high, 1.0)


def interval_text(name: str, limits: Sequence[float]) -> str:
    """Return an interval as a person reads it: ``0.913–0.936``, ``91.3–93.6 %``."""
    from deepforest.metrics import format_metric

    low, high = (format_metric(name, limit) for limit in limits)
    return f"{low.removesuffix(' %')}–{high}"


def difference_text(name: str, gap: Difference) -> str:
    """Return how much worse an evaluation is than the best: ``tie``, ``0.013 ± 0.012 worse``."""
    from deepforest.metrics import format_metric

    if gap.margin is None:
        return "too few rows differ"
    if gap.is_tie:
        return "tie"
    amount, margin = format_metric(name, abs(gap.gain)), format_metric(name, gap.margin)
    word = "better" if gap.gain > 0 else "worse"
    return f"{amount.removesuffix(' %')} ± {margin} {word}"


def what_decides(gap: Difference, rows: int) -> str:
    """Return how many more rows would decide a tie, as a sentence."""
    needed = gap.rows_to_decide(rows)
    if needed is None:
        return "They are equal on these rows: more rows like these would not decide."
    more = max(needed - rows, 1)
    # Two digits: the difference itself is not known any better.
    size = 10 ** max(len(str(more)) - 2, 0)
    rounded = math.ceil(more / size) * size
    return f"About {rounded:,} more rows would decide a difference of this size."
