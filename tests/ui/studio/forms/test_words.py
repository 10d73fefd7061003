"""What a person reads in the forms of all node types: words for choices, short titles, help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepforest.metrics import METRIC_INFO
from nodes import NODE_TYPES
from nodes.models.metric_titles import METRIC_TITLES
from ui.studio.forms.fields import FieldSpec, specs_of
from ui.studio.forms.form import help_of

MOST_HELP = 260
"""Characters: more is not read beside a field."""


def fields(specs: tuple[FieldSpec, ...]) -> Iterator[FieldSpec]:
    """Each field, also those of cards."""
    for spec in specs:
        yield spec
        for inner in spec.variants.values():
            yield from fields(inner)


EVERY = [
    pytest.param(spec, id=f"{node_type.name}-{spec.name}")
    for node_type in NODE_TYPES
    for spec in fields(specs_of(node_type.params))
]


@pytest.mark.parametrize("spec", EVERY)
def test_every_choice_has_words(spec: FieldSpec):
    assert set(spec.choices) <= set(spec.hint.words)
    # A source is one of the samples, or any file.
    is_closed = spec.name != "source"
    assert not is_closed or set(spec.hint.words) <= set(spec.choices), "words without a choice"
    assert set(spec.kinds) == set(spec.variants)
    shown = [*spec.hint.words.values(), *spec.kinds.values()]
    assert all(words and "_" not in words for words in shown)
    assert len({*spec.hint.words.values()}) == len(spec.hint.words) or spec.name == "metric"
    for choice in spec.choices:
        assert spec.text_of(choice) == spec.hint.words[choice]


@pytest.mark.parametrize("spec", EVERY)
def test_titles_are_short_and_help_has_no_raw_values(spec: FieldSpec):
    assert spec.title and len(spec.title) <= 24 and "." not in spec.title
    assert spec.help and len(spec.help) <= MOST_HELP
    text = help_of(spec)
    assert not any(f"({choice})" in text for choice in spec.choices)
    assert "sample:" not in text and "_" not in text.replace("pixel_0_*", "")


def test_metrics_are_named_as_in_the_library():
    for name, title in METRIC_TITLES.items():
        known = "recall_at_1_in_100" if name == "recall_at_rate" else name
        assert METRIC_INFO[known].title == title


def test_words_are_those_of_the_studio():
    titles = {spec.title for node_type in NODE_TYPES for spec in fields(specs_of(node_type.params))}
    assert {"Max layers", "Features per split", "Min rows per leaf", "Threshold"} <= titles
    assert not any("step" in title.lower().split() for title in titles - {"Depth step"})
