"""Digests of partitions: whether the rows that tasks read have changed since the tasks ran.

Each stage that tasks read but do not make has a hidden stage with one row per non-empty partition:
its row count, and the sum of its rows' hashes. It is updated with the rows, so nobody rereads them
to find dirty tasks. The invariant: a digest depends on the multiset of the partition's rows alone,
not on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Numbers, distinct, matched
from deltaproduce.engines.local.kernels.row_hashes import row_hashes, summed
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.graph import Producer, Stage
from deltaproduce.model.hidden import DIGESTS, Hidden, hidden_name
from deltaproduce.model.kind import Definition, Upkeep
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import DerivedKind, Production, ProductionResult
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import ORDINAL, Column, RowSchema, row_schema
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import BooleanType, LongType, StructField, StructType
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNT: Final = Column("digest_rows", LongType())
DIGEST: Final = Column("digest_sum", LongType())
_WHOLE: Final = Column("digest_of_all", BooleanType())
"""The key of a stage without partitions, which has one digest."""
_HALF: Final = 32
_HALVES: Final = (Column("_low", LongType()), Column("_high", LongType()))


@dataclass(frozen=True, slots=True, repr=False)
class Digests(DerivedKind):
    """The digests of another stage's partitions.

    Attributes:
        by: that stage's partition columns; none if it has no partitions.
    """

    by: tuple[str, ...]

    @property
    @override
    def word(self) -> str:
        return "digests"

    @property
    @override
    def definition(self) -> Definition:
        return Definition(("digests", *self.by))

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """A timestamp's digest is that of the instant."""
        del schema, feeders
        return False

    @property
    @override
    def upkeep(self) -> Upkeep:
        return Upkeep(subtracts=True, by_all_columns=True)

    @override
    def reads_again(self, feeders: int, column: str) -> bool:
        """It needs only the rows that changed."""
        del feeders, column
        return False

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        (each,) = inputs
        rows = each.all_rows()
        if rows is None:
            return None
        partition_digests = digests(rows, each.stage, production.engines)
        return partition_digests, len(partition_digests)

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """Removed rows are subtracted, and new ones added."""
        del mappings
        (each,) = inputs
        if each.changed is None:
            return None
        stage, engines = production.stage, production.engines
        gone, added = (digests(rows, each.stage, engines) for rows in each.moved())
        layout = Layout.of(stage)
        named = [c.name for c in layout.key]
        moved = distinct(pa.concat_tables([gone, added]).select(named))
        keys = Selection.of(moved, layout.key, engines)
        if content is None:
            sums = _added(moved, [(1, added), (-1, gone)])
            return ProductionResult(Comparison.first(sums, len(sums), layout, engines))
        whole = content.small
        rows = content.fetched() if whole else content.of(keys)
        before = keys.exactly(rows)
        here = engines.table(before, layout.content)
        after = _added(moved, [(1, here), (1, added), (-1, gone)])
        return ProductionResult(
            Comparison.of_changed_keys(rows, keys, after, layout, complete=whole, sought=True)
        )


def digests_of(stage: str) -> str:
    """Return the role of the digests of a stage's partitions; see `StageInput.role`."""
    return f"digests of {stage}"


def digests_stage(stage: Stage) -> Producer:
    """Return the stage that holds the digests of a stage's partitions."""
    by = stage.kind.tasks.columns
    name, owned = hidden_name("tasks", 2, stage.name), Hidden(DIGESTS, (stage.name,))
    return Producer(name, ((stage,),), _schema(stage), Digests(by), hidden=owned)


def digests(rows: Rows, stage: Stage, engines: Engines) -> pa.Table:
    """Return the digests of a stage's non-empty partitions, as `digests_stage` holds them.

    Costs a pass over the rows; in Spark a shuffle by partition.

    Args:
        rows: in the columns of the stage's content.
    """
    by = _schema(stage).key.columns
    read = (*stage.schema.key, *stage.schema.value)
    if is_frame(rows):
        return _in_spark(rows, read, by)
    table = engines.table(rows, Layout.of(stage).content)
    return _summed(_hashed(table, read, by), by)


