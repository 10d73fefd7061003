"""Write ``docs/scale.md`` from the results.

- ``write_page``  the whole page
- ``page_text``   the same as text; what has no result is shown as not measured
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from .._figures import ROOT, write_whole
from .model import CostModel, bytes_moved, compare, fit_model, parts_of, predicted
from .runs import FITTED, HELD_OUT, Result, Run, run_of, short
from .scenario import (
    CORES,
    LOSSES_PER_HOUR,
    MACHINES,
    PAPER,
    SEEDS,
    STRAGGLING,
    Assumed,
    Line,
    replayed,
    shares,
    table_of,
)

PAGE = ROOT / "docs" / "scale.md"
GOAL = 0.25
MEASURES = {
    "cpu": "CPU seconds",
    "mb of a fit": "memory of a fit",
    "mb of the coordinator": "memory of the coordinator",
    "bytes read": "bytes used",
    "bytes written": "bytes written",
}
STEPS = {
    "bin": "the coordinator bins the table",
    "widen": "the coordinator adds the class vectors to the bins",
    "files": "the coordinator writes the files",
    "writing": "the files travel to the storage",
    "digest": "the coordinator hashes the vectors and rows",
    "take": "the coordinator reads the results of the fits",
    "gather": "the coordinator puts the vectors together",
    "score": "the coordinator combines and scores the layer",
    "rest": "the coordinator checks the table, and the like",
    "reading": "the fits wait for their files",
    "fitting": "the fits compute",
}


class Results:
    """The results by kind."""

    def __init__(self, results: Iterable[Result]) -> None:
        found = list(results)
        cascades = {run_of(each): each for each in found if each["job"]["job"] == "cascade"}
        self.fitted = [cascades[run] for run in FITTED if run in cascades]
        self.held_out = [cascades[run] for run in HELD_OUT if run in cascades]
        self.threads = [each for each in found if each["job"]["job"] == "threads"]
        self.replays = [each for each in found if each["job"]["job"] == "replay"]
        self.queues = [each for each in found if each["job"]["job"] == "queue"]
        self.sources = sorted({each["sources"] for each in found})
        self.model = fit_model(self.fitted)

    def assumed(self) -> Assumed:
        """Return the assumptions, with the serial shares that were measured."""
        if not self.threads:
            return Assumed()
        measured = self.threads[0]
        return Assumed(
            serial_bin=serial_share(measured["bin 1"], measured["bin 2"]),
            serial_fit=serial_share(measured["fit 1"], measured["fit 2"]),
        )


def serial_share(one: Sequence[float], two: Sequence[float]) -> float:
    """Return what one thread does alone: s in t₂ = t₁ (s + (1 − s) / 2)."""
    return max(0.0, 2 * two[0] / one[0] - 1)


def write_page(results: Iterable[Result], file: Path = PAGE) -> None:
    """Write the page from results."""
    write_whole(file, page_text(results))


def page_text(results: Iterable[Result]) -> str:
    """Return the page."""
    found = Results(results)
    sections = (
        _introduction(found),
        _costs(found.model),
        _errors(found),
        _scheduler(found),
        _memory(found),
        _paper(found),
        _limits(),
    )
    return wrapped("\n\n".join(sections)) + "\n"


def wrapped(text: str) -> str:
    """Return a text whose paragraphs and list items have lines of 100 characters at most."""
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith(("|", "#")):
            blocks.append(block)
            continue
        items = block.split("\n- ")
        filled = [_fill(items[0], "  " if items[0].startswith("- ") else "")]
        filled += [_fill(f"- {item}", "  ") for item in items[1:]]
        blocks.append("\n".join(filled))
    return "\n\n".join(blocks)


def _fill(text: str, indent: str) -> str:
    words = " ".join(text.split())
    return textwrap.fill(
        words, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    rows = [f"| {' | '.join(line)} |" for line in (head, *lines)]
    return "\n".join([rows[0], rule, *rows[1:]])


def _introduction(found: Results) -> str:
    return f"""# How far it scales

What a deep forest costs on a [cluster](cluster.md), from small measured runs: a cost model, its
error on runs it was not fitted to, and a simulation of the paper's largest run
({short(PAPER.rows)} rows × {PAPER.columns} columns). `make scale` measures again and writes this
page; all figures come from `benchmarks/scale/results.json` (sources of the library:
{", ".join(found.sources) or "not measured"}).

- **Measured**: {len(found.fitted)} runs that the model is fitted to and
  {len(found.held_out)} that it is not, chosen before the first fit of the model. Tables are
  generated, continuous float32 columns: every column has 255 bins, the worst case. The fits are
  carried out from files as on a cluster, each in a process of its own with one thread.
