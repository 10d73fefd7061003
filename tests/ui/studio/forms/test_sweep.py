"""The sweep in a node's form: what is typed, what the document then has, and the messages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import load_catalog
from engine.pipeline import Node, Pipeline, Sweep
from ui.studio.forms.fields import FieldSpec, specs_of
from ui.studio.forms.sweep import (
    as_sweep,
    as_values,
    can_sweep,
    offered_settings,
    spec_at,
    summary,
    values_text,
    with_mode,
    with_param,
)

CATALOG = load_catalog()
FOREST = specs_of(CATALOG["random-forest"].params)
DEEP = specs_of(CATALOG["deep-forest"].params)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("trees", "5, 10,20", [5, 10, 20]),
        ("trees", "5, many", [5, "many"]),
        ("trees", "", []),
        ("trees", "5,,", [5]),
        ("max_depth", "3, none", [3, None]),
        ("max_features", "sqrt, 0.5", ["sqrt", 0.5]),
        ("max_features", "√ features, all features, 0.5", ["sqrt", "all", 0.5]),
        ("trees", "1e999", ["1e999"]),
        ("trees", "3 to 12", ["3 to 12"]),  # a grid has no ranges; the validator says so
        ("class_weights", '"none", {"a": 2, "b": 1}', ["none", {"a": 2, "b": 1}]),
    ],
)
def test_values_are_typed_with_commas_between_them(name: str, text: str, values: list[Any]):
    assert as_values(spec_at(FOREST, {}, name), text) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3 to 12", {"from": 3, "to": 12}),
        ("0.01  TO 10 log", {"from": 0.01, "to": 10, "log": True}),
        ("5, 10", [5, 10]),
        ("few to many", ["few to many"]),
    ],
)
def test_a_range_is_typed_as_one_says_it(text: str, values: Any):
    assert as_values(spec_at(FOREST, {}, "trees"), text, random=True) == values


@pytest.mark.parametrize(
    "values",
    [
        [5, 10],
        [None, 3],
        ["a, b", "none", "", "plain"],
        [[1, 2], [3]],
        {"from": 3, "to": 12, "log": True},
    ],
)
def test_what_is_shown_reads_back_as_the_same(values: Any):
    spec = specs_of(CATALOG["evaluate"].params)[1]  # optional text
    spec = (
        spec
        if values and isinstance(values, list) and "plain" in values
        else spec_at(FOREST, {}, "max_depth")
    )
    assert as_values(spec, values_text(spec, values), random=isinstance(values, dict)) == values


def test_settings_of_a_card_are_found_by_their_place():
    params = {"learners": [{"kind": "random_forest"}, {"kind": "mart"}]}
    assert spec_at(DEEP, params, "learners.1.trees").kind == "integer"
    assert spec_at(DEEP, params, "learners.1.trees").title == "Trees of MART"
    assert (
        spec_at(DEEP, {"learners": [{"kind": "mart"}] * 2}, "learners.1.trees").title
        == "Trees of MART (2)"
    )
    assert (
        spec_at(DEEP, {"learners": [None, {"kind": ["mart"]}, {}]}, "learners.1.trees").kind
        == "json"
    )
    assert spec_at(DEEP, params, "7.trees").kind == "json"
    assert spec_at(DEEP, params, "learners.7.trees").kind == "json"
    assert spec_at(DEEP, params, "nothing").title == "nothing"


def test_the_other_way_to_try_keeps_the_values():
    data = {"random": {"trees": {"from": 3, "to": 9}, "loss": ["log"]}, "trials": 4}
    assert with_mode(data, "grid") == {"grid": {"trees": [3, 9], "loss": ["log"]}}
    assert with_mode({"grid": {"trees": [3, 9]}}, "random") == {"random": {"trees": [3, 9]}}
    assert with_param({"grid": {"trees": [3]}}, "trees", [1]) == {"grid": {"trees": [3]}}
    assert as_sweep({"grid": {}, "trials": 3}) is None


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        (
            {"grid": {"trees": [1, 2, 3], "max_depth": [1, None]}},
            "6 branches: trees (3) × depth (2)",
        ),
        ({"grid": {"trees": [1]}}, "1 branch: trees (1)"),
        (
            {"random": {"trees": {"from": 3, "to": 90}}, "trials": 4},
            "4 branches, drawn from trees (3 to 90)",
        ),
        ({"grid": {"trees": []}}, ""),
    ],
)
def test_a_line_says_what_it_amounts_to(sweep: dict[str, Any], words: str):
    assert (
        summary("n", Node(type="random-forest", sweep=Sweep.model_validate(sweep)), CATALOG)
        == words
    )


@pytest.mark.parametrize(
    ("params", "taken", "there", "missing"),
    [
        (
            {"preset": "gcforest"},
            {},
            {"Max layers": "max_layers"},
            {"gamma", "mu", "error_share", "learners.0.trees"},
        ),
        (
            {"preset": "mddf"},
            {},
            {"Target margin γ": "gamma", "Trade-off μ": "mu"},
            {"error_share"},
        ),
        (
            {},
            {"preset": ["mddf", "mddf_sf"]},
            {"Target margin γ": "gamma"},
            {"preset", "error_share"},
        ),
        (
            {"learners": [{"kind": "mart"}]},
            {},
            {"Leaves of MART": "learners.0.leaves"},
            {"learners.0.max_features"},
        ),
        ({"learners": [{"kind": "mart"}]}, {"learners": []}, {}, {"learners", "learners.0.trees"}),
        (
            {"learners": [{"kind": "mart"}]},
            {"learners.0.trees": [1]},
            {"Depth of MART": "learners.0.max_depth"},
            {"learners", "learners.0.trees"},
        ),
        ({"learners": "odd"}, {}, {"Base learners": "learners"}, set()),
    ],
)
def test_what_can_be_swept_is_offered_as_the_form_calls_it(
    params: dict[str, Any], taken: dict[str, Any], there: dict[str, str], missing: set[str]
):
    offered = offered_settings(DEEP, params, taken)
    assert there.items() <= offered.items()
    assert not missing & set(offered.values())


def test_titles_that_two_fields_share_are_told_apart():
    twins = (FieldSpec("a", "Size", "integer"), FieldSpec("b", "Size", "integer"))
    assert offered_settings(twins, {}, {}) == {"Size (a)": "a", "Size (b)": "b"}
    assert offered_settings(twins, {}, {"a": [1]}) == {"Size (b)": "b"}  # the same words as before


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_nodes_that_run_for_their_effect_or_have_no_settings_cannot_sweep(name: str):
    node_type = CATALOG[name]
    assert can_sweep(Node(type=name), node_type) == (
        name not in ("save-model", "save-table") and bool(specs_of(node_type.params))
    )
    assert can_sweep(Node(type=name, sweep=Sweep.model_validate({"grid": {"a": [1]}})), node_type)


# Drawn


def app():
    import streamlit as st

    from engine.edits import revise_params, revise_sweep
    from engine.node_types import load_catalog
    from engine.validation import find_problems
    from ui.studio.forms.sweep import in_sweep, sweep_form

    state, catalog = st.session_state, load_catalog()

    def change(edit, params):  # this function is run by itself, without the imports above
        if params:
            state.document = revise_params(state.document, catalog, "node", params)
        state.document = revise_sweep(state.document, "node", edit)

    problems = [problem for problem in find_problems(state.document, catalog) if in_sweep(problem)]
    node = state.document.nodes["node"]
    sweep_form(
        "node",
        node,
        catalog,
        problems=problems,
        has_evaluation=False,
        ranked_on="rows",
        key="form",
        change=change,
    )


class Form:
    """The sweep of one node, drawn; edits go through the engine's edits as in the builder."""

    def __init__(self, node_type: str, sweep: dict[str, Any] | None = None, **params: Any) -> None:
        self.app = AppTest.from_function(app, default_timeout=60)
        made = Sweep.model_validate(sweep) if sweep else None
        node = Node(type=node_type, params=params, sweep=made)
        self.app.session_state["document"] = Pipeline(name="One", nodes={"node": node})
        self.run()

    def run(self) -> Any:
        self.app.run()
        assert not self.app.exception, self.app.exception[0].stack_trace
        return self.sweep

    @property
    def sweep(self) -> Any:
        sweep = self.app.session_state["document"].nodes["node"].sweep
        return sweep.model_dump(by_alias=True, exclude_defaults=True) if sweep else None

    @property
    def said(self) -> str:
        return "\n".join(
            one.value for kind in ("caption", "markdown") for one in self.app.get(kind)
        )

    def give(self, kind: str, label: str, value: Any) -> Any:
        next(one for one in self.app.get(kind) if one.label == label).set_value(value)
        return self.run()

    @property
    def offered(self) -> list[str]:
        return list(self.app.selectbox(key="form/sweep.add").options)

    @property
    def params(self) -> Any:
        return self.app.session_state["document"].nodes["node"].params

    def add(self, title: str) -> Any:
        self.app.selectbox(key="form/sweep.add").set_value(title)
        return self.run()

    def press(self, end: str) -> Any:
        next(one for one in self.app.button if one.key.endswith(end)).click()
        return self.run()


