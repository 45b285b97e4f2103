"""Functions of a sum: the sum itself, and the average."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.stages.sql.states.exact.numbers import ExactNumbers, of_decimals, of_integers
from deltaproduce.stages.sql.states.exact.rounding import nearest_decimals, nearest_doubles
from deltaproduce.stages.sql.states.exact.states import from_binary
from deltaproduce.stages.sql.states.functions.plans import (
    Doubles,
    Planned,
    ValueTooLargeError,
    where_more,
)
from deltaproduce.stages.sql.states.measures import (
    TOTAL_DIGITS,
    Beyond,
    ExactTotal,
    Measure,
    Total,
    ValueCount,
)
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import INTEGER_DIGITS
from deltaproduce.types.data_types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    LongType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_DIGITS: Final = 38
_ADDED_DIGITS: Final = 10
"""How many more digits Spark gives a sum of decimals than its terms."""
_AVERAGE_DIGITS: Final = 4
"""How many more digits after the point Spark gives an average of decimals than its terms."""

Finite: TypeAlias = Callable[[ExactNumbers, Numbers], Doubles]
"""Computes doubles from sums and the number of values in each."""
Numbered: TypeAlias = Callable[[pa.Array], ExactNumbers]
"""Converts a measure's states to numbers."""


def total(argument: int, data_type: DataType) -> Planned | None:
    """Plan a sum."""
    match data_type:
        case FloatType() | DoubleType():
            return _of_doubles(argument, data_type, lambda totals, _: nearest_doubles(totals))
        case IntegralType():
            return _narrow_total(argument, data_type, LongType())
        case DecimalType(precision=precision, scale=scale):
            result = DecimalType(min(_DIGITS, precision + _ADDED_DIGITS), scale)
            if precision <= TOTAL_DIGITS:
                return _narrow_total(argument, data_type, result)
            return _quotient(argument, data_type, result, lambda values: np.ones(len(values), int))
    return None


def average(argument: int, data_type: DataType) -> Planned | None:
    """Plan an average: the sum, divided by the number of values."""
    match data_type:
        case FloatType() | DoubleType() | IntegralType():
            return _of_doubles(argument, data_type, lambda sums, n: nearest_doubles(sums, [n]))
        case DecimalType(precision=precision, scale=scale):
            digits = (min(_DIGITS, each + _AVERAGE_DIGITS) for each in (precision, scale))
            return _quotient(argument, data_type, DecimalType(*digits), divisors)
    return None


def exact_sum(argument: int, data_type: DataType, power: int = 1) -> tuple[Measure, Numbered]:
    """Return a measure of the sum of numbers, or of their squares, and how its states are read.

    Args:
        data_type: a numeric type; a sum of decimals is read without the point.
        power: 2 for squares.
    """
    if power * _digits(data_type) <= TOTAL_DIGITS:
        return Total(argument, scale_of(data_type), power), of_decimals
    return ExactTotal(argument, power, scale_of(data_type)), from_binary


def beyond(argument: int, data_type: DataType) -> tuple[Measure, ...]:
    """Return the measures that count NaN, infinity, and negative infinity."""
    if not isinstance(data_type, FractionalType) or isinstance(data_type, DecimalType):
        return ()
    return tuple(Beyond(argument, which) for which in ("nan", "inf", "-inf"))


def scale_of(data_type: DataType) -> int:
    """Return how many digits numbers of a fixed-point type have after the point."""
    return data_type.scale if isinstance(data_type, DecimalType) else 0


def divisors(values: pa.Array, less: int = 0) -> Numbers:
    """Return the number of values, minus ``less``, as a divisor: at least 1."""
    counts: Numbers = np.maximum(in_numpy(values) - less, 1)
    return counts


def _narrow_total(argument: int, data_type: DataType, result: DataType) -> Planned:
    """Plan a sum that Arrow adds up."""
    measure, _ = exact_sum(argument, data_type)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals = states
        return where_more(values, 0, _narrowed(totals, result))

    return Planned(result, (ValueCount(argument), measure), finish)


def _of_doubles(argument: int, data_type: DataType, finite: Finite) -> Planned:
    """Plan a function of a sum that returns a double."""
    measure, numbered = exact_sum(argument, data_type)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals, *others = states
        sums = finite(numbered(totals), divisors(values))
        if others:
            nans, above, below = (in_numpy(state) > 0 for state in others)
            sums[above] = np.inf
            sums[below] = -np.inf
            sums[nans | (above & below)] = np.nan
        return where_more(values, 0, pa.array(sums))

    measures = (ValueCount(argument), measure, *beyond(argument, data_type))
    return Planned(DoubleType(), measures, finish)


def _quotient(
    argument: int,
    data_type: DecimalType,
    result: DecimalType,
    by: Callable[[pa.Array], Numbers],
) -> Planned:
    """Plan the sum of decimals, divided, as a decimal with at least as many digits after the point.

    Args:
        by: returns the divisor, given the number of values.
    """
    measure, numbered = exact_sum(argument, data_type)
    more = 10 ** (result.scale - data_type.scale)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals = states
        numbers = numbered(totals).times(of_integers(np.full(len(values), more)))
        divided_by = by(values)
        quotients = nearest_decimals(numbers, divided_by, arrow_type(result))
        if quotients.null_count:
            group = int(np.flatnonzero(quotients.is_null())[0])
            exact = numbers.exactly(group) / int(divided_by[group]) / 10**result.scale
            raise _too_large(f"{float(exact):.16e}", result, group)
        return where_more(values, 0, quotients)

    return Planned(result, (ValueCount(argument), measure), finish)


def _narrowed(totals: pa.Array, result: DataType) -> pa.Array:
    """Convert totals to the type of a sum.

    Raises:
        TooLargeError: a total does not fit it.
    """
    wanted = arrow_type(result)
    try:
        return totals.cast(wanted)
    except pa.ArrowInvalid:
        for group in range(len(totals)):  # to name the group; runs once, in a failing step
            try:
                totals.slice(group, 1).cast(wanted)
            except pa.ArrowInvalid:
                raise _too_large(totals[group].as_py(), result, group) from None
        raise


def _too_large(value: object, result: DataType, group: int) -> ValueTooLargeError:
    return ValueTooLargeError(f"{value} is not {result.simpleString()}", group)


def _digits(data_type: DataType) -> float:
    """Return the most digits that values of a numeric type have."""
    if isinstance(data_type, DecimalType):
        return data_type.precision
    return INTEGER_DIGITS.get(type(data_type), math.inf)
