from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import Column, load_catalog
from ui.studio.forms.field_widgets import written_columns
from ui.studio.forms.fields import specs_of

PEOPLE = "age,city,income\n31,Paris,high\n42,Rome,low\n25,Oslo,low\n"
CATALOG = load_catalog()


@pytest.mark.parametrize("name", CATALOG)
def test_every_node_type_has_a_form_whose_labels_are_the_titles(draw, name: str):
    form = draw(name)
    assert form.params == {}
    titles = {
        spec.title
        for spec in specs_of(CATALOG[name].params)
        if not spec.hint.when and spec.kind != "cards"
    }
    shown = {*form.labels, *(label.removeprefix("Add a column to ") for label in form.labels)}
    assert titles <= shown


@pytest.mark.parametrize(
    ("node_type", "before", "label", "value", "after"),
    [
        ("random-forest", {}, "Trees", 250, {"trees": 250}),
        ("random-forest", {"seed": 3}, "Trees", 250, {"seed": 3, "trees": 250}),
        ("random-forest", {}, "Depth", "7", {"max_depth": 7}),
        ("random-forest", {}, "Depth", "deep", {"max_depth": "deep"}),
        ("random-forest", {"max_depth": 7}, "Depth", "", {}),
        ("random-forest", {}, "Features per split", "log2", {"max_features": "log2"}),
        ("random-forest", {}, "Features per split", "all features", {"max_features": "all"}),
        ("random-forest", {}, "Features per split", "0.25", {"max_features": 0.25}),
        ("random-forest", {}, "Features per split", "most", {"max_features": "most"}),
        ("random-forest", {}, "Class weights", "balanced", {"class_weights": "balanced"}),
        ("random-forest", {}, "Class weights", "by name", {"class_weights": {}}),
        ("random-forest", {"class_weights": {"a": 2}}, "a", "3.5", {"class_weights": {"a": 3.5}}),
        ("random-forest", {"class_weights": {"a": 2}}, "a", "x", {"class_weights": {"a": "x"}}),
        ("random-forest", {"class_weights": {"a": 2}}, "Add a class to Class weights", "b",
         {"class_weights": {"a": 2, "b": 1}}),
        ("mart", {}, "Learning rate", 0.05, {"learning_rate": 0.05}),
        ("mlp", {}, "Layers", "200, 50", {"layers": [200, 50]}),
        ("mlp", {}, "Layers", "200, fifty", {"layers": [200, "fifty"]}),
        ("mlp", {"layers": [5]}, "Layers", "", {}),
        ("split", {}, "Stratified", False, {"stratified": False}),
        ("split", {}, "Time column", "when", {"time_column": "when"}),
        ("split", {"time_column": "when"}, "Time column", "", {}),
        ("save-model", {}, "Name", "best", {"name": "best"}),
        ("save-model", {"name": "best"}, "Name", "", {}),
        ("save-table", {}, "Format", "arrow", {"format": "arrow"}),
        ("evaluate", {"name": "A"}, "Name", "", {"name": ""}),
        ("select-columns", {}, "Types", ["time", "text"], {"kinds": ["time", "text"]}),
        ("select-columns", {}, "Columns", ["pixel_*"], {"columns": ["pixel_*"]}),
        ("load-data", {}, "Source", "Iris (sample)", {"source": "sample:iris"}),
        ("load-data", {}, "Source", "sample:iris", {"source": "sample:iris"}),
        ("load-data", {}, "Source", "mine.csv", {"source": "mine.csv"}),
        ("load-data", {}, "Source", "s3://KEY:hunter2@lake/a.csv", {"source": "s3://lake/a.csv"}),
        ("load-data", {"source": "a.xlsx"}, "Sheet", "May", {"source": "a.xlsx", "sheet": "May"}),
        ("load-data", {"source": "a.xlsx", "sheet": "May"}, "Source", "b.xlsx",
         {"source": "b.xlsx"}),
        ("load-data", {"source": "postgresql://host/shop"}, "Query", "SELECT 1",
         {"source": "postgresql://host/shop", "query": "SELECT 1"}),
        ("load-data", {}, "Target", "digit", {"target": "digit"}),
        ("load-data", {"target": "digit"}, "Target", None, {}),
        ("load-data", {}, "Add a column to Roles", "pixel_0_0",
         {"roles": {"pixel_0_0": "feature"}}),
        ("load-data", {"roles": {"pixel_0_0": "id"}}, "pixel_0_0", "ignore",
         {"roles": {"pixel_0_0": "ignore"}}),
        ("load-data", {}, "Missing texts", ["", "-"], {"missing": ["", "-"]}),
        ("load-data", {"source": "sample:fraud"}, "Share of fraud", 0.02,
         {"source": "sample:fraud", "fraud_share": 0.02}),
        ("deep-forest", {}, "Class vectors", "oob", {"class_vectors": "oob"}),
        ("deep-forest", {"class_vectors": "oob"}, "Class vectors", None, {}),
        ("deep-forest", {}, "Tolerance", "1e-3", {"tolerance": 0.001}),
    ],
)  # fmt: skip
def test_an_edit_changes_its_own_field_only(
    draw, node_type: str, before: Any, label: str, value: Any, after: Any
):
    assert draw(node_type, **before).give(label, value) == after