def test_a_sweep_is_made_changed_and_removed():
    form = Form("random-forest", trees=30)
    assert form.add("Trees") == {"grid": {"trees": [30]}}
    assert form.give("text_input", "Trees", "10, 30, 50") == {"grid": {"trees": [10, 30, 50]}}
    assert "trees (3)" in form.said and "Evaluate" in form.said
    form.add("Depth")
    assert "no values" in form.said
    assert form.give("text_input", "Depth", "2, none")["grid"]["max_depth"] == [2, None]
    assert "6 branches" in form.said and "depth (2)" in form.said
    assert form.press("max_depth.remove") == {"grid": {"trees": [10, 30, 50]}}
    assert form.press("clear") is None


def test_settings_of_the_preset_s_own_learners_can_be_swept():
    form = Form("deep-forest", preset="gcforest")
    assert {"Max layers", "Trees of Random forest"} <= set(form.offered)
    assert not {"max_layers", "Target margin γ", "Error share a"} & set(form.offered)
    assert form.add("Max layers") == {"grid": {"max_layers": []}}
    assert form.params == {"preset": "gcforest"}
    assert form.add("Trees of Random forest") == {
        "grid": {"max_layers": [], "learners.0.trees": [500]}
    }
    assert [one["kind"] for one in form.params["learners"]] == [
        "random_forest",
        "completely_random_forest",
    ]
    assert form.give("text_input", "Trees of Random forest", "5, 10")["grid"][
        "learners.0.trees"
    ] == [5, 10]
    assert "learners.0" not in form.said
    assert "Trees of Random forest" not in form.offered


