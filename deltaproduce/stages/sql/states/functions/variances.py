"""Functions of a sum and a sum of squares: variance, and standard deviation.

For n values with the sum s and the sum of squares q, the variance is (n q - s**2) / (n (n - d)). It
is computed exactly, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.states.exact.numbers import ExactNumbers, concatenated, of_integers
from deltaproduce.stages.sql.states.exact.rounding import nearest_doubles
from deltaproduce.stages.sql.states.functions.plans import Doubles, Plan, Planned, where_more
from deltaproduce.stages.sql.states.functions.sums import beyond, divisors, exact_sum, scale_of
from deltaproduce.stages.sql.states.measures import ValueCount
from deltaproduce.types.data_types import DataType, DoubleType, NumericType
from deltaproduce.types.pandas_on_demand import in_numpy

_TENS: Final = 14
"""The exponent of the greatest power of ten that fits a divisor of `nearest_doubles`."""


def variance(*, less: int) -> Plan:
    """Plan the variance of numbers, a double.

    Args:
        less: subtracted from the number of values in the divisor: 0 for all, 1 for a sample.
    """

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if not isinstance(data_type, NumericType):
            return None
        sums, numbered = exact_sum(argument, data_type)
        squares, squares_numbered = exact_sum(argument, data_type, power=2)
        scale = scale_of(data_type)

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            values, total, total_of_squares, *others = states
            variances = _variances(
                values, numbered(total), squares_numbered(total_of_squares), scale, less
            )
            for state in others:
                variances[in_numpy(state) > 0] = np.nan
            return where_more(values, less, pa.array(variances))

        measures = (ValueCount(argument), sums, squares, *beyond(argument, data_type))
        return Planned(DoubleType(), measures, finish)

    return plan


def deviation(*, less: int) -> Plan:
    """Plan the square root of a `variance`."""
    plan_variance = variance(less=less)

    def plan(argument: int, data_type: DataType) -> Planned | None:
        plan = plan_variance(argument, data_type)
        if plan is None:
            return None

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            return pc.sqrt(plan.finish(states))

        return Planned(plan.data_type, plan.measures, finish)

    return plan


def _variances(
    values: pa.Array, total: ExactNumbers, squares: ExactNumbers, scale: int, less: int
) -> Doubles:
    """Return the variances of numbers in units of 10**-scale."""
    groups = np.arange(len(values))
    counted = squares.times(of_integers(in_numpy(values)))
    squared = total.times(total)
    parts = [counted, squared.turned(np.ones(len(values), bool))]
    spread = concatenated(parts).summed(np.tile(groups, 2), len(values))
    tens = [np.full(len(values), ten) for ten in _powers_of_ten(2 * scale)]
    return nearest_doubles(spread, [divisors(values), divisors(values, less), *tens])


def _powers_of_ten(exponent: int) -> list[int]:
    """Return powers of ten whose product is 10**exponent."""
    whole, rest = divmod(exponent, _TENS)
    return [10**_TENS] * whole + [10**rest]
