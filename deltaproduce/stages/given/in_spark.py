"""Batches given as DataFrames, or too large for the driver: checked by Spark.

The invariant: given rows are computed once, in order, and counted in the same job. If rows are few,
the job brings them to the driver, which checks them: `on_driver` does the same, and laws compare
the two. Expressions are SQL text: to build them in Python, a batch would call Java hundreds of
times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import IS_DELETE, Batch, computing, some_keys
from deltaproduce.stages.given.contents import (
    DELETES,
    IGNORED,
    SHOWN,
    UPSERTS,
    refuse_types,
)
from deltaproduce.stages.given.on_driver import batch_of_table
from deltaproduce.stages.given.required import required, unchecked
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    CHANGE_TYPE_COLUMN,
    ORDINAL,
    ORDINAL_COLUMN,
    Column,
)
from deltaproduce.types.ddl import identifier, sql_of

_GIVEN = "_given"
_UPSERT = "'upsert'"


def batch_of_frame(
    given: DataFrame, source: Source, engines: Engines, *, is_snapshot: bool = False
) -> Batch:
    """Check the contents of changes, or of all rows, and compute them once.

    Args:
        given: a DataFrame with the source's columns, in types that fit.

    Raises:
        InvalidChangesError: see `batches`.
    """
    is_ordered = any(name.lower() == ORDINAL for name in given.columns)
    with computing(source):
        conformed = _conformed(given, source)
        rows, counts = engines.computed(conformed, _computed(source), _counted(source))
    if not isinstance(rows, DataFrame):
        return _of_table(rows, source, engines, is_ordered=is_ordered, is_snapshot=is_snapshot)
    _check_change_types(rows, counts["unknown"], source, engines)
    for number, one in enumerate(required(source)):
        nulls = counts[_nulls(number)]
        if nulls:
            wrong = rows.where(f"{one.condition} AND {_is_one_of(one.types)}")
            one.refuse(nulls, source, some_keys(wrong, source, engines))
    final = _final(rows, source, ordered=is_ordered)
    batch = Batch(source, final, counts["rows"], engines, is_snapshot)
    if counts["upserts"] and counts["deletes"]:
        batch.check_not_mixed()
    return batch


def _of_table(
    rows: pa.Table, source: Source, engines: Engines, *, is_ordered: bool, is_snapshot: bool
) -> Batch:
    """Return the batch of a small table in the columns of `_conformed`."""
    found = rows.drop_columns([ORDINAL, _GIVEN])
    if is_ordered:
        found = found.append_column(ORDINAL, rows.column(_GIVEN))
    return batch_of_table(found, source, engines, is_snapshot=is_snapshot)


def _computed(source: Source) -> tuple[Column, ...]:
    """Return the columns of `_conformed`."""
    given = Column(_GIVEN, ORDINAL_COLUMN.data_type)
    declared = unchecked((*source.schema.key, *source.schema.value))
    return (*declared, CHANGE_TYPE_COLUMN, given, ORDINAL_COLUMN)


def _conformed(given: DataFrame, source: Source) -> DataFrame:
    """Return the declared columns in their types, with each row's place in the DataFrame (S6).

    In Spark the parts of any column may be null: it casts nothing to a type that says otherwise.
    """
    spelled = {name.lower(): identifier(name) for name in given.columns}
    declared = (
        f"CAST({spelled[c.name.lower()]} AS {sql_of(c.data_type)}) AS {identifier(c.name)}"
        for c in (*source.schema.key, *source.schema.value)
    )
    rows = given.selectExpr(
        *declared,
        f"{spelled.get(CHANGE_TYPE, _UPSERT)} AS {CHANGE_TYPE}",
        f"CAST({spelled.get(ORDINAL, '0')} AS bigint) AS {_GIVEN}",
        f"monotonically_increasing_id() AS {ORDINAL}",
    )
    return rows.where(f"coalesce(NOT {_is_one_of(IGNORED)}, true)")


def _counted(source: Source) -> dict[str, Expression]:
    counted = {
        "rows": "true",
        "upserts": _is_one_of(UPSERTS),
        "deletes": _is_one_of(DELETES),
        "unknown": f"NOT coalesce({_is_one_of((*UPSERTS, *DELETES))}, false)",
    }
    for number, one in enumerate(required(source)):
        counted[_nulls(number)] = f"{one.condition} AND {_is_one_of(one.types)}"
    counts = {name: f.expr(f"count_if({condition})") for name, condition in counted.items()}
    size = f.sum(row_bytes((*source.schema.key, *source.schema.value)))
    return {**counts, "bytes": f.coalesce(size, f.lit(0))}


def _is_one_of(types: Sequence[str]) -> str:
    """The condition, as SQL text, that a row has one of some change types."""
    return f"{CHANGE_TYPE} IN ({', '.join(map(repr, types))})"


def _nulls(number: int) -> str:
    return f"nulls in {number}"


def _check_change_types(rows: DataFrame, unknown: int, source: Source, engines: Engines) -> None:
    if not unknown:
        return
    other = f.coalesce(~f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES), f.lit(True))
    wrong = rows.where(other)
    found = [row[0] for row in wrong.select(CHANGE_TYPE).distinct().limit(SHOWN).collect()]
    refuse_types(found, unknown, source, some_keys(wrong, source, engines))


def _final(rows: DataFrame, source: Source, *, ordered: bool) -> DataFrame:
    """Return rows in the form of `Batch`, in the user's order if ``ordered``, else as given."""
    in_key = Window.partitionBy(*cols(source.schema.key)).orderBy(_GIVEN, ORDINAL)
    ordinal = f.row_number().over(in_key).cast("bigint") if ordered else f.col(ORDINAL)
    is_delete = f.col(CHANGE_TYPE).isin(*DELETES)
    values = (  # those of deletes are not checked
        f.when(~is_delete, col(c.name)).alias(c.name) if c.is_strict else col(c.name)
        for c in source.schema.value
    )
    return rows.select(
        *cols(source.schema.key),
        ordinal.alias(ORDINAL),
        *values,
        is_delete.alias(IS_DELETE.name),
    )