def test_values_at_random_with_trials_and_seed():
    form = Form("random-forest", {"grid": {"trees": [10, 20]}})
    assert form.give("radio", "Try", "random") == {"random": {"trees": [10, 20]}}
    assert form.give("text_input", "Trees", "10 to 500") == {
        "random": {"trees": {"from": 10, "to": 500}}
    }
    assert form.give("number_input", "Trials", 4)["trials"] == 4
    assert form.give("number_input", "Seed", 7)["seed"] == 7
    assert "4 branches" in form.said and "trees (10 to 500)" in form.said
    assert form.give("radio", "Try", "grid") == {"grid": {"trees": [10, 500]}}


def test_choices_are_chosen_from_a_list():
    form = Form("split", {"grid": {"stratified": [True]}})
    assert form.give("multiselect", "Stratified", [True, False]) == {
        "grid": {"stratified": [True, False]}
    }
    deep = Form("deep-forest", {"grid": {"class_vectors": ["oob"]}})
    assert deep.give("multiselect", "Class vectors", ["oob", None]) == {
        "grid": {"class_vectors": ["oob", None]}
    }


def test_a_wrong_value_is_kept_and_its_problem_stands_below_it():
    form = Form("random-forest", {"grid": {"trees": [10]}})
    assert form.give("text_input", "Trees", "10, 0, few") == {"grid": {"trees": [10, 0, "few"]}}
    assert re.search(r"\b0\b.*\b1\b", form.said) and "'few'" in form.said


def test_what_someone_else_changed_is_shown():
    form = Form("random-forest", {"grid": {"trees": [10]}})
    pipeline = form.app.session_state["document"]
    node = Node(type="random-forest", sweep=Sweep.model_validate({"grid": {"trees": [77]}}))
    form.app.session_state["document"] = pipeline.model_copy(update={"nodes": {"node": node}})
    form.run()
    assert form.app.text_input[0].value == "77"
