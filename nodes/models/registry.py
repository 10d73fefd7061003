"""The models of a workspace: those that a save-model node has written.

- ``Registry``    lists, opens and deletes them
- ``ModelEntry``  what is known of one without loading it
- ``Card``        where it comes from: run, pipeline, data, and how it was judged in that run
- ``read_lock``  keeps a model from being swapped while it is read

The run and the node that saved a model are written beside it. The rest of the card is found in that run's log and
stored reports, and kept beside the model once the run is done: it outlives the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from engine import sandbox
from engine.errors import BadInput, SylvaError
from engine.processes import usable_memory
from engine.workspace import Workspace
from nodes.data.columns import listed
from nodes.load_data import NODE as LOAD
from nodes.models.model import CARD, FittedModel, describe_model, is_regular_file, load_model
from nodes.save_model import NAME, write_lock

if TYPE_CHECKING:
    from engine.pipeline import Pipeline
    from engine.run_state import RunState

OPENING_SECONDS = 600.0
CARD_BYTES = 1 << 20
"""A card larger than this is none."""


@dataclass(frozen=True)
class Source:
    """A table the model was made from: a file or sample, and its rows if they are still known."""

    name: str
    rows: int | None = None


@dataclass(frozen=True)
class EvaluationSummary:
    """An evaluation of the model in the run that saved it."""

    node: str
    title: str
    table: str
    """The output that was scored, as ``node.port``."""
    metrics: Mapping[str, float | int | str | None]


@dataclass(frozen=True)
class Card:
    """Where a model comes from; all of it may be unknown."""

    run: str | None = None
    run_exists: bool = False
    """Whether the run can still be looked at."""
    node: str | None = None
    """The node that saved it."""
    pipeline: str = ""
    """Name of the pipeline."""
    pipeline_id: str | None = None
    """Its id in the workspace, if it was run from there."""
    data: tuple[Source, ...] = ()
    judged: tuple[EvaluationSummary, ...] = ()
    script: bool = False
    """Whether a script saved it, outside of any run."""

    @property
    def metrics(self) -> Mapping[str, float | int | str | None]:
        """What the first evaluation says; empty if there was none."""
        return self.judged[0].metrics if self.judged else {}


@dataclass(frozen=True)
class ModelEntry:
    """One model of the workspace; with a ``problem``, hardly anything else is known."""

    name: str
    title: str = ""
    kind: str = ""
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    rows: int = 0
    """Rows it was trained on."""
    bytes: int = 0
    saved: float = 0.0
    """When, in seconds since 1970."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the node that trained it."""
    card: Card = Card()
    problem: str | None = None
    """Why it cannot be used, if it cannot."""


@dataclass(frozen=True)
class Registry:
    """The models of one workspace."""

    workspace: Workspace

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.workspace.root / "models"

    def names(self) -> list[str]:
        """All names, sorted; nothing is read."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if re.match(NAME, path.name) and path.is_dir())

    def entries(self) -> list[ModelEntry]:
        """All models, the newest first."""
        entries = []
        for name in self.names():
            with suppress(BadInput):  # deleted at this moment
                entries.append(self.entry(name))
        return sorted(entries, key=lambda entry: (-entry.saved, entry.name))

    def entry(self, name: str) -> ModelEntry:
        """One model; ``BadInput`` if there is none of that name."""
        folder = self.place(name)
        with read_lock(folder):
            files = [path for path in folder.iterdir() if is_regular_file(path)] if folder.is_dir() else []
            size, saved = sum(path.stat().st_size for path in files), _saved(folder)
            try:
                about = describe_model(folder)
            except BadInput as problem:
                return ModelEntry(name, bytes=size, saved=saved, problem=problem.message)
            card = _Reader(self.workspace).card(folder)
        return ModelEntry(
            name=name,
            title=about["title"],
            kind=str(about["kind"]),
            classes=tuple(about["classes"]),
            features=tuple(map(str, about["features"])),
            rows=about["train_rows"] if isinstance(about["train_rows"], int) else 0,
            bytes=size,
            saved=saved,
            settings=about["params"] if isinstance(about["params"], dict) else {},
            card=card,
        )

    def open(self, name: str) -> FittedModel:
        """The model itself, every file of it checked."""
        return open_model(self.place(name))

    def delete(self, name: str) -> None:
        """Remove a model; one that is being saved under the name at this moment is waited for."""
        folder = self.place(name)
        with write_lock(folder) as temporary:
            if folder.exists():
                folder.rename(temporary / "deleted")

    def place(self, name: str) -> Path:
        """The folder of a model; ``BadInput`` that says what there is if it is not there."""
        if name not in self.names():
            raise BadInput(self.how_to_find(name), field="name")
        return self.folder / name

    def find(self, text: str) -> Path:
        """The folder that a command line means: a model of the workspace, or a path of a model's folder."""
        if text in self.names():
            return self.folder / text
        if (Path(text) / "model.json").is_file():
            return Path(text)
        raise BadInput(f"{self.how_to_find(text)} (The path of a model's folder will do as well.)")

    def how_to_find(self, name: str) -> str:
        """What to say of a name that no model has."""
        names = self.names()
        if not names:
            return f"there is no model '{name}': {self.folder} holds none yet; run a pipeline with a Save model node"
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {listed(names)}"
        return f"there is no model '{name}'; {hint}"


