"""The store: what a user holds of a pipeline's tables.

A facade: it resolves stages, versions and tables, and hands on. The invariant: whatever it reads is
from one whole version, the head unless another is named, whatever writers do meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, TypeVar, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols, order
from deltaproduce.engines.spark.damage import noticed
from deltaproduce.engines.spark.file_systems import check_relative
from deltaproduce.engines.spark.session import check_session
from deltaproduce.errors import (
    ConflictError,
    CorruptStoreError,
    DefinitionError,
    InvalidArgumentError,
    InvalidChangesError,
    NotFoundError,
)
from deltaproduce.model import arguments
from deltaproduce.model.graph import Source, Stage, is_stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    KINDS,
    RUNS,
    UPDATES,
    content_columns,
    pair_of,
    sources_of,
    updates_columns,
)
from deltaproduce.operations.analysis import analysed
from deltaproduce.operations.executor import Executor, Progress
from deltaproduce.operations.findings import Finding
from deltaproduce.operations.step.plan import Policy, Step, TableType
from deltaproduce.operations.streams import StreamWriter
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.verification import Verifier
from deltaproduce.pipeline import Pipeline
from deltaproduce.reading.change_feed import FeedMode, feed_columns
from deltaproduce.reading.lineages import Lineage, lineage
from deltaproduce.reading.readers import Reader
from deltaproduce.reading.remains import Forgotten, alive_in, remains
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.kind import arrivals, source_kind
from deltaproduce.storage.catalogs import check_schema
from deltaproduce.storage.locations import Location, is_relative
from deltaproduce.storage.retention import check_kept, retained
from deltaproduce.storage.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import (
    Attempt,
    Version,
    check_there,
    find,
    span,
    stage_at,
    unbroken,
)
from deltaproduce.types.columns import ORDINAL_COLUMN, POSITION_COLUMN, Column
from deltaproduce.types.excerpts import shown

OnConflict = Literal["raise", "retry"]
"""What happens if another writer publishes first."""

_RETRYING: Final = Retrying(
    retry=retry_if_exception_type(ConflictError),
    wait=wait_random_exponential(multiplier=0.1, max=10),
    stop=stop_after_attempt(20),
    reraise=True,
)
_Outcome = TypeVar("_Outcome")
_NOTHING_GIVEN: Final[Mapping[str, object]] = MappingProxyType({})


class Store:
    """The tables of one pipeline at one location, and their versions.

    Opening a store reads no rows and writes nothing; the location is made by the first update. A
    store may be opened by many readers and writers; each version is published by one of them.

    Args:
        spark: a session with Delta: `local_session()`, or a cluster's.
        location: a path (with a ``/`` or a scheme), otherwise ``schema`` or ``catalog.schema``. A
            relative path is one of the current directory. A schema of a catalog in memory, which
            is forgotten when the process ends, must have been created in this process.
        pipeline: what is defined in it now; later definitions do not count.
        table_type: how updates are written. ``merge_on_read``: a small update of a large stage is
            appended to a table of runs beside its content and key mappings, which is faster; read
            them through a store. ``copy_on_write``: they are plain Delta tables at every version,
            for whoever reads them by path. Updates tables, and all tables of a stage of up to
            20,000 rows, are plain in both. A store may be opened with another type than before:
            each stage changes over when it is next written.
        policy: when a stage that has rows may be produced in full. ``auto``: when its definition
            changed, or where at least nine in ten of 50,000 or more rows that it reads are of
            changed keys, which is quicker. ``incremental``: only when its definition changed.
            ``strict``: never; an update says so, and writes nothing.
        on_conflict: what happens if another writer publishes first. ``raise``: a ConflictError.
            ``retry``: it is tried again on what the other has published, up to 20 times, after
            longer and longer waits.
        progress: called when a stage, or the commit, of an update starts.
        clock: gives the time of a version, with time zone.

    Raises:
        SessionError: the session cannot work with Delta tables.
        DefinitionError: the location is none, or cannot hold a stage of that name, or is a schema
            that is not there and would be forgotten; or Spark refuses a query.
        InvalidArgumentError: an argument is not of its type.
    """

    def __init__(
        self,
        spark: SparkSession,
        location: str | os.PathLike[str],
        pipeline: Pipeline,
        *,
        table_type: TableType = "merge_on_read",
        policy: Policy = "auto",
        on_conflict: OnConflict = "raise",
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        text = arguments.place(location, "location")
        if isinstance(location, os.PathLike):  # it is a path, whatever it is called
            text = os.path.join(".", text)
        place = Location.parse(text)
        if not isinstance(pipeline, Pipeline):
            raise InvalidArgumentError(
                f"pipeline is a {type(pipeline).__name__}; give the Pipeline", argument="pipeline"
            )
        if progress is not None:
            arguments.function(progress, "progress")
        clock = arguments.clock(clock)
        for name, value, known in (
            ("table_type", table_type, get_args(TableType)),
            ("policy", policy, get_args(Policy)),
            ("on_conflict", on_conflict, get_args(OnConflict)),
        ):
            if not isinstance(value, str) or value not in known:
                raise DefinitionError(f"{name} is {shown(value)}; use one of {', '.join(known)}")
        check_session(spark)
        self._spark = spark
        self._on_conflict: OnConflict = on_conflict
        self._clock = clock
        if place.in_catalog:  # of this catalog, whichever a thread of the session goes to
            place = place.within(spark.catalog.currentCatalog())
        place.check([stage.name for stage in pipeline.stages])
        self._defined = pipeline.stages
        self._tables = Tables(spark, place)
        if place.in_catalog:
            check_schema(self._tables, text)
        elif is_relative(text):
            check_relative(spark, text)
        self._graph = analysed(pipeline.graph(), self._tables)
        self._log = VersionLog(self._tables)
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
            policy,
        )
        self._in_session = partial(
            Store,
            location=place.address,
            pipeline=pipeline,
            table_type=table_type,
            policy=policy,
            on_conflict=on_conflict,
            progress=progress,
            clock=clock,
        )

    @property
    def head(self) -> Version:
        """The newest version, read anew each time; number 0 if there is none."""
        return self._log.head()

    def versions(self) -> list[Version]:
        """All published versions, oldest first."""
        return list(self._log.versions())

    def update_ids(self) -> list[str]:
        """The ids under which updates were published, oldest first; of dropped versions too."""
        self._log.versions()
        return list(self._log.with_ids())

    def update(
        self,
        changes: Mapping[str, object] = _NOTHING_GIVEN,
        update_id: str | None = None,
        *,
        on_conflict: OnConflict | None = None,
    ) -> Version:
        """Make a batch of changes the next version: all of it at once, or none.

        What is new in the tables of sources that are read in place (`Pipeline.delta_source`) is
        taken too, without being given.

        Args:
            changes: source name -> rows: a DataFrame of Spark, pandas or Polars, a pyarrow Table,
                RecordBatch or RecordBatchReader, anything else with ``__arrow_c_stream__``, or a
                list of dicts. They have the source's key and value columns and, optionally,
                ``_change_type`` (``upsert``, the default, or ``delete``; also the words of Delta's
                change data feed) and ``_ordinal`` (orders the rows of a key, before the order that
                they have). The rows of a key replace all that it had; keys not mentioned stay. Each
                DataFrame is computed once, each reader read once.
            update_id: a name for this batch. If a version was made under it, that version is
                returned and the changes are not looked at: so a batch can be sent again, also when
                a vacuum has dropped that version, which then has no ``stages``. If an
                update under it was cut off, the same changes carry it on: functions are not run
                again for stages that it has stored. Costs a Spark job a source.
            on_conflict: as for the store, this time; as the store was opened if None.

        Returns:
            The published version; the head if the changes change nothing and there is no update_id.

        Raises:
            InvalidChangesError: before anything is written; also if what has changed in a table
                that is read in place cannot be known any more.
            ProducerError: a produce function failed; nothing is written.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
            CorruptStoreError: tables or the version log were changed by someone else.
        """
        return self._publish("update", changes, update_id, on_conflict)

    def load(
        self,
        rows: Mapping[str, object],
        update_id: str | None = None,
        *,
        on_conflict: OnConflict | None = None,
    ) -> Version:
        """Make full snapshots of sources the next version: what differs becomes its updates.

        Keys that a snapshot lacks are deleted, others have the rows that it has. So an empty one
        deletes all rows of its source, and one that equals the content changes nothing. Sources
        without a snapshot stay as they are. Content and snapshot are compared in full, which costs
        a shuffle of both if they are large: where changes are known, `update` is cheaper.

        Args:
            rows: source name -> all its rows; as for `update`, but without ``_change_type``. The
                order of a key's rows counts here too.
            update_id: as for `update`; the two share their names.
            on_conflict: as for `update`.

        Returns:
            The published version; the head if nothing differs and there is no update_id.

        Raises:
            InvalidChangesError: before anything is written.
            DeltaProduceError: as for `update`.
        """
        return self._publish("load", rows, update_id, on_conflict)

    def plan(self, given: Collection[str | Source] = ()) -> tuple[Step, ...]:
        """What an update would do, and why: nothing is computed, and nothing written.

        Args:
            given: the sources that changes would be given for.

        Returns:
            For each stage that would be looked at, feeders first, how and why. A stage that is
            ``incremental`` is not reached after all if no key of its feeders turns out to have
            changed.

        Raises:
            NotFoundError: there is no such source.
            DefinitionError: as an update would.
        """
        if isinstance(given, str) or not isinstance(given, Iterable):
            message = f"given is {shown(given)}; give a collection of sources, or of names"
            raise InvalidArgumentError(message, argument="given")
        names = [self._source(source, "given").name for source in given]
        head = self._log.head()
        return self._executor.plan(
            head, given=names, arrivals=arrivals(self._graph.sources, head, self._tables)
        )

    def refresh(self, stage: str | Stage | None = None) -> Version:
        """Produce a stage in full, and bring up to date what depends on it.

        For what the library cannot notice, such as a changed function that the stage's function
        calls; or for a table that is read in place and is not the same any more.

        Args:
            stage: a stage that is no source; all of them if None. Or a source that is read in
                place: then all rows of its table are taken as they are, what reads it is produced
                in full, and its updates begin anew, so `changes` cannot reach across.

        Raises:
            NotFoundError: there is no such stage, or it is a source whose rows are given.
        """
        found = None if stage is None else self._stage(stage)
        return self._published(partial(self._refreshed, found))

    def rollback(self, version: int) -> Version:
        """Publish a new version that is equal to an earlier one in every table of every stage.

        Its updates say what that changes, as those of every version do. A stage that the earlier
        version did not have is empty afterwards, and is made again by the next update. All versions
        stay as they are, so a rollback can be rolled back; the ids of updates stay used too.

        Args:
            version: the number of the version to go back to; 0 for a store without rows.

        Returns:
            The published version; the head if the earlier version has the same rows.

        Raises:
            NotFoundError: there is no such version.
            DefinitionError: a stage had other columns or feeders in it.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
        """
        number = arguments.integer(version, "version")

        def attempt() -> Version:
            versions = span(self._log.versions(), number)
            stages = [stage.name for stage in self._graph.stages]
            check_there(versions[-1], versions[0], stages, CONTENT, KEY_MAPPINGS, RUNS)
            return self._executor.rollback(versions)

        return self._published(attempt)

    def forget(self, source: str | Source, key: object) -> Forgotten:
        """Delete a key of a source, and what was made from it; say where it can still be read.

        The deletion is a version like that of an update. Rows that are made from other keys too are
        made again without this one.

        Args:
            key: as functions get it: bare if it has one column, else a tuple, named tuple or dict.

        Raises:
            NotFoundError: there is no such source.
            InvalidArgumentError: it is no key of the source's columns; or the source is a table
                that is read in place: delete the key there.
            ProducerError: a produce function failed; nothing is written.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
        """
        found = self._source(source, "source")
        if not found.kind.takes_rows:
            raise InvalidArgumentError(
                f"source {found.name!r} is the Delta table {found.table!r}: delete the key there, "
                "and update",
                argument="source",
            )
        keys = Selection.one(key, found.schema.key, self._spark)
        batches = {found.name: Batch.deleting(keys, found)}
        version = self._published(
            lambda: self._executor.update("forget", self._log.head(), batches=batches)
        )
        versions = self._log.versions()
        if unbroken(versions, found.name):
            with self._noticing():
                alive = alive_in(versions, self._reader.history(version, found, keys))
        else:  # older updates are not at hand, so it may have been there at any time
            alive = frozenset(version.number for version in versions[:-1])
        stages = (found.name, *self._graph.downstream_of([found.name]))
        return Forgotten(version, remains(versions, stages, alive))

    def verify(self, recompute: bool | int = False) -> tuple[Finding, ...]:
        """Look for whatever is wrong with the head's tables; nothing is written.

        Whether its tables are there, readable and untouched by others, and have their columns;
        rows are numbered, counted and in order; key mappings are those of the content; updates are
        such as versions make, and come to the content; and the version log is whole. It reads all
        of every table, each three times at most.

        Args:
            recompute: call the functions too, and compare: for all keys if True; for so many
                source keys of each stage, drawn at random, if a number. A function that does not
                return the same for the same rows is found to differ.

        Returns:
            What is wrong, feeders first; nothing if all is right.
        """
        calls = arguments.flag_or_count(recompute, "recompute")
        try:
            versions = self._log.versions()
        except CorruptStoreError as error:
            return (Finding("", "_versions", "versions", str(error)),)
        if not versions:
            return ()
        return tuple(Verifier(self._graph, self._tables, versions, recompute=calls).findings())

    def repair(self, *, recompute: bool | int = False) -> Version:
        """Publish a version in which whatever `verify` finds wrong with the head is put right.

        Tables that others have committed to are set back. Stages whose rows cannot be trusted are
        produced in full from what their feeders have, those of a source are taken from its updates,
        and what depends on them is brought up to date. The updates of the version say what that
        changes for who has followed those before; only where these cannot be trusted do they begin
        anew, with all rows, and `changes` does not reach across. A version log that others have
        changed is set back first.

        Args:
            recompute: as for `verify`.

        Returns:
            The published version; the head if nothing is wrong.

        Raises:
            CorruptStoreError: the rows of a source, or of the version log, are lost; what to do.
            ConflictError: another writer published first; nothing of this is visible.
        """
        calls = arguments.flag_or_count(recompute, "recompute")
        return self._published(partial(self._repaired, calls))

    def compact(self) -> None:
        """Put the rows of all tables in order now: runs into their tables, small files together.

        No version changes, and none is published. It happens by itself, beside the versions, when
        100 runs or small files have come together; this is for when there is time.

        Raises:
            ConflictError: another writer was faster; nothing is lost.
        """
        with self._noticing():
            self._executor.compact(self._log.head())

    def wait(self) -> None:
        """Wait until nothing is done beside the versions any more.

        Call it before Spark is stopped, so that a compaction is not cut off, and done in vain.
        """
        self._executor.wait()

    def vacuum(
        self,
        keep_versions: int | None = None,
        keep_days: float | None = None,
        *,
        unfinished_hours: float = 24,
        dry_run: bool = False,
    ) -> Vacuumed:
        """Drop old versions, and remove the files that only they are read from.

        Versions that either of the two keeps are kept; the newest always is. They can be read as
        before, also by whoever had begun to. The updates of dropped versions are deleted from the
        updates tables, so `changes` reaches back to the oldest kept version. Their update ids stay
        known. A file that a kept version was read from until now is removed by the next vacuum.
        Nothing is removed that the store has not written, nor anything behind a symbolic link.

        Costs some Spark jobs a table, and lists the files of every table.

        Args:
            keep_versions: so many of the newest.
            keep_days: those that were the newest at any time in so many days.
            unfinished_hours: files and tables that no version has are what writers left that
                stopped, or what others are writing now: they are removed once they are so old.
            dry_run: write and remove nothing; say what would be removed, by path.

        Raises:
            InvalidArgumentError: neither is given, or nothing would be kept, or one is no number.
            ConflictError: another writer was faster; no version was dropped.
            CommitUnknownError: it could not be found out whether versions were dropped.
        """
        check_kept(keep_versions, keep_days)
        hours = arguments.number(unfinished_hours, "unfinished_hours")
        arguments.flag(dry_run, "dry_run")

        def attempt() -> Vacuumed:
            versions = self._log.versions()
            kept = retained(versions, keep_versions, keep_days, self._clock())
            if not kept:
                return Vacuumed((), (), 0, 0)
            return self._executor.vacuum(versions, kept, hours, dry_run=dry_run)

        return self._published(attempt)

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
            CorruptStoreError: the table is not there, or not as the version has it. Files that are
                lost are Spark's own error, when the DataFrame is used.
        """
        arguments.flag(ordered, "ordered")
        stage, wanted = self._stage(stage), self._version(version)
        found = stage_at(wanted, stage)
        check_there(self._log.last_read, wanted, [found.name], CONTENT, RUNS)
        sources = sources_of(found)
        with self._noticing():
            rows = self._reader.content(wanted, found)
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
        arguments.flag(ordered, "ordered")
        stage, wanted = self._producer(stage), self._version(version)
        found = stage_at(wanted, stage)
        check_there(self._log.last_read, wanted, [found.name], KEY_MAPPINGS, RUNS)
        with self._noticing():
            rows = self._reader.key_mappings(wanted, found)
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
        arguments.flag(ordered, "ordered")
        stage, wanted = self._stage(stage), self._version(version)
        found = stage_at(wanted, stage)
        check_there(self._log.last_read, wanted, [found.name], UPDATES)
        rows = self._reader.updates(wanted, found)
        in_order = (*found.schema.key, POSITION_COLUMN) if ordered else ()
        return self._frame(rows, updates_columns(found.schema), in_order)

    def sql_name(self, stage: str | Stage, table: str = CONTENT) -> str:
        """What one of the tables is called in SQL: ``f"SELECT * FROM {store.sql_name('totals')}"``.

        SQL reads what was written last, which may be of a version that is not published, or never
        will be. So bound updates by the version log,
        ``WHERE _version <= (SELECT max(number) FROM …)``, and read content and key mappings by
        ``VERSION AS OF`` what `Version.delta_version` says.

        Args:
            stage: a source or stage; or ``_versions``, the version log.
            table: ``content``, ``key_mappings``, ``updates`` or ``runs``.

        Returns:
            ``delta.`<whole path>` ``, or the name in the catalog. There is a table of that name
            once a version has written it.

        Raises:
            NotFoundError: there is no such stage, or it is a source, which has no key mappings.
            InvalidArgumentError: there is no such table.
        """
        location = self._tables.location
        if stage == location.log().name:
            return location.log().sql
        arguments.choice(table, "table", KINDS)
        found = self._producer(stage) if table == KEY_MAPPINGS else self._stage(stage)
        if found.kind.place is not None and table == CONTENT:
            return self._tables.existing(found.kind.place).sql
        return location.table(found.name, table).sql

    def changes(
        self,
        stage: str | Stage,
        since: int,
        until: int | None = None,
        mode: FeedMode = "net",
    ) -> DataFrame:
        """The rows that came and went between two versions, as Delta's change data feed has them.

        Rows of a key are compared as a multiset: where only their order changed, or the source keys
        that they come from, there is nothing to say. Rows that replace each other are an
        ``update_preimage`` and an ``update_postimage``; the rest is ``delete`` or ``insert``.

        The cost is that of the updates in between and of looking up the rows that their keys had.
        If the keys are few, one Spark job finds out which, at once; the rest waits for an action.

        Args:
            since: the version whose rows you have; 0 for none.
            until: the version whose rows you want; the head if None.
            mode: ``net`` for one difference between the two; ``complete`` for one a version.

        Returns:
            Key columns, value columns, ``_change_type``, ``_commit_version`` (of the version that
            changed the key, for ``net`` the last one), ``_commit_timestamp`` (when that was
            published); in no order.

        Raises:
            NotFoundError: there is no such stage or version, or a pipeline without the stage, or
                with other columns of it, made versions in between.
            InvalidArgumentError: ``since`` is after ``until``, or there is no such mode.
        """
        found = self._stage(stage)
        arguments.choice(mode, "mode", get_args(FeedMode))
        first = arguments.integer(since, "since")
        last = None if until is None else arguments.integer(until, "until")
        versions = span(self._log.versions(), first, last)
        if not unbroken(versions, found.name):
            raise NotFoundError(
                f"stage {found.name!r} was not in the pipeline of every version from {first!r} to "
                f"{versions[-1].number}, with the same columns: what happened to it in between is "
                "not known; load it anew"
            )
        check_there(self._log.last_read, versions[0], [found.name], CONTENT, RUNS)
        with self._noticing():
            rows = self._reader.changes(versions, found, mode)
        return self._frame(rows, feed_columns(found.schema), ())

    def lineage(self, stage: str | Stage, key: object, version: int | None = None) -> Lineage:
        """The keys that a key was made from, up to the sources, and those made from it.

        Args:
            key: as functions get it: bare if it has one column, else a tuple, named tuple or dict.
            version: in this version; in the head if None.

        Returns:
            Stage names -> DataFrames of keys, computed when they are used: those of the stage next
            to this one by looking the key up, those further away by a join with key mappings.
            Without rows if there is no such key.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: it is no key of the stage's columns.
        """
        found, at = self._stage(stage), self._version(version)
        stages = [each.name for each in self._graph.stages]
        check_there(self._log.last_read, at, stages, KEY_MAPPINGS, RUNS)
        with self._noticing():
            return lineage(self._graph, self._reader, found, key, at, self._spark)

    def stream_writer(self, source: str | Source, *, stream: str | None = None) -> StreamWriter:
        """What makes each micro-batch of a stream a version, exactly once: for ``foreachBatch``.

        ``changes.writeStream.foreachBatch(store.stream_writer("orders")).start()``, with the
        columns that `update` takes. A micro-batch that Spark runs again, after a crash or a
        restart, is published only if it was not.

        Args:
            stream: a name for the stream, the same at each restart; the source's name if None. A
                stream that begins anew, without its old checkpoint, needs another.

        Raises:
            NotFoundError: there is no such source.
        """
        found = self._source(source, "source")
        name = found.name if stream is None else arguments.text(stream, "stream")
        return StreamWriter(self._in_session, found.name, name)

    def _publish(
        self,
        operation: Literal["update", "load"],
        given: Mapping[str, object],
        update_id: str | None,
        on_conflict: OnConflict | None,
    ) -> Version:
        sources = self._sources(given)
        if update_id is not None:
            update_id = arguments.text(update_id, "update_id")
        batches: dict[str, Batch] = {}

        def attempt() -> Version:
            versions, known = self._log.versions(), self._log.with_ids()
            if update_id is not None and update_id in known:
                return known[update_id]
            if not batches:  # they are computed once, however often this is tried
                batches.update(
                    {
                        source.name: source_kind(source).taken(
                            rows, source, self._spark, is_snapshot=operation == "load"
                        )
                        for source, rows in sources
                    }
                )
            head = self._log.last_read
            news = arrivals(self._graph.sources, head, self._tables)
            try:
                with self._noticing():
                    return self._executor.update(
                        operation, head, batches=batches, arrivals=news, update_id=update_id
                    )
            except CorruptStoreError as error:
                lost = [self._tables.location.table(name, CONTENT).name for name in batches]
                if operation != "load" or error.table not in lost:
                    raise
                return self._executor.repair(
                    versions, self.verify(), operation, batches=batches, update_id=update_id
                )

        return self._published(attempt, on_conflict)

    def _published(
        self, attempt: Callable[[], _Outcome], on_conflict: OnConflict | None = None
    ) -> _Outcome:
        """What an attempt publishes, or, if wanted, one that comes after a conflict."""
        wanted = self._on_conflict if on_conflict is None else on_conflict
        arguments.choice(wanted, "on_conflict", get_args(OnConflict))
        with self._noticing():
            return attempt() if wanted == "raise" else _RETRYING.copy()(attempt)

    def _noticing(self) -> AbstractContextManager[None]:
        """Errors from files of this store's tables that are gone or broken say so."""
        location = self._tables.location
        tables = [
            location.table(stage.name, kind) for stage in self._graph.stages for kind in KINDS
        ]
        return noticed(lambda: self._tables.places([*tables, location.log()]))

    def _repaired(self, recompute: bool | int) -> Version:
        self._log.repair(Attempt.after(self._log.last_read, self._clock()))
        found = self.verify(recompute)
        for finding in found:
            if finding.table == CONTENT and self._graph.stage(finding.stage).kind.place is not None:
                raise CorruptStoreError(
                    f"source {finding.stage!r}: {finding.wrong}; {finding.mend}",
                    table=finding.stage,
                )
        versions = self._log.versions()
        return self._executor.repair(versions, found) if found else self._log.last_read

    def _refreshed(self, found: Stage | None) -> Version:
        head = self._log.head()
        if found is None:
            names = [producer.name for producer in self._graph.producers]
            return self._executor.update("refresh", head, refreshed=names)
        if found.kind.place is None:
            stage = self._producer(found.name)
            return self._executor.update("refresh", head, refreshed=[stage.name])
        readers = [producer.name for producer in self._graph.readers_of(found.name)]
        news = arrivals(self._graph.sources, head, self._tables, anew=found.name)
        mine = {found.name: news[found.name]}
        return self._executor.update("refresh", head, arrivals=mine, refreshed=readers)

    def _frame(
        self, rows: DataFrame | None, columns: Sequence[Column], in_order: Sequence[Column]
    ) -> DataFrame:
        if rows is None:
            struct = StructType([StructField(c.name, c.data_type) for c in columns])
            return self._spark.createDataFrame([], struct)
        found = rows.select(*cols(columns))
        return found.orderBy(*order(in_order)) if in_order else found

    def _version(self, version: int | None) -> Version:
        number = None if version is None else arguments.integer(version, "version")
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
            if not known[name].kind.takes_rows:
                raise InvalidChangesError(
                    f"changes are given for {name!r}, which is the Delta table "
                    f"{known[name].table!r}: change that; an update takes what is new in it",
                    source=name,
                )
        return [(known[name], given) for name, given in changes.items()]

    def _stage(self, stage: str | Stage, argument: str = "stage") -> Stage:
        """A stage by its name, or by a definition of it, which may have been made anew."""
        if isinstance(stage, str):
            return self._graph.stage(stage)
        if not is_stage(stage):
            raise InvalidArgumentError(
                f"{argument} is a {type(stage).__name__}; give a stage, or its name",
                argument=argument,
            )
        if (stage.name, stage.schema) not in ((own.name, own.schema) for own in self._defined):
            raise NotFoundError(
                f"{stage.name!r} is a stage of another pipeline, or was defined after the store "
                "was opened; give one of this store's, or a name"
            )
        return self._graph.stage(stage.name)

    def _source(self, source: str | Source, argument: str) -> Source:
        found = self._stage(source, argument)
        for known in self._graph.sources:
            if known is found:
                return known
        raise NotFoundError(
            f"{found.name!r} is no source: changes are given, and keys forgotten, there"
        )

    def _producer(self, stage: str | Stage) -> Stage:
        found = self._stage(stage)
        if not found.feeders:
            raise NotFoundError(
                f"{found.name!r} is a source: it has no produce function and no key mappings"
            )
        return found
