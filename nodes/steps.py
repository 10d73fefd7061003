"""Offer the nodes as plain functions, for scripts that ``sylva export`` writes and for notebooks.

Models are trained by the estimators themselves (``deepforest``, scikit-learn, LightGBM). This
module does what comes before and after: read and split tables, encode columns, evaluate. It uses
the code of the nodes, so a script gets the same figures as a run. Settings are named and checked as
in a pipeline.

- ``load``, ``split``, ``sample``, ``select_columns``, ``keep_features``  tables
- ``filter_rows``, ``fill_missing``, ``derive_column``, ``join``, ``concatenate``, ``sql``  more of
  them
- ``training_rows``   a table as an estimator needs it: matrix, class numbers, weights
- ``model``           a trained estimator with all it needs to predict for tables
- ``load_model``, ``choose_threshold``, ``predict``, ``inspect_layers``  use a model
- ``evaluate``, ``cross_validate``, ``compare``, ``importances``, ``tell``  reports
- ``choose_best``     the best of several models, and their leaderboard
- ``save_table``, ``save_model``  files in the workspace

Files and models are those of the workspace: ``$SYLVA_WORKSPACE``, else ``~/.sylva``. A file outside
of the workspace is given by its absolute path.

A script from a table to an evaluation::

    table = steps.load("sample:digits")
    train, test = steps.split(table)
    rows = steps.training_rows(train)
    forest = HistForestClassifier().fit(rows.matrix, rows.y)
    model = steps.model(rows, forest)
    steps.tell("test", steps.evaluate(steps.predict(model, test)))
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.node_types import Branch, NodeContext, NodeType
from engine.values import Folder, Predictions, Report, Table
from engine.workspace import Files, Workspace
from nodes import feature_selection
from nodes.models.kinds import Encoding, Form, Precision, kind_of_estimator
from nodes.models.model import CARD, FittedModel
from nodes.models.model import load_model as read_model
from nodes.models.training import TrainingRows, prepare
from nodes.predict import scored

if TYPE_CHECKING:
    import numpy as np

    from nodes.inspection.layers import Layers

# Tables


def load(source: str, **params: Any) -> Table:
    """Return a table from a file of the workspace, or a sample such as ``sample:digits``.

    ``params`` are those of the node *Load data*: ``target``, ``roles``, ``delimiter`` and so on.
    Raise ``BadInput`` if the file cannot be read with them.
    """
    return _outputs("load_data", {}, {"source": source, **params})["table"]  # type: ignore[no-any-return]


def split(table: Table, **params: Any) -> tuple[Table, ...]:
    """Return training rows and test rows, with the validation rows between them if there are any.

    ``params`` are those of the node *Split*, such as ``test_share``, ``validation_share``,
    ``time_column``, ``group_column`` and ``seed``.
    """
    parts = _outputs("split", {"table": table}, params)
    held_out = [parts["validation"]] if parts["validation"].data.num_rows else []
    return parts["train"], *held_out, parts["test"]


def sample(table: Table, **params: Any) -> Table:
    """Return some of the rows.

    ``params`` are those of the node *Sample*: ``share`` or ``rows``, ``stratified`` and ``seed``.
    """
    return _outputs("sample", {"table": table}, params)["table"]  # type: ignore[no-any-return]


def select_columns(table: Table, **params: Any) -> Table:
    """Return the table with fewer columns.

    ``params`` are those of the node *Select columns*: ``mode``, ``columns`` and ``kinds``.
    """
    return _outputs("select_columns", {"table": table}, params)["table"]  # type: ignore[no-any-return]


def sql(*, query: str, a: Table, **tables_and_params: Any) -> Table:
    """Return the result of an SQL query on the tables ``a``, ``b``, ``c`` and ``d``.

    The parameters of the node *SQL* are ``query``, ``target`` and ``max_seconds``. Raise
    ``BadInput`` if the query does more than read these tables.
    """
    tables: dict[str, Any] = {"a": a}
    for name in ("b", "c", "d"):
        tables[name] = tables_and_params.pop(name, None)
    return _outputs("sql", tables, {"query": query, **tables_and_params})["table"]  # type: ignore[no-any-return]


def derive_column(table: Table, name: str, expression: str, **params: Any) -> Table:
    """Return the table with one more column, computed by an expression of SQL.

    ``params`` are those of the node *Derive column*: ``role`` and ``replaces``.
    """
    params = {"name": name, "expression": expression, **params}
    return _outputs("derive_column", {"table": table}, params)["table"]  # type: ignore[no-any-return]


def filter_rows(table: Table, **params: Any) -> Table:
    """Return the rows that meet conditions, or the others.

    ``params`` are those of the node *Filter rows*: ``conditions``, ``match`` and ``mode``.
    """
    return _outputs("filter_rows", {"table": table}, params)["table"]  # type: ignore[no-any-return]


def fill_missing(
    train: Table, *, validation: Table | None = None, test: Table | None = None, **params: Any
) -> tuple[Table, Table, Table]:
    """Return training, validation and test rows, filled with values of the training rows.

    A part that is not given has no rows. ``params`` are those of the node *Fill missing values*,
    such as ``columns`` and ``numbers``.
    """
    inputs = {"train": train, "validation": validation, "test": test}
    parts = _outputs("fill_missing", inputs, params)
    return parts["train"], parts["validation"], parts["test"]


def join(left: Table, right: Table, **params: Any) -> Table:
    """Return the rows of one table with the columns of the rows of another with equal keys.

    ``params`` are those of the node *Join*, such as ``on``, ``unmatched`` and ``several``.
    """
    return _outputs("join", {"left": left, "right": right}, params)["table"]  # type: ignore[no-any-return]


def concatenate(*tables: Table, **params: Any) -> Table:
    """Return the rows of two to four tables below one another.

    ``params`` are those of the node *Concatenate*: ``columns`` and ``source_column``.
    """
    inputs = dict(zip(("first", "second", "third", "fourth"), tables, strict=False))
    return _outputs("concatenate", inputs, params)["table"]  # type: ignore[no-any-return]


def keep_features(table: Table, rows: TrainingRows, kept: Sequence[bool] | np.ndarray) -> Table:
    """Return the table without the features that a selector has dropped.

    ``kept`` has a truth value for each feature of ``rows``, as ``get_support()`` of a selector
    returns it. The target and columns with a role are never dropped.
    """
    return feature_selection.without(table, set(table.features) - _kept_names(rows, kept))


def training_rows(
    table: Table,
    *,
    form: Form = "codes",
    precision: Precision = "float64",
    class_weights: str | dict[str, float] = "none",
    folds_by: str = "rows",
    validation: Table | None = None,
) -> TrainingRows:
    """Return the labelled rows of a table as a matrix, class numbers and weights.

    ``form`` is ``codes`` (a category is its number, for trees) or ``onehot`` (for linear models and
    networks). The matrix has 32-bit floats where they lose nothing. ``class_weights`` is ``none``,
    ``balanced`` or a weight for each class. With ``folds_by`` (``group``, ``time``, or ``auto`` for
    what the table has), the rows have ``groups`` or ``times``, by which an estimator makes folds.
    ``validation`` rows are encoded in the same way. Rows without a class are left out.
    """
    return prepare(
        table,
        Encoding(form, precision),
        class_weights=class_weights,
        folds_by=folds_by,
        validation=validation,
    )


# Models


def model(rows: TrainingRows, estimator: Any) -> FittedModel:
    """Return a trained estimator as a model that predicts for tables and can be saved.

    ``rows`` are those that it was trained on. Raise ``TypeError`` if it is not one of the
    estimators that the nodes train.
    """
    kind = kind_of_estimator(estimator)
    # Saved and loaded again, it predicts with the same bits as a model of a run.
    with tempfile.TemporaryDirectory() as folder:
        loaded = kind.load(Path(folder), kind.save(estimator, Path(folder)))
    return rows.model(kind, loaded, params={})


def load_model(name: str) -> FittedModel:
    """Return a model of the workspace; raise ``BadInput`` if it does not exist.

    The name alone means the version in use; ``fraud@2`` is another version.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A copy, so that the model may be replaced in the workspace meanwhile.
        _outputs("load_model", {}, {"name": name})["model"].save(Path(folder))
        return read_model(Path(folder))


