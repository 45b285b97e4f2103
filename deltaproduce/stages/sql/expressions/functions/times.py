"""Functions of timestamps, on the clock of a time zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.casts import widened
from deltaproduce.stages.sql.expressions.functions.dates import DATES, UNITS, cut
from deltaproduce.stages.sql.expressions.functions.rules import (
    Rule,
    by_count,
    exactly,
    signature,
    timestamp,
    zoned,
)
from deltaproduce.stages.sql.expressions.kernels import arithmetic
from deltaproduce.stages.sql.expressions.kernels.clocks import (
    check_days,
    local,
    local_date,
    midnight,
)
from deltaproduce.stages.sql.expressions.kernels.rows import nulls_of, whole_numbers
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.times.instants import instants_of, starts_of_days
from deltaproduce.times.local_times import DAY_MICROS, Micros, local_micros
from deltaproduce.times.zones import known
from deltaproduce.types.data_types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    IntegralType,
    LongType,
    StringType,
    TimestampType,
)
from deltaproduce.types.pandas_on_demand import in_numpy

_SECOND: Final = 1_000_000
_MONTH_SECONDS: Final = 31 * 24 * 3_600
"""A month has as many days as that where months between two days are a fraction."""


def _of_clock(compute: Callable[[pa.Array], pa.Array]) -> Rule:
    """Return the rule of a whole number that is part of a local time."""
    return zoned(
        lambda wanted, moments, zone: compute(local(moments, zone)).cast(wanted),
        IntegerType(),
        timestamp,
    )


def _seconds(wanted: pa.DataType, moments: pa.Array, zone: pa.Array) -> pa.Array:
    """Return the seconds of the minute, with their fraction."""
    micros = whole_numbers(local(moments, zone)) % (60 * _SECOND)
    whole = pa.array(micros, mask=nulls_of(moments)).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.000001"))).cast(wanted)


def _months_between(
    _: pa.DataType, last: pa.Array, first: pa.Array, is_rounded: pa.Array, zone: pa.Array
) -> pa.Array:
    """Return months, which are whole between equal days of months, and between last days."""
    if not len(last):
        return pa.array([], pa.float64())
    name = zone[0].as_py()
    one, other = (_month_and_day(whole_numbers(moments), name) for moments in (last, first))
    months = (one[0] - other[0]).astype(np.float64)
    seconds = (one[1] - other[1]) * (DAY_MICROS // _SECOND) + (one[3] - other[3])
    difference = months + seconds.astype(np.float64) / _MONTH_SECONDS
    rounded = _half_up(difference * 1e8) / 1e8
    rounding = in_numpy(pc.fill_null(is_rounded, fill_value=True), bool)
    difference = np.where(rounding, rounded, difference)
    difference = np.where((one[1] == other[1]) | (one[2] & other[2]), months, difference)
    return pa.array(difference, mask=nulls_of(last, first, is_rounded))


def _month_and_day(moments: Micros, zone: str) -> tuple[Micros, Micros, NDArray[np.bool_], Micros]:
    """Return the month, the day of it, whether it is the last one, and the seconds since then."""
    days = local_micros(moments, zone) // DAY_MICROS
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    is_last = (dates + 1).astype("datetime64[M]") != months
    seconds = (moments - starts_of_days(days, zone)) // _SECOND
    return months.astype(np.int64), (dates - months).astype(np.int64), is_last, seconds


def _half_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest whole numbers, of two the greater one."""
    below = np.floor(values)
    return np.where(values - below >= 0.5, below + 1, below)


def _fraction_of_months(arguments: Sequence[Term], zone: str) -> Term | None:
    rounding = arguments[2] if len(arguments) == 3 else Constant(BooleanType(), True)
    sides = [timestamp(argument, zone) for argument in arguments[:2]]
    if None in sides or not isinstance(rounding.data_type, BooleanType):
        return None
    given = (*(side for side in sides if side), rounding, Constant(StringType(), zone))
    return Call(DoubleType(), _months_between, given)


def _cut_to_days(unit: str) -> Kernel:
    def run(wanted: pa.DataType, moments: pa.Array, zone: pa.Array) -> pa.Array:
        dates = local_date(pa.date32(), moments, zone)
        cut_dates = dates if unit == "day" else cut(unit)(pa.date32(), dates)
        return midnight(wanted, cut_dates, zone)

    return run


def _cut_to(micros: int) -> Kernel:
    """Return the kernel of the beginning of a unit of the clock."""

    def run(wanted: pa.DataType, moments: pa.Array, zone: pa.Array) -> pa.Array:
        if not len(moments):
            return pa.array([], wanted)
        start, name = whole_numbers(moments), zone[0].as_py()
        clock = local_micros(start, name)
        instants = instants_of(clock - clock % micros, name, near=start)
        return pa.array(instants, mask=nulls_of(moments)).cast(wanted)

    return run


