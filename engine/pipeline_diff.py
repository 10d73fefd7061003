"""Find what differs between pipelines, in the words of the forms.

- ``changes``  one row for each parameter, input or setting that is not the same in all of them, and
  for each node that some of them do not have
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from engine.node_types import NodeType, NodeTypes, node_title
from engine.pipeline import Node, NodeSettings, Pipeline, Range, Sweep
from engine.sweeps import Choice, param_label
from engine.text import readable

ABSENT, PRESENT, UNSET = "missing", "present", "–"
LONGEST_VALUE = 200

Settings = dict[str, str]
"""Everything that is set for a node, by name: type, inputs, parameters, limits, sweep."""


def changes(pipelines: Mapping[str, Pipeline], catalog: NodeTypes) -> list[dict[str, str]]:
    """Return one row for each difference, with one column for each key of ``pipelines``.

    ``pipelines`` are by the title of their column. A row has the keys ``Node`` and ``Setting`` and
    one for each pipeline, all of them texts for a table. Positions on the canvas, notes and
    groups do not count.
    """
    names = dict.fromkeys(name for pipeline in pipelines.values() for name in pipeline.nodes)
    rows = []
    for name in names:
        nodes = {key: pipeline.nodes.get(name) for key, pipeline in pipelines.items()}
        first = next(node for node in nodes.values() if node)
        title = f"{readable(node_title(first, catalog))} ({name})"
        # A node that some pipelines do not have is one row, besides the rows of its settings.
        if not all(nodes.values()):
            presence = {key: PRESENT if node else ABSENT for key, node in nodes.items()}
            rows.append({"Node": title, "Setting": "Node", **presence})
        rows += _differences(name, title, pipelines, catalog)
    return rows


def _differences(
    name: str, title: str, pipelines: Mapping[str, Pipeline], catalog: NodeTypes
) -> Iterator[dict[str, str]]:
    """Yield a row for each setting of a node that is not the same wherever the node is."""
    having = {key: pipeline for key, pipeline in pipelines.items() if name in pipeline.nodes}
    nodes = {key: pipeline.nodes[name] for key, pipeline in having.items()}
    settings = {key: _settings(name, pipeline, catalog) for key, pipeline in having.items()}
    for setting in dict.fromkeys(each for values in settings.values() for each in values):
        values = dict.fromkeys(pipelines, ABSENT)
        for key, node in nodes.items():
            values[key] = _value_or_default(setting, settings[key], node, catalog)
        if len({values[key] for key in nodes}) > 1:
            words = _setting_title(setting, nodes.values(), catalog)
            yield {"Node": title, "Setting": words, **values}


def _settings(name: str, pipeline: Pipeline, catalog: NodeTypes) -> Settings:
    """Return everything that is set for a node."""
    node = pipeline.nodes[name]
    settings = {"type": node.type}
    inputs: dict[str, list[str]] = {}
    for edge in pipeline.edges:
        if edge.target.node == name:
            inputs.setdefault(edge.target.port, []).append(str(edge.source))
    for port, sources in inputs.items():
        settings[f"input {port}"] = ", ".join(sorted(sources))
    settings |= dict(_flat(node.params, ""))
    for limit, value in node.settings.model_dump(exclude_defaults=True).items():
        settings[limit] = _text(value)
    if node.bypass:
        settings["bypass"] = "yes"
    if node.sweep:
        settings["sweep"] = _sweep_text(node.sweep, catalog.get(node.type))
    return settings


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each parameter; ``learners.2.kind`` is inside of a list."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        # Such a list is one of objects, like the learners of a deep forest; others are one value.
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value, start=1):
                yield from _flat(each, f"{prefix}{name}.{number}.")
        else:
            yield f"{prefix}{name}", _text(value)


def _text(value: object) -> str:
    """Return a value as a table shows it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return readable(text, LONGEST_VALUE)


def _sweep_text(sweep: Sweep, node_type: NodeType | None) -> str:
    """Return a sweep in a line: ``γ: 0.5, 0.9; μ: 1 to 4; 10 drawn``."""
    parts = []
    for name, choice in {**sweep.grid, **sweep.random}.items():
        parts.append(f"{param_label(name, node_type)}: {_choice_text(choice)}")
    if sweep.random:
        parts.append(f"{sweep.trials} drawn")
    return readable("; ".join(parts), LONGEST_VALUE)


def _choice_text(choice: Choice) -> str:
    """Return the values that a sweep tries: a range, or a list."""
    if isinstance(choice, Range):
        return f"{choice.start:g} to {choice.end:g}"
    return ", ".join(map(_text, choice))


def _value_or_default(setting: str, settings: Settings, node: Node, catalog: NodeTypes) -> str:
    """Return the value of a setting, or the default of its parameter if it is not set.

    So a default that one pipeline writes out is not a difference. A default that is a list or an
    object is shown as not set.
    """
    if setting in settings:
        return settings[setting]
    field = _field(setting, node, catalog)
    default = field.get_default(call_default_factory=True, validated_data={}) if field else None
    return _text(default) if isinstance(default, str | int | float | bool) else UNSET


def _setting_title(setting: str, nodes: Iterable[Node], catalog: NodeTypes) -> str:
    """Return the title of a setting in the form; its name, if no form has it."""
    first, *rest = setting.split(".")
    for node in nodes:
        field = _field(first, node, catalog)
        if field is not None and field.title:
            return " · ".join([field.title, *rest])
    if " " in setting or setting in ("type", "bypass", "sweep"):
        return setting[:1].upper() + setting[1:]
    return setting


def _field(setting: str, node: Node, catalog: NodeTypes) -> FieldInfo | None:
    """Return the field that a setting belongs to: a parameter, or a setting of the engine."""
    node_type = catalog.get(node.type)
    params = node_type.params.model_fields if node_type else {}
    return params.get(setting) or NodeSettings.model_fields.get(setting)
