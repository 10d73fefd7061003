"""Serve models from the studio: one `sylva serve` process for each model that is served.

A service is a process of its own. It continues when the studio ends, and the next studio finds it
by the record in the workspace's ``services`` folder. The record names the process such that it is
never confused with a later one of the same number.

- ``ModelService``   one of them, as it is now
- ``ModelServices``  starts, stops and finds them
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine.atomic import lock
from engine.errors import SylvaError
from engine.processes import ProcessId, identify, is_alive
from engine.workspace import Workspace
from nodes.models.registry import Registry

PROGRAM = "from ui.cli import main; main()"
# With -P, a file such as json.py in the working folder cannot replace a library.
COMMAND = (sys.executable, "-P", "-c", PROGRAM)
STOP_SECONDS = 10.0
"""How long a service may finish its requests before it is killed."""
LOOK_SECONDS = 0.02
LOCK_SECONDS = 15.0
"""How long a start waits for another start or stop of the same model."""

State = Literal["starting", "running", "ended"]


@dataclass(frozen=True)
class ModelService:
    """A model that is served, or was served until its process ended."""

    model: str
    version: int
    token: str
    started: float
    process: ProcessId
    state: State = "starting"
    address: str = ""
    problem: str = ""
    """Why it ended, if it did."""

    @property
    def port(self) -> int | None:
        """Return the port that it listens on; None until it is known."""
        digits = self.address.rpartition(":")[2]
        return int(digits) if digits.isdecimal() else None


class ModelServices:
    """The services of one workspace.

    All methods may be called from any thread and from several studios. ``command`` is the command
    line to run; tests use their own.
    """

    def __init__(self, workspace: Workspace, command: Sequence[str] = COMMAND) -> None:
        self.workspace, self.command = workspace, list(command)
        self._folder = workspace.root / "services"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, model: str, version: int, port: int = 0) -> ModelService:
        """Start to serve a version of a model on a port; 0 takes a free one.

        It returns before the model is loaded. Raise ``SylvaError`` if the model is served already,
        ``BadInput`` if the version does not exist.
        """
        reference = f"{model}@{version}"
        Registry(self.workspace).folder_of(reference)
        with self._only_one(model):
            present = self.of(model)
            if present is not None and present.state != "ended":
                where = present.address or "an address that is not known yet"
                raise SylvaError(
                    f"Version {present.version} of '{model}' is served already, at {where}. "
                    "Stop that service first."
                )
            token = secrets.token_urlsafe(24)
            process = self._launch(model, reference, port, token)
            record = {
                "model": model,
                "version": version,
                "token": token,
                "started": time.time(),
                "process": identify(process.pid).to_dict(),
            }
            _write_private(self._path(model, "json"), json.dumps(record))
            self._children[model] = process
        service = self.of(model)
        assert service is not None
        return service

    def of(self, model: str) -> ModelService | None:
        """Return the service of a model as it is now; None if it was stopped or never started."""
        if model in self._children:
            # The system keeps an ended child until its parent has asked for it.
            self._children[model].poll()
        try:
            record = json.loads(self._path(model, "json").read_text(encoding="utf-8"))
            service = ModelService(
                model=str(record["model"]),
                version=int(record["version"]),
                token=str(record["token"]),
                started=float(record["started"]),
                process=ProcessId(**record["process"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # In this order: what a process prints before it ends must not be missed.
        alive, printed = is_alive(service.process), self._printed(model)
        if not alive:
            return replace(service, state="ended", problem=self._why_it_ended(model, printed))
        if "address" in printed:
            return replace(service, state="running", address=str(printed["address"]))
        return service

    def all(self) -> dict[str, ModelService]:
        """Return the services that are known, by model."""
        services = {}
        names = [path.stem for path in self._folder.glob("*.json")] if self._folder.is_dir() else []
        for name in sorted(names):
            service = self.of(name)
            if service is not None:
                services[name] = service
        return services

    def stop(self, model: str) -> None:
        """Stop the service of a model, if it has one, and forget it.

        Running requests are finished first. A process that does not end is killed.
        """
        with self._only_one(model):
            service = self.of(model)
            if service is not None:
                self._end(service)
            for ending in ("json", "out", "err"):
                self._path(model, ending).unlink(missing_ok=True)

    def _end(self, service: ModelService) -> None:
        """End the process of a service, and wait for its end."""
        deadline = time.monotonic() + STOP_SECONDS
        # The system may have given the number of an ended process to another program.
        if is_alive(service.process):
            _send(service.process, signal.SIGTERM)
        while is_alive(service.process):
            if time.monotonic() > deadline:
                _send(service.process, signal.SIGKILL)
            time.sleep(LOOK_SECONDS)
        child = self._children.pop(service.model, None)
        if child is not None:
            child.wait()

    @contextmanager
    def _only_one(self, model: str) -> Iterator[None]:
        """Hold the lock of a model's service: two starts must not both find it free."""
        self.workspace.create()
        busy = f"The service of '{model}' is being started or stopped. Try again shortly."
        path = self._path(model, "lock")
        with lock(path, patience=LOCK_SECONDS, busy=busy, create_folder=True):
            yield

    def _launch(self, model: str, reference: str, port: int, token: str) -> subprocess.Popen[bytes]:
        """Start the process; what it prints goes to files, which outlive the studio."""
        arguments = ["serve", reference, "--port", str(port), "--json"]
        arguments += ["--workspace", str(self.workspace.root)]
        output, errors = self._path(model, "out"), self._path(model, "err")
        with _private_file(output) as printed, _private_file(errors) as failed:
            return subprocess.Popen(
                [*self.command, *arguments],
                # The environment is not in the list of processes, as arguments are.
                env={**os.environ, "SYLVA_TOKEN": token},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=failed,
                # Ctrl+C in the terminal ends the studio, but not its services.
                start_new_session=True,
            )

    def _printed(self, model: str) -> Mapping[str, Any]:
        """Return what the service printed: its address, or an error; empty until then."""
        with suppress(OSError, ValueError):
            data = json.loads(self._path(model, "out").read_text(encoding="utf-8"))
            return data if isinstance(data, dict) else {}
        return {}

    def _why_it_ended(self, model: str, printed: Mapping[str, Any]) -> str:
        """Return why a service ended: its own message, or that it left none."""
        if "error" in printed:
            return str(printed["error"])
        with suppress(OSError):
            text = self._path(model, "err").read_text(encoding="utf-8", errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:300]
        return "It was ended from outside, or the machine was restarted."

    def _path(self, model: str, ending: str) -> Path:
        """Return a file of a service; the name of a model is never a path."""
        return self._folder / f"{Path(model).name}.{ending}"


def _send(process: ProcessId, kind: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, kind)


def _private_file(path: Path) -> Any:
    """Open an empty file that only the user may read."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write_private(path: Path, text: str) -> None:
    """Replace a file that only the user may read: it holds a token."""
    temporary = path.with_suffix(".unfinished")
    with _private_file(temporary) as file:
        file.write(text.encode())
    temporary.replace(path)
