"""Whatever is killed, whenever: a run is finished by resuming it, and nothing finished is done twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.lab import Document, Lab, Outputs, pipeline

Undisturbed = Callable[[Document], Outputs]

ROUNDS = 20
TRIES = 12


def web() -> Document:
    """Ten nodes that wait for one another."""
    after = ["", "", "0", "0 1", "1", "2 3", "3 4", "5", "5 6", "7 8"]
    return pipeline(
        **{
            f"n{index}": {
                "after": " ".join(f"n{each}" for each in parents.split()), "action": "sleep", "amount": 0.05,
            }
            for index, parents in enumerate(after)
        }
    )  # fmt: skip


def kill_one(lab: Lab, chance: random.Random) -> None:
    """Whichever kind there is of at this moment."""
    kinds = [[lab.supervisor()], [lab.nursery()], lab.workers()]
    lab.kill(chance.choice(chance.choice([kind for kind in kinds if kind])))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_run_is_finished_whatever_is_killed(seed: int, lab: Lab, undisturbed: Undisturbed) -> None:
    chance, document = random.Random(seed), web()
    command = lab.start_run(document, "--workers", "3")
    known: Counter[str] = Counter()
    for _ in range(TRIES):
        begun = len(lab.trace())
        lab.begun_more_than(begun)
        time.sleep(chance.uniform(0, 0.2))
        kill_one(lab, chance)
        answer = lab.answer(command)
        executions = lab.executions()
        assert all(executions[node] == times for node, times in known.items()), (known, executions)
        known = Counter(
            {node: executions[node] for node, state in answer.states.items() if state in ("done", "cached")}
        )
        if answer.code == 0:
            break
        command = lab.start("resume", "last", "--json")
    else:
        answer = lab.resume()
    assert answer.code == 0
    assert answer.outputs == undisturbed(document)
    lab.nothing_is_left()
