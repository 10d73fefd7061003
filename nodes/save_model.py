"""Save a model under a name, outside of the store of results.

A small card beside the model says which run saved it and when; ``nodes.models.model_card`` reads
it. The node is never taken from the cache: it writes the model in every run.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.export_python import step_call
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Report
from nodes.models.model import CARD, describe_model
from nodes.models.versions import MAX_NOTE, NAME, Versions, card_data


class SaveModelParams(NodeParams):
    """Choose the name of the model, what happens if it exists, and a note."""

    name: str = Field(
        pattern=NAME,
        title="Name",
        description="Name of the model, and of its folder in the workspace: letters, digits, dots, "
        "dashes and underscores.",
    )
    if_exists: Literal["replace", "add", "error"] = Field(
        "replace",
        title="If it exists",
        description="What happens if there is a model of that name. Both models are then versions "
        "of this name, and one of them is in use.",
        json_schema_extra=form_hint(
            words={
                "replace": "use the new version",
                "add": "add a version, do not use it yet",
                "error": "stop with an error",
            }
        ),
    )
    note: str = Field(
        "",
        max_length=MAX_NOTE,
        title="Note",
        description="What is special about this version; shown beside it.",
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SaveModelParams) -> dict[str, Any]:
    """Copy the model's folder as a version and report what was saved.

    Raise ``BadInput`` if there is a model of this name and there must not be one.
    """
    source: Path = inputs["model"].path
    model = describe_model(source)
    versions = Versions(ctx.files.models / params.name)
    number = versions.add(
        source,
        _card(ctx, source, params.note),
        use=params.if_exists == "replace",
        only_new_name=params.if_exists == "error",
    )
    folder = versions.folder_of(number)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    # The card differs from save to save, and is not part of the model.
    sizes.pop(CARD, None)
    headline = {
        "name": params.name,
        "version": number,
        "folder": f"models/{folder.name}",
        "kind": model["kind"],
        "classes": len(model["classes"]),
        "bytes": sum(sizes.values()),
    }
    data = {key: model[key] for key in ("title", "classes", "features", "train_rows", "params")}
    rows = [{"file": name, "bytes": size} for name, size in sizes.items()]
    title = f"Saved '{params.name}'"
    return {"report": Report("saved-model", title, headline, rows=rows, data=data)}


def _card(ctx: NodeContext, source: Path, note: str) -> dict[str, Any]:
    """Return where the model comes from; outside of a run, it is what the source says."""
    card = card_data(source)
    if ctx.run_id:
        card = {"run": ctx.run_id, "node": ctx.node, "saved": time.time()}
    if note.strip():
        card["note"] = note.strip()
    return card


NODE = NodeType(
    name="save-model",
    title="Save model",
    category="Save",
    summary="Saves a model as a version under a name in the workspace.",
    version=1,
    params=SaveModelParams,
    run=run,
    python=step_call("nodes.steps.save_model"),
    inputs=(Port("model", "model", "Model"),),
    outputs=(Port("report", "report", "What was saved"),),
    cacheable=False,
)
