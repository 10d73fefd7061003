"""The papers' tables: splits, results that are saved one by one, and the page made from them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.papers import __main__ as papers
from benchmarks.papers import data, results
from benchmarks.papers.jobs import measure as measure_job
from benchmarks.papers.page import page_text
from benchmarks.papers.results import Measured
from benchmarks.papers.tables import (
    FRAUD,
    FRAUD_METRICS,
    MDDF,
    RCF,
    SCREENING,
    TABLES,
    jobs_of,
)
from benchmarks.papers.why import why_text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder of data sets."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SYLVA_DATA", str(folder))
    return folder


def save(folder: Path, name: str, part: str, **columns: object) -> None:
    (folder / name).mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / name / f"{part}.parquet")


def easy_rows(n: int, seed: int = 0) -> dict[str, object]:
    """Return rows of three classes that a number and a category show."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, n)
    return {
        "number": target + rng.normal(0, 0.1, n),
        "kind": np.array(["a", "b", "c"])[target],
        "target": target,
    }


# --- splits ---


def test_rows_are_divided_at_random_in_60_20_20() -> None:
    parts = data.random_parts(528, seed=0)
    assert [len(part) for part in parts] == [317, 105, 106]
    assert sorted(np.concatenate(parts)) == list(range(528))
    assert not np.array_equal(parts[0], data.random_parts(528, seed=1)[0])


def test_rcf_uses_the_files_that_its_paper_used(folder: Path) -> None:
    for name in ("usps", "pendigits"):
        save(folder, name, "train", **easy_rows(100))
        save(folder, name, "test", **easy_rows(50))
    assert len(data.load_parts("at random", "usps", 0).train.y) == 30
    assert len(data.load_parts("at random", "pendigits", 0).train.y) == 60


def test_codes_of_categories_are_the_same_in_training_and_test_rows(folder: Path) -> None:
    save(folder, "adult", "train", kind=["b", "c"], target=["x", "y"])
    save(folder, "adult", "test", kind=["c", "a"], target=["y", "y"])
    parts = data.load_parts("standard", "adult", 0)
    assert parts.categories == (0,)
    assert parts.train.x[:, 0].tolist() == [1, 2]
    assert parts.test.x[:, 0].tolist() == [2, 0]
    assert parts.test.y.tolist() == [1, 1]


def test_equal_rows_are_counted_once_and_equal_features_stay_together(folder: Path) -> None:
    value = np.repeat(np.arange(300), 4)
    is_attack = np.tile([0, 0, 1, 1], 300)
    save(folder, "kdd99_r2l_u2r", "train", value=value, target=is_attack)
    parts = data.load_parts("distinct rows", "kdd99_r2l_u2r", 0)
    assert parts.validation is not None
    values = [set(rows.x[:, 0]) for rows in (parts.train, parts.validation, parts.test)]
    assert sum(len(each) for each in values) == 300
    assert Counter(parts.test.x[:, 0]).most_common(1)[0][1] == 2
    assert not values[0] & values[2]


def test_the_latest_payments_are_the_test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PAYMENTS", 2000)
    monkeypatch.setattr(data, "PAPER_FRAUD_SHARE", 0.01)
    from nodes.data.samples import payments

    parts = data.load_parts("payments", "payments", 3)
    is_fraud = payments(2000, 0.01, 3).column("fraud").to_numpy() == "yes"
    assert np.array_equal(parts.test.y, is_fraud[1428:])
    assert len(parts.categories) == 4


# --- one job ---


@pytest.mark.parametrize(
    ("learner", "settings"),
    [
        ("tuned_random_forest", {"trees": 5}),
        ("polynomial_svm", {}),
        ("cascade", {"preset": "gcforest", "learners": ["random_forest"], "max_layers": 1}),
    ],
)
def test_a_job_returns_scores_and_cost(folder: Path, learner: str, settings: dict) -> None:
    save(folder, "iris", "all", **easy_rows(100))
    job = {"data": "iris", "split": "at random", "seed": 0, "scores": "accuracy"}
    figures = measure_job({**job, "learner": learner, "settings": settings})
    assert figures["scores"]["accuracy"] > 90
    assert figures["rows"] == [60, 20, 20]
    assert figures["cpu"] >= 0
    assert figures["mb"] > 10
    if learner == "cascade":
        assert figures["by_layer"]["accuracy"] == [figures["scores"]["accuracy"]]
        assert len(figures["chosen"]["layer_score"]) == 1
        assert figures["chosen"]["nodes_per_tree"][0][0] >= 3


