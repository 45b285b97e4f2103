"""The change feed: the rows that came and went between versions, in the words of Delta's.

The updates of a stage name keys, with all their rows; a feed names rows. It is the difference of a
key's rows before and after, as multisets: equal rows cancel each other, whatever their order and
the source keys that they come from. What is left on both sides is paired, in order, as
``update_preimage`` and ``update_postimage``; what is left over on one side is ``delete`` or
``insert``. The invariant: the rows before, without those that went and with those that came, are
the rows after.

Both engines' feeds (`local.kernels.feeds`, `spark.kernels.feeds`) hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from pyspark.sql.types import LongType, TimestampType

from deltaproduce.engines.marks import AFTER, BEFORE
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import CHANGE_TYPE_COLUMN, Column

FeedMode = Literal["net", "complete"]
"""What happened in all to a key between two versions, or what each version between did to it."""

COMMIT_VERSION: Final = Column("_commit_version", LongType())
COMMIT_TIMESTAMP: Final = Column("_commit_timestamp", TimestampType())

TIMES: Final = (COMMIT_VERSION, COMMIT_TIMESTAMP)
"""The columns of a table that says when versions were published."""

PAIRED: Final[Mapping[int, str]] = MappingProxyType(
    {BEFORE: "update_preimage", AFTER: "update_postimage"}
)
"""What a row is called, by the side that it is on, if there is one in its place on the other."""

ALONE: Final[Mapping[int, str]] = MappingProxyType({BEFORE: "delete", AFTER: "insert"})
"""What a row is called otherwise."""


def feed_columns(layout: Layout) -> tuple[Column, ...]:
    """The columns of a feed: those of Delta's change data feed."""
    return (*layout.key, *layout.value, CHANGE_TYPE_COLUMN, *TIMES)
