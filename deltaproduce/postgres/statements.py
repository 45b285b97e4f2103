"""Statements: the SQL of a sync, as text.

Pure. Rows arrive in a temporary table. Each changed key gets a number, so that keys with nulls are
compared once, and then joined by number. The invariant: names are quoted, and no statement contains
a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltaproduce.postgres.types import postgres_type
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import StringType

KEY: Final = '"_key"'
"""The column with the number of a changed key."""
PLACE: Final = '"_place"'
IS_ALIVE: Final = '"_is_alive"'
_INDEX_COLUMNS: Final = 32
"""The largest number of columns in an index of PostgreSQL."""


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def listed(columns: Iterable[Column], of: str = "") -> str:
    """Return column names as a list, qualified by one of a statement's tables if given."""
    return ", ".join(of + quoted(column.name) for column in columns)


def declared(column: Column, *, nullable: bool) -> str:
    """Return a column's declaration; text sorts by bytes, as in a store."""
    collation = ' COLLATE "C"' if column.data_type == StringType() else ""
    not_null = "" if nullable else " NOT NULL"
    return f"{quoted(column.name)} {postgres_type(column.data_type)}{collation}{not_null}"


@dataclass(frozen=True, slots=True)
class Names:
    """The tables in the statements about one copy.

    Attributes:
        copy: the copy, with its schema.
        number: the number of its temporary tables.
    """

    copy: str
    number: int

    @property
    def arrived(self) -> str:
        """The table of the rows that arrive."""
        return f'"_arrived_{self.number}"'

    @property
    def changed(self) -> str:
        """The table of arrived rows with a number for each key."""
        return f'"_changed_{self.number}"'

    @property
    def keys(self) -> str:
        """The table with each changed key once."""
        return f'"_keys_{self.number}"'

    @property
    def had(self) -> str:
        """The table of the rows that the copy has for these keys."""
        return f'"_had_{self.number}"'

    @property
    def differing(self) -> str:
        """The table of the numbers of the keys whose rows differ."""
        return f'"_differing_{self.number}"'


def create_arrived(names: Names, columns: Sequence[Column]) -> str:
    """Create the table in which rows arrive, with whether each row exists."""
    of_rows = ", ".join(declared(column, nullable=True) for column in columns)
    return f"CREATE TEMPORARY TABLE {names.arrived} ({of_rows}, {IS_ALIVE} boolean) ON COMMIT DROP"


def copy_arrived(names: Names, columns: Sequence[Column]) -> str:
    """Copy rows into that table."""
    return f"COPY {names.arrived} ({listed(columns)}, {IS_ALIVE}) FROM STDIN"


def copy_rows(names: Names, columns: Sequence[Column]) -> str:
    """Copy all rows into the copy."""
    return f"COPY {names.copy} ({listed(columns)}) FROM STDIN"


def number_keys(names: Names, key: Sequence[Column]) -> list[str]:
    """Number the keys that arrived, and list each of them once."""
    return [
        f"CREATE TEMPORARY TABLE {names.changed} ON COMMIT DROP AS SELECT "
        f"dense_rank() OVER (ORDER BY {listed(key)}) AS {KEY}, * FROM {names.arrived}",
        f"CREATE TEMPORARY TABLE {names.keys} ON COMMIT DROP AS SELECT DISTINCT ON ({KEY}) {KEY}, "
        f"{listed(key)} FROM {names.changed}",
        f"ANALYZE {names.keys}",
    ]


def null_patterns(names: Names, key: Sequence[Column]) -> str:
    """Select the combinations of null key columns among the changed keys."""
    nulls = ", ".join(f"{quoted(column.name)} IS NULL" for column in key)
    return f"SELECT DISTINCT {nulls} FROM {names.keys}"


def find_had(
    names: Names,
    key: Sequence[Column],
    columns: Sequence[Column],
    patterns: Iterable[Sequence[bool]],
) -> list[str]:
    """Find the copy's rows of the changed keys, by an index or a hash join.

    ``=`` and ``IS NULL`` use an index, ``IS NOT DISTINCT FROM`` does not; so each combination of
    nulls has its own query.
    """
    selects = [
        f"SELECT k.{KEY}, t.ctid AS {PLACE}, {listed(columns, 't.')} FROM {names.copy} t JOIN "
        f"{names.keys} k ON {_matches(key, pattern)}"
        for pattern in patterns
    ]
    return [
        f"CREATE TEMPORARY TABLE {names.had} ON COMMIT DROP AS {' UNION ALL '.join(selects)}",
        f"ANALYZE {names.had}",
    ]


def _matches(key: Sequence[Column], pattern: Sequence[bool]) -> str:
    parts = []
    for column, is_null in zip(key, pattern, strict=True):
        name = quoted(column.name)
        parts.append(
            f"t.{name} IS NULL AND k.{name} IS NULL" if is_null else f"t.{name} = k.{name}"
        )
    return " AND ".join(parts)


def find_differing(names: Names, columns: Sequence[Column]) -> list[str]:
    """Find the keys whose rows differ from the copy's, as multisets."""
    compared = f"{KEY}, {listed(columns)}"
    now = f"SELECT {compared} FROM {names.changed} WHERE {IS_ALIVE}"
    had = f"SELECT {compared} FROM {names.had}"
    either = f"({now} EXCEPT ALL {had}) UNION ALL ({had} EXCEPT ALL {now})"
    return [
        f"CREATE TEMPORARY TABLE {names.differing} ON COMMIT DROP AS SELECT DISTINCT {KEY} FROM "
        f"({either}) AS either",
        f"ANALYZE {names.differing}",
    ]


