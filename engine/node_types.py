"""What a node type is, what it gets when it runs, and which ones are installed.

A node type is one frozen description, ``NodeType``: its ports, its parameters (a pydantic model)
and its ``run`` function. Palette, form, validation, JSON schema and reference page all come from
it.

- ``Port``         an input or output, with a type
- ``NodeParams``   base of every node's parameters: strict, closed, finite
- ``form_hint``    how a form should offer a parameter
- ``Column``, ``Columns``  the columns that a table will have, known before any run
- ``NodeContext``  what ``run`` may use besides its inputs: progress, log, seed, files, checkpoints
- ``NodeType``     the description itself
- ``NodeCatalog``, ``load_catalog``  node types by name; those of all installed packages
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from engine.errors import BadInput, Cancelled
from engine.scratch import ScratchFolder
from engine.text import shortened
from engine.workspace import Files

if TYPE_CHECKING:
    import numpy as np

    from engine.export_python import Python
    from engine.pipeline import Node

PortType = Literal["table", "model", "predictions", "report", "layers"]
Kind = Literal["number", "category", "bool", "time", "text"]
Role = Literal["feature", "target", "id", "group", "time", "weight", "ignore"]
SubtaskState = Literal["waiting", "running", "done", "reused", "failed"]
"""The state of a subtask inside a node; ``reused``: a process that was killed had finished it."""
MAX_LABEL = 200
"""Characters of a title on the canvas and in a leaderboard."""
Category = Literal["Data", "Prepare", "Train", "Predict", "Evaluate", "Save"]


@dataclass(frozen=True)
class Port:
    """An input, where an edge ends, or an output, where it begins."""

    name: str
    type: PortType
    title: str = ""
    required: bool = True
    many: bool = False
    """For an input: it takes any number of edges; ``run`` gets a list, in their order."""
    accepts: tuple[PortType, ...] = ()
    """For an input: further types that it takes."""
    role: Literal["", "evaluation"] = ""
    """``evaluation``: an output that rates a model, or an input that compares these or models.

    The branches of a sweep are compared by these ports.
    """

    def takes(self, port_type: str) -> bool:
        """Return whether an output of ``port_type`` may be connected to this input."""
        return port_type == self.type or port_type in self.accepts


class NodeParams(BaseModel):
    """Base of every node's parameters: nothing is converted, unknown fields and NaN are refused.

    A check of several fields is a ``model_validator(mode="after")`` that raises ``BadInput`` with
    the ``field`` to change, such as ``grid.low``. With ``ValueError`` the problem has no field.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


@dataclass(frozen=True)
class Branch:
    """One branch of a sweep, for nodes that evaluate and compare."""

    subject: str
    """What is evaluated: the title of the model's type. ``engine.result_names`` shows its label."""
    label: str
    """The values in a few words: ``γ=0.6 trees=50``."""
    values: Mapping[str, JsonValue]
    """The values, by column of a leaderboard."""
    titles: Mapping[str, str]
    """The titles of these columns on screen."""

    def title(self, name: str = "") -> str:
        """Return the title of an evaluation in this branch; ``name`` replaces the subject."""
        return shortened(f"{name or self.subject} {self.label}", MAX_LABEL)


FORM = "x-form"
"""The key of a ``form_hint`` in the JSON schema of a field."""

Choose = Literal["column", "columns", "file", "model", "class", "sheet"]


def form_hint(
    *,
    choose: Choose | None = None,
    when: Mapping[str, str | tuple[str, ...]] | None = None,
    folded: bool = False,
    words: Mapping[str, str] | None = None,
    lines: bool = False,
) -> dict[str, Any]:
    """Return how a form offers a parameter, as ``json_schema_extra`` of its field.

    It has no effect on validation.

    Parameters
    ----------
    choose:
        Offer the columns of the input, the files or models of the workspace, the classes, or the
        sheets of the source.
    when:
        Show the parameter only while the text of each of these fields matches one of its patterns
        (``*`` for any text, ``!`` before a pattern that must not match).
    folded:
        Whether the parameter is rarely needed.
    words:
        How the choices are shown, by their values; others are shown as they are.
    lines:
        Whether the text may have several lines.
    """
    hint: dict[str, Any] = {"choose": choose} if choose else {}
    if when:
        hint["when"] = {
            name: [patterns] if isinstance(patterns, str) else list(patterns)
            for name, patterns in when.items()
        }
    if folded:
        hint["folded"] = True
    if words:
        hint["words"] = dict(words)
    if lines:
        hint["lines"] = True
    return {FORM: hint}


@dataclass(frozen=True)
class Column:
    """One column of a table, as far as it is known before a run."""

    name: str
    kind: Kind
    role: Role = "feature"


Columns = tuple[Column, ...]

SOURCE_COLUMNS = "source_columns"
"""The input of an ``output_columns`` rule that holds what ``source_columns`` returned."""


