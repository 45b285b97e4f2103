"""The publisher: commits the writes of a version, and then publishes the version.

Each touched table gets one commit, on top of the rows that the head pins: a table that ran ahead is
restored first. Then the row of the version is appended to the version log. An attempt that may be
carried on (`resumption`) commits one stage after the other, feeders first, and each commit records
that; any other attempt commits to all tables in parallel. The invariant: until the row is in the
log, nothing of the version is visible, and the next attempt restores or carries on whatever a
failed attempt leaves behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.model.checks.results import CheckResult
from deltaproduce.model.fingerprints import Fingerprint
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.hidden import role_of
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS
from deltaproduce.operations.compaction import Compactor
from deltaproduce.operations.step.edits import Read
from deltaproduce.operations.step.writes import (
    Edits,
    StageWrite,
    WriteKept,
    content_at_hand,
)
from deltaproduce.reading.readers import StageReader
from deltaproduce.shown.phases import phase
from deltaproduce.storage.attempts import Attempt, AttemptPart, Commit
from deltaproduce.storage.decisions.recovery import action, conflict, current, is_ahead
from deltaproduce.storage.decisions.resumption import NOTHING_KEPT, Resumption, resumption
from deltaproduce.storage.decisions.retention import Cut, cuts, repointed
from deltaproduce.storage.edits import Deletion, Edit, Restore
from deltaproduce.storage.figures import NO_TABLES, StageFigures
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.storage.versions import Version

_WRITERS: Final = 4
"""How many tables are committed to in parallel: a commit mostly waits for the driver."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """A version before its publication, without its stages.

    Attributes:
        head: the version before it, updated for the stages that are not written.
        started: when the call began that makes the version, by the clock of `perf_counter`.
        checks: what its checks have found.
        repairs: whether to write even if someone else has written to the tables, or removed them.
    """

    operation: str
    head: Version
    definitions: Mapping[str, Fingerprint]
    attempt: Attempt
    started: float
    update_id: str | None = None
    checks: tuple[CheckResult, ...] = ()
    repairs: bool = False


class Publisher:
    """Publishes the versions of one store, one at a time.

    Args:
        reader: the store's reader, which keeps what each version leaves.
        compactor: the publisher waits for its compactions, or goes on in parallel.
        clock: gives the time of a version.
    """

    def __init__(
        self,
        graph: Graph,
        tables: Tables,
        reader: StageReader,
        log: VersionLog,
        compactor: Compactor,
        clock: Callable[[], datetime],
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._reader = reader
        self._log = log
        self._compactor = compactor
        self._clock = clock
        self._checked: dict[StoreTable, int] = {}

    def left(self, head: Version, stages: Sequence[Stage], given: str | None) -> Resumption:
        """Return what earlier attempts at the next version, given the same rows, have completed.

        Runs one Spark job for each table whose state is unknown; none if nothing was given.

        Args:
            stages: the stages that may change, feeders first.
        """
        if given is None:
            return NOTHING_KEPT
        tables = [(stage.name, kind) for stage in stages for kind in stage.kind.tables]
        histories: dict[str, dict[str, Sequence[Commit]]] = {stage.name: {} for stage in stages}
        for (name, kind), commits in self._histories(head, tables).items():
            histories[name][kind] = commits or ()
        return resumption(head, given, histories)

    def publish(self, new: Unpublished, writes: Mapping[str, StageWrite]) -> Version:
        """Commit the writes, and then publish their version: the commit point.

        Args:
            writes: the write of each stage that changes, feeders first.

        Raises:
            ConflictError: another writer was faster; nothing of this is visible.
            CommitUnknownError: it is unknown whether the version was published.
        """
        head, attempt = new.head, new.attempt
        number = attempt.version
        edits, planned = dict[str, Edits](), dict[str, StageFigures]()
        with phase("writing"):
            for name, write in writes.items():
                before = self._tables.readings.total
                edits[name] = write.edits(number, self._reads(head, write.result.stage))
                read = self._tables.readings.total.after(before)
                planned[name] = write.figures(number, edits[name]).having_read(*read)
        if not new.repairs:
            with phase("checking"):
                self._look(head, writes)
        with phase("writing"):
            results = self._commit(head, writes, edits, planned, attempt, repairs=new.repairs)
        written = {name: one.at(results[name]) for name, one in planned.items()}
        figures = {
            stage.name: (
                written.get(stage.name) or head.stages.get(stage.name, NO_TABLES).carried()
            ).in_role(role_of(stage.hidden))
            for stage in self._graph.stages
        }
        version = Version(
            number=number,
            committed_at=self._clock(),
            operation=new.operation,
            update_id=new.update_id,
            stages=figures,
            definitions=new.definitions,
            attempt=attempt,
            windows=head.windows,
            time_zone=head.time_zone,
            seconds=round(time.perf_counter() - new.started, 3),
            checks=new.checks,
        )
        with phase("publishing"):
            self._log.publish(version, attempt)
        for name, write in writes.items():
            content = content_at_hand(write.result.comparison, edits[name])
            self._reader.keep(name, figures[name], write.overlay_after(), content)
        self._compactor.start(version)
        return version

    def retain(
        self, versions: Sequence[Version], kept: Sequence[Version], attempt: Attempt
    ) -> tuple[Version, ...]:
        """Drop all but the newest versions, with the rows that only the dropped versions need.

        First the histories are cut, by commits that no version pins yet; then the version log drops
        the other versions, and the kept versions are read from the cut tables.

        Args:
            versions: all versions of the store, oldest first.

        Returns:
            The kept versions as they are now.

        Raises:
            ConflictError: another writer was faster; no version was dropped.
        """
        head, cut_versions, checked = versions[-1], dict[Cut, int](), self._checked
        beside = replace(attempt, version=head.number + 1)  # so it restores tables that ran ahead
        self._checked = {}
        for cut in cuts(versions, kept):
            table = self._tables.location.table(cut.stage, cut.kind)
            base = self._base(table, head.pinned(cut.stage, cut.kind), checked, beside)
            cut_versions[cut] = self._tables.committer.commit(
                table, Deletion(cut.predicate), attempt, base
            )
            checked[table] = cut_versions[cut]
        self._checked = checked
        if len(kept) == len(versions):
            return tuple(kept)
        kept_versions = repointed(kept, cut_versions)
        self._log.rewrite(kept_versions, attempt)
        return kept_versions

    def _look(self, head: Version, writes: Mapping[str, StageWrite]) -> None:
        """Refuse, before the first commit, to build on tables that someone else has written to.

        This includes tables that are not written now. Runs one Spark job for each table whose state
        is unknown.
        """
        tables = [
            (name, kind)
            for name, write in writes.items()
            for kind in write.result.stage.kind.tables
            if head.pinned(name, kind) is not None
        ]
        for (name, kind), commits in self._histories(head, tables).items():
            if commits is not None:
                table = self._tables.location.table(name, kind)
                action(table.name, head.pinned(name, kind), commits)

    def _histories(
        self, head: Version, tables: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Sequence[Commit] | None]:
        """Return the commits of several tables, by stage and kind, from the pinned ones on.

        None for a table that is known to be as pinned.
        """

        def history(name: str, kind: str) -> Sequence[Commit]:
            table, pinned = self._tables.location.table(name, kind), head.pinned(name, kind)
            commits = self._tables.reader.recent_commits(table, pinned)
            if commits and commits[0].delta_version == pinned:
                self._checked[table] = pinned
            return commits

        def is_known(name: str, kind: str) -> bool:
            table = self._tables.location.table(name, kind)
            return _is_as_pinned(self._checked, table, head.pinned(name, kind))

        unknown = [table for table in tables if not is_known(*table)]
        histories = dict(zip(unknown, self._side_by_side(history, unknown), strict=True))
        return {table: histories.get(table) for table in tables}

    def _side_by_side(
        self, function: Callable[..., _Result], jobs: Sequence[tuple[Any, ...]]
    ) -> list[_Result]:
        """Return the results of a function for some jobs, in their order; several run in parallel.

        A thread gets this thread's session settings, in several calls to Java, so a single job has
        no thread.
        """
        if len(jobs) <= 1:
            return [function(*job) for job in jobs]
        in_thread = self._tables.engines.in_thread(function)
        return [*side_by_side(lambda job: in_thread(*job), jobs, _WRITERS)]

    def _commit(
        self,
        head: Version,
        writes: Mapping[str, StageWrite],
        edits: Mapping[str, Edits],
        planned: Mapping[str, StageFigures],
        attempt: Attempt,
        *,
        repairs: bool,
    ) -> dict[str, Mapping[str, int]]:
        """Commit once to each table whose rows change; return the delta versions, by stage."""
        self._tables.committer.ensure_schema()
        for name, write in writes.items():
            if write.in_place:
                with phase("waiting"):
                    self._compactor.wait_for_rows(name)
        kept = {n: w.kept.delta_versions for n, w in writes.items() if isinstance(w, WriteKept)}
        committed: dict[str, Mapping[str, int]] = dict(kept)
        stages = tuple(name for name in writes if edits[name] or name in kept)
        checked, self._checked = self._checked, {}

        def commit(name: str, kind: str, edit: Edit | Restore, attempt_of_commit: Attempt) -> int:
            table = self._tables.location.table(name, kind)
            pinned = head.pinned(name, kind)
            if repairs and pinned is not None:
                base = self._base_of_repair(table, pinned, edit, attempt)
            else:
                # A restore depends on the actual state of the table.
                known = {} if isinstance(edit, Restore) else checked
                base = self._base(table, pinned, known, attempt)
            return self._tables.committer.commit(table, edit, attempt_of_commit, base)

        def telling(name: str) -> Attempt:
            before = {stage: committed[stage] for stage in stages if stage in committed}
            return replace(
                attempt, part=AttemptPart(stages, before, tuple(edits[name]), planned[name])
            )

        rest = [name for name in writes if name not in kept]
        waves = [[name] for name in rest] if attempt.given is not None else [rest]
        for wave in waves:
            jobs = [
                (name, kind, edit, attempt if attempt.given is None else telling(name))
                for name in wave
                for kind, edit in edits[name].items()
            ]
            delta_versions = self._side_by_side(commit, jobs)
            for name in wave:
                committed[name] = {
                    job[1]: delta_version
                    for job, delta_version in zip(jobs, delta_versions, strict=True)
                    if job[0] == name
                }
        for name, delta_versions_of in committed.items():
            for kind, delta_version in delta_versions_of.items():
                checked[self._tables.location.table(name, kind)] = delta_version
        self._checked = checked
        return committed

    def _base(
        self,
        table: StoreTable,
        pinned: int | None,
        checked: Mapping[StoreTable, int],
        attempt: Attempt,
    ) -> int | None:
        """Make a table's newest rows those that the head pins; return its delta version."""
        if _is_as_pinned(checked, table, pinned):
            return pinned
        commits = self._tables.reader.recent_commits(table, pinned)
        if is_ahead(attempt.version, commits):
            self._log.check_published(attempt.version)
            raise conflict(table.name, attempt, commits)
        match action(table.name, pinned, commits):
            case "build":
                return None
            case "restore" if pinned is not None:
                # A writer that was overtaken and restored tables would disturb the next writer.
                if self._log.head().number >= attempt.version:
                    raise conflict(table.name, attempt, commits)
                return self._tables.committer.restore(table, pinned, attempt)
            case _:
                return commits[0].delta_version

    def _base_of_repair(
        self, table: StoreTable, pinned: int, edit: Edit | Restore, attempt: Attempt
    ) -> int | None:
        """Return the delta version that a repair builds on; None if the table may be gone."""
        if isinstance(edit, Edit) and edit.is_whole:
            return None
        commits = self._tables.reader.recent_commits(table, pinned)
        newest = current(pinned, commits)
        if isinstance(edit, Restore) or newest is not None:
            return newest or commits[0].delta_version
        return self._tables.committer.restore(table, pinned, attempt)

    def _reads(self, head: Version, stage: Stage) -> dict[str, Read]:
        """Return readers of a stage's rows in the head, by kind; empty if it has no rows."""
        if not head.stages.get(stage.name, NO_TABLES).rows:
            return {}
        return {
            CONTENT: partial(_stored, self._reader.content, head, stage),
            KEY_MAPPINGS: partial(_stored, self._reader.key_mappings, head, stage),
        }


def _stored(
    read: Callable[[Version, Stage], Stored | None], version: Version, stage: Stage
) -> Stored:
    recorded = read(version, stage)
    assert recorded is not None  # the figures say that there are rows
    return recorded


def _is_as_pinned(known: Mapping[StoreTable, int], table: StoreTable, pinned: int | None) -> bool:
    """Return whether a table's newest Delta version is known to be the pinned one."""
    return pinned is not None and known.get(table) == pinned
