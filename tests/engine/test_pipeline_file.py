from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine import pipeline_file as module
from engine.errors import (
    BadName,
    BadStructure,
    BadText,
    DuplicateKey,
    InvalidPipeline,
    NewerVersion,
    NotFinite,
    NotJson,
    SylvaError,
    TooDeep,
    TooLarge,
    Unreadable,
    WrongFormat,
)
from engine.pipeline import NAME_PATTERN, Edge, Group, Node, NodeSettings, Note, Pipeline, PortRef
from engine.pipeline_file import dumps, json_schema, parse, read, write
from tests.engine import fakes
from tests.expect import problems, refused

CANONICAL = """\
{
  "format": "sylva-pipeline",
  "version": 1,
  "name": "Größe 樹",
  "description": "Two nodes.",
  "nodes": {
    "load": {
      "type": "load-data",
      "params": {"source": "sample:digits"},
      "label": "Digits",
      "settings": {"retries": 2, "timeout": 30, "memory_limit": 512}
    },
    "forest": {
      "type": "deep-forest",
      "params": {
        "columns": ["a", "b"],
        "grid": {"low": 0.1, "high": 1.0},
        "weights": {
          "deep": [
            [1, 2],
            {"x": null, "y": true}
          ],
          "empty": [],
          "none": {}
        }
      }
    },
    "plain": {"type": "learn", "label": "Left out", "bypass": true}
  },
  "edges": [
    {"from": "load.table", "to": "forest.table"}
  ],
  "layout": {
    "load": [0, 0],
    "forest": [260.5, -10]
  },
  "notes": [
    {"text": "Look here", "x": 0, "y": 40},
    {"text": "And here", "x": 1.5, "y": 0, "width": 100, "height": 50}
  ],
  "groups": [
    {
      "title": "Models",
      "nodes": ["forest", "plain"],
      "collapsed": true
    },
    {
      "title": "Data",
      "nodes": ["load"]
    }
  ]
}
"""

HEAD = '"format": "sylva-pipeline", "version": 1, "name": "x"'


def with_head(rest: str) -> str:
    return f"{{{HEAD}, {rest}}}"


def node(rest: str) -> str:
    return with_head(f'"nodes": {{"a": {{"type": "read", {rest}}}}}')


def group(rest: str) -> str:
    return with_head(f'"nodes": {{"a": {{"type": "t"}}}}, "groups": [{{{rest}}}]')


def problems_of(text: str | bytes) -> list[tuple[type, str | None, str | None]]:
    with pytest.raises(InvalidPipeline) as caught:
        parse(text)
    assert all(str(problem).isprintable() for problem in caught.value.problems)
    return [(type(problem), problem.node, problem.field) for problem in caught.value.problems]


# Reading


def test_a_document_has_the_values_of_its_text():
    pipeline = parse(CANONICAL)
    assert pipeline.name == "Größe 樹"
    assert pipeline.nodes["load"].settings == NodeSettings(
        retries=2, timeout=30.0, memory_limit=512
    )
    assert pipeline.nodes["plain"] == Node(type="learn", label="Left out", bypass=True)
    assert pipeline.groups == (
        Group(title="Models", nodes=("forest", "plain"), collapsed=True),
        Group(title="Data", nodes=("load",)),
    )
    assert pipeline.edges == (Edge.between("load.table", "forest.table"),)
    assert pipeline.edges[0].source == PortRef("load", "table") == ("load", "table")
    assert pipeline.layout == {"load": (0.0, 0.0), "forest": (260.5, -10.0)}
    assert pipeline.notes[0] == Note(text="Look here", x=0, y=40)


