"""Return rows with the columns of the expressions that they are partitioned by.

The invariant: on either engine, the values are the ones that the driver's kernels compute, in UTC.
A row whose value cannot be computed, or is not allowed for a partition, is refused before anything
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.described.content import beside
from deltaproduce.described.partitions import Partition, unstorable, values_of
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import in_worker
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.columns import cols, struct_of
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import DateType, StringType
from deltaproduce.types.python_values import python_tuples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRONG: Final = Column("_wrong", StringType())
_FINDING: Final = Column("_finding", StringType())


def with_partitions(
    rows: Rows, columns: Sequence[Column], by: Sequence[Partition], engines: Engines
) -> Rows:
    """Return rows with the columns of the expressions that they are partitioned by.

    Args:
        columns: the rows' own columns.
    """
    own = [one for one in by if one.expression is not None]
    if not own:
        return rows

    def added(part: pa.Table) -> pa.Table:
        found = values_of(part, own)
        for name in found.column_names:
            part = part.append_column(name, found.column(name))
        return part

    if isinstance(rows, pa.Table):
        return engines.by_slices(rows, added)
    return _mapped(rows, columns, added, (*columns, *beside(own)))


def refused(
    rows: Rows, columns: Sequence[Column], key: Sequence[Column], by: Sequence[Partition]
) -> tuple[tuple[object, ...], str, str] | None:
    """Return the first row that fits no partition: its key, a partition column, and what is wrong.

    None if all rows fit. Runs one Spark job for rows in Spark, unless no row can be wrong.

    Args:
        columns: the rows' own columns.
    """
    if not any(_may_refuse(one) for one in by):
        return None

    def wrong(part: pa.Table) -> pa.Table:
        return _wrong(part, key, by)

    if isinstance(rows, pa.Table):
        found = wrong(in_arrow_types(rows, columns))
    else:
        told = (*key, _WRONG, _FINDING)
        found = fetched(_mapped(rows, columns, wrong, told).limit(1), told)
    if not len(found):
        return None
    ((*values, column, finding),) = python_tuples(found)
    return tuple(values), str(column), str(finding)


def _may_refuse(one: Partition) -> bool:
    may_fail = one.term is not None and one.term.may_fail
    return may_fail or isinstance(one.column.data_type, StringType | DateType)


def _wrong(rows: pa.Table, key: Sequence[Column], by: Sequence[Partition]) -> pa.Table:
    """Return the first wrong row and the reason; no row if all are right."""
    for one in by:
        try:
            (values,) = values_of(rows, [one]).columns
        except EvaluationError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                first = _wrong(rows.slice(0, half), key, [one])
                return first if len(first) else _wrong(rows.slice(half), key, [one])
            return _told(rows, key, one, f"cannot be computed: {error}")
        if wrong := unstorable(values):
            place, finding = wrong
            return _told(rows.slice(place, 1), key, one, finding)
    return _told(rows.slice(0, 0), key, by[0], "")


def _told(row: pa.Table, key: Sequence[Column], one: Partition, finding: str) -> pa.Table:
    found = row.select([c.name for c in key])
    for column, text in ((_WRONG, one.column.name), (_FINDING, finding)):
        found = found.append_column(column.name, pa.array([text] * len(row), pa.string()))
    return found


def _mapped(
    rows: DataFrame,
    columns: Sequence[Column],
    run: Callable[[pa.Table], pa.Table],
    made: Sequence[Column],
) -> DataFrame:
    """Apply a function to batches of rows in Spark."""
    names = [column.name for column in columns]

    def on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part = pa.Table.from_batches([batch]).rename_columns(names)
            found = run(in_arrow_types(part, columns))
            found = found.select([c.name for c in made])
            yield from pa.concat_tables([empty(made), found]).to_batches()

    numbered = rows.select(*cols(columns)).toDF(*map(str, range(len(names))))
    return numbered.mapInArrow(in_worker(on_batches), struct_of(made))
