"""Marked rows: rows of files that the log marks as deleted, by their numbers in the file.

Pure. The invariant: a row that is read counts unless its number in its file is marked, whichever
row groups are read with it. The marks are Delta's deletion vectors
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Deletion Vectors").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltaproduce.engines.local.arrays import Marks, Numbers
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.types.pandas_on_demand import in_numpy


class MarkedRows(NamedTuple):
    """The rows of some files that are marked as deleted.

    Attributes:
        of_files: file number -> the numbers of its marked rows, in order; files without any lack.
    """

    of_files: Mapping[int, Numbers]

    @staticmethod
    def listed(files: pa.Table | None) -> MarkedRows:
        """Return those of the files that the log lists, as `local.delta.reads.files` has them."""
        if files is None or MARKED not in files.column_names:
            return MarkedRows({})
        lists = files.column(MARKED).combine_chunks()
        marked = np.flatnonzero(in_numpy(lists.is_valid())).tolist()
        return MarkedRows({n: in_numpy(lists[n].values, np.int64) for n in marked})

    def counts(self, files: int) -> Numbers:
        """Return the number of marked rows of each of so many files."""
        counts = np.zeros(files, np.int64)
        for number, rows in self.of_files.items():
            counts[number] = len(rows)
        return counts

    def alive(
        self, rows: pa.Table, file: int, groups: Sequence[int], said: pq.FileMetaData
    ) -> pa.Table:
        """Return the rows that count among all rows of some row groups, which are in this order.

        Args:
            file: the number of the file.
            said: its footer.
        """
        marked = self.of_files.get(file)
        if marked is None:
            return rows
        sizes = [said.row_group(number).num_rows for number in range(said.num_row_groups)]
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        parts = [_unmarked(marked, begins[group], begins[group + 1]) for group in groups]
        return rows.filter(pa.array(np.concatenate([np.zeros(0, bool), *parts])))

    def are_alive(self, files: Sequence[int], numbers: Sequence[Numbers], among: Marks) -> Marks:
        """Mark which of the marked ones of some rows count.

        Args:
            files: the files that the rows are in, one after the other.
            numbers: the numbers of the rows of each file.
            among: a mark for each of all rows.
        """
        ends = np.cumsum([len(of_file) for of_file in numbers])[:-1]
        parts = zip(files, numbers, np.split(among, ends), strict=True)
        return np.concatenate([self._are_alive(*part) for part in parts])

    def _are_alive(self, file: int, numbers: Numbers, among: Marks) -> Marks:
        marked = self.of_files.get(file)
        if marked is None or not len(marked):
            return among
        places = np.flatnonzero(among)
        wanted = numbers[places]
        at = np.minimum(marked.searchsorted(wanted), len(marked) - 1)
        is_alive = np.zeros(len(numbers), bool)
        is_alive[places[marked[at] != wanted]] = True
        return is_alive

    def alive_from(self, rows: pa.Table, file: int, first: int) -> pa.Table:
        """Return the rows that count among adjacent rows of a file, of which this is the first."""
        marked = self.of_files.get(file)
        if marked is None:
            return rows
        return rows.filter(pa.array(_unmarked(marked, first, first + len(rows))))


def _unmarked(marked: Numbers, begin: int, end: int) -> Marks:
    """Return which of adjacent rows are not marked.

    Args:
        marked: the numbers of marked rows, in order.
        begin: the number of the first row.
        end: the number after that of the last row.
    """
    is_alive = np.ones(end - begin, bool)
    is_alive[marked[slice(*marked.searchsorted([begin, end]))] - begin] = False
    return is_alive
