"""Calls in a child process: results come back, and whatever ends the child costs only that call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import sandbox
from engine.errors import BadInput, SylvaError
from engine.processes import identify, is_alive
from engine.sandbox import Call, call, stream
from tests.waiting import until

HERE = "tests.engine.sandboxed"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def server_that_knows_the_tests() -> Iterator[None]:
    """Start a server of our own, because the usual one does not find the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(sandbox, "_server", sandbox._Server())
        yield
        sandbox._server._stop()


def ask(
    function: str,
    /,
    subject: str = "t.csv",
    *,
    seconds: float = 60.0,
    megabytes: int = 400,
    **arguments: Any,
):
    return Call(f"{HERE}:{function}", subject, arguments, seconds=seconds, megabytes=megabytes)


def test_the_result_comes_from_another_process():
    assert call(ask("add", a=1, b=2)) == 3
    assert call(ask("process"))[0] != os.getpid()


def test_calls_share_one_warm_server():
    (first, server), (second, same_server) = call(ask("process")), call(ask("process"))
    assert first != second and server == same_server


def test_a_table_comes_back_as_it_was():
    facts, data = call(ask("table", rows=2))
    assert facts == {"rows": 2}
    assert data.column("word").to_pylist() == ["a", None, "b", "c"] * 2
    assert data.column("number").to_pylist() == [1.5, None, 2.5, 3.5] * 2
    data.validate(full=True)


@pytest.mark.parametrize(
    ("function", "named"),
    [("abort", "SIGABRT"), ("segfault", "SIGSEGV"), ("leave", "3"), ("break_down", "first line")],
)
def test_what_ends_the_child_becomes_bad_input_that_names_the_file(function: str, named: str):
    with pytest.raises(BadInput) as refused:
        call(ask(function, "some file.parquet"))
    assert "some file.parquet" in str(refused.value) and named in str(refused.value)
    assert refused.value.field == "source" and "second line" not in str(refused.value)
    assert call(ask("add", a=1, b=1)) == 2


@pytest.mark.parametrize("function", ["take_memory", "take_arrow_memory"])
def test_too_much_memory_is_reported_with_the_limit(function: str):
    with pytest.raises(BadInput) as refused:
        call(ask(function, megabytes=321))
    assert "321 MB" in str(refused.value)


def test_a_call_that_hangs_is_ended_and_reported_with_its_time():
    with pytest.raises(BadInput) as refused:
        call(ask("sleep", pause=60, seconds=0.5))
    assert "0.5 seconds" in str(refused.value)


def test_the_time_counts_from_one_result_to_the_next(tmp_path: Path):
    with closing(
        stream(ask("count_slowly", note=str(tmp_path / "note"), pause=0.5, seconds=2.0))
    ) as numbers:
        assert [next(numbers) for _ in range(6)] == [1, 2, 3, 4, 5, 6]  # 2.5 seconds in all


def test_what_the_function_refuses_keeps_its_message_and_field():
    with pytest.raises(BadInput) as refused:
        call(ask("refuse"))
    assert (refused.value.message, refused.value.field) == ("the header is missing", "header")


def test_results_before_a_crash_are_not_lost():
    results = []
    with pytest.raises(BadInput):
        for number in stream(ask("count", to=3, then_abort=True)):
            results.append(number)
    assert results == [0, 1, 2]


def test_a_caller_that_stops_early_lets_the_function_clean_up(tmp_path: Path):
    with closing(stream(ask("count_slowly", note=str(tmp_path / "note"), pause=0.01))) as numbers:
        assert next(numbers) == 1
    assert int((tmp_path / "note").read_text()) >= 1


def test_several_threads_call_at_once():
    results: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: call(ask("add", a=n, b=n))}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 2 * n for n in range(8)}


def test_a_killed_server_is_replaced():
    _, server = call(ask("process"))
    os.kill(server, signal.SIGKILL)
    _, other = call(ask("process"))
    assert other != server


def test_a_server_killed_during_a_call_is_replaced_and_the_call_repeated():
    _, server = call(ask("process"))
    killer = threading.Timer(0.3, os.kill, [server, signal.SIGKILL])
    killer.start()
    assert call(ask("sleep", pause=1.0)) == "awake"
    killer.join()


def test_a_server_that_cannot_start_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(sandbox, "_server", sandbox._Server())
    with pytest.raises(SylvaError):
        call(ask("add", a=1, b=1))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_server_and_child_end_with_their_caller(how: signal.Signals, tmp_path: Path):
    program = f"""
        from engine.sandbox import Call, call, stream
        print(*call(Call("{HERE}:process", "t", {{}})), flush=True)
        call(Call("{HERE}:sleep", "t", {{"pause": 60}}))
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        server = identify(int(caller.stdout.readline().split()[1]))
        assert is_alive(server)
        caller.send_signal(how)
        caller.wait(60)
    until(lambda: not is_alive(server), what="the end of the server")
