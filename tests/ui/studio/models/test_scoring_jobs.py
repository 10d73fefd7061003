"""Files scored by processes of their own: progress, results, failures, stops."""

from __future__ import annotations

import csv
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import BadInput, SylvaError
from engine.workspace import Workspace
from nodes.data.formats import FileFormat
from nodes.models.registry import Registry
from tests.expect import refused
from tests.ui.studio.models.conftest import MODEL, ROWS
from tests.waiting import until
from ui.studio.models import scoring_jobs
from ui.studio.models.scoring_jobs import ScoringJob, ScoringJobs, misfit
from ui.studio.models.use import first_rows, progress_text

STAND_IN = """
import json, os, signal, sys, time
source, target = sys.argv[3], sys.argv[5]
beside = os.path.join(os.path.dirname(target), "." + os.path.basename(target) + ".1.unfinished")
open(beside, "w").close()
if "fault" in source:
    raise SystemExit("Traceback\\nRuntimeError: it broke")
if "misfit" in source:
    print(json.dumps({"error": "it lacks 'job'", "problems": [], "exit_code": 2}, indent=2))
    raise SystemExit(2)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
for rows in range(1, 2000):
    print(json.dumps({"rows": rows, "total": 2000}), file=sys.stderr, flush=True)
    if asked:
        print(json.dumps({"error": "Scoring cancelled.", "problems": [], "exit_code": 1}))
        break
    if "quick" in source:
        os.replace(beside, target)
        print(json.dumps({"rows": 2000, "seconds": 0.1}))
        break
    time.sleep(0.05)
"""
"""What ``sylva predict`` prints, at once and without a model; it never cleans up."""


@pytest.fixture
def jobs(workspace: Workspace) -> Iterator[ScoringJobs]:
    for name in ("quick", "slow", "misfit", "fault"):
        (workspace.data / f"{name}.csv").write_text("x\n1\n")
    made = ScoringJobs(workspace, [sys.executable, "-I", "-c", STAND_IN])
    yield made
    for job in made.all():
        made.cancel(job.id)
    until(lambda: not any(job.running for job in made.all()), 180)


def ended(jobs: ScoringJobs, job: ScoringJob) -> ScoringJob:
    until(lambda: not (jobs.get(job.id) or job).running, 180)
    found = jobs.get(job.id)
    assert found is not None
    return found


def leftovers(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in (workspace.root / "exports").iterdir())


# Scoring


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_a_file_is_scored_row_by_row_as_the_model_itself_does(workspace: Workspace, ending: str):
    jobs = ScoringJobs(workspace)
    (workspace.data / "alt.csv").write_bytes(
        ROWS.replace("nurse", "ä").replace(",", ";").encode("latin-1")
    )
    file_format = FileFormat(encoding="latin-1")
    job = ended(
        jobs,
        jobs.start(
            MODEL, "alt.csv", ending=ending, keep_all=ending == "csv", file_format=file_format
        ),
    )
    assert (job.state, job.rows, job.error) == ("done", 120, "")
    assert job.target == workspace.root / "exports" / f"alt by people.{ending}"
    rows = first_rows(job.target, 1000)
    given = list(csv.DictReader(ROWS.splitlines()))
    assert rows.column_names[:3] == ["prediction", "p(high)", "p(low)"] and rows.num_rows == len(
        given
    )
    right = [
        row["pay"] == found
        for row, found in zip(given, rows.column("prediction").to_pylist(), strict=True)
    ]
    assert sum(right) > 100
    if ending == "csv":
        assert [str(age) for age in rows.column("age").to_pylist()] == [row["age"] for row in given]
    else:
        assert rows.num_columns == 3
    assert leftovers(workspace) == [job.target.name, f"{job.target.name}.drift.json"]
    # The model does not know "ä": it was "nurse" in training.
    assert job.drift is not None
    levels = {each["name"]: (each["level"], each["unseen"]) for each in job.drift["columns"]}
    assert levels["job"] == ("large", 1 / 3) and levels["age"] == ("none", None)


def test_a_result_replaces_no_other(jobs: ScoringJobs, workspace: Workspace):
    first = ended(jobs, jobs.start(MODEL, "quick.csv"))
    second = ended(jobs, jobs.start(MODEL, "quick.csv"))
    assert leftovers(workspace) == ["quick by people 2.csv", "quick by people.csv"]
    assert first.target != second.target and (first.state, first.rows) == ("done", 2000)
    assert [job.id for job in jobs.of(MODEL)] == [second.id, first.id] and jobs.of("other") == []


