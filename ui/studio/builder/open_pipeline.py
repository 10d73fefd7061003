"""The pipeline that is open in one browser tab: its contents, its file and its last run.

Every edit is saved at once, and edits that others save are read. The file decides. If another tab
has changed it, its version is shown, and what the user did on the canvas meanwhile is done again on
top of it. Edits that cannot be saved stay here until they can. If they cannot be combined with the
file any more, they go into a copy.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from engine.atomic import FileVersion
from engine.errors import DataHint, InvalidPipeline, Problem, SylvaError
from engine.node_types import NodeType, NodeTypes
from engine.pipeline import Pipeline, PortRef
from engine.pipeline_file import with_values
from engine.pipeline_library import Library, Opened, Outdated, UnknownPipeline
from engine.plan import RunOptions
from engine.run_state import STARTING_SECONDS, RunState
from engine.runs import Runs, RunWatcher
from engine.settings import cluster_address, cluster_storage
from engine.sweeps import ExpandedPipeline
from engine.validation import find_problems, find_source_problems
from engine.workspace import Files
from nodes.data.hints import pipeline_hints
from ui.studio.builder.node_states import unchanged_nodes
from ui.studio.canvas.protocol import Edited, Reveal
from ui.studio.screen_text import problem_text

Part = Literal["Settings", "Output", "Log"]
"""A part of the node panel."""

DELETED = (
    "The pipeline was deleted in another tab or program. "
    "To keep it, choose Duplicate in the File menu."
)

_starting = threading.RLock()
"""Held from the check that no run is live until another is created."""


def _new_canvas_version() -> int:
    """Return a version that no other tab has used.

    A browser may send an old edit again, which must not fit to this version by chance.
    """
    return random.getrandbits(31)


@dataclass
class OpenPipeline:
    """One open pipeline, what is known of its last run, and what the user looks at.

    Each browser tab has its own. Methods that change the pipeline save it at once.
    """

    library: Library
    runs: Runs
    pipeline_id: str
    """Its id in the library."""
    pipeline: Pipeline
    file_version: FileVersion
    saved_pipeline: Pipeline
    """The pipeline as its file has it."""
    canvas_version: int = field(default_factory=_new_canvas_version)
    """Raised whenever something other than the canvas has changed what the canvas owns."""
    form_versions: dict[str, int] = field(default_factory=dict)
    """For each node how often its form had to be drawn from the start."""
    saved_at: float = field(default_factory=time.time)
    save_error: str = ""
    """Why the pipeline cannot be saved; it still has every edit."""
    refused_edit: str = ""
    """Why the last edit of the canvas was not applied; only the browser has it."""
    unsaved_since: float = 0.0
    moved_from: str = ""
    """The pipeline that this copy replaces, because the edits could not be saved there."""
    watcher: RunWatcher | None = None
    """The last run of the pipeline."""
    poll_seconds: float | None = None
    """How often the page looks for news by itself."""
    pending_attempt: tuple[str, int, float] | None = None
    """A run that was resumed, its last attempt, and the time until which the next may begin."""
    announce_end: bool = False
    """Whether a run was live when it was last looked at, so that its end is news."""
    shown_part: tuple[str, Part] | None = None
    """The node and the part of its panel that the user has opened."""
    previewed_port: PortRef | None = None
    """The output that the user has clicked; the first one of its node is shown otherwise."""
    reveal: Reveal | None = None
    show_panel: int | None = None
    """The browser opens the panel once for each new number."""
    notice: str = ""
    """A sentence for the user, shown once."""
    _checked: tuple[Pipeline, list[Problem]] | None = None
    _hinted: tuple[Pipeline, list[DataHint]] | None = None

    @classmethod
    def from_library(cls, library: Library, runs: Runs, pipeline_id: str) -> OpenPipeline:
        """Open a pipeline of the library.

        Raise ``UnknownPipeline`` if it is not there, ``InvalidPipeline`` if its file cannot be
        read.
        """
        pipeline, version = library.open(pipeline_id)
        saved_at = version.modified / 1e9
        return cls(library, runs, pipeline_id, pipeline, version, pipeline, saved_at=saved_at)

    @property
    def catalog(self) -> NodeTypes:
        """Return the node types that are installed."""
        return self.runs.catalog

    # The pipeline

    @property
    def unsaved(self) -> bool:
        """Return whether there are edits here that are not in the file."""
        return self.pipeline != self.saved_pipeline

    def refresh(self) -> None:
        """Save edits that could not be saved before, or else read what was saved elsewhere."""
        if self.unsaved:
            self.save()
        # A file that could not be read may be readable again without a new version.
        elif self.save_error or self.library.version(self.pipeline_id) != self.file_version:
            self._read_file()

    def edit(self, *edits: Callable[[Pipeline], Pipeline]) -> None:
        """Apply edits one after the other and save the result.

        Forms and canvas are drawn again if they would show something else. If another tab saves at
        the same time, the edits are applied again to its version.
        """
        self.refresh()
        pipeline = self.pipeline
        for edit in edits:
            pipeline = edit(pipeline)
        if pipeline != self.pipeline:
            # The browser keeps its own copy until it sees another version.
            if _differs_on_canvas(self.pipeline, pipeline):
                self.canvas_version += 1
            self.pipeline = pipeline
            # Another tab was faster: ``save`` has read its version.
            if not self.save():
                self.edit(*edits)

    def apply_canvas_edit(self, edited: Edited) -> bool:
        """Save what the user did on the canvas.

        Return False if the file has changed and the canvas must apply the edit to the new version.
        """
        refused = edited.refused
        self.refused_edit = problem_text(refused, self.pipeline, self.catalog) if refused else ""
        if edited.pipeline != self.pipeline:
            self.pipeline = edited.pipeline
            if not self.save():
                return False
        # Undo, redo and paste set parameters in the browser; the form must show them.
        for node in edited.restored:
            self._redraw_form(node)
        return True

    def save(self) -> bool:
        """Save the pipeline; if that fails, remember why.

        Return False if another tab has saved before. Its version is shown then, without our edits.
        """
        try:
            self._note_saved(self.library.save(self.pipeline_id, self.pipeline, self.file_version))
        except Outdated:
            return self._resolve_conflict()
        except SylvaError as error:
            self._note_unsaved(str(error))
        return True

    def _note_saved(self, version: FileVersion) -> None:
        """Remember that the file now equals the pipeline; say so if it did not for a while."""
        if self.save_error:
            self.notice = "All edits are saved now."
        self.file_version, self.saved_pipeline = version, self.pipeline
        self.save_error, self.saved_at = "", time.time()

    def _note_unsaved(self, why: str) -> None:
        """Remember why saving failed; each new reason is shown once."""
        if not self.save_error:
            self.unsaved_since = time.time()
        if why != self.save_error:
            self.save_error = self.notice = why

    def _resolve_conflict(self) -> bool:
        """Handle that the file was changed elsewhere.

        Show the version of the file, and return False. If unsaved edits would be lost by that, move
        them to a copy, and return True.
        """
        try:
            opened = self.library.open(self.pipeline_id)
        except UnknownPipeline:
            self._note_unsaved(DELETED)
        except SylvaError as error:
            self._move_to_copy(f"The file cannot be read any more: {_first_line(error)}")
        else:
            if opened.pipeline == self.pipeline:
                self._note_saved(opened.version)
            elif self.save_error:
                self._move_to_copy(
                    "The pipeline was changed in another tab before your edits could be saved."
                )
            else:
                self._show_version(opened)
                return False
        return True

    def _read_file(self) -> None:
        """Show the file as it is now; if it cannot be read, keep the pipeline and say why."""
        try:
            opened = self.library.open(self.pipeline_id)
        except UnknownPipeline:
            self._note_unsaved(DELETED)
        except SylvaError as error:
            why = f"The file cannot be read any more: {_first_line(error)}"
            self._note_unsaved(
                f"{why}\nThis tab still shows the last version; your next edit goes into a copy."
            )
        else:
            self.save_error = ""
            if opened.version != self.file_version:
                self._show_version(opened)

    def _move_to_copy(self, why: str) -> None:
        """Save the pipeline under another id, which is open from now on."""
        # The time of the first edit that could not be saved tells the user which edits these are.
        moment = time.strftime("%H:%M", time.localtime(self.unsaved_since or None))
        copy = with_values(
            self.pipeline, name=f"{self.pipeline.name[:150]} (unsaved edits of {moment})"
        )
        try:
            pipeline_id = self.library.create(copy)
            opened = self.library.open(pipeline_id)
        except SylvaError as error:
            self._note_unsaved(f"{why} {error}")
            return
        self.moved_from, self.pipeline_id = self.pipeline_id, pipeline_id
        self.pipeline, self.canvas_version = copy, _new_canvas_version()
        self._note_saved(opened.version)
        # The runs belong to the pipeline that was left.
        self.watcher = self.pending_attempt = None
        self.notice = f"Your edits are in this copy: “{copy.name}”. {why}"

    def _show_version(self, opened: Opened) -> None:
        """Show another version of the pipeline, with a new form for each node that differs."""
        before, (self.pipeline, self.file_version) = self.pipeline, opened
        self.saved_pipeline, self.saved_at = self.pipeline, self.file_version.modified / 1e9
        self.canvas_version += 1
        for name, node in self.pipeline.nodes.items():
            if before.nodes.get(name) != node:
                self._redraw_form(name)
        self.notice = "The pipeline was changed in another tab or program; this is the new version."

    def _redraw_form(self, node: str) -> None:
        """Draw the form of a node from the start: its widgets would show old values."""
        self.form_versions[node] = self.form_versions.get(node, 0) + 1

    def form_key(self, node: str) -> str:
        """Return the prefix of the widget keys of a form; a new one means new widgets."""
        return f"{self.pipeline_id}/{node}/{self.form_versions.get(node, 0)}"

    def type_of(self, node: str) -> NodeType | None:
        """Return the type of a node; None if it is not installed, or the node is gone."""
        own = self.pipeline.nodes.get(node)
        return self.catalog.get(own.type) if own else None

    def show(self, node: str) -> None:
        """Select a node, bring it into view and open its panel."""
        # A browser tab may remember the requests of an earlier session: a random number is new.
        self.reveal = Reveal(node, random.getrandbits(48))
        self.show_panel = random.getrandbits(48)

    def show_output(self, end: PortRef) -> None:
        """Open the preview of an output in the panel of its node."""
        self.previewed_port, self.shown_part = end, (end.node, "Output")
        self.show(end.node)

    def part_of(self, node: str) -> Part:
        """Return the part of the panel to show for a node.

        It is the one that the user has opened for this node. For another node it is the result if
        there is one, else the settings.
        """
        if self.shown_part is not None and self.shown_part[0] == node:
            return self.shown_part[1]
        run = self.run
        if run is None or self.is_outdated(node):
            return "Settings"
        states = [run.nodes[copy] for copy in self.branches_of(node) if copy in run.nodes]
        return "Output" if any(state.outputs for state in states) else "Settings"

    def delete(self) -> None:
        """Delete the pipeline and its unsaved edits."""
        self.library.delete(self.pipeline_id)
        # Otherwise the session would keep the edits as unsaved.
        self.saved_pipeline = self.pipeline

    def problems(self, pipeline: Pipeline | None = None) -> list[Problem]:
        """Return the problems of the pipeline, or of another one, and of the files it reads.

        Reading the files takes time: the result is remembered until ``forget_problems``.
        """
        pipeline = pipeline or self.pipeline
        if self._checked is None or self._checked[0] is not pipeline:
            problems = find_problems(pipeline, self.catalog)
            files = Files(self.library.workspace.root)
            problems += find_source_problems(pipeline, self.catalog, files)
            self._checked = pipeline, problems
        return self._checked[1]

    def hints(self) -> list[DataHint]:
        """Return the hints about the data of the pipeline; they do not stop a run.

        They are remembered like the problems.
        """
        if self._hinted is None or self._hinted[0] is not self.pipeline:
            files = Files(self.library.workspace.root)
            self._hinted = self.pipeline, pipeline_hints(self.pipeline, self.catalog, files)
        return self._hinted[1]

    def forget_problems(self) -> None:
        """Look for problems and hints again next time: a missing file may be there by now."""
        self._checked = self._hinted = None

    def show_errors(self, action: Callable[[], object]) -> bool:
        """Call a function; if it raises an error of ours, show that as a notice.

        Return whether it succeeded. If the pipeline is invalid, its first problem is shown.
        """
        try:
            action()
        except InvalidPipeline as error:
            self.forget_problems()
            problem = error.problems[0]
            text = problem_text(problem, self.pipeline, self.catalog)
            self.notice = f"The pipeline cannot run yet: {text}"
            if problem.node in self.pipeline.nodes:
                self.shown_part = problem.node, "Settings"
                self.show(problem.node)
        except Problem as error:
            self.notice = problem_text(error, self.pipeline, self.catalog)
        except SylvaError as error:
            self.notice = str(error)
        else:
            return True
        return False

    def try_edit(self, edit: Callable[[Pipeline], Pipeline]) -> bool:
        """Apply an edit and save; an error of ours becomes a notice. Return whether it worked."""
        return self.show_errors(lambda: self.edit(edit))

    # Its last run

    def refresh_run(self) -> None:
        """Read the new events of the last run; another tab may have started a new run."""
        row = self.runs.last_run_of(self.pipeline_id)
        if row is None:
            self.watcher = None
        elif self.watcher is None or self.watcher.row.id != row.id:
            self.watcher = RunWatcher(self.runs, row)
        if self.watcher is not None:
            self.watcher.refresh()
        if self.running:
            self.announce_end = True

    @property
    def run(self) -> RunState | None:
        """Return the state of the last run; None if there was none."""
        return self.watcher.state if self.watcher else None

    @property
    def run_pipeline(self) -> Pipeline | None:
        """Return the pipeline as it was when the last run began."""
        return self.runs.written_pipeline(self.watcher.row) if self.watcher else None

    @property
    def run_expanded(self) -> ExpandedPipeline | None:
        """Return the pipeline of the last run with its sweeps expanded."""
        return self.runs.planned_pipeline(self.watcher.row) if self.watcher else None

    def is_outdated(self, node: str) -> bool:
        """Return whether a node, or one before it, was changed since the last run."""
        ran = self.run_pipeline
        return ran is None or node not in unchanged_nodes(self.pipeline, ran)

    def branches_of(self, node: str) -> tuple[str, ...]:
        """Return the nodes of the last run that belong to a node: its branches, or itself."""
        expanded = self.run_expanded
        return expanded.copies_of([node]) if expanded else (node,)

    def source_node(self, name: str) -> str:
        """Return the node of the pipeline to which a node of the last run belongs."""
        expanded = self.run_expanded
        return expanded.source_node.get(name, name) if expanded else name

    @property
    def running(self) -> bool:
        """Return whether a run of this pipeline is live, or was resumed and is about to be."""
        run = self.run
        if run is None:
            return False
        if run.live or self.pending_attempt is None:
            return run.live
        # A resumed run is not live until its new supervisor reports.
        run_id, attempt, until = self.pending_attempt
        return (run.id, run.attempt) == (run_id, attempt) and time.time() < until

    def _refuse_second_run(self) -> None:
        """Raise ``SylvaError`` if a run of this pipeline is live."""
        self.refresh_run()
        if self.running:
            raise SylvaError(
                "This pipeline is running already. Stop that run first, or wait for its end."
            )

    def start(self, *, to: tuple[str, ...] = (), force_from: tuple[str, ...] = ()) -> None:
        """Run the pipeline as it is now.

        Parameters
        ----------
        to : run only these nodes and what they need
        force_from : run these nodes and all after them again, even if their results are stored
        """
        with _starting:
            self._refuse_second_run()
            # A second tab that presses Run now waits for ``_starting``, and is then refused.
            settings = self.runs.workspace.settings
            cluster = cluster_address(settings)
            options = RunOptions(
                pipeline_id=self.pipeline_id,
                to=to,
                force_from=force_from,
                executor=cluster,
                storage=cluster and cluster_storage(settings),
            )
            self.runs.start(self.pipeline, options)

    def start_again(self) -> None:
        """Run every node again, also those whose results are stored."""
        nodes = self.pipeline.nodes.items()
        self.start(force_from=tuple(name for name, node in nodes if not node.bypass))

    def retry(self) -> None:
        """Resume the last run; if the pipeline was changed since, start a new one."""
        with _starting:
            self._refuse_second_run()
            run, ran = self.run, self.run_pipeline
            if run is not None and ran is not None and self._has_same_nodes(ran):
                self.runs.resume(run.id)
                self.pending_attempt = run.id, run.attempt, time.time() + STARTING_SECONDS
            else:
                self.start()

    def stop(self) -> None:
        """Ask the live run of this pipeline to stop.

        It ends a moment later, when its supervisor has stopped the nodes.
        """
        self.refresh_run()
        if self.run is not None:
            self.runs.cancel(self.run.id)

    def _has_same_nodes(self, other: Pipeline) -> bool:
        """Return whether another pipeline would compute the same; names and layout may differ."""
        return (self.pipeline.nodes, self.pipeline.edges) == (other.nodes, other.edges)


def _first_line(error: SylvaError) -> str:
    """Return the first line of an error; the others list details."""
    return str(error).partition("\n")[0]


def _differs_on_canvas(before: Pipeline, after: Pipeline) -> bool:
    """Return whether something changed that the canvas owns.

    That is which nodes there are and in which order, edges, positions, notes and groups.
    """
    return _on_canvas(before) != _on_canvas(after)


def _on_canvas(pipeline: Pipeline) -> tuple[object, ...]:
    """Return what the canvas owns of a pipeline."""
    return (
        list(pipeline.nodes),
        pipeline.edges,
        pipeline.layout,
        pipeline.notes,
        pipeline.groups,
    )