def _schema(stage: Stage) -> RowSchema:
    types = {c.name: c for c in (*stage.schema.key, *stage.schema.value)}
    by = [types[name] for name in stage.kind.tasks.columns] or [_WHOLE]
    key = StructType([StructField(c.name, c.data_type) for c in by])
    return row_schema(key, f"{COUNT.name} bigint, {DIGEST.name} bigint", stage=stage.name)


def _hashed(rows: pa.Table, read: Sequence[Column], by: Sequence[Column]) -> pa.Table:
    """Return the partition of each row, and its hash."""
    hashes = row_hashes(rows.select([c.name for c in read]))
    ones = np.ones(len(rows), np.int64)
    named = {
        c.name: pa.array(ones.astype(bool)) if c.name == _WHOLE.name else rows.column(c.name)
        for c in by
    }
    return pa.table({**named, COUNT.name: ones, DIGEST.name: hashes.view(np.int64)})


def _summed(hashed: pa.Table, by: Sequence[Column]) -> pa.Table:
    once = (
        distinct(hashed.select([c.name for c in by]))
        if len(hashed)
        else hashed.select([c.name for c in by])
    )
    return _added(once, [(1, hashed)])


def _added(partitions: pa.Table, parts: Sequence[tuple[int, pa.Table]]) -> pa.Table:
    """Add digests to those of partitions; return those that are not empty afterwards.

    Args:
        parts: digests of these partitions, each with 1 to add or -1 to subtract it.
    """
    names, size = partitions.column_names, len(partitions)
    counts, sums = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    for sign, part in parts:
        places = matched(part.select(names), partitions)
        np.add.at(counts, places, sign * _numbers(part, COUNT))
        digest_sums = summed(_numbers(part, DIGEST).view(np.uint64), places, size)
        sums = sums + digest_sums if sign > 0 else sums - digest_sums
    table = partitions.append_column(ORDINAL, pa.array(np.zeros(size, np.int64)))
    table = table.append_column(COUNT.name, pa.array(counts))
    table = table.append_column(DIGEST.name, pa.array(sums.view(np.int64)))
    return table.filter(pa.array(counts != 0))


def _numbers(table: pa.Table, column: Column) -> Numbers:
    return in_numpy(table.column(column.name), np.int64)


def _in_spark(rows: DataFrame, read: Sequence[Column], by: Sequence[Column]) -> pa.Table:
    """Return the same as `digests`: tasks digest their rows, and Spark adds up the halves."""
    parts = (*by, COUNT, *_HALVES)
    struct = StructType([StructField(c.name, c.data_type) for c in parts])
    digests_of_batch = partial(in_halves, read=read, by=by)
    partial_sums = (
        rows.select(*cols(read)).mapInArrow(digests_of_batch, in_spark(struct)).groupBy(*cols(by))
    )
    sums = partial_sums.agg(*(f.sum(c.name).alias(c.name) for c in (COUNT, *_HALVES)))
    return of_halves(fetched(sums, parts), by)


def of_halves(table: pa.Table, by: Sequence[Column]) -> pa.Table:
    """Return the digests of partitions from sums of halves; see `in_halves`."""
    low, high = (_numbers(table, half).view(np.uint64) for half in _HALVES)
    hashes = (low + (high << np.uint64(_HALF))).view(np.int64)
    named = {c.name: table.column(c.name) for c in (*by, COUNT)}
    return _summed(pa.table({**named, DIGEST.name: hashes}), by)


def in_halves(
    batches: Iterable[pa.RecordBatch], read: Sequence[Column], by: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Yield the contribution of batches of rows to their partitions' digests, as halves.

    Args:
        read: the columns that are hashed.
        by: the partition columns.
    """
    for batch in batches:
        table = in_arrow_types(pa.Table.from_batches([batch]), read)
        yield from _halved(_summed(_hashed(table, read, by), by)).to_batches()


def _halved(numbers: pa.Table) -> pa.Table:
    """Split digests into halves that can be added up without overflow."""
    whole = _numbers(numbers, DIGEST).view(np.uint64)
    halves = (whole & np.uint64((1 << _HALF) - 1), whole >> np.uint64(_HALF))
    table = numbers.drop_columns([ORDINAL, DIGEST.name])
    for column, half in zip(_HALVES, halves, strict=True):
        table = table.append_column(column.name, pa.array(half.view(np.int64)))
    return table
