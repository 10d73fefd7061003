"""``inspect-layers``: what it says of a table, of a sample of its rows, and how it is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepforest.inspection import agreement, scatter_ratio
from deepforest.metrics import auc
from engine.errors import Cancelled
from engine.node_types import NodeContext
from engine.values import Folder, Table
from nodes import deep_forest, evaluate, inspect_layers, mart, predict
from nodes.inspection import layer_statistics, tsne
from nodes.inspection.layer_statistics import MarginSummary, choose_rows
from nodes.inspection.layers import ARRAYS, UNKNOWN, Layers, load_layers
from nodes.inspection.tsne import embed, fitting_perplexity
from tests.expect import refused
from tests.nodes.conftest import make_context

LEARNERS = [
    {"kind": "random_forest", "trees": 8, "max_depth": 4},
    {"kind": "completely_random_forest", "trees": 8, "max_depth": 5},
]
# As in the paper, and so with several layers: on few rows no gain is proven.
SCREENED = {
    "preset": "gcforest_cs",
    "learners": LEARNERS,
    "resampling": "per_layer",
    "error_share": 0.2,
    "patience": 3,
    "max_layers": 4,
}
MARGIN = {"preset": "mddf", "learners": LEARNERS, "max_layers": 3, "patience": 3, "depth_step": 2}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds for each panel: where exactly the points end up matters to no test."""
    monkeypatch.setattr(tsne, "EARLY", 60)
    monkeypatch.setattr(tsne, "LATE", 60)


def grow(folder: Path, table: Table, **params: Any) -> Folder:
    node = deep_forest.NODE
    model = node.run(make_context(folder), {"table": table}, node.params(**params))["model"]
    (folder / "model").mkdir()
    model.save(folder / "model")
    return Folder(folder / "model")


@pytest.fixture(scope="module")
def rest(digits: Table) -> Table:
    """Rows that no forest here has learned from."""
    return digits.with_data(digits.data.slice(600, 200))


