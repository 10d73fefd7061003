"""Boosters among the learners of a deep forest: XGBoost, and fits by several workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepforest import FitEvent
from deepforest.learners import make_learner
from engine.errors import BadInput, SubtaskFailed
from nodes import deep_forest
from nodes.deep_forest import FitProgress
from nodes.models.model import load_model
from tests.expect import refused
from tests.nodes.conftest import make_context
from tests.nodes.test_composite_forest import people

pytest.importorskip(
    "xgboost", reason="needs the package xgboost-cpu: install sylva-studio[cluster]"
)


def learner_of(**settings: Any) -> dict[str, Any]:
    params = deep_forest.NODE.params(learners=[settings])
    learners: list[dict[str, Any]] = deep_forest.cascade_params(params)["learners"]
    return learners[0]


@pytest.mark.parametrize("kind", ["mart", "xgboost"])
def test_defaults_are_those_of_the_library(kind: str) -> None:
    assert make_learner(learner_of(kind=kind)) == make_learner(kind)


def test_an_empty_depth_of_xgboost_is_no_limit() -> None:
    assert learner_of(kind="xgboost", max_depth=None)["max_depth"] is None


def test_a_deep_forest_has_xgboost_as_a_learner(tmp_path: Path) -> None:
    params = deep_forest.NODE.params(
        learners=[{"kind": "xgboost", "trees": 3}], folds=2, max_layers=1
    )
    model = deep_forest.NODE.run(make_context(tmp_path), {"table": people()}, params)["model"]
    folder = tmp_path / "model"
    folder.mkdir()
    model.save(folder)
    later = people(seed=2)
    np.testing.assert_array_equal(
        load_model(folder).predict_proba(later), model.predict_proba(later)
    )
    assert np.isfinite(model.contributions(later)).all()


def test_without_the_package_the_problem_is_known_before_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deep_forest, "find_spec", lambda name: None)
    with refused(BadInput, naming="pip install 'sylva-studio[cluster]'"):
        deep_forest.NODE.params(learners=[{"kind": "xgboost"}])


@pytest.mark.parametrize("ranks", [0, 257, 1.5])
def test_an_impossible_number_of_workers_is_refused(ranks: Any) -> None:
    with pytest.raises(ValueError, match="ranks"):
        deep_forest.NODE.params(learners=[{"kind": "mart", "ranks": ranks}])


def test_a_fit_that_starts_again_is_in_the_log(tmp_path: Path) -> None:
    lines: list[str] = []
    progress = FitProgress(make_context(tmp_path, on_log=lines.append), _Cascade())
    place = ("Layer 1", "Mart", "Fold 2")
    progress.on_event(FitEvent("fit", "started", place=place, worker="a, b", text="again: lost"))
    assert lines == ["Layer 1, Mart, Fold 2: again: lost."]


class _Cascade:
    max_layers = 2
    layer_records_: list[Any] = []  # noqa: RUF012


def test_a_table_too_small_for_the_workers_fails_with_the_reason(tmp_path: Path) -> None:
    table = people()
    few = table.with_data(table.data.slice(0, 12))
    params = deep_forest.NODE.params(
        learners=[{"kind": "mart", "ranks": 50}], folds=2, max_layers=1
    )
    with refused(SubtaskFailed, naming="50 workers"):
        deep_forest.NODE.run(make_context(tmp_path), {"table": few}, params)
