"""Find what in the data may spoil a model, or make its figures better than they are.

- ``table_hints``     about one table: numbers stored as text, decimal commas, ids as features, rows
                      that are copies of others, a column that gives the target away
- ``pipeline_hints``  about the tables of a pipeline and what it does with them: also rows of the
                      future in the training rows, a time as a feature, too few test rows of a
                      class, and test rows that choose a model

A hint never stops a run. It is computed from the preview of the table, which has a limited size,
and remembered for as long as the table stays the same.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.bypass import active_pipeline
from engine.errors import BadInput, DataHint, InvalidPipeline
from engine.graph import PipelineGraph
from engine.node_types import Columns, NodeTypes
from engine.pipeline import Pipeline
from engine.text import counted, listed
from engine.validation import columns_at, params_of
from engine.values import Table, kind_of
from engine.workspace import Files
from nodes.data.columns import task_of
from nodes.data.tables import Preview, count_classes, preview, source_version
from nodes.models.ranking import ranking_hints

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from nodes.load_data import LoadDataParams

MIN_SHARE = 0.95
"""From this share of numbers on, a column of texts is meant as numbers."""
MIN_ROWS = 50
"""A table with fewer rows says too little about its columns."""
MOST_ROWS_OF_GROUP, FEWEST_GROUPS = 10, 200
"""With at most so many rows for each of at least so many values, a column names customers or the
like."""
LEAK_AUC = 0.99
LEAK_ROWS = 20_000
LEAK_VALUES = 4_000_000
"""Rows, and values of all columns, that are looked at for a column that gives the target away."""
LEAK_BINS = 64
LEAK_CLASSES = 20
MIN_CLASS_ROWS = 10
"""Rows of a class below which a figure of that class is mostly chance."""
REMEMBERED = 64

NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
DECIMAL_COMMA = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+\s*$"
THOUSANDS = r"^\s*[+-]?\d{1,3}(,\d{3})+\s*$"
CODE = r"^\s*0\d"
"""A number with a leading zero is a code, such as a postal code."""
ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|number|no|nr|index|row)$|[a-z]I[dD]$", re.I)
BIRTH = re.compile("birth|born", re.I)


# One table

_known: OrderedDict[tuple[str, str], list[BadInput]] = OrderedDict()
_lock = threading.Lock()


def table_hints(params: LoadDataParams, files: Files) -> list[BadInput]:
    """Return the hints about a table, each with the setting of *Load data* that it is about.

    Return nothing if the table cannot be read: that is a problem, and shown as one.
    """
    try:
        key = source_version(params, files), params.model_dump_json()
        with _lock:
            if key in _known:
                _known.move_to_end(key)
                return _known[key]
        seen = preview(params, files)
        found = list(_hints(seen, seen.table(params), params))
    except BadInput:
        return []
    with _lock:
        _known[key] = found
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return found


def _hints(seen: Preview, table: Table, params: LoadDataParams) -> Iterator[BadInput]:
    """Yield the hints about a table that was read."""
    rows = table.data.num_rows
    if len(seen.sheets) > 1 and not params.sheet:
        yield BadInput(
            f"the file has {len(seen.sheets)} sheets ({listed(list(seen.sheets))}), and the first "
            "one with values is read; choose the sheet",
            field="sheet",
        )
    if rows < MIN_ROWS:
        return
    features = [name for name in table.features if name not in params.types]
    numbers = set()
    for name in features:
        column = table.data.column(name)
        if kind_of(column.type) in ("category", "text"):
            for hint in _numbers_as_text(name, column):
                numbers.add(name)
                yield hint
    ids = [name for name in table.features if _is_id(name, table.data.column(name))]
    for name in ids:
        yield BadInput(
            f"the column '{name}' has another value in each row, like an ID; a model would learn "
            "rows by heart; give it the role ID, or ignore it",
            field="roles",
        )
    others = [name for name in table.features if name not in numbers]
    groups = [name for name in others if _is_group(name, table.data.column(name))]
    for name in groups:
        values = len(table.data.column(name).unique())
        yield BadInput(
            f"the column '{name}' has {values:,} values in {rows:,} rows, like the ID of a "
            "customer or a device; a model would learn each of them by heart; give it the role "
            "group, so that its rows stay together in Split, or ignore it",
            field="roles",
        )
    yield from _copies(table.data)
    known = {*ids, *groups}
    yield from _leaks(table, [name for name in table.features if name not in known])


def _numbers_as_text(name: str, column: pa.ChunkedArray) -> Iterator[BadInput]:
    """Yield a hint if nearly all texts of a column are numbers."""
    import pyarrow.compute as pc

    texts, counts = _distinct_texts(column)
    total = sum(counts)
    if not total:
        return
    if _share(texts, counts, DECIMAL_COMMA) >= MIN_SHARE:
        # 1,234 alone may also be a whole number with a comma between thousands.
        are_thousands = _all_match(texts, THOUSANDS)
        what = "commas between thousands" if are_thousands else "decimal commas"
        yield BadInput(
            f"the column '{name}' has numbers with {what}, such as {_example(texts)}, so it is "
            "read as text; write the numbers with a decimal point, without other commas, or "
            f"replace it in Derive column by {_as_number(name, are_thousands)}",
            field="source",
        )
        return
    share = _share(texts, counts, NUMBER)
    if share < MIN_SHARE or _share(texts, counts, CODE) > 0:
        return
    if share == 1:
        yield BadInput(
            f"the column '{name}' has numbers that are stored as text; set its type to number, "
            "unless they are codes",
            field="types",
        )
        return
    is_number = pc.match_substring_regex(texts, NUMBER)
    others = texts.filter(pc.invert(is_number)).to_pylist()
    numbers = round(share * total)
    yield BadInput(
        f"{numbers:,} of {total:,} values of the column '{name}' are numbers, but others, such as "
        f"{listed(others[:3])}, make it text; add them to Missing texts in Load data, or correct "
        "them",
        field="missing",
    )


def _as_number(name: str, are_thousands: bool) -> str:
    """Return the expression that reads texts with commas as numbers."""
    column = '"{}"'.format(name.replace('"', '""'))
    if are_thousands:
        return f"replace({column}, ',', '')::double"
    return f"replace(replace({column}, '.', ''), ',', '.')::double"


def _distinct_texts(column: pa.ChunkedArray) -> tuple[Any, list[int]]:
    """Return the different texts of a column, and how many rows have each."""
    import pyarrow as pa

    encoded = column.drop_null()
    if pa.types.is_dictionary(encoded.type):
        encoded = encoded.cast(pa.string())
    counted_values = encoded.value_counts()
    return counted_values.field("values"), counted_values.field("counts").to_pylist()


def _share(texts: Any, counts: list[int], pattern: str) -> float:
    """Return the share of rows whose text matches the pattern."""
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(texts, pattern).to_pylist()
    matching = sum(count for count, match in zip(counts, matches, strict=True) if match)
    return matching / sum(counts)


def _all_match(texts: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _example(texts: Any) -> str:
    return f"'{texts[0].as_py()}'"


def _is_id(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether each row has another value, and the column is not a measurement."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = kind_of(column.type)
    is_whole = pa.types.is_integer(column.type)
    # Models leave out texts that do not repeat, so these do no harm.
    if column.null_count or not (is_whole or kind == "category"):
        return False
    if len(column.unique()) < len(column):
        return False
    if kind != "number" or ID_NAME.search(name):
        return True
    extremes = pc.min_max(column).as_py()
    # All numbers of a range, each once: rows that were counted.
    return bool(extremes["max"] - extremes["min"] == len(column) - 1)


def _is_group(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether a column names things that have a few rows each, such as customers."""
    import pyarrow as pa

    kind = kind_of(column.type)
    is_number = pa.types.is_integer(column.type) and ID_NAME.search(name) is not None
    if not (kind == "category" or is_number):
        return False
    values = len(column.drop_null().unique())
    rows = len(column) - column.null_count
    return values >= FEWEST_GROUPS and values < rows <= MOST_ROWS_OF_GROUP * values