@pytest.mark.parametrize(
    "text", [CANONICAL.encode(), "\ufeff" + CANONICAL, b"\xef\xbb\xbf" + CANONICAL.encode()]
)
def test_bytes_and_a_byte_order_mark_are_read_too(text):
    assert parse(text) == parse(CANONICAL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # not JSON at all
        ("", [(NotJson, None, None)]),
        ("{", [(NotJson, None, None)]),
        ("{'a': 1}", [(NotJson, None, None)]),
        (CANONICAL + "x", [(NotJson, None, None)]),
        (b"\xff\xfe{\x00}\x00", [(NotJson, None, None)]),
        (b'{"name": "\xe9"}', [(NotJson, None, None)]),
        # JSON, but no pipeline
        ("null", [(BadStructure, None, None)]),
        ("[]", [(BadStructure, None, None)]),
        ("3", [(BadStructure, None, None)]),
        ('"text"', [(BadStructure, None, None)]),
        (
            "{}",
            [
                (WrongFormat, None, "format"),
                (BadStructure, None, "version"),
                (BadStructure, None, "name"),
                (BadStructure, None, "nodes"),
            ],
        ),
        (
            '{"nodes": []}',
            [
                (WrongFormat, None, "format"),
                (BadStructure, None, "version"),
                (BadStructure, None, "name"),
                (BadStructure, None, "nodes"),
            ],
        ),
        ('{"format": "vega", "version": 9}', [(WrongFormat, None, "format")]),
        ('{"format": ["sylva-pipeline"]}', [(WrongFormat, None, "format")]),
        # versions
        (with_head('"nodes": {}').replace("1", "2"), [(NewerVersion, None, "version")]),
        (with_head('"nodes": {}').replace("1", "0"), [(BadStructure, None, "version")]),
        (with_head('"nodes": {}').replace("1", "-1"), [(BadStructure, None, "version")]),
        (with_head('"nodes": {}').replace("1", "1.0"), [(BadStructure, None, "version")]),
        (with_head('"nodes": {}').replace("1", "true"), [(BadStructure, None, "version")]),
        (with_head('"nodes": {}').replace("1", '"1"'), [(BadStructure, None, "version")]),
        (with_head('"nodes": {}').replace("1", "null"), [(BadStructure, None, "version")]),
        # bombs
        ("[" * 100_000, [(TooDeep, None, None)]),
        ('{"a":' * 100_000, [(TooDeep, None, None)]),
        ("[" * 33 + "]" * 33, [(TooDeep, None, None)]),
        (node(f'"params": {{"a": {"[" * 29 + "]" * 29}}}'), [(TooDeep, None, None)]),
        ("[" + "0," * 500_000 + "0]", [(TooLarge, None, None)]),
        (" " * (8 * 1024**2 + 1), [(TooLarge, None, None)]),
        (b"\xff" * (8 * 1024**2 + 1), [(TooLarge, None, None)]),
        # numbers that are none
        (node('"params": {"x": NaN}'), [(NotFinite, "a", "x")]),
        (node('"params": {"x": Infinity, "y": -Infinity}'),
         [(NotFinite, "a", "x"), (NotFinite, "a", "y")]),
        (node('"params": {"x": [0, {"y": 1e999}]}'), [(NotFinite, "a", "x.1.y")]),
        (node(f'"params": {{"x": {"9" * 5000}}}'), [(NotFinite, "a", "x")]),
        (node(f'"params": {{"x": -{"9" * 309}}}'), [(NotFinite, "a", "x")]),
        (with_head('"nodes": {"a": {"type": "t"}}, "layout": {"a": [NaN, 0]}'),
         [(NotFinite, "a", "layout")]),
        # texts that are none
        (node('"label": "\\ud800"'), [(BadText, "a", "label")]),
        (node('"params": {"x": "\\udc00 "}'), [(BadText, "a", "x")]),
        (node('"params": {"\\udc00": 1}'), [(BadText, "a", "\udc00")]),
        (node('"label": "\ud800"'), [(BadText, "a", "label")]),
        # keys that come twice
        (with_head('"nodes": {}, "name": "y"'), [(DuplicateKey, None, "name")]),
        (with_head('"nodes": {"a": {"type": "t"}, "a": {"type": "u"}}'),
         [(DuplicateKey, "a", None)]),
        (node('"params": {"x": 1, "x": 1}'), [(DuplicateKey, "a", "x")]),
        # the document
        (with_head('"nodes": {}, "nam": 1'), [(BadStructure, None, "nam")]),
        (with_head('"nodes": null'), [(BadStructure, None, "nodes")]),
        (with_head('"nodes": {}, "edges": {}'), [(BadStructure, None, "edges")]),
        (with_head('"nodes": {}, "layout": []'), [(BadStructure, None, "layout")]),
        (with_head('"nodes": {}, "notes": 3'), [(BadStructure, None, "notes")]),
        (with_head('"nodes": {}').replace('"x"', '""'), [(BadStructure, None, "name")]),
        (with_head('"nodes": {}').replace('"x"', "3"), [(BadStructure, None, "name")]),
        (with_head('"nodes": {}').replace('"x"', '"' + "x" * 201 + '"'),
         [(BadStructure, None, "name")]),
        (with_head('"nodes": {}').replace('"x"', '"\\u001b[2J"'), [(BadStructure, None, "name")]),
        # nodes
        (with_head('"nodes": {"a.b": {"type": "t"}}'), [(BadName, "a.b", None)]),
        (with_head('"nodes": {"": {"type": "t"}}'), [(BadName, "", None)]),
        (with_head('"nodes": {"1a": {"type": "t"}}'), [(BadName, "1a", None)]),
        (with_head('"nodes": {"ä": {"type": "t"}}'), [(BadName, "ä", None)]),
        (with_head('"nodes": {"a\\n": {"type": "t"}}'), [(BadName, "a\n", None)]),
        (with_head(f'"nodes": {{"{"a" * 65}": {{"type": "t"}}}}'), [(BadName, "a" * 65, None)]),
        (with_head('"nodes": {"a": null}'), [(BadStructure, "a", None)]),
        (with_head('"nodes": {"a": {}}'), [(BadStructure, "a", "type")]),
        (with_head('"nodes": {"a": {"type": 3}}'), [(BadStructure, "a", "type")]),
        (node('"parms": {}'), [(BadStructure, "a", "parms")]),
        (node('"params": []'), [(BadStructure, "a", "params")]),
        (node('"params": null'), [(BadStructure, "a", "params")]),
        (node('"label": 1'), [(BadStructure, "a", "label")]),
        (node('"settings": {"retries": 11}'), [(BadStructure, "a", "settings.retries")]),
        (node('"settings": {"retries": true}'), [(BadStructure, "a", "settings.retries")]),
        (node('"settings": {"timeout": 0}'), [(BadStructure, "a", "settings.timeout")]),
        (node('"settings": {"timeout": "5"}'), [(BadStructure, "a", "settings.timeout")]),
        (node('"settings": {"memory_limit": 1.5}'), [(BadStructure, "a", "settings.memory_limit")]),
        (node('"settings": {"retires": 1}'), [(BadStructure, "a", "settings.retires")]),
        # edges
        (with_head('"nodes": {}, "edges": [3]'), [(BadStructure, None, "edges.0")]),
        (with_head('"nodes": {}, "edges": [{"from": "a.b"}]'),
         [(BadStructure, None, "edges.0.to")]),
        (with_head('"nodes": {}, "edges": [{"from": "a", "to": "b.c"}]'),
         [(BadStructure, None, "edges.0.from")]),
        (with_head('"nodes": {}, "edges": [{"from": "a.b", "to": "b.c.d"}]'),
         [(BadStructure, None, "edges.0.to")]),
        (with_head('"nodes": {}, "edges": [{"from": ["a"], "to": "b.c"}]'),
         [(BadStructure, None, "edges.0.from")]),
        (
            with_head('"nodes": {}, "edges": [{"source": "a.b", "to": "b.c"}]'),
            [(BadStructure, None, "edges.0.from"), (BadStructure, None, "edges.0.source")],
        ),
        # layout and notes
        (with_head('"nodes": {}, "layout": {"a": [1]}'), [(BadStructure, "a", "layout")]),
        (with_head('"nodes": {}, "layout": {"a": ["1", 2]}'), [(BadStructure, "a", "layout")]),
        (with_head('"nodes": {}, "notes": [{"text": "a", "x": 0}]'),
         [(BadStructure, None, "notes.0.y")]),
        (
            with_head('"nodes": {}, "notes": [{"text": "a", "x": 0, "y": 0, "width": -1}]'),
            [(BadStructure, None, "notes.0.width")],
        ),
        # bypass and groups
        (node('"bypass": 1'), [(BadStructure, "a", "bypass")]),
        (node('"bypass": "true"'), [(BadStructure, "a", "bypass")]),
        (with_head('"nodes": {}, "groups": {}'), [(BadStructure, None, "groups")]),
        (group('"nodes": ["a"]'), [(BadStructure, None, "groups.0.title")]),
        (group('"title": "", "nodes": ["a"]'), [(BadStructure, None, "groups.0.title")]),
        (group('"title": "G"'), [(BadStructure, None, "groups.0.nodes")]),
        (group('"title": "G", "nodes": []'), [(BadStructure, None, "groups.0.nodes")]),
        (group('"title": "G", "nodes": "a"'), [(BadStructure, None, "groups.0.nodes")]),
        (group('"title": "G", "nodes": ["a", 3]'), [(BadStructure, None, "groups.0.nodes.1")]),
        (group('"title": "G", "nodes": ["a"], "collapsed": 1'),
         [(BadStructure, None, "groups.0.collapsed")]),
        (group('"title": "G", "nodes": ["a"], "colapsed": true'),
         [(BadStructure, None, "groups.0.colapsed")]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(text, expected):
    assert problems_of(text) == expected


def test_all_problems_are_reported_at_once():
    text = with_head(
        '"nodes": {"a": {"params": {"x": NaN}}, "b-": {"type": ""}}, "edges": [1, 2], "x": 0'
    )
    assert [kind.__name__ for kind, _, _ in problems_of(text)] == ["NotFinite"] + [
        "BadStructure"
    ] * 5


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        ('{"a": 1,}', ["line 1", "column 9"]),
        (b'{"a": "\xff"}', ["UTF-8", "byte 8"]),
        (with_head('"nodes": {}').replace("1", "7"), ["version 7", "version 1,"]),
        (node('"parms": {}'), ["Node 'a', field 'parms': ", "'params'?"]),
        (group('"title": "G", "nodes": ["a"], "colapsed": true'), ["'collapsed'?"]),
        (node('"settings": {"retries": 11}'), ["Node 'a', field 'settings.retries': ", "11", "10"]),
        (with_head('"nodes": {"a.b": {"type": "t"}}'), ["Node 'a.b': ", "64", "'-' and '_'"]),
        (with_head('"nodes": {}, "edges": [{"from": "a", "to": "b.c"}]'), ["'node.port'"]),
    ],
)
def test_messages_name_the_place_the_value_and_what_is_allowed(text, naming):
    with refused(InvalidPipeline, naming=naming):
        parse(text)


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("nodes", {f"n{i}": {"type": "t"} for i in range(5001)}, "nodes"),
        ("edges", [{"from": "a.b", "to": "c.d"}] * 50_001, "edges"),
        ("notes", [{"text": "", "x": 0, "y": 0}] * 5001, "notes"),
        ("groups", [{"title": "G", "nodes": ["a"]}] * 1001, "groups"),
    ],
)
def test_there_is_a_limit_to_the_number_of_things(part, value, field):
    raw = {"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {}, part: value}
    assert problems_of(json.dumps(raw)) == [(BadStructure, None, field)]


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f'"k{i}":0' for i in range(100_000)) + "}",
        with_head(
            '"nodes": {"a": {"type": "t", ' + ",".join(f'"k{i}":0' for i in range(100_000)) + "}}"
        ),
        with_head(
            '"nodes": {"a": {"type": "t", "params": {'
            + ",".join(f'"k{i}":NaN' for i in range(100_000))
            + "}}}"
        ),
        "{" + ",".join('"k":0' for i in range(300_000)) + "}",
        '{"' + "k" * 8_000_000 + '": 0}',
        "[" + ",".join(["[]"] * 1_000_000) + "]",
    ],
    ids=[
        "unknown keys",
        "unknown keys in a node",
        "NaN",
        "one key again and again",
        "long key",
        "lists",
    ],
)
def test_a_document_made_to_be_slow_is_refused_in_seconds(text):
    start = time.process_time()
    problems = problems_of(text)
    assert time.process_time() - start < 10
    assert len(problems) <= 2100


