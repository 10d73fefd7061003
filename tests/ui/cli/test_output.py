"""Tables fit the terminal they are printed on; a report is as short as it can be."""

from __future__ import annotations

import pytest

from engine.values import Report
from ui.cli import output

ROWS = [
    {"name": "first", "empty": None, "score": 0.5, "words": "a rather long text that goes on"}
    for _ in range(2)
]


def printed(rows: list[dict], capsys: pytest.CaptureFixture[str]) -> list[str]:
    output.print_table(rows)
    return capsys.readouterr().out.splitlines()


def test_columns_are_aligned_and_those_without_values_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(ROWS, capsys)
    assert lines[0] == "name   score   words"
    assert lines[1] == "first  0.5000  a rather long text that goes on"


@pytest.mark.parametrize("columns", [60, 40, 36])
def test_a_long_last_column_is_wrapped(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, printed(ROWS, capsys))) <= columns


def test_columns_that_do_not_fit_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    lines = printed([{f"column {index}": "x" * 10 for index in range(9)}], capsys)
    assert all(part in lines[-1] for part in ("5", "--json"))
    assert max(map(len, lines)) <= 50


def test_nothing_is_printed_for_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed([], capsys) == []


def test_of_a_saved_model_the_folder_and_the_number_of_files_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [{"file": f"layer-{number}.npz", "bytes": 10} for number in range(43)]
    headline = {"name": "mine", "folder": "models/mine"}
    report = vars(Report("saved-model", "Saved 'mine'", headline, rows=files))
    output.print_report("save", report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == ["  name    mine", "  folder  models/mine", "  files   43", ""]
    output.print_report("save", report | {"kind": "other"})
    assert "layer-42.npz" in capsys.readouterr().out
