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

from engine.node_types import NodeType
from engine.pipeline import Node, NodeSettings, Pipeline, Sweep, changed
from engine.problems import BadSweep
from engine.sweeps import with_param_values
from engine.validation import Types, unknown_node


def set_name(document: Pipeline, name: str) -> Pipeline:
    """Name the pipeline."""
    return changed(document, name=name)


def set_description(document: Pipeline, description: str) -> Pipeline:
    """Describe the pipeline."""
    return changed(document, description=description)


def set_label(document: Pipeline, node_id: str, label: str) -> Pipeline:
    """Set the title that the canvas shows on a node."""
    return _with_node(document, node_id, label=label)


def set_params(document: Pipeline, catalogue: Types, node_id: str, params: Mapping[str, JsonValue]) -> Pipeline:
    """Replace all parameters of a node; those that equal the default are left out."""
    node_type = catalogue.get(_existing(document, node_id).type)
    return _with_node(document, node_id, params=without_defaults(node_type, params))


def revise_params(
    document: Pipeline,
    catalogue: Types,
    node_id: str,
    revise: Callable[[dict[str, Any]], Mapping[str, JsonValue]],
) -> Pipeline:
    """Change the parameters that a node has now."""
    params = revise(dict(_existing(document, node_id).params))
    return set_params(document, catalogue, node_id, params)


def set_settings(document: Pipeline, node_id: str, settings: NodeSettings) -> Pipeline:
    """Set how the engine runs a node: retries, timeout and memory."""
    return _with_node(document, node_id, settings=settings)


def set_sweep(document: Pipeline, node_id: str, sweep: Sweep | None) -> Pipeline:
    """Let a node try several parameter values; ``None`` ends that."""
    return _with_node(document, node_id, sweep=sweep)


def revise_sweep(document: Pipeline, node_id: str, revise: Callable[[Sweep | None], Sweep | None]) -> Pipeline:
    """Change the sweep that a node has now."""
    return set_sweep(document, node_id, revise(_existing(document, node_id).sweep))


def apply_branch(document: Pipeline, catalogue: Types, values: Mapping[str, Mapping[str, JsonValue]]) -> Pipeline:
    """Give nodes the values of one branch of their sweeps, and end these sweeps."""
    for name, chosen in values.items():
        try:
            params = with_param_values(_existing(document, name).params, dict(chosen))
        except LookupError:
            message = "the node has no such parameter any more; run the sweep again"
            raise BadSweep(message, node=name, field="sweep") from None
        document = set_sweep(set_params(document, catalogue, name, params), name, None)
    return document


def without_defaults(node_type: NodeType | None, params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the parameters that differ from the default, in the order of the node type.

    All of them are returned if the type is not known.
    """
    if node_type is None:
        return dict(params)
    fields = node_type.params.model_fields
    ordered = {name: params[name] for name in (*fields, *params) if name in params}
    return {
        name: value for name, value in ordered.items() if name not in fields or not _is_default(fields[name], value)
    }


def _is_default(known: FieldInfo, value: JsonValue) -> bool:
    if known.is_required() or known.default_factory_takes_validated_data:
        return False
    return _same(to_jsonable_python(known.get_default(call_default_factory=True)), value)


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: 1 equals 1.0, but neither equals true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _existing(document: Pipeline, node_id: str) -> Node:
    if node_id not in document.nodes:
        raise unknown_node(node_id, document)
    return document.nodes[node_id]


def _with_node(document: Pipeline, node_id: str, **values: object) -> Pipeline:
    node = changed(_existing(document, node_id), ("nodes", node_id), **values)
    return changed(document, nodes={**document.nodes, node_id: node})
