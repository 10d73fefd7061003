"""The command ``sylva`` for tests: called in this process, or as a user's shell would start it.

- ``Sylva``    a workspace and the command in it; the runs it starts are real processes
- ``pipeline_of_probes``  a file with a chain of probes

A call in this process saves the half second that an interpreter needs to load the engine. What
only a process can show (signals, closed pipes, the installed entry point) is tested by
``Sylva.process``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.node_types import load_catalog
from ui.cli import main

ROOT = Path(__file__).parents[1]
PLUGIN = str(ROOT / "tests" / "plugin")
COMMAND = str(Path(sys.executable).with_name("sylva"))
SAMPLES = sorted((ROOT / "sample_pipelines").glob("*.json"))


class Sylva:
    """The command in a workspace of its own, with the node types of ``tests/plugin``."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.errors = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that processes started by the command inherit."""
        path = os.pathsep.join([PLUGIN, str(ROOT)])
        return os.environ | {"SYLVA_WORKSPACE": str(self.workspace), "PYTHONPATH": path}

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Call the command in this process and return what it printed, to stderr in ``errors``."""
        out, err = io.StringIO(), io.StringIO()
        with (
            self._as_in_a_process(arguments),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            ended = _exit_code()
        self.errors = err.getvalue()
        assert ended == code, out.getvalue() + self.errors
        return out.getvalue()

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Call the command with ``--json``; the document it printed."""
        return json.loads(self(*arguments, "--json", code=code))

    def process(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start the installed command."""
        options = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.environment,
        } | options
        return subprocess.Popen([COMMAND, *map(str, arguments)], encoding="utf-8", **options)

    @contextlib.contextmanager
    def _as_in_a_process(self, arguments: tuple[object, ...]) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["sylva", *map(str, arguments)])
            patch.setattr(sys, "path", [PLUGIN, *sys.path])
            for name in ("SYLVA_WORKSPACE", "PYTHONPATH"):
                patch.setenv(name, self.environment[name])
            # The probe is found now, and not by the tests that come after.
            load_catalog.cache_clear()
            try:
                yield
            finally:
                load_catalog.cache_clear()


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def pipeline_of_probes(folder: Path, **nodes: dict[str, Any]) -> Path:
    """Write a chain of probes, in order: ``pipeline_of_probes(folder, a={"value": 1}, b={})``."""
    document = {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "probes",
        "nodes": {name: {"type": "probe", "params": params} for name, params in nodes.items()},
        "edges": [{"from": f"{a}.report", "to": f"{b}.reports"} for a, b in pairwise(nodes)],
    }
    path = folder / "probes.json"
    path.write_text(json.dumps(document))
    return path
