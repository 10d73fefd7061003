"""Use Sylva from Python: predict with saved models, and run pipelines.

Three lines score a data frame::

    import sylva

    model = sylva.load_model("fraud")
    model.predict_proba(df)

- ``load_model``  a saved model of the workspace, as a ``Model``
- ``run``         runs a pipeline to its end and returns its reports, as a ``FinishedRun``

Models and runs are those of the workspace: ``$SYLVA_WORKSPACE``, else ``~/.sylva``. All errors that
name a mistake of the caller are ``BadInput``; all errors of Sylva are ``SylvaError``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput, SylvaError
from engine.values import Report
from engine.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from engine.pipeline import Pipeline
    from nodes.models.drift import DriftReport
    from nodes.models.model import FittedModel

__all__ = ["BadInput", "FinishedRun", "Model", "Report", "SylvaError", "load_model", "run"]


def load_model(name: str, workspace: str | Path | None = None) -> Model:
    """Load a model: ``fraud`` is the version in use, ``fraud@2`` another one.

    The path of a model's folder is accepted too. Raise ``BadInput`` if the model does not exist or
    is damaged.
    """
    from nodes.models.registry import Registry, open_model, prove_model

    registry = Registry(Workspace.at(workspace))
    folder = registry.find(str(name))
    if folder.parent != registry.folder:
        # A folder named by its path may come from anyone: a damaged one must not end this process.
        prove_model(folder)
    return Model(folder.name, open_model(folder))


@dataclass(frozen=True)
class Model:
    """Predict for data frames, as a scikit-learn classifier does.

    Data are a data frame of pandas or polars, a table of pyarrow, a mapping of column names to
    values, or a list of mappings. They must have the columns that the model was trained with, in
    any order; other columns are ignored. A value is read as in a file that `sylva predict` scores,
    and gets the same probabilities to the last bit.
    """

    name: str
    fitted: FittedModel = field(repr=False)

    @property
    def classes(self) -> list[str]:
        """Return the classes, in the order of the probabilities; none if it predicts a number."""
        return list(self.fitted.classes)

    @property
    def columns(self) -> list[str]:
        """Return the columns that the model needs."""
        return self.fitted.encoder.names

    def predict_proba(self, data: Any, *, threads: int | None = None) -> np.ndarray:
        """Return class probabilities, rows × classes; ``threads`` are all cores by default.

        Raise ``BadInput`` that names every column which is missing or does not fit, or if the model
        predicts a number.
        """
        if not self.fitted.classes:
            raise BadInput(f"the model '{self.name}' predicts a number; call predict instead")
        return self._outputs(data, threads)

    def _outputs(self, data: Any, threads: int | None) -> np.ndarray:
        """Return class probabilities, or one column of predicted numbers."""
        from engine.values import Table

        return self.fitted.predict_proba(Table(self._fitting(_as_arrow(data))), _threads(threads))

    def predict(self, data: Any, *, threads: int | None = None) -> np.ndarray:
        """Return the predicted class of each row, as texts, or the predicted number.

        It is the most probable class, or that of the threshold which was saved with the model.
        """
        import numpy as np

        probabilities = self._outputs(data, threads)
        if not self.classes:
            return np.asarray(probabilities[:, 0])
        classes: np.ndarray = np.array(self.classes, dtype=object)
        predicted: np.ndarray = classes[self.fitted.predicted_codes(probabilities)]
        return predicted

    @property
    def threshold(self) -> float | None:
        """Return the probability from which a row is positive; None: the most probable class."""
        return self.fitted.decision.threshold if self.fitted.decision else None

    def drift(self, data: Any) -> DriftReport:
        """Return how far rows differ from the training rows, column by column.

        Raise ``BadInput`` if the model was saved without a summary of its training rows.
        """
        from nodes.data.formats import MISSING_TEXTS
        from nodes.models.scoring import drift_counter

        counter = drift_counter(self.fitted, MISSING_TEXTS)
        written = _as_arrow(data)
        counter.add(written, self._fitting(written))
        return counter.report()

    def _fitting(self, data: pa.Table) -> pa.Table:
        """Return the columns of the model in the types that it takes."""
        from nodes.models.new_data import InputChecker

        return InputChecker(self.fitted.encoder).table(data)


def run(
    pipeline: str | Path | Mapping[str, Any] | Pipeline,
    workspace: str | Path | None = None,
    *,
    quiet: bool = True,
) -> FinishedRun:
    """Run a pipeline to its end: a file, a document as Python data, or a ``Pipeline``.

    Nodes that are unchanged since an earlier run are not computed again. Ctrl-C cancels the run.
    Unless ``quiet``, progress is printed to standard error. Raise ``SylvaError`` if the pipeline is
    not valid or a node fails.
    """
    from engine.plan import RunOptions
    from engine.runs import Runs
    from engine.supervisor_starter import SupervisorStarter
    from ui.cli.progress import follow

    # First, because its process loads the engine while this one checks the pipeline.
    with SupervisorStarter() as starter:
        document = _pipeline(pipeline)
        with Runs(Workspace.at(workspace), starter=starter) as runs:
            # As on the command line, a pipeline may read any file of its user.
            run_id = runs.start(document, RunOptions(allow_absolute=True))
            starter.close()
            state = follow(runs, runs.watch(run_id), quiet=quiet)
            if state.state != "done":
                raise SylvaError(_failure(runs, run_id))
            return FinishedRun(run_id, runs.workspace.root, runs.reports(run_id))


@dataclass(frozen=True)
class FinishedRun:
    """Hold what a run has found."""

    id: str
    workspace: Path = field(repr=False)
    reports: Mapping[str, Report]
    """The reports that no other node reads, by node."""

    @property
    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return the figures of each report, by node."""
        return {name: report.headline for name, report in self.reports.items()}

    def output(self, node: str, port: str | None = None) -> Any:
        """Return an output of a node: a ``Table``, ``Predictions``, a ``Report`` or a folder.

        ``port`` may be left out if the node has one output. Raise ``BadInput`` if the output does
        not exist.
        """
        from engine.runs import Runs
        from engine.store import Artifact
        from engine.text import listed

        runs = Runs(Workspace(self.workspace))
        nodes = runs.results(runs.find(self.id)).nodes
        if node not in nodes:
            raise BadInput(f"the run has no node '{node}'; its nodes are {listed(nodes)}")
        outputs = nodes[node].outputs
        chosen = port if port is not None or len(outputs) != 1 else next(iter(outputs))
        if chosen not in outputs:
            raise BadInput(
                f"name an output of the node '{node}'; it has {listed(outputs)}", field="port"
            )
        return runs.store.open(Artifact.from_dict(outputs[chosen]))


