"""The version log: the table whose next commit is the only commit point of a store.

A version exists if and only if its row is in the log; everything written before is invisible. The
invariant: numbers are consecutive and each has one row. Every commit to the log carries a fencing
token, one more than the token of the newest commit that its writer had read, as ``txnVersion``
under one ``txnAppId``. If two writers have read the same state of the log, Delta refuses the second
commit while both are under way, and skips it silently afterwards; the writer finds out by reading
back. Most commits publish a version. A commit that drops versions carries a token, too, so a writer
that still builds on a dropped version cannot publish. The log is read only if nothing but the
attempts of stores has changed its rows.

The text of a definition is in the row of the first version whose tables were made by it. A version
without the text takes it from the version before, if the fingerprints are equal (decision 45).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.errors import CommitUnknownError, ConflictError, CorruptStoreError
from deltaproduce.model.arguments import FIRST_MOMENT, name_fault
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.hidden import hidden_name_fault
from deltaproduce.model.layouts import CONTENT, KINDS
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.recovery import compacted, conflict, foreign_commits
from deltaproduce.storage.figures import RecordedFigures, figures_from_json, figures_to_json
from deltaproduce.storage.locations import Location
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import EMPTY, Version
from deltaproduce.types.atoms import arrow_schema
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import (
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_FINGERPRINT: Final = StructType(
    [StructField("layout", StringType()), StructField("function", StringType())]
)
_COLUMNS: Final = (
    Column("number", LongType()),
    Column("committed_at", TimestampType()),
    Column("operation", StringType()),
    Column("update_id", StringType()),
    Column("fingerprints", MapType(StringType(), _FINGERPRINT)),
    Column("tables", MapType(StringType(), LongType())),
    Column("figures", StringType()),
    Column("attempt", StringType()),
)


class VersionLog:
    """The published versions of one store."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._table = tables.location.log()
        self._known: tuple[Version, ...] = ()  # dropped versions have no stages
        self._read: int | None = None

    def versions(self) -> tuple[Version, ...]:
        """Return all kept versions, oldest first.

        If nothing is new, this costs one Spark job, or none for a store on a local file system.

        Raises:
            CorruptStoreError: a number is missing or appears twice, or no store has written the
                rows.
        """
        commits = self._commits()
        if commits and commits[0].delta_version != self._read:
            self._read_rows(commits)
        return _kept(self._known)

    def head(self) -> Version:
        """Return the newest version, read now; the empty one if there is none."""
        self.versions()
        return self.last_read

    @property
    def last_read(self) -> Version:
        """The newest version as of the last read."""
        return self._known[-1] if self._known else EMPTY

    def with_ids(self) -> dict[str, Version]:
        """Return all versions with an update id as of the last read.

        Dropped versions have no stages.
        """
        return {v.update_id: v for v in self._known if v.update_id is not None}

    def check_published(self, number: int) -> None:
        """Refuse a log that lacks a version which a table shows was published.

        Raises:
            CorruptStoreError: its row is lost.
        """
        if self.head().number < number:
            raise self._damaged(f"version {number}, which tables were written after, is gone", None)

    def publish(self, version: Version, attempt: Attempt) -> None:
        """Make a version visible: the commit point.

        Raises:
            ConflictError: another writer has published.
            CommitUnknownError: the commit failed, and so did reading back whether it took effect.
        """
        if not self._known:
            self._tables.committer.create(self._table, _COLUMNS)
        before = self.last_read
        row = self._row(version, attempt, before)
        published = self._commit([row], attempt, overwrite=False)
        if self._read in (None, published - 1):
            stamped = replace(version, fencing_token=attempt.fencing_token)
            self._known = (*self._known, _with_texts(stamped, before))
            self._read = published

    def rewrite(self, versions: Sequence[Version], attempt: Attempt) -> None:
        """Keep exactly these versions, as given, and only the update ids of all others.

        Args:
            versions: the newest versions, oldest first.

        Raises:
            DeltaProduceError: as for `publish`.
        """
        dropped = [version for version in self._known if version.number < versions[0].number]
        kept = [
            self._row(version, version.attempt or attempt, before)
            for before, version in pairwise((EMPTY, *versions))
        ]
        remembered = [_remembered(version) for version in dropped if version.update_id is not None]
        self._commit([*remembered, *kept], attempt, overwrite=True)
        self.versions()

    @property
    def store_id(self) -> str | None:
        """The identity of this store, wherever it is; None before the first version.

        It is Delta's id of the log; a copy of the store's files has the same id.
        """
        return self._tables.reader.table_id(self._table)

    @property
    def delta_version(self) -> int | None:
        """The delta version of the log, as of the last read; None if there was no log."""
        return self._read

    def repair(self, attempt: Attempt) -> None:
        """Restore a log that someone else has changed to its state after the stores' last commit.

        Raises:
            CorruptStoreError: no delta version is known to be right.
        """
        try:
            self.versions()
        except CorruptStoreError:
            commits = self._tables.reader.recent_commits(self._table, 0)
            ours = next((c.delta_version for c in commits if c.attempt is not None), None)
            if ours is None or not foreign_commits(commits, ours):
                raise
            self._check_rows(self._rows(ours), None)
            self._known, self._read = (), None
            self._tables.committer.restore(
                self._table, ours, replace(attempt, fencing_token=_fencing_token(commits))
            )
            self.versions()

    def _read_rows(self, commits: Sequence[Commit]) -> None:
        """Read what is new in the log, or all of it if more than that has changed.

        Args:
            commits: the log's last commits, newest first; all since the last read.
        """
        newest, known = commits[0].delta_version, [*self._known]
        if (
            self._read is None
            or _lacks(commits, self._read)
            or foreign_commits(commits, self._read)
            or self._was_rewritten(commits)
        ):
            known = []
        last = known[-1].number if known else 0
        for version in self._rows(newest, last):
            known.append(_with_texts(version, known[-1] if known else EMPTY))
        ours = next((c.delta_version for c in commits if c.attempt is not None), 0)
        foreign = foreign_commits(commits, ours)
        if foreign and (*known,) != self._rows(ours):
            raise self._damaged(
                f"delta version {foreign[-1].delta_version} of it is a {foreign[-1].operation} by "
                "no store",
                ours,
            )
        self._check_rows(known, ours if foreign else None)
        token = _fencing_token(commits)
        self._known = (
            *known[:-1],
            *(replace(version, fencing_token=token) for version in known[-1:]),
        )
        self._read = newest

    def _was_rewritten(self, commits: Sequence[Commit]) -> bool:
        """Return whether versions were dropped since the last read."""
        later = (c.attempt for c in commits if self._read is None or c.delta_version > self._read)
        last = self.last_read.number
        return any(attempt is not None and attempt.version <= last for attempt in later)

    def _commit(self, rows: list[Mapping[str, Any]], attempt: Attempt, *, overwrite: bool) -> int:
        """Commit to the log, again if it was compacted meanwhile; return the new delta version."""
        table = pa.Table.from_pylist(rows, arrow_schema(_COLUMNS))
        while True:
            read, failure = self._read, None
            try:
                self._tables.committer.commit_fenced(
                    self._table, table, _COLUMNS, attempt, overwrite=overwrite
                )
            except Exception as error:  # noqa: BLE001 whatever it was, it may have come too late
                failure = error
            delta_version = self._committed_by(attempt)
            if delta_version is not None:
                return delta_version
            if failure is not None and not isinstance(failure, ConflictError):
                raise failure
            self.versions()  # raises if someone else has changed the log
            commits = self._tables.reader.recent_commits(self._table, read)
            if read is None or not compacted(read, commits):
                raise conflict(self._table.name, attempt, commits) from failure

    def _commits(self) -> tuple[Commit, ...]:
        """Return the log's last commits, newest first, with one of ours; none without a log."""
        commits = self._tables.reader.recent_commits(self._table, self._read)
        if self._read is not None and (not commits or commits[0].delta_version < self._read):
            state = f"delta version {commits[0].delta_version}" if commits else "no table"
            raise self._damaged(f"it has {state}, and was read at {self._read}", None)
        if all(commit.attempt is None for commit in commits):
            return self._tables.reader.recent_commits(self._table, 0)
        return commits

    def _rows(self, delta_version: int, after: int | None = None) -> tuple[Version, ...]:
        """Return the versions in the log, oldest first; one Spark job if it is not local.

        Args:
            after: only versions with larger numbers.
        """
        rows = self._tables.reader.rows(self._table, delta_version, _COLUMNS)
        if after is not None:
            rows = rows.filter(pc.greater(rows.column("number"), pa.scalar(after, pa.int64())))
        try:
            versions = map(_version, rows.to_pylist(maps_as_pydicts="strict"))
            return tuple(sorted(versions, key=lambda version: version.number))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise self._damaged(f"a row of it is none of a store's ({error})", None) from error

    def _damaged(self, finding: str, good: int | None) -> CorruptStoreError:
        """Return the error for a log that someone else has changed.

        Args:
            good: the delta version after the stores' own commits; None if unknown.
        """
        back = f"RESTORE TABLE {self._table.sql} TO VERSION AS OF {good}"
        mend = (
            "restore the table from a backup"
            if good is None
            else f"store.repair() sets it back, or {back}"
        )
        return CorruptStoreError(
            f"the version log {self._table.address} was changed by someone else: {finding}; {mend}",
            table=self._table.name,
        )

    def _committed_by(self, attempt: Attempt) -> int | None:
        """Return the delta version of an attempt's commit, read back; None if it made none."""
        read = -1 if self._read is None else self._read  # there was no log: it is all new
        try:
            commits = self._tables.reader.recent_commits(self._table, max(read, 0))
        except Exception as error:
            raise self._unknown(attempt, "cannot be read") from error
        delta_version = next((c.delta_version for c in commits if c.attempt == attempt), None)
        if delta_version is None and _lacks(commits, read):
            raise self._unknown(attempt, "has lost its commits of that time to a vacuum")
        return delta_version

    def _unknown(self, attempt: Attempt, why: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"whether version {attempt.version} was published is unknown: the version log "
            f"{self._table.address} {why}; read the head again before repeating it"
        )

    def _row(self, version: Version, attempt: Attempt, before: Version) -> dict[str, Any]:
        """Return a version as a row of the log.

        Args:
            before: the version of the row before.
        """
        location = self._tables.location
        return {
            "number": version.number,
            "committed_at": version.committed_at,
            "operation": version.operation,
            "update_id": version.update_id,
            "fingerprints": {
                name: {"layout": definition.layout, "function": definition.function}
                for name, definition in version.definitions.items()
            },
            "tables": {
                (
                    figures.origin.table
                    if figures.origin.table and kind == CONTENT
                    else location.table(stage, kind).name
                ): delta_version
                for stage, figures in version.stages.items()
                for kind, delta_version in figures.delta_versions.items()
            },
            "figures": figures_to_json(
                version.stages,
                version.windows,
                _new_texts(version, before),
                version.time_zone,
                version.seconds,
                version.checks,
            ),
            "attempt": attempt.id,
        }

    def _check_rows(self, known: Sequence[Version], good: int | None) -> None:
        """Refuse numbers that are not consecutive, and names that lead out of the store.

        Most versions have the names of the one before, which are looked at once.
        """
        fine = set[object]()
        for version in known:
            names = tuple((stage, *each.delta_versions) for stage, each in version.stages.items())
            if names in fine:
                continue
            fault = _fault_of_names(version, self._tables.location)
            if fault is not None:
                raise self._damaged(f"version {version.number} has {fault}", good)
            fine.add(names)
        numbers = [version.number for version in _kept(known)]
        expected = list(range(numbers[0], numbers[0] + len(numbers))) if numbers else []
        if numbers != expected:
            wrong = next(a for a, b in zip(numbers, expected, strict=True) if a != b)
            raise self._damaged(f"numbers must be consecutive, and it goes wrong at {wrong}", good)