@pytest.mark.parametrize(
    ("node_type", "params", "label", "shown"),
    [
        ("random-forest", {"trees": "many"}, "Trees", "many"),
        ("random-forest", {"trees": 0}, "Trees", 0),
        ("random-forest", {"trees": 10**30}, "Trees", str(10**30)),
        ("random-forest", {"trees": [5]}, "Trees", "[5]"),
        ("random-forest", {"max_features": "most"}, "Features per split", "most"),
        ("random-forest", {"class_weights": 5}, "Class weights", "5"),
        ("random-forest", {"class_weights": {"a": "x"}}, "a", "x"),
        ("split", {"stratified": "perhaps"}, "Stratified", "perhaps"),
        ("split", {"time_column": 5}, "Time column", "5"),
        ("save-table", {"format": "pdf"}, "Format", "pdf"),
        ("mlp", {"layers": "wide"}, "Layers", "wide"),
        ("select-columns", {"kinds": ["odd"]}, "Types", '["odd"]'),
        ("load-data", {"roles": ["a"]}, "Roles", '["a"]'),
        ("load-data", {"roles": {"pixel_0_0": "king"}}, "pixel_0_0", "king"),
        ("load-data", {"missing": [5]}, "Missing texts", "[5]"),
        ("deep-forest", {"preset": "oak"}, "Preset", "oak"),
        ("deep-forest", {"folds": 1}, "Folds", "1"),
        ("deep-forest", {"learners": 5}, "Base learners", "5"),
    ],
)
def test_a_wrong_value_is_kept_shown_and_its_problem_is_told(
    draw, node_type: str, params: Any, label: str, shown: Any
):
    form = draw(node_type, **params)
    assert form.find(label).value == shown
    said = form.said.replace("\\", "").lower()
    assert {(problem.field or "").partition(".")[0] for problem in form.problems} == {*params}
    assert any(problem.message.lower() in said for problem in form.problems)
    assert form.params == params


def test_a_wrong_value_can_be_mended_and_then_has_its_own_widget_again(draw):
    form = draw("random-forest", trees="many", seed=1)
    assert form.give("Trees", "60") == {"trees": 60, "seed": 1}
    assert form.find("Trees").value == 60
    assert form.give("Trees", 61) == {"trees": 61, "seed": 1}


def test_a_number_set_back_to_its_default_is_no_longer_a_setting(draw):
    form = draw("random-forest", trees=5)
    assert form.give("Trees", 100) in ({}, {"trees": 100})


