"""Feeds: the rows that came and went between versions, in the words of Delta's change data feed.

The updates of a stage name keys, with all their rows; a feed names rows. It is the difference of a
key's rows before and after, as multisets: equal rows cancel each other, whatever their order and
the source keys that they come from. What is left on both sides is paired, in order, as
``update_preimage`` and ``update_postimage``; what is left over on one side is ``delete`` or
``insert``. The invariant: the rows before, without those that went and with those that came, are
the rows after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, TimestampType

from deltaproduce.engines.marks import AFTER, BEFORE, DELETE, SIDE
from deltaproduce.engines.spark.columns import col, cols, comparable, order
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    CHANGE_TYPE_COLUMN,
    ORDINAL,
    POSITION,
    VERSION,
    Column,
)

FeedMode = Literal["net", "complete"]
"""What happened in all to a key between two versions, or what each version between did to it."""

COMMIT_VERSION: Final = Column("_commit_version", LongType())
COMMIT_TIMESTAMP: Final = Column("_commit_timestamp", TimestampType())

_IS_ALIVE: Final = "_is_alive"
_LATER: Final = "_later"
_NEXT: Final = "_next"
_LAST: Final = "_last"
_MOVE: Final = "_move"
_VALUES: Final = "_values"
_NUMBER: Final = "_number"
_TWINS: Final = "_twins"
_PARTNERS: Final = "_partners"


def feed_columns(layout: Layout) -> tuple[Column, ...]:
    """The columns of a feed: those of Delta's change data feed."""
    return (*layout.key, *layout.value, CHANGE_TYPE_COLUMN, COMMIT_VERSION, COMMIT_TIMESTAMP)


def feed(
    before: DataFrame | None,
    updates: DataFrame,
    layout: Layout,
    since: int,
    mode: FeedMode,
) -> DataFrame:
    """The rows that came and went after version ``since``.

    Args:
        before: rows of the content at that version: all those of the keys that have updates, and
            perhaps some of others; None if there are none.
        updates: the updates of all versions after it, up to the one that is asked for.

    Returns:
        `feed_columns` without the time: of each key, for ``net``, one difference, under the last
        version that changed it; for ``complete`` one for each of those versions.
    """
    states = _states(before, updates, layout, since)
    together = states.repartition(*cols(layout.key))  # one shuffle serves all windows below
    moves = _net if mode == "net" else _complete
    return _differences(moves(together, layout, since), layout)


def _states(
    before: DataFrame | None,
    updates: DataFrame,
    layout: Layout,
    since: int,
) -> DataFrame:
    """The rows of each key as of ``since`` and as of each version that changed it.

    Of a key that is gone there is one row, which is not alive.
    """
    alive = (f.col(CHANGE_TYPE) != DELETE).alias(_IS_ALIVE)
    nowhere = [f.lit(None).cast(c.data_type).alias(c.name) for c in layout.sources]
    place, values = f.col(POSITION).alias(ORDINAL), cols(layout.value)
    states = updates.select(VERSION, alive, *cols(layout.key), *nowhere, place, *values)
    if before is None:
        return states
    known = [f.lit(since).cast("bigint").alias(VERSION), f.lit(True).alias(_IS_ALIVE)]
    return before.select(
        *known, *cols(layout.key), *cols(layout.sources), f.col(ORDINAL), *values
    ).union(states)


def _net(states: DataFrame, layout: Layout, since: int) -> DataFrame:
    """Each key's rows as of ``since`` and as of the last version that changed it, as two sides."""
    last = f.max(VERSION).over(Window.partitionBy(*cols(layout.key)))
    is_first, is_last = f.col(VERSION) == since, f.col(VERSION) == f.col(_LAST)
    return (
        states.withColumn(_LAST, last)
        .where(f.col(_IS_ALIVE) & (f.col(_LAST) > since) & (is_first | is_last))
        .withColumn(SIDE, f.when(is_first, BEFORE).otherwise(AFTER))
        .withColumnRenamed(_LAST, COMMIT_VERSION.name)
    )


def _complete(states: DataFrame, layout: Layout, since: int) -> DataFrame:
    """Each row as what its version made, and as what the next version of its key found."""
    newest_first = Window.partitionBy(*cols(layout.key)).orderBy(f.col(VERSION).desc())
    later = f.lag(VERSION).over(newest_first)
    next_version = f.last(_LATER, ignorenulls=True).over(newest_first)
    made = f.when(f.col(VERSION) > since, _move(AFTER, f.col(VERSION)))
    found = f.when(f.col(_NEXT).isNotNull(), _move(BEFORE, f.col(_NEXT)))
    return (
        states.withColumn(_LATER, f.when(later != f.col(VERSION), later))
        .withColumn(_NEXT, next_version)
        .where(f.col(_IS_ALIVE))
        .withColumn(_MOVE, f.explode(f.array_compact(f.array(made, found))))
        .select("*", f"{_MOVE}.*")
    )


def _move(side: int, version: Expression) -> Expression:
    return f.struct(f.lit(side).alias(SIDE), version.alias(COMMIT_VERSION.name))


def _differences(moves: DataFrame, layout: Layout) -> DataFrame:
    """What is left of each key's rows on both sides when equal ones have cancelled each other."""
    step = [*cols(layout.key), f.col(COMMIT_VERSION.name)]
    placed = [*order(layout.sources), f.col(ORDINAL)]
    values = f.struct(*(comparable(col(c.name), c.data_type).alias(c.name) for c in layout.value))
    number = f.row_number().over(Window.partitionBy(*step, SIDE, _VALUES).orderBy(*placed))
    left = (
        moves.withColumn(_VALUES, values)
        .withColumns({_NUMBER: number, _TWINS: _on_the_other_side([*step, f.col(_VALUES)])})
        .where(f.col(_NUMBER) > f.col(_TWINS))
    )
    number = f.row_number().over(Window.partitionBy(*step, SIDE).orderBy(*placed))
    paired = f.col(_NUMBER) <= f.col(_PARTNERS)
    change_type = f.when(
        f.col(SIDE) == BEFORE, f.when(paired, "update_preimage").otherwise("delete")
    ).otherwise(f.when(paired, "update_postimage").otherwise("insert"))
    return left.withColumns({_NUMBER: number, _PARTNERS: _on_the_other_side(step)}).select(
        *cols(layout.key),
        *cols(layout.value),
        change_type.alias(CHANGE_TYPE),
        f.col(COMMIT_VERSION.name),
    )


def _on_the_other_side(group: Sequence[Expression]) -> Expression:
    """How many rows of a row's group are on the side that it is not on."""
    whole = Window.partitionBy(*group)
    before, after = (f.count_if(f.col(SIDE) == side).over(whole) for side in (BEFORE, AFTER))
    return f.when(f.col(SIDE) == BEFORE, after).otherwise(before)
