"""Find the columns that a node's form offers, before any run."""

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
    """Return the columns to choose from in a node's form, ``None`` if they are not known.

    For a node that reads a file these are the columns of the file; for another node, those that
    arrive at its first table input.
    """
    node = document.nodes.get(node_id)
    node_type = catalogue.get(node.type) if node else None
    if node is None or node_type is None:
        return None
    if node_type.source is not None:
        return _source_columns(node_type, node.params, files)
    port = next((port.name for port in node_type.inputs if port.type == "table"), None)
    feeds = [edge.source for edge in document.edges if edge.target == (node_id, port)]
    if len(feeds) != 1:
        return None
    return columns_at(document, catalogue, files).get(feeds[0].node, {}).get(feeds[0].port)


def _source_columns(node_type: NodeType, params: Mapping[str, Any], files: Files) -> Columns | None:
    """Return the columns of what the node reads.

    A wrong parameter counts with its default: the user needs the columns to fix it.
    """
    assert node_type.source is not None
    for _ in range(2):
        try:
            return node_type.source(node_type.params.model_validate_json(json.dumps(params)), files)
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
            params = {name: value for name, value in params.items() if name not in wrong}
        except Exception:  # code of another package; the form also works without columns
            return None
    return None
