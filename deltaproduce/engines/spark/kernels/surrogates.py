"""Surrogate keys in Spark: a number for each target key, kept as long as it has rows (S12).

A key that had rows before the step has its number in them; new keys get the next numbers in key
order. The invariant: the numbers depend only on the content before, the new rows and the last
number given out, so a version that is recomputed has the same numbers; and no number is given out
twice.

Numbering does not run in a single task: the new keys are split into ranges, and each range knows
how many keys come before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.spark.checkpoints import checkpoint
from deltaproduce.engines.spark.columns import col, cols, of, order, same
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_NUMBER: Final = "_number"
_RANGE: Final = "_range"
_PLACE_BITS: Final = 33
"""The low bits of monotonically_increasing_id, which count a partition's rows."""


def numbered(
    before: DataFrame, new: DataFrame, layout: Layout, surrogate: str, last: int
) -> tuple[DataFrame, int]:
    """Fill the surrogate of new rows; see `Engine.give_numbers`."""
    key = layout.key
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
            else of(new, field.name)
            for field in new.schema
        )
    ), last


def _in_key_order(keys: DataFrame, key: Sequence[Column], last: int) -> tuple[DataFrame, int]:
    """Return distinct keys with the next numbers, and the last of these."""
    ranged = keys.repartitionByRange(*order(key)).sortWithinPartitions(*order(key))
    numbered = ranged.withColumn(_NUMBER, f.monotonically_increasing_id())
    computed, _ = checkpoint(numbered, {"keys": f.count(f.lit(1))})
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
