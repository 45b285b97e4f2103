"""The selection of cases for a short run: each law keeps a few, the rest are marked `long`."""

from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import Any

import pytest

long = pytest.mark.long
"""Marks a test whose law others keep an eye on in a short run."""


def chosen(cases: Iterable[Any], *short: Any) -> list[Any]:
    """All cases, which have names or are names, as parameters; those not in ``short`` are long."""
    names = {getattr(case, "name", case): case for case in cases}
    assert {*short} <= names.keys(), "there is no such case"
    return [
        case if name in short else pytest.param(case, marks=long) for name, case in names.items()
    ]


def some(
    cases: Iterable[tuple[Any, ...]], in_short: Callable[..., bool], *, longer: bool = False
) -> list[Any]:
    """All cases, which are of several parameters each; those that are not ``in_short`` are long.

    Args:
        longer: a longer search is asked for, so none is.
    """
    return [pytest.param(*case, marks=() if longer or in_short(*case) else long) for case in cases]


def in_turn(
    count: int,
    ways: Iterable[str],
    short: int,
    *,
    longer: bool = False,
    kept: Collection[str] = (),
) -> list[Any]:
    """Numbers below ``count`` with each way; in a short run one number a way, below ``short``.

    Args:
        longer: as for `some`.
        kept: the ways of a short run; all if there are none.
    """
    names = [*ways]
    assert {*kept} <= {*names}, "there is no such way"
    return some(
        product(range(count), names),
        lambda number, way: way in (kept or names) and number == names.index(way) % short,
        longer=longer,
    )
