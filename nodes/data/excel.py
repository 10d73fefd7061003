"""Read a sheet of an Excel or OpenDocument file.

The first row that has a value holds the names of the columns. Rows and columns without any value
are left out, if they have no name. A formula has the value that was saved with it. All cells of a
merged range have its value, but the names of columns cannot be merged.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import counted, listed, suggest
from nodes.data.locations import RemoteFile

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
LONGEST_FORMULA = 10_000
"""Characters between two parts of a sheet's XML in which a formula is looked for."""

Rows = list[list[Any]]


@dataclass(frozen=True)
class Sheet:
    """A sheet as a table, and the names of all sheets of its file."""

    data: pa.Table
    sheets: tuple[str, ...]


def read_sheet(
    path: Path | RemoteFile, sheet: str, header: bool, as_text: Sequence[str] = ()
) -> Sheet:
    """Return a sheet as a table; without a name, the first visible one that is not empty.

    Columns of ``as_text`` are texts: whole numbers without a decimal point. Raise ``BadInput`` that
    says how to fix it if the file has a password, is damaged, or has no such sheet or table.
    """
    workbook = _open(path)
    sheets = tuple(_visible_sheets(workbook))
    name, cells, start, merged = _choose(path, workbook, sheets, sheet)
    _fill_merged(cells, start, merged, name, header)
    rows = [row for row in cells if _has_values(row)]
    if len(rows) <= header:
        raise BadInput(
            f"the sheet '{name}' of '{path.name}' has no rows; choose another sheet", field="sheet"
        )
    names, columns = _split_header(rows, name, header)
    return Sheet(_table(path, name, names, columns, as_text), sheets)


def _open(path: Path | RemoteFile) -> Any:
    """Open the file; raise ``BadInput`` if it has a password or is damaged."""
    import python_calamine as calamine

    try:
        if isinstance(path, RemoteFile):
            with path.open() as file:
                return calamine.load_workbook(io.BytesIO(file.read()))
        return calamine.load_workbook(str(path))
    except calamine.PasswordError:
        raise BadInput(
            f"'{path.name}' has a password; open it in Excel or LibreOffice, and save a copy "
            "without a password",
            field="source",
        ) from None
    except calamine.CalamineError as error:
        raise _damaged(path, error) from None


def _damaged(path: Path | RemoteFile, error: Exception) -> BadInput:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return BadInput(
        f"'{path.name}' is not an Excel file, or it is damaged ({reason}); save it again as .xlsx, "
        "or choose another format",
        field="source",
    )


def _visible_sheets(workbook: Any) -> list[str]:
    """Return the names of the sheets that can hold a table and that a user sees."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    return [
        sheet.name
        for sheet in workbook.sheets_metadata
        if sheet.typ == SheetTypeEnum.WorkSheet and sheet.visible == SheetVisibleEnum.Visible
    ]


def _choose(
    path: Path | RemoteFile, workbook: Any, sheets: Sequence[str], wanted: str
) -> tuple[str, Rows, tuple[int, int], list[Any]]:
    """Return name, cells, position of the first cell and merged ranges of the chosen sheet."""
    from python_calamine import CalamineError

    if wanted and wanted not in workbook.sheet_names:
        near = suggest(wanted, sheets, f"its sheets are {listed(list(sheets))}")
        message = f"'{path.name}' has no sheet '{wanted}'; {near}"
        raise BadInput(message, field="sheet")
    for name in [wanted] if wanted else sheets:
        try:
            sheet = workbook.get_sheet_by_name(name)
            cells = sheet.to_python()
        except CalamineError as error:
            raise _damaged(path, error) from None
        if cells or wanted:
            return name, cells, sheet.start or (0, 0), sheet.merged_cell_ranges or []
    raise BadInput(f"'{path.name}' has no values; choose another file", field="source")


def _fill_merged(
    cells: Rows, start: tuple[int, int], merged: Sequence[Any], sheet: str, header: bool
) -> None:
    """Write the value of a merged range into all its cells.

    Raise ``BadInput`` if names of columns are merged: which name belongs to which column is not
    known then.
    """
    first_row, first_column = start
    for (top, left), (bottom, right) in merged:
        top, bottom = top - first_row, bottom - first_row
        left, right = left - first_column, right - first_column
        if header and top <= 0 <= bottom:
            raise BadInput(
                f"the first row of the sheet '{sheet}' has merged cells, so the columns have no "
                "clear names; unmerge them, or delete the rows above the names",
                field="source",
            )
        if not (0 <= top < len(cells) and 0 <= left < len(cells[top])):
            continue
        value = cells[top][left]
        for row in cells[top : bottom + 1]:
            width = len(row[left : right + 1])
            row[left : right + 1] = [value] * width


def _has_values(cells: Sequence[Any]) -> bool:
    """Return whether one of the cells is not empty."""
    return any(value != "" for value in cells)


def _split_header(rows: Rows, sheet: str, header: bool) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and their values, without columns that are empty."""
    if header:
        names = [as_text_value(value).strip() for value in rows[0]]
        rows = rows[1:]
    else:
        names = [f"f{number}" for number in range(1, len(rows[0]) + 1)]
    # A column without a name and without values is a gap beside the table.
    columns = list(zip(*rows, strict=True))
    kept = [index for index, name in enumerate(names) if name or _has_values(columns[index])]
    for index in kept:
        if not names[index]:
            raise BadInput(
                f"column {index + 1:,} of the sheet '{sheet}' has values but no name; give it one, "
                "or delete the rows above the names of the columns",
                field="source",
            )
    return [names[index] for index in kept], [columns[index] for index in kept]


