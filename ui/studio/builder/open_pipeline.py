"""The pipeline that lies open in one browser tab.

- ``OpenPipeline``      the document and its file: every edit is saved at once, edits made elsewhere are read
- ``current_pipeline`` the desk of this tab, as the address says
- ``open_run``  puts the exact pipeline of a run on the desk

The file is the truth. A tab that finds it changed takes it in and draws anew; what the user did on the canvas
meanwhile is made again upon it. Edits that cannot be saved stay on the desk, which is kept until they are; if the file
cannot be brought together with them any more, they go into a copy.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import streamlit as st

from engine.errors import SylvaError
from engine.events import EventLog
from engine.files import Files
from engine.node_types import NodeType
from engine.pipeline import Pipeline, PortRef, changed
from engine.pipeline_file import parse
from engine.pipeline_library import FileVersion, Library, Opened, Outdated, UnknownPipeline
from engine.plan import RunOptions
from engine.problems import InvalidPipeline, Problem
from engine.run_state import STARTING_SECONDS, RunState, apply_events, mark_interrupted_if_dead
from engine.sweeps import ExpandedPipeline, expand_past
from engine.validation import Types, find_problems, find_source_problems
from ui.studio.canvas import Edited, Reveal
from ui.studio.markdown import plain
from ui.studio.runs.history import document_of
from ui.studio.session import studio

Bottom = Literal["Problems", "Output", "Log"]

PLACE = "desk"
ADDRESS = "pipeline"
UNSAVED = "desks-unsaved"
"""Where a session keeps the desks that were left with unsaved edits, by pipeline."""

DELETED = "The pipeline was deleted elsewhere. “Duplicate” keeps what is here as another one."

_starting = threading.RLock()
"""Held from looking for a run under way until another is noted down."""


def _new_epoch() -> int:
    """A browser may send again an edit that it made upon a desk long gone; that one's epoch must not come back."""
    return random.getrandbits(31)