def test_a_drawing_that_is_cut_short_leaves_no_widget_with_another_value_than_the_documents(draw):
    """The browser may draw a widget only in a later run; it then starts with that run's value."""
    form = draw("split", test_share=0.45, stratified=False, seed=17)
    for _ in range(2):
        for label, value in (("Share of test rows", 0.45), ("Seed", 17)):
            assert form.find(label).proto.default == value
        assert form.find("Stratified").proto.default is False
        form.run()
    assert form.params == {"test_share": 0.45, "stratified": False, "seed": 17}


@pytest.mark.parametrize("name", CATALOG)
def test_no_value_however_odd_breaks_a_form(draw, name: str):
    odd = [
        None,
        True,
        -5,
        10**30,
        1.5,
        "",
        "x\ny",
        [],
        [None],
        ["a", 1],
        {},
        {"a": None, "": []},
        [{"kind": "mart"}],
    ]
    names = [spec.name for spec in specs_of(CATALOG[name].params)]
    for value in odd:
        params = dict.fromkeys(names, value)
        assert draw(name, **params).params == params


def test_edits_follow_each_other_and_none_is_lost(draw):
    form = draw("mart", bogus=[1])
    form.find("Trees").set_value(5)
    form.find("Leaves").set_value(9)
    assert form.run().params == {"bogus": [1], "trees": 5, "leaves": 9}
    assert form.press("bogus.remove") == {"trees": 5, "leaves": 9}


def test_problems_without_a_field_of_the_form_are_at_the_top(draw):
    form = draw("deep-forest", gamma=0.4, bogus=1)
    top = "".join(one.value for one in form.app.markdown[:2])
    assert "Training rows" in top and "'bogus'" in top and "'table'" not in top
    assert form.find("Target margin γ").value == "0.4"


def test_what_the_document_says_otherwise_is_shown_without_another_key(draw):
    form = draw("mart", trees=5)
    pipeline = form.app.session_state["document"]
    form.give("Trees", 6)
    form.app.session_state["document"] = pipeline
    assert form.run().find("Trees").value == 5


def test_another_key_draws_anew_from_the_document(draw):
    form = draw("mlp")
    form.give("Layers", "7, x")
    form.draw_anew()
    assert form.run().find("Layers").value == '[7, "x"]'


@pytest.mark.parametrize(
    ("params", "shown", "hidden"),
    [
        ({}, set(), {"Payments", "Delimiter", "Format"}),
        ({"source": "sample:fraud"}, {"Payments", "Seed"}, {"Delimiter"}),
        ({"source": "people.csv"}, {"Delimiter", "Encoding", "Format"}, {"Payments"}),
        ({"source": "people.csv", "rows": 5_000}, {"Payments"}, {"Seed"}),
        ({"source": "people.parquet"}, {"Format"}, {"Delimiter"}),
    ],
)
def test_fields_are_there_when_they_apply_or_are_set(
    draw, params: Any, shown: set[str], hidden: set[str]
):
    labels = set(draw("load-data", **params).labels)
    assert shown <= labels and not hidden & labels


@pytest.mark.parametrize(
    ("params", "opened"),
    [({}, False), ({"test_rows": 5}, True), ({"test_rows": "x"}, True), ({"seed": 3}, False)],
)
def test_the_folded_part_opens_for_a_value_or_a_problem(draw, params: Any, opened: bool):
    assert draw("split", **params).app.expander[0].proto.expanded is opened


def test_the_folded_part_does_not_close_when_its_value_is_taken_out(draw):
    form = draw("split", test_rows=5)
    assert form.give("Number of test rows", "") == {}
    assert form.app.expander[0].proto.expanded


