"""Node types for tests and benchmarks: a package of its own, found by its entry points like a user's would be.

- ``probe``  misbehaves on demand: sleeps, exits, crashes, eats memory, fails a few times
- ``scale``  multiplies every column of a table, so that all of it is written anew
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.contract import Context, NodeParams, NodeType, Port
from engine.errors import BadInput
from engine.values import Report, Table

TRACE = "SYLVA_TEST_TRACE"
"""A file to which every execution of a probe adds its node's id."""


class ProbeParams(NodeParams):
    action: Literal[
        "none", "sleep", "exit", "segfault", "allocate", "abort", "raise", "bad-input", "fail-times", "spawn", "big"
    ] = Field("none", title="Action", description="What to do.")
    amount: float = Field(0, title="Amount", description="Seconds, exit code, megabytes or times.")
    value: int = Field(0, title="Value", description="Goes into the report.")


def run_probe(ctx: Context, inputs: dict[str, Any], params: ProbeParams) -> dict[str, Any]:
    if trace := os.environ.get(TRACE):
        with Path(trace).open("a") as file:
            file.write(ctx.node + "\n")
    ctx.log(f"probe does {params.action}")
    ACTIONS[params.action](ctx, params.amount)
    total = params.value + sum(report.headline["value"] for report in inputs["reports"])
    padding = "x" * int(params.amount * 1e6) if params.action == "big" else ""
    return {"report": Report("probe", "Probe", {"value": total}, data={"padding": padding})}


def sleep(ctx: Context, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ctx.progress(1 - left / seconds, "sleeping")
        time.sleep(min(left, 0.05))


def segfault(ctx: Context, amount: float) -> None:
    ctypes.string_at(0)


def allocate(ctx: Context, megabytes: float) -> None:
    bytearray(int(megabytes * 1e6))


def fail(ctx: Context, amount: float) -> None:
    raise RuntimeError("the probe was told to fail")


def refuse(ctx: Context, amount: float) -> None:
    raise BadInput("the probe was told to refuse; set another action", field="action")


def fail_times(ctx: Context, times: float) -> None:
    attempts = ctx.checkpoint / "attempts"
    made = len(attempts.read_text()) if attempts.exists() else 0
    attempts.write_text("x" * (made + 1))
    if made < times:
        raise RuntimeError(f"failing, time {made + 1}")


def spawn(ctx: Context, seconds: float) -> None:
    """Leave a process behind, then wait."""
    subprocess.Popen(["sleep", "1234567"])
    sleep(ctx, seconds)


ACTIONS: dict[str, Any] = {
    "none": lambda ctx, amount: None,
    "big": lambda ctx, amount: None,
    "sleep": sleep,
    "exit": lambda ctx, code: os._exit(int(code)),
    "segfault": segfault,
    "allocate": allocate,
    "abort": lambda ctx, amount: os.abort(),
    "raise": fail,
    "bad-input": refuse,
    "fail-times": fail_times,
    "spawn": spawn,
}

PROBE = NodeType(
    name="probe",
    title="Probe",
    category="Data",
    summary="Misbehaves on demand.",
    version=1,
    params=ProbeParams,
    run=run_probe,
    inputs=(Port("reports", "report", required=False, many=True),),
    outputs=(Port("report", "report"),),
)


class ScaleParams(NodeParams):
    factor: float = Field(1.5, title="Factor", description="What every number is multiplied by.")


def run_scale(ctx: Context, inputs: dict[str, Any], params: ScaleParams) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    table: Table = inputs["table"]
    columns = [pc.multiply(column, params.factor) for column in table.data.columns]
    return {"table": table.with_data(pa.table(columns, names=table.data.column_names))}


SCALE = NodeType(
    name="scale",
    title="Scale",
    category="Prepare",
    summary="Multiplies every column.",
    version=1,
    params=ScaleParams,
    run=run_scale,
    inputs=(Port("table", "table"),),
    outputs=(Port("table", "table"),),
    columns=lambda inputs, params: {"table": inputs["table"]},
    imports=("pyarrow", "pyarrow.compute"),
)
