"""The meaning of the tables: how a key's rows before a step differ from its rows after it.

`compare` takes the rows of some keys before and after, numbers them, and says of each key whether
its ordered values differ (S8), and of each pair of source key and target key whether its rows do.
Whatever a version writes, to content, key mappings or updates, is a selection from its result. The
invariant: equal keys and equal pairs are never marked, however often they were touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.marks import (
    ADD,
    AFTER,
    DELETE,
    DIFFERENCES,
    IS_KEY,
    IS_PAIR,
    KEY_AFTER,
    KEY_BEFORE,
    KEY_DIFFERS,
    PAIR_AFTER,
    PAIR_BEFORE,
    PAIR_DIFFERS,
    PAIR_MOVED,
    ROW_DIFFERS,
    SIDE,
    UPDATE,
)
from deltaproduce.engines.spark.columns import col, cols, comparable, order, typed
from deltaproduce.engines.spark.sessions.on_demand import Window
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    ORDINAL,
    POSITION,
    Column,
)
from deltaproduce.types.ddl import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOVED: Final = "_moved"

_KEY_MARKS: Final = (_MOVED, KEY_DIFFERS, KEY_BEFORE, KEY_AFTER)
_PAIR_MARKS: Final = (ROW_DIFFERS, PAIR_DIFFERS, PAIR_BEFORE, PAIR_AFTER)
EMITTED: Final = "_emitted"


def compare(rows: DataFrame, layout: Layout) -> DataFrame:
    """Number the rows of each key on both sides of a step, and mark the differences.

    A key may have any number of rows: nothing is held in memory. `in_tasks` compares keys of fewer
    rows, faster.

    Args:
        rows: all rows of the affected keys, before and after: key columns, ``sources``,
            ``_ordinal`` (any numbers that order the rows of a pair), value columns, ``_side``.

    Returns:
        The rows, with ``_ordinal`` 0, 1, … within their pair (key, source key) and ``_position`` 0,
        1, … within their key in (source key, emission) order (S6), separately on each side, and
        with marks. ``_row_differs``: no equal row is at the same pair and ordinal on the other
        side. ``_pair_differs``: some row of the pair differs. ``_key_differs``: the key's ordered
        values are not the same on both sides. ``_pair_before`` … ``_key_after``: the pair or key
        has rows on that side; ``_pair_moved``: the pair has them on one side only. ``_is_pair`` and
        ``_is_key`` hold for exactly one row per pair and per key: its first, after the step if it
        is alive. A key's rows are in one partition, sorted by key, side and position.
    """
    key = _named(layout.key)
    together = rows.repartition(*cols(layout.key))  # one shuffle serves all windows below
    numbered = number(together, layout).drop(EMITTED)
    compared = _match(numbered, layout.key, layout.value, [POSITION], _KEY_MARKS, key)
    if layout.sources or layout.states:
        in_pair, pair = [*_named(layout.sources), ORDINAL], [*key, *_named(layout.sources)]
        stored = (*layout.value, *layout.states)
        compared = _match(compared, layout.key, stored, in_pair, _PAIR_MARKS, pair)
    else:
        pairs_are_keys = zip(_PAIR_MARKS, _KEY_MARKS, strict=True)
        compared = compared.withColumns({pair: f.col(mark) for pair, mark in pairs_are_keys})
    is_after = f.col(SIDE) == AFTER
    firsts = {
        IS_PAIR: (f.col(ORDINAL) == 0) & (is_after | ~f.col(PAIR_AFTER)),
        IS_KEY: (f.col(POSITION) == 0) & (is_after | ~f.col(KEY_AFTER)),
        PAIR_MOVED: f.col(PAIR_BEFORE) != f.col(PAIR_AFTER),
    }
    marked = compared.withColumns(firsts).drop(_MOVED)
    return marked.sortWithinPartitions(*order(layout.key), SIDE, POSITION)


def all_new(numbered: DataFrame) -> DataFrame:
    """Return the result of `compare` with nothing before: every row, pair and key is new.

    Args:
        numbered: the rows with ``_ordinal`` and ``_position``, in order.
    """
    true, false = f.lit(True), f.lit(False)
    return (
        numbered.withColumn(SIDE, f.lit(AFTER))
        .withColumns({ROW_DIFFERS: true, PAIR_DIFFERS: true, PAIR_BEFORE: false, PAIR_AFTER: true})
        .withColumns({KEY_DIFFERS: true, KEY_BEFORE: false, KEY_AFTER: true})
        .withColumns({IS_PAIR: f.col(ORDINAL) == 0, IS_KEY: f.col(POSITION) == 0, PAIR_MOVED: true})
    )


def all_different(compared: DataFrame) -> DataFrame:
    """Return the result of `compare` where no row before can equal one after: all differ."""
    return compared.withColumns(dict.fromkeys(DIFFERENCES, f.lit(True)))


def number(rows: DataFrame, layout: Layout, apart: Sequence[str] = ()) -> DataFrame:
    """Add ``_ordinal`` within each pair and ``_position`` within each key, from 0, on each side.

    The rows' previous ``_ordinal`` becomes ``_emitted``.

    Args:
        apart: columns that the rows are partitioned by, equal in all rows of a key.
    """
    key = [*apart, *_named(layout.key)]
    sides = [*key, SIDE] if SIDE in rows.columns else key
    emitted = rows.withColumnRenamed(ORDINAL, EMITTED)
    in_key = Window.partitionBy(*sides).orderBy(*order(layout.sources), EMITTED)
    in_pair = Window.partitionBy(*sides, *_named(layout.sources)).orderBy(EMITTED)
    numbers = {
        name: f.row_number().over(window) - 1
        for name, window in ((POSITION, in_key), (ORDINAL, in_pair))
    }
    return emitted.withColumns({name: n.cast("bigint") for name, n in numbers.items()})


def numbered_in_order(rows: DataFrame, layout: Layout, apart: Sequence[str] = ()) -> DataFrame:
    """Return content columns and ``_position``, numbered and sorted within the partitions.

    Args:
        apart: as for `number`; also equal in all rows of a partition.
    """
    sorted_rows = number(rows, layout, apart).sortWithinPartitions(
        *apart,
        *order(layout.key),
        *order(layout.sources),
        EMITTED,  # the order of the windows, so that Spark sorts once
    )
    return sorted_rows.select(*cols(layout.content), POSITION)


def in_order(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the result of `numbered_in_order` for rows without sources that are numbered."""
    numbered = rows.withColumn(POSITION, f.col(ORDINAL))
    sorted_rows = numbered.sortWithinPartitions(*order(layout.key), ORDINAL)
    return sorted_rows.select(*cols(layout.content), POSITION)


