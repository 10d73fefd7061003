"""Find the problems of a pipeline: one set of rules for the canvas, the forms and the command line.

- ``find_problems``         everything that is wrong with the pipeline itself, at once
- ``find_source_problems``  files that cannot be read, and columns that nodes further down miss
- ``find_storage_problems``  what cannot run where workers see a storage, not the workspace
- ``params_of``, ``load_params``  a node's parameters, checked by its type's model
- ``check_connect``, ``can_connect``  whether an edge may be added
- ``connection_rules``      the rules for edges as plain data, for the canvas
- ``columns_at``            the columns of each output, as far as they are known before a run
- ``columns_for``           the columns that the form of a node offers
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from engine.bypass import active_pipeline, bypass_problems
from engine.errors import (
    BadColumns,
    BadInput,
    BadParam,
    BadSource,
    Cycle,
    DuplicateEdge,
    FieldName,
    GroupOverlap,
    InvalidPipeline,
    Message,
    MissingInput,
    MissingParam,
    Name,
    Names,
    NodeName,
    PortName,
    PortTaken,
    Problem,
    SelfEdge,
    Side,
    TypeMismatch,
    TypeName,
    UnknownNode,
    UnknownParam,
    UnknownPort,
    UnknownType,
)
from engine.graph import PipelineGraph
from engine.node_types import SOURCE_COLUMNS, Columns, NodeParams, NodeType, NodeTypes, Port
from engine.pipeline import Edge, Node, Pipeline, PortRef
from engine.pipeline_file import with_values
from engine.text import closest, explain, shown, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from engine.workspace import Files

REMEMBERED_PARAMS = 2048
"""How many valid parameters are remembered; they never change."""
MAX_LISTED = 12
"""How many fields, ports or nodes a message lists."""

PortColumns = dict[str, Columns | None]
"""The columns at each port of a node, ``None`` where they are not known."""
StoredColumns = Callable[[NodeType, NodeParams], PortColumns | None]
"""Returns the columns of a result that a node has stored; None if its source must be read."""


def find_problems(pipeline: Pipeline, catalog: NodeTypes) -> list[Problem]:
    """Return everything that is wrong with the pipeline itself; it can run if that is nothing.

    Checked are the type and the parameters of each node, the edges, inputs that are not connected,
    cycles, bypassed nodes, sweeps and groups. A bypassed node needs no valid parameters and no
    inputs. Nothing outside of the pipeline is read: ``find_source_problems`` does that.
    """
    # Imported here: ``engine.sweeps`` checks the parameters of each branch by this module.
    from engine.sweeps import node_sweep_problems, sweep_problems

    active = active_pipeline(pipeline, catalog)
    problems: list[Problem] = []
    for name, node in active.nodes.items():
        # A node with a sweep is checked in each of its branches.
        rule = node_sweep_problems if node.sweep else node_problems
        problems += rule(name, node, catalog)
    edges = EdgeChecker(pipeline, catalog)
    for edge in pipeline.edges:
        problems += edges.problems_of(edge)
        edges.add(edge)
    problems += _missing_inputs(pipeline, catalog)
    problems += _cycles(pipeline)
    problems += bypass_problems(pipeline, catalog)
    problems += sweep_problems(active, catalog)
    problems += _group_problems(pipeline)
    return problems


# Parameters


def params_of(pipeline: Pipeline, catalog: NodeTypes, node_id: str) -> NodeParams:
    """Return the parameters of a node, with the defaults of those that are not set.

    Raise ``InvalidPipeline`` if the node does not exist, its type is not installed or a value does
    not fit.
    """
    node = pipeline.nodes.get(node_id)
    if node is None:
        raise InvalidPipeline([unknown_node(node_id, pipeline)])
    return load_params(node_id, node, catalog)


def load_params(name: str, node: Node, catalog: NodeTypes) -> NodeParams:
    """Return the parameters of a node, whether or not it is part of a pipeline.

    Raise ``InvalidPipeline`` with one problem of the node ``name`` for each field that is wrong.
    """
    unknown_type = type_problem(name, node, catalog)
    if unknown_type:
        raise InvalidPipeline([unknown_type])
    node_type = catalog[node.type]
    problems: list[Problem]
    try:
        # From JSON: only from there strict parameters take a list for a tuple, or text for a date.
        return _validated(node_type.params, json.dumps(node.params))
    except ValidationError as error:
        problems = _params_problems(name, node, node_type, error.errors(include_url=False))
    except BadInput as error:
        problems = [BadParam(error.message, node=name, field=error.field)]
    except Exception as error:  # the validators are code of the package that has the node type
        message = f"its fields could not be checked ({type(error).__name__}: {error})"
        problems = [BadParam(message, node=name)]
    raise InvalidPipeline(problems)


@lru_cache(REMEMBERED_PARAMS)
def _validated(model: type[NodeParams], text: str) -> NodeParams:
    """Validate parameters once for each process: checks and plans ask for the same again."""
    return model.model_validate_json(text)


def node_problems(name: str, node: Node, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield what is wrong with a node's type and parameters, without its sweep."""
    try:
        load_params(name, node, catalog)
    except InvalidPipeline as error:
        yield from error.problems


