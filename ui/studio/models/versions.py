"""Manage the versions of a model: see them, put one in use, write notes, import another.

- ``draw_choice``    which version the page shows, and which one is in use
- ``draw_versions``  all versions, and the note of the chosen one
- ``draw_import``    a model that was downloaded elsewhere becomes a version
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

import streamlit as st

from engine.errors import SylvaError
from engine.text import readable
from nodes.models.importing import import_model, suggested_name
from nodes.models.registry import MAX_ZIPPED, ModelEntry, Registry
from nodes.models.versions import MAX_NOTE
from ui.studio.screen_text import plain
from ui.studio.streamlit_compat import UploadedFile
from ui.studio.widgets import errors_flashed, flash, grid

VERSION = "version"
"""The parameter of the address that names the version; without it, the one in use is shown."""
IMPORT_ROUND = "model-import-round"
"""Increased after each import: the next uploader is another one, and empty."""
NOTE_HELP = "What is special about this version; shown beside it."


def draw_choice(registry: Registry, entry: ModelEntry, versions: list[ModelEntry]) -> None:
    """Draw the choice among several versions, and the button that puts the chosen one in use."""
    if len(versions) < 2:
        return
    numbers = [each.version for each in versions]
    in_use = next((each.version for each in versions if each.in_use), None)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        key = f"model-version-{entry.name}-{entry.version}"
        st.selectbox(
            "Version",
            numbers,
            numbers.index(entry.version),
            format_func=lambda number: f"{number} (in use)" if number == in_use else str(number),
            key=key,
            on_change=partial(_choose, key),
            help="The name of a model means its version in use: for `sylva predict`, `sylva "
            "serve`, and Load model. The others are named by their number, such as "
            f"`{entry.name}@{numbers[-1]}`.",
            width=160,
        )
        if not entry.in_use:
            use = partial(_use, registry, entry)
            st.button("Use this version", type="primary", key="model-use", on_click=use)


def _choose(key: str) -> None:
    """Put the chosen version into the address."""
    st.query_params[VERSION] = str(st.session_state[key])


def _use(registry: Registry, entry: ModelEntry) -> None:
    """Put a version in use."""
    with errors_flashed("models"):
        registry.use(entry.name, entry.version)
        flash("models", f"Version {entry.version} of {entry.name} is in use.")


def version_table(versions: list[ModelEntry]) -> list[dict[str, object]]:
    """Return the versions as rows of a table, the newest first."""
    return [
        {
            "Version": each.version,
            "In use": "✓" if each.in_use else None,
            "Kind": each.title or "cannot be read",
            "Result": each.card.headline or None,
            "Note": each.note or None,
            "Saved": int(each.saved * 1000),
            "Trained on": each.rows or None,
            "Size": each.bytes,
        }
        for each in versions
    ]


def draw_versions(registry: Registry, entry: ModelEntry, versions: list[ModelEntry]) -> None:
    """Draw all versions, and the note of the chosen one."""
    config = st.column_config
    grid(
        version_table(versions),
        f"versions-{entry.name}",
        column_config={
            "Version": config.NumberColumn(width=64),
            "In use": config.TextColumn(width=56),
            "Saved": config.DatetimeColumn(format="distance"),
            "Trained on": config.NumberColumn(format="localized", help="Training rows"),
            "Size": config.NumberColumn(format="bytes"),
        },
    )
    # A note that was saved: a new widget, with a new default.
    key = f"model-note-{entry.reference}-{hash(entry.note)}"
    st.text_input(
        f"Note of version {entry.version}",
        entry.note,
        max_chars=MAX_NOTE,
        key=key,
        on_change=partial(_save_note, registry, entry, key),
        help=NOTE_HELP,
    )
    st.caption(
        "A run adds a version when its Save model node saves another model under this name. The "
        "same model stays one version."
    )


def _save_note(registry: Registry, entry: ModelEntry, key: str) -> None:
    """Save the note that was typed."""
    with errors_flashed("models"):
        registry.set_note(entry.name, entry.version, str(st.session_state[key]))
        flash("models", f"The note of version {entry.version} is saved.")


# Import


def draw_import(registry: Registry, *, expanded: bool = False) -> None:
    """Draw the import of a model that was downloaded on another Models page."""
    with st.expander("Import a model", icon=":material/upload:", expanded=expanded):
        number = st.session_state.get(IMPORT_ROUND, 0)
        sent = st.file_uploader(
            "Downloaded model",
            type="zip",
            key=f"model-import-{number}",
            max_upload_size=MAX_ZIPPED // 1_000_000,
            help="The ZIP archive that the button Download of a model gives. It is checked before "
            "anything is saved.",
        )
        if sent is not None:
            _draw_import_form(registry, sent)


def _draw_import_form(registry: Registry, sent: UploadedFile) -> None:
    """Draw name, note and button for a file that was sent."""
    name = st.text_input(
        "Name",
        suggested_name(sent.name),
        max_chars=64,
        key=f"model-import-name-{sent.file_id}",
        help="Letters, digits, dots, dashes and underscores. If a model has this name, the import "
        "becomes a version of it.",
    )
    note = st.text_input(
        "Note", max_chars=MAX_NOTE, key=f"model-import-note-{sent.file_id}", help=NOTE_HELP
    )
    use = True
    if name in registry.names():
        use = st.toggle(
            "Use this version",
            value=True,
            key=f"model-import-use-{sent.file_id}",
            help=f"The model {plain(name)} exists. This decides which version its name means.",
        )
    if st.button("Import", type="primary", key=f"model-import-start-{sent.file_id}"):
        _import(registry, sent, name, note, use)


def _import(registry: Registry, sent: UploadedFile, name: str, note: str, use: bool) -> None:
    """Import the file and open the model, or draw why it was refused."""
    try:
        with st.spinner("Checking the model …"), tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "model.zip"
            with archive.open("wb") as file:
                shutil.copyfileobj(sent, file)
            found = import_model(
                registry, archive, name, file_name=readable(sent.name), note=note, use=use
            )
    except (SylvaError, OSError) as error:
        # The next try reads the file from its beginning.
        sent.seek(0)
        text = str(error)
        st.error(plain(readable(text[:1].upper() + text[1:]).rstrip(".")) + ".")
        return
    st.session_state[IMPORT_ROUND] = st.session_state.get(IMPORT_ROUND, 0) + 1
    imported, version = found
    flash("models", f"{sent.name} is version {version} of the model {imported}.")
    st.query_params.from_dict({"model": imported, VERSION: str(version)})
    st.rerun()
