"""Layouts: the tables that a stage has, and the columns of each.

Invariant: the columns of a stage's tables depend on its definition alone, so whoever writes a table
and whoever reads it ask here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deltaproduce.model.graph import Stage
from deltaproduce.types.columns import (
    CHANGE_TYPE_COLUMN,
    IS_ALIVE_COLUMN,
    ORDINAL_COLUMN,
    POSITION_COLUMN,
    SOURCE_PREFIX,
    VERSION_COLUMN,
    Column,
    RowSchema,
)

CONTENT: Final = "content"
KEY_MAPPINGS: Final = "key_mappings"
UPDATES: Final = "updates"
RUNS: Final = "runs"
KINDS: Final = (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)
"""All kinds of tables that a stage may have."""


def sources_of(stage: Stage) -> tuple[Column, ...]:
    """The columns of a stage's tables that hold its feeder's key; a source has none."""
    return tuple(
        Column(SOURCE_PREFIX + c.name, c.data_type, c.nullable, c.descending)
        for feeder in stage.feeders[:1]
        for c in feeder.schema.key
    )


def content_columns(schema: RowSchema, sources: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a content table, in its order."""
    return (*schema.key, *sources, ORDINAL_COLUMN, *schema.value)


def updates_columns(schema: RowSchema) -> tuple[Column, ...]:
    """The columns of an updates table, in its order."""
    return (VERSION_COLUMN, CHANGE_TYPE_COLUMN, *schema.key, POSITION_COLUMN, *schema.value)


def pair_of(stage: Stage) -> tuple[Column, ...]:
    """The columns of a stage's key mappings; of a source its key."""
    return (*sources_of(stage), *stage.schema.key)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a stage's tables.

    Attributes:
        schema: the key and value columns.
        sources: the columns of the source key; a source has none.
    """

    schema: RowSchema
    sources: tuple[Column, ...] = ()

    @staticmethod
    def of(stage: Stage) -> Layout:
        """The layout of a source or stage."""
        return Layout(stage.schema, sources_of(stage))

    @property
    def key(self) -> tuple[Column, ...]:
        """The key columns."""
        return self.schema.key.columns

    @property
    def value(self) -> tuple[Column, ...]:
        """The value columns."""
        return self.schema.value.columns

    @property
    def pair(self) -> tuple[Column, ...]:
        """The columns of the key mappings: source key, then key; in a source the key alone."""
        return (*self.sources, *self.key)

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of the content, in the table's order."""
        return content_columns(self.schema, self.sources)

    @property
    def updates(self) -> tuple[Column, ...]:
        """The columns of the updates, in the table's order."""
        return updates_columns(self.schema)

    @property
    def runs(self) -> tuple[Column, ...]:
        """The columns of the runs, in the table's order."""
        return (VERSION_COLUMN, IS_ALIVE_COLUMN, *self.content)

    def columns(self, kind: str) -> tuple[Column, ...]:
        """The columns of a table of that kind."""
        known = {CONTENT: self.content, KEY_MAPPINGS: self.pair, UPDATES: self.updates}
        return known.get(kind, self.runs)

    def order(self, kind: str) -> tuple[Column, ...]:
        """What content or key mappings are sorted by."""
        if kind == CONTENT:
            return (*self.key, *self.sources, ORDINAL_COLUMN)
        return self.pair

    def lookup(self, kind: str) -> tuple[Column, ...]:
        """The columns by whose values rows of a table are looked up, the first ones first."""
        if kind == CONTENT:
            return self.key
        return self.sources if kind == KEY_MAPPINGS else (VERSION_COLUMN, *self.key)
