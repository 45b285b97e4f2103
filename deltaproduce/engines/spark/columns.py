"""Columns in Spark: by exact name, in an order, equal where null equals null (S13)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column, with_nulls
from deltaproduce.types.ddl import identifier, sql_of

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame
    from pyspark.sql import types as sparks

_QUOTED: Final = frozenset("`.*")
"""Characters that mean something in a name that is not quoted."""


def col(name: str) -> Expression:
    """Return the column of exactly that name, whatever characters it has."""
    return f.col(identifier(name))


def cols(columns: Iterable[Column]) -> list[Expression]:
    """Return the columns by their names."""
    return [col(column.name) for column in columns]


def of(rows: DataFrame, name: str) -> Expression:
    """Return the column of these rows, of exactly that name.

    A session may take a quoted name for a pattern, so a name is quoted only where it must be.
    """
    return rows[identifier(name) if _QUOTED & {*name} else name]


def by_number(rows: DataFrame) -> DataFrame:
    """Return rows with numbers as their columns' names, from 0, for a function that tasks run.

    Spark misreads names with dots there.
    """
    return rows.toDF(*map(str, range(len(rows.columns))))


def order(columns: Iterable[Column]) -> list[Expression]:
    """Return sort expressions in the columns' directions; nulls as in Spark (S13)."""
    return [col(c.name).desc() if c.descending else col(c.name).asc() for c in columns]


def same(left: DataFrame, right: DataFrame, columns: Iterable[Column]) -> Expression:
    """Return the join condition that both rows are equal there; null equals null (S13)."""
    pairs = ((of(left, column.name), of(right, column.name)) for column in columns)
    return reduce(lambda a, b: a & b, (one.eqNullSafe(other) for one, other in pairs))


def typed(value: Expression, column: Column) -> Expression:
    """Return a value in the type of a column, and with its name.

    In Spark the parts of any column may be null: it casts nothing to a type that says otherwise.
    """
    return value.cast(in_spark(with_nulls(column.data_type))).alias(column.name)


def cast_by_name(column: t.StructField, data_type: t.DataType) -> str:
    """Return a column in a type that it `widens` to, as SQL text.

    Fields of structs are matched by name, wherever they are in the type: Spark casts by position.
    """
    value = _by_name(identifier(column.name), column.dataType, data_type)
    return f"CAST({value} AS {sql_of(data_type)})"


def _by_name(value: str, data_type: t.DataType, wanted: t.DataType, depth: int = 0) -> str:
    """Return a value whose structs have their fields in the wanted order."""
    if _names(data_type) == _names(wanted):
        return value
    each = f"x{depth}"
    match data_type, wanted:
        case t.StructType(), t.StructType():
            fields = (
                (f"{value}.{identifier(one.name)}", data_type[one.name].dataType, one)
                for one in wanted.fields
            )
            parts = ", ".join(
                f"{_by_name(part, kind, one.dataType, depth)} AS {identifier(one.name)}"
                for part, kind, one in fields
            )
            return f"if({value} IS NULL, NULL, struct({parts}))"
        case t.ArrayType(), t.ArrayType():
            item = _by_name(each, data_type.elementType, wanted.elementType, depth + 1)
            return f"transform({value}, {each} -> {item})"
        case t.MapType(), t.MapType():
            key = _by_name(f"{each}.key", data_type.keyType, wanted.keyType, depth + 1)
            item = _by_name(f"{each}.value", data_type.valueType, wanted.valueType, depth + 1)
            entry = f"struct({key} AS key, {item} AS value)"
            return f"map_from_entries(transform(map_entries({value}), {each} -> {entry}))"
    return value


def _names(data_type: t.DataType) -> list[object]:
    """Return the names of fields in a type, in order, at every depth."""
    match data_type:
        case t.StructType():
            return [[one.name, _names(one.dataType)] for one in data_type.fields]
        case t.ArrayType():
            return _names(data_type.elementType)
        case t.MapType():
            return [_names(data_type.keyType), _names(data_type.valueType)]
    return []


def struct_of(columns: Iterable[Column]) -> sparks.StructType:
    """Return the type of rows with these columns in Spark; see `typed`."""
    fields = [t.StructField(c.name, with_nulls(c.data_type)) for c in columns]
    return in_spark(t.StructType(fields))


def comparable(value: Expression, data_type: t.DataType) -> Expression:
    """Return the value with maps as sorted entries, since Spark does not compare maps."""
    match data_type:
        case t.MapType():
            parts = ("key", data_type.keyType), ("value", data_type.valueType)
            entries = t.StructType([t.StructField(*part) for part in parts])
            as_entries = f.map_entries(value)
            return f.array_sort(comparable(as_entries, t.ArrayType(entries)))
        case t.ArrayType() if _has_map(data_type):
            return f.transform(value, lambda item: comparable(item, data_type.elementType))
        case t.StructType() if _has_map(data_type):
            fields = (
                comparable(value.getField(field.name), field.dataType).alias(field.name)
                for field in data_type.fields
            )
            return f.when(value.isNotNull(), f.struct(*fields))
        case _:
            return value


def _has_map(data_type: t.DataType) -> bool:
    match data_type:
        case t.MapType():
            return True
        case t.ArrayType():
            return _has_map(data_type.elementType)
        case t.StructType():
            return any(_has_map(field.dataType) for field in data_type.fields)
        case _:
            return False
