from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sklearn.datasets import load_iris

from deepforest import CascadeForestClassifier, MartSelector
from deepforest._fit_jobs import FitEvent
from deepforest.learners import make_learners
from deepforest.presets import PRESETS, preset
from nodes.deep_forest import DeepForestParams, _learner_params
from tests.deepforest.scripted_scores import keeps_every_layer
from ui.studio.forms.cards import copied, moved, removed, with_kind
from ui.studio.forms.deep_forest import differences
from ui.studio.forms.fields import specs_of
from ui.studio.forms.fit_count import (
    fit_count_text,
    learner_text,
    needs_folds,
    preset_info,
)

SPECS = {spec.name: spec for spec in specs_of(DeepForestParams)}
LEARNERS = SPECS["learners"]
FOREST = {"kind": "random_forest", "count": 2, "trees": 50, "max_features": 0.5}
MART = {"kind": "mart", "leaves": 15}
PER_LAYER = {"resampling": "per_layer"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {},
            "4 learners × 5 folds = 20 fits a layer (to score it: up to 40 in layer 1, then 80), "
            "up to 10 layers\nWith more than 4 classes: 2 learners × 5 folds = 10 fits a layer (to "
            "score it: up to 20 in layer 1, then 40)",
        ),
        (
            {"select_features": 9},
            "4 learners × 5 folds = 20 fits a layer (to score it: up to 80), up to 10 layers\n"
            "With more than 4 classes: 2 learners × 5 folds = 10 fits a layer (to score it: up to "
            "40)",
        ),
        (
            {"class_vectors": "oob"},
            "3 learners out of bag + 1 learner × 5 folds = 8 fits a layer (to score it: up to 25 "
            "in layer 1, then 35), up to 10 layers\nWith more than 4 classes: 2 learners out of "
            "bag = 2 fits a layer (to score it: up to 10)",
        ),
        (
            {"learners": [FOREST, MART], "folds": 2},
            "3 learners × 2 folds = 6 fits a layer (to score it: up to 12), up to 10 layers",
        ),
        (
            {"folds": 3, "max_layers": 1} | PER_LAYER,
            "4 learners × 3 folds = 12 fits a layer, up to 1 layer\n"
            "With more than 4 classes: 2 learners × 3 folds = 6 fits a layer",
        ),
        (
            {"class_vectors": "oob"} | PER_LAYER,
            "3 learners out of bag + 1 learner × 5 folds = 8 fits a layer, up to 10 layers\n"
            "With more than 4 classes: 2 learners out of bag = 2 fits a layer",
        ),
        (
            {"preset": "gcforest", "class_vectors": "oob"} | PER_LAYER,
            "4 learners out of bag = 4 fits a layer, up to 10 layers",
        ),
        (
            {"preset": "mart_cascade", "class_vectors": "oob"} | PER_LAYER,
            "4 learners × 5 folds (MART has no bags) = 20 fits a layer, up to 10 layers",
        ),
        (
            {"learners": [{"kind": "mart"}]} | PER_LAYER,
            "1 learner × 5 folds = 5 fits a layer, up to 10 layers",
        ),
        (
            {"learners": []} | PER_LAYER,
            "4 learners × 5 folds = 20 fits a layer, up to 10 layers\n"
            "With more than 4 classes: 2 learners × 5 folds = 10 fits a layer",
        ),
        (
            {"learners": [FOREST, MART], "class_vectors": "oob", "folds": 7} | PER_LAYER,
            "2 learners out of bag + 1 learner × 7 folds = 9 fits a layer, up to 10 layers",
        ),
        (
            {"preset": "mddf_sf", "folds": None} | PER_LAYER,
            "4 learners × 5 folds = 20 fits a layer, up to 10 layers",
        ),
        ({"resampling": "x"}, None),
        ({"learners": [{"kind": "oak"}]}, None),
        ({"learners": [{"kind": "mart", "count": 0}]}, None),
        ({"learners": [5]}, None),
        ({"learners": "x"}, None),
        ({"folds": "five"}, None),
        ({"max_layers": True}, None),
        ({"class_vectors": "x"}, None),
        ({"preset": "oak"}, None),
    ],
)
def test_what_settings_amount_to(params: dict[str, Any], said: str | None):
    assert fit_count_text(params) == said


FEW_TREES = [{**FOREST, "trees": 2}, {**MART, "trees": 2}]


