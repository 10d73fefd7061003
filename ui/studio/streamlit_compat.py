"""All that the studio uses of Streamlit beyond its public interface, in one place.

- ``serve``             run the app in this process until it is stopped
- ``redraw_after_late_requests``  keep a page that was left from emptying the next one
- ``component``         a component of ours, registered with the running app
- ``DeltaGenerator``, ``TabContainer``, ``UploadedFile``, ``ComponentRenderer``  types

``pyproject.toml`` allows one minor version of Streamlit. Before that bound is raised, run
``tests/ui/studio/test_streamlit_compat.py`` with the new version.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.components.v2.types import ComponentRenderer
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_tab_container import TabContainer
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.uploaded_file_manager import UploadedFile
from streamlit.web import bootstrap

__all__ = [
    "ComponentRenderer",
    "DeltaGenerator",
    "TabContainer",
    "UploadedFile",
    "component",
    "redraw_after_late_requests",
    "serve",
]


# The server


def serve(script: Path, settings: Mapping[str, Any]) -> None:
    """Serve an app in this process; return when it is stopped.

    ``settings`` are Streamlit's options by their dotted names, such as ``server.port``.
    """
    # Streamlit's command line passes them with underscores.
    options = {name.replace(".", "_"): value for name, value in settings.items()}
    bootstrap.load_config_options(options)
    redraw_after_late_requests()
    bootstrap.run(str(script), False, [], options)


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
