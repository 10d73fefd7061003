"""One function per command. Slow modules are imported where they are used, so that ``sylva --help`` is instant."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from engine.pipeline import Pipeline
    from engine.plan import RunOptions
    from engine.run_state import RunState
    from engine.runs import Runs
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
        typer.Option("--from", metavar="NODE", help="Run this node and all below it again, even if unchanged."),
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
    from engine.supervisor_starter import SupervisorStarter

    # First of all: its process loads the engine while this one checks the pipeline.
    with SupervisorStarter() as starter:
        from engine.pipeline_file import read
        from engine.plan import RunOptions
        from engine.runs import Runs

        options = RunOptions(
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
        pipeline = _with_sweeps(_with_settings(read(file), settings or []), sweeps or [])
        with Runs(_workspace(workspace), starter=starter) as runs, _naming_broken_packages():
            run_id = runs.start(pipeline, options)
            starter.close()
            _follow(runs, run_id, detach=detach, as_json=as_json)


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
    from engine.supervisor_starter import SupervisorStarter

    with SupervisorStarter() as starter:
        from engine.runs import NotResumable, Runs

        limits = {"workers": workers, "retries": retries, "timeout": timeout, "memory_limit": memory_limit}
        with Runs(_used_workspace(workspace), starter=starter) as runs:
            try:
                run = runs.resume(run, **limits)
            except NotResumable as error:
                if error.state.live:
                    raise
                _print_done(error.state, as_json=as_json)
            else:
                starter.close()
                _follow(runs, run, detach=detach, as_json=as_json)


@app.command()
def cancel(
    run: RunArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Stop a run. It can be resumed later."""
    import time

    from engine.runs import Runs
    from engine.workspace import CLEANING_SECONDS
    from ui.cli.output import print_json

    place = _used_workspace(workspace)
    # `sylva gc` must not remove the run before its state is printed.
    with place.in_use(CLEANING_SECONDS), Runs(place) as runs:
        runs.cancel(run)
        watcher = runs.watch(run)
        deadline = time.monotonic() + 10
        while (state := watcher.refresh()).live:
            if time.monotonic() > deadline:
                raise SylvaError(f"Run {state.id} did not stop within 10 s; its supervisor is {state.supervisor}.")
            time.sleep(0.02)
    if as_json:
        print_json({"run": state.id, "state": state.state})
    else:
        print(f"Run {state.id} is {state.state}. To continue: sylva resume {state.id}")


@app.command()
def runs(
    limit: Annotated[int, typer.Option(min=1, help="How many to list, newest first.")] = 20,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List runs, newest first."""
    from engine.runs import Runs
    from engine.text import clock, duration
    from ui.cli.output import print_json, print_table, run_row

    rows = []
    place = _workspace(workspace)
    if place.database.is_file():
        rows = [run_row(each) for each in Runs(place).list(limit)]
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
    from engine.runs import Runs
    from ui.cli.output import node_details, print_json, print_node, print_run, run_details

    with Runs(_used_workspace(workspace)) as runs:
        state = runs.state(run)
        if node is not None and node not in state.nodes:
            raise BadInput(f"Run {state.id} has no node '{node}'; it has {', '.join(state.nodes)}.")
        if node is None and as_json:
            print_json(run_details(runs, state))
        elif node is None:
            print_run(runs, state)
        elif as_json:
            print_json(node_details(runs, state, node))
        else:
            print_node(node_details(runs, state, node))


@app.command()
def validate(
    file: FileArgument, workspace: WorkspaceOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Say everything that is wrong with a pipeline, without running it."""
    from engine.node_types import load_catalog
    from engine.pipeline_file import read
    from engine.plan import RunOptions
    from engine.sweeps import expand
    from ui.cli.output import print_json

    document = read(file)
    _require_valid(document, RunOptions(allow_absolute=True), _workspace(workspace))
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
    from engine.export_python import export_python
    from engine.node_types import load_catalog
    from engine.pipeline_file import read
    from engine.plan import RunOptions
    from ui.cli.output import print_json

    if not python:
        raise BadInput("Say what to write; `sylva export FILE --python` writes a Python script.")
    document = read(file)
    _require_valid(document, RunOptions(allow_absolute=True), _workspace(workspace))
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
    from engine.node_types import load_catalog
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
    from engine.node_types import load_catalog
    from engine.pipeline_file import json_schema
    from ui.cli.output import print_json

    print_json(json_schema(load_catalog()))


@app.command()
def gc(
    keep: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the newest runs to keep.")] = 20,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove old runs and every stored result that no kept run refers to."""
    from engine.runs import Runs
    from engine.text import size
    from ui.cli.output import print_json

    done = Runs(_used_workspace(workspace)).clean(keep)
    if as_json:
        facts = {"freed_bytes": done.freed, "forgotten_runs": done.removed, "kept_runs": done.kept}
        print_json(facts | {"notice": done.notice})
    else:
        print(f"Freed {size(done.freed)}; {done.removed} runs removed, {done.kept} kept.")
        if done.notice:
            print(done.notice, file=sys.stderr)


app.command()(predict)
app.command()(serve)


def _workspace(root: Path | None) -> Workspace:
    from engine.workspace import Workspace

    return Workspace.at(root)


def _used_workspace(root: Path | None) -> Workspace:
    """Return a workspace that has runs; raise ``UnknownRun`` if it has none, and create nothing."""
    from engine.events import UnknownRun

    place = _workspace(root)
    if not place.database.is_file():
        raise UnknownRun(f"There are no runs yet in {place.root}.")
    return place


def _with_settings(document: Pipeline, settings: list[str]) -> Pipeline:
    """Apply ``--set NODE.PARAM=VALUE``, a value for all branches; it is JSON where it can be, else text."""
    from engine.edits import set_params, set_sweep
    from engine.node_types import load_catalog
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


def _require_valid(pipeline: Pipeline, options: RunOptions, workspace: Workspace) -> None:
    """Raise all problems of the pipeline and of the files it reads."""
    from engine.runs import Runs

    with _naming_broken_packages():
        Runs(workspace).require_valid(pipeline, options)


@contextmanager
def _naming_broken_packages() -> Iterator[None]:
    """If a node type is missing, print which installed packages could not be loaded."""
    from engine.errors import InvalidPipeline, UnknownType
    from engine.node_types import load_catalog

    try:
        yield
    except InvalidPipeline as error:
        if any(isinstance(problem, UnknownType) for problem in error.problems):
            for failure in load_catalog().failures:
                print(failure, file=sys.stderr)
        raise


def _print_done(state: RunState, *, as_json: bool) -> None:
    from ui.cli.output import print_json

    if as_json:
        print_json({"run": state.id, "state": "done"})
    else:
        print(f"Run {state.id} of '{state.name}' is done already; there is nothing left to do.")


def _follow(runs: Runs, run_id: str, *, detach: bool, as_json: bool) -> None:
    """Follow a run that was just started to its end, unless it is detached."""
    from ui.cli.output import exit_code, print_json, print_outcome, run_details
    from ui.cli.progress import follow

    if detach and as_json:
        print_json({"run": run_id})
    elif detach:
        print(run_id)
    else:
        state = follow(runs, run_id, quiet=as_json)
        if as_json:
            print_json(run_details(runs, state))
        else:
            print_outcome(runs, state)
        raise typer.Exit(exit_code(state))
