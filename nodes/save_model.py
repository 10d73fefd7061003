"""Keep a model under a name, outside the store of results.

Beside the model lies a small card that says which run saved it and when; ``nodes.models.registry`` reads it.
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
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from engine.values import Report
from nodes.models.model import CARD, describe_model, model_files

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""What models may be called: no path, nothing hidden."""


class Params(NodeParams):
    """Where to keep it."""

    name: str = Field(
        pattern=NAME,
        title="Name",
        description="Folder in the workspace's models; letters, digits, dots, dashes and underscores.",
    )
    if_exists: Literal["replace", "error"] = Field(
        "replace", title="If it exists", description="Replace a model of that name, or stop with an error."
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Copy the model's folder; whoever opens it meanwhile sees the old one or the new one, never a part."""
    source: Path = inputs["model"].path
    about = describe_model(source)
    folder = ctx.files.models / params.name
    with write_lock(folder) as temporary:
        if params.if_exists == "error" and folder.exists():
            raise BadInput(
                f"there is already a model '{params.name}'; choose another name or to replace it", field="name"
            )
        _put(source, folder, temporary, _card(ctx))
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != CARD}
    headline = {
        "name": params.name,
        "folder": f"models/{params.name}",
        "kind": about["kind"],
        "classes": len(about["classes"]),
        "bytes": sum(sizes.values()),
    }
    data = {key: about[key] for key in ("title", "classes", "features", "train_rows", "params")}
    rows = [{"file": name, "bytes": size} for name, size in sizes.items()]
    return {"report": Report("saved-model", f"Saved '{params.name}'", headline, rows=rows, data=data)}


def _card(ctx: NodeContext) -> str | None:
    """Where the model comes from, if a run saves it. The rest is found by the run once it is over."""
    return json.dumps({"run": ctx.run, "node": ctx.node, "saved": time.time()}) if ctx.run else None


def _put(source: Path, folder: Path, temporary: Path, card: str | None) -> None:
    """Write beside, make durable, swap; the old folder goes only once the new one is in its place."""
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
    summary="Keeps a copy of a model under a name in the workspace.",
    version=1,
    params=Params,
    run=run,
    python=step_call("nodes.steps.save_model"),
    inputs=(Port("model", "model", "Model"),),
    outputs=(Port("report", "report", "What was saved"),),
    cacheable=False,
)
