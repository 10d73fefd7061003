"""``sylva studio`` as a user starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.tab import answers, free_port
from tests.waiting import until


def command(*options: str) -> list[str]:
    return [str(Path(sys.executable).with_name("sylva")), "studio", "--no-browser", *options]


def listening(port: int) -> set[str]:
    """The addresses on which something listens at a port, as the kernel lists them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                found.add(local.rpartition(":")[0])
    return found


def test_the_studio_listens_on_this_machine_only_prints_its_address_and_ends_with_ctrl_c(
    tmp_path: Path,
):
    port = free_port()
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(
            command(f"--port={port}", f"--workspace={tmp_path / 'ws'}"),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}/_stcore/health"), 60, "the start")
        assert listening(port) == {"0100007F"}  # 127.0.0.1
        assert f"http://127.0.0.1:{port}" in (tmp_path / "out").read_text()
        assert (tmp_path / "ws" / "pipelines").is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert "Traceback" not in (tmp_path / "out").read_text()


@pytest.mark.parametrize("given", ["--port=0", "--port=70000", "--port=ssh"])
def test_a_port_that_cannot_be_is_refused(given: str, tmp_path: Path):
    ended = subprocess.run(
        command(given, f"--workspace={tmp_path}"), capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert "port" in ended.stderr and "Traceback" not in ended.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = subprocess.run(
            command(f"--port={port}", f"--workspace={tmp_path}"),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.returncode == 1
    assert f"Port {port}" in ended.stderr and "--port" in ended.stderr


def test_a_workspace_that_cannot_be_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ended = subprocess.run(
        command(f"--workspace={tmp_path / 'file'}"), capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert str(tmp_path / "file") in ended.stderr and "--workspace" in ended.stderr


def test_help_names_every_option():
    environment = {**os.environ, "COLUMNS": "120"}
    ended = subprocess.run(
        command("--help"), capture_output=True, text=True, timeout=60, env=environment
    )
    assert {"--port", "--workspace", "--no-browser"} <= set(ended.stdout.split())
