"""Check a node type, built in or of another package: the suite that every node type must pass.

def test_my_node(tmp_path):
    check_node(NODE, tmp_path, {"table": table}, Params(columns=["age"]))
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port
from engine.store import Artifact, Store
from engine.text import listed
from engine.values import VALUES, Table
from engine.workspace import Files, Workspace

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
PORT_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_node(
    node_type: NodeType,
    folder: Path,
    inputs: Mapping[str, Any] | None = None,
    params: NodeParams | None = None,
) -> None:
    """Raise ``AssertionError`` with everything that is wrong with a node type.

    Without ``inputs`` only its description is checked. With them the node runs twice in ``folder``,
    an empty folder. It must give the ports and columns that it promises, values that can be stored
    and read back, and the same bytes both times.
    """
    problems = [*_description_problems(node_type), *_param_problems(node_type.params)]
    if inputs is not None and not problems:
        problems = list(_run_problems(node_type, folder, inputs, params or node_type.params()))
    assert not problems, f"Node type '{node_type.name}': " + "; ".join(problems)


def _description_problems(node_type: NodeType) -> Iterator[str]:
    """Yield what is wrong with the names, the version, the ports and the imports."""
    if not NAME.fullmatch(node_type.name):
        yield f"the name '{node_type.name}' is not lower-case-with-dashes"
    if not node_type.title or not node_type.summary.endswith("."):
        yield "it needs a title, and a summary that is a sentence"
    if node_type.version < 1:
        yield "its version must be 1 or more"
    yield from _port_problems("input", node_type.inputs)
    yield from _port_problems("output", node_type.outputs)
    for module in node_type.imports:
        if find_spec(module.partition(".")[0]) is None:
            yield f"it needs the module '{module}', which is not installed"


def _port_problems(side: str, ports: tuple[Port, ...]) -> Iterator[str]:
    """Yield what is wrong with the ports of one side."""
    names = [port.name for port in ports]
    if len(set(names)) != len(names):
        yield f"two {side} ports have the same name"
    for port in ports:
        if not PORT_NAME.fullmatch(port.name):
            name = f"the {side} port name '{port.name}'"
            yield f"{name} may have only lower-case letters, digits and '_'"
        if unknown := {port.type, *port.accepts} - set(VALUES):
            yield f"the {side} port '{port.name}' has an unknown type: {listed(sorted(unknown))}"


def _param_problems(params: type[NodeParams]) -> Iterator[str]:
    """Yield what is wrong with the parameters.

    Forms need titles and descriptions. Pipeline files need values that survive JSON.
    """
    for name, field in params.model_fields.items():
        if not field.title or not field.description:
            yield f"the parameter '{name}' needs a title and a description"
    json.dumps(params.model_json_schema())
    if not any(field.is_required() for field in params.model_fields.values()):
        defaults = params()
        # A default that changes would give the node another cache key in the next run.
        if params.model_validate_json(defaults.model_dump_json()) != defaults:
            yield "its default parameters change when they are written to JSON and read back"


def _run_problems(
    node_type: NodeType, folder: Path, inputs: Mapping[str, Any], params: NodeParams
) -> Iterator[str]:
    """Yield what is wrong with the outputs of two runs with the same inputs.

    The cache relies on this: results of a node are used again for the same inputs and parameters.
    """
    first, values = _run(node_type, folder / "first", inputs, params)
    promised = {port.name for port in node_type.outputs}
    if set(values) != promised:
        yield f"it gave outputs {sorted(values)} but promises {sorted(promised)}"
        return
    second, _ = _run(node_type, folder / "second", inputs, params)
    for port, output in first.items():
        if output.digest != second[port].digest:
            yield f"its output '{port}' differs between two runs with the same inputs"
    if node_type.output_columns:
        known = {name: _columns(value) for name, value in inputs.items() if value is not None}
        columns = node_type.output_columns(known, params)
        for port in promised & set(columns):
            known_columns, value = columns[port], values[port]
            if isinstance(value, Table) and known_columns not in (None, value.columns):
                yield f"the columns it promises for '{port}' are not those it gave"


def _columns(value: Any) -> Columns | None:
    """Return the columns of a table; None for any other value."""
    return value.columns if isinstance(value, Table) else None


def _run(
    node_type: NodeType, folder: Path, inputs: Mapping[str, Any], params: NodeParams
) -> tuple[dict[str, Artifact], dict[str, Any]]:
    """Run the node, store its outputs and read them back; return artifacts and values."""
    workspace = Workspace(folder).create()
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    # A port that takes many edges gets a list; each value needs the id of a node that made it.
    sources = {}
    for port, value in inputs.items():
        if isinstance(value, list):
            sources[port] = [f"{port}{index}" for index in range(len(value))]
    context = NodeContext(
        node=node_type.name,
        key="0" * 64,
        files=Files(folder),
        checkpoint=checkpoint,
        sources=sources,
    )
    by_port = {port.name: inputs.get(port.name) for port in node_type.inputs}
    values = node_type.run(context, by_port, params)
    store = Store(workspace)
    stored = {}
    for output in node_type.outputs:
        if output.name in values:
            stored[output.name] = store.put(output.type, values[output.name])
            store.open(stored[output.name])
    return stored, values
