"""Fit the methods of the papers' tables, on one thread.

A method is a function of the rows, the seed and its settings. It returns a fitted model with
``predict`` and ``predict_proba``, and what it chose. Choices are made on validation rows: those of
the split, or a fifth of the training rows; then the model learns all training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from deepforest.metrics import auc

from .data import Parts, Rows

Array = npt.NDArray[Any]
Fitted = tuple[Any, dict[str, Any]]

SVM_COSTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SVM_DEGREES = tuple(range(1, 10))
SVM_STEPS = 200_000  # a large C on noisy classes would not end
TRIAL_ROWS = 200_000  # a choice between settings needs no more rows
FRAUD_RATES = (0.03, 0.1)


def network(parts: Parts, seed: int, hidden: Iterable[list[int]]) -> Fitted:
    """Fit a multilayer perceptron; the layers are chosen by the accuracy on validation rows."""
    from sklearn.neural_network import MLPClassifier

    fit, validation = for_choices(parts, seed)
    prepare = dense_columns(parts).fit(fit.x)
    x, x_validation = prepare.transform(fit.x), prepare.transform(validation.x)

    def make(layers: list[int]) -> Any:
        return MLPClassifier(layers, early_stopping=True, max_iter=100, random_state=seed)

    def accuracy(layers: list[int]) -> float:
        return float(make(layers).fit(x, fit.y).score(x_validation, validation.y))

    best = max(hidden, key=accuracy)
    return fit_dense(parts, make(best)), {"hidden": best}


def random_forest(parts: Parts, seed: int, trees: int) -> Fitted:
    """Fit scikit-learn's random forest with its default settings."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(trees, n_jobs=1, random_state=seed)
    return model.fit(*parts.train), {}


def tuned_random_forest(parts: Parts, seed: int, trees: int) -> Fitted:
    """Fit scikit-learn's random forest; columns per split by the error on validation rows."""
    from sklearn.ensemble import RandomForestClassifier

    _, validation = for_choices(parts, seed)
    models = {}
    for count in feature_counts(parts.train.x.shape[1]):
        model = RandomForestClassifier(trees, max_features=count, n_jobs=1, random_state=seed)
        models[count] = model.fit(*parts.train)
    best = max(models, key=lambda count: models[count].score(*validation))
    return models[best], {"max_features": best}


def feature_counts(n_features: int) -> list[int]:
    """Return RCF's numbers of columns per split: 1, √F/2, √F, 2√F and F, each once."""
    root = n_features**0.5
    counts = (1, round(root / 2), round(root), round(2 * root), n_features)
    return sorted({min(max(1, count), n_features) for count in counts})


def boosting(parts: Parts, seed: int, most_trees: int) -> Fitted:
    """Fit LightGBM; the number of trees is chosen by the log loss of validation rows."""
    from lightgbm import LGBMClassifier, early_stopping

    fit, validation = for_choices(parts, seed)

    def make(trees: int) -> Any:
        return LGBMClassifier(n_estimators=trees, n_jobs=1, random_state=seed, verbose=-1)

    stop = early_stopping(50, verbose=False)
    trial = make(most_trees).fit(*fit, eval_set=[tuple(validation)], callbacks=[stop])
    trees = trial.best_iteration_
    return make(trees).fit(*parts.train), {"trees": trees}


def cascade(
    parts: Parts, seed: int, preset: str, scan: Mapping[str, Any] | None = None, **changes: Any
) -> Fitted:
    """Fit a preset of the library with changes to its params, and with windows of images."""
    if scan is not None:
        changes["scan"] = {"shape": parts.shape, **scan}
    model = make_cascade(preset, seed, changes)
    model.fit(*parts.train)
    return model, cascade_facts(model)


def make_cascade(name: str, seed: int, changes: Mapping[str, Any]) -> Any:
    """Return a preset with changes to its params, on one thread."""
    from deepforest import preset

    return preset(name).set_params(**changes, n_jobs=1, random_state=seed)


def cascade_facts(model: Any) -> dict[str, Any]:
    """Return depth and chosen settings of a cascade, and score, margins or rows of each layer."""
    facts: dict[str, Any] = {"layers": model.n_layers_}
    facts["metric"] = model.layer_records_[0].metric
    facts["layer_score"] = [round(float(each.score), 5) for each in model.layer_records_]
    for name in ("gamma", "mu", "depth_step"):
        if hasattr(model, f"{name}_"):
            facts[name] = getattr(model, f"{name}_")
    records = model.layer_records_
    if records[0].margins is not None:
        facts["margin_ratio"] = [round(float(record.margins.ratio), 4) for record in records]
    if hasattr(model, "error_share"):
        facts["rows_in"] = [record.rows_in for record in records]
    facts["nodes_per_tree"] = [nodes_per_tree(layer.models) for layer in model.cascades_[0].layers]
    return facts


