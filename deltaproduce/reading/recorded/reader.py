"""The reader: a store's tables without the pipeline that made them.

A facade, as `store` is. The invariant: whatever it reads is from one whole version, the head unless
another is named; and it writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from deltaproduce.engines.change_feed import FeedMode
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.sessions.session import check_session
from deltaproduce.model.limits import Limits
from deltaproduce.reading import changes as changes_between
from deltaproduce.reading import selects, stage_tables
from deltaproduce.reading.diffs import Diff, diff
from deltaproduce.reading.lookups import Lookup, LookupOptions, lookup
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader as StoredReader
from deltaproduce.reading.recorded.stages import (
    RecordedStage,
    newest_with,
    opened_recorded,
    recorded,
)
from deltaproduce.reading.selects import Dialect
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.storage.opening.places import tables_at
from deltaproduce.storage.parquet.lookups import Strategy
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader(Tabular):
    """The tables of a store, to be read without its pipeline; `open` returns one.

    Without a session it returns pyarrow Tables, with one DataFrames. Names of columns that begin
    with ``_`` are the library's; `content` and `lookup` return them only if asked to.
    """

    def __init__(self, store: Opened) -> None:
        self._store, self._read = store, store.log.delta_version

    def __repr__(self) -> str:
        return one_line(self, self._store.tables.location.address)

    def as_tables(self) -> tuple[Table, ...]:
        """Its stages, with their columns and their rows in the head."""
        head = self.head
        rows = tuple(
            (name, stage.key, stage.value, figures.rows, figures.changed_keys)
            for name, stage in self.stages.items()
            for figures in [head.stages[name]]
        )
        title = f"{self._store.tables.location.address}, {head.headline}"
        return (Table(title, ("stage", "key", "value", "rows", "keys changed last"), rows),)

    @property
    def stages(self) -> Mapping[str, RecordedStage]:
        """The head's sources and stages by name, feeders first, each with its columns."""
        head = self._opened.log.last_read
        return {name: recorded(head, name) for name in newest_with([head])}

    @property
    def head(self) -> Version:
        """The newest version, read again at each access; its number is 0 if there is none."""
        return self._opened.log.last_read.shown()

    @property
    def time_zone(self) -> str:
        """The time zone in which the store computes."""
        return self._opened.zone()

    def versions(self) -> list[Version]:
        """All published versions, oldest first."""
        return [version.shown() for version in self._opened.log.versions()]

    def content(
        self,
        stage: str,
        version: int | None = None,
        *,
        internal: bool = False,
        ordered: bool = False,
    ) -> DataFrame | pa.Table:
        """Read the rows of a source or stage; see `Store.content`.

        Args:
            version: the version to read; the head if None.
            internal: also return the library's columns: ``_source_<feeder's key column>``…,
                ``_ordinal``.
            ordered: sort by the table's order; otherwise rows come in any order.

        Returns:
            Key columns, value columns.

        Raises:
            NotFoundError: there is no such stage or version.
            CorruptStoreError: as for `Store.content`.
            SessionError: only Spark can read it, and there is no session.
        """
        return stage_tables.content(self._opened, stage, version, ordered, internal=internal)

    def key_mappings(
        self, stage: str, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Read which source key produced which target keys; see `Store.key_mappings`."""
        return stage_tables.key_mappings(self._opened, stage, version, ordered)

    def updates(
        self, stage: str, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Read what one version changed; see `Store.updates`."""
        return stage_tables.updates(self._opened, stage, version, ordered)

    def changes(
        self, stage: str, since: int, until: int | None = None, mode: FeedMode = "net"
    ) -> DataFrame | pa.Table:
        """Read the rows that differ between two versions; see `Store.changes`."""
        return changes_between.changes(self._opened, stage, since, until, mode)

    def diff(self, before: int, after: int | None = None, *, sample: int = 5) -> Diff:
        """Compare two versions; see `Store.diff`. It has all stages of the kept versions."""
        return diff(self._opened, before, after, sample)

    def lookup(
        self,
        stage: str,
        keys: object,
        *,
        version: int | None = None,
        strategy: Strategy = "auto",
        internal: bool = False,
        ordered: bool = False,
    ) -> Lookup:
        """Look up all rows of some keys of a stage; see `Store.lookup`.

        Args:
            keys: as for `Store.lookup`.
            version: the version to read; the head if None.
            strategy: as for `Store.lookup`.
            internal: as for `content`.
            ordered: sort the rows by the table's order.
        """
        options = LookupOptions(
            version=version, strategy=strategy, ordered=ordered, internal=internal
        )
        return lookup(self._opened, stage, keys, options)

    def sql(
        self,
        stage: str,
        version: int | None = None,
        *,
        dialect: Dialect = "spark",
        table: Literal["content", "key_mappings", "updates"] = "content",
    ) -> str:
        """Return a query that selects the rows of a table, for other engines; see `Store.sql`."""
        return selects.sql(self._opened, stage, version, dialect, table)

    @property
    def _opened(self) -> Opened:
        """The store with the stages of its versions of now."""
        store = self._store
        store.log.versions()
        if store.log.delta_version != self._read:
            zone = store.zone.named
            self._store = opened_recorded(store.tables, store.log, store.reader, zone)
            self._read = store.log.delta_version
        return self._store


_LIMITS: Final = Limits()


def open(location: str | os.PathLike[str], spark: SparkSession | None = None) -> Reader:
    """Open a store to read it, without the pipeline that made it: its version log has the columns.

    Args:
        location: as for `Store`.
        spark: as for `Store`. Without a session it needs no Java, and returns pyarrow Tables.

    Raises:
        NotFoundError: there is no store at the location.
        SessionError: only Spark can read there, and there is no session.
        DefinitionError: the location is not valid.
    """
    return reader_at(location, spark)


def reader_at(
    location: str | os.PathLike[str], spark: SparkSession | None, zone: str | None = None
) -> Reader:
    """Open a store to read it, in a time zone; in that of its versions if it is None.

    Raises:
        DeltaProduceError: as for `open`.
    """
    if spark is not None:
        check_session(spark)
    tables = tables_at(Engines.opened(spark, _LIMITS), location)
    reader = StoredReader(tables, from_files=spark is None)
    return Reader(opened_recorded(tables, VersionLog(tables), reader, zone))


def read(
    location: str | os.PathLike[str],
    stage: str,
    version: int | None = None,
    internal: bool = False,
    *,
    spark: SparkSession | None = None,
) -> DataFrame | pa.Table:
    """Read the rows of a stage of a store, without its pipeline; see `open` and `Reader.content`.

    Args:
        location: as for `Store`.
        version: the version to read; the head if None.
        internal: also return the library's columns, which begin with ``_``.
        spark: a session, to get a DataFrame; without one it is a pyarrow Table.

    Raises:
        NotFoundError: there is no store at the location, or no such stage or version.
        DeltaProduceError: as for `open`.
    """
    return open(location, spark).content(stage, version, internal=internal)