@pytest.mark.parametrize("select", [None, 2])
@pytest.mark.parametrize("folds", [2, 3, 4])
@pytest.mark.parametrize("vectors", ["folds", "oob"])
@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
def test_the_sum_is_what_the_library_fits(
    resampling: str, vectors: str, folds: int, select: int | None
):
    """Two layers: as many fits start in each as the line says."""
    params = {"resampling": resampling, "class_vectors": vectors, "folds": folds}
    said = fit_count_text({**params, "learners": FEW_TREES, "select_features": select})
    own = DeepForestParams(learners=FEW_TREES).learners
    model = CascadeForestClassifier(
        [_learner_params(one) for one in own],
        resampling=resampling,
        class_vectors=vectors,
        cv=folds,
        selector=select and MartSelector(select, n_estimators=2),
        scoring=keeps_every_layer(),
        max_layers=2,
        random_state=0,
    )
    started: Counter[tuple[int, bool]] = Counter()

    def count(event: FitEvent) -> None:
        if event.state == "started":
            layer = int(event.place[0].rpartition(" ")[2])
            started[layer, event.place[0].startswith("Model")] += 1

    model.fit(*load_iris(return_X_y=True), listener=count)
    first, later = started[1, False], started[2, False]
    text = f"= {first} fits a layer, up to"
    if resampling == "nested":
        assert started[1, True] == started[2, True]
        scored = f"{first}" if first == later else f"{first} in layer 1, then {later}"
        text = f"= {started[1, True]} fits a layer (to score it: up to {scored})"
    assert text in (said or "")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_told_as_the_library_has_it(name: str):
    info = preset_info(name)
    assert info is not None and info.description == PRESETS[name].description
    assert bool(info.paper) == (name != "default")
    wanted = preset(name).learners
    if wanted is not None:
        checked = DeepForestParams(learners=list(info.learners)).learners
        assert make_learners(wanted) == make_learners([_learner_params(one) for one in checked])
    shape = [8, 8] if name == "gcforest_cs_scan" else []
    DeepForestParams(preset=name, learners=list(info.learners), scan_shape=shape)
    learners = (*info.learners, *info.learners_of_many_classes)
    assert all(learner_text(LEARNERS, one) for one in learners)


def test_presets_are_named_as_in_the_library():
    assert SPECS["preset"].hint.words == {name: each.title for name, each in PRESETS.items()}
    assert set(SPECS["preset"].choices) == set(PRESETS)


@pytest.mark.parametrize(
    ("learner", "text"),
    [
        ({"kind": "extra_trees"}, "1 × Extra trees · 100 trees · √ features"),
        (FOREST, "2 × Random forest · 50 trees · 0.5 of features"),
        (MART, "1 × MART · 50 trees · rate 0.1 · leaves 15"),
        # It has no effect there.
        (
            {"kind": "completely_random_forest", "max_features": "all"},
            "1 × Completely random forest · 100 trees",
        ),
        (
            {"kind": "random_forest", "max_features": "log2", "max_depth": 8},
            "1 × Random forest · 100 trees · log₂ features · depth 8",
        ),
    ],
)
def test_a_learner_is_put_in_a_line(learner: dict[str, Any], text: str):
    assert learner_text(LEARNERS, learner) == text


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "as the preset"),
        ({"seed": 3}, "as the preset"),
        ({"folds": 3, "max_layers": 5}, "3 folds, max 5 layers"),
        ({"max_layers": 1}, "max 1 layer"),
        ({"metric": "auc", "folds": None}, "metric for growth AUC"),
        ({"class_vectors": "oob"}, "class vectors out of bag (faster)"),
        ({"folds": "x"}, "x folds"),
    ],
)
def test_a_part_says_what_differs_from_the_preset(params: dict[str, Any], text: str):
    names = ["folds", "max_layers", "metric", "class_vectors"]
    assert differences(params, SPECS, names) == text


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({}, True),
        # There is a cascade for each fold.
        ({"class_vectors": "oob", "learners": [FOREST]}, True),
        # MART is among the default's learners.
        ({"class_vectors": "oob"} | PER_LAYER, True),
        ({"class_vectors": "oob", "preset": "gcforest"} | PER_LAYER, False),
        ({"class_vectors": "oob", "learners": [FOREST]} | PER_LAYER, False),
        ({"class_vectors": "oob", "learners": [FOREST, MART]} | PER_LAYER, True),
        ({"class_vectors": "oob", "learners": ["x", {"kind": 5}]} | PER_LAYER, True),
    ],
)
def test_folds_matter_unless_one_cascade_has_bags_only(params: dict[str, Any], needed: bool):
    assert needs_folds(params) is needed


