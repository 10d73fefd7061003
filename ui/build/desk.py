"""The pipeline that lies open in one browser tab.

- ``Desk``      the document, kept in step with its file: every edit is saved at once, edits made elsewhere are taken in
- ``open_desk`` the desk of this tab, as the address says
- ``open_run``  puts the exact pipeline of a run on the desk

The file is the truth. A tab that finds it changed takes it in and draws anew; what the user did on the canvas
meanwhile is made again upon it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import streamlit as st

from engine.document import Document, Endpoint, changed
from engine.edits import Edit
from engine.errors import SylvaError
from engine.events import EventLog
from engine.files import Files
from engine.library import Library, Opened, Outdated, Stamp
from engine.pipeline_file import parse
from engine.plan import Request
from engine.problems import InvalidPipeline, Problem
from engine.state import STARTING_SECONDS, RunState, fold, judge_life
from engine.validate import Types, find_problems, find_source_problems
from ui.canvas import CanvasResult, Reveal
from ui.studio import studio

Bottom = Literal["Problems", "Output", "Log"]

PLACE = "desk"
ADDRESS = "pipeline"


@dataclass
class Desk:
    """One open pipeline: its document, what is known of its last run, and what the user looks at."""

    library: Library
    catalogue: Types
    pipeline: str
    document: Document
    stamp: Stamp
    epoch: int = 0
    """Raised whenever something other than the canvas changed what the canvas owns."""
    forms: dict[str, int] = field(default_factory=dict)
    """For each node how often its form had to be drawn anew."""
    saved_at: float = field(default_factory=time.time)
    not_saved: str = ""
    """Why the last edit could not be saved; the document here holds it still."""
    run: RunState | None = None
    run_document: Document | None = None
    """The pipeline as it was when the run began."""
    polled: bool = False
    """Whether the page looks for news by itself."""
    awaited: tuple[str, int, float] | None = None
    """Run, attempt and moment until which the next attempt of that run may yet begin."""
    watching: bool = False
    """Whether a run was under way when it was last looked at; its end is then news."""
    looked_at: Endpoint | None = None
    """The output whose preview is open."""
    reveal: Reveal | None = None
    bottom: Bottom = "Problems"
    """What is open below the canvas."""
    _checked: tuple[Document, list[Problem]] | None = None
    notice: str = ""
    """A sentence for the user, said once."""

    @classmethod
    def with_pipeline(cls, library: Library, catalogue: Types, pipeline: str) -> Desk:
        """A desk with a pipeline of the library; raises what stands in the way."""
        opened = library.open(pipeline)
        return cls(library, catalogue, pipeline, opened.document, opened.stamp, saved_at=opened.stamp.modified / 1e9)

    # The document

    def refresh(self) -> None:
        """Take in what was saved elsewhere since."""
        present = self.library.stamp(self.pipeline)
        if present is None or present == self.stamp or self.not_saved:
            return
        self._take_in(self.library.open(self.pipeline))

    def edit(self, *edits: Edit) -> None:
        """Make edits and save them; forms and canvas that show something else by then are drawn anew."""
        self.refresh()
        before = self.document
        for edit in edits:
            self.document, _ = edit.apply(self.document, self.catalogue)
        if self.document != before:
            self.epoch += _differs_on_canvas(before, self.document)
            if not self.save():
                self.edit(*edits)

    def take(self, result: CanvasResult) -> bool:
        """Keep what the user did on the canvas; ``False`` if the canvas has to make it again upon another version."""
        for node in result.restored:
            self.forms[node] = self.forms.get(node, 0) + 1
        if result.document == self.document:
            return True
        self.document = result.document
        return self.save()

    def save(self) -> bool:
        """Write the document down; ``False`` if another tab was faster, whose version is then taken in."""
        try:
            try:
                self.stamp = self.library.save(self.pipeline, self.document, self.stamp)
            except Outdated:
                self._take_in(self.library.open(self.pipeline))
                return False
            self.not_saved, self.saved_at = "", time.time()
        except SylvaError as error:
            self.not_saved = str(error)
        return True

    def form_key(self, node: str) -> str:
        """Names the widgets of a node's form; another name means that they show the document afresh."""
        return f"{self.pipeline}/{node}/{self.forms.get(node, 0)}"

    def show(self, node: str) -> None:
        """Select a node and bring it into view."""
        self.reveal = Reveal(node, random.getrandbits(48))  # a browser tab may remember those of an earlier desk

    def _take_in(self, opened: Opened) -> None:
        """Show another version of the document; each form whose node differs is drawn anew."""
        before, (self.document, self.stamp) = self.document, opened
        self.epoch += 1
        for name, node in self.document.nodes.items():
            if before.nodes.get(name) != node:
                self.forms[name] = self.forms.get(name, 0) + 1
        self.notice = "The pipeline was changed elsewhere; this is how it is now."

    def problems(self, document: Document | None = None) -> list[Problem]:
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
            self.run = self.run_document = None
            return
        if self.run is None or self.run.id != row.id:
            self.run, self.run_document = RunState(row.id, row.name, row.created), parse(row.document)
        self.run = fold(self.run, log.events(row.id, self.run.last_event))
        self.watching |= self.running

    @property
    def run_now(self) -> RunState | None:
        """The last run, judged by whether anyone is at work on it."""
        return judge_life(self.run) if self.run else None

    @property
    def running(self) -> bool:
        """Whether a run of this pipeline is under way, or about to go on."""
        run = self.run_now
        if run is None or run.live:
            return run is not None
        return self.awaited is not None and (run.id, run.attempt) == self.awaited[:2] and time.time() < self.awaited[2]

    def _refuse_second(self) -> None:
        if self.running:
            raise SylvaError("A run of this pipeline is under way; stop it first, or wait for it.")

    def start(self, *, to: tuple[str, ...] = (), afresh: tuple[str, ...] = ()) -> None:
        """Run the pipeline as it is now: all of it, up to some nodes, or some nodes and all below them afresh."""
        self._refuse_second()
        studio().start(self.document, Request(pipeline=self.pipeline, to=to, start=afresh))

    def retry(self) -> None:
        """Go on with the last run; if the pipeline was changed since, run it anew: what is finished is in the store."""
        unchanged = self.run is not None and self.run_document is not None and self._same_work(self.run_document)
        if self.run is not None and unchanged:
            studio().go_on(self.run.id)
            self.awaited = self.run.id, self.run.attempt, time.time() + STARTING_SECONDS
        else:
            self.start()

    def stop(self) -> None:
        """Ask the run to stop."""
        if self.run is not None:
            studio().stop(self.run.id)

    # As a whole

    def duplicate(self) -> None:
        """Put a copy in its place."""
        lay_out(duplicate(self.library, self.pipeline))

    def delete(self) -> None:
        """Remove the pipeline for good."""
        self.library.delete(self.pipeline)
        clear()

    def _same_work(self, other: Document) -> bool:
        return (self.document.nodes, self.document.edges) == (other.nodes, other.edges)


