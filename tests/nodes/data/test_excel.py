"""Excel files: sheets, merged cells, formulas, passwords, and files that are none."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from engine.errors import BadInput
from engine.values import Table
from engine.workspace import Files
from nodes.data.formats import open_blocks
from nodes.data.hints import table_hints
from nodes.data.tables import load, preview
from nodes.load_data import LoadDataParams, check
from tests.expect import refused

Workbook = openpyxl.Workbook
PASSWORD_FILE = Path(__file__).parent / "password.xlsx.b85"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


def save(files: Files, fill: Callable[[Workbook], None], name: str = "book.xlsx") -> str:
    book = Workbook()
    fill(book)
    book.save(files.data / name)
    return name


def people(book: Workbook) -> None:
    sheet = book.active
    sheet.title = "People"
    sheet.append(["age", "score", "since", "member", "code", "buys"])
    for row in range(60):
        since = datetime(2024, 1, 1 + row % 28)
        sheet.append([row, row / 4, since, row % 2 == 0, f"0{row}", "yes" if row % 3 else "no"])


def table(files: Files, source: str, **params: object) -> Table:
    """Return the table, after its check found nothing."""
    settings = LoadDataParams.model_validate({"source": source, **params})
    assert [str(problem) for problem in check(settings, files)] == []
    return load(settings, files)


def refuse(files: Files, source: str, field: str, *naming: str, **params: object) -> None:
    """Assert that check and run refuse the file with the same message."""
    settings = LoadDataParams.model_validate({"source": source, **params})
    with refused(field=field, naming=naming) as caught:
        load(settings, files)
    [found] = check(settings, files)
    assert (found.message, found.field) == (str(caught.value), field)


def test_cells_have_the_types_that_excel_shows(files: Files):
    read = table(files, save(files, people), target="buys")
    kinds = {column.name: column.kind for column in read.columns}
    assert kinds == {
        "age": "number",
        "score": "number",
        "since": "time",
        "member": "bool",
        "code": "category",
        "buys": "category",
    }
    assert read.data.num_rows == 60
    assert read.data.column("age").to_pylist()[:3] == [0, 1, 2]
    assert read.data.column("since").to_pylist()[0] == datetime(2024, 1, 1)


def test_whole_numbers_as_classes_have_no_decimal_point(files: Files):
    def fill(book: Workbook) -> None:
        for row in [["x", "kind"], *[[index, index % 2] for index in range(6)]]:
            book.active.append(row)

    read = table(files, save(files, fill), target="kind")
    assert read.labels().combine_chunks().dictionary.to_pylist() == ["0", "1"]


def two_sheets(book: Workbook) -> None:
    people(book)
    prices = book.create_sheet("Prices")
    for row in [["price", "kind"], [1.5, "a"], [2.5, "b"], [3.5, "a"]]:
        prices.append(row)
    hidden = book.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"


def test_of_two_sheets_the_first_is_read_with_a_hint_and_another_can_be_chosen(files: Files):
    name = save(files, two_sheets)
    assert table(files, name).data.column_names[0] == "age"
    params = LoadDataParams(source=name)
    assert preview(params, files).sheets == ("People", "Prices")
    [hint, *_] = table_hints(params, files)
    assert hint.field == "sheet" and "'People', 'Prices'" in hint.message
    chosen = table(files, name, sheet="Prices", target="kind")
    assert chosen.data.column("price").to_pylist() == [1.5, 2.5, 3.5]
    assert table_hints(LoadDataParams(source=name, sheet="Prices"), files) == []
    refuse(files, name, "sheet", "Price'", "did you mean 'Prices'?", sheet="Price")


def test_an_empty_first_sheet_is_passed_over(files: Files):
    def fill(book: Workbook) -> None:
        data = book.create_sheet("Data")
        for row in [["x", "y"], [1, "a"], [2, "b"]]:
            data.append(row)

    assert table(files, save(files, fill)).data.column("x").to_pylist() == [1, 2]


def test_merged_cells_have_the_value_of_their_range(files: Files):
    def fill(book: Workbook) -> None:
        for row in [["city", "x"], ["Rome", 1], [None, 2], ["Oslo", 3]]:
            book.active.append(row)
        book.active.merge_cells("A2:A3")

    read = table(files, save(files, fill))
    assert read.data.column("city").to_pylist() == ["Rome", "Rome", "Oslo"]


def test_merged_names_of_columns_are_refused(files: Files):
    def fill(book: Workbook) -> None:
        for row in [["Report of May", None], ["city", "x"], ["Rome", 1]]:
            book.active.append(row)
        book.active.merge_cells("A1:B1")

    refuse(files, save(files, fill), "source", "merged cells", "unmerge them")


def test_a_title_above_the_names_is_refused(files: Files):
    def fill(book: Workbook) -> None:
        for row in [["Report of May"], ["city", "x"], ["Rome", 1]]:
            book.active.append(row)

    refuse(files, save(files, fill), "source", "column 2", "has values but no name")


def test_gaps_around_the_table_are_left_out(files: Files):
    def fill(book: Workbook) -> None:
        for row in [[], [None, None, "x", None, "y"], [], [None, None, 1, None, "a"]]:
            book.active.append(row)
        book.active["C6"], book.active["E6"] = 2, "b"

    read = table(files, save(files, fill))
    assert read.data.to_pydict() == {"x": [1, 2], "y": ["a", "b"]}


def test_formulas_that_were_never_computed_are_refused(files: Files):
    def fill(book: Workbook) -> None:
        for row in [["x", "twice"], [1, "=A2*2"], [2, "=A3*2"]]:
            book.active.append(row)

    refuse(files, save(files, fill), "source", "'twice'", "formulas", "save it")


def test_a_computed_formula_has_its_value(files: Files):
    name = save(files, lambda book: book.active.append(["x"]))
    path = files.data / name
    with_formula(path)
    assert table(files, name).data.to_pydict() == {"x": [1.0, 2.0], "twice": [2.0, 4.0]}


def with_formula(path: Path) -> None:
    """Rewrite the sheet as Excel saves it: a formula with the value that it had."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    cells = '<row r="1"><c r="A1" t="inlineStr"><is><t>x</t></is></c>'
    cells += '<c r="B1" t="inlineStr"><is><t>twice</t></is></c></row>'
    for row in (2, 3):
        cells += f'<row r="{row}"><c r="A{row}"><v>{row - 1}</v></c>'
        cells += f'<c r="B{row}"><f>A{row}*2</f><v>{2 * (row - 1)}</v></c></row>'
    parts["xl/worksheets/sheet1.xml"] = (
        '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/'
        f'2006/main"><sheetData>{cells}</sheetData></worksheet>'
    ).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_a_file_with_a_password_is_refused_with_what_to_do(files: Files):
    content = zlib.decompress(base64.b85decode(PASSWORD_FILE.read_bytes()))
    (files.data / "locked.xlsx").write_bytes(content)
    refuse(files, "locked.xlsx", "source", "'locked.xlsx' has a password", "without a password")


