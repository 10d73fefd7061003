"""What differs between the pipelines of runs, in people's words.

- ``changes``  one row for each setting or input that is not the same in all, and for each node that some lack
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from engine.catalogue import NodeCatalog
from engine.node_types import NodeType
from engine.pipeline import Node, NodeSettings, Pipeline, Range, Sweep
from engine.sweeps import param_label
from engine.text import readable

ABSENT, THERE, UNSET = "not there", "there", "–"
LONGEST_VALUE = 200

Settings = dict[str, str]


def changes(documents: Mapping[str, Pipeline], catalogue: NodeCatalog) -> list[dict[str, str]]:
    """One row a difference, one column for each key of ``documents``; places on the canvas and notes do not count."""
    rows = []
    for name in dict.fromkeys(name for document in documents.values() for name in document.nodes):
        nodes = {run: document.nodes.get(name) for run, document in documents.items()}
        title = _title(name, [node for node in nodes.values() if node], catalogue)
        if not all(nodes.values()):
            kinds = {run: THERE if node else ABSENT for run, node in nodes.items()}
            rows.append({"Node": title, "Setting": "Node", **kinds})
        rows += _differences(name, title, documents, catalogue)
    return rows


def _differences(
    name: str, title: str, documents: Mapping[str, Pipeline], catalogue: NodeCatalog
) -> Iterator[dict[str, str]]:
    """The settings of one node that are not the same in all pipelines that have it."""
    having = {run: document for run, document in documents.items() if name in document.nodes}
    told = {run: _settings(name, document, catalogue) for run, document in having.items()}
    for setting in dict.fromkeys(each for values in told.values() for each in values):
        shown = {run: _told_or_default(setting, values, having[run].nodes[name], catalogue)
                 for run, values in told.items()}  # fmt: skip
        if len(set(shown.values())) > 1:
            nodes = (document.nodes[name] for document in having.values())
            words = next((words for node in nodes if (words := _words(setting, node, catalogue)) != setting), setting)
            yield {"Node": title, "Setting": words, **{run: shown.get(run, ABSENT) for run in documents}}


def _title(name: str, nodes: list[Node], catalogue: NodeCatalog) -> str:
    """``Deep forest (forest)``."""
    node = nodes[0]
    title = node.label or (catalogue[node.type].title if node.type in catalogue else node.type)
    return f"{readable(title)} ({name})"


def _settings(name: str, document: Pipeline, catalogue: NodeCatalog) -> Settings:
    """Everything a node was told, flat: its type, where its inputs come from, its parameters, its limits."""
    node = document.nodes[name]
    inputs: dict[str, list[str]] = {}
    for edge in document.edges:
        if edge.target.node == name:
            inputs.setdefault(edge.target.port, []).append(str(edge.source))
    limits = {name: _text(value) for name, value in node.settings.model_dump(exclude_defaults=True).items()}
    others = {
        name: _text(value)
        for name, value in node.model_dump(exclude_defaults=True).items()
        if name not in ("type", "params", "label", "settings", "sweep")
    }
    swept = {"sweep": _sweep_words(node.sweep, catalogue.get(node.type))} if node.sweep else {}
    return (
        {"type": node.type}
        | {f"input {port}": ", ".join(sorted(sources)) for port, sources in inputs.items()}
        | dict(_flat(node.params, ""))
        | limits
        | swept
        | others
    )


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value, start=1):
                yield from _flat(each, f"{before}{name}.{number}.")
        else:
            yield f"{before}{name}", _text(value)


def _text(value: object) -> str:
    return readable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def _sweep_words(sweep: Sweep, node_type: NodeType | None) -> str:
    """``γ: 0.5, 0.9; μ: 1 to 4; 10 drawn``."""
    tried = {**sweep.grid, **sweep.random}
    parts = [f"{param_label(name, node_type)}: {_values_words(choice)}" for name, choice in tried.items()]
    return readable("; ".join([*parts, *([f"{sweep.trials} drawn"] if sweep.random else [])]), LONGEST_VALUE)


def _values_words(choice: list[Any] | Range) -> str:
    if isinstance(choice, Range):
        return f"{choice.start:g} to {choice.end:g}"
    return ", ".join(map(_text, choice))


def _told_or_default(setting: str, values: Settings, node: Node, catalogue: NodeCatalog) -> str:
    if setting in values:
        return values[setting]
    field = _field(setting, node, catalogue)
    default = UNSET if field is None else field.get_default(call_default_factory=True, validated_data={})
    if default is None or default is PydanticUndefined or not isinstance(default, str | int | float | bool):
        return UNSET
    return _text(default)


def _words(setting: str, node: Node, catalogue: NodeCatalog) -> str:
    """The title that the form has for a setting."""
    first, *rest = setting.split(".")
    field = _field(first, node, catalogue)
    if field is None or not field.title:
        return (
            setting.capitalize()
            if setting in ("type", "sweep")
            else setting[:1].upper() + setting[1:]
            if " " in setting
            else setting
        )
    return " · ".join([field.title, *rest])


def _field(setting: str, node: Node, catalogue: NodeCatalog) -> FieldInfo | None:
    params = catalogue[node.type].params.model_fields if node.type in catalogue else {}
    return params.get(setting) or NodeSettings.model_fields.get(setting)
