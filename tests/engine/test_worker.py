"""What a worker tells of its node."""

from __future__ import annotations

import threading
import time

from engine.executors.worker import _Calmly


def test_of_many_words_the_first_and_the_last_are_passed_on():
    said: list[tuple[float, str]] = []
    calmly = _Calmly(lambda fraction, text: said.append((fraction, text)), 0.2)
    for step in range(50):
        calmly(step / 50, f"step {step}")
    assert said == [(0.0, "step 0")]
    deadline = time.monotonic() + 5
    while len(said) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert said == [(0.0, "step 0"), (0.98, "step 49")]


def test_words_of_many_threads_come_at_their_pace_and_the_last_one_is_among_them():
    said: list[int] = []
    calmly = _Calmly(said.append, 0.05)
    threads = [threading.Thread(target=lambda: [calmly(-1) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.2)
    calmly(7)
    assert said[-1] == 7
    assert len(said) < 100
