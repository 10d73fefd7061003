"""One function per command. Slow modules are imported where they are used, so that ``sylva --help`` is instant."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from engine.errors import BadInput, SylvaError
from ui.cli.model_commands import predict, serve
from ui.cli.options import (
    DebugOption,
    DetachOption,
    FileArgument,
    JsonOption,
    MemoryOption,
    RetriesOption,
    RunArgument,
    TimeoutOption,
    WorkersOption,
    WorkspaceOption,
)

if TYPE_CHECKING:
    from engine.events import EventLog, RunRow
    from engine.pipeline import Pipeline
    from engine.plan import RunOptions
    from engine.run_state import RunState
    from engine.standby import Standby
    from engine.workspace import Workspace

app = typer.Typer(
    name="sylva",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"sylva {version('sylva-studio')}")
        raise typer.Exit


@app.callback()
def sylva(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Sylva: build, run and replay deep-forest pipelines."""


@app.command()
def studio(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on. [default: a free one]")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; print the address only.")] = False,
    workspace: WorkspaceOption = None,
    debug: DebugOption = False,
) -> None:
    """Build and run pipelines in the browser, on this machine only."""
    import os

    options = [f"--port={port}"] if port else []
    options += ["--no-browser"] if no_browser else []
    options += [f"--workspace={_workspace(workspace).root}"]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ui.studio", *options])


@app.command()
def run(
    file: FileArgument,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NODE.PARAM=VALUE", help="Change a parameter for this run; it is then not swept."
        ),
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="NODE.PARAM=V1,V2,…", help="Try several values, each in a branch of its own."),
    ] = None,
    to: Annotated[list[str] | None, typer.Option(metavar="NODE", help="Run only this node and what it needs.")] = None,
    start: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="NODE", help="Run this node and all below it afresh, even if unchanged."),
    ] = None,
    workers: WorkersOption = None,
    retries: RetriesOption = None,
    timeout: TimeoutOption = None,
    memory_limit: MemoryOption = None,
    store_limit: Annotated[int | None, typer.Option(min=1, metavar="MB", help="Size the store may reach.")] = None,
    executor: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler; nodes then run on its workers."),
    ] = None,
    detach: DetachOption = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a pipeline. What is unchanged since an earlier run is not computed again."""
    from engine.standby import Standby

    with Standby() as standby:
        from engine.events import EventLog
        from engine.launch import new_run
        from engine.pipeline_file import read
        from engine.plan import RunOptions
        from engine.workspace import CLEANING_SECONDS

        place = _workspace(workspace)
        request = RunOptions(
            to=tuple(to or ()),
            force_from=tuple(start or ()),
            workers=workers,
            retries=retries or 0,
            timeout=timeout,
            memory_limit=memory_limit,
            store_limit=store_limit * 1_000_000 if store_limit else None,
            allow_absolute=True,
            executor=executor,
            settings=(*(settings or ()), *(sweeps or ())),
        )
        document = _with_settings(read(file), settings) if settings else read(file)
        document = _with_sweeps(document, sweeps) if sweeps else document
        _refuse_invalid(document, request, place)
        # Held until the outcome is printed: `sylva gc` must not forget the run before that.
        with place.create().in_use(CLEANING_SECONDS), EventLog(place) as log:
            row = log.run(new_run(log, document, request))
            _carry_on(log, row, standby, detach=detach, as_json=as_json)


@app.command("resume")
@app.command()
def retry(
    run: RunArgument,
    workers: WorkersOption = None,
    retries: RetriesOption = None,
    timeout: TimeoutOption = None,
    memory_limit: MemoryOption = None,
    detach: DetachOption = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Go on with a run that failed, was cancelled or interrupted. Nothing finished runs again.

    The pipeline is the one the run began with. After a change to the document, `sylva run` it again: what is
    finished is in the store.
    """
    from engine.standby import Standby
    from engine.workspace import CLEANING_SECONDS

    limits = {"workers": workers, "retries": retries, "timeout": timeout, "memory_limit": memory_limit}
    with Standby() as standby, _log(workspace) as log, log.workspace.in_use(CLEANING_SECONDS):
        row = _run_to_continue(log, run, as_json=as_json)
        log.change_request(row.id, row.request | {name: each for name, each in limits.items() if each is not None})
        _carry_on(log, row, standby, detach=detach, as_json=as_json)


