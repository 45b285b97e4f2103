"""The policy: who takes part in which case of a full run, with how many steps. Pure.

A full run must end within an hour on two cores, so competitors with a known cost, or a cost that
does not depend on the changes, take part in fewer cases and steps. Peers named on the command line
take part in everything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAIN_KEYS: Final = 1_000
"""The case with the most steps, which comes first, while all competitors are there."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of warm-up steps, and of measured steps after them."""

    warm_up: int
    steps: int

    def of(self, steps: int) -> Effort:
        """Return the same number of warm-up steps, and this many measured ones."""
        return Effort(self.warm_up, steps)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most rows at which a competitor of a full run does something.

    Attributes:
        main: for taking part in the main case.
        others: for taking part in the other cases.
        often: for as many steps in the main case as the command line says, and few in others; above
            it, few and one.
    """

    main: int
    others: int
    often: int


MAIN: Final = Effort(warm_up=2, steps=5)
OTHER: Final = Effort(warm_up=1, steps=3)
SHAPE: Final = Effort(warm_up=1, steps=3)
COLD: Final = Effort(warm_up=0, steps=1)
BRIEF: Final = Effort(warm_up=1, steps=2)
"""For steps and loads that take a minute each."""
MILLION: Final = 1_000_000
EVERY: Final = 10**12
LIMITS: Final[Mapping[str, Limits]] = {
    "ours": Limits(main=EVERY, others=EVERY, often=EVERY),
    "ours-cow": Limits(main=MILLION, others=0, often=MILLION),
    "ours-mor": Limits(main=MILLION, others=0, often=MILLION),
    "ours-arrow": Limits(main=MILLION, others=MILLION, often=MILLION),
    "ours-here": Limits(main=EVERY, others=EVERY, often=EVERY),
    "ours-agg": Limits(main=EVERY, others=MILLION, often=MILLION),
    "ours-sql": Limits(main=EVERY, others=MILLION, often=MILLION),
    "ours-sql-here": Limits(main=EVERY, others=EVERY, often=EVERY),
    "ours-checked-here": Limits(main=MILLION, others=0, often=MILLION),
    "refresh": Limits(main=MILLION, others=MILLION, often=0),
    "recompute": Limits(main=EVERY, others=EVERY, often=MILLION),
    "merge": Limits(main=MILLION, others=0, often=MILLION),
    "delta-rs": Limits(main=MILLION, others=0, often=MILLION),
    "duckdb": Limits(main=10 * MILLION, others=MILLION, often=10 * MILLION),
    "sdp": Limits(main=MILLION, others=0, often=0),
}
LONG: Final = 10**12
TOO_LONG: Final = 10**13
"""From these rows times changed keys on, a step takes minutes: one step is measured, or none."""
SHAPE_PEERS: Final = ("ours", "ours-arrow", "recompute", "merge")
"""The peers that do shapes in a full run, unless a peer named on the command line can do them."""


def shape_peers(named: Sequence[str], able: Collection[str]) -> list[str]:
    """Return who does a shape: of the named peers, or else of `SHAPE_PEERS`, those that can."""
    return [name for name in named if name in able] or [
        name for name in SHAPE_PEERS if name in able
    ]


def of_aggregates(peers: Sequence[str], rows: int, steps: int) -> dict[str, Effort]:
    """Return peer -> effort; above a million rows, Spark's peers make each group anew for long."""
    slow = {"recompute", "merge"} if rows > MILLION else set()
    return {name: BRIEF if name in slow else MAIN.of(steps) for name in peers}


def of_first_load(rows: int) -> Effort:
    """Return the effort of a first load."""
    return BRIEF if rows > MILLION else OTHER


def shape_keys(rows: int) -> int:
    """Return the changed keys per step of a shape: as in the main case, fewer of few rows."""
    return max(1, min(MAIN_KEYS, rows // 100))


def in_order(cases: Sequence[int]) -> list[int]:
    """Return the cases with the main one first: `MAIN_KEYS`, or the first given."""
    main = MAIN_KEYS if MAIN_KEYS in cases else cases[0]
    return [main, *(keys for keys in cases if keys != main)]


def efforts(
    peers: Sequence[str], rows: int, cases: Sequence[int], *, steps: int, limited: bool
) -> dict[int, dict[str, Effort]]:
    """Return case -> peer -> effort, in the order of cases.

    Args:
        cases: the number of changed keys in each.
        steps: measured steps of the main case; no case has more.
        limited: whether `LIMITS` apply.
    """
    few = Effort(OTHER.warm_up, min(OTHER.steps, steps))
    many = Effort(MAIN.warm_up, steps)

    def effort(name: str, keys: int, *, is_main: bool) -> Effort:
        if not limited or rows <= LIMITS[name].often:
            found = many if is_main else few
        else:
            found = few if is_main else COLD
        return COLD if limited and rows * keys >= LONG else found

    def taking_part(keys: int, *, is_main: bool) -> dict[str, Effort]:
        return {
            name: effort(name, keys, is_main=is_main)
            for name in peers
            if not limited or rows <= (LIMITS[name].main if is_main else LIMITS[name].others)
        }

    main, *others = in_order(cases)
    short = [keys for keys in others if not limited or rows * keys < TOO_LONG]
    found = {main: taking_part(main, is_main=True)}
    return found | {keys: taking_part(keys, is_main=False) for keys in short}
