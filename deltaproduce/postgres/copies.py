"""Copies: what is kept of a stage in a database, its rows or its keys, and how changes get there.

Two classes with the same methods, so that a sync does not ask which it has. The invariant: after
`load`, or `apply` and `finish`, a copy has what the stage has in the version that was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType

from deltaproduce.engines.local.arrays import distinct
from deltaproduce.postgres import statements as sql
from deltaproduce.postgres.rendering import copy_text
from deltaproduce.types.columns import CHANGE_TYPE, IS_ALIVE, Column


class Database(Protocol):
    """What is asked of a database, in one transaction."""

    def execute(self, statement: str) -> int:
        """Do it, and say how many rows it was about."""

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query gives."""

    def copy(self, statement: str, texts: Iterable[bytes]) -> int:
        """Send rows, and say how many they are."""

    @property
    def is_15(self) -> bool:
        """Whether the server has version 15 or a newer one."""


@dataclass(frozen=True, slots=True)
class Copy(ABC):
    """What is kept of a stage.

    Attributes:
        stage: its name.
        table: that of the copy.
        key: the key columns.
        columns: all columns of the copy.
    """

    stage: str
    table: str
    key: tuple[Column, ...]
    columns: tuple[Column, ...]

    @abstractmethod
    def create(self, database: Database, names: sql.Names) -> None:
        """Make the table, without rows."""

    @abstractmethod
    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        """Give the table all these rows in place of those that it has.

        Args:
            is_new: it was made in this transaction, and has none.

        Returns:
            How many rows were deleted, and how many inserted.
        """

    @abstractmethod
    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        """Give the table what became of some keys; see `load`."""

    def expected_rows(self, rows: int) -> int | None:
        """How many rows the copy of a stage of so many has; None if that does not say it."""
        return rows

    def finish(self, database: Database, names: sql.Names) -> int:
        """Delete what others may still refer to before they have changed; how many rows."""
        return 0

    def _texts(self, batches: Iterable[pa.Table], columns: Sequence[Column]) -> Iterator[bytes]:
        for rows in batches:
            yield copy_text(rows, columns, self.key, stage=self.stage)

    def _arrive(self, database: Database, names: sql.Names, batches: Iterator[pa.Table]) -> None:
        database.execute(sql.create_arrived(names, self.columns))
        columns = (*self.columns, Column(IS_ALIVE, BooleanType()))
        texts = self._texts(map(self._marked, batches), columns)
        database.copy(sql.copy_arrived(names, self.columns), texts)

    def _marked(self, rows: pa.Table) -> pa.Table:
        """The copy's columns of some rows, and whether they are there."""
        alive = pa.repeat(True, len(rows))
        if CHANGE_TYPE in rows.column_names:
            alive = pc.equal(rows.column(CHANGE_TYPE), "upsert")
        return rows.select([c.name for c in self.columns]).append_column(IS_ALIVE, alive)

    def _find_had(self, database: Database, names: sql.Names, columns: Sequence[Column]) -> None:
        """Number the keys that arrived, and find what the table has of them."""
        for statement in sql.number_keys(names, self.key):
            database.execute(statement)
        patterns = database.rows(sql.null_patterns(names, self.key))
        none = [(False,) * len(self.key)]
        for statement in sql.find_had(names, self.key, columns, patterns or none):
            database.execute(statement)


class RowsCopy(Copy):
    """All rows of a stage."""

    def create(self, database: Database, names: sql.Names) -> None:
        """See `Copy.create`."""
        database.execute(sql.create_rows(names, self.columns))

    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        """See `Copy.load`."""
        deleted = 0 if is_new else database.execute(f"DELETE FROM {names.copy}")
        texts = self._texts(batches, self.columns)
        inserted = database.copy(sql.copy_rows(names, self.columns), texts)
        if is_new and self.key:
            database.execute(sql.index_key(names, self.key))
        database.execute(f"ANALYZE {names.copy}")
        return deleted, inserted

    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        """See `Copy.apply`."""
        self._arrive(database, names, batches)
        self._find_had(database, names, self.columns)
        for statement in sql.find_differing(names, self.columns):
            database.execute(statement)
        deleted = database.execute(sql.delete_differing(names))
        return deleted, database.execute(sql.insert_differing(names, self.columns))


class KeysCopy(Copy):
    """Each key of a stage once, with its id, which is its first column."""

    @property
    def identity(self) -> Column:
        """The column of the id."""
        return self.columns[0]

    def create(self, database: Database, names: sql.Names) -> None:
        """See `Copy.create`."""
        database.execute(
            sql.create_keys(names, self.key, self.identity, nulls_are_equal=database.is_15)
        )

    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        """See `Copy.load`; keys that stay are not touched."""
        self._arrive(database, names, batches)
        database.execute(f"ANALYZE {names.arrived}")
        deleted = database.execute(sql.delete_other_keys(names, self.key, self.identity))
        inserted = database.execute(sql.insert_other_keys(names, self.columns, self.identity))
        database.execute(f"ANALYZE {names.copy}")
        return deleted, inserted

    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        """See `Copy.apply`; keys that are gone stay until `finish`."""
        self._arrive(database, names, batches)
        self._find_had(database, names, (self.identity,))
        deleted = database.execute(sql.delete_renumbered(names, self.identity))
        statement = sql.insert_new_keys(names, self.columns, self.identity)
        return deleted, database.execute(statement)

    def expected_rows(self, rows: int) -> int | None:
        """See `Copy.expected_rows`: a key may have several."""
        return None

    def finish(self, database: Database, names: sql.Names) -> int:
        """See `Copy.finish`."""
        return database.execute(sql.delete_gone_keys(names, self.identity))

    def _marked(self, rows: pa.Table) -> pa.Table:
        return distinct(Copy._marked(self, rows))
