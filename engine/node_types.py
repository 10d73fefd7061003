"""What a node type is, and what it is given when it runs.

A node type is one frozen description, ``NodeType``: its ports, its parameters (a pydantic model) and its
``run`` function. Palette, form, validation, JSON schema and reference page all come from it.

- ``Port``        a typed place where an edge ends or begins
- ``NodeParams``  base of every node's parameters: strict, closed, finite
- ``form_hint``   how a form should offer a parameter
- ``Column``, ``Columns``  the columns a table will have, known before any run
- ``NodeContext``     what ``run`` may use besides its inputs: progress, log, seed, files, checkpoints
- ``NodeType``    the description itself
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from engine.errors import BadInput, Cancelled
from engine.files import Files

if TYPE_CHECKING:
    import numpy as np

    from engine.export_python import Python

PortType = Literal["table", "model", "predictions", "report", "layers"]
Kind = Literal["number", "category", "bool", "time", "text"]
Role = Literal["feature", "target", "id", "time", "weight", "ignore"]
JobWord = Literal["waiting", "running", "done", "kept", "failed"]
"""What can be said of a job inside a node; ``kept``: it was finished before a kill and is not repeated."""
Category = Literal["Data", "Prepare", "Train", "Predict", "Evaluate", "Save"]


@dataclass(frozen=True)
class Port:
    """A typed place where an edge ends (input) or begins (output)."""

    name: str
    type: PortType
    title: str = ""
    required: bool = True
    many: bool = False
    """An input that takes any number of edges; ``run`` gets a list, in the order of the edges."""
    accepts: tuple[PortType, ...] = ()
    """Further types this input takes besides its own."""

    def takes(self, port_type: str) -> bool:
        """Whether an output of ``port_type`` may be plugged in here."""
        return port_type == self.type or port_type in self.accepts


class NodeParams(BaseModel):
    """Base of every node's parameters: no coercion, no unknown fields, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


FORM = "x-form"
"""Where a field's JSON schema keeps its ``form_hint``."""

Choose = Literal["column", "columns", "file", "model", "class"]


def form_hint(
    *, choose: Choose | None = None, when: Mapping[str, str | tuple[str, ...]] | None = None, folded: bool = False
) -> dict[str, Any]:
    """How a form offers a parameter, as ``json_schema_extra`` of its field; it says nothing about what is allowed.

    ``choose``: from the columns that arrive, the files or models of the workspace, or the classes. ``when``: of use
    only while the text of each field named matches one of its patterns (``*`` for any text, ``!`` before a pattern
    that must not match). ``folded``: rarely needed.
    """
    hint: dict[str, Any] = {"choose": choose} if choose else {}
    if when:
        hint["when"] = {name: [ways] if isinstance(ways, str) else list(ways) for name, ways in when.items()}
    if folded:
        hint["folded"] = True
    return {FORM: hint}


@dataclass(frozen=True)
class Column:
    """One column of a table, as far as it is known before a run."""

    name: str
    kind: Kind
    role: Role = "feature"


Columns = tuple[Column, ...]

OUTSIDE = "outside"
"""The input name under which a ``columns`` rule finds what the node's ``source`` told."""


