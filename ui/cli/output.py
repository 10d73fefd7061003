"""Describe runs and nodes: as plain data for programs, as text for people."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import CorruptObject
from engine.result_names import named_report
from engine.store import Artifact
from engine.text import cell, clock, duration, failure_line, readable, size
from engine.values import kind_of

if TYPE_CHECKING:
    from engine.run_state import NodeState, RunState, Subtask, SubtaskPath
    from engine.run_summaries import RunSummary
    from engine.runs import Runs
    from engine.values import Report
    from engine.workspace import Workspace

LOG_LINES = 40
PREVIEW_ROWS = 5
# The width of a table that is not printed to a terminal.
UNBOUNDED = 1_000_000
NARROWEST = 20
"""Characters: a narrower column is left out instead of wrapped."""

FINAL_STATES = ("done", "cached", "failed", "skipped", "cancelled", "interrupted")

OUTPUT_NAMES = {"try_number": "attempt", "execution": "attempt"}
"""What ``--json`` calls the fields of nodes and subtasks, where that is another name."""

Row = Mapping[str, Any]


def exit_code(state: RunState) -> int:
    """Return 0 for a run that is done, 2 if every failure was bad input, else 1."""
    if state.state == "done":
        return 0
    kinds = {
        node.error["kind"] for node in state.nodes.values() if node.state == "failed" and node.error
    }
    # A mixture of reasons is a failure: bad input alone does not explain it.
    return 2 if state.state == "failed" and kinds == {"bad-input"} else 1


def run_row(run: RunSummary) -> dict[str, Any]:
    """Return a run as a row of a list; a live run has the seconds until now."""
    # A run that was interrupted has no end: its time is not known.
    end = run.finished or (time.time() if run.live else None)
    return {
        "run": run.id,
        "pipeline": run.name,
        "state": run.state,
        "created": run.created,
        "seconds": end - run.started if end and run.started else None,
        "headline": run.headline,
        "changed": " ".join(run.overrides),
    }


def run_details(runs: Runs, state: RunState) -> dict[str, Any]:
    """Return all that is known of a run, as plain data."""
    return {
        "run": state.id,
        "pipeline": state.name,
        "state": state.state,
        "created": state.created,
        "started": state.started,
        "finished": state.finished,
        "attempts": state.attempt,
        "settings": runs.find(state.id).overrides,
        "workspace": str(runs.workspace.root),
        "nodes": {name: _node_facts(node) for name, node in state.nodes.items()},
        "workers": {address: vars(worker) for address, worker in state.workers.items()},
        "reports": {name: vars(report) for name, report in reports(runs, state).items()},
        "exit_code": exit_code(state),
    }


def _node_facts(node: NodeState) -> dict[str, Any]:
    """Return a node of a run as plain data, without what only ``show RUN NODE`` prints."""
    facts = {
        OUTPUT_NAMES.get(name, name): fact
        for name, fact in vars(node).items()
        if name not in ("subtasks", "partial_results")
    }
    return facts | {"outputs": {port: output["digest"] for port, output in node.outputs.items()}}


def reports(runs: Runs, state: RunState) -> dict[str, Report]:
    """Return the reports of a run that no other node reads, by node.

    Print which of them are damaged.
    """
    opened, row = {}, runs.find(state.id)
    names = runs.names(row)
    for name, artifact in runs.final_reports(row, state).items():
        try:
            opened[name] = named_report(runs.store.open(artifact), name, names)
        except CorruptObject as error:
            print(f"Node '{name}': {error} Run the pipeline again.", file=sys.stderr)
    return opened


def print_outcome(runs: Runs, details: Mapping[str, Any]) -> None:
    """Print how a run ended: its reports, or what went wrong and what to do."""
    for name, report in details["reports"].items():
        print_report(name, report)
    nodes = details["nodes"]
    for name, node in nodes.items():
        if node["state"] == "failed" and node["error"]:
            print(failure_line(name, node["error"]), file=sys.stderr)
    counts = Counter(node["state"] for node in nodes.values())
    states = [state for state in FINAL_STATES if counts[state]]
    listing = ", ".join(f"{counts[state]} {state}" for state in states)
    print(f"Run {details['run']} {details['state']}: {listing or 'nothing was started'}.")
    _print_next_steps(runs, details)


def _retry_command(details: Mapping[str, Any], failed: list[str]) -> str:
    """Return the command that retries a failed run; it raises the limit that a node has reached."""
    limits = {"timeout": " --timeout SECONDS", "memory": " --memory-limit MEGABYTES"}
    errors = [details["nodes"][name]["error"] or {} for name in failed]
    options = {limits.get(str(error.get("kind")), "") for error in errors}
    return f"sylva retry {details['run']}" + "".join(sorted(options))


def _print_next_steps(runs: Runs, details: Mapping[str, Any]) -> None:
    """Print what to do about a run that is not done."""
    run_id, state = details["run"], details["state"]
    if state == "failed":
        failed = [name for name, node in details["nodes"].items() if node["state"] == "failed"]
        print(f"Details: sylva show {run_id} {failed[0]}", file=sys.stderr)
        print(
            "If the pipeline needs a change, change it and run it again: "
            "finished nodes are not computed again.\n"
            f"If the cause was something else: {_retry_command(details, failed)}",
            file=sys.stderr,
        )
    elif state in ("cancelled", "interrupted"):
        reason = runs.workspace.supervisor_error(run_id)
        if reason and state == "interrupted":
            print(f"The supervisor of the run ended: {reason}", file=sys.stderr)
        print(f"To continue: sylva resume {run_id}", file=sys.stderr)


def print_report(name: str, report: Mapping[str, Any]) -> None:
    """Print title, headline and rows of a report; of a saved model only the number of files."""
    headline, rows = report["headline"], report["rows"]
    # A deep forest has dozens of files; the folder is in the headline.
    if report["kind"] == "saved-model":
        headline, rows = headline | {"files": len(rows)}, []
    print(f"{report['title']}  [{name}]")
    width = max((len(key) for key in headline), default=0)
    for key, value in headline.items():
        print(f"  {key.ljust(width)}  {cell(value)}")
    print_table(rows)
    print()


def print_runs(rows: Sequence[Row], workspace: Workspace) -> None:
    """Print a list of runs, or that the workspace has no runs."""
    if not rows:
        print(f"The workspace {workspace.root} has no runs yet.")
    formats = {"created": clock, "seconds": duration}
    lines = []
    for row in rows:
        lines.append({name: formats.get(name, str)(value) for name, value in row.items()})
    print_table(lines)


def print_run(runs: Runs, details: Mapping[str, Any]) -> None:
    """Print a run as text."""
    print(
        f"Run {details['run']} of '{details['pipeline']}': {details['state']}, "
        f"started {clock(details['started'])}, attempt {details['attempts']}"
    )
    rows = []
    for name, node in details["nodes"].items():
        failed = node["error"] and node["state"] == "failed"
        text = failure_line(name, node["error"]) if failed else node["text"]
        # A cached node took no time in this run.
        took = duration(node["seconds"] if node["state"] != "cached" else None)
        rows.append({"node": name, "state": node["state"], "took": took, "": text})
    print_table(rows)
    print_table([{"worker": name, **worker} for name, worker in details["workers"].items()])
    print()
    for name, report in details["reports"].items():
        print_report(name, report)
    _print_next_steps(runs, details)


def node_details(runs: Runs, state: RunState, name: str) -> dict[str, Any]:
    """Return all that is known of a node of a run, with the end of its log, as plain data."""
    node = state.nodes[name]
    path = runs.workspace.node_log(state.id, name)
    names, outputs = runs.names(runs.find(state.id)), {}
    for port, data in node.outputs.items():
        shown = _output_facts(runs, Artifact.from_dict(data))
        if "report" in shown:
            shown["report"] = vars(named_report(shown["report"], name, names))
        outputs[port] = shown
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    pipeline = runs.pipeline(state.id)
    written = pipeline.nodes.get(name) if pipeline else None
    facts = {
        "run": state.id,
        "node": name,
        "type": written.type if written else "",
        "params": written.params if written else {},
    }
    # The names of the output format stay as programs know them.
    subtasks = [_subtask_facts(path, subtask) for path, subtask in node.subtasks.items()]
    facts |= _node_facts(node) | {"outputs": outputs, "jobs": subtasks}
    facts["parts"] = node.partial_results
    return facts | {"log": lines[-LOG_LINES:]}


def _subtask_facts(path: SubtaskPath, subtask: Subtask) -> dict[str, Any]:
    """Return a subtask as plain data."""
    facts = {OUTPUT_NAMES.get(name, name): fact for name, fact in vars(subtask).items()}
    return {"place": list(path), **facts}


def _output_facts(runs: Runs, output: Artifact) -> dict[str, Any]:
    """Return an output as plain data: its size, its shape and first rows, or that it is damaged."""
    facts: dict[str, Any] = {"type": output.type, "digest": output.digest, "bytes": output.size}
    facts["folder"] = str(runs.workspace.objects / output.digest)
    try:
        value = runs.store.open(output)
    except CorruptObject as error:
        return facts | {"damaged": str(error)}
    if output.type in ("table", "predictions"):
        data = value.data if output.type == "table" else value.to_arrow()
        facts |= {
            "rows": data.num_rows,
            "columns": {field.name: kind_of(field.type) for field in data.schema},
        }
        facts["target"] = value.target if output.type == "table" else None
        preview = data.slice(0, PREVIEW_ROWS).to_pylist()
        facts["preview"] = [
            dict(zip(row, map(_plain, row.values()), strict=True)) for row in preview
        ]
    elif output.type == "report":
        facts["report"] = value
    return facts


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def print_node(details: dict[str, Any]) -> None:
    """Print a node of a run as text."""
    text = details["text"]
    if not text and details["seconds"] is not None:
        text = f"in {duration(details['seconds'])}"
    print(
        f"Node '{details['node']}' ({details['type']}) of run {details['run']}: {details['state']}",
        text,
    )
    if details["params"]:
        print("  params:", json.dumps(details["params"], ensure_ascii=False))
    if details["error"]:
        print(failure_line(details["node"], details["error"]))
        print(details["error"].get("traceback") or "", end="")
    for port, facts in details["outputs"].items():
        shape = (
            f", {facts['rows']:,} rows × {len(facts['columns'])} columns" if "rows" in facts else ""
        )
        shape += f", target {facts['target']}" if facts.get("target") else ""
        print(f"  {port}: {facts['type']}{shape}, {size(facts['bytes'])}  {facts['folder']}")
        if "damaged" in facts:
            print(facts["damaged"])
        else:
            _print_content(facts)
    if details["log"]:
        print("Log:")
        print("\n".join(f"  {line}" for line in details["log"]))


def _print_content(facts: dict[str, Any]) -> None:
    """Print the first rows of a table, or a report."""
    if "preview" in facts:
        # The target first: with many columns, the last ones do not fit the terminal.
        target = [facts["target"]] if facts["target"] else []
        names = [*target, *(name for name in facts["columns"] if name not in target)]
        rows = []
        for row in facts["preview"]:
            rows.append({f"{name} ({facts['columns'][name]})": row[name] for name in names})
        print_table(rows)
    if "report" in facts:
        print_table([{"": name, " ": value} for name, value in facts["report"]["headline"].items()])
        print_table(facts["report"]["rows"])


# Printing


def print_table(rows: Sequence[Row]) -> None:
    """Print rows with the same keys as aligned columns.

    Columns without a value are left out, and so are those that do not fit the terminal. Without a
    terminal, every row is one line.
    """
    filled = {name for row in rows for name, value in row.items() if value is not None}
    names = [name for name in rows[0] if name in filled] if rows else []
    if not names:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [[Text(name) for name in names]]
    for row in rows:
        lines.append([Text(readable(cell(row[name]))) for name in names])
    widths = [0] * len(names)
    for line in lines:
        widths = [max(width, text.cell_len) for width, text in zip(widths, line, strict=True)]
    # Without a terminal, a program reads the lines: they must not be wrapped.
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
    fitting = _fitting(widths, columns)
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for width in widths[: fitting - 1]:
        table.add_column(no_wrap=True, min_width=width)
    for line in lines:
        table.add_row(*line[:fitting])
    console = Console(width=columns, color_system=None)
    with console.capture() as capture:
        console.print(table)
    for text in capture.get().splitlines():
        print(text.rstrip())
    if fitting < len(names):
        print(f"… and {len(names) - fitting} more columns; --json shows all")


def _fitting(widths: list[int], columns: int) -> int:
    """Return how many columns of the table fit; the last of them may be wrapped."""
    count = len(widths)
    while (
        count > 2
        and sum(widths[: count - 1]) + 2 * (count - 1) + min(widths[count - 1], NARROWEST) > columns
    ):
        count -= 1
    return count
