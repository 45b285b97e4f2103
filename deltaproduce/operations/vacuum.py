"""Vacuum: drops old versions, and then removes the files that only they needed.

The order makes sure that an interrupted vacuum leaves whole versions: it cuts the histories of
append-only tables, drops the versions from the version log, and then removes files and tables that
no version needs any more, and at last the oldest files of the tables' logs, which name these files.
The invariants: it removes no file that a kept version needs, by the log before or after the vacuum;
it removes nothing that this store has not written; and the next vacuum finds whatever is left,
because it looks by name for what exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from deltaproduce.model.graph import Graph
from deltaproduce.model.layouts import CONTENT
from deltaproduce.operations.publisher import Publisher
from deltaproduce.shown.table import Table as ShownTable
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.stages.sources.external.existing_tables import state
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.retention import pins
from deltaproduce.storage.decisions.trimming import Trim
from deltaproduce.storage.files import Unneeded, outdated, unneeded
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import StringType

_PATH: Final = Column("path", StringType())
_CENTURY_HOURS: Final = 876_000
"""An upper limit: no file is older, and Python has no times before the year 1."""


@dataclass(frozen=True, slots=True)
class Vacuumed(Tabular):
    """What a vacuum removed, or would remove.

    Attributes:
        versions: the numbers of the dropped versions.
        tables: the names of the tables that were removed with all their files.
        files: the number of files removed from other tables and from their logs.
        bytes: the bytes of these files.
        paths: for a dry run, these files, named as Spark names them, in order; otherwise empty.
    """

    versions: tuple[int, ...]
    tables: tuple[str, ...]
    files: int
    bytes: int
    paths: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return one_line(self, versions=len(self.versions), files=self.files, bytes=self.bytes)

    def as_tables(self) -> tuple[ShownTable, ...]:
        """The removed versions, tables and files."""
        rows = (
            ("versions", len(self.versions), ", ".join(map(str, self.versions))),
            ("whole tables", len(self.tables), ", ".join(self.tables)),
            ("other files", self.files, f"{self.bytes:,} bytes"),
        )
        return (ShownTable("vacuum", ("removed", "count", "which"), rows),)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "versions": list(self.versions),
            "tables": list(self.tables),
            "files": self.files,
            "bytes": self.bytes,
            "paths": list(self.paths),
        }


class Vacuum:
    """Vacuums one store.

    Args:
        unfinished_hours: files and tables of no version stay if they are younger than this.
    """

    def __init__(
        self,
        graph: Graph,
        tables: Tables,
        log: VersionLog,
        publisher: Publisher,
        unfinished_hours: float,
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._log = log
        self._publisher = publisher
        self._since = datetime.now(UTC) - timedelta(hours=min(unfinished_hours, _CENTURY_HOURS))

    def run(
        self, versions: Sequence[Version], kept: Sequence[Version], started_at: datetime
    ) -> Vacuumed:
        """Drop all but the newest versions, and remove what no version needs any more.

        Args:
            versions: all versions of the store, oldest first.
            started_at: the start of the vacuum, by the clock of the versions.

        Raises:
            ConflictError: another writer was faster; no version was dropped.
            SessionError: the vacuum needs Spark; it has not begun.
        """
        for stage, kind in _tables_of(versions):
            self._tables.maintenance.check_cleaned(self._tables.location.table(stage, kind))
        read = self._log.delta_version
        attempt = Attempt.dropping(versions[-1], started_at)
        after = self._publisher.retain(versions, kept, attempt)
        logs = frozenset(
            removable for removable in (read, self._log.delta_version) if removable is not None
        )
        files = size = 0
        for table, removable in self._unneeded((*kept, *after), logs):
            self._tables.maintenance.remove_files(table, removable.inventory)
            files, size = files + removable.files, size + removable.bytes
        removed = []
        for table in self._tables_left(after):
            self._tables.maintenance.drop(table)
            removed.append(table.name)
        for table, trim in self._outdated((*kept, *after), logs):
            self._tables.maintenance.remove_log_files(table, trim.names)
            files, size = files + len(trim.files), size + trim.bytes
        return Vacuumed(_numbers(versions, kept), tuple(removed), files, size)

    def foreseen(self, versions: Sequence[Version], kept: Sequence[Version]) -> Vacuumed:
        """Return what `run` would remove; write nothing.

        `run` may remove more files, which only the newest state of a table has: the files of an
        interrupted update, whose table is restored first, and those of the version log, which is
        rewritten.
        """
        read = self._log.delta_version
        files, size, paths = 0, 0, list[str]()
        logs = frozenset() if read is None else frozenset({read})
        for _, removable in self._unneeded(kept, logs):
            files, size = files + removable.files, size + removable.bytes
            named = self._tables.engines.table(removable.inventory, (_PATH,))
            paths += named.column(_PATH.name).to_pylist()
        for table, trim in self._outdated(kept, logs):
            files, size = files + len(trim.files), size + trim.bytes
            paths += self._tables.maintenance.named_log_files(table, trim.names)
        left = tuple(table.name for table in self._tables_left(kept))
        return Vacuumed(_numbers(versions, kept), left, files, size, tuple(sorted(paths)))

    def _unneeded(
        self, versions: Sequence[Version], logs: frozenset[int]
    ) -> Iterator[tuple[StoreTable, Unneeded]]:
        """Yield the files that no version needs, for each table that has such files.

        Args:
            logs: the delta versions of the version log that are read.
        """
        for table, needed in self._read_from(versions, logs):
            removable = unneeded(self._tables, table, needed, self._since)
            if removable is not None:
                yield table, removable

    def _outdated(
        self, versions: Sequence[Version], logs: frozenset[int]
    ) -> Iterator[tuple[StoreTable, Trim]]:
        """Yield the files that tables' logs can do without, for each table that has such files.

        What was committed since the oldest kept version stays in each log, so that a stream goes on
        that follows a table and has read that version.

        Args:
            versions: the kept versions.
            logs: as for `_unneeded`.
        """
        since = min(self._since, versions[0].committed_at or self._since)
        for table, needed in self._read_from(versions, logs):
            log_files = outdated(self._tables, table, needed, since)
            if log_files is not None:
                yield table, log_files

    def _read_from(
        self, versions: Sequence[Version], logs: frozenset[int]
    ) -> list[tuple[StoreTable, frozenset[int]]]:
        """Return the store's tables with the delta versions that versions are read from."""
        location = self._tables.location
        pinned = [
            (location.table(stage, kind), pins(versions, stage, kind))
            for stage, kind in _tables_of(versions)
        ]
        return [*pinned, (location.log(), logs)]

    def _tables_left(self, kept: Sequence[Version]) -> Iterator[StoreTable]:
        """Yield the store's tables that are in no version, and that no later version will write.

        A table is the store's if a commit says that an attempt made it under this name. A folder
        that holds other tables stays.
        """
        location, micros = self._tables.location, self._since.timestamp() * 1e6
        known = {location.table(stage, kind).name for stage, kind in _tables_of(kept)}
        known |= {
            location.table(stage.name, kind).name
            for stage in self._graph.stages
            for kind in stage.kind.tables
        }
        for table in self._tables.access.all_tables():
            if table.name in known or table == location.log():
                continue
            if table.in_catalog and state(self._tables, table) is None:  # such as a view
                continue
            commits = self._tables.reader.recent_commits(table, 0)
            attempts = (commit.attempt for commit in commits)
            is_ours = any(a is not None and a.table == table.name for a in attempts)
            if not is_ours or commits[0].micros >= micros:
                continue
            if not self._tables.maintenance.has_others(table):
                yield table


def _numbers(versions: Sequence[Version], kept: Sequence[Version]) -> tuple[int, ...]:
    """Return the numbers of the dropped versions."""
    return tuple(version.number for version in versions[: len(versions) - len(kept)])


def _tables_of(versions: Iterable[Version]) -> list[tuple[str, str]]:
    """Return the store's own tables that the versions need, by stage and kind."""
    tables = {
        (stage, kind)
        for version in versions
        for stage, figures in version.stages.items()
        for kind in figures.delta_versions
        if not (figures.origin.table and kind == CONTENT)
    }
    return sorted(tables)
