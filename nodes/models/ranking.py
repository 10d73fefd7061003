"""Find out which rows rank the branches of a sweep, and let validation rows rank them.

The best of many branches on the test rows is also the luckiest one there: its figures are too good.
Validation rows, or cross-validation, must choose, and the test rows evaluate the winner alone.

- ``RowParts``         which part of a split, such as the test rows, arrives at a node
- ``ranked_on``, ``rows_text``  the parts that rank the branches of a sweep; parts in words
- ``ranking_hints``    hints about test rows that choose, and about validation rows that are missing
- ``chosen_on_validation_rows``  the pipeline in which validation rows choose
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from engine.bypass import active_pipeline
from engine.edits import revise_params
from engine.errors import DataHint, InvalidPipeline, RankedOnTestRows
from engine.graph import PipelineGraph
from engine.node_types import MAX_LABEL, NodeType, NodeTypes, Port, node_title
from engine.pipeline import Edge, Node, Pipeline, PortRef, Position
from engine.pipeline_file import with_values
from engine.sweeps import Axes, axes_of
from engine.text import free_name, shortened
from engine.validation import params_of
from nodes.compare import MetricName

SPLIT, CHOICE = "split", "choose-best"
TRAIN, VALIDATION, TEST = "train", "validation", "test"
WORDS = {TRAIN: "training rows", VALIDATION: "validation rows", TEST: "test rows"}
SHARE = 0.2
"""Share of validation rows that a split without any gets."""
COLUMN_WIDTH = 288
"""How far apart the canvas draws two nodes that are connected."""

Origins = frozenset[PortRef]
"""The outputs of splits that rows come from."""


class RowParts:
    """Say for each node of a pipeline which parts of a split its rows are."""

    def __init__(self, pipeline: Pipeline, catalog: NodeTypes) -> None:
        self.pipeline, self.catalog = pipeline, catalog
        self.sources: dict[PortRef, list[PortRef]] = {}
        for edge in pipeline.edges:
            self.sources.setdefault(edge.target, []).append(edge.source)
        self.parts: dict[PortRef, frozenset[str]] = {}
        self.origins: dict[PortRef, Origins] = {}
        self._evaluated: dict[str, frozenset[str]] = {}
        # In this order the rows of a node's inputs are known before its own.
        for name in PipelineGraph(pipeline).order():
            node_type = self.type_of(name)
            if node_type is not None:
                self._evaluated[name] = _union(self._read_by(name, node_type))
                for port in node_type.outputs:
                    self._add(name, port)

    def type_of(self, name: str) -> NodeType | None:
        """Return the type of a node; None if it does not exist, or its type is not installed."""
        node = self.pipeline.nodes.get(name)
        return self.catalog.get(node.type) if node else None

    def evaluated(self, name: str) -> frozenset[str]:
        """Return the parts that a node evaluates or chooses on; of a comparison, those compared."""
        return self._evaluated.get(name, frozenset())

    def _read_by(self, name: str, node_type: NodeType) -> Iterator[frozenset[str]]:
        """Yield the parts of the rows that a node reads; for a report, those it is about."""
        for port in node_type.inputs:
            for source in self.sources.get(PortRef(name, port.name), ()):
                if port.type == "report":
                    yield self.evaluated(source.node)
                elif port.type != "model":
                    yield self.parts.get(source, frozenset())

    def _add(self, name: str, port: Port) -> None:
        """Find the part of one output from those of the node's inputs."""
        if port.type not in ("table", "predictions"):
            return
        end = PortRef(name, port.name)
        behind = list(self._rows_behind(name, port))
        self.origins[end] = _union(self.origins.get(source, frozenset()) for source in behind)
        outer = _union(self.parts.get(source, frozenset()) for source in behind)
        if self.pipeline.nodes[name].type == SPLIT:
            self.origins[end] = frozenset([end])
            outer = _split_part(port.name, outer)
        self.parts[end] = outer

    def _rows_behind(self, name: str, port: Port) -> Iterator[PortRef]:
        """Yield the outputs that the rows of an output come from.

        A node with an input of the same name, such as Fill missing values, treats parts separately.
        """
        node_type = self.type_of(name)
        assert node_type is not None
        inputs = [each for each in node_type.inputs if each.type in ("table", "predictions")]
        same = [each for each in inputs if each.name == port.name]
        for each in same or inputs:
            yield from self.sources.get(PortRef(name, each.name), ())