@dataclass(frozen=True)
class NodeContext:
    """What a running node may use besides its inputs and parameters."""

    node: str
    key: str
    files: Files
    checkpoint: Path
    """A folder of this node that survives a crash and is removed when the node has finished."""
    threads: int = 1
    large: float = inf
    """From so many bytes on, data belong into files of the folder, see ``scratch``."""
    sources: Mapping[str, list[str]] = field(default_factory=dict)
    """For each input port, the ids of the nodes it reads from."""
    branch: Branch | None = None
    """The branch of a sweep that the node is in; given to nodes with an ``evaluation`` output."""
    branches: Mapping[str, list[Branch | None]] = field(default_factory=dict)
    """For each ``evaluation`` input, the branches it reads from, in the order of ``sources``."""
    on_progress: Callable[[float, str], None] = lambda fraction, text: None
    on_log: Callable[[str], None] = lambda text: None
    on_subtask: Callable[[tuple[str, ...], SubtaskState, float | None, str], None] = (
        lambda path, state, seconds, worker: None
    )
    on_publish: Callable[[str, dict[str, Any]], None] = lambda name, data: None
    on_reading: Callable[[str, str | None], None] = lambda subject, field: None
    cancelled: threading.Event = field(default_factory=threading.Event)
    remote: Any = None
    """Lets other machines carry out subtasks, if the run uses a cluster: ``submit_job``."""
    run_id: str = ""
    """The id of the run. The result must not depend on it; a file beside the result may name it."""

    def progress(self, fraction: float, text: str = "") -> None:
        """Report the progress (0 to 1) and what the node does now.

        Raise ``Cancelled`` if the run is cancelled.
        """
        self.check_cancelled()
        self.on_progress(min(max(fraction, 0.0), 1.0), text)

    def log(self, text: str) -> None:
        """Add a line to the node's log."""
        self.on_log(text)

    def subtask(
        self,
        path: tuple[str, ...],
        state: SubtaskState,
        seconds: float | None = None,
        worker: str = "",
    ) -> None:
        """Report the state of a subtask, and the worker of a cluster that carries it out.

        ``path`` names it, such as layer, learner and fold.
        """
        self.on_subtask(path, state, seconds, worker)

    def publish(self, name: str, data: dict[str, Any]) -> None:
        """Publish a part of the result while the node is running: a few kilobytes of JSON.

        It is shown at once to everyone who watches the run. A part of the same name is replaced.
        """
        self.on_publish(name, data)

    @contextmanager
    def reading(self, subject: str, field: str | None = None) -> Iterator[None]:
        """Report which file the node reads inside this block, and the parameter that names it.

        If the process crashes there, the failure is reported as a problem of that file.
        """
        self.on_reading(subject, field)
        yield
        self.on_reading("", None)

    def check_cancelled(self) -> None:
        """Raise ``Cancelled`` if the run is cancelled."""
        if self.cancelled.is_set():
            raise Cancelled(f"Node '{self.node}' was cancelled.")

    def rng(self, seed: int | None = None) -> np.random.Generator:
        """Return a random generator, seeded by ``seed`` or else by the cache key of the node."""
        import numpy as np

        # 16 hexadecimal digits are 64 bits. Equal inputs have equal keys and so equal results.
        return np.random.default_rng(int(self.key[:16], 16) if seed is None else seed)

    @property
    def scratch(self) -> ScratchFolder:
        """Hold tables that are large for the memory limit of the node."""
        return ScratchFolder(self.checkpoint, self.large)

    @cached_property
    def executor(self) -> ThreadPoolExecutor:
        """Return a pool for the subtasks of the node, with as many threads as the node may use."""
        return ThreadPoolExecutor(self.threads, thread_name_prefix=self.node)


NodeFunction = Callable[[NodeContext, dict[str, Any], Any], dict[str, Any]]
"""``run(ctx, inputs, params) -> outputs``; inputs and outputs by port name."""

SubtaskFunction = Callable[[Path, str, dict[str, Any], Callable[[], None]], None]
"""``run_subtask(checkpoint, key, request, check_cancelled)``; it saves its result itself."""

ColumnRule = Callable[[Mapping[str, Columns | None], Any], Mapping[str, Columns | None]]
"""``output_columns(inputs, params)``: the columns of each output, ``None`` if not known yet.

``inputs`` has the columns of each input, or ``None``. An input that is not connected and not
required is left out.
The columns of predictions are those of the rows they were made for. A rule raises ``BadInput`` if
the node cannot use the columns of its inputs: that is a problem of the pipeline, reported before
anything runs.
"""


