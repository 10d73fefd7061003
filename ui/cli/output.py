"""What a run or a node has to show: for programs as plain data, for people as text."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import CorruptObject, SylvaError
from engine.store import Artifact
from engine.text import cell, clock, duration, failure_line, size
from engine.values import kind_of

if TYPE_CHECKING:
    from engine.run_state import NodeState, RunState
    from engine.run_summaries import RunSummary
    from engine.runs import Runs
    from engine.values import Report

LOG_LINES = 40
PREVIEW_ROWS = 5
UNBOUNDED = 1_000_000
NARROWEST = 20
"""Characters below which a column is left out rather than wrapped."""

Row = Mapping[str, Any]


def exit_code(state: RunState) -> int:
    """0 done, 2 if all that failed was bad input, else 1."""
    if state.state == "done":
        return 0
    kinds = {node.error["kind"] for node in state.nodes.values() if node.state == "failed" and node.error}
    return 2 if state.state == "failed" and kinds == {"bad-input"} else 1


def run_row(run: RunSummary) -> dict[str, Any]:
    """A run in a list of runs."""
    end = run.finished or (time.time() if run.live else None)
    return {
        "run": run.id,
        "pipeline": run.name,
        "state": run.state,
        "created": run.created,
        "seconds": end - run.started if end and run.started else None,
        "headline": run.headline,
        "changed": " ".join(run.settings),
    }


def run_details(runs: Runs, state: RunState) -> dict[str, Any]:
    """All that is known of a run."""
    return {
        "run": state.id,
        "pipeline": state.name,
        "state": state.state,
        "created": state.created,
        "started": state.started,
        "finished": state.finished,
        "attempts": state.attempt,
        "settings": runs.find(state.id).request.get("settings", []),
        "workspace": str(runs.workspace.root),
        "nodes": {name: _node_facts(node) for name, node in state.nodes.items()},
        "reports": {name: vars(report) for name, report in reports(runs, state).items()},
        "exit_code": exit_code(state),
    }


def _node_facts(node: NodeState) -> dict[str, Any]:
    facts = {
        name: fact for name, fact in vars(node).items() if name not in ("subtasks", "partial_results")
    }  # `show RUN NODE` has these
    return facts | {"outputs": {port: output["digest"] for port, output in node.outputs.items()}}


def reports(runs: Runs, state: RunState) -> dict[str, Report]:
    """Return the reports of a run that no other node reads, by node; print which are damaged."""
    opened = {}
    for name, artifact in runs.final_reports(runs.find(state.id), state).items():
        try:
            opened[name] = runs.store.open(artifact)
        except CorruptObject as error:
            print(f"Node '{name}': {error} Run the pipeline again.", file=sys.stderr)
    return opened


def print_outcome(runs: Runs, state: RunState) -> None:
    """How a run ended: its reports, or what went wrong and what to do."""
    for name, report in reports(runs, state).items():
        print_report(name, report)
    for name, node in state.nodes.items():
        if node.state == "failed" and node.error:
            print(failure_line(name, node.error), file=sys.stderr)
    counts = {
        each: len(state.nodes_in(each)) for each in ("done", "cached", "failed", "skipped", "cancelled", "interrupted")
    }
    listing = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    print(f"Run {state.id} {state.state}: {listing or 'nothing was started'}.")
    _print_way_on(runs, state)


def _print_way_on(runs: Runs, state: RunState) -> None:
    """What to do about a run that is not done."""
    if state.state == "failed":
        failed = state.nodes_in("failed")
        print(f"Details: sylva show {state.id} {failed[0]}", file=sys.stderr)
        print(
            f"If the pipeline is to be changed, change it and run it again: what is finished stays cached.\n"
            f"If the cause was outside of it, or a limit: sylva retry {state.id}",
            file=sys.stderr,
        )
    elif state.state in ("cancelled", "interrupted"):
        words = runs.workspace.supervisor_error(state.id)
        if words and state.state == "interrupted":
            print(f"Its supervisor ended: {words}", file=sys.stderr)
        print(f"To continue: sylva resume {state.id}", file=sys.stderr)


def print_report(name: str, report: Report) -> None:
    """Headline and table of a report."""
    print(f"{report.title}  [{name}]")
    width = max((len(key) for key in report.headline), default=0)
    for key, value in report.headline.items():
        print(f"  {key.ljust(width)}  {cell(value)}")
    print_table(report.rows)
    print()


def print_run(runs: Runs, state: RunState) -> None:
    """A run as text."""
    print(f"Run {state.id} of '{state.name}': {state.state}, started {clock(state.started)}, attempt {state.attempt}")
    rows = []
    for name, node in state.nodes.items():
        words = failure_line(name, node.error) if node.error and node.state == "failed" else node.text
        took = duration(node.seconds if node.state != "cached" else None)
        rows.append({"node": name, "state": node.state, "took": took, "": words})
    print_table(rows)
    print()
    for name, report in reports(runs, state).items():
        print_report(name, report)
    _print_way_on(runs, state)


def node_details(runs: Runs, state: RunState, name: str) -> dict[str, Any]:
    """All that is known of a node of a run."""
    node = state.nodes[name]
    path = runs.workspace.node_log(state.id, name)
    outputs = {port: _output_facts(runs, Artifact.from_dict(about)) for port, about in node.outputs.items()}
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    pipeline = runs.pipeline(state.id)
    about = pipeline.nodes.get(name) if pipeline else None
    facts = {
        "run": state.id,
        "node": name,
        "type": about.type if about else "",
        "params": about.params if about else {},
    }
    jobs = [{"place": list(place), **vars(job)} for place, job in node.subtasks.items()]
    facts |= _node_facts(node) | {"outputs": outputs, "jobs": jobs, "parts": node.partial_results}
    return facts | {"log": lines[-LOG_LINES:]}


def _output_facts(runs: Runs, output: Artifact) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": output.type, "digest": output.digest, "bytes": output.size}
    facts["folder"] = str(runs.workspace.objects / output.digest)
    try:
        value = runs.store.open(output)
    except CorruptObject as error:
        return facts | {"damaged": str(error)}
    if output.type in ("table", "predictions"):
        data = value.data if output.type == "table" else value.to_arrow()
        facts |= {"rows": data.num_rows, "columns": {field.name: kind_of(field.type) for field in data.schema}}
        facts["target"] = value.target if output.type == "table" else None
        preview = data.slice(0, PREVIEW_ROWS).to_pylist()
        facts["preview"] = [{key: _plain(value) for key, value in row.items()} for row in preview]
    elif output.type == "report":
        facts["report"] = vars(value)
    return facts


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def print_node(details: dict[str, Any]) -> None:
    """A node of a run as text."""
    about = f"Node '{details['node']}' ({details['type']}) of run {details['run']}: {details['state']}"
    print(about, details["text"] or ("" if details["seconds"] is None else f"in {duration(details['seconds'])}"))
    if details["params"]:
        print("  settings:", json.dumps(details["params"], ensure_ascii=False))
    if details["error"]:
        print(failure_line(details["node"], details["error"]))
        print(details["error"].get("traceback") or "", end="")
    for port, facts in details["outputs"].items():
        shape = f", {facts['rows']:,} rows × {len(facts['columns'])} columns" if "rows" in facts else ""
        shape += f", target {facts['target']}" if facts.get("target") else ""
        print(f"  {port}: {facts['type']}{shape}, {size(facts['bytes'])}  {facts['folder']}")
        print(facts["damaged"]) if "damaged" in facts else _print_content(facts)
    if details["log"]:
        print("Log:")
        print("\n".join(f"  {line}" for line in details["log"]))


def _print_content(facts: dict[str, Any]) -> None:
    if "preview" in facts:
        target = [facts["target"]] if facts["target"] else []
        names = [*target, *(name for name in facts["columns"] if name not in target)]
        print_table([{f"{name} ({facts['columns'][name]})": row[name] for name in names} for row in facts["preview"]])
    if "report" in facts:
        print_table([{"": name, " ": value} for name, value in facts["report"]["headline"].items()])
        print_table(facts["report"]["rows"])


# Printing


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_error(error: SylvaError, *, as_json: bool) -> None:
    """Print an error: as a sentence for a person, or as JSON for a program."""
    if as_json:
        problems = [problem.to_dict() for problem in getattr(error, "problems", [])]
        print_json({"error": str(error), "problems": problems, "exit_code": error.exit_code})
    else:
        print(error, file=sys.stderr)


def print_table(rows: Sequence[Row]) -> None:
    """Print rows with the same keys as aligned columns.

    Columns without a value are left out, and so are those that do not fit the terminal.
    """
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    if not names:
        return
    cells = [names, *([cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(names))]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
    fitting = _fitting(widths, columns)
    for line in cells:
        print(_line(line[:fitting], widths, columns))
    if fitting < len(names):
        print(f"… and {len(names) - fitting} more columns; --json shows all")


def _fitting(widths: list[int], columns: int) -> int:
    """Return how many columns of the table fit, the last of them wrapped if need be."""
    count = len(widths)
    while count > 2 and sum(widths[: count - 1]) + 2 * (count - 1) + min(widths[count - 1], NARROWEST) > columns:
        count -= 1
    return count


def _line(texts: list[str], widths: list[int], columns: int) -> str:
    *first, last = texts
    start = "".join(text.ljust(width + 2) for text, width in zip(first, widths, strict=False))
    wrapped = textwrap.wrap(last, max(columns - len(start), NARROWEST))
    return (start + f"\n{' ' * len(start)}".join(wrapped)).rstrip()
