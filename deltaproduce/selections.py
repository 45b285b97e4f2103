"""Selections: some keys of a table, and how to find their rows.

A step never scans a table for its keys if it can ask for them. Few keys (`SEEK_LIMIT`) come to the
driver and become a predicate that prunes files; many stay a DataFrame and are joined. The
invariant: `rows_of` returns every row of the selected keys, and perhaps rows of other keys (see
`predicates`), so a row's presence never means that its key was selected.

It stands apart because both kinds of stage, and all three tables, find rows in this one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from deltaproduce.changes import cols, same
from deltaproduce.predicates import HASH, hash_sql, membership
from deltaproduce.schemas import Column

SEEK_LIMIT: Final = 10_000
"""The most keys that are written into a predicate: Spark plans 50,000 in seconds."""

_FETCH_LIMIT: Final = 10 * SEEK_LIMIT
"""The most rows that are brought to the driver to find out whether their keys are few."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Distinct keys.

    Attributes:
        columns: the columns that hold the keys in the table to be looked up.
        frame: the keys.
        table: the keys with their `HASH` on the driver, if they are few.
    """

    columns: tuple[Column, ...]
    frame: DataFrame
    table: pa.Table | None

    @staticmethod
    def of(keys: DataFrame, columns: Sequence[Column], rows: int | None = None) -> Selection:
        """The keys of a frame, in which they may be repeated.

        Args:
            rows: how many rows the frame has, if that is known.
        """
        keys = keys.select(*cols(columns))
        if rows is None or rows <= _FETCH_LIMIT:
            hashed = keys.withColumn(HASH, f.expr(hash_sql([c.name for c in columns])))
            fetched = (hashed.limit(_FETCH_LIMIT + 1) if rows is None else hashed).toArrow()
            distinct = fetched.group_by(fetched.column_names).aggregate([])
            if fetched.num_rows <= _FETCH_LIMIT and distinct.num_rows <= SEEK_LIMIT:
                return Selection.few(distinct, columns, keys.sparkSession)
        return Selection(tuple(columns), keys.distinct(), None)

    @staticmethod
    def few(table: pa.Table, columns: Sequence[Column], spark: SparkSession) -> Selection:
        """Keys that are on the driver already, with their `HASH`."""
        schema = StructType([StructField(c.name, c.data_type) for c in columns])
        frame = arrow_frame(table.drop_columns([HASH]), spark, schema)
        return Selection(tuple(columns), f.broadcast(frame), table)

    def renamed(self, columns: Sequence[Column]) -> Selection:
        """The same keys in the columns of another table, as a feeder's keys are source keys."""
        names = [column.name for column in columns]
        table = None if self.table is None else self.table.rename_columns([*names, HASH])
        return Selection(tuple(columns), self.frame.toDF(*names), table)

    def rows_of(self, rows: DataFrame) -> DataFrame:
        """All rows of these keys, and perhaps some of others."""
        if self.table is not None:
            return rows.where(membership(self.columns, self.table))
        return rows.join(self.frame, same(rows, self.frame, self.columns), "left_semi")


def arrow_frame(
    table: pa.Table, spark: SparkSession, schema: StructType | None = None
) -> DataFrame:
    """An Arrow table as a DataFrame.

    Chunks are joined first: pyspark 4.2 loses rows next to empty chunks, which filters leave.
    """
    return spark.createDataFrame(table.combine_chunks(), schema)
