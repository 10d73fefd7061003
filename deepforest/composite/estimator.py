"""Define the composite forest as a scikit-learn estimator.

- ``CompositeForestClassifier``
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._input import (
    TableReader,
    TabularEstimator,
    check_whole,
    checked_weights,
    describe_classes,
    fill_by_block,
    json_param,
    keep_arguments,
    read_classes,
    read_params,
)
from .._renamed import LEARNER_NAMES, accept_old_names
from ..forest.forest import n_candidates
from ..persistence import BrokenModel, Pack, read_model, write_model
from .bound import VC
from .columns import ScaledColumns
from .leaves import BLOCK_NUMBERS, Kernel, LeafModel, LeafRecord
from .storage import (
    describe_held_out,
    describe_leaves,
    leaf_arrays,
    read_held_out,
    read_leaf_models,
    read_leaves,
    read_trees,
    tree_arrays,
)
from .training import (
    GAMMAS,
    HeldOut,
    HeldOutRecord,
    Report,
    Training,
    choose_gamma,
    choose_penalties,
    evaluate,
    grow_trees,
)
from .tree import QuestionTree

Array = npt.NDArray[Any]

AUTO = "auto"
ALL = "all"
SELECTION = ("bound", "none")
DEGREES = tuple(range(1, 10))
MOST_ROWS = 1024
"""Rows that are predicted at once."""
# Shares of the progress that are reached when C, γ and the leaves are done.
UNTIL_PENALTIES, UNTIL_GAMMA = 0.3, 0.45


@accept_old_names(LEARNER_NAMES)
class CompositeForestClassifier(ClassifierMixin, TabularEstimator):  # type: ignore[misc]
    """Classify with Random Composite Forests: shallow trees with a polynomial SVM in every leaf.

    Each tree draws several sequences of degrees, one degree for each leaf, and keeps the sequence
    with the least bound on its error (DeSalvo and Mohri, equation 6). Each tree votes for one
    class. Columns are scaled inside the model. A missing number counts as the median of the
    training rows; a category becomes a column for each level, and a missing one has no level.

    Parameters
    ----------
    n_estimators : int
        Number of trees, B.
    max_depth : int
        Depth of the trees, M. Deep trees leave few rows for each SVM.
    max_features : int, float, "sqrt", "log2" or None
        Columns that a split chooses from, r.
    degrees : sequence of int
        Degrees of the kernels that leaves may have.
    sequences : int or "all"
        Sequences of degrees that a tree chooses from, p. "all" finds the exact minimum of the
        bound.
    selection : "bound" or "none"
        "none" takes one random sequence for each tree and ignores the bound (RF+SVM of the paper).
    gamma : float or "auto"
        γ, the weight of complexity in the bound. "auto" takes the best of 1e-5, 1e-4, 1e-3 and
        1e-2 on held-out rows: those of ``validation``, or a fifth of the training rows.
    C : float, mapping from degree to float, or "auto"
        The SVMs' penalty of errors, before it is scaled by √(m_k/m) in a leaf. "auto" chooses one
        for each degree by cross-validation.
    min_leaf : int
        A leaf with fewer rows votes for its most frequent class.
    vc : "kernel" or "pairs"
        How the VC dimension of a leaf is counted: by the kernel alone, as in the paper, or that
        times the number of classes less one.
    categorical_features : "from_dtype", list of columns (numbers, names or flags) or None
        Columns that hold categories; the category, string and boolean columns of a data frame
        always do.
    n_jobs : int or None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random draws.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_
    trees_ : the questions of the trees
    leaves_ : a ``LeafRecord`` for each leaf: depth, degree, rows, both terms of the bound, fallback
    bound_ : the bound of each tree; None without the bound
    gamma_ : the γ that was used; None without the bound
    C_ : the penalty of each degree
    held_out_ : a ``HeldOutRecord``: errors on held-out rows; None if no rows were held out
    """

    trees_: list[QuestionTree]
    models_: list[list[LeafModel]]
    leaves_: list[LeafRecord]
    held_out_: HeldOutRecord | None

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int = 3,
        max_features: int | float | str | None = "sqrt",
        degrees: Sequence[int] = DEGREES,
        sequences: int | str = 10,
        selection: str = "bound",
        gamma: float | str = AUTO,
        C: float | Mapping[int, float] | str = AUTO,  # noqa: N803
        min_leaf: int = 10,
        vc: str = "kernel",
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        keep_arguments(self, locals())

    # --- fitting ---

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        validation: Sequence[Any] | None = None,
        report: Report = lambda share, text: None,
    ) -> Self:
        """Grow the forest on ``X`` (an array, or a data frame) and the classes ``y``.

        ``sample_weight`` counts in the trees, the SVMs and the choice of C and γ; the bound counts
        rows. ``validation`` is (X, y) or (X, y, sample_weight): with ``gamma="auto"`` these rows
        choose γ. ``report`` gets the share that is done and a text, in the threads that fit; an
        exception that it raises ends the fit.
        """
        values, y = self._read_fit(X, y)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, values)
            # A row of weight 0 must not have any effect, not even on the bound.
            kept = weights > 0
            values, y, weights = values[kept], y[kept], weights[kept]
            # Weights multiply C, so that their average has to be 1: only their ratios matter.
            weights = weights / weights.mean()
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        self.columns_ = ScaledColumns.learn(values, self._categorical(values.shape[1]))
        training = self._training(self.columns_.scale(values), codes.astype(np.int64), weights)
        held = None if validation is None else self._read_validation(validation)
        with warnings.catch_warnings():
            # Each SVM that has not converged is in the records of its leaf.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._fit(training, held, report)
        return self

    def _training(self, scaled: Array, codes: Array, weights: Array | None) -> Training:
        """Return rows and settings; raise ``ValueError`` for a setting that cannot be used."""
        self.check_settings()
        degrees = read_degrees(self.degrees)
        # As ``gamma="scale"`` of SVC, but the same kernel in all leaves.
        spread = float(scaled.shape[1] * scaled.var())
        return Training(
            values=scaled,
            codes=codes,
            weights=weights,
            n_classes=self.n_classes_,
            kernel=Kernel(1 / spread if spread > 0 else 1.0),
            n_estimators=int(self.n_estimators),
            max_depth=int(self.max_depth),
            n_candidates=n_candidates(self.max_features, scaled.shape[1]),
            degrees=degrees,
            sequences=self.sequences,
            uses_bound=self.selection == "bound",
            min_leaf=int(self.min_leaf),
            vc=self.vc,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_jobs=effective_n_jobs(self.n_jobs),
            C=penalties_of(self.C, degrees),
        )

    def check_settings(self) -> None:
        """Raise ``ValueError`` for a setting that cannot be used."""
        for name in ("n_estimators", "max_depth", "min_leaf"):
            check_whole(name, getattr(self, name), 1)
        n_candidates(self.max_features, 1)
        check_choices(self.sequences, self.selection, self.gamma, self.vc)
        penalties_of(self.C, read_degrees(self.degrees))

    def _read_validation(self, validation: Sequence[Any]) -> HeldOut:
        """Return validation rows; raise ``ValueError`` for a class without training rows."""
        x, y, *weights = validation
        values, y = self._read(x), np.asarray(y)
        if len(values) != len(y):
            raise ValueError(f"validation has {len(values)} rows of X and {len(y)} of y")
        if not len(y):
            raise ValueError("validation has no rows")
        codes = np.minimum(np.searchsorted(self.classes_, y), self.n_classes_ - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(
                f"validation has the class {y[unknown][0]!r}, which has no training rows"
            )
        weight = checked_weights(weights[0], values) if weights else None
        return HeldOut(self.columns_.scale(values), codes, weight)

    def _fit(self, training: Training, held: HeldOut | None, report: Report) -> None:
        """Choose C and γ, grow the trees and keep what the bound selects."""
        if not training.C:
            choosing = _between(report, 0.0, UNTIL_PENALTIES)
            training = replace(training, C=choose_penalties(training, choosing))
        gamma, record = self._given_gamma(), None
        gammas = GAMMAS if gamma is None else (gamma,)
        if training.uses_bound and held is None and gamma is None:
            choosing = _between(report, UNTIL_PENALTIES, UNTIL_GAMMA)
            gamma, record = choose_gamma(training, choosing)
        nothing = HeldOut.none(training.values.shape[1])
        fitting = _between(report, UNTIL_GAMMA, 1.0)
        grown = grow_trees(training, held or nothing, fitting, "fitting leaves")
        if training.uses_bound and held is not None:
            gamma, record = evaluate(training, grown, held, gammas, "validation rows")
        if not training.uses_bound:
            gamma = None
        self.C_, self.gamma_, self.held_out_ = training.C, gamma, record
        chosen = [tree.choose(training, gamma) for tree in grown]
        self.bound_ = None
        self.leaves_, self.models_ = [], []
        for number, (tree, columns) in enumerate(zip(grown, chosen, strict=True), 1):
            self.leaves_ += tree.records(training, columns, number, gamma)
            self.models_.append(tree.models(training, columns))
        if gamma is not None:
            self.bound_ = np.array(
                [
                    tree.bound(training, columns, gamma)
                    for tree, columns in zip(grown, chosen, strict=True)
                ]
            )
        self.trees_ = [tree.tree for tree in grown]
        self.kernel_ = training.kernel
        self._keep_support(training.values)

    def _given_gamma(self) -> float | None:
        """Return γ if it is a number; None if it has to be chosen."""
        return None if isinstance(self.gamma, str) else float(self.gamma)

    def _keep_support(self, values: Array) -> None:
        """Keep the rows that are a support vector of any leaf, once; leaves count these rows."""
        models = [model for leaves in self.models_ for model in leaves]
        used = np.unique(np.concatenate([model.support for model in models]))
        self.support_vectors_ = values[used]
        for leaves in self.models_:
            for k, model in enumerate(leaves):
                support = np.searchsorted(used, model.support).astype(np.int32)
                leaves[k] = replace(model, support=support)

    # --- prediction ---

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the share of the trees that vote for each class, rows × classes."""
        check_is_fitted(self, "trees_")
        values = self._read(X)
        out = np.empty((len(values), self.n_classes_))
        n_products = max(1, len(self.support_vectors_))
        size = max(1, min(MOST_ROWS, BLOCK_NUMBERS // n_products))
        return fill_by_block(out, lambda block: self._shares(values[block]), self.n_jobs, size)

    def _shares(self, values: Array) -> Array:
        """Return the shares of the votes for rows of numbers."""
        scaled = self.columns_.scale(values)
        # Trees share support vectors: each product is computed once.
        products = self.kernel_.products(scaled, self.support_vectors_)
        counts = np.zeros((len(values), self.n_classes_))
        for tree, models in zip(self.trees_, self.models_, strict=True):
            leaf_of_row = tree.apply(scaled)
            for leaf in np.unique(leaf_of_row):
                rows, model = np.flatnonzero(leaf_of_row == leaf), models[leaf]
                votes = model.votes(products[rows[:, None], model.support])
                counts[rows, votes] += 1
        return counts / len(self.trees_)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the class with the most votes for each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    # --- persistence ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted forest into a folder as arrays and JSON, without pickle."""
        check_is_fitted(self, "trees_")
        pack = self.pack()
        write_model(folder, pack.about, {"forest": Pack(arrays=pack.arrays)})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the forest that ``save`` wrote.

        Raise ``BrokenModel`` if the folder holds another class, or a file is missing or damaged.
        """
        about, packs = read_model(folder)
        held = about.get("class")
        if held != cls.__name__:
            raise BrokenModel(
                f"{folder} holds a {held}, not a {cls.__name__}; load it with {held}.load"
            )
        try:
            return cls.unpack(Pack(about, packs["forest"].arrays))
        except Exception as error:  # only the content of the folder can be the cause
            raise BrokenModel(f"{folder} does not hold a whole {cls.__name__}: {error}") from error

    def pack(self) -> Pack:
        """Return the fitted forest as plain data."""
        params = self.get_params(deep=False)
        # ``n_jobs`` belongs to the machine of the fit, not to the model.
        params["n_jobs"] = None
        about = {
            "class": type(self).__name__,
            "params": {name: json_param(name, value) for name, value in params.items()},
            "n_features": self.n_features_in_,
            "feature_names": None,
            "table": None,
            "classes": describe_classes(self.classes_),
            "gamma": self.gamma_,
            "C": [[degree, penalty] for degree, penalty in self.C_.items()],
            "kernel_scale": self.kernel_.scale,
            "held_out": describe_held_out(self.held_out_),
            "leaves": describe_leaves(self.leaves_),
        }
        if hasattr(self, "feature_names_in_"):
            about["feature_names"] = [str(name) for name in self.feature_names_in_]
        if self.table_ is not None:
            about["table"] = {"names": self.table_.names, "levels": self.table_.levels}
        arrays = {
            **self.columns_.arrays(),
            **tree_arrays(self.trees_),
            **leaf_arrays(self.models_),
            "support_vectors": self.support_vectors_,
        }
        if self.bound_ is not None:
            arrays["bound"] = self.bound_
        return Pack(about, arrays)

    @classmethod
    def unpack(cls, pack: Pack) -> Self:
        """Return the forest that ``pack`` describes; raise an exception if it cannot be right."""
        about, arrays = pack.about, dict(pack.arrays)
        params = read_params(about["params"])
        params["degrees"] = tuple(params["degrees"])
        if isinstance(params["C"], list):
            params["C"] = dict(params["C"])
        model = cls(**params)
        model.n_features_in_ = int(about["n_features"])
        if about["feature_names"] is not None:
            model.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        table = about["table"]
        model.table_ = None if table is None else TableReader(table["names"], table["levels"])
        model.classes_ = read_classes(about["classes"])
        model.n_classes_ = len(model.classes_)
        model.gamma_, model.C_ = about["gamma"], dict(about["C"])
        model.held_out_ = read_held_out(about["held_out"])
        model.leaves_ = read_leaves(about["leaves"])
        model.kernel_ = Kernel(float(about["kernel_scale"]))
        model.bound_ = arrays.get("bound")
        model.columns_ = ScaledColumns.from_arrays(arrays, model.n_features_in_)
        model.support_vectors_ = arrays["support_vectors"]
        model.trees_ = read_trees(arrays, model.columns_.width)
        model.models_ = read_leaf_models(arrays, model.trees_)
        model._check_restored()
        return model

    def _check_restored(self) -> None:
        """Raise ``ValueError`` unless the parts fit together: the kernels do not check them."""
        vectors = self.support_vectors_
        if vectors.ndim != 2 or vectors.shape[1] != self.columns_.width:
            raise ValueError("the support vectors have other columns")
        if vectors.dtype != np.float64 or not np.isfinite(vectors).all():
            raise ValueError("the support vectors are not numbers")
        if self.table_ is not None and len(self.table_.levels) != self.n_features_in_:
            raise ValueError("the table has other columns")
        if len(self.leaves_) != sum(len(models) for models in self.models_):
            raise ValueError("the records of leaves are missing")
        for models in self.models_:
            for model in models:
                model.check(self.n_classes_, len(vectors))


def read_degrees(degrees: Any) -> tuple[int, ...]:
    """Return degrees in ascending order, each once; raise ``ValueError`` if one is below 1."""
    if isinstance(degrees, str) or not isinstance(degrees, Iterable):
        raise ValueError(f"degrees is {degrees!r}; give a list of whole numbers from 1")
    degrees = list(degrees)
    for degree in degrees:
        check_whole("a degree", degree, 1)
    if not degrees:
        raise ValueError("degrees is empty; give at least one")
    return tuple(sorted({int(degree) for degree in degrees}))


def check_choices(sequences: Any, selection: Any, gamma: Any, vc: Any) -> None:
    """Raise ``ValueError`` for a setting that is not one of its choices."""
    if isinstance(sequences, str) and sequences != ALL:
        raise ValueError(f"sequences is {sequences!r}; give a whole number from 1, or 'all'")
    if not isinstance(sequences, str):
        check_whole("sequences", sequences, 1)
    if selection not in SELECTION:
        raise ValueError(f"selection is {selection!r}; give 'bound' or 'none'")
    if vc not in VC:
        raise ValueError(f"vc is {vc!r}; give 'kernel' or 'pairs'")
    if gamma != AUTO and not _is_above_zero(gamma):
        raise ValueError(f"gamma is {gamma!r}; give a number above 0, or 'auto'")


def penalties_of(penalty: Any, degrees: Sequence[int]) -> dict[int, float]:
    """Return C of each degree; empty if it has to be chosen.

    Raise ``ValueError`` if a degree has none, or one that is not above 0.
    """
    if isinstance(penalty, str):
        if penalty != AUTO:
            raise ValueError(f"C is {penalty!r}; give a number, a mapping, or 'auto'")
        return {}
    of_degree = penalty if isinstance(penalty, Mapping) else dict.fromkeys(degrees, penalty)
    for degree in degrees:
        if degree not in of_degree:
            raise ValueError(f"C has no value for degree {degree}")
        if not _is_above_zero(of_degree[degree]):
            raise ValueError(f"C is {of_degree[degree]!r}; give a number above 0")
    return {degree: float(of_degree[degree]) for degree in degrees}


def _is_above_zero(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and 0 < float(value) < np.inf


def _between(report: Report, first: float, last: float) -> Report:
    """Return a report of a part of the fit, which is shown as a part of the whole."""
    return lambda share, text: report(first + share * (last - first), text)
