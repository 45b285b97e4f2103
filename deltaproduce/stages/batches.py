"""Batches: the changes, or all rows, that come into one source, checked.

`Batch.of` turns what a user gives into rows in the source's own columns and order, or into an
`InvalidChangesError`, before anything is written; other batches come from tables that are read in
place. The invariant: a batch is computed once, has no key with both deletes and upserts (S2), and
no null where the schema says NOT NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql import types as t

from deltaproduce.engines.local.arrays import isin_rows
from deltaproduce.engines.selections import Rows, Selection, as_frame
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.error_texts import contexts, essence, explained
from deltaproduce.engines.spark.frames import fetched, row_bytes
from deltaproduce.errors import DeltaProduceError, InvalidChangesError
from deltaproduce.model import limits
from deltaproduce.model.graph import Source
from deltaproduce.model.layouts import content_columns
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL, Column, row_type
from deltaproduce.types.excerpts import shown

UPSERTS: Final = ("upsert", "add", "insert", "update", "update_postimage")
DELETES: Final = ("delete",)
IGNORED: Final = ("update_preimage",)

_IS_DELETE: Final = Column("_is_delete", t.BooleanType(), nullable=False)
_GIVEN: Final = "_given"
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked changes of one source, or all rows that it is to have.

    Attributes:
        rows: key columns, ``_ordinal``, value columns, ``_is_delete``; computed, and on the driver
            if they are few.
        count: the number of rows.
        is_snapshot: whether these are all rows of the source, so that other keys are gone.
    """

    source: Source
    rows: Rows
    count: int
    spark: SparkSession
    is_snapshot: bool = False

    @staticmethod
    def of(
        given: DataFrame, source: Source, spark: SparkSession, *, is_snapshot: bool = False
    ) -> Batch:
        """Check the contents of changes, or of all rows, and compute them, once.

        Args:
            given: has the source's columns, in types that fit.

        Raises:
            InvalidChangesError: see the module.
        """
        with computing(source):
            rows, counts = checkpoint(_conformed(given, source), _counted(source))
        _check_change_types(rows, counts["unknown"], source)
        for column in (*source.schema.key, *source.schema.value):
            _check_not_null(rows, counts.get(_nulls(column), 0), column, source)
        ordered = any(name.lower() == ORDINAL for name in given.columns)
        found: Rows = _final(rows, source, ordered=ordered)
        if counts["rows"] <= limits.LOCAL_ROWS and counts["bytes"] <= limits.LOCAL_BYTES:
            found = fetched(found, (*content_columns(source.schema, ()), _IS_DELETE))
        if counts["upserts"] and counts["deletes"]:
            _check_not_mixed(found, source, spark)
        return Batch(source, found, counts["rows"], spark, is_snapshot)

    @staticmethod
    def deleting(keys: Selection, source: Source) -> Batch:
        """The deletion of keys that are on the driver."""
        rows = keys.keys
        assert isinstance(rows, pa.Table)
        rows = rows.append_column(ORDINAL, pa.array(range(len(rows)), pa.int64()))
        for column in source.schema.value:
            nothing = pa.nulls(len(rows), arrow_type(column.data_type))
            rows = rows.append_column(column.name, nothing)
        rows = rows.append_column(_IS_DELETE.name, pa.array([True] * len(rows), pa.bool_()))
        return Batch(source, rows, len(rows), keys.spark)

    @staticmethod
    def replacing(keys: Selection, rows: Rows, source: Source) -> Batch:
        """The rows that some keys have now, as content has them; keys without any are gone."""
        spark, columns = keys.spark, content_columns(source.schema, ())
        if isinstance(rows, pa.Table) and keys.few:
            alive = rows.append_column(_IS_DELETE.name, pa.array([False] * len(rows), pa.bool_()))
            found = Selection.of(rows.select(list(source.schema.key.names)), keys.columns, spark)
            gone = keys if found.empty else keys.without(found)
            dead = Batch.deleting(gone, source).rows
            assert isinstance(dead, pa.Table)
            together = pa.concat_tables([alive, dead.select(alive.schema.names)])
            return Batch(source, together, len(together), spark)
        alive = as_frame(rows, spark, columns).withColumn(_IS_DELETE.name, f.lit(False))
        dead = keys.without(Selection(keys.columns, alive.select(*cols(keys.columns)), spark)).frame
        nothing = [f.lit(None).cast(c.data_type).alias(c.name) for c in source.schema.value]
        ordinal = f.lit(0).cast("bigint").alias(ORDINAL)
        deleted = f.lit(True).alias(_IS_DELETE.name)
        dead = dead.select(*cols(source.schema.key), ordinal, *nothing, deleted)
        together, counts = checkpoint(alive.union(dead), {"rows": f.count(f.lit(1))})
        return Batch(source, together, counts["rows"], spark)

    @staticmethod
    def snapshot(rows: DataFrame, source: Source, spark: SparkSession) -> Batch:
        """All rows of a source, in the columns of its content; they can be read again and again."""
        columns = content_columns(source.schema, ())
        size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
        (count, total) = rows.select(f.count(f.lit(1)), size).collect()[0]
        found: Rows = rows.withColumn(_IS_DELETE.name, f.lit(False))
        if count <= limits.LOCAL_ROWS and total <= limits.LOCAL_BYTES:
            found = fetched(found, (*columns, _IS_DELETE))
        return Batch(source, found, count, spark, is_snapshot=True)

    def upserts(self) -> Rows:
        """The new rows: key columns, ``_ordinal``, value columns."""
        if isinstance(self.rows, pa.Table):
            upserts = pc.invert(self.rows.column(_IS_DELETE.name))
            return self.rows.filter(upserts).drop_columns([_IS_DELETE.name])
        return self.rows.where(~f.col(_IS_DELETE.name)).drop(_IS_DELETE.name)

    def keys(self) -> Selection:
        """The keys that the batch is about."""
        key = self.source.schema.key.columns
        rows = self.rows
        keys = rows.select([c.name for c in key]) if isinstance(rows, pa.Table) else rows
        return Selection.of(keys, key, self.spark, self.count)

    def digest(self) -> str:
        """Equal batches have equal ones, and others hardly ever; one Spark job.

        In which order keys come does not count, in which a key's rows come does.
        """
        columns = (*content_columns(self.source.schema, ()), _IS_DELETE)
        in_key = Window.partitionBy(*cols(self.source.schema.key)).orderBy(ORDINAL)
        rows = as_frame(self.rows, self.spark, columns)
        rows = rows.withColumn(ORDINAL, f.row_number().over(in_key))
        text = f.to_json(f.struct(*cols(columns)), {"ignoreNullFields": "false"})
        hashes = (f.xxhash64(text), f.xxhash64(text, f.lit(1)))
        sums = (f.sum(found.cast("decimal(38, 0)")) for found in hashes)
        found = rows.select(f.count(f.lit(1)), *sums).collect()[0]
        return f"{'snapshot' if self.is_snapshot else 'changes'}: {found[0]} {found[1]} {found[2]}"


