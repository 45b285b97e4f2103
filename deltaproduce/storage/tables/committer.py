"""The commits of versions: each edit of a table becomes one Delta commit, or an error.

An `Edit` changes a table in one Delta commit that carries its attempt. The invariant:
`Committer.commit` returns only if the table moved by exactly one commit, ours, from the delta
version that the write was computed from; compactions do not count, because they change no row.
Every other case is a `ConflictError`, or a `CorruptStoreError` if someone else has written to the
table. What was written then stays invisible, because readers resolve delta versions through the
version log. A commit of our own has the delta version that it was made for, or is refused. Of
others, the table's commits show which one is ours: each carries its attempt.

Only the engine knows Delta's syntax (`engines.spark.delta`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from deltaproduce.engines.delta.tables import TableWrite, Written, properties
from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import CorruptStoreError
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.decisions.recovery import current, landed, overtaken
from deltaproduce.storage.edits import Deletion, Edit, Restore
from deltaproduce.storage.failpoints import effect
from deltaproduce.storage.locations import README, README_TEXT, Location, StoreTable
from deltaproduce.storage.parquet import seeks
from deltaproduce.storage.tables.access import TableAccess
from deltaproduce.storage.tables.effects import TableEffects
from deltaproduce.storage.tables.reader import TableReader
from deltaproduce.storage.tables.writes import as_write
from deltaproduce.types.columns import Column

_ROLLED_BACK: Final = "deltaproduce.rolledBackBy"
"""The property that gives a table a new commit if it is already at the restored version."""


class Committer:
    """Commits to the tables of one store: what versions change, and what brings tables back."""

    def __init__(self, access: TableAccess, reader: TableReader, effects: TableEffects) -> None:
        self._access = access
        self._reader = reader
        self._effects = effects

    def commit(
        self, table: StoreTable, edit: Edit | Restore | Deletion, attempt: Attempt, base: int | None
    ) -> int:
        """Make one data commit and return the table's new delta version.

        Args:
            base: the delta version that the edit was computed from; None for a table that no
                version has pinned, which the edit overwrites.

        Raises:
            ConflictError: the table moved from ``base`` by more than this commit and compactions.
            CorruptStoreError: it did, and not by a store.
        """
        at, written = base, Written()
        if isinstance(edit, Edit) and edit.replaced is not None and base is not None:
            at = self._compacted(table, attempt, base)
        places = self._places(table, edit, at) if isinstance(edit, Edit) else None
        self._reader.forget(table)
        with self._effects.run("commit", table, attempt, base):
            match edit:
                case Edit():
                    # A new table, or one that a version pins, has the properties that tables get
                    # here. Any other may have any properties, and an overwrite would keep them.
                    is_known = base is not None or not self._reader.exists(table)
                    metadata = attempt.metadata(table.name)
                    write = as_write(edit, metadata, self._access, is_known=is_known)
                    write = replace(write, replaced=places, located_at=at)
                    written = self._access.delta.write(self._access.place(table), write)
                case Restore():
                    self._set_back(table, edit.delta_version, attempt, base)
                case Deletion():
                    metadata = attempt.metadata(table.name)
                    self._access.delta.delete(self._access.place(table), edit.predicate, metadata)
        if at is not None and written.delta_version == at + 1:
            return at + 1
        commits = self._reader.recent_commits(table, base)
        landed_commit = landed(attempt, base, commits)
        if landed_commit is not None and isinstance(edit, Restore):
            # A restore must directly follow its base, without even a compaction in between.
            landed_commit = landed_commit if landed_commit.delta_version - 1 == base else None
        if landed_commit is not None:
            # Tables may be compacted at any time, even by Delta right after a commit.
            return current(landed_commit.delta_version, commits) or landed_commit.delta_version
        unmoved = None if base is None else current(base, commits)
        if isinstance(edit, Deletion) and unmoved is not None:
            return unmoved  # no row matched
        raise overtaken(table.name, attempt, base, commits)

    def commit_fenced(
        self,
        table: StoreTable,
        rows: pa.Table,
        columns: Sequence[Column],
        attempt: Attempt,
        *,
        overwrite: bool = False,
    ) -> None:
        """Append to a table, or overwrite it; one commit per fencing token takes effect.

        Delta refuses a concurrent commit with the same token, and skips a later one silently; so
        the caller has to read the table's commits to find out which one took effect.

        Args:
            rows: a few rows.

        Raises:
            ConflictError: Delta refused the commit.
        """
        write = TableWrite(
            rows,
            tuple(columns),
            "overwrite" if overwrite else "append",
            attempt.metadata(table.name),
            fence=attempt.fencing_token,
        )
        with self._effects.run("drop versions" if overwrite else "publish", table, attempt):
            self._access.delta.write(self._access.place(table), write)

    def restore(self, table: StoreTable, delta_version: int, attempt: Attempt) -> int:
        """Restore a table that ran ahead to what the head pins; return its new delta version.

        The commit names its attempt, but does not count as part of the attempt's work.
        """
        restoring = replace(attempt, given=None, part=None)
        with self._effects.run("restore", table, restoring):
            self._set_back(table, delta_version, restoring, None)
        commits = self._reader.recent_commits(table, delta_version)
        for commit in commits:
            if commit.attempt == restoring:
                return commit.delta_version
        raise overtaken(table.name, restoring, delta_version, commits)

    def create(self, table: StoreTable, columns: Sequence[Column]) -> None:
        """Create an empty table if none exists, or only one that has no commit yet.

        Its files have no statistics: they would repeat long texts in the log, for each file twice.
        The store's folder gets its text, too, if it is seen without Spark.
        """
        with self._effects.run("create", table):
            wanted = properties((), marked=False)
            self._access.delta.create(self._access.place(table), columns, wanted)
            self._write_readme()

    def _write_readme(self) -> None:
        """Write the text of the store's folder where there is none, if it can be written."""
        directory = self._access.root.directory
        if directory is not None:
            with suppress(OSError):
                if not directory.exists(README):
                    directory.write(README, README_TEXT)

    def ensure_schema(self, location: Location | None = None) -> None:
        """Create the catalog's schema if it is missing; a path needs nothing.

        Args:
            location: a location other than the store's.
        """
        place = self._access.location if location is None else location
        if place.in_catalog:
            with effect("create schema", place.address):
                self._access.delta.spark.create_schema(place.address)

    def _compacted(self, table: StoreTable, attempt: Attempt, base: int) -> int:
        """Return a table's newest delta version if nothing but compactions came after ``base``.

        Raises:
            ConflictError, CorruptStoreError: something did.
        """
        if not self._reader.has_moved(table, base):
            return base
        commits = self._reader.recent_commits(table, base)
        compacted = current(base, commits)
        if compacted is None:
            raise overtaken(table.name, attempt, base, commits)
        return compacted

    def _places(self, table: StoreTable, edit: Edit, base: int | None) -> dict[str, Numbers] | None:
        """Return where the rows are that an edit replaces; None if it replaces none by pairs.

        Raises:
            CorruptStoreError: files of the table are gone or broken, or lack rows.
        """
        if edit.replaced is None:
            return None
        assert base is not None  # there are rows to replace
        files = self._reader.files(table, base)
        columns = [c for c in edit.columns if c.name in edit.replaced.column_names]
        ordered = edit.replaced.select([c.name for c in columns])
        lookup = [c for c in edit.lookup if c.name in ordered.column_names]  # some are values
        places = None
        if files is not None:
            places = seeks.places_of(files, ordered, columns, lookup, self._access.engines)
        if places is None or sum(map(len, places.values())) < len(edit.replaced):
            raise CorruptStoreError(
                f"table {table.name!r} lacks rows that a version has, because files of it were "
                "removed or changed by someone else; store.verify() says what else is wrong, "
                "store.repair() mends it",
                table=table.name,
            )
        return places

    def _set_back(
        self, table: StoreTable, delta_version: int, attempt: Attempt, base: int | None
    ) -> None:
        """Give a table the rows of an earlier delta version, in its own commit.

        Restoring a table to its current version makes no commit. Then a property is set instead,
        because a fold of a version that no longer counts may be under way, and must find that the
        table moved.
        """
        metadata = attempt.metadata(table.name)
        if base == delta_version:
            by = str(attempt.version)
            self._access.delta.set_property(self._access.place(table), _ROLLED_BACK, by, metadata)
        else:
            self._access.delta.restore(self._access.place(table), delta_version, metadata)
