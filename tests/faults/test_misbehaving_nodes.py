"""Whatever a node does to its process, it fails alone, with a message a person can act on."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.faults.lab import Answer, Lab, pipeline

MISBEHAVIOUR = {
    "exit": ({"action": "exit", "amount": 7}, "crashed", "exit code 7"),
    "exit_as_if_well": ({"action": "exit", "amount": 0}, "crashed", "exit code 0"),
    "segfault": ({"action": "segfault"}, "crashed", "SIGSEGV"),
    "abort": ({"action": "abort"}, "crashed", "SIGABRT"),
    "bad_file": ({"action": "abort-reading"}, "bad-input", "large.parquet"),
    "killed": ({"action": "signal", "amount": signal.SIGKILL}, "crashed", "SIGKILL"),
    "odd_signal": ({"action": "signal", "amount": signal.SIGRTMIN + 3}, "crashed", "signal 37"),
    "error": ({"action": "raise"}, "error", "RuntimeError: the probe was told to fail"),
    "long_error": ({"action": "long-error", "amount": 1}, "error", "RuntimeError: too much to say"),
    "odd_error": ({"action": "odd-error"}, "error", "RuntimeError: a file named"),
    "memory": (
        {"action": "allocate", "amount": 300, "settings": {"memory_limit": 200}},
        "memory",
        "200 MB",
    ),
    "last_crumb": ({"action": "hoard", "settings": {"memory_limit": 100}}, "memory", "100 MB"),
    "timeout": (
        {"action": "sleep", "amount": 60, "settings": {"timeout": 0.2}},
        "timeout",
        "0.2 s",
    ),
    "stubborn": (
        {"action": "stubborn", "amount": 60, "settings": {"timeout": 0.3}},
        "timeout",
        "0.3 s",
    ),
    "left_child": (
        {"action": "spawn", "amount": 60, "settings": {"timeout": 0.4}},
        "timeout",
        "0.4 s",
    ),
}
"""For each node: what it does, the kind of failure, a value that the message names."""

FAILING = {name: params for name, (params, _, _) in MISBEHAVIOUR.items()}
WELL = {"good": {}, "better": {"after": "good"}, "child": {"action": "spawn"}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("misbehaving"))
    try:
        yield made
        made.no_process_is_left()
    finally:
        made.kill_everything()


@pytest.fixture(scope="module")
def outcome(lab: Lab) -> Answer:
    """One run in which everything goes wrong at once."""
    below = {"below": {"after": "segfault better"}, "far_below": {"after": "below"}}
    return lab.run(pipeline(**FAILING, **WELL, **below))


@pytest.mark.parametrize("node", MISBEHAVIOUR)
def test_the_failure_is_named(node: str, outcome: Answer) -> None:
    _, kind, words = MISBEHAVIOUR[node]
    assert outcome.states[node] == "failed"
    assert outcome.nodes[node]["error"]["kind"] == kind
    assert words in outcome.message(node)
    assert len(outcome.message(node)) < 10_000


def test_the_rest_of_the_pipeline_finishes(outcome: Answer, lab: Lab) -> None:
    assert {outcome.states[node] for node in WELL} == {"done"}
    assert set(lab.executions().values()) == {1}


def test_only_what_needs_a_failed_node_is_skipped_and_the_cause_is_named(outcome: Answer) -> None:
    skipped = {
        name: node["text"] for name, node in outcome.nodes.items() if node["state"] == "skipped"
    }
    assert list(skipped) == ["below", "far_below"]
    assert all("'segfault'" in text for text in skipped.values())


def test_a_run_with_failures_exits_with_1(outcome: Answer) -> None:
    assert (outcome.code, outcome.json["state"], outcome.json["attempts"]) == (1, "failed", 1)


def test_no_process_a_node_has_started_is_left(outcome: Answer, lab: Lab) -> None:
    lab.nothing_is_left()


def test_where_it_crashed_is_shown_on_request(outcome: Answer, lab: Lab) -> None:
    shown = lab.sylva("show", outcome.run, "segfault")
    assert "SIGSEGV" in shown.out
    assert "ctypes" in shown.out


def test_a_node_with_odd_characters_in_its_error_can_be_shown(outcome: Answer, lab: Lab) -> None:
    shown = lab.sylva("show", outcome.run, "odd_error")
    assert shown.code == 0
    assert "\x1b" not in shown.out


@pytest.mark.slow
def test_an_exception_is_one_line_on_screen_with_its_traceback_on_request(lab: Lab) -> None:
    said = lab.sylva("run", lab.write(pipeline(wrong={"action": "raise"})))
    assert said.code == 1
    assert "Node 'wrong': RuntimeError: the probe was told to fail" in said.err
    assert "sylva retry" in said.err
    assert "Traceback" in lab.sylva("show", "last", "wrong").out


def test_bad_input_exits_with_2_names_the_field_and_is_not_tried_again(lab: Lab) -> None:
    refused = lab.run(pipeline(picky={"action": "bad-input", "settings": {"retries": 3}}))
    assert (refused.code, refused.json["state"]) == (2, "failed")
    assert refused.nodes["picky"]["error"]["field"] == "action"
    assert lab.executions()["picky"] == 1


def test_retries_are_made_with_growing_pauses(lab: Lab) -> None:
    answer = lab.run(
        pipeline(flaky={"action": "fail-times", "amount": 2, "settings": {"retries": 2}})
    )
    assert (answer.code, answer.states) == (0, {"flaky": "done"})
    assert lab.executions()["flaky"] == 3
    assert answer.json["finished"] - answer.json["started"] > 1 + 2


@pytest.mark.slow
def test_a_node_that_keeps_failing_is_tried_as_often_as_set(lab: Lab) -> None:
    answer = lab.run(pipeline(hopeless={"action": "exit", "amount": 3}), "--retries", "1")
    assert (answer.code, answer.states) == (1, {"hopeless": "failed"})
    assert lab.executions()["hopeless"] == 2


@pytest.mark.slow
def test_limits_given_for_the_whole_run_hold_for_each_node(lab: Lab) -> None:
    greedy, idle = {"action": "allocate", "amount": 200}, {"action": "sleep", "amount": 60}
    answer = lab.run(
        pipeline(greedy=greedy, idle=idle), "--memory-limit", "150", "--timeout", "0.5"
    )
    assert answer.code == 1
    assert {name: node["error"]["kind"] for name, node in answer.nodes.items()} == {
        "greedy": "memory",
        "idle": "timeout",
    }
    assert "150 MB" in answer.message("greedy")
    assert "0.5 s" in answer.message("idle")


@pytest.mark.slow
@pytest.mark.parametrize("node", MISBEHAVIOUR)
def test_a_failed_run_never_exits_with_0(node: str, lab: Lab) -> None:
    alone = pipeline(**{f"alone_{node}": {**FAILING[node], "value": 100}})
    # A crash while a file is read is a problem of that file: invalid input.
    expected = 2 if node == "bad_file" else 1
    assert lab.run(alone).code == expected
    assert lab.sylva("retry", "last", "--json").code == expected
