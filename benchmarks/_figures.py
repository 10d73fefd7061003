"""A table of figures with the targets they are held against."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def reached(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self) -> str:
        target = (
            ""
            if self.limit is None
            else f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"
        )
        verdict = "" if self.limit is None else ("reached" if self.reached else "MISSED")
        return f"{self.what:<62} {self.value:>9.3f} {self.unit:<8} {target:<14} {verdict}"


def median_seconds(action: Callable[[], object], repeats: int) -> float:
    return statistics.median(seconds(action) for _ in range(repeats))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
