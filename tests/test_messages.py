"""All texts of the product are in one file, so that a person reads every change to them.

After a change to a text: ``pytest tests/test_messages.py --update-messages``, then read the diff.
"""

from __future__ import annotations

import difflib

import pytest

from tests.command_line import ROOT
from tests.message_catalog import catalog, python_messages, script_messages

MESSAGES = ROOT / "tests" / "messages.txt"


def test_the_file_of_messages_is_up_to_date(request: pytest.FixtureRequest) -> None:
    found = catalog(ROOT)
    if request.config.getoption("--update-messages"):
        MESSAGES.write_text(found, encoding="utf-8")
    kept = MESSAGES.read_text(encoding="utf-8") if MESSAGES.exists() else ""
    lines = difflib.unified_diff(
        kept.splitlines(), found.splitlines(), "messages.txt", "source", lineterm="", n=1
    )
    assert kept == found, "\n".join(
        ["renew it: pytest tests/test_messages.py --update-messages", *lines]
    )


PYTHON = '''
"""The docstring of a module."""
import re
__all__ = ["Machine"]
TITLES = {"auc": "AUC", "accuracy": "Accuracy"}
"""The titles."""


class Row(Model):
    seed: int = Field(0, title="Seed", description="Draws other rows.")


@app.command()
def run(file: Path) -> None:
    """Run a pipeline."""
    assert file, "never seen by a user"
    raise BadInput(
        f"there is no file '{file.name}'; "
        "copy it there"
    )


def show(names: list[str]) -> None:
    """Show something."""
    st.button("stop", key="stop button")
    st.html(f"<b class='a b'>{names[0]}</b>")
    log.execute("SELECT a FROM b")
    print("Accuracy", "x", re.compile("one two"), "a line\\nand another")
'''


def test_messages_of_python_are_what_a_person_may_read() -> None:
    assert python_messages(PYTHON) == [
        "Accuracy",
        "Seed",
        "Draws other rows.",
        "Run a pipeline.",
        "there is no file '{file.name}'; copy it there",
        "stop",
        "stop button",
        "a line\\nand another",
    ]


SCRIPT = """
// A comment about "two words".
const NAMES = { done: "Done", key: "done" };
if (event.key === "Escape") return refuse(`This leads from ${from} to itself.`);
return <p className="wide grey" aria-label="close">Drag a step here<b>{title}</b></p>;
"""


def test_messages_of_scripts_are_literals_and_texts_of_elements() -> None:
    assert script_messages(SCRIPT) == [
        "Done",
        "This leads from {from} to itself.",
        "close",
        "Drag a step here",
    ]
