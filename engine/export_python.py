"""Write a pipeline as a Python script that a person can read, change and run without the engine.

A node type says in ``NodeType.python`` how one of its nodes reads as code; this module knows no
node. It puts the snippets in order, gives every output a variable named after its node, and
collects the imports.

No text of a document becomes code: values are written by ``literal``, texts in comments by
``comment``, and variables consist of letters, digits and underscores only.

- ``export_python``, ``check_exportable``  the script of a pipeline; whether it can be written
- ``Snippet``, ``Variables``  what a node type returns, and the variables it may use
- ``step_call``  the ready-made ``NodeType.python`` of nodes that are one call of a function
- ``Expression``, ``literal``, ``assignment``, ``statement``, ``changed_params``  parts of code
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import free_name, readable

if TYPE_CHECKING:
    from engine.node_types import Branch, NodeParams, NodeType, NodeTypes
    from engine.pipeline import Pipeline
    from engine.plan import Plan, PlannedNode

WIDTH = 100
INDENT = "    "
LONGEST_COMMENT = 300
RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})


class Expression(str):
    """Code where a value could also stand: a variable, a call. ``literal`` does not quote it."""


@dataclass(frozen=True)
class Snippet:
    """Hold the code of one node: its lines, and the import statements that they need."""

    lines: Sequence[str]
    imports: Sequence[str] = ()


@dataclass(frozen=True)
class Variables:
    """Name the variables that the code of one node reads and assigns."""

    inputs: Mapping[str, Expression]
    """By port: the variable at an input that takes one edge."""
    gathered: Mapping[str, Mapping[str, Expression]]
    """By port: the variables at an input that takes many edges, by the ids of their nodes."""
    outputs: Mapping[str, Expression]
    """By port: the variable to assign."""
    branch: Branch | None
    """The branch of a sweep that the node evaluates."""
    branches: Mapping[str, list[Branch | None]]
    """By port: the branches that feed a comparison, in the order of ``gathered``."""
    local: Callable[[str], Expression]
    """Return a variable that no other node uses, for an intermediate value: ``local("rows")``."""
    makers: Mapping[str, tuple[NodeType, Any]] = field(default_factory=dict)
    """By port: type and parameters of the node at an input that takes one edge."""
    gathered_makers: Mapping[str, Mapping[str, tuple[NodeType, Any]]] = field(default_factory=dict)
    """By port: the same for an input that takes many edges, by the ids of their nodes."""


Python = Callable[[Any, Variables], Snippet]
"""``python(params, variables) -> snippet``: the function that writes a node as code."""


def export_python(pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return the script of a valid pipeline, with every branch of its sweeps written out.

    Raise ``BadInput`` if a node type does not say how its nodes read as Python.
    """
    from engine.plan import RunOptions, make_plan

    check_exportable(pipeline, catalog)
    plan = make_plan(pipeline, catalog, RunOptions())
    # A variable must not hide an imported name, and only the snippets say what they import.
    # So they are written twice: the first pass collects the imports.
    imports = _Imports(snippet.imports for snippet in _snippets(plan, RESERVED).values())
    snippets = _snippets(plan, RESERVED | imports.bound)
    blocks = [_block(plan.steps[node], pipeline, snippet) for node, snippet in snippets.items()]
    return "\n\n".join(["\n".join(_header(pipeline)), imports.text, *blocks]) + "\n"


def check_exportable(pipeline: Pipeline, catalog: NodeTypes) -> None:
    """Raise ``BadInput`` with the nodes whose types do not say how they read as Python."""
    from engine.bypass import active_pipeline

    unsupported = [
        f"'{name}' ({node.type})"
        for name, node in active_pipeline(pipeline, catalog).nodes.items()
        if node.type in catalog and catalog[node.type].python is None
    ]
    if unsupported:
        raise BadInput(
            f"Nodes without a Python form: {', '.join(unsupported[:5])}. "
            "Remove them from the pipeline, or add `python` to their NodeType."
        )


def _snippets(plan: Plan, reserved: Iterable[str]) -> dict[str, Snippet]:
    """Return the code of every node by its id, in the order of the plan."""
    names = _VariableNames(plan, reserved)
    snippets = {}
    for node, step in plan.steps.items():
        assert step.type.python is not None
        snippets[node] = step.type.python(step.params, names.of(step))
    return snippets


