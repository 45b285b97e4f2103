"""The store: what a user holds of a pipeline's tables.

A facade: it resolves stages, versions and tables, and hands on. The invariant: whatever it reads is
from one whole version, the head unless another is named, whatever writers do meanwhile.

It stands apart so that the modules below need no conveniences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from deltaproduce.batches import Batch
from deltaproduce.changes import cols, content_columns, order, sources_of, updates_columns
from deltaproduce.errors import DefinitionError, InvalidChangesError, NotFoundError
from deltaproduce.executor import Executor, Progress
from deltaproduce.locations import Location
from deltaproduce.pipeline import Pipeline, Producer, Source, Stage
from deltaproduce.plan import TableType
from deltaproduce.readers import Reader, pair_of
from deltaproduce.schemas import ORDINAL_COLUMN, POSITION_COLUMN, Column
from deltaproduce.session import check_session
from deltaproduce.tables import Tables
from deltaproduce.version_log import VersionLog
from deltaproduce.versions import Version, find


class Store:
    """The tables of one pipeline at one location, and their versions.

    Opening a store reads and writes nothing; the location is made by the first update. A store may
    be opened by many readers and writers; each version is published by one of them.

    Args:
        spark: a session with Delta: `local_session()`, or a cluster's.
        location: a path (with a ``/`` or a scheme), otherwise ``schema`` or ``catalog.schema``.
        pipeline: what is defined in it now; later definitions do not count.
        table_type: how updates are written. ``merge_on_read``: a small update of a large stage is
            appended to a table of runs beside its content and key mappings, which is faster; read
            them through a store. ``copy_on_write``: they are plain Delta tables at every version,
            for whoever reads them by path. Updates tables, and all tables of a stage of up to
            20,000 rows, are plain in both. A store may be opened with another type than before:
            each stage changes over when it is next written.
        progress: called when a stage, or the commit, of an update starts.
        clock: gives the time of a version, with time zone.

    Raises:
        SessionError: the session cannot work with Delta tables.
        DefinitionError: the location is none, or cannot hold a stage of that name.
    """

    def __init__(
        self,
        spark: SparkSession,
        location: str,
        pipeline: Pipeline,
        *,
        table_type: TableType = "merge_on_read",
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_session(spark)
        if table_type not in get_args(TableType):
            raise DefinitionError(
                f"table_type is {table_type!r}; use one of {', '.join(get_args(TableType))}"
            )
        self._spark = spark
        self._graph = pipeline.graph()
        place = Location.parse(str(location))
        place.check([stage.name for stage in self._graph.stages])
        self._tables = Tables(spark, place)
        self._log = VersionLog(spark, self._tables)
        self._reader = Reader(self._tables)
        self._executor = Executor(
            spark,
            self._graph,
            self._tables,
            Reader(self._tables, from_files=True),
            self._log,
            progress or (lambda _: None),
            clock,
            table_type,
        )

    @property
    def head(self) -> Version:
        """The newest version, read anew each time; number 0 if there is none."""
        return self._log.head()

    def versions(self) -> list[Version]:
        """All published versions, oldest first."""
        return list(self._log.versions())

    def update(self, changes: Mapping[str, object], update_id: str | None = None) -> Version:
        """Make a batch of changes the next version: all of it at once, or none.

        Args:
            changes: source name -> DataFrame or pyarrow Table with the source's key and value
            columns
                and, optionally, ``_change_type`` (``upsert``, the default, or ``delete``; also the
                words of Delta's change data feed) and ``_ordinal`` (orders the rows of a key,
                before their order in the DataFrame). The rows of a key replace all that it had;
                keys not mentioned stay. Each DataFrame is computed once.
            update_id: a name for this batch. If a version was made under it, that version is
                returned and the changes are not looked at: so a batch can be sent again.

        Returns:
            The published version; the head if the changes change nothing and there is no update_id.

        Raises:
            InvalidChangesError: before anything is written.
            ProducerError: a produce function failed; nothing is written.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
            CorruptStoreError: tables or the version log were changed by someone else.
        """
        sources = self._sources(changes)
        versions = self._log.versions()
        if update_id is not None:
            for version in versions:
                if version.update_id == update_id:
                    return version
        batches = {source.name: Batch.of(given, source, self._spark) for source, given in sources}
        return self._executor.run(
            "update", self._log.last_read, batches=batches, update_id=update_id
        )

    def refresh(self, stage: str | Stage | None = None) -> Version:
        """Produce a stage in full, and bring up to date what depends on it.

        For what the library cannot notice, such as a changed function that the stage's function
        calls.

        Args:
            stage: a stage that is no source; all of them if None.

        Raises:
            NotFoundError: there is no such stage, or it is a source.
        """
        names = [producer.name for producer in self._graph.producers]
        if stage is not None:
            names = [self._producer(stage).name]
        return self._executor.run("refresh", self._log.head(), refreshed=names)

    def compact(self) -> None:
        """Put the rows of all tables in order now: runs into their tables, small files together.

        No version changes, and none is published. It happens by itself, beside the versions, when
        100 runs or small files have come together; this is for when there is time.

        Raises:
            ConflictError: another writer was faster; nothing is lost.
        """
        self._executor.compact(self._log.head())

    def wait(self) -> None:
        """Wait until nothing is done beside the versions any more.

        Call it before Spark is stopped, so that a compaction is not cut off, and done in vain.
        """
        self._executor.wait()

    def content(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame:
        """The rows of a source or stage.

        Args:
            version: of this version; of the head if None.
            ordered: sorted by key, source key and ``_ordinal``; otherwise in no order.

        Returns:
            Key columns, ``_source_<feeder's key column>``… (not for a source), ``_ordinal``, value
            columns.

        Raises:
            NotFoundError: there is no such stage or version.
        """
        found = self._graph.stage(_name(stage))
        sources = sources_of(found)
        rows = self._reader.content(self._version(version), found)
        columns = content_columns(found.schema, sources)
        in_order = (*found.schema.key, *sources, ORDINAL_COLUMN) if ordered else ()
        return self._frame(None if rows is None else rows.all(), columns, in_order)

    def key_mappings(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame:
        """Which source key produced which target keys.

        Args:
            version: of this version; of the head if None.
            ordered: sorted by source key and key; otherwise in no order.

        Returns:
            ``_source_<feeder's key column>``…, key columns; distinct.

        Raises:
            NotFoundError: there is no such stage or version, or it is a source.
        """
        found = self._producer(stage)
        rows = self._reader.key_mappings(self._version(version), found)
        pair = pair_of(found)
        return self._frame(None if rows is None else rows.all(), pair, pair if ordered else ())

    def updates(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame:
        """What one version changed: each changed key with all its rows, or one ``delete`` row.

        Args:
            version: by this version; by the head if None.
            ordered: sorted by key and ``_position``; otherwise in no order.

        Returns:
            ``_version``, ``_change_type`` (``add``, ``update``, ``delete``), key columns,
            ``_position``, value columns (null in a ``delete`` row).

        Raises:
            NotFoundError: there is no such stage or version.
        """
        found = self._graph.stage(_name(stage))
        wanted = self._version(version)
        rows = self._reader.updates(wanted, found)
        in_order = (*found.schema.key, POSITION_COLUMN) if ordered else ()
        return self._frame(rows, updates_columns(found.schema), in_order)

    def _frame(
        self, rows: DataFrame | None, columns: Sequence[Column], in_order: Sequence[Column]
    ) -> DataFrame:
        if rows is None:
            struct = StructType([StructField(c.name, c.data_type) for c in columns])
            return self._spark.createDataFrame([], struct)
        found = rows.select(*cols(columns))
        return found.orderBy(*order(in_order)) if in_order else found

    def _version(self, number: int | None) -> Version:
        versions = self._log.versions()
        return self._log.last_read if number is None else find(versions, number)

    def _sources(self, changes: Mapping[str, object]) -> list[tuple[Source, object]]:
        known = {source.name: source for source in self._graph.sources}
        if not isinstance(changes, Mapping):
            raise InvalidChangesError(
                f"changes are a {type(changes).__name__}: give a mapping of source names to "
                "DataFrames"
            )
        for name in changes:
            if name not in known:
                raise InvalidChangesError(
                    f"changes are given for {name!r}, which is no source; sources: {sorted(known)}",
                    source=str(name),
                )
        return [(known[name], given) for name, given in changes.items()]

    def _producer(self, stage: str | Stage) -> Producer:
        found = self._graph.stage(_name(stage))
        if isinstance(found, Source):
            raise NotFoundError(
                f"{found.name!r} is a source: it has no produce function and no key mappings"
            )
        return found


def _name(stage: str | Stage) -> str:
    return stage if isinstance(stage, str) else stage.name
