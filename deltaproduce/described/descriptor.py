"""Descriptors: the columns of a data set's rows, and how its files store them.

Pure. A descriptor is stored as JSON in a property of the Delta table, and one commit creates both.
The invariant: two descriptors are equal if they mean the same, however types and codecs are
spelled; and a stored descriptor reads back as an equal one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from deltaproduce.described.partitions import PartitionColumn, partitions
from deltaproduce.errors import DefinitionError
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import (
    Column,
    Columns,
    SchemaLike,
    named_columns,
    plain_columns,
    with_nulls,
)
from deltaproduce.types.data_types import (
    ArrayType,
    DecimalType,
    FractionalType,
    MapType,
    StructType,
)
from deltaproduce.types.ddl import quoted
from deltaproduce.types.excerpts import shown
from deltaproduce.types.json.fields import (
    Kind,
    fields,
    is_integer,
    is_text,
    is_texts,
    optional,
    parsed,
)

PROPERTY: Final = "deltaproduce.descriptor"
"""The property of a Delta table that stores its descriptor."""

_VERSION: Final = 1
_CODECS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "snappy": "snappy",
        "zstd": "zstd",
        "gzip": "gzip",
        "lz4": "lz4",
        "lz4_raw": "lz4",
        "uncompressed": "uncompressed",
        "none": "uncompressed",
    }
)
_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "schema": is_text,
        "partition": optional(is_texts),
        "order": is_texts,
        "compression": is_text,
        "version": is_integer,
    }
)


class BrokenDescriptorError(ValueError):
    """A text that is not a descriptor; the error's message says why."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The stored description of a data set's rows and files; two with the same meaning are equal.

    Attributes:
        schema: the columns of its rows, as DDL.
        partition: its partitioning, columns and ``expression AS name``; empty for ``partition=""``,
            None for none.
        order: the columns that sort the rows of each file; with ``DESC`` if descending.
        compression: the codec of its files.
        version: the version of this form of descriptors.
    """

    schema: str
    partition: tuple[str, ...] | None
    order: tuple[str, ...]
    compression: str
    version: int = _VERSION

    def as_dict(self) -> dict[str, Any]:
        """The descriptor as JSON values."""
        return {
            "schema": self.schema,
            "partition": None if self.partition is None else list(self.partition),
            "order": list(self.order),
            "compression": self.compression,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class Description:
    """A descriptor with the types of all columns.

    Attributes:
        columns: the columns of the rows.
        by: the partition columns; empty if partitioned by nothing, None if not partitioned at all.
        in_order: the columns that sort the rows of each file.
        compression: the codec of its files.
    """

    columns: Columns
    by: tuple[PartitionColumn, ...] | None
    in_order: tuple[Column, ...]
    compression: str

    @staticmethod
    def of(
        schema: SchemaLike, partition: str | None, order: str | None, compression: str
    ) -> Description:
        """Read a description as it is declared; see `Dataset.create`.

        Raises:
            DefinitionError: the descriptor cannot work.
        """
        columns = plain_columns(schema)
        by = None if partition is None else partitions(_text(partition, "partition"), columns)
        _check_files(by or (), columns)
        in_order = order_of(_text(order, "order"), columns) if order is not None else ()
        return Description(columns, by, in_order, codec(compression))

    @staticmethod
    def read(text: str) -> Description:
        """Read the text that `json` returns.

        Raises:
            BrokenDescriptorError: the text is not a descriptor.
        """
        value = parsed(text)
        version = value.get("version") if isinstance(value, dict) else None
        if is_integer(version) and version != _VERSION:
            raise BrokenDescriptorError(f"it has version {version}, and this release {_VERSION}")
        known = fields(value, _KINDS, required=_KINDS)
        if known is None:
            raise BrokenDescriptorError(f"it has not all of {', '.join(_KINDS)} as they should be")
        by, order = known["partition"], known["order"]
        try:
            return Description.of(
                known["schema"],
                None if by is None else ", ".join(by),
                ", ".join(order),
                known["compression"],
            )
        except DefinitionError as error:
            raise BrokenDescriptorError(str(error)) from error

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor in its stored form."""
        return Descriptor(
            self.columns.ddl,
            None if self.by is None else tuple(one.text for one in self.by),
            tuple(
                f"{quoted(column.name)} DESC" if column.descending else quoted(column.name)
                for column in self.in_order
            ),
            self.compression,
        )

    @property
    def json(self) -> str:
        """Return the descriptor as text."""
        return json.dumps(self.descriptor.as_dict())

    @property
    def partitions(self) -> tuple[PartitionColumn, ...]:
        """The partition columns; empty if it has none."""
        return self.by or ()

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of rows in the types in which files store them."""
        return tuple(
            replace(column, data_type=with_nulls(column.data_type)) for column in self.columns
        )

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns of the Delta table: the columns of rows, then the columns of expressions."""
        own = (one.column for one in self.partitions if one.expression is not None)
        return (*self.stored, *own)

    @property
    def in_files(self) -> tuple[Column, ...]:
        """The columns in the files; Delta stores the partition columns in its log."""
        names = {one.column.name for one in self.partitions}
        return tuple(column for column in self.stored if column.name not in names)

    def differences(self, other: Description) -> dict[str, tuple[object, object]]:
        """Return the parts of another description that differ from this one, the wanted one.

        If a column has another type, only the schema differs, not the parts that name the column.
        """
        wanted, there = self.descriptor.as_dict(), other.descriptor.as_dict()
        differing = {name for name in _KINDS if wanted[name] != there[name]} - {"schema"}
        if self.columns != other.columns:
            differing.add("schema")
        return {name: (wanted[name], there[name]) for name in _KINDS if name in differing}