# Older versions


def test_older_versions_are_brought_up_to_date(monkeypatch):
    monkeypatch.setattr(module, "VERSION", 3)
    monkeypatch.setitem(module.MIGRATIONS, 1, lambda raw: {**raw, "name": raw["title"]})
    monkeypatch.setitem(
        module.MIGRATIONS, 2, lambda raw: {key: raw[key] for key in raw if key != "title"}
    )
    raw = {"format": "sylva-pipeline", "version": 1, "nodes": {}, "title": "Old"}
    current = module._current(raw, [])
    assert current == {"format": "sylva-pipeline", "version": 3, "nodes": {}, "name": "Old"}


def test_an_older_version_of_the_wrong_shape_is_a_problem(monkeypatch):
    monkeypatch.setattr(module, "VERSION", 2)
    monkeypatch.setitem(module.MIGRATIONS, 1, lambda raw: {**raw, "name": raw["title"]})
    assert problems_of(with_head('"nodes": {}')) == [(BadStructure, None, None)]


# Writing


def test_a_canonical_text_is_written_as_it_was_read():
    assert dumps(parse(CANONICAL)) == CANONICAL


def test_defaults_are_left_out_and_layout_follows_the_nodes():
    pipeline = Pipeline(
        name="x",
        nodes={"b": Node(type="t", params={}, settings=NodeSettings()), "a": Node(type="t")},
        layout={"a": (1, 2), "gone": (0, 0), "b": (3, 4.5)},
    )
    assert json.loads(dumps(pipeline)) == {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "x",
        "nodes": {"b": {"type": "t"}, "a": {"type": "t"}},
        "edges": [],
        "layout": {"b": [3, 4.5], "a": [1, 2]},
    }
    assert '"layout": {\n    "b": [3, 4.5],\n    "a": [1, 2]\n  }' in dumps(pipeline)