def predict(trained: FittedModel, table: Table, *, keep: Sequence[str] = ()) -> Predictions:
    """Return the probability of each class for every row, beside the columns to keep.

    Raise ``BadInput`` if the table lacks a column that the model was trained with.
    """
    return scored(trained, table, os.cpu_count() or 1, keep=keep)


def inspect_layers(trained: FittedModel, table: Table, **params: Any) -> Layers:
    """Return what each layer of a deep forest predicts for the rows.

    ``params`` are those of the node *Inspect layers*, such as ``rows`` and ``perplexity``.
    """
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        inputs = {"model": Folder(Path(folder)), "table": table}
        return _outputs("inspect_layers", inputs, params)["layers"]  # type: ignore[no-any-return]


def choose_threshold(
    trained: FittedModel, table: Table, **params: Any
) -> tuple[FittedModel, Report]:
    """Return the model with a threshold that was chosen on validation rows, and a report.

    ``params`` are those of the node *Choose threshold*, such as ``rule`` and ``calibration``.
    """
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        inputs = {"model": Folder(Path(folder)), "table": table}
        outputs = _outputs("choose_threshold", inputs, params)
        return outputs["model"], outputs["report"]


# Reports


def evaluate(predictions: Predictions, **params: Any) -> Report:
    """Return every metric of the predictions, with curves and the confusion matrix.

    ``params`` are those of the node *Evaluate*: ``name``, ``positive`` and ``threshold``.
    """
    return _outputs("evaluate", {"predictions": predictions}, params)["report"]  # type: ignore[no-any-return]


