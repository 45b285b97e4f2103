"""Edits: the change of a table in one commit: rows to write, a restore, or a deletion.

`operations.step.edits` makes them from comparisons, and `tables` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltaproduce.engines.engine import Rows
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class Edit:
    """One commit of rows to a table.

    Attributes:
        rows: sorted by the table's order; in Spark, within partitions.
        columns: the table's columns.
        overwrite: whether the rows are the whole table, or all rows of the partitions of `within`;
            otherwise they are added.
        predicate: if set, only the rows that match are added, and they replace all rows of the
            table that match: how Spark replaces rows.
        replaced: if set, the pairs whose rows in the table the rows replace: how the driver does.
        lookup: the columns by which the table will be looked up.
        file_rows: the most rows of a file that Spark writes; None for all rows of a partition.
        sought: whether keys are looked up in the files, so that small row groups pay off.
        by_ends: whether even smaller row groups pay off; see `Layout.by_ends`.
        marked: whether a new table allows marking rows as replaced (deletion vectors), because
            later edits will replace rows by predicate.
        file_ends: see `Write.file_ends`.
        partition: see `Write.partition`.
        compression: see `Write.compression`.
        beside: columns of partition expressions, which the content does not show.
        apart: whether the table has been partitioned in another way until now.
        within: see `Write.within`.
    """

    rows: Rows
    columns: tuple[Column, ...]
    overwrite: bool
    predicate: str | None
    lookup: tuple[Column, ...]
    replaced: pa.Table | None = None
    file_rows: int | None = None
    sought: bool = False
    by_ends: bool = False
    marked: bool = False
    file_ends: tuple[int, ...] = ()
    partition: tuple[Column, ...] = ()
    compression: str | None = None
    beside: tuple[Column, ...] = ()
    apart: bool = False
    within: pa.Table | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the rows are the whole table."""
        return self.overwrite and self.within is None


@dataclass(frozen=True, slots=True)
class Restore:
    """One commit that restores a table to an earlier delta version."""

    delta_version: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """One commit that deletes the rows that match a predicate, from the files too."""

    predicate: str
