"""Preview a model: a card, and the layers of a deep forest.

Only its small description files are read. The trees are never loaded, so a large model is fast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from pydantic.fields import FieldInfo

from deepforest.metrics import metric_title
from engine.errors import SylvaError
from engine.events import EventLog
from engine.node_types import NodeType
from engine.store import Artifact, Store
from engine.text import counted, size
from nodes import NODE_TYPES
from nodes.inspection.layers import FILE as LAYERS_FILE
from nodes.inspection.layers import Layers, load_layers
from nodes.models.model import decision_texts, describe_model
from nodes.models.training import validation_text
from ui.studio import links, plots
from ui.studio.inspect.forest_source import depth_text
from ui.studio.inspect.tables import layer_settings
from ui.studio.screen_text import plain, task_words
from ui.studio.widgets import chart, draw_tabs, facts, grid, opened

FOREST_FILE = "forest.json"
MOST_RESULTS = 2_000
"""How many of the newest cache entries are searched for the maker of an output."""


def show_model(output: Artifact, store: Store, key: str) -> None:
    """Draw the card of a model, and what is inside.

    Raise ``CorruptObject`` if the store lost the model.
    """
    folder: Path = opened(output, store).path
    info = describe_model(folder)
    facts(
        info["title"],
        task_words(info["classes"]),
        counted(len(info["features"]), "feature"),
        f"trained on {counted(info['train_rows'], 'row')}",
        size(output.size),
    )
    if info.get("validation"):
        facts(validation_text(info["validation"]))
    for sentence in decision_texts(info):
        st.caption(plain(sentence))
    show_inside(folder, info, key)


def show_inside(folder: Path, info: Mapping[str, Any], key: str) -> None:
    """Draw tabs with the layers of a model if it has some, its features, classes and settings.

    ``info`` is what ``describe_model`` returns for the folder.
    """
    forest = forest_record(folder)
    layers = {"Layers": lambda: _show_layers(forest, key)} if forest else {}
    # A model that predicts a number has none.
    classes = {"Classes": lambda: _show_classes(info, key)} if info["classes"] else {}
    draw_tabs(
        {
            **layers,
            "Features": lambda: grid(_features(info), f"{key}-features"),
            **classes,
            "Settings": lambda: _show_settings(info, key),
        },
        key,
    )


def show_layers(output: Artifact, store: Store, key: str) -> None:
    """Draw a short card of inspected layers, with a way to the Inspect page.

    A folder of another kind is shown as a list of its files.
    """
    folder: Path = opened(output, store).path
    if not (folder / LAYERS_FILE).is_file():
        facts(counted(len(output.files), "file"), size(output.size))
        rows = [{"File": name, "Size": size(file.size)} for name, file in output.files.items()]
        grid(rows, f"{key}-files")
        return
    layers = load_layers(folder)
    depth = counted(len(layers.stages), "layer")
    shape = f"{depth} of {counted(len(layers.learners), 'learner')}"
    inspected = f"inspected on {counted(layers.table_rows, 'row')}"
    facts(layers.title, shape, inspected, size(output.size))
    made = _maker(output.digest, store)
    # Without the pages of the studio, as in a test, there is nothing to link to.
    if made and links.PAGES in st.session_state:
        if st.button("Look inside", key=f"{key}-inspect", icon=":material/layers:", type="primary"):
            links.to_inspect(*made)
    else:
        st.caption("Open Inspect to see the layers.")
    number = st.column_config.NumberColumn(format="%.4f")
    stages = stage_rows(layers)
    figures = [name for name in stages[0] if name != "Layer"]
    grid(stages, f"{key}-stages", column_config=dict.fromkeys(figures, number))


def stage_rows(layers: Layers) -> list[dict[str, Any]]:
    """Return one row for each layer: its figures on the inspected table."""
    rows = []
    for stage in layers.stages:
        margins = stage["margins"] or {}
        row: dict[str, Any] = {"Layer": stage["number"]}
        row |= {metric_title(name): score for name, score in (stage["scores"] or {}).items()}
        row |= {"Margin": margins.get("mean"), "Margin ratio": margins.get("ratio")}
        rows.append(row | {"S_A/S_E of the map": stage["separation"]})
    return rows


def _maker(digest: str, store: Store) -> tuple[str, str] | None:
    """Return the run and the node that made an output, if the run still exists.

    An output does not know its maker: the newest cache entries are searched for it.
    """
    # The newest first: a user looks at what was just made.
    paths = sorted(
        store.workspace.results.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in paths[:MOST_RESULTS]:
        text = path.read_text(encoding="utf-8", errors="replace")
        # A text that does not contain the digest need not be parsed.
        if digest in text and (result := store.find(path.stem)):
            with suppress(SylvaError), EventLog(store.workspace) as log:
                return log.run(result.run).id, result.node
    return None


def forest_record(folder: Path) -> dict[str, Any] | None:
    """Return the layers of a deep forest and its growth metric, from its manifest.

    It is None for other models.
    """
    path = folder / FOREST_FILE
    if not path.is_file():
        return None
    from deepforest.inspection import steering_measure

    model = json.loads(path.read_text(encoding="utf-8"))["content"]["model"]
    # A single forest is stored in a file of the same name.
    if "layers" not in model:
        return None
    # Models of earlier versions have the metric under another name.
    params = model["params"]
    return {
        "layers": model["layers"],
        "metric": steering_measure(model["layers"], params.get("scoring", params.get("metric"))),
    }


def layer_rows(layers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each layer: score, gain, margins, whether it is kept and why.

    ``layers`` are the records that training wrote. Forests with screening also show their rows.
    """
    # Without screening these columns would repeat the number of rows.
    screened = any(layer["rows_out"] for layer in layers)
    # Predicted numbers have none.
    with_margins = any(layer["margins"] for layer in layers)
    rows = []
    for layer in layers:
        margins = layer["margins"] or {}
        row: dict[str, Any] = {"Layer": layer["number"], "Score": layer["score"]}
        row |= {"± score": layer.get("score_se"), "Gain": layer["gain"]}
        row |= {"± gain": layer.get("gain_se"), "Kept": layer["kept"]}
        if with_margins:
            row |= {"Margin": margins.get("mean"), "Margin ratio": margins.get("ratio")}
        row["Features"] = layer["n_features"]
        if screened:
            row |= {"Rows in": layer["rows_in"], "Rows out": layer["rows_out"]}
        row |= layer_settings(layer)
        rows.append(row | {"Why": layer["reason"]})
    return rows


