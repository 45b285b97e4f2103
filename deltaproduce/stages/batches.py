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
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql import types as t

from deltaproduce.engines.choice import Engines, is_empty
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.engines.spark.sessions.error_texts import contexts, essence, explained
from deltaproduce.errors import DeltaProduceError, InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.model.layouts import Layout
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL, ORDINAL_COLUMN, Column, row_type
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
    engines: Engines
    is_snapshot: bool = False

    @staticmethod
    def of(
        given: DataFrame, source: Source, engines: Engines, *, is_snapshot: bool = False
    ) -> Batch:
        """Check the contents of changes, or of all rows, and compute them, once.

        Args:
            given: has the source's columns, in types that fit.

        Raises:
            InvalidChangesError: see the module.
        """
        with computing(source):
            rows, counts = checkpoint(_conformed(given, source), _counted(source))
        _check_change_types(rows, counts["unknown"], source, engines)
        for column in (*source.schema.key, *source.schema.value):
            _check_not_null(rows, counts.get(_nulls(column), 0), column, source, engines)
        ordered = any(name.lower() == ORDINAL for name in given.columns)
        final = _final(rows, source, ordered=ordered)
        columns = (*Layout.of(source).content, _IS_DELETE)
        found = engines.settled(final, columns, counts["rows"], counts["bytes"])
        batch = Batch(source, found, counts["rows"], engines, is_snapshot)
        if counts["upserts"] and counts["deletes"]:
            batch._check_not_mixed()
        return batch

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
        return Batch(source, rows, len(rows), keys.engines)

    @staticmethod
    def replacing(keys: Selection, rows: Rows, source: Source) -> Batch:
        """The rows that some keys have now, as content has them; keys without any are gone."""
        engines, layout = keys.engines, Layout.of(source)
        engine = engines.of(rows, keys.keys)
        gone = keys.without(Selection(keys.columns, engine.here(rows, layout.key), engines))
        dead = engine.here(gone.keys, layout.key)
        for column, value in ((ORDINAL_COLUMN, 0), *((c, None) for c in layout.value)):
            dead = engine.with_all(dead, column, value)
        parts = [
            engine.with_all(part, _IS_DELETE, is_delete)
            for part, is_delete in ((engine.here(rows, layout.content), False), (dead, True))
        ]
        together, count = engine.computed(engine.united(parts, (*layout.content, _IS_DELETE)))
        return Batch(source, together, count, engines)

    @staticmethod
    def snapshot(rows: DataFrame, source: Source, engines: Engines) -> Batch:
        """All rows of a source, in the columns of its content; they can be read again and again."""
        columns = Layout.of(source).content
        size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
        (count, total) = rows.select(f.count(f.lit(1)), size).collect()[0]
        all_alive = rows.withColumn(_IS_DELETE.name, f.lit(False))
        found = engines.settled(all_alive, (*columns, _IS_DELETE), count, total)
        return Batch(source, found, count, engines, is_snapshot=True)

    def upserts(self) -> Rows:
        """The new rows: key columns, ``_ordinal``, value columns."""
        return self._picked(Layout.of(self.source).content, is_delete=False)

    def keys(self) -> Selection:
        """The keys that the batch is about."""
        key = self.source.schema.key.columns
        keys = self.engines.of(self.rows).here(self.rows, key)
        return Selection.of(keys, key, self.engines, self.count)

    def digest(self) -> str:
        """Equal batches have equal ones, and others hardly ever; one Spark job.

        In which order keys come does not count, in which a key's rows come does.
        """
        columns = (*Layout.of(self.source).content, _IS_DELETE)
        in_key = Window.partitionBy(*cols(self.source.schema.key)).orderBy(ORDINAL)
        rows = self.engines.frame(self.rows, columns)
        rows = rows.withColumn(ORDINAL, f.row_number().over(in_key))
        text = f.to_json(f.struct(*cols(columns)), {"ignoreNullFields": "false"})
        hashes = (f.xxhash64(text), f.xxhash64(text, f.lit(1)))
        sums = (f.sum(found.cast("decimal(38, 0)")) for found in hashes)
        found = rows.select(f.count(f.lit(1)), *sums).collect()[0]
        return f"{'snapshot' if self.is_snapshot else 'changes'}: {found[0]} {found[1]} {found[2]}"

    def _picked(self, columns: Sequence[Column], *, is_delete: bool) -> Rows:
        engine = self.engines.of(self.rows)
        found: Rows = engine.pick(self.rows, columns, {_IS_DELETE.name: is_delete})
        return found

    def _check_not_mixed(self) -> None:
        """Refuse a key with both deletes and upserts (S2)."""
        key, engines = self.source.schema.key.columns, self.engines
        upserts, deletes = (self._picked(key, is_delete=wanted) for wanted in (False, True))
        both = engines.of(upserts, deletes).only(upserts, deletes, key)
        keys = _keys(both, self.source, engines)
        if keys:
            raise InvalidChangesError(
                f"changes of source {self.source.name!r} have both deletes and upserts for keys "
                f"{shown(keys)}: an upsert replaces all values of its key, so drop the deletes, or "
                "the upserts",
                source=self.source.name,
                keys=keys,
            )


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


def _check_change_types(rows: DataFrame, unknown: int, source: Source, engines: Engines) -> None:
    if not unknown:
        return
    other = f.coalesce(~f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES), f.lit(True))
    wrong = rows.where(other)
    found = [row[0] for row in wrong.select(CHANGE_TYPE).distinct().limit(_SHOWN).collect()]
    known = ", ".join((*UPSERTS, *DELETES, *IGNORED))
    keys = _keys(wrong, source, engines)
    _refuse(source, CHANGE_TYPE, f"is {shown(found)} in {unknown} rows; known: {known}", keys)


def _check_not_null(
    rows: DataFrame, nulls: int, column: Column, source: Source, engines: Engines
) -> None:
    if not nulls:
        return
    wrong = rows.where(col(column.name).isNull() & f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES))
    keys = _keys(wrong, source, engines)
    _refuse(
        source, column.name, f"is NOT NULL, and null in {nulls} rows, of keys {shown(keys)}", keys
    )


def _keys(rows: Rows, source: Source, engines: Engines) -> tuple[object, ...]:
    """Some distinct keys, as a produce function gets them."""
    if is_empty(rows):
        return ()
    found = engines.frame(rows, source.schema.key.columns).distinct().limit(_SHOWN).collect()
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
