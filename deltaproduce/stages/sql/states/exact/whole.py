"""Whole numbers of 64 bits, for integers, and for short decimals without their points.

Most sums fit in 64 bits, where they are twenty times as fast as Arrow's decimals. The invariant: a
sum is exact, or there is none; the range is checked before anything is added.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, unscaled
from deltaproduce.types.pandas_on_demand import in_numpy

_MOST: Final = 2**63 - 1


def whole_numbers(values: pa.Array) -> Numbers | None:
    """Return values without their points, 0 for null: 1.25 is 125. None if one exceeds 64 bits.

    Args:
        values: integers, or decimals of 128 bits.
    """
    if pa.types.is_integer(values.type):
        numbers: Numbers = in_numpy(values.fill_null(0).cast(pa.int64()))
        return numbers
    return unscaled(values.fill_null(pa.scalar(Decimal(0), values.type)))


def squared(numbers: Numbers) -> Numbers | None:
    """Return the squares of numbers; None if one exceeds 64 bits."""
    return numbers * numbers if _greatest(numbers) ** 2 <= _MOST else None


def summed(numbers: Numbers, groups: Numbers, size: int) -> Numbers | None:
    """Return the sums of ``size`` groups; None if one might exceed 64 bits."""
    if _greatest(numbers) * len(numbers) > _MOST:
        return None
    sums = np.zeros(size, np.int64)
    np.add.at(sums, groups, numbers)
    return sums


def _greatest(numbers: Numbers) -> int:
    """Return the greatest absolute value."""
    return max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
