"""The commands of ``sylva``, one function each.

The docstring of a command is its help text. Slow modules are imported inside the functions, so that
``sylva --help`` stays fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import BadInput, SylvaError
from ui.cli.cluster import app as cluster_app
from ui.cli.model_commands import predict, serve
from ui.cli.options import (
    CommonOptions,
    DetachOption,
    FileArgument,
    MemoryOption,
    RetriesOption,
    RunArgument,
    TimeoutOption,
    WorkersOption,
    command,
)
from ui.cli.saved_models import app as models_app

if TYPE_CHECKING:
    from engine.pipeline import Pipeline
    from engine.runs import Runs, RunWatcher

app = typer.Typer(
    name="sylva",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(requested: bool) -> None:
    """Print the version and end, if ``--version`` was given."""
    if requested:
        from importlib.metadata import version

        print(f"sylva {version('sylva-studio')}")
        raise typer.Exit


@app.callback()
def sylva(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Sylva: build, run and replay deep-forest pipelines."""


@command(app, without=("json",))
def studio(
    common: CommonOptions,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on. [default: a free one]")
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Build and run pipelines in the browser, on this machine only."""
    import os

    options = [f"--port={port}"] if port else []
    options += ["--no-browser"] if no_browser else []
    options += [f"--workspace={common.workspace.root}"]
    # Replace this process, so that signals reach the studio itself. -P keeps the current folder out
    # of the imports.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ui.studio", *options])


@command(app)
def run(
    common: CommonOptions,
    file: FileArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NODE.PARAM=VALUE",
            help="Change a parameter for this run; removes its sweep.",
        ),
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NODE.PARAM=V1,V2,…",
            help="Try several values, each in a branch of its own.",
        ),
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Run only this node and what it needs.")
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NODE",
            help="Run this node and all after it again, even if unchanged. Branches that have "
            "nothing to do with it do not run.",
        ),
    ] = None,
    workers: WorkersOption = None,
    retries: RetriesOption = None,
    timeout: TimeoutOption = None,
    memory_limit: MemoryOption = None,
    store_limit: Annotated[
        int | None, typer.Option(min=1, metavar="MB", help="Maximum size of the store.")
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address of a Dask scheduler; nodes then run on its workers."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where workers find data if they do not see the workspace, such as "
            "s3://BUCKET/FOLDER; the workspace's settings must allow it.",
        ),
    ] = None,
    detach: DetachOption = False,
) -> None:
    """Run a pipeline. Nodes that are unchanged since an earlier run are not computed again."""
    from engine.supervisor_starter import SupervisorStarter

    # First, because its process loads the engine while this one checks the pipeline.
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
            # On the command line, a pipeline may read any file of its user.
            allow_absolute=True,
            executor=executor,
            storage=storage,
            overrides=(*(changes or ()), *(sweeps or ())),
        )
        # First the values, then the sweeps: --sweep of a parameter wins over --set.
        pipeline = _with_sweeps(_with_overrides(read(file), changes or []), sweeps or [])
        with Runs(common.workspace, starter=starter) as runs, _naming_broken_packages():
            run_id = runs.start(pipeline, options)
            starter.close()
            _follow(common, runs, runs.watch(run_id), detach=detach)


@command(app, alias="resume")
def retry(
    common: CommonOptions,
    run: RunArgument,
    workers: WorkersOption = None,
    retries: RetriesOption = None,
    timeout: TimeoutOption = None,
    memory_limit: MemoryOption = None,
    detach: DetachOption = False,
) -> None:
    """Continue a run that failed, was cancelled or interrupted. Finished nodes do not run again.

    `sylva resume` is the same command: you retry a failed run and resume a stopped one. The run
    continues with the pipeline that it began with. If you have changed the pipeline, use
    `sylva run` instead: nodes that are finished and unchanged do not run again.
    """
    from engine.supervisor_starter import SupervisorStarter

    with SupervisorStarter() as starter:
        from engine.runs import NotResumable, Runs

        limits = {
            "workers": workers,
            "retries": retries,
            "timeout": timeout,
            "memory_limit": memory_limit,
        }
        with Runs(common.used_workspace, starter=starter) as runs:
            # Before it continues: what earlier attempts wrote into the log is not printed again.
            watcher = runs.watch(run)
            watcher.refresh()
            try:
                runs.resume(watcher.row.id, **limits)
            except NotResumable as error:
                # A live run is an error; a run that is done needs nothing, which is not.
                if error.state.live:
                    raise
                state = error.state
                words = f"Run {state.id} of '{state.name}' is already done."
                common.output({"run": state.id, "state": "done"}, words)
            else:
                starter.close()
                _follow(common, runs, watcher, detach=detach)


@command(app)
def cancel(common: CommonOptions, run: RunArgument) -> None:
    """Stop a run. It can be resumed later."""
    import time

    from engine.runs import Runs
    from engine.workspace import CLEANING_SECONDS

    workspace = common.used_workspace
    # `sylva gc` must not remove the run before its state is printed.
    with workspace.in_use(CLEANING_SECONDS), Runs(workspace) as runs:
        runs.cancel(run)
        watcher = runs.watch(run)
        deadline = time.monotonic() + 10
        while (state := watcher.refresh()).live:
            if time.monotonic() > deadline:
                raise SylvaError(
                    f"Run {state.id} did not stop within 10 s. "
                    f"Its supervisor process is {state.supervisor}."
                )
            time.sleep(0.02)
    words = f"Run {state.id} is {state.state}. To continue: sylva resume {state.id}"
    common.output({"run": state.id, "state": state.state}, words)


@command(app)
def runs(
    common: CommonOptions,
    limit: Annotated[int, typer.Option(min=1, help="How many to list, newest first.")] = 20,
) -> None:
    """List runs, newest first."""
    from engine.runs import Runs
    from ui.cli.output import print_runs, run_row

    # A workspace without a database has no runs; to look at it must not create one.
    rows = []
    workspace = common.workspace
    if workspace.database.is_file():
        rows = [run_row(each) for each in Runs(workspace).list(limit)]
    common.output(rows, lambda: print_runs(rows, workspace))


@command(app)
def show(
    common: CommonOptions,
    run: RunArgument,
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="Show one node: outputs, error, log.")
    ] = None,
) -> None:
    """Show a run, or one node of it."""
    from engine.runs import Runs
    from ui.cli.output import node_details, print_node, print_run, run_details

    with Runs(common.used_workspace) as runs:
        state = runs.state(run)
        if node is None:
            details = run_details(runs, state)
            common.output(details, lambda: print_run(runs, details))
        elif node in state.nodes:
            details = node_details(runs, state, node)
            common.output(details, lambda: print_node(details))
        else:
            raise BadInput(f"Run {state.id} has no node '{node}'; it has {', '.join(state.nodes)}.")


@command(app)
def validate(common: CommonOptions, file: FileArgument) -> None:
    """List all problems of a pipeline, and hints about its data, without running it."""
    from engine.node_types import load_catalog
    from engine.sweeps import expand
    from engine.workspace import Files
    from nodes.data.hints import pipeline_hints

    pipeline = _read_valid(common, file)
    expanded = expand(pipeline, load_catalog())
    nodes_with_branches = len(expanded.pipeline.nodes)
    words = f"{file} is valid: {len(pipeline.nodes)} nodes, {len(pipeline.edges)} edges."
    bypassed = [name for name, node in pipeline.nodes.items() if node.bypass]
    if bypassed:
        words += f" Bypassed: {', '.join(bypassed)}."
    if expanded.branches:
        words += f" With all branches: {nodes_with_branches} nodes."
    files = Files(common.workspace.root, allow_absolute=True)
    hints = pipeline_hints(pipeline, load_catalog(), files)
    words = "\n".join([words, *(f"Hint: {hint}" for hint in hints)])
    facts = {
        "name": pipeline.name,
        "nodes": len(pipeline.nodes),
        "bypassed": bypassed,
        "nodes_with_branches": nodes_with_branches,
        "hints": [hint.to_dict() for hint in hints],
    }
    common.output({"valid": True, **facts, "problems": []}, words)


@command(app)
def export(
    common: CommonOptions,
    file: FileArgument,
    python: Annotated[
        bool,
        typer.Option(
            "--python", show_default=False, help="Write a Python script; this is the only format."
        ),
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="OUT", help="File to write. [default: the terminal]"
        ),
    ] = None,
) -> None:
    """Export a pipeline as a Python script that gives the same result without the engine."""
    from engine.atomic import replacing
    from engine.export_python import export_python
    from engine.node_types import load_catalog

    script = export_python(_read_valid(common, file), load_catalog())
    if output is None:
        common.output({"script": script}, lambda: print(script, end=""))
        return
    try:
        with replacing(output) as temporary:
            temporary.write_text(script, encoding="utf-8")
    except OSError as error:
        raise SylvaError(f"{output} could not be written: {error.strerror or error}.") from error
    common.output({"file": str(output)}, f"Wrote {output}.")


@command(app, without=("workspace",))
def nodes(
    common: CommonOptions,
    node_type: Annotated[
        str | None,
        typer.Argument(metavar="[TYPE]", help="Show only this type, with its parameters."),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the reference page of all types.")
    ] = False,
) -> None:
    """List the installed node types."""
    from engine.node_types import load_catalog
    from ui.cli.node_reference import describe, markdown_page, print_type
    from ui.cli.output import print_table

    catalog = load_catalog()
    # To standard error: with --json, standard output holds one document only.
    for failure in catalog.failures:
        print(failure, file=sys.stderr)
    if node_type is not None and node_type not in catalog:
        raise BadInput(
            f"The node type '{node_type}' does not exist; `sylva nodes` lists all types."
        )
    chosen = [catalog[node_type]] if node_type else list(catalog.values())
    described = [describe(each) for each in chosen]

    def render() -> None:
        """Print one type, all types, or the reference page."""
        if markdown:
            print(markdown_page(chosen), end="")
        elif node_type:
            print_type(chosen[0])
        else:
            print_table(
                [
                    {"type": each.name, "category": each.category, "summary": each.summary}
                    for each in chosen
                ]
            )

    common.output(described[0] if node_type else described, render)


@command(app, without=("workspace",))
def schema(common: CommonOptions) -> None:
    """Print the JSON schema of pipeline documents, for editors and validators."""
    from engine.node_types import load_catalog
    from engine.pipeline_file import json_schema

    print(json.dumps(json_schema(load_catalog()), indent=2, ensure_ascii=False))


@command(app)
def gc(
    common: CommonOptions,
    keep: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of the newest runs to keep.")
    ] = 20,
) -> None:
    """Remove old runs, and every stored result that only they use."""
    from engine.runs import Runs
    from engine.text import size

    done = Runs(common.used_workspace).clean(keep)

    def render() -> None:
        """Print how much was removed."""
        print(f"Freed {size(done.freed)}; {done.removed} runs removed, {done.kept} kept.")
        if done.notice:
            print(done.notice, file=sys.stderr)

    facts = {"freed_bytes": done.freed, "forgotten_runs": done.removed, "kept_runs": done.kept}
    common.output(facts | {"notice": done.notice}, render)


command(app)(predict)
command(app)(serve)
app.add_typer(cluster_app)
app.add_typer(models_app)


def _with_overrides(pipeline: Pipeline, changes: list[str]) -> Pipeline:
    """Return the pipeline with the changes of ``--set NODE.PARAM=VALUE``.

    A value is JSON if it can be read as JSON, else text. It replaces the sweep of this parameter.
    """
    from engine.edits import set_params, set_sweep
    from engine.node_types import load_catalog
    from engine.sweeps import without_choices

    for change in changes:
        node, param, text = _node_param_text("--set", change, pipeline)
        params: dict[str, Any] = {**pipeline.nodes[node].params, param: _value(text)}
        pipeline = set_params(pipeline, load_catalog(), node, params)
        pipeline = set_sweep(pipeline, node, without_choices(pipeline.nodes[node].sweep, param))
    return pipeline


def _with_sweeps(pipeline: Pipeline, sweeps: list[str]) -> Pipeline:
    """Return the pipeline with the sweeps of ``--sweep NODE.PARAM=V1,V2``.

    A parameter is added to the sweep of the node, or its values are replaced.
    """
    from engine.edits import set_sweep
    from engine.sweeps import with_choices

    for change in sweeps:
        node, param, text = _node_param_text("--sweep", change, pipeline)
        sweep = with_choices(pipeline.nodes[node].sweep, param, _values(text))
        pipeline = set_sweep(pipeline, node, sweep)
    return pipeline


def _node_param_text(option: str, change: str, pipeline: Pipeline) -> tuple[str, str, str]:
    """Return the parts of ``NODE.PARAM=TEXT``; raise ``BadInput`` if the node does not exist."""
    path, equals, text = change.partition("=")
    node, dot, param = path.partition(".")
    if not (equals and dot and node and param):
        raise BadInput(f"{option} {change}: write it as NODE.PARAM=VALUE.")
    if node not in pipeline.nodes:
        raise BadInput(
            f"{option} {change}: the node '{node}' does not exist; "
            f"there are {', '.join(pipeline.nodes)}."
        )
    return node, param, text


def _values(text: str) -> list[Any]:
    """Return the values between commas.

    They are JSON together, so that a value may be a list with commas; else each is read alone.
    """
    try:
        return list(json.loads(f"[{text}]"))
    except (ValueError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")]


def _value(text: str) -> Any:
    """Return a value: JSON if it can be read as JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise BadInput(f"The value {text[:40]}… is nested too deeply.") from None


def _read_valid(common: CommonOptions, file: Path) -> Pipeline:
    """Return the pipeline of a file.

    Raise ``InvalidPipeline`` with all problems of the pipeline and of the files that it reads.
    """
    from engine.pipeline_file import read
    from engine.plan import RunOptions
    from engine.runs import Runs

    pipeline = read(file)
    with _naming_broken_packages():
        Runs(common.workspace).require_valid(pipeline, RunOptions(allow_absolute=True))
    return pipeline


@contextmanager
def _naming_broken_packages() -> Iterator[None]:
    """If a node type is missing, print which installed packages could not be loaded.

    The type may be in one of them.
    """
    from engine.errors import InvalidPipeline, UnknownType
    from engine.node_types import load_catalog

    try:
        yield
    except InvalidPipeline as error:
        if any(isinstance(problem, UnknownType) for problem in error.problems):
            for failure in load_catalog().failures:
                print(failure, file=sys.stderr)
        raise


def _follow(common: CommonOptions, runs: Runs, watcher: RunWatcher, *, detach: bool) -> None:
    """Follow a run that was just started, print its result, and end with its exit code.

    With ``detach``, print only the id of the run.
    """
    from ui.cli.output import exit_code, print_outcome, run_details
    from ui.cli.progress import follow

    if detach:
        common.output({"run": watcher.row.id}, watcher.row.id)
        return
    state = follow(runs, watcher, quiet=common.as_json)
    details = run_details(runs, state)
    common.output(details, lambda: print_outcome(runs, details))
    raise typer.Exit(exit_code(state))
