"""A PostgreSQL server for tests, started from Debian's package ``postgresql`` on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

USER = "sylva"
PASSWORD = "very-secret-password"


def server_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``pg_ctl`` of the newest version that is installed."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    found = versions[-1].parent if versions else None
    on_path = shutil.which("initdb")
    return found or (Path(on_path).parent if on_path else None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the address of an empty database; skip the test where the server is not installed."""
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    # The server refuses to run as root.
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        with suppress(KeyError):
            account = _account("postgres") or _account("nobody")
        if not account:
            pytest.skip("PostgreSQL cannot run as root, and there is no other account")
    # A short path: the socket's path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sylva-pg-"))
    try:
        folder.chmod(0o755)
        if account:
            os.chown(folder, account["user"], account["group"])
        with _running(programs, folder, account) as port:
            yield f"postgresql://127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _account(name: str) -> dict[str, Any]:
    import pwd

    with suppress(KeyError):
        entry = pwd.getpwnam(name)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


@contextmanager
def _running(programs: Path, folder: Path, account: dict[str, Any]) -> Iterator[int]:
    """Create the files of a server and run it until the end of the block."""
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    data = folder / "data"

    def call(*command: object) -> None:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            timeout=120,
            **account,
        )

    call(
        programs / "initdb", "-D", data, "-U", USER, "--pwfile", password, "-A", "scram-sha-256",
        "--no-sync", "-E", "UTF8", "--locale", "C",
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    options = f"-p {port} -h 127.0.0.1 -k {folder} -F -c autovacuum=off"
    call(
        programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-o", options, "start", "-l", "/dev/null"
    )
    try:
        yield port
    finally:
        call(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