def _lacks(commits: Sequence[Commit], read: int) -> bool:
    """Return whether commits after a delta version are gone from the log.

    Args:
        commits: the last ones, newest first; all since then, as far as the log has them.
    """
    return bool(commits) and commits[-1].delta_version > read + 1


def _kept(versions: Sequence[Version]) -> tuple[Version, ...]:
    """Return the versions without dropped ones, of which the log has only the update ids."""
    return tuple(version for version in versions if version.stages)


def _version(row: Mapping[str, Any]) -> Version:
    """Parse a row of the log; someone else may have written anything that its columns can hold."""
    number, at, fingerprints = row["number"], row["committed_at"], row["fingerprints"] or {}
    if None in (number, at, *fingerprints.values()) or at < FIRST_MOMENT:
        raise CorruptStoreError(
            f"the version log has a row that no store has written, of number {number!r}; "
            "store.repair() sets it back, or restore the table from a backup",
            table="_versions",
        )
    figures = row["figures"]
    known = RecordedFigures() if figures is None else figures_from_json(figures)
    return Version(
        number=number,
        committed_at=at.astimezone(UTC),
        operation=row["operation"],
        update_id=row["update_id"],
        stages=known.stages,
        definitions={
            name: Fingerprint(definition["layout"], definition["function"], known.texts.get(name))
            for name, definition in fingerprints.items()
        },
        attempt=Attempt(row["attempt"], number),
        windows=known.windows,
        time_zone=known.time_zone,
        seconds=known.seconds,
        checks=known.checks,
    )


