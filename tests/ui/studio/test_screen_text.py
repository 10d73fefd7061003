"""Text of others on screen."""

from __future__ import annotations

import pytest

from ui.studio.screen_text import plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("two words", "two words"),
        ("two\n\nlines", "two lines"),
        ("**b** $x$ <i>", r"\*\*b\*\* \$x\$ \<i\>"),
        ("sample:digits at 12:03", r"sample\:digits at 12\:03"),
        (":material/delete: :red[x]", r"\::small[]material/delete: \:red\[x\]"),
        ("a:b:c :+1: 9: ok", r"a\::small[]b\:c \::small[]+1: 9: ok"),
        (":_x_: a::b", r"\::small[]\_x\_: a\::small[]\:b"),
        (
            "https://a.b www.a.b x_WWW.a x@y.z",
            r"https\::small[]//a.b www:small[].a.b x_WWW:small[].a x:small[]@y.z",
        ),
        (
            "a -> b <-> c -- d >= e->f",
            r"a -:small[]\> b \<:small[]-:small[]\> c -:small[]- d \>:small[]= e-\>f",
        ),
        ("# no heading", r"\# no heading"),
        ("--", r"\-:small[]-"),
        ("1. no list", r"1\. no list"),
        ("snake_case _loose_", r"snake_case \_loose\_"),
        ("class \u202eevil\u2066 name", "class evil name"),
    ],
)
def test_nothing_of_it_is_markdown_and_nothing_turns_the_line_around(given: str, shown: str):
    assert plain(given) == shown
    assert shown.isascii() or not given.isascii(), "nothing foreign that a copy would carry"
