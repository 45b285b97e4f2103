"""Verification: checks the tables of a version against the version and against each other.

Each stage is checked by itself: that its tables exist and nobody else has written to them; that
rows are numbered, counted and ordered as they should be; that key mappings match the content, and
updates fold to it; and, if wanted, that the function makes the same rows again. The invariant:
nothing is written, all is read from the delta versions that the version pins, and damage of one
table hides no damage of another.

The driver reads and checks small tables, and without a session all tables (`Engines.of`,
`TableReader.stored`). A large table costs one Spark job for each order of files; content with key
mappings costs one, and updates cost two. Delta adds its own jobs for the lists of files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from deltaproduce.described.content import beside, read_text
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty, in_order
from deltaproduce.engines.marks import FAULTS, FILE, MISPLACED
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.sessions.damage import tells_of_damage
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.clustering import clusterings
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    KINDS,
    RUNS,
    UPDATES,
    Layout,
)
from deltaproduce.operations.step.expiry import forgotten_by, remembered
from deltaproduce.operations.step.filing import Filing
from deltaproduce.operations.step.incremental import full_step
from deltaproduce.operations.step.windowing import Windows
from deltaproduce.operations.verifying.findings import Finding
from deltaproduce.reading.readers import StageReader
from deltaproduce.stages.inputs import StageInput, inputs_of
from deltaproduce.stages.productions import Production
from deltaproduce.storage.decisions.recovery import foreign_change, gone
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, stage_at, updates_known_since
from deltaproduce.types.columns import Column, with_nulls

_LOST: Final = ("gone", "unreadable", "columns")

_SAID: Final[Mapping[str, str]] = {
    "unknown": "of versions that there are not",
    "misnumbered": "whose rows are not numbered from 0",
    "mistyped": "with change types, or values, that no version writes",
    "out_of_step": "that are said to be new and were there, or to have changed and were not",
}


class Verifier:
    """Checks the tables of one version of a store.

    Args:
        reader: a reader without cached rows.
        versions: all versions of the store, oldest first; the newest is checked.
        zone: the time zone in which it was computed.
        recompute: whether to run the functions: for all keys, or for this many source keys of a
            stage.
    """

    def __init__(
        self,
        graph: Graph,
        tables: Tables,
        reader: StageReader,
        versions: Sequence[Version],
        zone: str,
        *,
        recompute: bool | int = False,
    ) -> None:
        self._graph = graph
        self._zone = zone
        self._windows = Windows.of(graph, zone)
        self._clusterings = clusterings(graph, zone)
        self._tables = tables
        self._engines = tables.engines.in_zone(zone)
        self._versions = versions
        self._head = versions[-1]
        self._recompute = recompute
        self._reader = reader
        self._lost: set[tuple[str, str]] = set()

    def findings(self) -> Iterator[Finding]:
        """Yield the damage of the version, stage by stage, feeders first."""
        stages = [s for s in self._graph.stages if self._figures(s).delta_versions]
        for stage in stages:
            yield from self._noted(self._tables_of(stage))
        for stage in stages:
            then = stage_at(self._head, stage)
            mappings = (KEY_MAPPINGS,) if then.source_key else ()
            checks: list[tuple[Collection[str], Callable[[], Iterable[Finding]]]] = [
                ((CONTENT, RUNS, *mappings), partial(self._rows, then)),
                *(((kind,), partial(self._order, then, kind)) for kind in (CONTENT, *mappings)),
                ((UPDATES,), partial(self._steps, then)),
                ((CONTENT, RUNS, UPDATES), partial(self._fold, then)),
            ]
            for kinds, check in checks:
                yield from self._noted(self._tried(stage, kinds, check))
        if self._recompute is not False:
            for stage in stages:
                if stage.feeders:
                    yield from self._recomputed(stage)

    def _figures(self, stage: Stage) -> StageFigures:
        return self._head.stages.get(stage.name, StageFigures("skipped"))

    def _own(self, stage: Stage) -> list[tuple[str, int]]:
        """Return the kinds of a stage's tables that are this store's, with their delta versions."""
        figures = self._figures(stage)
        theirs = {CONTENT} if figures.origin.table else set()
        known = ((kind, figures.delta_versions.get(kind)) for kind in KINDS)
        return [(kind, n) for kind, n in known if n is not None and kind not in theirs]

    def _noted(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings, and skip unreadable tables in later checks."""
        for finding in findings:
            if finding.what in _LOST:
                self._lost.add((finding.stage, finding.table))
            yield finding

    def _tried(
        self, stage: Stage, kinds: Collection[str], check: Callable[[], Iterable[Finding]]
    ) -> Iterable[Finding]:
        """Return the findings of a check of a stage's tables; if it fails, find out why."""
        if any((stage.name, kind) in self._lost for kind in kinds):
            return ()
        try:
            return tuple(check())
        except Exception as error:
            if not isinstance(error, CorruptStoreError) and not tells_of_damage(error):
                raise
            failures = tuple(self._unreadable(stage, kinds))
            if not failures:
                raise
            return failures

    def _unreadable(self, stage: Stage, kinds: Collection[str]) -> Iterator[Finding]:
        """Yield a finding for each table with files that are gone or broken."""
        figures = self._figures(stage)
        if figures.origin.table and CONTENT in kinds:
            mend = f"store.refresh({stage.name!r}), which takes all rows as they are now"
            wrong = f"{figures.origin.table} is not what the version has read"
            yield Finding(stage.name, CONTENT, "unreadable", wrong, mend)
        for kind, pinned in self._own(stage):
            if kind not in kinds:
                continue
            table = self._tables.location.table(stage.name, kind)
            try:
                self._tables.reader.check_readable(table, pinned)
            except Exception as error:
                if not isinstance(error, CorruptStoreError) and not tells_of_damage(error):
                    raise
                wrong = f"files of delta version {pinned} are gone or broken"
                yield Finding(stage.name, kind, "unreadable", wrong)

    def _tables_of(self, stage: Stage) -> Iterator[Finding]:
        """Check the log and the columns of each table."""
        then = stage_at(self._head, stage)
        layout = Layout.of(then)
        for kind, pinned in self._own(stage):
            table = self._tables.location.table(stage.name, kind)
            try:
                commits = self._tables.reader.recent_commits(table, pinned)
                damage = foreign_change(table.name, pinned, commits)
                if damage is not None and gone(pinned, commits):
                    yield Finding(stage.name, kind, "gone", str(damage))
                    continue
                if damage is not None:
                    yield Finding(stage.name, kind, "foreign", str(damage))
                schema = self._tables.reader.schema(table, pinned)
            except CorruptStoreError as error:
                yield Finding(stage.name, kind, "gone", str(error))
                continue
            if kind == RUNS and RUNS not in self._figures(stage).base.added:
                continue  # no run has these columns yet: the next one rewrites the table
            has = {field.name: with_nulls(field.dataType) for field in schema}
            columns = (*layout.columns(kind), *(self._beside(stage) if kind == CONTENT else ()))
            # Spark lets the parts of columns be null, delta-rs stores them as they are declared.
            if has != {column.name: with_nulls(column.data_type) for column in columns}:
                wrong = f"its columns are {schema.simpleString()}"
                yield Finding(stage.name, kind, "columns", wrong)

    def _rows(self, stage: Stage) -> Iterator[Finding]:
        """Check that content is numbered and counted, and key mappings match it."""
        figures = self._figures(stage)
        content = self._reader.content(self._head, stage)
        if content is None:
            return
        rows, mapped = content.rows(), None
        if stage.source_key:
            mappings = self._reader.key_mappings(self._head, stage)
            assert mappings is not None  # there is content
            mapped = mappings.rows()
        engine = self._engines.of(rows) if mapped is None else self._engines.of(rows, mapped)
        counts = engine.pair_faults(rows, mapped, Layout.of(stage))
        if counts["rows"] != figures.rows:
            wrong = f"{counts['rows']} rows, and the version has {figures.rows}"
            yield Finding(stage.name, CONTENT, "rows", wrong)
        elif counts["misnumbered"]:
            wrong = f"{counts['misnumbered']} pairs of source key and key are not numbered from 0"
            yield Finding(stage.name, CONTENT, "rows", wrong)
        lack, surplus = counts["unmapped"], counts["surplus"]
        if stage.source_key and (lack or surplus):
            wrong = f"{lack} pairs of the content are missing, and {surplus} are too many"
            yield Finding(stage.name, KEY_MAPPINGS, "pairs", wrong)

    def _order(self, stage: Stage, kind: str) -> Iterator[Finding]:
        """Check that files are sorted and do not overlap, if the version says so."""
        figures = self._figures(stage)
        if figures.base.added.get(kind) != 0 or figures.origin.table:
            return
        layout = Layout.of(stage)
        table = self._tables.location.table(stage.name, kind)
        orders: Sequence[Sequence[Column]] = [layout.order(kind)]
        if kind == CONTENT:
            orders = self._filing(stage).orders(layout)
        for order in orders:
            ends = self._tables.reader.file_ends(table, figures.delta_versions[kind], order)
            if _sorted(ends, order):
                break
        else:
            wrong = f"delta version {figures.delta_versions[kind]} is not in order, as it should be"
            yield Finding(stage.name, kind, "order", wrong)

    def _filing(self, stage: Stage) -> Filing:
        """Return how files keep the content of a stage in the head."""
        text = self._figures(stage).base.stored
        return Filing(self._clusterings.get(stage.name), read_text(text, stage) if text else None)

    def _beside(self, stage: Stage) -> tuple[Column, ...]:
        """Return the columns that the table of a stage's content has in addition to the content."""
        description = self._filing(stage).description
        return () if description is None else beside(description.partitions)

    def _updates(self, stage: Stage) -> tuple[Rows | None, bool]:
        """Return the updates that fold to the stage's content, and whether they are complete."""
        since, complete = updates_known_since(self._versions, stage.name)
        rows = self._reader.updates(self._head, stage, since - 1)
        known = None if rows is None else remembered(rows, stage, self._head.windows, self._zone)
        return known, complete

    def _steps(self, stage: Stage) -> Iterator[Finding]:
        """Check that versions could have made the updates."""
        table, pinned = self._tables.location.table(stage.name, UPDATES), dict(self._own(stage))
        if UPDATES not in pinned:
            return
        layout = Layout.of(stage).fed
        rows = self._tables.reader.stored(table, pinned[UPDATES], layout.updates)
        counts = self._engines.of(rows).faults(rows, layout, self._head.number)
        forgets = self._graph.stage(stage.name).kind.intake.retention
        passed_over = ("out_of_step",) if forgets is not None and forgets.forgets else ()
        wrong_names = [name for name in FAULTS if counts[name] and name not in passed_over]
        wrong = [f"{counts[name]} {_SAID[name]}" for name in wrong_names]
        if wrong:
            yield Finding(stage.name, UPDATES, "steps", f"there are updates: {'; '.join(wrong)}")

    def _fold(self, stage: Stage) -> Iterator[Finding]:
        """Check that updates fold to the content, if the stage has updates."""
        if UPDATES not in stage.kind.tables:
            return
        updates, complete = self._updates(stage)
        content = self._reader.content(self._head, stage)
        rows = None if content is None else content.rows()
        given = [rows_read for rows_read in (updates, rows) if rows_read is not None]
        engine = self._engines.of(*given)
        count = engine.unfolded(updates, rows, Layout.of(stage).fed, complete=complete)
        if count:
            wrong = f"the updates, folded, differ from the content in the rows of {count} keys"
            yield Finding(stage.name, UPDATES, "fold", wrong)

    def _recomputed(self, stage: Stage) -> Iterator[Finding]:
        """Check that the function makes the stored rows from its feeders.

        Skips stages that an update would produce in full, because their definition changed, and
        stages that were made from forgotten rows.
        """
        definition = self._head.definitions.get(stage.name)
        if definition != fingerprint(stage) or stage_at(self._head, stage) is not stage:
            return
        if forgotten_by(stage, self._head.windows) is not None:
            return
        involved = {s.name for s in (stage, *stage.feeders)}
        if any(name in involved and kind != UPDATES for name, kind in self._lost):
            return
        inputs = inputs_of(
            stage, lambda one: StageInput(one, partial(self._reader.content, self._head, one), None)
        )
        windowed = self._windows.stages.get(stage.name)
        head = self._head
        shift = windowed.shift(head, head.windows) if windowed else None
        figures, dates = self._figures(stage), (head.windows.date, head.windows.date)
        production = Production.of(stage, figures, self._engines, shift, dates=dates)
        content = self._reader.content(self._head, stage)
        mappings = partial(self._reader.key_mappings, self._head, stage)
        if self._recompute is True and stage.source_key:
            recomputed = full_step(production, inputs, content)
        else:
            keys = partial(self._sample, stage, inputs)
            recomputed = production.kind.sampled(production, inputs, content, mappings, keys)
        if recomputed is None:
            return
        counts = recomputed.comparison.counts
        others, differing = "rows", counts.pairs_changed
        missing, surplus = counts.rows_added, counts.rows_removed
        if stage.kind.upkeep.by_history:  # so only the pairs are certain
            missing, surplus = counts.pairs_new, counts.pairs_gone
            others, differing = "pairs of source key and key", missing + surplus
        if differing:
            wrong = (
                f"its function makes other {others} from its feeders: {missing} of them are not "
                f"stored, and {surplus} are stored that it does not make"
            )
            yield Finding(stage.name, CONTENT, "recomputed", wrong, "store.repair(recompute=True)")

    def _sample(self, stage: Stage, inputs: Sequence[StageInput]) -> Selection:
        """Return a random sample of source keys, from the feeders and the key mappings."""
        sources = Layout.of(stage).sources
        stored = [(given.before(), given.stage.schema.key.columns) for given in inputs]
        stored.append((self._reader.key_mappings(self._head, stage), sources))
        stored_rows = [(rows.rows(), by) for rows, by in stored if rows is not None]
        parts = [self._engines.of(rows).here(rows, by) for rows, by in stored_rows]
        if not parts:
            return Selection.of(empty(sources), sources, self._engines)
        keys = self._engines.of(*parts).sample(parts, sources, int(self._recompute))
        return Selection.of(keys, sources, self._engines)


def _sorted(ends: pa.Table, by: Sequence[Column]) -> bool:
    """Return whether no row of a file is misplaced, and no two files overlap.

    Args:
        ends: each file's first and last row, one file after the other.
    """
    if any(ends.column(MISPLACED).to_pylist()):
        return False
    files = in_order(ends, by).column(FILE).to_pylist()
    return bool(files[0::2] == files[1::2])