def open_model(folder: Path) -> FittedModel:
    """Load a model while no one may swap it."""
    with read_lock(folder):
        return load_model(folder)


def prove_model(folder: Path) -> None:
    """Open a model in a child process first: one that is hostile or damaged must not end this process."""
    call = sandbox.Call(
        "nodes.models.registry:open_in_child", folder.name, {"folder": str(folder.absolute())},
        ("numpy", "lightgbm"), field=None, megabytes=usable_memory(), seconds=OPENING_SECONDS,
    )  # fmt: skip
    sandbox.call(call)


def open_in_child(folder: str) -> None:
    """Open a model and forget it."""
    open_model(Path(folder))


@contextmanager
def read_lock(folder: Path) -> Iterator[None]:
    """Whoever saves or deletes this model waits; where nothing may be written, no one does."""
    import fcntl

    try:
        lock = folder.with_name(f".{folder.name}.lock").open("a")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


# Cards


def _saved(folder: Path) -> float:
    """When the model was put in its place."""
    with suppress(OSError, ValueError):
        told = _read_json(folder / CARD).get("saved")
        if isinstance(told, int | float):
            return float(told)
    with suppress(OSError):
        return (folder / "model.json").stat().st_mtime
    return 0.0


def _read_json(path: Path) -> dict[str, Any]:
    """What a card says; nothing if it is none. It may have come with a model from elsewhere."""
    with suppress(OSError, ValueError, RecursionError):
        if is_regular_file(path) and path.stat().st_size <= CARD_BYTES:
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
    return {}


