"""Whatever is killed, and when: resuming finishes the run, and nothing finished is done twice."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.lab import Lab, Outputs, Pipeline, pipeline
from tests.waiting import until

Undisturbed = Callable[[Pipeline], Outputs]

ROUNDS = 20
KILLS = 6
TRIES = 10


def web() -> Pipeline:
    """Ten nodes that wait for one another."""
    after = ["", "", "0", "0 1", "1", "2 3", "3 4", "5", "5 6", "7 8"]
    return pipeline(
        **{
            f"n{index}": {
                "after": " ".join(f"n{each}" for each in parents.split()),
                "action": "sleep",
                "amount": 0.05,
            }
            for index, parents in enumerate(after)
        }
    )


def wait_for_work(lab: Lab, command: subprocess.Popen[str]) -> None:
    """Until a node has begun or there is nothing to do."""
    begun = len(lab.trace())
    until(lambda: len(lab.trace()) > begun or command.poll() is not None)


def kill_something(lab: Lab, chance: random.Random) -> None:
    """A process of any kind there is at this moment."""
    kinds = [kind for kind in (lab.supervisors(), lab.fork_servers(), lab.workers()) if kind]
    if kinds:
        lab.kill(chance.choice(chance.choice(kinds)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_run_is_finished_whatever_is_killed(
    seed: int, lab: Lab, undisturbed: Undisturbed
) -> None:
    chance, document = random.Random(seed), web()
    command = lab.start_run(document, "--workers", "3")
    finished: Counter[str] = Counter()
    for attempt in range(TRIES):
        wait_for_work(lab, command)
        if attempt < KILLS:
            time.sleep(chance.uniform(0, 0.2))
            kill_something(lab, chance)
        answer, executions = lab.answer(command), lab.executions()
        assert all(executions[node] == times for node, times in finished.items()), (
            finished,
            executions,
        )
        done = [node for node, state in answer.states.items() if state in ("done", "cached")]
        finished = Counter({node: executions[node] for node in done})
        if answer.code == 0:
            break
        command = lab.start("resume", "last", "--json")
    assert answer.code == 0
    assert answer.outputs == undisturbed(document)
    lab.nothing_is_left()
