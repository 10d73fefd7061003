"""Find what differs between pipelines, in the words of the forms.

- ``changes``      one row for each parameter, input or setting that is not the same in all of them,
  and for each node that some of them do not have
- ``settings_of``  what is set for one node
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.node_types import FORM, NodeType, NodeTypes, node_title
from engine.pipeline import Node, NodeSettings, Pipeline, Range, Sweep
from engine.sweeps import models_in, param_label
from engine.text import readable

ABSENT, PRESENT, UNSET = "missing", "present", "–"
LONGEST_VALUE = 200

Settings = dict[str, str]
"""Everything that is set for a node, by name: type, inputs, parameters, limits, sweep."""

Match = dict[str, str]
"""The nodes that are compared with each other, by the key of their pipeline."""

Words = Callable[[str], str]
Presets = Callable[[Node], Mapping[str, Any]]


def no_preset(node: Node) -> Mapping[str, Any]:
    """Return the values that a preset gives the parameters of a node: none."""
    return {}


def changes(
    pipelines: Mapping[str, Pipeline],
    catalog: NodeTypes,
    *,
    source_title: Words = str,
    preset: Presets = no_preset,
) -> list[dict[str, str]]:
    """Return one row for each difference, with one column for each key of ``pipelines``.

    A row has the keys ``Node`` and ``Setting`` and one for each pipeline, all of them texts for a
    table. Nodes are compared that have the same label or the same place among their neighbours;
    their ids do not count. Positions on the canvas, notes and groups do not count either. Values
    are those that count in a run: where nothing is set, that of the preset, else the default.

    Parameters
    ----------
    pipelines : by the title of their column
    source_title : returns how the screen names what a node loads
    preset : returns the values of a node's preset, by the names of its parameters
    """
    matches = list(_matches(pipelines))
    titles = _titles(matches, pipelines, catalog)
    # Inputs are compared by the titles of the nodes that they come from.
    named: dict[str, dict[str, str]] = {key: {} for key in pipelines}
    for match, title in zip(matches, titles, strict=True):
        for key, name in match.items():
            named[key][name] = title
    rows = []
    for match, title in zip(matches, titles, strict=True):
        # A node that some pipelines do not have is one row, besides the rows of its settings.
        if len(match) < len(pipelines):
            presence = {key: PRESENT if key in match else ABSENT for key in pipelines}
            rows.append({"Node": title, "Setting": "Node", **presence})
        readers = {
            key: _Reader(pipelines[key], name, named[key], catalog, source_title)
            for key, name in match.items()
        }
        written = {name for reader in readers.values() for name in reader.node.params}
        for reader in readers.values():
            # A preset gives many values. One that no pipeline sets is not a change of its own.
            values = preset(reader.node)
            reader.preset = {name: values[name] for name in values if name in written}
        for setting, values in _differences(readers):
            absent = dict.fromkeys(pipelines, ABSENT)
            rows.append({"Node": title, "Setting": setting, **absent, **values})
    return rows


def settings_of(
    name: str, pipeline: Pipeline, catalog: NodeTypes, *, source_title: Words = str
) -> Settings:
    """Return the parameters, limits and sweep that are set for a node, by their titles."""
    reader = _Reader(pipeline, name, {}, catalog, source_title)
    return {reader.title(setting): value for setting, value in reader.own_settings().items()}


def _differences(readers: Mapping[str, _Reader]) -> Iterator[tuple[str, Settings]]:
    """Yield the title and the values of each setting that is not the same wherever a node is."""
    settings = {key: reader.settings() for key, reader in readers.items()}
    for setting in dict.fromkeys(each for values in settings.values() for each in values):
        values = {
            key: settings[key].get(setting) or reader.default(setting)
            for key, reader in readers.items()
        }
        if len(set(values.values())) > 1:
            titles = [reader.title(setting) for reader in readers.values()]
            # A node of another type may not have the setting in its form.
            yield next((title for title in titles if title != setting), setting), values


# Which nodes are compared


def _matches(pipelines: Mapping[str, Pipeline]) -> Iterator[Match]:
    """Yield the nodes that belong together, in the order of the pipelines."""
    matches: list[Match] = []
    for key, pipeline in pipelines.items():
        found = _partners(matches, key, pipeline, pipelines)
        for name in pipeline.nodes:
            if name in found:
                matches[found[name]][key] = name
            else:
                matches.append({key: name})
    yield from matches


def _partners(
    matches: list[Match], key: str, pipeline: Pipeline, pipelines: Mapping[str, Pipeline]
) -> dict[str, int]:
    """Return the number of the match that each node of another pipeline belongs to.

    The closest likeness counts first: type, label and neighbours, then type and label, then the
    type. What is left may be a node of another type in the same place.
    """
    found: dict[str, int] = {}
    free = dict(enumerate(matches))
    for closeness in (2, 1, 0, -1):
        waiting: dict[object, list[int]] = {}
        for number, match in free.items():
            other, name = next(iter(match.items()))
            likeness = _likeness(pipelines[other], name, closeness)
            waiting.setdefault(likeness, []).append(number)
        for name in pipeline.nodes:
            numbers = waiting.get(_likeness(pipeline, name, closeness))
            if name not in found and numbers:
                found[name] = numbers.pop(0)
                del free[found[name]]
    for name in pipeline.nodes:
        if name in found:
            continue
        around = {found.get(each) for each in _neighbours(pipeline, name)}
        for number, match in free.items():
            other, mate = next(iter(match.items()))
            near = {_number(matches, other, each) for each in _neighbours(pipelines[other], mate)}
            alone = len(pipeline.nodes) == len(pipelines[other].nodes) == 1
            if around == near and (around or alone):
                found[name] = number
                del free[number]
                break
    return found


def _likeness(pipeline: Pipeline, name: str, closeness: int) -> object:
    """Return what two nodes have in common: type, label, and neighbours up to a distance.

    The ``closeness`` is that distance; with -1, only the type counts.
    """
    node = pipeline.nodes[name]
    if closeness < 0:
        return node.type
    own = node.type, node.label or ""
    if closeness == 0:
        return own
    around = []
    for edge in pipeline.edges:
        if edge.target.node == name:
            near = _likeness(pipeline, edge.source.node, closeness - 1)
            around.append(f"reads {edge.source.port} {near}")
        elif edge.source.node == name:
            near = _likeness(pipeline, edge.target.node, closeness - 1)
            around.append(f"gives {edge.source.port} {near}")
    return own, tuple(sorted(around))


def _neighbours(pipeline: Pipeline, name: str) -> set[str]:
    """Return the nodes that a node is connected with."""
    ends = [(edge.source.node, edge.target.node) for edge in pipeline.edges]
    return {other for pair in ends if name in pair for other in pair if other != name}


def _number(matches: list[Match], key: str, name: str) -> int | None:
    """Return the number of the match that has a node of a pipeline."""
    return next((number for number, match in enumerate(matches) if match.get(key) == name), None)


def _titles(
    matches: list[Match], pipelines: Mapping[str, Pipeline], catalog: NodeTypes
) -> list[str]:
    """Return a title for each match: the first label, else the title of the type; each once."""
    titles = []
    for match in matches:
        nodes = [pipelines[key].nodes[name] for key, name in match.items()]
        labelled = next((node for node in nodes if node.label), nodes[0])
        titles.append(readable(node_title(labelled, catalog)))
    alike, seen = Counter(titles), Counter[str]()
    for number, title in enumerate(titles):
        seen[title] += 1
        if alike[title] > 1:
            titles[number] = f"{title} {seen[title]}"
    return titles


# The settings of a node


class _Reader:
    """Reads the settings of one node, as texts.

    ``named`` are the titles of the other nodes by id.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        name: str,
        named: Mapping[str, str],
        catalog: NodeTypes,
        source_title: Words,
    ) -> None:
        self.pipeline, self.name, self.named, self.catalog = pipeline, name, named, catalog
        self.node: Node = pipeline.nodes[name]
        self.node_type: NodeType | None = catalog.get(self.node.type)
        self.source_title = source_title
        self.preset: Mapping[str, Any] = {}
        """Values of parameters that are not set."""

    def settings(self) -> Settings:
        """Return everything that is set, with type and inputs."""
        title = self.node_type.title if self.node_type else self.node.type
        return {"type": title, **self._inputs(), **self.own_settings()}

    def own_settings(self) -> Settings:
        """Return parameters, limits, bypass and sweep, as far as they are set."""
        settings = dict(self._flat({**self.preset, **self.node.params}, ""))
        for limit, value in self.node.settings.model_dump(exclude_defaults=True).items():
            settings[limit] = _text(value)
        if self.node.bypass:
            settings["bypass"] = "yes"
        if self.node.sweep:
            settings["sweep"] = self._sweep_text(self.node.sweep)
        return settings

    def _sweep_text(self, sweep: Sweep) -> str:
        """Return a sweep in a line: ``γ: 0.5, 0.9; μ: 1 to 4; 10 drawn``."""
        parts = []
        for name, choice in {**sweep.grid, **sweep.random}.items():
            if isinstance(choice, Range):
                text = f"{choice.start:g} to {choice.end:g}"
            else:
                text = ", ".join(self._value(name, value) for value in choice)
            parts.append(f"{param_label(name, self.node_type)}: {text}")
        if sweep.random:
            parts.append(f"{sweep.trials} drawn")
        return readable("; ".join(parts), LONGEST_VALUE)

    def _inputs(self) -> Settings:
        """Return what each input reads, by the titles of nodes and outputs."""
        inputs: dict[str, list[str]] = {}
        for edge in self.pipeline.edges:
            if edge.target.node == self.name:
                source = self.pipeline.nodes[edge.source.node]
                node_type = self.catalog.get(source.type)
                port = node_type.output(edge.source.port) if node_type else None
                title = port.title if port and port.title else edge.source.port
                node = self.named.get(edge.source.node, node_title(source, self.catalog))
                inputs.setdefault(f"input {edge.target.port}", []).append(f"{node}: {title}")
        return {name: ", ".join(sorted(sources)) for name, sources in inputs.items()}

    def _flat(self, values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
        """Yield name and text of each parameter; ``learners.1.kind`` is inside of a list."""
        for name, value in values.items():
            path = f"{prefix}{name}"
            # Such a list is one of objects, like the learners of a deep forest.
            is_listed = isinstance(value, list) and value
            if isinstance(value, Mapping):
                yield from self._flat(value, f"{path}.")
            elif is_listed and all(isinstance(each, Mapping) for each in value):
                for number, each in enumerate(value):
                    yield from self._flat(each, f"{path}.{number}.")
            else:
                yield path, self._value(path, value)

    def _value(self, path: str, value: object) -> str:
        """Return a value as the form shows it."""
        reads_source = self.node_type is not None and self.node_type.source_columns is not None
        if path == "source" and reads_source and isinstance(value, str):
            return readable(self.source_title(value), LONGEST_VALUE)
        return self._in_words(path, value)

    def _in_words(self, path: str, value: object) -> str:
        """Return a value of a parameter; a choice in the words of its field."""
        if isinstance(value, list) and value:
            return readable(", ".join(self._in_words(path, each) for each in value), LONGEST_VALUE)
        for field in self._fields(path):
            extra = field.json_schema_extra
            hint = extra.get(FORM) if isinstance(extra, dict) else None
            words = hint.get("words") if isinstance(hint, dict) else None
            if isinstance(words, dict) and isinstance(value, str) and value in words:
                return str(words[value])
            if isinstance(value, str) and value in _choices_in(field.annotation):
                return value.replace("_", " ")
        return _text(value)

    def default(self, setting: str) -> str:
        """Return the default of a setting that is not set.

        So a default that one pipeline writes out is not a difference. A default that is a list or
        an object is shown as not set, and so is all of a learner that does not exist.
        """
        if setting == "bypass":
            return "no"
        *holder, name = setting.split(".")
        fields = self._fields(setting)
        if holder:
            models = self._models_at(holder)
            fields = [model.model_fields[name] for model in models if name in model.model_fields]
        if not fields:
            return UNSET
        value = fields[0].get_default(call_default_factory=True, validated_data={})
        is_plain = isinstance(value, str | int | float | bool)
        return self._value(setting, value) if is_plain else UNSET

    def _models_at(self, steps: list[str]) -> list[type[BaseModel]]:
        """Return the model of the object at this path, by its kind; empty if there is no object."""
        value: Any = {**self.preset, **self.node.params}
        for step in steps:
            if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, Mapping) and step in value:
                value = value[step]
            else:
                return []
        if not isinstance(value, Mapping):
            return []
        fields = self._fields(".".join(steps))
        models = [model for field in fields for model in models_in(field.annotation)]
        if "kind" not in value:
            return models
        return [
            model
            for model in models
            if "kind" in model.model_fields
            and value["kind"] in _choices_in(model.model_fields["kind"].annotation)
        ]

    def title(self, setting: str) -> str:
        """Return the title of a setting in the form; its name, if no form has it."""
        if setting in ("type", "bypass", "sweep"):
            return setting.capitalize()
        if setting.startswith("input "):
            port = self.node_type.input(setting[6:]) if self.node_type else None
            return port.title if port and port.title else setting[6:]
        steps = setting.split(".")
        titles: list[str] = []
        for index, step in enumerate(steps):
            fields = self._fields(".".join(steps[: index + 1]))
            # A number belongs to the title before it: the second learner is "Learners 2".
            if step.isdecimal() and titles:
                titles[-1] += f" {int(step) + 1}"
            elif fields and fields[0].title:
                titles.append(fields[0].title)
            elif step in NodeSettings.model_fields and len(steps) == 1:
                titles.append(step.replace("_", " ").capitalize())
            else:
                return setting
        return ": ".join(titles)

    def _fields(self, setting: str) -> list[FieldInfo]:
        """Return the fields of a parameter; inside of a list, each kind of object may have one."""
        models: list[type[BaseModel]] = [self.node_type.params] if self.node_type else []
        fields: list[FieldInfo] = []
        for step in setting.split("."):
            if not step.isdecimal():
                fields = [
                    model.model_fields[step] for model in models if step in model.model_fields
                ]
                models = [model for field in fields for model in models_in(field.annotation)]
        return fields


def _choices_in(annotation: Any) -> list[Any]:
    """Return the values that a type such as ``Literal["a", "b"] | None`` lists."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices_in(part)]


def _text(value: object) -> str:
    """Return a value as a table shows it."""
    match value:
        case bool():
            text = "yes" if value else "no"
        case None:
            text = "none"
        case str():
            text = value
        case float():
            # As a person writes it: 0.3 for 0.1 + 0.2.
            text = f"{value:.10g}"
        case list() if value and not any(isinstance(each, list | dict) for each in value):
            text = ", ".join(map(_text, value))
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return readable(text, LONGEST_VALUE)
