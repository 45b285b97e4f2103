"""Selections: some keys of a table, and how to find their rows.

A step never scans a table for its keys if it can look them up. Keys that fit are held on the
driver; others stay a DataFrame. For Spark, few keys (`Limits.seek_keys`) become a predicate that
prunes files, and many are joined. The invariant: `rows_of` returns every row of the selected keys,
and perhaps rows of other keys (see `predicates`), so a row in its result may have a key that was
not selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Marks, isin_rows
from deltaproduce.engines.spark.columns import cols, same
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.predicates import HASH, hash_sql, membership, needs_hash
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import LongType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.row_writers import rows_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPEATED: Final = 10
"""The rows per key that the driver fetches to find out whether there are few keys."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Distinct keys.

    Attributes:
        columns: the columns that hold the keys in the table to look up.
        keys: the keys: on the driver if they fit there, or if there is no Spark.
    """

    columns: tuple[Column, ...]
    keys: Rows
    engines: Engines

    @staticmethod
    def of(
        keys: Rows, columns: Sequence[Column], engines: Engines, rows: int | None = None
    ) -> Selection:
        """Return the selection of keys, which may repeat, in these columns.

        Args:
            rows: the number of rows, if it is known.
        """
        most = _REPEATED * engines.limits.seek_keys
        if is_frame(keys) and (rows is None or rows <= most):
            fetched_keys = fetched(keys.limit(most + 1) if rows is None else keys, columns)
            if len(fetched_keys) <= most:
                keys = fetched_keys
        if isinstance(keys, pa.Table):
            once, limits = engines.of(keys).distinct(keys, columns), engines.limits
            stays = engines.session is None or limits.keeps_keys(len(once), once.nbytes)
            fetched_keys = once if stays else _joined(once, columns, engines)
            return Selection(tuple(columns), fetched_keys, engines)
        return Selection(tuple(columns), keys.select(*cols(columns)).distinct(), engines)

    @staticmethod
    def one(key: object, columns: Columns, engines: Engines) -> Selection:
        """Return the selection of one key, as functions get it.

        Args:
            key: bare if it has one column, else with a part for each.

        Raises:
            InvalidArgumentError: it is no key of these columns.
        """
        zone = zone_of(engines.time_zone)
        try:
            arrays = rows_writer(columns, zone)([key])
        except Misfit as misfit:
            raise InvalidArgumentError(
                f"{shown(key)} is not a key of the columns {columns.label}: {misfit}",
                argument="key",
            ) from misfit
        return Selection(columns.columns, pa.table(arrays, list(columns.names)), engines)

    @property
    def is_here(self) -> bool:
        """Whether the keys are on the driver."""
        return isinstance(self.keys, pa.Table)

    @property
    def frame(self) -> DataFrame:
        """The keys in Spark, to be joined."""
        if is_frame(self.keys):
            return self.keys
        return _joined(self.keys, self.columns, self.engines)

    @property
    def are_sought(self) -> bool:
        """Whether rows are looked up by the keys; if the keys do not fit, all rows are read."""
        if not isinstance(self.keys, pa.Table):
            return True
        return self.engines.limits.holds_keys(len(self.keys), self.keys.nbytes)

    @property
    def are_few(self) -> bool:
        """Whether Spark finds rows by a predicate of the keys; it joins rows with more keys."""
        return isinstance(self.keys, pa.Table) and len(self.keys) <= self.engines.limits.seek_keys

    def leading(self, count: int) -> Selection:
        """Return what keys on the driver have in the first columns."""
        assert isinstance(self.keys, pa.Table)
        if count == len(self.columns):
            return self
        first = self.columns[:count]
        return Selection.of(self.keys.select([c.name for c in first]), first, self.engines)

    def renamed(self, columns: Sequence[Column]) -> Selection:
        """Return the same keys in another table's columns, as a feeder's keys are source keys."""
        names = [column.name for column in columns]
        if is_frame(self.keys):
            return Selection(tuple(columns), self.keys.toDF(*names), self.engines)
        return Selection(tuple(columns), self.keys.rename_columns(names), self.engines)

    @property
    def empty(self) -> bool:
        """Whether the selection is known to be empty."""
        return isinstance(self.keys, pa.Table) and not len(self.keys)

    def union(self, other: Selection) -> Selection:
        """Return the keys of both, which are in the same columns."""
        together = self.engines.concat(self.keys, other.keys, self.columns)
        return Selection.of(together, self.columns, self.engines)

    def anti_join(self, other: Selection) -> Selection:
        """Return the keys that are not in ``other``, whose columns may have other names."""
        gone = other.renamed(self.columns)
        if isinstance(self.keys, pa.Table) and gone.is_here:
            engine = self.engines.of(self.keys, gone.keys)
            kept = engine.anti_join(self.keys, self.columns, gone.keys, self.columns)
            return Selection(self.columns, kept, self.engines)
        keys, others = self.frame, gone.frame
        kept = keys.join(others, same(keys, others, self.columns), "left_anti")
        return Selection(self.columns, kept, self.engines)

    def predicate(self) -> str:
        """Return a predicate for the rows of the keys, which are few; others may match too."""
        keys = self.keys
        assert isinstance(keys, pa.Table)
        if needs_hash(self.columns, keys):
            hashes = f.expr(hash_sql([c.name for c in self.columns])).alias(HASH)
            hashed = self.engines.frame(keys, self.columns).select("*", hashes)
            keys = fetched(hashed, (*self.columns, Column(HASH, LongType())))
        return membership(self.columns, keys)

    def rows_of(self, rows: DataFrame) -> DataFrame:
        """Return all rows of these keys, and perhaps rows of others."""
        if self.are_few:
            return rows.where(self.predicate())
        keys = self.frame
        return rows.join(keys, same(rows, keys, self.columns), "left_semi")

    def semi_join(self, rows: Rows, columns: Sequence[Column]) -> Rows:
        """Return the rows that have one of the keys, from any rows in these columns."""
        if isinstance(rows, pa.Table) and self.is_here:
            return self._of_table(rows)
        frame, keys = self.engines.frame(rows, columns), self.frame
        return frame.join(keys, same(frame, keys, self.columns), "left_semi")

    def exactly(self, rows: Rows) -> Rows:
        """Return only the rows of these keys, from the rows found for them."""
        if not self.is_here:
            return rows
        if isinstance(rows, pa.Table):
            return self._of_table(rows)
        if not needs_hash(self.columns, self.keys):
            return rows
        keys = self.frame
        return rows.join(keys, same(rows, keys, self.columns), "left_semi")

    def _of_table(self, rows: pa.Table) -> pa.Table:
        matches: pa.Table = self.engines.of(rows, self.keys).semi_join(
            rows, self.keys, self.columns
        )
        return matches

    def holds(self, rows: pa.Table) -> Marks:
        """Mark the rows that have one of the keys, which are on the driver."""
        return isin_rows(rows.select([c.name for c in self.columns]), self.keys)


def _joined(keys: pa.Table, columns: Sequence[Column], engines: Engines) -> DataFrame:
    """Return keys of the driver in Spark, to be joined: each task gets all keys if they are few."""
    frame = engines.frame(keys, columns)
    return f.broadcast(frame) if len(keys) <= _REPEATED * engines.limits.seek_keys else frame