def test_rows_of_a_table_are_added_and_removed(draw):
    form = draw("load-data")
    assert form.find("Add a column to Types").options[0] == "pixel_0_0"
    form.give("Add a column to Types", "pixel_0_0")
    assert form.find("Add a column to Types").value is None
    assert "pixel_0_0" not in form.find("Add a column to Types").options
    assert form.give("pixel_0_0", "text") == {"types": {"pixel_0_0": "text"}}
    form.give("Add a column to Types", "digit")
    assert form.press("types.pixel_0_0.remove") == {"types": {"digit": "number"}}


def test_a_name_that_is_there_already_keeps_its_value(draw):
    form = draw("random-forest", class_weights={"a": 7})
    assert form.give("Add a class to Class weights", "a") == {"class_weights": {"a": 7}}
    assert form.find("Add a class to Class weights").value == ""
    form = draw("load-data", source="gone.csv", roles={"age": "id"})
    assert form.give("Add a column to Roles", "age")["roles"] == {"age": "id"}


def test_files_of_the_workspace_and_samples_are_offered(draw, tmp_path: Path):
    (tmp_path / "data/people.csv").write_text(PEOPLE)
    form = draw("load-data")
    assert form.find("Source").options == [
        "people.csv",
        "Digits (sample)",
        "Breast cancer (sample)",
        "Wine (sample)",
        "Iris (sample)",
        "Diabetes (sample)",
        "Customers (sample)",
        "Payments (sample)",
    ]
    assert form.find("Source").value == "Digits (sample)"
    form.give("Source", "people.csv")
    assert form.find("Target").options == ["(not set)", "age", "city", "income"]


def test_columns_of_a_file_flow_along_the_edges_to_a_picker(draw_document, tmp_path: Path):
    (tmp_path / "data/people.csv").write_text(PEOPLE)
    nodes = {
        "load": {
            "type": "load-data",
            "params": {"source": "people.csv", "target": "income", "types": {"age": "text"}},
        },
        "split": {"type": "split"},
        "select": {"type": "select-columns", "params": {"columns": ["city"]}},
        "last": {"type": "split"},
    }
    edges = [
        ("load.table", "split.table"),
        ("split.train", "select.table"),
        ("select.table", "last.table"),
    ]
    form = draw_document("select", nodes, *edges)
    assert form.find("Columns").options == ["age", "city", "income"]
    assert form.find("Columns").value == ["city"]
    assert draw_document("last", nodes, *edges).find("Time column").options == [
        "(not set)",
        "age",
        "income",
    ]


def test_columns_are_offered_while_another_field_of_the_source_is_wrong(draw, tmp_path: Path):
    (tmp_path / "data/people.csv").write_text(PEOPLE)
    form = draw("load-data", source="people.csv", max_columns="x", roles={"zzz": "king"})
    assert form.find("Target").options == ["(not set)", "age", "city", "income"]


def test_part_of_a_name_is_not_taken_for_a_column_where_the_columns_are_known(draw, draw_document):
    form = draw("load-data")
    for label in ("Target", "Add a column to Roles", "Add a column to Types"):
        assert not form.find(label).proto.accept_new_options, label
    assert form.find("Source").proto.accept_new_options  # a file may come later
    nodes = {"load": {"type": "load-data"}, "split": {"type": "split"}}
    known = draw_document("split", nodes, ("load.table", "split.table")).find("Time column")
    assert not known.proto.accept_new_options
    assert known.options[1] == "pixel_0_0"  # as it is: the browser tells a choice by what it shows
    assert draw("split").give("Time column", "when") == {"time_column": "when"}


def test_a_name_that_is_not_among_the_columns_is_kept(draw):
    form = draw("load-data", target="no such column")
    assert form.find("Target").value == "no such column"
    assert [problem.field for problem in form.problems] == ["target"]
    assert form.problems[0].message.lower() in form.said.lower()


def test_hostile_text_is_shown_and_not_obeyed(draw):
    name = "**b** :red[x] <b> [a](b)"
    form = draw("load-data", roles={name: "king"}, **{name: 1})
    assert "**b**" not in form.said and r"\*\*b\*\*" in form.said
    assert form.press(f"roles.{name}.remove") == {"roles": {}, name: 1}


