"""Readers: the rows of a stage at a version, wherever they are stored.

A version says at which delta version each table is, and how many runs its tables do not have yet. A
`StageReader` combines them. It keeps runs that it has read, and small tables and runs that its
store has just written, so that an update does not read them again. The invariant: its result
depends on the version alone, and has the columns that the stage had in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from deltaproduce.described.content import read_text
from deltaproduce.described.partitions import values_of_keys
from deltaproduce.engines.change_feed import TIMES, FeedMode
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import distinct, empty
from deltaproduce.engines.marks import ADD, DELETE, UPDATE
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.columns import cols
from deltaproduce.engines.spark.kernels.comparing import numbered_by_values
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    CONTENT,
    KEY_MAPPINGS,
    RUNS,
    UPDATES,
    Layout,
)
from deltaproduce.storage.figures import Past, StageFigures
from deltaproduce.storage.parquet.shared_lookups import Room, SharedLookups, Wanted
from deltaproduce.storage.stored import Overlay, Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    CHANGE_TYPE_COLUMN,
    ORDINAL,
    POSITION,
    VERSION,
    VERSION_COLUMN,
    Column,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Place: TypeAlias = tuple[int, int]
"""A delta version of a content table, and the version that recreated the table, if any did."""


class StageReader:
    """Reads the stages of one store.

    Args:
        from_files: whether to read the files of a table that was written whole without asking
            Delta, which is faster.
        small_here: whether to read small tables on the driver, although there is a session.
    """

    def __init__(
        self, tables: Tables, *, from_files: bool = False, small_here: bool = False
    ) -> None:
        self._tables = tables
        self._from_files = from_files
        self._small_here = small_here
        self._overlays: dict[str, tuple[_Runs, Overlay]] = {}
        self._contents: dict[str, tuple[_Place, pa.Table]] = {}
        self._room = Room()

    def uncached(self) -> StageReader:
        """Return a reader that keeps nothing read or written before, for a verification."""
        return StageReader(self._tables, from_files=self._from_files, small_here=True)

    def content(self, version: Version, stage: Stage) -> Stored | None:
        """Return the content of a stage; None if it has no rows in that version."""
        stage = stage_at(version, stage)
        return self._stored(version, stage, CONTENT, Layout.of(stage).content)

    def content_in_files(self, version: Version, stage: Stage) -> Stored | None:
        """Return the same as `content`, but read from files, even if the rows are kept here."""
        stage = stage_at(version, stage)
        columns = Layout.of(stage).content
        return self._stored(version, stage, CONTENT, columns, in_files=True)

    def key_mappings(self, version: Version, stage: Stage) -> Stored | None:
        """Return the key mappings of a stage; None if it has no rows in that version."""
        stage = stage_at(version, stage)
        return self._stored(version, stage, KEY_MAPPINGS, Layout.of(stage).pair)

    def lookups(self, version: Version, wanted: Iterable[Wanted]) -> dict[str, SharedLookups]:
        """Return, by stage, what is known of rows that are looked up in a version, and kept."""

        def place(stage: str) -> object:
            figures = version.stages.get(stage)
            if figures is None or CONTENT not in figures.delta_versions:
                return None
            return figures.delta_versions, figures.past.remade, figures.origin, figures.columns

        return self._room.begin(wanted, place)

    def marks_rows(self, stage: str, figures: StageFigures) -> bool:
        """Return whether the driver replaces rows of a stage's content and key mappings.

        See `TableReader.marks_rows`.
        """
        marked_tables = (kind for kind in (CONTENT, KEY_MAPPINGS) if kind in figures.delta_versions)
        return all(
            self._tables.reader.marks_rows(self._tables.location.table(stage, k))
            for k in marked_tables
        )

    def updates(self, version: Version, stage: Stage, since: int | None = None) -> Rows | None:
        """Return the updates of a stage in a version; None if it has none yet.

        Args:
            since: includes the updates of all versions after this one; None for the version alone.

        Returns:
            Rows in Spark, if there is a session, and small tables are not read on the driver.
        """
        first = version.number if since is None else since + 1
        begun = self._begun(version, stage, first)
        delta_version = version.pinned(stage.name, UPDATES)
        if delta_version is None:
            return begun
        table, columns = self._tables.location.table(stage.name, UPDATES), Layout.of(stage).updates
        span = first, version.number
        if self._tables.engines.session is None or (begun is None and self._small_here):
            return self._tables.reader.stored(table, delta_version, columns, span)
        stored = self._tables.reader.read(table, delta_version).where(f.col(VERSION).between(*span))
        names = cols(columns)
        return stored if begun is None else stored.select(*names).union(begun.select(*names))

    def sample_updates(self, version: Version, stage: Stage, most: int) -> pa.Table:
        """Return at most ``most`` rows of one version's updates; see `TableReader.sample_rows`.

        Empty if they are not stored: the table that a source is read from has the rows.
        """
        columns = Layout.of(stage_at(version, stage)).updates
        delta_version = version.pinned(stage.name, UPDATES)
        if delta_version is None:
            return empty(columns)
        table = self._tables.location.table(stage.name, UPDATES)
        return self._tables.reader.sample_rows(table, delta_version, columns, version.number, most)

    def changed_keys(self, span: Sequence[Version], stage: Stage) -> Selection:
        """Return the keys with updates after the first version of a span, up to the last.

        One Spark job, unless they are none or many.
        """
        changed = _changed(span, stage)
        updates = self.updates(span[-1], stage, span[0].number) if changed else None
        return self._keys_of(updates, stage, changed)

    def _keys_of(self, updates: Rows | None, stage: Stage, changed: int) -> Selection:
        """Return the keys of updates; ``changed`` is their number if no key is repeated."""
        key, engines = stage.schema.key.columns, self._tables.engines
        firsts: Rows = empty(key)
        if updates is not None:
            firsts = engines.of(updates).select(updates, key, {POSITION: 0})
        return Selection.of(firsts, key, engines, changed)

    def changes(self, span: Sequence[Version], stage: Stage, mode: FeedMode) -> Rows | None:
        """Return the rows that came and went after the first version of a span, up to the last.

        Args:
            span: consecutive versions, in all of which the stage was kept.

        Returns:
            Rows in Spark, if there is a session.
        """
        since, last, changed = span[0], span[-1], _changed(span, stage)
        if not changed:
            return None
        engines = self._tables.engines
        updates = self.updates(last, stage, since.number)
        if updates is None:
            return None
        content, before = self.content(since, stage), None
        if content is not None:
            keys = None if content.small else self._keys_of(updates, stage, changed)
            before = content.read(keys)
        layout = Layout.of(stage_at(since, stage)).fed  # whose source key may differ
        feed: Rows = engines.of(updates).feed(
            before, updates, layout, _times(span), since=since.number, mode=mode
        )
        return feed

    def history(self, version: Version, stage: Stage, key: Selection) -> dict[int, bool]:
        """Return the versions that changed one key -> whether it had rows then; one Spark job."""
        updates = self.updates(version, stage, since=0)
        if updates is None:
            return {}
        columns = (VERSION_COLUMN, CHANGE_TYPE_COLUMN)
        if is_frame(updates):
            changes = key.engines.frame(key.exactly(key.rows_of(updates)), columns).distinct()
        else:
            changes = distinct(key.exactly(updates).select([c.name for c in columns]))
        rows = key.engines.table(changes, columns).to_pylist()
        return {row[VERSION]: row[CHANGE_TYPE] != DELETE for row in rows}

    def overlay(self, version: Version, stage: Stage) -> Overlay | None:
        """Return the runs after the stage's tables were written; None if there are none."""
        figures = version.stages.get(stage.name)
        runs = None if figures is None else _Runs.of(figures)
        if runs is None:
            return None
        stage = stage_at(version, stage)
        kept = self._overlays.get(stage.name)
        if kept is not None and kept[0] == runs:
            return kept[1]
        layout = Layout.of(stage)
        runs_read = self._later_runs(stage, layout, runs, version.number)
        overlay = Overlay.of(runs_read, layout.pair, layout.content)
        self._overlays[stage.name] = runs, overlay
        return overlay

    def _later_runs(self, stage: Stage, layout: Layout, runs: _Runs, until: int) -> pa.Table:
        """Return the runs after the fold, up to a version."""
        table = self._tables.location.table(stage.name, RUNS)
        later = (runs.folded + 1, until)
        return self._tables.reader.rows(table, runs.delta_version, layout.runs, later)

    def keep(
        self, stage: str, figures: StageFigures, overlay: Overlay | None, content: pa.Table | None
    ) -> None:
        """Keep the outcome of a version for a stage.

        Args:
            overlay: the runs that came after its tables were written.
            content: the rows of its content table, if they are few and at hand.
        """
        runs = _Runs.of(figures)
        self._overlays.pop(stage, None)
        if runs is not None and overlay is not None:
            self._overlays[stage] = runs, overlay
        if content is not None and self._tables.engines.limits.is_small(
            figures.rows, figures.row_bytes
        ):
            self._contents[stage] = _place(figures), content

    def _begun(self, version: Version, stage: Stage, first: int) -> DataFrame | None:
        """Return the updates that are not stored: the rows with which a source read in place began.

        None if the source did not begin in the versions from ``first`` on.
        """
        figures = version.stages.get(stage.name)
        past = Past() if figures is None else figures.past
        if figures is None or not past.begun or past.begun < first or past.begun_at < 0:
            return None
        rows = self._in_place(figures.origin.table, past.begun_at, stage)
        position, change = f.col(ORDINAL), f.when(f.col(ORDINAL) == 0, ADD).otherwise(UPDATE)
        begun = {VERSION: f.lit(past.begun).cast("bigint"), CHANGE_TYPE: change}
        return rows.withColumns({**begun, POSITION: position})

    def _in_place(self, table: str, delta_version: int, stage: Stage) -> DataFrame:
        """Return the rows of a source that is someone else's table."""
        rows = self._tables.reader.read(self._tables.access.existing(table), delta_version)
        return numbered_by_values(rows, Layout.of(stage))

    def _stored(
        self,
        version: Version,
        stage: Stage,
        kind: str,
        columns: Sequence[Column],
        *,
        in_files: bool = False,
    ) -> Stored | None:
        figures = version.stages.get(stage.name)
        if figures is None or not figures.rows:
            return None
        table, engines = self._tables.location.table(stage.name, kind), self._tables.engines
        delta_version, kept = figures.delta_versions[kind], self._contents.get(stage.name)
        by_log = partial(self._tables.reader.read, table, delta_version)
        files, base = None, by_log
        if figures.origin.table:
            base = partial(self._in_place, figures.origin.table, delta_version, stage)
        elif not in_files and kind == CONTENT and kept and kept[0] == _place(figures):
            base = kept[1]
        elif in_files or self._from_files:
            files = self._tables.reader.files(table, delta_version)
            is_apart = kind == CONTENT and figures.base.stored  # files may lack columns
            if figures.base.added.get(kind) == 0 and not is_apart:
                base = partial(self._tables.reader.read_whole, table, delta_version)
        elif self._small_here and engines.limits.is_small(figures.rows, figures.row_bytes):
            files = self._tables.reader.files(table, delta_version)
        overlay = self.overlay(version, stage)
        return Stored(
            base,
            tuple(columns),
            overlay,
            figures.rows,
            figures.row_bytes,
            engines,
            files,
            self._tables.readings,
            by_log=None if figures.origin.table else by_log,
            partitions_of=partial(_partitions_of_keys, figures.base.stored, stage)
            if kind == CONTENT
            else None,
        )


