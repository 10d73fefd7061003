"""Node types for tests and benchmarks, in their own package, found by entry points like a user's.

- ``probe``  misbehaves on demand: sleeps, exits, crashes, eats memory, fails, leaves processes
- ``scale``  multiplies the first column of a table, so that it must be kept anew
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from engine.values import Report, Table

TRACE = "SYLVA_TEST_TRACE"
"""A file to which every execution of a probe adds a line: its node's id, and ``at the same time``
if another process executes the same node."""


class ProbeParams(NodeParams):
    action: Literal[
        "none", "sleep", "exit", "segfault", "allocate", "abort", "raise", "bad-input",
        "fail-times", "spawn", "big", "gate", "hoard", "signal", "stubborn", "fork",
        "long-error", "odd-error", "array", "abort-reading",
    ] = Field("none", title="Action", description="What to do.")  # fmt: skip
    amount: float = Field(
        0, title="Amount", description="Seconds, exit code, signal, megabytes or times."
    )
    value: int = Field(0, title="Value", description="Goes into the report.")
    first: int = Field(
        0, title="First", description="Act only in the first so many executions; 0: in all."
    )
    note: str = Field("", title="Note", description="Makes the request for the node longer.")


def run_probe(ctx: NodeContext, inputs: dict[str, Any], params: ProbeParams) -> dict[str, Any]:
    acts = not params.first or count_execution(ctx) <= params.first
    leave_trace(ctx)
    ctx.log(f"probe does {params.action}")
    if acts:
        ACTIONS[params.action](ctx, params.amount)
    total = params.value + sum(report.headline["value"] for report in inputs["reports"])
    padding = "x" * int(params.amount * 1e6) if params.action == "big" else ""
    return {"report": Report("probe", "Probe", {"value": total}, data={"padding": padding})}


def leave_trace(ctx: NodeContext) -> None:
    if trace := os.environ.get(TRACE):
        # Held until this process ends, however it ends.
        lock = os.open(f"{trace}.{ctx.node}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            line = ctx.node
        except BlockingIOError:
            line = f"{ctx.node} at the same time"
        with Path(trace).open("a") as file:
            file.write(line + "\n")


def count_execution(ctx: NodeContext) -> int:
    """How often this work was begun, this time included; kept where it survives a kill."""
    counter = ctx.checkpoint / "executions"
    with counter.open("a") as file:
        file.write("x")
    return counter.stat().st_size


def sleep(ctx: NodeContext, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ctx.progress(1 - left / seconds, "sleeping")
        time.sleep(min(left, 0.05))


def wait_at_gate(ctx: NodeContext, amount: float) -> None:
    """Wait until a test opens the gate: a file next to the trace."""
    while not Path(f"{os.environ[TRACE]}.open").exists():
        ctx.check_cancelled()
        time.sleep(0.01)


def segfault(ctx: NodeContext, amount: float) -> None:
    ctypes.string_at(0)


def abort_reading(ctx: NodeContext, amount: float) -> None:
    with ctx.reading("large.parquet", "source"):
        os.abort()


def allocate(ctx: NodeContext, megabytes: float) -> None:
    bytearray(int(megabytes * 1e6))


def fail(ctx: NodeContext, amount: float) -> None:
    raise RuntimeError("the probe was told to fail")


def refuse(ctx: NodeContext, amount: float) -> None:
    raise BadInput("the probe was told to refuse; set another action", field="action")


def fail_times(ctx: NodeContext, times: float) -> None:
    attempts = ctx.checkpoint / "attempts"
    made = len(attempts.read_text()) if attempts.exists() else 0
    attempts.write_text("x" * (made + 1))
    if made < times:
        raise RuntimeError(f"failing, time {made + 1}")


def spawn(ctx: NodeContext, seconds: float) -> None:
    """Leave a process behind, then wait."""
    subprocess.Popen(["sleep", "1234567"])
    sleep(ctx, seconds)


def hoard(ctx: NodeContext, amount: float) -> None:
    """Take memory in crumbs until not one is left, and hold on to them."""
    crumbs: list[Any] = []
    while True:
        crumbs.append([None])


def stubborn(ctx: NodeContext, seconds: float) -> None:
    """Neither hears a polite request to stop nor asks whether there is one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    time.sleep(seconds)


def fork(ctx: NodeContext, seconds: float) -> None:
    """Leave a copy of this process behind that holds all it held, then wait."""
    if not os.fork():
        time.sleep(1234567)
    sleep(ctx, seconds)


def fail_at_length(ctx: NodeContext, megabytes: float) -> None:
    raise RuntimeError("too much to say: " + "x" * int(megabytes * 1e6))


def fail_oddly(ctx: NodeContext, amount: float) -> None:
    raise RuntimeError("a file named \udcff, \x1b[31mred\x1b[0m, \0")


def write_array(ctx: NodeContext, megabytes: float) -> None:
    import numpy as np

    path = ctx.checkpoint / "array.npy"
    try:
        np.save(path, np.zeros(int(megabytes * 125_000)))
    finally:
        path.unlink()


ACTIONS: dict[str, Any] = {
    "none": lambda ctx, amount: None,
    "big": lambda ctx, amount: None,
    "sleep": sleep,
    "gate": wait_at_gate,
    "exit": lambda ctx, code: os._exit(int(code)),
    "segfault": segfault,
    "allocate": allocate,
    "abort": lambda ctx, amount: os.abort(),
    "raise": fail,
    "bad-input": refuse,
    "fail-times": fail_times,
    "spawn": spawn,
    "hoard": hoard,
    "signal": lambda ctx, number: os.kill(os.getpid(), int(number)),
    "stubborn": stubborn,
    "fork": fork,
    "long-error": fail_at_length,
    "odd-error": fail_oddly,
    "array": write_array,
    "abort-reading": abort_reading,
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
    factor: float = Field(
        1.5, title="Factor", description="What the first column is multiplied by."
    )


def run_scale(ctx: NodeContext, inputs: dict[str, Any], params: ScaleParams) -> dict[str, Any]:
    import pyarrow.compute as pc

    table: Table = inputs["table"]
    scaled = pc.multiply(table.data.column(0), params.factor)
    return {"table": table.with_data(table.data.set_column(0, table.data.column_names[0], scaled))}


SCALE = NodeType(
    name="scale",
    title="Scale",
    category="Prepare",
    summary="Multiplies the first column.",
    version=1,
    params=ScaleParams,
    run=run_scale,
    inputs=(Port("table", "table"),),
    outputs=(Port("table", "table"),),
    output_columns=lambda inputs, params: {"table": inputs["table"]},
    imports=("pyarrow", "pyarrow.compute"),
)
