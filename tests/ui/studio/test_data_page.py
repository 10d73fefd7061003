"""The Data page as Streamlit draws it, without a browser."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import load_catalog
from engine.pipeline_library import Library
from engine.workspace import Workspace
from tests.ui.studio.runs.lab import labels, press, words
from ui.studio import data_page, links, upload
from ui.studio.session import Studio

CSV = "age,job,pay\n" + "".join(
    f"{i},{['cook', 'nurse', 'pilot'][i % 3]},{'high' if i > 30 else 'low'}\n" for i in range(40)
)


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    for module in (data_page, upload):
        monkeypatch.setattr(module, "studio", lambda: made)
    return made


def _page() -> None:
    from ui.studio.data_page import page

    page()


def at(file: str = "") -> AppTest:
    test = AppTest.from_function(_page, default_timeout=30)
    if file:
        test.query_params["file"] = file
    return test.run()


def send(test: AppTest, name: str, content: str | bytes) -> AppTest:
    content = content.encode() if isinstance(content, str) else content
    return test.file_uploader[0].set_value((name, content, "text/plain")).run()


def choose_target(test: AppTest, name: str) -> AppTest:
    return next(box for box in test.selectbox if box.label == "Target").set_value(name).run()


def test_an_empty_workspace_says_where_files_go_and_offers_the_samples(studio: Studio):
    test = at()
    assert not test.exception
    assert not test.dataframe and str(studio.workspace.data) in test.code[0].value
    assert {"Digits", "Breast cancer", "Wine", "Iris", "Payments"} <= {*labels(test)}


def test_a_sample_is_one_click_away_with_its_own_target(studio: Studio):
    test = press(at(), "Wine")
    assert not test.exception
    assert [title.value for title in test.subheader] == ["Data", "Wine (sample)"]
    assert "178 rows × 14 columns" in words(test)
    assert next(box for box in test.selectbox if box.label == "Target").value == "grower"
    classes = test.dataframe[0].value
    assert classes["Class"].tolist() == ["grower 1", "grower 2", "grower 3"]
    assert classes["Rows"].tolist() == [59, 71, 48]


def test_a_target_stays_when_the_page_is_loaded_again_and_goes_with_the_file(studio: Studio):
    (studio.workspace.data / "a.csv").write_text("pay,low\n" + "yes,no\nno,yes\n" * 20)
    test = choose_target(at("a.csv"), "low")
    assert test.query_params["target"] in ("low", ["low"])
    again = AppTest.from_function(_page, default_timeout=30)
    again.query_params["file"], again.query_params["target"] = "a.csv", "low"
    again.run()
    assert next(box for box in again.selectbox if box.label == "Target").value == "low"
    other = press(again, "Wine")
    assert "target" not in other.query_params
    assert next(box for box in other.selectbox if box.label == "Target").value == "grower"


def test_a_column_that_is_named_like_a_target_is_proposed(studio: Studio):
    (studio.workspace.data / "a.csv").write_text("age,Label,pay\n" + "1,a,x\n2,b,y\n" * 20)
    test = at("a.csv")
    assert next(box for box in test.selectbox if box.label == "Target").value == "Label"
    assert test.dataframe[1].value["Class"].tolist() == ["a", "b"]
    assert not next(button for button in test.button if button.key == "data-use").disabled


def test_a_target_of_the_address_that_is_no_column_is_passed_over(studio: Studio):
    test = AppTest.from_function(_page, default_timeout=30)
    test.query_params["file"], test.query_params["target"] = "sample:wine", "<b>no</b>"
    test.run()
    assert (
        not test.exception
        and next(box for box in test.selectbox if box.label == "Target").value == "grower"
    )


def test_files_are_listed_with_their_shape(studio: Studio):
    (studio.workspace.data / "a.csv").write_text(CSV)
    table = at().dataframe[0].value
    assert table[["Name", "Rows", "Columns", "Size"]].values.tolist() == [
        ["a.csv", 40, 3, len(CSV)]
    ]


def test_an_uploaded_file_is_kept_shown_and_made_into_a_pipeline(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    went: list[str] = []
    monkeypatch.setattr(links, "to_build", went.append)
    test = send(at(), "../../people.csv", CSV)
    assert not test.exception
    assert (studio.workspace.data / "people.csv").read_text() == CSV
    assert test.query_params["file"] in ("people.csv", ["people.csv"])
    assert "40 rows × 3 columns" in words(test)
    use = next(button for button in test.button if button.label == "Use in a new pipeline")
    assert use.disabled
    test = choose_target(test, "pay")
    assert test.dataframe[1].value[["Class", "Rows"]].values.tolist() == [["high", 9], ["low", 31]]
    press(test, "Use in a new pipeline")
    pipeline = Library(studio.workspace).open(went[0]).pipeline
    assert pipeline.nodes["load"].params == {"source": "people.csv", "target": "pay"}
    assert [node.type for node in pipeline.nodes.values()] == [
        "load-data",
        "split",
        "deep-forest",
        "predict",
        "evaluate",
        "inspect-layers",
    ]


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(studio: Studio):
    test = send(at(), "a.csv", b"PK\x03\x04\x00\x00zip")
    assert not test.exception
    assert "not saved" in test.error[0].value and "not text" in test.error[0].value
    assert not list(studio.workspace.data.iterdir())
    test = test.run()
    assert "not saved" in test.error[0].value


def test_a_file_in_another_encoding_is_kept_once_it_is_named(studio: Studio):
    test = send(at(), "a.csv", "größe,y\n1,ä\n2,b\n".encode("latin-1"))
    assert "latin-1" in test.error[0].value
    next(box for box in test.selectbox if box.label == "Encoding").set_value("latin-1").run()
    test = press(test, "Try again")
    assert not test.exception and not test.error
    assert (studio.workspace.data / "a.csv").exists() and "2 rows × 2 columns" in words(test)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [("Keep both", {"a.csv": "x\n1\n", "a-2.csv": CSV}), ("Replace the old one", {"a.csv": CSV})],
)
def test_a_name_that_is_taken_is_asked_about(studio: Studio, answer: str, kept: dict[str, str]):
    (studio.workspace.data / "a.csv").write_text("x\n1\n")
    test = send(at(), "a.csv", CSV)
    assert "already" in test.warning[0].value
    assert (studio.workspace.data / "a.csv").read_text() == "x\n1\n"
    test = press(test, answer)
    assert not test.exception
    assert {path.name: path.read_text() for path in studio.workspace.data.iterdir()} == kept


def test_a_name_that_cannot_be_is_told_at_the_field(studio: Studio):
    (studio.workspace.data / "a.csv").write_text("x\n1\n")
    test = send(at(), "a.csv", CSV)
    test = test.text_input[0].set_value("a/b.csv").run()
    assert any("slashes" in caption.value for caption in test.caption)
    assert next(button for button in test.button if button.label == "Keep both").disabled


def choose_task(test: AppTest, task: str) -> AppTest:
    return next(box for box in test.selectbox if box.label == "Predict it as").set_value(task).run()


def test_a_quantity_is_proposed_as_a_number_and_the_pipeline_says_so(studio: Studio):
    (studio.workspace.data / "a.csv").write_text(CSV)
    test = choose_target(at("a.csv"), "age")
    assert not test.warning and "a number from 0 to 39" in words(test)
    test.button(key="data-use").click().run()
    (entry,) = Library(studio.workspace).entries()
    assert entry.pipeline.nodes["load"].params["task"] == "regression"
    assert "inspect" not in entry.pipeline.nodes
    # A target of texts has no choice.
    test = choose_target(at("a.csv"), "job")
    assert all(box.label != "Predict it as" for box in test.selectbox)


def test_a_column_that_cannot_be_a_target_is_told_why_and_the_table_stays(studio: Studio):
    (studio.workspace.data / "a.csv").write_text(CSV)
    test = choose_target(at("a.csv"), "age")
    test = choose_task(test, "classification")
    assert len(test.warning) == 1 and "age" in test.warning[0].value
    assert next(
        button for button in test.button if button.label == "Use in a new pipeline"
    ).disabled
    assert len(test.dataframe) == 2


@pytest.mark.parametrize(
    "file", ["none.csv", "../secret.csv", "/etc/passwd", "sample:none", "a\0b", "x" * 5000]
)
def test_an_address_of_no_file_says_so(studio: Studio, file: str):
    test = at(file)
    assert not test.exception and test.error
    test = press(test, "All tables")
    assert not test.error and "file" not in test.query_params


def test_a_file_is_deleted_after_being_asked(studio: Studio):
    (studio.workspace.data / "a.csv").write_text(CSV)
    test = press(at("a.csv"), "Delete it")
    assert not test.exception
    assert not (studio.workspace.data / "a.csv").exists() and "file" not in test.query_params
    assert "deleted" in test.toast[0].value


def test_a_damaged_file_says_why_and_can_be_deleted(studio: Studio):
    (studio.workspace.data / "a.parquet").write_bytes(b"garbage")
    test = at("a.parquet")
    assert not test.exception and "Parquet" in test.error[0].value
    assert "Delete it" in labels(test)


def test_hostile_columns_classes_and_names_are_shown_as_text(studio: Studio):
    bad = "<img src=x onerror=alert(1)>"
    (studio.workspace.data / "**b** [x](y).csv").write_text(f"{bad},y\n1,{bad}\n2,b\n3,b\n")
    test = choose_target(at("**b** [x](y).csv"), "y")
    assert not test.exception
    shown = "\n".join(
        str(element.value) for element in [*test.markdown, *test.caption, *test.subheader]
    )
    assert "[x](y)" not in shown and "<img" not in shown.replace("\\<", "")


def test_a_large_table_says_that_figures_are_of_its_first_rows(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    from nodes.data import tables

    monkeypatch.setattr(tables, "MAX_BYTES", 100)
    monkeypatch.setattr(tables, "START_BYTES", 200)
    (studio.workspace.data / "a.csv").write_text(CSV)
    test = at("a.csv")
    assert not test.exception
    assert "first" in words(test)


def test_a_large_table_whose_first_rows_are_of_one_class_can_be_used_all_the_same(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    from nodes.data import tables

    monkeypatch.setattr(tables, "MAX_BYTES", 100)
    monkeypatch.setattr(tables, "START_BYTES", 200)
    (studio.workspace.data / "a.csv").write_text(CSV)
    test = choose_target(at("a.csv"), "pay")
    assert len(test.warning) == 1 and "single class" in test.warning[0].value
    assert not next(
        button for button in test.button if button.label == "Use in a new pipeline"
    ).disabled


def test_a_file_read_in_another_way_is_shown_and_used_so(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    went: list[str] = []
    monkeypatch.setattr(links, "to_build", went.append)
    (studio.workspace.data / "a.csv").write_text(CSV.partition("\n")[2])
    test = choose_target(at("a.csv"), "low")
    test = (
        next(toggle for toggle in test.toggle if toggle.label.startswith("First row"))
        .set_value(False)
        .run()
    )
    assert not test.exception
    assert "40 rows × 3 columns" in words(test)
    test = choose_target(test, "f3")
    press(test, "Use in a new pipeline")
    params = Library(studio.workspace).open(went[0]).pipeline.nodes["load"].params
    assert params == {"source": "a.csv", "target": "f3", "header": False}


def two_sheets() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "People"
    for row in [["age", "pay"], *[[index, "high" if index % 3 else "low"] for index in range(40)]]:
        book.active.append(row)
    other = book.create_sheet("Prices")
    for row in [["price", "kind"], *[[index / 2, "ab"[index % 2]] for index in range(20)]]:
        other.append(row)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def box(test: AppTest, label: str) -> Any:
    return next(each for each in test.selectbox if each.label == label)


def test_an_excel_file_is_added_and_its_sheet_chosen(studio: Studio):
    test = send(at(), "book.xlsx", two_sheets())
    assert not test.exception
    assert "40 rows × 2 columns" in words(test) and box(test, "Sheet").value == "People"
    assert any("2 sheets" in each.value for each in test.warning)
    test = box(test, "Sheet").set_value("Prices").run()
    assert "20 rows × 2 columns" in words(test)
    assert not any("2 sheets" in each.value for each in test.warning)
    test = press(choose_target(test, "kind"), "Use in a new pipeline")
    [entry] = Library(studio.workspace).entries()
    params = entry.pipeline.nodes["load"].params
    assert params == {"source": "book.xlsx", "target": "kind", "sheet": "Prices"}


def test_hints_about_a_table_say_what_to_do(studio: Studio):
    rows = [f"{index},{'high' if index % 3 else 'low'}" for index in range(100)]
    (studio.workspace.data / "pay.csv").write_text("row_id,pay\n" + "\n".join(rows))
    test = choose_target(at("pay.csv"), "pay")
    [hint] = [each.value for each in test.warning]
    assert "'row_id'" in hint and "give it the role ID" in hint


def test_an_address_is_refused_with_how_to_allow_it_and_its_password_is_removed(studio: Studio):
    test = at()
    field = next(each for each in test.text_input if each.label == "Address")
    test = press(field.set_value("s3://KEY:hunter2@lake/a.csv").run(), "Open")
    assert not test.exception
    assert test.query_params["file"] in ("s3://lake/a.csv", ["s3://lake/a.csv"])
    assert "does not allow" in test.error[0].value and "settings.json" in test.error[0].value
    assert "hunter2" not in words(test)
    assert "were removed from the address" in test.toast[0].value


def test_a_database_asks_for_a_query(studio: Studio):
    settings = '{"remote_sources": ["postgresql://127.0.0.1:1"]}'
    (studio.workspace.root / "settings.json").write_text(settings)
    test = at("postgresql://127.0.0.1:1/shop")
    assert not test.exception and "Write a query" in test.info[0].value
    test = test.text_area[0].set_value("SELECT * FROM customers").run()
    assert "cannot be reached" in test.error[0].value
    test = test.text_area[0].set_value("DROP TABLE customers").run()
    assert "only queries that read" in test.error[0].value


def test_a_partitioned_folder_is_one_table(studio: Studio):
    for year in (2024, 2025):
        folder = studio.workspace.data / "sales" / f"year={year}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1, 2], "y": ["a", "b"]}), folder / "p.parquet")
    test = at("sales")
    assert not test.exception
    assert "4 rows × 3 columns" in words(test) and "a folder of Parquet files" in words(test)
    assert "Delete" not in labels(test)
