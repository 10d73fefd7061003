"""Define the result of ``inspect-layers``, and save it in a folder without pickle.

``layers.json`` holds names and small figures. Beside it are arrays (``.npy``) of a sample of the
inspected rows, and the sampled rows themselves (``sample.arrow``). The same inspection gives the
same bytes.

- ``Layers``              everything the Inspect page draws; saves itself
- ``load_layers``         reads a folder, or says what is wrong with it
- ``vectors_side_by_side``  the class vectors of a layer, one line for each row

Sizes: L kept layers, K learners in each, C classes, n sampled rows, D columns of the input. Layers
are counted from 1; 0 is the input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from deepforest.margins import margins
from engine.errors import BadInput
from nodes.inspection.windows import check_scans
from nodes.models.encoder import MISSING
from nodes.models.kinds import save_array
from nodes.models.model import file_hashes, reading_folder, sha256_of

FORMAT, VERSION = "sylva-layers", 2
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
    "inputs": ("float32", "nD"),
    "input_embedding": ("float32", "n2"),
}
"""Type and axes of each array."""
OPTIONAL = ("inputs", "input_embedding")
"""Arrays that version 1 does not have."""


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
    input: dict[str, Any] = field(default_factory=dict)
    """Figures of the input: its number of ``columns``, and separation and separation_vectors as in
    ``stages``. It is empty in version 1, which has no arrays of the input."""
    scans: list[dict[str, Any]] = field(default_factory=list)
    """What the windows of a forest that scans know, see ``inspection.windows``; else empty."""
    inputs: np.ndarray | None = None
    """The rows as numbers on one scale (n × D), see ``inspect_layers``."""
    input_embedding: np.ndarray | None = None
    """t-SNE of ``inputs`` (n × 2), where the first layer's panel begins."""

    @property
    def panels(self) -> list[int]:
        """Return the numbers of the panels: 0 for the input if it is stored, then the layers."""
        layers = list(range(1, len(self.stages) + 1))
        return layers if self.input_embedding is None else [0, *layers]

    def panel(self, number: int) -> np.ndarray:
        """Return where t-SNE puts the rows (n × 2): in the input if ``number`` is 0, else after a
        layer."""
        if number:
            return np.asarray(self.embedding[number - 1])
        if self.input_embedding is None:
            raise ValueError("this inspection has no map of the input")
        return self.input_embedding

    def representation(self, number: int) -> np.ndarray:
        """Return what a panel arranges, one line for each row: the input, or class vectors."""
        if number:
            return vectors_side_by_side(self.vectors, self.left_at, number)
        if self.inputs is None:
            raise ValueError("this inspection does not have the input")
        return self.inputs

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
            if getattr(self, name) is not None:
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


def vectors_side_by_side(vectors: np.ndarray, left_at: np.ndarray, layer: int) -> np.ndarray:
    """Return the class vectors of all learners after ``layer`` (from 1), one line for each row.

    ``vectors`` are L × K × n × C. A row that has left the cascade keeps those of its last layer.
    """
    last = np.minimum(left_at, layer) - 1
    # rows × learners × classes
    chosen = vectors[last, :, np.arange(len(last))]
    return chosen.reshape(len(last), -1)


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
        if data["version"] == 1:
            data["input"] = {}
        data.setdefault("scans", [])
        parts: dict[str, Any] = {name: data[name] for name in SMALL}
        stored = [name for name in ARRAYS if name not in OPTIONAL or f"{name}.npy" in data["files"]]
        parts |= {name: _load_array(folder, name) for name in stored}
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
    check_scans(layers.scans, n_classes)
    sizes = {"L": depth, "K": len(layers.learners), "C": n_classes, "n": n, "2": 2}
    if layers.inputs is not None:
        sizes["D"] = layers.inputs.shape[1]
    for name, (_, axes) in ARRAYS.items():
        array = getattr(layers, name)
        if array is not None and array.shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"{name}.npy has the wrong size")
    if (layers.inputs is None) != (layers.input_embedding is None):
        raise ValueError("it has only a part of the input")
    if not (depth and n) or layers.sample.num_rows != n or len(layers.records) < depth:
        raise ValueError("its parts do not fit each other")
    if layers.left_at.min() < 1 or layers.left_at.max() > depth:
        raise ValueError("left_at.npy names layers that do not exist")
    if layers.truth.min() < UNKNOWN or layers.truth.max() >= n_classes:
        raise ValueError("truth.npy names classes that do not exist")
