"""Recorded stages: the stages of a store as its version log has them, without their pipeline.

A version records the columns of each stage, and the text of its definition, so its tables can be
read by who does not have the code. The invariant: a recorded stage has the columns of the newest
version that has it; what else its definition said is not known, so nothing can be computed by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltaproduce.errors import NotFoundError
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Graph, Producer, Source, Stage
from deltaproduce.model.kind import Intake, Kind
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader
from deltaproduce.reading.store_zone import StoreZone
from deltaproduce.shown.tabular import one_line
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version
from deltaproduce.types.columns import stored_key, stored_schema


@dataclass(frozen=True, slots=True, repr=False)
class _RecordedKind(Kind):
    """The kind of a stage of which only the tables are known.

    Attributes:
        origin: the path or name of the external table with its rows; empty if it has none.
    """

    origin: str
    has: tuple[str, ...]

    @property
    def word(self) -> str:
        """No kind of a definition."""
        return "recorded"

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it has in the newest version."""
        return self.has

    @property
    def intake(self) -> Intake:
        """With the external table of a source that is read in place."""
        return Intake(table=self.origin or None)


@dataclass(frozen=True, slots=True)
class RecordedStage:
    """A stage of a store, as the newest version that has it records it.

    Attributes:
        key: its key columns, as DDL; empty for a stage with one row over all.
        value: its value columns, as DDL.
        is_source: whether its rows are given, and not made from those of other stages.
        definition: the text of its definition; None if the store does not have it.
        version: the number of that version: the head's, unless the stage was removed.
    """

    name: str
    key: str
    value: str
    is_source: bool
    definition: str | None
    version: int

    def __repr__(self) -> str:
        return one_line(self, self.name, key=self.key, value=self.value)


def recorded(version: Version, name: str) -> RecordedStage:
    """Return what a version records of one of its stages."""
    columns, definition = version.stages[name].columns, version.definitions.get(name)
    key = ", ".join(column.ddl for column in stored_key(columns.key) if not column.is_hidden)
    is_source, text = _is_source(definition), None if definition is None else definition.text
    return RecordedStage(name, key, columns.value, is_source, text, version.number)


def newest_with(versions: Sequence[Version]) -> dict[str, Version]:
    """Return each stage that users have defined -> the newest version that has it.

    Those of the head come first, feeders before what reads them.

    Args:
        versions: all versions of a store, oldest first.
    """
    newest = dict[str, Version]()
    for version in reversed(versions):
        for name, figures in version.stages.items():
            if figures.columns.key and not figures.role:
                newest.setdefault(name, version)
    return newest


def opened_recorded(
    tables: Tables, log: VersionLog, reader: StageReader, zone: str | None = None
) -> Opened:
    """Return a store as reading operations use it, with the stages that its versions record.

    Args:
        zone: the time zone of the store; None for that of its newest version.

    Raises:
        NotFoundError: there is no store at this location.
    """
    versions = log.versions()
    if log.delta_version is None:
        raise NotFoundError(
            f"there is no store at {tables.location.address}: give the folder, or the schema, that "
            f"has its table {tables.location.log().name!r}"
        )
    stages = tuple(
        _stage(name, version.stages[name], version.definitions.get(name))
        for name, version in newest_with(versions).items()
    )
    zoned = StoreZone(log, zone, tables.engines.zone_of_session)
    engines = replace(tables.engines, zone=zoned)
    return Opened(engines, Graph(stages), stages, tables, log, reader, zoned)


def _stage(name: str, figures: StageFigures, definition: Fingerprint | None) -> Stage:
    """Return a stage that reading operations take for one of a pipeline."""
    schema = stored_schema(*figures.columns.own, stage=name)
    kind = _RecordedKind(figures.origin.table, tuple(figures.delta_versions))
    if _is_source(definition):
        return Source(name, schema, kind)
    source_key = stored_key(figures.columns.source_key)
    return Producer(name, (), schema, kind, had_source_key=source_key)


def _is_source(definition: Fingerprint | None) -> bool:
    return definition is not None and definition.is_of_source
