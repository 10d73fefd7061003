"""Hints about data: what is found, what is not, and that they cost little and stop nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.workspace import Files
from nodes.data import hints
from nodes.data.hints import pipeline_hints, table_hints
from nodes.data.queries import run_expression
from nodes.load_data import LoadDataParams

RANDOM = np.random.default_rng(0)
ROWS = 1_000
LABELS = np.array(["no", "yes"])[RANDOM.integers(0, 2, ROWS)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


def find(files: Files, columns: dict[str, Any], **params: Any) -> list[tuple[str | None, str]]:
    """Return field and text of the hints about a table with these columns and a target."""
    data = {"noise": RANDOM.random(ROWS), **columns, "y": LABELS}
    pq.write_table(pa.table(data), files.data / "t.parquet")
    found = table_hints(LoadDataParams(source="t.parquet", target="y", **params), files)
    return [(hint.field, hint.message) for hint in found]


def numbers(count: int = ROWS) -> list[str]:
    return [f"{value:.3f}" for value in RANDOM.random(count) * 100]


def test_a_table_of_measurements_and_categories_has_no_hints(files: Files):
    columns = {
        "size": RANDOM.normal(size=ROWS),
        "count": RANDOM.integers(0, 50, ROWS),
        "colour": np.array(["red", "blue"])[RANDOM.integers(0, 2, ROWS)],
        "postcode": [f"0{index % 900:04d}" for index in range(ROWS)],
        "good": RANDOM.random(ROWS) + (LABELS == "yes") * 0.5,
    }
    assert find(files, columns) == []


def test_numbers_that_one_text_spoils_are_named_with_that_text(files: Files):
    values = numbers()
    values[7] = "n/a?"
    [(field, text)] = find(files, {"amount": values})
    assert field == "missing"
    assert "999 of 1,000 values of the column 'amount'" in text and "'n/a?'" in text
    assert find(files, {"amount": values}, missing=["n/a?"])[0][0] == "types"
    assert find(files, {"amount": values}, missing=["n/a?"], types={"amount": "number"}) == []


def test_one_text_among_300_000_numbers_of_a_csv_file_is_found(files: Files):
    values = [str(value) for value in range(1_000_000, 1_300_000)]
    values[200_000] = "unknown"
    rows = [f"{value},{'yes' if index % 3 else 'no'}" for index, value in enumerate(values)]
    (files.data / "big.csv").write_text("amount,y\n" + "\n".join(rows))
    [hint] = table_hints(LoadDataParams(source="big.csv", target="y"), files)
    assert "299,999 of 300,000 values" in hint.message and "'unknown'" in hint.message


def test_texts_with_a_few_numbers_are_not_numbers(files: Files):
    values = [f"item {value}" if index % 5 else value for index, value in enumerate(numbers())]
    assert find(files, {"item": values}) == []


def test_decimal_commas_are_told_from_thousands(files: Files):
    commas = [value.replace(".", ",")[:-1] for value in numbers()]
    [(field, text)] = find(files, {"price": commas})
    assert field == "source" and "decimal commas" in text and "'price'" in text
    assert offered(text, ["1.234,5", "0,5"]) == [1234.5, 0.5]
    thousands = [f"{value},{value}" for value in range(100, 100 + ROWS // 2)] * 2
    [(_, text)] = find(files, {"price": thousands})
    assert "commas between thousands" in text
    assert offered(text, ["1,234", "999"]) == [1234, 999]


def offered(hint: str, prices: list[str]) -> list[float]:
    """The values of the expression that a hint ends with."""
    expression = hint.rpartition(" by ")[2]
    table = pa.table({"price": prices})
    return run_expression(expression, table, field="expression").to_pylist()


def test_ids_are_found_unless_they_have_their_role(files: Files):
    ids = RANDOM.permutation(ROWS) * 7
    [(field, text)] = find(files, {"customer_id": ids})
    assert field == "roles" and "'customer_id'" in text and "role ID" in text
    for role in ("id", "group"):
        assert find(files, {"customer_id": ids}, roles={"customer_id": role}) == []
    assert find(files, {"revenue": ids}) == []
    [(_, text)] = find(files, {"line": np.arange(ROWS)})
    assert "'line'" in text


def test_ids_of_things_with_a_few_rows_each_are_found(files: Files):
    customers = RANDOM.integers(0, 300, ROWS)
    named = [f"C{number}" for number in customers]
    for name, values in (("customer", named), ("customer_id", customers)):
        [(field, text)] = find(files, {name: values})
        assert field == "roles" and f"'{name}'" in text and "role group" in text
        assert find(files, {name: values}, roles={name: "group"}) == []
    # A count, and a category with many rows for each value.
    assert find(files, {"visits": customers, "shop": [f"S{each % 90}" for each in customers]}) == []


def test_rows_that_are_copies_are_counted(files: Files):
    data = {"order": [f"P{row:05d}" for row in range(ROWS)], "x": RANDOM.random(ROWS), "y": LABELS}
    table = pa.table(data)
    for copied, count in (([1, 5, 5], 3), ([], 0)):
        pq.write_table(
            pa.concat_tables([table, table.take(pa.array(copied, pa.int64()))]),
            files.data / "t.parquet",
        )
        params = LoadDataParams(source="t.parquet", target="y", roles={"order": "id"})
        found = [hint.message for hint in table_hints(params, files)]
        assert len(found) == bool(count)
        if count:
            assert f"{count} rows of {ROWS + 3:,} repeat" in found[0] and "DISTINCT" in found[0]
    # Measurements with few digits are equal by chance.
    assert find(files, {"size": RANDOM.integers(0, 3, ROWS)}) == []


@pytest.mark.parametrize(
    "leak",
    [
        lambda is_yes: is_yes + RANDOM.random(ROWS) * 0.9,
        # Not monotone: yes is in the middle.
        lambda is_yes: np.where(is_yes, 0.0, RANDOM.choice([-1.0, 1.0], ROWS)),
        lambda is_yes: np.where(is_yes, "closed", "open"),
        lambda is_yes: is_yes.astype(bool),
        lambda is_yes: pa.array(np.where(is_yes, 1.0, np.nan), from_pandas=True),
    ],
)
def test_a_column_that_gives_the_target_away_is_found(files: Files, leak: Callable[..., Any]):
    [(field, text)] = find(files, {"after": leak((LABELS == "yes").astype(int))})
    assert field == "roles" and "'after' alone gives the target away (AUC" in text


def test_a_strong_feature_is_not_called_a_leak(files: Files):
    strong = (LABELS == "yes") * 2.0 + RANDOM.normal(size=ROWS)
    assert find(files, {"strong": strong}) == []
    for sample in ("sample:iris", "sample:wine", "sample:breast-cancer", "sample:digits"):
        assert table_hints(LoadDataParams(source=sample), files) == []


def test_hints_are_computed_once_for_a_version_of_a_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
):
    find(files, {"line": np.arange(ROWS)})
    params = LoadDataParams(source="t.parquet", target="y")
    computed = []
    original = hints._hints
    monkeypatch.setattr(hints, "_hints", lambda *args: computed.append(1) or original(*args))
    assert len(table_hints(params, files)) == 1 and not computed
    assert len(find(files, {"line": np.arange(ROWS), "row_id": np.arange(ROWS)})) == 2
    assert computed


def test_a_table_that_cannot_be_read_has_no_hints(files: Files):
    assert table_hints(LoadDataParams(source="none.csv"), files) == []
    (files.data / "bad.parquet").write_bytes(b"PAR1")
    assert table_hints(LoadDataParams(source="bad.parquet"), files) == []


# Pipelines


def evaluated(load: dict[str, Any], split: dict[str, Any] | None = None) -> Pipeline:
    nodes = {
        "load": Node(type="load-data", params=load),
        "split": Node(type="split", params=split or {}),
        "forest": Node(type="random-forest"),
        "predict": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
    }
    ends = [
        ("load.table", "split.table"),
        ("split.train", "forest.table"),
        ("forest.model", "predict.model"),
        ("split.test", "predict.table"),
        ("predict.predictions", "evaluate.predictions"),
    ]
    return Pipeline(name="p", nodes=nodes, edges=tuple(Edge.between(*each) for each in ends))


def of_pipeline(files: Files, pipeline: Pipeline) -> list[tuple[str | None, str | None, str]]:
    found = pipeline_hints(pipeline, load_catalog(), files)
    assert all(hint.severity == "warning" for hint in found)
    return [(hint.node, hint.field, hint.message) for hint in found]


def test_a_random_split_of_rows_with_a_time_is_named_with_the_column(files: Files):
    fraud = {"source": "sample:fraud", "rows": 20_000}
    [(node, field, text)] = of_pipeline(files, evaluated(fraud))
    assert (node, field) == ("split", "time_column") and "set Time column to 'time'" in text
    assert of_pipeline(files, evaluated(fraud, {"time_column": "time"})) == []
    assert of_pipeline(files, evaluated(fraud, {"group_column": "device"})) == []
    grouped = {**fraud, "roles": {"device": "group"}}
    assert of_pipeline(files, evaluated(grouped)) == []
    assert of_pipeline(files, evaluated({"source": "sample:wine"})) == []
    as_feature = {**fraud, "roles": {"time": "feature"}}
    [(node, field, text)] = of_pipeline(files, evaluated(as_feature, {"time_column": "time"}))
    assert (node, field) == ("split", "time_column") and "also a feature" in text


def test_too_few_test_rows_of_a_class_are_named(files: Files):
    labels = ["fraud"] * 12 + ["fine"] * 988
    pq.write_table(pa.table({"x": RANDOM.random(ROWS), "y": labels}), files.data / "t.parquet")
    load = {"source": "t.parquet", "target": "y"}
    [(node, field, text)] = of_pipeline(files, evaluated(load, {"test_share": 0.25}))
    assert (node, field) == ("split", "test_share")
    assert "'fraud' has 12 rows, and about 3 of them" in text
    assert of_pipeline(files, evaluated(load, {"test_share": 0.9})) == []


def test_hints_of_a_table_belong_to_the_node_that_loads_it(files: Files):
    find(files, {"line": np.arange(ROWS)})
    load = {"source": "t.parquet", "target": "y"}
    [(node, field, _)] = of_pipeline(files, evaluated(load))
    assert (node, field) == ("load", "roles")


def test_a_pipeline_with_problems_has_hints_only_where_it_can(files: Files):
    pipeline = evaluated({"source": "none.csv", "rows": "many"}, {"test_share": 7})
    assert of_pipeline(files, pipeline) == []