def test_long_lines_are_broken():
    pipeline = Pipeline(
        name="x", nodes={"a": Node(type="t", params={"columns": ["a long name"] * 20})}
    )
    assert max(map(len, dumps(pipeline).splitlines())) < 100


def test_a_document_holds_only_what_can_be_written():
    for params in (
        {"x": float("nan")},
        {"x": "\ud800"},
        {"x": 10**400},
        {"x": object()},
        {"x": (1, 2)},
    ):
        with pytest.raises(ValidationError):
            Node(type="t", params=params)


def test_documents_do_not_change():
    pipeline = parse(CANONICAL)
    with pytest.raises(ValidationError):
        pipeline.name = "other"
    given = {"list": [1]}
    made = Node(type="t", params=given)
    given["list"].append(2)
    assert made.params == {"list": [1]}


def test_a_file_is_written_and_read_back(tmp_path):
    path = tmp_path / "pipeline.json"
    write(path, parse(CANONICAL))
    assert path.read_bytes() == CANONICAL.encode()
    assert read(path) == parse(CANONICAL)
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.json"]


def test_writing_keeps_links_and_permissions(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write(link, parse(CANONICAL))
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == CANONICAL
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "pipeline.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.atomic.os.fsync", full)
    with refused(SylvaError, naming=["No space left on device"]):
        write(path, parse(CANONICAL))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["pipeline.json"]


