"""``sylva predict`` and ``sylva serve`` from the outside."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from benchmarks._figures import peak_megabytes, process_tree
from engine.errors import Cancelled
from tests.expect import refused
from tests.nodes.models.conftest import ROOT, Kept, environment, make_table, started
from tests.waiting import until
from ui.cli.model_commands import _cancel_on_sigterm, _check_token, _ProgressLines


def test_predict_tells_what_it_did(sylva, kept: Kept, table, tmp_path: Path):
    pa_csv.write_csv(table.data, tmp_path / "t.csv")
    told = json.loads(
        sylva(
            "predict",
            "mart",
            tmp_path / "t.csv",
            "-o",
            tmp_path / "o.csv",
            "--keep",
            "id",
            "--json",
        ).stdout
    )
    assert told["rows"] == 600 and told["model"] == "mart" and told["rows_per_second"] > 0
    out = pa_csv.read_csv(tmp_path / "o.csv")
    assert out.column_names == ["id", "prediction", "p(no)", "p(yes)"]
    np.testing.assert_array_equal(
        out.column("p(yes)").to_numpy(), kept.open("mart").predict_proba(table)[:, 1]
    )


def test_what_does_not_fit_is_bad_input(sylva, table, tmp_path: Path):
    pq.write_table(table.data.drop_columns(["amount", "when"]), tmp_path / "t.parquet")
    done = sylva("predict", "mart", tmp_path / "t.parquet", "-o", tmp_path / "o.csv", code=2)
    assert "'amount', 'when'" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "o.csv").exists()


def test_predict_explains(sylva, kept: Kept, table, tmp_path: Path):
    pq.write_table(table.data.slice(0, 30), tmp_path / "t.parquet")
    sylva("predict", "linear", tmp_path / "t.parquet", "-o", tmp_path / "o.csv", "--explain")
    out = pa_csv.read_csv(tmp_path / "o.csv")
    names = out.column_names[3:]
    assert names[:3] == ["explained class", "base value", "contribution of amount"]
    total = sum(out.column(name).to_numpy() for name in names[1:])
    np.testing.assert_allclose(total, out.column("p(yes)").to_numpy(), atol=1e-6)


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,200,000 rows: enough to be killed while they are scored."""
    source = tmp_path_factory.mktemp("long") / "t.parquet"
    pq.write_table(pa.concat_tables([make_table(2_000).data] * 600), source, row_group_size=20_000)
    return source


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_killed_predict_leaves_no_half_file(
    kept: Kept, long_file: Path, tmp_path: Path, how: signal.Signals
):
    target = tmp_path / "o.csv"
    arguments = ("predict", "mart", long_file, "-o", target, "--keep-all", "--threads", 1)
    with started(*arguments, workspace=kept.workspace) as process:
        until(lambda: list(target.parent.glob(".o.csv.*.unfinished")), 90, "the first rows")
        process.send_signal(how)
        process.wait(60)
        assert process.returncode != 0
    assert not target.exists()
    if how != signal.SIGKILL:
        assert list(target.parent.iterdir()) == []


def test_asked_to_end_it_stops_once_and_at_the_second_time_ends_at_once():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Cancelled), _cancel_on_sigterm():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == before


def wait_for_a_waiter(lock: IO[str]) -> None:
    """Wait until a process waits for this lock, as the kernel's list of locks shows it."""
    waiter = re.compile(rf"-> FLOCK .*:{os.fstat(lock.fileno()).st_ino} ")
    until(lambda: waiter.search(Path("/proc/locks").read_text()), what="a wait for the lock")


def test_asked_to_end_while_the_model_is_read_it_ends(kept: Kept, tmp_path: Path):
    shutil.copytree(kept.folder("mart"), tmp_path / "model")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with (tmp_path / ".model.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        arguments = ("predict", tmp_path / "model", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
        with started(*arguments, workspace=kept.workspace) as process:
            wait_for_a_waiter(lock)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) in (1, -signal.SIGTERM)  # before or after it can clean up
    assert not (tmp_path / "o.csv").exists()