@pytest.mark.parametrize(
    ("source", "said"), [("misfit.csv", "'job'"), ("fault.csv", "RuntimeError: it broke")]
)
def test_a_job_that_fails_says_why_and_leaves_nothing(
    jobs: ScoringJobs, workspace: Workspace, source: str, said: str
):
    job = ended(jobs, jobs.start(MODEL, source))
    assert job.state == "failed" and said in job.error
    assert leftovers(workspace) == []


def test_what_is_not_there_is_refused_at_once(jobs: ScoringJobs):
    with refused(naming="none"):
        jobs.start("none", "people.csv")
    for source in ("none.csv", "../sylva.db", "/etc/passwd"):
        with pytest.raises(BadInput):
            jobs.start(MODEL, source)
    assert jobs.all() == []


def test_a_job_tells_how_far_it_is_and_is_stopped_without_a_trace(
    jobs: ScoringJobs, workspace: Workspace
):
    job = jobs.start(MODEL, "slow.csv")
    assert "loading" in progress_text(job)
    until(lambda: (jobs.get(job.id) or job).rows > 1)
    now = jobs.get(job.id)
    assert now is not None and now.running and 0 < now.fraction < 1
    assert f"{now.rows:,}" in progress_text(now) and "2,000" in progress_text(now)
    jobs.forget(job.id)
    assert jobs.get(job.id) is not None
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"
    assert leftovers(workspace) == []
    jobs.forget(job.id)
    assert jobs.all() == []


def test_a_job_can_be_stopped_before_its_process_is_there(jobs: ScoringJobs, workspace: Workspace):
    job = jobs.start(MODEL, "slow.csv")
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"
    assert leftovers(workspace) == []


def test_a_process_that_does_not_listen_is_ended(
    jobs: ScoringJobs, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scoring_jobs, "STOP_SECONDS", 0.2)
    jobs.command[-1] = STAND_IN.replace("asked.append(1)", "None")
    job = jobs.start(MODEL, "slow.csv")
    until(lambda: (jobs.get(job.id) or job).rows > 1)
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"
    assert leftovers(workspace) == []


def test_a_process_that_is_killed_fails_its_job_and_leaves_nothing(
    jobs: ScoringJobs, workspace: Workspace
):
    job = jobs.start(MODEL, "slow.csv")
    until(lambda: (jobs.get(job.id) or job).rows)
    os.kill(jobs._processes[job.id].pid, signal.SIGKILL)
    end = ended(jobs, job)
    assert end.state == "failed" and "memory" in end.error
    assert leftovers(workspace) == []


def test_no_more_are_started_than_the_machine_can_bear(jobs: ScoringJobs):
    first, second = jobs.start(MODEL, "slow.csv"), jobs.start(MODEL, "slow.csv")
    assert first.target != second.target
    with pytest.raises(SylvaError, match=f"slow.csv by {MODEL} and slow.csv by {MODEL}"):
        jobs.start(MODEL, "quick.csv")
    jobs.cancel(first.id)
    ended(jobs, first)
    assert ended(jobs, jobs.start(MODEL, "quick.csv")).state == "done"


def test_only_the_last_jobs_are_remembered(jobs: ScoringJobs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scoring_jobs, "MAX_REMEMBERED", 2)
    made = [ended(jobs, jobs.start(MODEL, "quick.csv")).id for _ in range(3)]
    assert [job.id for job in jobs.all()] == [made[2], made[1]]


# Whether a file fits


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("age,job,since,member\n1,cook,2020-01-01,true\n", []),
        ("member,extra,since,job,age\ntrue,x,2020-01-01,cook,1\n", []),
        ("age,since,member\n1,2020-01-01,true\n", ["job"]),
        ("weather\nrain\n", ["age", "job", "since", "member"]),
        ("age,job,since\nold,cook,2020-01-01\n", ["member", "age"]),
        ("age,job,since,member\n1,cook,soon,true\n", ["since"]),
        ("", ["empty"]),
        ("age,job,since,member\n", ["rows"]),
    ],
)
def test_columns_that_do_not_fit_are_all_named(
    workspace: Workspace, content: str, named: list[str]
):
    path = workspace.data / "new.csv"
    path.write_text(content)
    said = misfit(Registry(workspace).folder_of(MODEL), path)
    assert bool(said) == bool(named)
    assert all(f"'{name}'" in said or name in said for name in named), said


def test_a_libsvm_file_has_no_such_columns(workspace: Workspace):
    path: Path = workspace.data / "new.svm"
    path.write_text("1 1:2 2:3\n")
    assert "job" in misfit(Registry(workspace).folder_of(MODEL), path)
