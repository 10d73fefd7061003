"""Load a table from a file of the workspace, or one of the samples that come with the studio.

``nodes.data.tables`` does the reading. This module defines the parameters, and tells the builder
the columns of a table before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import (
    SOURCE_COLUMNS,
    Column,
    Columns,
    Kind,
    NodeContext,
    NodeParams,
    NodeType,
    Port,
    form_hint,
)
from engine.storages import scheme_of
from engine.values import Table
from engine.workspace import Files
from nodes.data import excel, formats
from nodes.data.columns import KIND_TITLES, TASK_TITLES, Task
from nodes.data.formats import FileFormat
from nodes.data.locations import DATABASES, address_problem, locate, version_of
from nodes.data.samples import sample_columns, sample_name, sample_titles, source_title
from nodes.data.tables import (
    check_columns,
    chosen_types,
    load,
    preview,
    roles_of_reading,
    target_and_roles,
)

OTHER_SUFFIXES = [suffix for suffix, kind in formats.SUFFIXES.items() if kind not in ("csv", "tsv")]
NOT_DATABASES = tuple(f"!{scheme}://*" for scheme in DATABASES)
OF_TEXT_FILES = {
    "format": ("auto", "csv", "tsv"),
    "source": ("!sample:*", *NOT_DATABASES, *(f"!*{suffix}" for suffix in OTHER_SUFFIXES)),
}
"""Sources that may be CSV or TSV: not samples, and not named like other formats."""
OTHER_THAN_SHEETS = [suffix for suffix in OTHER_SUFFIXES if suffix not in excel.SUFFIXES]
OF_TEXTS_AND_SHEETS = {
    "format": ("auto", "csv", "tsv", "excel"),
    "source": ("!sample:*", *NOT_DATABASES, *(f"!*{suffix}" for suffix in OTHER_THAN_SHEETS)),
}
OF_EXCEL_FILES = {"source": tuple(f"*{suffix}" for suffix in excel.SUFFIXES)}
OF_DATABASES = {"source": tuple(f"{scheme}://*" for scheme in DATABASES)}
OF_FILES = {"source": ("!sample:*", *NOT_DATABASES)}
TEXT_OPTION = form_hint(when=OF_TEXT_FILES, folded=True)
FILE_OPTION = form_hint(when=OF_FILES, folded=True)
FRAUD_OPTION = form_hint(when={"source": "sample:fraud"})
ROLE_TITLES = {
    "feature": "feature",
    "id": "ID",
    "group": "group",
    "time": "time",
    "weight": "row weight",
    "ignore": "ignored",
}


class LoadDataParams(NodeParams):
    """Choose where the table comes from, how the file is written and what the columns are for."""

    source: str = Field(
        "sample:digits",
        title="Source",
        description="A file in the workspace's data folder, a folder of Parquet files there, a "
        "sample, or an address that the workspace allows: s3://, gs://, abfs:// or postgresql://.",
        min_length=1,
        max_length=4096,
        json_schema_extra=form_hint(choose="file", words=sample_titles()),
    )
    sheet: str | None = Field(
        None,
        title="Sheet",
        description="Sheet of an Excel file. Empty: the first one that has values.",
        min_length=1,
        max_length=200,
        json_schema_extra=form_hint(choose="sheet", when=OF_EXCEL_FILES),
    )
    query: str = Field(
        "",
        title="Query",
        description="The query that reads the table from a database, such as SELECT * FROM "
        "customers. It cannot change the database.",
        max_length=100_000,
        json_schema_extra=form_hint(lines=True, when=OF_DATABASES),
    )
    target: str | None = Field(
        None,
        title="Target",
        description="The column to predict. Leave it empty for a table that is only used for "
        "predictions; a sample then keeps its own target.",
        min_length=1,
        json_schema_extra=form_hint(choose="column"),
    )
    task: Task | None = Field(
        None,
        title="Predict the target as",
        description="Whether the target is a class, such as yes or no, or a number, such as a "
        "price. Empty: a class, and for the target of a sample what it is.",
        json_schema_extra=form_hint(words=TASK_TITLES),
    )
    roles: dict[str, Literal["feature", "id", "group", "time", "weight", "ignore"]] = Field(
        default_factory=dict,
        title="Roles",
        description="What columns are used for, if they are not features. IDs, groups and times "
        "are copied to the predictions. The rows of a group, such as a customer, stay together "
        "when a model is scored. A row weight is how much a row counts.",
        json_schema_extra=form_hint(choose="columns", words=ROLE_TITLES),
    )
    types: dict[str, Kind] = Field(
        default_factory=dict,
        title="Types",
        description="Columns to read as another type than the one that is detected.",
        json_schema_extra=form_hint(choose="columns", words=KIND_TITLES),
    )
    missing_target: Literal["error", "drop"] = Field(
        "error",
        title="Rows without a target",
        description="What happens to rows whose target is missing.",
        json_schema_extra=form_hint(
            folded=True, words={"error": "stop with an error", "drop": "drop these rows"}
        ),
    )
    empty_columns: Literal["error", "drop"] = Field(
        "error",
        title="Columns without values",
        description="What happens to columns that hold no value at all.",
        json_schema_extra=form_hint(
            when=OF_FILES,
            folded=True,
            words={"error": "stop with an error", "drop": "drop these columns"},
        ),
    )
    format: Literal["auto", "csv", "tsv", "parquet", "arrow", "libsvm", "excel"] = Field(
        "auto",
        title="Format",
        description="Format of the file. CSV, TSV and LibSVM may be compressed (.gz).",
        json_schema_extra=form_hint(
            when=OF_FILES,
            folded=True,
            words={
                "auto": "from the ending of its name",
                "csv": "CSV",
                "tsv": "TSV",
                "parquet": "Parquet",
                "arrow": "Arrow or Feather",
                "libsvm": "LibSVM",
                "excel": "Excel or OpenDocument",
            },
        ),
    )
    delimiter: Literal["auto", "comma", "semicolon", "tab", "pipe", "space"] = Field(
        "auto",
        title="Delimiter",
        description="What separates the values of a CSV file.",
        json_schema_extra=form_hint(
            when=OF_TEXT_FILES,
            folded=True,
            words={
                "auto": "found from the first lines",
                "comma": "comma",
                "semicolon": "semicolon",
                "tab": "tab",
                "pipe": "vertical bar",
                "space": "space",
            },
        ),
    )
    encoding: str = Field(
        "utf-8",
        title="Encoding",
        description="Character encoding of a CSV file: utf-8, or for older files latin-1, cp1252 "
        "or utf-16.",
        json_schema_extra=TEXT_OPTION,
    )
    header: bool = Field(
        True,
        title="First row is the header",
        description="Whether a CSV file or a sheet begins with the names of its columns; without a "
        "header, they are f1, f2 …",
        json_schema_extra=form_hint(when=OF_TEXTS_AND_SHEETS, folded=True),
    )
    missing: list[str] = Field(
        default=["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"],
        title="Missing texts",
        description="Texts that mean a value is missing, in any format.",
        max_length=100,
        json_schema_extra=form_hint(folded=True),
    )
    max_columns: int = Field(
        8192,
        title="Max columns",
        description="A table with more columns is refused, because this often means that the file "
        "options are wrong.",
        ge=1,
        le=100_000,
        json_schema_extra=FILE_OPTION,
    )
    rows: int = Field(
        20_000,
        title="Payments",
        description="Rows of the fraud sample to generate.",
        ge=1_000,
        le=5_000_000,
        json_schema_extra=FRAUD_OPTION,
    )
    fraud_share: float = Field(
        0.005,
        title="Share of fraud",
        description="Share of the fraud sample's rows that are fraud.",
        gt=0,
        lt=0.5,
        json_schema_extra=FRAUD_OPTION,
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed generates another fraud sample.",
        ge=0,
        le=2**32 - 1,
        json_schema_extra=FRAUD_OPTION,
    )

    @field_validator("source")
    @classmethod
    def _has_no_credentials(cls, source: str) -> str:
        """Raise ``ValueError`` for an address that cannot be read, or that contains a password."""
        problem = address_problem(source)
        if problem:
            raise ValueError(problem)
        return source

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        """Raise ``ValueError`` unless files can be written in this encoding."""
        if not formats.is_encoding(encoding):
            raise ValueError(f"the encoding '{encoding}' is unknown; try utf-8, latin-1 or utf-16")
        return encoding

    @property
    def file_format(self) -> FileFormat:
        """Return the settings that say how the file is written."""
        return FileFormat(
            self.format,
            self.delimiter,
            self.encoding,
            self.header,
            frozenset(self.missing),
            self.sheet or "",
            self.query,
        )


def run(ctx: NodeContext, inputs: dict[str, Any], params: LoadDataParams) -> dict[str, Any]:
    """Load the table and log its size."""
    with ctx.reading(params.source, "source"):
        table = load(params, ctx.files, ctx.progress, ctx.scratch)
    rows, width = table.data.shape
    ctx.log(f"{rows:,} rows, {width:,} columns from {source_title(params.source)}")
    return {"table": table}


def preview_params(
    source: str,
    file_format: FileFormat,
    target: str | None = None,
    task: Task | None = None,
) -> LoadDataParams:
    """Return the settings for a preview of a file.

    Rows without a target and columns without values do not stop a preview, as they would stop a
    run. Raise ``BadInput`` if ``source`` cannot be the name of a file.
    """
    # A preview is there to choose these settings, so it must not fail because of them.
    settings = {
        "source": source,
        "target": target,
        "task": task,
        "missing_target": "drop",
        "empty_columns": "drop",
    }
    try:
        return LoadDataParams.model_validate({**settings, **file_format.settings})
    except ValueError:
        problem = address_problem(source) or "this is not a valid file name; choose another one"
        raise BadInput(problem, field="source") from None


def check(params: LoadDataParams, files: Files) -> Iterable[BadInput]:
    """Yield the problem that a run would stop at, as far as a preview of the file shows it.

    A file that is too large for a complete preview is only checked for the columns that the
    settings name.
    """
    try:
        if sample_name(params.source) is not None:
            _sample_columns(params)
            return
        seen = preview(params, files)
        if seen.complete:
            seen.table(params)
        # The first rows of a LibSVM file may lack columns that later rows have.
        elif not formats.is_libsvm(Path(params.source), params.file_format):
            check_columns(params, seen.names)
    except BadInput as problem:
        yield problem


def file_columns(params: LoadDataParams, files: Files) -> Columns | None:
    """Return the columns of the source, for a form to choose from.

    Target and types of the settings are not applied; a sample has its own target and roles. Return
    None if the source cannot be read, or is too large to be read completely. Columns without values
    are left out, unless they are ignored.
    """
    roles = roles_of_reading(params)
    plain = params.model_copy(update={"target": None, "roles": roles, "types": {}})
    try:
        if sample_name(params.source) is not None:
            return _sample_columns(plain.model_copy(update={"roles": {}}))
        seen = preview(plain, files)
    except BadInput:
        return None
    return Table(seen.data, None, roles).columns if seen.complete else None


def columns(
    inputs: Mapping[str, Columns | None], params: LoadDataParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the table: known for samples, and for a file that was read before."""
    own = inputs.get(SOURCE_COLUMNS)
    try:
        if sample_name(params.source) is not None:
            return {"table": _sample_columns(params)}
        return {"table": None if own is None else _apply_settings(params, own)}
    except BadInput:
        return {"table": None}


