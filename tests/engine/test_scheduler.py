"""A node runs when its inputs are ready, a failure costs what depends on it, nothing runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import scheduler as scheduling
from engine.events import Failure, NodeRetrying, PartialResult
from engine.pipeline import NodeSettings
from engine.plan import RunOptions
from tests.engine.lab import Lab, pipeline

CRASH = Failure("crashed", "crashed")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(scheduling, "BACK_OFF_SECONDS", 0.001)
    return Lab(tmp_path)


def states(state) -> dict[str, str]:
    return {name: node.state for name, node in state.nodes.items()}


def test_values_flow_along_the_edges(lab: Lab) -> None:
    state = lab.run(pipeline("a b d", "a c d", a=1, b=2, c=4))
    assert state.state == "done"
    assert lab.value(state, "d") == 1 + 2 + 1 + 4
    assert lab.executor.executed == ["a", "b", "c", "d"]


def test_a_node_does_not_wait_for_unrelated_nodes(lab: Lab) -> None:
    """With two slots, ``b`` follows ``a`` at once although ``slow`` has not been heard of."""
    document = pipeline("slow end", "a b c", a=1)
    order: list[str] = []
    lab.executor.before = lambda job: order.append(job.node)
    wait = lab.executor.wait

    def slow_last(timeout):
        lab.executor.tasks.sort(key=lambda job: job.node == "slow")
        return wait(timeout)

    lab.executor.wait = slow_last
    lab.run(document)
    assert order == ["a", "b", "c", "slow", "end"]


def test_no_more_run_at_once_than_there_are_slots(lab: Lab) -> None:
    lab.run(pipeline(*"abcdefgh", **{name: index for index, name in enumerate("abcdefgh")}))
    assert lab.executor.most_at_once == 2


def test_a_second_run_computes_nothing_and_says_why(lab: Lab) -> None:
    document = pipeline("a b c", a=1)
    first = lab.run(document)
    second = lab.run(document)
    assert lab.executor.executed == []
    assert set(states(second).values()) == {"cached"}
    assert first.id in second.nodes["b"].text


def test_a_changed_setting_runs_that_node_and_those_below(lab: Lab) -> None:
    lab.run(pipeline("a b c", "a d", b=1))
    state = lab.run(pipeline("a b c", "a d", b=2))
    assert lab.executor.executed == ["b", "c"]
    assert states(state) == {"a": "cached", "b": "done", "c": "done", "d": "cached"}


def test_the_same_outcome_upstream_stops_the_recomputing(lab: Lab) -> None:
    """``a`` + ``b`` is 3 both times, so ``c`` has nothing new to read."""
    lab.run(pipeline("a b c", a=1, b=2))
    lab.run(pipeline("a b c", a=2, b=1))
    assert lab.executor.executed == ["a", "b"]


def test_a_failure_skips_only_what_depends_on_it_and_names_the_cause(lab: Lab) -> None:
    lab.executor.failures["b"] = [CRASH]
    state = lab.run(pipeline("a b c d", "a e", "c f"))
    assert state.state == "failed"
    assert states(state) == {
        "a": "done",
        "b": "failed",
        "c": "skipped",
        "d": "skipped",
        "e": "done",
        "f": "skipped",
    }
    assert "'b'" in state.nodes["d"].text


def test_a_node_is_tried_again_as_often_as_its_settings_say(lab: Lab) -> None:
    lab.executor.failures["a"] = [CRASH, CRASH]
    state = lab.run(pipeline("a b", settings={"a": NodeSettings(retries=2)}))
    assert lab.executor.executed == ["a", "a", "a", "b"]
    assert state.state == "done"
    assert state.nodes["a"].try_number == 3


@pytest.mark.parametrize(("own", "tries"), [(None, 4), (0, 1), (1, 2), (5, 6)])
def test_retries_of_a_node_come_before_those_of_the_run(
    lab: Lab, own: int | None, tries: int
) -> None:
    lab.executor.failures["a"] = [CRASH] * 9
    settings = {"a": NodeSettings(retries=own)}
    assert lab.run(pipeline("a", settings=settings), RunOptions(retries=3)).state == "failed"
    assert lab.executor.executed == ["a"] * tries


def test_a_retry_says_which_try_it_is(lab: Lab) -> None:
    lab.executor.failures["a"] = [CRASH]
    state = lab.run(pipeline("a"), RunOptions(retries=2))
    events = [entry.event for entry in lab.log.events(state.id)]
    assert [event.why for event in events if isinstance(event, NodeRetrying)] == [
        f"failed: {CRASH.message}; try 2 of 3 in {scheduling.BACK_OFF_SECONDS:g} s"
    ]


def test_retries_end(lab: Lab) -> None:
    lab.executor.failures["a"] = [CRASH] * 9
    assert lab.run(pipeline("a"), RunOptions(retries=1)).state == "failed"
    assert lab.executor.executed == ["a", "a"]


def test_bad_input_is_not_tried_again(lab: Lab) -> None:
    lab.executor.failures["a"] = [Failure("bad-input", "no such column", "target")]
    state = lab.run(pipeline("a"), RunOptions(retries=5))
    assert lab.executor.executed == ["a"]
    assert state.nodes["a"].error["field"] == "target"


def test_up_to_a_node_runs_it_and_what_it_needs(lab: Lab) -> None:
    lab.run(pipeline("a b c", "a d"), RunOptions(to=("b",)))
    assert lab.executor.executed == ["a", "b"]


def test_from_a_node_runs_it_and_those_below_afresh(lab: Lab) -> None:
    document = pipeline("a b c", "a d", a=1)
    lab.run(document)
    state = lab.run(document, RunOptions(force_from=("b",)))
    assert lab.executor.executed == ["b", "c"]
    assert states(state) == {"a": "cached", "b": "done", "c": "done"}


def test_a_node_run_for_its_effect_runs_in_every_run(lab: Lab) -> None:
    document = pipeline("a once")
    lab.run(document)
    lab.run(document)
    assert lab.executor.executed == ["once"]


def test_finished_nodes_of_the_run_are_not_run_again(lab: Lab) -> None:
    document = pipeline("a b c")
    first = lab.scheduler(document)
    first.run()
    lab.executor.executed.clear()
    again = lab.scheduler(document, outputs={"a": first.outputs["a"], "b": first.outputs["b"]})
    lab.store.workspace.results.joinpath(f"{first.keys['c']}.json").unlink()
    assert again.run() == "done"
    assert lab.executor.executed == ["c"]


def damage_input(lab: Lab, job) -> None:
    file = lab.workspace.objects / job.inputs["reports"][0].digest / "report.json"
    file.write_bytes(b"x" * file.stat().st_size)


def test_a_damaged_input_is_made_again_by_its_maker(lab: Lab) -> None:
    scheduler = lab.scheduler(pipeline("a b d", "a c d", a=1, b=2, c=3))
    lab.executor.before = lambda job: (
        damage_input(lab, job) if job.node == "b" and "b" not in lab.executor.executed else None
    )
    assert scheduler.run() == "done"
    assert lab.executor.executed.count("a") == 2
    assert lab.store.open(scheduler.outputs["d"]["report"]).headline["value"] == 1 + 2 + 1 + 3


def test_damage_that_comes_back_each_time_ends_as_a_failure(lab: Lab) -> None:
    lab.executor.before = lambda job: damage_input(lab, job) if job.node == "b" else None
    state = lab.run(pipeline("a b"))
    assert states(state) == {"a": "done", "b": "failed"}
    assert lab.executor.executed.count("b") == scheduling.REPAIRS + 1


def test_cancelling_stops_what_runs_and_starts_nothing_more(lab: Lab) -> None:
    scheduler = lab.scheduler(pipeline("a b c"))
    lab.executor.before = lambda job: scheduler.cancel()
    assert scheduler.run() == "cancelled"
    assert lab.executor.executed == ["a"]


def test_a_store_limit_is_handed_to_the_workers(lab: Lab) -> None:
    rooms = []
    lab.executor.before = lambda job: rooms.append(job.bytes_left)
    lab.run(pipeline("a b"), RunOptions(store_limit=1000))
    assert rooms[0] == 1000
    assert rooms[1] < 1000


def test_threads_are_shared_among_what_runs_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling.os, "sched_getaffinity", lambda pid: range(8))
    threads = {}
    lab.executor.before = lambda job: threads.update({job.node: job.threads})
    lab.run(pipeline("a b d", "a c d"))
    assert threads == {"a": 8, "b": 4, "c": 4, "d": 8}


def test_what_a_node_tells_of_its_result_is_noted_down(lab: Lab) -> None:
    wait = lab.executor.wait

    def telling(timeout):
        started, *others = wait(timeout)
        return [
            started,
            PartialResult(node=started.node, name="layer-1", data={"score": 0.5}),
            *others,
        ]

    lab.executor.wait = telling
    state = lab.run(pipeline("a"))
    assert (state.nodes["a"].state, state.nodes["a"].partial_results) == (
        "done",
        {"layer-1": {"score": 0.5}},
    )