@app.command()
def cancel(
    run: RunArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Stop a run. It can be resumed later."""
    import time

    from engine.launch import request_cancel
    from engine.run_state import run_state
    from engine.workspace import CLEANING_SECONDS
    from ui.cli.output import print_json

    with _log(workspace) as log, log.workspace.in_use(CLEANING_SECONDS):
        row = log.run(run)
        request_cancel(run_state(log, row))
        deadline = time.monotonic() + 10
        while (state := run_state(log, row)).live:
            if time.monotonic() > deadline:
                raise SylvaError(f"Run {row.id} did not stop within 10 s; its supervisor is {state.supervisor}.")
            time.sleep(0.02)
    if as_json:
        print_json({"run": row.id, "state": state.state})
    else:
        print(f"Run {row.id} is {state.state}; `sylva resume {row.id}` goes on with it.")


@app.command()
def runs(
    limit: Annotated[int, typer.Option(min=1, help="How many to list, newest first.")] = 20,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List runs, newest first."""
    from engine.summaries import summaries
    from engine.text import clock, duration
    from ui.cli.output import print_json, print_table, run_row

    rows = []
    place = _workspace(workspace)
    if place.database.is_file():
        with _log(workspace) as log:
            rows = [run_row(each) for each in summaries(log, limit, reports=True)]
    if as_json:
        print_json(rows)
    elif rows:
        shown = {"created": clock, "seconds": duration}
        print_table([{name: shown.get(name, str)(value) for name, value in row.items()} for row in rows])
    else:
        print(f"No runs yet in {place.root}.")


@app.command()
def show(
    run: RunArgument,
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="Show one node: outputs, error, log.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a run, or one node of it."""
    from engine.run_state import run_state
    from ui.cli.output import node_details, print_json, print_node, print_run, run_details

    with _log(workspace) as log:
        state = run_state(log, log.run(run))
        if node is None:
            print_json(run_details(log, state)) if as_json else print_run(log, state)
        elif node not in state.nodes:
            raise BadInput(f"Run {state.id} has no node '{node}'; it has {', '.join(state.nodes)}.")
        else:
            details = node_details(log, state, node)
            print_json(details) if as_json else print_node(details)


@app.command()
def validate(
    file: FileArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Say everything that is wrong with a pipeline, without running it."""
    from engine.catalogue import load_catalog
    from engine.pipeline_file import read
    from engine.plan import RunOptions
    from engine.sweeps import expand
    from ui.cli.output import print_json

    document = read(file)
    _refuse_invalid(document, RunOptions(allow_absolute=True), _workspace(workspace))
    whole = expand(document, load_catalog()).pipeline
    if as_json:
        facts = {"name": document.name, "nodes": len(document.nodes), "nodes_with_branches": len(whole.nodes)}
        print_json({"valid": True, **facts, "problems": []})
    else:
        written_out = f" With all branches: {len(whole.nodes)} nodes." if whole is not document else ""
        print(f"{file} is valid: {len(document.nodes)} nodes, {len(document.edges)} edges.{written_out}")


@app.command()
def export(
    file: FileArgument,
    python: Annotated[
        bool, typer.Option("--python", help="As a Python script, which runs without the engine.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="File to write. [default: the terminal]")
    ] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write a pipeline in another form: as a Python script with the same result."""
    from engine.atomic import replacing
    from engine.catalogue import load_catalog
    from engine.export_python import export_python
    from engine.pipeline_file import read
    from engine.plan import RunOptions
    from ui.cli.output import print_json

    if not python:
        raise BadInput("Say what to write; `sylva export FILE --python` writes a Python script.")
    document = read(file)
    _refuse_invalid(document, RunOptions(allow_absolute=True), _workspace(workspace))
    script = export_python(document, load_catalog())
    if output is not None:
        try:
            with replacing(output) as temporary:
                temporary.write_text(script, encoding="utf-8")
        except OSError as error:
            raise SylvaError(f"{output} could not be written: {error.strerror or error}") from error
    if as_json:
        print_json({"file": str(output)} if output else {"script": script})
    elif output is None:
        print(script, end="")
    else:
        print(f"{output} is written.")


@app.command()
def nodes(
    node_type: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Show one type with its settings.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="The reference page of all types.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the node types there are."""
    from engine.catalogue import load_catalog
    from ui.cli.node_reference import describe, markdown_page, print_type
    from ui.cli.output import print_json, print_table

    catalogue = load_catalog()
    for failure in catalogue.failures:
        print(failure, file=sys.stderr)
    if node_type is not None and node_type not in catalogue:
        raise BadInput(f"There is no node type '{node_type}'; `sylva nodes` lists them.")
    chosen = [catalogue[node_type]] if node_type else list(catalogue.values())
    if as_json:
        described = [describe(each) for each in chosen]
        print_json(described[0] if node_type else described)
    elif markdown:
        print(markdown_page(chosen), end="")
    elif node_type:
        print_type(chosen[0])
    else:
        print_table([{"type": each.name, "category": each.category, "summary": each.summary} for each in chosen])


@app.command()
def schema(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the JSON schema of pipeline documents, for editors and checkers."""
    from engine.catalogue import load_catalog
    from engine.schema import json_schema
    from ui.cli.output import print_json

    print_json(json_schema(load_catalog()))


@app.command()
def gc(
    keep: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the newest runs to keep.")] = 20,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Forget old runs and remove every stored result no kept run refers to."""
    from engine.cleaning import clean
    from engine.text import size
    from ui.cli.output import print_json

    done = clean(_used_workspace(workspace), keep)
    if as_json:
        facts = {"freed_bytes": done.freed, "forgotten_runs": done.forgotten, "kept_runs": done.kept}
        print_json(facts | {"notice": done.notice})
    else:
        print(f"Freed {size(done.freed)}; {done.forgotten} runs forgotten, {done.kept} kept.")
        if done.notice:
            print(done.notice, file=sys.stderr)


app.command()(predict)
app.command()(serve)


def _workspace(root: Path | None) -> Workspace:
    from engine.workspace import Workspace

    return Workspace.at(root)


def _used_workspace(root: Path | None) -> Workspace:
    """A workspace that must have runs: asking about them creates nothing."""
    from engine.events import UnknownRun

    place = _workspace(root)
    if not place.database.is_file():
        raise UnknownRun(f"There are no runs yet in {place.root}.")
    return place


def _log(root: Path | None) -> EventLog:
    from engine.events import EventLog

    return EventLog(_used_workspace(root))


def _with_settings(document: Pipeline, settings: list[str]) -> Pipeline:
    """Apply ``--set NODE.PARAM=VALUE``, a value for all branches; it is JSON where it can be, else text."""
    from engine.catalogue import load_catalog
    from engine.edits import set_params, set_sweep
    from engine.sweeps import without_choices

    for setting in settings:
        node, param, text = _node_param_text("--set", setting, document)
        params: dict[str, Any] = {**document.nodes[node].params, param: _value(text)}
        document = set_params(document, load_catalog(), node, params)
        document = set_sweep(document, node, without_choices(document.nodes[node].sweep, param))
    return document


def _with_sweeps(document: Pipeline, sweeps: list[str]) -> Pipeline:
    """Apply ``--sweep NODE.PARAM=V1,V2``: one more parameter for the node's sweep, or its values instead of others."""
    from engine.edits import set_sweep
    from engine.sweeps import with_choices

    for given in sweeps:
        node, param, text = _node_param_text("--sweep", given, document)
        sweep = with_choices(document.nodes[node].sweep, param, _values(text))
        document = set_sweep(document, node, sweep)
    return document


def _node_param_text(option: str, given: str, document: Pipeline) -> tuple[str, str, str]:
    """The parts of ``NODE.PARAM=TEXT``."""
    place, equals, text = given.partition("=")
    node, dot, param = place.partition(".")
    if not (equals and dot and node and param):
        raise BadInput(f"{option} {given}: write it as NODE.PARAM=VALUE.")
    if node not in document.nodes:
        raise BadInput(f"{option} {given}: there is no node '{node}'; there are {', '.join(document.nodes)}.")
    return node, param, text


def _values(text: str) -> list[Any]:
    """Values between commas; as a whole they may be JSON, such as lists, or each by itself."""
    try:
        return list(json.loads(f"[{text}]"))
    except (ValueError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise BadInput("The value is nested too deeply.") from None


def _refuse_invalid(document: Pipeline, request: RunOptions, place: Workspace) -> None:
    """Raise all problems of the document and of the files it reads; nothing has been written yet."""
    from engine.catalogue import load_catalog
    from engine.launch import find_all_problems
    from engine.plan import make_plan
    from engine.problems import InvalidPipeline, UnknownType

    problems = find_all_problems(document, load_catalog(), request, place)
    if any(isinstance(problem, UnknownType) for problem in problems):
        for failure in load_catalog().failures:
            print(failure, file=sys.stderr)
    if problems:
        raise InvalidPipeline(problems)
    if not document.nodes:
        raise BadInput("The pipeline has no nodes yet; add some.")
    make_plan(document, load_catalog(), request)


def _run_to_continue(log: EventLog, run: str, *, as_json: bool) -> RunRow:
    from engine.run_state import run_state
    from ui.cli.output import print_json

    row = log.run(run)
    state = run_state(log, row)
    if state.live:
        raise SylvaError(
            f"Run {row.id} is {state.state}; `sylva show {row.id}` shows it, `sylva cancel {row.id}` stops it."
        )
    if state.state == "done":
        if as_json:
            print_json({"run": row.id, "state": "done"})
        else:
            print(f"Run {row.id} of '{row.name}' is done already; there is nothing left to do.")
        raise typer.Exit
    return row


def _carry_on(log: EventLog, row: RunRow, standby: Standby, *, detach: bool, as_json: bool) -> None:
    """Start the run and watch it."""
    from ui.cli.output import print_json
    from ui.cli.progress import follow

    supervisor = standby.begin(log.workspace, row.id)
    if detach:
        print_json({"run": row.id}) if as_json else print(row.id)
        return
    _finish(log, follow(log, row, supervisor, quiet=as_json), as_json=as_json)


def _finish(log: EventLog, state: RunState, *, as_json: bool) -> NoReturn:
    from ui.cli.output import exit_code, print_json, print_outcome, run_details

    print_json(run_details(log, state)) if as_json else print_outcome(log, state)
    raise typer.Exit(exit_code(state))
