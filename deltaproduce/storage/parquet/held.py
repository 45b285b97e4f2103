"""Held: rows of partitions that one window has read, for the next window of the same version.

On the driver they are in memory; in Spark they are where they were first computed, and no other job
reads them from the table. The invariant: the held rows are all rows of some partitions in one
version, so they equal what reading these partitions again would return.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaproduce.engines.spark.checkpoints import computed_once
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.partitions import Ranges
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Held:
    """The held partitions of one column of one table in one version; none to begin with.

    Args:
        readers: the stages that read the table in this version.
    """

    def __init__(self, column: str, readers: Collection[str]) -> None:
        self._column = column
        self._awaited = set(readers)
        self._values = Ranges()
        self._rows: pa.Table | None = None
        self._values_there = Ranges()
        self._rows_there: DataFrame | None = None

    def read_by(self, stage: str) -> Held:
        """Return itself, now read by a stage: rows that the last stage reads are not held."""
        self._awaited.discard(stage)
        return self

    def rows_within(
        self,
        column: Column,
        values: Ranges,
        most: int,
        read: Callable[[Ranges], pa.Table | None],
    ) -> pa.Table | None:
        """Return all rows with a value in the ranges; None if ``read`` returns None.

        Args:
            most: the most rows wanted: beyond it a result may be incomplete; at most half as many
                are held, if another stage is to come.
            read: reads the values that are not held.
        """
        if column.name != self._column:
            return read(values)
        missing = values.difference(self._values)
        parts = [] if self._rows is None else [rows_within(self._rows, column, values)]
        if missing or not parts:
            rows = read(missing)
            if rows is None:
                return None
            parts.append(rows)
            if self._awaited and len(rows) <= most:
                self._hold(missing, rows, most // 2)
        return pa.concat_tables(parts)

    def there_within(
        self, column: Column, values: Ranges, read: Callable[[Ranges], DataFrame]
    ) -> DataFrame:
        """Return the same rows as `rows_within`, in Spark, however many there are."""
        if column.name != self._column:
            return read(values)
        missing, known = values.difference(self._values_there), self._rows_there
        if known is None:
            rows = self._hold_there(missing, read(missing))
        else:
            rows = rows_within(known, column, values)
            if missing:
                rows = rows.union(self._hold_there(missing, read(missing)))
        return rows

    def _hold(self, values: Ranges, rows: pa.Table, most: int) -> None:
        """Hold rows in addition to the held ones, or in their place; not if they are too many."""
        if self._rows is not None and len(self._rows) + len(rows) <= most:
            values, rows = self._values.union(values), pa.concat_tables([self._rows, rows])
        if len(rows) <= most:
            self._values, self._rows = values, rows

    def _hold_there(self, values: Ranges, rows: DataFrame) -> DataFrame:
        """Return the rows, held if another stage is to come."""
        if not self._awaited:
            return rows
        rows, known = computed_once(rows), self._rows_there
        self._values_there = self._values_there.union(values)
        self._rows_there = rows if known is None else known.union(rows)
        return rows