@dataclass(frozen=True)
class NodeContext:
    """What a running node may use besides its inputs and parameters."""

    node: str
    key: str
    files: Files
    checkpoint: Path
    """A folder of this node's own that outlives a crash and is removed once the node is finished."""
    threads: int = 1
    sources: Mapping[str, list[str]] = field(default_factory=dict)
    """For each input port, the ids of the nodes it is fed by."""
    on_progress: Callable[[float, str], None] = lambda fraction, text: None
    on_log: Callable[[str], None] = lambda text: None
    on_job: Callable[[tuple[str, ...], JobWord, float | None], None] = lambda place, state, seconds: None
    on_tell: Callable[[str, dict[str, Any]], None] = lambda part, data: None
    on_reading: Callable[[str, str | None], None] = lambda subject, field: None
    cancelled: threading.Event = field(default_factory=threading.Event)
    run: str = ""
    """The run the node is part of; a result must not depend on it, but what is kept beside it may tell it."""

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the node is (0 to 1) and what it does now; also the place where a cancel takes effect."""
        self.check_cancelled()
        self.on_progress(min(max(fraction, 0.0), 1.0), text)

    def log(self, text: str) -> None:
        """Add a line to the node's log."""
        self.on_log(text)

    def job(self, place: tuple[str, ...], state: JobWord, seconds: float | None = None) -> None:
        """Say what became of a job inside the node; ``place`` tells it from the others: layer, learner, fold."""
        self.on_job(place, state, seconds)

    def tell(self, part: str, data: dict[str, Any]) -> None:
        """Tell a finished part of the result while the node is still at work: a few kilobytes of plain JSON.

        Whoever watches the run sees it at once. Telling a part again replaces it.
        """
        self.on_tell(part, data)

    @contextmanager
    def reading(self, subject: str, field: str | None = None) -> Iterator[None]:
        """Report which file from outside the node reads inside this block, and the parameter that names it.

        If the process crashes there, the failure is reported as a problem of that file.
        """
        self.on_reading(subject, field)
        yield
        self.on_reading("", None)

    def check_cancelled(self) -> None:
        """Raise ``Cancelled`` if the run was asked to stop."""
        if self.cancelled.is_set():
            raise Cancelled(f"Node '{self.node}' was stopped.")

    def rng(self, seed: int | None = None) -> np.random.Generator:
        """A generator seeded by ``seed``, or by what the node computes: the same work, the same numbers."""
        import numpy as np

        return np.random.default_rng(int(self.key[:16], 16) if seed is None else seed)

    @cached_property
    def executor(self) -> ThreadPoolExecutor:
        """Runs a node's inner jobs, as many at once as the node has threads."""
        return ThreadPoolExecutor(self.threads, thread_name_prefix=self.node)


Run = Callable[[NodeContext, dict[str, Any], Any], dict[str, Any]]
"""``run(ctx, inputs, params) -> outputs``; inputs and outputs by port name."""

ColumnRule = Callable[[Mapping[str, Columns | None], Any], Mapping[str, Columns | None]]
"""``columns(inputs, params)``: the columns of each output table, ``None`` where they cannot be known yet.

Of predictions, the columns of the rows they are of. ``BadInput`` if the node cannot work with the columns that will
arrive: then it is a problem of the pipeline, told before anything runs.
"""


@dataclass(frozen=True)
class NodeType:
    """Everything there is to know about a kind of node."""

    name: str
    title: str
    category: Category
    summary: str
    version: int
    """Raise it whenever the same inputs and parameters give another result: stored results then no longer apply."""
    params: type[NodeParams]
    run: Run
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    columns: ColumnRule | None = None
    source: Callable[[Any, Files], Columns | None] | None = None
    """For a node that reads from outside: the columns there are to choose from, before its own settings about them."""
    check: Callable[[Any, Files], Iterable[BadInput]] | None = None
    """Problems that can be seen before a run, such as a file that is not there."""
    fingerprint: Callable[[Any, Files], str] | None = None
    """Identity of what the node reads from outside the pipeline; part of its key."""
    imports: tuple[str, ...] = ()
    """Slow modules ``run`` needs; loaded once and shared by every worker."""
    cacheable: bool = True
    """False for a node run for its effect: each run of the pipeline runs it afresh."""
    python: Python | None = None
    """How a node of this type reads in a Python script; without it, pipelines that have one cannot be exported."""

    def input(self, name: str) -> Port | None:
        """The input port of that name."""
        return next((port for port in self.inputs if port.name == name), None)

    def output(self, name: str) -> Port | None:
        """The output port of that name."""
        return next((port for port in self.outputs if port.name == name), None)
