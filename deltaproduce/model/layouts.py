"""Layouts: the tables of a stage, and the columns of each.

Invariant: the columns of a stage's tables depend on its definition alone, so the writers and the
readers of a table ask here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    Columns,
    RowSchema,
)

CONTENT: Final = "content"
KEY_MAPPINGS: Final = "key_mappings"
UPDATES: Final = "updates"
RUNS: Final = "runs"
KINDS: Final = (CONTENT, KEY_MAPPINGS, UPDATES, RUNS)
"""All kinds of tables that a stage may have."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a stage's tables.

    Attributes:
        schema: the key, value and state columns.
        sources: the columns that hold the key of the stage's feeders; none in a source, and in a
            stage whose rows do not come from one source key each.
        by_ends: whether a step may read the ends of groups; see `KeyUse.group_width`.
    """

    schema: RowSchema
    sources: tuple[Column, ...] = ()
    by_ends: bool = False

    @staticmethod
    def of(stage: Stage) -> Layout:
        """Return the layout of a source or stage."""
        return Layout(
            stage.schema, sources_of(stage.source_key), stage.kind.key_use.group_width > 0
        )

    @property
    def key(self) -> tuple[Column, ...]:
        """The key columns."""
        return self.schema.key.columns

    @property
    def value(self) -> tuple[Column, ...]:
        """The value columns."""
        return self.schema.value.columns

    @property
    def states(self) -> tuple[Column, ...]:
        """The columns of the content that readers do not see."""
        return self.schema.states.columns

    @property
    def pair(self) -> tuple[Column, ...]:
        """The columns of the key mappings: source key, then key; in a source the key alone."""
        return (*self.sources, *self.key)

    @property
    def content(self) -> tuple[Column, ...]:
        """The columns of the content, in the table's order."""
        return (*self.shown, *self.states)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of the content that readers see: the stage's own, then the library's.

        Tables that were written before have the library's between the key and the values, until
        they are written whole. So every reader and writer of a table finds columns by name.
        """
        return (*self.own, *self.sources, ORDINAL_COLUMN)

    @property
    def own(self) -> tuple[Column, ...]:
        """The key and value columns, without the library's."""
        return (*self.key, *self.value)

    @property
    def updates(self) -> tuple[Column, ...]:
        """The columns of the updates, in the table's order.

        If the version of a row is a value of the stage, it is the version that last changed its
        key, so the updates and the runs have it already.
        """
        value = (column for column in self.value if column != VERSION_COLUMN)
        return (VERSION_COLUMN, CHANGE_TYPE_COLUMN, *self.key, POSITION_COLUMN, *value)

    @property
    def runs(self) -> tuple[Column, ...]:
        """The columns of the runs, in the table's order."""
        content = (column for column in self.content if column != VERSION_COLUMN)
        return (VERSION_COLUMN, IS_ALIVE_COLUMN, *content)

    @property
    def fed(self) -> Layout:
        """The layout of the rows in a feed of changes, which has the versions of changes."""
        value = Columns(tuple(column for column in self.value if column != VERSION_COLUMN))
        return replace(self, schema=replace(self.schema, value=value))

    def columns(self, kind: str) -> tuple[Column, ...]:
        """Return the columns of a table of that kind."""
        known = {CONTENT: self.content, KEY_MAPPINGS: self.pair, UPDATES: self.updates}
        return known.get(kind, self.runs)

    def order(self, kind: str) -> tuple[Column, ...]:
        """Return the columns that sort content, key mappings or the updates of one version."""
        if kind == CONTENT:
            return (*self.key, *self.sources, ORDINAL_COLUMN)
        return (*self.key, POSITION_COLUMN) if kind == UPDATES else self.pair

    def lookup(self, kind: str) -> tuple[Column, ...]:
        """Return the columns by which rows of a table are looked up, most significant first."""
        if kind == CONTENT:
            return self.key
        return self.sources if kind == KEY_MAPPINGS else (VERSION_COLUMN, *self.key)


def sources_of(source_key: Columns) -> tuple[Column, ...]:
    """Return the columns that hold a feeder's key in another stage's tables."""
    return tuple(
        Column(SOURCE_PREFIX + c.name, c.data_type, c.nullable, c.descending) for c in source_key
    )
