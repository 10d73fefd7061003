"""Measure openTSNE against scikit-learn's t-SNE: ``python -m benchmarks.tsne [--quick]``.

An mdDF is grown on digits and on letter, and the representations of its first two layers are laid
out in the plane; the second layout starts from the first. CPU seconds are of both layers, on one
thread. ``kept`` is the share of each row's ten nearest neighbours that it still has in the plane.
Trustworthiness is high if rows that are near in the plane are near in the representation. ``moved``
is how far rows go from one panel to the next, relative to the spread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ._forest_data import Array, NoData, load

PERPLEXITY = 30
NEIGHBOURS = 10
LAYERS = 2

Lay = Callable[[Array, Array | None], Array]


def representations(name: str, n_rows: int) -> list[Array]:
    from deepforest import MarginForestClassifier

    x, y = rows_of(name, n_rows)
    forest = MarginForestClassifier(max_layers=LAYERS, patience=LAYERS, random_state=0, n_jobs=2)
    forest.learners = [
        {"kind": "random_forest", "n_estimators": 30},
        {"kind": "extra_trees", "count": 2, "n_estimators": 30},
    ]
    forest.fit(x, y)
    return [forest.transform(x, layer=layer) for layer in range(1, forest.n_layers_ + 1)]


def rows_of(name: str, n_rows: int) -> tuple[Array, Array]:
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)  # type: ignore[no-any-return]
    split = load(name)
    return split.x[:n_rows], split.y[:n_rows]


def lay_by_scikit_learn(points: Array, start: Array | None) -> Array:
    from sklearn.manifold import TSNE

    # The scale that scikit-learn expects of a start, as its own PCA start has it.
    begun: Any = "pca" if start is None else start / start[:, 0].std() * 1e-4
    return np.asarray(
        TSNE(perplexity=PERPLEXITY, init=begun, random_state=0, n_jobs=1).fit_transform(points)
    )


def by_open_tsne(method: str) -> Lay:
    def lay(points: Array, start: Array | None) -> Array:
        from openTSNE import TSNE
        from openTSNE.initialization import rescale

        begun = "pca" if start is None else rescale(start)
        settings = {
            "neighbors": "exact",
            "negative_gradient_method": method,
            "random_state": 0,
            "n_jobs": 1,
        }
        return np.asarray(TSNE(perplexity=PERPLEXITY, initialization=begun, **settings).fit(points))

    return lay


SIDES: dict[str, Lay] = {
    "scikit-learn, Barnes-Hut": lay_by_scikit_learn,
    "openTSNE, Barnes-Hut": by_open_tsne("bh"),
    "openTSNE, interpolated": by_open_tsne("fft"),
}


def neighbours_kept(points: Array, plane: Array) -> float:
    from sklearn.neighbors import NearestNeighbors

    there, here = (
        NearestNeighbors(n_neighbors=NEIGHBOURS).fit(each).kneighbors(return_distance=False)
        for each in (points, plane)
    )
    common = [len(np.intersect1d(a, b)) for a, b in zip(there, here, strict=True)]
    return float(np.mean(common)) / NEIGHBOURS


def moved(before: Array, after: Array) -> float:
    from scipy.spatial import procrustes

    # A turned or mirrored panel is the same layout: compare after the best rotation.
    return float(np.sqrt(procrustes(before, after)[2]))


def measure(name: str, n_rows: int) -> None:
    from sklearn.manifold import trustworthiness

    points = [each.astype(np.float32) for each in representations(name, n_rows)]
    for title, lay in SIDES.items():
        began = time.process_time()
        panels: list[Array] = []
        for each in points:
            panels.append(lay(each, panels[-1] if panels else None))
        seconds = time.process_time() - began
        pairs = list(zip(points, panels, strict=True))
        kept = np.mean([neighbours_kept(*pair) for pair in pairs])
        trusted = np.mean([trustworthiness(*pair, n_neighbors=NEIGHBOURS) for pair in pairs])
        ways = [moved(a, b) for a, b in pairwise(panels)]
        print(
            f"{name}, {len(points[0]):,} rows, {len(points)} layers".ljust(32)
            + f"{title:<26} {seconds:7.1f} s   kept {kept:.3f}   trustworthy {trusted:.4f}   "
            + f"moved {np.mean(ways) if ways else 0:.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="digits only")
    quick = parser.parse_args().quick
    sets = [("digits", 1797)]
    if not quick:
        sets += [("letter", 2000), ("letter", 5000)]
    for name, n_rows in sets:
        try:
            measure(name, n_rows)
        except NoData as reason:
            print(f"{name}: left out, {reason}")


if __name__ == "__main__":
    main()
