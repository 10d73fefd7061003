"""A supervisor on its way: started early, told its run later.

Loading the engine takes a while. A command starts its supervisor first of all and checks the document meanwhile;
what is wrong with the document is found before the supervisor is told anything, and then it just ends.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path


class Standby:
    """A supervisor process that waits for its run. It outlives whoever started it."""

    def __init__(self) -> None:
        # -P: the folder one happens to be in must not lend its modules to the supervisor.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.supervisor"], stdin=subprocess.PIPE, start_new_session=True
        )

    def begin(self, workspace: Path, run: str) -> subprocess.Popen[bytes]:
        """Tell it what to do."""
        self._say(json.dumps({"workspace": str(workspace), "run": run}) + "\n")
        return self.process

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._say("")
        if kind is KeyboardInterrupt:  # told, but not yet watched
            self.process.terminate()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        # Whoever watches the process learns that it has died.
        with contextlib.suppress(BrokenPipeError):
            if not self.process.stdin.closed:
                self.process.stdin.write(line.encode())
                self.process.stdin.close()
