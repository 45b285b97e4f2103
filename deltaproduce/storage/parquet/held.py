"""Held: rows of partitions that one window has read, for the next one of the same version.

On the driver they are in memory; in Spark they are where they were computed first, and are read
from the table by no other job. The invariant: what is held are all rows of some partitions as one
version has them, so whoever asks for these gets what reading them again would give.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
from pyspark.sql import DataFrame

from deltaproduce.engines.spark.checkpoints import computed_once
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.partitions import Ranges
from deltaproduce.types.columns import Column


class Held:
    """Partitions of one column of one table in one version; none to begin with.

    Args:
        readers: the stages that read it in this version.
    """

    def __init__(self, column: str, readers: Collection[str]) -> None:
        self._column = column
        self._to_come = set(readers)
        self._values = Ranges()
        self._rows: pa.Table | None = None
        self._values_there = Ranges()
        self._rows_there: DataFrame | None = None

    def read_by(self, stage: str) -> Held:
        """The same, read by a stage from now on: what the last one reads is not held."""
        self._to_come.discard(stage)
        return self

    def rows_within(
        self,
        column: Column,
        values: Ranges,
        most: int,
        read: Callable[[Ranges], pa.Table | None],
    ) -> pa.Table | None:
        """All rows that have a value in some ranges, as ``read`` gives them; None if it does.

        Args:
            most: if there are more rows, some more than these are enough; half as many are held,
                if another stage is to come.
            read: is asked for values that are not held.
        """
        if column.name != self._column:
            return read(values)
        missing = values.without(self._values)
        found = [] if self._rows is None else [rows_within(self._rows, column, values)]
        if missing or not found:
            rows = read(missing)
            if rows is None:
                return None
            found.append(rows)
            if self._to_come and len(rows) <= most:
                self._hold(missing, rows, most // 2)
        return pa.concat_tables(found)

    def there_within(
        self, column: Column, values: Ranges, read: Callable[[Ranges], DataFrame]
    ) -> DataFrame:
        """As `rows_within`, in Spark, however many there are."""
        if column.name != self._column:
            return read(values)
        missing, known = values.without(self._values_there), self._rows_there
        if known is None:
            found = self._hold_there(missing, read(missing))
        else:
            found = rows_within(known, column, values)
            if missing:
                found = found.union(self._hold_there(missing, read(missing)))
        return found

    def _hold(self, values: Ranges, rows: pa.Table, most: int) -> None:
        """Hold rows, with those that are held or in their place; none if they are too many."""
        if self._rows is not None and len(self._rows) + len(rows) <= most:
            values, rows = self._values.union(values), pa.concat_tables([self._rows, rows])
        if len(rows) <= most:
            self._values, self._rows = values, rows

    def _hold_there(self, values: Ranges, rows: DataFrame) -> DataFrame:
        """The rows, held if another stage is to come."""
        if not self._to_come:
            return rows
        rows, known = computed_once(rows), self._rows_there
        self._values_there = self._values_there.union(values)
        self._rows_there = rows if known is None else known.union(rows)
        return rows
