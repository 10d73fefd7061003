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
LAST_PORT = 8550

SETTINGS = {
    "server.address": ADDRESS,
    "server.fileWatcherType": "none",
    # MB. An upload is held in memory until it is copied, see nodes/data/files.py.
    "server.maxUploadSize": 1024,
    "server.showEmailPrompt": False,
    "server.headless": True,
    "logger.hideWelcomeMessage": True,
    "logger.level": "warning",
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    # They are readable as text on the page and on a light tint of themselves.
    "theme.primaryColor": "#2b764a",
    "theme.light.primaryColor": "#2b764a",
    "theme.dark.primaryColor": "#3fa56c",
}


def main() -> None:
    """Check the workspace, choose a port, and serve until the user stops the process."""
    parser = argparse.ArgumentParser(prog="sylva studio", description="Start the studio.")
    parser.add_argument("--port", type=int)
    parser.add_argument("--workspace")
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    try:
        workspace = Workspace.at(options.workspace).create()
        port = _free_port(options.port)
    except SylvaError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    os.environ["SYLVA_WORKSPACE"] = str(workspace.root)
    serve(port, browser=not options.no_browser)


def _free_port(requested: int | None) -> int:
    """Return the requested port, by default the first free one.

    Raise ``SylvaError`` if it cannot be used.
    """
    ports = [requested] if requested is not None else range(FIRST_PORT, LAST_PORT + 1)
    for port in ports:
        with socket.socket() as trial:
            # Without this, a port stays blocked for a minute after the last studio ended.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((ADDRESS, port))
                return port
            except (OSError, OverflowError):
                continue
    if requested is not None:
        raise SylvaError(
            f"Port {requested} is not available: another program uses it, or it needs "
            "administrator rights. Choose another port with --port."
        )
    tried = f"from {FIRST_PORT} to {LAST_PORT}"
    raise SylvaError(f"No port {tried} is free. Choose another port with --port.")


def serve(port: int, *, browser: bool) -> None:
    """Run Streamlit in this process. Return when it is stopped."""
    # Imported late: Streamlit takes a second to load, and a wrong option should not wait for it.
    from ui.studio import streamlit_compat

    settings, address = {**SETTINGS, "server.port": port}, f"http://{ADDRESS}:{port}"
    print(f"Sylva is at {address}  (Ctrl+C stops it; runs continue)", flush=True)
    script = Path(__file__).with_name("app.py")
    streamlit_compat.serve(script, settings, browser=address if browser else None)


if __name__ == "__main__":
    main()
