"""The change feed: the rows added and removed between versions, in Delta's terms.

A stage's updates name keys, with all rows of each key; a feed names rows. The feed is the
difference between a key's rows before and after, as multisets: equal rows cancel out, whatever
their order and source keys. Rows left on both sides are paired, in order, as ``update_preimage``
and ``update_postimage``; rows left over on one side are ``delete`` or ``insert``. The invariant:
the rows before, minus the removed rows, plus the added rows, are the rows after.

The feeds of both engines (`local.kernels.feeds`, `spark.kernels.feeds`) hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from deltaproduce.engines.marks import AFTER, BEFORE
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import CHANGE_TYPE_COLUMN, Column
from deltaproduce.types.data_types import LongType, TimestampType

FeedMode = Literal["net", "complete"]
"""A key's net change between two versions, or its change in each version between them."""

COMMIT_VERSION: Final = Column("_commit_version", LongType())
COMMIT_TIMESTAMP: Final = Column("_commit_timestamp", TimestampType())

TIMES: Final = (COMMIT_VERSION, COMMIT_TIMESTAMP)
"""The columns of a table that says when versions were published."""

PAIRED: Final[Mapping[int, str]] = MappingProxyType(
    {BEFORE: "update_preimage", AFTER: "update_postimage"}
)
"""The change type of a row that is paired with one on the other side, by its own side."""

ALONE: Final[Mapping[int, str]] = MappingProxyType({BEFORE: "delete", AFTER: "insert"})
"""The change type of a row that is not paired, by its side."""


def feed_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns of a feed: those of Delta's change data feed."""
    return (*layout.key, *layout.value, CHANGE_TYPE_COLUMN, *TIMES)