@dataclass(frozen=True)
class _Reader:
    """Finds what is not written beside a model in the run that saved it."""

    workspace: Workspace

    def card(self, folder: Path) -> Card:
        """The card of a model, as far as it is known."""
        told = _read_json(folder / CARD)
        match told:
            case {"run": str() as run, "node": str() as node}:
                kept = _kept(told, run, node)
                with suppress(SylvaError, OSError):
                    return self._from_run(folder, told, run, node, kept)
                return kept or Card(run, node=node)
        return Card(script=told.get("script") is True)

    def _from_run(self, folder: Path, told: dict[str, Any], run: str, node: str, kept: Card | None) -> Card:
        from engine.events import EventLog
        from engine.pipeline_file import parse
        from engine.run_state import run_state

        if not self.workspace.database.is_file():
            return kept or Card(run, node=node)
        with EventLog(self.workspace) as log:
            row = log.run(run)
            if row.id != run:
                return kept or Card(run, node=node)
            if kept:
                return replace(kept, run_exists=True)
            state = run_state(log, row)
        document, pipeline_id = parse(row.document), row.request.get("pipeline")
        card = Card(
            run=run,
            run_exists=True,
            node=node,
            pipeline=row.name,
            pipeline_id=pipeline_id if isinstance(pipeline_id, str) else None,
            data=tuple(self._sources(document, state, node)),
            judged=tuple(self._judged(document, state, node)),
        )
        if state.state == "done":
            _keep(folder, told, card)
        return card

    def _sources(self, document: Pipeline, state: RunState, node: str) -> Iterator[Source]:
        """What the pipeline read on the way to the model."""
        for name in _above(document, node):
            step = document.nodes[name]
            if step.type == LOAD.name:
                source = step.params.get("source", LOAD.params.model_fields["source"].default)
                yield Source(str(source), self._rows(state, name))

    def _rows(self, state: RunState, node: str) -> int | None:
        """Rows of a stored table, by what its file says of itself."""
        import pyarrow as pa

        from engine.values import Table

        with suppress(KeyError, OSError, pa.ArrowException):
            digest = state.nodes[node].outputs["table"]["digest"]
            with pa.memory_map(str(self.workspace.objects / digest / Table.FILE)) as source:
                return int(pa.ipc.open_file(source).read_all().num_rows)
        return None

    def _judged(self, document: Pipeline, state: RunState, node: str) -> Iterator[EvaluationSummary]:
        """The evaluations of predictions that the same model made, those of tables it did not learn from first."""
        model = next((edge.source for edge in document.edges if edge.target.node == node), None)
        learned = {edge.source for edge in document.edges if model and edge.target.node == model.node}
        found = []
        for scorer in _fed_by(document, lambda edge: edge.source == model and edge.target.node != node):
            table = next((e.source for e in document.edges if e.target.node == scorer and e.source != model), None)
            for judge in _fed_by(document, lambda edge, scorer=scorer: edge.source.node == scorer):
                report = self._report(state, judge)
                if report is not None and report.kind == "evaluation":
                    found.append(
                        (table in learned, EvaluationSummary(judge, report.title, str(table), dict(report.headline)))
                    )
        yield from (judged for _, judged in sorted(found, key=lambda each: each[0]))

    def _report(self, state: RunState, node: str) -> Any:
        from engine.store import Artifact, Store

        outputs = state.nodes[node].outputs.values() if node in state.nodes else []
        for about in outputs:
            if about["type"] == "report":
                with suppress(SylvaError, OSError, KeyError, TypeError, ValueError):
                    return Store(self.workspace).open(Artifact.from_dict(about))
        return None


def _above(document: Pipeline, node: str) -> list[str]:
    """The nodes that this one depends on, in the order of the document."""
    above: set[str] = set()
    open_ends = [node]
    while open_ends:
        target = open_ends.pop()
        sources = {edge.source.node for edge in document.edges if edge.target.node == target} - above
        above |= sources
        open_ends += sources
    return [name for name in document.nodes if name in above]


def _fed_by(document: Pipeline, wanted: Any) -> list[str]:
    """The nodes that an edge of that kind leads to, each once."""
    return list(dict.fromkeys(edge.target.node for edge in document.edges if wanted(edge)))


def _keep(folder: Path, told: dict[str, Any], card: Card) -> None:
    """Write the card beside the model, where that is possible: the run may be forgotten one day."""
    # Not inside the folder: whoever reads the model there meanwhile takes a file it does not know for damage.
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.unfinished")
    with suppress(OSError, ValueError):
        text = json.dumps({**told, "card": asdict(card)}, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(folder / CARD)


def _kept(told: dict[str, Any], run: str, node: str) -> Card | None:
    """The card that was kept, if it is one."""
    card = told.get("card")
    match card:
        case {
            "pipeline": str() as pipeline,
            "pipeline_id": pipeline_id,
            "data": list() as data,
            "judged": list() as judged,
        }:
            return Card(
                run=run,
                node=node,
                pipeline=pipeline,
                pipeline_id=pipeline_id if isinstance(pipeline_id, str) else None,
                data=tuple(filter(None, map(_source, data))),
                judged=tuple(filter(None, map(_judgement, judged))),
            )
    return None


def _source(about: object) -> Source | None:
    match about:
        case {"name": str() as name, "rows": int() | None as rows}:
            return Source(name, rows)
    return None


def _judgement(about: object) -> EvaluationSummary | None:
    match about:
        case {"node": str() as node, "title": str() as title, "table": str() as table, "metrics": dict() as metrics}:
            plain = {name: value for name, value in metrics.items() if isinstance(value, int | float | str | None)}
            return EvaluationSummary(node, title, table, plain)
    return None
