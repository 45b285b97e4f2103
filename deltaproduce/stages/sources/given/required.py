"""What a source requires of its rows: columns, and parts of them, that are NOT NULL.

A part is a field of a struct, or of one in an array or a map. The invariant: both engines find the
same rows. A struct that is null has no null in its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.model.graph import Source
from deltaproduce.stages.sources.given.contents import DELETES, UPSERTS, refuse_column
from deltaproduce.types.columns import Column, with_nulls
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import ArrayType, DataType, MapType, StructType
from deltaproduce.types.ddl import identifier
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy


@dataclass(frozen=True, slots=True)
class Required:
    """A column, or a part of one, that takes no null.

    Attributes:
        part: the way to the part: names of fields, ``element``, ``key`` and ``value``; empty for
            the column itself.
        types: the change types of rows for which this holds.
    """

    column: Column
    part: tuple[str, ...]
    types: tuple[str, ...]

    def refuse(self, rows: int, source: Source, keys: tuple[object, ...]) -> NoReturn:
        """Refuse changes in which it is null.

        Args:
            rows: how many rows have a null there.
            keys: a sample of their keys.

        Raises:
            InvalidChangesError: always.
        """
        finding = f"{self.finding} in {rows} rows, of keys {shown(keys)}"
        refuse_column(source, self.column.name, finding, keys)

    @property
    def finding(self) -> str:
        """What is wrong with its column if it is null."""
        if not self.part:
            return "is NOT NULL, and null"
        return f"is NOT NULL in {'.'.join(self.part)!r}, and null there"

    @property
    def condition(self) -> str:
        """The condition, as SQL text, that it is null in a row."""
        return _condition(identifier(self.column.name), self.column.data_type, self.part)

    def nulls(self, values: pa.ChunkedArray) -> Marks:
        """Mark the rows in which it is null.

        Args:
            values: the column.
        """
        if not self.part:
            return in_numpy(values.is_null())
        nulls, first = np.zeros(len(values), bool), 0
        for chunk in values.chunks:
            nulls[first + _null_rows(chunk, self.column.data_type, self.part)] = True
            first += len(chunk)
        return nulls


def required(source: Source) -> list[Required]:
    """Return what a source requires of its rows; values of deleted rows do not count."""
    required_columns = list[Required]()
    for columns, types in (
        (source.schema.key, (*UPSERTS, *DELETES)),
        (source.schema.value, UPSERTS),
    ):
        for column in columns:
            whole: list[tuple[str, ...]] = [] if column.nullable else [()]
            required_columns += [
                Required(column, part, types) for part in (*whole, *_parts(column.data_type))
            ]
    return required_columns


def unchecked(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns as they are given: before a check, everything in them may be null."""
    return tuple(
        replace(column, data_type=with_nulls(column.data_type), nullable=True) for column in columns
    )


def checked(rows: pa.Table, columns: Sequence[Column], counts: Marks) -> pa.Table:
    """Return rows in the types of their columns, once they are known to have no wrong null.

    Args:
        rows: rows in the types of `unchecked`, which may have other columns.
        counts: which rows were checked; the values of others, which may be wrong, become null.
    """
    for column in columns:
        if column.is_strict:
            place = rows.schema.get_field_index(column.name)
            values = rows.column(place)
            if not counts.all():
                values = pc.if_else(pa.array(counts), values, pa.scalar(None, values.type))
            converted = in_arrow_types(pa.table({column.name: values}), [column])
            rows = rows.set_column(place, column.name, converted.column(0))
    return rows


def _parts(data_type: DataType) -> Iterator[tuple[str, ...]]:
    """Yield the parts of a type that take no null."""
    match data_type:
        case StructType():
            for field in data_type.fields:
                if not field.nullable:
                    yield (field.name,)
                yield from ((field.name, *part) for part in _parts(field.dataType))
        case ArrayType():
            yield from (("element", *part) for part in _parts(data_type.elementType))
        case MapType():
            yield from (("key", *part) for part in _parts(data_type.keyType))
            yield from (("value", *part) for part in _parts(data_type.valueType))


def _null_rows(values: pa.Array, data_type: DataType, part: Sequence[str]) -> Numbers:
    """Return the rows with a null in a part, perhaps repeatedly."""
    if not part:
        return np.flatnonzero(in_numpy(values.is_null()))
    there = np.flatnonzero(in_numpy(values.is_valid()))
    items = values.take(pa.array(there))
    step, rest = part[0], part[1:]
    match data_type:
        case StructType():
            return there[_null_rows(items.field(step), data_type[step].dataType, rest)]
        case ArrayType():
            inner = items.flatten(), data_type.elementType
        case MapType():
            entry = pa.struct([("key", items.type.key_type), ("value", items.type.item_type)])
            items = items.cast(pa.list_(entry))
            kind = data_type.keyType if step == "key" else data_type.valueType
            inner = items.flatten().field(step), kind
        case _:
            raise TypeError(f"{data_type.simpleString()!r} has no parts")
    of_row = np.repeat(there, in_numpy(pc.list_value_length(items)))
    return of_row[_null_rows(*inner, rest)]


def _condition(value: str, data_type: DataType, part: Sequence[str], depth: int = 0) -> str:
    """Return the condition that a part of a value is null; null itself if the value is."""
    if not part:
        return f"{value} IS NULL"
    step, rest = part[0], part[1:]
    each = f"x{depth}"
    match data_type:
        case StructType():
            field = f"{value}.{identifier(step)}"
            inner = _condition(field, data_type[step].dataType, rest, depth)
            return f"({value} IS NOT NULL AND {inner})"
        case ArrayType():
            every, kind = value, data_type.elementType
        case MapType():
            every = f"map_keys({value})" if step == "key" else f"map_values({value})"
            kind = data_type.keyType if step == "key" else data_type.valueType
        case _:
            raise TypeError(f"{data_type.simpleString()!r} has no parts")
    return f"exists({every}, {each} -> {_condition(each, kind, rest, depth + 1)})"
