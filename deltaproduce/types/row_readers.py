"""Rows as a produce function gets them: Arrow columns in, Python values out.

A row of one column is the bare value, a row of several is a named tuple. Values are what a PySpark
user expects: a timestamp is a naive datetime on the store's clock, a struct a named tuple, an
array a list, a map a dict.

Invariant: nothing is lost. `row_writers.emission_writer` writes the values of `row_reader` back as
the same Arrow values, for every type and time zone.

The work is per column, as 10 million rows pass through here, in seconds instead of minutes.
`row_writers` is its counterpart.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Context, Decimal, localcontext
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.types.catalogue import WHOLE_DIGITS
from deltaproduce.types.columns import Columns, row_type
from deltaproduce.types.data_types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

RowReader: TypeAlias = Callable[[Sequence[pa.Array]], Iterator[Any]]


class UnreadableError(ValueError):
    """A stored value that no Python object represents.

    Attributes:
        column: the column that has it, if known.
    """

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


def row_reader(columns: Columns, zone: tzinfo) -> RowReader:
    """Return the function that turns the arrays of ``columns`` into rows.

    Args:
        columns: the columns that the arrays hold, by position.
        zone: the clock on which timestamps become naive datetimes. Their ``fold`` marks the second
            pass of an hour that the clock repeats.

    Returns:
        A function that converts all columns at once, and raises UnreadableError for dates outside
        the years 1 to 9999; it creates the named tuples during iteration. A tuple that is freed
        before the next is created costs half as much as one in a list, and no garbage collection.
    """
    readers = [
        partial(_naming, name=column.name, read=_value_reader(column.data_type, zone))
        for column in columns
    ]
    if len(readers) == 1:
        (read,) = readers
        return lambda arrays: iter(read(arrays[0]))
    row = row_type(columns.names)
    return lambda arrays: _rows(
        row, [read(array) for read, array in zip(readers, arrays, strict=True)]
    )


_ARROW_CLOCKS_END: Final = datetime(2037, 1, 1)
"""The end of Arrow's time zones: it applies no daylight saving time after 2037."""

_NO_MOMENT: Final = np.iinfo(np.int64).min
"""What NumPy stores for NaT."""

_Reader: TypeAlias = Callable[[pa.Array], list[Any]]


def _naming(array: pa.Array, *, name: str, read: _Reader) -> list[Any]:
    """Read a column, and name it in errors."""
    try:
        return read(array)
    except UnreadableError as error:
        raise UnreadableError(f"column {name!r} has {error}", name) from None


def _value_reader(data_type: DataType, zone: tzinfo) -> _Reader:
    match data_type:
        case TimestampType():
            return _read_moments if zone is UTC else partial(_read_on_clock, zone=zone)
        case DateType() | TimestampNTZType():
            return _read_moments
        case DecimalType(precision=precision, scale=scale) if precision <= WHOLE_DIGITS:
            return partial(_read_short_decimals, last_place=Decimal((0, (1,), -scale)))
        case DecimalType():  # a third of the time of to_pylist
            return lambda array: array.to_numpy(zero_copy_only=False).tolist()
        case StructType():
            fields = [_value_reader(field.dataType, zone) for field in data_type.fields]
            return partial(_read_structs, row=row_type(data_type.names), readers=fields)
        case ArrayType():
            return partial(_read_arrays, read=_value_reader(data_type.elementType, zone))
        case MapType():
            key = _value_reader(data_type.keyType, zone)
            return partial(_read_maps, key=key, value=_value_reader(data_type.valueType, zone))
    return lambda array: array.to_pylist()


