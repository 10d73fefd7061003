"""Bad input on the command line: problems name node and field, exit code 2, nothing is written."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Sylva
from tests.waiting import until

FIRST = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "test",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "data.csv", "target": "y"}},
        "split": {"type": "split"},
        "mart": {"type": "mart"},
    },
    "edges": [
        {"from": "load.table", "to": "split.table"},
        {"from": "split.train", "to": "mart.table"},
    ],
}
GOOD_CSV = "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(30))

WIDE_CSV = ",".join(f"c{i}" for i in range(10_000)) + ",y\n" + "1," * 10_000 + "a\n"

Change = Callable[[dict[str, Any]], Any]
Place = tuple[str, str | None, str | None]
"""The code of a problem, the node and the field where it is."""


@pytest.fixture
def sylva(tmp_path: Path) -> Sylva:
    return Sylva(tmp_path / "workspace")


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def problems_of(sylva: Sylva, text: str | bytes, command: str = "validate") -> list[dict[str, Any]]:
    """Return the problems for which a command refuses a file; nothing is written anywhere."""
    folder = sylva.workspace.parent
    file = folder / "pipeline.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = everything(folder)
    answer = sylva.json(command, file, code=2)
    assert everything(folder) == before
    assert answer["exit_code"] == 2
    assert [problem["text"] for problem in answer["problems"]] == answer["error"].splitlines()
    return list(answer["problems"])


def places(problems: list[dict[str, Any]]) -> list[Place]:
    return [(problem["code"], problem["node"], problem["field"]) for problem in problems]


def not_named(problems: list[dict[str, Any]], values: list[str]) -> list[str]:
    """Return the values that the text of no problem holds."""
    return [value for value in values if not any(value in problem["text"] for problem in problems)]


def with_share(number: str) -> str:
    return json.dumps(FIRST).replace(
        '{"type": "split"}', f'{{"type": "split", "params": {{"test_share": {number}}}}}'
    )


def changed(*changes: Change) -> str:
    document = copy.deepcopy(FIRST)
    for change in changes:
        change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ("not-json", None, None)),
        ("not json", ("not-json", None, None)),
        ("[1, 2]", ("bad-structure", None, None)),
        (b"\xff\xfe\x00\x01", ("not-json", None, None)),
        ('{"format": "other"}', ("wrong-format", None, "format")),
        (json.dumps(FIRST | {"version": 99}), ("newer-version", None, "version")),
        (json.dumps(FIRST | {"version": "1"}), ("bad-structure", None, "version")),
        (json.dumps(FIRST).replace('"name": "test"', '"name": "a", "name": "b"'),
         ("duplicate-key", None, "name")),
        ("[" * 5000 + "]" * 5000, ("too-deep", None, None)),
        (json.dumps({"padding": "x" * 9_000_000}), ("too-large", None, None)),
        (with_share("NaN"), ("not-finite", "split", "test_share")),
        (with_share("1e999"), ("not-finite", "split", "test_share")),
    ],
    ids=[
        "empty", "text", "list", "binary", "format", "newer", "version as text", "key twice",
        "deep", "large", "nan", "inf",
    ],
)  # fmt: skip
def test_what_is_not_a_pipeline_is_refused(sylva: Sylva, text: str | bytes, place: Place) -> None:
    assert places(problems_of(sylva, text)) == [place]


def with_params(node: str, **params: Any) -> Change:
    return lambda document: document["nodes"][node].update(params=params)


def with_edge(source: str, target: str) -> Change:
    return lambda document: document["edges"].append({"from": source, "to": target})


def with_type(node: str, node_type: str) -> Change:
    return lambda document: document["nodes"][node].update(type=node_type)


def without_last_edge(document: dict[str, Any]) -> None:
    document["edges"].pop()


@pytest.mark.parametrize(
    ("change", "expected", "naming"),
    [
        (
            with_type("split", "splitt"),
            [("unknown-type", "split", "type")],
            ["'splitt'", "'split'?"],
        ),
        (
            with_params("split", test_shar=0.5),
            [("unknown-param", "split", "test_shar")],
            ["'test_share'"],
        ),
        (with_params("split", test_share=1.4), [("bad-param", "split", "test_share")], ["1.4"]),
        (
            with_params("split", test_share="half"),
            [("bad-param", "split", "test_share")],
            ["'half'"],
        ),
        (with_params("split", seed=1.5), [("bad-param", "split", "seed")], ["1.5"]),
        (
            with_edge("split.rest", "mart.table"),
            [("unknown-port", "split", "rest"), ("port-taken", "mart", "table")],
            ["split.rest → mart.table", "split.train"],
        ),
        (
            with_edge("load.table", "mart.rows"),
            [("unknown-port", "mart", "rows")],
            ["load.table → mart.rows"],
        ),
        (with_edge("ghost.table", "mart.table"), [("unknown-node", "ghost", None)], ["'ghost'"]),
        (
            with_edge("mart.model", "mart.table"),
            [("self-edge", "mart", None)],
            ["mart.model → mart.table"],
        ),
        (
            with_edge("load.table", "split.table"),
            [("duplicate-edge", "split", "table")],
            ["load.table → split.table"],
        ),
        (with_edge("split.test", "mart.table"), [("port-taken", "mart", "table")], ["split.train"]),
        (
            with_edge("mart.model", "split.table"),
            [
                ("type-mismatch", "split", "table"),
                ("port-taken", "split", "table"),
                ("cycle", "split", None),
            ],
            ["mart.model", "'split' → 'mart' → 'split'"],
        ),
        (without_last_edge, [("missing-input", "mart", "table")], ["Node 'mart', input 'table'"]),
    ],
)
def test_what_does_not_fit_together_is_refused(
    sylva: Sylva, data: Path, change: Change, expected: list[Place], naming: list[str]
) -> None:
    (data / "data.csv").write_text(GOOD_CSV)
    problems = problems_of(sylva, changed(change))
    assert places(problems) == expected
    assert not_named(problems, naming) == []


def test_all_problems_are_reported_at_once(sylva: Sylva) -> None:
    text = changed(
        with_params("split", test_share=7),
        with_params("mart", trees="many"),
        with_edge("load.nothing", "mart.table"),
    )
    assert set(places(problems_of(sylva, text))) >= {
        ("bad-param", "split", "test_share"),
        ("bad-param", "mart", "trees"),
        ("unknown-port", "load", "nothing"),
        ("bad-source", "load", "source"),
    }


@pytest.fixture
def data(sylva: Sylva) -> Path:
    """The folder for data of a new workspace, with a link that leads out of it."""
    folder = sylva.workspace / "data"
    folder.mkdir(parents=True)
    outside = sylva.workspace.parent / "outside.csv"
    outside.write_text(GOOD_CSV)
    (folder / "link.csv").symlink_to(outside)
    return folder


@pytest.mark.parametrize(
    ("content", "params", "field", "naming"),
    [
        (None, {}, "source", ["'data.csv'"]),
        (b"", {}, "source", ["'data.csv'"]),
        (b"x,y\n", {}, "source", ["'data.csv'"]),
        (GOOD_CSV.encode() + b"1,2,3\n", {}, "source", ["row 32", "'1,2,3'"]),
        ("name,y\nJosé,a\nAna,b\n".encode("latin-1"), {}, "encoding",
         ["0xe9", "line 2", "latin-1"]),
        (bytes(range(256)) * 20, {}, "source", ["'data.csv'"]),
        (GOOD_CSV.encode(), {"target": "yy"}, "target", ["'yy'", "'y'?"]),
        (b"x,y\n1,a\n2,a\n3,a\n", {}, "target", ["'y'", "'a'"]),
        (b"x,e,y\n1,,a\n2,,b\n3,,a\n", {}, "empty_columns", ["'e'"]),
        (WIDE_CSV.encode(), {}, "max_columns", ["10,001", "8,192"]),
        (b"x,x,y\n1,2,a\n1,2,b\n", {}, "source", ["'x'"]),
        (GOOD_CSV.encode(), {"source": "../outside.csv"}, "source", ["'../outside.csv'", "DATA"]),
        (GOOD_CSV.encode(), {"source": "link.csv"}, "source", ["'link.csv'", "DATA"]),
        (GOOD_CSV.encode(), {"source": "sample:nothing"}, "source", ["'nothing'", "'digits'"]),
        (GOOD_CSV.encode(), {"roles": {"z": "id"}}, "roles", ["'z'"]),
        (GOOD_CSV.encode(), {"types": {"x": "time"}, "target": "y"}, "types", ["'x'"]),
    ],
    ids=[
        "missing", "empty", "header only", "ragged", "encoding", "binary", "no target", "one class",
        "empty column", "10,000 columns", "duplicate names", "dots", "link", "unknown sample",
        "role", "type",
    ],
)  # fmt: skip
def test_data_that_cannot_be_used_is_refused_before_anything_runs(
    sylva: Sylva,
    data: Path,
    content: bytes | None,
    params: dict[str, Any],
    field: str,
    naming: list[str],
) -> None:
    if content is not None:
        (data / "data.csv").write_bytes(content)
    problems = problems_of(
        sylva, changed(lambda document: document["nodes"]["load"]["params"].update(params))
    )
    assert places(problems) == [("bad-source", "load", field)]
    assert not_named(problems, [value.replace("DATA", str(data)) for value in naming]) == []


EVALUATED = {
    "predict": ("predict", ["mart.model model", "split.test table"]),
    "evaluate": ("evaluate", ["predict.predictions predictions"]),
}


def evaluated(document: dict[str, Any]) -> None:
    for name, (node_type, feeds) in EVALUATED.items():
        document["nodes"][name] = {"type": node_type}
        for feed in feeds:
            source, port = feed.split()
            with_edge(source, f"{name}.{port}")(document)


@pytest.mark.parametrize(
    ("content", "params", "nodes"),
    [
        (GOOD_CSV, {"target": None}, ["mart", "evaluate"]),
        (GOOD_CSV, {"roles": {"x": "ignore"}}, ["mart"]),
        ("y\n" + "a\nb\n" * 9, {}, ["mart"]),
    ],
    ids=["no target", "all ignored", "one column"],
)
def test_a_table_that_cannot_be_learned_or_evaluated_is_refused_at_the_node_before_anything_runs(
    sylva: Sylva, data: Path, content: str, params: dict[str, Any], nodes: list[str]
) -> None:
    (data / "data.csv").write_text(content)
    text = changed(lambda document: document["nodes"]["load"]["params"].update(params), evaluated)
    assert places(problems_of(sylva, text)) == [("bad-columns", node, None) for node in nodes]


def test_a_sample_needs_no_target(sylva: Sylva, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.json"
    file.write_text(changed(with_params("load", source="sample:iris", target=None), evaluated))
    assert sylva.json("validate", file)["problems"] == []


@pytest.mark.parametrize(
    "text", ["not json", with_share("7"), json.dumps(FIRST)], ids=["text", "setting", "data"]
)
def test_a_run_is_refused_for_the_same_problems_as_a_validation(sylva: Sylva, text: str) -> None:
    assert problems_of(sylva, text, "run") == problems_of(sylva, text, "validate") != []


@pytest.mark.parametrize(
    ("arguments", "naming"),
    [
        (["run", "PIPELINE", "--to", "nobody"], ["--to", "'nobody'"]),
        (["run", "PIPELINE", "--from", "nobody"], ["--from", "'nobody'"]),
        (["run", "PIPELINE", "--set", "split"], ["--set split", "NODE.PARAM=VALUE"]),
        (["run", "PIPELINE", "--set", "ghost.x=1"], ["--set ghost.x=1", "'ghost'"]),
        (
            ["run", "PIPELINE", "--set", "split.test_share=2"],
            ["Node 'split', field 'test_share'", "2"],
        ),
        (["run", "PIPELINE", "--set", "split.nothing=2"], ["Node 'split', field 'nothing'"]),
        (["run", "PIPELINE", "--workers", "0"], ["--workers"]),
        (["run", "nowhere.json"], ["'nowhere.json'"]),
        (["show", "last"], ["WORKSPACE"]),
        (["retry", "abc"], ["WORKSPACE"]),
        (["cancel", "abc"], ["WORKSPACE"]),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(
    sylva: Sylva, data: Path, tmp_path: Path, arguments: list[str], naming: list[str]
) -> None:
    (data / "data.csv").write_text(GOOD_CSV)
    pipeline = tmp_path / "pipeline.json"
    pipeline.write_text(json.dumps(FIRST))
    before = everything(tmp_path)
    sylva(*[str(pipeline) if each == "PIPELINE" else each for each in arguments], code=2)
    values = [value.replace("WORKSPACE", str(sylva.workspace)) for value in naming]
    assert [value for value in values if value not in sylva.errors] == []
    assert "Traceback" not in sylva.errors
    assert everything(tmp_path) == before


def test_a_wrong_column_is_found_when_its_file_was_read_before(
    sylva: Sylva, data: Path, tmp_path: Path
) -> None:
    (data / "data.csv").write_text(GOOD_CSV)
    good = tmp_path / "good.json"
    good.write_text(changed())
    sylva("run", good, "--to", "load")
    wrong = changed(with_type("split", "select-columns"), with_params("split", columns=["xx"]))
    wrong = wrong.replace("split.train", "split.table")
    assert places(problems_of(sylva, wrong)) == [("bad-columns", "split", "columns")]


def test_a_link_that_is_turned_during_a_run_does_not_give_its_name_to_other_rows(
    sylva: Sylva, data: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    for name, rows in (("a.csv", 30), ("b.csv", 20)):
        lines = GOOD_CSV.splitlines(keepends=True)[: rows + 1]
        (data / name).write_text("".join(lines))
    link = data / "data.csv"
    link.symlink_to("a.csv")
    file = tmp_path / "pipeline.json"
    nodes = {
        # The only worker is busy with this node while the link is turned.
        "gate": {"type": "probe", "params": {"action": "gate"}},
        "load": FIRST["nodes"]["load"],
    }
    file.write_text(json.dumps({**FIRST, "nodes": nodes, "edges": []}))
    environment = sylva.environment | {"SYLVA_TEST_TRACE": str(trace)}
    running = sylva.process("run", file, "--workers", 1, env=environment)
    until(trace.exists, what="the start of the first node")
    link.unlink()
    link.symlink_to("b.csv")
    trace.with_name("trace.open").touch()
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 2, output + errors
    assert "changed" in output + errors
    link.unlink()
    link.symlink_to("a.csv")
    sylva("run", file, "--to", "load")
    assert "30 rows" in sylva("show", "last", "load")
