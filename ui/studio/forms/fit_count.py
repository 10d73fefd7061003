"""Say how much a deep forest trains: the settings of its preset, and the number of fits per layer.

- ``preset_info``     a preset's description, paper, learners and params, named as in the node
- ``learner_text``    a learner in one line
- ``needs_folds``     whether the number of folds has an effect
- ``fit_count_text``  "4 learners × 5 folds = 20 fits a layer (to score it: up to 40 in layer 1,
  then 80), up to 10 layers"

The learning library is imported when it is first needed: it takes a moment to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from engine.text import counted
from ui.studio.forms.fields import FieldSpec, applies, specs_of

MAIN_SETTINGS = {"max_features": "{}", "learning_rate": "rate {}"}
"""The settings that the line of a learner always names, and how."""
LearnerParams = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class PresetInfo:
    """Describe a preset as the form shows it."""

    description: str
    paper: str
    params: Mapping[str, Any]
    learners: LearnerParams
    learners_of_many_classes: LearnerParams
    """Its learners with more than ``max_classes`` classes; the same for most presets."""
    max_classes: int


@lru_cache(maxsize=32)
def preset_info(name: str) -> PresetInfo | None:
    """Return what the form shows of a preset, ``None`` for an unknown name."""
    from deepforest.cascade import DEFAULT, DEFAULT_OF_MANY_CLASSES, MART_CLASSES
    from deepforest.presets import PRESETS
    from nodes.deep_forest import NAMES

    if name not in PRESETS:
        return None
    names = {setting: name for name, setting in NAMES.items()}
    # Not by ``preset``, which asks for the shape of a row if the preset scans.
    settings = PRESETS[name].kind(**PRESETS[name].params).get_params(deep=False)
    learners = settings.pop("learners")
    params = {names.get(setting, setting): value for setting, value in settings.items()}
    many = learners
    # The default preset chooses its learners by the number of classes.
    if learners is None:
        learners, many = DEFAULT, DEFAULT_OF_MANY_CLASSES
    return PresetInfo(
        PRESETS[name].description,
        PRESETS[name].paper,
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
    fields = learner_spec().variants[settings["kind"]]
    defaults = {spec.name: spec.default for spec in fields}
    params = {}
    for setting, value in settings.items():
        name = names.get(setting, setting)
        if name == "kind" or (name in defaults and value != defaults[name]):
            params[name] = value
    return params


def learner_spec() -> FieldSpec:
    """Return the field that holds the learners of a deep forest."""
    from nodes.deep_forest import DeepForestParams

    return next(spec for spec in specs_of(DeepForestParams) if spec.name == "learners")


def learner_text(spec: FieldSpec, learner: Mapping[str, Any]) -> str:
    """Return ``2 × Random forest · 500 trees · √ features``, then what else is not the default."""
    specs = {inner.name: inner for inner in spec.variants[learner["kind"]]}
    values = {name: learner.get(name, inner.default) for name, inner in specs.items()}
    parts = [f"{values['count']} × {spec.kinds[learner['kind']]}", f"{values['trees']} trees"]
    for name, template in MAIN_SETTINGS.items():
        if name in specs and applies(specs[name], learner, tuple(specs.values())):
            parts.append(template.format(_share_text(specs[name], values[name])))
    for name, inner in specs.items():
        is_named = name in ("count", "trees", *MAIN_SETTINGS)
        if not is_named and values[name] != inner.default:
            parts.append(f"{inner.title.lower()} {inner.text_of(values[name])}")
    return " · ".join(parts)


def _share_text(spec: FieldSpec, value: Any) -> str:
    """Return the value of a main setting; a share of the features as such."""
    text = spec.text_of(value)
    return f"{text} of features" if spec.kind == "mixed" and value not in spec.choices else text


# How many fits


def needs_folds(params: Mapping[str, Any]) -> bool:
    """Return whether the number of folds has an effect.

    It has none if there is one cascade, and all its learners have bags.
    """
    info = preset_info(str(params.get("preset", "default")))
    resampling = _setting(params, info, "resampling") if info else params.get("resampling")
    if resampling != "per_layer" or params.get("class_vectors") != "oob":
        return True
    learners = params.get("learners") or (info.learners if info else ())
    return any(not _has_bags(each.get("kind")) for each in learners if isinstance(each, dict))


def _has_bags(kind: Any) -> bool:
    """Return whether a kind of learner leaves out rows that can then evaluate it."""
    from deepforest.learners import LEARNERS

    return isinstance(kind, str) and kind in LEARNERS and LEARNERS[kind].out_of_bag


def fit_count_text(params: Mapping[str, Any]) -> str | None:
    """Return how much a deep forest trains: learners, folds and layers in one line.

    A second line says it for more classes, if the learners are others then. ``None`` while a
    setting that it depends on is wrong.
    """
    info = preset_info(str(params.get("preset", "default")))
    if info is None:
        return None
    folds = _positive_integer(_setting(params, info, "folds"))
    layers = _positive_integer(_setting(params, info, "max_layers"))
    vectors = _setting(params, info, "class_vectors")
    counts = _learner_counts(params.get("learners") or info.learners)
    resampling = _setting(params, info, "resampling")
    is_wrong = vectors not in ("folds", "oob") or resampling not in ("nested", "per_layer")
    if folds is None or layers is None or counts is None or is_wrong:
        return None
    # With a selector or a scan each cascade sees other columns, so that they cannot share fits.
    sees_all = params.get("select_features") is None and not params.get("scan_shape")
    shares = sees_all and folds > 2
    fit_count = _FitCount(folds, vectors == "oob", resampling == "nested", shares)
    text = f"{fit_count.text(counts)}, up to {counted(layers, 'layer')}"
    many = _learner_counts(info.learners_of_many_classes)
    if params.get("learners") or many is None or many == counts:
        return text
    return f"{text}\nWith more than {info.max_classes} classes: {fit_count.text(many)}"


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
        if not isinstance(kind, str) or kind not in learner_spec().kinds:
            return None
        count = _positive_integer(learner.get("count", 1))
        if count is None:
            return None
        if _has_bags(kind):
            with_bags += count
        else:
            without += count
    return with_bags, without


class _FitCount(NamedTuple):
    """Count the fits of learners; ``counts`` says how many of them have bags, and how many not."""

    folds: int
    out_of_bag: bool
    nested: bool
    shares: bool
    """Whether cascades share the fits of layer 1: one without each pair of folds."""

    def text(self, counts: tuple[int, int]) -> str:
        """Return learners and fits in words."""
        once = self._fits(counts, self.folds)
        text = f"{self._terms(counts)} = {counted(once, 'fit')} a layer"
        if not self.nested:
            return text
        # A cascade is blind to one fold and learns the others; one of two folds is divided again.
        inner = max(self.folds - 1, 2)
        later = self._fits(counts, inner, self.folds)
        first = self._fits(counts, inner, self.folds, self.shares)
        scored = f"{first:,}" if first == later else f"{first:,} in layer 1, then {later:,}"
        # With many rows fewer cascades are scored.
        return f"{text} (to score it: up to {scored})"

    def _fits(
        self, counts: tuple[int, int], folds: int, cascades: int = 1, shared: bool = False
    ) -> int:
        """Return the number of fits in a layer of some cascades.

        Out of bag, a learner with bags is fitted once per cascade; every other learner once per
        fold of each cascade. A ``shared`` fit serves two cascades.
        """
        with_bags, without = counts
        by_fold = cascades * folds // (2 if shared else 1)
        return with_bags * (cascades if self.out_of_bag else by_fold) + without * by_fold

    def _terms(self, counts: tuple[int, int]) -> str:
        """Return what the fits of a single cascade are made of: learners and folds."""
        with_bags, without = counts
        total, folds = counted(with_bags + without, "learner"), counted(self.folds, "fold")
        if not self.out_of_bag:
            return f"{total} × {folds}"
        if not without:
            return f"{total} out of bag"
        if not with_bags:
            return f"{total} × {folds} (MART has no bags)"
        once, per_fold = counted(with_bags, "learner"), counted(without, "learner")
        return f"{once} out of bag + {per_fold} × {folds}"
