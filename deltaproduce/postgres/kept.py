"""Kept: the database's record of its copies, and whether they are as the last sync left them.

The table ``_deltaproduce_sync`` has a row for each copy, written in the transaction that changes
the copy. The invariant: `fault` is None only for a table that a sync created, with the columns and,
where they were counted, the rows that a sync has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.postgres.copies import Copy, Database
from deltaproduce.postgres.statements import quoted
from deltaproduce.postgres.types import postgres_type
from deltaproduce.sync import Position
from deltaproduce.types.columns import Column

TABLE: Final = "_deltaproduce_sync"
COUNTED_ROWS: Final = 1_000_000
"""Copies of at most this many rows are counted before each sync, which takes some 0.1 s."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state in which the last sync left a copy.

    Attributes:
        oid: the table's identity.
        rows: the number of rows that it had.
    """

    position: Position
    oid: int
    rows: int


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that exists.

    Attributes:
        columns: the names and types of its columns.
    """

    oid: int
    columns: tuple[tuple[str, str], ...]


def create(database: Database, schema: str) -> None:
    """Create the schema and its table of positions, where they do not exist."""
    if not database.rows("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)):
        database.execute(f"CREATE SCHEMA {quoted(schema)}")
    if existing_table(database, schema, TABLE) is not None:
        return
    database.execute(
        f"CREATE TABLE {quoted(schema)}.{quoted(TABLE)} ("
        'table_name text COLLATE "C" PRIMARY KEY, stage text NOT NULL, store_id text NOT NULL, '
        "version bigint NOT NULL, attempt text NOT NULL, layout text NOT NULL, "
        "function text NOT NULL, table_oid bigint NOT NULL, row_count bigint NOT NULL, "
        "synced_at timestamp with time zone NOT NULL)"
    )


def existing_table(database: Database, schema: str, table: str) -> ExistingTable | None:
    """Return the table, view or other relation with this name; None if there is none."""
    oids = database.rows(
        "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (schema, table),
    )
    if not oids:
        return None
    columns = database.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = %s::bigint::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        oids[0],
    )
    return ExistingTable(oids[0][0], tuple((str(name), str(kind)) for name, kind in columns))


def kept(database: Database, schema: str) -> dict[str, CopyState]:
    """Return the record of all copies in a schema, by table."""
    rows = database.rows(
        "SELECT table_name, stage, store_id, version, attempt, layout, function, table_oid, "
        f"row_count FROM {quoted(schema)}.{quoted(TABLE)}"
    )
    return {
        table: CopyState(
            Position(store, version, attempt, {stage: Fingerprint(layout, function)}),
            oid,
            count,
        )
        for table, stage, store, version, attempt, layout, function, oid, count in rows
    }


def keep(database: Database, schema: str, copy: Copy, what: CopyState) -> None:
    """Record the state of a copy."""
    definition, place = what.position.definitions[copy.stage], quoted(schema).replace("%", "%%")
    database.rows(
        f"INSERT INTO {place}.{quoted(TABLE)} VALUES "
        "(%s, %s, %s, %s, %s, %s, %s, %s, %s, now()) "
        "ON CONFLICT (table_name) DO UPDATE SET stage = excluded.stage, "
        "store_id = excluded.store_id, version = excluded.version, attempt = excluded.attempt, "
        "layout = excluded.layout, function = excluded.function, table_oid = excluded.table_oid, "
        "row_count = excluded.row_count, synced_at = excluded.synced_at RETURNING 1",
        (
            copy.table,
            copy.stage,
            what.position.store_id,
            what.position.version,
            what.position.attempt,
            definition.layout,
            definition.function,
            what.oid,
            what.rows,
        ),
    )


def expected(columns: Sequence[Column]) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a copy's columns, in the form of `ExistingTable`."""
    return tuple((column.name, postgres_type(column.data_type)) for column in columns)


def fault(
    table: ExistingTable | None, left: CopyState, columns: Sequence[Column], counted: int | None
) -> str | None:
    """Return what someone did to a copy since the last sync; None if no change is found.

    Args:
        counted: the number of its rows, if it was counted.
    """
    if table is None:
        return "it was dropped"
    if table.oid != left.oid:
        return "it was made anew by someone else"
    wanted = expected(columns)
    if table.columns != wanted:
        other = [f"{name} {kind}" for name, kind in {*table.columns} ^ {*wanted}]
        return (
            f"its columns are not those of the stage: {', '.join(sorted(other)) or 'another order'}"
        )
    if counted is not None and counted != left.rows:
        return f"it has {counted} rows, and the last sync left {left.rows}"
    return None