- **CPU seconds, not wall time**, are what the model is fitted to. The machine has two cores of an
  AMD EPYC virtual machine, and its load average was between 10 and 68 meanwhile; what that adds to
  CPU seconds is in the figures.
- **Extrapolated** is everything about more than 2M rows, two workers and two threads."""


# --- the model ---


def _costs(model: CostModel) -> str:
    """Return the coefficients that matter."""
    shown = (
        ("mart grow", "row × column × tree", 1e9, "ns", "MART grows, per row × column × tree"),
        ("mart grow", "column × tree", 1e6, "µs", "… per column × tree (255 bins, 31 leaves)"),
        ("mart grow", "row × tree", 1e9, "ns", "… per row × tree"),
        ("mart predict", "row × tree", 1e9, "ns", "MART predicts, per row × tree"),
        ("mart predict", "row × column", 1e9, "ns", "… and copies the numbers, per row × column"),
        ("mart subset", "row × column", 1e9, "ns", "a fit takes its rows of the bins, per value"),
        ("mart read", "row × column", 1e9, "ns", "a fit reads the bins of all rows, per value"),
        ("mart bin", "row × column", 1e9, "ns", "the coordinator bins, per value"),
        ("mart bin", "sampled row × column", 1e9, "ns", "… and per value of the sample"),
        ("mart files", "byte", 1e9, "ns", "the coordinator writes files, per byte"),
        ("mart score", "row × class", 1e9, "ns", "the coordinator scores a layer, per row × class"),
    )
    lines = []
    for step, amount, scale, unit, words in shown:
        value = model.coefficients.get(step, {}).get(amount, 0.0)
        lines.append([words, f"{value * scale:.3g} {unit}"])
    overhead = sum(
        model.coefficients.get(f"mart {step}", {}).get("fit", 0.0)
        for step in ("read", "predict", "save", "other", "take")
    )
    lines.append(["each fit, whatever its size", f"{overhead * 1e3:.0f} ms"])
    first = model.coefficients.get("mart predict", {}).get("fit", 0.0)
    return f"""## The cost model

Each step costs a few coefficients × amounts, all non-negative, with the least squared relative
error. Trees count per class from three classes on. Forests have terms of their own (rows × trees ×
levels); `benchmarks/scale/model.py` has all of them.

{table(("MART, one thread", "CPU"), lines)}

Of the last line, {first * 1e3:.0f} ms are the first prediction in a fresh process, which loads
compiled code."""


def _errors(found: Results) -> str:
    """Return the error of each measure on the held-out runs."""
    if not found.held_out:
        return "## Its error\n\nNot measured."
    lines, errors = [], dict[str, list[float]]()
    for result in found.held_out:
        figures = compare(found.model, result)
        cells = [run_of(result).title()]
        for name in MEASURES:
            guess, measured = figures[name]
            error = guess / measured - 1
            errors.setdefault(name, []).append(error)
            cells.append(f"{error:+.0%}")
        cpu = figures["cpu"]
        cells.insert(1, f"{cpu[1]:.1f} s")
        lines.append(cells)
    for title, choose in (("median of the sizes", statistics.median), ("largest", max)):
        sizes = [choose([abs(each) for each in errors[name]]) for name in MEASURES]
        lines.append([f"**{title}**", "", *(f"{size:.0%}" for size in sizes)])
    head = ("run", "CPU measured", *MEASURES.values())
    return f"""## Its error on runs it was not fitted to

Predicted against measured. The goal is {GOAL:.0%} at most. {_verdict(errors)}

{table(head, lines)}

