"""The feed of a stage (`engines.change_feed`) for rows in Spark: windows over each key's states.

The invariant is the feed's own; `local.kernels.feeds` returns the same rows for the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.change_feed import ALONE, COMMIT_VERSION, PAIRED, FeedMode
from deltaproduce.engines.marks import AFTER, BEFORE, DELETE, SIDE
from deltaproduce.engines.spark.columns import col, cols, comparable, order
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import Window
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    ORDINAL,
    POSITION,
    VERSION,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_IS_ALIVE: Final = "_is_alive"
_LATER: Final = "_later"
_NEXT: Final = "_next"
_LAST: Final = "_last"
_MOVE: Final = "_move"
_VALUES: Final = "_values"
_NUMBER: Final = "_number"
_TWINS: Final = "_twins"
_PARTNERS: Final = "_partners"


def feed(
    before: DataFrame | None,
    updates: DataFrame,
    layout: Layout,
    since: int,
    mode: FeedMode,
) -> DataFrame:
    """Return the rows added and removed: see `Engine.feed`; without the time."""
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
    """Return the rows of each key at ``since`` and at each version that changed it.

    A deleted key has one row, which is not alive.
    """
    alive = (f.col(CHANGE_TYPE) != DELETE).alias(_IS_ALIVE)
    nowhere = [f.lit(None).cast(in_spark(c.data_type)).alias(c.name) for c in layout.sources]
    place, values = f.col(POSITION).alias(ORDINAL), cols(layout.value)
    states = updates.select(VERSION, alive, *cols(layout.key), *nowhere, place, *values)
    if before is None:
        return states
    known = [f.lit(since).cast("bigint").alias(VERSION), f.lit(True).alias(_IS_ALIVE)]
    return before.select(
        *known, *cols(layout.key), *cols(layout.sources), f.col(ORDINAL), *values
    ).union(states)


def _net(states: DataFrame, layout: Layout, since: int) -> DataFrame:
    """Return each key's rows at ``since`` and at the last version that changed it, as two sides."""
    last = f.max(VERSION).over(Window.partitionBy(*cols(layout.key)))
    is_first, is_last = f.col(VERSION) == since, f.col(VERSION) == f.col(_LAST)
    return (
        states.withColumn(_LAST, last)
        .where(f.col(_IS_ALIVE) & (f.col(_LAST) > since) & (is_first | is_last))
        .withColumn(SIDE, f.when(is_first, BEFORE).otherwise(AFTER))
        .withColumnRenamed(_LAST, COMMIT_VERSION.name)
    )


def _complete(states: DataFrame, layout: Layout, since: int) -> DataFrame:
    """Return each row twice: as its version's result, and as input of its key's next version."""
    newest_first = Window.partitionBy(*cols(layout.key)).orderBy(f.col(VERSION).desc())
    later = f.lag(VERSION).over(newest_first)
    next_version = f.last(_LATER, ignorenulls=True).over(newest_first)
    added = f.when(f.col(VERSION) > since, _move(AFTER, f.col(VERSION)))
    removed = f.when(f.col(_NEXT).isNotNull(), _move(BEFORE, f.col(_NEXT)))
    return (
        states.withColumn(_LATER, f.when(later != f.col(VERSION), later))
        .withColumn(_NEXT, next_version)
        .where(f.col(_IS_ALIVE))
        .withColumn(_MOVE, f.explode(f.array_compact(f.array(added, removed))))
        .select("*", f"{_MOVE}.*")
    )


def _move(side: int, version: Expression) -> Expression:
    return f.struct(f.lit(side).alias(SIDE), version.alias(COMMIT_VERSION.name))


def _differences(moves: DataFrame, layout: Layout) -> DataFrame:
    """Return each key's remaining rows on both sides after equal rows cancel out."""
    step = [*cols(layout.key), f.col(COMMIT_VERSION.name)]
    order_columns = [*order(layout.sources), f.col(ORDINAL)]
    values = f.struct(*(comparable(col(c.name), c.data_type).alias(c.name) for c in layout.value))
    number = f.row_number().over(Window.partitionBy(*step, SIDE, _VALUES).orderBy(*order_columns))
    left = (
        moves.withColumn(_VALUES, values)
        .withColumns({_NUMBER: number, _TWINS: _on_the_other_side([*step, f.col(_VALUES)])})
        .where(f.col(_NUMBER) > f.col(_TWINS))
    )
    number = f.row_number().over(Window.partitionBy(*step, SIDE).orderBy(*order_columns))
    paired = f.col(_NUMBER) <= f.col(_PARTNERS)
    before, after = (
        f.when(paired, PAIRED[side]).otherwise(ALONE[side]) for side in (BEFORE, AFTER)
    )
    change_type = f.when(f.col(SIDE) == BEFORE, before).otherwise(after)
    return left.withColumns({_NUMBER: number, _PARTNERS: _on_the_other_side(step)}).select(
        *cols(layout.key),
        *cols(layout.value),
        change_type.alias(CHANGE_TYPE),
        f.col(COMMIT_VERSION.name),
    )


def _on_the_other_side(group: Sequence[Expression]) -> Expression:
    """Return the number of rows of a row's group on the other side."""
    whole = Window.partitionBy(*group)
    before, after = (f.count_if(f.col(SIDE) == side).over(whole) for side in (BEFORE, AFTER))
    return f.when(f.col(SIDE) == BEFORE, after).otherwise(before)
