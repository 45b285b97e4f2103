"""Dates, timestamps and intervals that are added, subtracted and multiplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.casts import alike, cast, widened
from deltaproduce.stages.sql.expressions.functions.rules import Rule, by_count, whole
from deltaproduce.stages.sql.expressions.kernels import arithmetic, casting
from deltaproduce.stages.sql.expressions.kernels.clocks import check_days, in_months, local
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import numbers_of
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.times.instants import instants_of
from deltaproduce.times.local_times import DAY_MICROS, local_micros
from deltaproduce.types.data_types import (
    AnsiIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    IntegerType,
    IntegralType,
    LongType,
    StringType,
    TimestampType,
    YearMonthIntervalType,
)

_INT32: Final = np.iinfo(np.int32)
_DAYS: Final = DayTimeIntervalType(0, 0)


def moved(move: Callable[[pa.Array, pa.Array], pa.Array]) -> Kernel:
    """Return a kernel that moves dates by days, forwards or backwards; it wraps around."""
    return lambda wanted, dates, days: move(dates.cast(pa.int32()), days).cast(wanted)


def months_later(wanted: pa.DataType, dates: pa.Array, months: pa.Array) -> pa.Array:
    """Return the same day of another month, or that month's last day if it is shorter."""
    nulls, (days, steps) = numbers_of(dates, months)
    moved = in_months(days, steps)
    if ((moved < _INT32.min) | (moved > _INT32.max)).any():
        raise EvaluationError("ARITHMETIC_OVERFLOW", "a date is beyond the last one")
    return pa.array(moved.astype(np.int32), pa.int32(), mask=nulls).cast(wanted)


def _clock_in_months(
    wanted: pa.DataType, moments: pa.Array, months: pa.Array, zone: pa.Array
) -> pa.Array:
    """Return the same local time of another month, see `months_later`."""
    if not len(moments):
        return pa.array([], wanted)
    (nulls, (start, steps)), name = numbers_of(moments, months), zone[0].as_py()
    days, of_day = np.divmod(local_micros(start, name), DAY_MICROS)
    days = in_months(days, steps)
    check_days(days)
    instants = instants_of(days * DAY_MICROS + of_day, name, near=start)
    return pa.array(instants, mask=nulls).cast(wanted)


