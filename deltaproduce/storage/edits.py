"""Edits: what is to be done to a table in one commit: rows to be written, a restore, a deletion.

`operations.step.edits` makes them of comparisons, and `tables` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaproduce.engines.engine import Rows
from deltaproduce.types.columns import Column


@dataclass(frozen=True, slots=True)
class Edit:
    """One commit to be made to a table.

    Attributes:
        rows: sorted by the table's order, within partitions if they are in Spark.
        columns: the table's columns.
        overwrite: the rows are the whole table. Otherwise they are added,
        predicate: and, if there is one, only those for which it holds, in the place of all rows of
            the table for which it holds.
        lookup: the columns by which the table will be looked up.
        file_rows: a file that Spark writes has at most so many rows; without it, those of a
            partition.
        sought: keys are looked up in the files, so that small row groups are worth their place.
        by_ends: and so are even smaller ones; see `Layout.by_ends`.
        marked: a table that is new lets rows be marked as replaced (deletion vectors), because
            later edits will replace some by predicate.
        file_ends: see `Write.file_ends`.
        partition: see `Write.partition`.
        compression: see `Write.compression`.
        beside: columns that the content does not show, of expressions that it is partitioned by.
        apart: the table is partitioned otherwise until now.
    """

    rows: Rows
    columns: tuple[Column, ...]
    overwrite: bool
    predicate: str | None
    lookup: tuple[Column, ...]
    file_rows: int | None = None
    sought: bool = False
    by_ends: bool = False
    marked: bool = False
    file_ends: tuple[int, ...] = ()
    partition: tuple[Column, ...] = ()
    compression: str | None = None
    beside: tuple[Column, ...] = ()
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """One commit that sets a table back to an earlier delta version."""

    delta_version: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """One commit that deletes the rows for which a predicate holds, from the files too."""

    predicate: str