@pytest.mark.parametrize("path", ["none.json", ".", "a\0b", "x" * 300])
def test_a_file_that_cannot_be_read_is_a_plain_problem(tmp_path, path):
    with refused(InvalidPipeline) as caught:
        read(tmp_path / path)
    problems(caught.value.problems, (Unreadable, None, None))


def test_an_endless_file_is_read_up_to_the_limit():
    with pytest.raises(InvalidPipeline) as caught:
        read(Path("/dev/zero"))
    assert isinstance(caught.value.problems[0], TooLarge)


# For all documents

texts = st.text(st.characters(codec="utf-8"), max_size=20)
labels = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20)
names = st.from_regex(NAME_PATTERN, fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
nodes = st.builds(
    Node,
    type=labels.filter(bool),
    params=st.dictionaries(texts, json_values, max_size=4),
    label=labels,
    bypass=st.booleans(),
    settings=st.builds(
        NodeSettings,
        retries=st.none() | st.integers(0, 10),
        timeout=st.none() | st.floats(0.001, 1e6),
        memory_limit=st.none() | st.integers(1, 10**6),
    ),
)
groups = st.builds(
    Group,
    title=labels.filter(bool),
    nodes=st.lists(names, min_size=1, max_size=4).map(tuple),
    collapsed=st.booleans(),
)
ends = st.builds(PortRef, names, names)
documents = st.builds(
    Pipeline,
    name=labels.filter(bool),
    description=texts,
    nodes=st.dictionaries(names, nodes, max_size=4),
    edges=st.lists(
        st.builds(lambda source, target: Edge(source=source, target=target), ends, ends), max_size=4
    ),
    layout=st.dictionaries(names, st.tuples(numbers, numbers), max_size=4),
    notes=st.lists(st.builds(Note, text=texts, x=numbers, y=numbers), max_size=3),
    groups=st.lists(groups, max_size=3),
)


@given(documents)
def test_every_document_survives_writing_and_reading(pipeline):
    text = dumps(pipeline)
    again = parse(text)
    assert dumps(again) == text
    assert again.nodes == pipeline.nodes
    assert list(again.nodes) == list(pipeline.nodes)
    assert again.edges == pipeline.edges
    assert again.notes == pipeline.notes
    assert again.groups == pipeline.groups


def parses_or_is_invalid(text: str | bytes) -> None:
    try:
        pipeline = parse(text)
    except InvalidPipeline as error:
        assert error.problems
        str(error).encode()
        json.dumps([problem.to_dict() for problem in error.problems])
    else:
        assert parse(dumps(pipeline)) == parse(dumps(parse(dumps(pipeline))))


@given(st.binary() | st.text())
@example(b"\xef\xbb\xbf")
def test_any_bytes_parse_or_are_an_invalid_pipeline(text):
    parses_or_is_invalid(text)


SNIPPETS = [
    b"NaN",
    b"1e999",
    b"null",
    b"{}",
    b"[]",
    b'""',
    b'"\\ud800"',
    b"9" * 5000,
    b"[" * 50,
    b"\xff",
    b'"a":1,',
    b"-",
]


@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 40), st.sampled_from(SNIPPETS)),
        min_size=1,
        max_size=4,
    )
)
def test_any_damaged_document_parses_or_is_an_invalid_pipeline(cuts):
    text = CANONICAL.encode()
    for start, length, snippet in cuts:
        text = text[:start] + snippet + text[start + length :]
    parses_or_is_invalid(text)


