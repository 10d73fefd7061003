from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from engine.node_types import NodeParams, form_hint, load_catalog
from nodes.deep_forest import DeepForestParams
from nodes.load_data import LoadDataParams
from ui.studio.forms.fields import FieldSpec, applies, display_text, specs_of


class Oak(NodeParams):
    kind: Literal["oak"]
    age: int = Field(100, ge=1, title="Age")


class Pine(NodeParams):
    kind: Literal["pine", "fir"]
    height: float = Field(2.5, gt=0)


class Everything(NodeParams):
    flag: bool = Field(True, title="Flag", description="On or off.")
    maybe: bool | None = None
    count: int = Field(3, ge=1, lt=10)
    share: float = Field(0.5, gt=0, le=1)
    limit: Annotated[int, Field(ge=2, le=50)] | None = None
    name: str = Field("x", max_length=9)
    needed: str
    mode: Literal["a", "b"] = "b"
    maybe_mode: Literal["a", "b"] | None = None
    columns: Literal["sqrt", "all"] | Annotated[float, Field(gt=0, le=1)] = "sqrt"
    roles: dict[str, Literal["id", "time"]] = Field(default_factory=dict)
    weights: dict[str, float] = Field(default_factory=dict)
    class_weights: Literal["none"] | dict[str, float] = "none"
    names: list[str] = Field(["", "NA"])
    kinds: list[Literal["x", "y"]] = Field([])
    layers: list[int] = Field([100])
    trees: list[Annotated[Oak | Pine, Field(discriminator="kind")]] = Field(
        default_factory=list, max_length=4
    )
    day: date | None = None
    odd: dict[str, list[int]] = Field(default_factory=dict)
    anything: Any = None


SPECS = {spec.name: spec for spec in specs_of(Everything)}


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("flag", {"kind": "switch", "title": "Flag", "help": "On or off.", "default": True}),
        ("maybe", {"kind": "switch", "optional": True, "default": None}),
        ("count", {"kind": "integer", "minimum": 1, "maximum": 9, "default": 3, "integer": True}),
        ("share", {"kind": "number", "minimum": 0, "maximum": 1, "default": 0.5, "integer": False}),
        ("limit", {"kind": "integer", "minimum": 2, "maximum": 50, "optional": True}),
        ("name", {"kind": "text", "default": "x", "required": False}),
        ("needed", {"kind": "text", "required": True}),
        ("mode", {"kind": "choice", "choices": ("a", "b"), "default": "b", "optional": False}),
        ("maybe_mode", {"kind": "choice", "choices": ("a", "b"), "optional": True}),
        (
            "columns",
            {
                "kind": "mixed",
                "choices": ("sqrt", "all"),
                "minimum": 0,
                "maximum": 1,
                "default": "sqrt",
            },
        ),
        ("roles", {"kind": "table", "choices": ("id", "time"), "default": {}}),
        ("weights", {"kind": "table", "choices": (), "integer": False}),
        ("class_weights", {"kind": "choice or table", "choices": ("none",), "default": "none"}),
        ("names", {"kind": "texts", "default": ["", "NA"]}),
        ("kinds", {"kind": "choices", "choices": ("x", "y")}),
        ("layers", {"kind": "numbers", "integer": True, "default": [100]}),
        ("trees", {"kind": "cards", "tag": "kind", "max_items": 4, "default": []}),
        ("day", {"kind": "text", "optional": True}),
        ("odd", {"kind": "json", "default": {}}),
        ("anything", {"kind": "json"}),
    ],
)
def test_a_field_is_read_from_the_model(name: str, about: dict[str, Any]):
    assert {key: getattr(SPECS[name], key) for key in about} == about


def test_cards_know_the_fields_of_each_kind_in_the_order_of_the_model():
    variants = SPECS["trees"].variants
    assert list(variants) == ["oak", "pine", "fir"]
    assert [(spec.name, spec.kind, spec.default) for spec in variants["oak"]] == [
        ("age", "integer", 100)
    ]
    assert variants["pine"] == variants["fir"]


def test_a_model_without_a_schema_is_given_as_json():
    class Odd(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        thing: slice = slice(1)

    assert [(spec.name, spec.kind) for spec in specs_of(Odd)] == [("thing", "json")]


def test_no_built_in_field_needs_json():
    kinds = {
        spec.kind for node_type in load_catalog().values() for spec in specs_of(node_type.params)
    }
    assert "json" not in kinds and {"cards", "mixed", "choice or table", "table", "texts"} <= kinds


def test_hints_come_along_only_as_far_as_they_are_given():
    assert form_hint() == {"x-form": {}}
    assert form_hint(choose="column", when={"a": "x*", "b": ("y", "!z")}, folded=True) == {
        "x-form": {"choose": "column", "when": {"a": ["x*"], "b": ["y", "!z"]}, "folded": True}
    }
    hints = {spec.name: spec.hint for spec in specs_of(LoadDataParams)}
    assert (hints["source"].choose, hints["target"].choose, hints["roles"].choose) == (
        "file",
        "column",
        "columns",
    )
    assert hints["max_columns"].folded and not hints["source"].folded


@pytest.mark.parametrize(
    ("model", "name", "params", "of_use"),
    [
        (DeepForestParams, "gamma", {}, False),
        (DeepForestParams, "gamma", {"preset": "mddf_sf"}, True),
        (DeepForestParams, "gamma", {"preset": ["odd"]}, False),
        (DeepForestParams, "tree_growth", {"preset": "gcforest"}, False),
        (DeepForestParams, "tree_growth", {"preset": "gcforest_cs"}, True),
        (DeepForestParams, "folds", {}, True),
        (DeepForestParams, "seed", {}, True),
        (LoadDataParams, "fraud_share", {}, False),
        (LoadDataParams, "fraud_share", {"source": "sample:fraud"}, True),
        (LoadDataParams, "delimiter", {}, False),
        (LoadDataParams, "delimiter", {"source": "a.csv"}, True),
        (LoadDataParams, "delimiter", {"source": "a.dat"}, True),
        (LoadDataParams, "delimiter", {"source": "a.parquet"}, False),
        (LoadDataParams, "delimiter", {"source": "a.dat", "format": "libsvm"}, False),
    ],
)
def test_a_field_is_of_use_when_the_others_say_so(
    model: Any, name: str, params: dict[str, Any], of_use: bool
):
    specs = specs_of(model)
    spec = next(spec for spec in specs if spec.name == name)
    assert applies(spec, params, specs) is of_use


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (None, "none"),
        ([], "none"),
        (0.0, "0"),
        (0.05, "0.05"),
        (7, "7"),
        (["", "NA"], "(empty), NA"),
    ],
)
def test_values_are_put_in_words(value: Any, words: str):
    assert display_text(value) == words


def test_the_default_in_words_is_empty_where_there_is_none():
    assert FieldSpec("a", "A", "text", required=True).default_text == ""
    assert FieldSpec("a", "A", "integer", default=5).default_text == "5"
