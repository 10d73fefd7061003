"""Deep forests: cascades of ``deepforest``, kept as it keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from engine.node_types import SubtaskState
from nodes.models.encoder import Form, Precision
from nodes.models.learners.base import Problem

if TYPE_CHECKING:
    import numpy as np

    from deepforest.jobs import Event


@dataclass
class DeepForest:
    """A cascade: the preset it starts from, and what is set otherwise."""

    kind: ClassVar[str] = "deep-forest"
    title: ClassVar[str] = "Deep forest"
    form: ClassVar[Form] = "codes"
    precision: ClassVar[Precision] = "float64"
    order: ClassVar[Literal["C", "F"]] = "C"

    preset: str = "default"
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    cascade: Any = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns and classes."""
        return self.cascade.n_features_in_, self.cascade.n_classes_

    def fit(self, problem: Problem) -> None:
        """Grow the cascade; fits that were finished before a kill are not repeated."""
        from deepforest import preset
        from deepforest.forest.kernel_cache import ensure_compiled
        from deepforest.jobs import FitCancelled

        settings = {**self.changes, "random_state": self.seed, "n_jobs": problem.threads}
        cascade = preset(self.preset, categorical_features=list(problem.categorical), **settings)
        ensure_compiled(
            _kernels_of(cascade, problem),
            say=lambda text: problem.progress(0.0, text),
            interrupt=lambda: _stop_if_cancelled(problem),
        )
        try:
            self.cascade = cascade.fit(
                problem.matrix,
                problem.codes,
                sample_weight=problem.weights,
                checkpoint=problem.checkpoint,
                listener=_teller(problem, cascade),
                cancelled=problem.cancelled,
            )
        except FitCancelled:
            _stop_if_cancelled(problem)
            raise

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities."""
        import numpy as np

        if not len(matrix):
            return np.empty((0, self.shape[1]))
        self.cascade.n_jobs = threads
        return np.asarray(self.cascade.predict_proba(matrix))

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the cascade; the seconds it took are no part of a model: the same training gives the same bytes."""
        self.cascade.layers_ = [record.without_times() for record in self.cascade.layers_]
        self.cascade.save(folder)
        return {"class": type(self.cascade).__name__}

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> DeepForest:
        """Read the cascade back."""
        from deepforest.presets import PRESETS

        kinds = {preset.kind.__name__: preset.kind for preset in PRESETS.values()}
        if about["class"] not in kinds:
            raise ValueError(f"there is no cascade {about['class']!r}")
        return cls(cascade=kinds[about["class"]].load(folder))


def _kernels_of(cascade: Any, problem: Problem) -> list[str]:
    """Return which kernels of the forests a fit uses."""
    from deepforest.forest.kernel_cache import COUNTS, WEIGHTS

    kinds = [learner["kind"] for learner in cascade.learners or []]
    if kinds and set(kinds) == {"mart"}:
        return []
    if problem.weights is not None:
        return [WEIGHTS]
    # mdDF gives the rows weights from its second layer on.
    return [COUNTS, WEIGHTS] if getattr(cascade, "reweight", False) else [COUNTS]


def _stop_if_cancelled(problem: Problem) -> None:
    """Raise the engine's own error if the training was asked to stop."""
    if problem.cancelled():
        problem.progress(1.0, "stopped")


JOB_WORDS: Mapping[str, SubtaskState] = {
    "waiting": "waiting", "started": "running", "finished": "done", "kept": "reused", "failed": "failed",
}  # fmt: skip


def _teller(problem: Problem, cascade: Any) -> Callable[[Event], None]:
    """Turns the events of a fit into words about its jobs, its layers, progress and lines of the log."""
    from deepforest.record import LayerRecord

    layer, planned, fits, kept, said, max_layers = 1, 0, 0, 0, "", cascade.max_layers
    told: dict[int, LayerRecord] = {}

    def tell_layers() -> None:
        """Of all layers: a later one may decide that an earlier one is kept after all."""
        for record in cascade.layers_:
            if told.get(record.number) != record:
                told[record.number] = record
                problem.tell(f"layer-{record.number}", record.as_dict())

    def tell(event: Event) -> None:
        nonlocal layer, planned, fits, kept, said
        if isinstance(event.result, LayerRecord):
            record = event.result
            tell_layers()
            before = f", {kept} of {fits} fits reused" if kept else ""
            problem.log(f"Layer {record.number}, {record.seconds:.1f} s{before}: {record.reason}.")
            said = f"; layer {record.number} scored {record.score:.4f}"
            layer, planned, fits, kept = record.number + 1, 0, 0, 0
        elif event.place:
            problem.job(event.place, JOB_WORDS[event.state], getattr(event.result, "seconds", None))
            planned += event.state == "waiting"
            fits += event.state in ("finished", "kept")
            kept += event.state == "kept"
        part = fits / planned if planned else 0.0
        problem.progress(
            min(layer - 1 + part, max_layers) / max_layers, f"layer {layer}: {fits} of {planned} fits done{said}"
        )

    return tell