@dataclass
class OpenPipeline:
    """One open pipeline: its document, what is known of its last run, and what the user looks at."""

    library: Library
    catalogue: Types
    pipeline: str
    document: Pipeline
    stamp: FileVersion
    in_file: Pipeline
    """The document as its file has it."""
    epoch: int = field(default_factory=_new_epoch)
    """Raised whenever something other than the canvas changed what the canvas owns."""
    forms: dict[str, int] = field(default_factory=dict)
    """For each node how often its form had to be drawn anew."""
    saved_at: float = field(default_factory=time.time)
    not_saved: str = ""
    """Why the document cannot be saved; what is here holds every edit still."""
    unsaved_since: float = 0.0
    moved_from: str = ""
    """The pipeline whose place this one took, being a copy with the edits that could not be saved there."""
    run: RunState | None = None
    run_document: Pipeline | None = None
    """The pipeline as it was when the run began."""
    run_branches: ExpandedPipeline | None = None
    """What the run made of it: the same pipeline with the branches of its sweeps written out."""
    polled: float | None = None
    """After how many seconds the page looks for news by itself."""
    awaited: tuple[str, int, float] | None = None
    """Run, attempt and moment until which the next attempt of that run may yet begin."""
    watching: bool = False
    """Whether a run was under way when it was last looked at; its end is then news."""
    looked_at: PortRef | None = None
    """The output whose preview is open."""
    reveal: Reveal | None = None
    bottom: Bottom = "Problems"
    """What is open below the canvas."""
    _checked: tuple[Pipeline, list[Problem]] | None = None
    notice: str = ""
    """A sentence for the user, said once."""

    @classmethod
    def with_pipeline(cls, library: Library, catalogue: Types, pipeline: str) -> OpenPipeline:
        """A desk with a pipeline of the library; raises what stands in the way."""
        opened = library.open(pipeline)
        document, stamp = opened
        return cls(library, catalogue, pipeline, document, stamp, document, saved_at=stamp.modified / 1e9)

    # The document

    @property
    def unsaved(self) -> bool:
        """Whether there are edits here that no file has."""
        return self.document != self.in_file

    def refresh(self) -> None:
        """Save what could not be saved before, or take in what was saved elsewhere since."""
        if self.unsaved:
            self.save()
        elif self.not_saved or self.library.stamp(self.pipeline) != self.stamp:
            self._read_again()

    def edit(self, *edits: Callable[[Pipeline], Pipeline]) -> None:
        """Make edits and save them; forms and canvas that show something else by then are drawn anew."""
        self.refresh()
        document = self.document
        for edit in edits:
            document = edit(document)
        if document != self.document:
            self.epoch += _differs_on_canvas(self.document, document)
            self.document = document
            if not self.save():
                self.edit(*edits)

    def take(self, edited: Edited) -> bool:
        """Keep what the user did on the canvas; ``False`` if the canvas has to make it again upon another version."""
        if edited.document != self.document:
            self.document = edited.document
            if not self.save():
                return False
        for node in edited.restored:
            self.forms[node] = self.forms.get(node, 0) + 1
        return True

    def save(self) -> bool:
        """Write the document down; ``False`` if another tab was faster, whose version is then taken in."""
        try:
            self._note_saved(self.library.save(self.pipeline, self.document, self.stamp))
        except Outdated:
            return self._give_way()
        except SylvaError as error:
            self._note_unsaved(str(error))
        return True

    def _note_saved(self, stamp: FileVersion) -> None:
        if self.not_saved:
            self.notice = "All edits are saved now."
        self.stamp, self.in_file, self.not_saved, self.saved_at = stamp, self.document, "", time.time()

    def _note_unsaved(self, why: str) -> None:
        if not self.not_saved:
            self.unsaved_since = time.time()
        if why != self.not_saved:
            self.not_saved = self.notice = why

    def _give_way(self) -> bool:
        """Someone else changed the file: take their version in, unless edits would be lost by that."""
        try:
            opened = self.library.open(self.pipeline)
        except UnknownPipeline:
            self._note_unsaved(DELETED)
        except SylvaError as error:
            self._move_to_copy(f"The file cannot be read any more: {_first_line(error)}")
        else:
            if opened.document == self.document:
                self._note_saved(opened.stamp)
            elif self.not_saved:
                self._move_to_copy("The pipeline was changed elsewhere before your edits could be saved.")
            else:
                self._take_in(opened)
                return False
        return True

    def _read_again(self) -> None:
        """Show the file as it is now; if it cannot be read, keep what is here and say why."""
        try:
            opened = self.library.open(self.pipeline)
        except UnknownPipeline:
            self._note_unsaved(DELETED)
        except SylvaError as error:
            why = f"The file cannot be read any more: {_first_line(error)}"
            self._note_unsaved(f"{why}\nWhat is here stays; the next edit goes into a copy.")
        else:
            self.not_saved = ""
            if opened.stamp != self.stamp:
                self._take_in(opened)

    def _move_to_copy(self, why: str) -> None:
        """Keep the document as another pipeline, which takes this one's place."""
        moment = time.strftime("%H:%M", time.localtime(self.unsaved_since or None))
        copy = changed(self.document, name=f"{self.document.name[:150]} (unsaved edits of {moment})")
        try:
            pipeline = self.library.create(copy)
            opened = self.library.open(pipeline)
        except SylvaError as error:
            self._note_unsaved(f"{why} {error}")
            return
        self.moved_from, self.pipeline = self.pipeline, pipeline
        self.document, self.epoch = copy, _new_epoch()
        self._note_saved(opened.stamp)
        self.run = self.run_document = self.run_branches = self.awaited = None
        self.notice = f"Your edits are in this copy: “{copy.name}”. {why}"

    def type_of(self, node: str) -> NodeType | None:
        """The type of a node; ``None`` if it is not installed, or if the node is gone since the run that names it."""
        found = self.document.nodes.get(node)
        return self.catalogue.get(found.type) if found else None

    def form_key(self, node: str) -> str:
        """Names the widgets of a node's form; another name means that they show the document afresh."""
        return f"{self.pipeline}/{node}/{self.forms.get(node, 0)}"

    def show(self, node: str) -> None:
        """Select a node and bring it into view."""
        self.reveal = Reveal(node, random.getrandbits(48))  # a browser tab may remember those of an earlier desk

    def _take_in(self, opened: Opened) -> None:
        """Show another version of the document; each form whose node differs is drawn anew."""
        before, (self.document, self.stamp) = self.document, opened
        self.in_file, self.saved_at = self.document, self.stamp.modified / 1e9
        self.epoch += 1
        for name, node in self.document.nodes.items():
            if before.nodes.get(name) != node:
                self.forms[name] = self.forms.get(name, 0) + 1
        self.notice = "The pipeline was changed elsewhere; this is how it is now."

    def problems(self, document: Pipeline | None = None) -> list[Problem]:
        """What is wrong with the document, or another, and with the files it reads; looked for once a drawing."""
        document = document or self.document
        if self._checked is None or self._checked[0] is not document:
            found = find_problems(document, self.catalogue)
            found += find_source_problems(document, self.catalogue, Files(self.library.workspace.root))
            self._checked = document, found
        return self._checked[1]

    def look_afresh(self) -> None:
        """Forget what was found: a file may be there by now."""
        self._checked = None

    def attempt(self, action: Callable[[], object]) -> bool:
        """Do something; what goes wrong is told in plain words. Whether it went well."""
        try:
            action()
        except InvalidPipeline as error:
            self.look_afresh()
            self.bottom = "Problems"
            self.notice = f"It cannot run yet. {error.problems[0]}"
        except SylvaError as error:
            self.notice = str(error)
        else:
            return True
        return False

    # Its last run

    def follow(self, log: EventLog) -> None:
        """Learn what happened in the pipeline's last run since."""
        row = log.last_run_of(self.pipeline)
        if row is None:
            self.run = self.run_document = self.run_branches = None
            return
        if self.run is None or self.run.id != row.id:
            self.run, self.run_document = RunState(row.id, row.name, row.created), document_of(row)
            self.run_branches = expand_past(self.run_document, self.catalogue) if self.run_document else None
        self.run = apply_events(self.run, log.events(row.id, self.run.last_event))
        self.watching |= self.running

    @property
    def run_now(self) -> RunState | None:
        """The last run, judged by whether anyone is at work on it."""
        return mark_interrupted_if_dead(self.run) if self.run else None

    def copies(self, node: str) -> tuple[str, ...]:
        """The nodes of the last run that stand for a node here: itself, or its branches if it is swept."""
        return self.run_branches.copies_of([node]) if self.run_branches else (node,)

    def origin(self, name: str) -> str:
        """The node here that a node of the last run stands for."""
        return self.run_branches.source_node.get(name, name) if self.run_branches else name

    @property
    def running(self) -> bool:
        """Whether a run of this pipeline is under way, or about to go on."""
        run = self.run_now
        if run is None or run.live:
            return run is not None
        return self.awaited is not None and (run.id, run.attempt) == self.awaited[:2] and time.time() < self.awaited[2]

    def _look_at_runs(self) -> None:
        """Another tab may have started or ended a run since this one was drawn."""
        with studio().log() as log:
            self.follow(log)

    def _refuse_second(self) -> None:
        self._look_at_runs()
        if self.running:
            raise SylvaError("A run of this pipeline is under way; stop it first, or wait for it.")

    def start(self, *, to: tuple[str, ...] = (), afresh: tuple[str, ...] = ()) -> None:
        """Run the pipeline as it is now: all of it, up to some nodes, or some nodes and all below them afresh."""
        with _starting:
            self._refuse_second()
            studio().start(self.document, RunOptions(pipeline=self.pipeline, to=to, force_from=afresh))

    def retry(self) -> None:
        """Go on with the last run; if the pipeline was changed since, run it anew: what is finished is in the store."""
        with _starting:
            self._refuse_second()
            if self.run is not None and self.run_document is not None and self._same_work(self.run_document):
                studio().go_on(self.run.id)
                self.awaited = self.run.id, self.run.attempt, time.time() + STARTING_SECONDS
            else:
                self.start()

    def stop(self) -> None:
        """Ask the run that this pipeline has at work now to stop."""
        self._look_at_runs()
        if self.run is not None:
            studio().stop(self.run.id)

    # As a whole

    def duplicate(self) -> None:
        """Put a copy in its place, with the edits that are not saved yet."""
        lay_out(keep_copy(self.library, self.document))

    def delete(self) -> None:
        """Remove the pipeline for good."""
        self.library.delete(self.pipeline)
        self.in_file = self.document  # nothing here is to be kept
        clear()

    def _same_work(self, other: Pipeline) -> bool:
        return (self.document.nodes, self.document.edges) == (other.nodes, other.edges)


