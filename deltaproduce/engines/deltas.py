"""Deltas: which engine does what to a Delta table.

The invariant: only this module decides it. Delta-rs does small operations where its commits and
Spark's exclude each other; Spark does everything else. Commits of both follow one another in any
order: readers cannot tell them apart. In a store without a session, delta-rs does all that it can.
Where delta-rs may commit, plain Python finds and removes files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.choice import Engines, needs_spark
from deltaproduce.engines.delta.log import (
    LEAST_COMMITS,
    LogFiles,
    commit_file,
    log_files,
    newest_commits,
)
from deltaproduce.engines.delta.tables import (
    BrokenLogError,
    DeltaTables,
    LoggedCommit,
    Place,
    TableSize,
    TableWrite,
    Written,
)
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local import files
from deltaproduce.engines.local.delta import changes, reads, writes
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.local.marked import log_actions
from deltaproduce.engines.local.marked.optimizing import optimized
from deltaproduce.engines.local.marked.state import TableStates
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.engines.spark.file_systems import has_others, is_local
from deltaproduce.shown.phases import jobs_begin
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import StructType
from deltaproduce.types.excerpts import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Deltas(DeltaTables):
    """Delta tables, each handled by the engine that suits it."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._handles = Handles()
        self._states = TableStates()

    @property
    def spark(self) -> SparkDelta:
        """Spark, whatever the table.

        Raises:
            SessionError: the store has no session.
        """
        jobs_begin()
        return self._spark

    @cached_property
    def _spark(self) -> SparkDelta:
        return SparkDelta(self._engines.spark, self._engines.limits)

    def within(self, place: Place) -> Place:
        """Return a place with its directory, if Python sees the directory as the session does."""
        here, session = directory(place.address), self._engines.session
        if here is None or not here.is_taken:
            return place
        if session is not None:
            in_session = is_local(session, place.address)
            if not here.file_system.serves_sessions(is_local=in_session):
                return place
        return replace(place, directory=here)

    def unproven(self, root: Place) -> Directory | None:
        """Return the directory if delta-rs commits there and may not keep writers apart.

        None if it is known to keep them apart, or if Spark commits: that is Spark's concern.
        """
        here = self._here(root)
        return None if here is None or here.file_system.keeps_first else here

    def many_effects(self) -> AbstractContextManager[None]:
        """Return a context for many commits, in which the user's settings are read only once."""
        return nullcontext() if self._engines.session is None else self._spark.many_effects()

    @override
    def exists(self, place: Place) -> bool:
        here = self._here(place)
        known = None if here is None else newest_commits(here)
        if known is not None:
            return bool(known)
        alone = self._alone(place)
        return self.spark.exists(place) if alone is None else bool(reads.history(alone, 1))

    def marks_rows(self, place: Place) -> bool:
        """Return whether rows of a table can be replaced without Spark, by marking them."""
        here = self._here(place)
        if here is None:
            return False
        try:
            return self._states.newest(here).is_simple
        except BrokenLogError:
            return False

    def has_moved(self, place: Place, delta_version: int) -> bool:
        """Return whether a table may have a later commit; it has if the driver commits to it.

        Listing a log takes longer, the more commits it has.
        """
        here = self._here(place)
        return here is None or here.exists(commit_file(delta_version + 1))

    @override
    def history(
        self, place: Place, limit: int = LEAST_COMMITS, since: int | None = None
    ) -> tuple[LoggedCommit, ...]:
        """See `DeltaTables.history`.

        Args:
            since: a delta version; it and all later ones are returned, as far as Delta keeps them.
        """
        here = self._here(place)
        known = None if here is None else newest_commits(here, since)
        if known is not None:
            return known
        alone = self._alone(place)
        if alone is not None:
            return reads.history(alone, limit if since is None else None)
        commits = self.spark.history(place, limit)
        if since is not None and commits and commits[-1].delta_version > since:
            return self.spark.history(place, commits[0].delta_version - since + 1)
        return commits

    @override
    def read(self, place: Place, delta_version: int | None = None) -> DataFrame:
        """In Spark."""
        return self.spark.read(place, delta_version)

    def schema(self, place: Place, delta_version: int) -> StructType:
        """Return the columns of a delta version."""
        alone = self._alone(place)
        if alone is not None:
            return reads.schema(alone, delta_version, self._handles)
        return frame_struct(self.spark.read(place, delta_version))

    def table_id(self, place: Place) -> str | None:
        """Return Delta's id of a table; None without one. One Spark job if only Spark sees it."""
        if place.directory is not None:
            return reads.table_id(place.directory) if self.exists(place) else None
        detail = self.spark.describe(place)
        return None if detail is None else detail.id

    def files(self, place: Place, delta_version: int, *, ranges: bool = False) -> pa.Table | None:
        """Return the files of a delta version that are read without Spark; None if only Spark can.

        See `local.delta.reads.files`.

        Args:
            ranges: only ranges of columns that stand for whole numbers are needed, which is faster.

        Raises:
            BrokenLogError: the store has no session, and the log does not list the files.
            SessionError: the store has no session, and only Spark can read the files.
        """
        if place.directory is None:
            return None
        list_files = reads.ranges if ranges else reads.files
        try:
            listed = list_files(place.directory, delta_version, self._handles, self._states)
        except BrokenLogError:
            if self._alone(place) is not None:
                raise
            return None  # Spark is asked, and says what is wrong
        if listed is None and self._alone(place) is not None:
            raise needs_spark()
        return listed

    def size(self, place: Place, delta_version: int) -> TableSize | None:
        """Return the size of a delta version, from its log; None if only Spark can tell.

        Raises:
            BrokenLogError: the table does not exist, or not at that version.
        """
        if place.directory is None:
            return None
        return reads.size(place.directory, delta_version, self._handles)

    @override
    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        here = self._here(place)
        if here is None:
            return self.spark.create(place, columns, properties)
        return changes.create(here, arrow_schema(columns), properties)

    @override
    def write(self, place: Place, write: TableWrite) -> Written:
        alone, here = self._alone(place) is not None, self._here(place)
        large = isinstance(write.rows, pa.Table) and not self._engines.holds(write.rows)
        if here is not None:
            result = writes.written(
                here, write, self._handles, self._states, alone=alone, streamed=large
            )
            if result is not None:
                return result
        return self.spark.write(place, write)

    @override
    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """In Spark, if there is a session."""
        alone = self._alone(place)
        if alone is None or not changes.deleted(alone, predicate, metadata):
            self.spark.delete(place, predicate, metadata)

    @override
    def restore(self, place: Place, delta_version: int, metadata: str) -> None:
        here = self._here(place)
        if here is None or not changes.restored(here, delta_version, metadata, self._states):
            self.spark.restore(place, delta_version, metadata)

    @override
    def set_property(self, place: Place, name: str, value: str, metadata: str) -> None:
        here = self._here(place)
        if here is not None:
            changes.set_property(here, name, value, metadata)
        else:
            self.spark.set_property(place, name, value, metadata)

    @override
    def optimize(self, place: Place, *, in_order: bool = True) -> None:
        """See `DeltaTables.optimize`.

        Args:
            in_order: Spark does it if there is a session.
        """
        here = self._alone(place) if in_order else self._here(place)
        if here is not None:
            optimized(here, self._states)
        else:
            self.spark.optimize(place)

    def check_cleaned(self, place: Place) -> None:
        """Refuse a table whose files only Spark can find and remove.

        Raises:
            SessionError: the store has no session.
        """
        if self._engines.session is None and place.directory is None:
            raise needs_spark()

    def unneeded(
        self, place: Place, needed: Collection[int], unfinished_since: datetime
    ) -> pa.Table | None:
        """Return the files of a table that no version needs; None if Spark finds them.

        Spark finds files that are not accessible here, and says what is wrong with a broken log.

        Args:
            needed: the delta versions that are read, in addition to the newest.
            unfinished_since: a file that no commit names is returned if it is older than this.

        Returns:
            The files, as an inventory.

        Raises:
            BrokenLogError: the store has no session, and the log is gone, or does not list the
                files.
        """
        here = self._here(place)
        if here is None:
            return None
        try:
            return files.unneeded(here, needed, unfinished_since)
        except BrokenLogError:
            if self._alone(place) is not None:
                raise
            return None

    def remove_files(self, place: Place, inventory: Rows) -> None:
        """Remove files of a table, whatever Delta's retention is; the table's current files stay.

        Args:
            inventory: as `unneeded` returns it, or, in Spark, see `SparkDelta.remove_files`.
        """
        here = self._here(place)
        if here is not None and isinstance(inventory, pa.Table):
            files.remove(here, inventory.column("path").to_pylist())
        else:
            self.spark.remove_files(place, inventory)

    def log_files(self, place: Place) -> LogFiles | None:
        """Return the files of a table's log; None if Python does not remove files there.

        Raises:
            BrokenLogError: they cannot be listed.
        """
        here = self._here(place)
        try:
            return None if here is None else log_files(here)
        except OSError as error:
            raise BrokenLogError(one_line(error)) from error

    def may_begin(self, place: Place, checkpoint: int) -> bool:
        """Return whether a log may begin with a checkpoint, and lose the files before it.

        It may if the checkpoint lists the files that the commits up to it have left, and if no
        feature of the table protects its log. Only where `log_files` returns some.

        Raises:
            BrokenLogError: the log does not describe the table.
        """
        here = self._here(place)
        return (
            here is not None
            and reads.may_lose_commits(here)
            and log_actions.agrees(here, checkpoint)
        )

    def remove_log_files(self, place: Place, names: Sequence[str]) -> None:
        """Remove files of a table's log, one after the other. Only where `log_files` returns some.

        Args:
            names: files that the table's log can do without, in order.
        """
        here = self._here(place)
        if here is not None:
            files.remove_log_files(here, names)

    def drop(self, place: Place) -> None:
        """Remove a table and all of its files."""
        here = self._here(place)
        if here is not None:
            files.remove_table(here)
        else:
            self.spark.drop(place)

    def tables_below(self, root: Place) -> tuple[str, ...]:
        """Return the directories of Delta tables two levels below a root.

        One Spark job, or none if they are accessible without Spark.

        Returns:
            Their last two names.
        """
        here = self._here(root)
        if here is None:
            tables = self.spark.tables_below(root.address, "*/*")
            return tuple("/".join(path.split("/")[-2:]) for path in tables)
        return files.tables_below(here)

    def has_others(self, place: Place) -> bool:
        """Return whether another Delta table, and so perhaps a store, is below a table's."""
        here = self._here(place)
        if here is not None:
            return files.has_others(here)
        return has_others(self._engines.spark, place.address)

    def _here(self, place: Place) -> Directory | None:
        """Return the directory of a place where delta-rs may commit and Python may remove files."""
        here = place.directory
        if here is None or self._engines.session is None or here.file_system.has_safe_spark:
            return here
        return None

    def _alone(self, place: Place) -> Directory | None:
        """Return the directory of a place where all work is done here: the store has no session."""
        return place.directory if self._engines.session is None else None
