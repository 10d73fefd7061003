"""A file is scored as its table would be, whatever its format and however it is cut into blocks."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from engine.errors import BadInput, Cancelled, SylvaError
from engine.values import Table
from nodes._csv_file import Dialect
from nodes._model import FittedModel
from nodes.deploy import scoring
from nodes.deploy.blocks import Writing, open_blocks, regrouped
from nodes.deploy.scoring import score_file
from tests.nodes.deploy.conftest import DECIDING, Kept, make_table


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
    monkeypatch.setattr(scoring, "ROWS_AT_ONCE", 70)


@pytest.mark.usefixtures("in_small_blocks")
class TestFormats:
    @pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.arrow", "t.ipc", "t.csv.gz"])
    @pytest.mark.parametrize("learner", ["mart", "linear"])
    def test_every_format_gives_what_the_table_gives(self, name, learner, table: Table, kept: Kept, tmp_path: Path):
        model = kept.open(learner)
        scored = score_file(model, write(table.data, tmp_path / name), tmp_path / "out.parquet")
        out = pq.read_table(tmp_path / "out.parquet")
        wanted = model.predict_proba(table)
        assert scored.rows == out.num_rows == 600
        assert out.column_names == ["prediction", "p(no)", "p(yes)"]
        np.testing.assert_array_equal(out.column("p(yes)").to_numpy(), wanted[:, 1])
        assert out.column("prediction").to_pylist() == [model.classes[i] for i in wanted.argmax(axis=1)]

    @pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.pq", "out.arrow", "out.feather"])
    def test_every_target_holds_the_same(self, name, table: Table, model: FittedModel, tmp_path: Path):
        source = write(table.data, tmp_path / "t.parquet")
        score_file(model, source, tmp_path / name, keep=["id", "colour"])
        kinds = {".pq": pq.read_table, ".feather": lambda path: pa.ipc.open_file(path).read_all()}
        out = kinds.get((tmp_path / name).suffix, read)(tmp_path / name)
        assert out.column_names == ["id", "colour", "prediction", "p(no)", "p(yes)"]
        assert out.column("id").to_pylist() == table.data.column("id").to_pylist()
        np.testing.assert_array_equal(out.column("p(no)").to_numpy(), model.predict_proba(table)[:, 0])

    def test_libsvm_needs_only_what_is_not_zero(self, kept: Kept, tmp_path: Path):
        rng = np.random.default_rng(1)
        cells = rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.7)
        data = pa.table({f"f{i + 1}": cells[:, i] for i in range(4)} | {"target": pa.array(["a", "b"] * 150)})
        from nodes import mart
        from tests.nodes.conftest import make_context

        trained = mart.NODE.run(make_context(tmp_path), {"table": Table(data, "target")}, mart.NODE.params(trees=5))
        lines = [
            f"{label} " + " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(row) if value) + " 9:1.5"
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
        texts = [str(n) if row < 300 else f"{n}.0" for row, n in enumerate(table.data.column("count").to_pylist())]
        self.same(model, write(as_written(table.data, count=texts), tmp_path / "t.csv"), table)

    def test_numbers_written_as_text_in_a_typed_file(self, table, model, tmp_path):
        texts = [f" {n} " for n in table.data.column("count").to_pylist()]
        amounts = ["NA" if n is None else repr(n) for n in table.data.column("amount").to_pylist()]
        data = as_written(table.data, count=texts, amount=amounts)
        self.same(model, write(data, tmp_path / "t.parquet"), table)

    @pytest.mark.parametrize("words", [("true", "false"), ("1", "0"), ("Yes", "no"), ("1.0", "0.0")])
    def test_bools_in_many_words(self, words, table, model, tmp_path):
        texts = [words[0] if value else words[1] for value in table.data.column("member").to_pylist()]
        self.same(model, write(as_written(table.data, member=texts), tmp_path / "t.csv"), table)

    def test_categories_that_are_numbers(self, table, model, tmp_path):
        numbers = [int(text) for text in table.data.column("grade").to_pylist()]
        for number, values in enumerate([numbers, [float(n) for n in numbers], [f"{n}.00" for n in numbers]]):
            self.same(model, write(as_written(table.data, grade=values), tmp_path / f"t{number}.parquet"), table)

    def test_decimals_and_small_types(self, table, model, tmp_path):
        data = table.data
        data = data.set_column(2, "count", data.column("count").cast(pa.int8()))
        data = data.set_column(4, "member", data.column("member").cast(pa.uint8()))
        place = data.column_names.index("amount")
        data = data.set_column(place, "amount", pc.round(data.column("amount"), 2).cast(pa.decimal128(20, 2)))
        self.same(model, write(data, tmp_path / "t.parquet"), table)

    def test_times_with_a_zone_and_as_dates(self, table, model, tmp_path):
        zoned = pc.strftime(table.data.column("when"), "%Y-%m-%dT%H:%M:%S").to_pylist()
        data = as_written(table.data, when=[f"{text}Z" for text in zoned])
        self.same(model, write(data, tmp_path / "t.csv"), table)
        nanos = table.data.column("when").cast(pa.timestamp("ns"))
        self.same(model, write(table.data.set_column(5, "when", nanos), tmp_path / "t.parquet"), table)

    def test_a_column_without_any_value_is_missing_everywhere(self, table, model, tmp_path):
        for name in DECIDING:
            place = table.data.column_names.index(name)
            data = table.data.set_column(place, name, pa.nulls(600))
            empty = table.data.set_column(place, name, pa.nulls(600, table.data.schema.field(name).type))
            self.same(model, write(data, tmp_path / "t.csv"), Table(empty))

    def test_a_category_never_seen_counts_as_missing(self, table, model, tmp_path):
        unseen = as_written(table.data, colour=["mauve"] * 600)
        missing = table.data.set_column(6, "colour", pa.nulls(600, pa.string()))
        self.same(model, write(unseen, tmp_path / "t.csv"), Table(missing))


def refused(model: FittedModel, source: Path, **options) -> str:
    target = source.with_name("refused.csv")
    with pytest.raises(BadInput) as caught:
        score_file(model, source, target, **options)
    assert not target.exists() and not list(source.parent.glob(".*unfinished"))
    return caught.value.message


class TestRefusals:
    def test_all_columns_that_do_not_fit_are_named_at_once(self, table, model, tmp_path):
        data = as_written(table.data.drop_columns(["steady", "member"]), count=["few"] * 600, colour=list(range(600)))
        words = refused(model, write(data, tmp_path / "t.parquet"))
        assert "it lacks 'steady', 'member'" in words
        assert "'count' holds 'few' in data row 1 where a number is expected" in words
        assert "'colour' is a number and was a category in training" in words

    def test_numbers_in_a_csv_where_names_were(self, table, model, tmp_path):
        words = refused(model, write(as_written(table.data, colour=list(range(600))), tmp_path / "t.csv"))
        assert "'colour' is a number and was a category" in words

    @pytest.mark.parametrize(
        ("column", "values", "words"),
        [
            ("when", list(range(600)), "'when' is a number and was a time"),
            ("amount", [None] * 599 + ["2024-01-01"], "'2024-01-01' in data row 600"),
            ("when", ["soon"] * 600, "'soon' in data row 1 where a time"),
        ],
    )
    def test_kinds_that_cannot_be_meant(self, column, values, words, table, model, tmp_path):
        assert words in refused(model, write(as_written(table.data, **{column: values}), tmp_path / "t.parquet"))

    def test_times_where_numbers_were(self, table, model, tmp_path):
        data = table.data.set_column(2, "count", table.data.column("when"))
        assert "'count' is a time and was a number" in refused(model, write(data, tmp_path / "t.parquet"))

    @pytest.mark.usefixtures("in_small_blocks")
    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_a_bad_value_far_down_is_told_with_its_row(self, name, table, model, tmp_path):
        texts = [str(n) for n in table.data.column("count").to_pylist()]
        texts[432] = "12 or so"
        words = refused(model, write(as_written(table.data, count=texts), tmp_path / name))
        assert "'count' holds '12 or so' in data row 433 where a number is expected" in words

    def test_nothing_in_common(self, model, tmp_path):
        source = write(pa.table({"a": [1], "b": [2]}), tmp_path / "t.csv")
        assert "it has 'a', 'b'" in refused(model, source)

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("t.csv", b"", "is empty"),
            ("t.parquet", b"PAR1 not", "is no Parquet file"),
            ("t.arrow", b"ARROW1xx", "is no Arrow file"),
            ("t.xlsx", b"PK", "does not end in"),
            ("t.csv", b"amount,amount\n1,2\n", "several columns named 'amount'"),
            ("t.csv", b"amount,count\n1,2\n3\n", "row 3 of 't.csv'"),
            ("t.csv", b'amount,colour\n1,"red\n2,green\n', "quote that is never closed"),
            ("t.csv", b"amount,count\n", "no rows"),
        ],
    )
    def test_files_that_cannot_be_read(self, name, content, words, model, tmp_path):
        (tmp_path / name).write_bytes(content)
        assert words in refused(model, tmp_path / name)

    def test_a_parquet_file_damaged_in_its_middle(self, table, model, tmp_path):
        source = write(table.data, tmp_path / "t.parquet")
        damaged = bytearray(source.read_bytes())
        damaged[1000:9000] = bytes(8000)
        source.write_bytes(damaged)
        assert "is no Parquet file, or damaged" in refused(model, source)

    def test_targets_that_cannot_be(self, table, model, tmp_path):
        source = write(table.data, tmp_path / "t.csv")
        with pytest.raises(BadInput, match=r"does not end in \.arrow, \.csv"):
            score_file(model, source, tmp_path / "out.xlsx")
        with pytest.raises(BadInput, match="would replace the file it is made from"):
            score_file(model, source, source)
        with pytest.raises(BadInput, match="did you mean 'colour'"):
            score_file(model, source, tmp_path / "out.csv", keep=["color"])
        with pytest.raises(SylvaError, match="could not be written"):
            score_file(model, source, tmp_path / "none" / "out.csv")

    def test_settings_of_a_csv(self, table, model, tmp_path):
        data = as_written(table.data, colour=["grün"] * 600)
        pa_csv.write_csv(data, tmp_path / "utf8.csv", pa_csv.WriteOptions(include_header=False, delimiter=";"))
        (tmp_path / "t.dat").write_bytes((tmp_path / "utf8.csv").read_text().encode("latin-1"))
        writing = Writing("csv", Dialect("semicolon", "latin-1", False, frozenset(["?"])))
        assert "it lacks 'amount'" in refused(model, tmp_path / "t.dat", writing=writing)


@pytest.mark.usefixtures("in_small_blocks")
class TestProgress:
    def test_tells_rows_and_their_number(self, table, model, tmp_path):
        told: list[tuple[int, int | None]] = []
        source = write(table.data, tmp_path / "t.parquet")
        score_file(model, source, tmp_path / "o.csv", progress=lambda rows, total: told.append((rows, total)))
        assert told[:2] == [(70, 600), (140, 600)] and told[-1] == (600, 600)

    def test_the_rows_of_a_text_are_guessed(self, table, tmp_path):
        total = open_blocks(write(table.data, tmp_path / "t.csv")).total
        assert total is not None and 590 <= total <= 610
        assert open_blocks(write(table.data, tmp_path / "t.csv.gz")).total is None

    def test_a_cancel_leaves_the_old_file(self, table, model, tmp_path):
        (tmp_path / "o.csv").write_text("old")
        done: list[int] = []
        with pytest.raises(Cancelled):
            score_file(
                model, write(table.data, tmp_path / "t.csv"), tmp_path / "o.csv",
                progress=lambda rows, total: done.append(rows), cancelled=lambda: len(done) >= 2,
            )  # fmt: skip
        assert done == [70, 140] and (tmp_path / "o.csv").read_text() == "old"
        assert {path.name for path in tmp_path.iterdir()} == {"o.csv", "t.csv"}


@pytest.mark.parametrize("sizes", [[5], [1, 1, 1], [10, 3], [0, 7, 0, 9], [4, 4]])
def test_blocks_are_of_the_size_asked_for(sizes):
    tables, start = [], 0
    for size in sizes:
        tables.append(pa.table({"n": list(range(start, start + size))}, pa.schema([("n", pa.int64())])))
        start += size
    blocks = list(regrouped(iter(tables), 4))
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
    texts = {name: [str(value) if value is not None else "n/k" for value in each.to_pylist()] for name, each in columns}
    source = write(pa.table(texts), tmp_path / "t.csv")
    assert "'amount' holds 'n/k' in data row" in refused(model, source)
    writing = Writing(dialect=Dialect(missing=frozenset(["", "n/k"])))
    score_file(model, source, tmp_path / "o.parquet", writing=writing)
    got = pq.read_table(tmp_path / "o.parquet").column("p(yes)").to_numpy()
    np.testing.assert_array_equal(got, model.predict_proba(table)[:, 1])
