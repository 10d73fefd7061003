"""Look results up, and write them as cells and tables of Markdown.

- ``ResultIndex``  the results by table, data set and method
- ``markdown``     a table; the other functions make its cells
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from .results import Result
from .tables import DataSet, Table

NOT_RUN = "not run"


class ResultIndex:
    """The results of all tables, by table, data set and method."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._by_key: dict[tuple[str, str, str], list[Result]] = {}
        for result in results:
            job = result["job"]
            key = (job["table"], job["set"], job["method"])
            self._by_key.setdefault(key, []).append(result)

    def of(self, table: Table, data: DataSet, method: str) -> list[Result]:
        """Return the results of all seeds, in their order; none if it was not run."""
        found = self._by_key.get((table.name, data.title, method), [])
        return sorted(found, key=lambda result: result["job"]["seed"])

    def scores(
        self, table: Table, data: DataSet, method: str, score: str = "accuracy"
    ) -> list[float]:
        """Return one score of all seeds."""
        return [result["scores"][score] for result in self.of(table, data, method)]

    def any_of(self, table: Table, data: DataSet) -> list[Result]:
        """Return the results of the method of a data set that has most seeds."""
        found = [self.of(table, data, method.name) for method in table.methods_of(data)]
        return max(found, key=len)

    def all_of(self, table: Table) -> list[Result]:
        """Return all results of a table."""
        keys = [key for key in self._by_key if key[0] == table.name]
        return [result for key in keys for result in self._by_key[key]]

    def sources(self) -> list[str]:
        """Return the hashes of the library's sources that were measured."""
        found = (result["sources"] for each in self._by_key.values() for result in each)
        return sorted(set(found))


def cost_lines(found: ResultIndex, table: Table, methods: Sequence[str]) -> list[list[str]]:
    """Return two lines of each data set: CPU seconds, and megabytes."""
    lines = []
    for data in table.sets:
        runs = [found.of(table, data, method) for method in methods]
        lines.append([data.title, "CPU, s", *[cpu_cell(each) for each in runs]])
        lines.append(["", "MB", *[megabytes_cell(each) for each in runs]])
    return lines


def rows_and_seeds(found: ResultIndex, table: Table, data: DataSet) -> str:
    """Return the numbers of rows and of seeds: "1,038 / 446 rows, 5 seeds"."""
    runs = found.any_of(table, data)
    if not runs:
        return NOT_RUN
    rows = " / ".join(f"{n:,}" for n in runs[0]["rows"])
    seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
    return f"{rows} rows, {seeds}"


def remarks(table: Table) -> str:
    remarks = [f"- {data.title}: {data.remark}." for data in table.sets if data.remark]
    return "\n".join(remarks)


def wrapped(text: str) -> str:
    """Return text in lines of at most 100 characters; those of a list item are indented."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def mean(values: Sequence[float]) -> float:
    """Return the mean; infinity of nothing."""
    return statistics.mean(values) if values else math.inf


def mean_sd(values: Sequence[float], digits: int = 2, signed: bool = False) -> str:
    """Return "mean ± sd", the value alone if there is one, or "not run"."""
    if not values:
        return NOT_RUN
    sign = "+" if signed else ""
    text = f"{statistics.mean(values):{sign}.{digits}f}"
    if len(values) == 1:
        return text
    return f"{text} ± {statistics.stdev(values):.{digits}f}"


def plain_cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def cpu_cell(runs: Sequence[Result]) -> str:
    if not runs:
        return ""
    seconds = statistics.mean(run["cpu"] for run in runs)
    return f"{seconds:.1f}" if seconds < 100 else f"{seconds:,.0f}"


def megabytes_cell(runs: Sequence[Result]) -> str:
    return f"{statistics.mean(run['mb'] for run in runs):,.0f}" if runs else ""


def ratio_cell(own: Sequence[Result], peer: Sequence[Result]) -> str:
    """Return how many times the CPU of ``own`` the ``peer`` takes."""
    if not own or not peer:
        return ""
    return f"{cpu_ratio(own, peer):.2f} ×"


def cpu_ratio(own: Sequence[Result], peer: Sequence[Result]) -> float:
    return mean([run["cpu"] for run in peer]) / mean([run["cpu"] for run in own])


def points_cell(own: Sequence[Result], peer: Sequence[Result]) -> str:
    """Return the difference of the accuracies of two methods, seed by seed."""
    if not own or not peer:
        return ""
    return mean_sd(differences(own, peer), signed=True)


def differences(own: Sequence[Result], peer: Sequence[Result]) -> list[float]:
    """Return the difference of the accuracies, for each seed that both have."""
    of_peer = {run["job"]["seed"]: run["scores"]["accuracy"] for run in peer}
    return [
        run["scores"]["accuracy"] - of_peer[run["job"]["seed"]]
        for run in own
        if run["job"]["seed"] in of_peer
    ]


def rows_by_layer(runs: Sequence[Result]) -> str:
    """Return how many layers the first seed kept, and with screening the rows of all it grew."""
    if not runs or "layers" not in runs[0]["chosen"]:
        return ""
    chosen = runs[0]["chosen"]
    rows = ", ".join(f"{rows:,}" for rows in chosen.get("rows_in", []))
    return f"{chosen['layers']}: {rows}" if rows else f"{chosen['layers']}"


def markdown(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    table = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in table)
