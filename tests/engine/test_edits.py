from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.document import Document, Edge, Node, NodeSettings, Note
from engine.edits import (
    AddNode,
    AddNote,
    Batch,
    Connect,
    Disconnect,
    Edit,
    EditNote,
    History,
    Move,
    RemoveNode,
    RemoveNote,
    RenameNode,
    SetDescription,
    SetLabel,
    SetName,
    SetParams,
    SetSettings,
    free_id,
    without_defaults,
)
from engine.pipeline_file import dumps
from engine.problems import BadName, BadStructure, NotFinite, PortTaken, Problem, UnknownNode
from engine.validate import find_problems
from tests.engine import fakes
from tests.engine.fakes import CATALOGUE, edge_of, make, node_of
from tests.expect import problems, refused


def whole() -> Document:
    return fakes.whole().model_copy(update={"notes": (Note(text="one", x=0, y=0), Note(text="two", x=9, y=9))})


def applied(edit: Edit, document: Document | None = None) -> Document:
    return edit.apply(document or whole(), CATALOGUE)[0]


EDITS = [
    AddNode("more", node_of("learn"), (5, 5)),
    AddNode("more", node_of("learn")),
    RemoveNode("split"),
    RemoveNode("judge"),
    RenameNode("split", "halve"),
    RenameNode("split", "split"),
    SetLabel("split", "Halve"),
    SetParams("split", {"test_share": 0.5}),
    SetSettings("split", NodeSettings(retries=3)),
    Move({"split": (1, 2), "judge": (3, 4)}),
    Disconnect(edge_of("split.train > forest.table")),
    AddNote(Note(text="three", x=1, y=1)),
    RemoveNote(0),
    EditNote(1, Note(text="changed", x=1, y=1)),
    SetName("Other"),
    SetDescription("About"),
    Batch(()),
    Batch((RemoveNode("split"), AddNode("split", node_of("split")), Connect(edge_of("load.table > split.table")))),
    Batch((Disconnect(edge_of("split.train > forest.table")), Connect(edge_of("split.test > forest.table"), at=0))),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
def test_an_edit_and_its_inverse_leave_the_document_as_it_was(edit):
    before = whole()
    after, inverse = edit.apply(before, CATALOGUE)
    back, again = inverse.apply(after, CATALOGUE)
    assert dumps(back) == dumps(before)
    assert back == before
    assert dumps(again.apply(back, CATALOGUE)[0]) == dumps(after)


# What each does


def test_adding_a_node_puts_it_last_and_at_its_place():
    document = applied(AddNode("more", node_of("split", test_share=0.25, seed=1), (5, 6)))
    assert list(document.nodes)[-1] == "more"
    assert document.nodes["more"].params == {"seed": 1}
    assert document.layout["more"] == (5, 6)


def test_removing_a_node_removes_its_edges_and_place():
    document = applied(RemoveNode("split"))
    assert "split" not in document.nodes
    assert "split" not in document.layout
    assert [edge.names for edge in document.edges] == [
        ("forest.model", "apply.model"),
        ("apply.predictions", "judge.results"),
    ]


def test_renaming_keeps_order_edges_and_place():
    document = applied(RenameNode("split", "halve"))
    assert list(document.nodes) == ["load", "halve", "forest", "apply", "judge"]
    assert [edge.names for edge in document.edges][:2] == [
        ("load.table", "halve.table"),
        ("halve.train", "forest.table"),
    ]
    assert document.layout["halve"] == (260, 0)
    assert find_problems(document, CATALOGUE) == []


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"test_share": 0.25, "shuffle": True, "seed": None}, {}),
        ({"seed": 3, "test_share": 0.5}, {"test_share": 0.5, "seed": 3}),
        ({"shuffle": 1}, {"shuffle": 1}),
        ({"unknown": 1, "test_share": 5}, {"test_share": 5, "unknown": 1}),
    ],
)
def test_parameters_equal_to_the_default_are_left_out_and_the_rest_ordered(params, kept):
    document = applied(SetParams("split", params))
    assert list(document.nodes["split"].params.items()) == list(kept.items())


@pytest.mark.parametrize(
    ("params", "kept"),
    [({"columns": []}, {}), ({"trees": 50.0}, {}), ({"grid": None}, {}), ({"columns": ["a"]}, {"columns": ["a"]})],
)
def test_defaults_are_compared_as_json(params, kept):
    assert without_defaults(fakes.LEARN, params) == kept


def test_parameters_of_an_unknown_type_are_kept():
    document = make({"a": "zzz"})
    assert applied(SetParams("a", {"x": 1}), document).nodes["a"].params == {"x": 1}


def test_an_edge_can_be_put_at_its_place_among_the_others():
    bare = applied(Disconnect(edge_of("split.train > forest.table")))
    edge = edge_of("split.test > forest.table")
    assert applied(Connect(edge), bare).edges[-1] == edge
    assert applied(Connect(edge, at=0), bare).edges[0] == edge


def test_a_batch_is_made_as_a_whole_or_not_at_all():
    batch = Batch((SetName("Other"), RemoveNode("nowhere")))
    history = History(whole())
    with pytest.raises(UnknownNode):
        history.do(batch, CATALOGUE)
    assert history.document == whole()
    assert not history.can_undo


# What cannot be


