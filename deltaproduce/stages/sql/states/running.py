"""Running states: the states of ranges of rows, as differences of two sums from the first row on.

The invariant: the state of a range is the one that a measure has of its rows alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Numbers, decimals, whole_numbers
from deltaproduce.stages.sql.states.exact.numbers import ExactNumbers, of_decimals, of_integers
from deltaproduce.stages.sql.states.exact.rounding import nearest_decimals
from deltaproduce.stages.sql.states.exact.states import to_binary
from deltaproduce.stages.sql.states.exact.whole import squared
from deltaproduce.stages.sql.states.measures import (
    SQUARED,
    Count,
    ExactTotal,
    Measure,
    Total,
    exact_values,
)
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.pandas_on_demand import in_numpy

_MOST = 2**63 - 1


def of_frames(measure: Measure, values: pa.Array | None, begin: Numbers, end: Numbers) -> pa.Array:
    """Return the state of the rows of each range.

    Args:
        values: the argument's values, one per row.
        begin: where each range begins.
        end: the place after its last row; a range may be empty.
    """
    match measure:
        case Total():
            assert values is not None
            return _totals(measure, values, begin, end)
        case ExactTotal():
            assert values is not None
            numbers = exact_values(values)
            if measure.power == SQUARED:
                numbers = numbers.times(numbers)
            return to_binary(numbers.of_ranges(begin, end))
        case Count():
            assert values is not None
            counted = in_numpy(measure.counted(values), bool)
            return pa.array(_differences(counted.astype(np.int64), begin, end))
    raise AssertionError(f"{measure} has no running states")


def _totals(measure: Total, values: pa.Array, begin: Numbers, end: Numbers) -> pa.Array:
    numbers = whole_numbers(values)
    if numbers is not None and measure.power == SQUARED:
        numbers = squared(numbers)
    wanted = arrow_type(measure.data_type)
    if numbers is not None:
        greatest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
        if greatest * len(numbers) <= _MOST:
            return decimals(_differences(numbers, begin, end), wanted)
    sums = _exact(values, measure).of_ranges(begin, end)
    return nearest_decimals(sums, np.ones(len(sums), np.int64), wanted)


def _exact(values: pa.Array, measure: Total) -> ExactNumbers:
    if pa.types.is_integer(values.type):
        numbers = of_integers(in_numpy(values.cast(pa.int64()).fill_null(0)))
    else:
        numbers = of_decimals(pc.fill_null(values, pa.scalar(0, values.type)))
    return numbers.times(numbers) if measure.power == SQUARED else numbers


def _differences(numbers: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
    differences: Numbers = running[end] - running[begin]
    return differences
