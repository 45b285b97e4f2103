"""Copies: tables with a stage's rows or keys in a database, and how changes are applied to them.

Two classes have the same methods, so a sync does not ask which one it has. The invariant: after
`load`, or after `apply` and `finish`, a copy equals the stage in the given version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from deltaproduce.engines.local.arrays import distinct
from deltaproduce.postgres import statements as sql
from deltaproduce.postgres.holding import held
from deltaproduce.postgres.rendering import copy_text
from deltaproduce.postgres.sizes import too_large
from deltaproduce.types.columns import CHANGE_TYPE, IS_ALIVE, Column
from deltaproduce.types.data_types import BooleanType
from deltaproduce.types.python_values import python_tuples


class RowTooLargeError(Exception):
    """A row does not fit on a page of PostgreSQL, or a key does not fit in an index."""


class Database(Protocol):
    """The operations of a database that a copy needs, in one transaction.

    `execute` and `copy` raise a TooLargeError if a row or a key is too large.
    """

    def execute(self, statement: str) -> int:
        """Run a statement and return the number of affected rows."""

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    def copy(self, statement: str, texts: Iterable[bytes]) -> int:
        """Send rows and return their number."""

    @property
    def is_15(self) -> bool:
        """Whether the server has version 15 or later."""


@dataclass(frozen=True, slots=True)
class Copy(ABC):
    """The copy of a stage in a database.

    Attributes:
        stage: its name.
        table: the copy's name.
        key: the key columns.
        columns: all columns of the copy.
    """

    stage: str
    table: str
    key: tuple[Column, ...]
    columns: tuple[Column, ...]

    @abstractmethod
    def create(self, database: Database, names: sql.Names) -> None:
        """Create the table, without rows."""

    @abstractmethod
    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        """Replace the rows of the table with these rows.

        Args:
            is_new: whether this transaction created the table, which then has no rows.

        Returns:
            The number of rows deleted and inserted.
        """

    @abstractmethod
    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        """Apply the changes of some keys to the table; see `load`."""

    def expected_rows(self, rows: int) -> int | None:
        """Return the copy's number of rows, from the stage's; None if it does not follow."""
        return rows

    def finish(self, database: Database, names: sql.Names) -> int:
        """Delete keys that other tables referred to until they changed; return their number."""
        return 0

    def too_large(self, batches: Iterable[pa.Table]) -> tuple[tuple[object, ...], ...]:
        """Return the keys of rows that PostgreSQL has found too large, of all rows of a change."""
        marked = (self._marked(rows) for rows in batches)
        alive = (rows.filter(rows.column(IS_ALIVE)) for rows in marked)
        return tuple(python_tuples(too_large(alive, self.columns, self.key)))

    def _texts(self, batches: Iterable[pa.Table], columns: Sequence[Column]) -> Iterator[bytes]:
        for rows in batches:
            yield copy_text(rows, columns, self.key, stage=self.stage)

    def _arrive(self, database: Database, names: sql.Names, batches: Iterator[pa.Table]) -> None:
        database.execute(sql.create_arrived(names, self.columns))
        columns = (*self.columns, Column(IS_ALIVE, BooleanType()))
        texts = self._texts(map(self._marked, batches), columns)
        database.copy(sql.copy_arrived(names, self.columns), texts)

    def _marked(self, rows: pa.Table) -> pa.Table:
        """Return the copy's columns of rows, and whether each row exists.

        Deleted keys that the table cannot have are left out.
        """
        columns = rows.select([c.name for c in self.columns])
        if CHANGE_TYPE not in rows.column_names:
            return columns.append_column(IS_ALIVE, pa.repeat(True, len(rows)))
        alive = pc.equal(rows.column(CHANGE_TYPE), "upsert")
        marked = columns.append_column(IS_ALIVE, alive)
        gone = marked.filter(pc.invert(alive))
        return pa.concat_tables([marked.filter(alive), gone.filter(held(gone, self.key))])

    def _find_had(self, database: Database, names: sql.Names, columns: Sequence[Column]) -> None:
        """Number the keys that arrived, and find their rows in the table."""
        for statement in sql.number_keys(names, self.key):
            database.execute(statement)
        patterns = database.rows(sql.null_patterns(names, self.key))
        none = [(False,) * len(self.key)]
        for statement in sql.find_had(names, self.key, columns, patterns or none):
            database.execute(statement)


class RowsCopy(Copy):
    """A copy with all rows of a stage."""

    @override
    def create(self, database: Database, names: sql.Names) -> None:
        database.execute(sql.create_rows(names, self.columns))

    @override
    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        deleted = 0 if is_new else database.execute(f"DELETE FROM {names.copy}")
        texts = self._texts(batches, self.columns)
        inserted = database.copy(sql.copy_rows(names, self.columns), texts)
        if is_new and self.key:
            database.execute(sql.index_key(names, self.key))
        database.execute(f"ANALYZE {names.copy}")
        return deleted, inserted

    @override
    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        self._arrive(database, names, batches)
        self._find_had(database, names, self.columns)
        for statement in sql.find_differing(names, self.columns):
            database.execute(statement)
        deleted = database.execute(sql.delete_differing(names))
        return deleted, database.execute(sql.insert_differing(names, self.columns))


class KeysCopy(Copy):
    """A copy with each key of a stage once, and its id as the first column."""

    @property
    def identity(self) -> Column:
        """The column of the id."""
        return self.columns[0]

    @override
    def create(self, database: Database, names: sql.Names) -> None:
        database.execute(
            sql.create_keys(names, self.key, self.identity, nulls_are_equal=database.is_15)
        )

    @override
    def load(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table], *, is_new: bool
    ) -> tuple[int, int]:
        """Keys that stay are not changed."""
        self._arrive(database, names, batches)
        database.execute(f"ANALYZE {names.arrived}")
        deleted = database.execute(sql.delete_other_keys(names, self.key, self.identity))
        inserted = database.execute(sql.insert_other_keys(names, self.columns, self.identity))
        database.execute(f"ANALYZE {names.copy}")
        return deleted, inserted

    @override
    def apply(
        self, database: Database, names: sql.Names, batches: Iterator[pa.Table]
    ) -> tuple[int, int]:
        """Deleted keys stay until `finish`."""
        self._arrive(database, names, batches)
        self._find_had(database, names, (self.identity,))
        deleted = database.execute(sql.delete_renumbered(names, self.identity))
        statement = sql.insert_new_keys(names, self.columns, self.identity)
        return deleted, database.execute(statement)

    @override
    def expected_rows(self, rows: int) -> int | None:
        """A key may have several rows."""
        return None

    @override
    def finish(self, database: Database, names: sql.Names) -> int:
        return database.execute(sql.delete_gone_keys(names, self.identity))

    def _marked(self, rows: pa.Table) -> pa.Table:
        return distinct(Copy._marked(self, rows))
