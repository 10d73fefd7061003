"""What a worker reports of its node."""

from __future__ import annotations

import threading
import time

import pytest

from engine.events import PartialResult, RunEvent
from engine.executors.worker import PARTIAL_RESULT_CHARACTERS, _publish, _Throttle


def test_of_many_words_the_first_and_the_last_are_passed_on():
    said: list[tuple[float, str]] = []
    report = _Throttle(lambda fraction, text: said.append((fraction, text)), 0.2)
    for step in range(50):
        report(step / 50, f"step {step}")
    assert said == [(0.0, "step 0")]
    deadline = time.monotonic() + 5
    while len(said) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert said == [(0.0, "step 0"), (0.98, "step 49")]


def test_words_of_many_threads_come_at_their_pace_and_the_last_one_is_among_them():
    said: list[int] = []
    report = _Throttle(said.append, 0.05)
    threads = [threading.Thread(target=lambda: [report(-1) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.2)
    report(7)
    assert said[-1] == 7
    assert len(said) < 100


def test_a_partial_result_is_sent_unless_it_is_too_large(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent: list[RunEvent] = []
    small = PartialResult(node="forest", name="layer-1", data={"score": 0.5, "reason": "better"})
    _publish(small, sent.append)
    _publish(
        PartialResult(
            node="forest", name="layer-2", data={"text": "x" * PARTIAL_RESULT_CHARACTERS}
        ),
        sent.append,
    )
    assert sent == [small]
    assert "'layer-2'" in capsys.readouterr().out
    with pytest.raises(ValueError, match="JSON"):
        _publish(
            PartialResult(node="forest", name="layer-3", data={"score": float("nan")}), sent.append
        )
