"""Scans: what a function makes of all rows of a table, part by part on all cores, without Spark.

A scan for few rows has a `Sieve`: the columns that tell them are read first, and other columns only
of row groups that have such rows, as column stores materialize late (Abadi et al., "Materialization
strategies in a column-oriented DBMS", 2007). The invariant: the function gets exactly the rows that
the sieve marks, and each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.storage.parquet.batching import of_files, parts
from deltaproduce.storage.parquet.files import UNREADABLE, ParquetFiles, Sieve
from deltaproduce.storage.parquet.readings import NOTHING_READ, ReadAmount
from deltaproduce.storage.parquet.row_groups import Footers, RowGroup
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types


class _UnreadError(Exception):
    """A part of the files could not be read; its cause says why."""


def reduced(
    files: ParquetFiles,
    columns: Sequence[Column],
    rows: int,
    function: Callable[[pa.Table], pa.Table],
    sieve: Sieve | None = None,
) -> pa.Table | None:
    """Return what a function makes of all rows, part by part on all cores; None to ask Spark.

    Args:
        columns: some of the table's, as for `seeks.rows_of`; no others are read.
        rows: about how many rows a part has; it has whole row groups.
        sieve: marks the rows that the function gets; None for all.
    """
    footers = files.footers(files.all_files)
    if footers is None:
        return None
    scan = _Scan(files, footers, columns, sieve)

    def reduced_part(groups: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        try:
            rows, amount = scan.rows(groups)
        except UNREADABLE as error:
            raise _UnreadError from error
        return function(rows), amount

    spilled = files.spill()
    spilled.add(function(empty(columns)))
    in_parts = parts(footers, np.arange(len(footers.rows)), rows)
    try:
        for result, amount in side_by_side(reduced_part, in_parts):
            files.readings.add(*amount)
            spilled.add(result)
    except _UnreadError:
        return None
    return spilled.table()


@dataclass(frozen=True, slots=True)
class _Scan:
    """Reads row groups."""

    files: ParquetFiles
    footers: Footers
    columns: Sequence[Column]
    sieve: Sieve | None

    def rows(self, groups: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        """Return the rows of some row groups, and the amount that was read."""
        tables, amount = [empty(self.columns)], NOTHING_READ
        for of_file in of_files(groups):
            rows, more = self._rows_of(of_file)
            tables.append(rows)
            amount = amount.and_(more)
        return pa.concat_tables(tables), amount

    def _rows_of(self, groups: Sequence[RowGroup]) -> tuple[pa.Table, ReadAmount]:
        """Return the rows of some row groups of one file."""
        files, footers, columns = self.files, self.footers, self.columns
        if self.sieve is not None:
            rows, _, amount = files.sifted(footers, groups, columns, self.sieve)
            return rows, amount
        read = files.read_groups(footers.files, groups, files.names_in(groups[0].file, columns))
        return in_arrow_types(read, columns), files.amount_of(footers, groups, columns)