class _VariableNames:
    """Assign variable names, each of them once in the script."""

    def __init__(self, plan: Plan, reserved: Iterable[str]) -> None:
        self._plan = plan
        self._used = set(reserved)
        self._outputs: dict[tuple[str, str], Expression] = {}
        # An output is named after its node, and after its port too if the node has several.
        for node, step in plan.steps.items():
            for port in step.type.outputs:
                stem = node if len(step.type.outputs) == 1 else f"{node}_{port.name}"
                self._outputs[node, port.name] = self.unused(stem)

    def unused(self, stem: str) -> Expression:
        """Return an identifier like ``stem`` that is not used yet, and reserve it."""
        name = free_name(re.sub(r"[^A-Za-z0-9_]", "_", stem), self._used.__contains__)
        self._used.add(name)
        return Expression(name)

    def of(self, step: PlannedNode) -> Variables:
        """Return the variables of one node."""
        inputs, gathered, makers, gathered_makers = {}, {}, {}, {}
        # In the order of the ports, which ``step_call`` writes as the order of the arguments.
        for port in step.type.inputs:
            sources = step.inputs.get(port.name, [])
            if port.many:
                gathered[port.name] = {source.node: self._outputs[source] for source in sources}
                gathered_makers[port.name] = {
                    source.node: self._maker(source.node) for source in sources
                }
            elif sources:
                inputs[port.name] = self._outputs[sources[0]]
                makers[port.name] = self._maker(sources[0].node)
        outputs = {port.name: self._outputs[step.id, port.name] for port in step.type.outputs}

        def local(stem: str) -> Expression:
            return self.unused(f"{step.id}_{stem}")

        return Variables(
            inputs, gathered, outputs, step.branch, step.branches, local, makers, gathered_makers
        )

    def _maker(self, node: str) -> tuple[NodeType, Any]:
        """Return type and parameters of a node."""
        step = self._plan.steps[node]
        return step.type, step.params


# Parts of the script


def _header(pipeline: Pipeline) -> Iterator[str]:
    """Yield the comment lines at the top: name, description, and where files are read from."""
    yield comment(pipeline.name)
    if pipeline.description:
        yield "#"
        yield from _wrapped(pipeline.description)
    yield "#"
    yield "# Files and models are those of the workspace: $SYLVA_WORKSPACE, else ~/.sylva."


def _block(step: PlannedNode, pipeline: Pipeline, snippet: Snippet) -> str:
    """Return the code of a node below a comment with its id, title and label."""
    words = [step.id, step.type.title]
    node = pipeline.nodes.get(step.id)
    if node and node.label and node.label != step.type.title:
        words.append(node.label)
    return "\n".join([comment(" · ".join(words)), *snippet.lines])


class _Imports:
    """Merge import statements: each name once, the standard library first."""

    def __init__(self, statements: Iterable[Iterable[str]]) -> None:
        lines = [line for group in statements for line in group]
        modules, members = set(), set()
        for statement in ast.parse("\n".join(lines)).body:
            if isinstance(statement, ast.ImportFrom):
                members |= {(str(statement.module), alias.name) for alias in statement.names}
            elif isinstance(statement, ast.Import):
                modules |= {(alias.name, alias.asname or "") for alias in statement.names}
        # The names that a script can use after these statements.
        self.bound = {asname or name.split(".")[0] for name, asname in modules}
        self.bound |= {name for _, name in members}
        self._lines = []
        for name, asname in modules:
            self._lines.append((name, f"import {name} as {asname}" if asname else f"import {name}"))
        for module in sorted({module for module, _ in members}):
            names = sorted((name for owner, name in members if owner == module), key=_import_order)
            self._lines.append((module, f"from {module} import {', '.join(names)}"))

    @property
    def text(self) -> str:
        """All statements, in two groups as import sorters write them."""
        standard: list[tuple[bool, str, str]] = []
        others: list[tuple[bool, str, str]] = []
        for module, line in self._lines:
            is_standard = module.split(".")[0] in sys.stdlib_module_names
            # `import x` stands before `from x import y`.
            order = (line.startswith("from"), module, line)
            (standard if is_standard else others).append(order)
        return "\n\n".join(_lines(group) for group in (standard, others) if group)


def _lines(group: Iterable[tuple[bool, str, str]]) -> str:
    """Return the statements of a group in their order."""
    return "\n".join(line for _, _, line in sorted(group))


def _import_order(name: str) -> tuple[bool, str]:
    """Sort classes before functions, as import sorters do."""
    return not name[:1].isupper(), name


# Nodes that are one call


