"""The command ``sylva``: run, watch and repair pipelines without a browser.

- ``commands``        one function per command
- ``model_commands``  the commands ``predict`` and ``serve``
- ``options``         arguments and options that several commands share
- ``progress``        live progress of a run
- ``output``          runs and reports as text
- ``node_reference``  the description of a node type as text

Exit codes: 0 done, 1 failed, 2 the input is invalid.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from engine.errors import SylvaError


class ReadableStream:
    """Passes on what is printed, spelled out where a terminal would obey it: names and data may come from anyone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")

    def write(self, text: str) -> int:
        """Write what can be read."""
        from engine.wording import readable

        return self._stream.write(readable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    """Entry point: every error becomes one plain message, unless ``--debug`` asks for the traceback."""
    wants_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    sys.stdout, sys.stderr = ReadableStream(sys.stdout), ReadableStream(sys.stderr)
    try:
        from engine.text import print_error
        from ui.cli.commands import app

        app()
    except SylvaError as error:
        if debug:
            raise
        print_error(error, as_json=wants_json)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output, such as `head`, has gone; nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if debug:
            raise
        place = f" at {error.filename}" if error.filename else ""
        print_error(SylvaError(f"The system refused{place}: {error.strerror or error}."), as_json=wants_json)
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        print_error(SylvaError(f"{type(error).__name__}: {error}. Add --debug to see where."), as_json=wants_json)
        sys.exit(1)