{_fitted_sentence(found)} {_binning_sentence(found)}"""


def _binning_sentence(found: Results) -> str:
    """Return how binning depends on the columns, which the model does not know."""
    every = [each for each in (*found.fitted, *found.held_out) if run_of(each).kind == "mart"]
    widest = max(every, key=lambda each: (run_of(each).columns, run_of(each).rows))
    as_many_rows = [each for each in every if run_of(each).rows == run_of(widest).rows]
    narrowest = min(as_many_rows, key=lambda each: run_of(each).columns)
    words = []
    for result in (narrowest, widest):
        run = run_of(result)
        each = 1e9 * result["coordinator"]["steps"]["bin"] / run.rows / run.columns
        words.append(f"{each:.0f} ns a value at {short(run.rows)} × {run.columns:,}")
    return (
        f"Binning took {words[0]} and {words[1]}; the model has no term for very wide tables and "
        "is too low there."
    )


def _verdict(errors: dict[str, list[float]]) -> str:
    """Return in words which measures reach the goal."""
    missed = []
    for name, values in errors.items():
        beyond = sum(abs(value) > GOAL for value in values)
        if beyond:
            missed.append(f"{MEASURES[name]} ({beyond} of {len(values)} runs)")
    if not missed:
        return "Every figure of every run is within it."
    return f"**Missed** by {', '.join(missed)}; all others are within it."


def _fitted_sentence(found: Results) -> str:
    errors = []
    for result in found.fitted:
        guess, measured = compare(found.model, result)["cpu"]
        errors.append(abs(guess / measured - 1))
    return (
        f"On the {len(errors)} runs that it was fitted to, the error of the CPU seconds is "
        f"{statistics.median(errors):.0%} (median) and {max(errors):.0%} (largest)."
    )


# --- the scheduler ---


def _scheduler(found: Results) -> str:
    lines = []
    for result in found.replays:
        job = result["job"]
        simulated, measured = replayed(result)
        n_fits = sum(len(each["fits"]) for each in result["sets"])
        workers = "1 worker" if job["workers"] == 1 else f"{job['workers']} workers"
        words = f"{workers}, {short(job['rows'])} × {job['columns']}, {n_fits} fits"
        error = f"{simulated / measured - 1:+.1%}"
        run = Run(job["rows"], job["columns"], 2, job["learners"], job["folds"], 2, job["trees"])
        cpu, guess = sum(result["cpu_by_part"].values()), predicted(found.model, run)["cpu"]
        seconds = [f"{measured:.1f} s", f"{simulated:.1f} s", error]
        lines.append([words, *seconds, f"{cpu:.1f} s", f"{guess:.1f} s"])
    head = (
        *("real Dask cluster, workers of one thread", "wall time", "simulated", "error"),
        *("CPU of all processes", "from the model"),
    )
    replays = table(head, lines) if lines else "Not measured."
    return f"""## The simulation, checked

The simulation drives the classes that run a real forest: `JobRunner` starts the fits of a layer, as
many at the same time as the workers have threads, and a layer ends before the next one begins;
`ClusterJobs` makes Dask tasks of them and tries lost ones up to three times. Only the clock, Dask's
choice of a worker (the one with the fewest tasks), the machines and the seconds of each fit are
simulated. The fits of a run come from the library too: which cascades there are, and which rows
each fit learns from and predicts.

Fed with the seconds of each fit of a real run, it gives the wall time of that run:

{replays}

The CPU seconds contain Dask's own processes and the hosts, which the model does not know.

{_queue_sentence(found)}"""


def _queue_sentence(found: Results) -> str:
    if not found.queues:
        return "The overhead with 1,000 tasks waiting was not measured."
    result = found.queues[0]
    tasks, cpu = result["tasks"], result["cpu_by_part"]
    each = {part: 1e3 * seconds / tasks for part, seconds in cpu.items()}
    ours = each["coordinator"] + each["scheduler"]
    wall = 1e3 * result["wall"] / tasks
    return f"""**{tasks:,} tasks waiting at once** for {result["job"]["workers"]} workers, their
results there already, so that only overhead is left: {ours:.1f} CPU-ms a task in the scheduling
processes ({each["coordinator"]:.1f} in the coordinator, {each["scheduler"]:.1f} in Dask's
scheduler; goal 20 ms), {each["workers"]:.1f} in the Dask workers and {each["hosts"]:.1f} in the
hosts and the process that each task gets. Wall time {wall:.0f} ms a task, on the loaded machine."""


# --- the paper's run ---


def _memory(found: Results) -> str:
    lines = []
    assumed = found.assumed()
    for rows in (1_000_000, 10_000_000, 50_000_000, PAPER.rows):
        run = Run(rows, 300, learners=4, folds=5, layers=3, trees=50)
        guess = predicted(found.model, run, assumed.value_bytes)
        table_gb = rows * run.columns * assumed.value_bytes / 1e9
        figures = [
            guess["mb of a fit"] / 1e3,
            guess["mb of the coordinator"] / 1e3 + table_gb,
            guess["bytes written"] / 1e9,
            guess["bytes moved"] / 1e9,
        ]
        cells = [f"{figure:,.0f} GB" if figure >= 10 else f"{figure:.1f} GB" for figure in figures]
        lines.append([short(rows), f"{guess['cpu'] / 3600:,.1f} h", *cells])
    parts = [(count, part) for _, parts in parts_of(PAPER, 8) for count, part in parts]
    moved = sum(count * bytes_moved(part) for count, part in parts)
    bins = sum(count * part.rows * part.width for count, part in parts)
    head = ("rows × 300", "CPU", "a fit holds", "coordinator holds", "written", "all fits read")
    n_fits = sum(count for count, _ in parts)
    return f"""## 300 columns, 4 MARTs × 5 folds × 50 trees, 3 layers

