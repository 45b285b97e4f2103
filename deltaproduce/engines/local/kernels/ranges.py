"""Values by the numbers that represent them: those in some ranges, and their partitions.

See `spark.kernels.ranges`. The invariant: a null is in no range, and shares no partition with other
values.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.model.partitions import Partitioning, Ranges
from deltaproduce.types.pandas_on_demand import in_numpy

_NO_PARTITION: Final = np.iinfo(np.int64).min


def are_within(array: pa.ChunkedArray, values: Ranges) -> Marks:
    """Mark the values in some ranges."""
    if not values:
        return np.zeros(len(array), np.bool_)
    numbers = in_numpy(pc.fill_null(numbers_of(array), 0))
    firsts, lasts = np.array(values.pairs, np.int64).T
    if len(firsts) == 1:
        inside: Marks = (numbers >= firsts[0]) & (numbers <= lasts[0])
    else:
        at = firsts.searchsorted(numbers, "right") - 1
        inside = (at >= 0) & (numbers <= lasts[at])
    return inside & in_numpy(pc.is_valid(array)) if array.null_count else inside


def partitions_of(values: pa.ChunkedArray, partitioning: Partitioning) -> Numbers:
    """Return the partition of each value; nulls are in a partition of their own."""
    is_there = in_numpy(pc.is_valid(values))
    units = partitioning.units(in_numpy(pc.fill_null(numbers_of(values), 0), np.int64))
    once, places = np.unique(units, return_inverse=True)
    numbers = np.array([partitioning.number(unit) for unit in once.tolist()], np.int64)
    return np.where(is_there, numbers[places], _NO_PARTITION) if len(units) else units


def numbers_of(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return the numbers that represent the values."""
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return whole.cast(pa.int64())
