"""Versions: the delta versions of all tables that together are one state of a store.

Everything here is a value, without Spark. The invariant: a `Version` names the delta version of
every table that exists in it, so a reader needs nothing else to read one state; and a stage that a
version did not touch has the same delta versions as in the version before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Final

from deltaproduce.errors import InvalidArgumentError, NotFoundError
from deltaproduce.model.checks.results import CheckResult, table_of
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Stage
from deltaproduce.model.partitions import day_of
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, Word, one_line
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.figures import StageColumns, StageFigures
from deltaproduce.storage.window_states import NO_WINDOWS, WindowState
from deltaproduce.types.columns import stored_columns, stored_key, stored_schema

_BESIDE_RUNS: Final = ("content", "key_mappings")


@dataclass(frozen=True, slots=True)
class Version(Tabular):
    """One published state of all tables of a store; number 0 is the empty one.

    Attributes:
        number: 1, 2, 3, …
        committed_at: when it was published, with time zone; None for the empty version.
        operation: ``update``, ``load``, ``refresh``, ``rollback``, ``forget`` or ``repair``.
        update_id: the caller's name for the batch, if given.
        stages: figures of every source and stage by name.
        definitions: stage name -> fingerprint of the definition that its tables were made with.
        attempt: the attempt that published it.
        windows: what the windows of its stages depend on besides rows.
        tasks: the names of the tasks that it computed.
        time_zone: the time zone that it was computed in; None for a version of a release that did
            not record it, and for the empty version.
        fencing_token: for the head, that of the version log's newest commit when the head was read.
        seconds: wall time of the call that made it, up to its publication; None for a version of a
            release that did not record it.
        checks: what its checks found, in order of definition; none for a version that was made
            without checks.
    """

    number: int
    committed_at: datetime | None
    operation: str
    update_id: str | None
    stages: Mapping[str, StageFigures]
    definitions: Mapping[str, Fingerprint] = field(default_factory=dict)
    attempt: Attempt | None = None
    windows: WindowState = NO_WINDOWS
    fencing_token: int = field(default=0, compare=False)
    tasks: tuple[str, ...] = ()
    time_zone: str | None = None
    seconds: float | None = field(default=None, compare=False)
    checks: tuple[CheckResult, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        at = None if self.committed_at is None else Word(_minute(self.committed_at))
        changed = sum(figures.changed_keys > 0 for figures in self.shown().stages.values())
        parts = Word(self.operation), *(() if at is None else (at,))
        return one_line(self, self.number, *parts, update_id=self.update_id, changed=changed)

    def as_tables(self) -> tuple[Table, ...]:
        """What it did to each stage, and what its checks found, if there are any."""
        stages = self.shown().stages
        columns = ("stage", "mode", "keys changed", "rows added", "rows removed", "rows")
        rows = (
            (
                name,
                f.mode,
                f.changed_keys,
                f.rows_added,
                f.rows_removed,
                f.rows,
                f.seconds,
                f.reason,
            )
            for name, f in stages.items()
        )
        did = Table(self.headline, (*columns, "seconds", "why"), tuple(rows))
        return (did, table_of(self.checks, "checks")) if self.checks else (did,)

    @property
    def headline(self) -> str:
        """Its number, operation and time, in one line."""
        if self.committed_at is None:
            return f"version {self.number}: empty"
        given = "" if self.update_id is None else f" {self.update_id!r}"
        return f"version {self.number}: {self.operation}{given}, {_minute(self.committed_at)}"

    @property
    def as_of(self) -> date | None:
        """The day at which windows over dates end; None if they end at their newest partitions."""
        return None if self.windows.as_of is None else day_of(self.windows.as_of)

    @property
    def as_of_time(self) -> datetime | None:
        """The time that `as_of` was given with, in UTC; None if it was a whole day, or none."""
        return self.windows.time

    def shown(self) -> Version:
        """The version as users see it: of the stages that they have defined."""
        defined = {n: figures for n, figures in self.stages.items() if not figures.role}
        if len(defined) == len(self.stages):
            return self
        tasks = tuple(task for figures in self.stages.values() for task in figures.tasks)
        return replace(self, stages=defined, tasks=tasks)

    def as_dict(self) -> dict[str, Any]:
        """The version as JSON values, with the time as ISO 8601; for reports, not for storage."""
        return {
            "number": self.number,
            "committed_at": None if self.committed_at is None else self.committed_at.isoformat(),
            "operation": self.operation,
            "update_id": self.update_id,
            "time_zone": self.time_zone,
            "stages": {name: figures.as_dict() for name, figures in self.stages.items()},
            **({"checks": [one.as_dict() for one in self.checks]} if self.checks else {}),
        }

    def delta_version(self, stage: str, kind: str) -> int | None:
        """Return the Delta version at which a table has the rows of this version, for plain SQL.

        Args:
            kind: ``content``, ``key_mappings`` or ``updates``; the updates are those of this
                version and all before it.

        Returns:
            None if the table does not exist in this version.

        Raises:
            InvalidArgumentError: the table alone does not have the rows at any Delta version: some
                are in the table of runs (merge on read).
        """
        figures = self.stages.get(stage)
        base = None if figures is None else figures.base
        if base is not None and base.runs and kind in _BESIDE_RUNS:
            raise InvalidArgumentError(
                f"table {kind!r} of stage {stage!r} has the rows of version {base.folded}, and "
                f"what came after it up to version {self.number} is in {base.runs} runs beside "
                f"it (merge on read): read it with store.{kind}({stage!r}, {self.number}). Open "
                "the store with table_type='copy_on_write' if plain SQL is to read what comes",
                argument="kind",
            )
        return self.pinned(stage, kind)

    def pinned(self, stage: str, kind: str) -> int | None:
        """The delta version at which the store reads a table, with or without runs beside it.

        None when the table does not exist in this version.
        """
        figures = self.stages.get(stage)
        return None if figures is None else figures.delta_versions.get(kind)


EMPTY = Version(0, None, "empty", None, {})
"""The version before the first: every table reads as empty."""


def _minute(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


def find(versions: Iterable[Version], number: int) -> Version:
    """Return the version with a number.

    Raises:
        NotFoundError: it was never published or is no longer retained.
    """
    if number == 0:
        return EMPTY
    known = {version.number: version for version in versions}
    if number not in known:
        kept = f"{min(known)} to {max(known)}" if known else "none"
        raise NotFoundError(f"version {number!r} is not in this store; versions: {kept}")
    return known[number]


def span(versions: Sequence[Version], since: int, until: int | None = None) -> tuple[Version, ...]:
    """Return the versions from one to another, both included; to the newest if ``until`` is None.

    Args:
        versions: all versions of a store, oldest first.

    Raises:
        NotFoundError: one of the two does not exist.
        InvalidArgumentError: they are in the wrong order.
    """
    all_versions = (EMPTY, *versions)
    first = find(versions, since)
    last = all_versions[-1] if until is None else find(versions, until)
    if first.number > last.number:
        raise InvalidArgumentError(
            f"since is version {first.number} and until is {last.number}, which came before: since "
            "is the version that you know, until the one that you want to know",
            argument="since",
        )
    return tuple(v for v in all_versions if first.number <= v.number <= last.number)


def unbroken(versions: Iterable[Version], stage: str) -> bool:
    """Return whether a stage's updates are complete over these versions, given oldest first.

    They are not if some versions come from a pipeline without the stage, or with other key or value
    columns: then its updates began again. They also began again if the table that a source is read
    from in place could not be recognized as the same any more, or if a repair could not trust them.
    """
    figures = [version.stages.get(stage) for version in versions]
    has_tables = [figure is not None and bool(figure.delta_versions) for figure in figures]
    begun = {_series(figure) for figure in figures if figure and figure.columns.key}
    return has_tables == sorted(has_tables) and len(begun) <= 1


def check_there(head: Version, version: Version, stages: Iterable[str], *kinds: str) -> None:
    """Refuse a version older than the repair of a table that someone else removed.

    Raises:
        NotFoundError: for such a table.
    """
    for stage in stages:
        figures = head.stages.get(stage)
        remade = {} if figures is None else figures.past.remade
        for kind in kinds:
            pinned = version.pinned(stage, kind)
            if pinned is not None and remade.get(kind, 0) > version.number:
                raise NotFoundError(
                    f"table {kind!r} of {stage!r} is not there any more as of version "
                    f"{version.number}: someone else removed it, and version {remade[kind]} made "
                    "it anew"
                )


def updates_known_since(versions: Sequence[Version], stage: str) -> tuple[int, bool]:
    """Return the first version from which a stage's updates are complete up to the newest.

    Args:
        versions: all versions of a store, oldest first.

    Returns:
        The number; and whether the stage had no rows before, or only rows that its updates of that
        version include.
    """
    newest, since = versions[-1].stages[stage], len(versions) - 1
    while since:
        figures = versions[since - 1].stages.get(stage)
        if figures is None or not figures.delta_versions or _series(figures) != _series(newest):
            break
        since -= 1
    return versions[since].number, since > 0 or versions[0].number == 1


def _series(figures: StageFigures) -> tuple[object, ...]:
    """Return what the updates of two versions share if one continues the other."""
    return figures.columns.own, figures.past.begun


def stage_at(version: Version, stage: Stage) -> Stage:
    """Return a stage with the columns of its tables in a version; itself if they are the same."""
    figures = version.stages.get(stage.name)
    if figures is None or not figures.columns.key or has_columns(figures, stage):
        return stage
    schema = stored_schema(*figures.columns.own, stage=stage.name)
    schema = replace(schema, states=stored_columns(figures.columns.states))
    return stage.with_columns(schema, stored_key(figures.columns.source_key))


def has_columns(figures: StageFigures, stage: Stage) -> bool:
    """Return whether a stage's tables have the columns that it is defined with."""
    return columns_of(stage) == figures.columns


def columns_of(stage: Stage) -> StageColumns:
    """Return the columns of a stage's key, value, source key and states, as DDL."""
    schema = stage.schema
    columns = schema.key, schema.value, stage.source_key, schema.states
    return StageColumns(*(part.ddl for part in columns))


def has_tables(version: Version, stage: str) -> bool:
    """Return whether a stage was produced, or a source given rows, by that version."""
    return version.pinned(stage, "content") is not None
