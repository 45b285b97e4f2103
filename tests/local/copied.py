"""A copy of a store in this process, and its expected rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from deltaproduce import Pipeline, Store, sync
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.sync import Position


class Copy:
    """Stages as lists of rows, and the position that they are as of."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[str, ...]]] = {}
        self.position: str | None = None

    @property
    def version(self) -> int:
        """The version that it has."""
        return 0 if self.position is None else Position.from_json(self.position).version

    def take(self, store: Store, until: int | None = None) -> None:
        """Take what is lacking, as a program of users would."""
        position = None if self.position is None else Position.from_json(self.position)
        changes = sync.changes_since(store, position, until=until)
        for stage in changes.stages:
            width = len(stage.key)
            names = [column.name for column in stage.columns]
            told = [row for batch in stage.batches() for row in batch.to_pylist()]
            gone = {tuple(repr(row[name]) for name in names[:width]) for row in told}
            kept = [] if stage.is_whole else self.rows[stage.stage]
            kept = [row for row in kept if row[:width] not in gone]
            upserts = (row for row in told if row.get("_change_type") != "delete")
            new = [tuple(repr(row[name]) for name in names) for row in upserts]
            self.rows[stage.stage] = kept + new
        self.position = changes.position.to_json()


def assert_copied(copy: Copy, store: Store, pipeline: Pipeline) -> None:
    """A copy has the rows that all stages have in its version."""
    for stage in pipeline.stages:
        columns = [c for c in (*stage.schema.key, *stage.schema.value) if not c.is_hidden]
        rows: Any = store.content(stage.name, copy.version)
        rows = rows if isinstance(rows, pa.Table) else fetched(rows, columns)
        found = rows.select([c.name for c in columns]).to_pylist()
        expected = Counter(tuple(map(repr, row.values())) for row in found)
        assert Counter(copy.rows[stage.name]) == expected, stage.name