def step_call(
    function: str, *, positional: Sequence[str] = (), always: Sequence[str] = ()
) -> Python:
    """Return ``NodeType.python`` of a node that is one call: ``output = function(inputs, params)``.

    ``function`` is a dotted name, such as ``nodes.steps.predict``. Inputs come first, in the order
    of the ports, then the parameters named in ``positional``. Of the other parameters, those in
    ``always`` are written even when they have their default values.
    """
    package, module, name = function.rsplit(".", 2)

    def python(params: NodeParams, variables: Variables) -> Snippet:
        (output,) = variables.outputs.values()
        values = [getattr(params, each) for each in positional]
        named = {each: getattr(params, each) for each in always}
        named |= changed_params(params, leave=positional)
        call = f"{module}.{name}"
        lines = statement(output, call, *variables.inputs.values(), *values, **named)
        return Snippet(lines, [f"from {package} import {module}"])

    return python


# Parts of code


def comment(text: str) -> str:
    """Return one line of comment. Line breaks and control characters of the text are removed."""
    flat = readable(" ".join(text.split()), LONGEST_COMMENT)
    return f"# {flat}" if flat else "#"


def _wrapped(text: str) -> list[str]:
    """Return a long text as several lines of comment."""
    return [comment(line) for line in textwrap.wrap(" ".join(text.split()), WIDTH - 2)]


def changed_params(params: NodeParams, *, leave: Iterable[str] = ()) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, without those in ``leave``."""
    return params.model_dump(exclude_defaults=True, exclude=set(leave))


def literal(value: Any) -> str:
    """Return a plain value as code on one line; an ``Expression`` is returned unchanged.

    Raise ``TypeError`` for a value that Python has no literal for.
    """
    match value:
        case Expression():
            return str(value)
        case str():
            return _quoted(value)
        case bool() | None | int() | float():
            return repr(value)
        case Mapping():
            entries = [f"{literal(key)}: {literal(each)}" for key, each in value.items()]
            return "{" + ", ".join(entries) + "}"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case tuple():
            comma = "," if len(value) == 1 else ""
            return "(" + ", ".join(map(literal, value)) + comma + ")"
    raise TypeError(f"{type(value).__name__} cannot be written as a literal")


def _quoted(text: str) -> str:
    """Return the text as ``repr`` writes it, in double quotes unless it has some."""
    written = repr(text)
    return written if '"' in text else f'"{written[1:-1]}"'


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
        """Yield one line if the part fits, else one line for each part inside."""
        if len(indent + self.flat + after) <= WIDTH or not self.inside:
            yield indent + self.flat + after
            return
        yield indent + self.begin
        for part in self.inside:
            yield from part.lines(indent + INDENT, ",")
        yield indent + self.end + after


@dataclass(frozen=True)
class _Text(_Part):
    """A text of several lines that can be broken after each of them; ``begin`` is left of it."""

    text: str = ""

    @property
    def flat(self) -> str:
        return self.begin + literal(self.text)

    def lines(self, indent: str, after: str) -> Iterator[str]:
        """Yield one line if the text fits, else one literal for each line of the text."""
        if len(indent + self.flat + after) <= WIDTH:
            yield indent + self.flat + after
            return
        yield f"{indent}{self.begin}("
        for line in self.text.splitlines(keepends=True):
            yield indent + INDENT + literal(line)
        yield f"{indent}){after}"


def _part(value: Any, before: str = "") -> _Part:
    """Return a value as code that can be broken; ``before`` is the code to its left."""
    match value:
        case Mapping() if value:
            entries = [_part(each, f"{literal(key)}: ") for key, each in value.items()]
            return _Part(before + "{", entries, "}")
        case list() if value:
            return _Part(before + "[", [_part(each) for each in value], "]")
        case str() if "\n" in value.strip() and not isinstance(value, Expression):
            return _Text(before, text=value)
    return _Part(before + literal(value))


def assignment(target: str, value: Any) -> list[str]:
    """Return the lines of ``target = value``, broken where they are too long."""
    return list(_part(value, f"{target} = ").lines("", ""))


def statement(target: str, function: str, /, *args: Any, **named: Any) -> list[str]:
    """Return the lines of ``target = function(args, name=value)``, broken where they are too long.

    With an empty ``target`` the lines hold only the call. Spaces before it indent all lines.
    """
    arguments = [_part(each) for each in args]
    arguments += [_part(each, f"{name}=") for name, each in named.items()]
    begin = f"{target} = {function}(" if target else f"{function}("
    code = begin.lstrip()
    indent = begin.removesuffix(code)
    return list(_Part(code, arguments, ")").lines(indent, ""))