@dataclass(frozen=True)
class NodeType:
    """The description of a kind of node: its names, what it takes and gives, how it runs."""

    name: str
    title: str
    category: Category
    summary: str
    version: int
    """Increase it when the same input gives another result; stored ones are then not reused."""
    params: type[NodeParams]
    run: NodeFunction
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    output_columns: ColumnRule | None = None
    source_columns: Callable[[Any, Files], Columns | None] | None = None
    """For a node that reads from outside: all columns of its source."""
    check: Callable[[Any, Files], Iterable[BadInput]] | None = None
    """Problems that can be found before a run, such as a file that does not exist."""
    fingerprint: Callable[[Any, Files], str] | None = None
    """Identity of what the node reads from outside the pipeline; part of its cache key."""
    imports: tuple[str, ...] = ()
    """Slow modules that ``run`` needs; loaded once and shared by all workers."""
    cacheable: bool = True
    """False for a node that runs for its effect: it runs again in every run of the pipeline."""
    run_subtask: SubtaskFunction | None = None
    """Carry out a subtask that the running node has submitted to ``NodeContext.remote``.

    Files that subtasks need are in the folder ``data`` of the checkpoint folder, under names that
    stand for their content; the request names them.
    """
    uses_files: Callable[[Any], bool] | None = None
    """Whether a node with these parameters reads or writes files of the workspace.

    Without it, nodes with a ``fingerprint`` do, and nodes that run for their effect.
    """
    check_storage: Callable[[Any], Iterable[BadInput]] | None = None
    """Problems of parameters in a run whose workers see a storage instead of the workspace."""
    python: Python | None = None
    """How a node of this type is written in a Python script; without it, it cannot be exported."""

    @property
    def evaluation_output(self) -> Port | None:
        """Return the output that says how good a model is, if there is one."""
        return next((port for port in self.outputs if port.role == "evaluation"), None)

    def needs_files(self, params: Any) -> bool:
        """Return whether a node must run where the files of the workspace are."""
        if self.uses_files is not None:
            return self.uses_files(params)
        return self.fingerprint is not None or not self.cacheable

    def input(self, name: str) -> Port | None:
        """Return the input port of that name."""
        return next((port for port in self.inputs if port.name == name), None)

    def output(self, name: str) -> Port | None:
        """Return the output port of that name."""
        return next((port for port in self.outputs if port.name == name), None)


NodeTypes = Mapping[str, NodeType]
"""Node types by name: a ``NodeCatalog``, or a plain dictionary."""


def node_title(node: Node, catalog: NodeTypes) -> str:
    """Return the title of a node: its label, else the title of its type, else the type's name."""
    node_type = catalog.get(node.type)
    return node.label or (node_type.title if node_type else node.type)


# The installed node types

GROUP = "sylva.nodes"
OWN_DISTRIBUTION = "sylva-studio"


class NodeCatalog(dict[str, NodeType]):
    """Node types by name; ``failures`` has one sentence for each that could not be added."""

    def __init__(self, node_types: Iterable[NodeType] = ()) -> None:
        super().__init__()
        self._sources: dict[str, str] = {}
        self.failures: list[str] = []
        self.add(node_types, source="this program")

    def add(self, node_types: Iterable[NodeType], *, source: str) -> None:
        """Add node types from ``source``; one whose name is taken goes to ``failures``."""
        for node_type in node_types:
            # The first of a name stays, so that no package can replace another's.
            if node_type.name in self:
                self.failures.append(
                    f"Node type '{node_type.name}' of {source} is left out: "
                    f"{self._sources[node_type.name]} already has a node type of that name."
                )
            else:
                self[node_type.name] = node_type
                self._sources[node_type.name] = source


@cache
def load_catalog() -> NodeCatalog:
    """Return the node types of all installed packages, the built-in ones first.

    A package offers node types through the entry point group ``sylva.nodes``: an entry point gives
    one ``NodeType`` or several.
    """
    return catalog_of(sorted(entry_points(group=GROUP), key=_own_first))


def catalog_of(entries: Iterable[EntryPoint]) -> NodeCatalog:
    """Return the node types that these entry points give; ``failures`` names those that fail."""
    catalog = NodeCatalog()
    for entry in entries:
        try:
            catalog.add(_node_types(entry.load()), source=_source(entry))
        # The import of a package may raise anything, even SystemExit; the program has to go on.
        except (Exception, SystemExit) as error:
            catalog.failures.append(
                f"The node types of {_source(entry)} ({entry.value}) could not be loaded: "
                f"{type(error).__name__}: {error}"
            )
    return catalog


def _node_types(loaded: object) -> list[NodeType]:
    """Return what an entry point gives as a list; raise ``TypeError`` for anything else."""
    offered: list[Any] = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    for each in offered:
        if not isinstance(each, NodeType):
            raise TypeError(f"it gives a {type(each).__name__} where a NodeType is expected")
    return offered


def _own_first(entry: EntryPoint) -> tuple[bool, str, str]:
    """Sort the built-in node types first, so that no package can take their names."""
    source = _source(entry)
    return source != f"package '{OWN_DISTRIBUTION}'", source, entry.name


def _source(entry: EntryPoint) -> str:
    return f"package '{entry.dist.name}'" if entry.dist else f"entry point '{entry.name}'"
