"""Splitting: no row lost or doubled, classes in proportion, the latest rows held out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.errors import BadInput
from engine.node_types import Column
from engine.values import Table
from nodes.split import NODE, SplitParams
from tests.expect import refused


def table_of(labels: list[str | None]) -> Table:
    data = pa.table(
        {"row": range(len(labels)), "y": pa.array(labels, pa.string()).dictionary_encode()}
    )
    return Table(data, "y")


def parts(ctx: Any, table: Table, **params: Any) -> tuple[Table, Table]:
    outputs = NODE.run(ctx, {"table": table}, SplitParams(**params))
    return outputs["train"], outputs["test"]


def rows(table: Table) -> list[int]:
    found: list[int] = table.data.column("row").to_pylist()
    return found


@settings(deadline=None)
@given(
    labels=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=2, max_size=40),
    share=st.floats(0.01, 0.99),
    stratified=st.booleans(),
    seed=st.integers(0, 5),
)
def test_no_row_is_lost_or_doubled_and_order_is_kept(
    tmp_path_factory, labels, share, stratified, seed
):
    from tests.nodes.conftest import make_context

    ctx = make_context(tmp_path_factory.mktemp("split"))
    try:
        train, test = parts(
            ctx, table_of(labels), test_share=share, stratified=stratified, seed=seed
        )
    except BadInput as problem:
        assert stratified
        assert problem.field == "test_share"
        return
    assert sorted(rows(train) + rows(test)) == list(range(len(labels)))
    assert rows(train) == sorted(rows(train))
    assert rows(test) == sorted(rows(test))
    assert rows(train)
    assert rows(test)
    if stratified:
        assert set(train.labels().to_pylist()) == set(labels)


def test_every_class_has_its_share_in_both_parts(ctx, digits):
    train, test = parts(ctx, digits, test_share=0.25)
    assert test.data.num_rows == round(1797 * 0.25)
    held_out, every = Counter(test.labels().to_pylist()), Counter(digits.labels().to_pylist())
    assert all(abs(held_out[label] - count * 0.25) <= 1 for label, count in every.items())
    assert (train.target, train.roles) == (digits.target, digits.roles)


def test_a_class_with_one_row_is_learned_from_and_one_with_two_is_in_both(ctx):
    train, test = parts(ctx, table_of(["a"] * 50 + ["rare"] * 2 + ["single"]), test_share=0.1)
    assert Counter(train.labels().to_pylist()) == {"a": 46, "rare": 1, "single": 1}
    assert Counter(test.labels().to_pylist()) == {"a": 4, "rare": 1}


def test_both_parts_know_all_classes(ctx):
    _, test = parts(ctx, table_of(["a"] * 10 + ["single"]), test_rows=2)
    assert test.labels().combine_chunks().dictionary.to_pylist() == ["a", "single"]


def test_the_same_seed_gives_the_same_rows_and_another_seed_others(ctx, digits):
    first, again, other = (parts(ctx, digits, seed=seed)[1].data for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_a_number_of_test_rows_is_met_exactly(ctx, digits):
    train, test = parts(ctx, digits, test_rows=97)
    assert (train.data.num_rows, test.data.num_rows) == (1700, 97)


def test_a_table_without_a_target_is_split_at_random(ctx):
    table = Table(pa.table({"row": range(10)}))
    train, test = parts(ctx, table)
    assert sorted(rows(train) + rows(test)) == list(range(10))


def test_the_latest_rows_are_held_out(ctx):
    data = pa.table(
        {"row": [0, 1, 2, 3, 4], "when": pa.array([50, 10, 40, 10, 30], pa.timestamp("us"))}
    )
    train, test = parts(
        ctx, Table(data, None, {"when": "time"}), test_share=0.4, time_column="when"
    )
    assert rows(test) == [0, 2]
    assert rows(train) == [1, 3, 4]


def test_nothing_held_out_is_earlier_than_what_is_learned_from(ctx, fraud):
    train, test = parts(ctx, fraud, time_column="time")
    assert max(train.data.column("time").to_pylist()) <= min(test.data.column("time").to_pylist())


@pytest.mark.parametrize(
    ("params", "naming"),
    [
        ({"test_rows": 2000}, ["2,000", "60 rows", "up to 59"]),
        ({"test_rows": 60}, ["up to 59"]),
        ({"test_rows": 59}, ["2 classes", "58 rows"]),
        ({"test_share": 0.99}, ["58 rows", "Stratified"]),
        ({"time_column": "rows"}, ["'rows'", "'row'"]),
        ({"time_column": "y"}, ["'y'", "category"]),
        ({"time_column": "gaps"}, ["'gaps'", "1 row,"]),
        ({"group_column": "nobody"}, ["'nobody'", "missing in all rows"]),
        ({"time_column": "same"}, ["'same'", "none of them is later"]),
        ({"group_column": "rows"}, ["'rows'", "'row'"]),
        ({"group_column": "same"}, ["'same'", "1 different", "2 parts"]),
        ({"validation_share": 0.9}, ["18 test rows", "54 validation rows", "60 rows"]),
        ({"validation_rows": 42}, ["42 validation rows"]),
    ],
)
def test_settings_that_do_not_suit_the_table_are_refused(ctx, params, naming):
    table = table_of(["a"] * 40 + ["b"] * 20)
    table = table.with_data(
        table.data.append_column("gaps", pa.array([None, *range(59)])).append_column(
            "same", pa.array([7] * 60)
        )
    )
    table = table.with_data(table.data.append_column("nobody", pa.nulls(60, pa.string())))
    [field] = params
    with refused(field=field, naming=naming):
        parts(ctx, table, **params)


def test_classes_of_one_row_cannot_be_stratified(ctx):
    table = table_of(["a", "b"])
    with refused(field="test_share", naming=["too few rows", "Stratified"]):
        parts(ctx, table)
    train, test = parts(ctx, table, stratified=False)
    assert sorted(rows(train) + rows(test)) == [0, 1]


def test_one_row_cannot_be_split(ctx):
    with refused(naming="row"):
        parts(ctx, table_of(["a"]))


@pytest.mark.parametrize(
    "params", [{"test_share": 0.0}, {"test_share": 1.0}, {"test_rows": 0}, {"seed": -1}]
)
def test_settings_out_of_range_are_refused(params):
    with pytest.raises(ValidationError):
        SplitParams(**params)


def test_columns_are_known_before_a_run():
    known = (Column("a", "number"), Column("y", "category", "target"))
    assert NODE.output_columns is not None
    parts = ("train", "validation", "test")
    assert NODE.output_columns({"table": known}, SplitParams()) == dict.fromkeys(parts, known)
    unknown = NODE.output_columns({"table": None}, SplitParams(time_column="t"))
    assert unknown == dict.fromkeys(parts)
    with refused(field="time_column", naming="'t'"):
        NODE.output_columns({"table": known}, SplitParams(time_column="t"))
    with refused(field="group_column", naming=["'y' is the target"]):
        NODE.output_columns({"table": known}, SplitParams(group_column="y"))
    with refused(field="group_column", naming=["by time or by group"]):
        NODE.output_columns({"table": known}, SplitParams(time_column="a", group_column="y"))


def three(ctx: Any, table: Table, **params: Any) -> list[Table]:
    """The training, validation and test rows."""
    outputs = NODE.run(ctx, {"table": table}, SplitParams(**params))
    return [outputs[part] for part in ("train", "validation", "test")]


def test_validation_rows_come_from_the_training_rows_and_leave_the_test_rows(ctx, digits):
    train, test = parts(ctx, digits, seed=3)
    assert three(ctx, digits, seed=3)[1].data.num_rows == 0
    small, validation, same = three(ctx, digits, seed=3, validation_share=0.2)
    assert same.data.equals(test.data)
    assert validation.data.num_rows == round(1797 * 0.2)
    assert small.data.num_rows + validation.data.num_rows == train.data.num_rows
    counts = Counter(validation.labels().to_pylist())
    every = Counter(digits.labels().to_pylist())
    assert all(abs(counts[label] - count * 0.2) <= 1 for label, count in every.items())
    assert three(ctx, digits, validation_rows=50)[1].data.num_rows == 50


def test_validation_rows_are_later_than_training_rows_and_earlier_than_test_rows(ctx, fraud):
    times = [
        part.data.column("time").to_pylist()
        for part in three(ctx, fraud, time_column="time", validation_share=0.2)
    ]
    assert max(times[0]) <= min(times[1])
    assert max(times[1]) <= min(times[2])


@given(
    groups=st.lists(st.sampled_from([*"abcdefg", None]), min_size=8, max_size=60),
    stratified=st.booleans(),
    share=st.floats(0.05, 0.6),
    seed=st.integers(0, 5),
)
def test_the_rows_of_a_group_are_in_one_part(tmp_path_factory, groups, stratified, share, seed):
    from tests.nodes.conftest import make_context

    ctx = make_context(tmp_path_factory.mktemp("split"))
    table = table_of(["x" if at % 3 else "y" for at in range(len(groups))])
    data = table.data.append_column("who", pa.array(groups, pa.string()))
    # A row without a group is a group of its own.
    n_groups = len(set(groups) - {None}) + groups.count(None)
    settings_ = {"stratified": stratified, "validation_share": share / 2, "test_share": share / 2}
    table = Table(data, "y", {"who": "group"})
    if n_groups < 3:
        with refused(field="group_column", naming=["'who'", "3 parts"]):
            three(ctx, table, seed=seed, **settings_)
        return
    found = three(ctx, table, seed=seed, **settings_)
    assert sorted(rows(found[0]) + rows(found[1]) + rows(found[2])) == list(range(len(groups)))
    assert all(rows(part) for part in found)
    where = [set(part.data.column("who").to_pylist()) - {None} for part in found]
    assert not where[0] & where[1] and not where[0] & where[2] and not where[1] & where[2]
    again = three(ctx, Table(data, "y"), seed=seed, group_column="who", **settings_)
    assert [rows(part) for part in again] == [rows(part) for part in found]


def test_groups_meet_the_shares_of_rows_and_classes(ctx):
    # 300 customers with 1 to 20 rows; fraud is rare, and some customers have much of it.
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(300), rng.integers(1, 21, 300))
    labels = np.where(rng.random(len(who)) < np.where(who % 25 == 0, 0.5, 0.01), "fraud", "good")
    table = table_of(labels.tolist())
    data = table.data.append_column("who", pa.array(who))
    found = three(ctx, Table(data, "y", {"who": "group"}), test_share=0.3, validation_share=0.2)
    sizes = np.array([part.data.num_rows for part in found]) / len(who)
    assert np.abs(sizes - [0.5, 0.2, 0.3]).max() < 0.01
    frauds = [part.labels().to_pylist().count("fraud") for part in found]
    assert np.abs(np.array(frauds) / sum(frauds) - [0.5, 0.2, 0.3]).max() < 0.05