def _union(parts: Iterable[frozenset[Any]]) -> frozenset[Any]:
    return frozenset().union(*parts)


def _split_part(port: str, outer: frozenset[str]) -> frozenset[str]:
    """Return what an output of a split holds, if its input holds the parts ``outer``.

    What a second split holds out of training rows are validation rows.
    """
    if not outer:
        return frozenset([port])
    if outer == {TRAIN}:
        return frozenset([TRAIN if port == TRAIN else VALIDATION])
    return outer


def rows_text(parts: Collection[str]) -> str:
    """Return ``test rows`` for the test part; ``rows`` if they are of no or of several parts."""
    if len(parts) != 1:
        return "rows"
    (part,) = parts
    return WORDS.get(part, "rows")


def ranked_on(pipeline: Pipeline, catalog: NodeTypes, swept: str) -> frozenset[str]:
    """Return the parts of a split on which the branches of a node are evaluated or compared."""
    pipeline = active_pipeline(pipeline, catalog)
    rows, axes = RowParts(pipeline, catalog), axes_of(pipeline, catalog)
    ranking = {name for name in _evaluating(rows, axes) if swept in axes[name]}
    for edge in pipeline.edges:
        reader = rows.type_of(edge.target.node)
        is_choice = reader is not None and reader.name == CHOICE
        if is_choice and edge.target.port == "models" and swept in axes.get(edge.source.node, ()):
            ranking.add(edge.target.node)
    return _union(rows.evaluated(name) for name in ranking)


def _evaluating(rows: RowParts, axes: Axes) -> Iterator[str]:
    """Yield the nodes of branches that say how good a model is."""
    for name, own in axes.items():
        node_type = rows.type_of(name)
        if own and node_type and node_type.evaluation_output:
            yield name


# Hints


def ranking_hints(pipeline: Pipeline, catalog: NodeTypes) -> list[DataHint]:
    """Return hints about test rows that rank or choose, and about missing validation rows."""
    pipeline = active_pipeline(pipeline, catalog)
    rows = RowParts(pipeline, catalog)
    hints: list[DataHint] = []
    for name in _ranked_on_test_rows(rows):
        how = (
            "connect its models with Choose best, and that with validation rows; only the winner "
            "then predicts the test rows"
        )
        if chosen_on_validation_rows(pipeline, catalog, name) is None:
            how = (
                "while values are tried, evaluate on validation rows (Share of validation rows in "
                "Split) or by Cross-validate, and on the test rows when the best are chosen"
            )
        hints.append(
            RankedOnTestRows(
                "its branches are ranked on test rows, so the figures of the best one are too "
                f"good; {how}",
                node=name,
                field="sweep",
            )
        )
    for name in _choices_on_test_rows(rows):
        message = (
            "it chooses on test rows, so the figures of the best model on these rows are too good; "
            "connect the validation rows of Split"
        )
        hints.append(RankedOnTestRows(message, node=name))
    hints += _missing_validation(rows)
    return hints


def _ranked_on_test_rows(rows: RowParts) -> list[str]:
    """Return the nodes with a sweep whose branches are evaluated on test rows."""
    axes = axes_of(rows.pipeline, rows.catalog)
    found: dict[str, None] = {}
    for name in _evaluating(rows, axes):
        if TEST in rows.evaluated(name):
            found |= dict.fromkeys(axes[name])
    return list(found)


def _choices_on_test_rows(rows: RowParts) -> Iterator[str]:
    """Yield the nodes that choose a model on test rows."""
    for name, node in rows.pipeline.nodes.items():
        if node.type == CHOICE and TEST in rows.evaluated(name):
            yield name


def _missing_validation(rows: RowParts) -> Iterator[DataHint]:
    """Yield the splits whose validation rows are used, but that hold out none."""
    read = {edge.source for edge in rows.pipeline.edges}
    for name, node in rows.pipeline.nodes.items():
        is_used = PortRef(name, VALIDATION) in read
        if node.type == SPLIT and is_used and not _makes_validation(rows, name):
            yield DataHint(
                "its validation rows are used, but it does not make any; set Share of validation "
                "rows",
                node=name,
                field="validation_share",
            )


