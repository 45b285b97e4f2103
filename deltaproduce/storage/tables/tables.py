"""The tables of one store, as effects: each method of its parts is one read or one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaproduce.engines.choice import Engines
from deltaproduce.storage.locations import Location
from deltaproduce.storage.parquet.readings import Readings
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.committer import Committer
from deltaproduce.storage.tables.effects import TableEffects
from deltaproduce.storage.tables.maintenance import Maintenance
from deltaproduce.storage.tables.reader import TableReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Tables:
    """The tables of one store.

    Attributes:
        access: where they are.
        reader: what is read of them.
        committer: what versions change.
        maintenance: what changes no row.
    """

    def __init__(self, access: TableAccess) -> None:
        self.access = access
        self.reader = TableReader(access)
        effects = TableEffects(access, self.reader)
        self.committer = Committer(access, self.reader, effects)
        self.maintenance = Maintenance(access, effects)

    def in_session(self, session: SparkSession) -> Tables:
        """Return the same tables in another session of the same Spark; names mean the same."""
        return Tables(self.access.in_session(session))

    @property
    def engines(self) -> Engines:
        """The engines that read and write the tables."""
        return self.access.engines

    @property
    def location(self) -> Location:
        """Where the store is."""
        return self.access.location

    @property
    def spark(self) -> SparkSession:
        """The user's session; see `Engines.spark`."""
        return self.access.spark

    @property
    def readings(self) -> Readings:
        """What the driver has read of the tables' files."""
        return self.reader.readings