@pytest.mark.parametrize(
    ("edit", "expected", "naming"),
    [
        (AddNode("load", node_of("read")), (BadName, "load", None), "'load-2'"),
        (AddNode("a.b", node_of("read")), (BadName, "a.b", None), "64"),
        (AddNode("x", node_of("read"), (float("nan"), 0)), (BadStructure, "x", "layout"), "[0, 0]"),
        (RemoveNode("laod"), (UnknownNode, None, None), "'load'?"),
        (RenameNode("load", "split"), (BadName, "split", None), "'split-2'"),
        (RenameNode("load", "1"), (BadName, "1", None), "64"),
        (RenameNode("zzz", "y"), (UnknownNode, None, None), "'zzz'"),
        (SetLabel("zzz", "x"), (UnknownNode, None, None), "'zzz'"),
        (SetLabel("load", "x" * 201), (BadStructure, "load", "label"), "200"),
        (SetParams("zzz", {}), (UnknownNode, None, None), "'zzz'"),
        (SetParams("load", {"rows": float("inf")}), (NotFinite, "load", "rows"), ""),
        (SetSettings("zzz", NodeSettings()), (UnknownNode, None, None), "'zzz'"),
        (Move({"zzz": (0, 0)}), (UnknownNode, None, None), "'zzz'"),
        (Move({"load": (float("inf"), 0)}), (BadStructure, "load", "layout"), "[0, 0]"),
        (Connect(edge_of("load.table > forest.table")), (PortTaken, "forest", "table"), "split.train"),
        (Disconnect(edge_of("load.table > forest.table")), (BadStructure, None, None), "load.table → forest.table"),
        (RemoveNote(2), (BadStructure, None, "notes"), "3"),
        (RemoveNote(-1), (BadStructure, None, "notes"), "0"),
        (EditNote(5, Note(text="", x=0, y=0)), (BadStructure, None, "notes"), "6"),
        (SetName(""), (BadStructure, None, "name"), "1"),
        (SetDescription("x" * 10_001), (BadStructure, None, "description"), "10000"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Edit) else None,
)
def test_an_edit_that_cannot_be_made_says_why(edit, expected, naming):
    with refused(Problem, naming=naming) as caught:
        applied(edit)
    problems([caught.value], expected)


# Names


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("forest2", "forest2"),
        ("load", "load-2"),
        ("load data", "load-data"),
        ("3d", "node3d"),
        ("", "node"),
        ("x" * 99, "x" * 50),
    ],
)
def test_a_free_name_can_be_used(stem, name):
    assert free_id(whole(), stem) == name
    assert name in applied(AddNode(name, node_of("read"))).nodes


# History


def test_history_undoes_and_redoes_in_order():
    history = History(whole())
    assert not history.can_undo
    assert history.undo() == history.redo() == whole()
    history.do(SetName("one"), CATALOGUE)
    history.do(SetName("two"), CATALOGUE)
    assert history.undo().name == "one"
    assert history.undo().name == "Test"
    assert history.can_redo
    assert history.redo().name == "one"
    history.do(SetName("three"), CATALOGUE)
    assert not history.can_redo
    assert [history.undo().name, history.undo().name] == ["one", "Test"]


# For all edits

ids = st.sampled_from(["load", "split", "forest", "apply", "judge", "new", "bad name"])
ports = st.sampled_from(["table", "train", "test", "model", "start", "predictions", "results", "report"])
positions = st.tuples(st.integers(-9, 9), st.integers(-9, 9))
nodes = st.builds(node_of, st.sampled_from([*CATALOGUE, "zzz"]))
edges = st.builds(lambda a, b, c, d: Edge.between(f"{a}.{b}", f"{c}.{d}"), *[ids.filter(str.isalpha), ports] * 2)
notes = st.builds(Note, text=st.text("ab", max_size=3), x=st.integers(0, 9), y=st.integers(0, 9))
indexes = st.integers(-1, 4)
params = st.dictionaries(
    st.sampled_from(["test_share", "seed", "trees", "zzz"]), st.sampled_from([0.25, 50, None, [1]])
)
single_edits = st.one_of(
    st.builds(AddNode, ids, nodes, st.none() | positions),
    st.builds(RemoveNode, ids),
    st.builds(RenameNode, ids, ids),
    st.builds(SetLabel, ids, st.text("ab", max_size=3)),
    st.builds(SetParams, ids, params),
    st.builds(SetSettings, ids, st.builds(NodeSettings, retries=st.integers(0, 3))),
    st.builds(Connect, edges, st.none() | st.integers(0, 3)),
    st.builds(Disconnect, edges | st.sampled_from(fakes.whole().edges)),
    st.builds(Move, st.dictionaries(ids, positions, max_size=2)),
    st.builds(AddNote, notes),
    st.builds(RemoveNote, indexes),
    st.builds(EditNote, indexes, notes),
    st.builds(SetName, st.text("ab", max_size=3)),
    st.builds(SetDescription, st.text("ab", max_size=3)),
)
edits = single_edits | st.builds(Batch, st.lists(single_edits, max_size=3).map(tuple))
loose_ends = make(
    {"load": "read", "split": Node(type="split", params={"test_share": 0.25})},
    "load.table > new.table", "load.table > split.table", "load.table > split.table",
    layout={"new": (1, 1), "split": (2, 2), "load": (3, 3)},
)  # fmt: skip


@given(st.sampled_from([whole(), loose_ends, make({})]), st.lists(edits, max_size=12))
def test_undoing_everything_restores_every_step_to_the_byte(document, tried):
    history, texts = History(document), [dumps(document)]
    for edit in tried:
        try:
            texts.append(dumps(history.do(edit, CATALOGUE)))
        except Problem:
            assert dumps(history.document) == texts[-1]
    there = history.document
    for text in reversed(texts[:-1]):
        assert dumps(history.undo()) == text
    assert history.document == document
    assert not history.can_undo
    for text in texts[1:]:
        assert dumps(history.redo()) == text
    assert history.document == there
