"""A row gets the same probabilities, bit by bit, alone, in any batch, from a file and over REST."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.values import Table
from nodes.models.model import FittedModel, load_model
from nodes.models.scoring import score_file
from tests.expect import assert_same_bits
from ui.rest.service import Service

from .conftest import MODELS, make_context

CASES = [(kind, classes) for kind in MODELS for classes in (2, 9)]
NAMED = [f"{kind}, {classes} classes" for kind, classes in CASES]


def make_rows(classes: int, rows: int, seed: int) -> Table:
    """Numbers with gaps, narrow numbers, categories and bools."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    columns = {f"n{i}": pa.array(y * rng.random() + rng.normal(size=rows)) for i in range(17)}
    columns["gaps"] = pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.2)
    columns["narrow"] = pa.array((y + rng.normal(size=rows)).astype(np.float32))
    levels = np.where(rng.random(rows) < 0.5, y, rng.integers(0, classes, rows))
    columns["level"] = pa.array([f"l{code}" for code in levels], mask=rng.random(rows) < 0.1)
    columns["flag"] = pa.array(rng.random(rows) < 0.4)
    columns["class"] = pa.array([f"c{code}" for code in y])
    return Table(pa.table(columns), "class")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], FittedModel]:
    context = make_context(tmp_path_factory.mktemp("models"))
    fitted = {}
    for kind, classes in CASES:
        node, params = MODELS[kind]
        outputs = node.run(context, {"table": make_rows(classes, 270, 0)}, node.params(**params))
        fitted[kind, classes] = outputs["model"]
    return fitted


@pytest.fixture(params=CASES, ids=NAMED)
def model(
    request: pytest.FixtureRequest, models: dict[tuple[str, int], FittedModel]
) -> FittedModel:
    return models[request.param]


def asked_of(model: FittedModel, rows: int = 61) -> Table:
    return make_rows(len(model.classes), rows, 1)


def layouts(matrix: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "by column", np.asfortranarray(matrix)
    yield "every second row", np.repeat(matrix, 2, axis=0)[::2]
    yield "some of the columns", np.hstack([matrix, matrix])[:, : matrix.shape[1]]


def test_rows_alone_in_blocks_and_together(model: FittedModel) -> None:
    matrix = model.encoder.transform(asked_of(model).data, model.precision)
    whole = model.predict_matrix(matrix)
    for rows in (1, 2, 3, 7, 8, 17, 60):
        blocks = [matrix[start : start + rows] for start in range(0, len(matrix), rows)]
        said = [model.predict_matrix(block) for block in blocks]
        assert_same_bits(np.concatenate(said), whole, f"{rows} rows at once")
    for layout, same in layouts(matrix):
        assert_same_bits(model.predict_matrix(same), whole, layout)
    assert_same_bits(model.predict_matrix(matrix, threads=2), whole, "two threads")


def test_tables_of_one_row_and_of_many(model: FittedModel) -> None:
    table = asked_of(model)
    each = [model.predict_proba(table.with_data(table.data.slice(row, 1))) for row in range(61)]
    assert_same_bits(np.concatenate(each), model.predict_proba(table))


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_a_file_in_blocks_of_any_size(
    model: FittedModel, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = asked_of(model)
    wanted = model.predict_proba(table)
    pq.write_table(table.data, tmp_path / "in.parquet")
    monkeypatch.setattr("nodes.models.model.ROWS_AT_ONCE", rows)
    score_file(model, tmp_path / "in.parquet", tmp_path / "out.parquet", threads=2)
    out = pq.read_table(tmp_path / "out.parquet")
    assert_same_bits(np.column_stack([out.column(f"p({name})") for name in model.classes]), wanted)


def test_requests_alone_and_together(model: FittedModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    table = asked_of(model)
    rows = table.data.drop_columns(["class"]).to_pylist()
    service = Service(
        "m", load_model(tmp_path)
    )  # a model of its own: the service replaces the boosters
    for rows_each, requests_each in ((1, 1), (1, 5), (1, 61), (3, 1), (3, 9), (61, 1)):
        bodies = [
            json.dumps({"rows": rows[start : start + rows_each]}).encode()
            for start in range(0, len(rows), rows_each)
        ]
        got = []
        for start in range(0, len(bodies), requests_each):
            for answer in service.answers(bodies[start : start + requests_each]):
                assert isinstance(answer, bytes), answer
                got += [
                    list(each["probabilities"].values())
                    for each in json.loads(answer)["predictions"]
                ]
        assert_same_bits(
            np.array(got), model.predict_proba(table), f"{rows_each} rows, {requests_each} requests"
        )


# --- another processor ---

OTHER_PROCESSOR = """
import sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from engine.values import Table
from nodes.models.model import load_model
for folder in map(Path, sys.argv[1:]):
    table = Table(pq.read_table(folder / "asked.parquet"), "class")
    np.save(folder / "said.npy", load_model(folder / "model").predict_proba(table))
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="only x86 processors can be told to forget what they can do",
)
@pytest.mark.slow
def test_an_older_processor_says_the_same(
    models: dict[tuple[str, int], FittedModel], tmp_path: Path
) -> None:
    """BLAS, numpy, the kernels and the C library use nothing newer than SSE."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    folders = {case: tmp_path / f"{number}" for number, case in enumerate(models)}
    for case, folder in folders.items():
        (folder / "model").mkdir(parents=True)
        models[case].save(folder / "model")
        pq.write_table(asked_of(models[case]).data, folder / "asked.parquet")
    older = {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": " ".join(
            name for name in __cpu_dispatch__ if __cpu_features__.get(name)
        ),
        "NUMBA_CPU_NAME": "generic",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
    }
    command = [sys.executable, "-c", OTHER_PROCESSOR, *map(str, folders.values())]
    subprocess.run(command, env=os.environ | older, check=True)
    for case, folder in folders.items():
        here = models[case].predict_proba(asked_of(models[case]))
        assert_same_bits(np.load(folder / "said.npy"), here, str(case))
