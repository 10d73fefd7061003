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
from typing import Any, NoReturn, TextIO

from engine.errors import SylvaError


class ReadableStream:
    """Passes on what is printed, spelled out where a terminal would obey it: names and data may come from anyone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")

    def write(self, text: str) -> int:
        """Write what can be read."""
        from engine.text import readable

        return self._stream.write(readable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    """Entry point: every error becomes one plain message, unless ``--debug`` asks for the traceback."""
    wants_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    sys.stdout, sys.stderr = ReadableStream(sys.stdout), ReadableStream(sys.stderr)
    try:
        from ui.cli.commands import app

        app()
    except SylvaError as error:
        if debug:
            raise
        _fail(error, as_json=wants_json)
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
        _fail(SylvaError(f"The system refused{place}: {error.strerror or error}."), as_json=wants_json)
    except Exception as error:
        if debug:
            raise
        _fail(SylvaError(f"{type(error).__name__}: {error}. Add --debug to see where."), as_json=wants_json)


def _fail(error: SylvaError, *, as_json: bool) -> NoReturn:
    # Imported here: the output of a run needs the store, which `sylva --help` does not.
    from ui.cli.output import print_error

    print_error(error, as_json=as_json)
    sys.exit(error.exit_code)
