"""Write the sample tables of ``data/`` from the data sets that scikit-learn ships.

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


def _compact(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64) if np.array_equal(values, np.round(values)) else values


if __name__ == "__main__":
    for sample in ("digits", "breast-cancer", "wine", "iris", "diabetes"):
        pa_csv.write_csv(
            table(sample), DATA / f"{sample}.csv", pa_csv.WriteOptions(quoting_style="needed")
        )
