"""Rows by the numbers that represent a column's values: filters by ranges, and present units.

A date's number is its days since 1970, a timestamp's its microseconds since then, in UTC, and a
whole number's the number itself. The invariant: both engines find the same rows, a null is in no
range, and in Spark the ranges prune files and row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.kernels.ranges import are_within, numbers_of
from deltaproduce.engines.spark.columns import col
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.predicates import literal
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.partitions import Partitioning, Ranges, partitioning
from deltaproduce.times.zones import OF_UTC
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    DataType,
    DateType,
    IntegralType,
    LongType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

_UNIT = Column("_unit", LongType())
_LEASTS: Final[Mapping[type[DataType], int]] = {
    DateType: -(2**31),
    TimestampType: -(2**63),
    TimestampNTZType: -(2**63),
}
"""The least numbers of values, for which Spark has no literals."""


def rows_within(rows: Rows, column: Column, values: Ranges) -> Rows:
    """Return the rows whose value in a column is in some ranges."""
    if isinstance(rows, pa.Table):
        marks = are_within(rows.column(column.name), values)
        return rows if marks.all() else rows.filter(pa.array(marks))
    return rows.where(_holds(column, values))


def rows_outside(rows: Rows, column: Column, values: Ranges) -> Rows:
    """Return the other rows, nulls too."""
    if isinstance(rows, pa.Table):
        return rows.filter(pa.array(~are_within(rows.column(column.name), values)))
    return rows.where(f.coalesce(~_holds(column, values), f.lit(True)))


def without_mark(rows: Rows, mark: str, column: Column, values: Ranges) -> Rows:
    """Return the rows, and clear a mark where the value in a column is in some ranges."""
    if isinstance(rows, pa.Table):
        kept = pc.and_(rows.column(mark), pa.array(~are_within(rows.column(column.name), values)))
        return rows.set_column(rows.schema.get_field_index(mark), mark, kept)
    outside = f.coalesce(~_holds(column, values), f.lit(True))
    return rows.withColumn(mark, col(mark) & outside)


def units_of(rows: Rows, column: Column, partitions: Partitioning) -> Ranges:
    """Return the units of a partitioning that a column has values in; in Spark, one job."""
    if isinstance(rows, pa.Table):
        numbers = numbers_of(rows.column(column.name).unique()).drop_null().to_numpy()
        return Ranges.of_numbers(partitions.units(numbers))
    units = rows.select(unit_of(column, partitions).alias(_UNIT.name)).distinct()
    return Ranges.of_numbers(fetched(units, [_UNIT]).column(0).drop_null().to_numpy())


def _holds(column: Column, values: Ranges) -> Expression:
    none = f.lit(False)
    return reduce(lambda a, b: a | b, _between(column, values), none)


def _between(column: Column, values: Ranges) -> Iterator[Expression]:
    for pair in values.pairs:
        if isinstance(column.data_type, IntegralType):
            yield col(column.name).cast("bigint").between(*map(f.lit, pair))
            continue
        ends = [literal(_scalar(number, column), column.data_type) for number in pair]
        if pair[0] == _LEASTS.get(type(column.data_type)) and ends[1] is not None:
            yield col(column.name) <= f.expr(ends[1])
            continue
        if None not in ends:
            yield col(column.name).between(*(f.expr(str(end)) for end in ends))
            continue
        # Values that Spark does not find in files by themselves.
        if isinstance(column.data_type, TimestampType):
            yield f.unix_micros(col(column.name)).between(*map(f.lit, pair))
            continue
        days = partitioning(column.data_type.simpleString(), None)  # ranges are of whole days
        assert days is not None
        size = days.unit_size
        yield unit_of(column, days).between(*(f.lit(number // size) for number in pair))


def _scalar(number: int, column: Column) -> pa.Scalar:
    if isinstance(column.data_type, DateType):
        return pa.scalar(number, pa.int32()).cast(pa.date32())
    return pa.scalar(number, pa.int64()).cast(arrow_type(column.data_type))


def unit_of(column: Column, partitions: Partitioning) -> Expression:
    """Return the unit of a value, whatever the session's time zone is."""
    value, size = col(column.name), partitions.unit_size
    match column.data_type:
        case DateType():
            return f.unix_date(value).cast("bigint")
        case TimestampNTZType():
            return f.unix_date(value.cast("date")).cast("bigint")  # on no clock but its own
        case IntegralType():
            return _floored(value.cast("bigint"), size)
        case _:
            local = f.from_utc_timestamp(value, partitions.zone)
            return _floored(f.unix_micros(local if partitions.zone != OF_UTC else value), size)


def _floored(numbers: Expression, size: int) -> Expression:
    """Return the quotient, rounded down: Spark rounds towards 0."""
    divisor = f.lit(size).cast("bigint")
    below = f.when(numbers % divisor < 0, f.lit(1)).otherwise(f.lit(0)).cast("bigint")
    return f.call_function("div", numbers, divisor) - below
