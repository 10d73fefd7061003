"""A supervisor on its way: started early, told its run later.

Loading the engine takes a while. A command starts its supervisor first of all and checks the document meanwhile;
what is wrong with the document is found before the supervisor is told anything, and then it just ends.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

from engine.handover import new_line, send_order
from engine.workspace import Workspace


class Standby:
    """A supervisor process that waits for its run. It outlives whoever started it."""

    def __init__(self) -> None:
        self._line, end = new_line()
        # -P: the folder one happens to be in must not lend its modules to the supervisor.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.supervisor"], stdin=end.fileno(), start_new_session=True
        )
        end.close()

    def begin(self, workspace: Workspace, run: str) -> subprocess.Popen[bytes]:
        """Hand a run over to it; raise ``Busy`` if another process has the run."""
        with contextlib.suppress(BrokenPipeError):  # it has died, which is noticed when it is watched
            send_order(self._line, workspace, run)
        return self.process

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._line.close()
        if kind is KeyboardInterrupt:  # told, but not yet watched
            self.process.terminate()
