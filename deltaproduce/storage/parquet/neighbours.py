"""Neighbours: rows of a group that were read with others of it, for the next look-up of a step.

A step looks up some rows of a group first, to change them, and then its first or last ones, or all,
to answer ordered functions. These are mostly in the same row groups, so they are read once. The
invariant: the held rows are all rows of some groups in some row groups, so a look-up finds the same
rows as if it read them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Marks, Numbers, distinct
from deltaproduce.engines.selections import Selection
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType
from deltaproduce.types.pandas_on_demand import in_numpy

MOST: Final = 1 << 18
"""The most rows that are held: more are read again."""
_ROW_GROUPS_A_GROUP: Final = 2
"""If there are more row groups to a group, the next look-up is likely to read others."""
NUMBER: Final = Column("_number", LongType())
"""The column with the number of a row's row group, or with that of the row in its file."""


class Neighbours:
    """The held rows of one table in one version; none to begin with.

    Args:
        columns: the first columns of the table's key, which identify a group.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self._names = [column.name for column in columns]
        self._files: object = None
        self._groups: Selection | None = None
        self._rows: pa.Table | None = None
        self._read = np.zeros(0, np.int64)

    def rows_of(
        self,
        files: object,
        keys: Selection,
        row_groups: Numbers,
        read: Callable[[Selection, Marks], pa.Table | None],
    ) -> pa.Table | None:
        """Return the rows of keys in some row groups; None if too many would be held.

        Args:
            files: the files that the row groups are in.
            keys: keys on the driver.
            row_groups: distinct numbers, which name these row groups among all of the files.
            read: finds the rows of groups in the marked ones of these row groups, each with the
                number in `NUMBER`, behind the other columns; None if that fails. Of more than
                `MOST` rows, it may leave some out.
        """
        assert isinstance(keys.keys, pa.Table)
        if not set(self._names) <= set(keys.keys.column_names):
            return None
        if not self._has(files, keys.keys):
            self._begin(files, keys)
        assert self._groups is not None
        assert isinstance(self._groups.keys, pa.Table)
        is_missing = ~np.isin(row_groups, self._read)
        if is_missing.sum() > _ROW_GROUPS_A_GROUP * len(self._groups.keys):
            return None
        if is_missing.any() or self._rows is None:
            rows = read(self._groups, is_missing)
            if rows is None or not self._hold(rows, row_groups[is_missing]):
                self._begin(files, keys)
                return None
        assert self._rows is not None
        numbers = in_numpy(self._rows.column(NUMBER.name), np.int64)
        wanted = self._rows.filter(pa.array(np.isin(numbers, row_groups)))
        of_keys: pa.Table = keys.exactly(wanted.drop_columns([NUMBER.name]))
        return of_keys

    def holds(self, files: object, keys: Selection, row_groups: Numbers) -> bool:
        """Return whether all rows of these keys' groups in some row groups are held.

        Args:
            files: as for `rows_of`, like the others.
        """
        assert isinstance(keys.keys, pa.Table)
        if self._rows is None or not np.isin(row_groups, self._read).all():
            return False
        return self._has(files, keys.keys)

    def _has(self, files: object, keys: pa.Table) -> bool:
        """Return whether the held rows are of the groups of these keys in these files."""
        if files is not self._files or self._groups is None:
            return False
        return bool(self._groups.holds(keys).all())

    def _begin(self, files: object, keys: Selection) -> None:
        """Hold no rows; from now on, those of the groups of some keys."""
        groups = distinct(keys.keys.select(self._names))
        self._groups = Selection(self._columns, groups, keys.engines)
        self._files, self._rows, self._read = files, None, self._read[:0]

    def _hold(self, more: pa.Table, row_groups: Numbers) -> bool:
        """Hold more rows; return whether they are few enough."""
        rows = more if self._rows is None else pa.concat_tables([self._rows, more])
        self._rows, self._read = rows, np.append(self._read, row_groups)
        return len(rows) <= MOST
