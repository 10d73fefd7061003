"""A bypassed node is not in a run; what reads it reads what the node would have read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bypass import active_pipeline, bypass_problems
from engine.errors import BadColumns, BadInput, Bypassed, CannotBypass, MissingInput, UnknownPort
from engine.export_python import export_python
from engine.graph import PipelineGraph
from engine.node_types import NodeCatalog, NodeParams, NodeType, Port, load_catalog
from engine.pipeline import Edge, Group, Node, Pipeline, Sweep
from engine.pipeline_file import with_values
from engine.plan import RunOptions, make_plan
from engine.runs import Runs
from engine.sweeps import expand, has_evaluation
from engine.validation import columns_at, columns_for, find_problems, find_source_problems
from engine.workspace import Files, Workspace
from tests.engine import fakes
from tests.engine.fakes import make
from tests.engine.lab import Lab, pipeline, plan_of
from tests.expect import problems, refused


class CleanParams(NodeParams):
    column: str


def _clean_columns(inputs: Any, params: CleanParams) -> Any:
    columns = inputs["table"]
    if columns is not None and params.column not in [column.name for column in columns]:
        raise BadInput(f"the column '{params.column}' does not exist", field="column")
    return {"table": columns}


def _no_run(*_: Any) -> dict[str, Any]:
    raise AssertionError("these tests run no node")


TABLE = Port("table", "table")
CLEAN = NodeType(
    "clean", "Clean", "Prepare", "Cleans.", 1, CleanParams, _no_run,
    inputs=(TABLE,), outputs=(TABLE, Port("report", "report")), output_columns=_clean_columns,
)  # fmt: skip
JOIN = NodeType(
    "join", "Join", "Prepare", "Joins.", 1, NodeParams, _no_run,
    inputs=(Port("left", "table"), Port("right", "table")),
    outputs=(Port("both", "table"), Port("rest", "table")),
)  # fmt: skip
STACK = NodeType(
    "stack", "Stack", "Prepare", "Stacks.", 1, NodeParams, _no_run,
    inputs=(Port("tables", "table", many=True),), outputs=(TABLE,),
)  # fmt: skip
EITHER = NodeType(
    "either", "Either", "Prepare", "Passes on.", 1, NodeParams, _no_run,
    inputs=(Port("table", "table", accepts=("predictions",)),), outputs=(TABLE,),
)  # fmt: skip
CATALOG = NodeCatalog([*fakes.CATALOG.values(), CLEAN, JOIN, STACK, EITHER])


def set_bypass(document: Pipeline, name: str, bypass: bool) -> Pipeline:
    node = with_values(document.nodes[name], bypass=bypass)
    return with_values(document, nodes={**document.nodes, name: node})


def bypassed(document: Pipeline, *names: str) -> Pipeline:
    for name in names:
        document = set_bypass(document, name, True)
    return document


def edges_of(document: Pipeline) -> list[str]:
    return [" > ".join(edge.names) for edge in document.edges]


def chain() -> Pipeline:
    """Load, clean, train; the column that Clean needs does not exist."""
    clean = Node(type="clean", params={"column": "gone"})
    return make(
        {"load": "read", "clean": clean, "forest": "learn"},
        "load.table > clean.table",
        "clean.table > forest.table",
    )


def test_what_reads_a_bypassed_node_reads_what_arrives_at_it():
    active = active_pipeline(bypassed(chain(), "clean"), CATALOG)
    assert active == make({"load": "read", "forest": "learn"}, "load.table > forest.table")


def test_a_pipeline_without_bypassed_nodes_stays_the_same_object():
    document = chain()
    assert active_pipeline(document, CATALOG) is document
    assert list(bypass_problems(document, CATALOG)) == []


def test_bypassed_nodes_in_a_row_are_passed_one_after_the_other():
    document = make(
        {"load": "read", "a": "clean", "b": "clean", "forest": "learn"},
        "load.table > a.table",
        "a.table > b.table",
        "b.table > forest.table",
    )
    active = active_pipeline(bypassed(document, "a", "b"), CATALOG)
    assert edges_of(active) == ["load.table > forest.table"]


def join(*edges: str) -> Pipeline:
    nodes = {"a": "read", "b": "read", "join": "join", "one": "learn", "two": "learn"}
    return bypassed(make(nodes, *edges), "join")


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        # The first input in the order of the node type, not of the edges
        (["b.table > join.right", "a.table > join.left", "join.both > one.table"], "a"),
        # The first one that is connected
        (["b.table > join.right", "join.both > one.table"], "b"),
        # An output that nobody reads takes no input
        (["a.table > join.left", "join.rest > one.table"], "a"),
    ],
)
def test_the_first_connected_input_of_the_type_replaces_an_output(edges: list[str], expected: str):
    assert edges_of(active_pipeline(join(*edges), CATALOG)) == [f"{expected}.table > one.table"]


def test_an_input_replaces_one_output_only():
    outputs = "join.both > one.table", "join.rest > two.table"
    both = join("a.table > join.left", "b.table > join.right", *outputs)
    assert edges_of(active_pipeline(both, CATALOG)) == [
        "a.table > one.table",
        "b.table > two.table",
    ]
    problems(
        find_problems(join("a.table > join.left", *outputs), CATALOG),
        (CannotBypass, "join", "rest"),
    )


def test_training_and_test_rows_never_become_the_same_rows():
    problems(
        find_problems(bypassed(fakes.whole(), "split"), CATALOG), (CannotBypass, "split", "test")
    )
    # Without a reader of the test rows there is nothing to confuse.
    assert find_problems(bypassed(fakes.whole(), "split", "apply", "judge"), CATALOG) == []


def test_what_counts_is_the_type_that_arrives_not_the_type_of_the_input():
    document = make(
        {"load": "read", "forest": "learn", "apply": "score", "either": "either", "two": "learn"},
        "load.table > forest.table",
        "forest.model > apply.model",
        "load.table > apply.table",
        "apply.predictions > either.table",
        "either.table > two.table",
    )
    problems(
        find_problems(bypassed(document, "either"), CATALOG), (CannotBypass, "either", "table")
    )


def test_an_input_with_several_edges_replaces_nothing():
    edges = ["a.table > stack.tables", "stack.table > forest.table"]
    nodes = {"a": "read", "b": "read", "stack": "stack", "forest": "learn"}
    one = bypassed(make(nodes, *edges), "stack")
    assert edges_of(active_pipeline(one, CATALOG)) == ["a.table > forest.table"]
    two = bypassed(make(nodes, *edges, "b.table > stack.tables"), "stack")
    problems(find_problems(two, CATALOG), (CannotBypass, "stack", "table"))


def test_an_edge_past_a_node_and_the_same_edge_are_one():
    document = make(
        {"load": "read", "clean": "clean", "stack": "stack"},
        "load.table > clean.table",
        "load.table > stack.tables",
        "clean.table > stack.tables",
    )
    active = active_pipeline(bypassed(document, "clean"), CATALOG)
    assert edges_of(active) == ["load.table > stack.tables"]
    assert find_problems(active, CATALOG) == []


# Problems


def test_an_output_that_nothing_can_replace_is_a_problem_of_its_node_alone():
    document = bypassed(fakes.whole(), "forest")
    [problem] = find_problems(document, CATALOG)
    problems([problem], (CannotBypass, "forest", "model"))
    assert str(problem).startswith("Node 'forest', output 'model': ")


def test_a_node_whose_output_cannot_be_replaced_may_be_bypassed_if_nobody_reads_it():
    assert find_problems(bypassed(fakes.whole(), "judge"), CATALOG) == []
    # Its reader is bypassed too and nobody reads that one.
    assert find_problems(bypassed(fakes.whole(), "apply", "judge"), CATALOG) == []


def test_a_bypassed_node_needs_no_valid_parameters_and_no_inputs():
    wrong = Node(type="learn", params={"trees": -1}, sweep=Sweep(), bypass=True)
    assert find_problems(make({"load": "read", "forest": wrong}), CATALOG) == []
    wrong = Node(type="learn", params={"trees": -1})
    assert len(find_problems(make({"load": "read", "forest": wrong}), CATALOG)) == 2


def test_a_bypassed_node_that_is_read_needs_an_input():
    document = bypassed(
        make({"clean": "clean", "forest": "learn"}, "clean.table > forest.table"), "clean"
    )
    problems(find_problems(document, CATALOG), (CannotBypass, "clean", "table"))


def test_a_type_that_is_not_installed_may_be_bypassed_if_nobody_reads_it():
    nodes = {"load": "read", "new": Node(type="new", bypass=True), "forest": "learn"}
    into = ["load.table > new.table", "load.table > forest.table"]
    assert find_problems(make(nodes, *into), CATALOG) == []
    read = make(nodes, into[0], "new.table > forest.table")
    problems(find_problems(read, CATALOG), (CannotBypass, "new", "table"))


def test_edges_of_bypassed_nodes_are_checked():
    document = make({"load": "read", "forest": "learn"}, "load.table > forest.rows")
    problems(find_problems(bypassed(document, "forest"), CATALOG), (UnknownPort, "forest", "rows"))


def test_a_cycle_through_a_bypassed_node_is_still_a_cycle():
    document = make(dict.fromkeys("ab", "learn"), "a.model > b.start", "b.model > a.start")
    kinds = [type(each).__name__ for each in find_problems(bypassed(document, "b"), CATALOG)]
    assert kinds == ["MissingInput", "Cycle"]


def test_missing_inputs_of_other_nodes_are_still_found():
    document = make({"load": "read", "forest": "learn", "apply": "score"})
    problems(find_problems(bypassed(document, "apply"), CATALOG), (MissingInput, "forest", "table"))


def test_columns_flow_past_a_bypassed_node(tmp_path):
    files = Files(tmp_path)
    problems(find_source_problems(chain(), CATALOG, files), (BadColumns, "clean", "column"))
    document = bypassed(chain(), "clean")
    assert find_source_problems(document, CATALOG, files) == []
    assert "clean" not in columns_at(document, CATALOG, files)
    # The form of both nodes offers the columns that arrive there.
    for name in ("clean", "forest"):
        offered = columns_for(document, CATALOG, name, files)
        assert [column.name for column in offered or ()] == ["age", "income"]


def test_the_source_of_a_bypassed_node_is_not_checked(tmp_path):
    lost = Node(type="read", params={"source": "lost"})
    document = make({"load": lost, "forest": "learn"})
    files = Files(tmp_path)
    assert len(find_source_problems(document, CATALOG, files)) == 1
    assert find_source_problems(bypassed(document, "load"), CATALOG, files) == []


# Sweeps


def swept(**sweep: Any) -> Pipeline:
    """A swept sample of rows, and a bypassed forest with a sweep of its own."""
    forest = Node(type="random-forest", sweep=Sweep(**sweep), bypass=True)
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:digits"}),
        "sample": Node(type="sample", sweep=Sweep(grid={"rows": [100, 200]})),
        "forest": forest,
    }
    edges = ("load.table", "sample.table"), ("sample.table", "forest.table")
    edges = tuple(Edge.between(*each) for each in edges)
    return Pipeline(name="x", nodes=nodes, edges=edges)


def test_the_sweep_of_a_bypassed_node_has_no_branches():
    catalog = load_catalog()
    document = swept(grid={"trees": [5, 10]})
    expanded = expand(document, catalog)
    assert list(expanded.pipeline.nodes) == ["load", "sample-1", "sample-2"]
    document = bypassed(document, "sample")
    assert list(expand(document, catalog).pipeline.nodes) == ["load"]
    assert find_problems(document, catalog) == []
    assert not has_evaluation(document, catalog, "forest")


def test_branches_pass_a_bypassed_node():
    document = swept(grid={"trees": [5, 10]})
    forest = Node(type="random-forest")
    nodes = {**document.nodes, "select": Node(type="select-columns", bypass=True), "forest": forest}
    edges = [("load.table", "sample.table"), ("sample.table", "select.table")]
    edges += [("select.table", "forest.table")]
    document = Pipeline(name="x", nodes=nodes, edges=tuple(Edge.between(*each) for each in edges))
    expanded = expand(document, load_catalog()).pipeline
    assert edges_of(expanded)[2:] == [
        "sample-1.table > forest-1.table",
        "sample-2.table > forest-2.table",
    ]


def test_no_branch_has_the_name_of_a_bypassed_node():
    document = swept(grid={"trees": [5, 10]})
    nodes = {**document.nodes, "sample-1": Node(type="sample", bypass=True)}
    expanded = expand(document.model_copy(update={"nodes": nodes}), load_catalog())
    assert list(expanded.pipeline.nodes) == ["load", "sample-1_2", "sample-2"]


# Runs


def test_a_run_is_the_run_of_the_pipeline_without_the_node(tmp_path):
    lab = Lab(tmp_path)
    by_hand = lab.run(pipeline("a c d", "b d", a=1, b=2, c=4, d=8))
    assert lab.executor.executed == ["a", "b", "c", "d"]
    document = pipeline("a off c d", "b off2", "b d", a=1, b=2, off=16, off2=32, c=4, d=8)
    state = lab.run(bypassed(document, "off", "off2"))
    assert lab.executor.executed == []  # all of it is in the store, under the same keys
    assert list(state.nodes) == list(by_hand.nodes)
    assert state.nodes["d"].outputs == by_hand.nodes["d"].outputs
    assert lab.value(state, "d") == 15


@pytest.mark.parametrize("option", ["to", "force_from"])
def test_a_run_to_or_from_a_bypassed_node_is_refused(option: str):
    document = bypassed(pipeline("a b c"), "b")
    with refused(Bypassed, naming="'b'"):
        plan_of(document, **{option: ("b",)})
    assert list(plan_of(document, **{option: ("c",)}).steps) == ["a", "c"]


def test_a_pipeline_of_bypassed_nodes_alone_has_nothing_to_run(tmp_path):
    runs = Runs(Workspace(tmp_path), load_catalog())
    with refused(BadInput, naming="bypassed"):
        runs.require_valid(bypassed(swept(), "sample", "load"), RunOptions())


def test_groups_have_no_effect_on_a_plan():
    document = pipeline("a b")
    group = Group(title="Both", nodes=("a", "b"), collapsed=True)
    grouped = document.model_copy(update={"groups": (group,)})
    assert plan_of(grouped).steps == plan_of(document).steps


def test_an_exported_script_has_no_bypassed_node():
    document = bypassed(swept(), "sample")
    script = export_python(document, load_catalog())
    assert "sample:digits" in script
    assert "forest" not in script


# For all pipelines

TYPES = ["read", "clean", "join", "stack", "learn", "score", "compare"]


@st.composite
def documents(draw: st.DrawFn) -> Pipeline:
    """Draw a pipeline whose edges fit, with inputs that may be missing and bypassed nodes."""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    outputs: list[tuple[str, str, str]] = []
    drawn = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=8))
    for number, type_name in enumerate(["read", *drawn]):
        name, node_type = f"n{number}", CATALOG[type_name]
        required = {"read": {"source": "there"}, "clean": {"column": "age"}}
        nodes[name] = Node(
            type=type_name, params=required.get(type_name, {}), bypass=draw(st.integers(0, 3)) == 0
        )
        for port in node_type.inputs:
            fitting = [f"{node}.{out}" for node, out, kind in outputs if port.takes(kind)]
            most = 2 if port.many else 1
            if fitting:
                least = int(port.required and draw(st.integers(0, 9)) > 0)
                sources = st.lists(
                    st.sampled_from(fitting), min_size=least, max_size=most, unique=True
                )
                for source in draw(sources):
                    edges.append(Edge.between(source, f"{name}.{port.name}"))
        outputs += [(name, port.name, port.type) for port in node_type.outputs]
    return Pipeline(name="x", nodes=nodes, edges=tuple(edges))


def kinds(document: Pipeline) -> set[tuple[str, str | None, str | None]]:
    return {(each.code, each.node, each.field) for each in find_problems(document, CATALOG)}


@given(documents())
def test_a_pipeline_is_as_valid_as_the_one_that_a_run_has(document):
    active = active_pipeline(document, CATALOG)
    assert not any(node.bypass for node in active.nodes.values())
    if not list(bypass_problems(document, CATALOG)):
        assert kinds(document) == kinds(active)
    # Edges past a node fit; only the edges of outputs that nothing replaces are missing.
    assert {code for code, _, _ in kinds(active)} <= {"missing-input"}


@given(documents())
def test_nodes_bypassed_together_or_one_after_the_other_give_the_same(document):
    off = [
        name for name in reversed(PipelineGraph(document).order()) if document.nodes[name].bypass
    ]
    if list(bypass_problems(document, CATALOG)):
        return
    step = document
    for name in off:
        step = set_bypass(step, name, False)
    for name in off:
        step = active_pipeline(set_bypass(step, name, True), CATALOG)
    assert step == active_pipeline(document, CATALOG)


@given(documents())
def test_a_plan_has_the_nodes_that_are_not_bypassed(document):
    if not find_problems(document, CATALOG):
        plan = make_plan(document, CATALOG, RunOptions())
        assert set(plan.steps) == {name for name, node in document.nodes.items() if not node.bypass}
