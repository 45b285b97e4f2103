"""Deltas: which engine does what to a Delta table. The invariant: this is the only place to decide.

Delta-rs does what is small and on this machine, Spark does everything else. Commits of both follow
one another in any order: readers cannot tell them apart. Of a store without a session delta-rs does
all that it can. Files on this machine are found and removed by plain Python.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from deltaproduce.engines.choice import Engines, needs_spark
from deltaproduce.engines.delta_log import LEAST_COMMITS, newest_commits
from deltaproduce.engines.delta_tables import (
    BrokenLogError,
    DeltaTables,
    LoggedCommit,
    Place,
    Write,
)
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local import delta, files
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.engines.spark.file_systems import has_others
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column


class Deltas(DeltaTables):
    """Delta tables, by the engine that suits them."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._handles = Handles()

    @cached_property
    def spark(self) -> SparkDelta:
        """Spark, whatever table it is.

        Raises:
            SessionError: the store has no session.
        """
        return SparkDelta(self._engines.spark, self._engines.limits)

    def within(self, place: Place, directory: str | None) -> Place:
        """A place in a directory of this machine, if what is there can be done without Spark."""
        fits = directory is not None and delta.takes(directory)
        return replace(place, directory=directory) if fits else place

    def many_effects(self) -> AbstractContextManager[None]:
        """For an operation of many commits: the user's settings are read once, not for each."""
        return nullcontext() if self._engines.session is None else self.spark.many_effects()

    def exists(self, place: Place) -> bool:
        """See `DeltaTables.exists`."""
        known = None if place.directory is None else newest_commits(Path(place.directory))
        if known is not None:
            return bool(known)
        alone = self._alone(place)
        return self.spark.exists(place) if alone is None else bool(delta.history(alone, 1))

    def history(
        self, place: Place, limit: int = LEAST_COMMITS, since: int | None = None
    ) -> tuple[LoggedCommit, ...]:
        """See `DeltaTables.history`.

        Args:
            since: a delta version; all commits from it on are returned, as far as Delta keeps them.
        """
        known = None if place.directory is None else newest_commits(Path(place.directory), since)
        if known is not None:
            return known
        alone = self._alone(place)
        if alone is not None:
            return delta.history(alone, limit if since is None else None)
        found = self.spark.history(place, limit)
        if since is not None and found and found[-1].delta_version > since:
            return self.spark.history(place, found[0].delta_version - since + 1)
        return found

    def read(self, place: Place, delta_version: int | None = None) -> DataFrame:
        """See `DeltaTables.read`: in Spark."""
        return self.spark.read(place, delta_version)

    def schema(self, place: Place, delta_version: int) -> StructType:
        """The columns of a delta version."""
        alone = self._alone(place)
        if alone is not None:
            return delta.schema(alone, delta_version)
        return self.spark.read(place, delta_version).schema

    def files(self, place: Place, delta_version: int) -> tuple[str, ...] | None:
        """The files of a delta version, to be read without Spark; None if only Spark can.

        They are on this machine, and no row of theirs is deleted.

        Raises:
            BrokenLogError: the store has no session, and the log does not say them.
            SessionError: it has none, and only Spark can.
        """
        if place.directory is None:
            return None
        try:
            found = delta.files(place.directory, delta_version)
        except BrokenLogError:
            if self._alone(place) is not None:
                raise
            return None  # Spark is asked, and says what is wrong
        if found is None and self._alone(place) is not None:
            raise needs_spark()
        return found

    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        """See `DeltaTables.create`."""
        if place.directory is None:
            return self.spark.create(place, columns, properties)
        return delta.create(place.directory, arrow_schema(columns), properties)

    def write(self, place: Place, write: Write) -> None:
        """See `DeltaTables.write`."""
        alone, here = self._alone(place) is not None, place.directory
        if here is None or not delta.written(here, write, self._handles, alone=alone):
            self.spark.write(place, write)

    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """See `DeltaTables.delete`: in Spark, if there is a session."""
        alone = self._alone(place)
        if alone is None or not delta.deleted(alone, predicate, metadata):
            self.spark.delete(place, predicate, metadata)

    def restore(self, place: Place, delta_version: int, metadata: str) -> None:
        """See `DeltaTables.restore`."""
        if place.directory is None or not delta.restored(place.directory, delta_version, metadata):
            self.spark.restore(place, delta_version, metadata)

    def set_property(self, place: Place, name: str, value: str, metadata: str) -> None:
        """See `DeltaTables.set_property`."""
        if place.directory is not None:
            delta.set_property(place.directory, name, value, metadata)
        else:
            self.spark.set_property(place, name, value, metadata)

    def optimize(self, place: Place, *, in_order: bool = True) -> None:
        """See `DeltaTables.optimize`.

        Args:
            in_order: Spark does it, if there is a session: delta-rs does not keep the order.
        """
        here = self._alone(place) if in_order else place.directory
        if here is not None:
            delta.optimize(here)
        else:
            self.spark.optimize(place)

    def check_cleaned(self, place: Place) -> None:
        """Refuse a table whose files only Spark finds and removes.

        Raises:
            SessionError: the store has no session.
        """
        if self._engines.session is None and place.directory is None:
            raise needs_spark()

    def unneeded(
        self, place: Place, needed: Collection[int], unfinished_since: datetime
    ) -> pa.Table | None:
        """The files of a table that no version needs, as an inventory; None if Spark finds them.

        Spark finds those that are not on this machine, and says what is wrong with a broken log.

        Args:
            needed: the delta versions that are read, beside the newest one.
            unfinished_since: files that no commit names are found if they are older than this.

        Raises:
            BrokenLogError: the store has no session, and the log is gone, or does not say which
                files there are.
        """
        if place.directory is None:
            return None
        try:
            return files.unneeded(place.directory, needed, unfinished_since)
        except BrokenLogError:
            if self._alone(place) is not None:
                raise
            return None

    def remove_files(self, place: Place, inventory: Rows) -> None:
        """Remove files of a table, whatever Delta's retention says; those that it has now stay.

        Args:
            inventory: as `unneeded` gives it, or, in Spark, see `SparkDelta.remove_files`.
        """
        if place.directory is not None and isinstance(inventory, pa.Table):
            files.remove(place.directory, inventory.column("path").to_pylist())
        else:
            self.spark.remove_files(place, inventory)

    def drop(self, place: Place) -> None:
        """Remove a table with all of its files."""
        if place.directory is not None:
            files.remove_table(place.directory)
        else:
            self.spark.drop(place)

    def with_file(self, root: Place, file: str) -> tuple[str, ...]:
        """The directories two levels below another one that have a file.

        On this machine no Spark job, else one. Without a session those are not among them that only
        Spark takes.

        Args:
            file: its path from there.
        """
        if root.directory is None:
            return self.spark.with_file(root.address, "*/*", file)
        found = files.with_file(root.directory, file)
        return found if self._alone(root) is None else tuple(filter(delta.takes, found))

    def has_others(self, place: Place) -> bool:
        """Whether another Delta table, and so perhaps a store, is below a table's directory."""
        if place.directory is not None:
            return files.has_others(place.directory)
        return has_others(self._engines.spark, place.address)

    def _alone(self, place: Place) -> str | None:
        """The directory of a place where all is done here, because the store has no session."""
        return place.directory if self._engines.session is None else None
