"""Functions of dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.casts import cast
from deltaproduce.stages.sql.expressions.functions.moves import months_later, moved
from deltaproduce.stages.sql.expressions.functions.rules import (
    Rule,
    by_count,
    date,
    signature,
    text,
    whole,
)
from deltaproduce.stages.sql.expressions.kernels import days
from deltaproduce.stages.sql.expressions.kernels.clocks import check_days, local
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.kernels.rows import by_row, nulls_of, whole_numbers
from deltaproduce.stages.sql.expressions.patterns import pieces
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Term
from deltaproduce.times.local_times import DAY_MICROS
from deltaproduce.types.data_types import (
    DateType,
    IntegerType,
    StringType,
    TimestampType,
)

_DATE: Final = DateType()


def _part(name: str) -> Rule:
    """Return the rule of a whole number that is part of a date."""
    return signature(lambda _, dates: days.part(name, dates), IntegerType(), date)


def _to_date(arguments: Sequence[Term], zone: str) -> Term | None:
    return cast(arguments[0], _DATE, zone)


def _difference(wanted: pa.DataType, last: pa.Array, first: pa.Array) -> pa.Array:
    return pc.subtract(last.cast(pa.int32()), first.cast(pa.int32())).cast(wanted)


def _last_day(wanted: pa.DataType, dates: pa.Array) -> pa.Array:
    first = days.days_in("M", whole_numbers(dates))
    last = days.days_in("M", first + 31) - 1
    return pa.array(last.astype(np.int32), pa.int32(), mask=nulls_of(dates)).cast(wanted)


_WEEKDAYS: Final = ("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY")
"""From that of the day 0, in 1970."""


def _next_day(wanted: pa.DataType, dates: pa.Array, names: pa.Array) -> pa.Array:
    """Return the first day of that name after a date."""
    weekdays = pa.array(by_row(lambda _, name: _weekday(name), dates.cast(pa.int32()), names))
    after = whole_numbers(dates) + 1
    days = after + (whole_numbers(weekdays.cast(pa.int64())) - after) % 7
    return pa.array(days.astype(np.int32), pa.int32(), mask=nulls_of(dates, names)).cast(wanted)


def _weekday(name: str) -> int:
    known = name.upper()
    for number, weekday in enumerate(_WEEKDAYS):
        if known in (weekday, weekday[:3], weekday[:2]):
            return number
    raise EvaluationError("ILLEGAL_DAY_OF_WEEK", f"{name!r} is not a day of the week")


def cut(unit: str) -> Callable[[pa.DataType, pa.Array], pa.Array]:
    """Return the kernel of the first day of a unit of the calendar."""
    return lambda wanted, dates: days.cut(unit, dates).cast(wanted)


UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("year", "yyyy", "yy"), "year"),
        "quarter": "quarter",
        **dict.fromkeys(("month", "mon", "mm"), "month"),
        "week": "week",
    }
)
"""The units that dates are cut to."""


def _trunc(arguments: Sequence[Term], zone: str) -> Term | None:
    moment, unit = arguments
    term = date(moment, zone)
    if not isinstance(unit, Constant) or not isinstance(unit.value, str) or term is None:
        return None
    name = UNITS.get(unit.value.lower())
    return Constant(_DATE, None) if name is None else Call(_DATE, cut(name), (term,))


def _date_format(arguments: Sequence[Term], zone: str) -> Term | None:
    """Format a date or a time by a numeric pattern, such as ``yyyy-MM-dd``."""
    match arguments:
        case [Term() as moment, Constant(value=str(pattern))] if pieces(pattern) is not None:
            if isinstance(moment.data_type, StringType):
                moment = date(moment, zone) or moment
            if isinstance(moment.data_type, DateType | TimestampType):
                clock = Constant(StringType(), zone)
                fails = isinstance(moment.data_type, DateType)
                return Call(StringType(), _formatted, (moment, arguments[1], clock), fails=fails)
    return None


def _formatted(
    wanted: pa.DataType, moments: pa.Array, pattern: pa.Array, zone: pa.Array
) -> pa.Array:
    """Format dates or timestamps by a pattern of `pieces`."""
    if not len(moments):
        return pa.array([], wanted)
    is_date = pa.types.is_date(moments.type)
    if is_date:  # Spark formats timestamps
        check_days(whole_numbers(moments))
    clock = moments.cast(pa.timestamp("us")) if is_date else local(moments, zone)
    parts = [
        pa.repeat(piece[1:], len(moments)) if piece.startswith("'") else _FIELDS[piece](clock)
        for piece in pieces(pattern[0].as_py()) or ()
    ]
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _of_day(name: str) -> Callable[[pa.Array], pa.Array]:
    return lambda clock: days.padded(days.part(name, _day_of(clock)), 2)


def _of_time(compute: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    return lambda clock: days.padded(compute(clock), 2)


def _day_of(clock: pa.Array) -> pa.Array:
    """Return the days since 1970 of local times."""
    return pa.array(whole_numbers(clock) // DAY_MICROS, mask=nulls_of(clock))


def _year(clock: pa.Array) -> pa.Array:
    """Return the year of its era; a year of more than four digits has a sign."""
    years = days.part("year", _day_of(clock))
    of_era = pc.if_else(pc.greater(years, 0), years, pc.subtract(1, years))
    signs = pc.if_else(pc.greater(of_era, 9999), "+", "")
    return pc.binary_join_element_wise(signs, days.padded(of_era, 4), "")


_FIELDS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {
        "yyyy": _year,
        "MM": _of_day("month"),
        "dd": _of_day("day"),
        "HH": _of_time(pc.hour),
        "mm": _of_time(pc.minute),
        "ss": _of_time(pc.second),
    }
)
"""By the letters of patterns."""

DATES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "year": _part("year"),
        "quarter": _part("quarter"),
        "month": _part("month"),
        "weekofyear": _part("week"),
        **dict.fromkeys(("day", "dayofmonth"), _part("day")),
        "dayofyear": _part("day of year"),
        "dayofweek": _part("day of week"),
        "weekday": _part("weekday"),
        **dict.fromkeys(("to_date", "date"), by_count({1: _to_date})),
        **dict.fromkeys(("date_add", "dateadd"), signature(moved(pc.add), _DATE, date, whole)),
        "date_sub": signature(moved(pc.subtract), _DATE, date, whole),
        "add_months": signature(months_later, _DATE, date, whole, fails=True),
        **dict.fromkeys(
            ("datediff", "date_diff"), signature(_difference, IntegerType(), date, date)
        ),
        "last_day": signature(_last_day, _DATE, date),
        "next_day": signature(_next_day, _DATE, date, text, fails=True),
        "trunc": by_count({2: _trunc}),
        "date_format": _date_format,
    }
)
