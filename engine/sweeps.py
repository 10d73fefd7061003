"""Sweeps: a node that tries several values of its parameters.

``expand`` turns a pipeline with sweeps into an ordinary one, and a run is planned from that. So a
branch is a node like any other: it runs beside the others, fails alone, is retried alone, and has
the cache key of a node that was given the same parameters by hand.

A node with a sweep opens an *axis*; the points of the axis are its combinations of values. A node
lies on an axis if it opens it, or if an input of it that takes a single edge comes from a node on
it. It is copied once for each point of the product of its axes. An input that takes many edges ends
an axis: there the branches meet. Copies are connected where they agree about the axes that both lie
on.

- ``expand``, ``ExpandedPipeline``  the ordinary pipeline, and which nodes stand for which
- ``expand_past``         the same for an old run, whose pipeline may no longer be valid
- ``axes_of``, ``has_evaluation``  the axes of each node, and whether its branches are evaluated
- ``combinations``, ``branch_count``  the values of each branch of one node, and how many there are
- ``with_choices``, ``without_choices``  change a sweep
- ``with_param_values``   put values into parameters
- ``node_sweep_problems``, ``sweep_problems``  what is wrong with one sweep, and with all together
- ``branch_label``, ``param_label``, ``value_label``, ``param_title``  short texts for people
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, product
from random import Random
from typing import Any, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from engine.bypass import active_pipeline
from engine.errors import (
    BadSweep,
    FieldName,
    InvalidPipeline,
    Message,
    Names,
    NodeName,
    Problem,
)
from engine.graph import PipelineGraph
from engine.node_types import MAX_LABEL, Branch, NodeType, NodeTypes, Port, node_title
from engine.pipeline import (
    MAX_BRANCHES,
    MAX_EDGES,
    MAX_NODES,
    Edge,
    Node,
    Pipeline,
    PortRef,
    Range,
    Sweep,
)
from engine.pipeline_file import with_values
from engine.text import free_name, shortened, shown
from engine.validation import node_problems, path_of, type_problem

LEADERBOARD = "leaderboard"
MAX_PROBLEMS = 50
"""Problems reported for the branches of one node: the rest would say the same of other values."""
MAX_VALUE = 28
NOT_AN_INTEGER = ("int_from_float", "int_type")
"""The error types of pydantic for 2.5 where an integer is required."""
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε",
    "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ",
    "nu": "ν", "rho": "ρ", "sigma": "σ", "tau": "τ", "omega": "ω",
}  # fmt: skip

Values = dict[str, JsonValue]
"""The values of the swept parameters of a node in one branch, by parameter."""
Choice = Sequence[JsonValue] | Range
Axes = Mapping[str, tuple[str, ...]]
"""For each node the axes it lies on, by the nodes that open them."""
Point = tuple[int, ...]
"""The index of a combination on each axis of a node."""


# The whole pipeline


@dataclass(frozen=True)
class ExpandedPipeline:
    """An ordinary pipeline, and how it came from one with sweeps."""

    pipeline: Pipeline
    copies: Mapping[str, tuple[str, ...]]
    """The nodes that stand for each node of the original pipeline; for most, the node itself."""
    values: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """For each node in a branch, the values there of each node with a sweep."""
    branches: Mapping[str, Branch] = field(default_factory=dict)
    """For each node in a branch, the branch as evaluations and comparisons show it."""
    leaderboard: str | None = None
    """The node that was added to compare the branches."""

    @cached_property
    def source_node(self) -> dict[str, str]:
        """The node of the original pipeline that each node stands for."""
        return {copy: name for name, copies in self.copies.items() for copy in copies}

    def copies_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes that stand for these; a name may also be that of a single branch."""
        copies: list[str] = []
        for name in names:
            copies += self.copies.get(name, (name,))
        return tuple(copies)

    def up_to(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the same, with the added leaderboard if all that it compares is among them."""
        copies = self.copies_of(names)
        if self.leaderboard is None:
            return copies
        edges = self.pipeline.edges
        compared = {edge.source.node for edge in edges if edge.target.node == self.leaderboard}
        return (*copies, self.leaderboard) if compared <= set(copies) else copies


def expand(pipeline: Pipeline, catalog: NodeTypes) -> ExpandedPipeline:
    """Leave out bypassed nodes and write out every branch, with a leaderboard behind them.

    Raise ``InvalidPipeline`` if a sweep is wrong.
    """
    active = active_pipeline(pipeline, catalog)
    if not has_sweep(active):
        return _as_it_is(active)
    axes = axes_of(active, catalog)
    # A copy must not have the name of a bypassed node: it would be shown as that node.
    reserved = set(pipeline.nodes)
    compared = _with_leaderboard(active, catalog, axes, reserved)
    added = next((name for name in compared.nodes if name not in pipeline.nodes), None)
    all_axes = {name: axes.get(name, ()) for name in compared.nodes}
    return _Expander(compared, catalog, all_axes, reserved).expand(added)


def expand_past(pipeline: Pipeline, catalog: NodeTypes) -> ExpandedPipeline:
    """Expand the pipeline of an old run; return it as it is where this version cannot expand it."""
    try:
        return expand(pipeline, catalog)
    except (InvalidPipeline, Problem):
        return _as_it_is(pipeline)


def _as_it_is(pipeline: Pipeline) -> ExpandedPipeline:
    return ExpandedPipeline(pipeline, {name: (name,) for name in pipeline.nodes})


def has_sweep(pipeline: Pipeline) -> bool:
    """Return whether any node has a sweep."""
    return any(node.sweep is not None for node in pipeline.nodes.values())


def axes_of(pipeline: Pipeline, catalog: NodeTypes) -> dict[str, tuple[str, ...]]:
    """Return the axes of each node, first ones first; nodes on a cycle are left out."""
    order = PipelineGraph(pipeline).order()
    position = {name: index for index, name in enumerate(order)}
    single: dict[str, set[str]] = {}
    for edge in pipeline.edges:
        if not _takes_many(pipeline, catalog, edge.target):
            single.setdefault(edge.target.node, set()).add(edge.source.node)
    axes: dict[str, tuple[str, ...]] = {}
    for name in order:
        own = {name} if pipeline.nodes[name].sweep else set()
        for source in single.get(name, ()):
            own |= set(axes.get(source, ()))
        axes[name] = tuple(sorted(own, key=position.__getitem__))
    return axes


def has_evaluation(pipeline: Pipeline, catalog: NodeTypes, name: str) -> bool:
    """Return whether a node below ``name`` evaluates or compares its branches."""
    pipeline = active_pipeline(pipeline, catalog)
    axes = axes_of(pipeline, catalog)
    if any(name in axes.get(ref.node, ()) for ref in _evaluations(pipeline, catalog)):
        return True
    return any(
        name in axes.get(edge.source.node, ()) and _compares(pipeline, catalog, edge.target)
        for edge in pipeline.edges
    )


def _takes_many(pipeline: Pipeline, catalog: NodeTypes, ref: PortRef) -> bool:
    """Return whether the input takes many edges, so that branches meet there."""
    port = _input(pipeline, catalog, ref)
    return port is not None and port.many


def _compares(pipeline: Pipeline, catalog: NodeTypes, ref: PortRef) -> bool:
    """Return whether the input compares the branches that meet there."""
    port = _input(pipeline, catalog, ref)
    return port is not None and port.many and port.role == "evaluation"


def _input(pipeline: Pipeline, catalog: NodeTypes, ref: PortRef) -> Port | None:
    """Return an input; None if it is not known."""
    node_type = catalog.get(pipeline.nodes[ref.node].type) if ref.node in pipeline.nodes else None
    return node_type.input(ref.port) if node_type else None


# The leaderboard


def _with_leaderboard(
    pipeline: Pipeline, catalog: NodeTypes, axes: Axes, reserved: Container[str]
) -> Pipeline:
    """Add a node that compares those evaluations of branches that do not meet anywhere."""
    met = {edge.source for edge in pipeline.edges if _takes_many(pipeline, catalog, edge.target)}
    evaluations = [ref for ref in _evaluations(pipeline, catalog) if axes.get(ref.node)]
    loose = [ref for ref in evaluations if ref not in met]
    comparison = _comparison_type(catalog)
    if not loose or comparison is None:
        return pipeline
    node_type, port = comparison
    name = free_name(LEADERBOARD, reserved.__contains__)
    edges = [Edge(source=ref, target=PortRef(name, port)) for ref in loose]
    nodes = {**pipeline.nodes, name: Node(type=node_type, label="Leaderboard")}
    return with_values(pipeline, nodes=nodes, edges=[*pipeline.edges, *edges])


def _evaluations(pipeline: Pipeline, catalog: NodeTypes) -> Iterator[PortRef]:
    """Yield the outputs that say how good a model is."""
    for name, node in pipeline.nodes.items():
        node_type = catalog.get(node.type)
        port = node_type.evaluation_output if node_type else None
        if port:
            yield PortRef(name, port.name)


def _comparison_type(catalog: NodeTypes) -> tuple[str, str] | None:
    """Return a node type that compares many evaluations, and its input for them."""
    for node_type in catalog.values():
        for port in node_type.inputs:
            if port.many and port.role == "evaluation" and port.type == "report":
                return node_type.name, port.name
    return None


# Writing the branches out


class _Expander:
    """Copies the nodes of a pipeline along their axes, and connects the copies."""

    def __init__(
        self, pipeline: Pipeline, catalog: NodeTypes, axes: Axes, reserved: Iterable[str]
    ) -> None:
        self.pipeline, self.catalog, self.axes = pipeline, catalog, axes
        self.reserved = reserved
        swept = [name for name, node in pipeline.nodes.items() if node.sweep]
        self.values = {name: combinations(name, pipeline.nodes[name], catalog) for name in swept}
        types = {name: catalog[pipeline.nodes[name].type] for name in swept}
        self.labels = {name: _different_labels(self.values[name], types[name]) for name in swept}
        self.columns = _columns(self.values)
        self.titles = _column_titles(self.columns, types)
        self.ids = self._ids_of_copies()
        self.graph = PipelineGraph(pipeline)

    def expand(self, leaderboard: str | None) -> ExpandedPipeline:
        """Return the pipeline with all copies."""
        nodes, values, branches = {}, {}, {}
        for name, ids in self.ids.items():
            for point, copy in ids.items():
                nodes[copy] = self._node(name, point)
                if point:
                    values[copy] = self._values_at(name, point)
                    branches[copy] = self._branch(name, point)
        edges = list(self._edges())
        pipeline = with_values(
            self.pipeline, nodes=nodes, edges=edges, layout={}, notes=(), groups=()
        )
        copies = {name: tuple(ids.values()) for name, ids in self.ids.items()}
        return ExpandedPipeline(pipeline, copies, values, branches, leaderboard)

    def _ids_of_copies(self) -> dict[str, dict[Point, str]]:
        """Return an id for each copy: ``forest-2``; with two axes ``predict-2-1``."""
        taken = {*self.pipeline.nodes, *self.reserved}
        ids: dict[str, dict[Point, str]] = {}
        for name in self.pipeline.nodes:
            if not self.axes[name]:
                ids[name] = {(): name}
                continue
            ids[name] = {}
            sizes = [range(len(self.values[axis])) for axis in self.axes[name]]
            for point in product(*sizes):
                numbers = [str(index + 1) for index in point]
                # Cut, because an id has 64 letters at most.
                copy = free_name("-".join([name[:48], *numbers]), taken.__contains__)
                taken.add(copy)
                ids[name][point] = copy
        return ids

    def _node(self, name: str, point: Point) -> Node:
        """Return the copy of a node at a point of its axes."""
        node = self.pipeline.nodes[name]
        if not point:
            return node
        params = node.params
        own = self._values_at(name, point).get(name)
        if own is not None:
            params = with_param_values(params, own)
        label = _one_line(f"{self._title(name)} {self._label(name, point)}")
        return with_values(node, ("nodes", name), params=params, label=label, sweep=None)

    def _values_at(self, name: str, point: Point) -> dict[str, Values]:
        """Return the values of each axis of a node at a point."""
        indices = self._indices(name, point).items()
        return {axis: self.values[axis][index] for axis, index in indices}

    def _label(self, name: str, point: Point) -> str:
        """Return the values of a branch in a few words: ``γ=0.6 seed=1``."""
        indices = self._indices(name, point).items()
        return " ".join(self.labels[axis][index] for axis, index in indices)

    def _indices(self, name: str, point: Point) -> dict[str, int]:
        """Return the index of a point on each axis of a node."""
        return dict(zip(self.axes[name], point, strict=True))

    def _branch(self, name: str, point: Point) -> Branch:
        """Return the branch of a node as evaluations and leaderboards show it."""
        cells: Values = {}
        for axis, values in self._values_at(name, point).items():
            for param, value in values.items():
                cells[self.columns[axis, param]] = _cell(value)
        titles = {column: title for column, title in self.titles.items() if column in cells}
        return Branch(self._subject(name), _one_line(self._label(name, point)), cells, titles)

    def _subject(self, name: str) -> str:
        """Return what is evaluated: the nearest model above, else the last node with a sweep.

        A node that makes a model is evaluated itself. It is the title of the type: it is part of a
        cache key, and a label must not change one.
        """
        for source in chain.from_iterable(self.graph.layers_above([name])):
            if self._makes_model(source):
                return self._type_title(source)
        return self._type_title(self.axes[name][-1])

    def _makes_model(self, name: str) -> bool:
        node_type = self.catalog.get(self.pipeline.nodes[name].type)
        return node_type is not None and any(port.type == "model" for port in node_type.outputs)

    def _title(self, name: str) -> str:
        return node_title(self.pipeline.nodes[name], self.catalog)

    def _type_title(self, name: str) -> str:
        return self.catalog[self.pipeline.nodes[name].type].title

    def _edges(self) -> Iterator[Edge]:
        """Connect all copies of the two ends of each edge that agree about the axes they share."""
        for edge in self.pipeline.edges:
            (source, output), (target, entry) = edge.source, edge.target
            shared = [axis for axis in self.axes[source] if axis in self.axes[target]]
            # By their point on the shared axes, else each pair of copies had to be compared.
            by_point: dict[Point, list[str]] = {}
            for point, copy in self.ids[source].items():
                by_point.setdefault(self._restricted(source, point, shared), []).append(copy)
            for point, copy in self.ids[target].items():
                for feeding in by_point[self._restricted(target, point, shared)]:
                    yield Edge(source=PortRef(feeding, output), target=PortRef(copy, entry))

    def _restricted(self, name: str, point: Point, axes: Sequence[str]) -> Point:
        """Return the part of a point that belongs to these axes."""
        indices = self._indices(name, point)
        return tuple(indices[axis] for axis in axes)


# The branches of one node


def choices_of(sweep: Sweep) -> Mapping[str, Choice]:
    """Return the swept parameters, with what to try for each."""
    return sweep.random or sweep.grid


def with_choices(sweep: Sweep | None, param: str, choice: Choice) -> Sweep:
    """Return the sweep with these values for a parameter; a new sweep is a grid."""
    sweep = sweep or Sweep()
    part = "random" if sweep.random else "grid"
    return with_values(sweep, **{part: {**getattr(sweep, part), param: choice}})


def without_choices(sweep: Sweep | None, param: str) -> Sweep | None:
    """Return the sweep without a parameter and all inside it, or None if no other is left."""
    if sweep is None:
        return None
    part = "random" if sweep.random else "grid"
    choices = choices_of(sweep)
    rest = {name: choices[name] for name in choices if not _is_inside(name, param)}
    return with_values(sweep, **{part: rest}) if rest else None


def combinations(name: str, node: Node, catalog: NodeTypes) -> list[Values]:
    """Return the values of each branch, the last parameter changing fastest.

    Raise ``InvalidPipeline`` if the branches cannot be listed.
    """
    problems = list(_shape_problems(name, node, catalog))
    if problems or node.sweep is None:
        raise InvalidPipeline(problems)
    return _drawn(node, catalog[node.type]) if node.sweep.random else _grid(node.sweep.grid)


def branch_count(sweep: Sweep) -> int:
    """Return how many branches there are at most, without listing them."""
    if not sweep.random:
        return math.prod(len(values) for values in sweep.grid.values())
    lists = [choice for choice in sweep.random.values() if not isinstance(choice, Range)]
    if len(lists) < len(sweep.random):
        return sweep.trials
    return min(sweep.trials, math.prod(map(len, lists)))


def with_param_values(params: Mapping[str, JsonValue], values: Values) -> dict[str, JsonValue]:
    """Return the parameters with values put in.

    A name with dots leads inside: ``learners.0.trees`` is the trees of the first learner. Raise
    ``LookupError`` if there is no such parameter.
    """
    changed_params: Any = dict(params)
    for name, value in values.items():
        changed_params = _put(changed_params, name.split("."), value)
    return dict(changed_params)


def _put(container: Any, steps: Sequence[str], value: JsonValue) -> JsonValue:
    """Return a copy of the container with one value replaced, at the end of the steps."""
    if not steps:
        return value
    step, *rest = steps
    match container:
        case list() if re.fullmatch("[0-9]{1,4}", step) and int(step) < len(container):
            items = list(container)
            items[int(step)] = _put(items[int(step)], rest, value)
            return items
        case dict() if step in container or not rest:
            return {**container, step: _put(container.get(step), rest, value)}
    raise LookupError(step)


def _grid(choices: Mapping[str, Sequence[JsonValue]]) -> list[Values]:
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


# Random search


def _drawn(node: Node, node_type: NodeType) -> list[Values]:
    """Draw different combinations; return all of them if there are not more than asked for."""
    assert node.sweep is not None
    choices, trials = node.sweep.random, node.sweep.trials
    lists = {name: choice for name, choice in choices.items() if not isinstance(choice, Range)}
    if len(lists) == len(choices) and math.prod(map(len, lists.values())) <= trials:
        return _grid(lists)
    ranges = [name for name in choices if name not in lists]
    integers = {name for name in ranges if _is_integer(node, node_type, name)}
    rng = Random(node.sweep.seed)
    drawn: dict[str, Values] = {}
    # A narrow range of integers may hold fewer values than asked for: draw no more than this.
    for _ in range(50 * trials):
        values = {name: _draw(choices[name], rng, integer=name in integers) for name in choices}
        drawn.setdefault(json.dumps(values), values)
        if len(drawn) == trials:
            break
    return list(drawn.values())


def _draw(choice: Choice, rng: Random, *, integer: bool) -> JsonValue:
    """Draw one value of a list or of a range."""
    # Only ``random()`` is used: its numbers are the same in every version of Python, and a resumed
    # run must draw the same values again.
    if not isinstance(choice, Range):
        return choice[int(rng.random() * len(choice))]
    low, high = choice.start, choice.end
    if integer:  # so that the first and the last integer are as likely as the others
        low, high = low - 0.5, high + 0.5
    # Even on a log scale: the exponential of a number between log(low) and log(high).
    if choice.log:
        low, high = math.log(max(low, 0.5) if integer else low), math.log(high)
    number = low + rng.random() * (high - low)
    number = _rounded(math.exp(number) if choice.log else number, choice)
    number = min(max(number, choice.start), choice.end)
    return round(number) if integer else number


def _rounded(number: float, choice: Range) -> float:
    """Round to the digits that matter in the range, so that the number reads well in a label."""
    if choice.log or choice.start == choice.end:
        return float(f"{number:.3g}")
    # Three digits of the width of the range: 0.123 in 0 to 1, 12.3 in 0 to 100.
    return round(number, 3 - math.ceil(math.log10(choice.end - choice.start)))


def _is_integer(node: Node, node_type: NodeType, name: str) -> bool:
    """Return whether a parameter takes integers only."""
    assert node.sweep is not None
    # JSON does not distinguish 1 from 1.0, so the type's own model is asked with a number between
    # two integers.
    trial = {param: _trial_value(choice) for param, choice in node.sweep.random.items()}
    params = with_param_values(node.params, trial)
    try:
        node_type.params.model_validate_json(json.dumps(params))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        refused = [path_of(each, params) for each in errors if each["type"] in NOT_AN_INTEGER]
        return name in (".".join(map(str, path)) for path in refused)
    except Exception:  # a validator is the code of another package
        return False
    return False


def _trial_value(choice: Choice) -> JsonValue:
    """Return a value of the choice; of a range, a number between two integers."""
    if not isinstance(choice, Range):
        return choice[0]
    middle = (choice.start + choice.end) / 2
    return middle + 0.5 if middle.is_integer() else middle


# Problems


def sweep_problems(pipeline: Pipeline, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield what is wrong with all sweeps together.

    There may be too many branches, or a node that must not run in a branch.
    """
    swept = {name: node for name, node in pipeline.nodes.items() if node.sweep}
    if not swept:
        return
    try:
        sizes = {name: len(combinations(name, node, catalog)) for name, node in swept.items()}
    except InvalidPipeline:  # reported with the node
        return
    axes = axes_of(pipeline, catalog)
    yield from _effect_problems(pipeline, catalog, axes)
    yield from _size_problems(pipeline, axes, sizes)


def _effect_problems(pipeline: Pipeline, catalog: NodeTypes, axes: Axes) -> Iterator[Problem]:
    """Yield the nodes that write something: each branch would overwrite what another wrote."""
    for name, own in axes.items():
        node_type = catalog.get(pipeline.nodes[name].type)
        if own and node_type and not node_type.cacheable:
            message = Message(
                "it would run once for each branch of {node}, and each would overwrite the "
                "last one; put it behind a node that chooses the best branch, or add it again "
                "when the sweep is removed",
                node=NodeName(own[-1]),
            )
            yield BadSweep(message, node=name)


def _size_problems(pipeline: Pipeline, axes: Axes, sizes: Mapping[str, int]) -> Iterator[Problem]:
    """Yield too many branches of one node, else too many nodes or edges in all."""

    def copies(own: Iterable[str]) -> int:
        return math.prod(sizes[axis] for axis in own)

    for name, own in axes.items():
        if copies(own) > MAX_BRANCHES:
            size = _product_text(sizes[axis] for axis in own)
            message = Message(
                f"the sweeps of {{names}} meet here in {size} branches; "
                f"at most {MAX_BRANCHES} are possible. Give fewer values",
                names=Names(tuple(map(NodeName, own)), " and "),
            )
            yield BadSweep(message, node=name)
            return  # all nodes below would have the same problem
    nodes = 1 + sum(map(copies, axes.values()))  # one more for the leaderboard
    edges = 0
    for edge in pipeline.edges:
        edges += copies({*axes.get(edge.source.node, ()), *axes.get(edge.target.node, ())})
    for what, count, most in (("nodes", nodes, MAX_NODES), ("edges", edges, MAX_EDGES)):
        if count > most:
            total = f"all branches together have {count:,} {what}; at most {most:,} are possible"
            yield BadSweep(f"{total}. Give fewer values", node=next(iter(sizes)), field="sweep")


def node_sweep_problems(name: str, node: Node, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield what is wrong with the sweep of a node, else with the parameters of its branches."""
    try:
        branches = combinations(name, node, catalog)
    except InvalidPipeline as error:
        yield from error.problems
        return
    problems: dict[tuple[str | None, str], Problem] = {}
    for values in branches:
        params = with_param_values(node.params, values)
        branch = with_values(node, ("nodes", name), params=params, sweep=None)
        for problem in node_problems(name, branch, catalog):
            problem.field = _field_in_sweep(node, problem.field)
            problems.setdefault((problem.field, problem.message), problem)
    yield from islice(problems.values(), MAX_PROBLEMS)


def _field_in_sweep(node: Node, field: str | None) -> str | None:
    """Return where the user finds a wrong value: in the sweep, if it comes from there."""
    assert node.sweep is not None
    for name in choices_of(node.sweep):
        if field is not None and _is_inside(field, name):
            return _field(node.sweep, name)
    return field


def _is_inside(param: str, outer: str) -> bool:
    """Return whether ``param`` is ``outer`` or inside of it, as ``learners.0.trees`` is."""
    return param == outer or param.startswith(f"{outer}.")


def _field(sweep: Sweep, name: str) -> str:
    return f"sweep.{'random' if sweep.random else 'grid'}.{name}"


def _shape_problems(name: str, node: Node, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield what prevents listing the branches."""
    unknown, sweep = type_problem(name, node, catalog), node.sweep
    if unknown:
        yield unknown
    if unknown or sweep is None:
        return
    if sweep.grid and sweep.random:
        message = "it has both a grid and random values; keep one of the two"
        yield BadSweep(message, node=name, field="sweep")
        return
    choices = choices_of(sweep)
    if not choices:
        message = "it does not name a parameter; name one with its values, or remove it"
        yield BadSweep(message, node=name, field="sweep")
        return
    problems = []
    for param, choice in choices.items():
        for message in _choice_problems(name, node, param, choice):
            problems.append(BadSweep(message, node=name, field=_field(sweep, param)))
    yield from problems
    if not problems and branch_count(sweep) > MAX_BRANCHES:
        size = _product_text(map(len, sweep.grid.values()))
        message = (
            f"it has {size} branches; at most {MAX_BRANCHES} are possible. "
            "Give fewer values, or draw them at random"
        )
        yield BadSweep(message, node=name, field="sweep")


def _choice_problems(name: str, node: Node, param: str, choice: Choice) -> Iterator[str]:
    """Yield what is wrong with the values of one parameter."""
    assert node.sweep is not None
    if isinstance(choice, Range):
        yield from _range_problems(choice)
    elif not choice:
        yield "it has no values; give some, or remove it"
    else:
        count = Counter(map(_as_json, choice))
        repeated = [value for value in choice if count[_as_json(value)] > 1]
        if repeated:
            yield f"{shown(repeated[0])} is there more than once; keep one"
    outer = [other for other in choices_of(node.sweep) if param.startswith(f"{other}.")]
    if outer:
        outer_name = FieldName(name, outer[0])
        yield Message("{outer} is swept as a whole; keep one of the two", outer=outer_name)
    elif not _exists(node, param):
        yield Message(
            "the node has no such parameter; set {first} first, or sweep the whole of it",
            first=FieldName(name, param.partition(".")[0]),
        )


def _range_problems(choice: Range) -> Iterator[str]:
    """Yield what is wrong with the ends of a range."""
    if choice.start > choice.end:
        yield f"it leads from {choice.start:g} to {choice.end:g}; give the smaller number first"
    if choice.log and choice.start <= 0:
        yield "a range on a logarithmic scale begins above 0; raise its start, or leave 'log' out"


def _exists(node: Node, param: str) -> bool:
    """Return whether a value can be put at this place in the parameters."""
    try:
        with_param_values(node.params, {param: None})
    except LookupError:
        return False
    return True


def _as_json(value: JsonValue) -> str:
    # 1 and 1.0 are the same value, 1 and true are not.
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True)


def _product_text(sizes: Iterable[int]) -> str:
    """Return ``3 × 2 = 6``."""
    sizes = list(sizes)
    text = " × ".join(f"{size:,}" for size in sizes)
    return f"{text} = {math.prod(sizes):,}" if len(sizes) > 1 else text


# Texts


def _different_labels(branches: Sequence[Values], node_type: NodeType) -> list[str]:
    """Return a label for each branch, numbered where two would be the same."""
    labels = [branch_label(values, node_type) for values in branches]
    count = Counter(labels)
    numbered = enumerate(labels, start=1)
    return [label if count[label] == 1 else f"{label} #{number}" for number, label in numbered]


def branch_label(values: Mapping[str, JsonValue], node_type: NodeType | None = None) -> str:
    """Return a branch in a few words: ``γ=0.6 μ=0.1``."""
    return " ".join(
        f"{param_label(name, node_type)}={value_label(value)}" for name, value in values.items()
    )


def param_label(param: str, node_type: NodeType | None) -> str:
    """Return a parameter inside a sentence: ``γ`` for "Target margin γ", ``trees`` for "Trees"."""
    last = next((step for step in reversed(param.split(".")) if not step.isdecimal()), param)
    symbol = SYMBOLS.get(last, last)
    title = param_title(param, node_type) if node_type else ""
    if not title or (symbol in SYMBOLS.values() and symbol in title):
        return symbol
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def param_title(param: str, node_type: NodeType) -> str:
    """Return the form's title of a parameter, empty if it has none.

    It is ``Trees`` for ``learners.0.trees``.
    """
    models: list[type[BaseModel]] = [node_type.params]
    title = ""
    for step in param.split("."):
        if step.isdecimal():
            continue
        fields = [model.model_fields[step] for model in models if step in model.model_fields]
        title = next((field.title for field in fields if field.title), "")
        models = [model for field in fields for model in models_in(field.annotation)]
    return title


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type such as ``list[A | B]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def value_label(value: JsonValue) -> str:
    """Return a value in a few letters."""
    match value:
        case str():
            text = value or "(empty)"
        case bool() | None:
            text = {True: "yes", False: "no", None: "none"}[value]
        case float():
            text = f"{value:.6g}"
        case [dict(), *_]:
            text = "+".join(map(_first_value, value))
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return shortened(text, MAX_VALUE)


def _first_value(value: JsonValue) -> str:
    """Return the first value of an object, such as the kind of a learner."""
    return value_label(next(iter(value.values()), None) if isinstance(value, dict) else value)


def _one_line(text: str) -> str:
    """Return the text as a label may have it."""
    return shortened(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).strip(), MAX_LABEL)


def _columns(values: Mapping[str, Sequence[Values]]) -> dict[tuple[str, str], str]:
    """Name the column of each swept parameter: its name, after that of the node if two have it."""
    pairs = [(axis, param) for axis, points in values.items() for param in points[0]]
    count = Counter(param for _, param in pairs)
    columns = {}
    for axis, param in pairs:
        columns[axis, param] = param if count[param] == 1 else f"{axis}.{param}"
    return columns


def _column_titles(
    columns: Mapping[tuple[str, str], str], types: Mapping[str, NodeType]
) -> dict[str, str]:
    """Return the titles of columns: those of the form, with the node where two have the same."""
    titles = {(axis, param): param_title(param, types[axis]) for axis, param in columns}
    count = Counter(titles.values())
    in_node = Counter((axis, title) for (axis, _), title in titles.items())
    return {
        columns[axis, param]: title if count[title] == 1 else f"{title} ({axis})"
        for (axis, param), title in titles.items()
        if title and in_node[axis, title] == 1
    }


def _cell(value: JsonValue) -> JsonValue:
    """Return a value as a cell of a table can hold it."""
    return value_label(value) if isinstance(value, str | list | dict) else value