# --- saved results ---

TWO_SETS = {"iris", "sonar"}


@pytest.fixture
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the jobs that are run; a process for each would take two seconds."""
    for name in TWO_SETS:
        save(folder, name, "all", **easy_rows(20))
    done: list[str] = []

    def run_job(module: str, text: str) -> dict:
        if len(done) == 7:
            done.append("stopped")
            raise KeyboardInterrupt
        done.append(text)
        return {"scores": {"accuracy": 90.0}, "cpu": 1.0, "mb": 300, "rows": [3, 1, 1]}

    monkeypatch.setattr(results, "run_job", run_job)
    return done


def test_a_stopped_run_continues(tmp_path: Path, runs: list[str]) -> None:
    measured = Measured(tmp_path / "results")
    with pytest.raises(KeyboardInterrupt):
        papers.measure(["rcf"], measured)
    papers.measure(["rcf"], measured)
    papers.measure(["rcf"], measured)
    jobs = [text for text in runs if text != "stopped"]
    # Five seeds; RF and one SVM at least, on two data sets.
    assert len(jobs) >= 20
    assert max(Counter(jobs).values()) == 1
    assert {json.loads(text)["data"] for text in jobs} == TWO_SETS


def test_a_job_with_other_settings_is_measured_again(tmp_path: Path, runs: list[str]) -> None:
    measured = Measured(tmp_path)
    job = next(jobs_of(RCF))[2]
    measured.measure(job)
    assert measured.find(job) is not None
    assert measured.find({**job, "settings": {"trees": 3}}) is None
    assert measured.find({**job, "seed": 1}) is None


def test_a_missing_data_set_is_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers.measure(["rcf"], Measured(tmp_path / "results")) == 0
    assert "rcf, iris, RF, 0: left out, no iris in" in capsys.readouterr().out
    with pytest.raises(data.NoData, match="set SYLVA_DATA"):
        data.load_parts("standard", "adult", 0)


def test_committed_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    found = [result(MDDF, "letter", "mdDF", seed, 97.0) for seed in range(2)]
    results.write_committed(found, file)
    assert results.read_committed(file) == json.loads(json.dumps(found))
    assert len(file.read_text().splitlines()) == 4


# --- the page ---


def result(table: object, title: str, method: str, seed: int, accuracy: float) -> dict:
    """Return a result as a job saves it."""
    job = next(
        job
        for data_set, each, job in jobs_of(table)  # type: ignore[arg-type]
        if (data_set.title, each.name, job["seed"]) == (title, method, seed)
    )
    figures = {
        "cpu": 10.0 + seed,
        "predict_cpu": 0.0,
        "mb": 400,
        "rows": [60, 20, 20],
        "chosen": {},
    }
    return {"job": job, "sources": "abc", "scores": {"accuracy": accuracy}, **figures}


def line_of(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def words_of(text: str) -> str:
    """Return a text without the breaks of its lines."""
    return " ".join(text.split())


def test_the_page_has_our_figures_beside_the_papers() -> None:
    accuracies = (97.0, 97.2, 97.4)
    text = page_text(result(MDDF, "letter", "mdDF", seed, accuracies[seed]) for seed in range(3))
    ours = line_of(text, "letter, 60 / 20 / 20 rows, 3 seeds | ours")
    paper = text.splitlines()[text[: text.index("| letter, 60")].count("\n") + 1]
    assert ours[6] == "97.20 ± 0.20"
    assert "97.50" in paper
    assert ours[2] == "not run"
    assert line_of(text, "letter | CPU, s")[6] == "11.0"
    assert "HAR: not here" in text
    assert "mddf 3 fits" in text


def test_the_page_counts_where_rcf_reaches_the_paper_and_beats_a_forest() -> None:
    errors = {"RF": {"iris": 5.0, "sonar": 10.0}, "RCF": {"iris": 11.0, "sonar": 30.0}}
    found = []
    for method, by_set in errors.items():
        for title, error in by_set.items():
            found += [result(RCF, title, method, seed, 100 - error) for seed in range(2)]
    text = page_text(found)
    assert "standard deviation on 1 of 2 data sets, and at most that of RF on 0." in words_of(text)
    assert line_of(text, "iris, 60")[-2:] == ["-3.30", "+6.00 ± 0.00"]


def test_the_page_says_whether_screening_saves_enough() -> None:
    plain = result(SCREENING, "letter", "gcForest, 50 trees, per layer", 0, 97.0)
    screened = result(SCREENING, "letter", "gcForest-CS, w = 50, per layer", 0, 96.8)
    faster = {**screened, "cpu": 2.5}
    less_accurate = {**faster, "scores": {"accuracy": 96.0}}
    assert "w = 50, per layer: 4.00 × (reached)" in words_of(page_text([plain, faster]))
    assert "w = 50, per layer: 1.00 × (missed)" in words_of(page_text([plain, screened]))
    assert "On letter screening saves" not in words_of(page_text([plain, less_accurate]))


def test_the_page_shows_the_highest_possible_recall() -> None:
    run = result(FRAUD, "KDD99 R2L and U2R", "MART", 0, 0.0)
    scores = {**dict.fromkeys(FRAUD_METRICS, 0.5), "frauds": 250.0}
    text = page_text([{**run, "scores": scores, "rows": [90_000, 10_000, 50_000]}])
    assert line_of(text, " | at most")[-5:-2] == ["0.0200", "0.2000", "1.0000"]
    assert line_of(text, "MART | ours")[2:5] == ["0.5000", "0.5000", "0.5000"]


# --- the page about why ---


def test_the_page_about_why_counts_where_depth_and_the_cascade_gain() -> None:
    deep = result(MDDF, "letter", "default", 0, 97.0)
    deep |= {"by_layer": {"accuracy": [80.0, 97.0]}, "rows": [60, 1000]}
    deep |= {"chosen": {"layers": 2, "margin_ratio": [0.5, 0.4, 0.6]}}
    flat = result(MDDF, "adult", "default", 0, 87.0)
    flat |= {"by_layer": {"accuracy": [87.0]}, "chosen": {"layers": 1, "margin_ratio": [0.5]}}
    boosted = [result(MDDF, title, "LightGBM", 0, 87.0) for title in ("letter", "adult")]
    text = why_text([deep, flat, *boosted])
    words = words_of(text)
    assert line_of(text, "letter | default")[2:6] == ["2.0", "80.00", "97.00", "+17.00"]
    assert "default, the layers after the first add more than one standard error on 1 of 2" in words
    assert "It fell from the first to the last kept layer in 1 of 1 fits" in words
    assert "better by more than one standard error of the test rows on 1 of 2" in words
    assert "worse on 0;" in words


def test_the_page_about_why_is_honest_about_screening_and_composite_forests() -> None:
    plain = result(SCREENING, "letter", "gcForest, 100 trees, per layer", 0, 97.0)
    plain["chosen"] = {"layers": 2, "nodes_per_tree": [[900.0], [800.0]]}
    screened = result(SCREENING, "letter", "gcForest-CS, w = 100, per layer", 0, 97.0)
    screened |= {"cpu": 5.0}
    screened["chosen"] = {"rows_in": [60, 9], "nodes_per_tree": [[900.0], [700.0]]}
    found = [result(RCF, "iris", method, 0, 90.0 + n) for n, method in enumerate(("RF", "RCF"))]
    svm = result(RCF, "iris", "one SVM", 0, 95.0) | {"cpu": 1.0}
    text = why_text([plain, screened, *found, svm])
    words = words_of(text)
    assert "on letter 2.00 × at an equal start and nothing" in words
    assert "3 × (missed)" in words
    assert "With all 60 rows its trees have 800 nodes, with the 9 that are left 700." in words
    assert "RCF's mean error is at most that of RF on 1, RF+SVM on 0, one SVM on 0." in words
    assert line_of(text, "iris, 60")[-1] == "10.00 ×"


def test_the_page_about_why_needs_no_results() -> None:
    assert "## Where scanning pays" in why_text([])


def test_every_job_has_a_file_of_its_own(tmp_path: Path) -> None:
    measured = Measured(tmp_path)
    files = [measured._file(job) for table in TABLES.values() for _, _, job in jobs_of(table)]
    assert len(files) == len(set(files))
