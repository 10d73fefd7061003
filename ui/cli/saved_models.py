"""The commands ``sylva models …``: the saved models of a workspace and their versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import BadInput
from ui.cli.options import CommonOptions, command

if TYPE_CHECKING:
    from nodes.models.registry import ModelEntry, Registry

app = typer.Typer(
    name="models",
    help="List, import and choose saved models and their versions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

VersionArgument = Annotated[
    str, typer.Argument(metavar="NAME@N", help="A version of a model, such as fraud@2.")
]


@command(app, name="list")
def list_models(
    common: CommonOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="List the versions of this model."),
    ] = None,
) -> None:
    """List the saved models, or the versions of one of them."""
    from ui.cli.output import print_table

    registry = _registry(common)
    entries = registry.entries() if name is None else registry.versions(name)
    rows = [_row(entry) for entry in entries]

    def render() -> None:
        """Print the models as a table, or that the workspace has none."""
        if not rows:
            print(f"The workspace {common.workspace.root} has no models yet.")
        print_table([_shown(row) for row in rows])

    common.output(rows, render)


@command(app, name="import")
def import_archive(
    common: CommonOptions,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A model that was downloaded: a ZIP archive."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the model. [default: that of the file]")
    ] = None,
    note: Annotated[str, typer.Option(help="What is special about this version.")] = "",
    use: Annotated[
        bool,
        typer.Option(
            "--use/--no-use", help="Whether NAME means this version, if it has others already."
        ),
    ] = True,
) -> None:
    """Import a model that was downloaded on the Models page, as a version of its name."""
    from nodes.models.importing import import_model

    if not file.is_file():
        raise BadInput(f"The file {file} does not exist.")
    registry = _registry(common)
    imported, version = import_model(registry, file, name, note=note, use=use)
    entry = registry.entry(f"{imported}@{version}")
    words = f"{file} is version {version} of the model '{imported}'"
    words += " and in use." if entry.in_use else f"; to use it: sylva models use {entry.reference}"
    common.output(_row(entry), words)


@command(app)
def use(common: CommonOptions, version: VersionArgument) -> None:
    """Let a name mean one of its versions: predict, serve and Load model then use it."""
    registry = _registry(common)
    name, number = _version(version)
    registry.use(name, number)
    common.output(_row(registry.entry(name)), f"The model '{name}' is now version {number}.")


@command(app)
def note(
    common: CommonOptions,
    version: VersionArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note; empty removes it.")],
) -> None:
    """Write a note about a version."""
    registry = _registry(common)
    name, number = _version(version)
    registry.set_note(name, number, text)
    common.output(_row(registry.entry(version)), f"The note of {version} is saved.")


@command(app)
def delete(
    common: CommonOptions,
    model: Annotated[
        str,
        typer.Argument(
            metavar="NAME[@N]", help="A version of a model, or a name for all its versions."
        ),
    ],
) -> None:
    """Delete a version, or a model with all its versions."""
    _registry(common).delete(model)
    common.output({"deleted": model}, f"'{model}' is deleted.")


def _registry(common: CommonOptions) -> Registry:
    """Return the models of the chosen workspace."""
    from nodes.models.registry import Registry

    return Registry(common.workspace)


def _version(text: str) -> tuple[str, int]:
    """Return name and number of a version; raise ``BadInput`` if it has no number."""
    from nodes.models.versions import split_reference

    name, number = split_reference(text)
    if number is None:
        raise BadInput(f"'{text}' does not name a version; write it as NAME@N, such as {text}@1.")
    return name, number


def _row(entry: ModelEntry) -> dict[str, Any]:
    """Return what the commands print about a version."""
    return {
        "name": entry.name,
        "version": entry.version,
        "in_use": entry.in_use,
        "kind": entry.kind,
        "result": entry.card.headline,
        "saved": entry.saved,
        "note": entry.note,
        "problem": entry.problem,
    }


def _shown(row: dict[str, Any]) -> dict[str, str]:
    """Return a row as the table shows it."""
    from engine.text import clock

    return {
        "model": f"{row['name']}@{row['version']}",
        "in use": "yes" if row["in_use"] else "",
        "kind": "cannot be read" if row["problem"] else row["kind"],
        "result": row["result"],
        "saved": clock(row["saved"]),
        "note": row["note"],
    }
