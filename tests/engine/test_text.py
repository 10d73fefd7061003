"""Values are put into the words of messages."""

from __future__ import annotations

import pytest

from engine import text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0.0421, "42 ms"), (5.25, "5.2 s"), (125, "2 min 5 s"), (7260, "2 h 1 min")],
)
def test_times_are_written_in_the_unit_that_fits(seconds: float | None, words: str) -> None:
    assert text.duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(999, "999 bytes"), (1_500, "2 kB"), (2_000_000, "2 MB"), (3 * 10**9, "3.0 GB")],
)
def test_sizes_are_written_in_the_unit_that_fits(count: int, words: str) -> None:
    assert text.size(count) == words


def test_a_noun_follows_its_number() -> None:
    assert text.counted(1, "row") == "1 row"
    assert text.counted(2_000, "row") == "2,000 rows"
    assert text.counted(0, "branch", "branches") == "0 branches"


def test_only_the_first_names_of_a_long_list_are_written() -> None:
    assert text.listed(["a", "b"]) == "'a', 'b'"
    assert text.listed(range(1, 1_010), most=2) == "'1', '2' and 1,007 more"
    assert text.listed([]) == ""


def test_the_nearest_name_is_suggested_whatever_its_case() -> None:
    assert text.suggest("INCOM", ["age", "Income"], "none is near") == "did you mean 'Income'?"
    assert text.suggest("zzz", ["age", "Income"], "none is near") == "none is near"
    assert text.suggest("t" * 1_000_000, ["table"], "none is near") == "none is near"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain", "plain"),
        ("naïve ✓", "naïve ✓"),
        ("two\n\tlines", "two\n\tlines"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("\x07\x00", "\\x07\\x00"),
        ("abc\u202edef", "abc\\u202edef"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(written: str, shown: str) -> None:
    assert text.readable(written) == shown


def test_long_text_is_cut() -> None:
    assert text.readable("x" * 20, longest=5) == "xxxxx …"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a", "'a'"),
        ("\x1b[31m\ud800", r"'\x1b[31m\ud800'"),
        ("x" * 200, "'" + "x" * 80 + "…'"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("inf"), "infinity"),
        (-float("inf"), "-infinity"),
        (1e300, "1e+300"),
        (10**400, "1" + "0" * 19 + "…"),
        pytest.param(-(10**5000), "-1" + "0" * 18 + "…", id="more digits than Python writes"),
        ([1], "a list"),
        ({}, "an object"),
        (object(), "a object"),
    ],
)
def test_values_are_shown_short_and_harmless(value: object, words: str) -> None:
    assert text.shown(value) == words
