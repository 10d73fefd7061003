"""Define the result of ``inspect-layers``, and save it in a folder without pickle.

``layers.json`` holds names and small figures. Beside it are arrays (``.npy``) of a sample of the
inspected rows, and the sampled rows themselves (``sample.arrow``). The same inspection gives the
same bytes.

- ``Layers``       everything the Inspect page draws; saves itself
- ``load_layers``  reads a folder, or says what is wrong with it

Sizes: L kept layers, K learners in each, C classes, n sampled rows. Layers are counted from 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from deepforest.margins import margins
from engine.errors import BadInput
from nodes.models.encoder import MISSING
from nodes.models.kinds import save_array
from nodes.models.model import file_hashes, reading_folder, sha256_of

FORMAT, VERSION = "sylva-layers", 1
FILE, SAMPLE = "layers.json", "sample.arrow"
UNKNOWN = MISSING
"""Class number of a row whose class is not known."""

ARRAYS: Mapping[str, tuple[str, str]] = {
    "rows": ("int64", "n"),
    "left_at": ("int64", "n"),
    "truth": ("int64", "n"),
    "embedding": ("float32", "Ln2"),
    "vectors": ("float32", "LKnC"),
    "outputs": ("float32", "LnC"),
}
"""Type and axes of each array."""


@dataclass(frozen=True, eq=False)
class Layers:
    """Describe what happens inside a deep forest for the rows of a table.

    L, K, C and n are as in the module's docstring. ``stages`` are of all rows of the table, arrays
    of the sampled rows.
    """

    title: str
    """Title of the model."""
    kind: str
    """The preset it was grown from."""
    metric: str
    """The metric that decided about growth; ``score`` if it has no name."""
    classes: list[str]
    features: list[str]
    """The columns the forest was trained on."""
    learners: list[str]
    records: list[dict[str, Any]]
    """One for EVERY layer that was grown, kept or not: figures of training, on held-out rows."""
    table_rows: int
    """How many rows the inspected table has."""
    stages: list[dict[str, Any]]
    """One for each kept layer: number, scores, margins, learner_scores, agreement, separation,
    separation_vectors, rows_in, rows_out, error_out, threshold, importances. A figure is ``None``
    where the table has no classes."""
    rows: np.ndarray
    """Numbers of the sampled rows in the table (n,), ascending."""
    left_at: np.ndarray
    """The last layer each row went through (n,)."""
    truth: np.ndarray
    """Class number of each row (n,), ``UNKNOWN`` where it has none."""
    embedding: np.ndarray
    """t-SNE of each layer's representation (L × n × 2), each begun where the one before ended."""
    vectors: np.ndarray
    """Class vectors of each learner (L × K × n × C); NaN after the layer at which a row left."""
    outputs: np.ndarray
    """Probabilities of the cascade after each layer (L × n × C); NaN after the layer at which a row
    left."""
    sample: pa.Table
    """The sampled rows, all columns as they were."""

    def output(self, layer: int) -> np.ndarray:
        """Return the probabilities of each row after ``layer`` (from 1), n × C.

        A row that left the cascade before has those of the layer at which it left.
        """
        # Layers are counted from 1, and arrays from 0.
        last = np.minimum(self.left_at, layer) - 1
        probabilities: np.ndarray = self.outputs[last, np.arange(len(last))]
        return probabilities

    def predicted(self, layer: int) -> np.ndarray:
        """Return the predicted class number of each row after ``layer`` (from 1)."""
        codes: np.ndarray = self.output(layer).argmax(axis=1)
        return codes

    def margin(self, layer: int) -> np.ndarray:
        """Return the margin of each row after ``layer`` (from 1); NaN if its class is unknown."""
        known = self.truth != UNKNOWN
        margin = np.full(len(known), np.nan)
        margin[known] = margins(self.output(layer)[known].astype(np.float64), self.truth[known])
        return margin

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        for name, (kind, _) in ARRAYS.items():
            save_array(folder, name, np.ascontiguousarray(getattr(self, name), kind))
        with (
            pa.OSFile(str(folder / SAMPLE), "wb") as sink,
            pa.ipc.new_file(sink, self.sample.schema) as writer,
        ):
            writer.write_table(self.sample)
        data = {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in SMALL},
            "files": file_hashes(folder),
        }
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8", newline="\n")


SMALL = [each.name for each in fields(Layers) if each.name not in ARRAYS and each.name != "sample"]
"""The fields that ``layers.json`` holds."""


def load_layers(folder: Path) -> Layers:
    """Return the layers of a folder.

    Raise ``BadInput`` if the folder is damaged, holds something else, or was written by a newer
    version.
    """
    data = _describe(folder)
    with reading_folder(folder, "layers", "run the inspection again"):
        for name, digest in data["files"].items():
            # Only the last part of a name: it must not lead out of the folder.
            if sha256_of(folder / Path(name).name) != digest:
                raise ValueError(f"{name} was changed after it was saved")
        parts: dict[str, Any] = {name: data[name] for name in SMALL}
        parts |= {name: _load_array(folder, name) for name in ARRAYS}
        sample = pa.ipc.open_file(pa.memory_map(str(folder / SAMPLE))).read_all()
        layers = Layers(**parts, sample=sample)
        _check(layers)
        return layers


def _describe(folder: Path) -> dict[str, Any]:
    """Return what ``layers.json`` says; raise ``BadInput`` if it does not describe layers."""
    path = folder / FILE
    if not path.is_file():
        raise BadInput(
            f"'{folder.name}' does not hold layers: {FILE} is missing; run the inspection again"
        )
    with reading_folder(folder, "layers", "run the inspection again"):
        # Python reads NaN, which the page could not send to a browser.
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{FILE} does not describe layers")
        version = data["version"]
        if type(version) is not int or version < 1:
            raise ValueError(f"version {version!r} is not valid")
    if version > VERSION:
        raise BadInput(
            f"'{folder.name}' holds layers of version {version}, and this program reads versions "
            f"up to {VERSION}; update the program, or run the inspection again"
        )
    return data


def _refuse(constant: str) -> None:
    """Raise ``ValueError`` for NaN and infinity, which JSON does not have."""
    raise ValueError(f"{constant} is not a number")


def _load_array(folder: Path, name: str) -> np.ndarray:
    """Map an array into memory; raise ``ValueError`` unless it has the type in ``ARRAYS``."""
    array: np.ndarray = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    kind, axes = ARRAYS[name]
    if array.dtype != kind or array.ndim != len(axes):
        raise ValueError(f"{name}.npy holds {array.dtype} with {array.ndim} axes")
    return array


def _check(layers: Layers) -> None:
    """Raise ``ValueError`` unless the parts have sizes and values that fit together."""
    titles = [layers.title, layers.kind, layers.metric]
    texts = [*titles, *layers.classes, *layers.features, *layers.learners]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its names are not texts")
    depth, n, n_classes = len(layers.stages), len(layers.rows), len(layers.classes)
    sizes = {"L": depth, "K": len(layers.learners), "C": n_classes, "n": n, "2": 2}
    for name, (_, axes) in ARRAYS.items():
        if getattr(layers, name).shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"{name}.npy has the wrong size")
    if not (depth and n) or layers.sample.num_rows != n or len(layers.records) < depth:
        raise ValueError("its parts do not fit each other")
    if layers.left_at.min() < 1 or layers.left_at.max() > depth:
        raise ValueError("left_at.npy names layers that do not exist")
    if layers.truth.min() < UNKNOWN or layers.truth.max() >= n_classes:
        raise ValueError("truth.npy names classes that do not exist")
