"""Bad input by the command line: the message names node and field, the exit code is 2, nothing is written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main

FIRST = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "test",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "data.csv", "target": "y"}},
        "split": {"type": "split"},
        "mart": {"type": "mart"},
    },
    "edges": [{"from": "load.table", "to": "split.table"}, {"from": "split.train", "to": "mart.table"}],
}
GOOD_CSV = "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(30))

WIDE_CSV = ",".join(f"c{i}" for i in range(10_000)) + ",y\n" + "1," * 10_000 + "a\n"

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def sylva(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command in this process: exit code and all that was printed."""

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["sylva", *arguments, "--workspace", str(tmp_path / "workspace")])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return call


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def refused(sylva, tmp_path: Path, text: str | bytes) -> str:
    """Both commands refuse; nothing is written anywhere."""
    file = tmp_path / "pipeline.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = everything(tmp_path)
    code, printed = sylva("run", str(file))
    assert (code, sylva("validate", str(file))) == (2, (2, printed))
    assert everything(tmp_path) == before
    assert "Traceback" not in printed
    return printed


def with_share(number: str) -> str:
    return json.dumps(FIRST).replace('{"type": "split"}', f'{{"type": "split", "params": {{"test_share": {number}}}}}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("not json", "not JSON"),
        ("[1, 2]", "object"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        ('{"format": "other"}', "format"),
        (json.dumps(FIRST | {"version": 99}), "version"),
        (json.dumps(FIRST | {"version": "1"}), "version"),
        (json.dumps(FIRST).replace('"name": "test"', '"name": "a", "name": "b"'), "name"),
        ("[" * 5000 + "]" * 5000, "nested"),
        (json.dumps({"padding": "x" * 9_000_000}), "8 MB|large"),
        (with_share("NaN"), "NaN|finite"),
        (with_share("1e999"), "split"),
    ],
    ids=[
        "empty", "text", "list", "binary", "format", "newer", "version as text", "key twice", "deep", "large",
        "nan", "inf",
    ],
)  # fmt: skip
def test_what_is_no_pipeline_is_refused(sylva, tmp_path: Path, text: str | bytes, words: str) -> None:
    assert re.search(words, refused(sylva, tmp_path, text))


def with_params(node: str, **params: Any) -> Change:
    return lambda document: document["nodes"][node].update(params=params)


def with_edge(source: str, target: str) -> Change:
    return lambda document: document["edges"].append({"from": source, "to": target})


def with_type(node: str, node_type: str) -> Change:
    return lambda document: document["nodes"][node].update(type=node_type)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_type("split", "splitt"), ["Node 'split'", "splitt", "'split'"]),
        (with_params("split", test_shar=0.5), ["Node 'split', field 'test_shar'", "test_share"]),
        (with_params("split", test_share=1.4), ["Node 'split', field 'test_share'", "1.4"]),
        (with_params("split", test_share="half"), ["Node 'split', field 'test_share'", "half"]),
        (with_params("split", seed=1.5), ["Node 'split', field 'seed'", "1.5"]),
        (with_edge("split.rest", "mart.table"), ["rest", "split"]),
        (with_edge("load.table", "mart.rows"), ["rows", "mart"]),
        (with_edge("ghost.table", "mart.table"), ["ghost"]),
        (with_edge("mart.model", "mart.table"), ["mart", "itself"]),
        (with_edge("load.table", "split.table"), ["load.table", "split.table", "already"]),
        (with_edge("split.test", "mart.table"), ["mart", "table", "one edge"]),
        (with_edge("mart.model", "split.table"), ["model", "table"]),
        (lambda document: document["edges"].pop(), ["Node 'mart', input 'table'", "connected"]),
    ],
)
def test_what_does_not_fit_together_is_refused(sylva, tmp_path: Path, change: Change, words: list[str]) -> None:
    document = json.loads(json.dumps(FIRST))
    change(document)
    printed = refused(sylva, tmp_path, json.dumps(document))
    assert [word for word in words if word not in printed] == []


def test_a_cycle_is_refused_with_the_nodes_on_it(sylva, tmp_path: Path) -> None:
    document = json.loads(json.dumps(FIRST))
    document["nodes"]["again"] = {"type": "split"}
    document["edges"] = [{"from": "split.train", "to": "again.table"}, {"from": "again.train", "to": "split.table"}]
    assert "split → again → split" in refused(sylva, tmp_path, json.dumps(document))


def test_all_problems_are_told_at_once(sylva, tmp_path: Path) -> None:
    document = json.loads(json.dumps(FIRST))
    with_params("split", test_share=7)(document)
    with_params("mart", trees="many")(document)
    with_edge("load.nothing", "mart.table")(document)
    printed = refused(sylva, tmp_path, json.dumps(document))
    assert all(word in printed for word in ("'test_share'", "'trees'", "nothing"))