def nodes_per_tree(models: Iterable[Iterable[Any]]) -> list[float]:
    """Return the mean number of nodes of a tree of each learner of a layer that is a forest."""
    from deepforest.learners.forests import FittedForest

    found = []
    for by_fold in models:
        forests = [model.forest for model in by_fold if isinstance(model, FittedForest)]
        if forests:
            n_trees = sum(forest.n_trees for forest in forests)
            found.append(round(sum(len(forest.nodes) for forest in forests) / n_trees, 1))
    return found


def polynomial_svm(parts: Parts, seed: int) -> Fitted:
    """Fit one polynomial SVM; degree and C are chosen by the error on validation rows."""
    from sklearn.svm import SVC

    _, validation = for_choices(parts, seed)
    prepare = dense_columns(parts).fit(parts.train.x)
    x, x_validation = prepare.transform(parts.train.x), prepare.transform(validation.x)

    def error(setting: tuple[int, float]) -> float:
        model = make(*setting).fit(x, parts.train.y)
        return 1 - float(model.score(x_validation, validation.y))

    def make(degree: int, cost: float) -> Any:
        return SVC(
            kernel="poly", degree=degree, C=cost, coef0=1, max_iter=SVM_STEPS, cache_size=500
        )

    # Of equal errors the first counts: the lowest degree, then the smallest C.
    degree, cost = min(product(SVM_DEGREES, SVM_COSTS), key=error)
    return fit_dense(parts, make(degree, cost)), {"degree": degree, "C": cost}


def composite_forest(
    parts: Parts, seed: int, selection: str, trees: int, trial_trees: int, depths: list[int]
) -> Fitted:
    """Fit a composite forest; depth, columns per split and γ by the error on validation rows.

    The trials have fewer trees. C is chosen once for each degree, by the first trial.
    """
    from deepforest import CompositeForestClassifier

    _, validation = for_choices(parts, seed)
    # γ cannot be chosen by a class without training rows, such as a rare one of abalone.
    known = np.isin(validation.y, parts.train.y)
    by = (validation.x[known], validation.y[known])

    def fit(n_trees: int, depth: int, count: int, penalties: Any) -> Any:
        model = CompositeForestClassifier(
            n_trees,
            max_depth=depth,
            max_features=count,
            selection=selection,
            C=penalties,
            categorical_features=list(parts.categories) or None,
            n_jobs=1,
            random_state=seed,
        )
        return model.fit(*parts.train, validation=by)

    penalties: Any = "auto"
    errors = {}
    for depth, count in product(depths, feature_counts(parts.train.x.shape[1])):
        trial = fit(trial_trees, depth, count, penalties)
        penalties = trial.C_
        errors[depth, count] = 1 - float(trial.score(*validation))
    depth, count = min(errors, key=lambda setting: errors[setting])
    model = fit(trees, depth, count, penalties)
    facts = {"max_depth": depth, "max_features": count, "gamma": model.gamma_}
    saturated = np.mean([bool(leaf.saturated) for leaf in model.leaves_])
    degrees = np.mean([leaf.degree for leaf in model.leaves_])
    return model, {**facts, "saturated": round(float(saturated), 3), "degree": float(degrees)}


# --- fraud: a rare class ---


def fraud_logistic(parts: Parts, seed: int) -> Fitted:
    """Fit logistic regression; C and the weight of fraud are chosen by AUC on validation rows."""
    from sklearn.linear_model import LogisticRegression

    def make(weight: float, cost: float) -> Any:
        return LogisticRegression(C=cost, class_weight={0: 1.0, 1: weight}, max_iter=300)

    options = list(product(fraud_weights(parts.train.y), (0.01, 1.0)))
    weight, cost = best_by_auc(parts, seed, options, make)
    return fit_dense(parts, make(weight, cost)), {"weight": round(weight, 1), "C": cost}


def fraud_network(parts: Parts, seed: int, hidden: list[list[int]]) -> Fitted:
    """Fit a multilayer perceptron; layers and weight are chosen by AUC on validation rows."""
    options = list(product(fraud_weights(parts.train.y), hidden))

    def make(weight: float, layers: list[int]) -> Any:
        return _WeightedNetwork(weight, layers, seed)

    weight, layers = best_by_auc(parts, seed, options, make)
    return fit_dense(parts, make(weight, layers)), {"weight": round(weight, 1), "hidden": layers}


class _WeightedNetwork:
    """A multilayer perceptron in which rows of the second class have their own weight."""

    def __init__(self, weight: float, hidden: list[int], seed: int) -> None:
        from sklearn.neural_network import MLPClassifier

        self.weight = weight
        self.network = MLPClassifier(
            hidden, batch_size=1000, early_stopping=True, max_iter=30, random_state=seed
        )

    def fit(self, x: Array, y: Array) -> _WeightedNetwork:
        self.network.fit(x, y, sample_weight=np.where(y == 1, self.weight, 1.0))
        return self

    def predict_proba(self, x: Array) -> Array:
        return np.asarray(self.network.predict_proba(x))


