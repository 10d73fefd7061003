"""Measure the SQL node against DuckDB alone, on a table of 2 million rows and 20 columns.

Both begin with the table in memory and end with an Arrow table. DuckDB alone opens a connection,
registers the table and runs the query. It is measured with one thread, which is what the node uses
for queries so that the same input gives the same bytes, and with all threads of the machine. The
node converts the columns of the result with all threads. CPU seconds count those of all threads;
they vary less than seconds if other programs run.

    python -m benchmarks.sql
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks._figures import Figure, cost
from engine.node_types import NodeContext
from engine.values import Table
from engine.workspace import Files
from nodes.sql import NODE, SqlParams

ROWS = 2_000_000
REPEATS = 12
LIMIT = 1.3
QUERIES = {
    "filter": "SELECT * FROM a WHERE x0 > 0",
    "derive": "SELECT *, x0 * 2 + k0 AS y, ln(abs(x1) + 1) AS z FROM a",
    "group": "SELECT c0, k0, count(*) AS n, avg(x1) AS m, sum(x2) AS s FROM a GROUP BY c0, k0",
    "join": "SELECT a.*, b.w FROM a JOIN "
    "(SELECT k1, avg(x3) AS w FROM a WHERE x4 > 0 GROUP BY k1) b USING (k1)",
    "window": "SELECT k2, t, x5 - avg(x5) OVER (PARTITION BY k2 ORDER BY t ROWS 10 PRECEDING) AS d "
    "FROM a",
}


def make_table() -> Table:
    """Return 12 decimal numbers, 5 integers, 2 categories and a time."""
    rng = np.random.default_rng(0)
    columns = {f"x{index}": pa.array(rng.normal(size=ROWS)) for index in range(12)}
    for index in range(5):
        columns[f"k{index}"] = pa.array(rng.integers(0, 1000, ROWS).astype(np.int32))
    levels = pa.array([f"city {number}" for number in range(50)])
    for index in range(2):
        codes = pa.array(rng.integers(0, 50, ROWS).astype(np.int32))
        columns[f"c{index}"] = pa.DictionaryArray.from_arrays(codes, levels)
    columns["t"] = pa.array(rng.integers(0, 10**15, ROWS), pa.timestamp("us"))
    return Table(pa.table(columns))


def alone(data: pa.Table, query: str, threads: int) -> int:
    with duckdb.connect(":memory:", config={"threads": threads}) as connection:
        connection.register("a", data)
        rows: int = connection.sql(query).to_arrow_table().num_rows
        return rows


def main() -> None:
    table = make_table()
    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        context = NodeContext("sql", "0" * 64, Files(Path(folder)), Path(folder), threads=threads)
        totals = {key: np.zeros(2) for key in ("node", "one", "all")}
        for name, query in QUERIES.items():
            params = SqlParams(query=query)
            inputs = {"a": table, "b": None, "c": None, "d": None}
            times: dict[str, list[tuple[float, float]]] = {key: [] for key in totals}
            actions: dict[str, Callable[[], object]] = {
                "node": partial(NODE.run, context, inputs, params),
                "one": partial(alone, table.data, query, 1),
                "all": partial(alone, table.data, query, threads),
            }
            # In turn, so that a busy machine slows all of them down. Each is the first as often as
            # the others: that one has to get new memory from the system.
            for number in range(REPEATS):
                start = number % len(actions)
                for key in [*actions, *actions][start : start + len(actions)]:
                    times[key].append(cost(actions[key]))
            medians = {key: np.median(each, axis=0) for key, each in times.items()}
            for key, value in medians.items():
                totals[key] += value
            one, every, node = medians["one"], medians["all"], medians["node"]
            print(
                f"{name:<8} node {node[0]:.3f} s, DuckDB {one[0]:.3f} s with one thread, "
                f"{every[0]:.3f} s with {threads}: {node[0] / one[0]:.2f} ×, "
                f"CPU {node[1] / one[1]:.2f} ×",
                flush=True,
            )
    what = "SQL node on 2M × 20, all queries, against DuckDB alone"
    node, one, every = totals["node"], totals["one"], totals["all"]
    print(Figure(f"{what}, one thread", node[0] / one[0], "×", LIMIT).line())
    print(Figure(f"{what}, one thread, CPU", node[1] / one[1], "×", LIMIT).line())
    print(Figure(f"{what}, {threads} threads", node[0] / every[0], "×").line())


if __name__ == "__main__":
    main()