def type_problem(name: str, node: Node, catalog: NodeTypes) -> UnknownType | None:
    """Return the problem of a node type that is not installed, or ``None``."""
    if node.type in catalog:
        return None
    near = suggest(node.type, catalog, "install the package that has it, or delete the node")
    message = f"the node type {shown(node.type)} is not installed; {near}"
    return UnknownType(message, node=name, field="type")


def unknown_node(name: str, pipeline: Pipeline, edge: tuple[str, str] | None = None) -> UnknownNode:
    """Return the problem of naming a node that does not exist."""
    near = suggest(name, pipeline.nodes, "add it, or name a node that exists")
    message = f"the node {shown(name)} does not exist; {near}"
    return UnknownNode(message, node=name if edge else None, edge=edge)


def _params_problems(
    name: str, node: Node, node_type: NodeType, errors: list[ErrorDetails]
) -> list[Problem]:
    """Return one problem for each path in the parameters."""
    # pydantic gives one error for each member of a union, all of them for the same path.
    by_path: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for error in errors:
        by_path.setdefault(path_of(error, node.params), []).append(error)
    return [_param_problem(name, node_type, path, at_path) for path, at_path in by_path.items()]


def path_of(error: ErrorDetails, params: Any) -> tuple[str | int, ...]:
    """Return where in ``params`` an error of pydantic is.

    pydantic's own location also names the members of unions that it tried; they are left out.
    """
    path: list[str | int] = []
    for step in error["loc"]:
        try:
            params = params[step]
        except (LookupError, TypeError):
            continue  # the name of a union member
        path.append(step)
    return (*path, error["loc"][-1]) if error["type"] == "missing" else tuple(path)


def _param_problem(
    name: str, node_type: NodeType, path: tuple[str | int, ...], errors: list[ErrorDetails]
) -> Problem:
    """Return the problem of one parameter, with all that pydantic says about it."""
    field = ".".join(map(str, path)) or None
    match errors[0]["type"]:
        case "missing":
            return MissingParam("it needs a value; add one", node=name, field=field)
        case "extra_forbidden":
            known = list(node_type.params.model_fields) if len(path) == 1 else []
            fields = {each: FieldName(name, each) for each in known}
            choice: str = "remove it"
            if known:
                names = Names.of(fields.values(), MAX_LISTED)
                choice = Message("its fields are {names}", names=names)
            message = Message(
                "{type} has no such field; {near}",
                type=TypeName(node_type.name),
                near=_nearest(str(path[-1]), fields, choice),
            )
            return UnknownParam(message, node=name, field=field)
    return BadParam(explain(errors), node=name, field=field)


# What nodes read from outside


def _nothing_stored(node_type: NodeType, params: NodeParams) -> PortColumns | None:
    return None


def find_source_problems(
    pipeline: Pipeline,
    catalog: NodeTypes,
    files: Files,
    stored: StoredColumns = _nothing_stored,
) -> list[Problem]:
    """Return what is wrong with files and models that nodes read, and with their columns.

    Every branch of a sweep is checked. Bypassed nodes and nodes with other problems are left out.
    ``stored`` returns the columns of a node that has read the same file before: it is not read
    again.
    """
    pipeline = active_pipeline(pipeline, catalog)
    columns = ColumnPropagation(pipeline, catalog, files, stored, every_branch=True)
    problems = [*_source_problems(pipeline, catalog, files, stored), *columns.problems]
    # Branches of a sweep often have the same problem.
    different = {(problem.node, problem.field, problem.message): problem for problem in problems}
    return list(different.values())