def _copies(data: pa.Table) -> Iterator[BadInput]:
    """Yield a hint if rows are copies of others.

    Rows of a few numbers may be equal by chance. So a column must show that they are copies: each
    different row has another value there, such as an ID.
    """
    rows = data.num_rows
    values = [len(column.unique()) for column in data.columns]
    if not any(rows / 2 < each < rows for each in values):
        return
    different = data.group_by(data.column_names, use_threads=False).aggregate([]).num_rows
    if different < rows and different in values:
        yield BadInput(
            f"{counted(rows - different, 'row')} of {rows:,} repeat another row in all columns; "
            "if one of them is a training row and the other a test row, figures are too good; "
            "remove them in an SQL node with SELECT DISTINCT * FROM a",
            field="source",
        )


# A column that gives the target away


def _leaks(table: Table, features: list[str]) -> Iterator[BadInput]:
    """Yield a hint for each column that alone separates the classes.

    The rate of each class by value is counted in one half of the rows, and the AUC of this rate
    measured in the other half.
    """
    import numpy as np

    if task_of(table.columns) != "classification" or not features:
        return
    rows = table.data.num_rows
    # A part of the rows, evenly spread: the first ones may be of one class.
    most = min(LEAK_ROWS, LEAK_VALUES // len(features))
    picked = np.unique(np.linspace(0, rows - 1, min(rows, max(most, MIN_ROWS))).astype(np.int64))
    labels = table.labels().combine_chunks().take(_indices(picked)).indices
    classes = labels.fill_null(-1).to_numpy(zero_copy_only=False)
    if not 2 <= len(np.unique(classes[classes >= 0])) <= LEAK_CLASSES:
        return
    for name in features:
        column = table.data.column(name).combine_chunks().take(_indices(picked))
        auc = _worst_auc(_bins(column), classes)
        if auc is not None and auc > LEAK_AUC:
            yield BadInput(
                f"the column '{name}' alone gives the target away (AUC {auc:.3f}); check whether "
                "its value is known before the target is, and ignore it if not",
                field="roles",
            )


def _indices(rows: np.ndarray) -> pa.Array:
    import pyarrow as pa

    return pa.array(rows)


def _bins(column: Any) -> np.ndarray:
    """Return a small number for each value: of a range of numbers, or of a category.

    Missing values have a number of their own.
    """
    import numpy as np
    import pyarrow as pa

    kind = kind_of(column.type)
    if kind in ("category", "text"):
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes: np.ndarray = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64) + 1
    if kind == "time":
        column = column.cast(pa.int64())
    values = column.cast(pa.float64(), safe=False).fill_null(np.nan)
    numbers = values.to_numpy(zero_copy_only=False)
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return np.zeros(len(numbers), dtype=np.int64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, LEAK_BINS + 1)[1:-1], method="nearest"))
    binned: np.ndarray = np.searchsorted(edges, numbers, side="right") + 1
    binned[~np.isfinite(numbers)] = 0
    return binned


