"""Offer the tables that come with the studio: four classic data sets, and generated payments.

A source ``sample:NAME`` means one of them. What is known of a sample without reading it needs no
slow import, because every check of a pipeline asks for it.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from pathlib import Path

from engine.errors import BadInput
from engine.node_types import Column, Columns
from engine.text import listed
from nodes.data import fraud_sample

PREFIX = "sample:"
TITLES = {
    "digits": "Handwritten digits, 8 by 8 pixels",
    "breast-cancer": "Breast cancer, measurements of cell nuclei",
    "wine": "Wines of three growers",
    "iris": "Iris flowers of three species",
    "fraud": "Generated payments, a few of them fraud",
}


def sample_name(source: str) -> str | None:
    """Return the name of the sample that ``source`` means; None if it means a file.

    Raise ``BadInput`` if the sample does not exist.
    """
    if not source.startswith(PREFIX):
        return None
    name = source.removeprefix(PREFIX)
    if name not in TITLES:
        raise BadInput(
            f"the sample '{name}' does not exist; the samples are {listed(TITLES, most=9)}",
            field="source",
        )
    return name


def sample_path(name: str) -> Path:
    """Return the CSV file of a sample; ``fraud`` has none, because it is generated."""
    return Path(str(files("sample_pipelines") / "data" / f"{name}.csv"))


@cache
def sample_columns(name: str) -> Columns:
    """Return the columns of a sample with the roles that they have by default.

    The features of the files are numbers; their last column is the target.
    """
    if name == "fraud":
        return fraud_sample.COLUMNS
    with sample_path(name).open(newline="", encoding="utf-8") as file:
        *features, target = next(csv.reader(file))
    return (
        *(Column(feature, "number") for feature in features),
        Column(target, "category", "target"),
    )