@contextmanager
def computing(source: Source) -> Iterator[None]:
    """Errors of what a user gives, when it is looked at and computed, are about that.

    Those that say what is wrong already, with the session or a function, stay what they are.

    Raises:
        InvalidChangesError: with the error as its cause.
    """
    try:
        yield
    except DeltaProduceError:
        raise
    except Exception as error:
        unfit = explained(error)
        if unfit is not None:
            raise unfit from error
        if any(isinstance(earlier, KeyboardInterrupt) for earlier in contexts(error)):
            raise KeyboardInterrupt from error
        raise InvalidChangesError(
            f"changes of source {source.name!r} cannot be computed: {essence(error)}",
            source=source.name,
        ) from error


def _refuse(source: Source, column: str, finding: str, keys: tuple[object, ...] = ()) -> NoReturn:
    raise InvalidChangesError(
        f"changes of source {source.name!r}: column {column!r} {finding}",
        source=source.name,
        column=column,
        columns=(column,),
        keys=keys,
    )


def _conformed(given: DataFrame, source: Source) -> DataFrame:
    """The declared columns in the declared types, and the row's place in the DataFrame (S6)."""
    spelled = {name.lower(): name for name in given.columns}
    change_type = f.col(CHANGE_TYPE) if CHANGE_TYPE in spelled else f.lit("upsert")
    ordinal = f.col(ORDINAL).cast("bigint") if ORDINAL in spelled else f.lit(0).cast("bigint")
    rows = given.select(
        *(
            col(spelled[c.name.lower()]).cast(c.data_type).alias(c.name)
            for c in (*source.schema.key, *source.schema.value)
        ),
        change_type.alias(CHANGE_TYPE),
        ordinal.alias(_GIVEN),
        f.monotonically_increasing_id().alias(ORDINAL),
    )
    return rows.where(f.coalesce(~f.col(CHANGE_TYPE).isin(*IGNORED), f.lit(True)))


