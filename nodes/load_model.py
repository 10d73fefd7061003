"""Load a saved model of the workspace into a pipeline, to use it on new data.

The model is copied into the results of the run, so a later replacement does not change them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from engine.atomic import read_lock
from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.workspace import Files, Workspace
from nodes.models.model import CARD, FILE, describe_model, is_regular_file, load_model, model_files
from nodes.models.registry import Registry
from nodes.models.versions import REFERENCE


class LoadModelParams(NodeParams):
    """Choose the model by its name, or a version of it."""

    name: str = Field(
        pattern=REFERENCE,
        title="Model",
        description="Name of a saved model of the workspace, for the version in use. A number "
        "names another version, such as fraud@2.",
        json_schema_extra=form_hint(choose="model"),
    )


@dataclass(frozen=True)
class SavedModel:
    """Copy a model without its card, so that the same model gives the same output."""

    path: Path
    reading: Callable[[str, str], AbstractContextManager[None]]
    """Reports which model is read, in case that crashes the process."""

    def save(self, folder: Path) -> None:
        """Copy the model while no one can replace it, and load the copy as a check.

        Raise ``BadInput`` that names the model if it is damaged.
        """
        try:
            with read_lock(self.path):
                for file in model_files(self.path):
                    # The card differs from save to save, and is not part of the model.
                    if file.name != CARD:
                        shutil.copy2(file, folder / file.name)
            # A damaged model may crash the process. The report then names the model.
            with self.reading(self.path.name, "name"):
                load_model(folder)
        except BadInput as problem:
            # Users know the model's name, not that of the temporary folder.
            message = re.sub(f"^'{re.escape(folder.name)}'", f"'{self.path.name}'", problem.message)
            raise BadInput(message, field="name") from problem


def run(ctx: NodeContext, inputs: dict[str, Any], params: LoadModelParams) -> dict[str, Any]:
    """Return the model as it is in the workspace."""
    folder = _folder(params, ctx.files)
    data = describe_model(folder)
    ctx.log(f"'{params.name}': {data['title']}, trained on {data['train_rows']:,} rows.")
    return {"model": SavedModel(folder, ctx.reading)}


def check(params: LoadModelParams, files: Files) -> Iterable[BadInput]:
    """Yield a problem if the model does not exist or cannot be read."""
    try:
        describe_model(_folder(params, files))
    except BadInput as problem:
        yield BadInput(problem.message, field="name")


def fingerprint(params: LoadModelParams, files: Files) -> str:
    """Return the hash of ``model.json``, which holds the hashes of all other files."""
    folder = _folder(params, files)
    with read_lock(folder):
        if not is_regular_file(folder / FILE):
            raise BadInput(
                f"'{params.name}' does not hold a model: {FILE} is missing; save the model again",
                field="name",
            )
        return sha256((folder / FILE).read_bytes()).hexdigest()


def _folder(params: LoadModelParams, files: Files) -> Path:
    """Return the folder of the model; raise ``BadInput`` if it does not exist."""
    return Registry(Workspace(files.workspace)).folder_of(params.name)


NODE = NodeType(
    name="load-model",
    title="Load model",
    category="Data",
    summary="Loads a saved model of the workspace, to predict new data with it.",
    version=1,
    params=LoadModelParams,
    run=run,
    python=step_call("nodes.steps.load_model", positional=["name"]),
    outputs=(Port("model", "model", "Model"),),
    check=check,
    fingerprint=fingerprint,
    imports=("numpy", "lightgbm"),
)
