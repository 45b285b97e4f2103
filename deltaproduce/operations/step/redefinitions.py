"""Redefinitions: a stage whose definition has other columns than its tables.

The old rows are converted to the new columns, where these correspond, so that the step that
rebuilds the tables records the true changes (S7, S8, S15). The invariant: if the key columns are
the same, a key that exists before and after is an update, never an addition; it counts as changed
if any column differs in name, type or NOT NULL, whatever the values, as the updates begin again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    Layout,
)
from deltaproduce.operations.step.widening import faults
from deltaproduce.storage.versions import Version, columns_of, stage_at
from deltaproduce.types.columns import ORDINAL, POSITION, Column
from deltaproduce.types.data_types import DataType


@dataclass(frozen=True, slots=True)
class Redefinition:
    """A stage as it is defined, and as it was when its tables were written."""

    old: Stage
    new: Stage

    @staticmethod
    def of(stage: Stage, head: Version) -> Redefinition | None:
        """Return the redefinition of a stage; None if its tables in a version have its columns."""
        old = stage_at(head, stage)
        return None if old is stage else Redefinition(old, stage)

    @property
    def same_key(self) -> bool:
        """Whether an old and a new key can be the same."""
        return _types(self.old.schema.key.columns) == _types(self.new.schema.key.columns)

    @property
    def same_values(self) -> bool:
        """Whether old and new values can be equal."""
        return _types(self.old.schema.value.columns) == _types(self.new.schema.value.columns)

    @property
    def all_differ(self) -> bool:
        """Whether every key counts as changed: the updates begin again, in the new columns."""
        return columns_of(self.old).own != columns_of(self.new).own

    @property
    def keeps_rows(self) -> bool:
        """Whether the old rows fit the new columns: then they stay, with nulls in new columns."""
        return not faults(self.old.schema, self.new.schema)

    def conformed(self, rows: Rows, engines: Engines) -> Rows:
        """Return the old content in the columns of the new content; the keys must be the same.

        Values that do not fit the new columns are null, and so are source keys of other types; then
        ``_ordinal`` keeps the order of the rows of a key.
        """
        engine, now, then = engines.of(rows), Layout.of(self.new), Layout.of(self.old)
        given = {c.name: c.name for c in self.new.schema.key}
        if [c.data_type for c in now.sources] == [c.data_type for c in then.sources]:
            given |= {
                new.name: old.name for new, old in zip(now.sources, then.sources, strict=True)
            }
            given[ORDINAL] = ORDINAL
        else:
            rows = engine.with_positions(rows, then)
            given[ORDINAL] = POSITION
        if self.same_values or self.keeps_rows:
            own = {c.name for c in self.old.schema.value}
            given |= {c.name: c.name for c in self.new.schema.value if c.name in own}
        conformed: Rows = engine.filled(rows, now.content, [given.get(c.name) for c in now.content])
        return conformed


def _types(columns: Sequence[Column]) -> list[tuple[str, DataType]]:
    return [(column.name, column.data_type) for column in columns]
