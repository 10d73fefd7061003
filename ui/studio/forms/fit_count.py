"""Say how much a deep forest trains: the settings of its preset, and the number of fits per layer.

- ``preset_info``     a preset's title, description, learners and params, named as in the node
- ``learner_text``    a learner in one line
- ``needs_folds``     whether the number of folds has an effect
- ``fit_count_text``  "4 learners × 5 folds = 20 fits per layer, up to 10 layers"

The learning library is imported when it is first needed: it takes a moment to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.text import counted
from ui.studio.forms.fields import FieldSpec, display_text, specs_of

LEARNER_TITLES = {
    "random_forest": "Random forest",
    "completely_random_forest": "Completely random forest",
    "extra_trees": "Extra trees",
    "mart": "MART",
}
LearnerParams = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class PresetInfo:
    """Describe a preset as the form shows it."""

    title: str
    description: str
    params: Mapping[str, Any]
    learners: LearnerParams
    learners_of_many_classes: LearnerParams
    """Its learners with more than ``max_classes`` classes; the same for most presets."""
    max_classes: int


def preset_titles() -> dict[str, str]:
    """Return the titles of the presets by name."""
    from deepforest.presets import PRESETS

    return {name: preset.title for name, preset in PRESETS.items()}


@lru_cache(maxsize=32)
def preset_info(name: str) -> PresetInfo | None:
    """Return what the form shows of a preset, ``None`` for an unknown name."""
    from deepforest.cascade import DEFAULT, DEFAULT_OF_MANY_CLASSES, MART_CLASSES
    from deepforest.presets import PRESETS, preset

    if name not in PRESETS:
        return None
    params = preset(name).get_params(deep=False)
    learners = params.pop("learners")
    many = learners
    # The default preset chooses its learners by the number of classes.
    if learners is None:
        learners, many = DEFAULT, DEFAULT_OF_MANY_CLASSES
    return PresetInfo(
        PRESETS[name].title,
        PRESETS[name].description,
        params,
        tuple(_as_params(each) for each in learners),
        tuple(_as_params(each) for each in many),
        MART_CLASSES,
    )


def _as_params(learner: Any) -> dict[str, Any]:
    """Return a learner of the library as parameters of the node, without the defaults."""
    from deepforest.learners import make_learner
    from nodes.deep_forest import LEARNER_SETTINGS

    names = {setting: name for name, setting in LEARNER_SETTINGS.items()}
    settings = make_learner(learner).about()
    # ``None`` in the library is the word “all” in the node.
    if settings.get("max_features", "") is None:
        settings["max_features"] = "all"
    defaults = {spec.name: spec.default for spec in _learner_specs()[settings["kind"]]}
    params = {}
    for setting, value in settings.items():
        name = names.get(setting, setting)
        if name == "kind" or (name in defaults and value != defaults[name]):
            params[name] = value
    return params


def _learner_specs() -> Mapping[str, tuple[FieldSpec, ...]]:
    """Return the fields of each kind of learner, as the deep-forest node declares them."""
    from nodes.deep_forest import DeepForestParams

    return next(spec.variants for spec in specs_of(DeepForestParams) if spec.name == "learners")


def learner_text(learner: Mapping[str, Any]) -> str:
    """Return ``2 × Random forest, 500 trees``, with other settings that are not the defaults."""
    specs = {spec.name: spec for spec in _learner_specs()[learner["kind"]]}
    trees = learner.get("trees", specs["trees"].default)
    parts = [f"{learner.get('count', 1)} × {LEARNER_TITLES[learner['kind']]}", f"{trees} trees"]
    for name, value in learner.items():
        if name not in ("kind", "count", "trees"):
            parts.append(f"{specs[name].title.lower()} {display_text(value)}")
    return ", ".join(parts)


# How many fits


def needs_folds(params: Mapping[str, Any]) -> bool:
    """Return whether any learner is fitted once per fold.

    With out-of-bag class vectors these are the learners without bags, such as MART.
    """
    if params.get("class_vectors") != "oob":
        return True
    info = preset_info(str(params.get("preset", "default")))
    learners = params.get("learners") or (info.learners if info else ())
    return any(not _has_bags(each.get("kind")) for each in learners if isinstance(each, dict))


def _has_bags(kind: Any) -> bool:
    """Return whether a kind of learner leaves out rows that can then evaluate it."""
    from deepforest.learners import LEARNERS

    return isinstance(kind, str) and kind in LEARNERS and LEARNERS[kind].out_of_bag


def fit_count_text(params: Mapping[str, Any]) -> str | None:
    """Return how much a deep forest trains: learners, folds and layers in one line.

    ``None`` while a setting that it depends on is wrong.
    """
    info = preset_info(str(params.get("preset", "default")))
    if info is None:
        return None
    folds = _positive_integer(_setting(params, info, "folds"))
    layers = _positive_integer(_setting(params, info, "max_layers"))
    vectors = _setting(params, info, "class_vectors")
    counts = _learner_counts(params.get("learners") or info.learners)
    if folds is None or layers is None or vectors not in ("folds", "oob") or counts is None:
        return None
    text, fits = _fits_per_layer(counts, vectors == "oob", folds)
    if not params.get("learners"):
        many_counts = _learner_counts(info.learners_of_many_classes) or counts
        _, many_fits = _fits_per_layer(many_counts, vectors == "oob", folds)
        if many_fits != fits:
            text += f" with up to {info.max_classes} classes, {many_fits} with more"
    return f"{text}, up to {counted(layers, 'layer')}"


def _setting(params: Mapping[str, Any], info: PresetInfo, name: str) -> Any:
    """Return a parameter, that of the preset if it is not set."""
    value = params.get(name)
    return info.params[name] if value is None else value


def _positive_integer(value: Any) -> int | None:
    """Return the value if it is a positive integer, else ``None``."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and value > 0 else None


def _learner_counts(learners: Any) -> tuple[int, int] | None:
    """Return how many learners have bags and how many do not; ``None`` if an entry is wrong."""
    if not isinstance(learners, list | tuple):
        return None
    with_bags = without = 0
    for learner in learners:
        kind = learner.get("kind") if isinstance(learner, dict) else None
        if not isinstance(kind, str) or kind not in LEARNER_TITLES:
            return None
        count = _positive_integer(learner.get("count", 1))
        if count is None:
            return None
        if _has_bags(kind):
            with_bags += count
        else:
            without += count
    return with_bags, without


def _fits_per_layer(counts: tuple[int, int], out_of_bag: bool, folds: int) -> tuple[str, int]:
    """Return the product or sum as text, and its result.

    Out of bag, a learner with bags is fitted once; every other learner is fitted once per fold.
    """
    with_bags, without = counts
    total = with_bags + without
    fold_text = counted(folds, "fold")
    # With folds: fits = learners × folds.
    if not out_of_bag:
        fits, terms = total * folds, f"{counted(total, 'learner')} × {fold_text}"
    elif not without:
        fits, terms = total, f"{counted(total, 'learner')} out of bag"
    elif not with_bags:
        fits = total * folds
        terms = f"{counted(total, 'learner')} × {fold_text} (MART has no bags)"
    else:
        # Out of bag: fits = learners with bags + other learners × folds.
        fits = with_bags + without * folds
        once, per_fold = counted(with_bags, "learner"), counted(without, "learner")
        terms = f"{once} out of bag + {per_fold} × {fold_text}"
    return f"{terms} = {counted(fits, 'fit')} per layer", fits
