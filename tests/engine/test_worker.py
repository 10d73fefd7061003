"""What a worker tells of its node."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from engine.executors import PartialResult, event_from_dict, event_to_dict
from engine.executors.worker import PART_CHARACTERS, _tell_part, _Throttle


def test_of_many_words_the_first_and_the_last_are_passed_on():
    said: list[tuple[float, str]] = []
    calmly = _Throttle(lambda fraction, text: said.append((fraction, text)), 0.2)
    for step in range(50):
        calmly(step / 50, f"step {step}")
    assert said == [(0.0, "step 0")]
    deadline = time.monotonic() + 5
    while len(said) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert said == [(0.0, "step 0"), (0.98, "step 49")]


def test_words_of_many_threads_come_at_their_pace_and_the_last_one_is_among_them():
    said: list[int] = []
    calmly = _Throttle(said.append, 0.05)
    threads = [threading.Thread(target=lambda: [calmly(-1) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.2)
    calmly(7)
    assert said[-1] == 7
    assert len(said) < 100


def test_a_part_of_a_result_is_told_unless_it_is_too_large(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    part = {"score": 0.5, "reason": "better"}
    _tell_part("layer-1", part, lambda kind, **facts: told.append((kind, facts)))
    _tell_part("layer-2", {"text": "x" * PART_CHARACTERS}, lambda kind, **facts: told.append((kind, facts)))
    assert told == [("part", {"part": "layer-1", "data": part})]
    assert "'layer-2'" in capsys.readouterr().out
    with pytest.raises(ValueError, match="JSON"):
        _tell_part("layer-3", {"score": float("nan")}, lambda kind, **facts: None)


def test_a_part_of_a_result_survives_the_way_between_processes() -> None:
    told = PartialResult("forest", "layer-1", {"score": 0.5, "learners": [{"name": "MART 1"}]})
    assert event_from_dict(json.loads(json.dumps(event_to_dict(told)))) == told
