"""The rows of one or two forests in linked maps, and the rules of the script that draws them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nodes.inspection.layers import Layers
from tests.ui.studio.inspect.lab import RECORDS, small, with_input
from ui.studio.inspect.maps import MapGroup, Marks, link_rows, payload, same_rows

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_script_behaves():
    tests = Path(__file__).parent / "row_maps.test.mjs"
    done = subprocess.run(
        [str(NODE), "--test", str(tests)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def part(layers: Layers, positions: list[int], **columns: Any) -> Layers:
    """An inspection of some of the rows, perhaps with other columns beside theirs."""
    at = np.array(positions)
    sample = layers.sample.take(pa.array(at))
    for name, values in columns.items():
        sample = sample.append_column(name, pa.array(values))
    return replace(
        layers,
        rows=layers.rows[at],
        truth=layers.truth[at],
        left_at=layers.left_at[at],
        embedding=layers.embedding[:, at],
        vectors=layers.vectors[:, :, at],
        outputs=layers.outputs[:, at],
        sample=sample,
    )


def groups(*inspections: Layers) -> list[MapGroup]:
    return [MapGroup(f"forest {at}", each, f"d{at}") for at, each in enumerate(inspections)]


def numbers(text: str, kind: type[np.generic]) -> list[Any]:
    found: list[Any] = np.frombuffer(base64.b64decode(text), kind).tolist()
    return found


def test_rows_with_the_same_content_are_the_same_row():
    other = part(small(), [3, 1], own_column=["x", "y"])
    assert same_rows(small(), other).tolist() == [3, 1]


def test_a_number_is_the_same_as_whole_number_and_as_float():
    one, other = small(), small()
    whole = pa.table({"row": one.sample["row"], "size": pa.array([0, 1, 3, 4])})
    parted = pa.table({"row": one.sample["row"], "size": pa.array([0.0, 1.0, 3.0, 4.5])})
    found = same_rows(replace(one, sample=whole), replace(other, sample=parted))
    assert found.tolist() == [0, 1, 2, -1]


def test_of_equal_rows_each_has_its_own_partner():
    twins = pa.table({"size": [7.0, 7.0, 1.0, 2.0]})
    one, other = replace(small(), sample=twins), replace(small(), sample=twins)
    assert same_rows(one, other).tolist() == [0, 1, 2, 3]


def test_without_a_common_feature_no_row_is_the_same():
    other = replace(small(), features=["weight"], sample=pa.table({"row": small().sample["row"]}))
    assert same_rows(small(), other).tolist() == [-1] * 4


def test_rows_of_two_forests_are_counted_once():
    changed = part(small(), [0, 2])
    own = pa.table({"row": ["own 2", "another"], "size": [0.0, 99.0]})
    linked = link_rows(groups(small(), replace(changed, sample=own)))
    assert linked.count == 5 and linked.shared == 1
    assert linked.index[1].tolist() == [0, 4]
    assert linked.positions(1, [0, 1, 4]) == [0, 1] and linked.positions(0, [0, 1, 4]) == [0, 1]


def test_classes_of_a_second_forest_may_be_in_another_order():
    second = replace(small(("yes", "no")), truth=1 - small().truth)
    found = groups(small(("no", "yes")), second)
    data = payload(found, link_rows(found), [1], "t-sne")
    assert data["classes"] == ["no", "yes"]
    assert numbers(data["truth"], np.int16) == small().truth.tolist()
    first, other = (group["layers"][0]["predicted"] for group in data["groups"])
    # It predicts the same numbers, which mean the other class each.
    assert [1 - code for code in numbers(first, np.int16)] == numbers(other, np.int16)


def test_the_input_is_the_first_map_and_dropped_layers_are_shown_as_dropped():
    found = groups(replace(with_input(small()), records=RECORDS))
    data = payload(found, link_rows(found), [0, 2], "t-sne")
    panels = data["groups"][0]["layers"]
    assert [panel["title"] for panel in panels] == ["Input", "Layer 2", "Layer 3"]
    assert [bool(panel.get("dropped")) for panel in panels] == [False, False, True]
    assert panels[0]["caption"] == "S_A/S_E 0.5"
    # The input predicts nothing: its map shows the final predictions.
    assert panels[0]["predicted"] == panels[1]["predicted"]
    assert json.dumps(data, allow_nan=False)


def test_a_panel_that_a_forest_does_not_have_is_left_out():
    found = groups(with_input(small()), small())
    data = payload(found, link_rows(found), [0, 1], "t-sne")
    titles = [[panel["title"] for panel in group["layers"]] for group in data["groups"]]
    assert titles == [["Input", "Layer 1"], ["Layer 1"]]


def test_marks_of_rows_that_only_an_earlier_second_forest_has_are_dropped():
    marked = Marks("d", (1, 3, 5))
    marked.put_beside("e", 4)
    assert marked.rows == (1, 3)
    marked.rows = (1, 5)
    marked.put_beside("e", 4)
    assert marked.rows == (1, 5), "the same second forest keeps them"
