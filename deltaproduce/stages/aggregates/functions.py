"""Functions: which measures an aggregate function keeps, and what it makes of them.

A function is planned for the types of its arguments. The invariant: types and values are those of
Spark's function of that name, but that sums do not overflow on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
)

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.aggregates.agg import AggregateCall
from deltaproduce.stages.aggregates.exact.numbers import ExactNumbers
from deltaproduce.stages.aggregates.exact.rounding import nearest_doubles
from deltaproduce.stages.aggregates.exact.states import from_binary
from deltaproduce.stages.aggregates.measures import (
    Beyond,
    ExactTotal,
    Measure,
    Rows,
    Total,
    Trues,
    Values,
)
from deltaproduce.types.atoms import arrow_type

Doubles: TypeAlias = NDArray[np.float64]
Finish: TypeAlias = Callable[[Sequence[pa.Array]], pa.Array]
"""From the states of a function's measures, a value for each group."""

_DIGITS: Final = 38
_ADDED_DIGITS: Final = 10
"""How many digits more a sum of decimals has than its terms, in Spark."""
_EXACT_DIGITS: Final = 28
"""Decimals of so many digits are added up in 38 without overflow, up to 10**10 of them."""


class TooLargeError(ValueError):
    """A value that its type does not hold.

    Attributes:
        group: of which group; the first.
    """

    def __init__(self, message: str, group: int) -> None:
        super().__init__(message)
        self.group = group


@dataclass(frozen=True, slots=True)
class Planned:
    """An aggregate function, for arguments of some types.

    Attributes:
        data_type: that of its value.
        measures: what it keeps.
        finish: makes its values of them.
    """

    data_type: DataType
    measures: tuple[Measure, ...]
    finish: Finish


def planned(call: AggregateCall, arguments: Sequence[int], types: Sequence[DataType]) -> Planned:
    """How a function is computed.

    Args:
        arguments: where its arguments are among those of the stage.
        types: those of its arguments.

    Raises:
        DefinitionError: it takes no such arguments.
    """
    if not arguments:
        return Planned(LongType(), (Rows(),), _first)
    (argument,), (data_type,) = arguments, types
    found = _PLANS[call.function](argument, data_type)
    if found is None:
        raise DefinitionError(
            f"{call.sql} is of type {data_type.simpleString()}, which {call.function} does not take"
        )
    return found


def _count(argument: int, data_type: DataType) -> Planned:
    del data_type
    return Planned(LongType(), (Values(argument),), _first)


def _count_if(argument: int, data_type: DataType) -> Planned | None:
    if not isinstance(data_type, BooleanType):
        return None
    return Planned(LongType(), (Trues(argument),), _first)


def _bool(holds: Callable[[pa.Array, pa.Array], pa.Array]) -> Plan:
    """A function of how many values there are, and how many of them are true."""

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if not isinstance(data_type, BooleanType):
            return None

        def finish(states: Sequence[pa.Array]) -> pa.Array:
            values, trues = states
            return _where_any(values, holds(values, trues))

        return Planned(BooleanType(), (Values(argument), Trues(argument)), finish)

    return plan


def _sum(argument: int, data_type: DataType) -> Planned | None:
    result: DataType
    match data_type:
        case FloatType() | DoubleType():
            return _of_doubles(argument, lambda totals, _: nearest_doubles(totals))
        case IntegralType():
            result, scale = LongType(), 0
        case DecimalType(precision=precision, scale=scale) if precision <= _EXACT_DIGITS:
            result = DecimalType(min(_DIGITS, precision + _ADDED_DIGITS), scale)
        case _:
            return None

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals = states
        return _where_any(values, _narrowed(totals, result))

    return Planned(result, (Values(argument), Total(argument, scale)), finish)


def _of_doubles(argument: int, finite: Callable[[ExactNumbers, Numbers], Doubles]) -> Planned:
    """A function of the sum of floats or doubles: a double.

    Args:
        finite: its values where all values are finite, of their sums and how many there are.
    """

    def finish(states: Sequence[pa.Array]) -> pa.Array:
        values, totals, *others = states
        found = finite(from_binary(totals), _at_least_one(values))
        nans, above, below = (np.asarray(state) > 0 for state in others)
        found[above] = np.inf
        found[below] = -np.inf
        found[nans | (above & below)] = np.nan
        return _where_any(values, pa.array(found))

    measures = (Values(argument), ExactTotal(argument), *_beyond(argument))
    return Planned(DoubleType(), measures, finish)


def _beyond(argument: int) -> tuple[Measure, ...]:
    return tuple(Beyond(argument, which) for which in ("nan", "inf", "-inf"))


def _at_least_one(values: pa.Array) -> Numbers:
    """How many values there are, as a divisor: where there are none, one."""
    found: Numbers = np.maximum(values.to_numpy(), 1)
    return found


Plan: TypeAlias = Callable[[int, DataType], Planned | None]

_PLANS: Final = MappingProxyType(
    {
        "count": _count,
        "count_if": _count_if,
        "bool_and": _bool(lambda values, trues: pc.equal(values, trues)),
        "bool_or": _bool(lambda _, trues: pc.greater(trues, 0)),
        "sum": _sum,
    }
)


def _first(states: Sequence[pa.Array]) -> pa.Array:
    return states[0]


def _where_any(values: pa.Array, found: pa.Array) -> pa.Array:
    """What was found, or null where there was no value."""
    return pc.if_else(pc.greater(values, 0), found, pa.scalar(None, found.type))


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
                message = f"{totals[group].as_py()} is no {result.simpleString()}"
                raise TooLargeError(message, group) from None
        raise