def _sample_columns(params: LoadDataParams) -> Columns:
    """Return the columns of a sample with these settings, without reading it."""
    name = sample_name(params.source)
    assert name is not None
    return _apply_settings(params, sample_columns(name))


def _apply_settings(params: LoadDataParams, own: Columns) -> Columns:
    """Return the columns of the source with the target, roles and types of the settings."""
    check_columns(params, [column.name for column in own])
    target, roles = target_and_roles(params)
    types = chosen_types(params, target)
    if target is not None:
        roles[target] = "target"
    columns = []
    for name, kind in ((column.name, column.kind) for column in own):
        columns.append(Column(name, types.get(name, kind), roles.get(name, "feature")))
    return tuple(columns)


def fingerprint(params: LoadDataParams, files: Files) -> str:
    """Return a text that changes whenever the file changes; samples never do.

    It is part of the cache key of the node: a result is reused only for the same version of the
    file.
    """
    if sample_name(params.source) is not None:
        return "sample"
    # Size and times are enough: hashing a large file would delay every check of the pipeline.
    where = locate(params.source, files)
    version = version_of(where, params.query)
    if version is None:
        raise BadInput(
            f"'{params.source}' was deleted a moment ago; choose another file", field="source"
        )
    return version if isinstance(where, Path) else f"{where}:{version}"


NODE = NodeType(
    name="load-data",
    title="Load data",
    category="Data",
    summary="Reads a table from a file, a storage, a database or a sample; sets target and roles.",
    version=1,
    params=LoadDataParams,
    run=run,
    python=step_call("nodes.steps.load", positional=["source"]),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    source_columns=file_columns,
    check=check,
    fingerprint=fingerprint,
    uses_files=lambda params: not scheme_of(params.source),
    imports=formats.IMPORTS,
)