def learner_rows(layers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each learner of each layer, with its scores on held-out rows."""
    rows = []
    for layer in layers:
        # A layer that was refused after a probe has no weights.
        weights = layer["coefficients"] or [None] * len(layer["learners"])
        for learner, weight in zip(layer["learners"], weights, strict=True):
            row = {"Layer": layer["number"], "Learner": learner["name"]}
            row |= {metric_title(name): score for name, score in learner["scores"].items()}
            rows.append(row | {"Weight": weight, "Fits": learner["fits"]})
    return rows


def _show_layers(forest: Mapping[str, Any], key: str) -> None:
    """Draw the growth of a forest, and the figures of its layers and learners."""
    layers, metric = forest["layers"], forest["metric"]
    number = st.column_config.NumberColumn(format="%.4f")
    st.markdown(plain(depth_text(layers)))
    chart(plots.growth(layers, metric, metric_title(metric)), f"{key}-growth")
    figures = ("Score", "± score", "Gain", "± gain", "Margin", "Margin ratio")
    config: dict[str, Any] = dict.fromkeys(figures, number)
    config["Score"] = st.column_config.NumberColumn(metric_title(metric), format="%.4f")
    config["Why"] = st.column_config.TextColumn(width="large")
    grid(layer_rows(layers), f"{key}-layers", column_config=config)
    rows = learner_rows(layers)
    names = [name for name in rows[0] if name not in ("Layer", "Learner", "Fits")] if rows else []
    grid(rows, f"{key}-learners", column_config=dict.fromkeys(names, number))
    st.caption(
        "Scores and margins are those of held-out rows. "
        "The weight is a learner's share in the layer."
    )


def _features(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each feature: its kind, and whether training data had missing values."""
    kinds = {column["name"]: column for column in info["encoder"]["columns"]}
    return [
        {
            "Feature": name,
            "Kind": kinds[name]["kind"],
            "Missing seen": bool(kinds[name].get("has_missing")),
        }
        for name in info["features"]
    ]


def _show_classes(info: Mapping[str, Any], key: str) -> None:
    """Draw the classes, with their weights if the model was trained with any."""
    weights = info["class_weights"]
    if weights:
        rows = [{"Class": name, "Weight": weights.get(name)} for name in info["classes"]]
    else:
        rows = [{"Class": name} for name in info["classes"]]
    weight = st.column_config.NumberColumn(format="%.4g")
    grid(rows, f"{key}-classes", column_config={"Weight": weight})


def _show_settings(info: Mapping[str, Any], key: str) -> None:
    """Draw the settings that differ from the defaults, and the others folded."""
    node_type = next((each for each in NODE_TYPES if each.name == info["kind"]), None)
    changed, rest = settings(info["params"], node_type)
    if changed:
        grid(changed, f"{key}-settings")
    if rest:
        title = "Settings with their defaults" if changed else "All settings have their defaults"
        with st.expander(title):
            grid(rest, f"{key}-defaults")


def settings(
    params: Mapping[str, Any], node_type: NodeType | None
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the settings that differ from their defaults, and the others, as rows.

    Settings without a value are left out. A list, such as that of learners, has a row for each
    part.
    """
    fields = node_type.params.model_fields if node_type else {}
    changed: list[dict[str, str]] = []
    rest: list[dict[str, str]] = []
    for name, value in params.items():
        if value is None:
            continue
        field = fields.get(name)
        title = (field.title if field else None) or metric_title(name)
        # A list of mappings, such as learners, is easier to read in several rows.
        has_parts = isinstance(value, list) and value and isinstance(value[0], Mapping)
        parts = value if has_parts else [value]
        rows = [{"Setting": title, "Value": in_words(part)} for part in parts]
        is_default = field is not None and _default(field) == value
        (rest if is_default else changed).extend(rows)
    return changed, rest


def _default(field: FieldInfo) -> Any:
    """Return the default of a setting."""
    return field.get_default(call_default_factory=True)


def in_words(value: Any) -> str:
    """Return the value of a setting as text on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        kind = [in_words(value["kind"])] if value.get("kind") else []
        others = {name: part for name, part in value.items() if name != "kind" and part is not None}
        return ", ".join(
            kind + [f"{name.replace('_', ' ')} {in_words(part)}" for name, part in others.items()]
        )
    if isinstance(value, list | tuple):
        return "; ".join(in_words(part) for part in value)
    return str(value).replace("_", " ") if isinstance(value, str) else f"{value:,}"
