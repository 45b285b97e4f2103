"""The catalogue of types without parts: all facts about each, in one place.

A new type is an entry here. Code that composes types (arrays, maps, structs) or writes values gets
an entry from `atom`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import pyarrow as pa

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
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from deltaproduce.types.pandas_on_demand import await_pandas

await_pandas()  # whatever makes an array here has imported this module before

IsArrow: TypeAlias = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class Atom:
    """A type without parts.

    Attributes:
        names: its names in Spark's DDL; none if it takes parameters.
        arrow: the Arrow type in which Spark exchanges it; for a decimal, without precision and
            scale.
        python: the Python types that Arrow writes exactly.
        takes: whether values of an Arrow type may be of this type, if each of them fits.
        in_footers: how Parquet's footers store the least and greatest values of a row group: as
            whole numbers (a decimal without its point), as bytes, or, if None, not in one plain
            order.
        has_statistics: Delta may skip files by its values.
        prunes: as a partition column, it prunes files.
        is_sized: all values have the same size.
        is_whole: Parquet stores the values as whole numbers; a decimal only up to `WHOLE_DIGITS`
            digits.
    """

    names: tuple[str, ...]
    arrow: pa.DataType
    python: frozenset[type]
    takes: IsArrow
    in_footers: Literal["number", "bytes"] | None = None
    has_statistics: bool = True
    prunes: bool = False
    is_sized: bool = True
    is_whole: bool = False


WHOLE_DIGITS: Final = 18
"""Parquet stores decimals of at most this many digits as 64-bit whole numbers."""


def atom(data_type: DataType) -> Atom | None:
    """Return a type's entry; None if it has parts, or cannot be stored."""
    return ATOMS.get(type(data_type))


def is_whole(data_type: DataType) -> bool:
    """Return whether Parquet stores the values of a type as whole numbers."""
    known = atom(data_type)
    fits = not isinstance(data_type, DecimalType) or data_type.precision <= WHOLE_DIGITS
    return known is not None and known.is_whole and fits


def _any_of(*kinds: IsArrow) -> IsArrow:
    return lambda data_type: any(is_kind(data_type) for is_kind in kinds)


def _timestamp(*, zoned: bool) -> IsArrow:
    return lambda data_type: (
        pa.types.is_timestamp(data_type) and (data_type.tz is not None) == zoned
    )


_is_integer: Final = pa.types.is_integer
_is_float: Final = _any_of(_is_integer, pa.types.is_float16, pa.types.is_float32)
_is_string: Final = _any_of(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_is_binary: Final = _any_of(
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_INT: Final = frozenset({int})
_FLOAT: Final = frozenset({float, int})

ATOMS: Final[Mapping[type[DataType], Atom]] = MappingProxyType(
    {
        BooleanType: Atom(
            ("boolean",),
            pa.bool_(),
            frozenset({bool}),
            pa.types.is_boolean,
            "number",
            has_statistics=False,  # Delta: DATA_SKIPPING_NOT_SUPPORTED_TYPE, as for binary
        ),
        ByteType: Atom(("tinyint", "byte"), pa.int8(), _INT, _is_integer, "number", is_whole=True),
        ShortType: Atom(
            ("smallint", "short"), pa.int16(), _INT, _is_integer, "number", is_whole=True
        ),
        IntegerType: Atom(
            ("int", "integer"),
            pa.int32(),
            _INT,
            _is_integer,
            "number",
            prunes=True,
            is_whole=True,
        ),
        LongType: Atom(
            ("bigint", "long"),
            pa.int64(),
            _INT,
            _is_integer,
            "number",
            prunes=True,
            is_whole=True,
        ),
        FloatType: Atom(("float", "real"), pa.float32(), _FLOAT, _is_float),
        DoubleType: Atom(
            ("double",), pa.float64(), _FLOAT, _any_of(_is_float, pa.types.is_float64)
        ),
        DecimalType: Atom(
            (),
            pa.decimal128(38),
            frozenset({Decimal, int}),
            _any_of(pa.types.is_decimal, _is_integer),
            "number",
            is_whole=True,
        ),
        StringType: Atom(
            ("string",),
            pa.string(),
            frozenset({str}),
            _is_string,
            "bytes",
            prunes=True,
            is_sized=False,
        ),
        BinaryType: Atom(
            ("binary",),
            pa.binary(),
            frozenset({bytes, bytearray}),
            _is_binary,
            "bytes",
            has_statistics=False,
            is_sized=False,
        ),
        DateType: Atom(
            ("date",),
            pa.date32(),
            frozenset({date}),
            pa.types.is_date,
            "number",
            prunes=True,
            is_whole=True,
        ),
        TimestampType: Atom(
            ("timestamp", "timestamp_ltz"),
            pa.timestamp("us", "UTC"),
            frozenset({datetime}),
            _timestamp(zoned=True),
            "number",
            is_whole=True,
        ),
        TimestampNTZType: Atom(
            ("timestamp_ntz",),
            pa.timestamp("us"),
            frozenset({datetime}),
            _timestamp(zoned=False),
            "number",
            is_whole=True,
        ),
    }
)
"""All types without parts that a column may have."""


def has_instants(data_type: DataType) -> bool:
    """Return whether a value of a type is a timestamp, or has one."""
    match data_type:
        case StructType():
            return any(has_instants(field.dataType) for field in data_type.fields)
        case ArrayType():
            return has_instants(data_type.elementType)
        case MapType():
            return has_instants(data_type.keyType) or has_instants(data_type.valueType)
    return isinstance(data_type, TimestampType)
