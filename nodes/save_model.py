"""Save a model under a name, outside of the store of results.

A small card beside the model says which run saved it and when; ``nodes.models.model_card`` reads
it. The node is never taken from the cache: it writes the model in every run.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.atomic import OLD, swap_folder, write_lock
from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Report
from nodes.models.model import CARD, describe_model, model_files

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Names of models: not a path, not hidden."""


class SaveModelParams(NodeParams):
    """Choose the name of the model, and what happens if it exists."""

    name: str = Field(
        pattern=NAME,
        title="Name",
        description="Name of the model, and of its folder in the workspace: letters, digits, dots, "
        "dashes and underscores.",
    )
    if_exists: Literal["replace", "error"] = Field(
        "replace",
        title="If it exists",
        description="What happens if there is a model of that name.",
        json_schema_extra=form_hint(words={"replace": "replace it", "error": "stop with an error"}),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SaveModelParams) -> dict[str, Any]:
    """Copy the model's folder and report what was saved.

    A reader sees the old model or the new one, never a part. Raise ``BadInput`` if there is a model
    of this name and it must not be replaced.
    """
    source: Path = inputs["model"].path
    model = describe_model(source)
    folder = ctx.files.models / params.name
    # The lock also covers the check: two runs must not both find the name free.
    with write_lock(folder) as temporary:
        if params.if_exists == "error" and folder.exists():
            raise BadInput(
                f"there is already a model '{params.name}'; choose another name, or set 'If it "
                "exists' to replace",
                field="name",
            )
        _put(source, folder, temporary, _card(ctx))
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    # The card differs from save to save, and is not part of the model.
    sizes.pop(CARD, None)
    headline = {
        "name": params.name,
        "folder": f"models/{params.name}",
        "kind": model["kind"],
        "classes": len(model["classes"]),
        "bytes": sum(sizes.values()),
    }
    data = {key: model[key] for key in ("title", "classes", "features", "train_rows", "params")}
    rows = [{"file": name, "bytes": size} for name, size in sizes.items()]
    title = f"Saved '{params.name}'"
    return {"report": Report("saved-model", title, headline, rows=rows, data=data)}


def _card(ctx: NodeContext) -> str | None:
    """Return where the model comes from, as JSON; None outside of a run."""
    if not ctx.run_id:
        return None
    return json.dumps({"run": ctx.run_id, "node": ctx.node, "saved": time.time()})


def _put(source: Path, folder: Path, temporary: Path, card: str | None) -> None:
    """Write the new folder beside the old one, then swap them.

    The old folder is removed only when the new one is in its place, so a crash loses no model.
    """
    new = temporary / "new"
    new.mkdir()
    for file in model_files(source):
        shutil.copy2(file, new)
    if card is not None:
        (new / CARD).write_text(card + "\n", encoding="utf-8")
    swap_folder(new, folder, temporary / OLD)


NODE = NodeType(
    name="save-model",
    title="Save model",
    category="Save",
    summary="Saves a copy of a model under a name in the workspace.",
    version=1,
    params=SaveModelParams,
    run=run,
    python=step_call("nodes.steps.save_model"),
    inputs=(Port("model", "model", "Model"),),
    outputs=(Port("report", "report", "What was saved"),),
    cacheable=False,
)