def _pipeline(pipeline: str | Path | Mapping[str, Any] | Pipeline) -> Pipeline:
    """Return the pipeline that a caller means; raise ``SylvaError`` if it cannot be read."""
    import json

    from engine.pipeline import Pipeline
    from engine.pipeline_file import parse, read

    if isinstance(pipeline, Pipeline):
        return pipeline
    if isinstance(pipeline, Mapping):
        try:
            return parse(json.dumps(dict(pipeline)))
        except (TypeError, ValueError) as error:
            raise BadInput(f"the pipeline is not plain JSON: {error}") from error
    return read(Path(pipeline))


def _failure(runs: Any, run_id: str) -> str:
    """Return why a run is not done, with the error of each failed node."""
    from engine.text import failure_line

    state = runs.state(run_id)
    failed = [
        failure_line(name, node.error)
        for name, node in state.nodes.items()
        if node.state == "failed" and node.error
    ]
    lines = [f"Run {run_id} is {state.state}.", *failed, f"To continue: sylva resume {run_id}"]
    return "\n".join(lines)


def _as_arrow(data: Any) -> pa.Table:
    """Return data of a caller as a table; raise ``BadInput`` if they are not a table."""
    import pyarrow as pa

    try:
        if isinstance(data, list | tuple):
            return pa.Table.from_pylist(list(data))
        # The index of a data frame is not a column.
        if type(data).__module__.split(".")[0] == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False)
        return pa.table(data)
    # pyarrow reports values that do not fit together by several classes.
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"the data cannot be read as a table: {error}; give a data frame, a table of pyarrow, "
            "columns by name or a list of rows"
        ) from error


def _threads(threads: int | None) -> int:
    """Return the number of threads; by default one per core that this process may use."""
    return threads or len(os.sched_getaffinity(0))
