"""The version log: the table whose next commit is the only commit point of a store.

A version exists when its row is in the log, and only then; all that was written before is
invisible. The invariant: numbers are consecutive and each has one row. Every commit to the log
takes the turn after that of the newest commit which its writer had read, as ``txnVersion`` under
one ``txnAppId``: of two writers that read the same state of the log, Delta refuses the second while
both are under way, and skips it silently afterwards, which reading back finds out. Most commits
publish a version. One that drops versions takes a turn too, so a writer that still goes by a
dropped version cannot publish.

It stands apart because this is where a store's atomicity is, in one screen of code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row, SparkSession

from deltaproduce.errors import CommitUnknownError, ConflictError, CorruptStoreError
from deltaproduce.fingerprints import Fingerprint
from deltaproduce.locations import CONTENT
from deltaproduce.recovery import conflict
from deltaproduce.tables import Tables
from deltaproduce.versions import (
    EMPTY,
    Attempt,
    Commit,
    Version,
    figures_from_json,
    figures_to_json,
)

_COLUMNS = """
    number bigint, committed_at timestamp, operation string, update_id string,
    fingerprints map<string, struct<layout: string, function: string>>,
    tables map<string, bigint>, figures string, attempt string
"""


class VersionLog:
    """The published versions of one store."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        self._table = tables.location.log()
        self._known: tuple[Version, ...] = ()
        self._dropped: tuple[Version, ...] = ()
        self._read: int | None = None

    def versions(self) -> tuple[Version, ...]:
        """All versions that are kept, oldest first; one Spark job if nothing is new.

        Raises:
            CorruptStoreError: a number is missing or there twice.
        """
        commits = self._commits() if self._exists() else ()
        if commits and commits[0].delta_version != self._read:
            self._read_rows(commits)
        return self._known

    def head(self) -> Version:
        """The newest version, read now; the empty one if there is none."""
        self.versions()
        return self.last_read

    @property
    def last_read(self) -> Version:
        """The newest version as of the last reading."""
        return self._known[-1] if self._known else EMPTY

    def with_ids(self) -> dict[str, Version]:
        """The versions with an update id, as of the last reading; dropped ones have no stages."""
        return {v.update_id: v for v in (*self._dropped, *self._known) if v.update_id is not None}

    def publish(self, version: Version, attempt: Attempt) -> None:
        """Make a version visible: the commit point.

        Raises:
            ConflictError: another writer has taken the turn.
            CommitUnknownError: the commit failed, and so did reading back whether it took effect.
        """
        if not self._known:
            self._tables.create(self._table, _COLUMNS)
        rows = self._frame([self._row(version, attempt)])
        published = self._commit(rows, attempt, overwrite=False)
        if self._read in (None, published - 1):
            self._known = (*self._known, replace(version, turn=attempt.turn))
            self._read = published

    def rewrite(self, versions: Sequence[Version], attempt: Attempt) -> None:
        """Keep these versions and no other, as they are given; of others their update ids.

        Args:
            versions: the newest ones, oldest first.

        Raises:
            DeltaProduceError: as `publish`.
        """
        dropped = [v for v in (*self._dropped, *self._known) if v.number < versions[0].number]
        kept = [self._row(version, version.attempt or attempt) for version in versions]
        remembered = [_remembered(version) for version in dropped if version.update_id is not None]
        self._commit(self._frame([*remembered, *kept]), attempt, overwrite=True)
        self.versions()

    @property
    def delta_version(self) -> int | None:
        """That of the log itself, as of the last reading; None if there was no log."""
        return self._read

    def _read_rows(self, commits: Sequence[Commit]) -> None:
        """Read what is new in the log, or all of it, if versions were dropped since.

        Args:
            commits: the log's last, newest first; all since the last reading.
        """
        last = self.last_read.number
        later = [c.attempt for c in commits if self._read is None or c.delta_version > self._read]
        if any(attempt is not None and attempt.version <= last for attempt in later):
            self._known, self._dropped, last = (), (), 0
        newest = self._tables.read(self._table, commits[0].delta_version)
        rows = newest.where(f"number > {last}")
        found = rows.selectExpr("*", "unix_micros(committed_at) AS micros").collect()
        ordered = sorted(found, key=lambda row: int(row.number))
        self._dropped += tuple(_version(row) for row in ordered if row.figures is None)
        known = (*self._known, *(_version(row) for row in ordered if row.figures is not None))
        self._check_numbers([version.number for version in known])
        turn = _turn(commits) or _turn(self._tables.recent_commits(self._table, 0))
        self._known = (*known[:-1], *(replace(version, turn=turn) for version in known[-1:]))
        self._read = commits[0].delta_version

    def _commit(self, rows: DataFrame, attempt: Attempt, *, overwrite: bool) -> int:
        """Commit to the log; returns the delta version that it became."""
        failure: Exception | None = None
        try:
            made = self._tables.commit_in_turn(self._table, rows, attempt, overwrite=overwrite)
        except Exception as error:  # noqa: BLE001 whatever it was, it may have come too late
            made, failure = None, error
        if made is None:
            made = self._committed_by(attempt)
        if made is not None:
            return made
        if failure is not None and not isinstance(failure, ConflictError):
            raise failure
        raise conflict(self._table.name, attempt, self._commits()) from failure

    def _commits(self) -> tuple[Commit, ...]:
        """The log's last commits, newest first; all since the last reading."""
        return self._tables.recent_commits(self._table, self._read)

    def _exists(self) -> bool:
        return self._read is not None or self._tables.exists(self._table)

    def _committed_by(self, attempt: Attempt) -> int | None:
        """The delta version that an attempt's commit became, read back; None if it made none."""
        try:
            found = (c.delta_version for c in self._commits() if c.attempt == attempt)
            return next(found, None)
        except Exception as error:
            raise CommitUnknownError(
                f"whether version {attempt.version} was published is unknown: the version log "
                f"{self._table.address} cannot be read; read the head again before repeating it"
            ) from error

    def _frame(self, rows: Sequence[Row]) -> DataFrame:
        return self._spark.createDataFrame(list(rows), _COLUMNS).coalesce(1)

    def _row(self, version: Version, attempt: Attempt) -> Row:
        location = self._tables.location
        return Row(
            number=version.number,
            committed_at=version.committed_at,
            operation=version.operation,
            update_id=version.update_id,
            fingerprints={
                name: Row(layout=found.layout, function=found.function)
                for name, found in version.definitions.items()
            },
            tables={
                (
                    figures.table
                    if figures.table and kind == CONTENT
                    else location.table(stage, kind).name
                ): delta_version
                for stage, figures in version.stages.items()
                for kind, delta_version in figures.delta_versions.items()
            },
            figures=figures_to_json(version.stages),
            attempt=attempt.id,
        )

    def _check_numbers(self, numbers: Sequence[int]) -> None:
        expected = list(range(numbers[0], numbers[0] + len(numbers))) if numbers else []
        if numbers != expected:
            wrong = next(a for a, b in zip(numbers, expected, strict=True) if a != b)
            raise CorruptStoreError(
                f"the version log {self._table.address} goes wrong at number {wrong}: numbers "
                "must be consecutive; restore the table to a delta version before",
                table=self._table.name,
            )


def _version(row: Row) -> Version:
    return Version(
        number=row.number,
        committed_at=datetime.fromtimestamp(row.micros / 1e6, tz=UTC),
        operation=row.operation,
        update_id=row.update_id,
        stages={} if row.figures is None else figures_from_json(row.figures),
        definitions={
            name: Fingerprint(found.layout, found.function)
            for name, found in (row.fingerprints or {}).items()
        },
        attempt=Attempt(row.attempt, row.number),
    )


def _remembered(version: Version) -> Row:
    """What stays of a version that is dropped: its update id, so that it is not applied twice."""
    return Row(
        number=version.number,
        committed_at=version.committed_at,
        operation=version.operation,
        update_id=version.update_id,
        fingerprints=None,
        tables=None,
        figures=None,
        attempt=None if version.attempt is None else version.attempt.id,
    )


def _turn(commits: Sequence[Commit]) -> int:
    """The turn of the newest of some commits that has one; 0 if none has."""
    attempts = (commit.attempt for commit in commits if commit.attempt is not None)
    return next((attempt.turn for attempt in attempts), 0)
