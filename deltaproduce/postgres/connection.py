"""The connection: one transaction of psycopg, and the meaning of its errors.

The only module that uses psycopg. The invariant: the transaction is committed if the block
succeeds, and rolled back if it fails; only one sync at a time is in it. One that only reads is
always rolled back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import errors
from typing_extensions import override

from deltaproduce.errors import CommitUnknownError, ConflictError, SyncError
from deltaproduce.postgres.copies import Database, RowTooLargeError
from deltaproduce.sync.comparing.tables import UnreadableTableError
from deltaproduce.types.excerpts import escaped

_LOCK: Final = "deltaproduce sync "
"""Syncs of one schema lock this text followed by the schema's name."""
_ENCODINGS: Final = ("UTF8", "SQL_ASCII")
"""Databases that store any text, in the bytes of UTF-8; the second one does not look at them."""


class Connection(Database):
    """A transaction of a connection."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    @override
    def execute(self, statement: str) -> int:
        with _noticing_size(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.rowcount

    @override
    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            return cursor.execute(statement, values or None).fetchall()

    @override
    def copy(self, statement: str, texts: Iterable[bytes]) -> int:
        with _noticing_size(), self._connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for text in texts:
                    copy.write(text)
            return cursor.rowcount

    @property
    @override
    def is_15(self) -> bool:
        return self._connection.info.server_version >= 150_000


@contextmanager
def _noticing_size() -> Iterator[None]:
    try:
        yield
    except errors.ProgramLimitExceeded as error:
        raise RowTooLargeError(_said(error)) from error


@contextmanager
def connected(to: str, schema: str, wait_seconds: float) -> Iterator[Database]:
    """Open a transaction that excludes other syncs of the schema.

    Raises:
        SyncError: the server cannot be reached, or refuses a statement; or the database stores text
            in an encoding in which not every text of a store can be.
        ConflictError: another sync, or someone else's lock, lasted too long.
        CommitUnknownError: the connection was lost during the commit.
    """
    connection = _opened(to)
    try:
        _check_encoding(connection)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        database = Connection(connection)
        try:
            database.rows(
                "SELECT set_config('lock_timeout', %s, true)",
                (f"{max(1, int(wait_seconds * 1000))}ms",),
            )
            database.rows(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (_LOCK + schema,)
            )
            yield database
        except errors.LockNotAvailable as error:
            raise ConflictError(
                f"another sync of schema {schema!r}, or a lock on one of its tables, lasted for "
                f"more than {wait_seconds:g} seconds: {_said(error)}; nothing was written"
            ) from error
        except psycopg.Error as error:
            raise SyncError(
                f"PostgreSQL refused the sync: {_said(error)}; nothing was written"
            ) from error
        _commit(connection)
    finally:
        with suppress(psycopg.Error):
            connection.close()  # rolls back what was not committed


class ReadOnly:
    """A transaction that reads one state of a database."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            UnreadableTableError: the server refuses it; other queries can follow.
        """
        with self._going_on():
            return self._connection.execute(statement, values or None).fetchall()

    def copied(self, statement: str) -> Generator[bytes]:
        """Yield the text that a ``COPY … TO STDOUT`` sends.

        Raises:
            UnreadableTableError: as for `rows`.
        """
        with (
            self._going_on(),
            self._connection.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            yield from map(bytes, copy)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Leave the transaction as it was if a statement in the block fails."""
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            raise UnreadableTableError(f"PostgreSQL refuses to read it: {_said(error)}") from error


@contextmanager
def reading(to: str) -> Iterator[ReadOnly]:
    """Open a transaction that reads one state of a database, whatever others write meanwhile.

    Raises:
        UnreadableTableError: the server cannot be reached.
    """
    try:
        connection = _opened(to)
    except SyncError as error:
        raise UnreadableTableError(str(error)) from error
    try:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("SET LOCAL DateStyle = 'ISO'")
        yield ReadOnly(connection)
    finally:
        with suppress(psycopg.Error):
            connection.close()


def _opened(to: str) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return psycopg.connect(to, application_name="deltaproduce", client_encoding="utf8")
    except (psycopg.Error, UnicodeError) as error:
        raise SyncError(f"PostgreSQL is not reached: {_said(error)}") from error


def _check_encoding(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in _ENCODINGS:
        raise SyncError(
            f"database {connection.info.dbname!r} has the encoding {encoding!r}, which lacks "
            "characters that a store has; sync into a database with ENCODING 'UTF8'"
        )


def _commit(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    try:
        connection.commit()
    except psycopg.Error as error:
        if error.sqlstate is not None and not connection.broken:
            raise SyncError(
                f"PostgreSQL refused the sync: {_said(error)}; nothing was written"
            ) from error
        raise CommitUnknownError(
            f"whether the sync was committed is unknown: {_said(error)}; sync again, it goes by "
            "the position that is there"
        ) from error


def _said(error: Exception) -> str:
    return " ".join(escaped(str(error), lines=True).split())
