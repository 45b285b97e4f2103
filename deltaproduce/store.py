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
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from deltaproduce.engines.change_feed import FeedMode
from deltaproduce.errors import DefinitionError
from deltaproduce.model import arguments
from deltaproduce.model.checks.results import CheckResults
from deltaproduce.model.graph import Source, Stage
from deltaproduce.model.layouts import CONTENT
from deltaproduce.model.limits import Limits
from deltaproduce.operations import analysis
from deltaproduce.operations.making.options import OnConflict, StoreOptions
from deltaproduce.operations.reports.plans import Plan
from deltaproduce.operations.step.plan import Policy, TableType
from deltaproduce.operations.streams import StreamWriter
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.verbs import (
    backfill,
    check,
    forget,
    refresh,
    repair,
    rollback,
    tasks,
    update,
    vacuum,
)
from deltaproduce.operations.verifying.findings import Finding
from deltaproduce.operations.writer import defining, opened
from deltaproduce.pipeline import Pipeline
from deltaproduce.reading import changes as changes_between
from deltaproduce.reading import lineages, selects, stage_tables
from deltaproduce.reading.diffs import Diff, diff
from deltaproduce.reading.lineages import Lineage
from deltaproduce.reading.lookups import Lookup, LookupOptions, lookup
from deltaproduce.reading.overview import overview
from deltaproduce.reading.remains import Forgotten
from deltaproduce.reading.selects import Dialect
from deltaproduce.shown.explanations import Explanation
from deltaproduce.shown.phases import Progress
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.shown.tasks import Backfill, Run, Task
from deltaproduce.stages.kind import explanation
from deltaproduce.storage.parquet.lookups import Strategy
from deltaproduce.storage.versions import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaproduce.datasets.staged import StageDataset

_NOTHING_GIVEN: Final[Mapping[str, object]] = MappingProxyType({})


