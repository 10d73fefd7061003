"""Compute the bound by which a composite tree chooses the degrees of its leaves (equation 6).

    R(f) ≤ R̂(f) + Σ_k min(8cγ·A_k, m_k⁺/m)

The empirical error R̂ is the sum of the rows m_k⁻ that each leaf classifies wrong, divided by m. So
the bound is a sum over leaves, and the best degree of a leaf does not depend on the other leaves.
All costs are counted in rows: where 8cγ·A_k·m is above m_k⁺, the cost of a leaf is exactly its
number of rows, and a tie between degrees stays a tie.

- ``vc_dimension``, ``log_growth``  how rich the classifiers of a leaf are
- ``complexity``       A_k of a leaf
- ``leaf_costs``       what each leaf adds to the bound, in rows
- ``bound``            their sum, divided by m
- ``best_degrees``     the exact minimum over all sequences of degrees
- ``best_sequence``    the best one of some sequences
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

VC = ("kernel", "pairs")


def vc_dimension(degree: int, n_features: int, n_classes: int = 2, vc: str = "kernel") -> int:
    """Return the VC dimension of a polynomial SVM; a constant leaf has degree 0 and dimension 0.

    The kernel (⟨x, z⟩ + 1)^degree has C(F + degree, degree) monomials, and a hyperplane over them
    has as many as dimension. With ``vc="pairs"`` each of the ``n_classes`` − 1 hyperplanes that
    part a class from the others counts.

    >>> [vc_dimension(degree, 16) for degree in (0, 1, 2, 3)]
    [0, 17, 153, 969]
    """
    if degree == 0:
        return 0
    # Python's whole numbers: 123 columns and degree 9 give 13 digits more than a float can hold.
    dimension = math.comb(n_features + degree, degree)
    return dimension * (n_classes - 1) if vc == "pairs" else dimension


def log_growth(dimension: int, n_rows: int) -> float:
    """Return a bound on log Π(m), the number of ways in which the classifiers label m rows.

    Sauer's lemma, v·log(em/v), holds for v ≤ m; there are never more than 2^m labellings.
    """
    every_labelling = n_rows * math.log(2)
    if dimension == 0:
        return 0.0
    if dimension >= n_rows:
        return every_labelling
    return min(dimension * math.log(math.e * n_rows / dimension), every_labelling)


def complexity(
    depth: int, dimension: int, n_rows: int, n_features: int, n_candidates: int
) -> float:
    """Return A_k of a leaf: a term of the questions on its path, and one of its classifier.

    ``depth`` is d_k, ``dimension`` v_k, ``n_rows`` m, ``n_features`` |F| and ``n_candidates`` r.
    """
    r = n_candidates
    of_question = r * math.log(math.e * n_features / r) + math.log(2 * n_rows * r)
    of_path = math.sqrt(2 * depth * of_question / n_rows)
    return of_path + math.sqrt(2 * log_growth(dimension, n_rows) / n_rows)


def complexity_terms(complexities: Any, gamma: float, n_classes: int) -> Array:
    """Return 8cγ·A_k; ``n_classes`` is that of the task, also for two classes."""
    return np.asarray(8 * n_classes * gamma * np.asarray(complexities, float))


def leaf_costs(
    rows: Any, right: Any, complexities: Any, gamma: float, n_classes: int, n_rows: int
) -> Array:
    """Return what leaves add to the bound, in rows: m_k⁻ + min(8cγ·A_k·m, m_k⁺).

    ``rows`` are m_k, ``right`` m_k⁺ and ``complexities`` A_k, of any shapes that go together.
    """
    right = np.asarray(right, float)
    penalty = complexity_terms(complexities, gamma, n_classes) * n_rows
    return np.asarray(np.asarray(rows, float) - right + np.minimum(penalty, right))


def bound(costs: Array, n_rows: int) -> float:
    """Return the bound of a tree from the costs of its leaves."""
    return float(costs.sum() / n_rows)


def best_degrees(costs: Array, degrees: Array) -> Array:
    """Return for each leaf the column of its least cost; of several, that of the smallest degree.

    ``costs`` and ``degrees`` are leaves × candidates.
    """
    is_best = costs == costs.min(axis=1, keepdims=True)
    return np.asarray(np.where(is_best, degrees, np.iinfo(np.int64).max).argmin(axis=1))


def best_sequence(costs: Array, degrees: Array, sequences: Array) -> Array:
    """Return the sequence of columns with the least bound; of several, of the least degrees.

    ``costs`` and ``degrees`` are leaves × candidates, ``sequences`` has a column for each leaf in
    each row. "Least degrees" is the least sum of them.
    """
    leaves = np.arange(len(costs))
    totals = costs[leaves, sequences].sum(axis=1)
    sums = degrees[leaves, sequences].sum(axis=1)
    order = np.lexsort((sums, totals))
    return np.asarray(sequences[order[0]])
