"""Say in words what the bound has chosen in a composite forest.

- ``describe_choice``  sentences about γ, saturation, the smallest degrees and fallbacks
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .leaves import FALLBACKS, LeafRecord
from .training import HeldOutRecord


def describe_choice(
    leaves: Sequence[LeafRecord], gamma: float | None, held_out: HeldOutRecord | None
) -> list[str]:
    """Return sentences about the leaves of a forest; γ is None if the bound is not used."""
    if gamma is None:
        sentences = ["Each tree has one random sequence of degrees; the bound is not used."]
    else:
        sentences = [_about_saturation(leaves, gamma)]
        if held_out is not None:
            sentences.append(_about_the_bound(held_out))
    counts = Counter(leaf.fallback for leaf in leaves if leaf.fallback)
    for fallback in FALLBACKS:
        if counts[fallback]:
            sentences.append(
                f"{counts[fallback]:,} of {len(leaves):,} leaves {FALLBACKS[fallback]}."
            )
    return sentences


def _about_saturation(leaves: Sequence[LeafRecord], gamma: float) -> str:
    """Return in how many leaves the degree has no effect on the bound."""
    n_saturated = sum(bool(leaf.saturated) for leaf in leaves)
    text = f"With γ = {gamma:g} the bound is saturated in"
    if n_saturated == len(leaves):
        return f"{text} all leaves: it selects nothing, and each tree has its smallest degrees."
    if not n_saturated:
        return f"{text} none of the {len(leaves):,} leaves."
    return (
        f"{text} {n_saturated:,} of {len(leaves):,} leaves: their degree has no effect on it, and "
        "ties go to the smaller degree."
    )


def _about_the_bound(record: HeldOutRecord) -> str:
    """Return whether the bound is better than to take the smallest degrees, on held-out rows."""
    rows = f"{record.rows:,} {record.source}"
    if record.source == "training rows":
        rows = f"{record.rows:,} training rows, held out of a smaller forest,"
    if record.error < record.smallest_error:
        return (
            f"On {rows} the error is {_percent(record.error)} with the bound, and "
            f"{_percent(record.smallest_error)} with the smallest degrees."
        )
    return (
        f"The bound chooses no better than the smallest degrees: on {rows} the error is "
        f"{_percent(record.error)} with the bound, and "
        f"{_percent(record.smallest_error)} without it."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