@pytest.mark.parametrize("content", [b"PK", b"not excel at all", b"\xd0\xcf\x11\xe0" + b"\0" * 600])
def test_a_file_that_is_not_excel_is_refused(files: Files, content: bytes):
    (files.data / "x.xlsx").write_bytes(content)
    refuse(files, "x.xlsx", "source", "'x.xlsx'", "not an Excel file")


def test_a_damaged_file_is_refused_wherever_it_is_cut(files: Files):
    content = (files.data / save(files, people)).read_bytes()
    for end in range(100, len(content), len(content) // 9):
        (files.data / "cut.xlsx").write_bytes(content[:end])
        assert list(check(LoadDataParams(source="cut.xlsx"), files))


def test_a_small_file_with_a_huge_sheet_is_refused_within_its_memory(files: Files):
    def fill(book: Workbook) -> None:
        book.active["A1"], book.active["XFD1048576"] = "x", 1

    [found] = check(LoadDataParams(source=save(files, fill)), files)
    assert "'book.xlsx' cannot be read: it needs more than 2,000 MB" in found.message


def test_sheets_without_rows_and_repeated_names_are_refused(files: Files):
    refuse(files, save(files, lambda book: None), "source", "has no values")
    name = save(files, lambda book: book.active.append(["x", "y"]))
    refuse(files, name, "sheet", "has no rows")

    def twice(book: Workbook) -> None:
        book.active.append(["x", "x"])
        book.active.append([1, 2])

    refuse(files, save(files, twice), "source", "several columns named 'x'")


def test_without_a_header_the_columns_are_numbered(files: Files):
    def fill(book: Workbook) -> None:
        book.active.append([1, "a"])
        book.active.append([2, "b"])

    read = table(files, save(files, fill), header=False)
    assert read.data.to_pydict() == {"f1": [1, 2], "f2": ["a", "b"]}


def test_predictions_read_a_sheet_in_blocks(files: Files):
    file = open_blocks(files.data / save(files, people))
    blocks = list(file.blocks(["age", "buys"], 25))
    assert [block.num_rows for block in blocks] == [25, 25, 10]


def test_a_file_may_be_named_without_its_ending(files: Files):
    name = save(files, people, "data.bin")
    assert table(files, name, format="excel").data.num_rows == 60
    with pytest.raises(BadInput):
        load(LoadDataParams(source=name), files)