def test_cards_are_edited_as_plain_lists():
    assert moved(["a", "b", "c"], 0, 1) == ["b", "a", "c"]
    assert moved(["a", "b"], 0, -1) == ["a", "b"]
    assert moved(["a", "b"], 5, -1) == ["a", "b"]
    assert copied(["a", "b"], 0) == ["a", "a", "b"]
    assert removed(["a", "b"], 0) == ["b"]
    assert with_kind(FOREST, "mart", SPECS["learners"]) == {"kind": "mart", "count": 2, "trees": 50}
    assert with_kind(MART, "extra_trees", SPECS["learners"]) == {"kind": "extra_trees"}


# The form


OF_DEFAULT = [
    {"kind": "random_forest"},
    {"kind": "extra_trees"},
    {"kind": "completely_random_forest"},
    {"kind": "mart", "trees": 100},
]


def test_an_edit_of_the_presets_learners_writes_them_down(draw):
    form = draw("deep-forest")
    assert "1 × Completely random forest · 100 trees" in form.said
    assert "= 20 fits" in form.said and "With more than 4 classes: 2 × Extra trees" in form.said
    assert form.open_card(3).params == {}
    assert form.find("Kind").value == "mart"
    form.give("Max layers", "3")
    assert form.params == {"max_layers": 3}
    assert form.give("Leaves", 9)["learners"] == [*OF_DEFAULT[:3], {**OF_DEFAULT[3], "leaves": 9}]
    assert form.press("learners.preset") == {"max_layers": 3}
    moved_up = form.press("learners.3.move-up")["learners"]
    assert [each["kind"] for each in moved_up[2:]] == ["mart", "completely_random_forest"]
    form.press("learners.preset")
    assert form.press("learners.0.remove")["learners"] == OF_DEFAULT[1:]


def test_cards_are_added_moved_copied_and_removed(draw):
    form = draw("deep-forest", learners=[FOREST, MART], seed=4)
    assert "Trees" not in form.labels
    assert form.open_card(0).find("Trees").value == 50
    assert form.press("learners.0.move-down")["learners"] == [MART, FOREST]
    assert form.open_cards == [1]
    assert [form.find("Kind").value, form.find("Trees").value] == ["random_forest", 50]
    form.open_card(0)
    assert [form.find("Kind").value, form.find("Leaves").value] == ["mart", 15]
    assert form.press("learners.1.move-up")["learners"] == [FOREST, MART]
    assert form.press("learners.1.copy")["learners"] == [FOREST, MART, MART]
    assert form.press("learners.0.remove")["learners"] == [MART, MART]
    assert form.press("learners.add")["learners"] == [MART, MART, {"kind": "random_forest"}]
    assert form.open_cards == [0, 1, 2] and "Features per split" in form.labels
    for _ in range(3):
        form.press("learners.0.remove")
    assert form.params == {"seed": 4}


def test_the_buttons_of_a_row_have_names(draw):
    form = draw("deep-forest", learners=[FOREST, MART])
    names = [button.label for button in form.app.button]
    for label in ("Move up", "Move down", "Copy", "Remove"):
        assert f"{label} learner 1" in names and f"{label} learner 2" in names
    assert "Add a learner" in names


def test_a_list_that_is_full_takes_no_more_cards(draw):
    form = draw("deep-forest", learners=[MART] * 20)
    buttons = {button.label: button for button in form.app.button}
    assert buttons["Copy learner 1"].disabled and "Add a learner" not in buttons


def test_changing_the_kind_keeps_what_both_kinds_share(draw):
    form = draw("deep-forest", learners=[FOREST]).open_card(0)
    assert form.give("Kind", "mart") == {"learners": [{"kind": "mart", "count": 2, "trees": 50}]}
    assert "Features per split" not in form.labels
    assert form.give("Leaves", 63)["learners"][0]["leaves"] == 63
    assert form.give("Kind", "extra_trees") == {
        "learners": [{"kind": "extra_trees", "count": 2, "trees": 50}]
    }


def test_a_wrong_card_is_kept_and_can_be_mended(draw):
    form = draw(
        "deep-forest",
        learners=[
            {"kind": "oak"},
            {"kind": "mart", "max_features": 1},
            {"kind": "mart", "trees": 0},
        ],
    )
    assert "'oak'" in form.said and "max_features" in form.said and len(form.problems) == 3
    assert "fits a layer" not in form.said
    form.give("Learner 1", '{"kind": "mart"}')
    form.open_card(1).press("learners.1.max_features.remove")
    form.open_card(2).give("Trees", 9, 1)
    assert form.params == {
        "learners": [{"kind": "mart"}, {"kind": "mart"}, {"kind": "mart", "trees": 9}]
    }
    assert "= 15 fits" in form.said and form.problems == []