@given(st.data())
def test_any_value_anywhere_parses_or_is_an_invalid_pipeline(data):
    raw = json.loads(CANONICAL)
    inner, path = raw, []
    while isinstance(inner, dict | list) and inner and (not path or data.draw(st.booleans())):
        path.append(
            data.draw(
                st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner)))
            )
        )
        outer, inner = inner, inner[path[-1]]
    outer[path[-1]] = data.draw(json_values)
    parses_or_is_invalid(json.dumps(raw))


# Schema


def accepted(raw: object) -> bool:
    schema = json_schema(fakes.CATALOG)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(raw)


def test_the_schema_accepts_what_is_written():
    assert accepted(json.loads(dumps(fakes.whole())))


@pytest.mark.parametrize(
    ("raw_node", "fits"),
    [
        ({"type": "read", "params": {"source": "x"}}, True),
        ({"type": "read", "params": {"source": "x", "rows": 5}}, True),
        ({"type": "read", "params": {"source": "x", "rows": 0}}, False),
        ({"type": "read", "params": {"source": "x", "row": 5}}, False),
        ({"type": "read", "params": {}}, False),
        ({"type": "read"}, False),
        ({"type": "read", "bypass": False}, False),
        ({"type": "read", "bypass": True}, True),
        ({"type": "read", "bypass": 1}, False),
        ({"type": "split"}, True),
        ({"type": "split", "params": {"source": "x"}}, False),
        (
            {"type": "learn", "params": {"depth": "auto", "columns": ["a"], "grid": {"low": 1}}},
            True,
        ),
        ({"type": "learn", "params": {"grid": {"low": "1"}}}, False),
        ({"type": "score", "params": {}, "label": "x", "settings": {"retries": 1}}, True),
        ({"type": "score", "settings": {"retries": 11}}, False),
        ({"type": "unheard-of"}, False),
        ({"type": "score", "parms": {}}, False),
        ({}, False),
    ],
)
def test_the_schema_knows_the_parameters_of_each_node_type(raw_node, fits):
    assert (
        accepted({"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {"a": raw_node}})
        is fits
    )


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"edges": [{"from": "a.b", "to": "c.d"}]}, True),
        ({"edges": [{"from": "a", "to": "c.d"}]}, False),
        ({"edges": [{"source": "a.b", "target": "c.d"}]}, False),
        ({"layout": {"a": [0, 0.5]}}, True),
        ({"layout": {"a": [0]}}, False),
        ({"nodes": {"a.b": {"type": "score"}}}, False),
        ({"groups": [{"title": "G", "nodes": ["a"], "collapsed": True}]}, True),
        ({"groups": [{"title": "", "nodes": ["a"]}]}, False),
        ({"groups": [{"title": "G", "nodes": []}]}, False),
        ({"version": 2}, False),
        ({"format": "vega"}, False),
        ({"extra": 1}, False),
    ],
)
def test_the_schema_knows_the_format(change, fits):
    assert (
        accepted({"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {}} | change)
        is fits
    )


def test_the_schema_of_an_empty_catalog_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema({}))