def _clock_later(
    wanted: pa.DataType, moments: pa.Array, micros: pa.Array, zone: pa.Array
) -> pa.Array:
    """Return moments that are whole days later on the clock, and then some hours."""
    if not len(moments):
        return pa.array([], wanted)
    (nulls, (start, moves)), name = numbers_of(moments, micros), zone[0].as_py()
    days = np.sign(moves) * (np.abs(moves) // DAY_MICROS)
    clock = local_micros(start, name)
    check_days(clock // DAY_MICROS + days)
    then = instants_of(clock + days * DAY_MICROS, name, near=start)
    sums = np.where(days == 0, start, then) + (moves - days * DAY_MICROS)
    return pa.array(sums, mask=nulls).cast(wanted)


def _days_between(_: pa.DataType, last: pa.Array, first: pa.Array) -> pa.Array:
    """Return the microseconds of the days between two dates."""
    nulls, (end, start) = numbers_of(last, first)
    days = end - start
    if (np.abs(days) > _INT32.max).any():
        raise EvaluationError("", "too many days are between two dates: integer overflow")
    check_days(days)
    return pa.array(days * DAY_MICROS, mask=nulls)


def _time_between(_: pa.DataType, last: pa.Array, first: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the microseconds between what a clock shows."""
    sides = (pc.cast(local(moments, zone), pa.int64()) for moments in (last, first))
    return arithmetic.checked("subtract_checked", "subtract", "")(pa.int64(), *sides)


def _in_zone(
    result: DataType, kernel: Kernel, arguments: Sequence[Term], zone: str, *, fails: bool = True
) -> Term:
    return Call(result, kernel, (*arguments, Constant(StringType(), zone)), fails=fails)


def _later(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``+`` of a date or timestamp and days or an interval, in any order."""
    match [argument.data_type for argument in arguments]:
        case [AnsiIntervalType(), AnsiIntervalType()]:
            return _of_intervals(_added, arguments, zone)
        case [_, DateType() | TimestampType()]:
            return _later(arguments[::-1], zone)
        case [DateType() | TimestampType(), AnsiIntervalType()]:
            return _by_interval(arguments[0], arguments[1], zone)
        case [DateType(), _]:
            return _by_days(pc.add, arguments, zone)
    return None


def _earlier(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``-`` of dates, timestamps, days and intervals."""
    match [argument.data_type for argument in arguments]:
        case [AnsiIntervalType(), AnsiIntervalType()]:
            return _of_intervals(_subtracted, arguments, zone)
        case [DateType() | TimestampType(), AnsiIntervalType() as kind]:
            back = Call(kind, _turned_round, (arguments[1],), fails=True)
            return _by_interval(arguments[0], back, zone)
        case [DateType(), DateType()]:
            return Call(_DAYS, _days_between, tuple(arguments), fails=True)
        case [DateType() | TimestampType(), DateType() | TimestampType()]:
            sides = [cast(argument, TimestampType(), zone) for argument in arguments]
            known = [side for side in sides if side is not None]
            return _in_zone(DayTimeIntervalType(0, 3), _time_between, known, zone)
        case [DateType(), _]:
            return _by_days(pc.subtract, arguments, zone)
    return None


def _by_days(
    move: Callable[[pa.Array, pa.Array], pa.Array], arguments: Sequence[Term], zone: str
) -> Term | None:
    moment, steps = arguments
    days = None if steps == Constant(steps.data_type, None) else whole(steps, zone)
    return days and Call(DateType(), moved(move), (moment, days))


def _by_interval(moment: Term, interval: Term, zone: str) -> Term | None:
    """Return a date or a timestamp that is moved; a date moved by hours is a timestamp."""
    match moment.data_type, interval.data_type:
        case DateType(), YearMonthIntervalType():
            return Call(DateType(), months_later, (moment, interval), fails=True)
        case DateType(), DayTimeIntervalType(endField=0):
            days = Call(IntegerType(), casting.whole_days, (interval,))
            return Call(DateType(), moved(pc.add), (moment, days))
    clock = cast(moment, TimestampType(), zone)
    is_months = isinstance(interval.data_type, YearMonthIntervalType)
    kernel = _clock_in_months if is_months else _clock_later
    return clock and _in_zone(TimestampType(), kernel, (clock, interval), zone)


def _of_intervals(kernel: Kernel, arguments: Sequence[Term], zone: str) -> Term | None:
    sides = alike(arguments, zone)
    return None if sides is None else Call(sides[0].data_type, kernel, sides, fails=True)


def _times(arguments: Sequence[Term], _: str) -> Term | None:
    """Return an interval some times."""
    match arguments:
        case [Term(data_type=IntegralType()), Term(data_type=AnsiIntervalType())]:
            return _times(arguments[::-1], _)
        case [Term(data_type=DayTimeIntervalType()) as interval, Term(data_type=IntegralType())]:
            sides = interval, widened(arguments[1], LongType())
            return Call(DayTimeIntervalType(0, 3), _multiplied, sides, fails=True)
    return None


def _negative(arguments: Sequence[Term], _: str) -> Term | None:
    (interval,) = arguments
    if not isinstance(interval.data_type, AnsiIntervalType):
        return None
    return Call(interval.data_type, _turned_round, (interval,), fails=True)


_OVERFLOW: Final = "INTERVAL_ARITHMETIC_OVERFLOW"
_added: Final = arithmetic.checked("add_checked", "add", _OVERFLOW)
_subtracted: Final = arithmetic.checked("subtract_checked", "subtract", _OVERFLOW)
_multiplied: Final = arithmetic.checked("multiply_checked", "multiply", "")
_turned_round: Final = arithmetic.checked("negate_checked", "negate", _OVERFLOW)

MOVES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "+": by_count({2: _later}),
        "-": by_count({2: _earlier}),
        "*": by_count({2: _times}),
        "negative": by_count({1: _negative}),
    }
)
