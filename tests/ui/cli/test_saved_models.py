"""``sylva models …`` and the versions that other commands take, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pyarrow.csv as pa_csv
import pytest

from nodes.models.registry import zip_model
from tests.nodes.models.conftest import Kept, make_table


@pytest.fixture
def models(sylva, kept: Kept, tmp_path: Path):
    """Run a command in a workspace with ``payers``: MART as version 1, linear as version 2."""

    def run(*arguments: object, code: int = 0):
        return sylva(*arguments, "--workspace", tmp_path / "workspace", code=code)

    for name in ("mart", "linear"):
        (tmp_path / f"{name}.zip").write_bytes(zip_model(kept.folder(name)))
        run("models", "import", tmp_path / f"{name}.zip", "--name", "payers", "--note", name)
    return run


def test_imported_versions_are_listed(models):
    rows = json.loads(models("models", "list", "payers", "--json").stdout)
    found = [(row["version"], row["in_use"], row["kind"], row["note"]) for row in rows]
    assert found == [(2, True, "logistic-regression", "linear"), (1, False, "mart", "mart")]
    [row] = json.loads(models("models", "list", "--json").stdout)
    assert (row["name"], row["version"]) == ("payers", 2)
    printed = models("models", "list", "payers").stdout
    assert "payers@2" in printed and "payers@1" in printed


def test_an_empty_workspace_has_no_models(sylva, tmp_path: Path):
    assert str(tmp_path) in sylva("models", "list", "--workspace", tmp_path).stdout
    assert "'x'" in sylva("models", "list", "x", "--workspace", tmp_path, code=2).stderr


def test_the_version_in_use_and_a_named_one_predict(models, kept: Kept, table, tmp_path: Path):
    pa_csv.write_csv(table.data, tmp_path / "t.csv")

    def scored(model: str) -> bytes:
        models("predict", model, tmp_path / "t.csv", "-o", tmp_path / "o.csv")
        return (tmp_path / "o.csv").read_bytes()

    linear, mart = scored("payers"), scored("payers@1")
    assert linear != mart and linear == scored("payers@2")
    models("models", "use", "payers@1")
    assert scored("payers") == mart
    missing = models("predict", "payers@3", tmp_path / "t.csv", "-o", tmp_path / "o.csv", code=2)
    assert "version 3" in missing.stderr and "'payers@1'" in missing.stderr


def test_a_version_gets_a_note_and_is_deleted(models):
    models("models", "note", "payers@1", "many trees")
    row = json.loads(models("models", "note", "payers@2", "", "--json").stdout)
    assert row["note"] == ""
    refused = models("models", "delete", "payers@2", code=2)
    assert "in use" in refused.stderr
    models("models", "delete", "payers@1")
    assert len(json.loads(models("models", "list", "payers", "--json").stdout)) == 1
    models("models", "delete", "payers")
    assert json.loads(models("models", "list", "--json").stdout) == []


@pytest.mark.parametrize("command", [("use", "payers"), ("note", "payers", "x")])
def test_a_name_without_a_version_is_not_enough(models, command: tuple[str, ...]):
    assert "payers@1" in models("models", *command, code=2).stderr


def test_an_import_that_must_not_be_used_yet_says_how_to_use_it(models, kept: Kept, tmp_path: Path):
    models("models", "use", "payers@2")
    done = models("models", "import", tmp_path / "mart.zip", "--name", "payers", "--no-use")
    assert "sylva models use payers@1" in done.stdout


def test_a_file_that_is_not_a_model_is_refused(models, tmp_path: Path):
    (tmp_path / "bad.zip").write_bytes(b"not a model")
    refused = models("models", "import", tmp_path / "bad.zip", code=2)
    assert "'bad.zip'" in refused.stderr and "Traceback" not in refused.stderr
    assert "none.zip" in models("models", "import", tmp_path / "none.zip", code=2).stderr


def test_predict_writes_the_drift(models, tmp_path: Path):
    data = make_table(300, seed=9).data
    new = data.set_column(1, "amount", data.column("amount").cast("float64").fill_null(1e6))
    pa_csv.write_csv(new, tmp_path / "t.csv")
    arguments = ("predict", "payers", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    told = models(*arguments, "--drift", tmp_path / "drift.json")
    assert "'amount'" in told.stdout and "300 rows" in told.stdout
    report = json.loads((tmp_path / "drift.json").read_text())
    assert report["rows"] == 300 and report["columns"][0]["name"] == "amount"
    printed = json.loads(models(*arguments, "--drift", tmp_path / "d.json", "--json").stdout)
    assert printed["drift"] == report
    missing = models(*arguments, "--drift", tmp_path / "none" / "d.json", code=2)
    assert str(tmp_path / "none") in missing.stderr


def test_the_drift_never_replaces_the_data(models, tmp_path: Path):
    pa_csv.write_csv(make_table(50, seed=9).data, tmp_path / "t.csv")
    before = (tmp_path / "t.csv").read_bytes()
    (tmp_path / "link.json").symlink_to(tmp_path / "t.csv")
    arguments = ("predict", "payers", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--drift")
    for name in ("t.csv", "o.csv", "link.json"):
        assert f"'{name}'" in models(*arguments, tmp_path / name, code=2).stderr
    assert (tmp_path / "t.csv").read_bytes() == before and not (tmp_path / "o.csv").exists()


def test_predict_scores_the_chosen_sheet(models, tmp_path: Path):
    book = openpyxl.Workbook()
    sheets = [book.active, book.create_sheet("later")]
    for sheet, rows in zip(sheets, (4, 7), strict=True):
        data = make_table(rows, seed=9).data
        sheet.append(data.column_names)
        for row in data.to_pylist():
            sheet.append(list(row.values()))
    book.save(tmp_path / "two.xlsx")
    arguments = ("predict", "payers", tmp_path / "two.xlsx", "-o", tmp_path / "o.csv")
    assert "4 rows" in models(*arguments).stdout
    assert "7 rows" in models(*arguments, "--sheet", "later", "--format", "excel").stdout
    assert "'later'" in models(*arguments, "--sheet", "none", code=2).stderr
