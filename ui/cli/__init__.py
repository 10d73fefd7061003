"""The command ``sylva``: run, watch and repair pipelines without a browser.

- ``commands``        one function per command
- ``model_commands``  the commands ``predict`` and ``serve``
- ``saved_models``    the commands ``models list``, ``models import`` and so on
- ``options``         arguments and options that several commands share
- ``progress``        live progress of a run
- ``output``          runs and reports as text
- ``node_reference``  the description of a node type as text

Exit codes: 0 done, 1 failed, 2 the input is invalid.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from engine.errors import SylvaError


class ReadableStream:
    """A stream that writes control characters as visible text.

    Names and data may come from anyone; escape sequences could change what a terminal shows.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")

    def write(self, text: str) -> int:
        """Write the text with its control characters made visible."""
        from engine.text import readable

        return self._stream.write(readable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    """Run the command, and end the process with its exit code.

    An error is printed as one message, or with ``--debug`` as a traceback.
    """
    sys.stdout, sys.stderr = ReadableStream(sys.stdout), ReadableStream(sys.stderr)
    try:
        from ui.cli.commands import app

        app()
    except BrokenPipeError:
        # The reader of our output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        # The exit code that shells use for Ctrl-C.
        sys.exit(130)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        shown = _as_sylva_error(error)
        _print_error(shown)
        sys.exit(shown.exit_code)


def _as_sylva_error(error: Exception) -> SylvaError:
    """Return an error with a message for users; an unexpected error names its class."""
    if isinstance(error, SylvaError):
        return error
    if isinstance(error, OSError):
        where = f" at {error.filename}" if error.filename else ""
        return SylvaError(
            f"The operating system reported an error{where}: {error.strerror or error}."
        )
    return SylvaError(f"{type(error).__name__}: {error}. Add --debug to see the traceback.")


def _print_error(error: SylvaError) -> None:
    """Print an error.

    With ``--json`` it goes to standard output as JSON, else to standard error as text.
    """
    if "--json" in sys.argv:  # not a parsed option: the error may be about the options
        problems = [problem.to_dict() for problem in getattr(error, "problems", [])]
        facts = {"error": str(error), "problems": problems, "exit_code": error.exit_code}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        print(error, file=sys.stderr)