def _counted(source: Source) -> dict[str, Expression]:
    upsert, delete = f.col(CHANGE_TYPE).isin(*UPSERTS), f.col(CHANGE_TYPE).isin(*DELETES)
    known = f.coalesce(upsert | delete, f.lit(False))
    counted = {"rows": f.lit(True), "upserts": upsert, "deletes": delete, "unknown": ~known}
    for column in source.schema.key:
        if not column.nullable:
            counted[_nulls(column)] = col(column.name).isNull()
    for column in source.schema.value:
        if not column.nullable:
            counted[_nulls(column)] = col(column.name).isNull() & upsert
    size = f.sum(row_bytes((*source.schema.key, *source.schema.value)))
    counts = {name: f.count_if(condition) for name, condition in counted.items()}
    return {**counts, "bytes": f.coalesce(size, f.lit(0))}


def _nulls(column: Column) -> str:
    return f"nulls in {column.name}"


def _check_change_types(rows: DataFrame, unknown: int, source: Source) -> None:
    if not unknown:
        return
    other = f.coalesce(~f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES), f.lit(True))
    wrong = rows.where(other)
    found = [row[0] for row in wrong.select(CHANGE_TYPE).distinct().limit(_SHOWN).collect()]
    known = ", ".join((*UPSERTS, *DELETES, *IGNORED))
    keys = _keys(wrong, source, wrong.sparkSession)
    _refuse(source, CHANGE_TYPE, f"is {shown(found)} in {unknown} rows; known: {known}", keys)


def _check_not_null(rows: DataFrame, nulls: int, column: Column, source: Source) -> None:
    if not nulls:
        return
    wrong = rows.where(col(column.name).isNull() & f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES))
    keys = _keys(wrong, source, wrong.sparkSession)
    _refuse(
        source, column.name, f"is NOT NULL, and null in {nulls} rows, of keys {shown(keys)}", keys
    )


def _check_not_mixed(rows: Rows, source: Source, spark: SparkSession) -> None:
    keys = _keys(_mixed(rows, source.schema.key.columns, spark), source, spark)
    if keys:
        raise InvalidChangesError(
            f"changes of source {source.name!r} have both deletes and upserts for keys "
            f"{shown(keys)}: an upsert replaces all values of its key, so drop the deletes, or the "
            "upserts",
            source=source.name,
            keys=keys,
        )


def _mixed(rows: Rows, key: Sequence[Column], spark: SparkSession) -> Rows:
    """The keys with both deletes and upserts."""
    if isinstance(rows, DataFrame):
        deletes = f.col(_IS_DELETE.name)
        found = rows.groupBy(*cols(key)).agg(
            f.bool_or(deletes).alias("_deletes"), f.bool_and(deletes).alias("_only_deletes")
        )
        return found.where(f.col("_deletes") & ~f.col("_only_deletes"))
    names = [c.name for c in key]
    deletes, upserts = (
        rows.filter(pc.equal(rows.column(_IS_DELETE.name), is_delete)).select(names)
        for is_delete in (True, False)
    )
    return upserts.filter(pa.array(isin_rows(upserts, deletes)))


def _keys(rows: Rows, source: Source, spark: SparkSession) -> tuple[object, ...]:
    """Some distinct keys, as a produce function gets them."""
    key = source.schema.key.columns
    if isinstance(rows, pa.Table) and not len(rows):
        return ()
    found = as_frame(rows, spark, key).distinct().limit(_SHOWN).collect()
    return tuple(row[0] if len(row) == 1 else row_type(row.__fields__)(*row) for row in found)


def _final(rows: DataFrame, source: Source, *, ordered: bool) -> DataFrame:
    """Rows as `Batch` has them: in the DataFrame's order or, before that, in the user's."""
    in_key = Window.partitionBy(*cols(source.schema.key)).orderBy(_GIVEN, ORDINAL)
    ordinal = f.row_number().over(in_key).cast("bigint") if ordered else f.col(ORDINAL)
    return rows.select(
        *cols(source.schema.key),
        ordinal.alias(ORDINAL),
        *cols(source.schema.value),
        f.col(CHANGE_TYPE).isin(*DELETES).alias(_IS_DELETE.name),
    )
