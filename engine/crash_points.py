"""Named points at which a test can make the program die, to prove that nothing finished is lost.

``SYLVA_FAULT=POINT:NODE:VICTIM`` kills, when ``NODE`` reaches ``POINT``, the ``worker`` that runs it, the
``supervisor`` of its run, or ``both``; with ``none`` it stops there until it is killed. At the points on the way to
a run, ``NODE`` is ``run`` and the ``worker`` is the process that starts or supervises it. Without the variable a point
costs one look-up.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "SYLVA_FAULT"
SUPERVISOR = "SYLVA_SUPERVISOR_PID"


def crash_point(name: str, node: str) -> None:
    """Die here, if that was asked for."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    at, at_node, victim = wanted.split(":")
    if (at, at_node) != (name, node):
        return
    if victim in ("supervisor", "both"):
        os.kill(int(os.environ[SUPERVISOR]), signal.SIGKILL)
    if victim in ("worker", "both"):
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
