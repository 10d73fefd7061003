"""What the settings of a deep forest amount to: those of its preset, and how many fits a layer takes.

- ``preset_facts``  a preset's words, learners and settings, in the words of the node's parameters
- ``learner_words`` a learner in a line
- ``needs_folds``   whether the number of folds has an effect
- ``amount``        "4 learners × 5 folds = 20 fits a layer, up to 10 layers"

The learning library is imported when it is first needed: it takes a moment to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ui.studio.forms.fields import FieldSpec, as_words, specs_of

KINDS = {
    "random_forest": "Random forest",
    "completely_random_forest": "Completely random forest",
    "extra_trees": "Extra trees",
    "mart": "MART",
}
ABOUT = {
    "default": "Three kinds of forests and, up to {most} classes, MART: best average accuracy on our benchmarks.",
    "gcforest": "The first deep forest: random and completely random forests of 500 trees, averaged.",
    "mart_cascade": "Four MARTs of 50 trees a layer, grown by AUC, as at Ant Financial.",
    "mart_cascade_tuned": "Four MARTs of 200 trees a layer, grown by AUC.",
    "mddf": "Layers are weighed and added up so that the margins of all rows come near a target γ.",
    "mddf_sf": "mdDF with four times the same random forest.",
    "mddf_st": "mdDF in which a layer sees only what the layers before said, not the columns.",
    "mddf_np": "mdDF in which a layer sees only the columns, not what the layers before said.",
    "gcforest_cs": "Rows it is sure of leave early; later layers learn from fewer rows, with more trees.",
}
Learners = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class PresetFacts:
    """A preset as the form tells it."""

    title: str
    about: str
    settings: Mapping[str, Any]
    learners: Learners
    of_many_classes: Learners
    """Its learners with more than ``most_classes`` classes; the same for most presets."""
    most_classes: int


def preset_titles() -> dict[str, str]:
    """Titles of the presets by name."""
    from deepforest.presets import PRESETS

    return {name: preset.title for name, preset in PRESETS.items()}


@lru_cache(maxsize=32)
def preset_facts(name: str) -> PresetFacts | None:
    """What is known of a preset, ``None`` if there is none of that name."""
    from deepforest.cascade import DEFAULT, DEFAULT_OF_MANY_CLASSES, MART_CLASSES
    from deepforest.presets import PRESETS, preset

    if name not in PRESETS:
        return None
    settings = preset(name).get_params(deep=False)
    wanted = settings.pop("learners")
    return PresetFacts(
        PRESETS[name].title,
        ABOUT.get(name, "").format(most=MART_CLASSES),
        settings,
        tuple(_as_params(one) for one in (DEFAULT if wanted is None else wanted)),
        tuple(_as_params(one) for one in (DEFAULT_OF_MANY_CLASSES if wanted is None else wanted)),
        MART_CLASSES,
    )


def _as_params(wanted: Any) -> dict[str, Any]:
    """A learner of the library in the words of the node's parameters, defaults left out."""
    from deepforest.learners import make_learner

    about = make_learner(wanted).about()
    if about.get("max_features", "") is None:
        about["max_features"] = "all"
    defaults = {spec.name: spec.default for spec in _learner_specs()[about["kind"]]}
    return {name: one for name, one in about.items() if name == "kind" or (name in defaults and one != defaults[name])}


def _learner_specs() -> Mapping[str, tuple[FieldSpec, ...]]:
    from nodes.deep_forest import Params

    return next(spec.variants for spec in specs_of(Params) if spec.name == "learners")


def learner_words(learner: Mapping[str, Any]) -> str:
    """``2 × Random forest, 500 trees``."""
    specs = {spec.name: spec for spec in _learner_specs()[learner["kind"]]}
    trees = learner.get("trees", specs["trees"].default)
    others = [
        f"{specs[name].title.lower()} {as_words(value)}"
        for name, value in learner.items()
        if name not in ("kind", "count", "trees")
    ]
    return ", ".join([f"{learner.get('count', 1)} × {KINDS[learner['kind']]}", f"{trees} trees", *others])


# How many fits


def needs_folds(params: Mapping[str, Any]) -> bool:
    """Whether any learner is fitted once a fold; some have no bags that rows could be out of."""
    if params.get("class_vectors") != "oob":
        return True
    facts = preset_facts(str(params.get("preset", "default")))
    learners = params.get("learners") or (facts.learners if facts else ())
    return any(not _has_bags(one.get("kind")) for one in learners if isinstance(one, dict))


def _has_bags(kind: Any) -> bool:
    from deepforest.learners import LEARNERS

    return isinstance(kind, str) and kind in LEARNERS and LEARNERS[kind].out_of_bag


def amount(params: Mapping[str, Any]) -> str | None:
    """Learners, folds and layers in a sentence; ``None`` while a setting it depends on is wrong."""
    facts = preset_facts(str(params.get("preset", "default")))
    if facts is None:
        return None
    folds, layers = (_whole(_set(params, facts, name)) for name in ("folds", "max_layers"))
    vectors = _set(params, facts, "class_vectors")
    given = params.get("learners") or facts.learners
    counts = _counts(given)
    if folds is None or layers is None or vectors not in ("folds", "oob") or counts is None:
        return None
    sum_line, fits = _sum(counts, vectors == "oob", folds)
    if not params.get("learners"):
        of_many = _sum(_counts(facts.of_many_classes) or counts, vectors == "oob", folds)[1]
        if of_many != fits:
            sum_line += f" with up to {facts.most_classes} classes, {of_many} with more"
    return f"{sum_line}, up to {_many(layers, 'layer')}"


def _set(params: Mapping[str, Any], facts: PresetFacts, name: str) -> Any:
    value = params.get(name)
    return facts.settings[name] if value is None else value


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _counts(learners: Any) -> tuple[int, int] | None:
    """How many learners have bags and how many have not; ``None`` if that cannot be told."""
    with_bags = without = 0
    for one in learners if isinstance(learners, list | tuple) else [None]:
        kind = one.get("kind") if isinstance(one, dict) else None
        known = isinstance(kind, str) and kind in KINDS
        count = _whole(one.get("count", 1)) if isinstance(one, dict) and known else None
        if count is None:
            return None
        if _has_bags(kind):
            with_bags += count
        else:
            without += count
    return with_bags, without


def _sum(counts: tuple[int, int], out_of_bag: bool, folds: int) -> tuple[str, int]:
    """The sum in words, and what it comes to."""
    with_bags, without = counts
    total = with_bags + without
    if not out_of_bag:
        fits, terms = total * folds, f"{_many(total, 'learner')} × {_many(folds, 'fold')}"
    elif not without:
        fits, terms = total, f"{_many(total, 'learner')} out of bag"
    elif not with_bags:
        fits, terms = total * folds, f"{_many(total, 'learner')} × {_many(folds, 'fold')} (MART has no bags)"
    else:
        fits = with_bags + without * folds
        terms = f"{_many(with_bags, 'learner')} out of bag + {_many(without, 'learner')} × {_many(folds, 'fold')}"
    return f"{terms} = {_many(fits, 'fit')} a layer", fits


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
