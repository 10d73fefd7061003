"""The JSON schema of pipeline documents, for editors and checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from engine.node_types import NodeType
from engine.pipeline import Pipeline


def json_schema(catalogue: Mapping[str, NodeType]) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a document; each node's ``params`` are those of its type."""
    schema = Pipeline.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Sylva pipeline"
    schema["required"] = ["format", "version", "name", "nodes"]
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (node_type.params, "validation") for node_type in catalogue.values()
    ]
    params, defined = models_json_schema(models, ref_template="#/$defs/params.{model}")
    schema["$defs"] |= {f"params.{name}": model for name, model in defined.get("$defs", {}).items()}
    schema["properties"]["nodes"]["additionalProperties"] = False
    node = schema["$defs"]["Node"]
    node["properties"]["type"]["enum"] = sorted(catalogue)
    if catalogue:  # a schema may not have an empty allOf
        node["allOf"] = [_params_rule(one, params[one.params, "validation"]) for one in catalogue.values()]
    return schema


def _params_rule(node_type: NodeType, params: Mapping[str, Any]) -> dict[str, Any]:
    needed = any(field.is_required() for field in node_type.params.model_fields.values())
    return {
        "if": {"properties": {"type": {"const": node_type.name}}, "required": ["type"]},
        "then": {"properties": {"params": params}} | ({"required": ["params"]} if needed else {}),
    }