def _partitions_of_keys(text: str, stage: Stage, keys: pa.Table) -> pa.Table | None:
    """Return the partitions in which keys of a stage can be; None if any may have them.

    Args:
        text: how files keep the stage's content, as versions record it.
    """
    return values_of_keys(keys, read_text(text, stage).partitions) if text else None


def _place(figures: StageFigures) -> _Place:
    return figures.delta_versions[CONTENT], figures.past.remade.get(CONTENT, 0)


def _times(versions: Sequence[Version]) -> pa.Table:
    """Return the publication times of versions."""
    numbers = pa.array([version.number for version in versions], pa.int64())
    moments = [version.committed_at for version in versions]
    return pa.table(
        [numbers, pa.array(moments, pa.timestamp("us", tz="UTC"))], [c.name for c in TIMES]
    )


def _changed(span: Sequence[Version], stage: Stage) -> int:
    """Return the sum of the keys changed by each version after the first."""
    figures = (version.stages.get(stage.name) for version in span[1:])
    return sum(figure.changed_keys for figure in figures if figure is not None)


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of an overlay: those at one delta version, after one version."""

    delta_version: int
    folded: int

    @staticmethod
    def of(figures: StageFigures) -> _Runs | None:
        if not figures.base.runs:
            return None
        return _Runs(figures.delta_versions[RUNS], figures.base.folded)
