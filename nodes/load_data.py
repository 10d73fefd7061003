"""Load a table from a file of the workspace, or one of the samples that come with the studio.

``load`` is the whole way from settings to a table: read, name the target and roles, give every column its kind,
make class labels of the target. ``run`` and ``check`` both use it, so what is reported before a run is what the
run would have met.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from engine import sandbox
from engine.errors import BadInput
from engine.export_python import Code, Names, settings, statement
from engine.files import Files
from engine.node_types import OUTSIDE, Column, Columns, Kind, NodeContext, NodeParams, NodeType, Port, Role, form_hint
from engine.text import listed
from engine.values import Table, kind_of
from nodes.data import formats
from nodes.data.column_types import cast_column, infer_type
from nodes.data.columns import require_column
from nodes.data.csv_reader import Dialect
from nodes.data.decoded_size import is_within
from nodes.data.roles import check_classes, check_roles, without_missing_target
from nodes.data.samples import read_sample, sample_columns, sample_name

if TYPE_CHECKING:
    import pyarrow as pa

CHECKED_SIZE = 64 << 20
"""Bytes of a table that is loaded as a whole to find its problems before a run: so many when it is decoded."""

IMPORTS = ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet")
"""Slow modules that reading a file needs."""

MAYBE_TEXT = ("!sample:*", *(f"!*{ending}" for ending, kind in formats.SUFFIXES.items() if kind not in ("csv", "tsv")))
"""Patterns of sources that may be CSV or TSV files: neither samples nor named like files of other formats."""


class LoadDataParams(NodeParams):
    """Where the table comes from and how its columns are meant."""

    source: str = Field(
        "sample:digits",
        title="Source",
        description="A file in the workspace's data folder, or a sample: "
        "sample:digits, sample:breast-cancer, sample:wine, sample:iris or sample:fraud.",
        min_length=1,
        max_length=4096,
        json_schema_extra=form_hint(choose="file"),
    )
    target: str | None = Field(
        None,
        title="Target",
        description="The column with the classes to learn. Empty for a table that is only to be scored; "
        "a sample then keeps its own target.",
        min_length=1,
        json_schema_extra=form_hint(choose="column"),
    )
    roles: dict[str, Literal["feature", "id", "time", "weight", "ignore"]] = Field(
        default_factory=dict,
        title="Roles",
        description="What columns are for, if they are not features: id and time are carried along to the predictions, "
        "an id as it is written, weight says how much a row counts, ignore keeps a column out of everything.",
        json_schema_extra=form_hint(choose="columns"),
    )
    types: dict[str, Kind] = Field(
        default_factory=dict,
        title="Types",
        description="Columns to read as another type than they look like: number, category, bool, time or text.",
        json_schema_extra=form_hint(choose="columns"),
    )
    missing_target: Literal["error", "drop"] = Field(
        "error",
        title="Rows without a target",
        description="Stop with an error, or drop the rows whose target is missing.",
        json_schema_extra=form_hint(folded=True),
    )
    empty_columns: Literal["error", "drop"] = Field(
        "error",
        title="Columns without values",
        description="Stop with an error, or drop the columns that hold no value at all.",
        json_schema_extra=form_hint(when={"source": "!sample:*"}, folded=True),
    )
    format: Literal["auto", "csv", "tsv", "parquet", "arrow", "libsvm"] = Field(
        "auto",
        title="Format",
        description="How the file is written; auto goes by the ending of its name. CSV, TSV and LibSVM may be "
        "compressed (.gz). Feather files are Arrow files.",
        json_schema_extra=form_hint(when={"source": "!sample:*"}),
    )
    delimiter: Literal["auto", "comma", "semicolon", "tab", "pipe", "space"] = Field(
        "auto",
        title="Delimiter",
        description="What stands between the values of a CSV file; auto looks at its first lines.",
        json_schema_extra=form_hint(when={"format": ("auto", "csv", "tsv"), "source": MAYBE_TEXT}, folded=True),
    )
    encoding: str = Field(
        "utf-8",
        title="Encoding",
        description="How a CSV file turns characters into bytes: utf-8, or for older files latin-1, cp1252 or utf-16.",
        json_schema_extra=form_hint(when={"format": ("auto", "csv", "tsv"), "source": MAYBE_TEXT}, folded=True),
    )
    header: bool = Field(
        True,
        title="First row is the header",
        description="Whether a CSV file begins with the names of its columns; without them they are f1, f2 …",
        json_schema_extra=form_hint(when={"format": ("auto", "csv", "tsv"), "source": MAYBE_TEXT}, folded=True),
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
        title="Most columns",
        description="A table with more columns than this is refused: often it is a file read the wrong way.",
        ge=1,
        le=100_000,
        json_schema_extra=form_hint(when={"source": "!sample:*"}, folded=True),
    )
    rows: int = Field(
        20_000,
        title="Payments",
        description="Rows of the fraud sample to generate.",
        ge=1_000,
        le=5_000_000,
        json_schema_extra=form_hint(when={"source": "sample:fraud"}),
    )
    fraud_share: float = Field(
        0.005,
        title="Share of fraud",
        description="Share of the fraud sample's rows that are fraud.",
        gt=0,
        lt=0.5,
        json_schema_extra=form_hint(when={"source": "sample:fraud"}),
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed generates another fraud sample.",
        ge=0,
        le=2**32 - 1,
        json_schema_extra=form_hint(when={"source": "sample:fraud"}),
    )

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        try:
            "a".encode(encoding)
            if codecs.lookup(encoding).name in ("idna", "punycode"):  # for host names, and endless on a file
                raise LookupError
        except (LookupError, ValueError):
            raise ValueError(f"there is no encoding '{encoding}'; try utf-8, latin-1 or utf-16") from None
        return encoding

    @property
    def dialect(self) -> Dialect:
        """The settings that concern CSV files."""
        return Dialect(self.delimiter, self.encoding, self.header, frozenset(self.missing))


def run(ctx: NodeContext, inputs: dict[str, Any], params: LoadDataParams) -> dict[str, Any]:
    """Load the table."""
    with ctx.reading(params.source, "source"):
        table = load(params, ctx.files, ctx.progress)
    ctx.log(f"{table.data.num_rows:,} rows, {table.data.num_columns:,} columns from {params.source}")
    return {"table": table}


def load(
    params: LoadDataParams, files: Files, progress: Callable[[float, str], None] = lambda fraction, text: None
) -> Table:
    """The table the settings describe; ``BadInput`` says what stands in the way."""
    progress(0.0, f"reading {params.source}")
    data = _read(params, files)
    target, roles = _target_and_roles(params)
    _check_columns(params, data.column_names, target)
    progress(0.5, "finding the types of the columns")
    data = _with_kinds(data, params, target, roles)
    progress(0.9, "checking target and roles")
    if target is not None:
        data = without_missing_target(data, target, params.missing_target)
        check_classes(data.column(target), target)
    roles = {name: role for name, role in roles.items() if name in data.column_names}
    check_roles(data, roles)
    return Table(data, target, roles)


def _read(params: LoadDataParams, files: Files) -> pa.Table:
    name = sample_name(params.source)
    if name is not None:
        return read_sample(name, params.rows, params.fraud_share, params.seed)
    path = files.readable(params.source, field="source")
    # What is written decides on labels, ids and types that were asked for: "1" and "01" are two labels, one number.
    as_text = {*params.types, *_ids(params), *([params.target] if params.target else [])}
    return formats.read(path, params.format, params.dialect, as_text, params.max_columns)


def _ids(params: LoadDataParams) -> list[str]:
    """Columns of a file that are ids."""
    if sample_name(params.source) is not None:
        return []
    return [name for name, role in params.roles.items() if role == "id"]


def _target_and_roles(params: LoadDataParams) -> tuple[str | None, dict[str, Role]]:
    """Those of the sample, where there is one, with the chosen ones over them; plain features are left out."""
    name = sample_name(params.source)
    own: Columns = () if name is None else sample_columns(name)
    target = params.target or next((column.name for column in own if column.role == "target"), None)
    given: dict[str, Role] = {column.name: column.role for column in own if column.role != "target"}
    given.update(params.roles)
    return target, {name: role for name, role in given.items() if role != "feature" and name != target}


def _check_columns(params: LoadDataParams, names: Iterable[str], target: str | None) -> None:
    """Every column that a setting names is there, and the target has no other role."""
    known = dict.fromkeys(names)
    if target is not None:
        require_column(target, known, field="target")
    for column in params.roles:
        require_column(column, known, field="roles")
    for column in params.types:
        require_column(column, known, field="types")
    if target in params.roles:
        raise BadInput(f"'{target}' is the target and cannot be {params.roles[target]} as well", field="roles")
    if params.types.get(target or "", "category") != "category":
        raise BadInput(f"'{target}' is the target, which is always a category; take it out of types", field="types")


def _with_kinds(data: pa.Table, params: LoadDataParams, target: str | None, roles: Mapping[str, Role]) -> pa.Table:
    import pyarrow as pa

    # An id that was read as it is written stays that: as a category, 1.0 and +1 would become 1.
    written = [name for name in _ids(params) if kind_of(data.schema.field(name).type) == "text"]
    kinds: dict[str, Kind] = {
        **dict.fromkeys(written, "text"),
        **params.types,
        **({target: "category"} if target else {}),
    }
    missing = frozenset(params.missing)
    columns, empty = {}, []
    for name in data.column_names:
        column = data.column(name)
        column = cast_column(column, kinds[name], name, missing) if name in kinds else infer_type(column, name, missing)
        if column.null_count == len(column) and name != target and roles.get(name) != "ignore":
            empty.append(name)
        else:
            columns[name] = column
    if empty and params.empty_columns == "error":
        raise BadInput(
            f"no value at all in {listed(empty)}; set 'Columns without values' to drop, or give the role ignore",
            field="empty_columns",
        )
    return pa.table(columns).combine_chunks()


def check(params: LoadDataParams, files: Files) -> Iterable[BadInput]:
    """What the run would stop at, as far as it can be seen in little time."""
    found = _look(params.model_dump_json(), files, _identity(params, files))
    if isinstance(found, BadInput):
        yield found


def file_columns(params: LoadDataParams, files: Files) -> Columns | None:
    """The columns of the source, for a form to choose from, before target, roles and types are chosen.

    A sample has its own target and roles. ``None`` if the source cannot be read, or is a file too large to look
    through. Columns without values are there if they are ignored; others are dropped or refused when it is read.
    """
    plain = params.model_copy(update={"target": None, "roles": {}, "types": {}, "empty_columns": "drop"})
    # An id is left as it is written, and what is ignored may be empty: only a look with these roles knows it.
    kept = {name: role for name, role in params.roles.items() if role in ("id", "ignore")}
    for roles in (kept, {}):
        found = _look(plain.model_copy(update={"roles": roles}).model_dump_json(), files, _identity(params, files))
        if not isinstance(found, BadInput):
            return found
    return None


@lru_cache(maxsize=64)
def _look(params_json: str, files: Files, identity: str) -> Columns | BadInput | None:
    """Return the columns or the problem; remembered as long as the file is the same, because forms ask often."""
    params = LoadDataParams.model_validate_json(params_json)
    try:
        if sample_name(params.source) is not None:
            return _sample_columns(params)
        columns = sandbox.call(
            sandbox.Call(
                "nodes.load_data:columns_of_file",
                params.source,
                {
                    "params_json": params_json,
                    "workspace": str(files.workspace),
                    "allow_absolute": files.allow_absolute,
                    "most_bytes": CHECKED_SIZE,
                },
                IMPORTS,
            )
        )
    except BadInput as problem:
        # A new one: the first holds on to everything its traceback does.
        return BadInput(problem.message, field=problem.field)
    return None if columns is None else tuple(Column(*column) for column in columns)


def columns_of_file(
    params_json: str, workspace: str, allow_absolute: bool, most_bytes: int
) -> list[tuple[str, Kind, Role]] | None:
    """Return the columns of the file that the settings name; ``None`` if it holds more than ``most_bytes``.

    Called in a child process, because the file may be damaged.
    """
    params, files = LoadDataParams.model_validate_json(params_json), Files(Path(workspace), allow_absolute)
    path = files.readable(params.source, field="source")
    if is_within(path, formats.format_of(path, params.format), most_bytes, params.max_columns):
        return [(column.name, column.kind, column.role) for column in load(params, files).columns]
    names = formats.names(path, params.format, params.dialect)
    if names is not None:
        formats.check_names(path, names, params.max_columns)
        _check_columns(params, names, params.target)
    return None


def _sample_columns(params: LoadDataParams) -> Columns:
    """Columns of a sample under these settings, known without reading it."""
    name = sample_name(params.source)
    assert name is not None
    return _under_settings(params, sample_columns(name))


def _under_settings(params: LoadDataParams, own: Columns) -> Columns:
    """The columns of the source as target, roles and types make them."""
    target, roles = _target_and_roles(params)
    _check_columns(params, [column.name for column in own], target)
    kinds: dict[str, Kind] = {**params.types, **({target: "category"} if target else {})}
    return tuple(
        Column(
            column.name,
            kinds.get(column.name, column.kind),
            "target" if column.name == target else roles.get(column.name, "feature"),
        )
        for column in own
    )


def columns(inputs: Mapping[str, Columns | None], params: LoadDataParams) -> Mapping[str, Columns | None]:
    """Known for samples, and for a file once it was looked at."""
    own = inputs.get(OUTSIDE)
    try:
        if sample_name(params.source) is not None:
            return {"table": _sample_columns(params)}
        return {"table": None if own is None else _under_settings(params, own)}
    except BadInput:
        return {"table": None}


def fingerprint(params: LoadDataParams, files: Files) -> str:
    """Which file it is and when it was last written, even if it was then given an older date; samples never change."""
    if sample_name(params.source) is not None:
        return "sample"
    path = files.readable(params.source, field="source").resolve()
    about = path.stat()
    return f"{path}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}:{about.st_ino}"


def _identity(params: LoadDataParams, files: Files) -> str:
    try:
        return fingerprint(params, files)
    except BadInput as problem:
        return problem.message


def python(params: LoadDataParams, names: Names) -> Code:
    """How the node reads in a script."""
    others = settings(params, leave=["source"])
    lines = statement(names.outputs["table"], "steps.load", params.source, **others)
    return Code(lines, ["from nodes import steps"])


NODE = NodeType(
    name="load-data",
    title="Load data",
    category="Data",
    summary="Reads a table from a file or a built-in sample, and says which column is the target.",
    version=1,
    params=LoadDataParams,
    run=run,
    python=python,
    outputs=(Port("table", "table", "Table"),),
    columns=columns,
    source=file_columns,
    check=check,
    fingerprint=fingerprint,
    imports=IMPORTS,
)
