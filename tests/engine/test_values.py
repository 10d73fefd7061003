"""Values come back from a folder as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.node_types import Column
from engine.values import Folder, Predictions, Report, Table


def table() -> Table:
    data = pa.table(
        {
            "number": [1.5, None],
            "flag": [True, False],
            "level": pa.array(["x", "y"]).dictionary_encode(),
            "when": pa.array([0, 1], pa.timestamp("s")),
            "word": ["p", "q"],
            "y": pa.array(["no", "yes"]).dictionary_encode(),
        }
    )
    return Table(data, "y", {"when": "time", "word": "id"})


def test_a_table_comes_back_with_target_and_roles(tmp_path: Path) -> None:
    table().save(tmp_path)
    loaded = Table.load(tmp_path)
    assert loaded == table()
    assert loaded.features == ["number", "flag", "level"]


def test_a_table_knows_kind_and_role_of_its_columns() -> None:
    assert table().columns == (
        Column("number", "number"),
        Column("flag", "bool"),
        Column("level", "category"),
        Column("when", "time", "time"),
        Column("word", "text", "id"),
        Column("y", "category", "target"),
    )


def test_other_columns_keep_only_the_roles_that_still_apply() -> None:
    fewer = table().with_data(table().data.select(["number", "word"]))
    assert (fewer.target, dict(fewer.roles)) == (None, {"word": "id"})


@pytest.mark.parametrize("truth", [None, pa.array(["no", "yes"]).dictionary_encode()])
@pytest.mark.parametrize(
    "carried", [None, pa.table({"id": [7, 8], "prediction of old": ["a", "b"]})]
)
def test_predictions_come_back_whole(tmp_path: Path, truth, carried) -> None:
    given = Predictions(
        np.array([[0.25, 0.75], [1.0, 0.0]]), ["no", "yes"], "Model", truth, carried
    )
    given.save(tmp_path)
    loaded = Predictions.load(tmp_path)
    np.testing.assert_array_equal(loaded.probabilities, given.probabilities)
    assert (loaded.classes, loaded.model, loaded.truth, loaded.carried) == (
        ["no", "yes"],
        "Model",
        truth,
        carried,
    )
    assert loaded.to_arrow().column("prediction").to_pylist() == ["yes", "no"]


def test_a_carried_column_named_like_a_prediction_is_kept_apart() -> None:
    given = Predictions(
        np.array([[0.5, 0.5]]), ["no", "yes"], "Model", None, pa.table({"prediction": ["old"]})
    )
    assert given.to_arrow().column_names == ["prediction (input)", "prediction", "p(no)", "p(yes)"]


def test_a_report_with_a_number_that_json_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        Report("x", "X", {"value": float("inf")}).save(tmp_path)


def test_a_folder_is_copied_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "model" / "inner").mkdir(parents=True)
    (tmp_path / "model" / "inner" / "a.npy").write_bytes(b"1")
    (tmp_path / "copy").mkdir()
    Folder(tmp_path / "model").save(tmp_path / "copy")
    assert (tmp_path / "copy" / "inner" / "a.npy").read_bytes() == b"1"
