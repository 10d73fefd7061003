"""Define a trained model and the folder it is saved in.

``model.json`` describes the model and holds its encoder; beside it are the arrays and texts of the
estimator. Loading a model runs no code: arrays of objects are refused, and every file must be a
regular file with the hash that ``model.json`` gives. The same training gives the same bytes.

- ``FittedModel``     predicts for tables, saves itself
- ``with_threads``    an estimator for some number of threads
- ``load_model``      reads a folder, or says what is wrong with it
- ``describe_model``  returns what ``model.json`` says, without loading the estimator
- ``saved_decision``, ``decision_texts``  the threshold and calibration there, as data and in words
- ``model_files``     the files of a folder; links, pipes and devices are refused
- ``reading_folder``  turns every error inside its block into a ``BadInput`` that names the folder
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import listed
from engine.values import Table, ThresholdDecision, predicted_codes
from nodes.data.columns import Task
from nodes.models.kinds import ModelKind, Precision, kind_named

if TYPE_CHECKING:
    import numpy as np

    from nodes.models.decision import Calibration
    from nodes.models.drift import TrainingSummary
    from nodes.models.encoder import TableEncoder

FORMAT, VERSION = "sylva-model", 2
PLAIN_VERSION = 1
"""Of a model without a decision and calibration. Programs that know only this version must refuse
the others: they would predict other classes and probabilities."""
FILE = "model.json"
CARD = "card.json"
"""Says which run saved a model; not part of the model itself."""
FIELDS = (
    "kind",
    "title",
    "classes",
    "features",
    "train_rows",
    "class_weights",
    "params",
    "encoder",
    "learner",
    "files",
)
ROWS_AT_ONCE = 65_536
CELLS_AT_ONCE = 8_000_000
"""Limits of a block that is predicted at once: rows, and values of its matrix."""


@dataclass(frozen=True)
class FittedModel:
    """Predict for tables that have the columns it was trained on: classes, or a number."""

    kind: ModelKind
    title: str
    classes: list[str]
    """Names of the classes; empty if the model predicts a number."""
    encoder: TableEncoder
    estimator: Any
    """A fitted scikit-learn classifier, whose class ``i`` is ``classes[i]``, or a regressor."""
    params: Mapping[str, Any]
    """Parameters of the node that trained it."""
    train_rows: int
    class_weights: Mapping[str, float]
    """Weight of a row of each class, before weights were scaled to 1 on average; empty if equal."""
    validation: Mapping[str, float | int] = field(default_factory=dict)
    """Figures on the validation rows of its training, and their number; empty without any."""
    summary: TrainingSummary | None = None
    """Counts of the training rows by column, which scored rows are compared with."""
    decision: ThresholdDecision | None = None
    """From which probability on a row is positive; None: the most probable class is predicted."""
    calibration: Calibration | None = None
    """Applied to the probabilities of the estimator; None: they are used as they are."""

    @property
    def task(self) -> Task:
        """Return whether it predicts a class or a number."""
        return "classification" if self.classes else "regression"

    @property
    def n_outputs(self) -> int:
        """Return how many numbers a row gets: a probability per class, or the predicted one."""
        return len(self.classes) or 1

    @property
    def precision(self) -> Precision:
        """Return the type of the numbers in the matrix it predicts from."""
        return self.kind.encoding.precision

    @property
    def rows_at_once(self) -> int:
        """Return how many rows are predicted at once, so that memory stays bounded.

        The predictions do not depend on it.
        """
        return max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // self.encoder.width))

    def predict_proba(
        self,
        table: Table,
        threads: int = 1,
        progress: Callable[[float, str], None] = lambda fraction, text: None,
    ) -> np.ndarray:
        """Return class probabilities, rows × classes; of a regression one column of numbers.

        ``progress`` gets the share done and a text before each block. Raise ``BadInput`` if the
        table lacks a column of the model, or has one of another kind.
        """
        import numpy as np

        self.encoder.check(table.data)
        rows = table.data.num_rows
        step = self.rows_at_once
        probabilities = np.empty((rows, self.n_outputs))
        for start in range(0, rows, step):
            progress(start / rows, f"row {start:,} of {rows:,}")
            block = self.encoder.transform(table.data.slice(start, step), self.precision)
            probabilities[start : start + step] = self.predict_matrix(block, threads)
        progress(1.0, f"{rows:,} rows")
        return probabilities

    def predict_matrix(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Return the outputs of encoded rows, the same for any number of threads.

        They are class probabilities, rows × classes, or of a regression one column of numbers.
        """
        import numpy as np

        if not len(matrix):
            return np.empty((0, self.n_outputs))
        estimator = with_threads(self.estimator, threads)
        if self.task == "regression":
            return np.asarray(estimator.predict(matrix)).reshape(-1, 1)
        found = np.asarray(estimator.predict_proba(matrix))
        if self.calibration is None:
            return found
        return self.calibration.probabilities(found, self.classes)

    def predicted_codes(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the number of the predicted class of each row."""
        return predicted_codes(probabilities, self.classes, self.decision)

    def check_explainable(self) -> None:
        """Raise ``BadInput`` if the contributions of the columns are not known for this model."""
        if not hasattr(self.estimator, "predict_contributions"):
            raise BadInput(
                f"Predictions of this model ({self.title}) cannot be explained: the contributions "
                "of its columns are not known. Deep forests, MART, random forests, extra-trees and "
                "logistic regression have them; train a random forest or extra-trees of an earlier "
                "version again."
            )
        if getattr(self.estimator, "scans_", None):
            raise BadInput(
                f"Predictions of this model ({self.title}) cannot be explained: it scans windows, "
                "and the contributions of single columns are not known. An inspection shows which "
                "windows know the class."
            )

    def contributions(self, table: Table, threads: int = 1) -> np.ndarray:
        """Return how much each column adds to the probabilities, rows × (columns + 1) × classes.

        The columns are those of ``encoder.names``. The last entry is the base value; base value and
        contributions add up to the probability. All rows are in memory at once. Raise ``BadInput``
        if the table does not fit the model, or the contributions are not known.
        """
        self.check_explainable()
        matrix = self.encoder.transform(table.data, self.precision)
        return self.explain_matrix(matrix, threads)

    def explain_matrix(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Return the contributions of encoded rows; see ``contributions``."""
        import numpy as np

        self.check_explainable()
        if not len(matrix):
            return np.empty((0, len(self.encoder.columns) + 1, self.n_outputs))
        try:
            parts = with_threads(self.estimator, threads).predict_contributions(matrix)
        # A learner of a deep forest may be any estimator of scikit-learn.
        except ValueError as error:
            raise BadInput(f"Predictions of this model cannot be explained: {error}") from error
        widths = [column.width(self.encoder.form) for column in self.encoder.columns]
        # A column may take several columns of the matrix, such as one for each category.
        starts = np.cumsum([0, *widths])
        by_column = np.asarray(np.add.reduceat(parts, starts, axis=1))
        if self.calibration is None:
            return by_column
        return self.calibration.contributions(by_column, self.classes)

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder; ``model.json`` comes last, with all hashes."""
        estimator_data = self.kind.save(self.estimator, folder)
        if self.summary is not None:
            self.summary.save(folder)
        is_plain = self.decision is None and self.calibration is None
        data = {
            "format": FORMAT,
            "version": PLAIN_VERSION if is_plain else VERSION,
            "kind": self.kind.name,
            "title": self.title,
            "classes": self.classes,
            "features": self.encoder.names,
            "train_rows": self.train_rows,
            "class_weights": dict(self.class_weights),
            "params": dict(self.params),
            "encoder": self.encoder.to_json(),
            # What ``kind.save`` returned; the name is that of the stored format.
            "learner": estimator_data,
            "files": file_hashes(folder),
        }
        # Only where there are some: other models keep the bytes that they have always had.
        if self.validation:
            data["validation"] = dict(self.validation)
        if self.decision is not None:
            data["decision"] = self.decision.to_json()
        if self.calibration is not None:
            data["calibration"] = self.calibration.to_json()
        # Sorted keys and a fixed layout: the same model must give the same bytes.
        text = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8", newline="\n")


def with_threads(estimator: Any, threads: int) -> Any:
    """Return an estimator that predicts on this many threads; the given one is not changed.

    Threads are a matter of the machine that predicts, not of the model.
    """
    if getattr(estimator, "n_jobs", threads) == threads:
        return estimator
    estimator = copy(estimator)
    estimator.n_jobs = threads
    return estimator


def load_model(folder: Path) -> FittedModel:
    """Load a model from a folder.

    Raise ``BadInput`` if the folder is damaged, holds something else, or was written by a newer
    version.
    """
    from nodes.models.drift import read_summary
    from nodes.models.encoder import TableEncoder

    # The order matters: nothing is opened before all files are known to be regular files.
    data, files = describe_model(folder), model_files(folder)
    with reading_folder(folder, "a model", "train it again"):
        # First the hashes: they find a damaged file before any reader meets it.
        _check_files(files, data["files"])
        kind, classes = kind_named(data["kind"]), data["classes"]
        encoder = TableEncoder.from_json(data["encoder"])
        if data["features"] != encoder.names:
            raise ValueError("the encoder and the model have different columns")
        estimator = kind.load(folder, data["learner"])
        # The parts may be valid one by one, and still come from two different models.
        # A regression has no classes.
        shape = estimator.n_features_in_, len(getattr(estimator, "classes_", ()))
        if shape != (encoder.width, len(classes)):
            raise ValueError(
                f"its parts do not fit: {encoder.width} columns and {len(classes)} classes are "
                f"described, the estimator has {shape[0]} and {shape[1]}"
            )
        return FittedModel(
            kind=kind,
            title=data["title"],
            classes=classes,
            encoder=encoder,
            estimator=estimator,
            params=data["params"],
            train_rows=data["train_rows"],
            class_weights=data["class_weights"],
            validation=data.get("validation", {}),
            summary=read_summary(folder, encoder),
            decision=saved_decision(data),
            calibration=_saved_calibration(data),
        )


def saved_decision(data: Mapping[str, Any]) -> ThresholdDecision | None:
    """Return the decision that ``model.json`` describes, if any; raise ``ValueError`` if wrong."""
    decision = data.get("decision")
    return None if decision is None else ThresholdDecision.from_json(decision, data["classes"])


def _saved_calibration(data: Mapping[str, Any]) -> Calibration | None:
    """Return the calibration of ``model.json``, if any; raise ``ValueError`` if it is wrong."""
    if data.get("calibration") is None:
        return None
    from nodes.models.decision import Calibration

    return Calibration.from_json(data["calibration"], data["classes"])


def decision_texts(data: Mapping[str, Any]) -> list[str]:
    """Return what ``model.json`` says about threshold and calibration, as sentences."""
    texts = []
    decision, calibration = saved_decision(data), _saved_calibration(data)
    if decision is not None:
        texts.append(f"{decision.text}.")
    if calibration is not None:
        texts.append(
            f"Probabilities are calibrated ({calibration.method}, on {calibration.rows:,} "
            "validation rows)."
        )
    return texts


def describe_model(folder: Path) -> dict[str, Any]:
    """Return what ``model.json`` says, without loading the estimator.

    Raise ``BadInput`` if it does not describe a model of this version.
    """
    path = folder / FILE
    if not is_regular_file(path):
        raise BadInput(
            f"'{folder.name}' does not hold a model: {FILE} is missing or is not a regular file; "
            "save the model again"
        )
    with reading_folder(folder, "a model", "train it again"):
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{FILE} does not describe a model")
        if type(data["version"]) is not int or data["version"] < 1:
            raise ValueError(f"version {data['version']!r} is not valid")
        # A newer version may have other fields. It gets its own message below.
        if data["version"] <= VERSION:
            _check_description(data)
    if data["version"] > VERSION:
        raise BadInput(
            f"'{folder.name}' holds a model of version {data['version']}, and this program reads "
            f"versions up to {VERSION}; update the program, or train the model again"
        )
    return data


def _check_description(data: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless all fields are present and have the right type."""
    if missing := [name for name in FIELDS if name not in data]:
        raise ValueError(f"{FILE} lacks {listed(missing)}")
    if not isinstance(data["title"], str):
        raise ValueError("the title is not a text")
    if type(data["train_rows"]) is not int or data["train_rows"] < 0:
        raise ValueError("the number of training rows is not a number of rows")
    for key in ("params", "class_weights"):
        if not isinstance(data[key], dict):
            raise ValueError(f"{key} is not a list of values by name")
    match data.get("validation", {}):
        case {"rows": int()} as figures if all(map(_is_figure, figures.values())):
            pass
        case dict() as figures if not figures:
            pass
        case _:
            raise ValueError("the figures on the validation rows are not numbers")
    for key in ("classes", "features"):
        names = data[key]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key} is not a list of texts")
        if len(set(names)) < len(names):
            raise ValueError(f"{key} holds a name twice")
    saved_decision(data)
    _saved_calibration(data)


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_files(files: Iterable[Path], digests: Mapping[str, str]) -> None:
    """Raise ``ValueError`` unless the files are exactly those that were saved."""
    # The card is written after the model, so it has no hash.
    present = {path.name: path for path in files if path.name not in (FILE, CARD)}
    for name in sorted({*present, *digests}):
        if name not in digests:
            raise ValueError(f"{name} was not saved with the model")
        if name not in present:
            raise ValueError(f"{name} is missing")
        if sha256_of(present[name]) != digests[name]:
            raise ValueError(f"{name} was changed after it was saved")