def _source_problems(
    pipeline: Pipeline, catalog: NodeTypes, files: Files, stored: StoredColumns
) -> Iterator[Problem]:
    """Yield what the node types' own checks find, in each branch."""
    for name, node in pipeline.nodes.items():
        node_type = catalog.get(node.type)
        if node_type is None or node_type.check is None:
            continue
        for params in _params_of_branches(name, node, catalog):
            if stored(node_type, params) is None:
                for error in _check_source(node_type, params, files):
                    yield BadSource(error.message, node=name, field=error.field)


def find_storage_problems(pipeline: Pipeline, catalog: NodeTypes) -> list[Problem]:
    """Return what cannot run on workers that see a storage instead of the workspace."""
    problems: dict[tuple[str, str | None], Problem] = {}
    for name, node in active_pipeline(pipeline, catalog).nodes.items():
        node_type = catalog.get(node.type)
        if node_type is None or node_type.check_storage is None:
            continue
        for params in _params_of_branches(name, node, catalog):
            for error in node_type.check_storage(params):
                problem = BadParam(error.message, node=name, field=error.field)
                problems.setdefault((name, error.field), problem)
    return list(problems.values())


def _params_of_branches(name: str, node: Node, catalog: NodeTypes) -> list[NodeParams]:
    """Return the node's parameters in each of its branches; nothing if they have problems."""
    from engine.sweeps import combinations, with_param_values

    try:
        if node.sweep is None:
            return [load_params(name, node, catalog)]
        loaded = []
        for values in combinations(name, node, catalog):
            params = with_param_values(node.params, values)
            branch = with_values(node, params=params, sweep=None)
            loaded.append(load_params(name, branch, catalog))
        return loaded
    except InvalidPipeline:
        return []


def _check_source(node_type: NodeType, params: NodeParams, files: Files) -> list[BadInput]:
    """Return what the check of a node type finds."""
    try:
        return list(node_type.check(params, files)) if node_type.check else []
    except BadInput as error:
        return [error]
    except Exception as error:  # the check is code of the package that has the node type
        return [BadInput(f"its source could not be checked ({type(error).__name__}: {error})")]


# Edges


def check_connect(pipeline: Pipeline, catalog: NodeTypes, edge: Edge) -> None:
    """Raise the ``Problem`` that adding ``edge`` to the pipeline would cause, if there is one.

    The rules are those of ``find_problems``, so an edge that may be added never makes a pipeline
    invalid.
    """
    for end in (edge.source, edge.target):
        node = pipeline.nodes.get(end.node)
        unknown_type = type_problem(end.node, node, catalog) if node else None
        if unknown_type:
            raise unknown_type
    edges = EdgeChecker(pipeline, catalog)
    for present in pipeline.edges:
        edges.add(present)
    for problem in edges.problems_of(edge):
        raise problem
    back = PipelineGraph(pipeline).path(edge.target.node, edge.source.node)
    if back is not None:
        message = Message(
            "it would close the cycle {cycle}; data can flow one way only", cycle=_around(back)
        )
        raise Cycle(message, node=edge.target.node, edge=edge.names)


def can_connect(pipeline: Pipeline, catalog: NodeTypes, edge: Edge) -> bool:
    """Return whether ``edge`` may be added."""
    try:
        check_connect(pipeline, catalog, edge)
    except Problem:
        return False
    return True


