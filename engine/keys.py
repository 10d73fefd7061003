"""The name of the result a node would have.

The key covers everything the result depends on and nothing else: the node's type and its version, its
parameters with defaults filled in, the content of what it reads, and the identity of what it reads from
outside. Content, not history: a step upstream that ran again with the same outcome changes no key below it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.node_types import NodeParams, NodeType


def node_key(
    node_type: NodeType,
    params: NodeParams,
    inputs: Mapping[str, Sequence[str]],
    sources: Mapping[str, Sequence[str]],
    fingerprint: str = "",
) -> str:
    """Hash of what the result depends on. ``inputs`` are content digests, ``sources`` the nodes they come from."""
    many = {port.name for port in node_type.inputs if port.many}
    about: dict[str, Any] = {
        "type": node_type.name,
        "version": node_type.version,
        "params": params.model_dump(mode="json"),
        "inputs": {port: list(digests) for port, digests in inputs.items()},
        # A node that gathers many inputs may tell them apart by where they come from.
        "sources": {port: list(nodes) for port, nodes in sources.items() if port in many},
        "outside": fingerprint,
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