def third_party() -> None:
    """An app with a node type of someone else's, whose fields need every kind of widget."""
    import streamlit as st

    from engine.node_types import NodeType
    from engine.pipeline import Node
    from tests.ui.studio.forms.test_fields import Everything
    from ui.studio.forms.node_form import node_form

    node_type = NodeType(
        "odd", "Odd", "Data", "Odd.", 1, Everything, lambda ctx, inputs, params: {}
    )
    params = st.session_state.setdefault("params", {})

    def change(edit) -> None:
        st.session_state["params"] = edit(st.session_state["params"])

    node_form(
        Node(type="odd", params=params),
        node_type,
        columns=None,
        offered_files=[],
        problems=[],
        key="odd",
        change=change,
    )


def odd_app() -> AppTest:
    app = AppTest.from_function(third_party, default_timeout=30).run()
    assert not app.exception, app.exception[0].stack_trace
    return app


@pytest.mark.parametrize(
    ("label", "value", "after"),
    [
        ("Flag", False, {"flag": False}),
        ("Maybe", True, {"maybe": True}),
        ("Needed", "x", {"needed": "x"}),
        ("Maybe Mode", "a", {"maybe_mode": "a"}),
        ("Add a name to Weights", "w", {"weights": {"w": 1}}),
        ("Day", "2026-01-02", {"day": "2026-01-02"}),
        ("Odd", '{"a": [1]}', {"odd": {"a": [1]}}),
        ("Odd", "{", {"odd": "{"}),
        ("Anything", "[1, 2]", {"anything": [1, 2]}),
    ],
)
def test_a_third_party_node_has_a_form_too(label: str, value: Any, after: Any):
    app = odd_app()
    kinds = ("selectbox", "text_input", "text_area", "toggle")
    next(one for kind in kinds for one in app.get(kind) if one.label == label).set_value(value)
    assert not app.run().exception
    assert app.session_state["params"] == after


def test_cards_of_a_third_party_node_take_their_kinds_from_its_model():
    app = odd_app()
    app.button(key="odd.trees.add").click().run()
    assert app.session_state["params"] == {"trees": [{"kind": "oak"}]}
    app.selectbox(key="odd.trees.0.kind").set_value("fir").run()
    assert app.session_state["params"] == {"trees": [{"kind": "fir"}]}
    assert not app.exception and "Height" in [one.label for one in app.number_input]


def test_an_expression_and_a_query_list_the_columns_as_they_are_written(draw_document):
    nodes = {"load": {"type": "load-data", "params": {"source": "sample:breast-cancer"}}}
    for node_type, port in (("derive-column", "table"), ("sql", "a")):
        form = draw_document(
            node_type,
            {**nodes, node_type: {"type": node_type}},
            ("load.table", f"{node_type}.{port}"),
        )
        shown = " ".join(caption.value for caption in form.app.caption)
        assert '"mean radius" (number)' in shown.replace("\\", "")
        assert "diagnosis (category)" in shown


def test_a_long_list_of_columns_is_cut():
    columns = [Column(f"c{number}", "number") for number in range(1_050)]
    assert written_columns(columns).endswith("c39 (number) and 1,010 more")
    assert written_columns([Column('a "b"', "text")]) == '"a ""b""" (text)'


def test_a_list_names_what_is_added(draw):
    assert "Add a condition" in [button.label for button in draw("filter-rows").app.button]


def test_an_empty_task_says_what_the_target_is_predicted_as(draw):
    for source, words in (
        ("sample:diabetes", "a number (its own)"),
        ("x.csv", "a class (default)"),
    ):
        form = draw("load-data", source=source)
        task = next(one for one in form.app.selectbox if one.label == "Predict the target as")
        assert task.options[0] == words
