"""Casts: the value in another type, or an error if it has none there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError, Kernel
from deltaproduce.types.pandas_on_demand import in_numpy

_TRIMMED: Final = "".join(map(chr, (*range(33), 127)))
"""The blanks and control characters that Spark trims from text before it parses a value."""
_MOST: Final = 76


def _widened(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast values to a type that holds them all, or the nearest floating-point ones."""
    if pa.types.is_decimal(value.type) and pa.types.is_floating(wanted):
        return value.cast(pa.string()).cast(wanted)  # rounds once; Arrow's cast does not
    if pa.types.is_integer(value.type) and pa.types.is_decimal(wanted):
        return value.cast(pa.decimal256(_MOST, wanted.scale)).cast(wanted)
    return value.cast(wanted, safe=not pa.types.is_floating(wanted))


def _to_integer(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Truncate numbers at the point."""
    try:
        if pa.types.is_decimal(value.type):
            value = value.cast(pa.decimal256(_MOST, value.type.scale))
        whole = value if pa.types.is_integer(value.type) else pc.trunc(value)
        return whole.cast(wanted)
    except pa.ArrowInvalid:
        raise EvaluationError("CAST_OVERFLOW", f"a value does not fit {wanted}") from None


def _to_decimal(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Cast whole numbers and decimals, rounding half up."""
    scale = value.type.scale if pa.types.is_decimal(value.type) else 0
    wide = value.cast(pa.decimal256(_MOST, max(scale, wanted.scale)))
    rounded = pc.round(wide, wanted.scale, "half_towards_infinity")
    try:
        return rounded.cast(pa.decimal256(_MOST, wanted.scale)).cast(wanted)
    except pa.ArrowInvalid:
        message = f"a value does not fit {wanted}"
        raise EvaluationError("NUMERIC_VALUE_OUT_OF_RANGE", message) from None


def _text_to_integer(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    text = pc.utf8_trim(value, characters=_TRIMMED)
    _check_text(pc.match_substring_regex(text, "^[+-]?[0-9]+$"), value, "a whole number")
    try:
        return pc.replace_substring_regex(text, r"^\+", "").cast(wanted)
    except pa.ArrowInvalid:
        raise EvaluationError("CAST_INVALID_INPUT", f"a value does not fit {wanted}") from None


def _text_to_date(wanted: pa.DataType, value: pa.Array) -> pa.Array:
    """Parse ``2013``, ``2013-3``, ``2013-3-15``, and the last with any text after a blank or T."""
    text = pc.utf8_trim(value, characters=_TRIMMED)
    pattern = r"^(?P<y>[0-9]{4})(?:-(?P<m>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})(?:[ T](?s:.)*)?)?)?$"
    parts = pc.extract_regex(text, pattern)
    _check_text(pc.is_valid(parts), value, "a date")
    year, month, day = (
        pc.if_else(pc.equal(part, ""), "1", part).cast(pa.int64()) for part in parts.flatten()
    )
    nulls = in_numpy(pc.is_null(value))
    years, months, days = (in_numpy(pc.fill_null(part, 1)) for part in (year, month, day))
    possible = (months >= 1) & (months <= 12) & (days >= 1)
    months = np.where(possible, months, 1)
    starts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    lengths = ((starts + 1).astype("datetime64[D]") - starts.astype("datetime64[D]")).astype(int)
    possible &= days <= lengths
    _check_text(pa.array(possible | nulls), value, "a date")
    found = starts.astype("datetime64[D]") + (days - 1)
    return pa.array(found.astype(np.int32), pa.int32(), mask=nulls).cast(wanted)


def _check_text(fits: pa.Array, value: pa.Array, what: str) -> None:
    if pc.any(pc.and_(pc.is_valid(value), pc.invert(pc.fill_null(fits, fill_value=False)))).as_py():
        raise EvaluationError("CAST_INVALID_INPUT", f"a text is not {what}")


CASTING: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "widen": _widened,
        "to integer": _to_integer,
        "to decimal": _to_decimal,
        "to boolean": lambda _, value: pc.not_equal(value, pa.scalar(0, value.type)),
        "text to integer": _text_to_integer,
        "text to date": _text_to_date,
    }
)
"""By the names in terms."""
