"""The sweep of one node: the combinations of values that it stands for.

- ``combinations``  the values of each branch
- ``branches``      the node once for each of them
- ``with_choices``, ``without_choices``  a sweep with other values for a parameter, or without it
- ``how_many``      how many there will be, known without listing them
- ``node_sweep_problems``  what is wrong with the sweep, or with the parameters of a branch
- ``branch_words``, ``param_words``, ``brief``  branches, parameters and values in few letters
- ``param_title``, ``symbol``  a parameter as the form calls it, or without knowing the form
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from random import Random
from typing import Any, get_args

from pydantic import BaseModel, JsonValue, ValidationError

from engine.node_types import NodeType
from engine.params import Types, node_problems, place_of, type_problem
from engine.pipeline import MAX_BRANCHES, Node, Range, Sweep, changed
from engine.problems import BadSweep, InvalidPipeline, Problem, shown

MOST_TOLD = 50
"""Problems of the branches of one node; the rest would say the same of other values."""

NOT_WHOLE = ("int_from_float", "int_type")
"""What pydantic says of 2.5 where a whole number belongs."""

LONGEST_VALUE = 28
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "rho": "ρ", "sigma": "σ", "tau": "τ", "omega": "ω",
}  # fmt: skip

Values = dict[str, JsonValue]
"""What the swept parameters of a node are in one branch, by their names."""


# The branches


def swept(sweep: Sweep) -> Mapping[str, Sequence[JsonValue] | Range]:
    """The parameters that are swept, with what is to be tried for each."""
    return sweep.random or sweep.grid


def with_choices(sweep: Sweep | None, param: str, choice: Sequence[JsonValue] | Range) -> Sweep:
    """The sweep with these values for a parameter; a new one is a grid."""
    sweep = sweep or Sweep()
    part = "random" if sweep.random else "grid"
    return changed(sweep, **{part: {**getattr(sweep, part), param: choice}})


def without_choices(sweep: Sweep | None, param: str) -> Sweep | None:
    """The sweep without a parameter and all inside it; none if no other is left."""
    if sweep is None:
        return None
    part = "random" if sweep.random else "grid"
    rest = {name: choice for name, choice in swept(sweep).items() if name != param and not name.startswith(f"{param}.")}
    return changed(sweep, **{part: rest}) if rest else None


def branches(name: str, node: Node, catalogue: Types) -> list[Node]:
    """The node once for each combination of its values; itself if it has no sweep."""
    if node.sweep is None:
        return [node]
    return [
        changed(node, ("nodes", name), params=with_values(node.params, values), sweep=None)
        for values in combinations(name, node, catalogue)
    ]


def combinations(name: str, node: Node, catalogue: Types) -> list[Values]:
    """The values of each branch, the last parameter changing fastest; ``InvalidPipeline`` if that cannot be."""
    problems = list(_shape_problems(name, node, catalogue))
    if problems or node.sweep is None:
        raise InvalidPipeline(problems)
    return _drawn(node, catalogue[node.type]) if node.sweep.random else _grid(node.sweep.grid)


def how_many(sweep: Sweep) -> int:
    """How many branches there will be at most."""
    if not sweep.random:
        return math.prod(len(values) for values in sweep.grid.values())
    lists = [each for each in sweep.random.values() if not isinstance(each, Range)]
    different = math.prod(map(len, lists)) if len(lists) == len(sweep.random) else sweep.trials
    return min(sweep.trials, different)


def _grid(choices: Mapping[str, Sequence[JsonValue]]) -> list[Values]:
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def with_values(params: Mapping[str, JsonValue], values: Values) -> dict[str, JsonValue]:
    """The parameters with swept values in their places; ``LookupError`` where there is no such place."""
    after: Any = dict(params)
    for name, value in values.items():
        after = _put(after, name.split("."), value)
    return dict(after)


def _put(container: Any, steps: Sequence[str], value: JsonValue) -> JsonValue:
    if not steps:
        return value
    step, *rest = steps
    match container:
        case list() if re.fullmatch("[0-9]{1,4}", step) and int(step) < len(container):
            at = int(step)
            return [*container[:at], _put(container[at], rest, value), *container[at + 1 :]]
        case dict() if step in container or not rest:
            return {**container, step: _put(container.get(step), rest, value)}
    raise LookupError(step)


# Drawing at random


def _drawn(node: Node, node_type: NodeType) -> list[Values]:
    """As many different combinations as there are to be; all of them, if there are no more."""
    assert node.sweep is not None
    choices, trials = node.sweep.random, node.sweep.trials
    lists = {name: each for name, each in choices.items() if not isinstance(each, Range)}
    if len(lists) == len(choices) and math.prod(map(len, lists.values())) <= trials:
        return _grid(lists)
    whole = {name for name, each in choices.items() if isinstance(each, Range) and _is_whole(node, node_type, name)}
    rng = Random(node.sweep.seed)
    found: dict[str, Values] = {}
    for _ in range(50 * trials):  # a narrow range of whole numbers may not have that many
        values = {name: _draw(each, rng, whole=name in whole) for name, each in choices.items()}
        found.setdefault(json.dumps(values), values)
        if len(found) == trials:
            break
    return list(found.values())


def _draw(choice: Sequence[JsonValue] | Range, rng: Random, *, whole: bool) -> JsonValue:
    # From ``random()`` alone, whose numbers are the same in every version of Python: a resumed run draws them again.
    if not isinstance(choice, Range):
        return choice[int(rng.random() * len(choice))]
    low, high = choice.start, choice.end
    if whole:  # each whole number has as much room as the others
        low, high = low - 0.5, high + 0.5
    if choice.log:
        low, high = math.log(max(low, 0.5) if whole else low), math.log(high)
    drawn = low + rng.random() * (high - low)
    drawn = _rounded(math.exp(drawn) if choice.log else drawn, choice)
    drawn = min(max(drawn, choice.start), choice.end)
    return round(drawn) if whole else drawn


def _rounded(number: float, within: Range) -> float:
    """The number as exactly as matters in its range, so that it reads well in a label."""
    if within.log or within.start == within.end:
        return float(f"{number:.3g}")
    return round(number, 3 - math.ceil(math.log10(within.end - within.start)))


def _is_whole(node: Node, node_type: NodeType, name: str) -> bool:
    """Whether the parameter takes whole numbers only: JSON does not tell 1 from 1.0, but the type's model does."""
    assert node.sweep is not None
    drawn = {each: _some(choice) for each, choice in node.sweep.random.items()}
    params = with_values(node.params, drawn)
    try:
        node_type.params.model_validate_json(json.dumps(params))
    except ValidationError as error:
        wanting = [found for found in error.errors(include_url=False) if found["type"] in NOT_WHOLE]
        return any(".".join(map(str, place_of(found, params))) == name for found in wanting)
    except Exception:  # a validator is a package's own code
        return False
    return False


