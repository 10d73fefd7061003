"""Loading files and samples: what is understood, and what is said about files that cannot be."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from engine import sandbox
from engine.errors import BadInput, Cancelled
from engine.node_types import SOURCE_COLUMNS, NodeContext
from engine.values import Table
from engine.workspace import Files
from nodes.data.tables import load
from nodes.load_data import NODE, LoadDataParams, file_columns
from sample_pipelines import make_data
from tests.expect import refused
from tests.nodes.conftest import load_sample, make_context

ROWS = "age,city,label\n30,Rome,yes\n41,Oslo,no\n25,Rome,yes\n"


def write(ctx: NodeContext, name: str, content: str | bytes) -> str:
    (ctx.files.data / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def read(ctx: NodeContext, content: str | bytes, name: str = "t.csv", **params: Any) -> Table:
    table: Table = NODE.run(ctx, {}, LoadDataParams(source=write(ctx, name, content), **params))[
        "table"
    ]
    return table


def kinds(table: Table) -> dict[str, str]:
    return {column.name: column.kind for column in table.columns}


def classes(table: Table) -> list[str]:
    found: list[str] = table.labels().combine_chunks().dictionary.to_pylist()
    return found


def check_refused(ctx: NodeContext, params: LoadDataParams, field: str, *naming: str) -> None:
    """Assert that a run and its check refuse ``field`` with one message that names these values."""
    assert NODE.check is not None
    with refused(field=field, naming=naming) as caught:
        NODE.run(ctx, {}, params)
    [foreseen] = NODE.check(params, ctx.files)
    assert (foreseen.message, foreseen.field) == (str(caught.value), field)


# Formats


def test_a_csv_has_its_columns_kinds_and_target(ctx):
    table = read(ctx, ROWS, target="label")
    assert kinds(table) == {"age": "number", "city": "category", "label": "category"}
    assert table.data.column("age").to_pylist() == [30, 41, 25]
    assert table.target == "label"
    assert table.features == ["age", "city"]
    assert list(NODE.check(LoadDataParams(source="t.csv", target="label"), ctx.files)) == []


WRITTEN = {
    "crlf.csv": ROWS.replace("\n", "\r\n").encode(),
    "bom.csv": b"\xef\xbb\xbf" + ROWS.encode(),
    "semicolon.csv": ROWS.replace(",", ";").encode(),
    "pipe.csv": ROWS.replace(",", "|").encode(),
    "space.data": ROWS.replace(",", " ").encode(),
    "tab.tsv": ROWS.replace(",", "\t").encode(),
    "tab.csv": ROWS.replace(",", "\t").encode(),
    "packed.csv.gz": gzip.compress(ROWS.encode()),
    "packed.tsv.gz": gzip.compress(ROWS.replace(",", "\t").encode()),
    "padded.csv": ROWS.replace(",", ", ").encode(),
    "no_last_newline.csv": ROWS.rstrip().encode(),
    "blank_lines.csv": ROWS.replace("\n", "\n\n").encode(),
    "upper.CSV": ROWS.encode(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_csv_is_read_however_it_is_written(ctx, name):
    assert read(ctx, WRITTEN[name], name).data.equals(read(ctx, ROWS).data)


def test_quotes_may_hold_delimiters_quotes_and_newlines(ctx):
    table = read(ctx, 'a,b\n1,"x, ""y""\nz"\n2,w\n')
    assert table.data.column("b").to_pylist() == ['x, "y"\nz', "w"]


@pytest.mark.parametrize(
    "content",
    [
        'a,b\n1,x\n2,"y\n"\n',
        'a,b\n1,x\n2,"y\n"',
        'a,b\n1,5" pipe\n2,"y\r\n"\r\n',
        '"a","b"\n"1","""x"", y"\n2,"y\nz"""\n',
        '\ufeff"a\n",b\n1,"2"3\n2,"y\n""z"" "\n',
    ],
)
def test_a_last_value_of_several_lines_is_read_if_its_quotes_are_closed(ctx, content):
    assert read(ctx, content).data.num_rows == 2


def test_a_wide_row_may_be_longer_than_a_megabyte(ctx):
    header, row = (",".join(f"{text}{i:0>2000}" for i in range(600)) for text in ("column", "x"))
    assert read(ctx, f"{header}\n{row}\n{row}\n").data.shape == (2, 600)


@pytest.mark.parametrize(
    "encoding", ["latin-1", "utf-16", "cp1252", "utf-16-le", "utf-32", "utf-8-sig", "cp1140"]
)
def test_other_encodings_are_read_when_named(ctx, encoding):
    table = read(ctx, "name,n\nJosé,1\nÅsa,2\n".encode(encoding), encoding=encoding)
    assert table.data.column("name").to_pylist() == ["José", "Åsa"]


def test_without_a_header_columns_are_numbered(ctx):
    table = read(ctx, "1,x\n2,y\n", header=False, target="f2", types={"f1": "category"})
    assert kinds(table) == {"f1": "category", "f2": "category"}
    assert table.data.num_rows == 2


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "stream.arrow"])
def test_binary_formats_give_the_table_that_csv_gives(ctx, suffix):
    data = pa.table(
        {"age": [30, 41, 25], "city": ["Rome", "Oslo", "Rome"], "label": ["yes", "no", "yes"]}
    )
    path = ctx.files.data / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(data, path)
    elif suffix == "feather":
        pyarrow.feather.write_feather(data, path)
    else:
        with pa.OSFile(str(path), "wb") as sink:
            new = pa.ipc.new_stream if "stream" in suffix else pa.ipc.new_file
            with new(sink, data.schema) as writer:
                writer.write_table(data)
    table = load(LoadDataParams(source=path.name, target="label"), ctx.files)
    assert table.data.equals(read(ctx, ROWS, target="label").data)


def test_libsvm_becomes_dense_columns_and_a_target(ctx):
    table = read(ctx, "+1 1:0.5 3:2 # remark\n\n-1\t2:1e3\n+1\n", "t.libsvm", target="target")
    assert table.data.select(["f1", "f2", "f3"]).to_pydict() == {
        "f1": [0.5, 0, 0],
        "f2": [0, 1000, 0],
        "f3": [2, 0, 0],
    }
    assert table.labels().to_pylist() == ["1", "-1", "1"]
    assert classes(table) == ["-1", "1"]


def test_labels_of_libsvm_may_be_words_and_queries_are_ignored(ctx):
    table = read(ctx, "cat qid:1 1:0.5\ndog qid:2 2:1\n", "t.svm", target="target")
    assert table.data.to_pydict() == {"f1": [0.5, 0], "f2": [0, 1], "target": ["cat", "dog"]}


def test_the_format_can_be_named_when_the_file_name_does_not_tell_it(ctx):
    assert read(ctx, ROWS, "t.dump", format="csv").data.num_rows == 3


# Kinds


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], "int32"),
        (["1", "3000000000"], "int64"),
        (["1", "2.5"], "double"),
        (["1", "?"], "int32"),
        (["true", "False"], "bool"),
        (["2024-01-31", "2024-02-01"], "timestamp[us]"),
        (["2024-01-31 12:00:00", "2024-02-01 00:00:00.5"], "timestamp[us]"),
        (["2024-01-31T12:00:00Z", "2024-02-01T00:00:00Z"], "timestamp[us]"),
        (["12:30:00", "08:00:00"], "double"),
        (["x", "y"], "dictionary<values=string, indices=int32, ordered=0>"),
        ([f"comment {i}" for i in range(200)], "string"),
        (
            [f"shop {i % 90}" for i in range(200)],
            "dictionary<values=string, indices=int32, ordered=0>",
        ),
    ],
)
def test_the_kind_of_a_column_is_inferred(ctx, values, kind):
    table = read(ctx, "x,y\n" + "".join(f"{value},1\n" for value in values))
    assert str(table.data.schema.field("x").type) == kind


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["1", "02"], "text", ["1", "02"]),
        (["1.0", "10"], "category", ["1", "10"]),
        (["yes", "N"], "bool", [True, False]),
        (["1", "0"], "bool", [True, False]),
        (["5", "?"], "number", [5, None]),
        (["true", "false"], "number", None),
    ],
)
def test_a_type_that_was_asked_for_is_applied(ctx, values, kind, expected):
    params = {"types": {"x": kind}}
    content = "x,y\n" + "".join(f"{value},1\n" for value in values)
    if expected is None:
        with refused(field="types", naming=["'x'", "number", "row 1", "'true'"]):
            read(ctx, content, **params)
    else:
        table = read(ctx, content, **params)
        assert table.data.column("x").to_pylist() == expected
        assert kinds(table)["x"] == kind


def test_missing_texts_are_missing_in_every_format(ctx):
    pq.write_table(
        pa.table({"x": ["a", "?", " NA", None], "n": [1.0, float("nan"), 2.0, None]}),
        ctx.files.data / "t.parquet",
    )
    from_parquet = load(LoadDataParams(source="t.parquet"), ctx.files).data
    from_csv = read(ctx, "x,n\na,1.0\n?,NaN\n NA,2.0\n,\n").data
    assert from_parquet.equals(from_csv)
    assert from_csv.to_pydict() == {"x": ["a", None, None, None], "n": [1.0, None, 2.0, None]}


def test_unusual_arrow_types_become_plain_ones(ctx):
    data = pa.table(
        {
            "decimal": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
            "half": pa.array(np.array([1.5, 2], np.float16)),
            "day": pa.array([0, 1], pa.date32()),
            "zoned": pa.array([0, 1], pa.timestamp("ns", "Europe/Paris")),
            "span": pa.array([1500, 0], pa.duration("ms")),
            "large": pa.array(["a", "b"], pa.large_string()),
            "bytes": pa.array([b"a", b"b"]),
            "codes": pa.array([7, 8]).dictionary_encode(),
        }
    )
    pyarrow.feather.write_feather(data, ctx.files.data / "t.feather")
    table = load(LoadDataParams(source="t.feather"), ctx.files)
    assert [str(kind).split("<")[0] for kind in table.data.schema.types] == [
        *("double", "float", "timestamp[us]", "timestamp[us]", "double"),
        *("dictionary", "dictionary", "dictionary"),
    ]
    assert table.data.column("span").to_pylist() == [1.5, 0]


# Target and roles


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "2", "2", "1"], ["1", "2", "10"]),
        (["1.0", "0.0", "1.0"], ["0", "1"]),
        (["+1", "-1", "-1"], ["-1", "1"]),
        (["01", "10", "02"], ["01", "02", "10"]),
        (["0.5", "1.5", "1.5"], ["0.5", "1.5"]),
        (
            ["-9007199254740993", "-9007199254740992", "5"],
            ["-9007199254740992", "-9007199254740993", "5"],
        ),
        (["9007199254740993.0", "-0", "+010.", "1e1"], ["0", "10", "9007199254740993"]),
        (["b", "a", "b"], ["a", "b"]),
        (["x10", "x9", "x9"], ["x9", "x10"]),
        (["True", "False", "True"], ["False", "True"]),
        (["b ", "a", "b"], ["a", "b"]),
    ],
)
def test_class_labels_are_texts_in_natural_order(ctx, labels, expected):
    table = read(ctx, "x,y\n" + "".join(f"1,{label}\n" for label in labels), target="y")
    assert classes(table) == expected
    assert str(table.labels().type) == "dictionary<values=string, indices=int32, ordered=0>"


def test_whole_floats_of_parquet_are_labels_without_a_point(ctx):
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [1.0, 10.0, 2.0]}), ctx.files.data / "t.parquet")
    assert classes(load(LoadDataParams(source="t.parquet", target="y"), ctx.files)) == [
        "1",
        "2",
        "10",
    ]


def test_roles_are_set_and_plain_features_left_out(ctx):
    content = "id,when,w,x,y\n1,2024-01-01,1,5,a\n2,2024-01-02,2,6,b\n"
    table = read(
        ctx, content, target="y", roles={"id": "id", "when": "time", "w": "weight", "x": "feature"}
    )
    assert table.roles == {"id": "id", "when": "time", "w": "weight"}
    assert table.features == ["x"]


@pytest.mark.parametrize("role", ["id", "group"])
def test_ids_and_groups_are_carried_as_they_are_written(ctx, role):
    ids = ["12345678901234567890", "12345678901234567891", "007", "7", "7.0", "+7", "1e3"]
    content = "id,x\n" + "".join(f"{name},1\n" for name in ids)
    table = read(ctx, content, roles={"id": role})
    assert table.data.column("id").to_pylist() == ids
    assert kinds(table)["id"] == "text"
    assert table.features == ["x"]
    as_category = read(ctx, content, roles={"id": role}, types={"id": "category"})
    assert kinds(as_category)["id"] == "category"


def test_ids_that_are_numbers_in_the_file_stay_numbers(ctx):
    pq.write_table(pa.table({"id": [2**60 + 1, 7], "x": [1, 2]}), ctx.files.data / "t.parquet")
    table = load(LoadDataParams(source="t.parquet", roles={"id": "id"}), ctx.files)
    assert table.data.column("id").to_pylist() == [2**60 + 1, 7]


def test_rows_without_a_target_and_columns_without_values_are_dropped_when_asked(ctx):
    content = "x,e,y\n1,,a\n2,,\n3,,b\n"
    table = read(ctx, content, target="y", missing_target="drop", empty_columns="drop")
    assert table.data.to_pydict() == {"x": [1, 3], "y": ["a", "b"]}


def test_an_ignored_column_may_be_empty(ctx):
    assert read(ctx, "x,e\n1,\n2,\n", roles={"e": "ignore"}).data.column_names == ["x", "e"]


# What cannot be loaded

NUMBERS = "x,y\n" + "".join(f"1,{number}\n" for number in range(40))
BAD_FILES: list[tuple[str, str | bytes | None, dict[str, Any], str, list[str]]] = [
    ("missing.csv", None, {}, "source", ["'missing.csv'"]),
    ("empty.csv", b"", {}, "source", ["'empty.csv'", "empty"]),
    ("empty.parquet", b"", {}, "source", ["'empty.parquet'", "empty"]),
    ("blank.csv", "\n  \n", {}, "source", ["'blank.csv'", "empty"]),
    ("header.csv", "a,b\n", {}, "source", ["'header.csv'", "header", "no rows"]),
    ("header.csv", "a,b", {}, "source", ["'header.csv'", "header", "no rows"]),
    ("long.csv", "a,b\n1,2\n3,4,5\n", {}, "source", ["row 3", "'long.csv'", "3 values", "where 2"]),
    ("short.csv", "a,b\n1,2\n3\n", {}, "source", ["row 3", "'short.csv'", "1 value", "where 2"]),
    (
        "bare.csv",
        "1,2\n3\n",
        {"header": False},
        "source",
        ["row 2", "'bare.csv'", "1 value", "where 2"],
    ),
    ("quote.csv", 'a,b\n1,"x\n2,y\n', {}, "source", ["line 2", "'quote.csv'", "quote"]),
    ("quote.csv", 'a,b\n1,x\n2,"y\n3,z\n4,w', {}, "source", ["line 3", "'quote.csv'", "quote"]),
    ("quote.csv", 'a,b\r\n1,"x\r\n2,y\r\n', {}, "source", ["line 2", "'quote.csv'", "quote"]),
    ("quote.csv", 'a,b\n"1,x\n2,y\n', {}, "source", ["line 2", "'quote.csv'", "quote"]),
    (
        "quote.csv",
        'a,b\n1,"x\n' + "2,y\n" * 1_200_000,
        {},
        "source",
        ["line 2", "'quote.csv'", "quote"],
    ),
    ("long.csv", "a,b\n1," + "x" * 9_000_000 + "\n", {}, "source", ["'long.csv'", "4 MB"]),
    ("late.csv", "a,b\n" + "1,x\n" * 1_200_000 + "2,y\0\n", {}, "source", ["'late.csv'", "NUL"]),
    ("latin.csv", b"a,b\n1,x\n2,\xe9\n", {}, "encoding", ["0xe9", "line 3", "latin-1"]),
    ("latin.csv", b"a,b\n1,x\n2,\xe9\n", {"target": "b"}, "encoding", ["0xe9", "line 3"]),
    ("head.csv", b"a,\xe9\n1,x\n", {}, "encoding", ["0xe9", "line 1"]),
    ("ascii.csv", "a,b\n1,é\n", {"encoding": "ascii"}, "encoding", ["ascii", "0xc3", "line 2"]),
    ("wide.csv", "a,b\n1,é\n".encode("utf-16"), {}, "encoding", ["utf-16"]),
    ("wide.csv", "a,b\n1,é\n".encode("utf-16"), {"encoding": "latin-1"}, "encoding", ["utf-16"]),
    ("narrow.csv", ROWS, {"encoding": "utf-16"}, "encoding", ["utf-16", "BOM"]),
    ("narrow.csv", ROWS + "x", {"encoding": "utf-16-le"}, "encoding", ["utf-16-le"]),
    (
        "escape.csv",
        r"a,\ud800",
        {"encoding": "unicode_escape"},
        "encoding",
        ["unicode_escape", "surrogates"],
    ),
    (
        "kanji.csv",
        b"a,b\n" + b"1,x\n" * 1_200_000 + b"\xff\n",
        {"encoding": "shift_jis"},
        "encoding",
        ["0xff", "line 1,200,002"],
    ),
    ("noise.csv", bytes(range(256)) * 20, {}, "source", ["'noise.csv'", "text"]),
    ("noise.csv.gz", b"no gzip at all", {}, "source", ["'noise.csv.gz'", "decompressed"]),
    ("noise.parquet", b"PAR1 nonsense PAR1", {}, "source", ["'noise.parquet'", "Parquet"]),
    ("noise.arrow", b"nonsense" * 50, {}, "source", ["'noise.arrow'", "Arrow"]),
    ("noise.arrow", b"ARROW1\0\0nonsense", {}, "source", ["'noise.arrow'", "Arrow"]),
    ("noise.libsvm", b"\xff\xfe\x00\x01", {}, "source", ["'noise.libsvm'", "LibSVM"]),
    (
        "words.libsvm",
        "1 1:2\nsome words\n",
        {},
        "source",
        ["line 2", "'words.libsvm'", "'some words'"],
    ),
    ("words.libsvm", "1 1:x\n", {}, "source", ["line 1", "'words.libsvm'", "LibSVM"]),
    ("colons.libsvm", "1 1:2:3\n", {}, "source", ["line 1", "'colons.libsvm'", "LibSVM"]),
    ("zero.libsvm", "1 0:2\n", {}, "source", ["line 1", "from 1"]),
    ("back.libsvm", "1 1:2\n1 3:1 2:1\n", {}, "source", ["line 2", "'back.libsvm'", "ascending"]),
    ("late.libsvm", "1 1:2\n" * 999 + "# note\n1 1;2\n", {}, "source", ["line 1,001", "'1 1;2'"]),
    ("bare.libsvm", "1\n2\n", {}, "source", ["'bare.libsvm'", "index:value"]),
    ("label.libsvm", "1:2 2:3\n", {}, "source", ["line 1", "label"]),
    ("huge.libsvm", "1 9999999999:1\n", {}, "source", ["line 1", "'huge.libsvm'"]),
    ("far.libsvm", "1 99999999:2\n", {}, "max_columns", ["99,999,999", "8,192"]),
    ("book.docx", b"PK", {}, "format", ["'book.docx'", "format"]),
    ("t.csv", ROWS, {"target": "Lable"}, "target", ["'Lable'", "'label'"]),
    ("t.csv", ROWS, {"target": "zzz"}, "target", ["'zzz'", "'age', 'city', 'label'"]),
    ("one.csv", "x,y\n1,a\n2,a\n", {"target": "y"}, "target", ["'y'", "'a'", "empty"]),
    ("void.csv", "x,y\n1,\n2,\n", {"target": "y"}, "missing_target", ["'y'", "2 of 2"]),
    (
        "void.csv",
        "x,y\n1,\n2,\n",
        {"target": "y", "missing_target": "drop"},
        "target",
        ["'y'", "no value"],
    ),
    (
        "gaps.csv",
        "x,y\n1,a\n2,\n3,b\n",
        {"target": "y"},
        "missing_target",
        ["'y'", "1 of 3", "drop"],
    ),
    ("ids.csv", NUMBERS, {"target": "y"}, "target", ["'y'", "40 different", "40 rows"]),
    ("hole.csv", "x,e\n1,\n2,NA\n", {}, "empty_columns", ["'e'", "drop"]),
    ("twice.csv", "a,b,a\n1,2,3\n", {}, "source", ["'twice.csv'", "'a'"]),
    ("twice.csv", "a,b, a\n1,2,3\n", {}, "source", ["'twice.csv'", "'a'"]),
    ("nameless.csv", "a,,c\n1,2,3\n", {}, "source", ["column 2", "'nameless.csv'"]),
    ("t.csv", ROWS, {"roles": {"agee": "id"}}, "roles", ["'agee'", "'age'"]),
    ("t.csv", ROWS, {"types": {"agee": "text"}}, "types", ["'agee'"]),
    (
        "t.csv",
        ROWS,
        {"types": {"city": "number"}},
        "types",
        ["'city'", "number", "row 1", "'Rome'"],
    ),
    ("t.csv", ROWS, {"types": {"city": "time"}}, "types", ["'city'", "time", "row 1", "'Rome'"]),
    ("t.csv", ROWS, {"types": {"age": "bool"}}, "types", ["'age'", "bool", "row 1", "'30'"]),
    (
        "zone.csv",
        "t\n2024-01-01\n2024-01-01T00:00:00Z\n",
        {"types": {"t": "time"}},
        "types",
        ["row 2", "'2024"],
    ),
    (
        "t.csv",
        ROWS,
        {"target": "label", "roles": {"label": "id"}},
        "roles",
        ["'label'", "target", "id"],
    ),
    (
        "t.csv",
        ROWS,
        {"target": "label", "types": {"label": "number"}},
        "types",
        ["'label'", "category"],
    ),
    ("t.csv", ROWS, {"roles": {"city": "time"}}, "roles", ["'city'", "time", "category"]),
    ("t.csv", ROWS, {"roles": {"city": "weight"}}, "roles", ["'city'", "weight", "number"]),
    ("w.csv", "a,b\n1,1\n1,-1\n", {"roles": {"b": "weight"}}, "roles", ["'b'", "below zero"]),
    (
        "w.csv",
        "a,b\n1,1\n",
        {"roles": {"a": "weight", "b": "weight"}},
        "roles",
        ["weight", "'a', 'b'"],
    ),
    (
        "g.csv",
        "a,b\n1,1\n",
        {"roles": {"a": "group", "b": "group"}},
        "roles",
        ["group", "'a', 'b'"],
    ),
    ("../t.csv", None, {}, "source", ["'../t.csv'", "workspace"]),
    ("/etc/hostname", None, {}, "source", ["'/etc/hostname'", "absolute"]),
    ("sample:digit", None, {}, "source", ["'digit'", "'digits'"]),
]


@pytest.mark.parametrize(
    ("name", "content", "params", "field", "naming"),
    BAD_FILES,
    ids=[f"{b[0]}-{b[3]}" for b in BAD_FILES],
)
def test_what_is_wrong_is_said_with_the_setting_to_change(
    ctx, name, content, params, field, naming
):
    if content is not None:
        write(ctx, name, content)
    check_refused(ctx, LoadDataParams(source=name, **params), field, *naming)


def test_more_columns_than_allowed_are_refused_before_they_are_read(ctx):
    names = ",".join(f"c{i}" for i in range(10_000))
    source = write(ctx, "t.csv", f"{names}\n" + ",".join("1" for _ in range(10_000)) + "\n")
    check_refused(ctx, LoadDataParams(source=source), "max_columns", "10,000", "8,192")
    assert (
        load(LoadDataParams(source=source, max_columns=10_000), ctx.files).data.num_columns
        == 10_000
    )


@pytest.mark.parametrize(
    ("distinct", "repeats", "legal"), [(1000, 2, True), (1001, 2, False), (9, 1, True)]
)
def test_many_classes_are_legal_as_long_as_they_can_be_classes(ctx, distinct, repeats, legal):
    content = "x,y\n" + "".join(f"1,c{i}\n" for i in range(distinct)) * repeats
    params = LoadDataParams(source=write(ctx, "t.csv", content), target="y")
    if legal:
        assert len(classes(load(params, ctx.files))) == distinct
    else:
        check_refused(ctx, params, "target", "'y'", "1,001", "2,002")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "libsvm"])
def test_a_damaged_file_is_read_or_refused_but_never_breaks_the_reader(ctx, suffix):
    path = ctx.files.data / f"t.{suffix}"
    data = pa.table({"x": range(30), "y": ["a", "b", "c"] * 10})
    if suffix == "parquet":
        pq.write_table(data, path)
    elif suffix == "feather":
        pyarrow.feather.write_feather(data, path, compression="uncompressed")
    elif suffix == "libsvm":
        path.write_text("1 1:2 3:4.5\n2 2:1\n" * 15)
    else:
        text = ROWS * 10
        path.write_bytes(
            gzip.compress(text.encode(), mtime=0) if suffix == "csv.gz" else text.encode()
        )
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole[: rng.integers(len(whole) // 2, len(whole) + 1)])
        for place in rng.integers(0, len(damaged), rng.integers(0, 4)):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(BadInput):
            assert load(LoadDataParams(source=path.name), ctx.files).data.num_rows > 0


def test_a_column_of_lists_is_named(ctx):
    pq.write_table(pa.table({"x": [[1], [2]]}), ctx.files.data / "t.parquet")
    check_refused(ctx, LoadDataParams(source="t.parquet"), "source", "'x'", "list")


def test_a_table_of_no_rows_is_refused_in_every_format(ctx):
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), ctx.files.data / "t.parquet")
    check_refused(ctx, LoadDataParams(source="t.parquet"), "source", "'t.parquet'", "no rows")


def test_a_link_out_of_the_workspace_is_not_followed(ctx, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text(ROWS)
    (ctx.files.data / "link.csv").symlink_to(outside)
    check_refused(ctx, LoadDataParams(source="link.csv"), "source", "'link.csv'", "workspace")


def test_an_absolute_path_is_read_when_the_command_line_allows_it(tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    files = Files(tmp_path / "workspace", allow_absolute=True)
    assert load(LoadDataParams(source=str(tmp_path / "t.csv")), files).data.num_rows == 3


@pytest.mark.parametrize(
    "params",
    [
        {"source": ""},
        {"encoding": "klingon"},
        {"encoding": "base64"},
        {"encoding": "punycode"},
        {"encoding": "idna"},
        {"delimiter": ","},
        {"roles": {"a": "target"}},
        {"types": {"a": "int"}},
        {"rows": 10},
        {"fraud_share": 0.0},
        {"max_columns": 0},
        {"unknown": 1},
    ],
)
def test_settings_that_mean_nothing_are_refused(params):
    with pytest.raises(ValidationError):
        LoadDataParams(**params)


# Before a run


def test_of_a_large_file_only_the_beginning_is_checked(ctx, monkeypatch):
    monkeypatch.setattr("nodes.data.tables.MAX_BYTES", len(ROWS) + 5)
    monkeypatch.setattr("nodes.data.tables.START_BYTES", len(ROWS))
    source = write(ctx, "t.csv", ROWS + "1,2,3,4,5\n")
    assert list(NODE.check(LoadDataParams(source=source, target="label"), ctx.files)) == []
    [found] = NODE.check(LoadDataParams(source=source, target="Label"), ctx.files)
    assert found.field == "target"


def small_on_disk(ctx: NodeContext, suffix: str) -> str:
    """A file of a few thousand bytes; its table takes more than ``tables.MAX_BYTES``."""
    path, rows = ctx.files.data / f"t.{suffix}", 5_000_000
    if suffix == "csv.gz":
        path.write_bytes(gzip.compress(b"a,b\n" + b"1,x\n" * (5 * rows)))
    elif suffix == "libsvm":
        path.write_text("1 8000:1\n" * 2_000)
    elif suffix == "texts.parquet":
        long = pa.DictionaryArray.from_arrays(np.zeros(2_000, np.int32), ["x" * 50_000])
        pq.write_table(pa.table({"a": long.cast(pa.string()), "b": range(2_000)}), path)
    else:
        data = pa.table(
            {"a": np.zeros(rows), "b": pa.nulls(rows) if suffix == "arrow" else np.ones(rows)}
        )
        if suffix == "parquet":
            pq.write_table(data, path, compression="zstd")
        elif suffix == "feather":
            pyarrow.feather.write_feather(data, path, compression="zstd")
        else:
            with (
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_stream(
                    sink, data.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
                ) as writer,
            ):
                writer.write_table(data)
    assert path.stat().st_size < 1 << 20
    return path.name


@pytest.mark.parametrize(
    "suffix", ["csv.gz", "parquet", "texts.parquet", "feather", "arrow", "libsvm"]
)
def test_a_small_file_of_a_large_table_is_not_loaded_to_be_checked(ctx, suffix):
    source = small_on_disk(ctx, suffix)
    assert (
        file_columns(LoadDataParams(source=source), ctx.files) is None
    )  # the columns of a loaded table are known
    assert list(NODE.check(LoadDataParams(source=source), ctx.files)) == []
    if suffix != "libsvm":
        assert [
            found.field
            for found in NODE.check(LoadDataParams(source=source, target="z"), ctx.files)
        ] == ["target"]


def test_categories_of_a_file_are_not_written_out_to_be_sorted(ctx):
    long = pa.array(["b" * 1_000_000, "?", "a"])
    data = pa.table(
        {"c": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None] * 25_000, pa.int8()), long)}
    )
    pyarrow.feather.write_feather(data, ctx.files.data / "t.feather")
    table = load(LoadDataParams(source="t.feather"), ctx.files)  # 25 GB if it were
    assert table.data.column("c").chunk(0).dictionary.to_pylist() == ["a", "b" * 1_000_000]
    assert table.data.column("c").null_count == 50_000


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-16-le",
        pytest.param("cp037", marks=pytest.mark.slow),
        pytest.param("utf-16", marks=pytest.mark.slow),
        pytest.param("latin-1", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_checked_a_file_of_another_encoding_ends(ctx, encoding):
    write(ctx, "t.csv", "a,y\n" + "1,A\n2,B\n" * 300_000 + "1,2,3\n")
    code = (
        "import sys; from pathlib import Path; from engine.workspace import Files\n"
        "from nodes.load_data import *\n"
        "params = LoadDataParams(source='t.csv', encoding=sys.argv[2])\n"
        "print([found.field for found in check(params, Files(Path(sys.argv[1])))])"
    )
    for _ in range(3):
        command = [sys.executable, "-c", code, str(ctx.files.workspace), encoding]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert ended.stdout in ("['encoding']\n", "['source']\n") and not ended.stderr


def test_the_check_looks_again_once_the_file_has_changed(ctx):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS), target="label")
    assert list(NODE.check(params, ctx.files)) == []
    write(ctx, "t.csv", "x\n1\n")
    assert [found.field for found in NODE.check(params, ctx.files)] == ["target"]


def test_the_check_does_not_load_the_same_file_twice(ctx, monkeypatch):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS))
    list(NODE.check(params, ctx.files))
    monkeypatch.setattr(sandbox, "call", None)
    assert list(NODE.check(params, ctx.files)) == []


def test_the_fingerprint_follows_the_file(ctx):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS))
    before = NODE.fingerprint(params, ctx.files)
    assert NODE.fingerprint(params, ctx.files) == before
    os.utime(ctx.files.data / "t.csv", ns=(1, 1))
    assert NODE.fingerprint(params, ctx.files) != before


def test_the_fingerprint_tells_an_edit_of_the_same_size_that_was_given_the_old_date(ctx):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS))
    before, about = NODE.fingerprint(params, ctx.files), (ctx.files.data / "t.csv").stat()
    write(ctx, "t.csv", ROWS.replace("30", "31"))
    os.utime(ctx.files.data / "t.csv", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert NODE.fingerprint(params, ctx.files) != before


def test_a_form_can_ask_for_the_columns_of_a_file_before_target_and_roles_are_right(ctx):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS), target="not there")
    assert [column.name for column in file_columns(params, ctx.files) or ()] == [
        "age",
        "city",
        "label",
    ]
    assert file_columns(LoadDataParams(source="missing.csv"), ctx.files) is None


def test_a_form_is_offered_the_columns_of_a_sample_too(ctx):
    columns = file_columns(LoadDataParams(source="sample:iris", target="zzz"), ctx.files) or ()
    assert [(column.name, column.role) for column in columns][-1] == ("species", "target")
    assert file_columns(LoadDataParams(source="sample:zzz"), ctx.files) is None


MIXED = "id,when,n,c,e,w\n007,2024-01-02,1,a,,1\n8,2024-01-03,2,b,,2\n9,2024-01-04,3,b,,1\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"target": "c"},
        {"target": "n", "types": {"id": "text", "c": "text"}},
        {
            "roles": {"id": "id", "c": "group", "when": "time", "w": "weight", "e": "ignore"},
            "target": "n",
        },
        {"types": {"n": "category"}, "roles": {"c": "ignore", "e": "ignore"}},
    ],
)
def test_the_columns_of_a_file_are_known_as_they_will_be_loaded(ctx, ending, settings):
    source = write(ctx, "m.csv", MIXED)
    if ending == "parquet":
        table = load(LoadDataParams(source=source, roles={"e": "ignore"}), ctx.files).data
        table = table.set_column(3, "c", table.column("c").cast(pa.string()))
        source = "m.parquet"
        pq.write_table(table, ctx.files.data / source)
    params = LoadDataParams(source=source, empty_columns="drop", **settings)
    assert NODE.output_columns is not None
    columns = NODE.output_columns({SOURCE_COLUMNS: file_columns(params, ctx.files)}, params)
    assert columns["table"] == load(params, ctx.files).columns


def test_without_a_look_at_the_file_or_with_a_wrong_column_nothing_is_known(ctx):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS))
    assert NODE.output_columns is not None
    assert NODE.output_columns({}, params) == {"table": None}
    wrong = params.model_copy(update={"target": "zzz"})
    assert NODE.output_columns({SOURCE_COLUMNS: file_columns(wrong, ctx.files)}, wrong) == {
        "table": None
    }


def test_a_look_at_the_same_file_is_remembered(ctx, monkeypatch):
    params = LoadDataParams(source=write(ctx, "t.csv", ROWS))
    first = file_columns(params, ctx.files)
    monkeypatch.setattr(sandbox, "call", None)
    assert first and file_columns(params.model_copy(update={"target": "age"}), ctx.files) == first


def test_a_cancelled_run_does_not_load(tmp_path):
    ctx = make_context(tmp_path)
    ctx.cancelled.set()
    with pytest.raises(Cancelled):
        NODE.run(ctx, {}, LoadDataParams())


# Samples


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("digits", (1797, 65), list("0123456789")),
        ("breast-cancer", (569, 31), ["benign", "malignant"]),
        ("wine", (178, 14), ["grower 1", "grower 2", "grower 3"]),
        ("iris", (150, 5), ["setosa", "versicolor", "virginica"]),
        ("fraud", (20_000, 25), ["no", "yes"]),
    ],
)
def test_each_sample_has_the_columns_that_were_known_before(ctx, name, shape, labels):
    table = load_sample(ctx, name)
    assert table.data.shape == shape
    assert classes(table) == labels
    assert NODE.output_columns is not None
    assert (
        NODE.output_columns({}, LoadDataParams(source=f"sample:{name}"))["table"] == table.columns
    )


INTEGERS = {"digits": 64, "breast-cancer": 0, "wine": 2, "iris": 0}


@pytest.mark.parametrize("name", INTEGERS)
def test_samples_are_the_tables_that_scikit_learn_gives(ctx, name):
    expected = make_data.table(name)
    table = load_sample(ctx, name)
    assert (
        table.data.column_names == expected.column_names
        and table.target == expected.column_names[-1]
    )
    for feature in table.features:
        assert (
            table.data.column(feature)
            .cast(pa.float64())
            .equals(expected.column(feature).cast(pa.float64()))
        )
    assert table.labels().to_pylist() == [str(label) for label in expected.column(-1).to_pylist()]
    types = [str(table.data.schema.field(feature).type) for feature in table.features]
    assert (
        types.count("int32") == INTEGERS[name]
        and types.count("double") == len(types) - INTEGERS[name]
    )


def test_settings_reach_a_sample_and_its_known_columns(ctx):
    params = {
        "target": "channel",
        "roles": {"time": "ignore", "hour": "id"},
        "types": {"items": "category"},
    }
    table = load_sample(ctx, "fraud", rows=1_000, **params)
    assert table.target == "channel"
    assert table.roles == {"payment_id": "id", "time": "ignore", "hour": "id"}
    assert NODE.output_columns is not None
    known = NODE.output_columns({}, LoadDataParams(source="sample:fraud", **params))["table"]
    assert known == table.columns


def test_fraud_is_seeded_rare_and_in_order_of_time(ctx):
    table, again, other = (
        load_sample(ctx, "fraud", rows=2_000, fraud_share=0.01, seed=seed) for seed in (3, 3, 4)
    )
    assert table.data.equals(again.data)
    assert not table.data.equals(other.data)
    assert table.labels().to_pylist().count("yes") == 20
    times = table.data.column("time").to_numpy()
    assert (np.diff(times) >= np.timedelta64(0)).all()
    assert {column.kind for column in table.columns} == {
        "number",
        "category",
        "bool",
        "time",
        "text",
    }
    assert sum(column.null_count > 0 for column in table.data.columns) == 5


@pytest.mark.slow
def test_boosted_trees_find_fraud_that_a_linear_model_does_not(ctx):
    lightgbm = pytest.importorskip("lightgbm")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score

    table = load_sample(ctx, "fraud")
    numeric = [
        column.name
        for column in table.columns
        if column.kind in ("number", "bool") and column.role == "feature"
    ]
    codes = [c.name for c in table.columns if c.kind == "category" and c.role == "feature"]
    numbers = [np.nan_to_num(table.data.column(name).to_numpy().astype(float)) for name in numeric]
    dummies = [
        np.array(table.data.column(name).to_pylist()) == value
        for name in codes
        for value in table.data.column(name).chunk(0).dictionary.to_pylist()
    ]
    cells = np.column_stack([*(np.log1p(column) for column in numbers), *dummies]).astype(float)
    cells = (cells - cells.mean(0)) / cells.std(0)
    is_fraud = np.array(table.labels().to_pylist()) == "yes"
    test = np.arange(len(is_fraud)) % 3 == 0

    def precision(model: Any) -> float:
        scores = model.fit(cells[~test], is_fraud[~test]).predict_proba(cells[test])[:, 1]
        return float(average_precision_score(is_fraud[test], scores))

    boosted = precision(
        lightgbm.LGBMClassifier(
            n_estimators=100, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1, seed=0
        )
    )
    assert 1.5 * precision(LogisticRegression(max_iter=300)) < boosted < 0.9