def test_a_pipe_in_a_models_folder_is_refused(sylva, kept: Kept, tmp_path: Path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    shutil.copytree(kept.folder("mart"), tmp_path / "piped")
    (tmp_path / "piped" / "mart.txt").unlink()
    os.mkfifo(tmp_path / "piped" / "mart.txt")
    done = sylva(
        "predict", tmp_path / "piped", tmp_path / "t.csv", "-o", tmp_path / "o.csv", code=2
    )
    assert "'piped'" in done.stderr and "'mart.txt'" in done.stderr


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(kept: Kept, long_file: Path, tmp_path: Path):
    """As a matrix the rows take 67 MB, as text and as predictions as much again."""
    peaks = {}
    for name, path in {"small": _first_rows(long_file, tmp_path), "large": long_file}.items():
        arguments = ["predict", "mart", path, "-o", tmp_path / f"{name}.parquet", "--json"]
        running = subprocess.Popen(
            [sys.executable, "-m", "ui.cli", *map(str, arguments)],
            env=environment(kept.workspace),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        peaks[name] = _peak_of_all(running)
        assert running.returncode == 0
    assert pq.read_metadata(tmp_path / "large.parquet").num_rows == 1_200_000
    assert peaks["large"] - peaks["small"] < 150, peaks


def _peak_of_all(running: subprocess.Popen[bytes]) -> float:
    """Wait for a command; the most megabytes of its processes, of which one reads the rows."""
    peaks: dict[int, float] = {}
    while running.poll() is None:
        for pid in process_tree(running.pid):
            with contextlib.suppress(OSError):  # it has just ended
                peaks[pid] = peak_megabytes(pid)
        time.sleep(0.01)
    return sum(peaks.values())


def _first_rows(source: Path, folder: Path) -> Path:
    small = folder / "small-source.parquet"
    pq.write_table(pq.ParquetFile(source).read_row_group(0), small)
    return small


def test_serve_says_what_stands_in_its_way(sylva):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = sylva("serve", "mart", "--port", port, code=1)
        assert str(port) in done.stderr and "--port" in done.stderr
    assert "'none'" in sylva("serve", "none", code=2).stderr


@pytest.mark.parametrize(
    ("host", "token", "naming"),
    [
        ("0.0.0.0", None, ["0.0.0.0", "--token", "$SYLVA_TOKEN"]),
        ("192.168.1.5", None, ["192.168.1.5", "--token", "$SYLVA_TOKEN"]),
        ("127.0.0.1", " x", ["token", "ASCII"]),
        ("127.0.0.1", "", ["token", "ASCII"]),
        ("127.0.0.1", "ä", ["token", "ASCII"]),
    ],
)
def test_other_machines_need_a_token(host, token, naming):
    with refused(naming=naming):
        _check_token(host, token)


@pytest.mark.parametrize(
    ("host", "token"), [("127.0.0.1", None), ("localhost", None), ("0.0.0.0", "secret")]
)
def test_this_machine_needs_none(host, token):
    _check_token(host, token)


def test_progress_is_a_line_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = _ProgressLines()
    for now[0], rows in [(1.0, 10), (6.0, 20), (7.0, 30), (12.0, 40)]:
        lines(rows, 1000)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("20 ") and second.startswith("40 ") and "1,000" in first


def test_progress_for_a_program_is_lines_of_json(kept: Kept, table, tmp_path: Path):
    pq.write_table(table.data, tmp_path / "t.parquet")
    arguments = (
        "predict",
        "mart",
        tmp_path / "t.parquet",
        "-o",
        tmp_path / "o.csv",
        "--json",
        "--progress",
        "json",
    )
    often = "from ui.cli import model_commands; model_commands.PROGRESS_SECONDS['json'] = 0.0"
    with started(*arguments, workspace=kept.workspace, before=often) as process:
        stdout, stderr = process.communicate(timeout=90)
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert lines and lines[-1] == {"rows": 600, "total": 600}
    assert json.loads(stdout)["rows"] == 600


def test_listing_the_commands_loads_nothing_slow() -> None:
    code = (
        "import sys; import ui.cli.commands\n"
        "slow = {'numpy', 'pyarrow', 'lightgbm', 'pydantic', 'starlette', 'fastapi', 'rich'}\n"
        "slow.add('deepforest')\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
