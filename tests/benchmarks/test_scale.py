"""The cost model, the simulation of the scheduler, and the page made from both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.scale import page, runs, scenario
from benchmarks.scale.jobs import table
from benchmarks.scale.model import (
    OF_LAYER,
    CostModel,
    coordinating,
    fit_model,
    least_relative_squares,
    parts_of,
    predicted,
)
from benchmarks.scale.runs import Result, Run, job_of
from benchmarks.scale.scenario import Assumed, replayed, times_of
from benchmarks.scale.simulate import LayerTimes, Machines, Simulation
from benchmarks.scale.work import layers_of
from deepforest import FitEvent, preset
from engine.errors import SubtaskFailed

FIGURE = re.compile(r"[-+]?[0-9][0-9.,]*")

# --- the fits of a run ---


def test_the_fits_of_a_run_are_those_of_the_library() -> None:
    run = Run(400, 4, learners=2, folds=3, layers=2, trees=1)
    x, y = table(run.rows, 20, 2)
    seen: list[str] = []

    def listen(event: FitEvent) -> None:
        if event.state == "waiting":
            seen.append(event.key)

    learners = [{"kind": "mart", "n_estimators": 1, "count": 2}]
    model = preset("mart_cascade", learners=learners, cv=3, max_layers=2, n_jobs=1, random_state=0)
    # A tolerance that no layer reaches: both are grown all the same.
    model.set_params(patience=3, tol=0, scoring="log_loss").fit(x, y, listener=listen)
    kept = model.n_layers_
    works = [work for work in layers_of(run) if "blind" in work.title or work.layer <= kept]
    assert seen == [key for work in works for key in work.keys]


def test_rows_of_fits_are_in_proportion() -> None:
    works = layers_of(Run(131_400_000, 300, learners=4, folds=5, layers=3, trees=50))
    assert [len(work.keys) for work in works] == [16, 16, 16, 20, 20, 20]
    assert [work.width for work in works] == [300, 308, 308] * 2
    training, predicted_rows = works[-1].parts[0]
    assert training == pytest.approx(0.8 * 131_400_000)
    assert predicted_rows == pytest.approx(0.2 * 131_400_000)


# --- the cost model ---

TRUE = {
    "mart bin": {"row × column": 1e-8, "sampled row × column": 2e-7},
    "mart widen": {"row × column": 3e-9, "row × vector": 1e-7},
    "mart files": {"byte": 1e-9, "set of fits": 0.02},
    "mart digest": {"row × vector": 2e-8, "row": 1e-7},
    "mart take": {"row × class": 1e-8, "fit": 0.02},
    "mart gather": {"row × vector": 2e-8},
    "mart score": {"row × vector": 3e-8, "row × class": 4e-7, "layer": 0.2},
    "mart read": {"row × column": 1e-9, "fit": 0.02},
    "mart subset": {"row × column": 1e-9},
    "mart grow": {"row × column × tree": 3e-9, "column × tree": 6e-5, "row × tree": 2e-8},
    "mart predict": {"row × column": 1e-9, "row × tree": 9e-8, "row × class": 5e-8, "fit": 0.2},
    "mart save": {"row × class": 2e-9, "fit": 0.01},
    "mart other": {"row": 1e-7, "fit": 0.05},
    "mart rest": {"row × column": 2e-9, "run": 0.1},
    "mart memory": {"byte held": 1.1, "fit": 15.0},
    "mart coordinator memory": {"bins": 2.0, "sampled value": 1.2, "row": 30.0, "fit": 20.0},
}


def generated(run: Run, noise: float = 0.0, seed: int = 0) -> Result:
    """Return the result that a run would have if the true model were exact."""
    model, rng = CostModel(TRUE), np.random.default_rng(seed)

    def near(value: float) -> float:
        return value * float(np.exp(rng.normal(0, noise)))

    fits = []
    for _, parts in parts_of(run):
        for count, part in parts:
            steps = {step: near(seconds) for step, seconds in model.fit_steps(part).items()}
            cpu = sum(steps.values())
            del steps["other"]
            fit: dict[str, Any] = {"count": count, "cpu": cpu, "steps": steps, "read": 1.0}
            fit |= {"training": part.training, "left_out": part.left_out, "width": part.width}
            fits.append(fit | {"mb_most": model.fit_mb(part)})
    steps = {step: near(seconds) for step, seconds in coordinating(model, run).items()}
    own: dict[str, Any] = {"cpu": sum(steps.values()), "written": 1}
    del steps["rest"]
    own |= {"steps": steps, "mb": model.coordinator_mb(parts_of(run)[-1][1][0][1])}
    cpu = own["cpu"] + sum(fit["count"] * fit["cpu"] for fit in fits)
    return {"job": job_of(run), "sources": "abc", "cpu": cpu, "coordinator": own, "fits": fits}


MARTS = [run for run in runs.FITTED if run.kind == "mart"]


def test_the_model_recovers_the_coefficients_of_generated_runs() -> None:
    found = fit_model(generated(run) for run in MARTS).coefficients
    for name, amounts in TRUE.items():
        for amount, value in amounts.items():
            assert found[name][amount] == pytest.approx(value, rel=0.02), (name, amount)


def test_with_noise_it_predicts_a_run_that_is_larger_than_all() -> None:
    found = fit_model(generated(run, 0.1, seed) for seed, run in enumerate(MARTS))
    large = Run(2_000_000, 50, learners=2, folds=5, layers=2, trees=20)
    guess, truth = predicted(found, large), predicted(CostModel(TRUE), large)
    assert guess["cpu"] == pytest.approx(truth["cpu"], rel=0.1)
    assert guess["mb of a fit"] == pytest.approx(truth["mb of a fit"], rel=0.1)


def test_no_coefficient_is_negative() -> None:
    falling = [({"row": float(n), "fit": 1.0}, 10.0 / n) for n in range(1, 6)]
    found = least_relative_squares(falling, 0.01)
    assert found["row"] == 0
    assert found["fit"] > 0


def test_every_step_of_the_coordinator_is_counted() -> None:
    steps = coordinating(CostModel(TRUE), Run(30_000, 30, layers=2))
    assert steps.keys() == OF_LAYER.keys()
    assert min(steps.values()) > 0


# --- the simulation ---


class Seconds:
    """Fits take as long as their request says, on one core."""

    def seconds(self, request: dict[str, Any], cores: float, at_once: int) -> float:
        return float(request["seconds"]) / cores


def layers(*seconds: float, before: float = 1.0, after: float = 2.0) -> list[LayerTimes]:
    """Return two layers with the same fits."""
    fits = {f"fit-{number}": {"seconds": each} for number, each in enumerate(seconds)}
    return [LayerTimes(title, before, fits, after) for title in ("first", "second")]


def test_without_losses_the_wall_time_is_that_of_the_schedule() -> None:
    # Two workers, in order: 3 and 5; 4 after the 3, 1 after the 5; the last fit ends after 7.
    outcome = Simulation(layers(3, 5, 4, 1), Machines(2, 1, 1), Seconds()).run()
    assert outcome.seconds == 2 * (1 + 7 + 2)
    assert outcome.of_fits == 2 * 7
    assert outcome.busy == 2 * 13
    assert outcome.threads == (1, 1)


def test_threads_that_are_left_over_are_shared_by_the_fits() -> None:
    outcome = Simulation(layers(*[10] * 4), Machines(2, 16, 16), Seconds()).run()
    assert outcome.threads == (8, 8)  # 32 threads for 4 fits
    assert outcome.together == 2
    assert outcome.seconds == 2 * (1 + 10 / 8 + 2)


def test_more_machines_than_fits_bring_nothing() -> None:
    few, many = (
        Simulation(layers(*[10] * 4), Machines(number, 1, 1), Seconds()).run().seconds
        for number in (4, 50)
    )
    assert few == many


def test_a_lost_worker_costs_its_own_fit_only() -> None:
    simulation = Simulation(layers(*[10] * 6), Machines(3, 1, 1, noticed_after=2), Seconds())
    lost = simulation.cluster._present[0]
    simulation.clock.after(6, lambda: simulation.cluster._lose(lost))
    outcome = simulation.run()
    assert (outcome.lost, outcome.repeated) == (1, 1)
    # Twelve fits count once each; the half of one that was lost does not.
    assert outcome.busy == 120
    # The first layer: two workers have 5 fits left after 11 s, which takes three rounds.
    assert outcome.seconds == (1 + 10 + 20 + 2) + (1 + 30 + 2)


def test_a_fit_that_loses_every_worker_fails_with_the_reason_of_dask() -> None:
    machines = Machines(1, 1, 1, losses_per_hour=3600, noticed_after=0.1, back_after=0.1)
    simulation = Simulation(layers(1e6)[:1], machines, Seconds(), seed=1)
    simulation._end_coordinator = lambda: None  # type: ignore[method-assign]
    with pytest.raises(SubtaskFailed):
        simulation.run()


def test_a_lost_coordinator_goes_on_with_the_finished_fits() -> None:
    simulation = Simulation(layers(*[10] * 4), Machines(2, 1, 1, noticed_after=5), Seconds())
    simulation.clock.after(15, simulation._end_coordinator)
    outcome = simulation.run()
    assert outcome.restarts == 1
    # Two of four fits were finished; two had run for 4 s, which is lost.
    assert outcome.seconds == 15 + 5 + (1 + 10 + 2) + (1 + 20 + 2)
    assert outcome.busy == 80


def test_the_same_seed_gives_the_same_run() -> None:
    machines = Machines(3, 1, 1, straggling=0.3, losses_per_hour=60)
    outcomes = [Simulation(layers(*[10] * 6), machines, Seconds(), 7).run() for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != Simulation(layers(*[10] * 6), machines, Seconds(), 8).run()


def test_a_run_is_simulated_with_the_costs_of_the_model() -> None:
    run, assumed = Run(100_000, 30, trees=20), Assumed(serial_fit=0.0, value_bytes=4)
    model = CostModel(TRUE)
    outcome = Simulation(times_of(model, run, assumed, 1), Machines(1, 1, 1), _Cpu()).run()
    written = run.rows * (run.columns * 5) / assumed.network
    assert outcome.seconds == pytest.approx(predicted(model, run)["cpu"] + written)


class _Cpu:
    def seconds(self, request: dict[str, Any], cores: float, at_once: int) -> float:
        return float(request["alone"] + request["scales"])


# --- the page ---


def replay(workers: int) -> Result:
    fits = {f"fit-{number}": [2.0, "one"] for number in range(4)}
    sets = [{"announced": 1.0, "fits": fits, "ended": 1 + 8.0 / workers}]
    job = {"job": "replay", "workers": workers, "rows": 1000, "columns": 5}
    job |= {"learners": 1, "folds": 3, "trees": 10}
    return {"job": job, "sources": "abc", "sets": sets, "cpu_by_part": {"hosts": 8.0}}


def test_a_replayed_run_has_the_wall_time_of_its_fits() -> None:
    assert replayed(replay(1)) == (9.0, 9.0)
    assert replayed(replay(2)) == (5.0, 5.0)


def test_the_page_is_written_from_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "SEEDS", range(1))  # each takes a second
    results = [generated(run) for run in (*MARTS, *runs.HELD_OUT) if run.kind == "mart"]
    parts = {"coordinator": 3.0, "scheduler": 4.0, "workers": 7.0, "hosts": 20.0}
    queue = {"job": {"job": "queue", "workers": 2}, "sources": "abc", "tasks": 1000}
    results += [replay(2), queue | {"wall": 40.0, "cpu_by_part": parts}]
    page.write_page(results, tmp_path / "scale.md")
    text = " ".join((tmp_path / "scale.md").read_text().split())
    assert "| MART grows, per row × column × tree | 3 ns |" in text
    assert "7.0 CPU-ms a task in the scheduling processes" in text
    assert "| 2 workers, 1k × 5, 4 fits | 5.0 s | 5.0 s | +0.0% | 8.0 s |" in text
    # The bytes of the generated results are wrong on purpose.
    assert "**Missed** by bytes used (7 of 7 runs), bytes written (7 of 7 runs)" in text
    assert text.count("| 200 | ") == 1


@pytest.mark.slow
def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = runs.read_committed()
    assert results, f"no results in {runs.COMMITTED}"
    committed = page.PAGE.read_text(encoding="utf-8")
    # The last digits may differ with another version of SciPy.
    assert FIGURE.sub("#", committed) == FIGURE.sub("#", page.page_text(results))


def test_a_measured_job_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def run_job(module: str, text: str) -> Result:
        done.append(text)
        return {"cpu": 1.0}

    monkeypatch.setattr(runs, "run_job", run_job)
    first, second = job_of(Run(1000, 5)), job_of(Run(1000, 5, trees=3))
    for job in (first, second, first):
        assert runs.measure(job, "some.module", tmp_path)["job"] == job
    assert len(done) == 2
