"""The tables that come with the studio: four classics that scikit-learn ships as files, and generated payments.

The files are read directly: importing ``sklearn.datasets`` takes seconds, reading them takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import BadInput
from engine.node_types import Column, Columns
from engine.text import listed
from nodes.data import fraud_sample

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "sample:"

CELL = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
)
WINE = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids"),
    *("nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315", "proline"),
)


@dataclass(frozen=True)
class Sample:
    """A built-in table, and what is known of it without reading it."""

    title: str
    features: tuple[str, ...]
    target: str
    file: str
    labels: tuple[str, ...] = ()
    """Names of the classes that the file has as numbers; such a file begins with a line of its own."""

    @cached_property
    def columns(self) -> Columns:
        """Features and target, in the order of the file."""
        return (*(Column(name, "number") for name in self.features), Column(self.target, "category", "target"))

    def read(self) -> pa.Table:
        """The table, labels in words."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        names = pa_csv.ReadOptions(column_names=[*self.features, self.target], skip_rows=1 if self.labels else 0)
        data = pa_csv.read_csv(str(_scikit_learn_data() / self.file), read_options=names)
        codes = data.column(self.target)
        labels = pa.array(self.labels).take(codes) if self.labels else codes
        return data.set_column(len(self.features), self.target, labels)


FILES = {
    "digits": Sample(
        "Handwritten digits, 8 by 8 pixels",
        tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8)),
        "digit",
        "digits.csv.gz",
    ),
    "breast-cancer": Sample(
        "Breast cancer, cell nuclei measured",
        tuple(f"{word} {name}" for word in ("mean", "error of", "worst") for name in CELL),
        "diagnosis",
        "breast_cancer.csv",
        ("malignant", "benign"),
    ),
    "wine": Sample("Wine of three growers", WINE, "grower", "wine_data.csv", ("grower 1", "grower 2", "grower 3")),
    "iris": Sample(
        "Iris flowers of three species",
        ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"),
        "species",
        "iris.csv",
        ("setosa", "versicolor", "virginica"),
    ),
}
NAMES = (*FILES, "fraud")


def sample_name(source: str) -> str | None:
    """The sample that ``source`` means, ``None`` if it means a file."""
    if not source.startswith(PREFIX):
        return None
    name = source.removeprefix(PREFIX)
    if name not in NAMES:
        raise BadInput(f"there is no sample '{name}'; the samples are {listed(NAMES, most=9)}", field="source")
    return name


def sample_columns(name: str) -> Columns:
    """Its columns, with the roles they have unless others are chosen."""
    return fraud_sample.COLUMNS if name == "fraud" else FILES[name].columns


def read_sample(name: str, rows: int, fraud_share: float, seed: int) -> pa.Table:
    """The sample's table; the last three say how to generate ``fraud``."""
    return fraud_sample.payments(rows, fraud_share, seed) if name == "fraud" else FILES[name].read()


def _scikit_learn_data() -> Path:
    found = find_spec("sklearn")
    assert found is not None and found.origin is not None  # a dependency of this project
    return Path(found.origin).parent / "datasets" / "data"
