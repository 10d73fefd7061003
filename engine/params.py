"""A node's parameters, checked by its type's model.

- ``params_of``, ``load_params``  a node's parameters as its type's model
- ``node_problems``  what is wrong with a node's type and parameters
- ``place_of``       where in the parameters an error of pydantic is
- ``unknown_node``   the problem of naming a node that is not there
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engine.errors import BadInput
from engine.node_types import NodeParams, NodeType, NodeTypes
from engine.pipeline import Node, Pipeline
from engine.problems import BadParam, InvalidPipeline, MissingParam, Problem, UnknownNode, UnknownParam, UnknownType
from engine.text import explain, listed, shown, suggest

Types = NodeTypes


def params_of(document: Pipeline, catalogue: Types, node_id: str) -> NodeParams:
    """The node's parameters, defaults filled in; ``InvalidPipeline`` if they, the type or the node are not there."""
    node = document.nodes.get(node_id)
    if node is None:
        raise InvalidPipeline([unknown_node(node_id, document)])
    return load_params(node_id, node, catalogue)


def load_params(name: str, node: Node, catalogue: Types) -> NodeParams:
    """The parameters of a node, whether or not it is in a document."""
    problem = type_problem(name, node, catalogue)
    if problem:
        raise InvalidPipeline([problem])
    return _load_params(name, node, catalogue[node.type])


def unknown_node(name: str, document: Pipeline, edge: tuple[str, str] | None = None) -> UnknownNode:
    """The problem of naming a node that is not there."""
    near = suggest(name, document.nodes, "add it, or name one that is there")
    return UnknownNode(f"there is no node {shown(name)}; {near}", node=name if edge else None, edge=edge)


def node_problems(name: str, node: Node, catalogue: Types) -> Iterator[Problem]:
    """What is wrong with a node's type and parameters; its sweep is another matter."""
    try:
        load_params(name, node, catalogue)
    except InvalidPipeline as found:
        yield from found.problems


def type_problem(name: str, node: Node, catalogue: Types) -> UnknownType | None:
    """The problem of a type that is not installed, if it is that."""
    if node.type in catalogue:
        return None
    near = suggest(node.type, catalogue, "`sylva nodes` lists those that are installed")
    return UnknownType(f"there is no node type {shown(node.type)}; {near}", node=name, field="type")


def _load_params(name: str, node: Node, node_type: NodeType) -> NodeParams:
    # As JSON, since strict parameters take a list for a tuple or a text for a date from JSON only.
    text = json.dumps(node.params)
    try:
        return node_type.params.model_validate_json(text)
    except ValidationError as error:
        found = _params_problems(name, node, node_type, error.errors(include_url=False))
    except BadInput as error:
        found = [BadParam(error.message, node=name, field=error.field)]
    except Exception as error:  # a validator is a package's own code
        found = [BadParam(f"its fields could not be checked ({type(error).__name__}: {error})", node=name)]
    raise InvalidPipeline(found)


def _params_problems(name: str, node: Node, node_type: NodeType, errors: list[ErrorDetails]) -> list[Problem]:
    """One problem for each place in the parameters; a union gives several errors for the same place."""
    places: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for error in errors:
        places.setdefault(place_of(error, node.params), []).append(error)
    return [_param_problem(name, node_type, place, found) for place, found in places.items()]


def place_of(error: ErrorDetails, params: Any) -> tuple[str | int, ...]:
    """Where in the parameters an error is: pydantic's location without the names of union branches."""
    place: list[str | int] = []
    for step in error["loc"]:
        try:
            params = params[step]
        except (LookupError, TypeError):
            continue  # the name of a branch
        place.append(step)
    return (*place, error["loc"][-1]) if error["type"] == "missing" else tuple(place)


def _param_problem(name: str, node_type: NodeType, place: tuple[str | int, ...], errors: list[ErrorDetails]) -> Problem:
    field = ".".join(map(str, place)) or None
    match errors[0]["type"]:
        case "missing":
            return MissingParam("a value is needed; add it", node=name, field=field)
        case "extra_forbidden":
            known = list(node_type.params.model_fields) if len(place) == 1 else []
            otherwise = f"there are {listed(known, most=12)}" if known else "remove it"
            near = suggest(str(place[-1]), known, otherwise)
            return UnknownParam(f"'{node_type.name}' has no such field; {near}", node=name, field=field)
    return BadParam(explain(errors), node=name, field=field)