def fraud_boosting(parts: Parts, seed: int, trees: int) -> Fitted:
    """Fit MART by LightGBM; learning rate and weight are chosen by AUC on validation rows."""
    weight, rate = _boosting_choice(parts, seed, trees)
    model = _mart(weight, rate, trees, seed)
    return model.fit(*parts.train), {"weight": round(weight, 1), "learning_rate": rate}


def fraud_cascade(parts: Parts, seed: int, preset: str) -> Fitted:
    """Fit a MART cascade; the weight of fraud is chosen by a MART on some of the rows."""
    weight, _ = _boosting_choice(parts, seed, 100, rates=(0.1,))
    model = make_cascade(preset, seed, {"class_weight": {0: 1.0, 1: weight}})
    model.fit(*parts.train)
    return model, {"weight": round(weight, 1), **cascade_facts(model)}


def _boosting_choice(
    parts: Parts, seed: int, trees: int, rates: tuple[float, ...] = FRAUD_RATES
) -> tuple[float, float]:
    def make(weight: float, rate: float) -> Any:
        return _mart(weight, rate, trees, seed)

    options = list(product(fraud_weights(parts.train.y), rates))
    return best_by_auc(parts, seed, options, make, dense=False)


def _mart(weight: float, rate: float, trees: int, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=trees,
        learning_rate=rate,
        class_weight={0: 1.0, 1: weight},
        n_jobs=1,
        random_state=seed,
        verbose=-1,
    )


def fraud_weights(y: Array) -> list[float]:
    """Return weights of the rare class: equal to the other, balanced, and the mean of both."""
    ratio = float(np.sum(y == 0) / np.sum(y == 1))
    return [1.0, ratio**0.5, ratio]


def best_by_auc(
    parts: Parts,
    seed: int,
    options: list[tuple[Any, ...]],
    make: Callable[..., Any],
    dense: bool = True,
) -> tuple[Any, ...]:
    """Return the option whose model has the highest AUC on validation rows.

    The models learn at most ``TRIAL_ROWS`` of the training rows.
    """
    _, validation = for_choices(parts, seed)
    rows = np.random.default_rng(seed).permutation(len(parts.train.y))[:TRIAL_ROWS]
    x, y = parts.train.x[rows], parts.train.y[rows]
    x_validation = validation.x
    if dense:
        prepare = dense_columns(parts).fit(x)
        x, x_validation = prepare.transform(x), prepare.transform(x_validation)

    def score(option: tuple[Any, ...]) -> float:
        model = make(*option).fit(x, y)
        value = auc(validation.y, model.predict_proba(x_validation))
        assert value is not None, "the validation rows have one class only"
        return value

    return max(options, key=score)


LEARNERS: dict[str, Callable[..., Fitted]] = {
    learner.__name__: learner
    for learner in (
        network,
        random_forest,
        tuned_random_forest,
        boosting,
        cascade,
        polynomial_svm,
        composite_forest,
        fraud_logistic,
        fraud_network,
        fraud_boosting,
        fraud_cascade,
    )
}


# --- rows and columns ---


class Transformed:
    """A model and the transformer whose columns it learned."""

    def __init__(self, transformer: Any, model: Any) -> None:
        self.transformer = transformer
        self.model = model

    def predict(self, x: Array) -> Array:
        return np.asarray(self.model.predict(self.transformer.transform(x)))

    def predict_proba(self, x: Array) -> Array:
        return np.asarray(self.model.predict_proba(self.transformer.transform(x)))


def for_choices(parts: Parts, seed: int) -> tuple[Rows, Rows]:
    """Return rows to fit and rows to choose by: the validation rows, or a fifth of the training."""
    from sklearn.model_selection import train_test_split

    if parts.validation is not None:
        return parts.train, parts.validation
    x, x_validation, y, y_validation = train_test_split(
        *parts.train, test_size=0.2, random_state=seed, stratify=parts.train.y
    )
    return Rows(x, y), Rows(x_validation, y_validation)


def fit_dense(parts: Parts, model: Any) -> Any:
    """Return a model fitted on all training rows, with the columns it needs before it."""
    prepare = dense_columns(parts).fit(parts.train.x)
    model.fit(prepare.transform(parts.train.x), parts.train.y)
    return Transformed(prepare, model)


def dense_columns(parts: Parts) -> Any:
    """Return a transformer: numbers standardised, gaps at the median, categories one-hot."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [n for n in range(parts.train.x.shape[1]) if n not in parts.categories]
    fill = SimpleImputer(strategy="median", add_indicator=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    return make_column_transformer(
        (make_pipeline(fill, StandardScaler()), numbers), (one_hot, list(parts.categories))
    )
