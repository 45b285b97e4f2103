"""Deltas: which engine does what to a Delta table. The invariant: this is the only place to decide.

Delta-rs does what is small and on this machine, Spark does everything else. Commits of both follow
one another in any order: readers cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta_log import LEAST_COMMITS, newest_commits
from deltaproduce.engines.delta_tables import DeltaTables, LoggedCommit, Place, Write
from deltaproduce.engines.local import delta
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column


class Deltas(DeltaTables):
    """Delta tables, by the engine that suits them."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @cached_property
    def spark(self) -> SparkDelta:
        """Spark, whatever table it is.

        Raises:
            SessionError: the store has no session.
        """
        return SparkDelta(self._engines.spark, self._engines.limits.plan_rows)

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
        return self.spark.exists(place) if known is None else bool(known)

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
        found = self.spark.history(place, limit)
        if since is not None and found and found[-1].delta_version > since:
            return self.spark.history(place, found[0].delta_version - since + 1)
        return found

    def read(self, place: Place, delta_version: int | None = None) -> DataFrame:
        """See `DeltaTables.read`: in Spark."""
        return self.spark.read(place, delta_version)

    def files(self, place: Place, delta_version: int) -> tuple[str, ...] | None:
        """The files of a delta version, to be read without Spark; None if only Spark can.

        They are on this machine, and no row of theirs is deleted.
        """
        return None if place.directory is None else delta.files(place.directory, delta_version)

    def create(
        self, place: Place, columns: Sequence[Column], properties: Mapping[str, str]
    ) -> None:
        """See `DeltaTables.create`."""
        if place.directory is None:
            return self.spark.create(place, columns, properties)
        return delta.create(place.directory, arrow_schema(columns), properties)

    def write(self, place: Place, write: Write) -> None:
        """See `DeltaTables.write`."""
        alone = self._engines.session is None
        if place.directory is None or not delta.written(place.directory, write, alone=alone):
            self.spark.write(place, write)

    def delete(self, place: Place, predicate: str, metadata: str) -> None:
        """See `DeltaTables.delete`."""
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

    def optimize(self, place: Place) -> None:
        """See `DeltaTables.optimize`: in Spark, if there is a session."""
        if self._engines.session is None and place.directory is not None:
            delta.optimize(place.directory)
        else:
            self.spark.optimize(place)