def _differs_on_canvas(before: Document, after: Document) -> bool:
    """Whether something changed that belongs to the canvas: the nodes there are, edges, places, notes."""
    return (list(before.nodes), before.edges, before.layout, before.notes) != (
        list(after.nodes),
        after.edges,
        after.layout,
        after.notes,
    )


def open_desk() -> Desk | None:
    """The desk of this tab with the pipeline that the address names, or that lay on it before; ``None`` if none."""
    held: Desk | None = st.session_state.get(PLACE)
    wanted = st.query_params.get(ADDRESS) or (held.pipeline if held else None)
    if not wanted:
        return None
    st.query_params[ADDRESS] = wanted
    if held is None or held.pipeline != wanted:
        held = Desk.with_pipeline(Library(studio().workspace), studio().catalogue, wanted)
        st.session_state[PLACE] = held
    held.refresh()
    return held


def lay_out(pipeline: str) -> None:
    """Put a pipeline on the desk of this tab."""
    st.session_state.pop(PLACE, None)
    st.query_params[ADDRESS] = pipeline


def clear() -> None:
    """Put the pipeline back on the shelf; it is saved."""
    st.session_state.pop(PLACE, None)
    st.query_params.pop(ADDRESS, None)


def is_open(desk: Desk) -> bool:
    """Whether it is still this desk that lies in the tab."""
    return st.session_state.get(PLACE) is desk


def duplicate(library: Library, pipeline: str) -> str:
    """A copy under another name; its id."""
    document = library.open(pipeline).document
    return library.create(changed(document, name=f"{document.name[:190]} copy"))


def open_run(run: str) -> None:
    """Put the pipeline of a run on the desk: the one it was started from if that is unchanged, else a copy."""
    library = Library(studio().workspace)
    with studio().log() as log:
        row = log.run(run)
    document, origin = parse(row.document), row.request.get("pipeline")
    if origin and library.stamp(origin) and library.open(origin).document == document:
        lay_out(origin)
    else:
        moment = time.strftime("%d %b %H:%M", time.localtime(row.created))
        lay_out(library.create(changed(document, name=f"{document.name[:150]}, as run {moment}")))
