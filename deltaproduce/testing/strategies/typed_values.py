"""Data of any schema: ordinary values, and edge cases."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

from deltaproduce.types.columns import Columns
from deltaproduce.types.data_types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

Row: TypeAlias = tuple[Any, ...]


def keys(columns: Columns, near: Collection[str] = ()) -> st.SearchStrategy[Row]:
    """Keys of a schema: tuples of few different values a column, the edges of its type among them.

    Args:
        columns: the key columns. Nullable ones are sometimes None.
        near: the names of those whose values are near one another, as those of windows should be.
    """
    return st.tuples(
        *(
            _typed(column.data_type, column.nullable, _near if column.name in near else _edges)
            for column in columns
        )
    )


def values(columns: Columns) -> st.SearchStrategy[Row]:
    """Values of a schema: tuples of anything that the columns' types can hold.

    Half of the values are the edges that `keys` draws, so that a stage that makes keys of values
    meets the same key again. Timestamps are naive: the session's time zone should be Python's.

    Args:
        columns: the value columns. Nullable ones are sometimes None.
    """
    return st.tuples(*(_typed(column.data_type, column.nullable, _atoms) for column in columns))


def _typed(
    data_type: DataType, nullable: bool, atoms: Callable[[DataType], st.SearchStrategy[Any]]
) -> st.SearchStrategy[Any]:
    """Draw values of a type; `atoms` draws the innermost values."""
    strategy: st.SearchStrategy[Any]
    match data_type:
        case StructType():
            strategy = st.tuples(
                *(_typed(field.dataType, field.nullable, atoms) for field in data_type.fields)
            )
        case ArrayType():
            items = _typed(data_type.elementType, data_type.containsNull, atoms)
            strategy = st.lists(items, max_size=3)
        case MapType():
            map_keys = _typed(data_type.keyType, False, _without_nan)
            items = _typed(data_type.valueType, data_type.valueContainsNull, atoms)
            strategy = st.dictionaries(map_keys, items, max_size=3)
        case _:
            strategy = atoms(data_type)
    return strategy | st.none() if nullable else strategy


def _atoms(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw an edge of the type, or any of its values."""
    return _edges(data_type) | _anything(data_type)


def _without_nan(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw edges that can be keys of a map, in Python too."""
    return _edges(data_type).filter(lambda value: value == value)


_TEXTS = (
    *("a", "b", "", "A", "ab", " a", "a ", "0", "null", "%_*", "'", '"', "\\", "\\'", "`${a}`"),
    *("\n", "\r\n", "\t", "\x00", "a\x00b", "\x7f", "é", "e\u0301", "ß", "\uff5e", "😀", "x" * 300),
)
_BINARIES = (b"", b"a", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00", b"'\\", b"x" * 300)
_FLOATS = (0.0, 1.0, -1.0, 0.5, -0.0, float("nan"), float("inf"), float("-inf"))
_DATES = tuple(
    datetime.date(*day)
    for day in (
        *((1970, 1, 1), (2000, 2, 29), (1969, 12, 31), (1582, 10, 4), (1582, 10, 15)),
        *((1, 1, 1), (1900, 1, 1), (9999, 12, 31)),
    )
)
_DAY = datetime.date(2013, 2, 26)  # near the end of a week and of a month
_TIMES = (
    datetime.timedelta(),
    datetime.timedelta(hours=12),
    datetime.timedelta(days=1, microseconds=-1),
)
_INTEGER_BITS: dict[type[DataType], int] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
# The offset moves a timestamp with time zone on its way: PySpark cannot read the very edges.
_MARGIN = datetime.timedelta(days=2)


def _edges(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw from few values of a type: ordinary ones first, then edge cases."""
    least, greatest = _bounds(data_type)
    match data_type:
        case BooleanType():
            return st.booleans()
        case ByteType() | ShortType() | IntegerType() | LongType():
            return st.sampled_from((0, 1, 2, 3, -1, 10, greatest, least))
        case FloatType() | DoubleType():
            return st.sampled_from(_FLOATS)
        case DecimalType():
            units = (*(n for n in (0, 1, -1, 5, 10) if n <= greatest), greatest, least)
            return st.sampled_from([_decimal(unit, data_type) for unit in units])
        case StringType():
            return st.sampled_from(_TEXTS)
        case BinaryType():
            return st.sampled_from(_BINARIES)
        case DateType():
            return st.sampled_from(_DATES)
        case TimestampType() | TimestampNTZType():
            midnights = (datetime.datetime(day.year, day.month, day.day) for day in _DATES)
            moments = [moment for moment in midnights if least <= moment <= greatest]
            microsecond = datetime.timedelta(microseconds=1)
            return st.sampled_from([*moments, moments[0] + microsecond, least, greatest])
    raise TypeError(f"no strategy for type {data_type.simpleString()!r}")


def _anything(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw any value of a type."""
    least, greatest = _bounds(data_type)
    match data_type:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return st.integers(least, greatest)
        case FloatType() | DoubleType():
            return st.floats(width=32 if isinstance(data_type, FloatType) else 64)
        case DecimalType():
            return st.integers(least, greatest).map(lambda unit: _decimal(unit, data_type))
        case StringType():
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        case BinaryType():
            return st.binary(max_size=20)
        case DateType():
            return st.dates()
        case TimestampType() | TimestampNTZType():
            return st.datetimes(least, greatest)
    return _edges(data_type)


def _bounds(data_type: DataType) -> tuple[Any, Any]:
    """Return the least and the greatest value of a type that has them."""
    match data_type:
        case ByteType() | ShortType() | IntegerType() | LongType():
            bits = _INTEGER_BITS[type(data_type)]
            return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        case DecimalType():
            return 1 - 10**data_type.precision, 10**data_type.precision - 1
        case TimestampType():
            return datetime.datetime.min + _MARGIN, datetime.datetime.max - _MARGIN
        case TimestampNTZType():
            return datetime.datetime.min, datetime.datetime.max
    return None, None


def partitions(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw partitions that are near one another: days (of timestamps too), or integers."""
    if isinstance(data_type, IntegralType):
        return st.integers(-12, 12)
    return st.integers(-9, 9).map(lambda days: _DAY + datetime.timedelta(days=days))


def _near(data_type: DataType) -> st.SearchStrategy[Any]:
    """Draw values in such partitions; timestamps at the edges of days."""
    partition_of = partitions(data_type)
    if not isinstance(data_type, TimestampType | TimestampNTZType):
        return partition_of
    midnights = partition_of.map(lambda day: datetime.datetime(day.year, day.month, day.day))
    return st.tuples(midnights, st.sampled_from(_TIMES)).map(lambda at: at[0] + at[1])


def _decimal(unit: int, data_type: DecimalType) -> Decimal:
    """Return this many units in the last place as a decimal; exact in any decimal context."""
    sign, digits = int(unit < 0), tuple(int(digit) for digit in str(abs(unit)))
    return Decimal((sign, digits, -data_type.scale))
