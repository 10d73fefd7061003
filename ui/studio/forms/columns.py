"""The columns a node's form offers, known before any run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from engine.files import Files
from engine.node_types import Columns, NodeType
from engine.pipeline import Pipeline
from engine.validation import Types, columns_at


def columns_for(document: Pipeline, catalogue: Types, node_id: str, files: Files) -> Columns | None:
    """What its source tells, for a node that reads from outside; else what arrives at its first table input."""
    node = document.nodes.get(node_id)
    node_type = catalogue.get(node.type) if node else None
    if node is None or node_type is None:
        return None
    if node_type.source is not None:
        return _outside(node_type, node.params, files)
    port = next((port.name for port in node_type.inputs if port.type == "table"), None)
    feeds = [edge.source for edge in document.edges if edge.target == (node_id, port)]
    if len(feeds) != 1:
        return None
    return columns_at(document, catalogue, files).get(feeds[0].node, {}).get(feeds[0].port)


def _outside(node_type: NodeType, params: Mapping[str, Any], files: Files) -> Columns | None:
    """What the source tells, with wrong fields left at their defaults: the columns help to mend them."""
    assert node_type.source is not None
    for _ in range(2):
        try:
            return node_type.source(node_type.params.model_validate_json(json.dumps(params)), files)
        except ValidationError as error:
            wrong = {found["loc"][0] for found in error.errors() if found["loc"]}
            params = {name: value for name, value in params.items() if name not in wrong}
        except Exception:  # a source is a package's own code; without it the form still works
            return None
    return None
