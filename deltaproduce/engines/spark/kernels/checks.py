"""Checks in Spark: whether stored rows are valid results of versions (see `Engine`).

The updates of a version have all rows of each key that it changed (S7), so the last updates of a
key are its rows (S16). The invariant that is checked: for each key, a version has either one delete
row without values, or all its rows, numbered from 0; a key is added only if it was not there, and
deleted or updated only if it was. `local.kernels.checks` does the same for rows on the driver; a
property test on random rows compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.marks import ADD, DELETE, FAULTS, FILE, MISPLACED, PAIR_FAULTS, UPDATE
from deltaproduce.engines.spark.columns import col, cols, order, same
from deltaproduce.engines.spark.kernels.comparing import number, unmatched
from deltaproduce.engines.spark.sessions.on_demand import Window
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    ORDINAL,
    POSITION,
    POSITION_COLUMN,
    VERSION,
    Column,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_LAST: Final = "_last"
_PLACE: Final = "_place"
_ROWS: Final = "_rows"
_WAS_ALIVE: Final = "_was_alive"
_KIND: Final = "_kind"
_IS_NULL: Final = "_is_null"
_IS_CONTENT: Final = "_is_content"


def latest(updates: DataFrame, layout: Layout) -> DataFrame:
    """See `Engine.latest`."""
    last = f.max(VERSION).over(Window.partitionBy(*cols(layout.key)))
    newest = updates.withColumn(_LAST, last).where(f.col(VERSION) == f.col(_LAST))
    return newest.select(*cols(layout.updates))


def folded(updates: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows of each key after all its updates: key columns, ``_position``, values."""
    columns = (*layout.key, POSITION_COLUMN, *layout.value)
    alive = latest(updates, layout).where(f.col(CHANGE_TYPE) != DELETE)
    return alive.select(*cols(columns))


def unfolded(
    updates: DataFrame | None,
    content: DataFrame | None,
    layout: Layout,
    *,
    complete: bool,
) -> DataFrame | None:
    """Return the keys whose rows differ from their updates' result; None if there are no rows.

    Args:
        updates: the updates of consecutive versions, up to that of the content.
        complete: the updates are all that there ever were; if not, only keys with updates count.
    """
    columns = (*layout.key, POSITION_COLUMN, *layout.value)
    if content is not None:
        numbered = number(content, layout)
        content = numbered.select(*cols(columns))
    if updates is None:
        return content.select(*cols(layout.key)) if content is not None and complete else None
    if content is not None and not complete:
        changed = updates.select(*cols(layout.key)).distinct()
        content = content.join(changed, same(content, changed, layout.key), "left_semi")
    fold = folded(updates, layout)
    nothing = fold.where(f.lit(False))
    differing = unmatched(fold, nothing if content is None else content, columns)
    return differing.select(*cols(layout.key)).distinct()


def faults(updates: DataFrame, layout: Layout, head: int) -> DataFrame:
    """Return `marks.FAULTS` of the updates, as `Engine.faults` counts them; one row."""
    key = [col(c.name) for c in layout.key]
    in_step = Window.partitionBy(*key, VERSION).orderBy(POSITION)
    nulls = [col(c.name).isNull() for c in layout.value]
    is_null = reduce(lambda a, b: a & b, nulls) if nulls else f.lit(True)
    is_first = f.col(POSITION) == 0
    together = updates.repartition(*key).withColumns(
        {_PLACE: f.row_number().over(in_step) - 1, _IS_NULL: is_null}
    )
    steps = together.groupBy(*key, VERSION).agg(
        f.count_if(f.col(_PLACE) != f.col(POSITION)).alias("_misplaced"),
        f.count(f.lit(1)).alias(_ROWS),
        f.max_by(CHANGE_TYPE, f.when(is_first, 1).otherwise(0)).alias(_KIND),
        f.count_if(_is_odd(is_first)).alias("_odd"),
        f.count_if(f.col(CHANGE_TYPE) == DELETE).alias("_deletes"),
    )
    was_alive = f.lag(f.col(_KIND) != DELETE).over(Window.partitionBy(*key).orderBy(VERSION))
    known = steps.withColumn(_WAS_ALIVE, was_alive)
    out_of_step = f.col(_WAS_ALIVE) == (f.col(_KIND) == ADD)
    mixed = (f.col("_deletes") > 0) & (f.col(_ROWS) > 1)
    counts = (
        ~f.col(VERSION).between(1, head),
        f.col("_misplaced") > 0,
        (f.col("_odd") > 0) | mixed,
        out_of_step,
    )
    return known.agg(*(f.count_if(c).alias(name) for name, c in zip(FAULTS, counts, strict=True)))


