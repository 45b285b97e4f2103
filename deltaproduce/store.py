"""The store: what a user holds of a pipeline's tables.

A facade: each method says what it does, and hands on to the module of `operations` or `reading`
that does it. The invariant: whatever it reads is from one whole version, the head unless another is
named, whatever writers do meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from types import EllipsisType, MappingProxyType, TracebackType
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.datasets.staged import StageDataset, of_stage
from deltaproduce.engines.change_feed import FeedMode
from deltaproduce.errors import DefinitionError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.layouts import CONTENT
from deltaproduce.model.limits import Limits
from deltaproduce.operations import analysis
from deltaproduce.operations.step.plan import Policy, TableType
from deltaproduce.operations.streams import StreamWriter
from deltaproduce.operations.told.plans import Plan
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.verbs import forget, refresh, repair, rollback, tasks, update, vacuum
from deltaproduce.operations.verifying.findings import Finding
from deltaproduce.operations.writer import OnConflict, opened
from deltaproduce.pipeline import Pipeline
from deltaproduce.reading import changes as changes_between
from deltaproduce.reading import lineages, lookups, selects, stage_tables
from deltaproduce.reading.diffs import Diff, diff
from deltaproduce.reading.lineages import Lineage
from deltaproduce.reading.lookups import Lookup
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.overview import overview
from deltaproduce.reading.remains import Forgotten
from deltaproduce.reading.selects import Dialect
from deltaproduce.report import openlineage, writing
from deltaproduce.shown.phases import Progress
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.shown.tasks import Backfill, Run, Task
from deltaproduce.storage.parquet.lookups import Strategy
from deltaproduce.storage.versions import Version

_NOTHING_GIVEN: Final[Mapping[str, object]] = MappingProxyType({})


class Store(Tabular):
    """The tables of one pipeline at one location, and their versions.

    Opening a store reads no rows and writes nothing; the location is made by the first update. A
    store may be opened by many readers and writers; each version is published by one of them. After
    the last update, `close` it or leave its ``with`` block, so that what is done beside the
    versions comes to its end before Spark does.

    Args:
        spark: a session with Delta: `local_session()`, or a cluster's. None for a store without
            Spark, and without Java: it takes and gives pyarrow Tables, and does all on this
            machine; of rows beyond its ``limits`` it holds a part in memory at a time. What needs
            Spark is then a SessionError: a stage of SQL, a table of others, a catalog, a file
            system beside this machine's and object stores.
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
        limits: up to which sizes a step is done in which way; the defaults suit one machine.
        progress: called when a stage, or the commit, of an update starts, with each phase of it,
            and at the end. What it raises when something begins stops the update. If None, a line
            on standard error says what is done, in a terminal or a notebook, after two seconds;
            elsewhere nothing does.
        clock: gives the time of a version, with time zone.
        views: a schema, or ``catalog.schema``, in which each stage of the head has a view of its
            name, for who reads by SQL alone. They are replaced after each version, one by one, and
            brought to the head when the store is opened; so give it wherever versions are made. A
            source that is read in place has none. Costs some tenths of a second a version.

    Raises:
        SessionError: the session cannot work with Delta tables.
        DefinitionError: the location is none, or cannot hold a stage of that name, or is a schema
            that is not there and would be forgotten; or Spark refuses a query; or a stage cannot
            have a view, because there is a table or a view of its name that is not the store's.
        InvalidArgumentError: an argument is not of its type.
        ViewError: a view could not be brought to the head.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        location: str | os.PathLike[str],
        pipeline: Pipeline,
        *,
        table_type: TableType = "merge_on_read",
        policy: Policy = "auto",
        on_conflict: OnConflict = "raise",
        limits: Limits = Limits(),
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        views: str | None = None,
    ) -> None:
        self._writer = opened(
            spark,
            location,
            pipeline,
            table_type=table_type,
            policy=policy,
            on_conflict=on_conflict,
            limits=limits,
            progress=progress,
            clock=clock,
            views=views,
        )
        self._opened = self._writer.opened
        self._pipeline = pipeline.name
        self._in_session = partial(
            Store,
            location=self._opened.tables.location.address,
            pipeline=pipeline,
            table_type=table_type,
            policy=policy,
            on_conflict=on_conflict,
            limits=limits,
            progress=progress,
            clock=clock,
            views=views,
        )

    def __repr__(self) -> str:
        place = self._opened.tables.location.address
        return one_line(self, place, pipeline=self._pipeline)

    def as_tables(self) -> tuple[Table, ...]:
        """Its stages in the newest version that is known without a Spark job."""
        return (overview(self._opened, self._pipeline),)

    @property
    def head(self) -> Version:
        """The newest version, read anew each time; number 0 if there is none."""
        return self._opened.log.head().shown()

    def versions(self) -> list[Version]:
        """All published versions, oldest first."""
        return [version.shown() for version in self._opened.log.versions()]

    def update_ids(self) -> list[str]:
        """The ids under which updates were published, oldest first; of dropped versions too."""
        self._opened.log.versions()
        return list(self._opened.log.with_ids())

    def update(
        self,
        changes: Mapping[str, object] = _NOTHING_GIVEN,
        update_id: str | None = None,
        *,
        snapshots: Mapping[str, object] = _NOTHING_GIVEN,
        partitions: Mapping[str, object] = _NOTHING_GIVEN,
        as_of: date | str | EllipsisType | None = ...,
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
            snapshots: other sources -> all their rows, which become part of the same version; as
                for `load`.
            partitions: source -> partitions that are there, with or without rows: dates (also as
                text in ISO 8601) or whole numbers, of the column that windows are over; column ->
                partitions where they are over several; dicts of the columns that tasks read it by.
                Others are there once they have rows.
            as_of: the day that windows over dates end at, from now on, unless they have an end of
                their own; None lets them end at their newest partitions; ``...`` is as before. The
                tasks of a day that is named are made if the changes make them dirty.
            on_conflict: as for the store, this time; as the store was opened if None.

        Returns:
            The published version; the head if the changes change nothing and there is no update_id.
            The last of several where a window with ``max_partitions`` had to catch up.

        Raises:
            InvalidChangesError: before anything is written; also if what has changed in a table
                that is read in place cannot be known any more.
            ProducerError: a produce function failed; nothing is written.
            MissingPartitionsError: a window with ``on_missing="error"`` lacks some; nothing is
                written.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
            CorruptStoreError: tables or the version log were changed by someone else.
        """
        return update.update(
            self._writer, "update", changes, snapshots, update_id, on_conflict, partitions, as_of
        ).shown()

    def load(
        self,
        rows: Mapping[str, object],
        update_id: str | None = None,
        *,
        partitions: Mapping[str, object] = _NOTHING_GIVEN,
        as_of: date | str | EllipsisType | None = ...,
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
            partitions: as for `update`.
            as_of: as for `update`.
            on_conflict: as for `update`.

        Returns:
            The published version; the head if nothing differs and there is no update_id.

        Raises:
            InvalidChangesError: before anything is written.
            DeltaProduceError: as for `update`.
        """
        return update.update(
            self._writer, "load", {}, rows, update_id, on_conflict, partitions, as_of
        ).shown()

    def plan(
        self,
        given: Collection[str | Source] = (),
        *,
        snapshots: Collection[str | Source] = (),
        partitions: Mapping[str, object] = _NOTHING_GIVEN,
        as_of: date | str | EllipsisType | None = ...,
    ) -> Plan:
        """What an update would do, and why: nothing is computed, and nothing written.

        Print it for a table: the stages, with what differs of their definitions, and what could be
        read before and not after.

        Args:
            given: the sources that changes would be given for; or, as for `update`, a mapping of
                them to rows, whose keys are counted if they are Arrow Tables or lists of dicts.
            snapshots: those that all rows would be given of.
            partitions: as for `update`.
            as_of: as for `update`.

        Returns:
            For each stage that would be looked at, feeders first, how and why. A stage that is
            ``incremental`` is not reached after all if no key of its feeders turns out to have
            changed.

        Raises:
            NotFoundError: there is no such source.
            DefinitionError: as an update would.
        """
        return update.plan(self._writer, given, snapshots, partitions, as_of)

    def tasks(self, *, as_of: date | str | None = None) -> list[Task]:
        """The tasks that there are to be at a date: one for each partition of partitioned stages.

        Nothing is made. What each depends on is found from the text of its query; its state from
        the rows of these dependencies, which are read once.

        Args:
            as_of: a date or a time, in UTC if it says no zone; also as text in ISO 8601. The newest
                that tasks were made for if None.

        Raises:
            DefinitionError: a scope cannot be computed, or two make one partition.
            NotFoundError: no date is given, and no task was ever made.
        """
        return tasks.tasks(self._opened, as_of)

    def run(
        self,
        *,
        as_of: date | str,
        max_tasks: int | None = None,
        on_conflict: OnConflict | None = None,
        dry_run: bool = False,
    ) -> Run:
        """Make the tasks of a date that are missing or dirty, and have what they depend on.

        All that is known of tasks is in the store, so a run that was cut off is carried on by the
        next, and two at once publish no task twice. Up to 100 tasks become one version.

        Args:
            as_of: as for `tasks`.
            max_tasks: how many are made at most; all if None.
            on_conflict: as for the store, this time; tried again if None.
            dry_run: nothing is made or written, and what would be is told, for a date in the future
                too: ``done`` are the tasks that are missing or dirty and do not wait. Rows that are
                made again may dirty more of them.

        Raises:
            TasksFailedError: at the end, if tasks failed; with `run`. What they would have made is
                as it was, and what needs it waits.
            DeltaProduceError: as for `update`.
        """
        return tasks.run(self._writer, as_of, max_tasks, on_conflict, dry_run=dry_run)

    def backfill(
        self,
        stage: str | Stage,
        where: Mapping[str, object],
        downstream: Literal["all", "none"] | Collection[str] = "all",
        *,
        dry_run: bool = False,
    ) -> Backfill:
        """Make tasks again, and those that depend on them, whatever their rows; one version.

        Tasks that are not made stay clean, even if rows that they were made of change.

        Args:
            where: partition columns -> a value, or a list of values; all tasks that meet it.
            downstream: which stages that depend on it are made again, too: a task of theirs that
                depends on one that is made again, through these stages only.
            dry_run: nothing is made or written, and what would be is told.

        Returns:
            The tasks that are marked, as they were before, how many rows they had, and the number
            of the version that was published.

        Raises:
            InvalidArgumentError: another column is named, a stage that is not downstream, or no
                task meets it.
            ProducerError: a task failed; nothing is written.
        """
        return tasks.backfill(self._writer, stage, where, downstream, dry_run=dry_run)

    def refresh(self, stage: str | Stage | None = None) -> Version:
        """Produce a stage in full, and bring up to date what depends on it.

        For what the library cannot notice, such as a changed function that the stage's function
        calls; or for a table that is read in place and is not the same any more.

        Args:
            stage: a stage that is no source; all of them if None. All tasks of a partitioned stage
                are made again, and those that depend on them, as by `backfill`. Or a source that is
                read in place: then all rows of its table are taken as they are, what reads it is
                produced in full, and its updates begin anew, so `changes` cannot reach across.

        Raises:
            NotFoundError: there is no such stage, or it is a source whose rows are given.
            DefinitionError: it was made of rows that a source has forgotten (``expire="forget"``).
        """
        return refresh.refresh(self._writer, stage).shown()

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
        return rollback.rollback(self._writer, version).shown()

    def forget(self, source: str | Source, key: object) -> Forgotten:
        """Delete a key of a source, and what was made from it; say where it can still be read.

        The deletion is a version like that of an update. Rows that are made from other keys too are
        made again without this one.

        Args:
            key: as functions get it: bare if it has one column, else a tuple, named tuple or dict.

        Raises:
            NotFoundError: there is no such source.
            InvalidArgumentError: it is no key of the source's columns; or the source is a table
                that is read in place: delete the key there; or the source has forgotten its rows,
                and what was made of them stays.
            ProducerError: a produce function failed; nothing is written.
            ConflictError: another writer published first; nothing of this is visible.
            CommitUnknownError: it could not be found out whether the version was published.
        """
        return forget.forget(self._writer, source, key)

    def verify(self, recompute: bool | int = False) -> tuple[Finding, ...]:
        """Look for whatever is wrong with the head's tables; nothing is written.

        Whether its tables are there, readable and untouched by others, and have their columns;
        rows are numbered, counted and in order; key mappings are those of the content; updates are
        such as versions make, and come to the content; and the version log is whole. It reads all
        of every table, each three times at most. Without a session that is done on the driver.

        Args:
            recompute: call the functions too, and compare: for all keys if True; for so many
                source keys of each stage, drawn at random, if a number. A function that does not
                return the same for the same rows is found to differ.

        Returns:
            What is wrong, feeders first; nothing if all is right.

        Raises:
            SessionError: the store has none, and a stage has rows that Spark has marked as deleted.
        """
        return repair.verify(self._opened, recompute)

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
            SessionError: as for `verify`.
        """
        return repair.repair(self._writer, recompute).shown()

    def compact(self) -> None:
        """Put the rows of all tables in order now: runs into their tables, small files together.

        No version changes, and none is published. It happens by itself, beside the versions, when
        100 runs or small files have come together; this is for when there is time.

        Raises:
            ConflictError: another writer was faster; nothing is lost.
        """
        self._writer.compact()

    def wait(self) -> None:
        """Wait until nothing is done beside the versions any more.

        Call it before Spark is stopped, so that a compaction is not cut off, and done in vain.
        """
        self._writer.executor.wait()

    def close(self) -> None:
        """Wait until nothing is done beside the versions any more, and end the thread that does it.

        Versions can be read as before, by this store too; only what publishes versions, compacts or
        vacuums is refused from now on. Closing once more does nothing. ``with Store(…) as store:``
        closes it at the end.
        """
        self._writer.executor.close()

    def __enter__(self) -> Store:
        """Open already; see `close`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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

        Costs some Spark jobs a table (none without a session), and lists the files of every table.

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
            SessionError: the store has none, and only Spark can; no version was dropped.
        """
        return vacuum.vacuum(self._writer, keep_versions, keep_days, unfinished_hours, dry_run)

    def content(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """The rows of a source or stage.

        Args:
            version: of this version; of the head if None.
            ordered: sorted by key, source key and ``_ordinal``; otherwise in no order.

        Returns:
            Key columns, ``_source_<feeder's key column>``… (not for a source), ``_ordinal``, value
            columns; a pyarrow Table without a session, as of `key_mappings` and `updates`.

        Raises:
            NotFoundError: there is no such stage or version.
            CorruptStoreError: the table is not there, or not as the version has it. Files that are
                lost are Spark's own error, when the DataFrame is used.
        """
        return stage_tables.content(self._opened, stage, version, ordered)

    def key_mappings(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Which source key produced which target keys.

        Args:
            version: of this version; of the head if None.
            ordered: sorted by source key and key; otherwise in no order.

        Returns:
            ``_source_<feeder's key column>``…, key columns; distinct.

        Raises:
            NotFoundError: there is no such stage or version, or it is a source.
        """
        return stage_tables.key_mappings(self._opened, stage, version, ordered)

    def updates(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
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
        return stage_tables.updates(self._opened, stage, version, ordered)

    def dataset(self, stage: str | Stage, version: int | None = None) -> StageDataset:
        """The content of a stage as a data set, to be read: some partitions, or some files.

        For who prunes by columns, as the stage's definition says with ``stored=``; of other stages,
        which are stored by their key, too.

        Args:
            version: of this version; of the head if None.

        Returns:
            The reading half of a `Dataset`: ``location``, ``descriptor``, ``read``, ``files`` and
            ``partition``. What would write it is refused.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: it is a source that is read in place.
        """
        return of_stage(self._opened, stage, version)

    def sql_name(self, stage: str | Stage, table: str = CONTENT) -> str:
        """What one of the tables is called in SQL: ``f"SELECT * FROM {store.sql_name('totals')}"``.

        `sql` is the whole query for one version. By its name SQL reads what was written last, which
        may be of a version that is not published, or never will be. So bound updates by the version
        log, ``WHERE _version <= (SELECT max(number) FROM …)``, and read content and key mappings by
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
        return stage_tables.sql_name(self._opened, stage, table)

    def sql(
        self,
        stage: str | Stage,
        version: int | None = None,
        *,
        dialect: Dialect = "spark",
        table: str = CONTENT,
    ) -> str:
        """A query as text that has the rows of `content`, `key_mappings` or `updates`, exactly.

        For who reads without the library: paste it into Spark SQL or DuckDB, in parentheses as part
        of another query, or make a view of it. It has the same rows until a vacuum drops the
        version, whatever is written later. Nothing is read for ``spark``; for ``duckdb`` the names
        of files are read from Delta's log.

        Args:
            version: of this version; of the head if None.
            dialect: ``spark``: tables are read by ``VERSION AS OF``. ``duckdb``: as the Parquet
                files that they have, which takes no extension where they are in a directory, and
                ``httpfs`` where they are in an object store.
            table: ``content``, ``key_mappings`` or ``updates``.

        Returns:
            A SELECT statement, or one that begins with WITH; without a semicolon.

        Raises:
            NotFoundError: there is no such stage or version, or it is a source, which has no key
                mappings.
            InvalidArgumentError: there is no such table or dialect; the rows are those of a table
                that is read in place; or DuckDB cannot read them from files, because some are
                marked as deleted (copy on write, above 4,000,000 rows).
            CorruptStoreError: a table is not there, or not as the version has it.
        """
        return selects.sql(self._opened, stage, version, dialect, table)

    def create_view(self, stage: str | Stage, version: int) -> str:
        """Make a view of a stage at a version, ``<stage>__at_<version>``, beside those of the head.

        It is dropped by the vacuum that drops the version, and with the stage.

        Returns:
            Its whole name, for SQL.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: the store was opened without ``views``; or the source is a table
                that is read in place.
            DefinitionError: there is a table or a view of that name that is not the store's.
            ViewError: it could not be made.
        """
        return self._writer.view(stage, version)

    def changes(
        self,
        stage: str | Stage,
        since: int,
        until: int | None = None,
        mode: FeedMode = "net",
    ) -> DataFrame | pa.Table:
        """The rows that came and went between two versions, as Delta's change data feed has them.

        Rows of a key are compared as a multiset: where only their order changed, or the source keys
        that they come from, there is nothing to say. Rows that replace each other are an
        ``update_preimage`` and an ``update_postimage``; the rest is ``delete`` or ``insert``.

        The cost is that of the updates in between and of looking up the rows that their keys had.
        If the keys are few, one Spark job finds out which, at once; the rest waits for an action.
        Without a session all is done at once.

        Args:
            since: the version whose rows you have; 0 for none.
            until: the version whose rows you want; the head if None.
            mode: ``net`` for one difference between the two; ``complete`` for one a version.

        Returns:
            Key columns, value columns, ``_change_type``, ``_commit_version`` (of the version that
            changed the key, for ``net`` the last one), ``_commit_timestamp`` (when that was
            published); in no order. A pyarrow Table without a session.

        Raises:
            NotFoundError: there is no such stage or version, or a pipeline without the stage, or
                with other columns of it, made versions in between.
            InvalidArgumentError: ``since`` is after ``until``, or there is no such mode.
        """
        return changes_between.changes(self._opened, stage, since, until, mode)

    def diff(self, before: int, after: int | None = None, *, sample: int = 5) -> Diff:
        """How two versions differ: keys added, removed and changed of each stage, and some rows.

        The cost is that of the updates in between and of looking up the keys that they name. All
        rows of a stage are read only where its updates do not tell: they were begun anew, its
        columns are others, or it is a source that has forgotten rows.

        Args:
            before: the number of the version to start from; 0 for none.
            after: that of the one to come to, which may be older; the head if None.
            sample: so many keys of each sort are shown with their rows, the first ones; at most
                1,000.

        Returns:
            All stages of the pipeline, also those that are the same.

        Raises:
            NotFoundError: there is no such version.
            InvalidArgumentError: a number is none.
        """
        return diff(self._opened, before, after, sample)

    def lookup(
        self,
        stage: str | Stage,
        keys: object,
        *,
        version: int | None = None,
        strategy: Strategy = "auto",
        fetch: bool = False,
        ordered: bool = False,
    ) -> Lookup:
        """All rows of some keys of a stage.

        Where its files are seen without Spark, the row groups that may have a key are read, and no
        Spark job is run. The cost is that of these row groups (a *seek*), or of all (a *scan*).

        Args:
            keys: a DataFrame, a pyarrow Table or what else speaks Arrow, which has the key columns
                by name, in types that lose nothing; or a list of keys as functions get them. Equal
                keys count once; null is a value.
            version: in this version; in the head if None.
            strategy: ``auto`` seeks in a file while the keys that it may have are less than 30 % of
                its rows, and scans it above; ``seek`` and ``scan`` are forced. What cannot be
                sought is scanned whichever is asked for, and the answer says so: what only Spark
                reads, and keys of a type whose order the files do not tell.
            fetch: of an index, give the rows of its feeder that have the keys in it, of the same
                version; the strategy is for both.
            ordered: sort the rows by the table's order.

        Raises:
            NotFoundError: there is no such stage or version; or, with ``fetch``, the index was
                defined otherwise in it.
            InvalidArgumentError: the keys do not fit the stage's key columns; or, with ``fetch``,
                the stage is no index.
        """
        return lookups.lookup(
            self._opened, stage, keys, version, strategy, fetch=fetch, ordered=ordered
        )

    def lineage(self, stage: str | Stage, key: object, version: int | None = None) -> Lineage:
        """The keys that a key was made from, up to the sources, and those made from it.

        Args:
            key: as functions get it: bare if it has one column, else a tuple, named tuple or dict.
            version: in this version; in the head if None.

        Returns:
            Stage names -> DataFrames of keys, computed when they are used: those of the stage next
            to this one by looking the key up, those further away by a join with key mappings.
            Without rows if there is no such key. Without a session they are pyarrow Tables, for
            which keys are looked up at once.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: it is no key of the stage's columns.
        """
        return lineages.lineage(self._opened, stage, key, version)

    def report(
        self, path: str | os.PathLike[str], version: int | None = None, *, samples: int = 5
    ) -> Path:
        """Write a report of the store: one HTML file, which needs no network to be read.

        It draws the stages with what a version did to them, and why; all versions over time; and of
        each stage its columns, definition, tables and some of the rows that changed. Rows are in
        it, so give it to nobody who may not read them. Only sample rows are read, in Spark where
        they are not seen without it.

        Args:
            path: the file; one that is there is replaced.
            version: the stages are shown in this version; in the head if None.
            samples: so many rows at most of what a version changed in a stage; 0 for none.

        Returns:
            The path.

        Raises:
            NotFoundError: there is no such version.
            InvalidArgumentError: there is no directory for the file.
            CorruptStoreError: tables are not there, or not as the version has them.
        """
        return writing.written(
            self._opened, self._pipeline, path, version, samples, self._writer.clock()
        )

    def emit_openlineage(
        self,
        version: int | None = None,
        *,
        namespace: str = "deltaproduce",
        emit: Callable[[Any], object] | None = None,
    ) -> int:
        """Tell a catalog of lineage what a version did, as events of OpenLineage.

        There is an event of the pipeline, and one of each stage that the version touched: what it
        read and wrote, with columns, Delta's version and how many rows came. Events that are sent
        again are of the same runs. It needs the extra ``openlineage``.

        Args:
            version: the head if None.
            namespace: that of the jobs.
            emit: what sends an event; if None, a client as OpenLineage's own settings have it
                (the variable ``OPENLINEAGE_URL``, a file ``openlineage.yml``).

        Returns:
            How many events there were.

        Raises:
            NotFoundError: there is no such version.
            SyncError: the client is not installed, or events could not be sent. Nothing of the
                store depends on it.
        """
        number = None if version is None else arguments.integer(version, "version")
        jobs = arguments.text(namespace, "namespace")
        return openlineage.sent(self._opened, self._pipeline, number, jobs, emit)

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
        found = self._opened.source(source, "source")
        name = found.name if stream is None else arguments.text(stream, "stream")
        return StreamWriter(self._in_session, found.name, name)


def opened_by(store: Store) -> Opened:
    """What a store has open, for what is built on stores, such as `deltaproduce.sync`."""
    return store._opened


def refused(store: Store, pipeline: Pipeline) -> list[DefinitionError]:
    """Why a store's session refuses stages of another pipeline; nothing without a session.

    No row is read, and nothing is written.
    """
    tables = store._opened.tables
    return [] if tables.engines.session is None else analysis.refused(pipeline.graph(), tables)
