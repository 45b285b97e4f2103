"""Ties: text that makes Spark return the same one of several equal ends.

``max_by(x, y)`` may return any of several values. The library takes the least of them, nulls first,
and so does Spark if ``y`` becomes a struct of ``y`` and of something that is greatest for the least
``x``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from deltaproduce.types.data_types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampType,
)


def decided(function: str, value: str, by: str, kind: DataType | None) -> str | None:
    """Return what ``min_by`` or ``max_by`` compares in place of an expression.

    Args:
        value: the expression whose value is returned.
        by: the expression.
        kind: the type of the value.

    Returns:
        None if Spark cannot be told.
    """
    order = [value] if function == "min_by" else _reversed(value, kind)
    if not order:
        return None
    fields = ", ".join(f"'{place}', {one}" for place, one in enumerate((by, *order)))
    return f"CASE WHEN ({by}) IS NOT NULL THEN named_struct({fields}) END"


def _reversed(value: str, kind: DataType | None) -> list[str]:
    """Return expressions that order the values of an expression from the greatest to the least.

    Null is the greatest of them. There are none for a type whose order cannot be turned round.
    """
    for types, parts in _REVERSED:
        if isinstance(kind, types):
            return [f"({value}) IS NULL", *(part.format(value) for part in parts)]
    return []


_REVERSED: Final[Sequence[tuple[tuple[type[DataType], ...], tuple[str, ...]]]] = (
    ((IntegralType,), ("-CAST({} AS DECIMAL(20, 0))",)),
    ((DecimalType,), ("-({})",)),
    ((FloatType, DoubleType), ("NOT isnan({})", "-({})")),
    # UTF-8's order: each half of a byte counts down, and the end is the greatest
    (
        (StringType, BinaryType),
        ("translate(hex({}), '0123456789ABCDEF', 'FEDCBA9876543210') || 'G'",),
    ),
    ((BooleanType,), ("NOT ({})",)),
    ((DateType,), ("-unix_date({})",)),
    ((TimestampType,), ("-CAST(unix_micros({}) AS DECIMAL(20, 0))",)),
)
"""Types, and what orders their values the other way round."""