def updates(compared: DataFrame, layout: Layout) -> DataFrame:
    """Return the updates (S7), sorted like ``compared``: change type, key, position, values."""
    alive = f.col(SIDE) == AFTER
    gone = ~f.col(KEY_AFTER) & (f.col(POSITION) == 0)
    change_type = (
        f.when(~alive, DELETE)
        .when(~f.col(KEY_BEFORE) & (f.col(POSITION) == 0), ADD)
        .otherwise(UPDATE)
    )
    return compared.where(f.col(KEY_DIFFERS) & (alive | gone)).select(
        change_type.alias(CHANGE_TYPE),
        *cols(layout.key),
        POSITION,
        *(f.when(alive, col(c.name)).alias(c.name) for c in layout.value),
    )


def numbered_by_values(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the content of an unordered source: ``_ordinal`` numbers a key's rows by value."""
    values = [comparable(col(c.name), c.data_type) for c in layout.value]
    in_key = Window.partitionBy(*cols(layout.key)).orderBy(*values)
    place = (f.row_number().over(in_key) - 1).cast("bigint")
    numbered = rows.select(*cols(layout.key), place.alias(ORDINAL), *cols(layout.value))
    return numbered.select(*(typed(col(c.name), c) for c in layout.content))


def unmatched(one: DataFrame, other: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the rows with different counts in two frames, maps as arrays; once each."""
    names = _named(columns)
    counted = [
        rows.select(
            *(comparable(col(c.name), c.data_type).alias(c.name) for c in columns),
            f.lit(count).alias(SIDE),
        )
        for rows, count in ((one, 1), (other, -1))
    ]
    surplus = counted[0].union(counted[1]).groupBy(*names).agg(f.sum(SIDE).alias(SIDE))
    return surplus.where(f.col(SIDE) != 0).select(*names)


def _named(columns: Iterable[Column]) -> list[str]:
    return [identifier(column.name) for column in columns]


def _match(
    rows: DataFrame,
    key: Sequence[Column],
    values: Sequence[Column],
    place: Sequence[str],
    marks: tuple[str, str, str, str],
    group: Sequence[str],
) -> DataFrame:
    """Mark rows without an equal row at the same ``place`` of their key on the other side.

    Args:
        values: the columns in which rows are equal.
        place: columns that distinguish the rows of a key on one side.
        marks: the columns to add: the row differs; a row of its group does; the group has rows
            before; and after.
        group: the key columns, and perhaps some of ``place``.
    """
    differs, group_differs, before, after = marks
    compared = (comparable(col(c.name), c.data_type).alias(c.name) for c in values)
    what = f.struct(*place, *compared)
    sides = Window.partitionBy(*_named(key)).orderBy(*place, SIDE)
    is_after = f.col(SIDE) == AFTER
    twin = f.when(is_after, f.lag(what).over(sides)).otherwise(f.lead(what).over(sides))
    whole = Window.partitionBy(*group)
    return rows.withColumn(differs, ~twin.eqNullSafe(what)).withColumns(
        {
            group_differs: f.max(differs).over(whole),
            before: f.max(~is_after).over(whole),
            after: f.max(is_after).over(whole),
        }
    )