def _is_odd(is_first: Expression) -> Expression:
    """Return whether a row's change type does not fit its position and values."""
    kind = f.col(CHANGE_TYPE)
    fits = (
        f.when(kind == DELETE, is_first & f.col(_IS_NULL))
        .when(kind == ADD, is_first)
        .otherwise(kind == UPDATE)
    )
    return ~f.coalesce(fits, f.lit(False))


def pair_faults(content: DataFrame, mappings: DataFrame | None, layout: Layout) -> DataFrame:
    """Return `marks.PAIR_FAULTS` of content and key mappings; see `Engine.pair_faults`.

    Returns:
        One row.
    """
    pair = layout.pair
    rows = content.select(*cols(pair), ORDINAL, f.lit(True).alias(_IS_CONTENT))
    if mappings is not None:
        nowhere = f.lit(None).cast("bigint").alias(ORDINAL)
        rows = rows.union(mappings.select(*cols(pair), nowhere, f.lit(False).alias(_IS_CONTENT)))
    in_pair = Window.partitionBy(*cols(pair), _IS_CONTENT).orderBy(ORDINAL)
    numbered = rows.repartition(*cols(pair)).withColumn(_PLACE, f.row_number().over(in_pair) - 1)
    of_content = f.col(_IS_CONTENT)
    pairs = numbered.groupBy(*cols(pair)).agg(
        f.count_if(of_content).alias("_rows"),
        f.count_if(~of_content).alias("_mapped"),
        f.count_if(of_content & (f.col(_PLACE) != f.col(ORDINAL))).alias("_misnumbered"),
    )
    counts = (
        f.coalesce(f.sum("_rows"), f.lit(0)),
        f.count_if(f.col("_misnumbered") > 0),
        f.count_if((f.col("_rows") > 0) & (f.col("_mapped") == 0)),
        f.count_if((f.col("_rows") == 0) | (f.col("_mapped") > 1)),
    )
    return pairs.agg(*(c.alias(name) for name, c in zip(PAIR_FAULTS, counts, strict=True)))


def file_ends(rows: DataFrame, by: Sequence[Column]) -> DataFrame:
    """Return each file's first and last row, one after the other.

    Args:
        rows: the rows of a delta version, as Delta reads them; none is marked as deleted.
        by: the columns that the rows of a file should be sorted by.

    Returns:
        `marks.FILE` and `marks.MISPLACED`, and the columns ``by``.
    """
    # Delta numbers the rows of a file only if some may be marked as deleted. Here none is, and a
    # task reads one part of a file after the other, from front to back.
    place = f.struct("_metadata.file_block_start", f.monotonically_increasing_id())
    file = f.col("_metadata.file_path").alias(FILE)
    numbered = rows.select(*cols(by), file, place.alias(_PLACE))
    in_file = Window.partitionBy(FILE)
    numbered_files = numbered.withColumn(
        MISPLACED,
        f.row_number().over(in_file.orderBy(*order(by), _PLACE))
        != f.row_number().over(in_file.orderBy(_PLACE)),
    )
    ends = f.struct(*cols(by))
    files = numbered_files.groupBy(FILE).agg(
        f.count_if(MISPLACED).alias(MISPLACED),
        f.explode(f.array(f.min_by(ends, _PLACE), f.max_by(ends, _PLACE))).alias("end"),
    )
    return files.select(FILE, MISPLACED, "end.*")
