"""Start the studio: ``python -m ui.studio``, which ``sylva studio`` runs."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from engine.errors import SylvaError
from engine.workspace import Workspace

ADDRESS = "127.0.0.1"
FIRST_PORT = 8501
PORTS_TRIED = 50

SETTINGS = {
    "server.address": ADDRESS,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": 1024,  # MB; an upload is held in memory until it is copied, see nodes/data/files.py
    "server.showEmailPrompt": False,
    "logger.hideWelcomeMessage": True,
    "logger.level": "warning",
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.primaryColor": "#2e7d4f",
    "theme.light.primaryColor": "#2e7d4f",
    "theme.dark.primaryColor": "#2e8b57",
}


def main() -> None:
    """Check that the workspace can be used, choose a port, and serve until stopped."""
    parser = argparse.ArgumentParser(prog="sylva studio", description="The studio in the browser.")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--no-browser", action="store_true")
    chosen = parser.parse_args()
    try:
        workspace = Workspace.at(chosen.workspace).create()
        port = _port(chosen.port)
    except SylvaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    os.environ["SYLVA_WORKSPACE"] = str(workspace.root)
    serve(port, browser=not chosen.no_browser)


def _port(wanted: int | None) -> int:
    """The port that was asked for, or the first free one."""
    ports = [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + PORTS_TRIED)
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((ADDRESS, port))
                return port
            except (OSError, OverflowError):
                continue
    if wanted is not None:
        raise SylvaError(f"Port {wanted} cannot be used; it is taken, or not yours. Choose another with --port.")
    raise SylvaError(f"No port from {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1} is free; choose one with --port.")


def serve(port: int, *, browser: bool) -> None:
    """Run Streamlit in this process."""
    from streamlit.web import bootstrap

    settings = {**SETTINGS, "server.port": port, "server.headless": not browser}
    options = {name.replace(".", "_"): value for name, value in settings.items()}
    bootstrap.load_config_options(options)
    print(f"Sylva is at http://{ADDRESS}:{port}  (Ctrl+C stops it; runs go on)", flush=True)
    bootstrap.run(str(Path(__file__).with_name("app.py")), False, [], options)


if __name__ == "__main__":
    main()