def _worst_auc(bins: np.ndarray, classes: np.ndarray) -> float | None:
    """Return the AUC of the class that the column tells worst; None if rows are too few."""
    import numpy as np

    known = classes >= 0
    bins, classes = bins[known], classes[known]
    # Alternating in each class, so that both halves have rows of it.
    order = np.argsort(classes, kind="stable")
    is_first = np.zeros(len(classes), dtype=bool)
    is_first[order[::2]] = True
    size = int(bins.max()) + 1
    worst = None
    for each in np.unique(classes):
        of_class = classes == each
        if min(np.count_nonzero(of_class), np.count_nonzero(~of_class)) < 2 * MIN_CLASS_ROWS:
            return None
        seen = np.bincount(bins[is_first], minlength=size)
        hits = np.bincount(bins[is_first & of_class], minlength=size)
        # A value that the first half lacks says nothing: it has the rate of all rows.
        overall = of_class.mean()
        rates = (hits + overall) / (seen + 1)
        auc = _auc(rates[bins[~is_first]], of_class[~is_first])
        worst = auc if worst is None else min(worst, auc)
        if worst <= LEAK_AUC:
            return worst
    return worst


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the share of pairs of a positive and another row that the score orders correctly."""
    import numpy as np

    values, places = np.unique(scores, return_inverse=True)
    hits = np.bincount(places[positive], minlength=len(values)).astype(float)
    others = np.bincount(places[~positive], minlength=len(values)).astype(float)
    below = np.cumsum(others) - others
    return float((hits * (below + others / 2)).sum() / (hits.sum() * others.sum()))


# A whole pipeline


def pipeline_hints(pipeline: Pipeline, catalog: NodeTypes, files: Files) -> list[DataHint]:
    """Return the hints about the tables of a pipeline, and about what it does with them.

    Nodes with problems have none.
    """
    pipeline = active_pipeline(pipeline, catalog)
    loads = _nodes_of(pipeline, catalog, "load-data")
    hints: list[DataHint] = []
    for name, params in loads.items():
        hints += [
            DataHint(hint.message, node=name, field=hint.field)
            for hint in table_hints(params, files)
        ]
    splits = _nodes_of(pipeline, catalog, "split")
    if splits:
        known = columns_at(pipeline, catalog, files)
        for name, params in splits.items():
            hints += _time_hints(name, params, _input_columns(pipeline, known, name))
            hints += _class_hints(pipeline, name, params, loads, files)
    hints += ranking_hints(pipeline, catalog)
    return hints


def _nodes_of(pipeline: Pipeline, catalog: NodeTypes, node_type: str) -> dict[str, Any]:
    """Return the parameters of all nodes of a type, without those that have problems."""
    found = {}
    for name, node in pipeline.nodes.items():
        if node.type == node_type and node.sweep is None:
            try:
                found[name] = params_of(pipeline, catalog, name)
            except InvalidPipeline:
                continue
    return found


def _input_columns(pipeline: Pipeline, known: Mapping[str, Any], name: str) -> Columns:
    """Return the columns that arrive at a node, as far as they are known."""
    for edge in pipeline.edges:
        if edge.target.node == name:
            return known.get(edge.source.node, {}).get(edge.source.port) or ()
    return ()


def _time_hints(name: str, params: Any, columns: Columns) -> Iterator[DataHint]:
    """Yield a hint for a random split of a table whose rows have a time.

    A split that keeps the rows of a group together was chosen, so it gets none.
    """
    grouped = params.group_column is not None or any(each.role == "group" for each in columns)
    if params.time_column is not None:
        yield from _time_as_feature(name, params.time_column, columns)
    if params.time_column is not None or grouped:
        return
    times = [column.name for column in columns if column.role == "time"] or [
        column.name
        for column in columns
        if column.kind == "time" and column.role == "feature" and not BIRTH.search(column.name)
    ]
    if times:
        yield DataHint(
            f"the rows have a time ('{times[0]}'), but test rows are drawn at random: the model "
            "learns from rows that are later than its test rows, and its figures are too good; "
            f"set Time column to '{times[0]}'",
            node=name,
            field="time_column",
        )


def _time_as_feature(name: str, time: str, columns: Columns) -> Iterator[DataHint]:
    """Yield a hint if the column that a split is ordered by is also a feature."""
    if any(column.name == time and column.role == "feature" for column in columns):
        yield DataHint(
            f"the column '{time}' is also a feature: test rows, and all rows in use, are later "
            "than any time that the model knows; give it the role time in Load data",
            node=name,
            field="time_column",
        )


def _class_hints(
    pipeline: Pipeline, name: str, params: Any, loads: Mapping[str, Any], files: Files
) -> Iterator[DataHint]:
    """Yield a hint if the test rows will have too few rows of a class for its figures."""
    graph = PipelineGraph(pipeline)
    above = [each for each in graph.upstream([name]) if each in loads]
    below = graph.downstream([name])
    evaluates = any(pipeline.nodes[each].type == "evaluate" for each in below)
    if len(above) != 1 or not evaluates:
        return
    counts = _class_counts(loads[above[0]], files)
    rows = sum(count for _, count in counts)
    if not rows:
        return
    share = params.test_share if params.test_rows is None else min(params.test_rows / rows, 1.0)
    label, count = min(counts, key=lambda each: each[1])
    expected = count * share
    if expected < MIN_CLASS_ROWS:
        yield DataHint(
            f"the class '{label}' has {counted(count, 'row')}, and about {expected:.0f} of them "
            "will be test rows: figures such as recall then change by chance; collect more rows "
            "of this class, or hold out more test rows",
            node=name,
            field="test_share",
        )


def _class_counts(params: LoadDataParams, files: Files) -> Iterable[tuple[str, int]]:
    """Return the classes of a table and their rows; nothing if they are not known."""
    try:
        seen = preview(params, files)
        table = seen.table(params)
    except BadInput:
        return []
    if task_of(table.columns) != "classification" or not seen.complete:
        return []
    return count_classes(table)