def arrow_fields(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of columns in files and in the Delta table, with NOT NULL."""
    return pa.schema([pa.field(c.name, arrow_type(c.data_type), c.nullable) for c in columns])


def _check_files(by: tuple[PartitionColumn, ...], columns: Columns) -> None:
    if {one.column.name for one in by} >= {*columns.names}:
        raise DefinitionError(
            f"the partition {', '.join(one.text for one in by)!r} has all columns, and files would "
            "have none; leave one out"
        )


def _text(value: object, part: str) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"{part} is {shown(value)}; give a str, or None")
    return value


def codec(compression: object) -> str:
    """Return the name of a codec for files.

    Raises:
        DefinitionError: there is no codec with this name.
    """
    known_codec = _CODECS.get(compression.lower()) if isinstance(compression, str) else None
    if known_codec is None:
        known = ", ".join(dict.fromkeys(_CODECS.values()))
        raise DefinitionError(f"compression is {shown(compression)}; use one of {known}")
    return known_codec


def order_of(text: str, columns: Columns) -> tuple[Column, ...]:
    """Read the columns that sort the rows of each file.

    Raises:
        DefinitionError: a name is not one of these columns, or its type has no well-defined order.
    """
    if not text.strip():
        return ()
    named = named_columns(text)
    if named is None:
        raise DefinitionError(f"order {text!r} is not a list of columns, such as 'day, id desc'")
    order = tuple(_ordered(one, columns) for one in named)
    if len({column.name for column in order}) < len(order):
        raise DefinitionError(f"order {text!r} has a column twice; name it once")
    return order


def _ordered(named: Column, columns: Columns) -> Column:
    column = next((c for c in columns if c.name.lower() == named.name.lower()), None)
    if column is None:
        raise DefinitionError(
            f"order names {named.name!r}, which is not one of the columns "
            f"{', '.join(columns.names)}",
            column=named.name,
        )
    is_decimal = isinstance(column.data_type, DecimalType)
    nested = isinstance(column.data_type, StructType | ArrayType | MapType)
    if nested or (isinstance(column.data_type, FractionalType) and not is_decimal):
        raise DefinitionError(
            f"order column {column.name!r} is of type {column.data_type.simpleString()}, which has "
            "no sound order; use another",
            column=column.name,
        )
    return replace(column, descending=named.descending)