def connection_rules(catalog: NodeTypes) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the ports of each node type as plain data.

    An output may be connected to an input that ``accepts`` its type. The canvas needs these rules
    to refuse an edge while it is drawn; ``check_connect`` applies the same ones.
    """
    rules: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for node_type in catalog.values():
        rules[node_type.name] = {
            "inputs": [_input_rule(port) for port in node_type.inputs],
            "outputs": [_port_rule(port) for port in node_type.outputs],
        }
    return rules


def _port_rule(port: Port) -> dict[str, Any]:
    return {"name": port.name, "title": port.title or port.name, "type": port.type}


def _input_rule(port: Port) -> dict[str, Any]:
    accepts = [port.type, *port.accepts]
    return {**_port_rule(port), "accepts": accepts, "many": port.many, "required": port.required}


class EdgeChecker:
    """Checks one edge after the other, each against those that were added before it.

    An edge must connect an output of one node to an input of another. The input must exist, accept
    the type of the output, and be free unless it takes many edges.
    """

    def __init__(self, pipeline: Pipeline, catalog: NodeTypes) -> None:
        self.pipeline = pipeline
        self.types = {name: catalog.get(node.type) for name, node in pipeline.nodes.items()}
        self.sources: dict[PortRef, list[PortRef]] = {}

    def add(self, edge: Edge) -> None:
        """Add the edge, whether or not it has problems."""
        self.sources.setdefault(edge.target, []).append(edge.source)

    def problems_of(self, edge: Edge) -> Iterator[Problem]:
        """Yield what is wrong with the edge, next to those added so far."""
        source, target = edge.source.node, edge.target.node
        unknown = [name for name in (source, target) if name not in self.pipeline.nodes]
        if unknown:
            for name in dict.fromkeys(unknown):
                yield unknown_node(name, self.pipeline, edge.names)
        elif source == target:
            message = Message(
                "it leads from node {node} to itself; connect two different nodes",
                node=NodeName(source),
            )
            yield SelfEdge(message, node=source, edge=edge.names)
        else:
            yield from self._port_problems(edge)
            yield from self._occupied(edge)

    def _port_problems(self, edge: Edge) -> Iterator[Problem]:
        """Yield ports that do not exist, or have types that do not fit."""
        source_type, target_type = self.types[edge.source.node], self.types[edge.target.node]
        output = source_type.output(edge.source.port) if source_type else None
        entry = target_type.input(edge.target.port) if target_type else None
        if source_type and not output:
            yield _unknown_port(edge, edge.source, "output", source_type)
        if target_type and not entry:
            yield _unknown_port(edge, edge.target, "input", target_type)
        if target_type and output and entry and not entry.takes(output.type):
            yield _mismatch(edge, output, entry, target_type)

    def _occupied(self, edge: Edge) -> Iterator[Problem]:
        """Yield that the input has this edge already, or has no room for another."""
        present = self.sources.get(edge.target, [])
        target_type = self.types[edge.target.node]
        entry = target_type.input(edge.target.port) if target_type else None
        node, port = edge.target
        if edge.source in present:
            message = "this edge exists already; remove one of the two"
            yield DuplicateEdge(message, node=node, field=port, edge=edge.names)
        elif present and entry and not entry.many:
            message = Message(
                "the input {port} of {node} takes one edge and has {source}; "
                "remove that edge first",
                port=PortName(node, port, "input"),
                node=NodeName(node),
                source=PortName(present[0].node, present[0].port, "output", full=True),
            )
            yield PortTaken(message, node=node, field=port, edge=edge.names)


def _unknown_port(edge: Edge, end: PortRef, side: Side, node_type: NodeType) -> Problem:
    """Return the problem of a port that the node does not have, or only on the other side."""
    node, name = end
    other: Side = "output"
    ports, others = node_type.inputs, node_type.outputs
    if side == "output":
        ports, others, other = node_type.outputs, node_type.inputs, "input"
    names = {port.name: PortName(node, port.name, side) for port in ports}
    choice: str = f"it has no {side}s"
    if names:
        listing = Names.of(names.values(), MAX_LISTED)
        choice = Message(f"its {side}s are {{names}}", names=listing)
    if name in (port.name for port in others):
        message = Message(
            f"{{port}} is an {other} of {{node}}, but an {side} is needed here; {{choice}}",
            port=PortName(node, name, other),
            node=NodeName(node),
            choice=choice,
        )
    else:
        message = Message(
            f"node {{node}} has no {side} {{port}}; {{near}}",
            node=NodeName(node),
            port=PortName(node, name, side),
            near=_nearest(name, names, choice),
        )
    return UnknownPort(message, node=node, field=name, edge=edge.names)


def _nearest(word: str, known: Mapping[str, Name], otherwise: str) -> str:
    """Return ``did you mean 'table'?``, or ``otherwise`` when no known name is near."""
    near = closest(word, known)
    return Message("did you mean {name}?", name=known[near]) if near else otherwise


def _mismatch(edge: Edge, output: Port, entry: Port, target_type: NodeType) -> Problem:
    """Return the problem of an input that does not take the type of the output."""
    target = edge.target.node
    fitting = [port.name for port in target_type.inputs if port.takes(output.type)]
    taken = _types_of(entry)
    how: str = f"connect an output of type {taken}"
    if fitting:
        names = tuple(PortName(target, name, "input") for name in fitting)
        how = Message("use its input {names}", names=Names(names, " or "))
    message = Message(
        f"{{output}} is of type {output.type}, but {{input}} takes {taken}; {{how}}",
        output=PortName(edge.source.node, output.name, "output", full=True),
        input=PortName(target, entry.name, "input", full=True),
        how=how,
    )
    return TypeMismatch(message, node=edge.target.node, field=edge.target.port, edge=edge.names)


def _missing_inputs(pipeline: Pipeline, catalog: NodeTypes) -> Iterator[Problem]:
    """Yield a problem for each required input that is not connected."""
    connected = {edge.target for edge in pipeline.edges}
    for name, node in pipeline.nodes.items():
        node_type = None if node.bypass else catalog.get(node.type)
        for port in node_type.inputs if node_type else ():
            if port.required and (name, port.name) not in connected:
                message = f"it is not connected; connect an output of type {_types_of(port)}"
                yield MissingInput(message, node=name, field=port.name)


def _types_of(port: Port) -> str:
    return " or ".join((port.type, *port.accepts))


# Cycles


def _cycles(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield one problem for each group of nodes that wait for each other."""
    for cycle in PipelineGraph(pipeline).cycles():
        message = Message("{cycle} is a cycle; remove one of these edges", cycle=_around(cycle))
        yield Cycle(message, node=cycle[0])


