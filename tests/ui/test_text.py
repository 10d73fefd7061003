"""Text of others on screen."""

from __future__ import annotations

import pytest

from ui.text import plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("two words", "two words"),
        ("two\n\nlines", "two lines"),
        ("**b** $x$ <i>", r"\*\*b\*\* \$x\$ \<i\>"),
        (":material/delete: :red[x]", ":\u200bmaterial/delete: :\u200bred\\[x\\]"),
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("snake_case _loose_", r"snake_case \_loose\_"),
        ("class \u202eevil\u2066 name", "class evil name"),
    ],
)
def test_nothing_of_it_is_markdown_and_nothing_turns_the_line_around(given: str, shown: str):
    assert plain(given) == shown
