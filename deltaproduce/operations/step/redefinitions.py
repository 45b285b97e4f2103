"""Redefinitions: a stage whose tables were made with other columns than it is defined with now.

Its rows before are put into the columns that it has now, as far as they have a counterpart, so that
the step that makes the tables anew says truly what changes (S7, S8, S15). The invariant: a key that
is there before and after is an update, never an addition, as long as the key columns are the same;
it is changed if any value column is another one, whatever the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import DataType

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import (
    Layout,
)
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import ORDINAL, POSITION, Column


@dataclass(frozen=True, slots=True)
class Redefinition:
    """How a stage is defined, and how it was when its tables were made."""

    old: Stage
    new: Stage

    @staticmethod
    def of(stage: Stage, head: Version) -> Redefinition | None:
        """How a stage is defined anew; None if its tables in a version have its columns."""
        old = stage_at(head, stage)
        return None if old is stage else Redefinition(old, stage)

    @property
    def same_key(self) -> bool:
        """Whether a key before and a key after can be the same."""
        return _types(self.old.schema.key.columns) == _types(self.new.schema.key.columns)

    @property
    def same_values(self) -> bool:
        """Whether values before and after can be equal."""
        return _types(self.old.schema.value.columns) == _types(self.new.schema.value.columns)

    def conformed(self, rows: Rows, engines: Engines) -> Rows:
        """The content before in the columns of the content now; the keys must be the same.

        Values that cannot be equal to any now are null, and so are source keys of other types; then
        ``_ordinal`` keeps the order that the key's rows had.
        """
        engine, now, then = engines.of(rows), Layout.of(self.new), Layout.of(self.old)
        given = {c.name: c.name for c in self.new.schema.key}
        if [c.data_type for c in now.sources] == [c.data_type for c in then.sources]:
            given |= {
                new.name: old.name for new, old in zip(now.sources, then.sources, strict=True)
            }
            given[ORDINAL] = ORDINAL
        else:
            rows = engine.placed(rows, then)
            given[ORDINAL] = POSITION
        if self.same_values:
            given |= {c.name: c.name for c in self.new.schema.value}
        found: Rows = engine.filled(rows, now.content, [given.get(c.name) for c in now.content])
        return found


def _types(columns: Sequence[Column]) -> list[tuple[str, DataType]]:
    return [(column.name, column.data_type) for column in columns]
