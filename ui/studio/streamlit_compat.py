"""All that the studio uses of Streamlit beyond its public interface, in one place.

- ``serve``             run the app in this process until it is stopped
- ``StudioPages``       answers requests for pages, with our own head in Streamlit's HTML
- ``redraw_after_late_requests``  keep a page that was left from emptying the next one
- ``component``         a component of ours, registered with the running app
- ``text_font``         the address of Streamlit's font, for a page in a frame
- ``StreamlitAPIException``  what Streamlit raises for a component without its files
- ``DeltaGenerator``, ``TabContainer``, ``UploadedFile``, ``ComponentRenderer``  types

``pyproject.toml`` allows one minor version of Streamlit. Before that bound is raised, run
``tests/ui/studio/test_streamlit_compat.py`` with the new version.
"""

from __future__ import annotations

import re
import signal
import sys
import tomllib
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.components.v2.types import ComponentRenderer
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_tab_container import TabContainer
from streamlit.errors import StreamlitAPIException
from streamlit.file_util import get_static_dir
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.uploaded_file_manager import UploadedFile

__all__ = [
    "ComponentRenderer",
    "DeltaGenerator",
    "StreamlitAPIException",
    "StudioPages",
    "TabContainer",
    "UploadedFile",
    "component",
    "page_html",
    "redraw_after_late_requests",
    "serve",
    "text_font",
]

PAGE_PATH = re.compile(r"/[\w-]*")
"""Addresses of pages; files have a dot or lie in a folder."""


# The server


def serve(script: Path, settings: Mapping[str, Any], *, browser: str | None = None) -> None:
    """Serve an app in this process; return when it is stopped.

    ``settings`` are Streamlit's options by their dotted names, such as ``server.port``. ``browser``
    is the address to open in a browser when the server has started.
    """
    redraw_after_late_requests()

    @asynccontextmanager
    async def started(app: Any) -> AsyncIterator[None]:
        """Open the browser; the port accepts connections already."""
        if browser is not None:
            webbrowser.open(browser)
        yield

    app = st.App(script, middleware=[Middleware(StudioPages)], lifespan=started)
    # The server stops, then sends the signal again: end with the clean-up of the other modules.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        app.run(config=settings)


class StudioPages:
    """Answer requests for pages with Streamlit's HTML and our head in it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page; leave all others to Streamlit."""
        if scope["type"] == "http" and PAGE_PATH.fullmatch(scope["path"]):
            # Like Streamlit's own page, which names files of one version.
            page = HTMLResponse(page_html(), headers={"Cache-Control": "no-cache"})
            await page(scope, receive, send)
        else:
            await self.app(scope, receive, send)


@cache
def page_html() -> str:
    """Return Streamlit's HTML with our title and ``assets/head.html`` in it.

    The script in our head runs before Streamlit's. It says where the server is: without that,
    Streamlit looks below the address of the page first, and the browser reports errors. It holds
    the theme switch, too, which has to decide before anything is drawn.
    """
    html = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    head = (Path(__file__).parent / "assets" / "head.html").read_text(encoding="utf-8")
    html = html.replace("<title>Streamlit</title>", "<title>Sylva</title>")
    return html.replace("<head>", f"<head>\n{head}", 1)


@cache
def text_font() -> str:
    """Return the address of the font of texts; empty if Streamlit does not have it."""
    fonts = Path(get_static_dir()).glob("static/media/SourceSansVF-Upright.*.woff2")
    return next((f"/static/media/{font.name}" for font in fonts), "")


def redraw_after_late_requests() -> None:
    """Draw the present page when a request for a part of the page before arrives late.

    A component or a timer of the page that was just left may still ask to draw its fragment
    again. Streamlit then finds no such fragment, draws nothing, and the browser shows an empty
    page. Call this once, before the server starts.
    """
    run_script = ScriptRunner._run_script

    def run(runner: ScriptRunner, request: RerunData) -> None:
        """Run a request of the browser, changed if it comes too late."""
        run_script(runner, _on_present_page(request, runner._get_script_run_ctx()))

    ScriptRunner._run_script = run  # type: ignore[method-assign, assignment]


def _on_present_page(request: RerunData, last: ScriptRunContext) -> RerunData:
    """Return the request, or one for the whole present page if it is for a fragment of another.

    ``last`` is the context of the last run of the script: its page is the present one.
    """
    if not request.fragment_id_queue or request.page_script_hash == last.page_script_hash:
        return request
    return RerunData(
        query_string=last.query_string,
        page_script_hash=last.page_script_hash,
        cached_message_hashes=request.cached_message_hashes,
        context_info=request.context_info,
    )


# Components

_registered: dict[str, tuple[BidiComponentManager, ComponentRenderer]] = {}


def component(
    name: str,
    *,
    html: str,
    js: str,
    css: str,
    package: Path | None = None,
    isolate_styles: bool = True,
) -> ComponentRenderer:
    """Return a component, registered with the manager of the running app.

    ``js`` and ``css`` are code. With ``package``, a folder whose ``pyproject.toml`` names a folder
    of assets, they are patterns of files in there. With ``isolate_styles`` it is in a shadow tree.
    """
    manager = get_bidi_component_manager()
    # Tests start several apps in one process, and each has a manager of its own.
    if name not in _registered or _registered[name][0] is not manager:
        # Streamlit finds the manifest of an installed package, but not of an editable install.
        if package is not None and manager.get_component_asset_root(name) is None:
            manager.register_from_manifest(_manifest(package), package)
        renderer = st.components.v2.component(
            name, html=html, js=js, css=css, isolate_styles=isolate_styles
        )
        _registered[name] = manager, renderer
    return _registered[name][1]


def _manifest(package: Path) -> ComponentManifest:
    """Read the manifest from a ``pyproject.toml``, as Streamlit does for installed packages."""
    described = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    components = described["tool"]["streamlit"]["component"]["components"]
    project = described["project"]
    parts = [ComponentConfig.from_dict(each) for each in components]
    return ComponentManifest(name=project["name"], version=project["version"], components=parts)
