"""Edits: what a step's comparison means for each of a stage's tables.

An `Edit` describes one commit: rows, and what they take the place of. The invariant is S8's
economy: a table is edited only if its rows change, and only pairs of source key and target key
whose rows change are replaced, unless the whole table is written anew. Where an edit replaces by
predicate, its rows are all that the predicate may hold for (see `comparisons`).

`operations.step.edits` makes them of comparisons, and `tables` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaproduce.engines.engine import Rows
from deltaproduce.types.columns import (
    Column,
)


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
        file_rows: a file has at most so many rows; without it, a file has those of a partition.
        sought: keys are looked up in the files, so that small row groups are worth their place.
        marked: a table that is new lets rows be marked as replaced (deletion vectors), because
            later edits will replace some by predicate.
    """

    rows: Rows
    columns: tuple[Column, ...]
    overwrite: bool
    predicate: str | None
    lookup: tuple[Column, ...]
    file_rows: int | None = None
    sought: bool = False
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """One commit that sets a table back to an earlier delta version."""

    delta_version: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """One commit that deletes the rows for which a predicate holds, from the files too."""

    predicate: str