class Store(Tabular):
    """The tables of one pipeline at one location, and their versions.

    Opening a store reads no rows and writes nothing; the first update creates the location. Many
    readers and writers may open one store; one of them publishes each version. After the last
    update, call `close` or leave the ``with`` block, so that background work ends before Spark
    does.

    Args:
        spark: a session with Delta: `local_session()`, or a cluster's. None for a store without
            Spark and Java: it takes and returns pyarrow Tables, and does all work on this machine;
            beyond its ``limits`` it holds only a part of the rows in memory at a time. What needs
            Spark then raises a SessionError: a stage of SQL, a source that is an existing table, a
            catalog, a file system other than this machine's and object stores.
        location: a path (with a ``/`` or a scheme), otherwise ``schema`` or ``catalog.schema``. A
            relative path starts at the current directory. If the catalog is in memory, and so ends
            with the process, create the schema in this process.
        pipeline: its definitions so far; later ones do not count.
        table_type: how the store writes updates. ``copy_on_write``: content and key mappings are
            plain Delta tables at every version, for readers by path. ``merge_on_read``: it appends
            a small update of a large stage to a separate table of runs, which is faster where only
            Spark commits, as in a catalog; read such stages through a store. Updates tables, and
            all tables of a stage of up to 20,000 rows, are plain in both. You may open a store with
            another type than before: each stage changes when it is next written.
        policy: when the store may recompute a stage in full. ``auto``: if its definition changed,
            or if at least nine in ten of 50,000 or more rows that it reads belong to changed keys,
            of a view a fifth, because that is faster. ``incremental``: only if its definition
            changed. ``strict``: never; an update says so, and writes nothing; and a store does not
            open if a query of its pipeline has to run as a whole at each change (`explain`).
        on_conflict: what happens if another writer publishes first. ``raise``: a ConflictError.
            ``retry``: the store tries again on top of the other's version, up to 20 times, with
            growing waits.
        limits: the sizes up to which a step is done in which way; the defaults suit one machine.
        progress: called when a stage or phase of an update begins and ends, and at the end. If it
            raises an error when something begins, the update stops. If None, a line on standard
            error shows what an update is doing, after two seconds, in a terminal or a notebook
            only.
        clock: returns the time of a version, with time zone.
        views: a schema, or ``catalog.schema``, in which the store keeps a view of each stage at the
            head, for readers by SQL alone. It replaces the views after each version, one by one,
            and brings them to the head when it is opened; so pass this in every writer. A source
            that is read in place has no view. Costs some tenths of a second per version.
        time_zone: the time zone of the store, in which everything is computed that depends on one,
            whatever the zone of the session or the machine is: a region such as ``Europe/Paris``,
            or an offset such as ``+02:00``. If None, that of the newest version; of a new store the
            session's, or UTC without a session. If you name another one than before, the next
            version recomputes the stages that depend on it.

    Raises:
        SessionError: the session cannot work with Delta tables; or there is none, and a stage needs
            one; with `stage`. To read such a store without a session, use `open`.
        DefinitionError: the location is not valid, or cannot hold a stage of that name, or is a
            schema that does not exist or would not last; or Spark refuses a query; or a stage
            cannot have a view, because its name is taken by a table or view that is not the
            store's.
        InvalidArgumentError: an argument has the wrong type.
        ViewError: a view could not be brought to the head.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        location: str | os.PathLike[str],
        pipeline: Pipeline | None = None,
        *,
        table_type: TableType = "copy_on_write",
        policy: Policy = "auto",
        on_conflict: OnConflict = "raise",
        limits: Limits = Limits(),
        progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        views: str | None = None,
        time_zone: str | None = None,
    ) -> None:
        defined = defining(spark, location, pipeline)
        options = StoreOptions(
            table_type=table_type,
            policy=policy,
            on_conflict=on_conflict,
            limits=limits,
            progress=progress,
            clock=clock,
            views=views,
            time_zone=time_zone,
        )
        self._writer = opened(spark, location, defined, options)
        self._opened = self._writer.opened
        self._check_makes_all()
        self._pipeline = defined.name
        place = self._opened.tables.location.address
        self._in_session = partial(Store, location=place, pipeline=defined, **options.by_name())

    def _check_makes_all(self) -> None:
        """Refuse stages that need a session to be made, if there is none.

        Raises:
            SessionError: with `stage`.
        """
        for error in self._opened.needing.values():
            raise error

    def __repr__(self) -> str:
        place = self._opened.tables.location.address
        return one_line(self, place, pipeline=self._pipeline)

    def as_tables(self) -> tuple[Table, ...]:
        """Its stages at the newest version that is known without a Spark job."""
        return (overview(self._opened, self._pipeline),)

    @property
    def head(self) -> Version:
        """The newest version, read again at each access; its number is 0 if there is none."""
        return self._opened.log.head().shown()

    @property
    def time_zone(self) -> str:
        """The time zone in which the store computes."""
        self._opened.log.head()
        return self._opened.zone()

    def versions(self) -> list[Version]:
        """All published versions, oldest first."""
        return [version.shown() for version in self._opened.log.versions()]

    def update_ids(self) -> list[str]:
        """The update ids of all versions, oldest first, including those of dropped versions."""
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
        """Apply a batch of changes as one new version: all of it, or nothing.

        The update also takes what is new in existing Delta tables that are sources
        (`Pipeline.delta_source`).

        Args:
            changes: source name -> rows: a DataFrame of Spark, pandas or Polars, a pyarrow Table,
                RecordBatch or RecordBatchReader, any object with ``__arrow_c_stream__``, or a list
                of dicts. Rows have the source's key and value columns and, optionally,
                ``_change_type`` (``upsert``, the default, or ``delete``; the change types of
                Delta's change data feed work too) and ``_ordinal`` (orders the rows of a key;
                without it they keep their order). The rows of a key replace all rows that the key
                had; other keys stay as they are. Each DataFrame is computed once, each reader is
                read once.
            update_id: a name for this batch. If a version with this id exists, it is returned and
                the changes are ignored. So you can send a batch again, even after a vacuum has
                dropped the version, which then has no ``stages``. If an update with this id was
                interrupted, the same changes continue it, without running functions again for
                stages that are stored. Costs a Spark job per source whose rows are in Spark.
            snapshots: other sources -> all their rows, as for `load`, in the same version.
            partitions: source -> partitions to mark as present, with or without rows: dates (or
                text in ISO 8601) or whole numbers, of the column of its windows; column ->
                partitions if windows are over several columns; dicts of the columns by which tasks
                read it. Other partitions are present once they have rows.
            as_of: the day at which windows over dates end from now on, unless they have an end of
                their own; None ends them at their newest partitions; ``...`` changes nothing. If
                you give a day, tasks of that day run if the changes make them dirty. For tasks of
                hours give a time, in the store's time zone if it has none; windows end on its day.
            on_conflict: overrides the store's for this call; None does not.

        Returns:
            The published version; the head if the changes change nothing and there is no update_id.
            The last of several versions if a window with ``max_partitions`` had to catch up.

        Raises:
            InvalidChangesError: before anything is written; also if the changes of an existing
                table cannot be found any more.
            ProducerError: a function of a stage failed; nothing is written.
            MissingPartitionsError: partitions of a window with ``on_missing="error"`` are missing;
                nothing is written.
            ConflictError: another writer published first; nothing of this update is visible.
            CommitUnknownError: it is unknown whether the version was published.
            CorruptStoreError: someone else changed tables or the version log.
        """
        given = update.UpdateInput("update", changes, snapshots, update_id, partitions, as_of)
        return update.update(self._writer, given, on_conflict).shown()

    def load(
        self,
        rows: Mapping[str, object],
        update_id: str | None = None,
        *,
        partitions: Mapping[str, object] = _NOTHING_GIVEN,
        as_of: date | str | EllipsisType | None = ...,
        on_conflict: OnConflict | None = None,
    ) -> Version:
        """Load full snapshots of sources as one new version; the differences are its updates.

        Keys that a snapshot lacks are deleted; the others get its rows. So an empty snapshot
        deletes all rows of its source, and one that equals the content changes nothing. Sources
        without a snapshot stay as they are. The store compares content and snapshot in full, which
        sorts both, in Spark if they are large: if you know the changes, `update` is cheaper.

        Args:
            rows: source name -> all its rows; as for `update`, but without ``_change_type``. The
                order of a key's rows counts here too.
            update_id: as for `update`, with which it shares its ids.
            partitions: as for `update`.
            as_of: as for `update`.
            on_conflict: as for `update`.

        Returns:
            The published version; the head if nothing differs and there is no update_id.

        Raises:
            InvalidChangesError: before anything is written.
            DeltaProduceError: as for `update`.
        """
        given = update.UpdateInput("load", {}, rows, update_id, partitions, as_of)
        return update.update(self._writer, given, on_conflict).shown()

    def check(self) -> CheckResults:
        """Evaluate all checks over the head, now; nothing is written.

        A check that the head was made with has its rows at hand. One that is new runs its query
        over the head. The limits of what a version may delete or change are as the head records
        them.

        Returns:
            A `CheckResult` for each check and each limit, in order of definition.

        Raises:
            ProducerError: the query of a check fails; with `stage`, the check's name.
            NotFoundError: a new check reads a stage that has other columns in the head; the next
                update evaluates it.
        """
        return check.check(self._writer)

    def plan(
        self,
        given: Collection[str | Source] = (),
        *,
        snapshots: Collection[str | Source] = (),
        partitions: Mapping[str, object] = _NOTHING_GIVEN,
        as_of: date | str | EllipsisType | None = ...,
    ) -> Plan:
        """Show what an update would do, and why. It runs no stage, and writes nothing.

        Print the plan to see a table of the stages, how their definitions changed, and what could
        not be read any more after the update.

        Args:
            given: the sources to change; or, as for `update`, a mapping of them to rows, whose keys
                are counted if they are Arrow Tables or lists of dicts.
            snapshots: the sources to load in full; or, as for `update`, a mapping of them to rows,
                which are compared with the source's, at the cost of reading both: a source without
                a difference is not in the plan.
            partitions: as for `update`.
            as_of: as for `update`.

        Returns:
            For each stage that the update would process, feeders first, how and why. An
            ``incremental`` stage is not reached after all if no key of its feeders turns out to
            have changed.

        Raises:
            NotFoundError: there is no such source.
            InvalidChangesError: the rows of a snapshot are refused.
            DefinitionError: as for `update`.
            MissingPartitionsError: as for `update`, if no row that is given could bring them.
        """
        return update.plan(self._writer, given, snapshots, partitions, as_of)

    def tasks(self, *, as_of: date | str | None = None) -> list[Task]:
        """List the tasks that should exist at a date: one for each partition of partitioned stages.

        Nothing runs. The dependencies of a task are found from the text of its query, and its state
        from the rows of the dependencies, which are read once.

        Args:
            as_of: a date or a time, in the store's time zone if it has none; also as text in ISO
                8601. If None,
                the newest date for which tasks ran.

        Raises:
            DefinitionError: a scope cannot be computed, or two scopes make one partition.
            NotFoundError: no date is given, and no task ever ran.
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
        """Run the tasks of a date that are missing or dirty and whose dependencies are present.

        The store holds all state of tasks. So if a run is interrupted, the next one continues it,
        and two concurrent runs publish no task twice. Up to 100 tasks become one version.

        Args:
            as_of: as for `tasks`.
            max_tasks: the most tasks to run; all if None.
            on_conflict: overrides the store's for this call; if None, the store tries again.
            dry_run: run and write nothing, and return what would run, also for a date in the
                future: ``done`` lists the tasks that are missing or dirty and do not wait. Rows
                that are made again may make more of them dirty.

        Raises:
            TasksFailedError: at the end, if tasks failed; with `run`. Their partitions are
                unchanged, and tasks that need them wait.
            DeltaProduceError: as for `update`.
        """
        return tasks.run(self._writer, as_of, max_tasks, on_conflict, dry_run=dry_run)

    def backfill(
        self,
        stage: str | Stage,
        where: Mapping[str, object] | str,
        downstream: Literal["all", "none"] | Collection[str] = "all",
        *,
        atomic: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        """Run tasks again, and those that depend on them, whatever their state.

        Tasks that do not run stay clean, even if rows that they read change. Many tasks run in
        several versions, one after the other. The first one marks the tasks that are left: they
        are dirty, and if the backfill stops, or a task fails, the next `run` goes on with them.

        Args:
            where: partition columns -> a value, a list of values, or a tuple of the first and the
                last value; selects all tasks that match. Or a condition over the partition columns,
                in SQL.
            downstream: the downstream stages whose tasks run again too, if they depend on a task
                that runs again, through these stages only.
            atomic: make all tasks in one version, or none.
            dry_run: run and write nothing, and return what would run.

        Returns:
            The marked tasks as they were before, how many rows they had, and the number of the
            last published version.

        Raises:
            InvalidArgumentError: another column is named, or a stage that is not downstream, or no
                task matches.
            TasksFailedError: at the end, if tasks failed; with `run`. They stay marked.
            ProducerError: a task failed, and ``atomic`` is set; nothing is written.
        """
        return backfill.backfill(
            self._writer, stage, where, downstream, dry_run=dry_run, atomic=atomic
        )

    def refresh(self, stage: str | Stage | None = None) -> Version:
        """Recompute a stage in full, and update what depends on it.

        Use it for what the library cannot detect, such as a change in a function that the stage's
        function calls, or for a source whose Delta table was replaced.

        Args:
            stage: a stage that is not a source; None for all of them. For a partitioned stage, all
                its tasks run again, and those that depend on them, as for `backfill`. Or a source
                that is an existing Delta table: then all its rows are taken as they are, what reads
                it is recomputed in full, and its updates start again, so `changes` cannot reach
                across.

        Raises:
            NotFoundError: there is no such stage, or it is a source whose rows you give.
            DefinitionError: the stage was made of rows that a source has forgotten
                (``expire="forget"``).
        """
        return refresh.refresh(self._writer, stage).shown()

    def rollback(self, version: int, update_id: str | None = None) -> Version:
        """Publish a new version that equals an earlier one in every table of every stage.

        Its updates contain what it changes, as in every version. A stage that the earlier version
        did not have is empty afterwards; the next update computes it again. All versions stay, so
        you can roll back a rollback. Update ids stay used too.

        Args:
            version: the number of the version to restore; 0 for a store without rows.
            update_id: as for `update`, with which it shares its ids.

        Returns:
            The published version; the head if the earlier version has the same rows and there is no
            update_id.

        Raises:
            NotFoundError: there is no such version.
            DefinitionError: a stage had other columns or feeders in it.
            ConflictError: another writer published first; nothing of this rollback is visible.
            CommitUnknownError: it is unknown whether the version was published.
        """
        return rollback.rollback(self._writer, version, update_id).shown()

    def forget(self, source: str | Source, key: object) -> Forgotten:
        """Delete a key of a source and what was made from it; report where it can still be read.

        This publishes a version, like an update. Rows that are also made from other keys are
        computed again without this key.

        Args:
            key: as functions get it: the bare value of one column, or a tuple, named tuple or dict.

        Raises:
            NotFoundError: there is no such source.
            InvalidArgumentError: the key does not fit the source's columns; or the source is an
                existing Delta table: delete the key there; or the source has forgotten its rows,
                and what was made of them stays.
            ProducerError: a function of a stage failed; nothing is written.
            ConflictError: another writer published first; nothing of this deletion is visible.
            CommitUnknownError: it is unknown whether the version was published.
        """
        return forget.forget(self._writer, source, key)

    def verify(self, recompute: bool | int = False) -> tuple[Finding, ...]:
        """Check the head's tables for damage; nothing is written.

        It checks that tables exist, can be read, were not changed by others and have their columns;
        that rows are numbered, counted and in order; that key mappings match the content; that
        updates are valid, and give the content when folded; and that the version log is whole. It
        reads all rows of every table, at most three times each. Without a session the driver does
        this.

        Args:
            recompute: also call the functions, and compare: True for all keys, or a number of
                source keys for each stage, drawn at random. A function that does not return the
                same for the same rows is reported as different.

        Returns:
            What is wrong, feeders first; empty if nothing is.

        Raises:
            SessionError: the store has no session, and only Spark sees the files of a table.
        """
        return repair.verify(self._writer, recompute)

    def repair(self, *, recompute: bool | int = False) -> Version:
        """Publish a version that fixes what `verify` finds wrong with the head.

        It restores tables that others have committed to. It recomputes stages whose rows cannot be
        trusted from their feeders' content, takes those of a source from its updates, and updates
        what depends on them. It takes rows of a partitioned stage from the stage's updates. If
        those do not have them, the stage is empty, and the next run runs its tasks. The updates of
        the version are the difference to the updates before it. Only if these cannot be trusted,
        they start again with all rows, and `changes` does not reach across. A version log that
        others have changed is restored first.

        Args:
            recompute: as for `verify`.

        Returns:
            The published version; the head if nothing is wrong.

        Raises:
            CorruptStoreError: the rows of a source, or of the version log, are lost; it says what
                to do.
            ConflictError: another writer published first; nothing of this repair is visible.
            SessionError: as for `verify`; or a table has deletion vectors, which only Spark
                restores and writes.
        """
        return repair.repair(self._writer, recompute).shown()

    def compact(self) -> None:
        """Compact all tables now: fold runs into their tables, and merge small files.

        No version changes, and none is published. The store does this in the background when there
        are 100 runs or small files; call it when there is time.

        Raises:
            ConflictError: another writer was faster; nothing is lost.
        """
        self._writer.compact()

    def wait(self) -> None:
        """Wait until background work has ended.

        Call it before you stop Spark, so that a running compaction is not interrupted.
        """
        self._writer.computing.wait()

    def close(self) -> None:
        """Wait until background work has ended, and end its thread.

        You can still read versions with this store; whatever publishes versions, compacts or
        vacuums is refused from now on. You may call it again. ``with Store(…) as store:`` calls it
        at the end.
        """
        self._writer.computing.close()

    def __enter__(self) -> Store:
        """Return the store, which is open already; see `close`."""
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
        """Drop old versions, and remove the files that only they need.

        A version is kept if one of the two arguments keeps it; the newest always is. Kept versions
        can be read as before, also by readers that are reading one now. The updates of dropped
        versions are deleted from the updates tables, so `changes` reaches back to the oldest kept
        version. Their update ids stay known. A file that a kept version was read from until now is
        removed by the next vacuum. The oldest files of the tables' Delta logs go, too, up to a
        checkpoint from which all kept versions can be read. A vacuum removes only what the store
        has written, and does not follow symbolic links.

        Costs some Spark jobs per table (none without a session), and lists the files of every
        table.

        Args:
            keep_versions: the number of newest versions to keep.
            keep_days: keep the versions that were the newest at any time in the last ``keep_days``
                days.
            unfinished_hours: files and tables that belong to no version are left over from stopped
                writers, or are being written now: they are removed once they are this old. So are
                files of logs.
            dry_run: write and remove nothing; return what would be removed, with paths.

        Raises:
            InvalidArgumentError: both are None, or nothing would be kept, or one is not a number.
            ConflictError: another writer was faster; no version was dropped.
            CommitUnknownError: it is unknown whether versions were dropped.
            SessionError: the store has no session, and only Spark can do this; no version was
                dropped.
        """
        return vacuum.vacuum(self._writer, keep_versions, keep_days, unfinished_hours, dry_run)

    def content(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Read the rows of a source or stage.

        Args:
            version: the version to read; the head if None.
            ordered: sort by key, source key and ``_ordinal``; otherwise rows come in any order.

        Returns:
            Key columns, ``_source_<feeder's key column>``… (not for a source), ``_ordinal``, value
            columns. Without a session a pyarrow Table, also from `key_mappings` and `updates`.

        Raises:
            NotFoundError: there is no such stage or version.
            CorruptStoreError: the table does not exist, or is not as the version recorded it. If
                files are lost, Spark raises its own error when you use the DataFrame.
        """
        return stage_tables.content(self._opened, stage, version, ordered)

    def key_mappings(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Read which source key produced which target keys.

        Args:
            version: the version to read; the head if None.
            ordered: sort by source key and key; otherwise rows come in any order.

        Returns:
            ``_source_<feeder's key column>``…, key columns; distinct.

        Raises:
            NotFoundError: there is no such stage or version, or it is a source.
        """
        return stage_tables.key_mappings(self._opened, stage, version, ordered)

    def updates(
        self, stage: str | Stage, version: int | None = None, *, ordered: bool = False
    ) -> DataFrame | pa.Table:
        """Read what one version changed: each changed key with all its rows, or one ``delete`` row.

        Args:
            version: the version whose changes to read; the head if None.
            ordered: sort by key and ``_position``; otherwise rows come in any order.

        Returns:
            ``_version``, ``_change_type`` (``add``, ``update``, ``delete``), key columns,
            ``_position``, value columns (null in a ``delete`` row).

        Raises:
            NotFoundError: there is no such stage or version.
        """
        return stage_tables.updates(self._opened, stage, version, ordered)

    def dataset(self, stage: str | Stage, version: int | None = None) -> StageDataset:
        """Open the content of a stage as a read-only data set, to read some partitions or files.

        Use it to prune by the columns of the stage's ``stored=``. It also works for other stages,
        whose files are sorted by key.

        Args:
            version: the version to read; the head if None.

        Returns:
            A `Dataset` to read from: ``location``, ``descriptor``, ``read``, ``files`` and
            ``partition``. Methods that write are refused.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: it is a source that is read in place.
        """
        from deltaproduce.datasets.staged import of_stage

        return of_stage(self._opened, stage, version)

    def sql_name(self, stage: str | Stage, table: str = CONTENT) -> str:
        """Return the name of a table in SQL: ``f"SELECT * FROM {store.sql_name('totals')}"``.

        For a whole query of one version, use `sql`. By this name SQL reads the last commit, which
        may belong to a version that is not published, or never will be. So bound updates by the
        version log, ``WHERE _version <= (SELECT max(number) FROM …)``, and read content and key
        mappings with ``VERSION AS OF`` the result of `Version.delta_version`.

        Args:
            stage: a source or stage; or ``_versions``, the version log.
            table: ``content``, ``key_mappings``, ``updates`` or ``runs``.

        Returns:
            ``delta.`<absolute path>` ``, or the name in the catalog. The table exists once a
            version has written it.

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
        """Return a query that selects exactly the rows of `content`, `key_mappings` or `updates`.

        It is for readers without the library: paste it into Spark SQL or DuckDB, put it in
        parentheses in another query, or make a view of it. It selects the same rows until a vacuum
        drops the version, whatever is written later. For ``spark`` nothing is read; for ``duckdb``
        the names of files are read from Delta's log.

        Args:
            version: the version to read; the head if None.
            dialect: ``spark`` reads tables by ``VERSION AS OF``. ``duckdb`` reads their Parquet
                files, which needs no extension if they are in a directory, and ``httpfs`` if they
                are in an object store; a table with rows that are marked as deleted it reads by
                ``delta_scan``, which needs the extension ``delta``.
            table: ``content``, ``key_mappings`` or ``updates``.

        Returns:
            A statement that begins with SELECT or WITH; without a semicolon.

        Raises:
            NotFoundError: there is no such stage or version, or it is a source, which has no key
                mappings.
            InvalidArgumentError: there is no such table or dialect; the rows are those of an
                existing table that is read in place; or the text is for DuckDB, and only Spark
                finds the table.
            CorruptStoreError: a table does not exist, or is not as the version recorded it.
        """
        return selects.sql(self._opened, stage, version, dialect, table)

    def create_view(self, stage: str | Stage, version: int) -> str:
        """Create a view of a stage at a version, named ``<stage>__at_<version>``.

        The vacuum that drops the version drops the view. It is also dropped with its stage.

        Returns:
            Its full name, for SQL.

        Raises:
            NotFoundError: there is no such stage or version.
            InvalidArgumentError: the store was opened without ``views``; or the source is an
                existing table that is read in place.
            DefinitionError: the name is taken by a table or view that is not the store's.
            ViewError: the view could not be created.
        """
        return self._writer.view(stage, version)

    def changes(
        self,
        stage: str | Stage,
        since: int,
        until: int | None = None,
        mode: FeedMode = "net",
    ) -> DataFrame | pa.Table:
        """Read the rows that differ between two versions, in the form of Delta's change data feed.

        Rows of a key are compared as a multiset: a change of their order, or of their source keys
        alone, is no change. Rows that replace each other are an ``update_preimage`` and an
        ``update_postimage``; the others are ``delete`` or ``insert``.

        The cost is that of reading the updates in between and of looking up the old rows of their
        keys. If the keys are few, one Spark job finds them at once; the rest waits for an action.
        Without a session everything is computed at once.

        Args:
            since: the version whose rows you have; 0 for none.
            until: the version whose rows you want; the head if None.
            mode: ``net`` for one difference between the two; ``complete`` for one per version.

        Returns:
            Key columns, value columns, ``_change_type``, ``_commit_version`` (of the version that
            changed the key; with ``net`` the last one), ``_commit_timestamp`` (when it was
            published); in any order. A pyarrow Table without a session.

        Raises:
            NotFoundError: there is no such stage or version, or a version in between was made
                without the stage, or with other columns of it.
            InvalidArgumentError: ``since`` is after ``until``, or there is no such mode.
        """
        return changes_between.changes(self._opened, stage, since, until, mode)

    def diff(self, before: int, after: int | None = None, *, sample: int = 5) -> Diff:
        """Compare two versions: keys added, removed and changed of each stage, and some rows.

        The cost is that of reading the updates in between and of looking up the keys that they
        name. All rows of a stage are read only if its updates do not suffice: they started again,
        its columns differ, or it is a source that has forgotten rows.

        Args:
            before: the number of the version to start from; 0 for none.
            after: the number of the version to compare with, which may be older; the head if None.
            sample: show rows for the first keys of each sort, this many; at most 1,000.

        Returns:
            All stages of the pipeline, also those without a difference.

        Raises:
            NotFoundError: there is no such version.
            InvalidArgumentError: an argument is not a valid number.
        """
        return diff(self._opened, before, after, sample)

    def explain(self, name: str) -> Explanation:
        """Return how a stage is kept up to date: which operators a step computes, and how.

        It also has the hidden tables of each operator, with their sizes in the version that was
        read last. Reads nothing.

        Args:
            name: the stage's name.

        Raises:
            NotFoundError: there is no such stage.
        """
        return explanation(self._opened.stage(name, "name"), self._opened.log.last_read)

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
        """Look up all rows of some keys of a stage.

        If the files can be read without Spark, only row groups that may have a key are read,
        without a Spark job. The cost is that of these row groups (a *seek*), or of all (a *scan*).

        Args:
            keys: a DataFrame, a pyarrow Table or any object that speaks Arrow, with the key columns
                by name, in types that convert without loss; or a list of keys as functions get
                them. Equal keys count once; null is a value.
            version: the version to read; the head if None.
            strategy: ``auto`` seeks in a file while the keys that it may have are less than 30 % of
                its rows, and scans it otherwise; ``seek`` and ``scan`` force one. What cannot be
                sought is always scanned, and the result says so: what only Spark can read, and keys
                of a type whose order the files do not record.
            fetch: for an index, return the rows of its feeder that have the keys in it, at the same
                version; the strategy applies to both.
            ordered: sort the rows by the table's order.

        Raises:
            NotFoundError: there is no such stage or version; or, with ``fetch``, the index had
                another definition in it.
            InvalidArgumentError: the keys do not fit the stage's key columns; or, with ``fetch``,
                the stage is not an index.
        """
        options = LookupOptions(version=version, strategy=strategy, fetch=fetch, ordered=ordered)
        return lookup(self._opened, stage, keys, options)

    def lineage(self, stage: str | Stage, key: object, version: int | None = None) -> Lineage:
        """Find the keys that a key was made from, up to the sources, and those made from it.

        Args:
            key: as functions get it: the bare value of one column, or a tuple, named tuple or dict.
            version: the version to read; the head if None.

        Returns:
            Stage names -> DataFrames of keys, computed when you use them: keys of adjacent stages
            by a look-up, those further away by a join with key mappings. They are empty if there is
            no such key. Without a session they are pyarrow Tables, computed at once. If the
            session's time zone is not the store's, the DataFrames are in the session in which the
            store computes.

        Raises:
            NotFoundError: there is no such stage or version; or a stage on the way up is a view, of
                which no lineage is kept, or was defined otherwise in it. Views on the way down are
                left out.
            InvalidArgumentError: the key does not fit the stage's key columns.
        """
        computing, at = self._writer.computing, self._opened.version(version)
        with computing.keeping_active():
            store = computing.store(self._opened.zone.recorded(at))
            return lineages.lineage(store, stage, key, at)

    def report(
        self, path: str | os.PathLike[str], version: int | None = None, *, samples: int = 5
    ) -> Path:
        """Write a report of the store: one HTML file that opens without a network.

        It draws the stages with what a version did to them, and why; all versions over time; and
        for each stage its columns, definition, tables and some of the rows that changed. It
        contains rows, so share it only with people who may read them. Only sample rows are read,
        with Spark if they cannot be read without it.

        Args:
            path: the file; an existing one is replaced.
            version: show the stages at this version; the head if None.
            samples: at most this many rows of what a version changed in a stage; 0 for none.

        Returns:
            The path.

        Raises:
            NotFoundError: there is no such version.
            InvalidArgumentError: the file's directory does not exist.
            CorruptStoreError: tables do not exist, or are not as the versions recorded them.
        """
        from deltaproduce.report import writing

        return writing.written(
            self._opened, self._pipeline, path, version, samples, self._writer.options.clock()
        )

    def emit_openlineage(
        self,
        version: int | None = None,
        *,
        namespace: str = "deltaproduce",
        emit: Callable[[Any], object] | None = None,
    ) -> int:
        """Send what a version did to a catalog of lineage, as OpenLineage events.

        There is one event for the pipeline, and one for each stage that the version touched: what
        it read and wrote, with columns, Delta's version and the number of added rows. Events that
        you send again belong to the same runs. This needs the extra ``openlineage``.

        Args:
            version: the version to describe; the head if None.
            namespace: the namespace of the jobs.
            emit: called with each event; if None, a client with OpenLineage's own settings sends
                them (the variable ``OPENLINEAGE_URL``, a file ``openlineage.yml``).

        Returns:
            The number of events.

        Raises:
            NotFoundError: there is no such version.
            SyncError: the client is not installed, or events could not be sent. This does not
                affect the store.
        """
        number = None if version is None else arguments.integer(version, "version")
        jobs = arguments.text(namespace, "namespace")
        from deltaproduce.report import openlineage

        return openlineage.sent(self._opened, self._pipeline, number, jobs, emit)

    def stream_writer(self, source: str | Source, *, stream: str | None = None) -> StreamWriter:
        """Return a ``foreachBatch`` function that makes each micro-batch a version, exactly once.

        ``changes.writeStream.foreachBatch(store.stream_writer("orders")).start()``, with the
        columns that `update` takes. If Spark runs a micro-batch again, after a crash or a restart,
        it is published only if it was not before.

        Args:
            stream: a name for the stream, the same at each restart; the source's name if None. A
                stream that starts again without its old checkpoint needs another name.

        Raises:
            NotFoundError: there is no such source.
        """
        target = self._opened.source(source, "source")
        name = target.name if stream is None else arguments.text(stream, "stream")
        return StreamWriter(self._in_session, target.name, name)


def refused(store: Store, pipeline: Pipeline) -> list[DefinitionError]:
    """Why a store's session refuses stages of another pipeline; nothing without a session.

    No row is read, and nothing is written.
    """
    tables = store._opened.tables
    return [] if tables.engines.session is None else analysis.refused(pipeline.graph(), tables)