@pytest.fixture(scope="module")
def screened(digits: Table, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return grow(
        tmp_path_factory.mktemp("screened"), digits.with_data(digits.data.slice(0, 600)), **SCREENED
    )


@pytest.fixture(scope="module")
def margin_forest(digits: Table, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return grow(
        tmp_path_factory.mktemp("margin"), digits.with_data(digits.data.slice(0, 600)), **MARGIN
    )


def look(ctx: NodeContext, model: Folder, table: Table, **params: Any) -> Layers:
    params = {"rows": 60, "perplexity": 10.0} | params
    layers = inspect_layers.NODE.run(
        ctx, {"model": model, "table": table}, inspect_layers.NODE.params(**params)
    )
    assert isinstance(layers["layers"], Layers)
    return layers["layers"]


def predicted(ctx: NodeContext, model: Folder, table: Table) -> Any:
    return predict.NODE.run(ctx, {"model": model, "table": table}, predict.NODE.params())[
        "predictions"
    ]


# What is said of the whole table


@pytest.mark.parametrize("forest", ["screened", "margin_forest"])
def test_the_last_layer_scores_what_the_evaluation_of_the_model_says(
    forest: str, request: pytest.FixtureRequest, ctx: NodeContext, rest: Table
) -> None:
    model = request.getfixturevalue(forest)
    headline = evaluate.NODE.run(
        ctx, {"predictions": predicted(ctx, model, rest)}, evaluate.NODE.params()
    )["report"].headline
    scores = look(ctx, model, rest).stages[-1]["scores"]
    assert scores["accuracy"] == pytest.approx(headline["accuracy"])
    assert scores["log_loss"] == pytest.approx(headline["log_loss"])


@pytest.mark.parametrize("forest", ["screened", "margin_forest"])
def test_every_figure_of_a_stage_follows_from_what_was_said_of_the_rows(
    forest: str, request: pytest.FixtureRequest, ctx: NodeContext, rest: Table
) -> None:
    """With all rows in the sample, the figures of the table can be worked out from the sample."""
    layers = look(ctx, request.getfixturevalue(forest), rest, rows=1_000)
    assert layers.table_rows == len(layers.rows) == 200
    assert len(layers.stages) > 1
    for stage in layers.stages:
        number = stage["number"]
        through = layers.left_at >= number
        vectors = layers.vectors[number - 1][:, through]
        margin, said = layers.margin(number), layers.predicted(number)
        assert stage["scores"]["accuracy"] == pytest.approx((said == layers.truth).mean())
        assert stage["margins"]["mean"] == pytest.approx(margin.mean(), abs=1e-6)
        assert stage["margins"]["std"] == pytest.approx(margin.std(), abs=1e-6)
        assert stage["margins"]["ratio"] == pytest.approx(margin.std() / margin.mean(), rel=1e-5)
        assert sum(stage["margins"]["counts"]) == 200
        np.testing.assert_allclose(stage["agreement"], agreement(vectors))
        right = [(each.argmax(axis=1) == layers.truth[through]).mean() for each in vectors]
        assert [each["accuracy"] for each in stage["learner_scores"]] == pytest.approx(right)
        leaves = layers.left_at == number
        assert (stage["rows_in"], stage["rows_out"]) == (through.sum(), leaves.sum())
        wrong = (said != layers.truth)[leaves]
        assert stage["error_out"] == (pytest.approx(wrong.mean()) if leaves.any() else None)
        assert stage["separation"] == pytest.approx(
            scatter_ratio(layers.embedding[number - 1], layers.truth)
        )
    first = layers.vectors[0].transpose(1, 0, 2).reshape(200, -1)
    assert layers.stages[0]["separation_vectors"] == pytest.approx(
        scatter_ratio(first, layers.truth)
    )


def test_rows_that_are_sure_leave_and_nothing_is_said_of_them_afterwards(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    layers = look(ctx, screened, rest, rows=1_000)
    depth = len(layers.stages)
    assert len(set(layers.left_at.tolist())) > 1
    for number, stage in enumerate(layers.stages, 1):
        gone = layers.left_at < number
        assert np.isnan(layers.outputs[number - 1][gone]).all()
        assert np.isnan(layers.vectors[number - 1][:, gone]).all()
        assert np.isfinite(layers.vectors[number - 1][:, ~gone]).all()
        assert (stage["threshold"] is None) == (number == depth)
        if number < depth:
            sure = layers.outputs[number - 1].max(axis=1) > np.float32(stage["threshold"])
            assert (sure == (layers.left_at == number)).all()
    assert layers.stages[-1]["rows_in"] == layers.stages[-1]["rows_out"]
    said = predicted(ctx, screened, rest).probabilities
    np.testing.assert_allclose(layers.output(depth), said, atol=1e-6)


def test_the_measure_that_steered_the_growth_is_measured_over_all_rows_together(
    ctx: NodeContext, fraud: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners = [LEARNERS[0] | {"count": 3}]
    model = grow(
        tmp_path,
        fraud,
        learners=learners,
        metric="auc",
        max_layers=2,
        patience=2,
        class_vectors="oob",
    )
    said = predicted(ctx, model, fraud)
    truth = np.array([said.classes.index(label) for label in said.truth.to_pylist()])
    monkeypatch.setattr(layer_statistics, "ROWS_AT_ONCE", 700)
    layers = look(ctx, model, fraud)
    assert layers.metric == "auc"
    assert layers.stages[-1]["scores"]["auc"] == pytest.approx(auc(truth, said.probabilities))
    assert all(
        0.5 < each["auc"] <= 1 for stage in layers.stages for each in stage["learner_scores"]
    )
    logged: list[str] = []
    monkeypatch.setattr(
        layer_statistics, "BYTES_OF_SCORES", said.probabilities.nbytes * len(layers.stages)
    )
    frugal = look(replace(ctx, on_log=logged.append), model, fraud)
    assert [stage["scores"] for stage in frugal.stages] == [
        stage["scores"] for stage in layers.stages
    ]
    assert {each["auc"] for stage in frugal.stages for each in stage["learner_scores"]} == {None}
    assert any("AUC" in line and "learner" in line for line in logged)
    (tmp_path / "kept").mkdir()
    frugal.save(tmp_path / "kept")
    assert load_layers(tmp_path / "kept").sample.equals(fraud.data.take(frugal.rows))


def test_blocks_and_threads_change_nothing(
    tmp_path: Path, screened: Folder, rest: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = look(make_context(tmp_path), screened, rest)
    monkeypatch.setattr(
        layer_statistics, "ROWS_AT_ONCE", 3
    )  # so few that all of a block may leave early
    parts = look(make_context(tmp_path, threads=3), screened, rest)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    for one, other in zip(parts.stages, whole.stages, strict=True):
        for name in (
            "agreement",
            "rows_in",
            "rows_out",
            "error_out",
            "threshold",
            "separation",
            "importances",
        ):
            assert one[name] == other[name]
        assert one["scores"] == pytest.approx(other["scores"])
        assert one["learner_scores"] == [
            pytest.approx(scores) for scores in other["learner_scores"]
        ]
        assert one["margins"]["counts"] == other["margins"]["counts"]
        for name in ("mean", "std", "ratio"):
            assert one["margins"][name] == pytest.approx(other["margins"][name])


def test_margins_of_blocks_add_up() -> None:
    """Margins 0.5 and 0.7 in one block, −0.6 and 1.0 in another: mean 0.4, variance 0.365."""
    spread = MarginSummary()
    for block in ([0.5, 0.7], [], [-0.6, 1.0]):
        spread.add(MarginSummary.of(np.array(block)))
    record = spread.record()
    assert record is not None
    assert record["mean"] == pytest.approx(0.4)
    assert record["std"] == pytest.approx(0.365**0.5)
    assert record["ratio"] == pytest.approx(0.365**0.5 / 0.4)
    filled = [(record["edges"][i], count) for i, count in enumerate(record["counts"]) if count]
    assert [count for _, count in filled] == [1, 1, 1, 1]
    assert filled[-1][0] == pytest.approx(0.95)
    worse = MarginSummary.of(np.array([-0.5, 0.1])).record()
    assert worse is not None and worse["ratio"] is None
    assert MarginSummary().record() is None


def test_the_records_of_training_go_along_also_of_layers_that_were_dropped(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    layers = look(ctx, screened, rest)
    manifest = json.loads((screened.path / "forest.json").read_text())["content"]["model"]
    assert layers.records == manifest["layers"]
    assert [record["kept"] for record in layers.records].count(True) == len(layers.stages)
    assert layers.learners == ["random forest 1", "completely random forest 2"]
    assert (layers.kind, layers.title, layers.metric) == ("gcforest_cs", "Deep forest", "accuracy")


def test_importances_name_the_columns_and_the_class_vectors_before(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    layers = look(ctx, screened, rest)
    assert set(layers.features) == set(rest.features)
    first, second = layers.stages[0]["importances"], layers.stages[1]["importances"]
    assert {entry["feature"] for entry in first} <= set(layers.features)
    assert sum(entry["importance"] for entry in first) <= 1 + 1e-9
    assert len(first[0]["learners"]) == 2
    assert "class vectors of layer 1: random forest 1" in {entry["feature"] for entry in second[:3]}


# Tables and models that are not as expected


def test_a_table_without_a_target_has_no_scores(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    layers = look(ctx, screened, Table(rest.data.drop_columns(["digit"])))
    assert (layers.truth == UNKNOWN).all()
    assert np.isnan(layers.margin(1)).all()
    for stage in layers.stages:
        assert (
            stage["scores"] is stage["margins"] is stage["error_out"] is stage["separation"] is None
        )
        assert stage["learner_scores"] == [{"accuracy": None, "log_loss": None}] * 2
        assert 0 < stage["agreement"][0][1] < 1
    assert sum(stage["rows_out"] for stage in layers.stages) == 200


def test_rows_of_unknown_class_are_shown_but_not_judged(
    ctx: NodeContext, margin_forest: Folder, rest: Table
) -> None:
    labels = pa.array(
        [None if i < 50 else label for i, label in enumerate(rest.labels().to_pylist())]
    )
    data = rest.data.set_column(rest.data.column_names.index("digit"), "digit", labels)
    layers = look(ctx, margin_forest, Table(data, "digit"), rows=1_000)
    assert (layers.truth == UNKNOWN).sum() == 50
    known = layers.truth != UNKNOWN
    right = (layers.predicted(1) == layers.truth)[known].mean()
    assert layers.stages[0]["scores"]["accuracy"] == pytest.approx(right)
    assert sum(layers.stages[0]["margins"]["counts"]) == 150
    assert layers.stages[0]["rows_in"] == 200


def test_a_model_without_layers_is_refused_by_name(
    ctx: NodeContext, rest: Table, tmp_path: Path
) -> None:
    (tmp_path / "mart").mkdir()
    mart.NODE.run(ctx, {"table": rest}, mart.NODE.params(trees=3))["model"].save(tmp_path / "mart")
    with refused(naming=["layers", "Deep forest"]):
        look(ctx, Folder(tmp_path / "mart"), rest)


def test_tables_that_do_not_fit_are_refused(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    with refused(naming="'pixel_0_0'"):
        look(ctx, screened, rest.with_data(rest.data.drop_columns(["pixel_0_0"])))
    with refused(naming="no rows"):
        look(ctx, screened, rest.with_data(rest.data.slice(0, 0)))
    with refused(field="follow", naming=["200", "199"]):
        look(ctx, screened, rest, follow=[3, 200])


@pytest.mark.parametrize(
    ("rows", "words"), [(1, "1 row"), (4, "4 rows"), (5, "5 rows"), (12, "3.67, the most that 12")]
)
def test_with_few_rows_the_perplexity_is_lowered_and_it_is_said(
    ctx: NodeContext, margin_forest: Folder, rest: Table, rows: int, words: str
) -> None:
    logged: list[str] = []
    few = rest.with_data(rest.data.slice(0, rows))
    layers = look(replace(ctx, on_log=logged.append), margin_forest, few)
    assert layers.embedding.shape == (len(layers.stages), rows, 2)
    assert np.isfinite(layers.embedding).all()
    assert any(words in line for line in logged)


def test_a_cancel_takes_effect_in_the_middle_of_a_panel(
    ctx: NodeContext, margin_forest: Folder, rest: Table
) -> None:
    heard: list[str] = []

    def progress(fraction: float, text: str) -> None:
        heard.append(text)
        if heard.count("t-SNE of layer 2 of 2") + heard.count("t-SNE of layer 2 of 3") == 3:
            ctx.cancelled.set()

    with pytest.raises(Cancelled):
        look(replace(ctx, on_progress=progress), margin_forest, rest)
    assert heard[-1].startswith("t-SNE of layer 2")


def test_a_cancel_of_a_long_pass_starts_no_more_blocks(
    ctx: NodeContext, screened: Folder, rest: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = layer_statistics._Pass.process_block
    monkeypatch.setattr(layer_statistics, "ROWS_AT_ONCE", 1)
    monkeypatch.setattr(
        layer_statistics._Pass,
        "process_block",
        lambda work, start: taken.append(start) or take(work, start),
    )

    def stop(fraction: float, text: str) -> None:
        if fraction > 0:
            ctx.cancelled.set()

    stopping = replace(ctx, on_progress=stop)
    with pytest.raises(Cancelled):
        look(stopping, screened, rest)
    stopping.executor.shutdown(wait=True)
    assert len(taken) < 100


# The sample


def test_the_sample_has_rows_of_every_class_and_those_to_follow() -> None:
    truth = np.array([0] * 5_000 + [1] * 40 + [2] * 3 + [UNKNOWN] * 57)
    rows = choose_rows(truth, 400, [17, 5_042, 17], seed=1)
    assert len(rows) == len(set(rows.tolist())) == 400
    assert {17, 5_042} <= set(rows.tolist())
    assert (np.diff(rows) > 0).all()
    counts = [int((truth[rows] == code).sum()) for code in (0, 1, 2, UNKNOWN)]
    assert counts[2] == 3
    assert counts[1] >= 30 and counts[3] >= 30
    assert counts[0] > 280
    assert rows.tolist() == choose_rows(truth, 400, [17, 5_042], seed=1).tolist()
    assert rows.tolist() != choose_rows(truth, 400, [17, 5_042], seed=2).tolist()


@pytest.mark.parametrize(
    ("n", "wanted", "follow", "expected"),
    [(5, 9, [], 5), (100, 10, [], 10), (100, 2, [7, 8, 9], 3), (100, 1, [], 1)],
)
def test_the_sample_is_as_large_as_wanted_and_there_is(
    n: int, wanted: int, follow: list[int], expected: int
) -> None:
    rows = choose_rows(np.arange(n) % 4, wanted, follow, seed=0)
    assert len(rows) == expected
    assert set(follow) <= set(rows.tolist())


def test_the_sampled_rows_are_those_of_the_table(
    ctx: NodeContext, margin_forest: Folder, rest: Table
) -> None:
    layers = look(ctx, margin_forest, rest, follow=[0, 199])
    assert len(layers.rows) == 60
    assert {0, 199} <= set(layers.rows.tolist())
    assert layers.sample.equals(rest.data.take(layers.rows))
    assert [layers.classes[code] for code in layers.truth] == layers.sample.column(
        "digit"
    ).to_pylist()


def test_the_input_is_on_one_scale_and_is_the_first_panel(
    ctx: NodeContext, margin_forest: Folder, rest: Table
) -> None:
    layers = look(ctx, margin_forest, rest)
    assert layers.panels == [0, *(stage["number"] for stage in layers.stages)]
    assert layers.input["columns"] == 64, "one for each pixel"
    assert layers.representation(0).shape == (60, 50), "principal components of many columns"
    assert layers.panel(0).shape == (60, 2) and np.isfinite(layers.panel(0)).all()
    assert layers.input["separation"] == pytest.approx(scatter_ratio(layers.panel(0), layers.truth))
    assert layers.input["separation_vectors"] > layers.stages[-1]["separation_vectors"]


def test_numbers_are_standardised_and_cut_and_categories_have_a_column_each(
    ctx: NodeContext, tmp_path: Path
) -> None:
    sizes = [float(size) for size in range(39)] + [1e6]
    data = {"size": sizes, "kind": ["a", "b"] * 20, "class": ["no"] * 20 + ["yes"] * 20}
    table = Table(pa.table(data), "class")
    model = grow(tmp_path, table, learners=LEARNERS[:1], max_layers=1)
    layers = look(ctx, model, table, rows=40)
    values = layers.representation(0)
    assert layers.input["columns"] == 3 and values.shape == (40, 3)
    assert values[39, 0] == 3 and (np.diff(values[:39, 0]) > 0).all()
    assert values[:4, 1:].tolist() in ([[1, 0], [0, 1]] * 2, [[0, 1], [1, 0]] * 2)


def test_a_row_that_left_keeps_the_vectors_of_its_last_layer(
    ctx: NodeContext, screened: Folder, rest: Table
) -> None:
    layers = look(ctx, screened, rest, rows=1_000)
    gone = np.flatnonzero(layers.left_at == 1)
    assert len(gone)
    np.testing.assert_array_equal(layers.representation(2)[gone], layers.representation(1)[gone])
    assert np.isfinite(layers.representation(len(layers.stages))).all()


def test_a_panel_begins_where_the_one_before_ended() -> None:
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(3), 20, axis=0) + rng.normal(scale=0.05, size=(60, 3))
    first = embed(points, None, 10, seed=0)
    again = embed(points + 0.01 * rng.normal(size=points.shape), first, 10, seed=0)
    mirrored = embed(points, -first, 10, seed=0)

    def centres(plane: np.ndarray) -> np.ndarray:
        return plane.reshape(3, 20, 2).mean(axis=1)

    def turn(a: np.ndarray, b: np.ndarray) -> float:
        return float((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))

    assert turn(centres(first), centres(again)) > 0.9
    assert turn(centres(first), centres(mirrored)) < -0.9
    np.testing.assert_array_equal(first, embed(points, None, 10, seed=0, threads=2))


def test_points_that_are_all_the_same_have_a_place_too() -> None:
    assert np.isfinite(embed(np.ones((12, 4)), None, 3, seed=0)).all()
    assert np.isfinite(embed(np.ones((12, 1)), np.zeros((12, 2)), 3, seed=0)).all()
    assert embed(np.ones((3, 4)), None, 3, seed=0).tolist() == [[0, 0]] * 3
    assert fitting_perplexity(30, 10) == 3


# On disk


@pytest.fixture(scope="module")
def seen(margin_forest: Folder, rest: Table, tmp_path_factory: pytest.TempPathFactory) -> Layers:
    return look(make_context(tmp_path_factory.mktemp("seen")), margin_forest, rest, rows=12)


@pytest.fixture
def kept(seen: Layers, tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    seen.save(folder)
    return folder


def test_layers_survive_being_kept(seen: Layers, kept: Path) -> None:
    layers, back = seen, load_layers(kept)
    for name in (
        "title",
        "kind",
        "metric",
        "classes",
        "features",
        "learners",
        "records",
        "table_rows",
        "stages",
        "input",
        "panels",
    ):
        assert getattr(back, name) == getattr(layers, name)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(back, name), getattr(layers, name))
    assert back.sample.equals(layers.sample)
    assert back.predicted(2).tolist() == layers.predicted(2).tolist()


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "layers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def resave(folder: Path, name: str, array: np.ndarray) -> None:
    from nodes.models.model import sha256_of

    np.save(folder / f"{name}.npy", array)
    about = json.loads((folder / "layers.json").read_text())
    rewrite(folder, files=about["files"] | {f"{name}.npy": sha256_of(folder / f"{name}.npy")})


def forget(folder: Path, name: str) -> None:
    """Remove an array as if it had never been saved."""
    (folder / f"{name}.npy").unlink()
    files = json.loads((folder / "layers.json").read_text())["files"]
    rewrite(folder, files={file: each for file, each in files.items() if file != f"{name}.npy"})


def test_layers_of_version_1_open_without_the_input(seen: Layers, kept: Path) -> None:
    for name in ("inputs", "input_embedding"):
        forget(kept, name)
    about = json.loads((kept / "layers.json").read_text())
    del about["input"]
    (kept / "layers.json").write_text(json.dumps(about | {"version": 1}))
    back = load_layers(kept)
    assert back.panels == list(range(1, len(seen.stages) + 1)) and back.input == {}
    np.testing.assert_array_equal(back.panel(1), seen.panel(1))
    np.testing.assert_array_equal(back.representation(1), seen.representation(1))


@pytest.mark.parametrize(
    ("damage", "naming"),
    [
        (lambda folder: (folder / "layers.json").unlink(), ["layers.json"]),
        (lambda folder: (folder / "layers.json").write_text("{"), []),
        (
            lambda folder: (folder / "layers.json").write_text('{"format": "sylva-model"}'),
            ["layers.json"],
        ),
        (lambda folder: rewrite(folder, version=3), ["version 3", "up to 2"]),
        (lambda folder: rewrite(folder, version="1"), ["version '1'"]),
        (lambda folder: rewrite(folder, classes=[1, 2]), ["texts"]),
        (lambda folder: rewrite(folder, stages=[]), [".npy", "size"]),
        (lambda folder: rewrite(folder, table_rows=float("nan")), ["NaN"]),
        (lambda folder: (folder / "vectors.npy").unlink(), ["vectors.npy"]),
        (lambda folder: (folder / "inputs.npy").unlink(), ["inputs.npy"]),
        (lambda folder: forget(folder, "inputs"), ["a part of the input"]),
        (lambda folder: resave(folder, "input_embedding", np.zeros((12, 3), "f4")), ["size"]),
        (lambda folder: (folder / "rows.npy").write_bytes(b"x"), ["rows.npy"]),
        (lambda folder: resave(folder, "rows", np.arange(12.0)), ["rows.npy", "float64"]),
        (lambda folder: resave(folder, "rows", np.arange(11)), [".npy", "size"]),
        (lambda folder: resave(folder, "truth", np.full(12, 10)), ["truth.npy", "classes"]),
        (lambda folder: resave(folder, "left_at", np.zeros(12, int)), ["left_at.npy", "layers"]),
        (lambda folder: resave(folder, "truth", np.array([object()] * 12)), ["Python objects"]),
    ],
)
def test_a_folder_that_is_damaged_foreign_or_newer_is_refused(
    kept: Path, damage: Any, naming: list[str]
) -> None:
    damage(kept)
    with refused(naming=["'kept'", *naming]):
        load_layers(kept)
