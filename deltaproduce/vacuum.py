"""Vacuum: old versions go, and then what only they were read from.

In this order, so that a vacuum that stops leaves whole versions: the histories of the tables that
rows are only added to are cut, the versions are dropped from the version log, and then files and
tables are removed that nobody reads any more. The invariant: no file is removed that a kept version
is read from, by what the log said of it before or says after; and what was not removed is found
again by the next vacuum, because it is looked for by name in what is there.

It stands apart from `retention`, which decides what is kept, and `files`, which finds what is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import functions as f

from deltaproduce.checkpoints import checkpoint
from deltaproduce.files import unneeded
from deltaproduce.locations import CONTENT, Table
from deltaproduce.publisher import Publisher, kinds
from deltaproduce.retention import pins
from deltaproduce.stages import Graph
from deltaproduce.tables import Tables
from deltaproduce.version_log import VersionLog
from deltaproduce.versions import Attempt, Version

_CENTURY_HOURS: Final = 876_000
"""No file is older; and Python has no times long before."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum has removed.

    Attributes:
        versions: the numbers of the versions that were dropped.
        tables: the names of the tables that were removed with all of their files.
        files: how many files were removed from other tables.
        bytes: how many bytes they had.
    """

    versions: tuple[int, ...]
    tables: tuple[str, ...]
    files: int
    bytes: int


class Vacuum:
    """Vacuums one store."""

    def __init__(self, graph: Graph, tables: Tables, log: VersionLog, publisher: Publisher) -> None:
        self._graph = graph
        self._tables = tables
        self._log = log
        self._publisher = publisher

    def run(
        self,
        versions: Sequence[Version],
        kept: Sequence[Version],
        started_at: datetime,
        unfinished_hours: float,
    ) -> Vacuumed:
        """Drop all versions but some of the newest, and remove what nobody reads any more.

        Args:
            versions: all of the store, oldest first.
            started_at: when, by the clock of the versions.
            unfinished_hours: files and tables of no version stay if they are younger.

        Raises:
            ConflictError: another writer was faster; no version was dropped.
        """
        log, read = self._tables.location.log(), self._log.delta_version
        attempt = Attempt.dropping(versions[-1], started_at)
        after = self._publisher.retain(versions, kept, attempt)
        stages = self._read_from((*kept, *after))
        logs = frozenset(found for found in (read, self._log.delta_version) if found is not None)
        since = datetime.now(UTC) - timedelta(hours=min(unfinished_hours, _CENTURY_HOURS))
        files = size = 0
        for table, needed in (*stages, (log, logs)):
            inventory, totals = checkpoint(
                unneeded(self._tables, table, needed, since),
                {"files": f.count("*"), "bytes": f.sum("length")},
            )
            if totals["files"]:
                self._tables.remove_files(table, inventory)
                files, size = files + totals["files"], size + totals["bytes"]
        dropped = tuple(version.number for version in versions[: len(versions) - len(kept)])
        return Vacuumed(dropped, tuple(self._remove_tables(after, since)), files, size)

    def _read_from(self, versions: Sequence[Version]) -> Iterator[tuple[Table, frozenset[int]]]:
        """The tables of some versions, each with the delta versions that they are read from."""
        for stage, kind in _tables_of(versions):
            yield self._tables.location.table(stage, kind), pins(versions, stage, kind)

    def _remove_tables(self, kept: Sequence[Version], since: datetime) -> Iterator[str]:
        """Remove the store's tables that are in no version, and that no next one will write."""
        location, micros = self._tables.location, since.timestamp() * 1e6
        known = {location.table(stage, kind).name for stage, kind in _tables_of(kept)}
        known |= {
            location.table(stage.name, kind).name
            for stage in self._graph.stages
            for kind in kinds(stage)
        }
        for table in self._tables.found():
            if table.name in known or table == location.log():
                continue
            commits = self._tables.recent_commits(table)
            is_ours = any(commit.attempt is not None for commit in commits)
            if is_ours and commits[0].micros < micros:
                self._tables.drop(table)
                yield table.name


def _tables_of(versions: Iterable[Version]) -> list[tuple[str, str]]:
    """The store's own tables, by stage and kind, that some versions are read from."""
    found = {
        (stage, kind)
        for version in versions
        for stage, figures in version.stages.items()
        for kind in figures.delta_versions
        if not (figures.table and kind == CONTENT)
    }
    return sorted(found)