def _new_texts(version: Version, before: Version) -> dict[str, str]:
    """Return stage -> the text of its definition, if it does not follow from the version before."""
    return {
        name: definition.text
        for name, definition in version.definitions.items()
        if definition.text is not None and definition.text != _text_before(name, definition, before)
    }


def _with_texts(version: Version, before: Version) -> Version:
    """Return the version with the definition texts that it takes from the version before."""
    definitions = {
        name: definition if definition.text is not None else replace(definition, text=text)
        for name, definition in version.definitions.items()
        if (text := _text_before(name, definition, before)) is not None
    }
    return (
        replace(version, definitions={**version.definitions, **definitions})
        if definitions
        else version
    )


def _text_before(stage: str, definition: Fingerprint, before: Version) -> str | None:
    """Return the text of a definition in the version before; None if it was another one."""
    known = before.definitions.get(stage)
    return known.text if known == definition and known is not None else None


def _fault_of_names(version: Version, location: Location) -> str | None:
    """Return what is wrong with the table names of a version; None if nothing is."""
    names = {location.log().name.lower()}
    for stage, figures in version.stages.items():
        fault = hidden_name_fault(stage) if figures.role else name_fault(stage)
        if fault is not None:
            return f"a stage {stage!r}, and {fault}"
        for kind in figures.delta_versions:
            if kind not in KINDS:
                return f"a table {kind!r} of stage {stage!r}, which stages do not have"
            name = location.table(stage, kind).name
            if location.in_catalog and name.lower() in names:
                return f"two tables {name!r}"
            names.add(name.lower())
    return None


def _remembered(version: Version) -> dict[str, Any]:
    """Return what remains of a dropped version: its update id, so that it is not applied twice."""
    return {
        "number": version.number,
        "committed_at": version.committed_at,
        "operation": version.operation,
        "update_id": version.update_id,
        "attempt": None if version.attempt is None else version.attempt.id,
    }


def _fencing_token(commits: Sequence[Commit]) -> int:
    """Return the fencing token of the log's newest commit of ours; 0 if there is none.

    For a version that was published before tokens were stored, the token is its number.
    """
    attempts = (commit.attempt for commit in commits if commit.attempt is not None)
    return next((attempt.fencing_token or attempt.version for attempt in attempts), 0)
