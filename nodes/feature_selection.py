"""Keep the columns that boosted trees gain most from.

The importance of a feature is the total gain of its splits, as a share of the gain of all features.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Report, Table
from nodes.data.columns import check_learnable
from nodes.models.kinds import Precision
from nodes.models.training import Seed, check_rounded, labelled


class FeatureSelectionParams(NodeParams):
    """Choose how many features to keep, or the share of importance they must have together."""

    columns: int | None = Field(
        None,
        ge=1,
        title="Columns",
        description="Number of features to keep, the most important ones; empty: the share below "
        "decides.",
    )
    share: float = Field(
        0.99,
        gt=0,
        le=1,
        title="Share of importance",
        description="If Columns is empty: keep the fewest features that together have this share "
        "of the total importance.",
        json_schema_extra=form_hint(when={"columns": ""}),
    )
    trees: int = Field(
        100,
        ge=1,
        le=10_000,
        title="Trees",
        description="Rounds of boosting from which the importances are computed.",
    )
    seed: Seed = 0


def run(ctx: NodeContext, inputs: dict[str, Any], params: FeatureSelectionParams) -> dict[str, Any]:
    """Boost on all features and drop those with little gain.

    The target and columns with a role are always kept. The report lists all features by importance.
    """
    from deepforest import MartSelector, large_arrays
    from nodes.models.encoder import TableEncoder

    table: Table = inputs["table"]
    known, y, classes = labelled(table, ctx.log, ctx.scratch)
    if not classes:
        check_rounded(y, str(table.target), NODE.title)
    encoder = TableEncoder.fit(known, "codes", ctx.log)
    ctx.progress(0.1, f"boosting on {len(encoder.names):,} features")
    selector = MartSelector(
        params.columns,
        share=None if params.columns else params.share,
        n_estimators=params.trees,
        target="classes" if classes else "numbers",
        categorical_features=encoder.categorical,
        n_jobs=ctx.threads,
        random_state=params.seed,
    )
    # Half the memory where 32 bits lose nothing.
    precision: Precision = "float32" if encoder.fits_float32 else "float64"
    with large_arrays.large_arrays_in(ctx.checkpoint, ctx.large):
        matrix = encoder.transform(known.data, precision, empty=large_arrays.empty)
        selector.fit(matrix, y)
    chosen = zip(encoder.names, selector.get_support(), strict=True)
    kept = {name for name, is_kept in chosen if is_kept}
    ctx.log(f"{len(kept):,} of {len(table.features):,} features kept")
    return {
        "table": without(table, set(table.features) - kept),
        "report": report(encoder.names, selector.importances_.tolist(), kept),
    }


def without(table: Table, features: set[str]) -> Table:
    """Return the table without these columns; other columns keep their order."""
    kept = [name for name in table.data.column_names if name not in features]
    return table.with_data(table.data.select(kept))


def report(names: list[str], gains: list[float], kept: set[str]) -> Report:
    """Return a report of the features by importance, and which of them are kept.

    ``names`` and ``gains`` belong together. Importances are shares of the total gain.
    """
    # Without any split, all importances are zero.
    total = sum(gains) or 1.0
    ranked = sorted(zip(names, gains, strict=True), key=lambda feature: -feature[1])
    rows = []
    for name, gain in ranked:
        rows.append({"column": name, "importance": gain / total, "kept": name in kept})
    covered = sum(gain for name, gain in ranked if name in kept) / total
    headline = {"features": len(names), "kept": len(kept), "importance kept": covered}
    return Report("feature-selection", "Feature selection", headline, rows=rows)


def python(params: FeatureSelectionParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that use ``MartSelector`` directly."""
    table, rows, selector = names.inputs["table"], names.local("rows"), names.local("selector")
    how_many = (
        {"n_features_to_select": params.columns} if params.columns else {"share": params.share}
    )
    others = {
        "n_estimators": params.trees,
        "target": Expression(f'"classes" if {rows}.classes else "numbers"'),
        "categorical_features": Expression(f"{rows}.categorical"),
        "n_jobs": -1,
        "random_state": params.seed,
    }
    gains = Expression(f"{selector}.importances_")
    support = Expression(f"{selector}.get_support()")
    lines = [
        *statement(rows, "steps.training_rows", table),
        *statement(selector, "MartSelector", **how_many, **others),
        f"{selector}.fit({rows}.matrix, {rows}.y)",
        *statement(names.outputs["table"], "steps.keep_features", table, rows, support),
        *statement(names.outputs["report"], "steps.importances", rows, gains, support),
    ]
    return Snippet(lines, ["from deepforest import MartSelector", "from nodes import steps"])


NODE = NodeType(
    name="feature-selection",
    title="Feature selection",
    category="Prepare",
    summary="Keeps the features that boosted trees gain most from, the target, and columns with a "
    "role.",
    version=2,
    params=FeatureSelectionParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("table", "table", "Fewer columns"), Port("report", "report", "Importances")),
    output_columns=check_learnable,
    imports=("numpy", "nodes.models.encoder", "lightgbm", "deepforest.selection"),
)