def _around(names: list[str]) -> Message:
    """Return a cycle in a line: ``'a' → 'b' → 'c' → 'a'``."""
    listed = Names(tuple(map(NodeName, names[:MAX_LISTED])), " → ")
    others = " → …" if len(names) > MAX_LISTED else ""
    return Message(f"{{names}}{others} → {{first}}", names=listed, first=NodeName(names[0]))


# Groups


def _group_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield nodes of groups that do not exist, and nodes that are in two groups."""
    titles: dict[str, str] = {}
    for index, group in enumerate(pipeline.groups):
        for name in group.nodes:
            if name not in pipeline.nodes:
                near = suggest(name, pipeline.nodes, "remove it from the group")
                message = f"the node {shown(name)} does not exist; {near}"
                yield UnknownNode(message, field=f"groups.{index}.nodes")
            elif name in titles:
                message = (
                    f"it is in the group {shown(titles[name])} and again in the group "
                    f"{shown(group.title)}; keep it in one of them, once"
                )
                yield GroupOverlap(message, node=name)
            titles.setdefault(name, group.title)


# Columns


def columns_at(
    pipeline: Pipeline, catalog: NodeTypes, files: Files | None = None
) -> dict[str, PortColumns]:
    """Return the columns by node and output, ``None`` where they are not known before a run.

    With ``files``, the sources of nodes that read from outside are read: of a large file, the
    beginning. Nodes with problems have unknown columns; bypassed nodes have none. This function
    does not raise.
    """
    return ColumnPropagation(active_pipeline(pipeline, catalog), catalog, files).columns


def columns_for(
    pipeline: Pipeline, catalog: NodeTypes, node_id: str, files: Files
) -> Columns | None:
    """Return the columns that the form of a node offers, ``None`` if they are not known.

    A node that reads from outside has those of its source, another those of its first table input.
    The form of a bypassed node offers what it would read.
    """
    node = pipeline.nodes.get(node_id)
    node_type = catalog.get(node.type) if node else None
    if node is None or node_type is None:
        return None
    if node_type.source_columns is not None:
        return _columns_of_source(node_type, node.params, files)
    nodes = {**pipeline.nodes, node_id: with_values(node, bypass=False)}
    pipeline = active_pipeline(with_values(pipeline, nodes=nodes), catalog)
    port = next((port.name for port in node_type.inputs if port.type == "table"), None)
    sources = [edge.source for edge in pipeline.edges if edge.target == (node_id, port)]
    if len(sources) != 1:
        return None
    [source] = sources
    return columns_at(pipeline, catalog, files).get(source.node, {}).get(source.port)


def _columns_of_source(
    node_type: NodeType, params: Mapping[str, Any], files: Files
) -> Columns | None:
    """Return the columns of a source; wrong parameters take their defaults."""
    assert node_type.source_columns is not None
    # The second time without the wrong parameters: their columns help the user to fix them.
    for _ in range(2):
        try:
            loaded = node_type.params.model_validate_json(json.dumps(params))
            return node_type.source_columns(loaded, files)
        except ValidationError as error:
            wrong = {details["loc"][0] for details in error.errors() if details["loc"]}
            params = {name: value for name, value in params.items() if name not in wrong}
        except Exception:  # code of another package; the form works without columns
            return None
    return None


class ColumnPropagation:
    """Follows the columns along the edges, and collects the problems that nodes have with them.

    ``columns`` has the columns of each node's outputs, ``problems`` what is wrong. A node with a
    sweep counts with its parameters outside the sweep; with ``every_branch``, its columns are known
    only if they are the same in all branches.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        catalog: NodeTypes,
        files: Files | None,
        stored: StoredColumns = _nothing_stored,
        *,
        every_branch: bool = False,
    ) -> None:
        self.pipeline, self.catalog, self.files = pipeline, catalog, files
        self.stored, self.every_branch = stored, every_branch
        self.sources: dict[PortRef, list[PortRef]] = {}
        for edge in pipeline.edges:
            self.sources.setdefault(edge.target, []).append(edge.source)
        self.problems: list[Problem] = []
        self.columns = {
            name: _unknown_columns(catalog.get(node.type)) for name, node in pipeline.nodes.items()
        }
        # In this order the columns of a node's inputs are known before its own.
        for name in PipelineGraph(pipeline).order():
            node_type = catalog.get(pipeline.nodes[name].type)
            if node_type and node_type.output_columns:
                self.columns[name] = self._output_columns(name, node_type)

    def _output_columns(self, name: str, node_type: NodeType) -> PortColumns:
        """Return the columns of a node's outputs, if they are the same in all branches."""
        inputs = {}
        for port in node_type.inputs:
            if port.required or PortRef(name, port.name) in self.sources:
                inputs[port.name] = self._input_columns(name, port)
        branches = self._params(name)
        by_branch = [self._apply_rule(name, node_type, inputs, params) for params in branches]
        if by_branch and all(columns == by_branch[0] for columns in by_branch):
            return by_branch[0]
        return _unknown_columns(node_type)

    def _input_columns(self, name: str, port: Port) -> Columns | None:
        """Return the columns that arrive at an input; None if it takes many edges."""
        sources = self.sources.get(PortRef(name, port.name), [])
        if port.many or len(sources) != 1:
            return None
        return self.columns.get(sources[0].node, {}).get(sources[0].port)

    def _params(self, name: str) -> list[NodeParams]:
        """Return the parameters to follow: of each branch, or those outside the sweep."""
        if self.every_branch:
            return _params_of_branches(name, self.pipeline.nodes[name], self.catalog)
        try:
            return [params_of(self.pipeline, self.catalog, name)]
        except InvalidPipeline:
            return []

    def _apply_rule(
        self, name: str, node_type: NodeType, inputs: PortColumns, params: NodeParams
    ) -> PortColumns:
        """Return the columns that a node says its outputs have, or collect its problem."""
        assert node_type.output_columns is not None
        stored = self.stored(node_type, params)
        if stored is not None:
            return stored
        try:
            known = {**inputs, **self._source(node_type, params)}
            outputs = node_type.output_columns(known, params)
            columns = {port.name: outputs.get(port.name) for port in node_type.outputs}
            return {port: None if each is None else tuple(each) for port, each in columns.items()}
        except BadInput as error:
            self.problems.append(BadColumns(error.message, node=name, field=error.field))
        except Exception:  # the rule may be code of another package; the run reports its error
            pass
        return _unknown_columns(node_type)

    def _source(self, node_type: NodeType, params: NodeParams) -> PortColumns:
        """Return the columns of a node's source, as the input of its rule that holds them."""
        if node_type.source_columns is None or self.files is None:
            return {}
        try:
            return {SOURCE_COLUMNS: node_type.source_columns(params, self.files)}
        except Exception:  # the node's own check reports what is wrong with the source
            return {}


def _unknown_columns(node_type: NodeType | None) -> PortColumns:
    """Return that the columns of no output are known."""
    return {port.name: None for port in node_type.outputs} if node_type else {}
