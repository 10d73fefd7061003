"""Name results as people know them: by the labels of the nodes that made them.

A label is not part of a cache key, so a stored report may be older than the label of its node. The
name is therefore looked up in the pipeline each time a report is shown.

- ``result_names``  the name of the result of each node that trains, predicts or evaluates
- ``named_report``  a stored report with these names
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from engine.graph import models_behind, takes_one_model
from engine.node_types import NodeType, NodeTypes, node_title
from engine.pipeline import Node, Pipeline
from engine.sweeps import MAX_VALUE, ExpandedPipeline, param_label, value_label
from engine.text import readable
from engine.values import Report

MAX_NAME = 120


def result_names(
    pipeline: Pipeline, expanded: ExpandedPipeline, catalog: NodeTypes
) -> dict[str, str]:
    """Return the name of each node's result, by the nodes of the expanded pipeline.

    A model is named by the label of its node, else by the title of its type; a node without a label
    that returns the model it gets has the name of that one. Predictions have the name of their
    model. An evaluation has the name in its settings, else its label, else the name
    of the model. Where two models or two evaluations are alike, a setting that differs or a number
    is added.

    Parameters
    ----------
    pipeline : as it was written; it has the labels, which may be newer than a run
    expanded : the pipeline with its sweeps written out, as a run has it
    """
    return _Namer(pipeline, expanded, catalog).names()


class _Namer:
    """Names the results of one pipeline."""

    def __init__(self, pipeline: Pipeline, expanded: ExpandedPipeline, catalog: NodeTypes) -> None:
        self.pipeline, self.expanded, self.catalog = pipeline, expanded, catalog
        self.source = expanded.source_node
        # Branches have the names of the node that they stand for, with their values.
        self.behind: dict[str, str] = {}
        for node, model in models_behind(expanded.pipeline, catalog).items():
            self.behind.setdefault(self._origin(node), self._origin(model))

    def names(self) -> dict[str, str]:
        """Return the name of each node that has one."""
        nodes = dict.fromkeys(map(self._origin, self.expanded.pipeline.nodes))
        models, evaluations = {}, {}
        for name in nodes:
            node_type = self.catalog.get(self._node(name).type)
            if node_type and any(port.type == "model" for port in node_type.outputs):
                if not self._passes_on(name, node_type):
                    models[name] = node_title(self._node(name), self.catalog)
            elif node_type and node_type.evaluation_output:
                evaluations[name] = self._own_name(name)
        models = _distinct(models, self._settings)
        used = {name: models[model] for name in nodes for model in self._model_of(name, models)}
        evaluations = {name: own or used.get(name, "") for name, own in evaluations.items()}
        known = {name: own for name, own in evaluations.items() if own}
        named = {**used, **models, **_distinct(known, lambda name: [used.get(name, "")])}
        return {
            copy: self._in_branch(copy, named[origin])
            for copy in self.expanded.pipeline.nodes
            if (origin := self._origin(copy)) in named
        }

    def _passes_on(self, name: str, node_type: NodeType) -> bool:
        """Return whether a node returns the model it gets, with additions and without a label."""
        return takes_one_model(node_type) and not self._node(name).label

    def _model_of(self, name: str, models: Mapping[str, str]) -> list[str]:
        """Return the model that a node uses: the nearest of ``models`` behind it; one or none."""
        model, seen = self.behind.get(name), {name}
        while model is not None and model not in seen:
            if model in models:
                return [model]
            seen.add(model)
            model = self.behind.get(model)
        return []

    def _origin(self, name: str) -> str:
        """Return the node of the written pipeline that a node stands for."""
        return self.source.get(name, name)

    def _node(self, name: str) -> Node:
        """Return a node as it was written; one that was deleted since as the run has it."""
        written = self.pipeline.nodes.get(name)
        return written or self.expanded.pipeline.nodes[self.expanded.copies_of([name])[0]]

    def _own_name(self, name: str) -> str:
        """Return the name that the user gave an evaluation, or an empty text."""
        node = self._node(name)
        return str(node.params.get("name") or node.label or "")

    def _in_branch(self, copy: str, title: str) -> str:
        """Return a name with the values of its branch."""
        branch = self.expanded.branches.get(copy)
        return readable(branch.title(title) if branch else title, MAX_NAME)

    def _settings(self, name: str) -> list[str]:
        """Return each parameter of a node in words, in the order of its form."""
        node = self._node(name)
        node_type = self.catalog[node.type]
        words = []
        for param, field in node_type.params.model_fields.items():
            default = field.get_default(call_default_factory=True, validated_data={})
            value = node.params.get(param, default)
            words.append(f"{param_label(param, node_type)} {_value_text(value)}")
        return words


def _value_text(value: Any) -> str:
    """Return a value in a few letters; a default may be an object that is not plain data."""
    try:
        return value_label(value)
    except TypeError:
        return readable(str(value), MAX_VALUE)


def _distinct(names: Mapping[str, str], differ: Callable[[str], list[str]]) -> dict[str, str]:
    """Return names that are all different.

    ``differ`` returns texts about a node. The first that differs among nodes of one name is added
    to it; a number where none does.
    """
    alike: dict[str, list[str]] = {}
    for node, name in names.items():
        alike.setdefault(name, []).append(node)
    result = dict(names)
    for name, nodes in alike.items():
        if len(nodes) > 1:
            result |= _told_apart(name, {node: differ(node) for node in nodes})
    # A name with an addition may be the name of another node.
    count: Counter[str] = Counter()
    for node, name in result.items():
        count[name] += 1
        if count[name] > 1:
            result[node] = f"{name} {count[name]}"
    return result


def _told_apart(name: str, texts: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the name with what is special about each node; with a number if nothing is."""
    for position in range(min(map(len, texts.values()))):
        words = {node: each[position] for node, each in texts.items()}
        if all(words.values()) and len(set(words.values())) == len(words):
            return {node: f"{name} ({word})" for node, word in words.items()}
    return {node: f"{name} {number}" for number, node in enumerate(texts, start=1)}


def named_report(report: Report, node: str, names: Mapping[str, str]) -> Report:
    """Return a report of a node with the names that ``result_names`` returned.

    A report of an earlier version does not say which nodes it compares: its names stay.
    """
    if report.kind == "evaluation" and node in names:
        return replace(report, title=names[node])
    compared = report.data.get("nodes")
    if report.kind != "comparison" or not isinstance(compared, list):
        return report
    shown = [names.get(str(each), "") for each in compared]
    curves = list(report.data.get("curves") or [])
    if len(shown) != len(report.rows) or len(curves) != len(report.rows) or not all(shown):
        return report
    best = {"best": shown[0]} if report.headline.get("best") else {}
    return replace(
        report,
        headline={**report.headline, **best},
        rows=[_renamed(row, name) for row, name in zip(report.rows, shown, strict=True)],
        data={
            **report.data,
            "curves": [_renamed(curve, name) for curve, name in zip(curves, shown, strict=True)],
        },
    )


def _renamed(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values with another name."""
    return {**values, "name": name}