def cross_validate(
    trained: FittedModel,
    table: Table,
    *,
    settings: Mapping[str, Any] | None = None,
    **params: Any,
) -> Report:
    """Return the figures of models like this one on rows that they have not seen.

    ``settings`` are those of the node that trains such a model; without them, a saved model has its
    own. ``params`` are those of the node *Cross-validate*, such as ``folds``.
    """
    if settings is not None:
        trained = _with_settings(trained, settings)
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        inputs = {"model": Folder(Path(folder)), "table": table}
        return _outputs("cross_validate", inputs, params)["report"]  # type: ignore[no-any-return]


def _with_settings(trained: FittedModel, settings: Mapping[str, Any]) -> FittedModel:
    """Return the model with the parameters of the node that trains such a model."""
    node: NodeType = import_module(f"nodes.{trained.kind.name.replace('-', '_')}").NODE
    checked = node.params.model_validate_json(json.dumps(settings))
    return replace(trained, params=checked.model_dump(mode="json"))


def choose_best(
    models: Mapping[str, FittedModel],
    table: Table,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    titles: Mapping[str, str] | None = None,
    **params: Any,
) -> tuple[FittedModel, Report]:
    """Return the best model by its figures on the rows of a table, and the leaderboard of all.

    ``models`` are the models by name. ``settings`` are those of the nodes that train such models,
    by the same names; cross-validation needs them. ``labels`` and ``values`` say in words and as
    columns how a model differs from others; ``titles`` gives these columns their titles.
    ``params`` are those of the node *Choose best*, such as ``metric`` and ``how``.
    """
    branches: list[Branch | None] = []
    with tempfile.TemporaryDirectory() as folder:
        folders = []
        for number, (name, trained) in enumerate(models.items()):
            own = Path(folder) / str(number)
            own.mkdir()
            known = settings.get(name) if settings else None
            (trained if known is None else _with_settings(trained, known)).save(own)
            folders.append(Folder(own))
            label, cells = (labels or {}).get(name, ""), (values or {}).get(name, {})
            is_branch = bool(label or cells)
            branches.append(
                Branch(trained.title, label, cells, titles or {}) if is_branch else None
            )
        inputs = {"models": folders, "table": table}
        sources = {"models": list(models)}
        outputs = _outputs("choose_best", inputs, params, sources, {"models": branches})
    report: Report = outputs["report"]
    return models[report.data["nodes"][0]], report


