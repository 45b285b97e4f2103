"""Lineages: the keys that a key was made from, and the keys made from it.

The key mappings of a stage say which keys of its feeders made which of its keys, so a lineage leads
from stage to stage. The invariant: every key on the way exists in the version of the lineage, and
is reached through pairs that are mapped in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.kernels.ranges import rows_within
from deltaproduce.errors import NotFoundError
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import (
    KEY_MAPPINGS,
    RUNS,
    Layout,
    sources_of,
)
from deltaproduce.model.window_moves import place_of
from deltaproduce.model.windows import planned
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader
from deltaproduce.shown.table import UNKNOWN, Cell, Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.stages.productions import derived_kind
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import NO_KEY, Column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.python_values import python_tuples


@dataclass(frozen=True, slots=True)
class Lineage(Tabular):
    """Where a key of a stage comes from, and what comes from it, in one version.

    Attributes:
        stage: the stage that has the key.
        key: the key, as you passed it.
        version: the version's number.
        upstream: every stage upstream, the nearest first -> the keys in it that the key was made
            from, each once, in the stage's key columns.
        downstream: every stage downstream, likewise -> the keys made from it. They may also have
            rows from other keys. Both are DataFrames, or pyarrow Tables without a session.
    """

    stage: str
    key: object
    version: int
    upstream: Mapping[str, Rows]
    downstream: Mapping[str, Rows]

    def __repr__(self) -> str:
        counts = {"upstream": len(self.upstream), "downstream": len(self.downstream)}
        return one_line(self, self.stage, self.key, version=self.version, **counts)

    def as_tables(self) -> tuple[Table, ...]:
        """The stages on the way, with the first keys where they are at hand: not in Spark."""
        title = f"lineage of {self.stage} {shown(self.key)} in version {self.version}"
        rows = [("made from", name, *_few(keys)) for name, keys in self.upstream.items()]
        rows += [("makes", name, *_few(keys)) for name, keys in self.downstream.items()]
        return (Table(title, ("way", "stage", "keys", "first keys"), tuple(rows)),)


_FEW: Final = 5


def _few(keys: Rows) -> tuple[Cell, Cell]:
    """Return the number of keys, and the first of them."""
    if not isinstance(keys, pa.Table):
        return UNKNOWN, "in Spark; use them as a DataFrame"
    rows = python_tuples(keys.slice(0, _FEW))
    first = (shown(row[0] if len(row) == 1 else row) for row in rows)
    return len(keys), ", ".join([*first, *(["…"] if len(keys) > _FEW else [])])


def lineage(store: Opened, stage: str | Stage, key: object, at: Version) -> Lineage:
    """Walk from one key to the sources and to the leaves, in a version that was just read.

    With a session it reads only runs: Spark reads the keys when they are used. See `Store.lineage`.
    """
    target = store.stage(stage)
    store.check_there(at, [each.name for each in store.graph.stages], KEY_MAPPINGS, RUNS)
    with store.noticing():
        engines = store.engines.in_zone(store.zone.recorded(at))
        start = Selection.one(key, target.schema.key, engines)
        walk = _Walk(store.graph, store.reader, at)
        ways = walk.up(target, start), walk.down(target, start)
    up, down = (
        {name: store.frame(keys.keys, keys.columns) for name, keys in way.items()} for way in ways
    )
    return Lineage(target.name, key, at.number, up, down)


@dataclass(frozen=True, slots=True)
class _Walk:
    graph: Graph
    reader: StageReader
    version: Version

    def up(self, start: Stage, keys: Selection) -> dict[str, Selection]:
        """Return the keys of each stage upstream; readers come before their feeders."""
        reached = {start.name: keys}
        for stage in reversed(self.graph.stages):
            if stage.name not in reached:
                continue
            if not stage.kind.upkeep.has_lineage:
                raise NotFoundError(
                    f"stage {stage.name!r} is a query over many keys, and which of them made a key "
                    "is not kept; read its feeders with the query's conditions"
                )
            self._check_same(stage)
            if not stage.feeders:
                continue
            stage_keys = reached[stage.name]
            if not stage.source_key:
                stage_keys = self._there(stage, stage_keys)
                for feeder in stage.merged:
                    theirs = self._feeder_keys(stage, feeder, stage_keys)
                    reached[feeder.name] = _union(reached.get(feeder.name), theirs)
                continue
            # Content has the pairs in the order of the stage's keys, key mappings in that of source
            # keys.
            pairs = self.reader.content if stage_keys.is_here else self.reader.key_mappings
            sources = _keys(pairs(self.version, stage), stage_keys, Layout.of(stage).sources)
            for feeder in stage.feeders:
                theirs = sources.renamed(feeder.schema.key.columns)
                if len(stage.feeders) > 1:  # not every feeder has the key
                    content = self.reader.content(self.version, feeder)
                    theirs = _keys(content, theirs, feeder.schema.key.columns)
                reached[feeder.name] = _union(reached.get(feeder.name), theirs)
        return {name: stage_keys for name, stage_keys in reached.items() if name != start.name}

    def down(self, start: Stage, keys: Selection) -> dict[str, Selection]:
        """Return the keys of each stage downstream; feeders come before their readers."""
        reached = {start.name: keys}
        for stage in self.graph.producers:
            feeding: Selection | None = None
            if stage.hidden is not None or reached.keys().isdisjoint(_names(stage.feeders)):
                continue
            if not stage.kind.upkeep.has_lineage:  # what it makes of a key is not known
                continue
            self._check_same(stage)
            if not stage.source_key:
                for feeder in stage.merged:
                    if feeder.name in reached:
                        stage_keys = self._makes(stage, feeder, reached[feeder.name])
                        stage_keys = self._there(stage, stage_keys)
                        reached[stage.name] = _union(reached.get(stage.name), stage_keys)
                continue
            for feeder in stage.feeders:
                if feeder.name in reached:
                    theirs = reached[feeder.name].renamed(Layout.of(stage).sources)
                    feeding = _union(feeding, theirs)
            if feeding is not None:
                pairs = self.reader.key_mappings(self.version, stage)
                key = stage.schema.key.columns
                reached[stage.name] = _keys(pairs, feeding, key)
        return {name: stage_keys for name, stage_keys in reached.items() if name != start.name}

    def _has_rows(self, stage: Stage) -> bool:
        figures = self.version.stages.get(stage.name)
        return figures is not None and figures.rows > 0

    def _there(self, stage: Stage, keys: Selection) -> Selection:
        """Return those of some keys of a stage that have rows: it may make none of a feeder's."""
        if stage.schema.key == NO_KEY:
            return keys
        return _keys(self.reader.content(self.version, stage), keys, stage.schema.key.columns)

    def _check_same(self, stage: Stage) -> None:
        """Refuse a stage that was defined otherwise, so that its keys came of others.

        Key mappings tell of which, if the columns are the same; without them, the definition does.

        Raises:
            NotFoundError: it was.
        """
        version, definition = self.version, self.version.definitions.get(stage.name)
        if not self._has_rows(stage):
            return
        then, now = stage_at(version, stage), fingerprint(stage)
        is_same = (then.schema.key, then.source_key) == (stage.schema.key, stage.source_key)
        if stage.source_key and then is stage:
            is_same = definition is None or definition.layout == now.layout
        elif stage.feeders and not stage.source_key:
            is_same = definition is None or definition == now
        if not is_same:
            raise NotFoundError(
                f"stage {stage.name!r} had another definition in version {version.number}, so it "
                "is not known which keys made its keys; ask for a version since it was redefined"
            )

    def _feeder_keys(self, stage: Stage, feeder: Stage, keys: Selection) -> Selection:
        """Return the feeder's keys that make the keys of a stage without key mappings."""
        content = self.reader.content(self.version, feeder)
        if content is None or keys.empty:
            return _none(feeder.schema.key.columns, keys.engines)
        layout = Layout(stage.schema, sources_of(feeder.schema.key))
        rows = self._in_window(stage, feeder, content.read(), keys.engines)
        pairs = derived_kind(stage).pairs(stage, feeder, rows, keys.engines)
        matching_keys = _once(keys.semi_join(pairs, layout.pair), layout.sources, keys.engines)
        return matching_keys.renamed(feeder.schema.key.columns)

    def _makes(self, stage: Stage, feeder: Stage, keys: Selection) -> Selection:
        """Return the keys that a feeder's keys make in a stage without key mappings."""
        content, key = self.reader.content(self.version, feeder), stage.schema.key.columns
        if content is None or keys.empty or not self._has_rows(stage):
            return _none(key, keys.engines)
        rows = self._in_window(stage, feeder, keys.exactly(content.read(keys)), keys.engines)
        pairs = derived_kind(stage).pairs(stage, feeder, rows, keys.engines)
        return _once(pairs, key, keys.engines)

    def _in_window(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Return the feeder's rows that a stage reads: all, or those in its window."""
        window, figures = stage.kind.upkeep.window, self.version.stages.get(stage.name)
        if window is None:
            return rows
        zone = engines.time_zone
        planned_window = planned(window, stage.feeders[0].schema.key, zone, stage=stage.name)
        place = place_of(planned_window, None if figures is None else figures.window)
        column = feeder.schema.key.columns[planned_window.position]
        return rows_within(rows, column, planned_window.partitions.values(place))


def _names(stages: Iterable[Stage]) -> set[str]:
    return {stage.name for stage in stages}


def _keys(rows: Stored | None, keys: Selection, columns: Sequence[Column]) -> Selection:
    """Return the distinct values of other columns in the rows of some keys."""
    if rows is None or keys.empty:
        return _none(columns, keys.engines)
    return _once(keys.exactly(rows.read(keys)), columns, keys.engines)


def _union(one: Selection | None, other: Selection) -> Selection:
    if one is None:
        return other
    engines = one.engines
    return _once(engines.concat(one.keys, other.keys, one.columns), one.columns, engines)


def _once(rows: Rows, columns: Sequence[Column], engines: Engines) -> Selection:
    distinct_rows: Rows = engines.of(rows).distinct(rows, columns)
    return Selection(tuple(columns), distinct_rows, engines)


def _none(columns: Sequence[Column], engines: Engines) -> Selection:
    return Selection(tuple(columns), empty(columns), engines)
