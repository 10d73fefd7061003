"""A file is scored as its table would be, whatever its format and however it is cut into blocks."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from engine.errors import Cancelled, SylvaError
from engine.values import Table
from nodes import load_data, logistic_regression, mart
from nodes.data.formats import FileFormat, open_blocks, regroup
from nodes.models.model import FittedModel
from nodes.models.new_data import MISSING_TEXTS
from nodes.models.scoring import score_file
from tests.expect import refused
from tests.nodes.conftest import make_context
from tests.nodes.models.conftest import DECIDING, Kept, make_table


def write(data: pa.Table, path: Path) -> Path:
    match path.suffix:
        case ".csv":
            pa_csv.write_csv(data, path)
        case ".tsv":
            pa_csv.write_csv(data, path, pa_csv.WriteOptions(delimiter="\t"))
        case ".parquet":
            pq.write_table(data, path, row_group_size=100)
        case ".arrow":
            with pa.ipc.new_file(path, data.schema) as writer:
                writer.write_table(data, max_chunksize=90)
        case ".ipc":
            with pa.ipc.new_stream(path, data.schema) as writer:
                writer.write_table(data)
        case ".gz":
            pa_csv.write_csv(data, path.with_suffix(""))
            path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
    return path


def read(path: Path) -> pa.Table:
    match path.suffix:
        case ".csv":
            return pa_csv.read_csv(path)
        case ".parquet":
            return pq.read_table(path)
    return pa.ipc.open_file(path).read_all()


@pytest.fixture
def in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.models.model.ROWS_AT_ONCE", 70)


@pytest.mark.usefixtures("in_small_blocks")
class TestFormats:
    @pytest.mark.parametrize(
        "name", ["t.csv", "t.tsv", "t.parquet", "t.arrow", "t.ipc", "t.csv.gz"]
    )
    @pytest.mark.parametrize("model_name", ["mart", "linear"])
    def test_every_format_gives_what_the_table_gives(
        self, name, model_name, table: Table, kept: Kept, tmp_path: Path
    ):
        model = kept.open(model_name)
        scored = score_file(model, write(table.data, tmp_path / name), tmp_path / "out.parquet")
        out = pq.read_table(tmp_path / "out.parquet")
        wanted = model.predict_proba(table)
        assert scored.rows == out.num_rows == 600
        assert out.column_names == ["prediction", "p(no)", "p(yes)"]
        np.testing.assert_array_equal(out.column("p(yes)").to_numpy(), wanted[:, 1])
        assert out.column("prediction").to_pylist() == [
            model.classes[i] for i in wanted.argmax(axis=1)
        ]

    @pytest.mark.parametrize(
        "name", ["out.csv", "out.parquet", "out.pq", "out.arrow", "out.feather"]
    )
    def test_every_target_holds_the_same(
        self, name, table: Table, model: FittedModel, tmp_path: Path
    ):
        source = write(table.data, tmp_path / "t.parquet")
        score_file(model, source, tmp_path / name, keep=["id", "colour"])
        kinds = {".pq": pq.read_table, ".feather": lambda path: pa.ipc.open_file(path).read_all()}
        out = kinds.get((tmp_path / name).suffix, read)(tmp_path / name)
        assert out.column_names == ["id", "colour", "prediction", "p(no)", "p(yes)"]
        assert out.column("id").to_pylist() == table.data.column("id").to_pylist()
        np.testing.assert_array_equal(
            out.column("p(no)").to_numpy(), model.predict_proba(table)[:, 0]
        )

    def test_libsvm_needs_only_what_is_not_zero(self, kept: Kept, tmp_path: Path):
        rng = np.random.default_rng(1)
        cells = rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.7)
        data = pa.table(
            {f"f{i + 1}": cells[:, i] for i in range(4)} | {"target": pa.array(["a", "b"] * 150)}
        )
        trained = mart.NODE.run(
            make_context(tmp_path), {"table": Table(data, "target")}, mart.NODE.params(trees=5)
        )
        lines = [
            f"{label} "
            + " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(row) if value)
            + " 9:1.5"
            for label, row in zip(["a", "b"] * 150, cells.tolist(), strict=True)
        ]
        (tmp_path / "t.svm").write_text("\n".join(["# comment", *lines, ""]))
        score_file(trained["model"], tmp_path / "t.svm", tmp_path / "out.parquet", keep="all")
        out = pq.read_table(tmp_path / "out.parquet")
        assert out.column("target").to_pylist() == ["a", "b"] * 150
        wanted = trained["model"].predict_proba(Table(data, "target"))
        np.testing.assert_array_equal(out.column("p(b)").to_numpy(), wanted[:, 1])


def as_written(data: pa.Table, **texts: list[str]) -> pa.Table:
    """The table with other texts in some columns."""
    for name, values in texts.items():
        data = data.set_column(data.column_names.index(name), name, pa.array(values))
    return data


@pytest.mark.usefixtures("in_small_blocks")
class TestTypes:
    def same(self, model: FittedModel, source: Path, table: Table) -> None:
        score_file(model, source, source.with_name("out.parquet"))
        got = pq.read_table(source.with_name("out.parquet")).column("p(yes)").to_numpy()
        np.testing.assert_array_equal(got, model.predict_proba(table)[:, 1])

    def test_whole_numbers_in_one_block_and_floats_in_another(self, table, model, tmp_path):
        texts = [
            str(n) if row < 300 else f"{n}.0"
            for row, n in enumerate(table.data.column("count").to_pylist())
        ]
        self.same(model, write(as_written(table.data, count=texts), tmp_path / "t.csv"), table)

    def test_numbers_written_as_text_in_a_typed_file(self, table, model, tmp_path):
        texts = [f" {n} " for n in table.data.column("count").to_pylist()]
        amounts = ["NA" if n is None else repr(n) for n in table.data.column("amount").to_pylist()]
        data = as_written(table.data, count=texts, amount=amounts)
        self.same(model, write(data, tmp_path / "t.parquet"), table)

    @pytest.mark.parametrize(
        "words", [("true", "false"), ("1", "0"), ("Yes", "no"), ("1.0", "0.0")]
    )
    def test_bools_in_many_words(self, words, table, model, tmp_path):
        texts = [
            words[0] if value else words[1] for value in table.data.column("member").to_pylist()
        ]
        self.same(model, write(as_written(table.data, member=texts), tmp_path / "t.csv"), table)

    def test_categories_that_are_numbers(self, table, model, tmp_path):
        numbers = [int(text) for text in table.data.column("grade").to_pylist()]
        for number, values in enumerate(
            [numbers, [float(n) for n in numbers], [f"{n}.00" for n in numbers]]
        ):
            self.same(
                model,
                write(as_written(table.data, grade=values), tmp_path / f"t{number}.parquet"),
                table,
            )

    def test_decimals_and_small_types(self, table, model, tmp_path):
        data = table.data
        data = data.set_column(2, "count", data.column("count").cast(pa.int8()))
        data = data.set_column(4, "member", data.column("member").cast(pa.uint8()))
        place = data.column_names.index("amount")
        data = data.set_column(
            place, "amount", pc.round(data.column("amount"), 2).cast(pa.decimal128(20, 2))
        )
        self.same(model, write(data, tmp_path / "t.parquet"), table)

    def test_times_with_a_zone_and_as_dates(self, table, model, tmp_path):
        zoned = pc.strftime(table.data.column("when"), "%Y-%m-%dT%H:%M:%S").to_pylist()
        data = as_written(table.data, when=[f"{text}Z" for text in zoned])
        self.same(model, write(data, tmp_path / "t.csv"), table)
        nanos = table.data.column("when").cast(pa.timestamp("ns"))
        self.same(
            model, write(table.data.set_column(5, "when", nanos), tmp_path / "t.parquet"), table
        )

    def test_a_column_without_any_value_is_missing_everywhere(self, table, model, tmp_path):
        for name in DECIDING:
            place = table.data.column_names.index(name)
            data = table.data.set_column(place, name, pa.nulls(600))
            empty = table.data.set_column(
                place, name, pa.nulls(600, table.data.schema.field(name).type)
            )
            self.same(model, write(data, tmp_path / "t.csv"), Table(empty))

    def test_a_category_never_seen_counts_as_missing(self, table, model, tmp_path):
        unseen = as_written(table.data, colour=["mauve"] * 600)
        missing = table.data.set_column(6, "colour", pa.nulls(600, pa.string()))
        self.same(model, write(unseen, tmp_path / "t.csv"), Table(missing))


class Noting:
    """An estimator that notes how many rows it predicts at once."""

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.asked = estimator, []

    def predict_proba(self, matrix: np.ndarray) -> np.ndarray:
        self.asked.append(len(matrix))
        return self.estimator.predict_proba(matrix)


@pytest.mark.parametrize("limit", ["ROWS_AT_ONCE", "CELLS_AT_ONCE"])
def test_as_many_rows_at_once_as_the_predict_node_takes(
    limit, table, kept: Kept, tmp_path, monkeypatch
):
    """Else the last bits of sums would differ."""
    monkeypatch.setattr(f"nodes.models.model.{limit}", 1_000 if limit == "CELLS_AT_ONCE" else 99)
    model = kept.open("linear")
    file, node = (replace(model, estimator=Noting(model.estimator)) for _ in range(2))
    score_file(file, write(table.data, tmp_path / "t.csv"), tmp_path / "o.csv")
    node.predict_proba(table)
    assert len(file.estimator.asked) > 5 and file.estimator.asked == node.estimator.asked


class TestMissingTexts:
    """A text that is a level of a category is that level, whatever it means elsewhere."""

    COUNTRIES = ("NA", "DE", "null", "?", "FR", " NA", "nan", "xx", "")
    """Two are missing: one that was never seen, and one that is empty."""

    def table(self, tmp_path: Path, name: str, countries: Sequence[str]) -> Table:
        """As load-data gives it when only an empty value is missing."""
        lines = [
            f"{country},{'' if row % 7 == 3 else row},{'yes' if country in ('NA', '?') else 'no'}"
            for row, country in enumerate([*countries] * 100)
        ]
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_text("\n".join(["country,n,class", *lines, ""]))
        params = load_data.NODE.params(source=name, target="class", missing=[""])
        table = load_data.NODE.run(make_context(tmp_path), {}, params)["table"]
        assert isinstance(table, Table)
        return table

    @pytest.mark.parametrize("node_type", [mart.NODE, logistic_regression.NODE])
    def test_a_level_is_never_missing(self, node_type, tmp_path):
        known = self.table(tmp_path, "known.csv", (*self.COUNTRIES[:5], "nan"))
        model = node_type.run(make_context(tmp_path), {"table": known}, node_type.params())["model"]
        new = self.table(tmp_path, "new.csv", self.COUNTRIES)
        score_file(
            model, tmp_path / "data" / "new.csv", tmp_path / "o.parquet", keep=["country", "n"]
        )
        out = pq.read_table(tmp_path / "o.parquet")
        wanted = model.predict_proba(new)
        np.testing.assert_array_equal(out.column("p(yes)").to_numpy(), wanted[:, 1])
        assert wanted[[0, 5], 1].min() > 0.9 > wanted[8, 1]  # NA is not missing
        assert out.column("country").to_pylist()[:9] == [*self.COUNTRIES[:8], None]
        assert out.column("n").to_pylist()[2:5] == ["2", None, "4"]

    def test_other_texts_are_missing_where_they_are_no_level(self, table, model, tmp_path):
        texts = {
            "colour": [
                "NA" if value is None else value
                for value in table.data.column("colour").to_pylist()
            ],
            "amount": [
                "n/k" if value is None else repr(value)
                for value in table.data.column("amount").to_pylist()
            ],
        }
        source = write(as_written(table.data, **texts), tmp_path / "t.csv")
        file_format = FileFormat(missing=MISSING_TEXTS | {"n/k"})
        score_file(model, source, tmp_path / "o.parquet", file_format=file_format)
        got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
        np.testing.assert_array_equal(got, model.predict_proba(table)[:, 1])

    def test_numbers_and_missing_texts_where_names_were(self, table, model, tmp_path):
        texts = ["NA" if row % 3 else str(row) for row in range(600)]
        refuse(model, write(as_written(table.data, colour=texts), tmp_path / "t.csv"), *COLOUR)


class TestDictionaries:
    """Batches of an Arrow file, each with a dictionary of its own, are one column."""

    def batches(self, table: Table, path: Path, *colours: list[str | None]) -> Path:
        data, size = table.data.drop_columns(["colour"]), 600 // len(colours)
        parts = [
            data.slice(i * size, size).append_column(
                "colour", pa.array((names * size)[:size]).dictionary_encode()
            )
            for i, names in enumerate(colours)
        ]
        with pa.ipc.new_stream(path, parts[0].schema) as writer:
            for part in parts:
                writer.write_table(part)
        return path

    @pytest.mark.parametrize("rows", [70, 100, 65_536])
    def test_how_they_are_cut_does_not_matter(self, rows, table, model, tmp_path, monkeypatch):
        source = self.batches(table, tmp_path / "t.ipc", ["red", "7"], ["1", "2"], ["blue", None])
        with pa.ipc.open_stream(source) as reader:
            whole = Table(reader.read_all().unify_dictionaries())
        monkeypatch.setattr("nodes.models.model.ROWS_AT_ONCE", rows)
        score_file(model, source, tmp_path / "o.parquet")
        got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
        np.testing.assert_array_equal(got, model.predict_proba(whole)[:, 1])

    def test_numbers_before_names_are_fine(self, table, model, tmp_path):
        score_file(
            model,
            self.batches(table, tmp_path / "t.ipc", ["1", "2"], ["red"]),
            tmp_path / "o.parquet",
        )

    def test_numbers_alone_are_refused(self, table, model, tmp_path):
        refuse(model, self.batches(table, tmp_path / "t.ipc", ["1", "2"], ["3"]), *COLOUR)

    def test_a_dictionary_may_hold_a_missing_value(self, table, model, tmp_path):
        numbers = pa.array([0, 1, 2] * 200, pa.int8())
        data = table.data.drop_columns(["colour"])
        colour = pa.DictionaryArray.from_arrays(numbers, pa.array(["red", None, "blue"]))
        score_file(
            model,
            write(data.append_column("colour", colour), tmp_path / "t.arrow"),
            tmp_path / "o.parquet",
        )
        plain = Table(data.append_column("colour", pa.array(["red", None, "blue"] * 200)))
        got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
        np.testing.assert_array_equal(got, model.predict_proba(plain)[:, 1])


def refuse(model: FittedModel, source: Path, *naming: str, **options) -> None:
    """Assert that the file is refused with a message that names these, and nothing is written."""
    target = source.with_name("refused.csv")
    with refused(naming=naming):
        score_file(model, source, target, **options)
    assert not target.exists() and not list(source.parent.glob(".*unfinished"))


COLOUR = ("'colour'", "a number", "a category")
"""What a message names of numbers where names of colours were."""


class TestRefusals:
    def test_all_columns_that_do_not_fit_are_named_at_once(self, table, model, tmp_path):
        data = as_written(
            table.data.drop_columns(["steady", "member"]),
            count=["few"] * 600,
            colour=list(range(600)),
        )
        named = ("'steady', 'member'", "'count'", "'few'", "row 1", *COLOUR)
        refuse(model, write(data, tmp_path / "t.parquet"), *named)

    def test_names_that_differ_in_case_only_are_said(self, table, model, tmp_path):
        names = ["Amount" if name == "amount" else name for name in table.data.column_names]
        source = write(table.data.rename_columns(names), tmp_path / "t.csv")
        refuse(model, source, "lacks 'amount'", "it has 'Amount'")

    def test_a_pipe_is_not_waited_for(self, model, tmp_path):
        os.mkfifo(tmp_path / "t.csv")
        refuse(model, tmp_path / "t.csv", "t.csv' is not a regular file")

    def test_numbers_in_a_csv_where_names_were(self, table, model, tmp_path):
        refuse(
            model,
            write(as_written(table.data, colour=list(range(600))), tmp_path / "t.csv"),
            *COLOUR,
        )

    @pytest.mark.parametrize(
        ("column", "values", "naming"),
        [
            ("when", list(range(600)), ["a number", "a time"]),
            ("amount", [None] * 599 + ["2024-01-01"], ["'2024-01-01'", "row 600"]),
            ("when", ["soon"] * 600, ["'soon'", "row 1", "a time"]),
        ],
    )
    def test_kinds_that_cannot_be_meant(self, column, values, naming, table, model, tmp_path):
        source = write(as_written(table.data, **{column: values}), tmp_path / "t.parquet")
        refuse(model, source, f"'{column}'", *naming)

    def test_times_where_numbers_were(self, table, model, tmp_path):
        data = table.data.set_column(2, "count", table.data.column("when"))
        refuse(model, write(data, tmp_path / "t.parquet"), "'count'", "a time", "a number")

    @pytest.mark.usefixtures("in_small_blocks")
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_a_bad_value_far_down_is_told_with_its_row(self, name, table, model, tmp_path):
        texts = [str(n) for n in table.data.column("count").to_pylist()]
        texts[432] = "12 or so"
        source = write(as_written(table.data, count=texts), tmp_path / name)
        refuse(model, source, "'count'", "'12 or so'", "row 433", "a number")

    def test_nothing_in_common(self, model, tmp_path):
        source = write(pa.table({"a": [1], "b": [2]}), tmp_path / "t.csv")
        refuse(model, source, "'a', 'b'")

    @pytest.mark.parametrize(
        ("name", "content", "naming"),
        [
            ("t.csv", b"", ["empty"]),
            ("t.parquet", b"PAR1 not", ["Parquet"]),
            ("t.arrow", b"ARROW1xx", ["Arrow"]),
            ("t.xlsx", b"PK", ["Excel"]),
            ("t.docx", b"PK", [".csv", ".parquet"]),
            ("t.csv", b"amount,amount\n1,2\n", ["'amount'"]),
            ("t.csv", b"amount,count\n1,2\n3\n", ["row 3"]),
            ("t.csv", b'amount,colour\n1,"red\n2,green\n', ["line 2", "quote"]),
            ("t.csv", b"amount,count\n", ["no rows"]),
        ],
    )
    def test_files_that_cannot_be_read(self, name, content, naming, model, tmp_path):
        (tmp_path / name).write_bytes(content)
        refuse(model, tmp_path / name, f"'{name}'", *naming)

    def test_a_parquet_file_damaged_in_its_middle(self, table, model, tmp_path):
        source = write(table.data, tmp_path / "t.parquet")
        damaged = bytearray(source.read_bytes())
        damaged[1000:9000] = bytes(8000)
        source.write_bytes(damaged)
        refuse(model, source, "'t.parquet'", "damaged")

    def test_targets_that_cannot_be(self, table, model, tmp_path):
        source = write(table.data, tmp_path / "t.csv")
        with refused(naming=["out.xlsx", ".arrow, .csv"]):
            score_file(model, source, tmp_path / "out.xlsx")
        with refused(naming=["t.csv", "overwritten"]):
            score_file(model, source, source)
        with refused(naming=["'color'", "'colour'"]):
            score_file(model, source, tmp_path / "out.csv", keep=["color"])
        with refused(SylvaError, naming=["out.csv", "No such file"]):
            score_file(model, source, tmp_path / "none" / "out.csv")

    def test_a_folder_is_no_target(self, table, model, tmp_path):
        (tmp_path / "o.csv").mkdir()
        with refused(naming=["o.csv", "folder"]):
            score_file(model, write(table.data, tmp_path / "t.csv"), tmp_path / "o.csv")

    def test_columns_that_the_target_cannot_hold(self, table, kept: Kept, tmp_path):
        data = table.data.append_column("tags", pa.array([["a", "b"]] * 600))
        data = data.append_column("place", pa.array([{"x": 1}] * 600))
        source = write(data, tmp_path / "t.parquet")
        model = kept.open("linear")
        noting = replace(model, estimator=Noting(model.estimator))
        refuse(noting, source, "CSV", "'tags' (list<", "'place' (struct<", "Parquet", keep="all")
        assert noting.estimator.asked == []
        score_file(model, source, tmp_path / "o.parquet", keep=["tags"])
        assert (
            pq.read_table(tmp_path / "o.parquet").column("tags").to_pylist() == [["a", "b"]] * 600
        )

    def test_what_a_killed_command_left_is_removed_after_a_day(self, table, model, tmp_path):
        names = [
            ".o.csv.12345678.unfinished",
            ".o.csv.87654321.unfinished",
            ".other.csv.12345678.unfinished",
        ]
        for name, age in zip(names, [90_000, 100, 90_000], strict=True):
            (tmp_path / name).write_text("half")
            os.utime(tmp_path / name, (time.time() - age,) * 2)
        score_file(model, write(table.data, tmp_path / "t.csv"), tmp_path / "o.csv")
        assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "o.csv", *names[1:]}

    def test_settings_of_a_csv(self, table, model, tmp_path):
        data = as_written(table.data, colour=["grün"] * 600)
        pa_csv.write_csv(
            data, tmp_path / "utf8.csv", pa_csv.WriteOptions(include_header=False, delimiter=";")
        )
        (tmp_path / "t.dat").write_bytes((tmp_path / "utf8.csv").read_text().encode("latin-1"))
        file_format = FileFormat("csv", "semicolon", "latin-1", False, frozenset(["?"]))
        refuse(model, tmp_path / "t.dat", "'amount'", file_format=file_format)


@pytest.mark.usefixtures("in_small_blocks")
class TestProgress:
    def test_tells_rows_and_their_number(self, table, model, tmp_path):
        told: list[tuple[int, int | None]] = []
        source = write(table.data, tmp_path / "t.parquet")
        score_file(
            model,
            source,
            tmp_path / "o.csv",
            progress=lambda rows, total: told.append((rows, total)),
        )
        assert told[:3] == [(0, 600), (70, 600), (140, 600)] and told[-1] == (600, 600)

    def test_the_rows_of_a_text_are_guessed(self, table, tmp_path):
        total = open_blocks(write(table.data, tmp_path / "t.csv")).total
        assert total is not None and 590 <= total <= 610
        assert open_blocks(write(table.data, tmp_path / "t.csv.gz")).total is None

    def test_a_cancel_leaves_the_old_file(self, table, model, tmp_path):
        (tmp_path / "o.csv").write_text("old")
        done: list[int] = []
        with pytest.raises(Cancelled):
            score_file(
                model,
                write(table.data, tmp_path / "t.csv"),
                tmp_path / "o.csv",
                progress=lambda rows, total: done.append(rows),
                cancelled=lambda: len(done) >= 3,
            )
        assert done == [0, 70, 140] and (tmp_path / "o.csv").read_text() == "old"
        assert {path.name for path in tmp_path.iterdir()} == {"o.csv", "t.csv"}


@pytest.mark.parametrize("sizes", [[5], [1, 1, 1], [10, 3], [0, 7, 0, 9], [4, 4]])
def test_blocks_are_of_the_size_asked_for(sizes):
    tables, start = [], 0
    for size in sizes:
        tables.append(
            pa.table({"n": list(range(start, start + size))}, pa.schema([("n", pa.int64())]))
        )
        start += size
    blocks = list(regroup(iter(tables), 4))
    assert [block.num_rows for block in blocks[:-1]] == [4] * (len(blocks) - 1)
    assert [n for block in blocks for n in block.column("n").to_pylist()] == list(range(start))


def test_another_sample_of_the_same_kind(model, tmp_path):
    other = make_table(200, seed=5)
    score_file(model, write(other.data, tmp_path / "t.csv"), tmp_path / "o.parquet", threads=1)
    got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
    np.testing.assert_array_equal(got, model.predict_proba(other)[:, 1])


def test_what_a_spreadsheet_exports(table, model, tmp_path):
    """Everything is quoted, and missing values are words."""
    columns = zip(table.data.column_names, table.data.columns, strict=True)
    texts = {
        name: [str(value) if value is not None else "n/k" for value in each.to_pylist()]
        for name, each in columns
    }
    source = write(pa.table(texts), tmp_path / "t.csv")
    refuse(model, source, "'amount'", "'n/k'", "row ")
    file_format = FileFormat(missing=frozenset(["", "n/k"]))
    score_file(model, source, tmp_path / "o.parquet", file_format=file_format)
    got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
    np.testing.assert_array_equal(got, model.predict_proba(table)[:, 1])
