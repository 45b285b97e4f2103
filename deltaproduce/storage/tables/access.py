"""How the tables of a store are reached: where each is, and what its log's damage is called.

A `Location` names a store's tables; this finds their directories, and the tables of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta.tables import BrokenLogError, Place
from deltaproduce.engines.deltas import Deltas
from deltaproduce.engines.paths import is_linked
from deltaproduce.engines.spark.delta import Detail
from deltaproduce.engines.spark.sessions.damage import tells_of_damage, unreadable
from deltaproduce.errors import CorruptStoreError, DeltaProduceError
from deltaproduce.storage.locations import Location, StoreTable
from deltaproduce.storage.parquet.files import unreadable_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableAccess:
    """The places of a store's tables, and the two engines that read and write Delta tables there.

    Args:
        current: the catalog and the schema that names of others' tables begin in; the session's
            current ones if None.
    """

    def __init__(
        self, engines: Engines, location: Location, current: tuple[str, str] | None = None
    ) -> None:
        self.engines = engines
        self.location = location
        self.delta = Deltas(engines)
        self._named_in = current

    def in_session(self, session: SparkSession) -> TableAccess:
        """Return the same tables in another session of the same Spark; names mean the same."""
        return TableAccess(replace(self.engines, session=session), self.location, self._current)

    @property
    def spark(self) -> SparkSession:
        """The user's session; see `Engines.spark`."""
        return self.engines.spark

    def existing(self, text: str) -> StoreTable:
        """Return a table of someone else, by its path or name.

        A name keeps the meaning that it has at the first call, when a store is opened.
        """
        table = StoreTable.existing(text)
        return table.within(*self._current) if table.in_catalog else table

    @cached_property
    def _current(self) -> tuple[str, str]:
        """The catalog and the schema that are current at the first call."""
        if self._named_in is not None:
            return self._named_in
        catalog = self.spark.catalog
        return catalog.currentCatalog(), catalog.currentDatabase()

    def place(self, table: StoreTable) -> Place:
        """Return a table's place; with its directory if it is the store's and seen."""
        return self._known(table.place) if self.location.has(table) else table.place

    def _known(self, place: Place) -> Place:
        """Return a place of the store's, with its directory if that is seen without Spark."""
        root = self.root.directory
        if root is None:
            return place
        inside = place.address.removeprefix(f"{self.location.address}/")
        return replace(place, directory=root.at(inside))

    @cached_property
    def root(self) -> Place:
        """The store's place; with its directory if that is seen without Spark."""
        place = self.location.place
        return place if place.in_catalog else self.delta.within(place)

    def seen(self, table: StoreTable) -> Place:
        """Return a table's place; with its directory if that is seen, also for a catalog table."""
        place = self.place(table)
        if place.in_catalog:
            return self.delta.within(Place(self.directory(table), in_catalog=False))
        return place

    def detail(self, table: StoreTable) -> Detail | None:
        """Return Delta's description of a table; None if there is no table. One Spark job."""
        return self.delta.spark.describe(table.place)

    def places(self, tables: Iterable[StoreTable]) -> dict[str, str]:
        """Return the directories of the tables that exist, by name.

        One Spark job for each table in a catalog.
        """
        directories = ((table.name, self._directory(table)) for table in tables)
        return {name: directory for name, directory in directories if directory is not None}

    def directory(self, table: StoreTable) -> str:
        """Return the directory of a table's files; one Spark job in a catalog.

        Raises:
            CorruptStoreError: there is no such table.
        """
        directory = self._directory(table)
        if directory is None:
            raise CorruptStoreError(f"there is no table {table.address}", table=table.name)
        return directory

    def _directory(self, table: StoreTable) -> str | None:
        if not table.in_catalog:
            return table.address
        detail = self.detail(table)
        return None if detail is None else detail.location

    def all_tables(self) -> tuple[StoreTable, ...]:
        """Return the tables in the place of the store's tables, whoever made them.

        No Spark job on a local file system, else one. Leaves out the tables of a store in a
        subfolder, and everything behind a link.
        """
        location = self.location
        if location.in_catalog:
            return tuple(map(location.named, self.delta.spark.tables_in(location.address)))
        tables = location.among(self.delta.tables_below(self.root))
        return tuple(t for t in tables if not is_linked(location.address, t.address))

    def many_effects(self) -> AbstractContextManager[None]:
        """Return a context for many effects, which reads the user's settings only once."""
        return self.delta.many_effects()

    @contextmanager
    def readable(self, table: StoreTable) -> Iterator[None]:
        """Turn damage of one of the store's logs into an error that names the table."""
        try:
            yield
        except BrokenLogError as error:
            raise self._unreadable(table, error) from error
        except Exception as error:
            if not self.location.has(table) or not tells_of_damage(error):
                raise
            raise unreadable(table.name, error) from error

    def _unreadable(self, table: StoreTable, error: BrokenLogError) -> DeltaProduceError:
        """Return the error for a log that cannot be read: it is damaged, or cannot be reached."""
        root = self.root.directory
        return unreadable_here(table.name, root, error.__cause__ or error)
