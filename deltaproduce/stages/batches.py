"""Batches: checked changes, or all rows, for one source.

Rows from a user are turned into the source's columns and order, or raise an `InvalidChangesError`,
before anything is written (see `given`); other batches come from tables that are read in place. The
invariant: a batch is computed once, has no key with both deletes and upserts (S2), and no null
where the schema says NOT NULL. A batch with rows on the driver needs no Spark, unless it has more
keys than a `Selection` holds there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty, factorize, in_order
from deltaproduce.engines.local.digests import digest
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.frames import fetched, row_bytes
from deltaproduce.engines.spark.sessions.error_texts import essence, explained, raise_interrupt
from deltaproduce.engines.spark.sessions.on_demand import Window, is_frame
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import DeltaProduceError, InvalidChangesError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.times.zones import zone_of
from deltaproduce.types import data_types as t
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import ORDINAL, ORDINAL_COLUMN, Column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.python_values import python_keys

IS_DELETE: Final = Column("_is_delete", t.BooleanType(), nullable=False)
_SHOWN: Final = 10
"""How many keys a message shows."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked changes of one source, or a snapshot of all its rows.

    Attributes:
        rows: key columns, ``_ordinal``, value columns, ``_is_delete``; computed, and on the driver
            if they are few.
        count: the number of rows.
        is_snapshot: whether these are all rows of the source, so that all other keys are deleted.
    """

    source: Stage
    rows: Rows
    count: int
    engines: Engines
    is_snapshot: bool = False

    @staticmethod
    def columns(source: Stage) -> tuple[Column, ...]:
        """Return the columns of a batch's rows."""
        return (*Layout.of(source).content, IS_DELETE)

    @staticmethod
    def deleting(keys: Selection, source: Stage) -> Batch:
        """Return the deletion of keys that are on the driver."""
        rows = keys.keys
        assert isinstance(rows, pa.Table)
        rows = rows.append_column(ORDINAL, pa.array(range(len(rows)), pa.int64()))
        for column in source.schema.value:
            nothing = pa.nulls(len(rows), arrow_type(column.data_type))
            rows = rows.append_column(column.name, nothing)
        rows = rows.append_column(IS_DELETE.name, pa.array([True] * len(rows), pa.bool_()))
        return Batch(source, rows, len(rows), keys.engines)

    @staticmethod
    def nothing(source: Stage, engines: Engines) -> Batch:
        """Return an empty batch."""
        return Batch(source, empty(Batch.columns(source)), 0, engines)

    @staticmethod
    def replacing(keys: Selection, rows: Rows, source: Stage) -> Batch:
        """Replace keys by their current rows, in content columns; delete keys without rows."""
        engines, layout = keys.engines, Layout.of(source)
        engine = engines.of(rows, keys.keys)
        gone = keys.anti_join(Selection(keys.columns, engine.here(rows, layout.key), engines))
        dead = engine.here(gone.keys, layout.key)
        for column, value in ((ORDINAL_COLUMN, 0), *((c, None) for c in layout.value)):
            dead = engine.with_all(dead, column, value)
        parts = [
            engine.with_all(part, IS_DELETE, is_delete)
            for part, is_delete in ((engine.here(rows, layout.content), False), (dead, True))
        ]
        together, count = engine.computed(engine.concat(parts, (*layout.content, IS_DELETE)))
        return Batch(source, together, count, engines)

    @staticmethod
    def snapshot(rows: Rows, source: Stage, engines: Engines) -> Batch:
        """Return all rows of a source, in content columns; they can be read repeatedly."""
        columns = Layout.of(source).content
        marked = engines.of(rows).with_all(rows, IS_DELETE, False)
        if isinstance(rows, pa.Table):
            return Batch(source, marked, len(rows), engines, is_snapshot=True)
        size = f.coalesce(f.sum(row_bytes(columns)), f.lit(0))
        (count, total) = rows.select(f.count(f.lit(1)), size).collect()[0]
        marked = engines.settled(marked, (*columns, IS_DELETE), count, total)
        return Batch(source, marked, count, engines, is_snapshot=True)

    def upserts(self) -> Rows:
        """Return the new rows: key columns, ``_ordinal``, value columns."""
        return self._selected(Layout.of(self.source).content, is_delete=False)

    def keys(self) -> Selection:
        """Return the keys that the batch changes."""
        key = self.source.schema.key.columns
        keys = self.engines.of(self.rows).here(self.rows, key)
        return Selection.of(keys, key, self.engines, self.count)

    def digest(self) -> str:
        """Return a digest, equal for equal batches, hardly ever for others; at most one Spark job.

        The order of keys does not count, the order of a key's rows does. Rows in Spark have another
        digest than the same rows on the driver.
        """
        hexadecimal = self._digest_here() if is_local(self.rows) else self._digest_there()
        return f"{'snapshot' if self.is_snapshot else 'changes'}: {self.count} {hexadecimal}"

    def _digest_here(self) -> str:
        """Return the digest of all columns but the ordinal, which orders the rows of a key."""
        assert isinstance(self.rows, pa.Table)
        layout = Layout.of(self.source)
        names = [c.name for c in (*layout.key, *layout.value, IS_DELETE)]
        parts = self.engines.ranges([self.rows], layout.key)
        in_place = (in_order(rows, (*layout.key, ORDINAL_COLUMN)) for (rows,) in parts)
        return digest(rows.select(names) for rows in in_place)

    def _digest_there(self) -> str:
        columns = Batch.columns(self.source)
        in_key = Window.partitionBy(*cols(self.source.schema.key)).orderBy(ORDINAL)
        rows = self.engines.frame(self.rows, columns)
        rows = rows.withColumn(ORDINAL, f.row_number().over(in_key))
        text = f.to_json(f.struct(*cols(columns)), {"ignoreNullFields": "false"})
        hashes = (f.xxhash64(text), f.xxhash64(text, f.lit(1)))
        sums = (f.sum(row.cast("decimal(38, 0)")) for row in hashes)
        row = rows.select(*sums).collect()[0]
        return f"{row[0]} {row[1]}"

    def _selected(self, columns: Sequence[Column], *, is_delete: bool) -> Rows:
        engine = self.engines.of(self.rows)
        picked_rows: Rows = engine.select(self.rows, columns, {IS_DELETE.name: is_delete})
        return picked_rows

    def check_not_mixed(self) -> None:
        """Refuse a key with both deletes and upserts (S2).

        Raises:
            InvalidChangesError: with a sample of these keys.
        """
        key, engines = self.source.schema.key.columns, self.engines
        upserts, deletes = (self._selected(key, is_delete=wanted) for wanted in (False, True))
        both = engines.of(upserts, deletes).semi_join(upserts, deletes, key)
        mixed = _distinct(both, key)
        if len(mixed):
            keys = _read(mixed, self.source, engines)
            raise InvalidChangesError(
                f"changes of source {self.source.name!r} have both deletes and upserts for keys "
                f"{shown(keys)}: an upsert replaces all values of its key, so drop the deletes, or "
                "the upserts",
                source=self.source.name,
                keys=keys,
            )


@contextmanager
def computing(source: Stage) -> Iterator[None]:
    """Turn errors of reading and computing the user's rows into errors about these rows.

    Errors that already name the cause, in the session or a function, stay unchanged.

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
        raise_interrupt(error)
        raise InvalidChangesError(
            f"changes of source {source.name!r} cannot be computed: {essence(error)}",
            source=source.name,
        ) from error


def sample_keys(rows: Rows, source: Stage, engines: Engines) -> tuple[object, ...]:
    """Return a sample of the rows' distinct keys, as a produce function gets them."""
    return _read(_distinct(rows, source.schema.key.columns), source, engines)


def _distinct(rows: Rows, key: Sequence[Column]) -> pa.Table:
    """Return as many distinct keys as a message shows; the first ones if rows are on the driver."""
    if is_frame(rows):
        return fetched(rows.select(*cols(key)).distinct().limit(_SHOWN), key)
    keys = rows.select([c.name for c in key])
    _, first = np.unique(factorize(keys.columns), return_index=True)
    return keys.take(pa.array(np.sort(first)[:_SHOWN]))


def _read(keys: pa.Table, source: Stage, engines: Engines) -> tuple[object, ...]:
    return python_keys(source.schema.key, zone_of(engines.time_zone), keys.columns)
