"""Texts that say how to call a model are run as they stand; archives and origins."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.errors import SylvaError
from engine.pipeline import Edge, Node, Pipeline
from engine.workspace import Workspace
from nodes.models.encoder import CategoryColumn, NumberColumn, TableEncoder
from nodes.models.model import load_model
from nodes.models.model_card import Card, EvaluationSummary, Origin, find_origin, layers_node
from nodes.models.registry import Registry, zip_model
from nodes.models.rows import RowReader
from tests.expect import refused
from tests.ui.studio.models.conftest import MODEL, ROWS
from ui.cli import main
from ui.studio.models import use
from ui.studio.models.use import UsageExample

HOSTILE = 'it\'s; $(touch hacked) "x".csv'


def scored(folder: Path) -> list[str]:
    return (folder / "scored.csv").read_text().splitlines()


def words_of(command: str, folder: Path) -> list[str]:
    """The words of a command as a shell takes it apart."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], cwd=folder, capture_output=True, check=True
    )
    return done.stdout.decode().split("\0")[:-1]


def test_the_command_line_scores_a_file_whatever_it_is_called(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / HOSTILE).write_text(ROWS)
    words = words_of(
        use.command_line(UsageExample(MODEL, workspace.root, source=HOSTILE)), tmp_path
    )
    assert words[:3] == ["sylva", "predict", MODEL] and HOSTILE in words
    assert not (tmp_path / "hacked").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code and len(scored(tmp_path)) == 121


def test_the_python_code_predicts_for_a_file(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    (tmp_path / "new_rows.csv").write_text(ROWS.splitlines()[0] + "\n30,cook,2020-01-03,true,low\n")
    monkeypatch.chdir(tmp_path)
    exec(compile(use.python(UsageExample(MODEL, workspace.root)), "calling", "exec"), {})
    probabilities = [float(text) for text in capsys.readouterr().out.strip("[]\n").split()]
    assert len(probabilities) == 2 and abs(sum(probabilities) - 1) < 1e-6


def test_the_request_holds_a_row_that_the_model_takes(workspace: Workspace):
    model = Registry(workspace).open(MODEL)
    row = use.example_row(model.encoder)
    assert list(row) == ["age", "job", "since", "member"]
    words = shlex.split(use.request(row).replace("\\\n", " "))
    assert words[:2] == ["curl", "http://127.0.0.1:8000/predict"]
    sent = json.loads(words[words.index("--data") + 1])
    assert sent == {"rows": [row]}
    matrix = RowReader(model.encoder, model.precision).matrix(sent["rows"])
    assert matrix.shape == (1, model.encoder.width)


def test_the_service_is_started_at_the_port_that_the_request_asks():
    call = UsageExample("m", Path("/some where"))
    assert shlex.split(use.service(call)) == [
        "sylva", "serve", "m", "--port", "8000", "--workspace", "/some where"
    ]  # fmt: skip
    assert ":8000/" in use.request({})


def test_a_request_sends_the_token_of_a_service():
    words = shlex.split(use.request({}, "http://127.0.0.1:9", "it's").replace("\\\n", " "))
    assert words[1] == "http://127.0.0.1:9/predict"
    assert words[words.index("--header") + 1] == "Authorization: Bearer it's"


def test_example_values_are_of_the_kind_that_a_column_is():
    def number(name: str, kind: str, median: float) -> NumberColumn:
        return NumberColumn(name, kind, median, 0.0, 1.0, False, True)  # type: ignore[arg-type]

    columns = (
        number("whole", "number", 3.0), number("part", "number", 0.1234567),
        number("bool", "bool", 1.0),
        number("time", "time", 1e9), CategoryColumn("job", "category", ("it's", "b")),
    )  # fmt: skip
    assert use.example_row(TableEncoder("codes", columns)) == {
        "whole": 3, "part": 0.123457, "bool": True, "time": "2001-09-09 01:46:40", "job": "it's"
    }  # fmt: skip


# Archives


def test_a_model_from_an_archive_is_the_same_model(workspace: Workspace, tmp_path: Path):
    folder = Registry(workspace).folder_of(MODEL)
    with zipfile.ZipFile(io.BytesIO(zip_model(folder))) as found:
        assert found.testzip() is None
        found.extractall(tmp_path / "out")
    assert load_model(tmp_path / "out" / MODEL).classes == ["high", "low"]


def test_a_model_that_is_too_large_is_not_zipped(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("nodes.models.registry.MAX_ZIPPED", 10)
    with refused(SylvaError, naming=str(Registry(workspace).folder_of(MODEL))):
        zip_model(Registry(workspace).folder_of(MODEL))


# Where it comes from


def document(*inspections: str, kind: str = "deep-forest") -> Pipeline:
    nodes = {"learn": Node(type=kind), "save": Node(type="save-model", params={"name": "m"})}
    nodes |= {name: Node(type="inspect-layers") for name in inspections}
    ends = ["save.model", *(f"{name}.model" for name in inspections)]
    return Pipeline(
        name="x", nodes=nodes, edges=tuple(Edge.between("learn.model", end) for end in ends)
    )


def test_layers_are_shown_by_an_inspection_else_by_the_forest_itself():
    assert layers_node(document(), "save") == "learn"
    assert layers_node(document("look"), "save") == "look"
    assert layers_node(document(kind="mart"), "save") is None
    assert layers_node(document(), "gone") is None


def test_what_is_gone_is_not_offered(workspace: Workspace):
    assert find_origin(Card(), workspace) == Origin()
    assert (
        find_origin(Card("20200101-000000-abcd", True, "save", pipeline_id="x"), workspace)
        == Origin()
    )


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        ({"accuracy": 0.9, "auc": 0.95}, "Accuracy 90.0 %"),
        ({"accuracy": 0.9, "auc": 0.95, "positive": "high"}, "AUC 0.950"),
        ({"log_loss": 0.1}, ""),
        ({}, ""),
    ],
)
def test_the_list_shows_the_most_telling_measure(metrics: dict[str, float | str], shown: str):
    card = Card(
        evaluations=(EvaluationSummary("evaluate", "t", "split.test", metrics),) if metrics else ()
    )
    assert card.headline == shown