@pytest.mark.parametrize(
    ("content", "params", "words"),
    [
        (None, {}, ["source", "no file 'data.csv'"]),
        (b"", {}, ["source", "empty"]),
        (b"x,y\n", {}, ["source", "row"]),
        (GOOD_CSV.encode() + b"1,2,3\n", {}, ["source", "row 32"]),
        ("name,y\nJosé,a\nAna,b\n".encode("latin-1"), {}, ["encoding", "latin-1"]),
        (bytes(range(256)) * 20, {}, ["source"]),
        (GOOD_CSV.encode(), {"target": "yy"}, ["target", "'yy'", "'y'"]),
        (b"x,y\n1,a\n2,a\n3,a\n", {}, ["target", "one class"]),
        (b"x,e,y\n1,,a\n2,,b\n3,,a\n", {}, ["'e'", "no value"]),
        (WIDE_CSV.encode(), {}, ["10,001", "max_columns"]),
        (b"x,x,y\n1,2,a\n1,2,b\n", {}, ["source", "'x'"]),
        (GOOD_CSV.encode(), {"source": "../outside.csv"}, ["source", "leads out of the workspace"]),
        (GOOD_CSV.encode(), {"source": "link.csv"}, ["source", "leads out of the workspace"]),
        (GOOD_CSV.encode(), {"source": "sample:nothing"}, ["source", "no sample 'nothing'", "'digits'"]),
        (GOOD_CSV.encode(), {"roles": {"z": "id"}}, ["roles", "'z'"]),
        (GOOD_CSV.encode(), {"types": {"x": "time"}, "target": "y"}, ["types", "'x'"]),
    ],
    ids=[
        "missing", "empty", "header only", "ragged", "encoding", "binary", "no target", "one class", "empty column",
        "10,000 columns", "duplicate names", "dots", "link", "unknown sample", "role", "type",
    ],
)  # fmt: skip
def test_data_that_cannot_be_used_is_refused_before_anything_runs(
    sylva, tmp_path: Path, content: bytes | None, params: dict[str, Any], words: list[str]
) -> None:
    data = tmp_path / "workspace" / "data"
    data.mkdir(parents=True)
    (tmp_path / "outside.csv").write_text(GOOD_CSV)
    (data / "link.csv").symlink_to(tmp_path / "outside.csv")
    if content is not None:
        (data / "data.csv").write_bytes(content)
    document = json.loads(json.dumps(FIRST))
    document["nodes"]["load"]["params"] |= params
    printed = refused(sylva, tmp_path, json.dumps(document))
    assert [word for word in ["Node 'load', field '", *words] if word not in printed] == []


JUDGED = {
    "predict": ("predict", ["mart.model model", "split.test table"]),
    "evaluate": ("evaluate", ["predict.predictions predictions"]),
}


@pytest.mark.parametrize(
    ("content", "params", "node", "words"),
    [
        (GOOD_CSV, {"target": None}, "mart", "no target to learn; set Target in the Load data node"),
        (GOOD_CSV, {"target": None}, "evaluate", "no target to judge by; set Target in the Load data node"),
        (GOOD_CSV, {"roles": {"x": "ignore"}}, "mart", "no column to learn from besides its target"),
        ("y\n" + "a\nb\n" * 9, {}, "mart", "no column to learn from besides its target"),
        (GOOD_CSV, {"source": "sample:iris", "target": None}, None, ""),
    ],
    ids=["no target", "no truth", "all ignored", "one column", "sample"],
)
def test_a_table_that_cannot_be_learned_or_judged_is_told_before_anything_runs(
    sylva, tmp_path: Path, content: str, params: dict[str, Any], node: str | None, words: str
) -> None:
    (tmp_path / "workspace" / "data").mkdir(parents=True)
    (tmp_path / "workspace" / "data" / "data.csv").write_text(content)
    document = json.loads(json.dumps(FIRST))
    document["nodes"]["load"]["params"] |= params
    for name, (node_type, feeds) in JUDGED.items():
        document["nodes"][name] = {"type": node_type}
        for feed in feeds:
            with_edge(feed.split()[0], f"{name}.{feed.split()[1]}")(document)
    if node is None:
        (tmp_path / "pipeline.json").write_text(json.dumps(document))
        assert sylva("validate", str(tmp_path / "pipeline.json"))[0] == 0
    else:
        told = [line for line in refused(sylva, tmp_path, json.dumps(document)).splitlines() if f"'{node}'" in line]
        assert len(told) == 1 and words in told[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "PIPELINE", "--to", "nobody"], "no node 'nobody'"),
        (["run", "PIPELINE", "--from", "nobody"], "no node 'nobody'"),
        (["run", "PIPELINE", "--set", "split"], "NODE.PARAM=VALUE"),
        (["run", "PIPELINE", "--set", "ghost.x=1"], "no node 'ghost'"),
        (["run", "PIPELINE", "--set", "split.test_share=2"], "test_share"),
        (["run", "PIPELINE", "--set", "split.nothing=2"], "nothing"),
        (["run", "PIPELINE", "--workers", "0"], "workers"),
        (["run", "nowhere.json"], "no file 'nowhere.json'"),
        (["show", "last"], "no runs yet"),
        (["retry", "abc"], "no runs yet"),
        (["cancel", "abc"], "no runs yet"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(sylva, tmp_path: Path, arguments: list[str], words: str) -> None:
    data = tmp_path / "workspace" / "data"
    data.mkdir(parents=True)
    (data / "data.csv").write_text(GOOD_CSV)
    pipeline = tmp_path / "pipeline.json"
    pipeline.write_text(json.dumps(FIRST))
    before = everything(tmp_path)
    code, printed = sylva(*[str(pipeline) if each == "PIPELINE" else each for each in arguments])
    assert code == 2
    assert words in printed
    assert everything(tmp_path) == before


def test_problems_are_told_to_programs_as_json(sylva, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.json"
    document = json.loads(json.dumps(FIRST))
    with_params("split", test_share=7)(document)
    file.write_text(json.dumps(document))
    code, printed = sylva("validate", str(file), "--json")
    problem = json.loads(printed)["problems"][0]
    assert (code, problem["node"], problem["field"]) == (2, "split", "test_share")
