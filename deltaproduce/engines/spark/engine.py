"""The Spark engine: see `engines.engine`. Rows are DataFrames; rows on the driver are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.change_feed import COMMIT_VERSION, TIMES, FeedMode, feed_columns
from deltaproduce.engines.delta.tables import ROWS_PER_FILE
from deltaproduce.engines.engine import Compared, Engine, FeederPart, Filling, NumberedRows, Rows
from deltaproduce.engines.marks import AFTER, BEFORE, COUNTED, DIFFERENCES, SIDE, Counts, Which
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import col, cols, of, order, same, typed
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.engines.spark.frames import frame, row_bytes, union_all
from deltaproduce.engines.spark.kernels import checks, comparing, feeds, in_tasks, surrogates
from deltaproduce.engines.spark.kernels.clustering import FILE, apart, partition_files
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.layouts import Layout
from deltaproduce.model.limits import Limits
from deltaproduce.types.columns import ORDINAL, ORDINAL_COLUMN, POSITION, Column
from deltaproduce.types.data_types import IntegerType

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_FEEDER: Final = Column("_feeder", IntegerType())
"""The feeder that a row is from, while the rows of several feeders are sorted."""

_GONE: Final = "_gone"

_ROWS_OF_ONE_TASK: Final = 5_000
_ROWS_PER_TASK: Final = 100_000


@dataclass(frozen=True, slots=True)
class SparkEngine(Engine["DataFrame"]):
    """The operations on rows in Spark.

    Attributes:
        limits: how rows from the driver are sent, and how much a task holds.
    """

    spark: SparkSession
    limits: Limits

    @override
    def here(self, rows: Rows, columns: Sequence[Column]) -> DataFrame:
        if is_frame(rows):
            return rows.select(*cols(columns))
        selected = rows.select([c.name for c in columns])
        return frame(selected, self.spark, columns, self.limits.plan_rows)

    @override
    def select(self, rows: DataFrame, columns: Sequence[Column], which: Which) -> DataFrame:
        return rows.where(_condition(which)).select(*cols(columns))

    @override
    def concat(self, parts: Sequence[Rows], columns: Sequence[Column]) -> DataFrame:
        return union_all(self.here(rows, columns) for rows in parts)

    @override
    def semi_join(self, rows: DataFrame, keys: DataFrame, columns: Sequence[Column]) -> DataFrame:
        return rows.join(keys, same(rows, keys, columns), "left_semi")

    @override
    def anti_join(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> DataFrame:
        rest = self.here(rows, tuple(dict.fromkeys((*columns, *by))))
        gone = self.here(keys, by)
        return rest.join(gone, same(rest, gone, by), "left_anti").select(*cols(columns))

    @override
    def distinct(self, rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
        return rows.select(*cols(columns)).distinct()

    @override
    def computed(self, rows: DataFrame) -> tuple[DataFrame, int]:
        """One Spark job."""
        checkpointed, counts = checkpoint(rows, {"rows": f.count(f.lit(1))})
        return checkpointed, counts["rows"]

    @override
    def by_key(
        self, parts: Sequence[FeederPart], columns: Sequence[Column], key: Sequence[Column]
    ) -> DataFrame:
        """One shuffle for all parts."""
        numbered_columns = [
            Column(f"_{place}_{number}", c.data_type, descending=c.descending)
            for place, part in enumerate(parts)
            for number, c in enumerate(part.order)
        ]
        frames = []
        for place, part in enumerate(parts):
            own = {f"_{place}_{number}": c.name for number, c in enumerate(part.order)}
            fillings = [*part.fillings, place, *(own.get(c.name) for c in numbered_columns)]
            rows = self.here(part.rows, part.columns)
            frames.append(self.filled(rows, (*columns, _FEEDER, *numbered_columns), fillings))
        together = union_all(frames).repartition(*cols(key))
        in_place = together.sortWithinPartitions(*order((*key, _FEEDER, *numbered_columns)))
        return in_place.select(*cols(columns))

    @override
    def filled(
        self, rows: DataFrame, columns: Sequence[Column], fillings: Sequence[Filling]
    ) -> DataFrame:
        values = (col(one) if isinstance(one, str) else f.lit(one) for one in fillings)
        filled = zip(columns, values, strict=True)
        return rows.select(*(typed(value, c) for c, value in filled))

    @override
    def with_positions(self, rows: DataFrame, layout: Layout) -> DataFrame:
        return comparing.number(rows, layout)

    def in_tasks(self, rows: Rows, columns: Sequence[Column], key: Sequence[Column]) -> DataFrame:
        """Return rows in order, for a function called for each key: in one task if they are few.

        Rows that are in Spark are in their tasks already.
        """
        if is_frame(rows):
            return rows
        if len(rows) <= _ROWS_OF_ONE_TASK:
            return self.here(rows, columns).coalesce(1)
        numbered = rows.append_column(ORDINAL, pa.array(np.arange(len(rows))))
        ordered = self.here(numbered, (*columns, ORDINAL_COLUMN))
        sorted_rows = ordered.repartition(*cols(key)).sortWithinPartitions(ORDINAL)
        return sorted_rows.select(*cols(columns))

    @override
    def with_all(self, rows: DataFrame, column: Column, value: object) -> DataFrame:
        return rows.withColumn(column.name, f.lit(value).cast(in_spark(column.data_type)))

    @override
    def write_layout(
        self, rows: DataFrame, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> DataFrame:
        return in_files(rows, file_count(rows, count), by, order)

    @override
    def background_layout(
        self, rows: DataFrame, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> DataFrame:
        return in_files(rows, files_beside(rows, count), by, order)

    @override
    def clustered_layout(
        self, rows: DataFrame, clustering: Clustering, order: Sequence[Column], least: int
    ) -> tuple[DataFrame, tuple[int, ...]]:
        """One Spark job. With too many partitions, rows are only sorted."""
        fields = [Column(field.name, field.dataType) for field in frame_struct(rows)]
        files = partition_files(rows, clustering, fields, order, least)
        return in_files(rows, _tasks(rows), order[:1], order) if files is None else files, ()

    @override
    def first(
        self,
        new: DataFrame,
        count: int,
        layout: Layout,
        clustering: Clustering | None = None,
        numbered: NumberedRows | None = None,
        *,
        held: bool = False,
    ) -> Compared:
        """Sorted over disjoint ranges, ready to be written; one Spark job.

        The ranges are the files of some partitions if the key begins with their column, unless a
        file has more than a task's share. Numbered rows of one file are sorted by who reads them,
        without a job.
        """
        files, ranged = file_count(new, count), None
        if numbered is not None and clustering is None and files <= 1:
            known = Counts.of_new(numbered.keys, numbered.keys, count, numbered.bytes)
            in_order = comparing.in_order(new.coalesce(1), layout)
            return Compared(comparing.all_new(in_order), known, ranged=True)
        if clustering is not None and clustering.order(layout.key) == layout.key:
            least = self.limits.partition_rows_of(count)
            ranged = apart(new, clustering, least, max(ROWS_PER_FILE, count // _tasks(new)))
        by_file = [] if ranged is None else [FILE.name]
        if ranged is None:
            ranged = _in_ranges(new, files, layout.key)
        counted = {
            "keys": f.count_if(f.col(POSITION) == 0),
            "pairs": f.count_if(f.col(ORDINAL) == 0),
            "rows": f.count(f.lit(1)),
            "bytes": _size(row_bytes(layout.content)),
        }
        computed, result = checkpoint(comparing.numbered_in_order(ranged, layout, by_file), counted)
        # Constant marks added after the checkpoint take no space in it, and Spark folds them away.
        counts = Counts.of_new(result["keys"], result["pairs"], result["rows"], result["bytes"])
        in_files = clustering if by_file else None
        return Compared(comparing.all_new(computed), counts, ranged=True, clustering=in_files)

    @override
    def compare(
        self,
        before: Rows,
        gone: Rows | None,
        new: Rows,
        layout: Layout,
        *,
        all_differ: bool = False,
    ) -> Compared:
        """One Spark job, and one more for keys with very many rows."""
        old, arriving = self.here(before, layout.content), self.here(new, layout.content)
        if gone is None:
            sides = old.withColumn(SIDE, f.lit(BEFORE))
        else:
            by = layout.sources or layout.key
            keys = self.here(gone, by)
            few = not is_frame(gone)
            sides = _both_sides(old, f.broadcast(keys) if few else keys, by)
        together = sides.union(arriving.withColumn(SIDE, f.lit(AFTER)))
        counted = {
            name: f.count_if(_condition(_settled(which) if all_differ else which))
            for name, which in COUNTED.items()
        }
        counted["bytes"] = _size(f.when(f.col(SIDE).isNotNull(), row_bytes(layout.content)))
        is_left = f.count_if(f.expr(in_tasks.IS_LEFT))
        result, counts = checkpoint(
            in_tasks.compare(together, layout, self.limits.task_bytes),
            {**counted, "left": is_left},
        )
        compared, left = in_tasks.compared(result), counts.pop("left")
        if left:
            others, more = checkpoint(
                comparing.compare(in_tasks.left(result, layout), layout), counted
            )
            compared = compared.unionByName(others)
            counts = {name: count + more[name] for name, count in counts.items()}
        if all_differ:
            compared = comparing.all_different(compared)
        return Compared(compared, Counts(**counts))

    @override
    def updates(self, compared: DataFrame, layout: Layout) -> DataFrame:
        return comparing.updates(compared, layout)

    @override
    def feed(
        self,
        before: Rows | None,
        updates: Rows,
        layout: Layout,
        times: pa.Table,
        *,
        since: int,
        mode: FeedMode,
    ) -> DataFrame:
        old = None if before is None else self.here(before, layout.content)
        moves = feeds.feed(old, self.here(updates, layout.updates), layout, since, mode)
        published = f.broadcast(self.here(times, TIMES))
        return moves.join(published, COMMIT_VERSION.name).select(*cols(feed_columns(layout)))

    @override
    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[DataFrame, int]:
        """Two Spark jobs, and a join."""
        old, arriving = self.here(before, layout.content), self.here(new, layout.content)
        return surrogates.numbered(old, arriving, layout, surrogate, last)

    @override
    def sample(self, parts: Sequence[Rows], columns: Sequence[Column], most: int) -> DataFrame:
        names = [column.name for column in columns]
        frames = (
            rows.toDF(*names) if is_frame(rows) else self.here(rows.rename_columns(names), columns)
            for rows in parts
        )
        return union_all(frames).distinct().orderBy(f.rand()).limit(most)

    @override
    def latest(self, updates: Rows, layout: Layout) -> DataFrame:
        return checks.latest(self.here(updates, layout.updates), layout)

    @override
    def folded(self, updates: Rows, layout: Layout) -> DataFrame:
        faults = checks.folded(self.here(updates, layout.updates), layout)
        given = faults.withColumnRenamed(POSITION, ORDINAL)
        beside = (*layout.sources, *layout.states)
        nothing = {c.name: f.lit(None).cast(in_spark(c.data_type)) for c in beside}
        return given.withColumns(nothing).select(*cols(layout.content))

    @override
    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        """One Spark job."""
        changes = None if updates is None else self.here(updates, layout.updates)
        rows = None if content is None else self.here(content, layout.content)
        keys = checks.unfolded(changes, rows, layout, complete=complete)
        return 0 if keys is None else keys.count()

    @override
    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        """One Spark job."""
        faults = checks.faults(self.here(updates, layout.updates), layout, head)
        return faults.collect()[0].asDict()

    @override
    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        """One Spark job."""
        rows = self.here(content, layout.content)
        pairs = None if mappings is None else self.here(mappings, layout.pair)
        return checks.pair_faults(rows, pairs, layout).collect()[0].asDict()


def file_count(rows: DataFrame, count: int) -> int:
    """Return the number of files for ``count`` rows: large, but enough for the session's tasks."""
    return max(1, -(-count // ROWS_PER_FILE), min(_tasks(rows), count // _ROWS_PER_TASK))


def files_beside(rows: DataFrame, count: int) -> int:
    """Return the number of files while versions go on: at most half of the tasks."""
    return min(_tasks(rows) // 2, count // ROWS_PER_FILE)


def in_files(
    rows: DataFrame, files: int, by: Sequence[Column], in_file_order: Sequence[Column]
) -> DataFrame:
    """Return rows in ``files`` partitions, at least one, of disjoint ranges, sorted within."""
    return _in_ranges(rows, files, by).sortWithinPartitions(*order(in_file_order))


def _in_ranges(rows: DataFrame, partitions: int, by: Sequence[Column]) -> DataFrame:
    return rows.coalesce(1) if partitions <= 1 else rows.repartitionByRange(partitions, *order(by))


def _tasks(rows: DataFrame) -> int:
    setting = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return int(setting) if setting.isdigit() else 1  # Databricks has "auto" too


def _both_sides(rows: DataFrame, gone: DataFrame, by: Sequence[Column]) -> DataFrame:
    """Return rows with their sides: before, and after unless their (source) key is in ``gone``."""
    marks = gone.withColumn(_GONE, f.lit(True))
    marked = rows.join(marks, same(rows, marks, by), "left_outer")
    side = f.when(marks[_GONE], f.lit(BEFORE)).otherwise(f.lit(in_tasks.BOTH))
    return marked.select(*(of(rows, name) for name in rows.columns), side.alias(SIDE))


def _size(rows: Expression) -> Expression:
    return f.coalesce(f.sum(rows), f.lit(0))


def _settled(which: Which) -> Which:
    """Return what remains to be known of rows of which all differ."""
    return {name: value for name, value in which.items() if name not in DIFFERENCES}


def _condition(which: Which) -> Expression:
    return reduce(lambda a, b: a & b, (f.col(name) == value for name, value in which.items()))
