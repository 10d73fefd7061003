"""Change a pipeline: each function returns a new one and leaves the old one as it is.

Wrong parameter values are stored as they are, so that the form can show them next to the problem;
``find_problems`` reports them. A node that does not exist raises ``UnknownNode``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from engine.errors import BadSweep
from engine.node_types import NodeType, NodeTypes
from engine.pipeline import Node, NodeSettings, Pipeline, Sweep
from engine.pipeline_file import with_values
from engine.sweeps import with_param_values
from engine.validation import unknown_node


def set_name(pipeline: Pipeline, name: str) -> Pipeline:
    """Name the pipeline."""
    return with_values(pipeline, name=name)


def set_description(pipeline: Pipeline, description: str) -> Pipeline:
    """Describe the pipeline."""
    return with_values(pipeline, description=description)


def set_label(pipeline: Pipeline, node_id: str, label: str) -> Pipeline:
    """Set the title that the canvas shows on a node."""
    return _with_node(pipeline, node_id, label=label)


def set_params(
    pipeline: Pipeline, catalog: NodeTypes, node_id: str, params: Mapping[str, JsonValue]
) -> Pipeline:
    """Replace all parameters of a node; those that equal the default are left out."""
    node_type = catalog.get(_existing(pipeline, node_id).type)
    return _with_node(pipeline, node_id, params=without_defaults(node_type, params))


def revise_params(
    pipeline: Pipeline,
    catalog: NodeTypes,
    node_id: str,
    revise: Callable[[dict[str, Any]], Mapping[str, JsonValue]],
) -> Pipeline:
    """Change the parameters that a node has now."""
    params = revise(dict(_existing(pipeline, node_id).params))
    return set_params(pipeline, catalog, node_id, params)


def set_settings(pipeline: Pipeline, node_id: str, settings: NodeSettings) -> Pipeline:
    """Set how the engine runs a node: retries, timeout and memory."""
    return _with_node(pipeline, node_id, settings=settings)


def set_sweep(pipeline: Pipeline, node_id: str, sweep: Sweep | None) -> Pipeline:
    """Let a node try several parameter values; ``None`` ends that."""
    return _with_node(pipeline, node_id, sweep=sweep)


def revise_sweep(
    pipeline: Pipeline, node_id: str, revise: Callable[[Sweep | None], Sweep | None]
) -> Pipeline:
    """Change the sweep that a node has now."""
    return set_sweep(pipeline, node_id, revise(_existing(pipeline, node_id).sweep))


def apply_branch(
    pipeline: Pipeline, catalog: NodeTypes, values: Mapping[str, Mapping[str, JsonValue]]
) -> Pipeline:
    """Give nodes the values of one branch of their sweeps, and end these sweeps."""
    for name, node_values in values.items():
        try:
            params = with_param_values(_existing(pipeline, name).params, dict(node_values))
        except LookupError:
            message = "the node no longer has this parameter; run the sweep again"
            raise BadSweep(message, node=name, field="sweep") from None
        pipeline = set_sweep(set_params(pipeline, catalog, name, params), name, None)
    return pipeline


def without_defaults(
    node_type: NodeType | None, params: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the parameters that differ from the default, in the order of the node type.

    All of them are returned if the type is not known.
    """
    if node_type is None:
        return dict(params)
    fields = node_type.params.model_fields
    # Unknown names come last; ``find_problems`` reports them.
    ordered = {name: params[name] for name in (*fields, *params) if name in params}
    return {
        name: value
        for name, value in ordered.items()
        if name not in fields or not _is_default(fields[name], value)
    }


def _is_default(field: FieldInfo, value: JsonValue) -> bool:
    """Return whether a value is the default, which a pipeline need not write."""
    if field.is_required() or field.default_factory_takes_validated_data:
        return False
    return _same(to_jsonable_python(field.get_default(call_default_factory=True)), value)


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: 1 equals 1.0, but neither equals true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _existing(pipeline: Pipeline, node_id: str) -> Node:
    """Return a node; raise ``UnknownNode`` if the pipeline does not have it."""
    if node_id not in pipeline.nodes:
        raise unknown_node(node_id, pipeline)
    return pipeline.nodes[node_id]


def _with_node(pipeline: Pipeline, node_id: str, **values: object) -> Pipeline:
    """Return the pipeline with other values in one node, checked like a file that is read."""
    node = with_values(_existing(pipeline, node_id), ("nodes", node_id), **values)
    return with_values(pipeline, nodes={**pipeline.nodes, node_id: node})
