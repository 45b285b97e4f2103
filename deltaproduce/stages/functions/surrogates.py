"""Surrogate keys: a number for each target key, which it keeps as long as it has rows (S12).

A key that had rows before the step has its number in them; keys that are new get the next numbers
in key order. The invariant: the numbers depend on the content before, the new rows and the last
number given out, and on nothing else, so a version that is made again has the same ones; and no
number is given out twice.

Numbering takes no single task: the new keys are put into ranges, and each range knows how many come
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce.engines.local.arrays import dense_ranks, factorize
from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import col, cols, order, same
from deltaproduce.types.columns import Column, RowSchema
from deltaproduce.types.ddl import identifier

_NUMBER: Final = "_number"
_RANGE: Final = "_range"
_PLACE_BITS: Final = 33
"""So many of monotonically_increasing_id count the rows of a partition, the others partitions."""


def numbered_here(
    before: pa.Table, new: pa.Table, schema: RowSchema, surrogate: str, last: int
) -> tuple[pa.Table, int]:
    """Fill the surrogate of new rows, on the driver.

    Args:
        before: content before the step, of all keys of the new rows at least.
        new: rows that a function emitted, in the same columns.
        surrogate: the value column to be filled.
        last: the last number given out.

    Returns:
        The new rows, and the last number given out now.
    """
    names = list(schema.key.names)
    keys = factorize(pa.concat_tables([before.select(names), new.select(names)]).columns)
    old, found = keys[: len(before)], keys[len(before) :]
    numbers = np.zeros(keys.max(initial=-1) + 1, np.int64)
    numbers[old] = before.column(surrogate).to_numpy()
    unknown = np.flatnonzero(numbers[found] == 0)
    fresh, first = np.unique(found[unknown], return_index=True)
    rows = new.take(pa.array(unknown[first]))
    in_key_order = fresh[np.lexsort(dense_ranks(rows, schema.key)[::-1])]
    numbers[in_key_order] = last + 1 + np.arange(len(fresh))
    place = new.schema.names.index(surrogate)
    filled = pa.array(numbers[found]).cast(new.schema.types[place])
    return new.set_column(place, surrogate, filled), last + len(fresh)


def numbered(
    before: DataFrame, new: DataFrame, schema: RowSchema, surrogate: str, last: int
) -> tuple[DataFrame, int]:
    """Fill the surrogate of new rows, as `numbered_here` does; two Spark jobs, and a join."""
    key = schema.key.columns
    old = before.groupBy(*cols(key)).agg(f.max(col(surrogate)).cast("bigint").alias(_NUMBER))
    emitted = new.select(*cols(key)).distinct()
    unknown = emitted.join(old, same(emitted, old, key), "left_anti")
    fresh, last = _in_key_order(unknown, key, last)
    numbers = old.union(fresh)
    joined = new.join(numbers, same(new, numbers, key))
    return joined.select(
        *(
            numbers[_NUMBER].cast(field.dataType).alias(surrogate)
            if field.name == surrogate
            else new[identifier(field.name)]
            for field in new.schema
        )
    ), last


def _in_key_order(keys: DataFrame, key: Sequence[Column], last: int) -> tuple[DataFrame, int]:
    """Distinct keys with the next numbers, and the last of these."""
    ranged = keys.repartitionByRange(*order(key)).sortWithinPartitions(*order(key))
    placed = ranged.withColumn(_NUMBER, f.monotonically_increasing_id())
    computed, _ = checkpoint(placed, {"keys": f.count(f.lit(1))})
    which = f.shiftright(_NUMBER, _PLACE_BITS)
    sizes: dict[int, int] = dict(computed.groupBy(which.alias(_RANGE)).count().collect())
    starts: list[Expression] = []
    for number in sorted(sizes):
        starts += [f.lit(number), f.lit(last + 1)]
        last += sizes[number]
    if not starts:
        return computed, last
    place = f.col(_NUMBER).bitwiseAND((1 << _PLACE_BITS) - 1)
    start = f.element_at(f.create_map(*starts), which)
    return computed.withColumn(_NUMBER, (start + place).cast("bigint")), last
