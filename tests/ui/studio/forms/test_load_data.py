"""The form of Load data: its sources in words, an upload, and the target that is proposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.data.columns import proposed_target
from ui.studio.forms.load_data import with_source

LABELLED = "age,city,Label\n31,Paris,high\n42,Rome,low\n25,Oslo,low\n"


def send(form: Any, name: str, content: str) -> Any:
    form.app.file_uploader[0].set_value((name, content.encode(), "text/csv"))
    return form.run()


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["age", "target"], "target"),
        (["Label", "age"], "Label"),
        (["age", "CLASS "], "CLASS "),
        (["x", "y"], "y"),
        (["y", "target"], "y"),
        (["yes", "labels", "subclass", "outcome"], None),
        ([], None),
    ],
)
def test_a_column_named_like_a_target_is_proposed_and_nothing_is_guessed(
    names: list[str], target: str | None
):
    assert proposed_target(names) == target


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        ({}, ["age", "label"], {"source": "a.csv", "target": "label"}),
        ({"target": "age"}, ["age", "label"], {"source": "a.csv", "target": "age"}),
        ({"target": "gone"}, ["age", "label"], {"source": "a.csv", "target": "label"}),
        ({"target": "gone"}, ["age"], {"source": "a.csv"}),
        ({"target": "kept"}, None, {"source": "a.csv", "target": "kept"}),
        ({"seed": 3}, ["age"], {"source": "a.csv", "seed": 3}),
    ],
)
def test_another_source_keeps_its_target_or_gets_the_proposed_one(
    before: dict[str, Any], names: list[str] | None, after: dict[str, Any]
):
    assert with_source(before, "a.csv", names) == after


def test_the_target_is_proposed_when_a_file_is_chosen(draw, tmp_path: Path):
    (tmp_path / "data/people.csv").write_text(LABELLED)
    form = draw("load-data")
    assert form.find("Target").options[0] == "digit (its own)"
    assert form.give("Source", "people.csv") == {"source": "people.csv", "target": "Label"}
    assert form.find("Target").value == "Label" and form.problems == []
    assert form.give("Source", "Iris (sample)") == {"source": "sample:iris"}


def test_an_uploaded_file_is_saved_and_chosen_with_its_target(draw, tmp_path: Path):
    form = draw("load-data", seed=3)
    send(form, "people.csv", LABELLED)
    assert form.params == {"seed": 3, "source": "people.csv", "target": "Label"}
    assert (tmp_path / "data/people.csv").read_text() == LABELLED
    assert form.find("Source").value == "people.csv"
    assert any("people.csv was added" in toast.value for toast in form.app.toast)


def test_a_damaged_file_is_refused_and_nothing_is_saved(draw, tmp_path: Path):
    form = send(draw("load-data"), "people.parquet", "not a table")
    assert form.params == {} and "not saved" in form.app.error[0].value
    assert list((tmp_path / "data").iterdir()) == []


def test_a_target_that_looks_like_a_quantity_is_predicted_as_a_number(draw, tmp_path: Path):
    rows = "".join(f"{i * 1.5},{i % 2},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "data/homes.csv").write_text("price,sold,city\n" + rows)
    form = draw("load-data")
    form.give("Source", "homes.csv")
    assert form.give("Target", "price") == {
        "source": "homes.csv",
        "target": "price",
        "task": "regression",
    }
    assert form.problems == []
    assert form.give("Target", "sold") == {"source": "homes.csv", "target": "sold"}