@pytest.mark.parametrize(
    ("chosen", "shown", "hidden"),
    [
        ("default", set(), {"Target margin γ", "Error share a"}),
        ("mddf", {"Target margin γ", "Trade-off μ", "Depth step"}, {"Error share a"}),
        ("gcforest_cs", {"Error share a", "Growth of trees"}, {"Depth step"}),
    ],
)
def test_parts_follow_the_preset(draw, chosen: str, shown: set[str], hidden: set[str]):
    form = draw("deep-forest")
    form.give("Preset", chosen)
    assert shown <= set(form.labels) and not hidden & set(form.labels)


@pytest.mark.parametrize(
    ("chosen", "label", "placeholder"),
    [
        ("default", "Folds", "preset: 5"),
        ("default", "Metric for growth", "preset: Log loss"),
        ("default", "Validation", "preset: on rows that no layer has seen"),
        ("mart_cascade", "Metric for growth", "preset: AUC"),
        ("default", "Patience", "preset: 1"),
        ("mddf", "Patience", "preset: 1"),
        ("mddf", "Depth step", "preset: automatic"),
        ("mddf", "Target margin γ", "preset: automatic"),
        ("mddf_st", "Input of the next layer", "preset: predictions only"),
        ("gcforest_cs", "Growth of trees", "preset: 0.5"),
        ("gcforest_cs", "Folds", "preset: 3"),
        ("gcforest_cs", "Features to keep", "all"),
    ],
)
def test_an_empty_field_shows_what_the_preset_has(draw, chosen: str, label: str, placeholder: str):
    field = draw("deep-forest", preset=chosen).find(label)
    assert placeholder in (field.placeholder, *getattr(field, "options", ()))


def test_a_margin_setting_is_a_number_or_auto(draw):
    form = draw("deep-forest", preset="mddf", gamma=0.9)
    assert form.find("Target margin γ").value == "0.9"
    assert form.give("Target margin γ", "automatic") == {"preset": "mddf", "gamma": "auto"}
    assert form.find("Target margin γ").value == "automatic"
    assert form.give("Target margin γ", "0.75") == {"preset": "mddf", "gamma": 0.75}
    assert form.problems == []
    assert form.give("Target margin γ", None) == {"preset": "mddf"}


def test_how_scores_are_made_is_a_choice_in_words(draw):
    form = draw("deep-forest")
    field = form.find("Validation")
    assert field.options[1:] == [
        "on rows that no layer has seen",
        "out-of-fold (as in the papers)",
    ]
    assert form.give("Validation", "per_layer") == {"resampling": "per_layer"}
    assert "4 learners × 5 folds" in form.said
    metric = form.find("Metric for growth")
    assert metric.options[0] == "preset: AUC or accuracy, as in the paper"


def test_titles_of_presets_are_readable(draw):
    assert draw("deep-forest").find("Preset").options == [
        PRESETS[name].title for name in SPECS["preset"].choices
    ]


def test_a_setting_of_another_preset_stays_to_be_taken_out(draw):
    form = draw("deep-forest", gamma=0.4)
    (problem,) = form.problems
    assert problem.field == "gamma" and problem.message.lower() in form.said.lower()
    assert form.give("Target margin γ", "") == {}
    assert "Target margin γ" not in form.labels


def test_other_forms_do_without_the_learning_library():
    import subprocess
    import sys

    slow = "{'deepforest.presets', 'numba', 'sklearn', 'lightgbm'}"
    code = f"import ui.studio.forms.node_form, sys; assert not {slow} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_word_that_is_no_choice_is_not_taken_for_one(draw):
    form = draw("deep-forest", preset="gcforest")
    assert form.give("Metric for growth", "preset: Log loss") == {"preset": "gcforest"}
    assert form.give("Metric for growth", "ks") == {"preset": "gcforest", "metric": "ks"}


def test_columns_of_an_image_propose_its_shape(draw_document):
    nodes = {
        "load": {"type": "load-data", "params": {"source": "sample:digits"}},
        "forest": {"type": "deep-forest"},
    }
    form = draw_document("forest", nodes, ("load.table", "forest.table"))
    form.press("scan_shape.propose")
    assert form.params == {"scan_shape": [8, 8]}
    assert "Window sizes" in form.labels and form.problems == []
    form.give("Shape of a row", "8, 9")
    assert form.params == {"scan_shape": [8, 9]}
    assert [problem.field for problem in form.problems] == ["scan_shape"]
