"""Save a table or predictions as a file in the workspace's exports folder.

The file is written under a temporary name, synced to disk and then renamed. So readers see the old
file or the new one, never a part.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.atomic import replacing
from engine.errors import SylvaError
from engine.export_python import step_call
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Predictions, Report, Table
from nodes.data.formats import TITLES, open_writer

if TYPE_CHECKING:
    import pyarrow as pa


class SaveTableParams(NodeParams):
    """Choose name and format of the file."""

    name: str = Field(
        "table",
        title="Name",
        description="Name of the file, without a folder; the ending is added. An existing file of "
        "this name is replaced.",
        # No character leads to another folder or is special to a file system.
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9 _.\-]*[A-Za-z0-9_\-])?$",
        max_length=100,
    )
    format: Literal["csv", "parquet", "arrow"] = Field(
        "csv",
        title="Format",
        json_schema_extra=form_hint(words=TITLES),
        description="CSV opens everywhere; Parquet is small and keeps the types; Arrow is read "
        "fastest.",
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SaveTableParams) -> dict[str, Any]:
    """Write the file and report its path; raise ``SylvaError`` if the disk refuses it."""
    value: Table | Predictions = inputs["table"]
    data = value.to_arrow() if isinstance(value, Predictions) else value.data
    ending = f".{params.format}"
    path = ctx.files.exports / (params.name.removesuffix(ending) + ending)
    ctx.progress(0.0, f"writing {path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Arrow's file format allows one dictionary for each column.
        data = data.unify_dictionaries()
        with (
            replacing(path) as temporary,
            open_writer(str(temporary), params.format, data.schema) as writer,
        ):
            writer.write_table(data)
    except OSError as error:
        raise SylvaError(f"{path} could not be written: {error.strerror or error}") from error
    return {"report": _report(path, data, params.format)}


def _report(path: Path, data: pa.Table, file_format: str) -> Report:
    """Return a report with path, format, rows, columns and bytes of the file."""
    # Relative to the workspace, so that the report is the same everywhere.
    relative = f"{path.parent.name}/{path.name}"
    return Report(
        kind="saved",
        title=f"Saved {path.name}",
        headline={
            "File": relative,
            "Rows": data.num_rows,
            "Columns": data.num_columns,
            "Bytes": path.stat().st_size,
        },
        data={"path": relative, "format": file_format, "columns": data.column_names},
    )


NODE = NodeType(
    name="save-table",
    title="Save table",
    category="Save",
    summary="Writes a table or predictions to a file: CSV, Parquet or Arrow.",
    version=1,
    params=SaveTableParams,
    run=run,
    python=step_call("nodes.steps.save_table", always=["name", "format"]),
    inputs=(Port("table", "table", "Table or predictions", accepts=("predictions",)),),
    outputs=(Port("report", "report", "Saved file"),),
    imports=("pyarrow", "pyarrow.csv", "pyarrow.parquet"),
    cacheable=False,
)