From the cost model: {n_fits} fits, 16 in a layer of the blind cascade and 20 in a layer of the
model. Memory is without mapped files; the coordinator's contains the table as 64-bit floats. The
rows that a fit predicts lie scattered over the table; their pages are counted whole.

{table(head, lines)}

A fit holds the bins of all rows, a copy of those that it learns from, and then the numbers of the
rows that it predicts, which are also most of what the fits read: all bins together are
{bins / moved:.0%} of it. The coordinator holds the whole table as numbers besides its bins. So with
{short(PAPER.rows)} rows neither fits a machine of 64 GB today; the wall times below assume machines
with enough memory."""


def _paper(found: Results) -> str:
    assumed = found.assumed()
    wide = table_of(found.model, assumed, CORES)
    narrow = table_of(found.model, assumed, 1)
    head = (
        *("machines", "threads of a fit", "machines busy"),
        *("wall time", "with stragglers", "and losses: median", "slowest", "fits repeated"),
    )
    lines = [_cells(line) for line in wide]
    return f"""## {short(PAPER.rows)} × {PAPER.columns} on 10 to 200 machines

Each machine has {CORES} cores and one Dask worker with `--nthreads {CORES}`.
{_assumptions(assumed)}

{table(head, lines)}

Stragglers: the speeds of machines are lognormal with σ = {STRAGGLING}. Losses: each machine is
lost {LOSSES_PER_HOUR} times an hour and replaced after 10 minutes, Dask notices it after 30 s; the
machine of the coordinator is lost as often. {len(SEEDS)} seeds; "fits repeated" is their mean.

{_bottleneck(found, assumed)}

**Set `--nthreads` to the cores of the machine,** or `OMP_NUM_THREADS` of a worker with one Dask
thread. The threads of a fit are the Dask threads of the cluster divided by the fits of the layer,
but at least `OMP_NUM_THREADS` and at most the cores. With one Dask thread per machine and 1 in
`OMP_NUM_THREADS` a fit has {", ".join(str(max(line.calm.threads)) for line in narrow)} threads on
{", ".join(map(str, MACHINES))} machines, and the wall time is
{", ".join(_hours(line.calm.seconds) for line in narrow)}."""


def _assumptions(assumed: Assumed) -> str:
    network, storage = assumed.network / 1e9, assumed.storage / 1e9
    return f"""Assumed: the network brings {network:g} GB/s to a machine and the storage
{storage:g} GB/s in all; one thread alone does {assumed.serial_fit:.0%} of a fit and
{assumed.serial_bin:.0%} of the binning, as measured with two threads (Amdahl's law; that {CORES}
threads share the memory's bandwidth is not in it)."""


def _cells(line: Line) -> list[str]:
    threads = sorted(set(line.calm.threads))
    return [
        str(line.machines),
        " or ".join(map(str, threads)),
        f"{line.busy:.0%}",
        _hours(line.calm.seconds),
        _hours(line.straggling),
        _hours(line.median),
        _hours(line.slowest),
        f"{line.repeated:.1f}",
    ]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"


def _bottleneck(found: Results, assumed: Assumed) -> str:
    """Return what the time is spent on with 10 machines and with many."""
    lines = []
    parts = {number: shares(found.model, assumed, number) for number in (10, 20, 200)}
    for step in parts[20]:
        cells = [f"{parts[number][step] / 60:.0f} min" for number in parts]
        lines.append([STEPS[step], *cells])
    shown = [line for line in lines if any(cell != "0 min" for cell in line[1:])]
    first = next(iter(parts[20]))
    own = sum(seconds for step, seconds in parts[20].items() if step not in ("reading", "fitting"))
    share = own / sum(parts[20].values())
    return f"""What the time is spent on, without stragglers and losses:

{table(("", "10 machines", "20 machines", "200 machines"), shown)}

**Bottlenecks.** A layer has 16 or 20 fits and ends before the next one begins, so from 20 machines
on more machines bring nothing: the others are idle. With 20 machines most of the time goes to this:
{STEPS[first]}. The coordinator works alone for {share:.0%} of the time, and all machines wait for
it."""


def _limits() -> str:
    return """## Limits

- 2M rows are the largest measured run; the paper's run is 65 times as large. Caches, storage and
  networks of that size were not measured.
- Real tables often have fewer bins and repeated values; they were not measured.
- 16 threads of one fit were not measured either: two threads on two cores were.
- Memory beyond that of one machine, swapping and a full disk are not in the model.
- Dask's scheduling is reduced to one rule, and a lost machine to silence: it does not come back.
- The time to load the table and to save the model is not included."""
