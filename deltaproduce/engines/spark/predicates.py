"""Predicates that say "the row's key is one of these", for reads and Delta's ``replaceWhere``.

A predicate is text, because ``replaceWhere`` takes only text, and it must prune files, because a
table is large and a step's keys are few. So it has two conjuncts: the first key column ``IN`` a
list of literals, which Delta turns into file skipping, and, for keys of several columns, an
``xxhash64`` of all of them ``IN`` a list of numbers. The hash may match another key (once in about
2**64 pairs), so the invariant of this module's users is: **a predicate is a superset of its keys,
and code that replaces by a predicate has read by it, and puts back the rows that it did not mean.**

Literals are written in forms that no session setting can reinterpret: text as ``CAST(X'..' AS
STRING)`` (quotes, backslashes and newlines never reach the SQL lexer), dates and timestamps as
numbers since the epoch. Spark folds them to constants before it plans the scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from deltaproduce.engines.delta.log import logged
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column
from deltaproduce.types.ddl import identifier

HASH = "_hash"
"""The column of a key table that holds ``xxhash64`` of all its key columns."""

_LONGEST_LITERAL_BYTES = 256

# Spark prunes Parquet's row groups by values of the hybrid calendar, which goes from 4 to 15
# October 1582: it does not find rows of the days between. A timestamp is on one of them in some
# zone.
_GAP = date(1582, 10, 4), date(1582, 10, 15)
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in _GAP)
_MICROS_A_DAY = 24 * 3_600_000_000


def hash_sql(names: Sequence[str]) -> str:
    """Return the SQL expression that hashes the named key columns, in order."""
    return f"xxhash64({', '.join(map(identifier, names))})"


def needs_hash(columns: Sequence[Column], keys: pa.Table) -> bool:
    """Return whether `membership` of these keys needs their hashes: literals do not suffice."""
    return len(columns) > 1 or _first_column_in(columns[0], keys.column(0)) is None


def membership(columns: Sequence[Column], keys: pa.Table) -> str:
    """Return the predicate that holds for every row whose ``columns`` equal one of ``keys``.

    Args:
        columns: the key columns, at least one.
        keys: one row per key: the columns by their names, then, if `needs_hash`, ``HASH``, as Spark
            computed it.

    Returns:
        SQL text that refers only to ``columns``; ``FALSE`` when there are no keys. For one column
        with literals of every key it is exact, otherwise a superset.
    """
    if keys.num_rows == 0:
        return "FALSE"
    pruning = _first_column_in(columns[0], keys.column(columns[0].name))
    if pruning is not None and len(columns) == 1:
        return pruning
    hashes = ", ".join(f"{number}L" for number in sorted(set(keys.column(HASH).to_pylist())))
    hashed = f"{hash_sql([column.name for column in columns])} IN ({hashes})"
    return hashed if pruning is None else f"{pruning} AND {hashed}"


def of_partitions(columns: Sequence[Column], partitions: pa.Table) -> str:
    """Return the predicate that holds exactly for the rows of some partitions.

    Args:
        columns: the columns that a table is partitioned by.
        partitions: distinct values of these.
    """
    conditions = (
        f"({' AND '.join(_equals(column, values[column.name]) for column in columns)})"
        for values in partitions.to_pylist()
    )
    return " OR ".join(conditions) or "FALSE"


def _equals(column: Column, value: object) -> str:
    """Return a comparison of a partition column with a value, by its text in Delta's log."""
    name, text = identifier(column.name), logged(value, column.data_type)
    if text is None:
        return f"{name} IS NULL"
    literal = f"CAST(X'{text.encode().hex()}' AS STRING)"
    return f"{name} = CAST({literal} AS {column.data_type.simpleString()})"


def literal(scalar: pa.Scalar, data_type: t.DataType) -> str | None:
    """Return one key value as SQL text of exactly ``data_type``.

    None if the text would be too long, or Spark would not find the value in a file.
    """
    match data_type:
        case t.StringType() | t.BinaryType():
            content = scalar.as_buffer().to_pybytes()
            if len(content) > _LONGEST_LITERAL_BYTES:
                return None
            text = f"X'{content.hex()}'"
            return text if isinstance(data_type, t.BinaryType) else f"CAST({text} AS STRING)"
        case t.BooleanType():
            return "TRUE" if scalar.as_py() else "FALSE"
        case t.DateType():
            day = scalar.cast(pa.int32()).as_py()
            return None if _FIRST_DAY < day < _LAST_DAY else f"date_from_unix_date({day})"
        case t.TimestampType():
            moment = _micros(scalar)
            expression = f"timestamp_micros(CAST('{moment}' AS BIGINT))"
            return None if _FIRST_DAY <= moment // _MICROS_A_DAY <= _LAST_DAY else expression
        case t.TimestampNTZType():
            return _timestamp_ntz(_micros(scalar))
        case t.DecimalType():
            return f"CAST('{scalar.as_py():f}' AS {data_type.simpleString()})"
        case _:
            return f"CAST('{scalar.as_py()}' AS {data_type.simpleString()})"


def _first_column_in(column: Column, values: pa.ChunkedArray) -> str | None:
    distinct = values.unique()
    literals = [literal(value, column.data_type) for value in distinct if value.is_valid]
    if None in literals:
        return None
    name = identifier(column.name)
    parts = [f"{name} IN ({', '.join(text for text in literals if text)})"] if literals else []
    if distinct.null_count:
        parts.append(f"{name} IS NULL")
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def _micros(scalar: pa.Scalar) -> int:
    micros: int = scalar.cast(pa.timestamp("us", tz=scalar.type.tz)).value
    return micros


def _timestamp_ntz(micros: int) -> str | None:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return f"TIMESTAMP_NTZ'{moment.replace(tzinfo=None).isoformat(sep=' ')}'"
