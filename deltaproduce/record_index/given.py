"""Given rows and keys, as Arrow tables in the columns of the table.

The invariant: every value is in the column of its name, in the table's type, unchanged, or it is
refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import Numbers, factorize, order_codes, taken
from deltaproduce.engines.spark.columns import cast_by_name
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import InvalidArgumentError, InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.model.limits import Limits
from deltaproduce.reading.given_keys import selected
from deltaproduce.record_index.decisions.entries import doubled
from deltaproduce.record_index.view import keys_as_given
from deltaproduce.stages.sources.given.formats import check, frame_faults, refuse, table_of
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.stages.sources.given.required import checked, required, unchecked
from deltaproduce.times.zones import zone_of, zone_of_machine
from deltaproduce.types.columns import CHANGE_TYPE, Column, Columns, RowSchema
from deltaproduce.types.data_types import StringType
from deltaproduce.types.ddl import identifier
from deltaproduce.types.excerpts import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 10


def rows_given(
    spark: SparkSession | None,
    given: object,
    columns: Iterable[Column],
    key: Iterable[Column],
    partitioned_by: Collection[str],
    table: str,
) -> pa.Table:
    """Return rows in all columns of a table.

    Raises:
        InvalidChangesError: they do not fit; a column that is NOT NULL is null; or a partition
            column is empty, which Delta stores as null.
    """
    every, names = tuple(columns), [column.name for column in key]
    _refuse_change_types(given, every, table)
    keys = tuple(column for name in names for column in every if column.name == name)
    values = tuple(column for column in every if column.name not in names)
    source = Source(table, RowSchema(Columns(keys), Columns(values)), Given())
    rows = _taken(spark, given, source).select([column.name for column in every])
    for one in required(source):
        nulls = pa.array(one.nulls(rows.column(one.column.name)))
        _refuse(rows.filter(nulls), one.column, names, table, one.finding)
    rows = checked(rows, every, np.ones(len(rows), bool))
    for column in every:
        if column.name in partitioned_by and isinstance(column.data_type, StringType):
            empty = pc.equal(rows.column(column.name), "")
            said = "is a partition's, and empty, which Delta stores as null,"
            _refuse(rows.filter(empty), column, names, table, said)
    return rows


def _refuse_change_types(given: object, columns: Iterable[Column], table: str) -> None:
    """Refuse rows that say what to do with them.

    Raises:
        InvalidChangesError: they have such a column, and the table has not.
    """
    rows = given if isinstance(given, list) else [given]
    own = {column.name.lower() for column in columns}
    if CHANGE_TYPE not in own and any(CHANGE_TYPE in map(str.lower, _names(r)) for r in rows):
        raise InvalidChangesError(
            f"rows of table {table!r} have a column {CHANGE_TYPE!r}: upsert inserts or replaces "
            "all rows it is given. Give it the others without that column, and call delete with "
            "the keys of those that say 'delete'",
            source=table,
            column=CHANGE_TYPE,
            columns=(CHANGE_TYPE,),
        )


def _refuse(wrong: pa.Table, column: Column, key: list[str], table: str, said: str) -> None:
    """Refuse rows that have a wrong value in a column.

    Raises:
        InvalidChangesError: there are such rows.
    """
    if len(wrong):
        sample = keys_as_given(wrong.select(key).slice(0, _SHOWN))
        raise InvalidChangesError(
            f"rows of table {table!r}: column {column.name!r} {said} in {len(wrong)} rows, of keys "
            f"{shown(sample)}",
            source=table,
            column=column.name,
            columns=(column.name,),
            keys=sample,
        )


def with_ordering(given: object, key: list[str], ordering: Column | None) -> Column | None:
    """Return the ordering column if given keys have it; None if they do not.

    Raises:
        InvalidArgumentError: some of the keys of a list have it.
    """
    if ordering is None or ordering.name in key:
        return None
    wanted, rows = ordering.name.lower(), given if isinstance(given, list) else [given]
    have = [wanted in map(str.lower, _names(one)) for one in rows]
    if any(have) and not all(have):
        raise InvalidArgumentError(
            f"{have.count(False)} of {len(have)} keys have no {ordering.name!r}: give it for all, "
            "or for none, whose deletes always win",
            argument="keys",
        )
    return ordering if any(have) else None


def _names(given: object) -> list[str]:
    """Return the names of the columns of given rows, or of one row."""
    if isinstance(given, Mapping):
        return [name for name in given if isinstance(name, str)]
    schema = None if is_frame(given) else getattr(given, "schema", None)
    names = getattr(given, "columns", ()) if schema is None else getattr(schema, "names", ())
    return [name for name in [*names] if isinstance(name, str)]


def keys_given(spark: SparkSession | None, given: object, key: Iterable[Column]) -> pa.Table:
    """Return distinct keys in the key columns of a table.

    Raises:
        InvalidArgumentError: they do not fit.
    """
    columns = tuple(key)
    session = given.sparkSession if is_frame(given) else spark
    keys = selected(given, Columns(columns), Engines.opened(session, Limits())).keys
    return keys if isinstance(keys, pa.Table) else fetched(keys, columns)


def newest_of_each(rows: pa.Table, key: list[str], ordering: Column | None) -> pa.Table:
    """Return the newest row of each key: the greatest by the ordering, the last among ties.

    Raises:
        InvalidChangesError: there is no ordering, and a key occurs twice.
    """
    keys = rows.select(key)
    twice = doubled(keys)
    if not len(twice):
        return rows
    if ordering is None:
        sample = keys_as_given(keys.take(pa.array(twice[:_SHOWN])))
        raise InvalidChangesError(
            f"{len(twice)} rows have a key that another row has, of keys {shown(sample)}: give one "
            "row of each, or say by ordering= which is newer",
            column=key[0],
            columns=tuple(key),
            keys=sample,
        )
    numbers, (order,) = factorize(keys.columns), order_codes(rows, [ordering])
    return taken(rows, np.sort(_last_of_each(numbers, order)))


def _last_of_each(numbers: Numbers, order: Numbers) -> Numbers:
    """Return, for each number, the row that comes last in an order."""
    in_order = np.lexsort((order, numbers))  # stable: equal rows keep their order
    ends = np.append(np.diff(numbers[in_order]) != 0, True)
    return np.asarray(in_order[ends], np.int64)


def _taken(spark: SparkSession | None, given: object, source: Source) -> pa.Table:
    """Return the given rows in the columns of a source, `unchecked`."""
    columns = (*source.schema.key, *source.schema.value)
    if is_frame(given):
        if given.isStreaming:
            refuse(source, "are a streaming DataFrame, which has no end: use foreachBatch")
        struct = frame_struct(given)
        check(frame_faults(struct, source, is_snapshot=True), source)
        by_name = {field.name.lower(): field for field in struct}
        conforming = (
            f"{cast_by_name(by_name[c.name.lower()], c.data_type)} AS {identifier(c.name)}"
            for c in columns
        )
        return fetched(given.selectExpr(*conforming), unchecked(columns))
    zone = zone_of_machine() if spark is None else spark.conf.get("spark.sql.session.timeZone")
    return table_of(given, source, zone_of(str(zone)), is_snapshot=True)