def _some(choice: Sequence[JsonValue] | Range) -> JsonValue:
    """One of the values; of a range, a number that is not whole."""
    if not isinstance(choice, Range):
        return choice[0]
    middle = (choice.start + choice.end) / 2
    return middle + 0.5 if middle.is_integer() else middle


# What can be wrong with it


def node_sweep_problems(name: str, node: Node, catalogue: Types) -> Iterator[Problem]:
    """What is wrong with a node that sweeps: with the sweep itself, else with the parameters of its branches."""
    try:
        choices = combinations(name, node, catalogue)
    except InvalidPipeline as found:
        yield from found.problems
        return
    told: dict[tuple[str | None, str], Problem] = {}
    for values in choices:
        branch = changed(node, ("nodes", name), params=with_values(node.params, values), sweep=None)
        for problem in node_problems(name, branch, catalogue):
            problem.field = _field_in_sweep(node, problem.field)
            told.setdefault((problem.field, problem.message), problem)
    yield from islice(told.values(), MOST_TOLD)


def _field_in_sweep(node: Node, field: str | None) -> str | None:
    """Where the user finds the value that is wrong: in the sweep, if it comes from there."""
    assert node.sweep is not None
    for name in swept(node.sweep):
        if field is not None and (field == name or field.startswith(f"{name}.")):
            return _field(node.sweep, name)
    return field


def _field(sweep: Sweep, name: str) -> str:
    return f"sweep.{'random' if sweep.random else 'grid'}.{name}"