# Folders


def model_files(folder: Path) -> list[Path]:
    """Return the files of a folder, sorted; raise ``BadInput`` unless all are regular files.

    Reading a pipe might never end, and a link may lead anywhere.
    """
    files = sorted(folder.iterdir())
    if others := [path.name for path in files if not is_regular_file(path)]:
        raise BadInput(
            f"'{folder.name}' is not the folder of a model: {listed(others)} is not a regular "
            "file; remove it"
        )
    return files


def is_regular_file(path: Path) -> bool:
    """Return whether there is a file that can be read: not a link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


@contextmanager
def reading_folder(folder: Path, kind: str, hint: str) -> Iterator[None]:
    """Raise every error inside the block as a ``BadInput`` that names the folder.

    ``kind`` is what the folder should hold, such as ``a model``; ``hint`` is what the user can do.
    """
    try:
        yield
    # numpy, Arrow, LightGBM and json raise very different errors for damaged files.
    except Exception as error:
        reason = str(error) or repr(error)
        # The text of a KeyError is only the key.
        if isinstance(error, KeyError):
            reason = f"'{error.args[0]}' is missing"
        raise BadInput(
            f"'{folder.name}' does not hold {kind} that can be read: {reason}; {hint}"
        ) from error


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the hash of each file of a folder, by its name."""
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir())}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 hash of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