def compare(
    reports: Mapping[str, Report],
    *,
    values: Mapping[str, Mapping[str, Any]] | None = None,
    titles: Mapping[str, str] | None = None,
    **params: Any,
) -> Report:
    """Rank evaluations, the best first.

    ``reports`` are the evaluations by name. ``values`` adds columns to the leaderboard, by the name
    of each report; ``titles`` gives these columns their titles. ``params`` are those of the node
    *Compare*, such as ``metric``.
    """
    branches: list[Branch | None] = [None] * len(reports)
    for index, name in enumerate(reports):
        if values and name in values:
            branches[index] = Branch("", "", values[name], titles or {})
    inputs, sources = {"reports": list(reports.values())}, {"reports": list(reports)}
    return _outputs("compare", inputs, params, sources, {"reports": branches})["report"]  # type: ignore[no-any-return]


def importances(rows: TrainingRows, gains: np.ndarray, kept: Sequence[bool] | np.ndarray) -> Report:
    """Return a report with the gain of each feature, and whether it is kept."""
    return feature_selection.report(rows.encoder.names, gains.tolist(), _kept_names(rows, kept))


def _kept_names(rows: TrainingRows, kept: Sequence[bool] | np.ndarray) -> set[str]:
    """Return the names of the features that a selector keeps."""
    return {name for name, is_kept in zip(rows.encoder.names, kept, strict=True) if is_kept}


def tell(name: str, report: Report) -> None:
    """Print the headline of a report, and the rows of a comparison."""
    print(f"{name}: {report.title}")
    for measure, value in report.headline.items():
        if isinstance(value, float):
            # All digits: the same pipeline must print the same text.
            print(f"  {measure:<22} {value!r}")
        elif value is not None:
            print(f"  {measure:<22} {value}")
    if report.kind == "comparison":
        for row in report.rows:
            print(f"  {row['rank']}. {row['name']}: {row.get(str(report.headline['metric']))}")


# Files


def save_table(table: Table | Predictions, **params: Any) -> Report:
    """Write a file into the exports of the workspace; ``params`` are ``name`` and ``format``."""
    return _outputs("save_table", {"table": table}, params)["report"]  # type: ignore[no-any-return]


def save_model(trained: FittedModel, **params: Any) -> Report:
    """Save a model under a name in the workspace, with a card that says when a script saved it.

    ``params`` are ``name``, ``note`` and ``if_exists``: ``replace`` (the default: use the new
    version), ``add`` or ``error``.
    """
    with tempfile.TemporaryDirectory() as folder:
        trained.save(Path(folder))
        card = json.dumps({"script": True, "saved": time.time()})
        (Path(folder) / CARD).write_text(card + "\n", encoding="utf-8")
        inputs = {"model": Folder(Path(folder))}
        return _outputs("save_model", inputs, params)["report"]  # type: ignore[no-any-return]


def _outputs(
    module: str,
    inputs: dict[str, Any],
    params: Mapping[str, Any],
    sources: Mapping[str, list[str]] | None = None,
    branches: Mapping[str, list[Branch | None]] | None = None,
) -> dict[str, Any]:
    """Run the node of a module and return its outputs by port.

    ``sources`` and ``branches`` say where the values at an input come from, as in a run.
    """
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
        return node.run(ctx, inputs, node.params.model_validate_json(json.dumps(params)))
