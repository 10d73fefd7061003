"""A pipeline as a Python script that a person can read, change and run without the engine.

A node type says in ``NodeType.python`` how one of its nodes reads as code; this module knows no node. It puts the
parts in order, gives every output a variable named after its node, and gathers the imports.

Nothing of a document becomes code: values are written by ``literal``, texts in comments by ``comment``, and variables
are made of letters, digits and underscores only.

- ``export_python``, ``check_exportable``  the script of a document, and whether there can be one
- ``Code``, ``Names``  what a node gives, and the variables it is given for it
- ``Raw``, ``literal``, ``assignment``, ``statement``, ``settings``  what code is made of
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import readable

if TYPE_CHECKING:
    from engine.node_types import Branch, NodeParams, NodeType
    from engine.params import Types
    from engine.pipeline import Pipeline
    from engine.plan import Plan, PlannedNode

WIDTH = 100
INDENT = "    "
LONGEST_COMMENT = 300
RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})


class Raw(str):
    """Code, where a value could stand as well: a variable, an expression."""


@dataclass(frozen=True)
class Code:
    """How one node reads: its lines, and the import statements they need."""

    lines: Sequence[str]
    imports: Sequence[str] = ()


@dataclass(frozen=True)
class Names:
    """The variables of one node."""

    inputs: Mapping[str, Raw]
    """By port, what feeds an input that takes one edge."""
    gathered: Mapping[str, Mapping[str, Raw]]
    """By port, what feeds an input that takes many edges: the variables by the ids of the nodes they come from."""
    outputs: Mapping[str, Raw]
    branch: Branch | None
    """The branch of a sweep that the node evaluates."""
    branches: Mapping[str, list[Branch | None]]
    """By port, the branches that a comparison is fed by, in the order of ``gathered``."""
    local: Callable[[str], Raw]
    """A variable for a thing in between, that no other node uses: ``local("rows")``."""


Python = Callable[[Any, Names], Code]
"""``python(params, names) -> code``."""


def export_python(document: Pipeline, catalogue: Types) -> str:
    """The script of a valid document, its sweeps written out; ``BadInput`` names types that cannot be exported."""
    from engine.plan import RunOptions, make_plan

    check_exportable(document, catalogue)
    plan = make_plan(document, catalogue, RunOptions())
    # Imported names must not be taken by a variable, and only the code says which they are: so it is made twice.
    imports = _Imports(code.imports for code in _codes(plan, RESERVED).values())
    codes = _codes(plan, RESERVED | imports.bound)
    blocks = [_block(plan.steps[node], document, code) for node, code in codes.items()]
    return "\n\n".join(["\n".join(_head(document)), imports.text, *blocks]) + "\n"


def check_exportable(document: Pipeline, catalogue: Types) -> None:
    """``BadInput`` names the nodes whose types do not say how they read as Python."""
    unable = [
        (name, node.type)
        for name, node in document.nodes.items()
        if node.type in catalogue and catalogue[node.type].python is None
    ]
    if unable:
        named = ", ".join(f"'{node}' ({kind})" for node, kind in unable[:5])
        raise BadInput(
            f"{named} cannot be written as Python, since {'its type does' if len(unable) == 1 else 'their types do'} "
            "not say how; take it out of the pipeline, or add `python` to its NodeType."
        )


def _codes(plan: Plan, taken: Iterable[str]) -> dict[str, Code]:
    """The code of every node."""
    names = _Variables(plan, taken)
    codes = {}
    for node, step in plan.steps.items():
        assert step.type.python is not None
        codes[node] = step.type.python(step.params, names.of(step))
    return codes


class _Variables:
    """Gives out variables, none of them twice."""

    def __init__(self, plan: Plan, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._outputs: dict[tuple[str, str], Raw] = {}
        for node, step in plan.steps.items():
            self._name_outputs(node, step.type)

    def _name_outputs(self, node: str, node_type: NodeType) -> None:
        for port in node_type.outputs:
            wanted = node if len(node_type.outputs) == 1 else f"{node}_{port.name}"
            self._outputs[node, port.name] = self.free(wanted)

    def free(self, wanted: str) -> Raw:
        """An identifier like ``wanted`` that is not taken yet."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return Raw(name)

    def of(self, step: PlannedNode) -> Names:
        inputs, gathered = {}, {}
        for port, sources in step.inputs.items():
            entry = step.type.input(port)
            if entry is not None and entry.many:
                gathered[port] = {source.node: self._outputs[source] for source in sources}
            else:
                inputs[port] = self._outputs[sources[0]]
        outputs = {port.name: self._outputs[step.id, port.name] for port in step.type.outputs}
        return Names(
            inputs,
            gathered,
            outputs,
            step.branch,
            step.branches,
            lambda stem: self.free(f"{step.id}_{stem}"),
        )


# The parts of the script