def _makes_validation(rows: RowParts, split: str) -> bool:
    """Return whether a split holds out validation rows; one with problems is not asked."""
    node = rows.pipeline.nodes[split]
    if node.sweep is not None:
        return True
    try:
        params: Any = params_of(rows.pipeline, rows.catalog, split)
    except InvalidPipeline:
        return True
    return bool(params.makes_validation)


# The fix


def chosen_on_validation_rows(pipeline: Pipeline, catalog: NodeTypes, name: str) -> Pipeline | None:
    """Return the pipeline in which validation rows choose; None if it must be changed by hand.

    ``name`` is a node that ``ranking_hints`` names. Behind each model of its sweep comes a node
    that chooses the best branch on validation rows, and what has read the model reads the winner. A
    node that chooses on test rows gets validation rows. A split without validation rows gets some.
    """
    if name not in pipeline.nodes:
        return None
    if pipeline.nodes[name].type == CHOICE:
        fixed = _with_other_rows(pipeline, catalog, name)
    else:
        fixed = _with_choices(pipeline, catalog, name)
    if fixed is None:
        return None
    rows = RowParts(active_pipeline(fixed, catalog), catalog)
    remaining = [*_ranked_on_test_rows(rows), *_choices_on_test_rows(rows)]
    return None if name in remaining else fixed


def _with_other_rows(pipeline: Pipeline, catalog: NodeTypes, name: str) -> Pipeline | None:
    """Connect a node that chooses on test rows with the validation rows instead."""
    rows = RowParts(pipeline, catalog)
    entry = PortRef(name, "table")
    found = _validation_rows(rows, rows.sources.get(entry, []))
    if found is None:
        return None
    source, added = found
    edges = [edge for edge in pipeline.edges if edge.target != entry]
    edges += [*added, Edge(source=source, target=entry)]
    return _with_validation(with_values(pipeline, edges=edges), catalog, rows, source)


def _with_choices(pipeline: Pipeline, catalog: NodeTypes, swept: str) -> Pipeline | None:
    """Add a node that chooses behind each model of the sweep whose test rows are predicted."""
    rows = RowParts(pipeline, catalog)
    axes = axes_of(pipeline, catalog)
    readers = [
        name
        for name, own in axes.items()
        if swept in own and name != swept and _predicts_test_rows(rows, name)
    ]
    fixed = pipeline
    choices: dict[str, str] = {}
    for name in readers:
        model = next(iter(rows.sources.get(PortRef(name, "model"), ())), None)
        found = _validation_rows(rows, rows.sources.get(PortRef(name, "table"), []))
        if model is None or found is None or swept not in axes.get(model.node, ()):
            return None
        source, added = found
        # Otherwise there would be a choice in each branch, and not one for all of them.
        if swept in axes.get(source.node, ()):
            return None
        new = [edge for edge in added if edge not in fixed.edges]
        fixed = with_values(fixed, edges=[*fixed.edges, *new])
        fixed, choice = _with_choice(fixed, rows, model, source)
        choices.setdefault(choice, name)
        fixed = _with_validation(fixed, catalog, rows, source)
    if not readers:
        return None
    return with_values(fixed, layout=_layout(pipeline, choices))


def _predicts_test_rows(rows: RowParts, name: str) -> bool:
    """Return whether a node applies a model to test rows."""
    node_type = rows.type_of(name)
    if node_type is None or not any(port.type == "predictions" for port in node_type.outputs):
        return False
    return node_type.input("model") is not None and TEST in rows.evaluated(name)


def _validation_rows(rows: RowParts, sources: list[PortRef]) -> tuple[PortRef, list[Edge]] | None:
    """Return the validation rows that stand beside test rows, and the edges that they need.

    The test rows may come from a split directly, or by nodes that treat both parts in the same way.
    """
    if len(sources) != 1 or sources[0].port != TEST:
        return None
    (node, _), source = sources[0], PortRef(sources[0].node, VALIDATION)
    node_type = rows.type_of(node)
    if node_type is None or node_type.output(VALIDATION) is None:
        return None
    if rows.pipeline.nodes[node].type == SPLIT:
        return source, []
    entry = PortRef(node, VALIDATION)
    if entry in rows.sources:
        return source, []
    before = _validation_rows(rows, rows.sources.get(PortRef(node, TEST), []))
    if before is None or node_type.input(VALIDATION) is None:
        return None
    return source, [*before[1], Edge(source=before[0], target=entry)]


