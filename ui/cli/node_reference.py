"""Describe node types: as data, as text and as the page ``docs/nodes.md``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from engine.node_types import FORM, NodeType, Port
from ui.cli.output import print_table


def describe(node_type: NodeType) -> dict[str, Any]:
    """Return a node type as plain data; its parameters are a JSON schema."""
    return {
        "name": node_type.name,
        "title": node_type.title,
        "category": node_type.category,
        "summary": node_type.summary,
        "version": node_type.version,
        "inputs": [vars(port) for port in node_type.inputs],
        "outputs": [vars(port) for port in node_type.outputs],
        "params": node_type.params.model_json_schema(),
    }


def print_type(node_type: NodeType) -> None:
    """Print a node type as text: its ports and parameters."""
    print(f"{node_type.title} ({node_type.name}): {node_type.summary}")
    print("inputs:  " + (", ".join(map(_port, node_type.inputs)) or "none"))
    print("outputs: " + (", ".join(map(_port, node_type.outputs)) or "none"))
    print()
    print_table(list(_params(node_type)))


def markdown_page(node_types: Iterable[NodeType]) -> str:
    """Return the reference page of these types in Markdown, by category."""
    lines = [
        "# Node reference",
        "",
        "Made from the node types themselves by `sylva nodes --markdown`.",
        "",
    ]
    by_category: dict[str, list[NodeType]] = {}
    for node_type in node_types:
        by_category.setdefault(node_type.category, []).append(node_type)
    # In the order in which a pipeline uses them.
    for category in ("Data", "Prepare", "Train", "Predict", "Evaluate", "Save"):
        if category in by_category:
            lines += [f"## {category}", ""]
            for node_type in by_category[category]:
                lines += _section(node_type)
    return "\n".join(lines)


def _section(node_type: NodeType) -> Iterator[str]:
    """Yield the lines of one type."""
    yield from (f"### {node_type.title} — `{node_type.name}`", "", node_type.summary, "")
    yield f"Inputs: {', '.join(map(_port, node_type.inputs)) or 'none'}. "
    yield f"Outputs: {', '.join(map(_port, node_type.outputs)) or 'none'}."
    yield ""
    params = list(_params(node_type))
    if params:
        yield "| setting | default | what it does |"
        yield "|---|---|---|"
        for row in params:
            what = row["what it does"].replace("|", "\\|")
            yield f"| `{row['setting']}` | {_code(row['default'])} | {what} |"
        yield ""


def _code(text: str) -> str:
    """Return text as code; nothing for an empty text."""
    return f"`{text}`" if text else ""


def _params(node_type: NodeType) -> Iterator[dict[str, str]]:
    """Yield the parameters of a type as rows."""
    for name, field in node_type.params.model_fields.items():
        default = "required"
        if not field.is_required():
            default = _default(field.get_default(call_default_factory=True))
        what = f"{field.title}: {field.description}" if field.title else field.description or ""
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        hint: Any = extra.get(FORM, {})
        values = [f"`{value}` ({words})" for value, words in hint.get("words", {}).items()]
        if values:
            what = f"{what} Values: {', '.join(values)}."
        yield {"setting": name, "default": default, "what it does": what}


def _default(value: Any) -> str:
    """Return a default as JSON, as it is written in a pipeline; empty for no default."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _port(port: Port) -> str:
    """Return a port in words: ``table (table, optional)``."""
    words = [" or ".join((port.type, *port.accepts))]
    words += ["any number"] if port.many else []
    words += [] if port.required else ["optional"]
    return f"{port.name} ({', '.join(words)})"
