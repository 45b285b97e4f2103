"""Functions of a sum: the sum itself, and the average."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    FractionalType,
    IntegralType,
    LongType,
)

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.stages.aggregates.exact.numbers import ExactNumbers, of_decimals, of_integers
from deltaproduce.stages.aggregates.exact.rounding import nearest_decimals, nearest_doubles
from deltaproduce.stages.aggregates.exact.states import from_binary
from deltaproduce.stages.aggregates.functions.plans import (
    Doubles,
    Planned,
    TooLargeError,
    where_more,
)
from deltaproduce.stages.aggregates.measures import (
    TOTAL_DIGITS,
    Beyond,
    ExactTotal,
    Measure,
    Total,
    Values,
)
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import INTEGER_DIGITS

_DIGITS: Final = 38
_ADDED_DIGITS: Final = 10
"""How many digits more a sum of decimals has than its terms, in Spark."""
_AVERAGE_DIGITS: Final = 4
"""How many digits more an average of decimals has than its terms, behind the point, in Spark."""

Finite: TypeAlias = Callable[[ExactNumbers, Numbers], Doubles]
"""From sums, and how many values each is of, to doubles."""
Numbered: TypeAlias = Callable[[pa.Array], ExactNumbers]
"""From a measure's states to the numbers that they are."""


def total(argument: int, data_type: DataType) -> Planned | None:
    """The sum."""
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
    """The sum, divided by how many values there are."""
    match data_type:
        case FloatType() | DoubleType() | IntegralType():
            return _of_doubles(argument, data_type, lambda sums, n: nearest_doubles(sums, [n]))
        case DecimalType(precision=precision, scale=scale):
            digits = (min(_DIGITS, each + _AVERAGE_DIGITS) for each in (precision, scale))
            return _quotient(argument, data_type, DecimalType(*digits), divisors)
    return None


def exact_sum(argument: int, data_type: DataType, power: int = 1) -> tuple[Measure, Numbered]:
    """A measure of the sum of numbers, or of their squares, and how its states are read.

    Args:
        data_type: a numeric one; the sum of decimals is read without the point.
        power: 2 for squares.
    """
    if power * _digits(data_type) <= TOTAL_DIGITS:
        return Total(argument, scale_of(data_type), power), of_decimals
    return ExactTotal(argument, power, scale_of(data_type)), from_binary


def beyond(argument: int, data_type: DataType) -> tuple[Measure, ...]:
    """What counts the values that are not finite: NaN, infinities, and negative ones."""
    if not isinstance(data_type, FractionalType) or isinstance(data_type, DecimalType):
        return ()
    return tuple(Beyond(argument, which) for which in ("nan", "inf", "-inf"))


def scale_of(data_type: DataType) -> int:
    """How many digits numbers of a type have behind the point, of a fixed one."""
    return data_type.scale if isinstance(data_type, DecimalType) else 0


def divisors(values: pa.Array, less: int = 0) -> Numbers:
    """How many values there are, less some, to divide by: 1 where it is less."""
    found: Numbers = np.maximum(values.to_numpy() - less, 1)
    return found


def _narrow_total(argument: int, data_type: DataType, result: DataType) -> Planned:
    """The sum of what Arrow adds up."""
    measure, _ = exact_sum(argument, data_type)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals = states
        return where_more(values, 0, _narrowed(totals, result))

    return Planned(result, (Values(argument), measure), finish)


def _of_doubles(argument: int, data_type: DataType, finite: Finite) -> Planned:
    """A function of the sum of numbers that is a double."""
    measure, numbered = exact_sum(argument, data_type)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals, *others = states
        found = finite(numbered(totals), divisors(values))
        if others:
            nans, above, below = (state.to_numpy() > 0 for state in others)
            found[above] = np.inf
            found[below] = -np.inf
            found[nans | (above & below)] = np.nan
        return where_more(values, 0, pa.array(found))

    measures = (Values(argument), measure, *beyond(argument, data_type))
    return Planned(DoubleType(), measures, finish)


def _quotient(
    argument: int,
    data_type: DecimalType,
    result: DecimalType,
    by: Callable[[pa.Array], Numbers],
) -> Planned:
    """The sum of decimals, divided, as a decimal of no fewer digits behind the point.

    Args:
        by: what it is divided by, from how many values there are.
    """
    measure, numbered = exact_sum(argument, data_type)
    more = 10 ** (result.scale - data_type.scale)

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals = states
        numbers = numbered(totals).times(of_integers(np.full(len(values), more)))
        divided_by = by(values)
        found = nearest_decimals(numbers, divided_by, arrow_type(result))
        if found.null_count:
            group = int(np.flatnonzero(found.is_null())[0])
            exact = numbers.exactly(group) / int(divided_by[group]) / 10**result.scale
            raise _too_large(f"{float(exact):.16e}", result, group)
        return where_more(values, 0, found)

    return Planned(result, (Values(argument), measure), finish)


def _narrowed(totals: pa.Array, result: DataType) -> pa.Array:
    """Totals in the type of a sum.

    Raises:
        TooLargeError: it does not hold one of them.
    """
    wanted = arrow_type(result)
    try:
        return totals.cast(wanted)
    except pa.ArrowInvalid:
        for group in range(len(totals)):  # to say which, once in a failing step
            try:
                totals.slice(group, 1).cast(wanted)
            except pa.ArrowInvalid:
                raise _too_large(totals[group].as_py(), result, group) from None
        raise


def _too_large(value: object, result: DataType, group: int) -> TooLargeError:
    return TooLargeError(f"{value} is no {result.simpleString()}", group)


def _digits(data_type: DataType) -> float:
    """How many digits values of a numeric type have at most."""
    if isinstance(data_type, DecimalType):
        return data_type.precision
    return INTEGER_DIGITS.get(type(data_type), math.inf)
