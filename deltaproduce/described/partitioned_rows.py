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
from deltaproduce.described.partitions import PartitionColumn, unstorable, values_of
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
    rows: Rows, columns: Sequence[Column], by: Sequence[PartitionColumn], engines: Engines
) -> Rows:
    """Return rows with the columns of the expressions that they are partitioned by.

    Args:
        columns: the rows' own columns.
    """
    own = [one for one in by if one.expression is not None]
    if not own:
        return rows

    def added(part: pa.Table) -> pa.Table:
        values = values_of(part, own)
        for name in values.column_names:
            part = part.append_column(name, values.column(name))
        return part

    if isinstance(rows, pa.Table):
        return engines.by_slices(rows, added)
    return _mapped(rows, columns, added, (*columns, *beside(own)))


def refused(
    rows: Rows, columns: Sequence[Column], key: Sequence[Column], by: Sequence[PartitionColumn]
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
        wrong_rows = wrong(in_arrow_types(rows, columns))
    else:
        fields = (*key, _WRONG, _FINDING)
        wrong_rows = fetched(_mapped(rows, columns, wrong, fields).limit(1), fields)
    if not len(wrong_rows):
        return None
    ((*values, column, finding),) = python_tuples(wrong_rows)
    return tuple(values), str(column), str(finding)


def _may_refuse(one: PartitionColumn) -> bool:
    may_fail = one.term is not None and one.term.may_fail
    return may_fail or isinstance(one.column.data_type, StringType | DateType)


def _wrong(rows: pa.Table, key: Sequence[Column], by: Sequence[PartitionColumn]) -> pa.Table:
    """Return the first wrong row and the reason; no row if all are right."""
    for one in by:
        try:
            (values,) = values_of(rows, [one]).columns
        except EvaluationError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                first = _wrong(rows.slice(0, half), key, [one])
                return first if len(first) else _wrong(rows.slice(half), key, [one])
            return _finding_row(rows, key, one, f"cannot be computed: {error}")
        if wrong := unstorable(values):
            place, finding = wrong
            return _finding_row(rows.slice(place, 1), key, one, finding)
    return _finding_row(rows.slice(0, 0), key, by[0], "")


def _finding_row(
    row: pa.Table, key: Sequence[Column], one: PartitionColumn, finding: str
) -> pa.Table:
    faults = row.select([c.name for c in key])
    for column, text in ((_WRONG, one.column.name), (_FINDING, finding)):
        faults = faults.append_column(column.name, pa.array([text] * len(row), pa.string()))
    return faults


def _mapped(
    rows: DataFrame,
    columns: Sequence[Column],
    run: Callable[[pa.Table], pa.Table],
    output: Sequence[Column],
) -> DataFrame:
    """Apply a function to batches of rows in Spark."""
    names = [column.name for column in columns]

    def on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part = pa.Table.from_batches([batch]).rename_columns(names)
            result = run(in_arrow_types(part, columns))
            result = result.select([c.name for c in output])
            yield from pa.concat_tables([empty(output), result]).to_batches()

    numbered = rows.select(*cols(columns)).toDF(*map(str, range(len(names))))
    return numbered.mapInArrow(in_worker(on_batches), struct_of(output))
