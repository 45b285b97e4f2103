"""Stored rows: the rows of a table at one version, and how to find those of some keys.

With *copy on write* the table contains the rows. With *merge on read* (both are Hudi's words) it is
a base, and an `Overlay` has what came later: the newest rows of each pair (source key, key) that a
later version touched. The invariant: a reader of `Stored` sees the rows of exactly one version, and
cannot tell how they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines, is_local
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Marks, distinct, empty, factorize, isin_rows
from deltaproduce.engines.local.kernels.ranges import are_within
from deltaproduce.engines.marks import GONE_PAIRS, ROWS_OF_CHANGED_PAIRS
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import same
from deltaproduce.engines.spark.frames import fetched, streamed
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.limits.placement import COMPRESSED
from deltaproduce.model.partitions import Ranges
from deltaproduce.shown.phases import in_phase
from deltaproduce.storage.parquet import scans, seeks
from deltaproduce.storage.parquet.files import ParquetFiles, Sieve
from deltaproduce.storage.parquet.held import Held
from deltaproduce.storage.parquet.lookups import LookedUp, Strategy
from deltaproduce.storage.parquet.neighbours import Neighbours
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.types.columns import IS_ALIVE, IS_ALIVE_COLUMN, ORDINAL, VERSION, Column
from deltaproduce.types.pandas_on_demand import in_numpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Overlay:
    """The newest rows of the pairs that were touched since a table's base was written.

    Attributes:
        rows: the content's columns and ``_is_alive``; a pair has either rows that are alive, or one
            row that is not.
        pair: the columns of a pair.
        content: the content's columns.
        runs: the number of versions in it.
        added: the number of their rows, including older rows of a pair.
    """

    rows: pa.Table
    pair: tuple[Column, ...]
    content: tuple[Column, ...]
    runs: int
    added: int

    @staticmethod
    def of(runs: pa.Table, pair: Sequence[Column], content: Sequence[Column]) -> Overlay:
        """Return the newest rows of each pair in runs, which also have a ``_version``."""
        versions = in_numpy(runs.column(VERSION))
        pairs = factorize(runs.select([c.name for c in pair]).columns) if len(runs) else versions
        newest = np.zeros(pairs.max(initial=-1) + 1, np.int64)
        np.maximum.at(newest, pairs, versions)
        rows = runs.filter(pa.array(versions == newest[pairs]))
        if all(column.name != VERSION for column in content):
            rows = rows.drop_columns([VERSION])
        return Overlay(rows, tuple(pair), tuple(content), len(np.unique(versions)), len(runs))

    @staticmethod
    def none(pair: Sequence[Column], content: Sequence[Column]) -> Overlay:
        """Return the overlay of a base that has just been written."""
        return Overlay(empty((*content, IS_ALIVE_COLUMN)), tuple(pair), tuple(content), 0, 0)

    def with_run(self, run: pa.Table) -> Overlay:
        """Return the overlay after one more version."""
        names = [c.name for c in self.pair]
        kept = ~isin_rows(self.rows.select(names), run.select(names))
        rows = pa.concat_tables(
            [self.rows.filter(pa.array(kept)), run.select(self.rows.schema.names)]
        ).combine_chunks()  # or each version would add one, and each chunk costs a reader the same
        return Overlay(rows, self.pair, self.content, self.runs + 1, self.added + len(run))

    def semi_join(self, keys: Selection) -> Overlay:
        """Return the overlay of some keys."""
        return replace(self, rows=self.rows.filter(pa.array(keys.holds(self.rows))))

    def within(self, column: Column, values: Ranges) -> Overlay:
        """Return the overlay of the pairs with a value in the ranges."""
        return replace(self, rows=rows_within(self.rows, column, values))

    def newer(self, columns: Sequence[Column]) -> pa.Table:
        """Return the rows that are alive, in columns of the content or of key mappings."""
        alive = self.rows.filter(self.rows.column(IS_ALIVE))
        rows = alive.select([c.name for c in columns])
        return rows if ORDINAL in rows.schema.names else distinct(rows)

    def replaced(self) -> pa.Table:
        """Return the pairs whose rows in the base do not count any more."""
        return distinct(self.rows.select([c.name for c in self.pair]))


@dataclass(frozen=True, slots=True)
class Stored:
    """The rows of one table at one version.

    Attributes:
        base: the rows of the Delta table, or a function by which Spark reads them.
        columns: its columns.
        overlay: what came after the base; None if nothing did.
        count: the number of rows; for key mappings, an upper bound.
        row_bytes: the approximate size of a row.
        files: the files of the base, if they can be read without Spark.
        readings: counts what Spark is asked to read.
        held: partitions of it that others have read for the same version.
        by_log: how Spark reads the base if Delta's log is to skip files; None for the same way as
            all of it.
        neighbours: rows of groups that earlier look-ups of the same step have read.
        partitions_of: returns the partitions of the base in which keys can be; None if any may.
    """

    base: Rows | Callable[[], DataFrame]
    columns: tuple[Column, ...]
    overlay: Overlay | None
    count: int
    row_bytes: int
    engines: Engines
    files: ParquetFiles | None = None
    readings: Readings = field(default_factory=Readings)
    held: Held | None = None
    neighbours: Neighbours | None = None
    by_log: Callable[[], DataFrame] | None = None
    partitions_of: Callable[[pa.Table], pa.Table | None] | None = None

    @property
    def small(self) -> bool:
        """Whether reading all of it costs no more than looking up a key."""
        if self._is_apart:
            return False
        return self.engines.limits.is_small(self.count, self.row_bytes)

    def is_nearly_all(self, keys: Selection) -> bool:
        """Return whether it costs about as much to read and write all rows as those of some keys.

        Args:
            keys: whole keys, on the driver.
        """
        assert isinstance(keys.keys, pa.Table)
        is_read = self._is_here and self._is_fetched and not self._is_apart
        return is_read and self.engines.limits.is_nearly_all(len(keys.keys), self.count)

    def in_partitions(self, partitions: pa.Table) -> Stored:
        """Return the rows of some partitions of the base, and perhaps of others."""
        if not self._is_apart or self.files is None:
            return self
        files = self.files.in_partitions(partitions)
        count = self.count if files.size is None else files.size[0]
        return replace(self, files=files, count=count)

    def narrowed(self, columns: Sequence[Column]) -> Stored:
        """Return the same rows with at least these columns, of which files are read.

        Rows that are in memory, or are held for others, stay as they are.
        """
        if isinstance(self.base, pa.Table) or self.files is None or self.held is not None:
            return self
        names = {column.name for column in columns}
        if self.overlay is not None:
            names |= {ORDINAL, *(column.name for column in self.overlay.pair)}
        return replace(self, columns=tuple(c for c in self.columns if c.name in names))

    def rows(self) -> Rows:
        """Return all rows, unsorted; on the driver if they are few."""
        return self.fetched() if self._is_fetched and self._is_here else self.all()

    def for_spark(self) -> Rows:
        """Return the result of `rows` for an operation in Spark, which reads many rows itself."""
        return self.rows() if self._is_one_part else self.all()

    def beside(self, others: Rows) -> Rows:
        """Return the result of `rows` for an operation on these and others, where those are."""
        return self.rows() if is_local(others) else self.for_spark()

    def all(self, read: int | None = None) -> DataFrame:
        """Return all rows, in Spark; unsorted.

        Args:
            read: how many of them Spark reads to find the wanted rows, when the log skips files;
                all if None.
        """
        engines, base = self.engines, self._frame(read)
        if self.overlay is None:
            return base
        pair = self.overlay.pair
        replaced = f.broadcast(engines.frame(self.overlay.replaced(), pair))
        newer = engines.frame(self.overlay.newer(self.columns), self.columns)
        return base.join(replaced, same(base, replaced, pair), "left_anti").union(newer)

    @in_phase("reading")
    def fetched(self) -> pa.Table:
        """Return all rows, on the driver."""
        rows = self.base if isinstance(self.base, pa.Table) else None
        if rows is None and self.files is not None:
            rows = self.files.rows(self.columns)
        if rows is None:
            rows = self.engines.table(self._frame(), self.columns)
        return self._merged(rows.select([c.name for c in self.columns]), None)

    def batches(self, columns: Sequence[Column], rows: int) -> Iterator[pa.Table]:
        """Yield these columns of all rows, unsorted, with about ``rows`` rows in memory at a time.

        If only Spark reads the rows, one partition is in memory at a time.
        """
        names = [c.name for c in columns]
        if isinstance(self.base, pa.Table):
            batches = iter([self.base])
        elif self.files is not None:
            batches = self.files.batches(self.columns, rows)
        else:
            yield from streamed(self.all(), columns)
            return
        for part in batches:
            yield self._kept(part).select(names)
        if self.overlay is not None:
            yield self.overlay.newer(self.columns).select(names)

    @in_phase("reading")
    def reduced(
        self,
        columns: Sequence[Column],
        function: Callable[[pa.Table], pa.Table],
        sieve: Sieve | None = None,
    ) -> pa.Table | None:
        """Return what a function makes of parts of all rows; the driver reads them in parallel.

        Args:
            columns: the columns that the function gets.
            sieve: marks the rows that the function must get; None for all.

        Returns:
            None if Spark has to read the rows, or if they are in memory; see `rows`.
        """
        engines, overlay = self.engines, self.overlay
        if isinstance(self.base, pa.Table) or self.files is None:
            return None
        if not engines.reads_in_parts(self.count, self.row_bytes, self._read_seconds):
            return None
        names = [c.name for c in columns]
        pair = () if overlay is None else overlay.pair
        read = tuple(dict.fromkeys((*columns, *pair)))
        rows = engines.rows_of_part(self.count, self.row_bytes)
        reduced_rows = scans.reduced(
            self.files, read, rows, lambda part: function(self._kept(part).select(names)), sieve
        )
        if reduced_rows is None or overlay is None:
            return reduced_rows
        newer = function(overlay.newer(self.columns).select(names))
        return pa.concat_tables([reduced_rows, newer])

    def read(self, keys: Selection | None = None) -> Rows:
        """Return all rows, or all rows of some keys and perhaps of others, for users to see.

        In Spark the rows are read when they are used; without a session they are on the driver.
        """
        if not self._is_alone:
            return self.all() if keys is None else keys.rows_of(self.all())
        return self.fetched() if keys is None else self.of(keys)

    @in_phase("reading")
    def first(self, keys: Selection, by: Sequence[Column], count: int) -> Rows:
        """Return the first rows of each of these keys, and perhaps other rows of theirs.

        Args:
            keys: in the first columns of the key.
            by: the order of a key's rows: the other columns of the key; the first of them is never
                null.
            count: the most rows wanted of a key.
        """
        overlay = None if self.overlay is None or not keys.is_here else self.overlay.semi_join(keys)
        first_rows = None
        is_held = isinstance(self.base, pa.Table)
        if keys.is_here and self.files is not None and not is_held:
            names = [] if overlay is None else [c.name for c in overlay.pair]

            def alive(rows: pa.Table) -> Marks:
                if overlay is None:
                    return np.ones(len(rows), bool)
                return ~isin_rows(rows.select(names), overlay.rows.select(names))

            first_rows = seeks.first_rows(
                self.files, keys, by, count, self.columns, alive, self.neighbours
            )
        if first_rows is None:
            return self.of(keys)
        newer = [] if overlay is None else [overlay.newer(self.columns)]
        return pa.concat_tables([first_rows, *newer])

    @in_phase("reading")
    def are_held(self, keys: Selection) -> bool:
        """Return whether earlier look-ups hold all rows of these keys."""
        if self.files is None or self.neighbours is None or not keys.is_here:
            return False
        return seeks.are_held(self.files, keys, self.neighbours)

    def after(self, step: Comparison, keys: Selection) -> Stored:
        """Return the rows of some keys after a step, perhaps without rows of others.

        Args:
            step: its rows are on the driver.
            keys: keys on the driver.
        """
        layout = step.layout
        overlay = self.overlay or Overlay.none(layout.pair, layout.content)
        run = run_of(step)
        run = run.filter(pa.array(keys.holds(run)))
        return replace(self, overlay=overlay.semi_join(keys).with_run(run))

    @in_phase("reading")
    def of(self, keys: Selection) -> Rows:
        """Return all rows of these keys, and perhaps of others; on the driver if they are few."""
        if not keys.is_here:
            return keys.rows_of(self.all())
        most = self._most_rows
        rows = None
        if self.files is not None and keys.are_sought:
            within = None if self.partitions_of is None else self.partitions_of(keys.keys)
            rows = seeks.rows_of(self.files, keys, self.columns, most, within, self.neighbours)
        if rows is not None and (most is None or len(rows) <= most):
            return self._merged(rows, keys)
        if self._reads_all_for(keys):
            return self._merged(self._of_all(keys), keys)
        few = self._sought(keys) if rows is None else None
        return keys.rows_of(self.all()) if few is None else self._merged(few, keys)

    def reads_as_much(self, keys: Selection, others: Selection) -> bool:
        """Return whether the driver reads about as many row groups for some keys as for others.

        It does not read rows to find out.
        """
        if self.files is None or not (keys.is_here and keys.are_sought and others.are_sought):
            return False
        return seeks.reads_as_much(self.files, keys, others)

    def reads_nearly_all(self, keys: Selection) -> bool:
        """Return whether the driver reads nearly all rows to find some keys."""
        if self.files is None or not (keys.is_here and keys.are_sought):
            return False
        return seeks.reads_nearly_all(self.files, keys)

    @in_phase("reading")
    def looked_up(self, keys: Selection, strategy: Strategy) -> tuple[Rows, LookedUp]:
        """Return exactly the rows of these keys, and how they were found.

        Spark scans if the driver does not see the files, or the rows are too many for it.
        """
        rows = None
        if keys.is_here and self.files is not None:
            most = None if self._is_alone else self.engines.limits.rows_of(self.row_bytes)
            rows = seeks.looked_up(self.files, keys, self.columns, strategy, most)
        if rows is not None and rows.rows is not None:
            return self._merged(rows.rows, keys), rows
        return keys.exactly(self.read(keys)), rows or LookedUp(None, "scan", None, None)

    @in_phase("reading")
    def within(self, column: Column, values: Ranges) -> Rows:
        """Return the rows with a value in the ranges; on the driver if they are few.

        Args:
            column: a column of the key, so that all rows of a pair have the same value.
        """
        most = self._most_rows
        base = self.base if isinstance(self.base, pa.Table) else None
        is_within = False
        if base is None and self.files is not None:
            if most is not None and seeks.least_within(self.files, column, values) > most:
                return self._within_there(column, values)
            read = partial(
                seeks.rows_in_ranges, self.files, column, columns=self.columns, most=most
            )
            held = self.held
            kept = self.engines.limits.rows_of(self.row_bytes)
            base = read(values) if held is None else held.rows_within(column, values, kept, read)
            is_within = base is not None
        if base is None and self._is_here and self._is_one_part:
            base = replace(self, overlay=None).fetched()
        if base is None or (most is not None and len(base) > most):
            return self._within_there(column, values)
        base = base.select([c.name for c in self.columns])
        if not is_within:
            base = rows_within(base, column, values)
        return self._with(base, self.overlay and self.overlay.within(column, values))

    def _within_there(self, column: Column, values: Ranges) -> DataFrame:
        """Return the result of `within`, in Spark."""

        def read(values: Ranges) -> DataFrame:
            known = None if self.files is None else seeks.count_within(self.files, column, values)
            frame: DataFrame = rows_within(self.all(known), column, values)
            return frame

        return read(values) if self.held is None else self.held.there_within(column, values, read)

    def count_within(self, column: Column, values: Ranges) -> int | None:
        """Return about how many rows `within` has to read; None if only Spark can tell."""
        if isinstance(self.base, pa.Table):
            base: int | None = int(are_within(self.base.column(column.name), values).sum())
        else:
            base = None if self.files is None else seeks.count_within(self.files, column, values)
        if base is None or self.overlay is None:
            return base
        return base + int(are_within(self.overlay.rows.column(column.name), values).sum())

    @property
    def _is_apart(self) -> bool:
        """Whether the base is in files of several partitions, not all of which have to be read."""
        is_held = isinstance(self.base, pa.Table)
        return not is_held and self.files is not None and self.files.are_apart

    @property
    def _is_alone(self) -> bool:
        """Whether there is no Spark, so that the driver reads rows however many there are."""
        return self.engines.session is None

    @property
    def _most_rows(self) -> int | None:
        """The most rows that a step's look-up brings to the driver; None without Spark."""
        return None if self._is_alone else self.engines.limits.local_rows_of(self.row_bytes)

    @property
    def _is_fetched(self) -> bool:
        """Whether all rows are read to the driver, if that is possible."""
        size, read_seconds = self.count * self.row_bytes, self._read_seconds
        return self._is_alone or self.engines.is_local(self.count, size, read_seconds=read_seconds)

    @property
    def _read_seconds(self) -> float:
        """About how long the driver takes to read all rows."""
        if isinstance(self.base, pa.Table):
            return 0.0
        return self.readings.seconds(self.count * self.row_bytes / COMPRESSED)

    @property
    def _is_one_part(self) -> bool:
        """Whether all rows are read to the driver at once, if that is possible."""
        limits = self.engines.limits
        return self._is_alone or limits.is_one_part(self.count, self.count * self.row_bytes)

    @property
    def _is_here(self) -> bool:
        return isinstance(self.base, pa.Table) or self.files is not None

    def _frame(self, read: int | None = None) -> DataFrame:
        """Return the base, in Spark; ``read`` as in `all`."""
        rows = self.base
        if callable(rows):
            count = self.count if read is None else read
            self.readings.add(count, count * self.row_bytes)
            rows = rows() if read is None or self.by_log is None else self.by_log()
        return self.engines.frame(rows, self.columns)

    def _reads_all_for(self, keys: Selection) -> bool:
        """Return whether the driver reads all rows to find those of some keys, which are there.

        Of several parts it reads all for many keys, for which Spark would read all, too.
        """
        return self._is_here and self._is_fetched and (self._is_one_part or not keys.are_few)

    def _of_all(self, keys: Selection) -> pa.Table:
        """Return the rows of some keys in the base, which is read as a whole."""
        rows = keys.exactly(replace(self, overlay=None).fetched())
        assert isinstance(rows, pa.Table)  # as the keys are
        return rows

    def _sought(self, keys: Selection) -> pa.Table | None:
        """Return the rows of some keys in the base, and perhaps of others; None if too many."""
        most = self.engines.limits.fetched_rows_of(self.row_bytes)
        rows = fetched(keys.rows_of(self._frame()).limit(most + 1), self.columns)
        return rows if len(rows) <= most else None

    def _merged(self, base: pa.Table, keys: Selection | None) -> pa.Table:
        overlay = self.overlay
        if overlay is not None and keys is not None:
            overlay = overlay.semi_join(keys)
            base = keys.exactly(base)
        return self._with(base, overlay)

    def _with(self, base: pa.Table, overlay: Overlay | None) -> pa.Table:
        """Return rows of the base, with the overlay's rows in place of all rows of its pairs."""
        if overlay is None:
            return base
        newer, engine = overlay.rows, self.engines.of(base)
        kept = engine.anti_join(base, self.columns, newer, overlay.pair)
        return pa.concat_tables([kept, overlay.newer(self.columns)])

    def _kept(self, base: pa.Table) -> pa.Table:
        """Return the rows of a part of the base that still count."""
        if self.overlay is None:
            return base
        pair = [c.name for c in self.overlay.pair]
        gone = isin_rows(base.select(pair), self.overlay.rows.select(pair))
        return base.filter(pa.array(~gone))


def run_of(comparison: Comparison) -> pa.Table:
    """Return the run of a step, for an `Overlay`: the rows of the pairs that differ."""
    engines, layout = comparison.engines, comparison.layout
    alive = engines.table(comparison.select(layout.content, ROWS_OF_CHANGED_PAIRS), layout.content)
    gone = engines.table(comparison.select(layout.pair, GONE_PAIRS), layout.pair)
    gone = gone.append_column(ORDINAL, pa.array(np.zeros(len(gone), np.int64)))
    marked = [
        rows.append_column(IS_ALIVE, pa.array(np.full(len(rows), is_alive)))
        for rows, is_alive in ((alive, True), (gone, False))
    ]
    return pa.concat_tables(marked, promote_options="default")
