"""Compaction: a background thread folds runs into their tables and merges small files.

Each version adds a file to every table that it touches; with merge on read it leaves content and
key mappings unchanged. When enough has accumulated, a thread rewrites content and key mappings with
all runs applied (a fold), or merges the small files of updates into large ones (a feed). The
invariant: a compaction changes no row of any version, and no version depends on it. Its commits are
marked in Delta's history, and only these marks count: if the next version of any writer finds such
commits on top of what the head pins, it builds on them; otherwise they have no effect.

A compaction of runs overlaps with versions, because these only add runs meanwhile; a version that
has to write the tables waits for it. The version log is compacted in the same way as updates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from deltaproduce.engines.delta.tables import ROWS_PER_FILE
from deltaproduce.errors import ClosedError
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, UPDATES, Layout
from deltaproduce.operations.step.edits import compacted_edit, merged_edit
from deltaproduce.operations.step.filing import Filing
from deltaproduce.operations.step.plan import Compaction, compactions
from deltaproduce.reading.readers import StageReader
from deltaproduce.storage.attempts import Attempt, Commit
from deltaproduce.storage.decisions.merging import merges
from deltaproduce.storage.decisions.recovery import compacted, current
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, stage_at

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final[Mapping[Compaction, tuple[str, ...]]] = {
    "fold": (CONTENT, KEY_MAPPINGS),
    "merge": (CONTENT, KEY_MAPPINGS),
    "feed": (UPDATES,),
}


class Compactor:
    """Compacts the tables of one store, one after the other.

    Args:
        reader: the store's reader, which may hold the runs that remain after a fold.
        filing: returns how files keep the content of a stage.
    """

    def __init__(
        self, graph: Graph, tables: Tables, reader: StageReader, filing: Callable[[str], Filing]
    ) -> None:
        self._graph = graph
        self._filing = filing
        self._tables = tables
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "deltaproduce-compaction")
        self._running: dict[tuple[str, Compaction], Future[None]] = {}
        self._ended: set[tuple[str, Compaction]] = set()
        self._is_closed = False

    def start(self, version: Version, *, at_once: bool = False) -> None:
        """Compact in the background what is due in a published version.

        After `close` it does nothing: a later version compacts what was due.

        Args:
            at_once: also compact what is not due yet.
        """
        if self._is_closed:
            return
        limits, location = self._tables.engines.limits, self._tables.location
        for stage in self._graph.stages:
            for what in compactions(version.stages.get(stage.name), limits, at_once=at_once):
                if what == "fold":
                    act = partial(self._fold, version, stage)
                elif what == "merge":
                    act = partial(self._merge, version, stage, at_once=at_once)
                else:
                    act = partial(
                        self._tables.maintenance.compact, location.table(stage.name, UPDATES)
                    )
                self._submit(stage.name, what, act)
        log = location.log()
        if version.number and (at_once or version.number % limits.compaction_commits == 0):
            self._submit(
                log.name, "log", partial(self._tables.maintenance.compact, log, in_order=False)
            )

    def _submit(self, name: str, what: Compaction, act: Callable[[], None]) -> None:
        if (name, what) not in self._running:
            self._running[name, what] = self._thread.submit(act)

    def wait(self, name: str, what: Compaction) -> None:
        """Wait for the end of a compaction, if one is under way; log its error."""
        future = self._running.get((name, what))
        if future is not None:
            error = future.exception()  # Ctrl-C ends the wait, and not the compaction
            self._running.pop((name, what), None)
            self._ended.add((name, what))
            if error is not None:
                _LOG.warning("compaction (%s) of %r failed: %s", what, name, error)

    def wait_for_rows(self, name: str) -> None:
        """Wait for the end of a compaction of a stage's content or key mappings."""
        self.wait(name, "fold")
        self.wait(name, "merge")

    def finish(self, *, raises: bool = False) -> None:
        """Wait for all compactions that are under way.

        Args:
            raises: whether to raise the error of a compaction.
        """
        for (name, what), future in list(self._running.items()):
            self.wait(name, what)
            if raises:
                future.result()

    def close(self) -> None:
        """Wait for all compactions that are under way, and end the thread; idempotent."""
        self._is_closed = True
        self.finish()
        self._thread.shutdown()

    def check_open(self) -> None:
        """Refuse what might need the thread.

        Raises:
            ClosedError: the thread has ended.
        """
        if self._is_closed:
            raise ClosedError(
                "the store was closed, and can only be read from now on: open it anew"
            )

    def applied(self, head: Version) -> Version:
        """Return the same version with its tables as the compactions that have ended left them."""
        limits = self._tables.engines.limits
        for (name, what), future in list(self._running.items()):
            if future.done():
                self.wait(name, what)
        figures = dict(head.stages)
        for stage in self._graph.stages:
            recorded = figures.get(stage.name)
            for what in _KINDS:
                known = (stage.name, what) in self._ended or what in compactions(recorded, limits)
                if recorded is not None and known and (stage.name, what) not in self._running:
                    recorded = figures[stage.name] = self._figures(head, stage, what, recorded)
        return replace(head, stages=figures)

    def _figures(
        self, head: Version, stage: Stage, what: Compaction, figures: StageFigures
    ) -> StageFigures:
        """Return a stage's figures, updated if a compaction of its tables has been committed."""
        newest: dict[str, int] = {}
        folded: list[int] = []
        for kind in _KINDS[what]:
            pinned = figures.delta_versions.get(kind)
            if pinned is None:
                continue
            compacted = self._compacted(stage, kind, pinned)
            if not compacted and what == "merge":
                continue
            if not compacted:
                self._ended.discard((stage.name, what))
                return figures
            newest[kind] = compacted[-1].delta_version
            folded += [commit.attempt.version for commit in compacted if commit.attempt][-1:]
        figures_now = figures.at(newest)
        if what == "merge" or len(folded) < len(newest):
            return figures_now
        added = {**figures.base.added, **dict.fromkeys(newest, 0)}
        base = replace(figures_now.base, added=added, folded=min(folded))
        figures_now = replace(figures_now, base=base)
        left = self._reader.overlay(replace(head, stages={stage.name: figures_now}), stage)
        if left is None:
            return figures_now
        return replace(figures_now, base=replace(base, runs=left.runs, run_rows=left.added))

    def _fold(self, version: Version, stage: Stage) -> None:
        """Rewrite content and key mappings with all runs applied, in order."""
        tables = self._tables
        if version.stages[stage.name].base.stored != self._filing(stage.name).text:
            return  # the next version rewrites it, in the new filing
        reader, stage = StageReader(tables, from_files=True), stage_at(version, stage)
        stored = {CONTENT: reader.content(version, stage)}
        if stage.source_key:
            stored[KEY_MAPPINGS] = reader.key_mappings(version, stage)
        for kind, rows in stored.items():
            if rows is None:
                continue
            pinned = version.stages[stage.name].delta_versions[kind]
            base = current(pinned, self._commits(stage, kind, pinned))
            if base is not None:  # else another writer was faster, and more has to be folded
                table = tables.location.table(stage.name, kind)
                attempt = Attempt.compacting(version, base)
                filing = self._filing(stage.name)
                in_order = version.stages[stage.name].base.added.get(kind) == 0
                parted = in_order and bool(filing.partitions)
                edit = compacted_edit(rows, stage, kind, filing, parted=parted)
                tables.committer.commit(table, edit, attempt, base)

    def _merge(self, version: Version, stage: Stage, *, at_once: bool) -> None:
        """Merge small files of content and key mappings, and purge marked rows; see `merges`."""
        tables, figures = self._tables, version.stages[stage.name]
        if figures.base.stored != self._filing(stage.name).text:
            return  # the next version rewrites it, in the new filing
        stage = stage_at(version, stage)
        for kind in _KINDS["merge"]:
            table = tables.location.table(stage.name, kind)
            pinned = figures.delta_versions.get(kind)
            if pinned is None or not tables.reader.marks_rows(table):
                continue
            base = current(pinned, self._commits(stage, kind, pinned))
            files = None if base is None else tables.reader.files(table, base)
            if base is None or files is None:
                continue
            most = tables.engines.limits.merged_commits
            sizes = files.to_merge(ROWS_PER_FILE)
            for numbers in merges(sizes, most=most, full=ROWS_PER_FILE, at_once=at_once):
                columns = Layout.of(stage).columns(kind)
                rows = files.among(np.array(numbers, np.int64)).rows(columns)
                if rows is None:
                    break
                edit = merged_edit(rows, stage, kind, self._filing(stage.name), tables.engines)
                tables.maintenance.merge(
                    table, edit, [files.paths[number] for number in numbers], base
                )
                base += 1

    def _compacted(self, stage: Stage, kind: str, pinned: int) -> tuple[Commit, ...]:
        """Return the compactions on top of a pinned delta version, if there is nothing else."""
        if not self._tables.reader.has_moved(self._tables.location.table(stage.name, kind), pinned):
            return ()
        return compacted(pinned, self._commits(stage, kind, pinned))

    def _commits(self, stage: Stage, kind: str, pinned: int) -> tuple[Commit, ...]:
        table = self._tables.location.table(stage.name, kind)
        return self._tables.reader.recent_commits(table, pinned)
