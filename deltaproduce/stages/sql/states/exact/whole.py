"""Whole numbers of 64 bits, for integers, and for short decimals without their points.

Most sums fit in 64 bits, where they are twenty times as fast as Arrow's decimals. The invariant: a
sum is exact, or there is none; the range is checked before anything is added.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from deltaproduce.engines.local.arrays import Numbers, greatest_size

_MOST: Final = 2**63 - 1


def squared(numbers: Numbers) -> Numbers | None:
    """Return the squares of numbers; None if one exceeds 64 bits."""
    return numbers * numbers if greatest_size(numbers) ** 2 <= _MOST else None


def summed(numbers: Numbers, groups: Numbers, size: int) -> Numbers | None:
    """Return the sums of ``size`` groups; None if one might exceed 64 bits."""
    if greatest_size(numbers) * len(numbers) > _MOST:
        return None
    sums = np.zeros(size, np.int64)
    np.add.at(sums, groups, numbers)
    return sums