def _with_choice(
    pipeline: Pipeline, rows: RowParts, model: PortRef, source: PortRef
) -> tuple[Pipeline, str]:
    """Let a node choose among the branches of a model; return it, too.

    A model that has such a node keeps it.
    """
    nodes, edges = dict(pipeline.nodes), list(pipeline.edges)
    readers = [edge.target.node for edge in edges if edge.source == model]
    choice = next((name for name in readers if nodes[name].type == CHOICE), None)
    if choice is None:
        choice = free_name("best", nodes.__contains__)
        # By this name, a comparison with other models shows the winner.
        label = shortened(f"Best {node_title(nodes[model.node], rows.catalog)}", MAX_LABEL)
        nodes[choice] = Node(type=CHOICE, params=_choice_params(rows, model), label=label)
        edges += [
            Edge(source=model, target=PortRef(choice, "models")),
            Edge(source=source, target=PortRef(choice, "table")),
        ]
    winner = PortRef(choice, "model")
    rewired = []
    for edge in edges:
        if edge.source == model and _reads_winner(rows, edge.target):
            edge = Edge(source=winner, target=edge.target)
        rewired.append(edge)
    return with_values(pipeline, nodes=nodes, edges=rewired), choice


def _reads_winner(rows: RowParts, target: PortRef) -> bool:
    """Return whether an input that reads a swept model reads the winner after the fix.

    A node that compares or cross-validates needs every branch. So do predictions of other rows than
    the test rows: they may be there to choose by.
    """
    node_type = rows.type_of(target.node) if target.node in rows.pipeline.nodes else None
    entry = node_type.input(target.port) if node_type else None
    if node_type is None or entry is None or entry.many or node_type.evaluation_output:
        return False
    predicts = any(port.type == "predictions" for port in node_type.outputs)
    return not predicts or TEST in rows.evaluated(target.node)


def _choice_params(rows: RowParts, model: PortRef) -> dict[str, Any]:
    """Return the metric and the positive class by which the branches of a model are ranked now."""
    params: dict[str, Any] = {}
    below = PipelineGraph(rows.pipeline).downstream([model.node])
    for name, node in rows.pipeline.nodes.items():
        if name not in below:
            continue
        metric, positive = node.params.get("metric"), node.params.get("positive")
        if node.type == "compare" and metric in get_args(MetricName):
            params["metric"] = metric
        if node.type == "evaluate" and isinstance(positive, str):
            params["positive"] = positive
    return params


def _with_validation(
    pipeline: Pipeline, catalog: NodeTypes, rows: RowParts, source: PortRef
) -> Pipeline:
    """Let the split behind validation rows hold out some, if it holds out none."""
    splits = {source.node} if rows.pipeline.nodes[source.node].type == SPLIT else set()
    splits |= {origin.node for origin in rows.origins.get(PortRef(source.node, TEST), ())}
    for split in splits:
        if not _makes_validation(rows, split):
            pipeline = revise_params(pipeline, catalog, split, _share_of_rest)
    return pipeline


def _share_of_rest(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a split with validation rows, and with training rows left."""
    params.pop("validation_rows", None)
    test = params.get("test_share", 0.3)
    rest = 1 - test if isinstance(test, float) and params.get("test_rows") is None else 1.0
    return {**params, "validation_share": min(SHARE, round(rest / 2, 3))}


def _layout(pipeline: Pipeline, choices: Mapping[str, str]) -> dict[str, Position]:
    """Return the layout with a column for new nodes, each in the place of the node that reads it.

    ``choices`` has that node for each new one.
    """
    placed = {
        new: pipeline.layout[name] for new, name in choices.items() if name in pipeline.layout
    }
    new = {name: place for name, place in placed.items() if name not in pipeline.nodes}
    if not new:
        return dict(pipeline.layout)
    start = min(left for left, _ in new.values())
    layout: dict[str, Position] = {}
    for name, (left, top) in pipeline.layout.items():
        layout[name] = (left + COLUMN_WIDTH if left >= start else left, top)
    for name, (_, top) in new.items():
        layout[name] = (start, top)
    return layout