def delete_differing(names: Names) -> str:
    """Delete the rows of keys whose rows differ."""
    return (
        f"DELETE FROM {names.copy} t USING {names.had} h JOIN {names.differing} USING ({KEY}) "
        f"WHERE t.ctid = h.{PLACE}"
    )


def insert_differing(names: Names, columns: Sequence[Column]) -> str:
    """Insert all current rows of these keys."""
    return (
        f"INSERT INTO {names.copy} ({listed(columns)}) SELECT {listed(columns, 'c.')} FROM "
        f"{names.changed} c JOIN {names.differing} USING ({KEY}) WHERE c.{IS_ALIVE}"
    )


def delete_renumbered(names: Names, surrogate: Column) -> str:
    """Delete keys whose id is another one now, and keys whose id is another key's now.

    A key that was deleted and came back has another id; and after a rollback of the store, a new
    key may get the id of a key that is gone.
    """
    name = quoted(surrogate.name)
    other = f"CASE WHEN c.{IS_ALIVE} THEN h.{name} <> c.{name} ELSE {_taken(names, surrogate)} END"
    return _delete_keys(names, surrogate, other)


def insert_new_keys(names: Names, columns: Sequence[Column], surrogate: Column) -> str:
    """Insert missing keys, each once."""
    name = quoted(surrogate.name)
    return (
        f"INSERT INTO {names.copy} ({listed(columns)}) SELECT DISTINCT {listed(columns, 'c.')} "
        f"FROM {names.changed} c WHERE c.{IS_ALIVE} AND NOT EXISTS (SELECT FROM {names.had} h "
        f"WHERE h.{KEY} = c.{KEY} AND h.{name} = c.{name})"
    )


def delete_gone_keys(names: Names, surrogate: Column) -> str:
    """Delete keys that no longer exist, except those that `delete_renumbered` deletes."""
    which = f"NOT c.{IS_ALIVE} AND NOT {_taken(names, surrogate)}"
    return _delete_keys(names, surrogate, which)


def delete_other_keys(names: Names, key: Sequence[Column], surrogate: Column) -> str:
    """Delete all keys except the keys that arrived with the same id."""
    same = " AND ".join(f"a.{n} IS NOT DISTINCT FROM t.{n}" for n in map(quoted, _names(key)))
    name = quoted(surrogate.name)
    return (
        f"DELETE FROM {names.copy} t WHERE NOT EXISTS (SELECT FROM {names.arrived} a WHERE "
        f"a.{name} = t.{name} AND {same})"
    )


def insert_other_keys(names: Names, columns: Sequence[Column], surrogate: Column) -> str:
    """Insert all arrived keys that are missing, each once."""
    name = quoted(surrogate.name)
    return (
        f"INSERT INTO {names.copy} ({listed(columns)}) SELECT DISTINCT {listed(columns, 'a.')} "
        f"FROM {names.arrived} a WHERE NOT EXISTS (SELECT FROM {names.copy} t WHERE "
        f"t.{name} = a.{name})"
    )


def create_rows(names: Names, columns: Sequence[Column]) -> str:
    """Create the table of a stage's rows."""
    of_rows = ", ".join(declared(column, nullable=column.nullable) for column in columns)
    return f"CREATE TABLE {names.copy} ({of_rows})"


def index_key(names: Names, key: Sequence[Column]) -> str:
    """Create the index that finds the rows of changed keys."""
    return f"CREATE INDEX ON {names.copy} ({listed(key[:_INDEX_COLUMNS])})"


def create_keys(
    names: Names, key: Sequence[Column], surrogate: Column, *, nulls_are_equal: bool
) -> str:
    """Create the table of a stage's keys: an id each, which other tables may reference.

    Args:
        nulls_are_equal: whether the server supports ``NULLS NOT DISTINCT`` (version 15 or later).
    """
    of_key = ", ".join(declared(column, nullable=column.nullable) for column in key)
    nulls = " NULLS NOT DISTINCT" if nulls_are_equal else ""
    unique = f", UNIQUE{nulls} ({listed(key)})" if len(key) <= _INDEX_COLUMNS else ""
    identity = declared(surrogate, nullable=False)
    return f"CREATE TABLE {names.copy} ({identity} PRIMARY KEY, {of_key}{unique})"


def _taken(names: Names, surrogate: Column) -> str:
    """Say whether the id that a key had is another key's now."""
    name = quoted(surrogate.name)
    return f"EXISTS (SELECT FROM {names.changed} a WHERE a.{IS_ALIVE} AND a.{name} = h.{name})"


def _delete_keys(names: Names, surrogate: Column, which: str) -> str:
    """Delete the keys of some changes, by the id that they had."""
    name = quoted(surrogate.name)
    return (
        f"DELETE FROM {names.copy} t USING {names.had} h JOIN {names.changed} c USING ({KEY}) "
        f"WHERE t.{name} = h.{name} AND {which}"
    )


def _names(columns: Iterable[Column]) -> list[str]:
    return [column.name for column in columns]
