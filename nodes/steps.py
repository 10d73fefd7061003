"""The nodes as plain functions: for scripts that ``sylva export`` writes, and for notebooks.

Models are trained by the estimators themselves (``deepforest``, scikit-learn, LightGBM); this module does
what comes before and after: read and split tables, encode columns, evaluate. It uses the code of the
nodes, so a script gets the same figures as a run. Settings are named and checked as in a pipeline.

- ``load``, ``split``, ``sample``, ``select_columns``, ``keep_features``  tables
- ``training_rows``   a table as an estimator wants it: matrix, class numbers, weights
- ``model``           a trained estimator with all it needs to predict for tables
- ``load_model``, ``predict``, ``inspect_layers``  use a model
- ``evaluate``, ``compare``, ``importances``, ``tell``  reports
- ``save_table``, ``save_model``  files in the workspace

Files and models are those of the workspace: ``$SYLVA_WORKSPACE``, else ``~/.sylva``.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.node_types import Branch, NodeContext, NodeType
from engine.values import Folder, Predictions, Report, Table
from engine.workspace import Files, Workspace
from nodes.models.encoder import Encoding
from nodes.models.kinds import find_kind
from nodes.models.model import CARD, FittedModel
from nodes.models.model import load_model as read_model
from nodes.models.training import TrainingRows, prepare

if TYPE_CHECKING:
    import numpy as np

    from nodes.inspection.layers import Layers
    from nodes.models.encoder import Form, Precision

__all__ = [
    "TrainingRows",
    "compare",
    "evaluate",
    "importances",
    "inspect_layers",
    "keep_features",
    "load",
    "load_model",
    "model",
    "predict",
    "sample",
    "save_model",
    "save_table",
    "select_columns",
    "split",
    "tell",
    "training_rows",
]


# Tables


def load(source: str, **settings: Any) -> Table:
    """Return a table from a file of the workspace, or a sample."""
    return _outputs("load_data", {}, {"source": source, **settings})["table"]  # type: ignore[no-any-return]


def split(table: Table, **settings: Any) -> tuple[Table, Table]:
    """Return training rows and test rows."""
    parts = _outputs("split", {"table": table}, settings)
    return parts["train"], parts["test"]


def sample(table: Table, **settings: Any) -> Table:
    """Return some of the rows."""
    return _outputs("sample", {"table": table}, settings)["table"]  # type: ignore[no-any-return]


def select_columns(table: Table, **settings: Any) -> Table:
    """Return the table with fewer columns."""
    return _outputs("select_columns", {"table": table}, settings)["table"]  # type: ignore[no-any-return]


def keep_features(table: Table, rows: TrainingRows, kept: Sequence[bool] | np.ndarray) -> Table:
    """Return the table without the features that are not kept; ``kept`` has an entry per matrix column."""
    from nodes.feature_selection import without

    stay = {name for name, stays in zip(rows.encoder.names, kept, strict=True) if stays}
    return without(table, set(table.features) - stay)


def training_rows(
    table: Table,
    *,
    form: Form = "codes",
    precision: Precision = "float64",
    class_weights: str | dict[str, float] = "none",
) -> TrainingRows:
    """Return the labelled rows as a matrix: categories as numbers (codes), or one-hot (onehot)."""
    return prepare(table, Encoding(form, precision), class_weights=class_weights)


# Models


def model(rows: TrainingRows, estimator: Any) -> FittedModel:
    """Return a trained estimator as a model that predicts for tables and can be saved."""
    kind = find_kind(estimator)
    # Saved and loaded again, an estimator of a script predicts with the same bits as a model of a run.
    with tempfile.TemporaryDirectory() as folder:
        loaded = kind.load(Path(folder), kind.save(estimator, Path(folder)))
    return rows.model(kind.name, loaded, params={})


def load_model(name: str) -> FittedModel:
    """Return a model of the workspace."""
    with tempfile.TemporaryDirectory() as folder:
        _outputs("load_model", {}, {"name": name})["model"].save(Path(folder))
        return read_model(Path(folder))


def predict(trained: FittedModel, table: Table, *, keep: Sequence[str] = ()) -> Predictions:
    """Return the probability of each class for every row, beside the columns to keep."""
    from nodes.predict import scored

    return scored(trained, table, os.cpu_count() or 1, keep=keep)


def inspect_layers(trained: FittedModel, table: Table, **settings: Any) -> Layers:
    """Return what each layer of a deep forest predicts for the rows."""
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        inputs = {"model": Folder(Path(folder)), "table": table}
        return _outputs("inspect_layers", inputs, settings)["layers"]  # type: ignore[no-any-return]


# Reports


def evaluate(predictions: Predictions, **settings: Any) -> Report:
    """Return every metric of the predictions."""
    return _outputs("evaluate", {"predictions": predictions}, settings)["report"]  # type: ignore[no-any-return]


def compare(
    reports: Mapping[str, Report],
    *,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    titles: Mapping[str, str] | None = None,
    **settings: Any,
) -> Report:
    """Rank evaluations, the best first.

    ``values`` adds columns to the leaderboard, by the name of each report; ``titles`` gives columns their titles.
    """
    branches: list[Branch | None] = []
    for name in reports:
        branches.append(Branch("", "", values[name], titles or {}) if values and name in values else None)
    inputs, sources = {"reports": list(reports.values())}, {"reports": list(reports)}
    return _outputs("compare", inputs, settings, sources, {"reports": branches})["report"]  # type: ignore[no-any-return]


def importances(rows: TrainingRows, gains: np.ndarray, kept: Sequence[bool] | np.ndarray) -> Report:
    """Return the gain of each feature, and which are kept."""
    from nodes.feature_selection import report

    names = rows.encoder.names
    return report(names, gains.tolist(), {name for name, stays in zip(names, kept, strict=True) if stays})


def tell(name: str, report: Report) -> None:
    """Print the headline of a report, and the rows of a comparison."""
    print(f"{name}: {report.title}")
    for measure, value in report.headline.items():
        if value is not None:
            print(f"  {measure:<22} {value!r}" if isinstance(value, float) else f"  {measure:<22} {value}")
    if report.kind == "comparison":
        for row in report.rows:
            print(f"  {row['rank']}. {row['name']}: {row.get(str(report.headline['metric']))}")


# Files


def save_table(table: Table | Predictions, **settings: Any) -> Report:
    """Write a file into the exports of the workspace."""
    return _outputs("save_table", {"table": table}, settings)["report"]  # type: ignore[no-any-return]


def save_model(trained: FittedModel, **settings: Any) -> Report:
    """Save a model under a name in the workspace; its card says when, and that a script saved it."""
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        card = json.dumps({"script": True, "saved": time.time()})
        (Path(folder) / CARD).write_text(card + "\n", encoding="utf-8")
        inputs = {"model": Folder(Path(folder))}
        return _outputs("save_model", inputs, settings)["report"]  # type: ignore[no-any-return]


def _outputs(
    module: str,
    inputs: dict[str, Any],
    settings: Mapping[str, Any],
    sources: Mapping[str, list[str]] | None = None,
    branches: Mapping[str, list[Branch | None]] | None = None,
) -> dict[str, Any]:
    """Run the node of a module and return its outputs."""
    node: NodeType = import_module(f"nodes.{module}").NODE
    files = Files(Workspace.at().root, allow_absolute=True)
    with tempfile.TemporaryDirectory() as folder:
        ctx = NodeContext(
            module,
            "0" * 64,
            files,
            Path(folder),
            threads=os.cpu_count() or 1,
            sources=sources or {},
            branches=branches or {},
        )
        # As JSON, as a document has them: a list may then stand for a tuple.
        return node.run(ctx, inputs, node.params.model_validate_json(json.dumps(settings)))
