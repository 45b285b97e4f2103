"""The number of distinct values, by HyperLogLog.

A sketch is a function of the set of its values: equal sets have equal bytes. For this, its coupons,
the values of small sketches, are sorted; and a large sketch is marked as out of order, as the
library marks a union of large ones. The library estimates such a sketch by its registers alone;
others by the order in which their values came.

Source of the algorithm and of its errors: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the
analysis of a near-optimal cardinality estimation algorithm", 2007; of the byte layout:
https://datasketches.apache.org/docs/HLL/HllPreamble.html.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import hll_sketch, hll_union, tgt_hll_type
from typing_extensions import override

from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.stages.sql.states.functions.encodings import encoded_type
from deltaproduce.stages.sql.states.functions.plans import Plan, Planned
from deltaproduce.stages.sql.states.functions.sketches.sketch import (
    Items,
    Sketch,
    whole_number_in_spark,
    whole_numbers,
)
from deltaproduce.types.catalogue import atom
from deltaproduce.types.data_types import BinaryType, DataType, DecimalType, LongType, StringType

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

_TYPE: Final = tgt_hll_type.HLL_8
"""The type that Spark uses."""
_MARK: Final = "="
"""Prefix of each text: the library skips empty ones."""
_FLAGS, _MODE, _HISTORY = 5, 7, slice(8, 16)
_OUT_OF_ORDER: Final = 16
_MODE_BITS: Final = 3
_COUPONS: Final = {0: 8, 1: 12}
"""The offset of the coupons in a small sketch, by its mode."""


@dataclass(frozen=True, slots=True)
class DistinctSketch(Sketch):
    """A HyperLogLog sketch.

    Attributes:
        lg_k: the binary logarithm of its number of registers, one byte each.
    """

    lg_k: int

    @override
    def items(self, values: pa.Array) -> Items:
        """Whole numbers, or texts with a prefix."""
        match self.of:
            case BinaryType():
                texts = pa.array([value.hex().upper() for value in values.to_pylist()], pa.string())
            case StringType():
                texts = values
            case _ if isinstance(encoded_type(self.of), DecimalType):
                texts = values.cast(pa.string())
            case _:
                numbers: list[int | str] = whole_numbers(values, self.of).to_pylist()
                return numbers
        marked: list[int | str] = pc.binary_join_element_wise(_MARK, texts, "").to_pylist()
        return marked

    @override
    def item_in_spark(self, value: Expression) -> Expression | None:
        match self.of:
            case BinaryType():
                return f.concat(f.lit(_MARK), f.hex(value))
            case StringType():
                return f.concat(f.lit(_MARK), value)
        return whole_number_in_spark(value, self.of)

    @override
    def sketched(self, items: Items) -> bytes:
        sketch = hll_sketch(self.lg_k, _TYPE)
        for item in items:
            sketch.update(item)
        return _canonical(sketch)

    @override
    def sketched_in_spark(self, item: Expression) -> Expression:
        return f.hll_sketch_agg(item, self.lg_k)

    @override
    def merge(self, states: Sequence[bytes]) -> bytes:
        union = hll_union(self.lg_k)
        for state in states:
            union.update(hll_sketch.deserialize(state))
        return _canonical(union.get_result(_TYPE))

    @override
    def merge_in_spark(self, state: Expression) -> Expression:
        return f.hll_union_agg(state)


def approx_count_distinct(lg_k: int) -> Plan:
    """Plan an estimate of the number of distinct values.

    Args:
        lg_k: see `DistinctSketch`.
    """

    def plan(argument: int, data_type: DataType) -> Planned | None:
        if atom(data_type) is None:
            return None
        return Planned(LongType(), (DistinctSketch(argument, data_type, lg_k),), _estimates)

    return plan


def _estimates(states: Sequence[pa.Array]) -> pa.Array:
    sketches = map(hll_sketch.deserialize, states[0].to_pylist())
    estimates = (math.floor(sketch.get_estimate() + 0.5) for sketch in sketches)
    return pa.array(estimates, pa.int64(), size=len(states[0]))


def _canonical(sketch: hll_sketch) -> bytes:
    """Serialize a sketch to bytes that depend on its set of values alone."""
    data = np.frombuffer(sketch.serialize_compact(), np.uint8).copy()
    begin = _COUPONS.get(int(data[_MODE]) & _MODE_BITS)
    if begin is None:
        data[_FLAGS] |= _OUT_OF_ORDER
        data[_HISTORY] = 0
    else:
        data[begin:].view("<u4").sort()
    return data.tobytes()
