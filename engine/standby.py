"""A supervisor on its way: started early, told its run later.

Loading the engine takes a while. A command starts its supervisor first of all and checks the document meanwhile;
what is wrong with the document is found before the supervisor is told anything, and then it just ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


class Standby:
    """A supervisor process that waits for its run. It outlives whoever started it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.supervisor"], stdin=subprocess.PIPE, start_new_session=True
        )

    def begin(self, workspace: Path, run: str) -> subprocess.Popen[bytes]:
        """Tell it what to do."""
        self._say(json.dumps({"workspace": str(workspace), "run": run}) + "\n")
        return self.process

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        self._say("")

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.write(line.encode())
            self.process.stdin.close()