def _head(document: Pipeline) -> Iterator[str]:
    yield comment(document.name)
    if document.description:
        yield "#"
        yield from _wrapped(document.description)
    yield "#"
    yield "# Files and models are those of the workspace: $SYLVA_WORKSPACE, else ~/.sylva."


def _block(step: PlannedNode, document: Pipeline, code: Code) -> str:
    node = document.nodes.get(step.id)
    label = node.label if node and node.label else ""
    words = [step.id, step.type.title, *([label] if label and label != step.type.title else [])]
    return "\n".join([comment(" · ".join(words)), *code.lines])


class _Imports:
    """Import statements, each thing once, those of the standard library first."""

    def __init__(self, wanted: Iterable[Iterable[str]]) -> None:
        modules, members = set(), set()
        for statement in ast.parse("\n".join(line for lines in wanted for line in lines)).body:
            if isinstance(statement, ast.ImportFrom):
                members |= {(str(statement.module), alias.name) for alias in statement.names}
            elif isinstance(statement, ast.Import):
                modules |= {(alias.name, alias.asname or "") for alias in statement.names}
        self.bound = {asname or name.split(".")[0] for name, asname in modules} | {name for _, name in members}
        self._lines = [(name, f"import {name}{f' as {asname}' if asname else ''}") for name, asname in modules]
        for module in sorted({module for module, _ in members}):
            names = ", ".join(sorted((name for owner, name in members if owner == module), key=_isort))
            self._lines.append((module, f"from {module} import {names}"))

    @property
    def text(self) -> str:
        """All of them, in two groups."""
        own = [line for line in self._lines if line[0].split(".")[0] in sys.stdlib_module_names]
        others = [line for line in self._lines if line not in own]
        groups = [sorted(group, key=lambda line: (line[1].startswith("from"), line[0])) for group in (own, others)]
        return "\n\n".join("\n".join(text for _, text in group) for group in groups if group)


def _isort(name: str) -> tuple[bool, str]:
    """Classes before functions, as import sorters have them."""
    return not name[:1].isupper(), name


# What code is made of


def comment(text: str) -> str:
    """One line of comment, whatever the text holds."""
    flat = readable(" ".join(text.split()), LONGEST_COMMENT)
    return f"# {flat}" if flat else "#"


def _wrapped(text: str) -> list[str]:
    import textwrap

    return [comment(line) for line in textwrap.wrap(" ".join(text.split()), WIDTH - 2)]


def settings(params: NodeParams, *, leave: Iterable[str] = ()) -> dict[str, Any]:
    """The parameters that are not as the type has them by default."""
    return params.model_dump(exclude_defaults=True, exclude=set(leave))


def literal(value: Any) -> str:
    """A plain value as code on one line; ``Raw`` stays as it is."""
    match value:
        case Raw():
            return str(value)
        case str():
            return _quoted(value)
        case bool() | None | int() | float():
            return repr(value)
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case tuple():
            return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    raise TypeError(f"{type(value).__name__} cannot be written as a literal")


def _quoted(text: str) -> str:
    """As ``repr`` has it, in double quotes where that needs no escape."""
    return f'"{text}"' if text.isprintable() and not set(text) & {'"', "'", "\\"} else repr(text)


@dataclass(frozen=True)
class _Part:
    """A piece of code that can be broken at its brackets: ``begin``, the parts inside, ``end``."""

    begin: str
    inside: Sequence[_Part] = field(default_factory=tuple)
    end: str = ""

    @property
    def flat(self) -> str:
        return self.begin + ", ".join(part.flat for part in self.inside) + self.end

    def lines(self, indent: str, after: str) -> Iterator[str]:
        """On one line if it fits, else one line for each part inside."""
        if len(indent + self.flat + after) <= WIDTH or not self.inside:
            yield indent + self.flat + after
            return
        yield indent + self.begin
        for part in self.inside:
            yield from part.lines(indent + INDENT, ",")
        yield indent + self.end + after


def _part(value: Any, before: str = "") -> _Part:
    match value:
        case Mapping() if value:
            entries = [_part(each, f"{literal(key)}: ") for key, each in value.items()]
            return _Part(before + "{", entries, "}")
        case list() if value:
            return _Part(before + "[", [_part(each) for each in value], "]")
    return _Part(before + literal(value))


def assignment(target: str, value: Any) -> list[str]:
    """``target = value``, broken where it is too long."""
    return list(_part(value, f"{target} = ").lines("", ""))


def statement(target: str, function: str, /, *given: Any, **named: Any) -> list[str]:
    """``target = function(given, name=value)``, broken where it is too long; without a target only the call."""
    arguments = [_part(each) for each in given] + [_part(each, f"{name}=") for name, each in named.items()]
    begin = f"{target} = {function}(" if target else f"{function}("
    return list(_Part(begin, arguments, ")").lines("", ""))