# Values


def _table(
    path: Path | RemoteFile,
    sheet: str,
    names: list[str],
    columns: list[tuple[Any, ...]],
    as_text: Sequence[str],
) -> pa.Table:
    """Return the columns as a table, each in the type of its values."""
    import pyarrow as pa

    by_name = list(zip(names, columns, strict=True))
    arrays = [_column(values, name in as_text) for name, values in by_name]
    empty = [name for name, values in by_name if not _has_values(values)]
    if empty and _has_unsaved_formulas(path):
        raise BadInput(
            f"{counted(len(empty), 'column')} of the sheet '{sheet}' ({listed(empty)}) may hold "
            "formulas whose values were never saved; open the file in Excel or LibreOffice and "
            "save it",
            field="source",
        )
    return pa.Table.from_arrays(arrays, names=names)


def _column(values: Sequence[Any], is_text: bool) -> pa.Array:
    """Return values as an array: numbers, bools or times if all of them are, else texts."""
    import pyarrow as pa

    present = [value for value in values if value != ""]
    kinds = {type(value) for value in present}
    with_nulls = [None if value == "" else value for value in values]
    if is_text or not kinds or str in kinds:
        pass
    elif kinds == {bool}:
        return pa.array(with_nulls, pa.bool_())
    elif kinds <= {int, float}:
        numbers = pa.array(map(_as_float, with_nulls), pa.float64())
        is_whole = all(float(value).is_integer() and abs(value) < 2**53 for value in present)
        return numbers.cast(pa.int64()) if is_whole else numbers
    elif kinds <= {date, datetime}:
        return pa.array(map(_as_datetime, with_nulls), pa.timestamp("us"))
    elif kinds == {timedelta}:
        return pa.array(with_nulls, pa.duration("us"))
    elif kinds == {time}:
        return pa.array(with_nulls, pa.time64("us"))
    texts = [None if value is None else as_text_value(value) for value in with_nulls]
    return pa.array(texts, pa.string())


def _as_float(value: Any) -> float | None:
    return None if value is None else float(value)


def _as_datetime(value: Any) -> datetime | None:
    """Return a date as the start of that day."""
    if isinstance(value, datetime) or value is None:
        return value
    return datetime(value.year, value.month, value.day)


def as_text_value(value: Any) -> str:
    """Return a cell as text; Excel stores 7 as 7.0, and shows 7."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date | datetime | time):
        return value.isoformat(*([" "] if isinstance(value, datetime) else []))
    return str(value)


def _has_unsaved_formulas(path: Path | RemoteFile) -> bool:
    """Return whether a cell of an .xlsx file has a formula without a saved value.

    Programs that write Excel files without computing them leave such cells.
    """
    if isinstance(path, RemoteFile) or not zipfile.is_zipfile(path):
        return False
    pattern = re.compile(rb"</f>\s*(<v\s*/>|<v>\s*</v>|</c>)|<f[^>]{0,200}/>\s*</c>")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("xl/worksheets/"):
                continue
            with archive.open(name) as part:
                before = b""
                while block := part.read(1 << 20):
                    if pattern.search(before + block):
                        return True
                    before = block[-LONGEST_FORMULA:]
    return False
