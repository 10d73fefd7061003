"""Save a table or predictions as a file in the workspace's exports folder.

The file is written under a temporary name, synced to disk and then renamed. So readers see the old
file or the new one, never a part.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic import Field

from engine.atomic import replacing
from engine.errors import SylvaError
from engine.export_python import step_call
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from engine.values import Predictions, Report, Table

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
        description="CSV opens everywhere; Parquet is small and keeps the types; Arrow is read fastest.",
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
        with replacing(path) as temporary, temporary.open("wb") as file:
            WRITERS[params.format](data, file)
    except OSError as error:
        raise SylvaError(f"{path} could not be written: {error.strerror or error}") from error
    return {"report": _report(path, data, params.format)}


def _write_csv(data: pa.Table, file: BinaryIO) -> None:
    """Write the table as CSV with a header."""
    import pyarrow.csv as pa_csv

    pa_csv.write_csv(data, file)


def _write_parquet(data: pa.Table, file: BinaryIO) -> None:
    """Write the table as Parquet, compressed with zstd."""
    import pyarrow.parquet as pq

    pq.write_table(data, file, compression="zstd")


def _write_arrow(data: pa.Table, file: BinaryIO) -> None:
    """Write the table in Arrow's file format, which Feather is too."""
    import pyarrow as pa

    with pa.ipc.new_file(file, data.schema) as writer:
        # The file format allows one dictionary for each column.
        writer.write_table(data.unify_dictionaries())


WRITERS = {"csv": _write_csv, "parquet": _write_parquet, "arrow": _write_arrow}


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
