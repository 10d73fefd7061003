"""Keep a model under a name, outside the store of results."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.contract import Context, NodeParams, NodeType, Port
from engine.durable import sync
from engine.errors import BadInput
from engine.values import Report
from nodes._model import describe_model


class Params(NodeParams):
    """Where to keep it."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        title="Name",
        description="Folder in the workspace's models; letters, digits, dots, dashes and underscores.",
    )
    if_exists: Literal["replace", "error"] = Field(
        "replace", title="If it exists", description="Replace a model of that name, or stop with an error."
    )


def run(ctx: Context, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Copy the model's folder; whoever opens it meanwhile sees the old one or the new one, never a part."""
    source: Path = inputs["model"].path
    about = describe_model(source)
    folder = ctx.files.models / params.name
    if params.if_exists == "error" and folder.exists():
        raise BadInput(f"there is already a model '{params.name}'; choose another name or to replace it", field="name")
    _put(source, folder)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
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


def _put(source: Path, folder: Path) -> None:
    """Write beside, make durable, swap; the old folder goes only once the new one is in its place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        new, old = Path(temporary, "new"), Path(temporary, "old")
        shutil.copytree(source, new)
        for path in (*new.rglob("*"), new):
            sync(path)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        sync(folder.parent)


NODE = NodeType(
    name="save-model",
    title="Save model",
    category="Save",
    summary="Keeps a model under a name in the workspace, to predict with it or serve it later.",
    version=1,
    params=Params,
    run=run,
    inputs=(Port("model", "model", "Model"),),
    outputs=(Port("report", "report", "What was saved"),),
    cacheable=False,
)
