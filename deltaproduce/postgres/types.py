"""Types: the PostgreSQL type of a store's column, and valid names.

Pure. The invariant: a column that is not refused can be written and read back without loss, except
for the values that `rendering` refuses, and for the order of a map's entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from deltaproduce.errors import DefinitionError
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import Column
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

_TYPES: Final[Mapping[type[DataType], str]] = MappingProxyType(
    {
        BooleanType: "boolean",
        ByteType: "smallint",
        ShortType: "smallint",
        IntegerType: "integer",
        LongType: "bigint",
        FloatType: "real",
        DoubleType: "double precision",
        StringType: "text",
        BinaryType: "bytea",
        DateType: "date",
        TimestampType: "timestamp with time zone",
        TimestampNTZType: "timestamp without time zone",
        ArrayType: "jsonb",
        MapType: "jsonb",
        StructType: "jsonb",
    }
)
_LONGEST_NAME: Final = 63
"""In bytes: PostgreSQL cuts longer names off."""
_MOST_COLUMNS: Final = 1598
"""Of the 1,600 columns of a table, two are the sync's own, in the tables that it works with."""
_SYSTEM_COLUMNS: Final = frozenset({"ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"})


def postgres_type(data_type: DataType) -> str:
    """Return PostgreSQL's name of a type, in the words of its ``format_type``."""
    if isinstance(data_type, DecimalType):
        return f"numeric({data_type.precision},{data_type.scale})"
    return _TYPES[type(data_type)]


def check_columns(columns: Iterable[Column], *, stage: str) -> None:
    """Refuse columns that PostgreSQL cannot have.

    Raises:
        DefinitionError: with `stage` and `column`.
    """
    columns = tuple(columns)
    if len(columns) > _MOST_COLUMNS:
        raise DefinitionError(
            f"stage {stage!r} has {len(columns)} columns, and a sync can copy {_MOST_COLUMNS}: "
            "PostgreSQL's tables have at most 1,600, and two are the sync's own",
            stage=stage,
        )
    for column in columns:
        fault_text = name_fault(column.name)
        if fault_text is None and column.name in _SYSTEM_COLUMNS:
            fault_text = "PostgreSQL has a column of that name in every table"
        if fault_text is None and "\0" in column.data_type.simpleString():
            fault_text = "a field of its type has a name with a NUL character"
        if fault_text is None and not _is_mapped(column.data_type):
            kind = column.data_type.simpleString()
            fault_text = f"the key of a map has parts ({kind}), which a key of JSON cannot have"
        if fault_text is not None:
            raise DefinitionError(
                f"column {column.name!r} of stage {stage!r} cannot be in PostgreSQL: {fault_text}",
                stage=stage,
                column=column.name,
            )


def name_fault(name: str) -> str | None:
    """Return what is wrong with a name in PostgreSQL; None if nothing is."""
    if "\0" in name:
        return "its name has a NUL character"
    size = len(name.encode("utf-8", "surrogatepass"))
    if size <= _LONGEST_NAME:
        return None
    return f"its name has {size} bytes, of which PostgreSQL keeps {_LONGEST_NAME}"


def _is_mapped(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(elementType=element):
            return _is_mapped(element)
        case MapType(keyType=key, valueType=value):
            return atom(key) is not None and _is_mapped(value)
        case StructType(fields=fields):
            return all(_is_mapped(field.dataType) for field in fields)
    return True