def _shape_problems(name: str, node: Node, catalogue: Types) -> Iterator[Problem]:
    """What stands in the way of listing the branches."""
    unknown, sweep = type_problem(name, node, catalogue), node.sweep
    if unknown or sweep is None:
        if unknown:
            yield unknown
        return
    if sweep.grid and sweep.random:
        yield BadSweep("it has both a grid and random values; keep one of the two", node=name, field="sweep")
        return
    if not swept(sweep):
        yield BadSweep("it names no parameter; name one with its values, or remove it", node=name, field="sweep")
        return
    whole = True
    for param, choice in swept(sweep).items():
        for message in _choice_faults(node, param, choice):
            whole = False
            yield BadSweep(message, node=name, field=_field(sweep, param))
    if whole and how_many(sweep) > MAX_BRANCHES:
        yield BadSweep(
            f"it has {times(map(len, sweep.grid.values()))} branches, and there may be {MAX_BRANCHES}; "
            "give fewer values, or have some drawn at random",
            node=name,
            field="sweep",
        )


def _choice_faults(node: Node, param: str, choice: Sequence[JsonValue] | Range) -> Iterator[str]:
    assert node.sweep is not None
    if isinstance(choice, Range):
        yield from _range_faults(choice)
    elif not choice:
        yield "it has no values; give some, or remove it"
    else:
        often = Counter(map(_as_json, choice))
        repeated = [value for value in choice if often[_as_json(value)] > 1]
        if repeated:
            yield f"{shown(repeated[0])} is there more than once; keep one"
    outer = [other for other in swept(node.sweep) if param.startswith(f"{other}.")]
    if outer:
        yield f"'{outer[0]}' is swept as a whole; keep one of the two"
    elif not _has_place(node, param):
        first = param.partition(".")[0]
        yield f"the node has nothing at that place; set '{first}' first, or sweep the whole of it"


def _range_faults(choice: Range) -> Iterator[str]:
    if choice.start > choice.end:
        yield f"it leads from {choice.start:g} to {choice.end:g}; give the smaller number first"
    if choice.log and choice.start <= 0:
        yield "a range on a logarithmic scale begins above 0; raise its start, or leave 'log' out"


def _has_place(node: Node, param: str) -> bool:
    try:
        with_values(node.params, {param: None})
    except LookupError:
        return False
    return True


def _as_json(value: JsonValue) -> str:
    # 1 and 1.0 are the same value, 1 and true are not
    return json.dumps(float(value) if isinstance(value, int) and not isinstance(value, bool) else value, sort_keys=True)


def times(sizes: Iterable[int]) -> str:
    """``3 × 2 = 6``."""
    sizes = list(sizes)
    return " × ".join(f"{size:,}" for size in sizes) + (f" = {math.prod(sizes):,}" if len(sizes) > 1 else "")


# Words


def distinct_words(values: Sequence[Values], node_type: NodeType | None = None) -> list[str]:
    """The words of each branch, numbered where they would be the same."""
    words = [branch_words(each, node_type) for each in values]
    often = Counter(words)
    return [text if often[text] == 1 else f"{text} #{number}" for number, text in enumerate(words, start=1)]


def branch_words(values: Mapping[str, JsonValue], node_type: NodeType | None = None) -> str:
    """A branch in a few words: ``γ=0.6 μ=0.1``."""
    return " ".join(f"{param_words(name, node_type)}={brief(value)}" for name, value in values.items())


def param_words(param: str, node_type: NodeType | None) -> str:
    """A parameter in the midst of other words: ``γ`` for "Target margin γ", else its title, ``rows a leaf``."""
    sign, title = symbol(param), param_title(param, node_type) if node_type else ""
    if not title or (sign in SYMBOLS.values() and sign in title):
        return sign
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def param_title(param: str, node_type: NodeType) -> str:
    """What the form calls a parameter: ``Trees``, also for ``learners.0.trees``; empty if it has no title."""
    models: list[type[BaseModel]] = [node_type.params]
    title = ""
    for step in param.split("."):
        if not step.isdecimal():
            fields = [model.model_fields[step] for model in models if step in model.model_fields]
            title = next((field.title for field in fields if field.title), "")
            models = [model for field in fields for model in _models_in(field.annotation)]
    return title


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def symbol(param: str) -> str:
    """A parameter by its name alone: ``γ`` for ``gamma``, ``trees`` for ``learners.0.trees``."""
    last = next((step for step in reversed(param.split(".")) if not step.isdecimal()), param)
    return SYMBOLS.get(last, last)


def brief(value: JsonValue) -> str:
    """A value in a few letters."""
    match value:
        case str():
            text = value or "(empty)"
        case bool() | None:
            text = {True: "yes", False: "no", None: "none"}[value]
        case int() | float():
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
        case [dict(), *_]:
            text = "+".join(
                brief(next(iter(one.values()), None)) if isinstance(one, dict) else brief(one) for one in value
            )
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
