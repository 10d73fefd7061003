"""Write the sample tables of ``data/``: the data sets that scikit-learn ships, and customers.

Run ``python -m sample_pipelines.make_data``. The files are in the repository, so this is only
needed to change them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

DATA = Path(__file__).parent / "data"
CELL = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
)
WINE = (
    *(
        "alcohol",
        "malic_acid",
        "ash",
        "alcalinity_of_ash",
        "magnesium",
        "total_phenols",
        "flavanoids",
    ),
    *(
        "nonflavanoid_phenols",
        "proanthocyanins",
        "color_intensity",
        "hue",
        "od280/od315",
        "proline",
    ),
)
DIABETES = (
    *("age", "sex", "bmi", "blood_pressure", "total_cholesterol", "ldl", "hdl"),
    *("cholesterol_ratio", "log_triglycerides", "blood_sugar"),
)
GROWERS = ("grower 1", "grower 2", "grower 3")


def table(name: str) -> pa.Table:
    """Return a sample: its features, then its target. Columns of whole numbers are integers."""
    from sklearn.datasets import (
        load_breast_cancer,
        load_diabetes,
        load_digits,
        load_iris,
        load_wine,
    )

    match name:
        case "digits":
            data, target, classes = load_digits(), "digit", range(10)
            features = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
        case "breast-cancer":
            data, target, classes = load_breast_cancer(), "diagnosis", ("malignant", "benign")
            features = [
                f"{prefix} {measure}"
                for prefix in ("mean", "error of", "worst")
                for measure in CELL
            ]
        case "wine":
            data, target, classes, features = load_wine(), "grower", GROWERS, list(WINE)
        case "diabetes":
            data = load_diabetes(scaled=False)
            values = [*data.data.T, data.target]
            names = [*DIABETES, "progression"]
            return pa.table([_compact(column) for column in values], names=names)
        case _:
            data, target, classes = load_iris(), "species", ("setosa", "versicolor", "virginica")
            features = list(data.feature_names)
    columns = {feature: _compact(data.data[:, index]) for index, feature in enumerate(features)}
    return pa.table(columns | {target: pa.array(classes).take(pa.array(data.target))})


def customers(count: int = 300, visits: int = 6, seed: int = 0) -> pa.Table:
    """Return visits of customers, who stay or leave; most columns are those of the customer.

    A model that has seen a customer knows the others of its visits by these columns. So rows that
    are held out one by one promise more than a model finds for a new customer.
    """
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 15, count), 18, 90).round()
    months = rng.gamma(2.0, 18.0, count).round(1)
    distance = rng.lognormal(1.5, 0.8, count).round(1)
    spending = rng.lognormal(4.0, 0.5, count).round(2)
    # Half of what decides is in the columns; the other half is the customer's own.
    known = 0.6 * (distance > 6) - 0.02 * months + 0.01 * (age - 45)
    score = (known - known.mean()) / known.std() + rng.normal(size=count)
    leaves = score > np.quantile(score, 0.7)
    who = np.repeat(np.arange(count), visits)
    columns = {
        "customer": who + 1,
        "age": age[who],
        "months": months[who],
        "distance": distance[who],
        "mean_spending": spending[who],
        "visit": np.tile(np.arange(1, visits + 1), count),
        "minutes": rng.gamma(4.0, 6.0, len(who)).round(1),
        "items": 1 + rng.poisson(3 - leaves[who]),
        "complaints": rng.poisson(0.1 + 0.15 * leaves[who]),
    }
    table = {name: _compact(values) for name, values in columns.items()}
    return pa.table(table | {"leaves": pa.array(np.where(leaves[who], "yes", "no"))})


def _compact(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64) if np.array_equal(values, np.round(values)) else values


if __name__ == "__main__":
    samples = ("digits", "breast-cancer", "wine", "iris", "diabetes")
    tables = {name: table(name) for name in samples} | {"customers": customers()}
    for sample, rows in tables.items():
        pa_csv.write_csv(rows, DATA / f"{sample}.csv", pa_csv.WriteOptions(quoting_style="needed"))
