"""Named points at which a test can kill the program, to prove that nothing finished is lost.

``SYLVA_FAULT=POINT:NODE:VICTIM`` kills, when ``NODE`` reaches ``POINT``, the ``worker`` that runs
it, the ``supervisor`` of its run, or ``both``; with ``none`` the node pauses there until it is
killed. At points before a run starts, ``NODE`` is ``run`` and ``worker`` is the process that
starts or supervises the run. Without the variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "SYLVA_FAULT"
SUPERVISOR = "SYLVA_SUPERVISOR_PID"


def crash_point(name: str, node: str) -> None:
    """Kill or pause this process if ``SYLVA_FAULT`` names this point and node."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    at, at_node, victim = setting.split(":")
    if (at, at_node) != (name, node):
        return
    # The supervisor first: it must not see how its worker ends.
    if victim in ("supervisor", "both"):
        os.kill(int(os.environ[SUPERVISOR]), signal.SIGKILL)
    if victim in ("worker", "both"):
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