def _cut_instants(micros: int) -> Kernel:
    def run(wanted: pa.DataType, moments: pa.Array, _: pa.Array) -> pa.Array:
        start = whole_numbers(moments)
        return pa.array(start - start % micros, mask=nulls_of(moments)).cast(wanted)

    return run


_CUTS: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        **{unit: _cut_to_days(name) for unit, name in UNITS.items()},
        **dict.fromkeys(("day", "dd"), _cut_to(DAY_MICROS)),
        "hour": _cut_to(3_600 * _SECOND),
        "minute": _cut_to(60 * _SECOND),
        "second": _cut_instants(_SECOND),
        "millisecond": _cut_instants(1_000),
        "microsecond": _cut_instants(1),
    }
)


def _date_trunc(arguments: Sequence[Term], zone: str) -> Term | None:
    unit, moment = arguments
    term = timestamp(moment, zone)
    if not isinstance(unit, Constant) or not isinstance(unit.value, str) or term is None:
        return None
    kernel = _CUTS.get(unit.value.lower())
    if kernel is None:
        return Constant(TimestampType(), None)
    clock = Constant(StringType(), zone)
    return Call(TimestampType(), kernel, (term, clock), fails=True)


def _since_1970(micros: int) -> Rule:
    """Return the rule of the whole units since 1970, rounded down."""

    def kernel(wanted: pa.DataType, moments: pa.Array) -> pa.Array:
        return pa.array(whole_numbers(moments) // micros, wanted, mask=nulls_of(moments))

    return signature(kernel, LongType(), exactly(TimestampType))


def _moment_after(micros: int) -> Rule:
    """Return the rule of the moment that is some whole units after 1970."""

    def kernel(wanted: pa.DataType, units: pa.Array) -> pa.Array:
        times = pa.array(np.full(len(units), micros), pa.int64())
        return arithmetic.checked("multiply_checked", "multiply", "")(
            times.type, units, times
        ).cast(wanted)

    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        match arguments:
            case [Term(data_type=IntegralType()) as units]:
                long = widened(units, LongType())
                return Call(TimestampType(), kernel, (long,), fails=micros > 1)
        return None

    return rule


def _moved(clock: Callable[[Micros, str], Micros]) -> Rule:
    """Return the rule of a moment moved between UTC and the clock of a named time zone."""

    def kernel(wanted: pa.DataType, moments: pa.Array, zone: pa.Array) -> pa.Array:
        if not len(moments):
            return pa.array([], wanted)
        micros = clock(whole_numbers(moments), zone[0].as_py())
        check_days(micros // DAY_MICROS)
        return pa.array(micros, mask=nulls_of(moments)).cast(wanted)

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        moment, named = timestamp(arguments[0], zone), arguments[1]
        is_text = isinstance(named, Constant) and isinstance(named.value, str)
        there = known(named.value) if isinstance(named, Constant) and is_text else None
        if moment is None or there is None:
            return None
        clock_there = Constant(StringType(), there)
        return Call(TimestampType(), kernel, (moment, clock_there), fails=True)

    return by_count({2: rule})


_exact_seconds: Final = zoned(_seconds, DecimalType(8, 6), timestamp)
_hour, _minute, _second = (_of_clock(part) for part in (pc.hour, pc.minute, pc.second))
_FIELDS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(("year", "y", "years", "yr", "yrs"), DATES["year"]),
        **dict.fromkeys(("quarter", "qtr"), DATES["quarter"]),
        **dict.fromkeys(("month", "mon", "mons", "months"), DATES["month"]),
        **dict.fromkeys(("week", "w", "weeks"), DATES["weekofyear"]),
        **dict.fromkeys(("day", "d", "days"), DATES["day"]),
        **dict.fromkeys(("dayofweek", "dow"), DATES["dayofweek"]),
        "doy": DATES["dayofyear"],
        **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), _hour),
        **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), _minute),
        **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), _exact_seconds),
    }
)
"""By the names that EXTRACT takes."""


def _extract(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``EXTRACT(field FROM moment)``, where the field is text."""
    field, moment = arguments
    if not isinstance(field, Constant) or not isinstance(field.value, str):
        return None
    rule = _FIELDS.get(field.value.lower())
    if rule is None or not isinstance(moment.data_type, DateType | TimestampType):
        return None
    return rule([moment], zone)


TIMES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "hour": _hour,
        "minute": _minute,
        "second": _second,
        **dict.fromkeys(("extract", "date_part", "datepart"), by_count({2: _extract})),
        "unix_seconds": _since_1970(_SECOND),
        "unix_millis": _since_1970(1_000),
        "unix_micros": _since_1970(1),
        "timestamp_seconds": _moment_after(_SECOND),
        "timestamp_millis": _moment_after(1_000),
        "timestamp_micros": _moment_after(1),
        "from_utc_timestamp": _moved(local_micros),
        "to_utc_timestamp": _moved(instants_of),
        "date_trunc": by_count({2: _date_trunc}),
        "months_between": by_count({2: _fraction_of_months, 3: _fraction_of_months}),
    }
)
