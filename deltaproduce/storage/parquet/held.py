"""Held: rows of partitions that one window has read, for the next one of the same version.

The invariant: what is held are all rows of some partitions as one version has them, so whoever asks
for these gets what reading them again would give.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.model.partitions import Ranges
from deltaproduce.types.columns import Column


class Held:
    """Partitions of one column of one table in one version; none to begin with."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._values = Ranges()
        self._rows: pa.Table | None = None

    def rows_within(
        self,
        column: Column,
        values: Ranges,
        most: int,
        read: Callable[[Ranges], pa.Table | None],
    ) -> pa.Table | None:
        """All rows that have a value in some ranges, as ``read`` gives them; None if it does.

        Args:
            most: if there are more rows, some more than these are enough; half as many are held.
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
            if len(rows) <= most:
                self._hold(missing, rows, most // 2)
        return pa.concat_tables(found)

    def _hold(self, values: Ranges, rows: pa.Table, most: int) -> None:
        """Hold rows, with those that are held or in their place; none if they are too many."""
        if self._rows is not None and len(self._rows) + len(rows) <= most:
            values, rows = self._values.union(values), pa.concat_tables([self._rows, rows])
        if len(rows) <= most:
            self._values, self._rows = values, rows
