"""The planner's choices: whether a version chose the cheaper mode. Pure, over the figures.

Compares the mode and seconds that a version reports for each stage with the same stage produced in
full, as a refresh of the same size reports it. A choice is a hit if it took at most 1.1 times as
long. Sources are not produced, so there is nothing to compare.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MARGIN: Final = 1.1


@dataclass(frozen=True, slots=True)
class Choice:
    """One stage's step in one case.

    Attributes:
        seconds: the stage's computation in the chosen mode, without commits.
        in_full: the same for the stage in full; None if no refresh was measured at this size.
    """

    rows: int
    changed: int
    stage: str
    mode: str
    reason: str
    affected_keys: int
    seconds: float
    in_full: float | None

    @property
    def hit(self) -> bool | None:
        """Whether the choice was right; None if unknown."""
        return None if self.in_full is None else self.seconds <= MARGIN * self.in_full


def choices(sizes: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """Return every stage's step of ours over the grid."""
    found = []
    for size in sizes:
        for case in size["cases"]:
            full = _refresh(size, case)
            ours = case["competitors"].get("ours", {})
            for stage, last in (ours.get("figures") or [{}])[-1].items():
                seconds = _seconds(ours, stage)
                if last["mode"] != "skipped" and seconds is not None:
                    found.append(
                        Choice(
                            size["rows"],
                            case["changed"],
                            stage,
                            last["mode"],
                            last["reason"],
                            last["affected_keys"],
                            seconds,
                            _seconds(full, stage, "full"),
                        )
                    )
    return found


def against_refresh(sizes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, float]]:
    """Yield rows, changed keys, and the whole version's time over that of a refresh."""
    for size in sizes:
        for case in size["cases"]:
            ours = case["competitors"].get("ours", {}).get("median")
            full = _refresh(size, case).get("median")
            if ours and full:
                yield size["rows"], case["changed"], ours["seconds"] / full["seconds"]


def crossing(size: Mapping[str, Any], other: str) -> tuple[float, float] | None:
    """Return the changed fractions between which ours stops being faster than another.

    Returns:
        The two neighbouring fractions; the first is 0 if ours is never faster, the second is
        infinite if it always is; None without figures.
    """
    points = sorted(
        (
            case["changed"] / size["rows"],
            case["competitors"]["ours"]["median"]["seconds"]
            < case["competitors"][other]["median"]["seconds"],
        )
        for case in size["cases"]
        if all("median" in case["competitors"].get(name, {}) for name in ("ours", other))
    )
    if not points:
        return None
    slower = [fraction for fraction, faster in points if not faster]
    first_slower = min(slower, default=math.inf)
    return max(
        (at for at, faster in points if faster and at < first_slower), default=0
    ), first_slower


def _refresh(size: Mapping[str, Any], case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the refresh's figures for this case, or another of the size: its cost is all rows'."""
    for one in (case, *size["cases"]):
        found = one["competitors"].get("refresh", {})
        if "median" in found:
            return found
    return {}


def _seconds(found: Mapping[str, Any], stage: str, mode: str | None = None) -> float | None:
    steps = [step[stage] for step in found.get("figures", ()) if stage in step]
    seconds = [step["seconds"] for step in steps if mode in (None, step["mode"])]
    return statistics.median(seconds) if seconds else None
