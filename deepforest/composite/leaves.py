"""Fit the classifiers in the leaves of composite trees: one-vs-one SVMs with a polynomial kernel.

Each leaf and degree is fitted once. From what a leaf remembers of each degree (the rows it
classifies right, and its votes for held-out rows), every γ and every sequence of degrees follows
without another fit.

- ``Kernel``      the kernel that all leaves share
- ``LeafModel``   a fitted leaf: it votes for one class
- ``LeafFits``    a leaf with its fits of several degrees
- ``LeafRecord``  the facts about a leaf with the degree that was chosen
- ``fit_leaf``    fits a leaf with some degrees, or falls back to something simpler
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

from ..arithmetic import row_products

Array = npt.NDArray[Any]

MAX_ITER = 100_000
"""Steps of libsvm for a pair of classes; a leaf that needs more falls back to a lower degree."""
BLOCK_NUMBERS = 2**21
"""Inner products that are held at the same time."""
FALLBACKS = {
    "pure": "one class only: it votes for it",
    "few rows": "too few rows for an SVM: it votes for the most frequent class",
    "one row per class": "no class has two rows: it has an SVM of the smallest degree",
    "not converged": "the SVM of the drawn degree did not converge: a lower degree is used",
}
"""Why a leaf has another classifier than an SVM of the drawn degree."""


@dataclass(frozen=True)
class LeafRecord:
    """Hold the facts about a leaf.

    ``complexity`` is A_k. The two terms of the bound are ``complexity_term``, 8cγ·A_k, and
    ``right_term``, m_k⁺/m; ``cost`` is m_k⁻/m plus the smaller of them. ``saturated`` says that
    ``right_term`` is the smaller one, so that the degree has no effect on the cost. Without a
    bound, these are None. ``fallback`` is a key of ``FALLBACKS``, or empty. A constant leaf has
    degree 0.
    """

    tree: int
    leaf: int
    depth: int
    rows: int
    right: int
    degree: int
    C: float
    complexity: float
    complexity_term: float | None
    right_term: float
    cost: float | None
    saturated: bool | None
    fallback: str


@dataclass(frozen=True)
class Kernel:
    """Compute (scale · ⟨x, z⟩ + 1)^degree, each row with the same bits in every batch."""

    scale: float

    def products(self, values: Array, others: Array) -> Array:
        """Return scale · ⟨x, z⟩ + 1 for all rows x of ``values`` and z of ``others``."""
        products = row_products(values, others.T, np.zeros(len(others)))
        products *= self.scale
        products += 1.0
        return products

    def svc(self, C: float, degree: int) -> SVC:  # noqa: N803
        """Return an unfitted SVM with this kernel."""
        return SVC(
            C=C, kernel="poly", degree=degree, gamma=self.scale, coef0=1.0, max_iter=MAX_ITER
        )


@dataclass(frozen=True)
class LeafModel:
    """Vote for a class, by the votes of one SVM for each pair of classes.

    ``support`` are the support vectors as numbers of rows, ordered by class, ``n_support`` of each
    class; ``coefficients`` (support vectors × classes − 1) are the dual coefficients as in libsvm,
    ``intercepts`` those of the pairs (0, 1), (0, 2), …, (1, 2), …. A constant leaf has one class.
    """

    classes: Array
    degree: int = 0
    C: float = 0.0
    support: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    n_support: Array = field(default_factory=lambda: np.zeros(1, np.int32))
    coefficients: Array = field(default_factory=lambda: np.zeros((0, 0)))
    intercepts: Array = field(default_factory=lambda: np.zeros(0))

    def votes(self, products: Array) -> Array:
        """Return the class of each row; ``products`` (rows × support vectors) are of ``Kernel``."""
        n_classes = len(self.classes)
        if n_classes == 1:
            return np.full(len(products), self.classes[0])
        powers = products.copy()
        for _ in range(self.degree - 1):
            powers *= products
        sums = self._sums(powers)
        counts = np.zeros((len(products), n_classes), np.int32)
        pair = 0
        for i in range(n_classes):
            for j in range(i + 1, n_classes):
                score = sums[i][:, j - 1] + sums[j][:, i] + self.intercepts[pair]
                counts[:, i] += score > 0
                counts[:, j] += score <= 0
                pair += 1
        # Of several classes with as many votes, the first one, as in libsvm.
        return np.asarray(self.classes[counts.argmax(axis=1)])

    def _sums(self, powers: Array) -> list[Array]:
        """Return for each class what its support vectors add to the scores of its pairs."""
        ends = np.cumsum(self.n_support)
        sums = []
        for first, end in zip(ends - self.n_support, ends, strict=True):
            zeros = np.zeros(self.coefficients.shape[1])
            sums.append(row_products(powers[:, first:end], self.coefficients[first:end], zeros))
        return sums

    def check(self, n_classes: int, n_rows: int) -> None:
        """Raise ``ValueError`` unless the parts of the leaf fit together.

        ``n_rows`` is the number of rows that can be support vectors.
        """
        k, n = len(self.classes), len(self.support)
        sound = (
            k > 0
            and ((self.classes >= 0) & (self.classes < n_classes)).all()
            and ((self.support >= 0) & (self.support < n_rows)).all()
            and self.n_support.shape == (k,)
            and (self.n_support >= 0).all()
            and int(self.n_support.sum()) == n
            and self.degree >= (k > 1)
            and self.coefficients.shape == (n, k - 1)
            and self.intercepts.shape == (k * (k - 1) // 2,)
        )
        if not sound:
            raise ValueError("the parts of a leaf do not fit together")


@dataclass(frozen=True)
class LeafData:
    """Hold what the fits of all leaves share: the training rows, and the settings."""

    values: Array
    codes: Array
    weights: Array | None
    kernel: Kernel
    C: dict[int, float]
    min_leaf: int


@dataclass(frozen=True)
class LeafFits:
    """Hold a leaf with its fits of several degrees.

    ``models``, ``right``, ``fallbacks`` and ``held_votes`` are by drawn degree. ``held_rows`` are
    the held-out rows that reach the leaf, ``held_votes`` the classes that it votes for.
    """

    rows: Array
    held_rows: Array
    models: dict[int, LeafModel]
    right: dict[int, int]
    fallbacks: dict[int, str]
    held_votes: dict[int, Array]


def fit_leaf(
    data: LeafData, rows: Array, degrees: list[int], held: Array, held_rows: Array
) -> LeafFits:
    """Fit a leaf with each of ``degrees``; ``held`` are the values of its held-out rows."""
    models, fallback = _fit_degrees(data, rows, degrees)
    right: dict[int, int] = {}
    held_votes: dict[int, Array] = {}
    # Several degrees may have fallen back to the same model, which is then asked once.
    by_model: dict[int, tuple[int, Array]] = {}
    for degree, model in models.items():
        if id(model) not in by_model:
            own = votes_for(model, data.kernel, data.values[rows], data.values)
            n_right = int((own == data.codes[rows]).sum())
            by_model[id(model)] = n_right, votes_for(model, data.kernel, held, data.values)
        right[degree], held_votes[degree] = by_model[id(model)]
    return LeafFits(rows, held_rows, models, right, fallback, held_votes)


def votes_for(model: LeafModel, kernel: Kernel, values: Array, vectors: Array) -> Array:
    """Return the votes of a leaf for rows; ``support`` of the leaf counts rows of ``vectors``."""
    support = vectors[model.support]
    votes = np.empty(len(values), model.classes.dtype)
    size = max(1, BLOCK_NUMBERS // max(1, len(support)))
    for first in range(0, len(values), size):
        block = values[first : first + size]
        votes[first : first + size] = model.votes(kernel.products(block, support))
    return votes


def _fit_degrees(
    data: LeafData, rows: Array, degrees: list[int]
) -> tuple[dict[int, LeafModel], dict[int, str]]:
    """Return a model for each degree, and its fallback: a key of ``FALLBACKS``, or empty."""
    classes, counts = np.unique(data.codes[rows], return_counts=True)
    if len(classes) == 1:
        model, fallback = LeafModel(classes), "pure"
    elif len(rows) < data.min_leaf:
        weights = None if data.weights is None else data.weights[rows]
        totals = np.bincount(data.codes[rows], weights)
        model, fallback = LeafModel(np.array([totals.argmax()])), "few rows"
    elif counts.max() == 1:
        model, fallback = _fit_svm(data, rows, min(data.C))[0], "one row per class"
    else:
        return _fit_svms(data, rows, degrees)
    return dict.fromkeys(degrees, model), dict.fromkeys(degrees, fallback)


def _fit_svms(
    data: LeafData, rows: Array, degrees: list[int]
) -> tuple[dict[int, LeafModel], dict[int, str]]:
    """Return an SVM for each degree: of the largest degree up to it for which libsvm converges.

    Without such a degree, it is the SVM of the smallest one, as far as libsvm came.
    """
    tried: dict[int, tuple[LeafModel, bool]] = {}
    models: dict[int, LeafModel] = {}
    fallbacks: dict[int, str] = {}
    for degree in degrees:
        for lower in sorted((each for each in data.C if each <= degree), reverse=True):
            if lower not in tried:
                tried[lower] = _fit_svm(data, rows, lower)
            models[degree], has_converged = tried[lower]
            if has_converged:
                break
        as_drawn = has_converged and models[degree].degree == degree
        fallbacks[degree] = "" if as_drawn else "not converged"
    return models, fallbacks


def _fit_svm(data: LeafData, rows: Array, degree: int) -> tuple[LeafModel, bool]:
    """Return the SVM of a leaf, and whether libsvm has converged."""
    # The paper's C of a leaf, √(m_k/m)·C_δ.
    C = float(np.sqrt(len(rows) / len(data.codes)) * data.C[degree])  # noqa: N806
    weights = None if data.weights is None else data.weights[rows]
    svc = data.kernel.svc(C, degree).fit(data.values[rows], data.codes[rows], weights)
    # For two classes, scikit-learn turns the sign: its positive side is the second class.
    sign = -1.0 if len(svc.classes_) == 2 else 1.0
    model = LeafModel(
        classes=svc.classes_.astype(np.int64),
        degree=degree,
        C=C,
        support=rows[svc.support_].astype(np.int32),
        n_support=svc.n_support_.astype(np.int32),
        coefficients=np.ascontiguousarray(sign * svc.dual_coef_.T),
        intercepts=sign * svc.intercept_,
    )
    return model, svc.fit_status_ == 0
