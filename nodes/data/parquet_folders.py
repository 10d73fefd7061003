"""Read a folder of Parquet files as one table; folders such as ``year=2024`` become columns.

This is how Spark, DuckDB and pandas write partitioned tables (Hive partitions). All files have to
have the same columns, or columns that one type can hold; a column that a file lacks is missing
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.errors import BadInput
from nodes.data.locations import RemoteFile, local_parts, require_parts


def open_folder(folder: Path | RemoteFile) -> Any:
    """Return the dataset of a folder; raise ``BadInput`` if its files do not fit together."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import fs

    if isinstance(folder, RemoteFile):
        system, base = folder.file_system, folder.path
        parts = require_parts(folder.name, [path for path, _ in folder.files()])
    else:
        system, base = fs.LocalFileSystem(), str(folder.resolve())
        parts = local_parts(folder)
    options = ds.FileSystemFactoryOptions(
        partition_base_dir=base, partitioning=ds.HivePartitioning.discover()
    )
    try:
        factory = ds.FileSystemDatasetFactory(system, parts, ds.ParquetFileFormat(), options)
        schema = factory.inspect(promote_options="permissive", fragments=len(parts))
        return factory.finish(schema)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
        raise BadInput(
            f"the Parquet files of '{folder.name}' do not fit together, or one is damaged "
            f"({reason}); write them again with the same type for each column",
            field="source",
        ) from None


def batches(dataset: Any, columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Return the rows of a dataset in the order of its files, some at a time."""
    # Little is read ahead: a preview stops after the first rows.
    scanner = dataset.scanner(
        columns=list(columns), batch_size=rows, batch_readahead=2, fragment_readahead=1
    )
    return iter(scanner.to_batches())
