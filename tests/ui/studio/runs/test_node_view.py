"""What is said about a node of a run uses one word for one thing."""

from __future__ import annotations

import pytest

from engine.run_state import NodeState
from ui.studio.runs.node_view import state_facts


@pytest.mark.parametrize(
    ("try_number", "tries", "said"),
    [(1, 3, ""), (2, 3, "try 2 of 3"), (4, 3, "try 4"), (2, 0, "try 2")],
)
def test_a_node_says_which_try_it_is_and_how_often_its_process_was_started(
    try_number: int, tries: int, said: str
) -> None:
    node = NodeState("running", try_number, executions=5)
    words = state_facts(node, 0.0, tries)
    assert "executed 5 times" in words
    assert [word for word in words if word.startswith("try")] == ([said] if said else [])
    assert not any("attempt" in word for word in words)
