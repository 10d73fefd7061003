"""A row's prediction has the same bits whatever rows are sent with it, and on every processor."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    HistForestClassifier,
    HistForestRegressor,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
)
from deepforest.arithmetic import class_probabilities, row_products, weighted_sum
from tests.expect import assert_same_bits

DIGITS, CLASSES = load_digits(return_X_y=True)
X, Y = DIGITS[:400], CLASSES[:400]
ASKED = DIGITS[400:461] + np.random.default_rng(0).random((61, 64))
FORESTS = [
    {"kind": kind, "n_estimators": 4}
    for kind in ("random_forest", "completely_random_forest", "extra_trees")
]
LEARNERS = [*FORESTS, {"kind": "mart", "n_estimators": 4}]
SMALL = {"cv": 3, "max_layers": 2, "patience": 2, "random_state": 0}
MODELS: dict[str, tuple[Any, Any]] = {
    "cascade": (CascadeForestClassifier(LEARNERS, **SMALL), Y),
    "cascade of two classes": (CascadeForestClassifier(LEARNERS, **SMALL), Y % 2),
    "cascade of three learners, mean": (
        CascadeForestClassifier(FORESTS, combine="mean", **SMALL),
        Y,
    ),
    "cascade on selected columns": (
        CascadeForestClassifier(LEARNERS, selector=MartSelector(20, n_estimators=4), **SMALL),
        Y,
    ),
    "cascade in the papers' way": (
        CascadeForestClassifier(LEARNERS, resampling="per_layer", **SMALL),
        Y,
    ),
    "mdDF": (MarginForestClassifier(FORESTS, **SMALL), Y),
    "screening": (ScreenedForestClassifier(FORESTS, **SMALL), Y),
    "cascade regressor": (
        CascadeForestRegressor(LEARNERS, combine="weighted", **SMALL),
        Y + X[:, 20],
    ),
    "forest": (HistForestClassifier(9, random_state=0), Y),
    "forest regressor": (HistForestRegressor(9, random_state=0), Y + X[:, 20]),
    "selector": (MartSelector(20, n_estimators=4, random_state=0), Y),
}
METHODS = ("predict_proba", "predict_log_proba", "predict", "transform", "apply")


@cache
def fitted(name: str) -> Any:
    model, y = MODELS[name]
    return model.fit(X, y)


def stacked(staged: Callable[[Any], Iterator[Any]], x: Any) -> Any:
    return np.stack(list(staged(x)), axis=1)


def answers(model: Any) -> dict[str, Callable[[Any], Any]]:
    """Everything the model says of rows."""
    found = {name: getattr(model, name) for name in METHODS if hasattr(model, name)}
    for name in ("staged_predict_proba", "staged_predict"):
        if hasattr(model, name):
            found[name] = partial(stacked, getattr(model, name))
    return found


def in_blocks(predict: Callable[[Any], Any], x: Any, rows: int) -> Any:
    return np.concatenate([predict(x[start : start + rows]) for start in range(0, len(x), rows)])


def layouts(x: Any) -> Iterator[tuple[str, Any]]:
    """The same numbers, laid out in memory in other ways."""
    yield "by column", np.asfortranarray(x)
    yield "every second row", np.repeat(x, 2, axis=0)[::2]
    yield "some of the columns", np.hstack([x, x])[:, : x.shape[1]]
    yield "backwards", np.ascontiguousarray(x[::-1])[::-1]


@pytest.mark.parametrize("name", MODELS)
def test_rows_alone_in_blocks_and_together(name: str) -> None:
    model = fitted(name)
    for method, predict in answers(model).items():
        if name == "screening" and method.startswith("staged"):
            continue  # there are fewer stages where all rows of a block have left
        whole = predict(ASKED)
        for rows in (1, 2, 3, 7, 8, 17, 60):
            assert_same_bits(
                in_blocks(predict, ASKED, rows), whole, f"{method} of {rows} rows at once"
            )
        for layout, x in layouts(ASKED):
            assert_same_bits(predict(x), whole, f"{method}, {layout}")


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_32_bits_are_the_same_numbers(name: str) -> None:
    narrow = ASKED.astype(np.float32)
    for method, predict in answers(fitted(name)).items():
        one, other = predict(narrow), predict(narrow.astype(np.float64))
        assert_same_bits(np.asarray(one, other.dtype), other, method)


# --- the sums themselves ---


def test_a_weighted_sum_adds_in_order() -> None:
    rng = np.random.default_rng(0)
    weights, arrays = rng.random(5), rng.random((5, 33, 10)).astype(np.float32)
    wanted = np.zeros((33, 10))
    for weight, array in zip(weights, arrays, strict=True):
        wanted += weight * array.astype(np.float64)
    whole = weighted_sum(weights, arrays)
    assert_same_bits(whole, wanted, "the sum")
    assert_same_bits(
        in_blocks(lambda rows: weighted_sum(weights, arrays[:, rows]), np.arange(33), 1),
        whole,
        "by row",
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("features", [1, 3, 4, 67])
def test_products_add_in_order(dtype: Any, outputs: int, features: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(43, features)).astype(dtype)
    weights, intercepts = (
        rng.normal(size=(features, outputs)).astype(dtype),
        rng.normal(size=outputs).astype(dtype),
    )
    wanted = np.tile(intercepts, (43, 1))
    for feature in range(features):
        wanted += matrix[:, feature : feature + 1] * weights[feature]
    whole = row_products(matrix, weights, intercepts)
    assert_same_bits(whole, wanted, "the products")
    for rows in (1, 7, 8, 9):
        blocks = in_blocks(lambda x: row_products(x, weights, intercepts), matrix, rows)
        assert_same_bits(blocks, whole, f"{rows} rows at once")
    for layout, x in layouts(matrix):
        assert_same_bits(row_products(x, np.asfortranarray(weights), intercepts), whole, layout)


def test_products_of_no_rows_and_of_mixed_types() -> None:
    weights, intercepts = np.ones((3, 2), np.float32), np.zeros(2, np.float32)
    assert row_products(np.empty((0, 3)), weights, intercepts).shape == (0, 2)
    assert row_products(np.ones((1, 3)), weights, intercepts).dtype == np.float64
    assert row_products(np.ones((1, 3), np.float32), weights, intercepts).tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_softmax_is_right_to_the_last_digits(classes: int) -> None:
    scores = np.random.default_rng(0).normal(scale=30, size=(500, classes))
    powers = np.exp((scores - scores.max(axis=1, keepdims=True)).astype(np.longdouble))
    wanted = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float64)
    np.testing.assert_allclose(class_probabilities(scores), wanted, rtol=2e-15)
    assert_same_bits(
        in_blocks(class_probabilities, scores, 1), class_probabilities(scores), "row by row"
    )


def test_softmax_at_the_ends_of_the_range() -> None:
    unusual = np.array(
        [[0.0, -2e300], [5.0, 5.0], [np.inf, -np.inf], [np.nan, 0.0], [np.inf, np.inf]]
    )
    assert class_probabilities(unusual).tolist() == [
        [1, 0],
        [0.5, 0.5],
        [1, 0],
        [0.5, 0.5],
        [0.5, 0.5],
    ]
    assert class_probabilities(np.array([[0.0], [-np.inf], [np.inf]])).tolist() == [
        [0.5, 0.5],
        [1, 0],
        [0, 1],
    ]
    tiny = class_probabilities(np.array([[0.0, -744.0, -747.0]]))[0]
    assert 0 < tiny[1] < 1e-320 and tiny[2] == 0


# --- another processor ---

OTHER_PROCESSOR = """
import sys
import numpy as np
import deepforest
folder, classes = sys.argv[1], sys.argv[2:]
asked = np.load(f"{folder}/asked.npy")
for number, name in enumerate(classes):
    model = getattr(deepforest, name).load(f"{folder}/{number}")
    said = model.predict_proba(asked) if hasattr(model, "predict_proba") else model.predict(asked)
    np.save(f"{folder}/{number}.npy", said)
"""


def older_processor() -> dict[str, str]:
    """An environment in which BLAS, numpy, the kernels and the C library use at most SSE."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    newer = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    return {
        **os.environ,
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": " ".join(newer),
        "NUMBA_CPU_NAME": "generic",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
    }


@pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="only x86 processors can be told to forget what they can do",
)
def test_an_older_processor_says_the_same(tmp_path: Path) -> None:
    models = [fitted(name) for name in MODELS if name != "selector"]
    for number, model in enumerate(models):
        model.save(tmp_path / str(number))
    np.save(tmp_path / "asked.npy", ASKED)
    command = [
        sys.executable,
        "-c",
        OTHER_PROCESSOR,
        str(tmp_path),
        *[type(model).__name__ for model in models],
    ]
    subprocess.run(command, env=older_processor(), check=True)
    for number, (name, model) in enumerate(zip(MODELS, models, strict=False)):
        here = (
            model.predict_proba(ASKED) if hasattr(model, "predict_proba") else model.predict(ASKED)
        )
        assert_same_bits(np.load(tmp_path / f"{number}.npy"), here, name)