def _first_line(error: SylvaError) -> str:
    return str(error).partition("\n")[0]


def _differs_on_canvas(before: Pipeline, after: Pipeline) -> bool:
    """Whether something changed that belongs to the canvas: the nodes there are, edges, places, notes."""
    return (list(before.nodes), before.edges, before.layout, before.notes) != (
        list(after.nodes),
        after.edges,
        after.layout,
        after.notes,
    )


def current_pipeline() -> OpenPipeline | None:
    """The desk of this tab with the pipeline that the address names, or that lay on it before; ``None`` if none."""
    held: OpenPipeline | None = st.session_state.get(PLACE)
    wanted = st.query_params.get(ADDRESS) or (held.pipeline if held else None)
    if held is not None and wanted == held.moved_from:
        wanted = held.pipeline
    if not wanted:
        return None
    st.query_params[ADDRESS] = wanted
    if held is None or held.pipeline != wanted:
        _put_aside()
        held = _return_to(wanted) or OpenPipeline.with_pipeline(Library(studio().workspace), studio().catalogue, wanted)
        st.session_state[PLACE] = held
    held.refresh()
    st.query_params[ADDRESS] = held.pipeline
    return held


def lay_out(pipeline: str) -> None:
    """Put a pipeline on the desk of this tab."""
    _put_aside()
    st.query_params[ADDRESS] = pipeline


