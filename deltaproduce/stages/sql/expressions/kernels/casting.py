"""Casts: the value in another type, or an error, or null, if it has none there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.stages.sql.expressions.kernels.days import padded, part
from deltaproduce.stages.sql.expressions.kernels.decimals import fitted, truncated
from deltaproduce.stages.sql.expressions.kernels.failures import refuse
from deltaproduce.stages.sql.expressions.kernels.rows import by_row, nulls_of, whole_numbers
from deltaproduce.times.local_times import DAY_MICROS
from deltaproduce.types.pandas_on_demand import in_numpy

TRIMMED: Final = "".join(map(chr, (*range(33), 127)))
"""The blanks and control characters that Spark trims from text before it parses a value."""
_MOST: Final = 76
_DATE: Final = r"^(?P<y>[0-9]{4})(?:-(?P<m>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})(?:[ T](?s:.)*)?)?)?$"

Fitting: TypeAlias = Callable[[pa.DataType, pa.Array], pa.Array]
"""Returns the values in a type, with null for those that have none there."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast that some values do not fit, as a kernel that refuses them.

    Attributes:
        fitting: computes it, with null for misfits.
        condition: Spark's name for a misfit, or what returns it for one.
    """

    fitting: Fitting
    condition: str | Callable[[Any], str]

    def __call__(self, wanted: pa.DataType, value: pa.Array) -> pa.Array:
        """Return the values in a type.

        Raises:
            EvaluationError: one of them has none there.
        """
        result = self.fitting(wanted, value)
        if result.null_count > value.null_count:
            wrong = pc.and_(pc.is_null(result), pc.is_valid(value))
            condition = self.condition
            if not isinstance(condition, str):
                (condition,) = by_row(condition, value.filter(wrong).slice(0, 1))
            refuse(wrong, condition, f"a value does not fit {wanted}")
        return result


def widened(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast values to a type that holds them all, or the nearest ones."""
    data_type = value.type
    if pa.types.is_decimal(data_type) and pa.types.is_floating(wanted):
        return value.cast(pa.string()).cast(wanted)  # rounds once; Arrow's cast does not
    if pa.types.is_integer(data_type) and pa.types.is_decimal(wanted):
        return value.cast(pa.decimal256(_MOST, wanted.scale)).cast(wanted)
    if (
        pa.types.is_decimal(data_type)
        and pa.types.is_decimal(wanted)
        and data_type.scale > wanted.scale
    ):
        return fitted(wanted, value)
    return value.cast(wanted, safe=not pa.types.is_floating(wanted))


def digits(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast decimals to text with all their digits, and no exponent."""
    return pa.array(by_row(lambda number: f"{number:f}", value), wanted)


def day_text(_: pa.DataType, dates: pa.Array) -> pa.Array:
    """Cast dates to text; a year that has not four digits has a sign."""
    years = part("year", dates)
    sign = pc.if_else(pc.less(years, 0), "-", pc.if_else(pc.greater(years, 9999), "+", ""))
    year = padded(pc.abs(years), 4)
    month, day = (padded(part(name, dates), 2) for name in ("month", "day"))
    text = pc.binary_join_element_wise(year, month, day, "-", null_handling="emit_null")
    return pc.binary_join_element_wise(sign, text, "", null_handling="emit_null")


def to_boolean(_: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast whole numbers: all but zero are true."""
    return pc.not_equal(value, pa.scalar(0, value.type))


def whole_days(wanted: pa.DataType, micros: pa.Array) -> pa.Array:
    """Cast intervals to the days that they last."""
    return pc.divide(micros, DAY_MICROS).cast(wanted)


def _within(kind: pa.DataType, value: pa.Array) -> pa.Array:
    """Return whole numbers in a type; null for those that it does not hold."""
    ends = _ends(kind)
    if pa.types.is_integer(value.type) and value.type.bit_width <= kind.bit_width:
        return value.cast(kind)
    least, greatest = (pa.scalar(end, pa.int64()).cast(value.type) for end in (ends.min, ends.max))
    fits = pc.and_(pc.greater_equal(value, least), pc.less_equal(value, greatest))
    return pc.if_else(fits, value, pa.scalar(None, value.type)).cast(kind)


def _ends(kind: pa.DataType) -> np.iinfo:
    """Return the range of whole numbers; Arrow would import pandas to name their NumPy type."""
    return np.iinfo(f"int{kind.bit_width}")


def _whole(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Truncate numbers at the point."""
    if pa.types.is_decimal(value.type):
        return _within(wanted, truncated(value))
    if pa.types.is_floating(value.type):
        return _of_floats(wanted, value)
    return _within(wanted, value)


def _of_floats(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Truncate floats; the float above the greatest bigint is that one, as in Java."""
    whole = np.trunc(in_numpy(pc.fill_null(value, 0.0)).astype(np.float64))
    ends = _ends(wanted)
    fits = (whole >= float(ends.min)) & (whole <= float(ends.max))
    with np.errstate(invalid="ignore"):
        numbers = np.where(fits, whole, 0).astype(np.int64)
    numbers = np.where(fits & (whole == 2.0**63), np.int64(2**63 - 1), numbers)
    return pa.array(numbers, mask=~fits | nulls_of(value)).cast(wanted)


def _decimal(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast whole numbers and decimals, rounding half up."""
    if pa.types.is_integer(value.type):
        value = value.cast(pa.decimal128(19, 0))
    return fitted(wanted, value)


def _text_to_integer(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    text = pc.utf8_trim(value, characters=TRIMMED)
    parts = pc.extract_regex(text, r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})$")
    sign, digits = parts.flatten()
    signed = pc.binary_join_element_wise(pc.if_else(pc.equal(sign, "-"), "-", ""), digits, "")
    return _within(wanted, signed.cast(pa.decimal256(_MOST, 0)))


def _text_to_date(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Parse ``2013``, ``2013-3``, ``2013-3-15``, and the last with any text after a blank or T."""
    parts = pc.extract_regex(pc.utf8_trim(value, characters=TRIMMED), _DATE)
    years, months, days = (_part(part) for part in parts.flatten())
    possible = (months >= 1) & (months <= 12) & (days >= 1)
    months = np.where(possible, months, 1)
    starts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    lengths = ((starts + 1).astype("datetime64[D]") - starts.astype("datetime64[D]")).astype(int)
    possible &= days <= lengths
    dates = starts.astype("datetime64[D]") + (days - 1)
    return pa.array(dates.astype(np.int32), pa.int32(), mask=~possible | nulls_of(parts)).cast(
        wanted
    )


def _part(part: pa.Array) -> NDArray[np.int64]:
    """Return the number of a part of a date, 1 if it has none."""
    return whole_numbers(pc.if_else(pc.equal(part, ""), "1", part).cast(pa.int64()), 1)


to_integer: Final = Cast(_whole, "CAST_OVERFLOW")
to_decimal: Final = Cast(_decimal, "NUMERIC_VALUE_OUT_OF_RANGE")
text_to_integer: Final = Cast(_text_to_integer, "CAST_INVALID_INPUT")
text_to_date: Final = Cast(_text_to_date, "CAST_INVALID_INPUT")
