"""A table with every kind of column, a model trained on it, and a workspace with the model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.values import Table
from nodes import logistic_regression, mart
from nodes.models.model import FittedModel, load_model
from tests.nodes.conftest import make_context
from ui.cli import main

ROOT = Path(__file__).parents[3]
COLOURS = ["red", "green", "blue"]
DECIDING = ["amount", "count", "steady", "member", "when", "colour", "grade"]
"""The columns that are features, in their order."""


def make_table(rows: int = 600, seed: int = 0) -> Table:
    """Numbers with and without gaps, integers, bools, times, two kinds of categories, an id."""
    rng = np.random.default_rng(seed)
    amount = rng.lognormal(3, 1, rows).round(2)
    count = rng.integers(0, 9, rows)
    colour = rng.integers(0, 3, rows)
    member = rng.random(rows) < 0.4
    score = np.log(amount) + count / 3 + (colour == 1) + member + rng.normal(0, 0.4, rows)
    columns = {
        "id": pa.array([f"p{i:05}" for i in range(rows)]),
        "amount": pa.array(amount, mask=rng.random(rows) < 0.1),
        "count": pa.array(count, pa.int32()),
        "steady": pa.array(rng.normal(size=rows)),
        "member": pa.array(member),
        "when": pa.array(1_700_000_000_000_000 + rng.integers(0, 10**13, rows), pa.timestamp("us")),
        "colour": pa.DictionaryArray.from_arrays(
            pa.array(colour, mask=rng.random(rows) < 0.05), COLOURS
        ),
        "grade": pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 4, rows)), ["1", "2", "3", "10"]
        ),
        "class": pa.array(np.where(score > 5, "yes", "no")).dictionary_encode(),
    }
    return Table(pa.table(columns), "class", {"id": "id"})


@pytest.fixture(scope="session")
def table() -> Table:
    return make_table()


@dataclass(frozen=True)
class Kept:
    """Models in a workspace of their own."""

    workspace: Path

    def folder(self, name: str) -> Path:
        return self.workspace / "models" / name

    def open(self, name: str) -> FittedModel:
        return load_model(self.folder(name))


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, table: Table) -> Kept:
    """``mart`` and ``linear``, both trained on ``table``."""
    workspace = tmp_path_factory.mktemp("deploy")
    context = make_context(workspace)
    settings: dict[str, tuple[Any, dict[str, Any]]] = {
        "mart": (mart.NODE, {"trees": 12}),
        "linear": (logistic_regression.NODE, {}),
    }
    for name, (node_type, params) in settings.items():
        folder = workspace / "models" / name
        folder.mkdir(parents=True)
        node_type.run(context, {"table": table}, node_type.params(**params))["model"].save(folder)
    return Kept(workspace)


@pytest.fixture(scope="session")
def model(kept: Kept) -> FittedModel:
    return kept.open("mart")


@dataclass(frozen=True)
class Printed:
    """What a command printed before it ended."""

    stdout: str
    stderr: str


def command(*arguments: object, before: str = "") -> list[str]:
    """``before`` is Python that comes first."""
    return [
        sys.executable,
        "-c",
        f"{before}\nfrom ui.cli import main; main()",
        *map(str, arguments),
    ]


def environment(workspace: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name != "SYLVA_TOKEN"}
    return clean | {"SYLVA_WORKSPACE": str(workspace)} | more


@contextmanager
def started(
    *arguments: object, workspace: Path, before: str = "", **more: str
) -> Iterator[subprocess.Popen[str]]:
    """A command at work; it is killed at the end if it has not ended by itself."""
    process = subprocess.Popen(
        command(*arguments, before=before),
        cwd=ROOT,
        env=environment(workspace, **more),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def sylva(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Printed]:
    """Run a command in this process."""
    monkeypatch.setenv("SYLVA_WORKSPACE", str(kept.workspace))
    monkeypatch.delenv("SYLVA_TOKEN", raising=False)

    def run(*arguments: object, code: int = 0) -> Printed:
        monkeypatch.setattr(sys, "argv", ["sylva", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = Printed(*capsys.readouterr())
        assert (ended.value.code or 0) == code, printed
        return printed

    return run
