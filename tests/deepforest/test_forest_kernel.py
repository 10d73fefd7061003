"""The compiled kernel does what a plain implementation does."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepforest.forest import BinnedMatrix, Binner, ForestSettings, GrownForest, grow_forest
from deepforest.forest import kernels as K  # noqa: N812
from deepforest.forest.forest import Forest, check_forest
from tests.expect import refused

from . import forest_reference as reference

SPLITTERS = ["best", "random", "completely_random"]


class Problem:
    """A small random problem, its bins made by hand so that every kind of column turns up."""

    def __init__(
        self, seed: int, n_rows: int, n_features: int, n_classes: int, levels: int, missing: float
    ) -> None:
        rng = np.random.default_rng(seed)
        values = rng.integers(0, levels, (n_rows, n_features)).astype(float)
        values[rng.random(values.shape) < missing] = np.nan
        self.n_classes = n_classes
        self.values = values
        signal = np.nan_to_num(values[:, 0], nan=levels / 2) / levels
        if n_classes:
            noisy = signal * n_classes + rng.normal(0, 0.7, n_rows)
            self.target = np.clip(noisy, 0, n_classes - 1).astype(np.int32)
        else:
            self.target = np.round(signal + rng.normal(0, 0.3, n_rows), 2)
        self.weights = rng.integers(1, 5, n_rows) / 2.0
        self.matrix = Binner().fit(values).bin(values)

    def grow(self, **changes: Any) -> GrownForest:
        names = (
            "rows",
            "held_out",
            "out_of_bag",
            "sample_weight",
            "seed",
            "n_jobs",
            "executor",
            "interrupt",
        )
        extra = {name: changes.pop(name) for name in names if name in changes}
        settings = ForestSettings(**{"n_trees": 3, "max_features": None, **changes})
        return grow_forest(self.matrix, self.target, settings, n_classes=self.n_classes, **extra)


problems = st.builds(
    Problem,
    seed=st.integers(0, 10_000),
    n_rows=st.sampled_from([2, 3, 9, 40, 150, 400]),
    n_features=st.integers(1, 5),
    n_classes=st.sampled_from([0, 2, 3, 7]),
    levels=st.sampled_from([1, 2, 5, 30, 1000]),
    missing=st.sampled_from([0.0, 0.0, 0.2, 0.9]),
)


def assert_best_splits(
    problem: Problem, grown: GrownForest, weights: Any, min_leaf: int = 1
) -> None:
    bins = problem.matrix.rows
    everyone = np.arange(len(bins))
    for tree in range(grown.forest.n_trees):
        nodes = reference.tree_nodes(grown.forest, tree)
        for at, here in reference.rows_by_node(grown.forest, tree, bins, everyone).items():
            target, w = problem.target[here], weights[here]
            best = reference.best_gain(bins[here], target, w, problem.n_classes, min_leaf)
            if nodes[at].feature < 0:
                assert len(set(target.tolist())) == 1 or best is None
                continue
            left = np.array(
                [reference.goes_left(int(b), nodes[at]) for b in bins[here, nodes[at].feature]]
            )
            assert best is not None
            assert reference.gain(target, w, left, problem.n_classes) == pytest.approx(
                best, abs=1e-7
            )
            assert min(left.sum(), (~left).sum()) >= min_leaf


@settings(deadline=None)
@given(problem=problems, min_leaf=st.sampled_from([1, 1, 3]), weighted=st.booleans())
def test_every_node_has_the_best_split_of_the_reference(
    problem: Problem, min_leaf: int, weighted: bool
) -> None:
    weights = problem.weights if weighted else np.ones(len(problem.target))
    grown = problem.grow(
        n_trees=1,
        bootstrap=False,
        min_samples_leaf=min_leaf,
        sample_weight=weights if weighted else None,
    )
    if min_leaf == 1:
        assert_best_splits(problem, grown, weights)
    else:
        bins, nodes = problem.matrix.rows, reference.tree_nodes(grown.forest, 0)
        for at, here in reference.rows_by_node(grown.forest, 0, bins, np.arange(len(bins))).items():
            assert len(here) >= min(min_leaf, len(bins))
            if nodes[at].feature >= 0:
                node = nodes[at]
                left = np.array(
                    [reference.goes_left(int(b), node) for b in bins[here, node.feature]]
                )
                target, w = problem.target[here], weights[here]
                best = reference.best_gain(bins[here], target, w, problem.n_classes, min_leaf)
                assert reference.gain(target, w, left, problem.n_classes) == pytest.approx(
                    best, abs=1e-7
                )


@settings(deadline=None)
@given(problem=problems, splitter=st.sampled_from(SPLITTERS), weighted=st.booleans())
def test_leaves_hold_the_counts_of_their_rows(
    problem: Problem, splitter: str, weighted: bool
) -> None:
    weights = problem.weights if weighted else np.ones(len(problem.target))
    grown = problem.grow(
        splitter=splitter,
        bootstrap=False,
        max_depth=3,
        sample_weight=weights if weighted else None,
        max_features="sqrt",
    )
    bins = problem.matrix.rows
    for tree in range(grown.forest.n_trees):
        nodes = reference.tree_nodes(grown.forest, tree)
        for at, here in reference.rows_by_node(
            grown.forest, tree, bins, np.arange(len(bins))
        ).items():
            if nodes[at].feature >= 0:
                continue
            vector = reference.leaf_vector(grown.forest, nodes[at])
            if problem.n_classes:
                wanted = (
                    np.bincount(problem.target[here], weights[here], problem.n_classes)
                    / weights[here].sum()
                )
            else:
                wanted = [np.average(problem.target[here], weights=weights[here])]
            np.testing.assert_allclose(vector, wanted, atol=1e-6)


@settings(deadline=None)
@given(problem=problems, splitter=st.sampled_from(SPLITTERS), weighted=st.booleans())
def test_out_of_bag_vectors_equal_a_real_traversal(
    problem: Problem, splitter: str, weighted: bool
) -> None:
    weights = problem.weights if weighted else None
    grown = problem.grow(
        splitter=splitter, out_of_bag=True, sample_weight=weights, seed=5, n_trees=4
    )
    n = len(problem.target)
    sums, votes = np.zeros((n, grown.forest.n_outputs)), np.zeros(n, int)
    for tree in range(4):
        counts, state = np.zeros(n, np.uint8), np.zeros(1, np.uint64)
        K.draw_bag(
            np.arange(n, dtype=np.uint32), n, K.seed_of_tree(5, tree) ^ 0x5DEECE66D, state, counts
        )
        out = counts == 0
        sums[out] += reference.traverse(grown.forest, tree, problem.matrix.rows[out])
        votes += out
    np.testing.assert_array_equal(grown.votes, votes)
    np.testing.assert_allclose(grown.vectors, sums / np.maximum(votes, 1)[:, None], atol=2e-6)


@settings(deadline=None)
@given(
    problem=problems,
    splitter=st.sampled_from(SPLITTERS),
    bootstrap=st.booleans(),
    weighted=st.booleans(),
)
def test_held_out_vectors_equal_a_prediction(
    problem: Problem, splitter: str, bootstrap: bool, weighted: bool
) -> None:
    everyone = np.arange(len(problem.target))
    held_out, rows = everyone[everyone % 3 == 1], everyone[everyone % 3 != 1]
    weights = problem.weights if weighted else None
    grown = problem.grow(
        splitter=splitter, rows=rows, held_out=held_out, bootstrap=bootstrap, sample_weight=weights
    )
    wanted = grown.forest.predict(problem.matrix.rows[held_out])
    np.testing.assert_array_equal(grown.predict_rows, held_out)
    np.testing.assert_allclose(grown.vectors, wanted, atol=2e-6)
    assert (grown.votes == 3).all()
    slow = (
        sum(
            reference.traverse(grown.forest, tree, problem.matrix.rows[held_out])
            for tree in range(3)
        )
        / 3
    )
    np.testing.assert_allclose(wanted, slow, atol=2e-6)


@settings(deadline=None)
@given(problem=problems, splitter=st.sampled_from(SPLITTERS))
def test_whole_weights_equal_repeated_rows(problem: Problem, splitter: str) -> None:
    times = np.arange(len(problem.target)) % 4
    if not times.any():
        return
    weighted = problem.grow(splitter=splitter, bootstrap=False, sample_weight=times.astype(float))
    repeated = BinnedMatrix(int(times.sum()), problem.matrix.capacity)
    repeated.columns[:] = np.repeat(problem.matrix.columns, times, axis=1)
    repeated.rows[:] = np.repeat(problem.matrix.rows, times, axis=0)
    repeated.n_bins[:], repeated.n_features = problem.matrix.n_bins, problem.matrix.n_features
    settings = ForestSettings(n_trees=3, splitter=splitter, max_features=None, bootstrap=False)
    same = grow_forest(
        repeated, np.repeat(problem.target, times), settings, n_classes=problem.n_classes
    )
    rows = problem.matrix.rows[
        times > 0
    ]  # elsewhere, equally good cuts may tell rows apart that none learned from
    np.testing.assert_allclose(weighted.forest.predict(rows), same.forest.predict(rows), atol=1e-6)


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("n_classes", [0, 2, 5])
def test_the_result_is_the_same_for_any_number_of_threads(splitter: str, n_classes: int) -> None:
    problem = Problem(1, 300, 4, n_classes, 50, 0.1)
    one, many = (
        problem.grow(n_trees=17, splitter=splitter, out_of_bag=True, n_jobs=n_jobs, max_depth=4)
        for n_jobs in (1, 4)
    )
    for name, array in one.forest.arrays().items():
        np.testing.assert_array_equal(array, many.forest.arrays()[name], err_msg=name)
    np.testing.assert_array_equal(one.vectors, many.vectors)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_depth_and_size_of_leaves_are_kept(splitter: str) -> None:
    problem = Problem(2, 400, 4, 3, 100, 0.1)
    grown = problem.grow(
        splitter=splitter, max_depth=3, min_samples_leaf=7, bootstrap=False, max_features=2
    )
    bins = problem.matrix.rows
    for tree in range(grown.forest.n_trees):
        nodes = reference.tree_nodes(grown.forest, tree)
        depth = {0: 0}
        for at, node in enumerate(nodes):
            if node.feature >= 0:
                depth[node.value] = depth[node.value + 1] = depth[at] + 1
        assert max(depth.values()) <= 3
        reached = reference.rows_by_node(grown.forest, tree, bins, np.arange(400))
        assert min(len(here) for here in reached.values()) >= 7


def test_min_samples_split_and_leaf_weight_are_kept() -> None:
    problem = Problem(3, 400, 4, 3, 100, 0.1)
    bins, everyone = problem.matrix.rows, np.arange(400)
    grown = problem.grow(min_samples_split=50, bootstrap=False)
    for at, here in reference.rows_by_node(grown.forest, 0, bins, everyone).items():
        assert reference.tree_nodes(grown.forest, 0)[at].feature < 0 or len(here) >= 50
    for splitter in SPLITTERS:
        grown = problem.grow(
            splitter=splitter,
            min_weight_fraction_leaf=0.1,
            bootstrap=False,
            sample_weight=problem.weights,
        )
        for here in reference.rows_by_node(grown.forest, 0, bins, everyone).values():
            assert problem.weights[here].sum() >= 0.1 * problem.weights.sum() - 1e-9


def test_completely_random_trees_are_pure_and_blind_to_the_classes() -> None:
    problem = Problem(4, 200, 3, 5, 1000, 0.0)
    grown = problem.grow(splitter="completely_random", bootstrap=False, n_trees=5)
    np.testing.assert_array_equal(
        grown.forest.predict(problem.matrix.rows).argmax(axis=1), problem.target
    )
    assert len(grown.forest.leaf_share) == 0  # a pure leaf stores its class only
    assert grown.forest.importances.sum() == 0.0
    measured = problem.grow(splitter="completely_random", bootstrap=False, n_trees=5, measure=True)
    np.testing.assert_array_equal(measured.forest.nodes, grown.forest.nodes)
    assert measured.forest.feature_importances().sum() == pytest.approx(1.0)


def test_completely_random_trees_choose_among_features_that_vary() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [np.zeros(300), rng.random(300), np.ones(300), rng.random(300), np.full(300, np.nan)]
    )
    matrix = Binner().fit(values).bin(values)
    target = rng.integers(0, 2, 300)
    settings = ForestSettings(n_trees=200, splitter="completely_random", bootstrap=False)
    forest = grow_forest(matrix, target, settings, n_classes=2).forest
    used = np.array(
        [reference.unpack(int(forest.nodes[root])).feature for root in forest.roots[:-1]]
    )
    assert set(used) == {1, 3}
    assert 60 <= (used == 1).sum() <= 140


@pytest.mark.parametrize("n_classes", [0, 2, 5])
@pytest.mark.parametrize("n_rows", [40, 2000])
@pytest.mark.parametrize("max_features", [1, 3, 7, None])
def test_constant_features_are_passed_over(
    n_classes: int, n_rows: int, max_features: int | None
) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((n_rows, 9))
    values[:, [0, 3, 4, 5, 8]] = 1.0
    target = rng.integers(0, n_classes, n_rows) if n_classes else rng.random(n_rows)
    matrix = Binner().fit(values).bin(values)
    settings = ForestSettings(n_trees=30, max_features=max_features, bootstrap=False)
    forest = grow_forest(matrix, target, settings, n_classes=n_classes).forest
    used = np.array(
        [reference.unpack(int(forest.nodes[root])).feature for root in forest.roots[:-1]]
    )
    assert set(used) <= {1, 2, 6, 7}
    assert len(set(used)) > 1 or max_features is None
    np.testing.assert_array_equal(np.flatnonzero(forest.importances), [1, 2, 6, 7])
    predicted = forest.predict(
        matrix.rows
    )  # grown to the end, which is where the bins tell no more rows apart
    distinct = np.unique(matrix.rows, axis=0, return_inverse=True)[1].reshape(-1)
    alone = np.bincount(distinct)[distinct] == 1
    wanted = np.eye(n_classes)[target] if n_classes else target[:, None]
    np.testing.assert_allclose(predicted[alone], wanted[alone], atol=1e-6)


def test_missing_values_go_where_they_help() -> None:
    values = np.array([[0.0], [1.0], [2.0], [3.0], [np.nan], [np.nan]])
    for classes in ([0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]):
        matrix = Binner().fit(values).bin(values)
        forest = grow_forest(
            matrix, np.array(classes), ForestSettings(n_trees=1, bootstrap=False), n_classes=2
        ).forest
        assert len(forest.nodes) == 3  # one cut is enough
        np.testing.assert_array_equal(forest.predict(matrix.rows).argmax(axis=1), classes)


def test_missing_values_never_seen_follow_the_larger_part() -> None:
    values = np.arange(10.0)[:, None]
    target = (values[:, 0] > 2).astype(int)
    binner = Binner().fit(values)
    forest = grow_forest(
        binner.bin(values), target, ForestSettings(n_trees=5, bootstrap=False), n_classes=2
    ).forest
    assert forest.predict(binner.bin_rows(np.array([[np.nan]]))).argmax() == 1


@pytest.mark.parametrize("splitter", ["best", "random"])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_importances_match_the_reference(splitter: str, n_classes: int, weighted: bool) -> None:
    # More features than there are lanes for random cuts, so that groups of them are compared.
    problem = Problem(6, 150, 11, n_classes, 20, 0.1)
    weights = problem.weights if weighted else np.ones(150)
    grown = problem.grow(
        n_trees=1, bootstrap=False, splitter=splitter, sample_weight=weights if weighted else None
    )
    bins, nodes = problem.matrix.rows, reference.tree_nodes(grown.forest, 0)
    wanted = np.zeros(11)
    for at, here in reference.rows_by_node(grown.forest, 0, bins, np.arange(150)).items():
        if nodes[at].feature >= 0:
            left = np.array(
                [reference.goes_left(int(b), nodes[at]) for b in bins[here, nodes[at].feature]]
            )
            wanted[nodes[at].feature] += reference.gain(
                problem.target[here], weights[here], left, n_classes
            )
    np.testing.assert_allclose(grown.forest.feature_importances(), wanted / wanted.sum(), atol=1e-9)


def test_bags_are_drawn_evenly_and_differ_between_trees() -> None:
    rows, state = np.arange(5000, dtype=np.uint32), np.zeros(1, np.uint64)
    bags = []
    for tree in range(2):
        counts = np.zeros(5000, np.uint8)
        K.draw_bag(rows, 5000, K.seed_of_tree(0, tree), state, counts)
        assert counts.sum() == 5000
        assert (counts == 0).mean() == pytest.approx(np.exp(-1), abs=0.03)
        bags.append(counts)
    assert (bags[0] != bags[1]).any()


def test_thousands_of_classes_need_no_dense_leaves() -> None:
    n = 3000
    values = np.random.default_rng(0).random((n, 4))
    matrix = Binner().fit(values).bin(values)
    grown = grow_forest(
        matrix, np.arange(n), ForestSettings(n_trees=2, max_depth=6), n_classes=n, out_of_bag=True
    )
    assert len(grown.forest.leaf_share) <= 2 * n
    np.testing.assert_allclose(grown.forest.predict(matrix.rows[:50]).sum(axis=1), 1.0, atol=1e-6)


def test_rows_of_weight_zero_are_not_learned_from() -> None:
    problem = Problem(8, 100, 3, 2, 50, 0.0)
    weights = (np.arange(100) % 2).astype(float)
    grown = problem.grow(sample_weight=weights, out_of_bag=True, n_trees=20)
    assert (grown.votes[weights == 0] == 20).all()


@pytest.mark.parametrize(
    "changes",
    [{"splitter": "worst"}, {"max_features": "all"}, {"max_features": 0}, {"max_features": 1.5}],
)
def test_wrong_settings_say_what_is_wrong(changes: dict[str, Any]) -> None:
    [(name, value)] = changes.items()
    with refused(ValueError, naming=[name, repr(value)]):
        Problem(0, 9, 1, 2, 5, 0.0).grow(**changes)


class Stopped(Exception):
    """What an interrupt raises here."""


@pytest.mark.parametrize("threads", ["none", "own", "given"])
def test_an_interrupt_ends_the_growth(threads: str) -> None:
    problem = Problem(9, 400, 4, 3, 100, 0.0)
    calls: list[int] = []

    def interrupt() -> None:
        calls.append(threading.get_ident())
        if len(calls) == 5:
            raise Stopped

    with ThreadPoolExecutor(2) as pool:
        executor = pool if threads == "given" else None
        with pytest.raises(Stopped):
            problem.grow(
                n_trees=500,
                n_jobs=1 if threads == "none" else 2,
                executor=executor,
                interrupt=interrupt,
            )
        n_calls = len(calls)
        pool.submit(int).result()
        assert (
            len(calls) == n_calls <= 6
        )  # one may just have started; nothing grows on behind the caller's back
        assert (threading.get_ident() in calls) == (threads == "none")


def test_an_interrupt_that_stays_silent_is_asked_once_a_tree() -> None:
    problem, calls = Problem(9, 100, 4, 3, 100, 0.0), []
    for n_jobs in (1, 2):
        asked = problem.grow(n_trees=7, n_jobs=n_jobs, interrupt=lambda: calls.append(1))
        np.testing.assert_array_equal(asked.forest.nodes, problem.grow(n_trees=7).forest.nodes)
    assert len(calls) == 14


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("n_classes", [0, 2, 5])
@pytest.mark.parametrize("max_depth", [0, 3, None])
def test_every_grown_forest_passes_the_check(
    splitter: str, n_classes: int, max_depth: int | None
) -> None:
    check_forest(
        Problem(1, 300, 4, n_classes, 50, 0.1).grow(splitter=splitter, max_depth=max_depth).forest
    )


def changed(array: Any, at: int, value: Any) -> Any:
    array = array.copy()
    array[at] = value
    return array


def with_node(forest: Forest, at: int, feature: int, value: int) -> Any:
    """The nodes with another one at ``at``; its cut stays what it was."""
    cut = int(forest.nodes[at]) & (0x1FF << 32)
    return changed(forest.nodes, at, np.uint64(feature << 41 | cut | value))


def first_node(forest: Forest, leaf: bool, shared: bool = False) -> int:
    """A node of the second tree."""
    nodes = reference.tree_nodes(forest, 1)
    fitting = [
        i
        for i, node in enumerate(nodes)
        if (node.feature < 0) == leaf and (node.value >= K.SHARED) == shared
    ]
    return int(forest.roots[1]) + fitting[0]


CORRUPTIONS: list[tuple[str, int, Any]] = [
    ("nodes uint64", 5, lambda f: {"nodes": f.nodes.astype(np.int64)}),
    ("nodes uint64", 5, lambda f: {"nodes": f.nodes.astype(">u8")}),
    ("nodes uint64", 5, lambda f: {"nodes": f.nodes[None]}),
    ("leaf_class uint16", 5, lambda f: {"leaf_class": f.leaf_class.astype(np.int32)}),
    ("-1 features", 5, lambda f: {"n_features": -1}),
    ("8388607 features", 5, lambda f: {"n_features": K.LEAF}),
    ("-1 classes", 5, lambda f: {"n_classes": -1}),
    ("importances match", 5, lambda f: {"importances": f.importances[1:]}),
    ("importances finite", 5, lambda f: {"importances": f.importances * np.nan}),
    ("roots", 5, lambda f: {"roots": f.roots[:1]}),
    ("roots", 5, lambda f: {"roots": f.roots[:0]}),
    ("roots", 5, lambda f: {"roots": f.roots[1:]}),
    ("roots", 5, lambda f: {"roots": changed(f.roots, -1, len(f.nodes) + 1)}),
    ("roots", 5, lambda f: {"roots": changed(f.roots, 1, f.roots[2])}),
    ("roots", 5, lambda f: {"roots": changed(f.roots, 1, -1)}),
    ("roots", 5, lambda f: {"nodes": f.nodes[:0], "roots": f.roots[:1]}),
    ("cuts feature", 5, lambda f: {"nodes": with_node(f, 0, 4, 1)}),
    ("before parent", 5, lambda f: {"nodes": with_node(f, 0, 0, 0)}),
    ("outside tree", 5, lambda f: {"nodes": with_node(f, 0, 0, int(f.roots[1]) - 1)}),
    ("outside tree", 5, lambda f: {"nodes": with_node(f, 0, 0, 0xFFFFFFFF)}),
    ("parent two", 5, lambda f: {"nodes": with_node(f, 0, 0, 2)}),
    ("parent two", 5, lambda f: {"nodes": with_node(f, first_node(f, leaf=False), K.LEAF, 0)}),
    ("unknown class", 5, lambda f: {"nodes": with_node(f, first_node(f, leaf=True), K.LEAF, 5)}),
    ("unknown class", 5, lambda f: {"leaf_class": changed(f.leaf_class, 3, 5)}),
    (
        "distribution",
        5,
        lambda f: {"nodes": with_node(f, first_node(f, True), K.LEAF, K.SHARED + 10_000)},
    ),
    ("leaf_start", 5, lambda f: {"leaf_start": f.leaf_start[:-1]}),
    ("leaf_start", 5, lambda f: {"leaf_start": f.leaf_start[:0]}),
    ("leaf_start", 5, lambda f: {"leaf_start": changed(f.leaf_start, 1, f.leaf_start[2] + 1)}),
    ("leaf_start", 5, lambda f: {"leaf_start": changed(f.leaf_start, 0, -1)}),
    ("length", 5, lambda f: {"leaf_share": f.leaf_share[1:]}),
    ("[0, 1]", 5, lambda f: {"leaf_share": changed(f.leaf_share, 0, np.nan)}),
    ("[0, 1]", 5, lambda f: {"leaf_share": changed(f.leaf_share, 0, -0.5)}),
    ("[0, 1]", 5, lambda f: {"leaf_share": changed(f.leaf_share, 0, 1.5)}),
    ("values regression", 5, lambda f: {"leaf_value": np.zeros(3)}),
    ("values regression", 0, lambda f: {"leaf_value": f.leaf_value[:0]}),
    ("leaf finite", 0, lambda f: {"leaf_value": f.leaf_value * np.inf}),
    ("no value", 0, lambda f: {"leaf_value": f.leaf_value[:-1]}),
    ("no value", 0, lambda f: {"nodes": with_node(f, first_node(f, True, shared=True), K.LEAF, 0)}),
]


@pytest.mark.parametrize(("words", "n_classes", "change"), CORRUPTIONS)
def test_a_corrupt_forest_is_refused(words: str, n_classes: int, change: Any) -> None:
    forest = Problem(1, 300, 4, n_classes, 50, 0.1).grow(max_depth=5).forest
    check_forest(forest)
    with refused(ValueError, naming=["forest", *words.split()]):
        check_forest(replace(forest, **change(forest)))


def test_a_check_of_many_classes_looks_at_negative_ones() -> None:
    forest = Problem(1, 300, 4, 5, 50, 0.1).grow(max_depth=5).forest
    wide = replace(forest, n_classes=70_000, leaf_class=forest.leaf_class.astype(np.int32))
    check_forest(wide)
    with refused(ValueError, naming="unknown class"):
        check_forest(replace(wide, leaf_class=changed(wide.leaf_class, 0, -1)))
