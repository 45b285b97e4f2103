"""Layouts: the tables that a stage has, and the columns of each.

Invariant: the columns of a stage's tables depend on its definition alone, so whoever writes a table
and whoever reads it ask here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltaproduce.model.graph import Stage
from deltaproduce.types.columns import (
    CHANGE_TYPE_COLUMN,
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