def clear() -> None:
    """Put the pipeline back on the shelf."""
    _put_aside()
    st.query_params.pop(ADDRESS, None)


def unsaved_desks() -> list[OpenPipeline]:
    """The desks that were left while their edits could not be saved; those that can be saved now are, and told of."""
    kept: dict[str, OpenPipeline] = st.session_state.get(UNSAVED, {})
    for pipeline, desk in list(kept.items()):
        desk.refresh()
        if not desk.unsaved:
            del kept[pipeline]
            st.toast(plain(f"“{desk.document.name}”: {desk.notice}"), icon=":material/info:", duration="long")
    return list(kept.values())


def _put_aside() -> None:
    """Empty the desk; what could not be saved is kept in the session."""
    held: OpenPipeline | None = st.session_state.pop(PLACE, None)
    if held is not None and held.unsaved:
        st.session_state[UNSAVED] = st.session_state.get(UNSAVED, {}) | {held.pipeline: held}


def _return_to(pipeline: str) -> OpenPipeline | None:
    kept: OpenPipeline | None = st.session_state.get(UNSAVED, {}).pop(pipeline, None)
    if kept is not None:
        kept.notice = "Here are your edits that could not be saved yet."
    return kept


def is_open(desk: OpenPipeline) -> bool:
    """Whether it is still this desk that lies in the tab, with the pipeline that the address names."""
    return st.session_state.get(PLACE) is desk and st.query_params.get(ADDRESS) == desk.pipeline


def duplicate(library: Library, pipeline: str) -> str:
    """A copy under another name; its id."""
    return keep_copy(library, library.open(pipeline).document)


def keep_copy(library: Library, document: Pipeline) -> str:
    """Keep a document under another name; its id."""
    return library.create(changed(document, name=f"{document.name[:190]} copy"))


def open_run(run: str) -> None:
    """Put the pipeline of a run on the desk: the one it was started from if that is unchanged, else a copy."""
    library = Library(studio().workspace)
    with studio().log() as log:
        row = log.run(run)
    document, origin = parse(row.document), row.request.get("pipeline")
    if isinstance(origin, str) and _lies_there(library, origin, document):
        lay_out(origin)
    else:
        moment = time.strftime("%d %b %H:%M", time.localtime(row.created))
        lay_out(library.create(changed(document, name=f"{document.name[:150]}, as run {moment}")))


def _lies_there(library: Library, pipeline: str, document: Pipeline) -> bool:
    """Whether the pipeline is there, and is this very document."""
    try:
        return library.open(pipeline).document == document
    except SylvaError:
        return False