def _rows(row: type[tuple[Any, ...]], columns: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """Like ``row._make`` for each row, but without a Python frame for each."""
    return map(tuple.__new__, repeat(row), zip(*columns, strict=True))


_EXACT: Final = Context(prec=2 * WHOLE_DIGITS, Emin=-WHOLE_DIGITS, Emax=2 * WHOLE_DIGITS, traps=[])
"""The context of products that are exact; the function's own may be any."""


def _read_short_decimals(array: pa.Decimal128Array, last_place: Decimal) -> list[Any]:
    """Read decimals as whole numbers of their last place: in two thirds of Arrow's time."""
    halves = np.frombuffer(array.buffers()[1] or b"", "<i8")
    numbers = halves[2 * array.offset : 2 * (array.offset + len(array)) : 2].tolist()
    with localcontext(_EXACT):
        return _with_nulls(array, [*map(last_place.__mul__, numbers)])


def _read_moments(array: pa.Array) -> list[Any]:
    """Read dates and timestamps through NumPy, which leaves those it cannot represent as int.

    Not by `to_numpy`, which would import pandas.
    """
    is_date = pa.types.is_date(array.type)
    numbers = array.cast(pa.int32() if is_date else pa.int64()).cast(pa.int64())
    unit = "D" if is_date else array.type.unit
    instants = np.from_dlpack(numbers.fill_null(_NO_MOMENT)).view(f"M8[{unit}]")
    moments: list[Any] = instants.tolist()
    if int in set(map(type, moments)) or moments.count(None) > array.null_count:
        value = next((moment for moment in moments if type(moment) is int), _NO_MOMENT)
        raise UnreadableError(f"{far_text(value, unit)}, and Python has the years 1 to 9999")
    return moments


def far_text(number: int, unit: str, *, zoned: bool = False) -> str:
    """Return a date or a time of any year in ISO 8601, with a sign: ``+10000-01-01``.

    Args:
        number: it, counted from 1970.
        unit: what it counts, as NumPy calls it; ``D`` for days.
        zoned: whether it is a time in UTC, and not one without a zone.
    """
    days, rest = (number, 0) if unit == "D" else divmod(number, _A_DAY[unit])
    text = str(np.datetime64(days, "D"))
    year, month, day = text.lstrip("-").split("-")
    far_date = f"{'-' if text[0] == '-' else '+'}{year:0>4}-{month}-{day}"
    if unit == "D":
        return far_date
    seconds, micros = divmod(rest * 86_400_000_000 // _A_DAY[unit], 1_000_000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"{far_date}T{time}{'+00:00' if zoned else ''}"


_A_DAY: Final = MappingProxyType(
    {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
)


def _read_on_clock(array: pa.Array, zone: tzinfo) -> list[Any]:
    moments = _read_moments(array)
    latest = pc.max(array.cast(pa.timestamp("us")))
    if isinstance(zone, ZoneInfo) and latest.is_valid and latest.as_py() < _ARROW_CLOCKS_END:
        return _read_on_arrow_clock(array.cast(pa.timestamp("us", zone.key)))
    try:
        return [
            moment and zone.fromutc(moment.replace(tzinfo=zone)).replace(tzinfo=None)
            for moment in moments
        ]
    except OverflowError as error:
        message = f"a time outside the years 1 to 9999 in time zone {zone}, and Python has these"
        raise UnreadableError(message) from error


def _read_on_arrow_clock(array: pa.Array) -> list[Any]:
    """Read timestamps twenty times as fast as Python's clocks, with ``fold`` for a second pass."""
    local = pc.local_timestamp(array)
    moments = _read_moments(local)
    first_pass = pc.assume_timezone(local, array.type.tz, ambiguous="earliest")
    for index in pc.indices_nonzero(pc.not_equal(first_pass, array).fill_null(False)).to_pylist():
        moments[index] = moments[index].replace(fold=1)
    return moments


def _read_structs(
    array: pa.StructArray, row: type[tuple[Any, ...]], readers: Sequence[_Reader]
) -> list[Any]:
    fields = [read(field) for read, field in zip(readers, array.flatten(), strict=True)]
    return _with_nulls(array, list(_rows(row, fields)))


def _read_arrays(array: pa.ListArray, read: _Reader) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return _with_nulls(array, list(_cut(read(_child(array.values, offsets)), offsets)))


def _read_maps(array: pa.MapArray, key: _Reader, value: _Reader) -> list[Any]:
    offsets = array.offsets.to_pylist()
    keys, values = key(_child(array.keys, offsets)), value(_child(array.items, offsets))
    entries = list(zip(keys, values, strict=True))
    return _with_nulls(array, list(map(dict, _cut(entries, offsets))))


def _child(values: pa.Array, offsets: Sequence[int]) -> pa.Array:
    return values.slice(offsets[0], offsets[-1] - offsets[0])


def _cut(values: list[Any], offsets: Sequence[int]) -> Iterator[list[Any]]:
    """Cut the child values of a list array into those of its rows; it may itself be a slice."""
    first = offsets[0]
    ends = iter(offsets)
    next(ends)
    return (values[start - first : end - first] for start, end in zip(offsets, ends, strict=False))


def _with_nulls(array: pa.Array, rows: list[Any]) -> list[Any]:
    if array.null_count:
        for index in np.flatnonzero(array.is_null()).tolist():
            rows[index] = None
    return rows
