"""Explain single rows of a stored model on a page, in the background.

A model is loaded once and an explanation computed once; both stay in memory for a while. A page
waits for them, and shows what is being done if that takes more than a second.

- ``explanation``         why a row gets its prediction, perhaps with other values in some columns
- ``loaded_columns``      the columns of a model, as a form needs them
- ``draw_contributions``  the contributions to the probability of a class, in words and as a plot
- ``explained_class``     the class that is explained; the user chooses if there are several
- ``value_texts``         the values of a row as short texts
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from engine.errors import BadInput, SylvaError
from engine.store import Artifact, Store
from engine.text import readable
from ui.studio import plots
from ui.studio.screen_text import plain
from ui.studio.widgets import as_csv, chart, check_intact, download

if TYPE_CHECKING:
    import pyarrow as pa

    from nodes.models.encoder import EncodedColumn
    from nodes.models.explanations import RowExplanation
    from nodes.models.model import FittedModel

MODELS, EXPLANATIONS = 2, 256
"""How many are kept in memory."""
PATIENCE = 1.0
"""Seconds after which the progress is shown."""
LOOK_SECONDS = 0.2
LONGEST_VALUE = 60
BASE = "base value"
OF_CLASSES = (
    "Blue: the value of the column makes the class more probable than the base value. Orange: less "
    "probable. All bars and the base value together are the probability."
)
OF_NUMBERS = (
    "Blue: the value of the column makes the prediction higher than the base value. Orange: lower. "
    "All bars and the base value together are the predicted value."
)
GONE = "The model of this run is not stored any more. Run the pipeline again to explain its rows."


class StoredRow(NamedTuple):
    """A row of a stored table or inspection, and the stored model that predicted it."""

    model: Artifact
    name: str
    """Distinguishes the row from all others."""
    values: pa.Table
    """All columns of this one row."""


class _Job:
    """A computation in the background, and what it does now."""

    def __init__(self) -> None:
        self.fraction, self.text = 0.0, "Loading the model…"
        self.future: Future[Any] = Future()

    def progress(self, fraction: float, text: str) -> None:
        """Remember what is being done; called by the thread that computes."""
        self.fraction, self.text = fraction, text

    def wait(self) -> Any:
        """Return the result; draw the progress meanwhile if it takes long.

        The computation continues if Streamlit ends the drawing before.
        """
        bar, patience = None, PATIENCE
        while True:
            try:
                result = self.future.result(patience)
                break
            except TimeoutError:
                # The computation itself may have ended with such an error.
                if self.future.done():
                    raise
                bar = bar or st.empty()
                bar.progress(self.fraction, self.text)
                patience = LOOK_SECONDS
        if bar is not None:
            bar.empty()
        return result


class _Memory:
    """Remember the newest results of computations, for all browser tabs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[Hashable, _Job] = OrderedDict()
        self._models: OrderedDict[str, FittedModel] = OrderedDict()
        self._loading = threading.Lock()
        self._pool = ThreadPoolExecutor(2, "explain")

    def job(self, key: Hashable, compute: Callable[[_Job], Any]) -> _Job:
        """Return the job of this name; start it if it does not exist or has failed."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or (job.future.done() and job.future.exception()):
                job = self._jobs[key] = _Job()
                job.future = self._pool.submit(compute, job)
            self._jobs.move_to_end(key)
            while len(self._jobs) > EXPLANATIONS:
                self._jobs.popitem(last=False)
            return job

    def model(self, output: Artifact, store: Store) -> FittedModel:
        """Return a stored model; raise ``BadInput`` if it cannot be read."""
        from nodes.models.model import load_model

        # One at a time: two rows of the same model must not load it twice.
        with self._loading:
            if output.digest not in self._models:
                while len(self._models) >= MODELS:
                    self._models.popitem(last=False)
                folder = store.workspace.objects / output.digest
                self._models[output.digest] = load_model(folder)
            self._models.move_to_end(output.digest)
            return self._models[output.digest]


@st.cache_resource(show_spinner=False)
def _memory() -> _Memory:
    """Return the memory of this server."""
    return _Memory()


def explanation(
    row: StoredRow, store: Store, changes: Mapping[str, Any] | None = None
) -> RowExplanation:
    """Return why a row gets its prediction, with other values in some columns.

    Raise ``BadInput`` if the model is gone, or if the row or a value does not fit it.
    """
    from nodes.models.explanations import explain_row

    _check_stored(row.model, store)
    memory = _memory()

    def compute(job: _Job) -> RowExplanation:
        """Load the model and explain the row."""
        model = memory.model(row.model, store)
        return explain_row(model, row.values, changes, job.progress)

    key = (row.model.digest, row.name, json.dumps(changes or {}, sort_keys=True))
    found: RowExplanation = memory.job(key, compute).wait()
    return found


def loaded_columns(output: Artifact, store: Store) -> Sequence[EncodedColumn]:
    """Return the columns of a stored model, as its encoder has them."""
    _check_stored(output, store)
    memory = _memory()

    def compute(job: _Job) -> Sequence[EncodedColumn]:
        """Return the columns alone: the model itself is not kept as long."""
        return memory.model(output, store).encoder.columns

    columns: Sequence[EncodedColumn] = memory.job(output.digest, compute).wait()
    return columns


def _check_stored(output: Artifact, store: Store) -> None:
    """Raise ``BadInput`` if a model was removed from the store or is damaged."""
    try:
        check_intact(output, store)
    except SylvaError as error:
        raise BadInput(GONE) from error


# On the page


def explained_class(found: RowExplanation, key: str) -> int:
    """Return the number of the class that is explained.

    Of two classes it is the positive one, as in scored files; of more the user chooses, at first
    the predicted one. A predicted number is the only one.
    """
    if not found.classes:
        return 0
    if len(found.classes) == 2:
        return found.positive
    codes = list(range(len(found.classes)))
    chosen: int = st.selectbox(
        "Explained class",
        codes,
        index=int(found.probabilities.argmax()),
        format_func=lambda code: (
            f"{readable(found.classes[code])} · {found.probabilities[code]:.1%}"
        ),
        key=key,
        width=300,
    )
    return chosen


def draw_contributions(
    found: RowExplanation,
    values: Mapping[str, str],
    code: int,
    key: str,
    before: RowExplanation | None = None,
) -> None:
    """Draw the contributions of the columns to the probability of a class, or to a number.

    ``values`` are those of the row as texts. ``before`` is the explanation of the row before its
    values were changed.
    """
    st.markdown(plain(probability_words(found, code)))
    if found.reason:
        st.info(plain(readable(f"{found.reason[:1].upper()}{found.reason[1:]}")))
        return
    parts = contributions_of(found, values, code, before)
    chart(plots.contributions(parts, found.classes[code] if found.classes else None), f"{key}-bars")
    st.caption(OF_CLASSES if found.classes else OF_NUMBERS)
    rows = [
        {"column": part.column, "value": part.value, "contribution": part.amount} for part in parts
    ]
    text = as_csv([{"column": BASE, "contribution": float(found.base[code])}, *rows])
    download("Contributions as CSV", text, "contributions.csv", "text/csv", f"{key}-csv")


def contributions_of(
    found: RowExplanation,
    values: Mapping[str, str],
    code: int,
    before: RowExplanation | None = None,
) -> list[plots.Contribution]:
    """Return the contribution of each column to the probability of a class, the largest first."""
    parts = []
    for index, column in enumerate(found.columns):
        earlier = None
        if before is not None:
            earlier = float(before.contributions[index, code])
        amount = float(found.contributions[index, code])
        parts.append(plots.Contribution(column, values.get(column, ""), amount, earlier))
    return sorted(parts, key=lambda part: -abs(part.amount))


def probability_words(found: RowExplanation, code: int) -> str:
    """Return the probability of a class, and how the contributions lead to it, as sentences.

    Of a model of numbers, it is the predicted value.
    """
    value = float(found.probabilities[code])
    if found.classes:
        name = readable(found.classes[code])
        predicted = f"The probability of {name} is {value:.1%}."
        more_words, less_words = f"speak for {name} add", "against it take away"
    else:
        predicted = f"The predicted value is {value:.6g}."
        more_words, less_words = "raise it add", "that lower it take away"
    if found.reason:
        return predicted
    base, own = float(found.base[code]), found.contributions[:, code]
    more, less = float(own[own > 0].sum()), float(own[own < 0].sum())
    # The smaller ones decide, so that all of them can be read.
    digits = plots.decimals_for([min(abs(base + more + less), max(more, -less))])
    return (
        f"{predicted} The base value, before any column is read, is {base:.{digits}f}. Columns "
        f"that {more_words} {more:.{digits}f}, columns {less_words} "
        f"{-less:.{digits}f}: {base:.{digits}f} + {more:.{digits}f} − {-less:.{digits}f} = "
        f"{base + more + less:.{digits}f}."
    )


def value_texts(row: pa.Table) -> dict[str, str]:
    """Return the values of one row as short texts, by column."""
    return {name: value_text(value) for name, value in row.to_pylist()[0].items()}


def value_text(value: Any) -> str:
    """Return a value as a short text."""
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value).lower() if isinstance(value, bool) else readable(str(value))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
